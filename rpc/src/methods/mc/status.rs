//! Facts about the node and its chain as a whole (docs/interface.md, 4.4).

use primitives::U256;
use serde::Serialize;

use super::price::gas_price;
use crate::error::RpcResult;
use crate::facts::{NodeFacts, SyncedState};
use crate::node::Node;
use crate::table::Method;
use crate::types::Quantity;
use crate::wire_type::{Described, WireType};

/// Version 63 of the protocol between nodes, as a QUANTITY.
const PROTOCOL_VERSION: &str = "0x3f";

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_protocolVersion", [], protocol_version)
            .summary("Returns the version of the protocol between nodes."),
        Method::inline("mc_chainId", [], chain_id)
            .summary("Returns the chain id that transactions are signed for."),
        Method::reading("mc_syncing", [], syncing).summary(
            "Returns the progress of a download of the chain, or false if nothing is being \
             downloaded.",
        ),
        Method::blocking("mc_gasPrice", [], suggested_gas_price)
            .summary("Returns a suggested gas price in sha: the median of what the last blocks paid."),
    ]
}

/// `mc_protocolVersion`.
const fn protocol_version(_: &Node) -> RpcResult<&'static str> {
    Ok(PROTOCOL_VERSION)
}

/// `mc_chainId`.
fn chain_id(node: &Node) -> RpcResult<Quantity> {
    Ok(Quantity(node.chain.chain_id()))
}

/// The answer of `mc_syncing` (docs/interface.md, 2.7).
#[derive(Serialize)]
#[serde(untagged)]
enum SyncingAnswer {
    /// Nothing is downloaded. Always `false`.
    Idle(bool),
    /// A download is running.
    #[serde(rename_all = "camelCase")]
    Running {
        starting_block: Quantity,
        current_block: Quantity,
        highest_block: Quantity,
        /// The state that is fetched, under geth's names.
        #[serde(flatten)]
        state: Option<SyncedStateAnswer>,
    },
}

/// The state that is fetched, under geth's names.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SyncedStateAnswer {
    synced_accounts: Quantity,
    synced_account_bytes: Quantity,
    synced_storage: Quantity,
    synced_storage_bytes: Quantity,
    synced_bytecodes: Quantity,
    synced_bytecode_bytes: Quantity,
    healed_trienodes: Quantity,
    healed_trienode_bytes: Quantity,
}

impl From<SyncedState> for SyncedStateAnswer {
    fn from(state: SyncedState) -> Self {
        Self {
            synced_accounts: Quantity(state.accounts),
            synced_account_bytes: Quantity(state.account_bytes),
            synced_storage: Quantity(state.slots),
            synced_storage_bytes: Quantity(state.slot_bytes),
            synced_bytecodes: Quantity(state.codes),
            synced_bytecode_bytes: Quantity(state.code_bytes),
            healed_trienodes: Quantity(state.healed),
            healed_trienode_bytes: Quantity(state.healed_bytes),
        }
    }
}

impl Described for SyncingAnswer {
    const TYPE: WireType = WireType::OneOf(&[WireType::Named("SyncStatus"), <bool as Described>::TYPE]);
}

/// `mc_syncing`: false, or how far the download is.
fn syncing(node: &Node) -> RpcResult<SyncingAnswer> {
    let Some(status) = node.sync_status() else {
        return Ok(SyncingAnswer::Idle(false));
    };
    Ok(SyncingAnswer::Running {
        starting_block: Quantity(status.starting_block),
        current_block: Quantity(node.view()?.head_number()),
        highest_block: Quantity(status.highest_block),
        state: status.state.map(SyncedStateAnswer::from),
    })
}

/// `mc_gasPrice`.
fn suggested_gas_price(node: &Node) -> RpcResult<Quantity<U256>> {
    gas_price(node).map(Quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_states() {
        let check = |answer: SyncingAnswer, expected: &str| {
            assert_eq!(serde_json::to_string(&answer).expect("JSON"), expected);
        };
        check(SyncingAnswer::Idle(false), "false");
        let running = |state: Option<SyncedState>| SyncingAnswer::Running {
            starting_block: Quantity(1),
            current_block: Quantity(16),
            highest_block: Quantity(255),
            state: state.map(SyncedStateAnswer::from),
        };
        check(
            running(None),
            r#"{"startingBlock":"0x1","currentBlock":"0x10","highestBlock":"0xff"}"#,
        );
        let state = SyncedState {
            accounts: 5,
            slots: 6,
            codes: 7,
            healed: 0,
            account_bytes: 80,
            slot_bytes: 160,
            code_bytes: 255,
            healed_bytes: 1,
        };
        check(
            running(Some(state)),
            r#"{"startingBlock":"0x1","currentBlock":"0x10","highestBlock":"0xff","syncedAccounts":"0x5","syncedAccountBytes":"0x50","syncedStorage":"0x6","syncedStorageBytes":"0xa0","syncedBytecodes":"0x7","syncedBytecodeBytes":"0xff","healedTrienodes":"0x0","healedTrienodeBytes":"0x1"}"#,
        );
    }
}
