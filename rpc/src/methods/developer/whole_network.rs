//! The development network as a whole: starting over, facts, the pool, and refused requests.

use std::collections::BTreeMap;

use chain::spec::{ChainFamily, Rule};
use primitives::{B256, U256};
use serde::Serialize;

use super::developer;
use crate::decode::{FromParam, ParamFields};
use crate::developer::DeveloperError;
use crate::error::{RpcError, RpcResult};
use crate::facts::NodeFacts;
use crate::methods::mc::suggested_price;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Count, Data, ParamError, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    let reset = "Goes back to the begin: the chain without its blocks, an empty pool, the system's clock.";
    let dropped = "Drops a transaction from the pool. Returns whether it was there.";
    let gas_limit = "Sets the gas limit of the blocks from now on, in a block of its own.";
    let base_fee = "Is refused: blocks of proof of work here have no base fee.";
    vec![
        Method::heavy("anvil_reset", ["options"], begin_again).summary(reset),
        Method::heavy("hardhat_reset", ["options"], begin_again).summary(reset),
        Method::blocking("anvil_nodeInfo", [], node_info)
            .summary("Returns the head, the rules and the next block's values."),
        Method::reading("anvil_metadata", [], metadata).summary("Returns client, chain and head."),
        Method::reading("hardhat_metadata", [], metadata).summary("Returns client, chain and head."),
        Method::blocking("anvil_dropTransaction", ["hash"], drop_transaction).summary(dropped),
        Method::blocking("hardhat_dropTransaction", ["hash"], drop_transaction).summary(dropped),
        Method::inline("anvil_enableTraces", [], enable_traces)
            .summary("Does nothing: traces can always be asked for."),
        Method::inline("anvil_setNextBlockBaseFeePerGas", ["fee"], refuse_base_fee).summary(base_fee),
        Method::inline("hardhat_setNextBlockBaseFeePerGas", ["fee"], refuse_base_fee).summary(base_fee),
        Method::inline("anvil_setChainId", ["id"], refuse_chain_id)
            .summary("Is refused: a chain keeps the id that its first block began with."),
        Method::heavy("evm_setBlockGasLimit", ["gas"], set_gas_limit).summary(gas_limit),
        Method::heavy("anvil_setBlockGasLimit", ["gas"], set_gas_limit).summary(gas_limit),
    ]
}

/// The parameter of `hardhat_reset`: an object, which must ask for no fork.
#[derive(Debug)]
struct ResetOptions;

impl FromParam for ResetOptions {
    const TYPE: WireType = WireType::Named("ResetOptions");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        // Libraries send an empty object if their caller names no URL.
        match fields.json("forking") {
            None | Some("null" | "{}") => Ok(Self),
            Some(_) => Err(ParamError::Rule(
                "field forking: got one, expected none: this node copies no chain from a URL".to_owned(),
            )),
        }
    }
}

/// `hardhat_reset`.
fn begin_again(node: &Node, (_,): (Option<ResetOptions>,)) -> RpcResult<bool> {
    let result = developer(node)?.reset();
    node.blocks.clear();
    result.map(|()| true).map_err(DeveloperError::into_rpc)
}

/// The answer of `anvil_nodeInfo`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeveloperNodeInfo {
    current_block_number: Quantity,
    current_block_timestamp: u64,
    current_block_hash: Data<B256>,
    hard_fork: &'static str,
    transaction_order: &'static str,
    environment: DeveloperEnvironment,
    /// Empty: no chain was copied.
    fork_config: BTreeMap<&'static str, String>,
}

/// Values of the next block.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeveloperEnvironment {
    base_fee: Quantity,
    chain_id: u64,
    gas_limit: Quantity,
    gas_price: Quantity<U256>,
}

impl Described for DeveloperNodeInfo {
    const TYPE: WireType = WireType::Named("DeveloperNodeInfo");
}

/// The name of the newest fork of Ethereum whose rules the next block has.
fn fork_name(node: &Node) -> RpcResult<&'static str> {
    let spec = node.chain.spec();
    if spec.family == ChainFamily::Moac {
        return Ok("fuxi");
    }
    let rules = spec.rules_at(node.view()?.head_number().saturating_add(1));
    let forks = [
        (Rule::Eip3855, "shanghai"),
        (Rule::Eip3529, "london"),
        (Rule::Eip2929, "berlin"),
        (Rule::Eip1344, "istanbul"),
        (Rule::Eip1716, "petersburg"),
        (Rule::Eip145, "constantinople"),
        (Rule::Eip140, "byzantium"),
        (Rule::Eip161, "spuriousDragon"),
        (Rule::Eip150, "tangerineWhistle"),
        (Rule::Eip7, "homestead"),
    ];
    let newest = forks.into_iter().find(|(rule, _)| rules.has(*rule));
    Ok(newest.map_or("frontier", |(_, name)| name))
}

/// `anvil_nodeInfo`.
fn node_info(node: &Node) -> RpcResult<DeveloperNodeInfo> {
    developer(node)?;
    let view = node.view()?;
    let head = &view.head().header;
    Ok(DeveloperNodeInfo {
        current_block_number: Quantity(head.number),
        current_block_timestamp: head.timestamp,
        current_block_hash: Data(view.head_id().hash),
        hard_fork: fork_name(node)?,
        transaction_order: "fees",
        environment: DeveloperEnvironment {
            base_fee: Quantity(0),
            chain_id: node.chain.chain_id(),
            gas_limit: Quantity(head.gas_limit),
            gas_price: Quantity(suggested_price(node)?),
        },
        fork_config: BTreeMap::new(),
    })
}

/// The answer of `hardhat_metadata`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeveloperMetadata {
    client_version: String,
    chain_id: u64,
    /// The hash of block 0.
    instance_id: Data<B256>,
    latest_block_number: u64,
    latest_block_hash: Data<B256>,
}

impl Described for DeveloperMetadata {
    const TYPE: WireType = WireType::Named("DeveloperMetadata");
}

/// `hardhat_metadata`.
fn metadata(node: &Node) -> RpcResult<DeveloperMetadata> {
    developer(node)?;
    let view = node.view()?;
    let first = view.canonical_hash(0).map_err(crate::error::failure)?;
    let head = view.head_id();
    Ok(DeveloperMetadata {
        client_version: node.client_version().to_owned(),
        chain_id: node.chain.chain_id(),
        instance_id: Data(first.unwrap_or_default()),
        latest_block_number: head.number,
        latest_block_hash: Data(head.hash),
    })
}

/// `hardhat_dropTransaction`.
fn drop_transaction(node: &Node, (hash,): (B256,)) -> RpcResult<bool> {
    developer(node)?;
    Ok(node.chain.pool().drop_transaction(&hash))
}

/// `anvil_enableTraces`.
fn enable_traces(node: &Node) -> RpcResult<()> {
    developer(node).map(|_| ())
}

/// `hardhat_setNextBlockBaseFeePerGas`.
fn refuse_base_fee(node: &Node, (_,): (Count,)) -> RpcResult<()> {
    developer(node)?;
    Err(RpcError::refused(
        "blocks of this chain have no base fee (EIP-1559): the sender's gasPrice is all that a transaction pays",
    ))
}

/// `anvil_setChainId`.
fn refuse_chain_id(node: &Node, (_,): (Count,)) -> RpcResult<()> {
    developer(node)?;
    Err(RpcError::refused(
        "the id is part of the signatures in the chain's blocks: --dev.chainid N gives a new chain its id",
    ))
}

/// `evm_setBlockGasLimit`.
fn set_gas_limit(node: &Node, (Count(gas),): (Count,)) -> RpcResult<bool> {
    let set = developer(node)?.set_gas_limit(gas);
    set.map(|_| true).map_err(DeveloperError::into_rpc)
}
