//! Blocks, their counts, their uncles (docs/interface.md, 4.4).
//!
//! A look-up that finds nothing returns null.

use chain::View;
use primitives::{B256, Block, Header, U256};

use super::lookup::FoundBlock;
use crate::error::{RpcResult, failure};
use crate::json::JsonOf;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{BlockFacts, BlockObject, HeaderObject};
use crate::table::{InlineError, Method, ReadScope};
use crate::types::{BlockRef, Quantity};

/// A block with more transactions is not written on a network thread as full transaction objects.
const FULL_INLINE_MAX: usize = 128;
/// A block with more transactions is not written on a network thread as hashes.
const HASHES_INLINE_MAX: usize = 4096;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_blockNumber", [], block_number)
            .summary("Returns the number of the highest block."),
        Method::cached("mc_getBlockByHash", ["hash", "full"], block_by_hash)
            .summary("Returns a block, canonical or not."),
        Method::cached("mc_getBlockByNumber", ["block", "full"], block_by_number)
            .summary("Returns a canonical block, or the pending block."),
        Method::cached("mc_getHeaderByHash", ["hash"], header_by_hash)
            .summary("Returns the header of a block, canonical or not."),
        Method::cached("mc_getHeaderByNumber", ["block"], header_by_number)
            .summary("Returns the header of a canonical block, or of the pending block."),
        Method::cached(
            "mc_getBlockTransactionCountByHash",
            ["hash"],
            transaction_count_by_hash,
        )
        .summary("Returns the number of transactions of a block."),
        Method::cached(
            "mc_getBlockTransactionCountByNumber",
            ["block"],
            transaction_count_by_number,
        )
        .summary("Returns the number of transactions of a block."),
        Method::cached("mc_getUncleCountByBlockHash", ["hash"], uncle_count_by_hash)
            .summary("Returns the number of uncles of a block."),
        Method::cached("mc_getUncleCountByBlockNumber", ["block"], uncle_count_by_number)
            .summary("Returns the number of uncles of a block."),
        Method::cached("mc_getUncleByBlockHashAndIndex", ["hash", "index"], uncle_of_hash)
            .summary("Returns an uncle as a block without a body."),
        Method::cached(
            "mc_getUncleByBlockNumberAndIndex",
            ["block", "index"],
            uncle_of_number,
        )
        .summary("Returns an uncle as a block without a body."),
    ]
}

/// A block as JSON, or null.
type BlockJson = JsonOf<Option<BlockObject<'static>>>;
/// A header as JSON, or null.
type HeaderJson = JsonOf<Option<HeaderObject<'static>>>;
/// A count, or null if there is no such block.
type BlockCount = Option<Quantity<usize>>;

/// `mc_blockNumber`: the number of the head block.
fn block_number(node: &Node) -> RpcResult<Quantity> {
    Ok(Quantity(node.view()?.head_number()))
}

/// `mc_getBlockByHash`.
fn block_by_hash(
    node: &Node,
    (hash, full): (B256, bool),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<BlockJson, InlineError> {
    block(find_by_hash(node, &hash, scope)?, full, scope, name_style)
}

/// `mc_getBlockByNumber`.
fn block_by_number(
    node: &Node,
    (at, full): (BlockRef, bool),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<BlockJson, InlineError> {
    block(find_by_reference(node, at, scope)?, full, scope, name_style)
}

fn block(
    found: Option<FoundBlock>,
    full: bool,
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<BlockJson, InlineError> {
    let inline_max = if full { FULL_INLINE_MAX } else { HASHES_INLINE_MAX };
    if let Some(found) = &found
        && scope == ReadScope::Memory
        && found.block().transactions.len() > inline_max
    {
        return Err(InlineError::Deferred);
    }
    let object = found.as_ref().map(|found| found.object(full, name_style));
    Ok(JsonOf::write(&object)?)
}

/// `mc_getHeaderByHash`.
fn header_by_hash(node: &Node, (hash,): (B256,), scope: ReadScope) -> Result<HeaderJson, InlineError> {
    match find_by_hash(node, &hash, scope)? {
        None => bare_header(node, &hash),
        found => header(found),
    }
}

/// The header of a block whose body is not stored. For methods that need its body there is no such
/// block.
fn bare_header(node: &Node, hash: &B256) -> Result<HeaderJson, InlineError> {
    let known = node.view()?.known_header(hash).map_err(failure)?;
    let object = known.as_ref().map(|known| {
        let facts = BlockFacts {
            hash: Some(known.hash),
            total_difficulty: known.total_difficulty,
            numbered: true,
        };
        HeaderObject::new(&known.header, facts)
    });
    Ok(JsonOf::write(&object)?)
}

/// `mc_getHeaderByNumber`.
fn header_by_number(node: &Node, (at,): (BlockRef,), scope: ReadScope) -> Result<HeaderJson, InlineError> {
    header(find_by_reference(node, at, scope)?)
}

fn header(found: Option<FoundBlock>) -> Result<HeaderJson, InlineError> {
    Ok(JsonOf::write(&found.as_ref().map(FoundBlock::header))?)
}

/// `mc_getBlockTransactionCountByHash`.
fn transaction_count_by_hash(
    node: &Node,
    (hash,): (B256,),
    scope: ReadScope,
) -> Result<BlockCount, InlineError> {
    let found = find_by_hash(node, &hash, scope)?;
    Ok(found.map(|found| Quantity(found.block().transactions.len())))
}

/// `mc_getBlockTransactionCountByNumber`.
fn transaction_count_by_number(
    node: &Node,
    (at,): (BlockRef,),
    scope: ReadScope,
) -> Result<BlockCount, InlineError> {
    let found = find_by_reference(node, at, scope)?;
    Ok(found.map(|found| Quantity(found.block().transactions.len())))
}

/// `mc_getUncleCountByBlockHash`.
fn uncle_count_by_hash(node: &Node, (hash,): (B256,), scope: ReadScope) -> Result<BlockCount, InlineError> {
    let found = find_by_hash(node, &hash, scope)?;
    Ok(found.map(|found| Quantity(found.block().uncles.len())))
}

/// `mc_getUncleCountByBlockNumber`.
fn uncle_count_by_number(
    node: &Node,
    (at,): (BlockRef,),
    scope: ReadScope,
) -> Result<BlockCount, InlineError> {
    let found = find_by_reference(node, at, scope)?;
    Ok(found.map(|found| Quantity(found.block().uncles.len())))
}

/// `mc_getUncleByBlockHashAndIndex`.
fn uncle_of_hash(
    node: &Node,
    (hash, index): (B256, Quantity),
    scope: ReadScope,
) -> Result<BlockJson, InlineError> {
    uncle(node, find_by_hash(node, &hash, scope)?, index)
}

/// `mc_getUncleByBlockNumberAndIndex`.
fn uncle_of_number(
    node: &Node,
    (at, index): (BlockRef, Quantity),
    scope: ReadScope,
) -> Result<BlockJson, InlineError> {
    uncle(node, find_by_reference(node, at, scope)?, index)
}

/// An uncle of the block that was found, as a block without a body.
fn uncle(
    node: &Node,
    found: Option<FoundBlock>,
    Quantity(index): Quantity,
) -> Result<BlockJson, InlineError> {
    let header = usize::try_from(index)
        .ok()
        .and_then(|index| found.as_ref()?.block().uncles.get(index));
    let Some(header) = header else {
        return Ok(JsonOf::write(&None::<BlockObject<'_>>)?);
    };
    let total_difficulty = uncle_total_difficulty(&node.view()?, header)?;
    let block = Block {
        header: header.clone(),
        ..Block::default()
    };
    let facts = BlockFacts {
        hash: Some(header.hash()),
        total_difficulty,
        numbered: true,
    };
    let object = BlockObject::new(&block, &[], facts, false, NameStyle::Native);
    Ok(JsonOf::write(&Some(object))?)
}

/// The total difficulty of an uncle. The uncle itself may be missing in the store, but its parent
/// is there.
fn uncle_total_difficulty(view: &View, uncle: &Header) -> RpcResult<U256> {
    let parent = view.header_by_hash(&uncle.parent_hash).map_err(failure)?;
    let parent = parent.ok_or_else(|| failure(format_args!("uncle {} has no parent", uncle.hash())))?;
    Ok(parent.total_difficulty.saturating_add(uncle.difficulty))
}

fn find_by_hash(node: &Node, hash: &B256, scope: ReadScope) -> Result<Option<FoundBlock>, InlineError> {
    // A cached block needs no view: it exists whatever the head is.
    if let Some(cached) = node.blocks.cached(hash) {
        return Ok(Some(FoundBlock::Stored(cached)));
    }
    FoundBlock::by_hash(node, &node.view()?, hash, scope)
}

fn find_by_reference(node: &Node, at: BlockRef, scope: ReadScope) -> Result<Option<FoundBlock>, InlineError> {
    FoundBlock::by_reference(node, &node.view()?, at, scope)
}
