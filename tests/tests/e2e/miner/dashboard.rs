//! The dashboard of the standalone miner.

use e2e::wait::wait_for;
use e2e::{MinerProcess, Vnode, http};
use serde_json::Value;

#[test]
fn a_miner_shows_its_devices_and_its_pool() {
    let node = Vnode::dev(Vec::<String>::new());
    let url = node.url();
    let miner = MinerProcess::start(["getwork", &url, "--dashboard", "127.0.0.1:0"]);
    let dashboard = miner.dashboard();
    let get = |path: &str| http::get(dashboard, path).expect("served");
    let page = get("/");
    assert!(
        page.status == 200 && page.body.contains("/app.js"),
        "{}",
        page.body
    );
    let json = |path: &str| -> Value { serde_json::from_str(&get(path).body).expect("JSON") };
    let shown = wait_for("an accepted solution", || {
        let shown = json("/status");
        (shown["accepted"].as_u64() > Some(0)).then_some(shown)
    });
    // The status for programs has the same figures, a little later.
    let status = miner.status();
    for name in ["version", "endpoint"] {
        assert_eq!(shown[name], status[name], "{name}");
    }
    let device = &shown["devices"][0];
    assert_eq!(device["device"], "cpu");
    assert_eq!(device["name"], status["devices"][0]["name"]);
    assert!(
        shown["accepted"].as_u64() <= status["accepted"].as_u64(),
        "{status}"
    );
    assert_eq!(shown["program"], "miner");
    assert_eq!(shown["job"]["epoch_blocks"], 30_000, "{shown}");
    assert!(shown.get("node").is_none(), "{shown}");
    let history = wait_for("a point of the history", || {
        let history = json("/history/hour");
        (history["points"].as_u64() > Some(0)).then_some(history)
    });
    let series = &history["series"][0];
    assert_eq!(series["name"], "cpu", "{history}");
    assert!(series["rates"][0].as_f64() > Some(0.0), "{history}");
    for (method, path, host, code) in [
        ("GET", "/explorer/block/0", "localhost", 404),
        ("POST", "/status", "localhost", 405),
        ("GET", "/status", "rebound.example", 403),
    ] {
        let answer = http::request(dashboard, method, path, host).expect("an answer");
        assert_eq!(answer.status, code, "{method} {path} {host}");
    }
}
