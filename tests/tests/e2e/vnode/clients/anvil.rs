//! `anvil`, whose traces of the same transactions must be the same.

use e2e::clients::javascript;
use e2e::{Vnode, note};
use serde_json::json;

#[test]
fn anvil_traces_the_same() {
    let Some(libraries) = javascript() else { return };
    let apis = "chain3,mc,net,evm,anvil,debug,trace";
    let node = Vnode::dev(["--dev.seal", "instant", "--rpcapi", apis]);
    let result = libraries.run("anvil.mjs", &json!({"url": node.url()}));
    note(&format!("compared {} traces with anvil's", result["compared"]));
    assert!(
        result["compared"].as_u64().is_some_and(|count| count > 60),
        "{result}"
    );
    assert_eq!(result["differences"], json!([]));
}
