//! The `debug` module: traces, raw blocks and states, and setting the head back.

mod raw;
mod request;
mod state;
mod trace;

pub(in crate::methods) use state::{WholeAccount, whole_state};
pub(in crate::methods) use trace::trace_error;

use chain::chain::WriteError;
use chain::import::ImportError;
use ethash::MAX_EPOCH;
use primitives::{B256, Block};
use serde::Serialize;

use super::mc::FoundBlock;
use crate::error::{RpcError, RpcResult, failure, failure_of};
use crate::json::JsonOf;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{BlockFacts, BlockObject};
use crate::table::{Method, ReadScope};
use crate::types::{BlockRef, Count, Data};
use crate::wire_type::{Described, WireType};

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    let mut rows = vec![
        Method::blocking("debug_getBlockRlp", ["block"], block_rlp).summary("Returns the bytes of a block."),
        Method::blocking("debug_printBlock", ["block"], print_block)
            .summary("Returns a block as text for people."),
        Method::blocking("debug_seedHash", ["block"], seed_hash)
            .summary("Returns the seed hash of a block's Ethash epoch."),
        Method::blocking("debug_setHead", ["block"], set_head)
            .summary("Makes a block the head again and deletes all blocks above it."),
        Method::blocking("debug_getBadBlocks", [], bad_blocks)
            .summary("Returns the blocks that this node has refused recently, each with the reason."),
    ];
    rows.extend(trace::methods());
    rows.extend(raw::methods());
    rows.extend(state::methods());
    rows
}

/// The canonical block of this number.
fn canonical_block(node: &Node, number: u64) -> RpcResult<FoundBlock> {
    let view = node.view()?;
    let found = FoundBlock::by_reference(node, &view, BlockRef::Number(number), ReadScope::Store)?;
    found.ok_or_else(|| RpcError::refused(format!("block #{number} not found")))
}

/// `debug_getBlockRlp`.
fn block_rlp(node: &Node, (Count(number),): (Count,)) -> RpcResult<Data> {
    Ok(Data(canonical_block(node, number)?.block().encode()))
}

/// `debug_printBlock`.
fn print_block(node: &Node, (Count(number),): (Count,)) -> RpcResult<JsonOf<str>> {
    let found = canonical_block(node, number)?;
    JsonOf::write(&format_args!("{:#?}", found.block()))
}

/// `debug_seedHash`: for any block number that has an epoch, also above the head.
fn seed_hash(node: &Node, (Count(number),): (Count,)) -> RpcResult<Data<B256>> {
    let epoch = node.chain.spec().schedule.epoch(number);
    if epoch.seed_steps > MAX_EPOCH {
        return Err(RpcError::refused(format!(
            "block {number} is after the last epoch, {MAX_EPOCH}"
        )));
    }
    Ok(Data(epoch.seed_hash()))
}

/// `debug_setHead`.
fn set_head(node: &Node, (Count(number),): (Count,)) -> RpcResult<()> {
    let result = node.chain.set_head(number);
    // Blocks may be deleted after an error of the store, too.
    node.blocks.clear();
    match result {
        Ok(_) => Ok(()),
        Err(
            error @ (WriteError::AboveHead { .. }
            | WriteError::Import(ImportError::StateNotKept(_))
            | WriteError::Stopping
            | WriteError::Failed(_)),
        ) => Err(RpcError::refused_by(error)),
        Err(error) => Err(failure_of("the node could not change its chain", error)),
    }
}

/// A refused block as JSON.
#[derive(Serialize)]
struct BadBlockObject<'a> {
    hash: Data<B256>,
    block: BlockObject<'a>,
    rlp: Data,
    reason: &'a str,
}

impl Described for BadBlockObject<'_> {
    const TYPE: WireType = WireType::Named("BadBlock");
}

/// `debug_getBadBlocks`.
fn bad_blocks(node: &Node) -> RpcResult<JsonOf<Vec<BadBlockObject<'static>>>> {
    let bad = node.chain.bad_blocks();
    let view = node.view()?;
    let mut objects = Vec::new();
    for bad in &bad {
        let header = &bad.block.header;
        let parent = view.header_by_hash(&header.parent_hash).map_err(failure)?;
        let before = parent.map(|parent| parent.total_difficulty).unwrap_or_default();
        objects.push(BadBlockObject {
            hash: Data(bad.hash),
            block: bad_block(&bad.block, bad.hash, before.saturating_add(header.difficulty)),
            rlp: Data(bad.block.encode()),
            reason: &bad.reason,
        });
    }
    JsonOf::write(&objects)
}

fn bad_block(block: &Block, hash: B256, total_difficulty: primitives::U256) -> BlockObject<'_> {
    let facts = BlockFacts {
        hash: Some(hash),
        total_difficulty,
        numbered: true,
    };
    // The senders of a bad block may be unknown, so its transactions are shown as hashes.
    BlockObject::new(block, &[], facts, false, NameStyle::Native)
}
