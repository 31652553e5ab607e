//! The built-in networks that are not this family's own: Ethereum Classic and Mordor.

use e2e::http;
use e2e::stratum::RawConnection;
use e2e::wait::wait_for;
use e2e::{Launch, Vnode, quantity};
use ethash::B256;
use serde_json::{Value, json};

const CLASSIC_ROOT: &str = "0xd7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544";
const CLASSIC_HASH: &str = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3";
const MORDOR_HASH: &str = "0xa68ebde7932eccb177d38d55dcc6461a019dd795a681e59b5a3e4f3a7259a3f1";

/// A network, and what a node of it reports of itself.
struct KnownNetwork {
    name: &'static str,
    network_id: &'static str,
    chain_id: u128,
    hash: &'static str,
    rules: [&'static str; 3],
}

/// Source: docs/etc.md, 1.
const NETWORKS: [KnownNetwork; 2] = [
    KnownNetwork {
        name: "classic",
        network_id: "1",
        chain_id: 61,
        hash: CLASSIC_HASH,
        rules: [
            "current from block 0 on (fork id fc64ec04)",
            "next from block 1150000 on",
            "last known from block 19250000 on (fork id be46d57c)",
        ],
    },
    KnownNetwork {
        name: "mordor",
        network_id: "7",
        chain_id: 63,
        hash: MORDOR_HASH,
        rules: [
            "current from block 0 on (fork id 175782aa)",
            "next from block 301243 on",
            "last known from block 9957000 on (fork id 3a6b00d7)",
        ],
    },
];

#[test]
fn networks_start_without_a_file() {
    for network in NETWORKS {
        let options = ["--network", network.name, "--rpc", "--rpcport", "0"];
        let node = Launch::bare(options).start();
        assert_eq!(node.rpc("net_version", json!([])), json!(network.network_id));
        assert_eq!(quantity(&node.rpc("eth_chainId", json!([]))), network.chain_id);
        let block = node.block(0);
        assert_eq!(block["hash"], json!(network.hash));
        if network.name == "classic" {
            assert_eq!(block["stateRoot"], json!(CLASSIC_ROOT));
            // One of the 8,893 accounts.
            let account = "0x3282791d6fd713f1e94f4bfd565eaa78b3a0599d";
            let balance = node.rpc("eth_getBalance", json!([account, "earliest"]));
            assert_eq!(quantity(&balance), 1_337_000_000_000_000_000_000);
        }
        // Without an option the pending block has a number on these networks.
        let pending = node.rpc("eth_getBlockByNumber", json!(["pending", false]));
        assert_eq!(quantity(&pending["number"]), 1);
        assert!(quantity(&pending["difficulty"]) > 0);
        for part in network.rules {
            wait_for("the line about the rules", || {
                node.log().contains(part).then_some(())
            });
        }
    }
}

#[test]
fn the_number_of_the_pending_block_can_be_switched_off() {
    let options = [
        "--network",
        "mordor",
        "--rpc",
        "--rpcport",
        "0",
        "--rpc.pendingnumber=false",
    ];
    let node = Launch::bare(options).start();
    let pending = node.rpc("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(pending["number"], Value::Null);
}

/// Starts a node of Mordor that gives work to others.
fn mordor_with_work(more: &[&str]) -> Vnode {
    let payee = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
    let usual = [
        "--network",
        "mordor",
        "--rpc",
        "--rpcport",
        "0",
        "--rpcapi",
        "admin,mc,net,web3",
        "--mine",
        "--minerthreads",
        "0",
        "--moacbase",
        payee,
        "--nodiscover",
        "--nat",
        "none",
        "--port",
        "0",
        "--p2p.addr",
        "127.0.0.1",
    ];
    Launch::bare(usual.iter().chain(more).copied()).start()
}

/// Coins that are paid to an address with a wrong letter are lost.
#[test]
fn a_wrong_checksum_is_refused() {
    let right = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    let wrong = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed";
    let names_both = |text: &str| assert!(text.contains(right) && text.contains(wrong), "{text}");
    let ended = Launch::dev(["--moacbase", wrong]).run();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    names_both(&ended.stderr);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("node.toml");
    std::fs::write(&file, format!("moacbase = {wrong:?}\n")).expect("writable");
    let ended = Launch::dev(["--config", file.to_str().expect("UTF-8")]).run();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    names_both(&ended.stderr);
    let node = Vnode::with_stratum(&[
        "--rpcapi",
        "mc,personal,miner",
        "--moacbase",
        &right.to_uppercase(),
    ]);
    names_both(&node.refused("personal_lockAccount", json!([wrong]), -32602));
    names_both(&node.refused("miner_setMoacbase", json!([wrong]), -32602));
    assert_eq!(node.rpc("miner_setMoacbase", json!([right])), true);
    let mut miner = RawConnection::connect(node.stratum());
    miner.call(&json!({"id": 1, "method": "mining.subscribe", "params": ["x", "EthereumStratum/1.0.0"]}));
    let login =
        |name: &str| json!({"id": 2, "method": "mining.authorize", "params": [format!("{name}.rig"), "x"]});
    assert_ne!(miner.call(&login(wrong))["result"], true);
    let said = miner.receive().expect("a message");
    names_both(said["params"][0].as_str().unwrap_or_default());
    assert_eq!(miner.call(&login(right))["result"], true);
}

/// The head of a new folder is block 0, which is years old.
#[test]
fn a_public_network_without_peers_gives_no_work() {
    let stratum = [
        "--stratum",
        "--stratumport",
        "0",
        "--stratum.status",
        "127.0.0.1:0",
    ];
    let node = mordor_with_work(&stratum);
    let refused = |node: &Vnode| {
        let reason = node.refused("eth_getWork", json!([]), -32000);
        assert!(reason.starts_with("mining not ready: no peer yet: "), "{reason}");
        assert!(reason.contains("--miner.alone"), "{reason}");
    };
    refused(&node);
    // Stratum keeps the connection, and says why there is no job.
    let mut miner = RawConnection::connect(node.stratum());
    let subscribe =
        json!({"id": 1, "method": "mining.subscribe", "params": ["test", "EthereumStratum/1.0.0"]});
    let authorize = json!({"id": 2, "method": "mining.authorize", "params": ["rig", "x"]});
    miner.call(&subscribe);
    miner.send(format!("{authorize}\n").as_bytes());
    let mut texts = std::iter::from_fn(|| miner.receive());
    let said = texts.find(|message| message["method"] == "client.show_message");
    let said = said.expect("a message");
    assert!(
        said["params"][0]
            .as_str()
            .is_some_and(|text| text.starts_with("no work: no peer yet: ")),
        "{said}"
    );
    let health = http::get(node.stratum_status(), "/health").expect("served");
    assert_eq!((health.status, health.body.trim()), (503, "no peers"));
    wait_for("the reason in the log", || {
        node.log().contains("no work for miners").then_some(())
    });

    // With a peer that has no more there is work, for both.
    let other = mordor_with_work(&[]);
    let info = other.rpc("admin_nodeInfo", json!([]));
    let enode = info["enode"].as_str().expect("a URL").split('?').next();
    assert_eq!(node.rpc("admin_addPeer", json!([enode])), true);
    for node in [&node, &other] {
        let work = node.work_after(None);
        assert_eq!(work.seed_hash, B256::ZERO);
    }
    let mut messages = std::iter::from_fn(|| miner.receive());
    assert!(
        messages.any(|message| message["method"] == "mining.notify"),
        "a job"
    );
    let alone = mordor_with_work(&["--miner.alone"]);
    assert_eq!(alone.work_after(None).seed_hash, B256::ZERO);
}

/// A network with a fork that this program does not have is not followed into it.
#[test]
fn a_node_ends_before_rules_that_it_does_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("genesis.json");
    let genesis = json!({
        "config": {"chainId": 61, "homesteadBlock": 0, "londonBlock": 1},
        "difficulty": "0x20000", "gasLimit": "0x7a1200",
    });
    std::fs::write(&file, genesis.to_string()).expect("writable");
    let data = folder.path().join("data");
    let file = file.to_str().expect("UTF-8");
    let ended = Launch::bare(["init", file]).data(&data).run();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let ended = Launch::bare(["--rpc", "--rpcport", "0"]).data(&data).run();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let reason = "block 1 follows the rules of `londonBlock`, which this program does not have";
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
}
