//! The `debug` module: traces, raw blocks and states, the head set by hand.

mod request;
mod state;
mod trace;

use chain::chain::WriteError;
use ethash::MAX_EPOCH;
use primitives::{B256, Block};
use serde::Serialize;

use super::mc::Found;
use crate::error::{RpcError, RpcResult, failure};
use crate::json::Json;
use crate::modules::Dialect;
use crate::node::Node;
use crate::objects::{BlockFacts, BlockObject};
use crate::table::{Method, Reach, reply};
use crate::types::{BlockRef, Count, Data};

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    let mut rows = vec![
        Method::blocking("debug_getBlockRlp", |node, params| {
            reply(params.parse().and_then(|given| block_rlp(node, given)))
        })
        .says("block: COUNT -> DATA", "The bytes of a block."),
        Method::blocking("debug_printBlock", |node, params| {
            params.parse().and_then(|given| print_block(node, given))
        })
        .says("block: COUNT -> String", "A block in words, for people."),
        Method::blocking("debug_seedHash", |node, params| {
            reply(params.parse().and_then(|given| seed_hash(node, given)))
        })
        .says(
            "block: COUNT -> DATA32",
            "The seed hash of a block's Ethash epoch.",
        ),
        Method::blocking("debug_setHead", |node, params| {
            reply(params.parse().and_then(|given| set_head(node, given)))
        })
        .says(
            "block: COUNT -> null",
            "Makes a block of the chain its head and forgets all above it.",
        ),
        Method::blocking("debug_getBadBlocks", |node, params| {
            params.parse::<()>()?;
            bad_blocks(node)
        })
        .says(
            "-> BadBlock[]",
            "The blocks refused lately, with the reason of each.",
        ),
    ];
    rows.extend(trace::methods());
    rows.extend(state::methods());
    rows
}

/// The canonical block of this number.
fn found(node: &Node, number: u64) -> RpcResult<Found> {
    let view = node.view()?;
    let found = Found::by_number(node, &view, BlockRef::Number(number), Reach::Store)?;
    found.ok_or_else(|| RpcError::refused(format!("block #{number} not found")))
}

/// `debug_getBlockRlp`.
fn block_rlp(node: &Node, (Count(number),): (Count,)) -> RpcResult<Data> {
    Ok(Data(found(node, number)?.block().encode()))
}

/// `debug_printBlock`.
fn print_block(node: &Node, (Count(number),): (Count,)) -> RpcResult<Json> {
    let found = found(node, number)?;
    Json::write_within(
        &format_args!("{:#?}", found.block()),
        node.settings.response_len_max,
    )
}

/// `debug_seedHash`: of any number that has an epoch, there yet or not.
fn seed_hash(node: &Node, (Count(number),): (Count,)) -> RpcResult<Data<B256>> {
    let epoch = node.chain.spec().schedule.epoch(number);
    if epoch.seed_steps > MAX_EPOCH {
        return Err(RpcError::refused(format!(
            "block {number} is beyond the last epoch, {MAX_EPOCH}"
        )));
    }
    Ok(Data(epoch.seed_hash()))
}

/// `debug_setHead`: null.
fn set_head(node: &Node, (Count(number),): (Count,)) -> RpcResult<()> {
    match node.chain.set_head(number) {
        Ok(_) => {
            node.blocks.forget();
            Ok(())
        }
        Err(error @ (WriteError::AboveHead { .. } | WriteError::Stopping)) => {
            Err(RpcError::refused(error.to_string()))
        }
        Err(error) => Err(failure(error)),
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

/// `debug_getBadBlocks`.
fn bad_blocks(node: &Node) -> RpcResult<Json> {
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
    Json::write_within(&objects, node.settings.response_len_max)
}

fn bad_block(block: &Block, hash: B256, total_difficulty: primitives::U256) -> BlockObject<'_> {
    let facts = BlockFacts {
        hash: Some(hash),
        total_difficulty,
        numbered: true,
    };
    // Its senders need not exist, so its transactions are shown by their hashes.
    BlockObject::new(block, &[], facts, false, Dialect::Native)
}
