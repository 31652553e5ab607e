//! Transactions and receipts (interface 4.4).
//!
//! A transaction is found by its own hash and, where it came in nine fields, by the hash that
//! Ethereum's libraries predict. A look-up that finds nothing gives null.

use std::sync::Arc;

use chain::View;
use chain::pool::PooledTransaction;
use primitives::{B256, Transaction};

use super::lookup::Found;
use crate::blocks::KnownBlock;
use crate::error::failure;
use crate::json::Json;
use crate::modules::Dialect;
use crate::node::Node;
use crate::objects::{ReceiptObject, TransactionObject, TransactionPlace};
use crate::table::{Method, Reach, Stop};
use crate::types::{Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::cached("mc_getTransactionByHash", |node, params, reach| {
            let (hash,) = params.parse()?;
            by_hash(node, &hash, params.dialect(), reach)
        })
        .says(
            "hash: DATA32 -> Transaction|null",
            "A transaction, in a block or waiting for one.",
        ),
        Method::cached("mc_getTransactionByBlockHashAndIndex", |node, params, reach| {
            let (hash, index) = params.parse()?;
            by_index(
                Found::by_hash(node, &node.view()?, &hash, reach)?,
                index,
                params.dialect(),
            )
        })
        .says(
            "hash: DATA32, index: QUANTITY -> Transaction|null",
            "A transaction of a block.",
        ),
        Method::cached("mc_getTransactionByBlockNumberAndIndex", |node, params, reach| {
            let (at, index) = params.parse()?;
            by_index(
                Found::by_number(node, &node.view()?, at, reach)?,
                index,
                params.dialect(),
            )
        })
        .says(
            "block: BLOCKREF, index: QUANTITY -> Transaction|null",
            "A transaction of a block.",
        ),
        Method::cached("mc_getTransactionReceipt", |node, params, reach| {
            let (hash,) = params.parse()?;
            receipt(node, &hash, params.dialect(), reach)
        })
        .says(
            "hash: DATA32 -> Receipt|null",
            "What came of a transaction in a block.",
        ),
        Method::cached("mc_getRawTransactionByHash", |node, params, reach| {
            let (hash,) = params.parse()?;
            raw_by_hash(node, &hash, params.dialect(), reach)
        })
        .says(
            "hash: DATA32 -> DATA|null",
            "The bytes of a transaction, in a block or waiting for one.",
        ),
        Method::cached(
            "mc_getRawTransactionByBlockHashAndIndex",
            |node, params, reach| {
                let (hash, index) = params.parse()?;
                raw_by_index(
                    Found::by_hash(node, &node.view()?, &hash, reach)?,
                    index,
                    params.dialect(),
                )
            },
        )
        .says(
            "hash: DATA32, index: QUANTITY -> DATA|null",
            "The bytes of a transaction of a block.",
        ),
        Method::cached(
            "mc_getRawTransactionByBlockNumberAndIndex",
            |node, params, reach| {
                let (at, index) = params.parse()?;
                raw_by_index(
                    Found::by_number(node, &node.view()?, at, reach)?,
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

fn by_index(found: Option<Found>, Quantity(index): Quantity, dialect: Dialect) -> Result<Json, Stop> {
    let index = usize::try_from(index).ok();
    Ok(Json::write(
        &index.and_then(|index| found.as_ref()?.transaction(index, dialect)),
    )?)
}

fn raw_by_index(found: Option<Found>, Quantity(index): Quantity, dialect: Dialect) -> Result<Json, Stop> {
    let index = usize::try_from(index).ok();
    let transaction = index.and_then(|index| found.as_ref()?.block().transactions.get(index));
    Ok(Json::write(
        &transaction.map(|transaction| raw(transaction, dialect)),
    )?)
}

/// The bytes that are stored; in Ethereum's dialect those that its clients sent.
fn raw(transaction: &Transaction, dialect: Dialect) -> Data {
    Data(match dialect {
        Dialect::Native => transaction.encode(),
        Dialect::Ethereum => transaction.encode_raw(),
    })
}

/// `mc_getTransactionByHash`.
fn by_hash(node: &Node, hash: &B256, dialect: Dialect, reach: Reach) -> Result<Json, Stop> {
    Ok(match find(node, hash, reach)? {
        Some(Place::Block(found, index)) => Json::write(&found.transaction(index, dialect)),
        Some(Place::Pool(waiting)) => {
            let object = TransactionObject::new(&waiting.transaction, waiting.sender, None, dialect);
            Json::write(&object)
        }
        None => Json::write(&()),
    }?)
}

/// `mc_getRawTransactionByHash`.
fn raw_by_hash(node: &Node, hash: &B256, dialect: Dialect, reach: Reach) -> Result<Json, Stop> {
    Ok(match find(node, hash, reach)? {
        Some(Place::Block(found, index)) => {
            let transaction = found.block().transactions.get(index);
            Json::write(&transaction.map(|transaction| raw(transaction, dialect)))
        }
        Some(Place::Pool(waiting)) => Json::write(&raw(&waiting.transaction, dialect)),
        None => Json::write(&()),
    }?)
}

/// Where a transaction is.
enum Place {
    Block(Found, usize),
    Pool(PooledTransaction),
}

/// Looks for a transaction in canonical blocks and in the pool.
fn find(node: &Node, hash: &B256, reach: Reach) -> Result<Option<Place>, Stop> {
    let view = node.view()?;
    let placed = |(known, index)| Place::Block(Found::Stored(known), index);
    if let Some(place) = mined(node, &view, hash, reach)? {
        return Ok(Some(placed(place)));
    }
    if let Some(waiting) = node.chain.pool().get(hash) {
        return Ok(Some(Place::Pool(waiting)));
    }
    // It may have moved from the pool into a block between the two looks.
    let now = node.view()?;
    if now.head_hash() == view.head_hash() {
        return Ok(None);
    }
    Ok(mined(node, &now, hash, reach)?.map(placed))
}

/// The canonical block that has a transaction, and its place there.
fn mined(
    node: &Node,
    view: &View,
    hash: &B256,
    reach: Reach,
) -> Result<Option<(Arc<KnownBlock>, usize)>, Stop> {
    let Some((block, index)) = view.transaction_place(hash).map_err(failure)? else {
        return Ok(None);
    };
    match Found::by_hash(node, view, &block, reach)? {
        Some(Found::Stored(known)) if index < known.block.transactions.len() => Ok(Some((known, index))),
        _ => Err(failure(format_args!(
            "no transaction {index} in block {block}, where {hash} lies"
        ))
        .into()),
    }
}

/// `mc_getTransactionReceipt`: null for a pending transaction.
fn receipt(node: &Node, hash: &B256, dialect: Dialect, reach: Reach) -> Result<Json, Stop> {
    let view = node.view()?;
    let Some((known, index)) = mined(node, &view, hash, reach)? else {
        return Ok(Json::write(&())?);
    };
    let id = known.id();
    let receipts = match reach {
        Reach::Memory => Some(node.blocks.kept_receipts(&id.hash).ok_or(Stop::Deferred)?),
        Reach::Store => node.blocks.receipts(&node.chain, &view, &id)?,
    };
    let place = TransactionPlace {
        block_hash: id.hash,
        block_number: id.number,
        index,
    };
    let found = known.block.transactions.get(index).zip(known.senders.get(index));
    let object = found
        .zip(receipts.as_deref())
        .and_then(|((transaction, sender), receipts)| {
            ReceiptObject::new(transaction, *sender, place, receipts, dialect)
        })
        .ok_or_else(|| failure(format_args!("block {} has no receipt {index}", id.hash)))?;
    Ok(Json::write(&object)?)
}
