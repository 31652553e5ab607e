//! The npm package `@ethereumjs/devp2p` as a peer of a running node, dialled by either side.

use e2e::address::free_address;
use e2e::clients::javascript;
use e2e::vnode::Vnode;
use primitives::hex;
use serde_json::{Value, json};

use crate::peers::support::{enode, genesis, hex_text, key, peer_count, start};

/// The package says this network id.
const NETWORK: &str = "1";
/// Disconnect with reason 16, and 2 for what is no RLP of a message.
const SUBPROTOCOL: u64 = 16;

fn node() -> Vnode {
    let node = start(&["--minerthreads", "1", "--networkid", NETWORK]);
    node.rpc("miner_start", json!([1]));
    node.wait_for_head(3);
    node.rpc("miner_stop", json!([]));
    node
}

fn argument(node: &Vnode, mode: &str, port: u16) -> Value {
    let hashes: Vec<_> = (0..3).map(|number| node.block(number)["hash"].clone()).collect();
    json!({
        "mode": mode,
        "key": hex_text(key(8).to_bytes()),
        "node": format!("0x{}", hex::encode(enode(node).id)),
        "port": port,
        "genesis": genesis(node).to_string(),
        "hashes": hashes,
    })
}

/// Waits for the peer, sends it a transaction and mines until the script has ended.
fn go_on(node: &Vnode, script: std::thread::JoinHandle<Value>) -> Value {
    e2e::wait_for("the peer", || (peer_count(node) == 1).then_some(()));
    let accounts = node.accounts();
    node.send(json!({"from": accounts[0], "to": accounts[1], "value": "0x7"}));
    node.rpc("miner_start", json!([1]));
    let result = script.join().expect("the script ends well");
    node.rpc("miner_stop", json!([]));
    result
}

#[test]
fn the_package_dials_a_node() {
    let Some(clients) = javascript() else { return };
    let node = node();
    let argument = argument(&node, "dial", enode(&node).port);
    let script = std::thread::spawn(move || clients.run("devp2p-node.mjs", &argument));
    let result = go_on(&node, script);
    assert_eq!(
        (&result["network"], &result["reason"]),
        (&json!(1), &json!(SUBPROTOCOL))
    );
}

#[test]
fn a_node_dials_the_package() {
    let Some(clients) = javascript() else { return };
    let node = node();
    let port = free_address().port();
    let argument = argument(&node, "listen", port);
    let script = std::thread::spawn(move || clients.run("devp2p-node.mjs", &argument));
    let url = format!("enode://{}@127.0.0.1:{port}", hex::encode(key(8).public_key()));
    // The package may listen later than the first dial. Then the second one comes after half a
    // minute.
    e2e::wait_for("the package to listen", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    assert_eq!(node.rpc("admin_addPeer", json!([url])), true);
    let result = go_on(&node, script);
    assert_eq!(
        (&result["network"], &result["reason"]),
        (&json!(1), &json!(SUBPROTOCOL))
    );
}

#[test]
fn a_wrong_block_0_is_refused() {
    let Some(clients) = javascript() else { return };
    let node = node();
    let mut argument = argument(&node, "refused", enode(&node).port);
    argument["genesis"] = json!(format!("0x{}", "07".repeat(32)));
    let result = clients.run("devp2p-node.mjs", &argument);
    assert_eq!(result["reason"], SUBPROTOCOL);
    assert_eq!(peer_count(&node), 0);
}
