//! Bytes of blocks, headers, receipts and transactions, in the forms that Ethereum's clients read.

use primitives::{B256, Receipt};

use crate::error::{RpcError, RpcResult};
use crate::methods::mc::{FoundBlock, raw_by_hash};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::table::{Method, ReadScope};
use crate::types::{BlockRef, Data};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("debug_getRawBlock", ["block"], raw_block)
            .summary("Returns the RLP of a block, canonical or not."),
        Method::blocking("debug_getRawHeader", ["block"], raw_header)
            .summary("Returns the RLP of a block's header."),
        Method::blocking("debug_getRawReceipts", ["block"], raw_receipts).summary(
            "Returns the RLP of each receipt of a block, in the order in which they count for the root.",
        ),
        Method::blocking("debug_getRawTransaction", ["hash"], raw_transaction)
            .summary("Returns the bytes of a transaction in a block or in the pool, or null."),
    ]
}

fn found(node: &Node, at: BlockRef) -> RpcResult<FoundBlock> {
    let found = FoundBlock::by_reference(node, &node.view()?, at, ReadScope::Store)?;
    found.ok_or_else(|| RpcError::refused("block not found"))
}

/// `debug_getRawBlock`.
fn raw_block(node: &Node, (at,): (BlockRef,)) -> RpcResult<Data> {
    Ok(Data(found(node, at)?.block().encode()))
}

/// `debug_getRawHeader`.
fn raw_header(node: &Node, (at,): (BlockRef,)) -> RpcResult<Data> {
    Ok(Data(found(node, at)?.block().header.encode()))
}

/// `debug_getRawReceipts`.
fn raw_receipts(node: &Node, (at,): (BlockRef,)) -> RpcResult<Vec<Data>> {
    let view = node.view()?;
    let form = node.chain.spec().receipt_form();
    let encode = |receipts: &[Receipt]| -> Vec<Data> {
        let each = receipts.iter();
        each.map(|receipt| Data(receipt.encode(form))).collect()
    };
    match found(node, at)? {
        FoundBlock::Pending { draft, .. } => Ok(encode(&draft.executed.receipts)),
        FoundBlock::Stored(block) => {
            let receipts = node.blocks.receipts(&node.chain, &view, &block.id())?;
            let none = || RpcError::refused("the block was not executed, so it has no receipts");
            Ok(encode(&receipts.ok_or_else(none)?))
        }
    }
}

/// `debug_getRawTransaction`.
fn raw_transaction(node: &Node, (hash,): (B256,)) -> RpcResult<Option<Data>> {
    Ok(raw_by_hash(node, (hash,), ReadScope::Store, NameStyle::Ethereum)?)
}
