//! The life of a MicroChain with real processes: VNODEs, three SCSs, a monitor and a backup. With
//! one VNODE, and with two that are peers.

use std::time::Duration;

use e2e::binary::workspace;
use e2e::clients::javascript;
use e2e::{scs_path, vnode_path};
use serde_json::{Value, json};

use crate::application_chains::stage::{OTHER_PROXY, PROXY, free_port};

/// Longest time of the script: two rounds of the base chain, one block a second, and a turn.
const LIFE_TIMEOUT: Duration = Duration::from_secs(1200);

/// Lives over a VNODE for each of these payees. The first one mines.
fn live(payees: &[&str]) {
    let Some(clients) = javascript() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let vnode = |via: &&str| json!({"port": free_port(), "service": format!("127.0.0.1:{}", free_port()), "via": via});
    let vnodes: Vec<Value> = payees.iter().map(vnode).collect();
    let argument = json!({
        "vnode": vnode_path(), "scs": scs_path(), "vnodes": vnodes, "folder": folder.path(),
        "compiled": workspace().join("contracts/compiled.json"), "chainId": 100,
    });
    let result = clients.run_within(LIFE_TIMEOUT, "scs-life.mjs", &argument);
    assert_eq!(result["transactions"], 200);
    assert_eq!(
        result["joined"], true,
        "the backup is a member after the second flush"
    );
}

#[test]
#[ignore = "side_by_side runs it"]
pub(crate) fn a_microchain_lives_to_its_second_flush() {
    live(&[PROXY]);
}

#[test]
#[ignore = "side_by_side runs it"]
pub(crate) fn a_microchain_lives_over_two_vnodes() {
    live(&[PROXY, OTHER_PROXY]);
}
