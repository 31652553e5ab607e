//! Hardhat and Foundry: the sample projects that they make for their users pass on this node.

use e2e::clients::frameworks;
use e2e::{Vnode, note};
use serde_json::json;

#[test]
fn sample_projects_of_hardhat_and_foundry_pass() {
    let Some(programs) = frameworks() else { return };
    let node = Vnode::dev(["--dev.anvil"]);
    let version = node.rpc("web3_clientVersion", json!([]));
    assert!(
        version
            .as_str()
            .is_some_and(|version| version.starts_with("anvil/vnode/")),
        "{version}"
    );
    let folder = tempfile::tempdir().expect("a temporary directory");
    let argument = json!({"url": node.url(), "folder": folder.path()});
    let result = programs.run("samples.mjs", &argument);
    note(&result.to_string());
    assert_eq!(result["hardhat"], json!({"passed": 9, "failed": 0}));
    let foundry = json!({"passed": 2, "failed": 0, "deployed": true});
    assert_eq!(result["foundry"], foundry);
}
