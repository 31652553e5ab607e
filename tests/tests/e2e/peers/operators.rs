//! The view and the choices of operators, with real processes: records, IPv6, ports, identities,
//! fork ids, figures of peers.

use std::path::Path;

use e2e::address::has_ipv6;
use e2e::http;
use e2e::vnode::{Launch, Vnode};
use e2e::wait::wait_for;
use primitives::hex;
use serde_json::{Value, json};

use crate::peers::support::{enode, peer_count, start};

/// A boot node that does not answer: it only switches discovery on.
const SILENT: &str = "enode://6f8a80d14311c39f35f516fa664deaaaa13e85b2f7493f37f6144d86991ec012937307647bd3b9a82abe2974e1407241d54947bbb39763a4cac9f77166ad92a0@127.0.0.1:9";

fn info(node: &Vnode) -> Value {
    node.rpc("admin_nodeInfo", json!([]))
}

fn record(node: &Vnode) -> String {
    let record = info(node)["enr"].as_str().expect("a record").to_owned();
    assert!(record.starts_with("enr:-"), "{record}");
    record
}

fn peers(node: &Vnode) -> Vec<Value> {
    let peers = node.rpc("admin_peers", json!([]));
    peers.as_array().expect("a list").clone()
}

/// A node of the network that `genesis` describes, with discovery on loopback.
fn start_network(genesis: &Path, options: &[&str]) -> Vnode {
    let mut all = vec!["--rpc", "--rpcport", "0", "--rpcapi", "mc,net,admin"];
    all.extend(["--netrestrict", "127.0.0.0/8", "--p2p.addr", "127.0.0.1"]);
    all.extend(["--genesis", genesis.to_str().expect("text")]);
    all.extend(options);
    Launch::bare(all).start()
}

#[test]
fn nodes_meet_over_ipv6_by_a_record() {
    if !has_ipv6() {
        return;
    }
    let listen = ["--p2p.addr", "[::1]"];
    let one = start(&[&listen[..], &["--identity", "the first"]].concat());
    let shown = info(&one);
    assert_eq!(shown["ip"], "::1");
    assert!(enode(&one).to_string().contains("@[::1]:"), "{shown}");
    assert!(
        shown["listenAddr"]
            .as_str()
            .is_some_and(|address| address.starts_with("[::1]:"))
    );
    let name = &shown["name"];
    assert!(
        name.as_str()
            .is_some_and(|name| name.starts_with("vnode/the first/v")),
        "{name}"
    );

    let two = start(&listen);
    assert_eq!(two.rpc("admin_addPeer", json!([record(&one)])), true);
    wait_for("two peers", || {
        (peer_count(&one) == 1 && peer_count(&two) == 1).then_some(())
    });
    let peer = &peers(&two)[0];
    assert_eq!(peer["name"], *name, "the identity is part of the name");
    assert_eq!(peer["id"], shown["id"]);
    assert_eq!(peer["network"]["remoteAddress"], shown["listenAddr"]);
    let figures = &peer["figures"];
    for member in ["since", "messagesIn", "messagesOut", "bytesIn", "bytesOut"] {
        assert!(figures[member].as_u64() > Some(0), "{member}: {figures}");
    }
    assert_eq!((&figures["slot"], &figures["faults"]), (&json!(0), &json!(0)));
    // The node that has dialled is shown with the port that it dialled from.
    let came = &peers(&one)[0];
    let from = came["network"]["remoteAddress"].as_str().expect("text");
    assert!(
        came["enode"].as_str().is_some_and(|url| url.ends_with(from)),
        "{came}"
    );
    assert_eq!(two.rpc("admin_removePeer", json!([record(&one)])), true);
}

#[test]
fn records_stand_in_files_and_options() {
    let home = tempfile::tempdir().expect("a folder");
    let one = start(&[]);
    let list = json!([record(&one)]).to_string();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).expect("a write");
    write("static-nodes.json", &list);
    write("trusted-nodes.json", &list);
    let launch = || Launch::dev(["--rpcapi", "net,admin"]).data(home.path());
    let two = launch().start();
    wait_for("the static node", || (peer_count(&two) == 1).then_some(()));
    let network = &peers(&two)[0]["network"];
    assert_eq!(
        (&network["static"], &network["trusted"]),
        (&json!(true), &json!(true))
    );
    drop(two);
    // A record that was changed stops the start, in a file and in an option.
    let mut changed = record(&one);
    let last = if changed.ends_with('A') { "E" } else { "A" };
    changed.replace_range(30..31, if &changed[30..31] == "A" { "E" } else { last });
    write("static-nodes.json", &json!([changed]).to_string());
    assert!(launch().try_start().is_none());
    let message = one.refused("admin_addPeer", json!([changed]), -32602);
    assert!(
        message.starts_with("invalid argument 0: node record: "),
        "{message}"
    );
}

#[test]
fn a_node_of_other_forks_is_not_dialled() {
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = |name: &str, gas_limit: u64| {
        let file = folder.path().join(name);
        let text = json!({
            "config": {"chainId": 4711, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0},
            "difficulty": "0x20000", "gasLimit": gas_limit, "alloc": {},
        });
        std::fs::write(&file, text.to_string()).expect("a write");
        file
    };
    let (own, foreign) = (genesis("own.json", 5_000_000), genesis("foreign.json", 5_000_001));
    let foreign = start_network(&foreign, &["--bootnodes", SILENT]);
    let fitting = start_network(&own, &["--bootnodes", SILENT, "--discovery.port", "0"]);
    let (foreign_record, fitting_record) = (record(&foreign), record(&fitting));
    let ports = &info(&fitting)["ports"];
    assert_ne!(ports["discovery"], ports["listener"], "{ports}");

    let boots = format!("{foreign_record},{fitting_record}");
    let node = start_network(
        &own,
        &[
            "--bootnodes",
            &boots,
            "--verbosity",
            "4",
            "--metrics",
            "127.0.0.1:0",
        ],
    );
    wait_for("the node of the same forks", || {
        let found = peers(&node);
        (found.len() == 1 && found[0]["enr"] == json!(fitting_record)).then_some(())
    });
    wait_for("the line about the other node", || {
        let log = node.log() + &foreign.log();
        log.contains("its record has other forks").then_some(())
    });
    let foreign_id = hex::encode(enode(&foreign).id);
    let log = node.log();
    let mut of_foreign = log.lines().filter(|line| line.contains(&foreign_id));
    assert!(of_foreign.all(|line| line.contains("not dialled")), "{log}");
    assert_eq!(peers(&foreign), [] as [Value; 0]);
    // The metrics name a peer by its place.
    let banner = node.banner();
    let metrics = banner.split("http metrics http://").nth(1).expect("metrics");
    let address = metrics.split('/').next().expect("an address");
    // The place is the second one if both nodes have dialled, and then the first one may end first.
    wait_for("the figures of a place", || {
        let metrics = http::get(address.parse().expect("an address"), "/metrics").expect("served");
        let has_figures = ["0", "1"].iter().any(|slot| {
            let figures = [
                format!(r#"vnode_peer_slot_bytes{{slot="{slot}",direction="in"}} "#),
                format!(r#"vnode_peer_slot_since_seconds{{slot="{slot}"}} 1"#),
                format!(r#"vnode_peer_slot_difficulty{{slot="{slot}"}} 131072"#),
            ];
            figures.iter().all(|figure| metrics.body.contains(figure))
        });
        has_figures.then_some(())
    });
    // The values that geth 1.10.26 shows of such a network.
    let shown = info(&node);
    assert_eq!(
        shown["id"].as_str().map(str::len),
        Some(64),
        "the hash of the key"
    );
    let protocol = &shown["protocols"]["eth"];
    assert_eq!(protocol["network"], 4711);
    assert_eq!(protocol["difficulty"], 0x20000);
    assert_eq!(protocol["genesis"], node.block(0)["hash"]);
    assert_eq!(protocol["head"], node.block(0)["hash"]);
    assert_eq!(protocol["config"]["chainId"], 4711);
    assert_eq!(protocol["config"]["eip158Block"], 0);
}

#[test]
fn a_full_house_of_handshakes_is_an_option() {
    let node = start(&["--maxpendpeers", "1", "--verbosity", "5"]);
    let address = ("127.0.0.1", enode(&node).port);
    // A connection that says nothing has the only place until another one comes.
    let _silent = std::net::TcpStream::connect(address).expect("it listens");
    wait_for("the line about another one", || {
        let _other = std::net::TcpStream::connect(address).expect("it listens");
        node.log()
            .contains("a half-open connection makes way")
            .then_some(())
    });
}
