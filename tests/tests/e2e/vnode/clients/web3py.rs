//! `PyPI` `web3`, which uses the `eth_` aliases.

use e2e::clients::python;
use e2e::contract::counter;
use e2e::ledger::{COIN, STRANGER};
use e2e::to_quantity;
use serde_json::json;

use super::{account, check_contract, mining};

#[test]
fn web3_py_reads_sends_deploys_and_finds_logs() {
    let Some(clients) = python() else { return };
    let node = mining();
    let (from, key) = account(&node, 5);
    let result = clients.run(
        "web3_client.py",
        &json!({
            "url": node.url(), "socket": node.socket(), "key": key, "to": STRANGER,
            "value": to_quantity(COIN), "counter": counter(),
        }),
    );
    check_contract(&node, &result, &from);
}
