//! Two and three nodes that share blocks and transactions.

use e2e::address::free_address;
use e2e::process::EndSignal;
use e2e::vnode::Launch;
use e2e::wait::wait_for;
use serde_json::{Value, json};

use crate::peers::support::{
    connect, enode, head, peer_count, plain_enode, start, start_idle, wait_for_agreement,
};

#[test]
fn two_nodes_share_blocks_and_transactions() {
    let (one, two) = (start_idle(), start_idle());
    connect(&two, &one);
    for (node, is_inbound) in [(&one, true), (&two, false)] {
        let peers = node.rpc("admin_peers", json!([]));
        assert_eq!(peers[0]["network"]["inbound"], is_inbound, "{peers}");
        assert_eq!(peers[0]["network"]["static"], !is_inbound);
        assert_eq!(peers[0]["protocols"]["mc"]["version"], 63);
        assert_eq!(peers[0]["caps"], json!(["mc/62", "mc/63"]));
        assert_eq!(node.rpc("net_listening", json!([])), true);
        assert_eq!(node.rpc("net_peerCount", json!([])), "0x1");
        assert_eq!(node.rpc("net_version", json!([])), "100");
    }
    assert_eq!(
        one.rpc("admin_peers", json!([]))[0]["id"],
        two.rpc("admin_nodeInfo", json!([]))["id"]
    );
    // A transaction crosses, and is mined by the other node.
    let accounts = two.accounts();
    let hash = two.send(json!({"from": accounts[0], "to": accounts[1], "value": "0x7"}));
    wait_for("the transaction at the other node", || {
        let transaction = one.rpc("mc_getTransactionByHash", json!([hash]));
        (transaction != Value::Null).then_some(())
    });
    one.rpc("miner_start", json!([1]));
    two.wait_for_head(3);
    one.rpc("miner_stop", json!([]));
    wait_for_agreement(&[&one, &two], 3);
    assert_eq!(two.receipt(&hash), one.receipt(&hash));
    // The other way round.
    let number = one.head();
    two.rpc("miner_start", json!([1]));
    one.wait_for_head(number + 3);
    two.rpc("miner_stop", json!([]));
    wait_for_agreement(&[&one, &two], number + 3);
    assert_eq!(two.rpc("mc_syncing", json!([])), false);
}

#[test]
fn a_newcomer_gets_the_chain() {
    let one = start_idle();
    one.rpc("miner_start", json!([1]));
    one.wait_for_head(12);
    one.rpc("miner_stop", json!([]));
    let two = start_idle();
    connect(&two, &one);
    wait_for_agreement(&[&one, &two], 12);
    // A third node that knows only the second gets it, too, and new blocks reach it.
    let three = start_idle();
    connect(&three, &two);
    wait_for_agreement(&[&one, &two, &three], 12);
    let number = one.head();
    one.rpc("miner_start", json!([1]));
    three.wait_for_head(number + 3);
    one.rpc("miner_stop", json!([]));
    wait_for_agreement(&[&one, &two, &three], number + 3);
}

#[test]
fn halves_that_mined_apart_agree() {
    let (one, two) = (start_idle(), start_idle());
    let accounts = two.accounts();
    let lost = two.send(json!({"from": accounts[2], "to": accounts[3], "value": "0x7"}));
    for (node, blocks) in [(&one, 9), (&two, 4)] {
        node.rpc("miner_start", json!([1]));
        node.wait_for_head(blocks);
        node.rpc("miner_stop", json!([]));
    }
    assert_ne!(one.block(1)["hash"], two.block(1)["hash"]);
    let heavier = head(&one);
    connect(&two, &one);
    wait_for("the heavier chain at the other node", || {
        (head(&two) == heavier).then_some(())
    });
    // The transaction of the lighter chain waits again, and both nodes have it.
    assert_eq!(two.rpc("mc_getTransactionReceipt", json!([lost])), Value::Null);
    wait_for("the transaction at the other node", || {
        let transaction = one.rpc("mc_getTransactionByHash", json!([lost]));
        (transaction != Value::Null).then_some(())
    });
    one.rpc("miner_start", json!([1]));
    wait_for("a receipt", || {
        let receipt = two.rpc("mc_getTransactionReceipt", json!([lost]));
        (receipt != Value::Null).then_some(())
    });
}

#[test]
fn static_nodes_are_kept_over_restarts() {
    let home = tempfile::tempdir().expect("a folder");
    let launch = || {
        Launch::dev(["--rpcapi", "mc,net,admin"])
            .data(home.path())
            .start()
    };
    let (one, two) = (start_idle(), launch());
    connect(&two, &one);
    assert!(two.end(EndSignal::Interrupt).status.success());
    wait_for("no peer", || (peer_count(&one) == 0).then_some(()));
    let two = launch();
    wait_for("the peer again", || (peer_count(&two) == 1).then_some(()));
    assert_eq!(two.rpc("admin_removePeer", json!([plain_enode(&one)])), true);
    wait_for("no peer", || (peer_count(&one) == 0).then_some(()));
    assert_eq!(two.rpc("admin_removePeer", json!([plain_enode(&one)])), false);
}

#[test]
fn nodes_of_other_networks_are_no_peers() {
    let one = start(&["--verbosity", "4"]);
    let other = start(&["--verbosity", "4", "--networkid", "4711"]);
    assert_eq!(other.rpc("net_version", json!([])), "4711");
    assert_eq!(other.rpc("admin_addPeer", json!([plain_enode(&one)])), true);
    wait_for("the reason in the log", || {
        let log = one.log() + &other.log();
        log.contains("network id: got").then_some(())
    });
    assert_eq!((peer_count(&one), peer_count(&other)), (0, 0));
}

#[test]
fn places_are_bounded_and_trusted_nodes_need_none() {
    let one = start(&["--maxpeers", "1"]);
    let (two, three) = (start_idle(), start(&["--verbosity", "4"]));
    connect(&two, &one);
    assert_eq!(three.rpc("admin_addPeer", json!([plain_enode(&one)])), true);
    wait_for("the reason in the log", || {
        three.log().contains("too many peers").then_some(())
    });
    assert_eq!(peer_count(&one), 1);
    assert_eq!(
        one.rpc("admin_addTrustedPeer", json!([plain_enode(&three)])),
        true
    );
    wait_for("both peers", || (peer_count(&one) == 2).then_some(()));
    let trusted = one.rpc("admin_peers", json!([]));
    let trusted: Vec<_> = trusted.as_array().expect("a list").iter().collect();
    assert_eq!(
        trusted
            .iter()
            .filter(|peer| peer["network"]["trusted"] == true)
            .count(),
        1
    );
    assert_eq!(
        one.rpc("admin_removeTrustedPeer", json!([plain_enode(&three)])),
        true
    );
}

#[test]
fn nodes_find_each_other_by_a_boot_node() {
    let port = free_address().port().to_string();
    let ranges = ["--netrestrict", "127.0.0.0/8", "--nat", "none"];
    let mut first = vec![
        "--port",
        &port,
        "--bootnodes",
        "enode://6f8a80d14311c39f35f516fa664deaaaa13e85b2f7493f37f6144d86991ec012937307647bd3b9a82abe2974e1407241d54947bbb39763a4cac9f77166ad92a0@127.0.0.1:9",
    ];
    first.extend(ranges);
    let one = start(&first);
    let boot = plain_enode(&one);
    let other = || {
        let mut options = vec!["--bootnodes", &boot, "--port", "0"];
        options.extend(ranges);
        start(&options)
    };
    let (two, three) = (other(), other());
    assert_ne!(enode(&two).discovery_port, 0);
    for node in [&one, &two, &three] {
        wait_for("two peers", || (peer_count(node) >= 1).then_some(()));
    }
}

#[test]
fn malformed_nodes_are_refused() {
    let one = start_idle();
    for (url, expected) in [
        ("enode://12@127.0.0.1:1", "node id"),
        ("http://a", "expected enode://"),
    ] {
        let message = one.refused("admin_addPeer", json!([url]), -32602);
        assert!(message.contains(expected), "{message}");
    }
    let message = one.refused("admin_addPeer", json!([plain_enode(&one)]), -32000);
    assert!(message.contains("own"), "{message}");
}
