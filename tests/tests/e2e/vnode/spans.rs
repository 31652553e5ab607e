//! `--otlp`: a collector gets spans of requests and blocks.

use std::io::{BufRead, BufReader, Read};

use e2e::clients::javascript;
use e2e::process::EndSignal;
use e2e::{Launch, Vnode, note};
use serde_json::{Value, json};

use crate::vnode::offline::assert_contains;

#[test]
fn a_collector_gets_spans_of_requests_and_blocks() {
    let Some(libraries) = javascript() else { return };
    let mut collector = libraries
        .start("otlp-collector.mjs")
        .expect("the collector starts");
    let mut output = BufReader::new(collector.stdout.take().expect("a pipe"));
    let mut port = String::new();
    output.read_line(&mut port).expect("a port");
    let endpoint = format!("http://127.0.0.1:{}", port.trim());
    let node = Vnode::dev(["--dev.seal", "instant", "--otlp", &endpoint]);
    let accounts = node.accounts();
    node.rpc(
        "eth_sendTransaction",
        json!([{"from": accounts[0], "to": accounts[1], "value": "0x1"}]),
    );
    node.rpc("mc_getBlockByNumber", json!(["latest", false]));
    node.refused("mc_getBalance", json!([accounts[0], "0xffff"]), -32000);
    let head = node.block(1)["hash"].clone();
    assert!(node.end(EndSignal::Interrupt).status.success());
    drop(collector.stdin.take());
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("the spans");
    assert!(collector.wait().expect("it ends").success());
    let spans: Vec<Value> = serde_json::from_str(&rest).expect("a list");
    note(&format!("{} spans", spans.len()));
    let named = |name: &str| -> Vec<&Value> { spans.iter().filter(|span| span["name"] == name).collect() };
    let parent = |span: &Value| spans.iter().find(|other| other["id"] == span["parent"]);

    let calls = named("mc_getBlockByNumber");
    let call = calls.first().unwrap_or_else(|| panic!("{spans:?}"));
    assert_eq!(call["service"], "vnode");
    assert_eq!(call["attributes"]["rpc.method"], "mc_getBlockByNumber");
    assert_eq!(parent(call).expect("its request")["name"], "request");
    let failed = named("mc_getBalance");
    assert!(failed.iter().any(|span| span["status"] == 2), "{failed:?}");

    let blocks = named("block");
    let block = blocks
        .iter()
        .find(|span| span["attributes"]["hash"] == head)
        .unwrap_or_else(|| panic!("{spans:?}"));
    assert_eq!(
        block["attributes"]["transactions"].to_string().trim_matches('"'),
        "1"
    );
    for stage in ["body", "execute", "roots", "rows", "commit"] {
        let parts = named(stage);
        let part = parts
            .iter()
            .find(|part| part["trace"] == block["trace"])
            .unwrap_or_else(|| panic!("no span {stage} in {spans:?}"));
        assert!(
            part["nanoseconds"].as_u64() <= block["nanoseconds"].as_u64(),
            "{stage}"
        );
    }
}

#[test]
fn a_collector_that_is_away_stops_nothing() {
    let node = Vnode::dev(["--dev.seal", "instant", "--otlp", "http://127.0.0.1:9"]);
    for _ in 0..50 {
        node.rpc("mc_blockNumber", json!([]));
    }
    assert!(node.end(EndSignal::Interrupt).status.success());
    let ended = Launch::dev(["--otlp", "not a url"]).run();
    assert!(!ended.status.success());
    assert_contains(&ended.stderr, &["--otlp not a url"]);
}
