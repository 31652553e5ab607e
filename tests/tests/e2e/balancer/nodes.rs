//! Three nodes, the balancer before them, and which client is on which node.

use std::net::SocketAddr;

use e2e::address::free_address;
use e2e::balancer::Balancer;
use e2e::wait::wait_for;
use e2e::{Caller, Launch, Vnode};
use serde_json::{Value, json};

/// Clients that are asked for their nodes. With three nodes it is all but impossible that none of
/// so many is on a given node.
const CLIENTS: u8 = 60;

/// A node of the development network that gives out work but does not mine. `/ready` refuses when
/// the head is older than ten seconds.
fn start(address: SocketAddr) -> Vnode {
    let port = address.port().to_string();
    let options = [
        "--dev",
        "--rpc",
        "--rpcport",
        &port,
        "--rpcapi",
        "mc,net,admin,miner",
        "--ws",
        "--wsport",
        &port,
        "--wsapi",
        "mc,net,admin",
        "--mine",
        "--minerthreads",
        "0",
        "--rpc.clientshare",
        "100",
        "--rpc.sendwait",
        "5000",
        "--ready.maxage",
        "30",
        "--allow-insecure-unlock",
    ];
    Launch::bare(options).start()
}

/// Three nodes that know nobody.
pub(crate) fn three() -> ([Vnode; 3], [SocketAddr; 3]) {
    let addresses = [free_address(), free_address(), free_address()];
    (addresses.map(start), addresses)
}

/// The id of the node that answers.
pub(crate) fn node_id(caller: &Caller) -> String {
    id_of(&caller.rpc("admin_nodeInfo", json!([])))
}

/// The id in the answer of `admin_nodeInfo`.
pub(crate) fn id_of(info: &Value) -> String {
    info["id"].as_str().expect("an id").to_owned()
}

/// The enode URL of `node` without the part from `?` on.
pub(crate) fn enode(node: &Vnode) -> String {
    let info = node.rpc("admin_nodeInfo", json!([]));
    let url = info["enode"].as_str().expect("a URL");
    url.split('?').next().unwrap_or(url).to_owned()
}

/// Makes the two nodes peers.
pub(crate) fn connect(from: &Vnode, to: &Vnode) {
    assert_eq!(from.rpc("admin_addPeer", json!([enode(to)])), true);
    let id = node_id(to);
    wait_for("a peer", || {
        let peers = from.rpc("admin_peers", json!([]));
        let has = |peer: &Value| peer["id"].as_str() == Some(&id);
        peers.as_array().expect("a list").iter().any(has).then_some(())
    });
}

/// The clients whose requests each of `ids` answers.
pub(crate) fn clients_of(balancer: &Balancer, ids: &[String; 3]) -> [Vec<u8>; 3] {
    let mut clients = [const { Vec::new() }; 3];
    for client in 1..=CLIENTS {
        let id = node_id(&balancer.client(client));
        let node = ids
            .iter()
            .position(|known| *known == id)
            .expect("one of the three");
        clients[node].push(client);
    }
    clients
}
