//! Transactions and receipts (interface 4.4).
//!
//! A transaction is found by its own hash and, where it came in nine fields, by the hash that
//! Ethereum's libraries predict. A look-up that finds nothing gives null.

use chain::View;
use chain::pool::PooledTransaction;
use primitives::{B256, Transaction};

use super::lookup::Found;
use crate::error::RpcResult;
use crate::node::{Node, failure};
use crate::objects::{ReceiptObject, TransactionObject, TransactionPlace};
use crate::params::Dialect;
use crate::table::{Json, Method};
use crate::types::{Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_getTransactionByHash", |node, params| {
            let (hash,) = params.parse()?;
            by_hash(node, &hash, params.dialect())
        })
        .says(
            "hash: DATA32 -> Transaction|null",
            "A transaction, in a block or waiting for one.",
        ),
        Method::blocking("mc_getTransactionByBlockHashAndIndex", |node: &Node, params| {
            let (hash, index) = params.parse()?;
            by_index(Found::by_hash(&node.view()?, &hash)?, index, params.dialect())
        })
        .says(
            "hash: DATA32, index: QUANTITY -> Transaction|null",
            "A transaction of a block.",
        ),
        Method::blocking("mc_getTransactionByBlockNumberAndIndex", |node: &Node, params| {
            let (at, index) = params.parse()?;
            by_index(
                Found::by_number(node, &node.view()?, at)?,
                index,
                params.dialect(),
            )
        })
        .says(
            "block: BLOCKREF, index: QUANTITY -> Transaction|null",
            "A transaction of a block.",
        ),
        Method::blocking("mc_getTransactionReceipt", |node: &Node, params| {
            let (hash,) = params.parse()?;
            receipt(&node.view()?, &hash, params.dialect())
        })
        .says(
            "hash: DATA32 -> Receipt|null",
            "What came of a transaction in a block.",
        ),
        Method::blocking("mc_getRawTransactionByHash", |node, params| {
            let (hash,) = params.parse()?;
            raw_by_hash(node, &hash, params.dialect())
        })
        .says(
            "hash: DATA32 -> DATA|null",
            "The bytes of a transaction, in a block or waiting for one.",
        ),
        Method::blocking(
            "mc_getRawTransactionByBlockHashAndIndex",
            |node: &Node, params| {
                let (hash, index) = params.parse()?;
                raw_by_index(Found::by_hash(&node.view()?, &hash)?, index, params.dialect())
            },
        )
        .says(
            "hash: DATA32, index: QUANTITY -> DATA|null",
            "The bytes of a transaction of a block.",
        ),
        Method::blocking(
            "mc_getRawTransactionByBlockNumberAndIndex",
            |node: &Node, params| {
                let (at, index) = params.parse()?;
                raw_by_index(
                    Found::by_number(node, &node.view()?, at)?,
                    index,
                    params.dialect(),
                )
            },
        )
        .says(
            "block: BLOCKREF, index: QUANTITY -> DATA|null",
            "The bytes of a transaction of a block.",
        ),
    ]
}

fn by_index(found: Option<Found>, Quantity(index): Quantity, dialect: Dialect) -> RpcResult {
    let index = usize::try_from(index).ok();
    Json::write(&index.and_then(|index| found.as_ref()?.transaction(index, dialect)))
}

fn raw_by_index(found: Option<Found>, Quantity(index): Quantity, dialect: Dialect) -> RpcResult {
    let index = usize::try_from(index).ok();
    let transaction = index.and_then(|index| found.as_ref()?.block().transactions.get(index));
    Json::write(&transaction.map(|transaction| raw(transaction, dialect)))
}

/// The bytes that are stored; in Ethereum's dialect those that its clients sent.
fn raw(transaction: &Transaction, dialect: Dialect) -> Data {
    Data(match dialect {
        Dialect::Native => transaction.encode(),
        Dialect::Ethereum => transaction.encode_raw(),
    })
}

/// `mc_getTransactionByHash`.
fn by_hash(node: &Node, hash: &B256, dialect: Dialect) -> RpcResult {
    match find(node, hash)? {
        Some(Place::Block(found, index)) => Json::write(&found.transaction(index, dialect)),
        Some(Place::Pool(waiting)) => {
            let object = TransactionObject::new(&waiting.transaction, waiting.sender, None, dialect);
            Json::write(&object)
        }
        None => Json::write(&()),
    }
}

/// `mc_getRawTransactionByHash`.
fn raw_by_hash(node: &Node, hash: &B256, dialect: Dialect) -> RpcResult {
    match find(node, hash)? {
        Some(Place::Block(found, index)) => {
            let transaction = found.block().transactions.get(index);
            Json::write(&transaction.map(|transaction| raw(transaction, dialect)))
        }
        Some(Place::Pool(waiting)) => Json::write(&raw(&waiting.transaction, dialect)),
        None => Json::write(&()),
    }
}

/// Where a transaction is.
enum Place {
    Block(Found, usize),
    Pool(PooledTransaction),
}

/// Looks for a transaction in canonical blocks and in the pool.
fn find(node: &Node, hash: &B256) -> RpcResult<Option<Place>> {
    let view = node.view()?;
    if let Some(place) = mined(&view, hash)? {
        return Ok(Some(place));
    }
    if let Some(waiting) = node.chain.pool().get(hash) {
        return Ok(Some(Place::Pool(waiting)));
    }
    // It may have moved from the pool into a block between the two looks.
    let now = node.view()?;
    if now.head_hash() == view.head_hash() {
        return Ok(None);
    }
    mined(&now, hash)
}

fn mined(view: &View, hash: &B256) -> RpcResult<Option<Place>> {
    let position = view.transaction(hash).map_err(failure)?;
    Ok(position.map(|(block, index)| Place::Block(block.into(), index)))
}

/// `mc_getTransactionReceipt`: null for a pending transaction.
fn receipt(view: &View, hash: &B256, dialect: Dialect) -> RpcResult {
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
        .and_then(|(transaction, sender)| ReceiptObject::new(transaction, *sender, place, &receipts, dialect))
        .ok_or_else(|| failure(format_args!("block {} has no receipt {index}", id.hash)))?;
    Json::write(&object)
}
