//! Blocks of MicroChains (docs/interface.md, 2.9).

use primitives::{Address, B256};
use serde::Serialize;

use super::served;
use crate::error::{RpcError, RpcResult};
use crate::micro_chains::{ScsNode, ServedBlock, ServedChain};
use crate::table::Method;
use crate::types::{BlockRef, Data, Quantity};
use crate::wire_type::{Described, WireType};

/// Most blocks of one answer of `scs_getBlockList`.
const BLOCKS_MAX: u64 = 1000;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<ScsNode>> {
    vec![
        Method::blocking("scs_getBlockNumber", ["microchain"], block_number)
            .summary("Returns the number of the highest block of a MicroChain."),
        Method::blocking("scs_getBlock", ["microchain", "block"], block)
            .summary("Returns a block of a MicroChain with the hashes of its transactions."),
        Method::heavy("scs_getBlockList", ["microchain", "start", "end"], block_list).summary(
            "Returns the blocks of a MicroChain from the start to the end, both included. There can be \
             1,000 of them.",
        ),
    ]
}

/// A block as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MicroBlockObject {
    extra_data: Data<primitives::Bytes>,
    hash: Data<B256>,
    miner: Data<Address>,
    number: Quantity,
    parent_hash: Data<B256>,
    receipts_root: Data<B256>,
    state_root: Data<B256>,
    timestamp: Quantity,
    transactions: Vec<Data<B256>>,
    transactions_root: Data<B256>,
}

impl Described for MicroBlockObject {
    const TYPE: WireType = WireType::Named("MicroChainBlock");
}

impl From<ServedBlock> for MicroBlockObject {
    fn from(block: ServedBlock) -> Self {
        let header = block.header;
        Self {
            extra_data: Data(header.extra_data),
            hash: Data(block.hash),
            miner: Data(header.beneficiary),
            number: Quantity(header.number),
            parent_hash: Data(header.parent_hash),
            receipts_root: Data(header.receipts_root),
            state_root: Data(header.state_root),
            timestamp: Quantity(header.timestamp),
            transactions: block.transactions.into_iter().map(Data).collect(),
            transactions_root: Data(header.transactions_root),
        }
    }
}

/// `scs_getBlockNumber`.
fn block_number(scs: &ScsNode, (chain,): (Address,)) -> RpcResult<Quantity> {
    let head = served(scs, &chain).map_or(Ok(0), |chain| chain.head());
    head.map(Quantity)
}

/// The number that `at` names, or why it names none.
fn number(chain: &dyn ServedChain, index: usize, at: BlockRef) -> RpcResult<u64> {
    refuse_other_tags(index, at)?;
    match at {
        BlockRef::Number(number) => Ok(number),
        BlockRef::Earliest => Ok(0),
        _ => chain.head(),
    }
}

/// A MicroChain shows no pending block. It finds its blocks by number only, and the base chain
/// decides which of them are final.
fn refuse_other_tags(index: usize, at: BlockRef) -> RpcResult<()> {
    let got = match at {
        BlockRef::Number(_) | BlockRef::Earliest | BlockRef::Latest => return Ok(()),
        BlockRef::Pending => "pending",
        BlockRef::Safe => "safe",
        BlockRef::Finalized => "finalized",
        BlockRef::Hash { .. } => "a hash",
    };
    Err(RpcError::invalid_argument(
        index,
        format_args!("got {got}, expected a block number, earliest or latest"),
    ))
}

/// `scs_getBlock`.
fn block(scs: &ScsNode, (chain, at): (Address, BlockRef)) -> RpcResult<Option<MicroBlockObject>> {
    refuse_other_tags(1, at)?;
    let Some(chain) = served(scs, &chain) else {
        return Ok(None);
    };
    let block = chain.block(number(&*chain, 1, at)?)?;
    Ok(block.map(Into::into))
}

/// The answer of `scs_getBlockList`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MicroBlockList {
    block_list: Vec<MicroBlockObject>,
    end_blk: Quantity,
    microchain_address: Data<Address>,
    start_blk: Quantity,
}

impl Described for MicroBlockList {
    const TYPE: WireType = WireType::Named("MicroChainBlockList");
}

/// `scs_getBlockList`. Blocks that do not exist are left out.
fn block_list(
    scs: &ScsNode,
    (address, start, end): (Address, BlockRef, BlockRef),
) -> RpcResult<MicroBlockList> {
    refuse_other_tags(1, start)?;
    refuse_other_tags(2, end)?;
    let chain = served(scs, &address);
    let place = |index, at| match (&chain, at) {
        (Some(chain), at) => number(&**chain, index, at),
        (None, BlockRef::Number(number)) => Ok(number),
        (None, _) => Ok(0),
    };
    let (first, last) = (place(1, start)?, place(2, end)?);
    if first > last {
        return Err(RpcError::invalid_argument(
            2,
            format!("got the end {last} before the start {first}, expected an end from {first} on"),
        ));
    }
    if last - first >= BLOCKS_MAX {
        return Err(RpcError::invalid_argument(
            2,
            format!("got {first} to {last}, expected at most {BLOCKS_MAX} blocks"),
        ));
    }
    let mut blocks = Vec::new();
    if let Some(chain) = chain {
        for number in first..=last {
            let Some(block) = chain.block(number)? else {
                break;
            };
            blocks.push(block.into());
        }
    }
    Ok(MicroBlockList {
        block_list: blocks,
        end_blk: Quantity(last),
        microchain_address: Data(address),
        start_blk: Quantity(first),
    })
}
