//! npm `viem`, which uses the `eth_` aliases.

use e2e::Vnode;
use e2e::clients::javascript;
use e2e::contract::counter;
use e2e::ledger::{COIN, MINER, STRANGER};
use e2e::to_quantity;
use serde_json::json;

use super::{account, check_contract};

#[test]
fn viem_reads_sends_deploys_and_receives_events() {
    let Some(clients) = javascript() else { return };
    let node = Vnode::with_blocks(["--moacbase", MINER, "--ws", "--wsport", "0"]);
    node.wait_for_head(1);
    let (from, key) = account(&node, 4);
    let result = clients.run(
        "viem.mjs",
        &json!({
            "url": node.url(),
            "ws": format!("ws://{}", node.ws_address()),
            "key": key,
            "to": STRANGER,
            "value": to_quantity(COIN),
            "counter": counter(),
            "unlocked": node.accounts()[0],
        }),
    );
    check_contract(&node, &result, &from);
    assert_eq!(result["heard"], json!(["0x7", "0x7"]));
}
