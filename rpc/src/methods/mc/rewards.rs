//! The payments of a block, for pools: who was paid what, and what became of a block that lost.

use chain::View;
use chain::fate::BlockFate;
use chain::import::BlockId;
use chain::rules::payment::{BlockPayment, block_fees};
use primitives::{Address, B256, Header, U256};
use serde::Serialize;

use crate::block_cache::CachedBlock;
use crate::decode::{FromParam, string};
use crate::error::{RpcResult, failure};
use crate::node::Node;
use crate::table::Method;
use crate::types::{BlockRef, Data, ParamError, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_getBlockReward", ["block"], block_reward).summary(
            "Returns what a block paid to whom, and whether it is canonical, an uncle, or lost. The block is a \
             number, a tag, or a hash.",
        ),
    ]
}

/// A block by its number, a tag, or its hash. Unlike a [`BlockRef`] it must be given.
struct NamedBlock(BlockRef);

impl FromParam for NamedBlock {
    const TYPE: WireType = WireType::OneOf(&[<BlockRef as FromParam>::TYPE, <B256 as FromParam>::TYPE]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let is_hash = string(json, "a block").is_ok_and(|text| text.len() == 66);
        if is_hash {
            let hash = B256::from_json(json)?;
            return Ok(Self(BlockRef::Hash {
                hash,
                require_canonical: false,
            }));
        }
        BlockRef::from_json(json).map(Self)
    }
}

/// The answer of `mc_getBlockReward`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockReward {
    number: Quantity,
    hash: Data<B256>,
    miner: Data<Address>,
    status: &'static str,
    uncle_of: Option<NephewBlock>,
    /// The reward of the miner by the rules, with the rewards for including uncles.
    reward: Quantity<U256>,
    fees: Quantity<U256>,
    total: Quantity<U256>,
    uncles: Vec<UncleReward>,
}

impl Described for BlockReward {
    const TYPE: WireType = WireType::Named("BlockReward");
}

/// The canonical block that includes an uncle.
#[derive(Serialize)]
struct NephewBlock {
    number: Quantity,
    hash: Data<B256>,
}

/// The reward of an uncle.
#[derive(Serialize)]
struct UncleReward {
    number: Quantity,
    hash: Data<B256>,
    miner: Data<Address>,
    reward: Quantity<U256>,
}

/// `mc_getBlockReward`: null if the block is not known.
fn block_reward(node: &Node, (NamedBlock(at),): (NamedBlock,)) -> RpcResult<Option<BlockReward>> {
    let view = node.view()?;
    let hash = match at {
        BlockRef::Hash { hash, .. } => Some(hash),
        // The pending block has paid nobody yet.
        BlockRef::Pending => None,
        at => match at.number(view.head_number()) {
            Some(number) => view.canonical_hash(number).map_err(failure)?,
            None => None,
        },
    };
    let Some(hash) = hash else { return Ok(None) };
    let known = view.known_header(&hash).map_err(failure)?;
    let Some(header) = known.map(|known| known.header) else {
        return Ok(None);
    };
    match view.block_fate(&hash, &header).map_err(failure)? {
        BlockFate::Canonical => canonical_reward(node, &view, &hash),
        fate => Ok(Some(side_reward(&hash, &header, fate))),
    }
}

fn canonical_reward(node: &Node, view: &View, hash: &B256) -> RpcResult<Option<BlockReward>> {
    let Some(stored) = node.blocks.by_hash(&node.chain, view, hash)? else {
        return Ok(None);
    };
    let (header, uncles) = (&stored.block.header, &stored.block.uncles);
    let payment = BlockPayment::of(node.chain.spec(), header.number, uncles);
    let fees = total_fees(node, view, &stored)?;
    let uncles = uncles.iter().zip(&payment.uncles);
    let uncles = uncles.map(|(uncle, (miner, reward))| UncleReward {
        number: Quantity(uncle.number),
        hash: Data(uncle.hash()),
        miner: Data(*miner),
        reward: Quantity(*reward),
    });
    Ok(Some(BlockReward {
        number: Quantity(header.number),
        hash: Data(*hash),
        miner: Data(header.beneficiary),
        status: BlockFate::Canonical.name(),
        uncle_of: None,
        reward: Quantity(payment.miner),
        fees: Quantity(fees),
        total: Quantity(payment.miner + fees),
        uncles: uncles.collect(),
    }))
}

/// The reward of a block whose place another one has: that of an uncle, or nothing.
const fn side_reward(hash: &B256, header: &Header, fate: BlockFate) -> BlockReward {
    let (uncle_of, reward) = match fate {
        BlockFate::Uncle { nephew, reward } => {
            let BlockId { number, hash } = nephew;
            (
                Some(NephewBlock {
                    number: Quantity(number),
                    hash: Data(hash),
                }),
                reward,
            )
        }
        BlockFate::Canonical | BlockFate::Side | BlockFate::Lost => (None, U256::ZERO),
    };
    BlockReward {
        number: Quantity(header.number),
        hash: Data(*hash),
        miner: Data(header.beneficiary),
        status: fate.name(),
        uncle_of,
        reward: Quantity(reward),
        fees: Quantity(U256::ZERO),
        total: Quantity(reward),
        uncles: Vec::new(),
    }
}

/// The fees of the transactions of a block; 0 if the block was not executed.
pub(in crate::methods) fn total_fees(node: &Node, view: &View, block: &CachedBlock) -> RpcResult<U256> {
    let id = block.id();
    let receipts = node.blocks.receipts(&node.chain, view, &id)?.unwrap_or_default();
    Ok(block_fees(
        node.chain.spec(),
        id.number,
        &block.block.transactions,
        &receipts,
    ))
}
