//! The calls and events that the explorer of the dashboard reads by ABIs, compared with npm
//! `ethers`.

use std::path::Path;

use e2e::clients::javascript;
use serde_json::json;

#[test]
fn the_explorer_reads_calls_and_events_as_ethers_does() {
    let Some(libraries) = javascript() else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../miner/engine/src/dashboard/page");
    let result = libraries.run("abi.mjs", &json!({"page": page}));
    assert!(
        result["compared"].as_u64().is_some_and(|count| count >= 400),
        "{result}"
    );
}
