//! `vnode scs-demo`: a node, three SCSs and a MicroChain in one process, with chain3 as their
//! client.

use std::time::Duration;

use e2e::binary::workspace;
use e2e::clients::javascript;
use e2e::process::EndSignal;
use e2e::wait::wait_within;
use e2e::{Launch, Vnode};
use serde_json::json;

/// Longest wait for the demo, which makes some 25 blocks of the base chain, one a second.
const DEMO_PATIENCE: Duration = Duration::from_secs(240);

/// Starts the demo with its data in `folder`, and waits until it is ready.
fn demo(folder: &std::path::Path) -> Vnode {
    let node = Launch::bare(Vec::<String>::new())
        .data(folder)
        .command(&[
            "scs-demo",
            "--rpcport",
            "0",
            "--scs.rpcport",
            "0",
            "--period",
            "1",
        ])
        .start();
    wait_within(DEMO_PATIENCE, "the demo", || {
        let lines = node.banner_values("demo");
        lines.iter().any(|line| line.starts_with("ready")).then_some(())
    });
    node
}

fn value(node: &Vnode, key: &str) -> String {
    let values = node.banner_values(key);
    let value = values.first().and_then(|value| value.split_whitespace().next());
    value
        .unwrap_or_else(|| panic!("no {key} in {}", node.banner()))
        .to_owned()
}

#[test]
fn chain3_works_with_the_demo() {
    let Some(clients) = javascript() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let node = demo(folder.path());
    let servers = node.banner_values("scs");
    let urls: Vec<_> = servers
        .iter()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(urls.len(), 3, "{servers:?}");
    let chain = value(&node, "microchain");
    let argument = json!({
        "url": node.url(), "scs": urls, "compiled": workspace().join("contracts/compiled.json"),
        "microchain": chain, "dappbase": value(&node, "dappbase"), "counter": value(&node, "dapp"),
        "via": value(&node, "via"), "accounts": node.accounts(),
    });
    let result = clients.run("chain3-scs.mjs", &argument);
    assert_eq!(result["same"], 3, "SCSs with the same block");

    // The next start goes on with the same MicroChain.
    let ended = node.end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    let again = demo(folder.path());
    assert_eq!(value(&again, "microchain"), chain);
}
