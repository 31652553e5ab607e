//! A node whose head is behind gets no requests, and gets some again when it has caught up.

use e2e::balancer::Balancer;
use e2e::wait::wait_for;
use serde_json::json;

use crate::balancer::nodes::{clients_of, connect, enode, node_id, three};

#[test]
fn a_node_that_is_behind_gets_no_requests() {
    let (nodes, addresses) = three();
    let Some(balancer) = Balancer::start(addresses) else {
        return;
    };
    let [one, two, three] = &nodes;
    let ids = [one, two, three].map(|node| node_id(node));
    // Block 0 is old, so no node is ready. Clients are served all the same, by all nodes.
    wait_for("no node that is ready", || {
        (balancer.servers_in("ready") == [false; 3]).then_some(())
    });
    assert_eq!(balancer.servers_in("alive"), [true; 3]);
    let first = clients_of(&balancer, &ids);
    assert!(first.iter().all(|clients| !clients.is_empty()), "{first:?}");
    // The third node knows nobody, so only two get the blocks.
    connect(two, one);
    one.rpc("miner_start", json!([1]));
    wait_for("two nodes that are ready", || {
        (balancer.servers_in("ready") == [true, true, false]).then_some(())
    });
    let [on_one, on_two, on_three] = clients_of(&balancer, &ids);
    assert_eq!(on_three, [0_u8; 0], "clients of the node that is behind");
    // Nobody else has moved.
    assert!(first[0].iter().all(|client| on_one.contains(client)));
    assert!(first[1].iter().all(|client| on_two.contains(client)));
    // The third node catches up.
    connect(three, one);
    wait_for("three nodes that are ready", || {
        (balancer.servers_in("ready") == [true; 3]).then_some(())
    });
    // Another node loses its peers. Its head grows old, and its clients go to the others.
    for node in [one, three] {
        two.rpc("admin_removePeer", json!([enode(node)]));
        node.rpc("admin_removePeer", json!([enode(two)]));
    }
    wait_for("the node that is behind to be out", || {
        (balancer.servers_in("ready") == [true, false, true]).then_some(())
    });
    assert_eq!(balancer.servers_in("alive"), [true; 3]);
    let [_, on_two, _] = clients_of(&balancer, &ids);
    assert_eq!(on_two, [0_u8; 0], "clients of the node that is behind");
}
