//! Transactions and receipts (docs/interface.md, 4.4).
//!
//! A transaction is found by its own hash. A transaction that was sent in nine fields is also found
//! by the hash that Ethereum's libraries compute. A look-up that finds nothing returns null.

use std::sync::Arc;

use chain::View;
use chain::pool::PooledTransaction;
use chain::rules::order::ExecutionOrder;
use primitives::{B256, Receipt, Transaction};

use super::lookup::FoundBlock;
use crate::block_cache::CachedBlock;
use crate::budget::reserve_values;
use crate::error::{RpcResult, failure};
use crate::json::JsonOf;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{ReceiptObject, TransactionObject, TransactionPlace};
use crate::table::{InlineError, Method, ReadScope};
use crate::types::{BlockRef, Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::cached("mc_getTransactionByHash", ["hash"], by_hash)
            .summary("Returns a transaction in a block or in the pool."),
        Method::cached(
            "mc_getTransactionByBlockHashAndIndex",
            ["hash", "index"],
            by_block_hash,
        )
        .summary("Returns a transaction of a block."),
        Method::cached(
            "mc_getTransactionByBlockNumberAndIndex",
            ["block", "index"],
            by_block_number,
        )
        .summary("Returns a transaction of a block."),
        Method::cached("mc_getTransactionReceipt", ["hash"], receipt)
            .summary("Returns the receipt of a transaction in a block."),
        Method::blocking("mc_getBlockReceipts", ["block"], block_receipts)
            .summary("Returns the receipts of all transactions of a block. The pending block has none yet."),
        Method::cached("mc_getRawTransactionByHash", ["hash"], raw_by_hash)
            .summary("Returns the bytes of a transaction in a block or in the pool."),
        Method::cached(
            "mc_getRawTransactionByBlockHashAndIndex",
            ["hash", "index"],
            raw_by_block_hash,
        )
        .summary("Returns the bytes of a transaction of a block."),
        Method::cached(
            "mc_getRawTransactionByBlockNumberAndIndex",
            ["block", "index"],
            raw_by_block_number,
        )
        .summary("Returns the bytes of a transaction of a block."),
    ]
}

/// A transaction as JSON, or null.
type TransactionJson = JsonOf<Option<TransactionObject<'static>>>;

/// `mc_getTransactionByBlockHashAndIndex`.
fn by_block_hash(
    node: &Node,
    (hash, index): (B256, Quantity),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<TransactionJson, InlineError> {
    let block = FoundBlock::by_hash(node, &node.view()?, &hash, scope)?;
    by_index(block, index, name_style)
}

/// `mc_getTransactionByBlockNumberAndIndex`.
fn by_block_number(
    node: &Node,
    (at, index): (BlockRef, Quantity),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<TransactionJson, InlineError> {
    let block = FoundBlock::by_reference(node, &node.view()?, at, scope)?;
    by_index(block, index, name_style)
}

fn by_index(
    block: Option<FoundBlock>,
    Quantity(index): Quantity,
    name_style: NameStyle,
) -> Result<TransactionJson, InlineError> {
    let index = usize::try_from(index).ok();
    let object = index.and_then(|index| block.as_ref()?.transaction(index, name_style));
    Ok(JsonOf::write(&object)?)
}

/// `mc_getRawTransactionByBlockHashAndIndex`.
fn raw_by_block_hash(
    node: &Node,
    (hash, index): (B256, Quantity),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<Option<Data>, InlineError> {
    let block = FoundBlock::by_hash(node, &node.view()?, &hash, scope)?;
    Ok(raw_by_index(block, index, name_style))
}

/// `mc_getRawTransactionByBlockNumberAndIndex`.
fn raw_by_block_number(
    node: &Node,
    (at, index): (BlockRef, Quantity),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<Option<Data>, InlineError> {
    let block = FoundBlock::by_reference(node, &node.view()?, at, scope)?;
    Ok(raw_by_index(block, index, name_style))
}

fn raw_by_index(block: Option<FoundBlock>, Quantity(index): Quantity, name_style: NameStyle) -> Option<Data> {
    let index = usize::try_from(index).ok()?;
    let block = block?;
    let transaction = block.block().transactions.get(index)?;
    Some(raw(transaction, name_style))
}

/// The bytes of a transaction, in the form that is stored. Under Ethereum's names they are in the
/// form that Ethereum's clients send.
fn raw(transaction: &Transaction, name_style: NameStyle) -> Data {
    Data(match name_style {
        NameStyle::Native => transaction.encode(),
        NameStyle::Ethereum => transaction.encode_raw(),
    })
}

/// `mc_getTransactionByHash`.
fn by_hash(
    node: &Node,
    (hash,): (B256,),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<TransactionJson, InlineError> {
    let found = find(node, &hash, scope)?;
    let object = match &found {
        Some(TransactionLocation::Block(block, index)) => block.transaction(*index, name_style),
        Some(TransactionLocation::Pool(pooled)) => {
            let transaction = &pooled.transaction;
            Some(TransactionObject::new(
                transaction,
                pooled.sender,
                None,
                name_style,
            ))
        }
        None => None,
    };
    Ok(JsonOf::write(&object)?)
}

/// `mc_getRawTransactionByHash`.
pub(in crate::methods) fn raw_by_hash(
    node: &Node,
    (hash,): (B256,),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<Option<Data>, InlineError> {
    Ok(match find(node, &hash, scope)? {
        Some(TransactionLocation::Block(block, index)) => {
            let transaction = block.block().transactions.get(index);
            transaction.map(|transaction| raw(transaction, name_style))
        }
        Some(TransactionLocation::Pool(pooled)) => Some(raw(&pooled.transaction, name_style)),
        None => None,
    })
}

/// The place at which a transaction was found: at an index of a block, or in the pool.
enum TransactionLocation {
    Block(FoundBlock, usize),
    Pool(PooledTransaction),
}

/// Looks for a transaction in canonical blocks and in the pool.
fn find(node: &Node, hash: &B256, scope: ReadScope) -> Result<Option<TransactionLocation>, InlineError> {
    let view = node.view()?;
    let in_block = |(block, index)| TransactionLocation::Block(FoundBlock::Stored(block), index);
    if let Some(mined) = find_mined(node, &view, hash, scope)? {
        return Ok(Some(in_block(mined)));
    }
    if let Some(pooled) = node.pooled(hash) {
        return Ok(Some(TransactionLocation::Pool(pooled)));
    }
    // The transaction may have moved from the pool into a block between the two look-ups.
    let now = node.view()?;
    if now.head_hash() == view.head_hash() {
        return Ok(None);
    }
    Ok(find_mined(node, &now, hash, scope)?.map(in_block))
}

/// The canonical block that contains a transaction, and the transaction's index in it.
fn find_mined(
    node: &Node,
    view: &View,
    hash: &B256,
    scope: ReadScope,
) -> Result<Option<(Arc<CachedBlock>, usize)>, InlineError> {
    for (block, index) in view.transaction_positions(hash).map_err(failure)? {
        match FoundBlock::by_hash(node, view, &block, scope)? {
            Some(FoundBlock::Stored(cached)) if cached.has_transaction(index, hash) => {
                return Ok(Some((cached, index)));
            }
            Some(FoundBlock::Stored(cached)) if index < cached.block.transactions.len() => {}
            _ => {
                let reason = format_args!(
                    "the index places transaction {hash} at {index} of block {block}, which has none there"
                );
                return Err(failure(reason).into());
            }
        }
    }
    Ok(None)
}

/// `mc_getTransactionReceipt`: null for a pending transaction.
fn receipt(
    node: &Node,
    (hash,): (B256,),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<JsonOf<Option<ReceiptObject<'static>>>, InlineError> {
    let view = node.view()?;
    let Some((block, index)) = find_mined(node, &view, &hash, scope)? else {
        return Ok(JsonOf::write(&None::<ReceiptObject<'_>>)?);
    };
    let id = block.id();
    let receipts = match scope {
        ReadScope::Memory => Some(
            node.blocks
                .cached_receipts(&id.hash)
                .ok_or(InlineError::Deferred)?,
        ),
        ReadScope::Store => node.blocks.receipts(&node.chain, &view, &id)?,
    };
    let order = ExecutionOrder::of(node.chain.spec(), id.number, &block.block.transactions);
    let receipts = receipts.as_deref().map_or(&[][..], Vec::as_slice);
    let object = receipt_object(node, &block, index, (&order, receipts), name_style)?;
    Ok(JsonOf::write(&object)?)
}

/// The receipt of transaction `index` of a block whose receipts are given. `None` for a system
/// transaction that was not executed.
pub(in crate::methods) fn receipt_object<'a>(
    node: &Node,
    block: &'a CachedBlock,
    index: usize,
    (order, receipts): (&ExecutionOrder, &'a [Receipt]),
    name_style: NameStyle,
) -> RpcResult<Option<ReceiptObject<'a>>> {
    let id = block.id();
    let place = TransactionPlace {
        block_hash: id.hash,
        block_number: id.number,
        index,
    };
    let Some(receipt_index) = order.receipt_of(index) else {
        return Ok(None);
    };
    let transaction = block.block.transactions.get(index).zip(block.senders.get(index));
    transaction
        .and_then(|(transaction, sender)| {
            let object =
                ReceiptObject::new(transaction, *sender, place, (receipts, receipt_index), name_style)?;
            Some(match node.application {
                Some(_) => object.of_application(transaction, *sender),
                None => object,
            })
        })
        .map(Some)
        .ok_or_else(|| failure(format_args!("block {} has no receipt {index}", id.hash)))
}

/// `mc_getBlockReceipts`: null if there is no such block, or if it was not executed.
fn block_receipts(
    node: &Node,
    (at,): (BlockRef,),
    name_style: NameStyle,
) -> RpcResult<JsonOf<Option<Vec<ReceiptObject<'static>>>>> {
    let view = node.view()?;
    let none = || JsonOf::write(&None::<Vec<ReceiptObject<'_>>>);
    let Some(FoundBlock::Stored(block)) = FoundBlock::by_reference(node, &view, at, ReadScope::Store)? else {
        return none();
    };
    let id = block.id();
    let Some(receipts) = node.blocks.receipts(&node.chain, &view, &id)? else {
        return none();
    };
    let transactions = &block.block.transactions;
    reserve_values(transactions.len() * size_of::<ReceiptObject<'_>>())?;
    let order = ExecutionOrder::of(node.chain.spec(), id.number, transactions);
    let objects = (0..transactions.len())
        .filter_map(|index| receipt_object(node, &block, index, (&order, &receipts), name_style).transpose())
        .collect::<RpcResult<Vec<_>>>()?;
    JsonOf::write(&Some(objects))
}
