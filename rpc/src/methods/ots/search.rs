//! The transactions of an account, the one of a nonce, and the one that created a contract.
//!
//! The store knows which blocks changed an account. So a search visits those blocks only. It does
//! not find transactions that only read an account or fail in it, unless the account sent them. A
//! node with an index by address finds these, too, and runs nothing again but the blocks that are
//! not indexed yet.

use std::sync::Arc;

use chain::View;
use chain::trace::{CallFrame, Trace, TraceRequest};
use history::Roles;
use primitives::{Address, B256, Transaction};
use serde::Serialize;
use serde_json::Value;

use super::blocks::{check_page, receipt_values, to_value};
use super::traces::{request, walk};
use crate::block_cache::CachedBlock;
use crate::budget::run_part;
use crate::error::{RpcError, RpcResult, failure};
use crate::indexed::IndexedPast;
use crate::json::JsonOf;
use crate::methods::debug::trace_error;
use crate::methods::mc::FoundBlock;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::shown_hash;
use crate::table::Method;
use crate::types::{Count, Data};
use crate::wire_type::{Described, WireType};

/// The parts of an account that make a transaction one of its own.
const TOOK_PART: Roles = Roles::END.or(Roles::CALL);
/// The most blocks that one search looks at.
const BLOCKS_MAX: usize = 10_000;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy(
            "ots_searchTransactionsBefore",
            ["address", "block", "pageSize"],
            search_before,
        )
        .summary(
            "Returns the last transactions below a block that changed an account, the newest first. \
             Block 0 stands for the end of the chain.",
        ),
        Method::heavy(
            "ots_searchTransactionsAfter",
            ["address", "block", "pageSize"],
            search_after,
        )
        .summary(
            "Returns the first transactions above a block that changed an account, the newest first. \
             Block 0 stands for the beginning of the chain.",
        ),
        Method::heavy(
            "ots_getTransactionBySenderAndNonce",
            ["address", "nonce"],
            by_sender_and_nonce,
        )
        .summary("Returns the hash of an account's transaction with a nonce."),
        Method::heavy("ots_getContractCreator", ["address"], contract_creator)
            .summary("Returns the hash of the transaction that created a contract, and who created it."),
    ]
}

/// Transactions of an account with their receipts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtsPage {
    txs: Vec<Value>,
    receipts: Vec<Value>,
    first_page: bool,
    last_page: bool,
}

impl Described for OtsPage {
    const TYPE: WireType = WireType::Named("OtsPage");
}

/// `ots_searchTransactionsBefore`.
fn search_before(
    node: &Node,
    (address, Count(block), Count(size)): (Address, Count, Count),
) -> RpcResult<JsonOf<OtsPage>> {
    let size = check_page(2, size)?;
    let view = node.view()?;
    let first = if block == 0 { view.head_number() + 1 } else { block };
    let past = IndexedPast::of(node, &view)?;
    let (mut page, has_more) = search(node, &view, past.as_ref(), &address, size, first, |at| {
        let changed = view.account_change_before(&address, at).map_err(failure)?;
        match &past {
            Some(past) if changed.is_none_or(|number| number < past.end()) => {
                past.before(&address, TOOK_PART, at)
            }
            _ => Ok(changed),
        }
    })?;
    page.first_page = block == 0;
    page.last_page = !has_more;
    JsonOf::write(&page)
}

/// `ots_searchTransactionsAfter`.
fn search_after(
    node: &Node,
    (address, Count(block), Count(size)): (Address, Count, Count),
) -> RpcResult<JsonOf<OtsPage>> {
    let size = check_page(2, size)?;
    let view = node.view()?;
    let past = IndexedPast::of(node, &view)?;
    let (mut page, has_more) = search(node, &view, past.as_ref(), &address, size, block, |at| {
        let searched = match &past {
            Some(past) => {
                let found = past.since(&address, TOOK_PART, at.saturating_add(1))?;
                if found.is_some() {
                    return Ok(found);
                }
                at.max(past.end().saturating_sub(1))
            }
            None => at,
        };
        view.account_change_after(&address, searched).map_err(failure)
    })?;
    // The blocks were found upwards, and the transactions of each downwards.
    let number = |value: &Value| {
        value["blockNumber"]
            .as_str()
            .map(|text| (text.len(), text.to_owned()))
    };
    page.txs.sort_by_key(|value| std::cmp::Reverse(number(value)));
    page.receipts
        .sort_by_key(|value| std::cmp::Reverse(number(value)));
    page.first_page = !has_more;
    page.last_page = block == 0;
    JsonOf::write(&page)
}

/// The transactions of an account in the blocks that `next` names one after the other, until there
/// are at least `size`. Also returns whether `next` has more blocks.
fn search(
    node: &Node,
    view: &View,
    past: Option<&IndexedPast<'_>>,
    address: &Address,
    size: usize,
    first: u64,
    next: impl Fn(u64) -> RpcResult<Option<u64>>,
) -> RpcResult<(OtsPage, bool)> {
    let mut page = OtsPage {
        txs: Vec::new(),
        receipts: Vec::new(),
        first_page: false,
        last_page: false,
    };
    let (request, mut at) = (request(node), first);
    for _ in 0..BLOCKS_MAX {
        request.limit.check().map_err(RpcError::refused_by)?;
        let Some(number) = next(at)? else {
            return Ok((page, false));
        };
        at = number;
        if page.txs.len() >= size {
            return Ok((page, true));
        }
        add_block(node, view, past, address, number, &request, &mut page)?;
    }
    Err(RpcError::refused(format!(
        "no page of {size} transactions in {BLOCKS_MAX} blocks that changed the account: got {}",
        page.txs.len()
    )))
}

/// Adds the transactions of block `number` that an account takes part in, the last one first.
fn add_block(
    node: &Node,
    view: &View,
    past: Option<&IndexedPast<'_>>,
    address: &Address,
    number: u64,
    request: &TraceRequest,
    page: &mut OtsPage,
) -> RpcResult<()> {
    let missing = || failure(format_args!("block {number} is below the head and not stored"));
    let hash = view
        .canonical_hash(number)
        .map_err(failure)?
        .ok_or_else(missing)?;
    let block: Arc<CachedBlock> = node
        .blocks
        .by_hash(&node.chain, view, &hash)?
        .ok_or_else(missing)?;
    let indexed = past.map(|past| past.transactions(address, TOOK_PART, number));
    let mut indexes = match indexed.transpose()?.flatten() {
        Some(indexes) => indexes,
        None => run_part(|| taking_part(view, &block, address, request))?,
    };
    indexes.reverse();
    let found = FoundBlock::Stored(Arc::clone(&block));
    for index in &indexes {
        if let Some(object) = found.transaction(*index, NameStyle::Ethereum) {
            page.txs.push(to_value(&object)?);
        }
    }
    for mut receipt in receipt_values(node, view, &block, indexes.into_iter())? {
        receipt["timestamp"] = block.block.header.timestamp.into();
        page.receipts.push(receipt);
    }
    Ok(())
}

/// The indexes of the transactions in which an account is the sender, or one end of a call.
fn taking_part(
    view: &View,
    block: &CachedBlock,
    address: &Address,
    request: &TraceRequest,
) -> RpcResult<Vec<usize>> {
    let transactions = &block.block.transactions;
    if transactions.is_empty() {
        return Ok(Vec::new());
    }
    let is_end = |(transaction, sender): (&Transaction, &Address)| {
        sender == address || transaction.to.as_ref() == Some(address)
    };
    let ends: Vec<bool> = transactions.iter().zip(&block.senders).map(is_end).collect();
    // Only a run tells which accounts the calls of the other transactions reach.
    let stored = view.block_by_hash(&block.hash).map_err(failure)?;
    let traces = match stored {
        Some(stored) if !ends.iter().all(|is_end| *is_end) => {
            view.trace_block(&stored, request).map_err(trace_error)?
        }
        _ => Vec::new(),
    };
    let reaches =
        |index: usize| matches!(traces.get(index), Some(Trace::Calls(top)) if reaches(top, address));
    Ok((0..transactions.len())
        .filter(|index| ends[*index] || reaches(*index))
        .collect())
}

/// Whether an account is one end of a call.
fn reaches(top: &CallFrame, address: &Address) -> bool {
    let mut found = false;
    walk(top, |frame, _, _| {
        found |= frame.from == *address || frame.to == Some(*address)
    });
    found
}

/// `ots_getTransactionBySenderAndNonce`: null if the account has not sent it.
fn by_sender_and_nonce(
    node: &Node,
    (address, Count(tx_nonce)): (Address, Count),
) -> RpcResult<Option<Data<B256>>> {
    let view = node.view()?;
    let Some(number) = view.block_of_nonce(&address, tx_nonce).map_err(failure)? else {
        return Ok(None);
    };
    let Some(block) = view.block(number).map_err(failure)? else {
        return Ok(None);
    };
    let mut sent = block.body.transactions.iter().zip(&block.body.senders);
    let found = sent.find(|(transaction, sender)| **sender == address && transaction.tx_nonce == tx_nonce);
    Ok(found.map(|(transaction, _)| Data(shown_hash(transaction, NameStyle::Ethereum))))
}

/// The creation of a contract.
#[derive(Serialize)]
struct OtsCreator {
    hash: Data<B256>,
    creator: Data<Address>,
}

impl Described for OtsCreator {
    const TYPE: WireType = WireType::Named("OtsCreator");
}

/// `ots_getContractCreator`: null if there is no contract, or no transaction created it.
fn contract_creator(node: &Node, (address,): (Address,)) -> RpcResult<Option<OtsCreator>> {
    let view = node.view()?;
    let Some(number) = view.block_of_code(&address).map_err(failure)? else {
        return Ok(None);
    };
    let Some(block) = view.block(number).map_err(failure)? else {
        return Ok(None);
    };
    let traces = view.trace_block(&block, &request(node)).map_err(trace_error)?;
    for (transaction, trace) in block.body.transactions.iter().zip(&traces) {
        let Trace::Calls(top) = trace else { continue };
        let mut creator = None;
        walk(top, |frame, _, failed| {
            let creates = matches!(frame.kind, "CREATE" | "CREATE2") && frame.to == Some(address);
            if creates && !failed {
                creator = Some(frame.from);
            }
        });
        if let Some(creator) = creator {
            return Ok(Some(OtsCreator {
                hash: Data(shown_hash(transaction, NameStyle::Ethereum)),
                creator: Data(creator),
            }));
        }
    }
    Ok(None)
}
