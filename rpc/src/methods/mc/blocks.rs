//! Blocks, their counts, their uncles (interface 4.4).
//!
//! A look-up that finds nothing gives null.

use chain::View;
use primitives::{B256, Block, Header};

use super::lookup::Found;
use crate::error::{RpcResult, failure};
use crate::json::Json;
use crate::modules::Dialect;
use crate::node::Node;
use crate::objects::{BlockFacts, BlockObject};
use crate::table::{Method, Reach, Stop, reply};
use crate::types::{BlockRef, Quantity};

/// Most transactions of a block whose objects are written on a network thread.
const FULL_INLINE_MAX: usize = 128;
/// Most transactions of a block whose hashes are written there.
const HASHES_INLINE_MAX: usize = 4096;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_blockNumber", |node, params| {
            reply(params.parse().and_then(|()| block_number(node)))
        })
        .says("-> QUANTITY", "The number of the most recent block."),
        Method::cached("mc_getBlockByHash", |node, params, reach| {
            let (hash, full) = params.parse()?;
            block(by_hash(node, &hash, reach)?, full, params.dialect(), reach)
        })
        .says(
            "hash: DATA32, full: Boolean -> Block|null",
            "A block, on the chain or beside it.",
        ),
        Method::cached("mc_getBlockByNumber", |node, params, reach| {
            let (at, full) = params.parse()?;
            block(by_number(node, at, reach)?, full, params.dialect(), reach)
        })
        .says(
            "block: BLOCKREF, full: Boolean -> Block|null",
            "A block of the chain, or the pending one.",
        ),
        Method::cached("mc_getHeaderByHash", |node, params, reach| {
            let (hash,) = params.parse()?;
            header(by_hash(node, &hash, reach)?)
        })
        .says(
            "hash: DATA32 -> Header|null",
            "The header of a block, on the chain or beside it.",
        ),
        Method::cached("mc_getHeaderByNumber", |node, params, reach| {
            let (at,) = params.parse()?;
            header(by_number(node, at, reach)?)
        })
        .says(
            "block: BLOCKREF -> Header|null",
            "The header of a block of the chain, or of the pending one.",
        ),
        Method::cached("mc_getBlockTransactionCountByHash", |node, params, reach| {
            let (hash,) = params.parse()?;
            count(by_hash(node, &hash, reach)?, |block| block.transactions.len())
        })
        .says(
            "hash: DATA32 -> QUANTITY|null",
            "How many transactions a block has.",
        ),
        Method::cached("mc_getBlockTransactionCountByNumber", |node, params, reach| {
            let (at,) = params.parse()?;
            count(by_number(node, at, reach)?, |block| block.transactions.len())
        })
        .says(
            "block?: BLOCKREF -> QUANTITY|null",
            "How many transactions a block has.",
        ),
        Method::cached("mc_getUncleCountByBlockHash", |node, params, reach| {
            let (hash,) = params.parse()?;
            count(by_hash(node, &hash, reach)?, |block| block.uncles.len())
        })
        .says("hash: DATA32 -> QUANTITY|null", "How many uncles a block has."),
        Method::cached("mc_getUncleCountByBlockNumber", |node, params, reach| {
            let (at,) = params.parse()?;
            count(by_number(node, at, reach)?, |block| block.uncles.len())
        })
        .says(
            "block?: BLOCKREF -> QUANTITY|null",
            "How many uncles a block has.",
        ),
        Method::cached("mc_getUncleByBlockHashAndIndex", |node, params, reach| {
            let (hash, index) = params.parse()?;
            uncle(node, by_hash(node, &hash, reach)?, index)
        })
        .says(
            "hash: DATA32, index: QUANTITY -> Block|null",
            "An uncle, as a block without a body.",
        ),
        Method::cached("mc_getUncleByBlockNumberAndIndex", |node, params, reach| {
            let (at, index) = params.parse()?;
            uncle(node, by_number(node, at, reach)?, index)
        })
        .says(
            "block: BLOCKREF, index: QUANTITY -> Block|null",
            "An uncle, as a block without a body.",
        ),
    ]
}

/// `mc_blockNumber`: the number of the head block.
fn block_number(node: &Node) -> RpcResult<Quantity> {
    Ok(Quantity(node.view()?.head_number()))
}

fn by_hash(node: &Node, hash: &B256, reach: Reach) -> Result<Option<Found>, Stop> {
    // What is kept is there, whatever the head.
    if let Some(known) = node.blocks.kept(hash) {
        return Ok(Some(Found::Stored(known)));
    }
    Found::by_hash(node, &node.view()?, hash, reach)
}

fn by_number(node: &Node, at: BlockRef, reach: Reach) -> Result<Option<Found>, Stop> {
    Found::by_number(node, &node.view()?, at, reach)
}

fn block(found: Option<Found>, full: bool, dialect: Dialect, reach: Reach) -> Result<Json, Stop> {
    if let Some(found) = &found
        && reach == Reach::Memory
        && found.block().transactions.len() > if full { FULL_INLINE_MAX } else { HASHES_INLINE_MAX }
    {
        return Err(Stop::Deferred);
    }
    Ok(Json::write(
        &found.as_ref().map(|found| found.object(full, dialect)),
    )?)
}

fn header(found: Option<Found>) -> Result<Json, Stop> {
    Ok(Json::write(&found.as_ref().map(Found::header))?)
}

fn count(found: Option<Found>, count: impl FnOnce(&Block) -> usize) -> Result<Json, Stop> {
    Ok(Json::write(&found.map(|found| Quantity(count(found.block()))))?)
}

/// An uncle of the block that was found, as a block without a body.
fn uncle(node: &Node, found: Option<Found>, Quantity(index): Quantity) -> Result<Json, Stop> {
    let header = usize::try_from(index)
        .ok()
        .and_then(|index| found.as_ref()?.block().uncles.get(index));
    let Some(header) = header else {
        return Ok(Json::write(&())?);
    };
    let total_difficulty = total_difficulty(&node.view()?, header)?;
    let block = Block {
        header: header.clone(),
        ..Block::default()
    };
    let facts = BlockFacts {
        hash: Some(header.hash()),
        total_difficulty,
        numbered: true,
    };
    let object = BlockObject::new(&block, &[], facts, false, Dialect::Native);
    Ok(Json::write(&object)?)
}

/// The total difficulty of an uncle, which need not be in the store itself; its parent is.
fn total_difficulty(view: &View, uncle: &Header) -> RpcResult<primitives::U256> {
    let parent = view.header_by_hash(&uncle.parent_hash).map_err(failure)?;
    let parent = parent.ok_or_else(|| failure(format_args!("uncle {} has no parent", uncle.hash())))?;
    Ok(parent.total_difficulty.saturating_add(uncle.difficulty))
}
