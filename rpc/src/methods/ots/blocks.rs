//! Blocks as Otterscan shows them: without logs, and with their transactions in pages.

use std::sync::Arc;

use chain::View;
use chain::rules::order::ExecutionOrder;
use chain::rules::payment::BlockPayment;
use primitives::{B256, U256};
use serde::Serialize;
use serde_json::Value;

use crate::block_cache::CachedBlock;
use crate::budget::reserve_values;
use crate::error::{RpcError, RpcResult, failure};
use crate::json::JsonOf;
use crate::methods::mc::{FoundBlock, receipt_object, total_fees};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::table::{Method, ReadScope};
use crate::types::{BlockRef, Count, Quantity};
use crate::wire_type::{Described, WireType};

/// The most transactions of a page.
pub(super) const PAGE_MAX: u64 = 100;
/// Bytes of an object in memory for each byte of a block.
const VALUE_FACTOR: usize = 16;
/// Digits of a selector, with the prefix.
const SELECTOR_DIGITS: usize = 10;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("ots_getBlockDetails", ["block"], details_by_number)
            .summary("Returns a block without its transactions, its rewards, and the fees that it got."),
        Method::blocking("ots_getBlockDetailsByHash", ["hash"], details_by_hash)
            .summary("Returns a block without its transactions, its rewards, and the fees that it got."),
        Method::blocking("ots_getBlockTransactions", ["block", "page", "pageSize"], block_transactions).summary(
            "Returns a page of a block's transactions, and their receipts without logs. Page 0 has the last ones.",
        ),
    ]
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtsBlockDetails {
    block: Value,
    issuance: OtsIssuance,
    total_fees: Quantity<U256>,
}

impl Described for OtsBlockDetails {
    const TYPE: WireType = WireType::Named("OtsBlockDetails");
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtsIssuance {
    block_reward: Quantity<U256>,
    uncle_reward: Quantity<U256>,
    issuance: Quantity<U256>,
}

/// A page of transactions.
#[derive(Serialize)]
struct OtsTransactions {
    fullblock: Value,
    receipts: Vec<Value>,
}

impl Described for OtsTransactions {
    const TYPE: WireType = WireType::Named("OtsTransactions");
}

/// The JSON of a value whose memory was reserved.
pub(super) fn to_value(value: &impl Serialize) -> RpcResult<Value> {
    serde_json::to_value(value).map_err(failure)
}

/// The stored block that `at` names.
fn stored(node: &Node, view: &View, at: BlockRef) -> RpcResult<Option<Arc<CachedBlock>>> {
    match FoundBlock::by_reference(node, view, at, ReadScope::Store)? {
        Some(FoundBlock::Stored(block)) => Ok(Some(block)),
        Some(FoundBlock::Pending { .. }) => Err(RpcError::refused("the pending block has no details")),
        None => Ok(None),
    }
}

/// The block with its number of transactions, and with their objects if `full`.
fn block_value(block: &Arc<CachedBlock>, full: bool) -> RpcResult<Value> {
    reserve_values(VALUE_FACTOR * block.block.size())?;
    let found = FoundBlock::Stored(Arc::clone(block));
    let mut value = to_value(&found.object(full, NameStyle::Ethereum))?;
    value["transactionCount"] = block.block.transactions.len().into();
    value["logsBloom"] = Value::Null;
    Ok(value)
}

/// The receipts of a block's transactions from `first` to before `last`, without logs.
pub(super) fn receipt_values(
    node: &Node,
    view: &View,
    block: &CachedBlock,
    indexes: impl Iterator<Item = usize>,
) -> RpcResult<Vec<Value>> {
    let id = block.id();
    let receipts = node.blocks.receipts(&node.chain, view, &id)?.unwrap_or_default();
    let order = ExecutionOrder::of(node.chain.spec(), id.number, &block.block.transactions);
    let mut values = Vec::new();
    for index in indexes {
        // A system transaction that was left out has no receipt.
        let Some(object) = receipt_object(node, block, index, (&order, &receipts), NameStyle::Ethereum)?
        else {
            continue;
        };
        reserve_values(VALUE_FACTOR * size_of::<Value>())?;
        let mut value = to_value(&object.without_logs())?;
        value["logs"] = Value::Null;
        value["logsBloom"] = Value::Null;
        values.push(value);
    }
    Ok(values)
}

/// `ots_getBlockDetails`: null if there is no such block.
fn details_by_number(node: &Node, (at,): (BlockRef,)) -> RpcResult<JsonOf<Option<OtsBlockDetails>>> {
    let view = node.view()?;
    let block = stored(node, &view, at)?;
    details(node, &view, block.as_ref())
}

/// `ots_getBlockDetailsByHash`: null if there is no such block.
fn details_by_hash(node: &Node, (hash,): (B256,)) -> RpcResult<JsonOf<Option<OtsBlockDetails>>> {
    let at = BlockRef::Hash {
        hash,
        require_canonical: false,
    };
    details_by_number(node, (at,))
}

fn details(
    node: &Node,
    view: &View,
    block: Option<&Arc<CachedBlock>>,
) -> RpcResult<JsonOf<Option<OtsBlockDetails>>> {
    let Some(block) = block else {
        return JsonOf::write(&None::<OtsBlockDetails>);
    };
    let mut value = block_value(block, false)?;
    if let Some(members) = value.as_object_mut() {
        members.remove("transactions");
    }
    JsonOf::write(&Some(OtsBlockDetails {
        block: value,
        issuance: issuance(node, block),
        total_fees: Quantity(total_fees(node, view, block)?),
    }))
}

fn issuance(node: &Node, block: &CachedBlock) -> OtsIssuance {
    let payment = BlockPayment::of(node.chain.spec(), block.block.header.number, &block.block.uncles);
    OtsIssuance {
        block_reward: Quantity(payment.miner),
        uncle_reward: Quantity(payment.of_uncles()),
        issuance: Quantity(payment.miner + payment.of_uncles()),
    }
}

/// Refuses a page that is empty or too long.
pub(super) fn check_page(index: usize, size: u64) -> RpcResult<usize> {
    match usize::try_from(size) {
        Ok(found @ 1..) if size <= PAGE_MAX => Ok(found),
        _ => Err(RpcError::invalid_argument(
            index,
            format_args!("got {size}, expected 1 to {PAGE_MAX}"),
        )),
    }
}

/// `ots_getBlockTransactions`: null if there is no such block.
fn block_transactions(
    node: &Node,
    (at, Count(page), Count(size)): (BlockRef, Count, Count),
) -> RpcResult<JsonOf<Option<OtsTransactions>>> {
    let size = check_page(2, size)?;
    let view = node.view()?;
    let Some(block) = stored(node, &view, at)? else {
        return JsonOf::write(&None::<OtsTransactions>);
    };
    let count = block.block.transactions.len();
    let skipped = usize::try_from(page).unwrap_or(usize::MAX).saturating_mul(size);
    let end = count.saturating_sub(skipped);
    let start = end.saturating_sub(size);
    let mut fullblock = block_value(&block, true)?;
    if let Some(transactions) = fullblock["transactions"].as_array_mut() {
        transactions.truncate(end);
        transactions.drain(..start.min(transactions.len()));
        for transaction in transactions {
            if let Some(input) = transaction["input"].as_str() {
                transaction["input"] = input[..input.len().min(SELECTOR_DIGITS)].into();
            }
        }
    }
    let receipts = receipt_values(node, &view, &block, start..end)?;
    JsonOf::write(&Some(OtsTransactions { fullblock, receipts }))
}
