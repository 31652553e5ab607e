//! Ten nodes as processes. Some are killed, and come back.

use e2e::process::EndSignal;
use e2e::vnode::{Launch, Vnode};
use e2e::wait::wait_for;
use serde_json::{Value, json};

use crate::peers::support::{connect, peer_count, wait_for_agreement};

const NODES: usize = 10;
/// The nodes that are killed. The others stay connected without them.
const KILLED: [usize; 3] = [3, 6, 9];

#[test]
fn ten_nodes_agree_though_some_are_killed() {
    let home = tempfile::tempdir().expect("a folder");
    let launch = |index: usize| {
        let options = ["--rpcapi", "mc,net,admin,miner,personal", "--minerthreads", "1"];
        let data = home.path().join(index.to_string());
        Launch::dev(options).data(&data).start()
    };
    let mut nodes: Vec<Option<Vnode>> = (0..NODES).map(|index| Some(launch(index))).collect();
    for index in 1..NODES {
        let node = |index: usize| nodes[index].as_ref().expect("it runs");
        connect(node(index), node(index - 1));
        if index / 2 != index - 1 {
            connect(node(index), node(index / 2));
        }
    }
    let agree = |nodes: &[Option<Vnode>], number: u128| {
        let all: Vec<_> = nodes.iter().flatten().collect();
        wait_for_agreement(&all, number);
    };
    let mine = |node: &Vnode, blocks: u128| {
        let goal = node.head() + blocks;
        node.rpc("miner_start", json!([1]));
        node.wait_for_head(goal);
        node.rpc("miner_stop", json!([]));
        goal
    };
    // A transaction of the last node is mined by the first, six connections away at most.
    let last = nodes[9].as_ref().expect("it runs");
    let accounts = last.accounts();
    let hash = last.send(json!({"from": accounts[1], "to": accounts[2], "value": "0x7"}));
    let first = nodes[0].as_ref().expect("it runs");
    wait_for("the transaction at the first node", || {
        let transaction = first.rpc("mc_getTransactionByHash", json!([hash]));
        (transaction != Value::Null).then_some(())
    });
    let number = mine(first, 4);
    agree(&nodes, number);
    for node in nodes.iter().flatten() {
        assert_eq!(node.receipt(&hash), first.receipt(&hash));
    }
    for index in KILLED {
        nodes[index].take().expect("it runs").end(EndSignal::Kill);
    }
    let number = mine(nodes[8].as_ref().expect("it runs"), 4);
    agree(&nodes, number);
    for index in KILLED {
        nodes[index] = Some(launch(index));
    }
    // Nodes that came back know whom to dial, and get what they missed.
    for index in KILLED {
        let node = nodes[index].as_ref().expect("it runs");
        wait_for("a peer", || (peer_count(node) > 0).then_some(()));
    }
    let number = mine(nodes[9].as_ref().expect("it runs"), 2);
    agree(&nodes, number);
}
