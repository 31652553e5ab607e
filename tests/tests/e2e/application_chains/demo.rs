//! `vnode scs-demo`: a node, three SCSs and a MicroChain in one process, with chain3 as their
//! client, and with ordinary wallets.

use std::time::Duration;

use chain::spec::DEV_ACCOUNTS;
use e2e::binary::workspace;
use e2e::clients::{Cast, cast, javascript};
use e2e::process::EndSignal;
use e2e::wait::wait_within;
use e2e::{Launch, Vnode};
use serde_json::json;

/// Longest wait for the demo, which makes some 25 blocks of the base chain, one a second.
const DEMO_PATIENCE: Duration = Duration::from_secs(240);

/// The account of the development network whose key the wallets have.
const WALLET: usize = 5;

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

/// The transfer and the call of a Dapp that the other libraries make, from the command line.
fn cast_sends_and_reads(cast: &Cast, url: &str, key: &str, receiver: &str, dapp: &str) {
    let balance = || -> u64 { cast.run(url, &["balance", receiver]).parse().expect("a number") };
    let before = balance();
    let send = ["send", "--legacy", "--private-key", key];
    let sent = cast.run(url, &[&send[..], &["--value", "9", receiver]].concat());
    assert!(sent.contains("1 (success)"), "{sent}");
    assert_eq!(balance(), before + 9);
    let total = || cast.run(url, &["call", dapp, "total()(uint256)"]);
    let counted = total();
    let sent = cast.run(url, &[&send[..], &[dapp, "count(uint256)", "4"]].concat());
    assert!(sent.contains("1 (success)"), "{sent}");
    assert_ne!(total(), counted);
}

#[test]
fn chain3_and_wallets_work_with_the_demo() {
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
    let (_, key) = DEV_ACCOUNTS[WALLET];
    let receiver = format!("{:#x}", DEV_ACCOUNTS[WALLET + 1].0);
    let dapp = value(&node, "dapp");
    let argument = json!({
        "url": node.url(), "scs": urls[0], "others": urls[1..], "compiled": workspace().join("contracts/compiled.json"),
        "microchain": chain, "dappbase": value(&node, "dappbase"), "counter": dapp,
        "key": format!("0x{key}"), "to": receiver,
    });
    clients.run("microchain-wallets.mjs", &argument);
    if let Some(cast) = cast() {
        let url = format!("{}/chain/{chain}", urls[1]);
        cast_sends_and_reads(cast, &url, &format!("0x{key}"), &receiver, &dapp);
    }

    // The next start goes on with the same MicroChain.
    let ended = node.end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    let again = demo(folder.path());
    assert_eq!(value(&again, "microchain"), chain);
}
