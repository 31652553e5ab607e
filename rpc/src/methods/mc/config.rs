//! `mc_config`: which rules a node has (EIP-7910).
//!
//! Rules begin at blocks here, so `activationBlock` stands where EIP-7910 has a time. No network
//! has blobs, so nothing is said of them.

use std::collections::BTreeMap;

use chain::ChainSpec;
use chain::evm::precompiles_at;
use chain::spec::ChainFamily;
use primitives::{B256, SYSTEM_CONTRACT};
use serde::Serialize;

use crate::error::{RpcResult, failure};
use crate::facts::NodeFacts;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Quantity, data};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![Method::reading("mc_config", [], config).summary(
        "Returns which rules the node has: those of the next block, the next ones, and the last ones \
         that it knows (EIP-7910, with `activationBlock` in place of a time and without blobs). \
         `forkId` is that of EIP-2124, null on networks without it.",
    )]
}

/// The answer of `mc_config`.
#[derive(Serialize)]
struct NodeConfig {
    current: RulesConfig,
    next: Option<RulesConfig>,
    last: Option<RulesConfig>,
}

impl Described for NodeConfig {
    const TYPE: WireType = WireType::Named("NodeConfig");
}

/// The rules that begin at a block.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RulesConfig {
    activation_block: Quantity,
    chain_id: Quantity,
    fork_id: Option<String>,
    precompiles: BTreeMap<String, String>,
    system_contracts: BTreeMap<&'static str, String>,
}

impl RulesConfig {
    fn at(node: &Node, spec: &ChainSpec, genesis: B256, block: u64) -> Self {
        let named = precompiles_at(spec, block).into_iter();
        let has_system_contract = spec.family == ChainFamily::Moac;
        Self {
            activation_block: Quantity(block),
            chain_id: Quantity(spec.wallet_chain_id(block)),
            fork_id: node.fork_hash(genesis, block).map(data),
            precompiles: named.map(|(name, address)| (name, data(address))).collect(),
            system_contracts: has_system_contract
                .then(|| ("SYSTEM_CONTRACT", data(SYSTEM_CONTRACT)))
                .into_iter()
                .collect(),
        }
    }
}

/// The first block of the current rules, of the next ones, and of the last ones. `blocks` are those
/// at which rules begin.
fn beginnings(mut blocks: Vec<u64>, next_block: u64) -> (u64, Option<u64>, Option<u64>) {
    blocks.sort_unstable();
    let current = blocks.iter().rev().find(|block| **block <= next_block);
    let next = blocks.iter().find(|block| **block > next_block);
    let last = next.and_then(|_| blocks.last());
    (current.copied().unwrap_or_default(), next.copied(), last.copied())
}

/// `mc_config`.
fn config(node: &Node) -> RpcResult<NodeConfig> {
    let view = node.view()?;
    let spec = node.chain.spec();
    let genesis = view.canonical_hash(0).map_err(failure)?.unwrap_or_default();
    let mut blocks = spec.fork_blocks();
    // The node stops before rules that this program does not have.
    if let Some((_, first)) = &spec.unsupported {
        blocks.retain(|block| block < first);
    }
    let (current, next, last) = beginnings(blocks, view.head_number().saturating_add(1));
    let at = |block| RulesConfig::at(node, spec, genesis, block);
    Ok(NodeConfig {
        current: at(current),
        next: next.map(at),
        last: last.map(at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_begin_at_blocks() {
        let blocks = || vec![30, 10, 20];
        assert_eq!(beginnings(Vec::new(), 1), (0, None, None));
        assert_eq!(beginnings(blocks(), 9), (0, Some(10), Some(30)));
        assert_eq!(beginnings(blocks(), 10), (10, Some(20), Some(30)));
        assert_eq!(beginnings(blocks(), 29), (20, Some(30), Some(30)));
        // As in EIP-7910, there are no last ones without next ones.
        assert_eq!(beginnings(blocks(), 30), (30, None, None));
    }

    #[test]
    fn precompiles_have_names() {
        let names = |spec: &ChainSpec, block| -> Vec<String> {
            precompiles_at(spec, block)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        let classic = ChainSpec::classic();
        let first = ["ECREC", "SHA256", "RIPEMD160", "ID"];
        assert_eq!(names(&classic, 0), first);
        let newest = names(&classic, 20_000_000);
        assert_eq!(
            newest[4..],
            ["MODEXP", "BN254_ADD", "BN254_MUL", "BN254_PAIRING", "BLAKE2F"]
        );
        let own = names(&ChainSpec::dev(), 1);
        assert_eq!(own[..4], first);
        assert!(own.contains(&"notifySCS".to_owned()), "{own:?}");
    }
}
