//! An SCS process and a VNODE made from the table of messages (docs/scs-wire.md, 1) by another
//! implementation of gRPC. The other way round is in `tests/vnode/clients`.

use e2e::binary::workspace;
use e2e::clients::javascript;
use e2e::scs_path;
use serde_json::{Value, json};

#[test]
fn an_scs_works_with_a_vnode_that_others_wrote() {
    let Some(clients) = javascript() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let argument = json!({
        "scs": scs_path(), "folder": folder.path().join("scs"), "chainId": 100,
        "compiled": workspace().join("contracts/compiled.json"),
    });
    let result = clients.run("scs-vnode-stub.mjs", &argument);
    let id = result["id"].as_str().expect("an id");
    assert!(id.len() == 42 && *id == id.to_lowercase(), "{id}");
    assert_eq!(result["handshake"]["chainId"], 100);
    assert_eq!(result["handshake"]["capability"], 7);
    assert_eq!((&result["sender"], &result["agreed"]), (&json!(id), &json!(id)));
    assert_eq!(result["beneficiary"], format!("0x{}", "0".repeat(40)));
    assert_eq!(
        result["unknown"],
        json!([]),
        "functions that a chain base does not have"
    );
    assert_eq!(result["code"], 0, "the end after SIGINT");
    assert!(result["handshakes"].as_u64() >= Some(2), "{}", result as Value);
}
