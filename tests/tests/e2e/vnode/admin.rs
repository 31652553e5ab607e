//! Changes while a node runs: listener, miner, peers and subnets; and what is stored.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use e2e::call::RpcCallError;
use e2e::process::EndSignal;
use e2e::wait::wait_for;
use e2e::{Caller, Launch, Vnode, data, ipc, quantity};
use serde_json::{Value, json};

/// The public key of a node, 64 bytes.
const PEER: &str = "1dd9d65c4552b5eb43d5ad55a2ee3f56c6cbc1c64a5c8d659f51fcd51bace24351232b8d7821617d2b29b54b81cdefb9b3e9c37d7fd5f63270bcc9e1a6f6a439";

/// The message of an error -32000.
fn refused(result: Result<Value, RpcCallError>) -> String {
    match result {
        Err(RpcCallError::Refused {
            code: -32000,
            message,
        }) => message,
        other => panic!("got {other:?}, expected error -32000"),
    }
}

#[test]
fn the_listener_closes_and_opens_again() {
    let node = Vnode::dev(["--rpcaddr", "127.0.0.1", "--rpcapi", "admin,net"]);
    let (socket, address) = (node.socket(), node.addresses()[0]);
    let parameters = |port: u16| json!(["127.0.0.1", port, "", "net"]);
    let again = refused(ipc::try_rpc(
        &socket,
        "admin_startRPC",
        parameters(address.port()),
    ));
    assert_eq!(again, format!("HTTP RPC listener already running on {address}"));
    // This call comes over the listener itself, which answers and then closes.
    assert_eq!(node.rpc("admin_stopRPC", json!([])), true);
    wait_for("the listener to close", || {
        TcpStream::connect(address).is_err().then_some(())
    });
    assert_eq!(ipc::rpc(&socket, "admin_stopRPC", json!([])), false);

    assert_eq!(
        ipc::rpc(&socket, "admin_startRPC", parameters(address.port())),
        true
    );
    let caller = Caller::new(address);
    assert_eq!(caller.rpc("net_version", json!([])), "100");
    caller.refused("admin_datadir", json!([]), -32601);
    let again = refused(ipc::try_rpc(&socket, "admin_startRPC", json!([])));
    assert_eq!(again, format!("HTTP RPC listener already running on {address}"));
    assert_eq!(ipc::rpc(&socket, "admin_stopRPC", json!([])), true);
    assert!(TcpStream::connect(address).is_err());
    // A port in use gives an error, and the listener stays closed.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let message = refused(ipc::try_rpc(&socket, "admin_startRPC", parameters(port)));
    assert!(message.contains("cannot listen on"), "{message}");
    assert_eq!(ipc::rpc(&socket, "admin_startRPC", parameters(0)), true);
    let ended = node.end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.took < Duration::from_secs(2), "{:?}", ended.took);
}

#[test]
fn identity_and_lists_are_stored() {
    let home = tempfile::tempdir().expect("a folder");
    let start = || {
        Launch::dev(["--rpcapi", "admin,net,mc"])
            .data(home.path())
            .start()
    };
    let node = start();
    let info = node.rpc("admin_nodeInfo", json!([]));
    let id = info["id"].as_str().expect("an id").to_owned();
    assert_eq!(id.len(), 128);
    let enode = info["enode"].as_str().expect("a URL");
    assert!(enode.starts_with(&format!("enode://{id}@")), "{enode}");
    for member in [
        "servicecfgport=50062",
        "showtopublic=false",
        "beneficialaddress=",
        "ip=",
    ] {
        assert!(enode.contains(member), "{enode}");
    }
    let protocol = &info["protocols"]["mc"];
    assert_eq!(protocol["network"], 100);
    assert_eq!(protocol["difficulty"], 512);
    assert_eq!(protocol["genesis"], node.block(0)["hash"]);
    data(&protocol["head"], 32);
    let key = home.path().join("nodekey");
    let mode = std::fs::metadata(&key)
        .expect("the node's key")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let datadir = node.rpc("admin_datadir", json!([]));
    assert_eq!(datadir, json!(home.path().to_str().expect("text")));

    let peer = format!("enode://{PEER}@10.1.2.3:30333?discport=0");
    let chain = "0x00000000000000000000000000000000000000cc";
    assert_eq!(node.rpc("admin_addPeer", json!([peer])), true);
    assert_eq!(node.rpc("admin_peers", json!([])), json!([]));
    assert_eq!(node.rpc("net_peerCount", json!([])), "0x0");
    assert_eq!(node.rpc("admin_addSubnetP2P", json!([chain, 110])), Value::Null);
    let subnets = node.rpc("admin_getSubnetP2PList", json!([]));
    assert!(node.end(EndSignal::Interrupt).status.success());

    let node = start();
    assert_eq!(node.rpc("admin_nodeInfo", json!([]))["id"], json!(id));
    assert_eq!(node.rpc("admin_getSubnetP2PList", json!([])), subnets);
    assert_eq!(subnets[0]["subnet"], chain);
    let stored = std::fs::read_to_string(home.path().join("static-nodes.json")).expect("the list");
    assert_eq!(
        serde_json::from_str::<Value>(&stored).expect("JSON"),
        json!([peer])
    );
    assert_eq!(node.rpc("admin_removePeer", json!([peer])), true);
    assert_eq!(node.rpc("admin_removeSubnetP2P", json!([chain, 110])), true);
    assert_eq!(node.rpc("admin_getSubnetP2PList", json!([])), json!([]));
}

#[test]
fn vnodeconfig_has_the_settings_for_application_chains() {
    let home = tempfile::tempdir().expect("a folder");
    let proxy = "0x71bef1a57901d4c73de7683edb830f0b9914311a";
    let settings = json!({
        "scsservice": false, "SHOWTOPUBLIC": true, "VnodeServiceCfg": "localhost:50070",
        "vnodeBeneficialAddress": proxy, "VnodeIP": "52.1.2.3",
    });
    std::fs::write(home.path().join("vnodeconfig.json"), settings.to_string()).expect("a write");
    let node = Launch::dev(["--rpcapi", "vnode,mc,admin"])
        .directory(home.path())
        .start();
    for (method, expected) in [
        ("vnode_address", json!(proxy)),
        ("vnode_scsService", json!(false)),
        ("vnode_serviceCfg", json!(":50070")),
        ("vnode_showToPublic", json!(true)),
        ("vnode_vnodeIP", json!("52.1.2.3")),
    ] {
        assert_eq!(node.rpc(method, json!([])), expected, "{method}");
    }
    let enode = node.rpc("admin_nodeInfo", json!([]))["enode"].to_string();
    let query = format!("servicecfgport=50070&showtopublic=true&beneficialaddress={proxy}&ip=52.1.2.3");
    assert!(enode.contains(&query), "{enode}");
    let accounts = node.accounts();
    let send = |via: &str| {
        let transaction = json!({"from": accounts[0], "to": accounts[1], "shardingFlag": "0x1", "via": via});
        node.refused("mc_sendTransaction", json!([transaction]), -32000)
    };
    assert!(send(proxy).contains("no service"), "{}", send(proxy));
    assert!(send(&accounts[2]).starts_with("Mismatch address between VIA"));
}

#[test]
fn mining_is_started_and_stopped() {
    let node = Vnode::dev(["--rpcapi", "mc,miner,net"]);
    assert_eq!(node.rpc("mc_mining", json!([])), false);
    assert_eq!(node.rpc("miner_setExtra", json!(["by hand"])), true);
    assert_eq!(node.rpc("miner_start", json!([1])), Value::Null);
    assert_eq!(node.rpc("mc_mining", json!([])), true);
    node.wait_for_head(2);
    assert_eq!(node.block(1)["extraData"], "0x62792068616e64");
    assert_eq!(node.rpc("miner_start", json!([])), Value::Null);
    assert_eq!(node.rpc("miner_stop", json!([])), true);
    assert_eq!(node.rpc("mc_mining", json!([])), false);
    // A solution may still be on its way.
    std::thread::sleep(Duration::from_millis(300));
    let head = node.head();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(node.head(), head, "nobody mines");
    assert_eq!(node.rpc("miner_start", json!([])), Value::Null);
    node.wait_for_head(head + 1);
}

#[test]
fn aliases_and_the_pending_number_are_options() {
    let node = Vnode::dev(["--rpc.noalias", "--rpc.pendingnumber"]);
    node.refused("eth_blockNumber", json!([]), -32601);
    node.refused("web3_clientVersion", json!([]), -32601);
    assert_eq!(node.rpc("mc_blockNumber", json!([])), "0x0");
    let pending = node.rpc("mc_getBlockByNumber", json!(["pending", false]));
    assert_eq!(quantity(&pending["number"]), 1);
    assert_eq!(pending["hash"], Value::Null);
    let plain = Vnode::dev(Vec::<String>::new());
    let pending = plain.rpc("mc_getBlockByNumber", json!(["pending", false]));
    assert_eq!(pending["number"], Value::Null);
}
