//! The life of a MicroChain with real processes: a node, three SCSs, a monitor and a backup.

use std::time::Duration;

use e2e::Launch;
use e2e::binary::workspace;
use e2e::clients::javascript;
use e2e::scs_path;
use serde_json::{Value, json};

/// The address that is paid for relaying.
const PROXY: &str = "0x71bef1a57901d4c73de7683edb830f0b9914311a";
/// Longest time of the script: two rounds of the base chain, one block a second, and a turn.
const LIFE_TIMEOUT: Duration = Duration::from_secs(480);

/// Addresses and keys of the funded accounts, from the banner.
fn accounts(banner: &str) -> Vec<Value> {
    let lines = banner.lines().filter(|line| line.trim_start().starts_with('('));
    let account = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        json!({ "address": words[1], "key": words.last() })
    };
    lines.map(account).collect()
}

#[test]
fn a_microchain_lives_to_its_second_flush() {
    let Some(clients) = javascript() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        json!({"SCSService": true, "VnodeServiceCfg": "localhost:0", "VnodeBeneficialAddress": PROXY});
    std::fs::write(folder.path().join("vnodeconfig.json"), settings.to_string()).expect("a write");
    let node = Launch::dev(["--mine", "--rpcapi", "mc,net,chain3,debug,vnode"])
        .data(&folder.path().join("data"))
        .directory(folder.path())
        .start();
    let endpoints = node.banner_values("endpoint");
    let service = endpoints.iter().find_map(|value| value.strip_prefix("grpc://"));
    let argument = json!({
        "url": node.url(), "service": service.expect("the banner has the service"), "via": PROXY, "scs": scs_path(),
        "folder": folder.path().join("scs"), "compiled": workspace().join("contracts/compiled.json"), "chainId": 100,
        "accounts": accounts(&node.banner()),
    });
    let result = clients.run_within(LIFE_TIMEOUT, "scs-life.mjs", &argument);
    assert_eq!(result["transactions"], 200);
    assert_eq!(
        result["joined"], true,
        "the backup is a member after the second flush"
    );
}
