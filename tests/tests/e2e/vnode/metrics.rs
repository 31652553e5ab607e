//! Metrics of a node for Prometheus, the dashboard for Grafana, and whether the node is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use e2e::wait::wait_for;
use e2e::ws::WsClient;
use e2e::{Vnode, http};
use serde_json::{Value, json};

/// The dashboard that is kept in the repository.
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/vnode.json");

/// The address of the node's metrics.
fn address(node: &Vnode) -> SocketAddr {
    let banner = node.banner();
    let start = banner.split("http metrics http://").nth(1).expect("metrics");
    let address = start.split('/').next().expect("an address");
    address.parse().expect("an address")
}

/// The figures by name with labels.
fn figures(node: &Vnode) -> BTreeMap<String, f64> {
    let answer = http::get(address(node), "/metrics").expect("served");
    assert_eq!(answer.status, 200);
    let lines = answer
        .body
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a figure");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn a_node_tells_prometheus_what_it_does() {
    let node = Vnode::dev(["--mine", "--metrics", "127.0.0.1:0", "--ws", "--wsport", "0"]);
    let _socket = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    let head = node.wait_for_head(2);
    let account = node.rpc("mc_accounts", json!([]))[0].clone();
    node.rpc(
        "mc_sendTransaction",
        json!([{"from": account, "to": account, "value": "0x1"}]),
    );
    node.try_rpc("mc_call", json!([{"to": account}, "0xffffff"]))
        .expect_err("no such block");
    node.try_rpc("mc_nothing", json!([])).expect_err("no such method");
    let got = wait_for("a figure of a later block", || {
        let got = figures(&node);
        (got["vnode_head_number"] > head as f64).then_some(got)
    });
    let figure = |name: &str| *got.get(name).unwrap_or_else(|| panic!("{name} in {got:#?}"));
    assert!(figure("vnode_head_age_seconds") < 60.0);
    assert!(figure(r#"vnode_blocks_total{result="head"}"#) >= head as f64);
    for stage in ["body", "execute", "roots", "rows", "commit"] {
        let count = figure(&format!(r#"vnode_import_stage_seconds_count{{stage="{stage}"}}"#));
        assert!(count >= head as f64, "{stage}: {count}");
    }
    assert!(figure(r#"vnode_solutions_total{result="accepted"}"#) >= head as f64);
    assert_eq!(figure("vnode_mining"), 1.0);
    assert!(figure(r#"vnode_device_hashes_per_second{device="cpu"}"#) > 0.0);
    assert_eq!(figure(r#"vnode_pool_offers_total{result="taken"}"#), 1.0);
    assert_eq!(
        figure(r#"vnode_rpc_seconds_count{method="mc_sendTransaction"}"#),
        1.0
    );
    assert_eq!(figure(r#"vnode_rpc_errors_total{method="mc_call"}"#), 1.0);
    assert_eq!(figure(r#"vnode_rpc_refused_total{reason="invalid"}"#), 1.0);
    // The HTTP connection of this test, and its WebSocket.
    assert_eq!(figure("vnode_rpc_connections"), 2.0);
    assert!(figure(r#"vnode_store_file_bytes{file="chain.redb"}"#) > 0.0);
    assert!(figure("vnode_store_written_bytes_total") > 0.0);
    assert!(figure("process_resident_memory_bytes") > 0.0);
    assert!(figure("process_cpu_seconds_total") > 0.0);
    assert_eq!(figure("vnode_failed"), 0.0);

    // Every name in the dashboard is one that the node serves.
    let exported: BTreeSet<&str> = got.keys().filter_map(|name| name.split('{').next()).collect();
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let mut shown = 0;
    for target in targets {
        let expression = target["expr"].as_str().expect("an expression");
        for word in expression.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')) {
            if word.starts_with("vnode_") || word.starts_with("process_") {
                assert!(
                    exported.contains(word),
                    "the dashboard shows {word}, which is not exported"
                );
                shown += 1;
            }
        }
    }
    assert!(shown > 25, "{shown} names in the dashboard");
}

#[test]
fn a_node_with_an_old_head_is_not_ready() {
    let node = Vnode::with_blocks(["--ready.maxage", "20"]);
    node.wait_for_head(1);
    let at = node.addresses()[0];
    let ready = http::get(at, "/ready").expect("served");
    let state: Value = serde_json::from_str(&ready.body).expect("JSON");
    assert_eq!((ready.status, &state["ready"]), (200, &json!(true)), "{state}");
    assert!(state["head"].as_u64().is_some_and(|head| head >= 1), "{state}");
    drop(node);
    // The next node makes no blocks, and block 0 is old.
    let node = Vnode::dev(Vec::<String>::new());
    let late = http::get(node.addresses()[0], "/ready").expect("served");
    let state: Value = serde_json::from_str(&late.body).expect("JSON");
    assert_eq!((late.status, &state["ready"]), (503, &json!(false)), "{state}");
    let reason = state["reason"].as_str().expect("a reason");
    assert!(reason.contains("the head is old: got "), "{reason}");
    assert_eq!(
        http::get(node.addresses()[0], "/health").expect("served").status,
        200
    );
}
