//! Whole states and parts of storages: `debug_dumpBlock`, `debug_storageRangeAt`.

use chain::View;
use chain::state::scan::{self, WalkedAccount, WalkedSlot};
use chain::trace::{StorageEntry, TIMEOUT_DEFAULT};
use primitives::{Address, B256};
use serde::Serialize;

use super::trace::trace_error;
use crate::budget::{query_limit, reserve_values};
use crate::error::{RpcError, RpcResult, failure};
use crate::json::{JsonMembers, JsonOf};
use crate::methods::mc::{Word, stored_number};
use crate::node::Node;
use crate::table::Method;
use crate::types::{BlockRef, Count, Data};
use crate::wire_type::{Described, WireType};

/// A state with more accounts and slots, counted together, is not dumped.
const DUMP_ROWS_MAX: usize = 100_000;
/// Bytes of an account in a dump that is being made, without code and slots.
const ACCOUNT_LEN: usize = 1000;
/// Bytes of a slot in a dump that is being made.
const SLOT_LEN: usize = 300;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("debug_dumpBlock", ["block"], dump_block)
            .summary("Returns the whole state after a block, if the state is small."),
        Method::heavy(
            "debug_storageRangeAt",
            ["hash", "index", "address", "from", "limit"],
            storage_range,
        )
        .summary(
            "Returns a part of a contract's storage before a transaction of a block. The slots \
             are sorted by the hashes of their keys.",
        ),
    ]
}

/// The answer of `debug_dumpBlock`.
#[derive(Serialize)]
struct StateDump {
    root: Data<B256>,
    accounts: JsonMembers<DumpAccount>,
}

impl Described for StateDump {
    const TYPE: WireType = WireType::Named("Dump");
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DumpAccount {
    /// Decimal digits.
    balance: String,
    nonce: u64,
    root: Data<B256>,
    code_hash: Data<B256>,
    code: Data,
    storage: JsonMembers<Data<B256>>,
}

/// An account with all that belongs to it.
pub(in crate::methods) struct WholeAccount {
    /// The account as it stands in the state.
    pub(in crate::methods) account: WalkedAccount,
    /// Its slots that are not zero, in the order of their numbers.
    pub(in crate::methods) slots: Vec<WalkedSlot>,
    /// Its code.
    pub(in crate::methods) code: Vec<u8>,
}

/// The accounts after block `number`, in the order of their addresses.
///
/// # Errors
/// A refusal if the state is too large for an answer.
pub(in crate::methods) fn whole_state(node: &Node, view: &View, number: u64) -> RpcResult<Vec<WholeAccount>> {
    let mut found = Vec::new();
    let mut memory = Ok(());
    let whole = scan::small_state(view.snapshot(), number, DUMP_ROWS_MAX, |account, slots| {
        if memory.is_ok() {
            memory = reserve_values(ACCOUNT_LEN + SLOT_LEN * slots.len());
        }
        if memory.is_ok() {
            found.push((account, slots));
        }
    });
    let whole = whole.map_err(failure)?;
    memory?;
    if !whole {
        return Err(RpcError::refused(format!(
            "the state has more than {DUMP_ROWS_MAX} accounts and slots: `vnode dump` writes it to a file"
        )));
    }
    found.sort_unstable_by_key(|(account, _)| account.address);
    let len_max = node.settings.response_len_max;
    let mut accounts = Vec::new();
    let mut code_len = 0;
    for (account, mut slots) in found {
        let code = view.code_by_hash(&account.account.code_hash).map_err(failure)?;
        slots.sort_unstable_by_key(|slot| slot.slot);
        // There are few accounts, but each may have code of the greatest length. A byte takes two
        // digits.
        code_len += 2 * code.len();
        if code_len > len_max {
            return Err(RpcError::too_long("", len_max));
        }
        reserve_values(code.len())?;
        accounts.push(WholeAccount { account, slots, code });
    }
    Ok(accounts)
}

/// `debug_dumpBlock`.
fn dump_block(node: &Node, (at,): (BlockRef,)) -> RpcResult<JsonOf<StateDump>> {
    let view = node.view()?;
    let number = stored_number(&view, at, "dump")?;
    let header = view.header(number).map_err(failure)?;
    let (_, header) = header.ok_or_else(|| RpcError::refused(format!("block #{number} not found")))?;
    view.require_state(number).map_err(RpcError::refused_by)?;
    let mut accounts = Vec::new();
    for WholeAccount { account, slots, code } in whole_state(node, &view, number)? {
        let record = account.account;
        let object = DumpAccount {
            balance: record.balance.to_string(),
            nonce: record.tx_nonce,
            root: Data(record.storage_root),
            code_hash: Data(record.code_hash),
            code: Data(code),
            storage: slots
                .into_iter()
                .map(|slot| (slot.name(), Data(B256::from(slot.value))))
                .collect(),
        };
        accounts.push((account.name(), object));
    }
    let dump = StateDump {
        root: Data(header.header.state_root),
        accounts: accounts.into_iter().collect(),
    };
    JsonOf::write(&dump)
}

/// The answer of `debug_storageRangeAt`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StorageRangeObject {
    storage: JsonMembers<StorageEntryObject>,
    next_key: Option<Data<B256>>,
}

impl Described for StorageRangeObject {
    const TYPE: WireType = WireType::Named("StorageRange");
}

#[derive(Serialize)]
struct StorageEntryObject {
    /// `null` if only the hash of the number is known.
    key: Option<Data<B256>>,
    value: Data<B256>,
}

/// `debug_storageRangeAt`: the storage as it was before the transaction `index` of the block.
fn storage_range(
    node: &Node,
    (hash, Count(index), address, Word(from), Count(limit)): (B256, Count, Address, Word, Count),
) -> RpcResult<StorageRangeObject> {
    let view = node.view()?;
    let block = view.block_by_hash(&hash).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("block {hash:#x} not found")))?;
    let as_size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let range = view.storage_range(
        &block,
        as_size(index),
        &address,
        B256::from(from),
        as_size(limit),
        query_limit(TIMEOUT_DEFAULT),
    );
    let range = range.map_err(trace_error)?;
    let show = |entry: StorageEntry| {
        let object = StorageEntryObject {
            key: entry.slot.map(|slot| Data(B256::from(slot))),
            value: Data(B256::from(entry.value)),
        };
        (crate::types::data(entry.hash), object)
    };
    Ok(StorageRangeObject {
        storage: range.entries.into_iter().map(show).collect(),
        next_key: range.next.map(Data),
    })
}
