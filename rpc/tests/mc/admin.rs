//! The module `admin`: peers, subnets, the HTTP listener, the description of the node.

use primitives::{B512, keccak256};
use rpc::ListenerRequest;
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::controls::RECORD;
use crate::mc::harness::{Net, PROXY};

fn enode(mark: u8) -> String {
    format!(
        "enode://{}@10.0.0.7:30333",
        &B512::repeat_byte(mark).to_string()[2..]
    )
}

#[test]
fn the_description_of_the_node() {
    let net = Net::start();
    assert_eq!(net.ok("admin_datadir", json!([])), "/home/miner/.moac/devnet");
    net.mine();
    let id = "0d".repeat(64);
    let expected = json!({
        "id": id,
        "name": "Test/v1.2.3/linux-x86_64/rustc1.95",
        "enode": format!("enode://{id}@[::]:30333?discport=0&servicecfgport=50062"),
        "enr": "enr:-the-record-of-this-node",
        "ip": "::",
        "ports": {"discovery": 0, "listener": 30333},
        "listenAddr": "[::]:30333",
        "protocols": {"mc": {
            "network": 100,
            "difficulty": 1024,
            "genesis": net.ok("mc_getBlockByNumber", json!(["0x0", false]))["hash"],
            "head": data(net.view().head_hash()),
        }},
    });
    assert_eq!(net.ok("admin_nodeInfo", json!([])), expected);
    let peer = json!({
        "enr": "enr:-the-record-of-the-peer",
        "enode": format!("enode://{}@10.0.0.2:40000", "0e".repeat(64)),
        "id": "0e".repeat(64),
        "name": "Other/v1.0.0",
        "caps": ["mc/63"],
        "network": {
            "localAddress": "10.0.0.1:30333",
            "remoteAddress": "10.0.0.2:40000",
            "inbound": true,
            "trusted": true,
            "static": false,
        },
        "protocols": {"mc": {"version": 63, "difficulty": 131_072, "head": format!("0x{}", "0f".repeat(32))}},
        "figures": {
            "slot": 2,
            "since": 1_700_000_000,
            "messagesIn": 3,
            "messagesOut": 4,
            "bytesIn": 500,
            "bytesOut": 600,
            "roundTrip": 0.25,
            "lateAnswers": 1,
            "faults": 0,
        },
    });
    assert_eq!(net.ok("admin_peers", json!([])), json!([peer]));
}

/// The members and their forms are those of geth 1.10.26 (`p2p/server.go`, `p2p/peer.go`,
/// `eth/protocols/eth/handler.go`).
#[test]
fn the_description_in_ethereums_family() {
    let net = Net::of_ethereums_family(9);
    let info = net.ok("admin_nodeInfo", json!([]));
    let public_key = [0x0d; 64];
    let id = keccak256(public_key).to_string();
    assert_eq!(info["id"], id[2..]);
    assert!(
        info["enode"]
            .as_str()
            .is_some_and(|url| url.starts_with("enode://0d0d"))
    );
    let expected = json!({"eth": {
        "network": 100,
        "difficulty": 512,
        "genesis": net.ok("eth_getBlockByNumber", json!(["0x0", false]))["hash"],
        "config": {
            "chainId": 61,
            "homesteadBlock": 0,
            "eip150Block": 0,
            "eip150Hash": format!("0x{}", "00".repeat(32)),
            "eip155Block": 0,
            "eip158Block": 0,
            "byzantiumBlock": 0,
            "constantinopleBlock": 0,
            "petersburgBlock": 0,
            "istanbulBlock": 0,
            "muirGlacierBlock": 0,
            "berlinBlock": 9,
            "ethash": {},
        },
        "head": data(net.view().head_hash()),
    }});
    assert_eq!(info["protocols"], expected);
    let peer = &net.ok("admin_peers", json!([]))[0];
    assert_eq!(peer["id"], keccak256([0x0e; 64]).to_string()[2..]);
}

#[test]
fn static_nodes() {
    let net = Net::start();
    assert_eq!(net.ok("admin_addPeer", json!([enode(1)])), true);
    assert_eq!(net.ok("admin_removePeer", json!([enode(1)])), true);
    assert_eq!(net.ok("admin_removePeer", json!([enode(1)])), false);
    assert_eq!(net.ok("admin_removeTrustedPeer", json!([enode(1)])), false);
    assert_eq!(net.ok("admin_addTrustedPeer", json!([enode(1)])), true);
    assert_eq!(net.ok("admin_removeTrustedPeer", json!([enode(1)])), true);
    // The text of a node record is as good as an enode URL.
    for kind in ["", "Trusted"] {
        assert_eq!(net.ok(&format!("admin_add{kind}Peer"), json!([RECORD])), true);
        assert_eq!(net.ok(&format!("admin_remove{kind}Peer"), json!([RECORD])), true);
    }
    let check = |params: Value, message: &str| net.check_error("admin_addPeer", params, -32602, message);
    check(json!([]), "missing value for required argument 0");
    check(
        json!([7]),
        "invalid argument 0: got a number, expected an enode URL or the text of a node record",
    );
    check(
        json!(["http://a"]),
        "invalid argument 0: got \"http://a\", expected enode://ID@HOST:PORT",
    );
    check(
        json!([format!("{}0", enode(1))]),
        "invalid argument 0: port: got \"303330\", expected a number up to 65535",
    );
}

#[test]
fn subnets() {
    let net = Net::start();
    let address = data(PROXY);
    net.mine();
    for block in [0, 10] {
        net.check_error(
            "admin_addSubnetP2P",
            json!([address, block]),
            -32000,
            "blockNumber needs to be at least 10 blocks in the future",
        );
    }
    assert_eq!(net.ok("admin_getSubnetP2PList", json!([])), json!([]));
    assert_eq!(net.ok("admin_addSubnetP2P", json!([address, 11])), Value::Null);
    let list = |end: &str| json!([{"blockEnd": end, "blockStart": "0xb", "peers": "", "subnet": address}]);
    assert_eq!(
        net.ok("admin_getSubnetP2PList", json!([])),
        list("0xffffffffffffffff")
    );
    assert_eq!(net.ok("admin_removeSubnetP2P", json!([address, "0x64"])), true);
    assert_eq!(net.ok("admin_getSubnetP2PList", json!([])), list("0x64"));
    let unknown = json!(["0x00000000000000000000000000000000000000aa", 100]);
    assert_eq!(net.ok("admin_removeSubnetP2P", unknown), false);
    net.check_error(
        "admin_addSubnetP2P",
        json!(["0x12", 100]),
        -32602,
        "invalid argument 0: got 1 byte, expected 20 bytes",
    );
}

#[test]
fn the_listener_opens_and_closes() {
    let net = Net::start();
    assert_eq!(net.ok("admin_stopRPC", json!([])), false);
    assert_eq!(net.ok("admin_startRPC", json!([])), true);
    let open = net.listener.open.lock().clone();
    let default = ListenerRequest {
        host: "localhost".to_owned(),
        port: 8545,
        cors: "".parse().expect("no origins"),
        modules: "mc,net,chain3".parse().expect("modules"),
    };
    assert_eq!(open, Some(default));
    net.check_error(
        "admin_startRPC",
        json!(["127.0.0.1", 8600]),
        -32000,
        "HTTP RPC listener already running on localhost:8545",
    );
    assert_eq!(net.ok("admin_stopRPC", json!([])), true);
    let params = json!(["127.0.0.1", 8600, "*", "mc,txpool"]);
    assert_eq!(net.ok("admin_startRPC", params), true);
    let expected = ListenerRequest {
        host: "127.0.0.1".to_owned(),
        port: 8600,
        cors: "*".parse().expect("all origins"),
        modules: "mc,txpool".parse().expect("modules"),
    };
    assert_eq!(*net.listener.open.lock(), Some(expected));
    let check = |params: Value, message: &str| net.check_error("admin_startRPC", params, -32602, message);
    check(
        json!([null, 65536]),
        "invalid argument 1: port: got 65536, expected at most 65535",
    );
    check(json!([null, "8545"]), "invalid argument 1: missing 0x prefix");
    check(
        json!([null, null, "nowhere"]),
        "invalid argument 2: invalid CORS domain: got \"nowhere\", expected * or an origin such as http://localhost:3000",
    );
    let (code, message) = net.error("admin_startRPC", r#"[null, null, null, "mc,eth2"]"#);
    assert_eq!(code, -32602);
    assert!(
        message.starts_with("invalid argument 3: unknown API module: got \"eth2\""),
        "{message}"
    );
}

#[test]
fn the_websocket_listener_opens_and_closes() {
    let net = Net::start();
    assert_eq!(net.ok("admin_stopWS", json!([])), false);
    assert_eq!(net.ok("admin_startWS", json!([])), true);
    let open = net.ws_listener.open.lock().clone().expect("an open listener");
    assert_eq!((open.host.as_str(), open.port), ("localhost", 8546));
    assert!(net.listener.open.lock().is_none());
    assert_eq!(net.ok("admin_stopWS", json!([])), true);
    let params = json!(["127.0.0.1", 8600, "https://a.example", "mc,txpool"]);
    assert_eq!(net.ok("admin_startWS", params), true);
    let expected = ListenerRequest {
        host: "127.0.0.1".to_owned(),
        port: 8600,
        cors: "https://a.example".parse().expect("an origin"),
        modules: "mc,txpool".parse().expect("modules"),
    };
    assert_eq!(*net.ws_listener.open.lock(), Some(expected));
    net.check_error(
        "admin_startWS",
        json!([null, 65536]),
        -32602,
        "invalid argument 1: port: got 65536, expected at most 65535",
    );
}

#[test]
fn a_backup_goes_into_an_absolute_empty_folder() {
    let net = Net::start();
    assert_eq!(net.ok("admin_backupStatus", json!([])), Value::Null);
    assert_eq!(net.ok("admin_stopBackup", json!([])), false);
    net.check_error(
        "admin_backup",
        json!(["backup"]),
        -32602,
        "invalid argument 0: got \"backup\", expected an absolute path",
    );
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = home.path().join("backup");
    let done = net.ok("admin_backup", json!([folder]));
    assert_eq!((&done["state"], &done["error"]), (&json!("done"), &Value::Null));
    assert_eq!(done["rows"], done["rowsTotal"]);
    assert_eq!(net.ok("admin_backupStatus", json!([])), done);
    assert!(folder.join(store::FILE_NAME).exists());
    let again = net.ok("admin_backup", json!([folder]));
    assert_eq!(again["state"], "failed");
    let reason = again["error"].as_str().expect("a reason");
    assert!(reason.contains("got a folder that is not empty"), "{reason}");
    let stats = net.ok("admin_databaseStats", json!([]));
    let rows = stats["tables"].as_array().expect("tables").iter();
    let rows: u64 = rows.map(|table| table["rows"].as_u64().expect("a number")).sum();
    assert_eq!(rows, done["rowsTotal"]);
}
