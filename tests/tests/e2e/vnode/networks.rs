//! The built-in networks that are not this family's own: Ethereum Classic and Mordor.

use e2e::wait::wait_for;
use e2e::{Launch, quantity};
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
