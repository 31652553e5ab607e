//! npm `web3`, which uses the `eth_` aliases.

use e2e::clients::javascript;
use e2e::contract::counter;
use e2e::ledger::{COIN, STRANGER};
use e2e::to_quantity;
use serde_json::json;

use super::{account, check_contract, mining};

#[test]
fn web3_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let (from, key) = account(&node, 4);
    let result = clients.run(
        "web3.mjs",
        &json!({"url": node.url(), "key": key, "to": STRANGER, "value": to_quantity(COIN), "counter": counter()}),
    );
    assert_eq!(result["status"], json!("0x1"));
    check_contract(&node, &result, &from);
}
