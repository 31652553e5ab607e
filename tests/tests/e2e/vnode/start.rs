//! The banner of a new node, and the time until its first block.

use std::time::{Duration, Instant};

use e2e::ledger::FUNDED;
use e2e::process::EndSignal;
use e2e::wait::wait_for;
use e2e::{Vnode, data, note, quantity};
use serde_json::json;

/// Number of starts that are measured.
const ROUNDS: usize = 10;

/// Time from the start of the process until a client sees block 1.
fn time_to_first_block(node: &Vnode) -> Duration {
    node.wait_for_head(1);
    node.started().elapsed()
}

#[test]
fn a_new_node_mines_at_once() {
    let node = Vnode::dev(["--mine"]);
    let banner = node.started().elapsed();
    let first = time_to_first_block(&node);
    note(&format!(
        "banner after {banner:.2?}, first block after {first:.2?}, while other tests run"
    ));
    node.wait_for_head(4);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    let times: Vec<_> = (1..=4)
        .map(|number| quantity(&node.block(number)["timestamp"]))
        .collect();
    assert!(
        times.windows(2).all(|pair| pair[0] < pair[1]),
        "timestamps must increase: {times:?}"
    );
    assert!(
        times[3] <= u128::from(now.as_secs()),
        "timestamp of block 4: got {}, expected at most {now:?}",
        times[3]
    );
    assert_eq!(node.rpc("mc_mining", json!([])), json!(true));
    let hashrate = wait_for("a hashrate", || {
        Some(quantity(&node.rpc("mc_hashrate", json!([])))).filter(|rate| *rate > 0)
    });
    note(&format!(
        "mining at {hashrate} H/s with the light cache, while other tests run"
    ));
}

#[test]
fn the_banner_is_true() {
    let node = Vnode::dev(["--mine"]);
    let banner = node.banner();
    let version = node.rpc("chain3_clientVersion", json!([]));
    assert_eq!(banner.lines().next(), version.as_str(), "{banner}");
    assert_eq!(
        version.as_str().map(|version| version.split('/').count()),
        Some(4),
        "{version}"
    );
    let [network] = &node.banner_values("network")[..] else {
        panic!("{banner}")
    };
    assert!(network.contains("network id 100"), "{banner}");
    assert_eq!(node.rpc("net_version", json!([])), json!("100"));
    assert!(
        node.banner_values("head")[0].starts_with("block 0 0x"),
        "{banner}"
    );
    assert!(
        node.banner_values("head")[0].ends_with(data(&node.block(0)["hash"], 32)),
        "{banner}"
    );
    assert!(
        !node.banner_values("data").is_empty() && !node.banner_values("mining").is_empty(),
        "{banner}"
    );

    let lines: Vec<_> = banner
        .lines()
        .filter(|line| line.trim_start().starts_with('('))
        .collect();
    let accounts = node.accounts();
    assert_eq!((lines.len(), accounts.len()), (10, 10), "{banner}");
    for account in &accounts {
        let balance = quantity(&node.rpc("mc_getBalance", json!([account, "earliest"])));
        assert_eq!(balance, FUNDED);
        let line = lines
            .iter()
            .find(|line| line.to_lowercase().contains(account.as_str()));
        let (_, key) = line
            .and_then(|line| line.rsplit_once("key "))
            .unwrap_or_else(|| panic!("{banner}"));
        data(&json!(key), 32);
    }
    let beneficiary = node.rpc("mc_coinbase", json!([]));
    assert_eq!(
        node.banner_values("moacbase")[0].to_lowercase(),
        data(&beneficiary, 20),
        "{banner}"
    );
    node.wait_for_head(1);
    assert_eq!(node.block(1)["miner"], beneficiary);
}

#[test]
fn cargo_run_starts_the_node() {
    let output = e2e::binary::cargo("run")
        .args(["--quiet", "--", "--version"])
        .output()
        .expect("cargo runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(stdout.starts_with("vnode "), "{stdout}");
}

/// Needs an idle machine: `cargo test --release -p e2e first_block_time -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement that needs an idle machine"]
fn first_block_time() {
    let started = Instant::now();
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let node = Vnode::dev(["--mine"]);
            let time = time_to_first_block(&node);
            assert!(node.end(EndSignal::Interrupt).status.success());
            time
        })
        .collect();
    times.sort_unstable();
    let median = (times[ROUNDS / 2 - 1] + times[ROUNDS / 2]) / 2;
    note(&format!(
        "process start to block 1, {ROUNDS} cold starts: min {:.2?}, median {median:.2?}, max {:.2?} ({:.1?} in all)",
        times[0],
        times[ROUNDS - 1],
        started.elapsed()
    ));
}
