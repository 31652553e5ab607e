//! The binary `miner` and a node over getWork.

use e2e::clients::python;
use e2e::http;
use e2e::process::EndSignal;
use e2e::wait::wait_for;
use e2e::{Launch, MinerProcess, Vnode, note};
use serde_json::{Value, json};

/// A node that does not search itself.
fn node() -> Vnode {
    Vnode::dev(["--mine", "--minerthreads", "0"])
}

/// Checks the seals of the blocks from `first` on with an independent implementation of Ethash.
fn check_seals(node: &Vnode, first: u128) {
    let Some(clients) = python() else { return };
    let last = node.head();
    let nonces = clients.run(
        "check_seals.py",
        &json!({"url": node.url(), "first": first as u64, "last": last as u64}),
    );
    assert_eq!(nonces.as_array().map(Vec::len), Some((last - first + 1) as usize));
}

#[test]
fn a_miner_seals_blocks() {
    let node = node();
    let miner = MinerProcess::start(["getwork", &node.url()]);
    node.wait_for_head(3);
    let status = miner.wait_for_status("three solutions", |status| status["accepted"].as_u64() >= Some(3));
    assert_eq!((&status["rejected"], &status["invalid"]), (&json!(0), &json!(0)));
    assert_eq!(status["endpoint"], json!(node.url()));
    let device = &status["devices"][0];
    assert_eq!(
        (&device["device"], &device["accepted"]),
        (&json!("cpu"), &status["accepted"])
    );
    assert_eq!(status["job"]["difficulty"], "512");
    // The hashrate of the node includes what its miners report.
    wait_for("a reported hashrate", || {
        let rate = node.rpc("mc_hashrate", json!([]));
        (rate != "0x0").then_some(())
    });
    let metrics = http::get(miner.status_address(), "/metrics")
        .expect("served")
        .body;
    assert!(
        metrics.contains("miner_solutions_total{device=\"cpu\",result=\"accepted\"}"),
        "{metrics}"
    );
    assert_eq!(
        http::get(miner.status_address(), "/nothing")
            .expect("served")
            .status,
        404
    );

    let ended = miner.end(EndSignal::Interrupt);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.took.as_secs() < 2, "{:?}", ended.took);
    for line in ["connected", "solution accepted", "speed", "done", "stopped"] {
        assert!(
            ended.stderr.contains(line),
            "{line:?} is missing in\n{}",
            ended.stderr
        );
    }
    assert!(
        !ended.stderr.contains('\u{1b}'),
        "the log is not a terminal, so it must have no colours"
    );
    check_seals(&node, 1);
}

#[test]
fn the_miner_fails_over_to_a_second_node_and_returns() {
    let first_data = tempfile::tempdir().expect("a temporary folder");
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = free.local_addr().expect("bound").port().to_string();
    drop(free);
    let start_first = || {
        let arguments = [
            "--dev",
            "--rpc",
            "--rpcport",
            &port,
            "--mine",
            "--minerthreads",
            "0",
        ];
        Launch::bare(arguments).data(first_data.path()).start()
    };
    let first = start_first();
    let second = node();
    let miner = MinerProcess::start(["getwork", &first.url(), &second.url(), "--retry-max", "1"]);
    first.wait_for_head(2);
    assert_eq!(second.head(), 0, "the second node is not used yet");
    // While the miner searches.
    first.end(EndSignal::Kill);
    second.wait_for_head(2);
    let first = start_first();
    let head = first.head();
    assert!(head >= 2, "got {head}");
    first.wait_for_head(head + 2);
    let status = miner.status();
    assert_eq!(status["endpoints"][0]["active"], json!(true), "{status}");
    assert!(
        status["endpoints"][1]["connections"].as_u64() >= Some(1),
        "{status}"
    );
    check_seals(&first, 1);
    check_seals(&second, 1);
}

#[test]
fn every_line_of_a_json_log_is_json() {
    let node = node();
    let miner = MinerProcess::bare([
        "getwork",
        &node.url(),
        "--device",
        "cpu",
        "--threads",
        "2",
        "--dataset",
        "never",
        "--nice",
        "0",
        "--intensity",
        "30",
        "--log-json",
        "--log-every",
        "0.2",
    ]);
    node.wait_for_head(2);
    miner.wait_for_log("\"message\":\"speed\"");
    let ended = miner.end(EndSignal::Terminate);
    assert_eq!(ended.status.code(), Some(0));
    for line in ended.stderr.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("got {line}, expected JSON"));
        assert!(event["message"].is_string(), "{event}");
    }
}

#[test]
fn a_graphics_adapter_and_the_cpu_mine_together() {
    if std::env::var_os("FULL_DATASET").is_none() {
        note("skipped: a dataset of 1 GiB takes a software adapter ten minutes; FULL_DATASET=1 asks for it");
        return;
    }
    let node = node();
    let miner = MinerProcess::bare([
        "getwork",
        &node.url(),
        "--device",
        "cpu,gpu:0",
        "--threads",
        "1",
        "--dataset",
        "never",
        "--status",
        "127.0.0.1:0",
        "--plain",
    ]);
    let both = |status: &Value| {
        let devices = status["devices"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        devices.len() == 2
            && devices
                .iter()
                .all(|device| device["accepted"].as_u64() >= Some(1))
    };
    let status = e2e::wait::wait_within(std::time::Duration::from_secs(900), "solutions of both", || {
        Some(miner.status()).filter(both)
    });
    assert_eq!(status["invalid"], json!(0));
    check_seals(&node, 1);
}
