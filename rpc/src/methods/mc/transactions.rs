//! Transactions and receipts (interface 4.4).
//!
//! A transaction is found by its own hash and, where it came in nine fields, by the hash that
//! Ethereum's libraries predict. A look-up that finds nothing gives null.

use chain::View;
use primitives::B256;

use super::lookup::Found;
use crate::error::RpcResult;
use crate::node::{Node, failure};
use crate::objects::{ReceiptObject, TransactionObject, TransactionPlace};
use crate::table::{Json, Method};
use crate::types::Quantity;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_getTransactionByHash", |node, params| {
            let (hash,) = params.parse()?;
            by_hash(node, &hash)
        }),
        Method::blocking("mc_getTransactionByBlockHashAndIndex", |node, params| {
            let (hash, index) = params.parse()?;
            by_index(Found::by_hash(&node.view()?, &hash)?, index)
        }),
        Method::blocking("mc_getTransactionByBlockNumberAndIndex", |node, params| {
            let (at, index) = params.parse()?;
            by_index(Found::by_number(node, &node.view()?, at)?, index)
        }),
        Method::blocking("mc_getTransactionReceipt", |node, params| {
            let (hash,) = params.parse()?;
            receipt(&node.view()?, &hash)
        }),
    ]
}

fn by_index(found: Option<Found>, Quantity(index): Quantity) -> RpcResult {
    let index = usize::try_from(index).ok();
    Json::write(&index.and_then(|index| found.as_ref()?.transaction(index)))
}

/// `mc_getTransactionByHash`: in a canonical block, or waiting in the pool.
fn by_hash(node: &Node, hash: &B256) -> RpcResult {
    let view = node.view()?;
    if let Some((found, index)) = mined(&view, hash)? {
        return Json::write(&found.transaction(index));
    }
    if let Some(waiting) = node.chain.pool().get(hash) {
        let object = TransactionObject::new(&waiting.transaction, waiting.sender, None);
        return Json::write(&object);
    }
    // It may have moved from the pool into a block between the two looks.
    let now = node.view()?;
    if now.head_hash() != view.head_hash()
        && let Some((found, index)) = mined(&now, hash)?
    {
        return Json::write(&found.transaction(index));
    }
    Json::write(&())
}

fn mined(view: &View, hash: &B256) -> RpcResult<Option<(Found, usize)>> {
    let position = view.transaction(hash).map_err(failure)?;
    Ok(position.map(|(block, index)| (block.into(), index)))
}

/// `mc_getTransactionReceipt`: null for a pending transaction.
fn receipt(view: &View, hash: &B256) -> RpcResult {
    let Some((block, index)) = view.transaction(hash).map_err(failure)? else {
        return Json::write(&());
    };
    let id = block.id();
    let receipts = view.receipts(&id).map_err(failure)?.unwrap_or_default();
    let place = TransactionPlace {
        block_hash: id.hash,
        block_number: id.number,
        index,
    };
    let found = block
        .body
        .transactions
        .get(index)
        .zip(block.body.senders.get(index));
    let object = found
        .and_then(|(transaction, sender)| ReceiptObject::new(transaction, *sender, place, &receipts))
        .ok_or_else(|| failure(format_args!("block {} has no receipt {index}", id.hash)))?;
    Json::write(&object)
}
