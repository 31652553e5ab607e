//! npm `ethers`, which uses the `eth_` aliases.

use e2e::clients::javascript;
use e2e::contract::counter;
use e2e::ledger::{COIN, STRANGER};
use e2e::to_quantity;
use serde_json::json;

use super::{account, check_contract, mining};

#[test]
fn ethers_reads_sends_deploys_and_receives_events() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let (from, key) = account(&node, 3);
    let result = clients.run(
        "ethers.mjs",
        &json!({"url": node.url(), "key": key, "to": STRANGER, "value": to_quantity(COIN), "counter": counter()}),
    );
    assert_eq!(result["status"], json!(1));
    check_contract(&node, &result, &from);
    assert_eq!(result["heard"], json!(["0x7", "0x7"]));
}
