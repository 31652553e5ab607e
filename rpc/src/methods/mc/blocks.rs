//! Blocks, their counts, their uncles (interface 4.4).
//!
//! A look-up that finds nothing gives null.

use chain::View;
use primitives::{B256, Block, Header};

use super::lookup::Found;
use crate::error::RpcResult;
use crate::node::{Node, failure};
use crate::objects::{BlockFacts, BlockObject};
use crate::params::Dialect;
use crate::table::{Json, Method, reply};
use crate::types::{BlockRef, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_blockNumber", |node, params| {
            reply(params.parse().and_then(|()| block_number(node)))
        })
        .says("-> QUANTITY", "The number of the most recent block."),
        Method::blocking("mc_getBlockByHash", |node, params| {
            let (hash, full) = params.parse()?;
            block(by_hash(node, &hash)?, full, params.dialect())
        })
        .says(
            "hash: DATA32, full: Boolean -> Block|null",
            "A block, on the chain or beside it.",
        ),
        Method::blocking("mc_getBlockByNumber", |node, params| {
            let (at, full) = params.parse()?;
            block(by_number(node, at)?, full, params.dialect())
        })
        .says(
            "block: BLOCKREF, full: Boolean -> Block|null",
            "A block of the chain, or the pending one.",
        ),
        Method::blocking("mc_getHeaderByHash", |node, params| {
            let (hash,) = params.parse()?;
            header(by_hash(node, &hash)?)
        })
        .says(
            "hash: DATA32 -> Header|null",
            "The header of a block, on the chain or beside it.",
        ),
        Method::blocking("mc_getHeaderByNumber", |node, params| {
            let (at,) = params.parse()?;
            header(by_number(node, at)?)
        })
        .says(
            "block: BLOCKREF -> Header|null",
            "The header of a block of the chain, or of the pending one.",
        ),
        Method::blocking("mc_getBlockTransactionCountByHash", |node, params| {
            let (hash,) = params.parse()?;
            count(by_hash(node, &hash)?, |block| block.transactions.len())
        })
        .says(
            "hash: DATA32 -> QUANTITY|null",
            "How many transactions a block has.",
        ),
        Method::blocking("mc_getBlockTransactionCountByNumber", |node, params| {
            let (at,) = params.parse()?;
            count(by_number(node, at)?, |block| block.transactions.len())
        })
        .says(
            "block?: BLOCKREF -> QUANTITY|null",
            "How many transactions a block has.",
        ),
        Method::blocking("mc_getUncleCountByBlockHash", |node, params| {
            let (hash,) = params.parse()?;
            count(by_hash(node, &hash)?, |block| block.uncles.len())
        })
        .says("hash: DATA32 -> QUANTITY|null", "How many uncles a block has."),
        Method::blocking("mc_getUncleCountByBlockNumber", |node, params| {
            let (at,) = params.parse()?;
            count(by_number(node, at)?, |block| block.uncles.len())
        })
        .says(
            "block?: BLOCKREF -> QUANTITY|null",
            "How many uncles a block has.",
        ),
        Method::blocking("mc_getUncleByBlockHashAndIndex", |node: &Node, params| {
            let (hash, index) = params.parse()?;
            let view = node.view()?;
            uncle(&view, Found::by_hash(&view, &hash)?, index)
        })
        .says(
            "hash: DATA32, index: QUANTITY -> Block|null",
            "An uncle, as a block without a body.",
        ),
        Method::blocking("mc_getUncleByBlockNumberAndIndex", |node: &Node, params| {
            let (at, index) = params.parse()?;
            let view = node.view()?;
            uncle(&view, Found::by_number(node, &view, at)?, index)
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

fn by_hash(node: &Node, hash: &B256) -> RpcResult<Option<Found>> {
    Found::by_hash(&node.view()?, hash)
}

fn by_number(node: &Node, at: BlockRef) -> RpcResult<Option<Found>> {
    Found::by_number(node, &node.view()?, at)
}

fn block(found: Option<Found>, full: bool, dialect: Dialect) -> RpcResult {
    Json::write(&found.as_ref().map(|found| found.object(full, dialect)))
}

fn header(found: Option<Found>) -> RpcResult {
    Json::write(&found.as_ref().map(Found::header))
}

fn count(found: Option<Found>, count: impl FnOnce(&Block) -> usize) -> RpcResult {
    Json::write(&found.map(|found| Quantity(count(found.block()))))
}

/// An uncle of the block that was found, as a block without a body.
fn uncle(view: &View, found: Option<Found>, Quantity(index): Quantity) -> RpcResult {
    let header = usize::try_from(index)
        .ok()
        .and_then(|index| found.as_ref()?.block().uncles.get(index));
    let Some(header) = header else {
        return Json::write(&());
    };
    let total_difficulty = total_difficulty(view, header)?;
    let block = Block {
        header: header.clone(),
        ..Block::default()
    };
    let facts = BlockFacts {
        hash: Some(header.hash()),
        total_difficulty,
        numbered: true,
    };
    Json::write(&BlockObject::new(&block, &[], facts, false, Dialect::Native))
}

/// The total difficulty of an uncle, which need not be in the store itself; its parent is.
fn total_difficulty(view: &View, uncle: &Header) -> RpcResult<primitives::U256> {
    let parent = view.header_by_hash(&uncle.parent_hash).map_err(failure)?;
    let parent = parent.ok_or_else(|| failure(format_args!("uncle {} has no parent", uncle.hash())))?;
    Ok(parent.total_difficulty.saturating_add(uncle.difficulty))
}
