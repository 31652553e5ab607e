//! The `miner` module: the search for seals in this process, and the settings of the blocks that
//! this node makes.
//!
//! External miners use `mc_getWork`, `mc_submitWork` and `mc_submitHashrate`.

use chain::rules::EXTRA_DATA_BYTES_MAX;
use primitives::{Bytes, U256};

use super::mc::total_hashrate;
use crate::decode::WrittenAddress;
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::Method;
use crate::types::{Count, PlainNumber, Quantity};

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("miner_start", ["threads"], start)
            .summary("Starts mining. An optional parameter sets the number of CPU threads."),
        Method::blocking("miner_stop", [], stop).summary("Stops mining."),
        Method::inline("miner_setExtra", ["text"], set_extra)
            .summary("Sets the text in the blocks of this node, at most 32 bytes."),
        Method::inline("miner_setGasPrice", ["price"], set_gas_price)
            .summary("Sets the lowest gas price that the pool accepts from others, in sha."),
        Method::inline("miner_setMoacbase", ["address"], set_moacbase)
            .summary("Sets the address that receives the rewards for the blocks of this node."),
        Method::inline("miner_getHashrate", [], hashrate)
            .summary("Returns the hashes per second like mc_hashrate, as a plain number."),
        Method::inline("miner_getGasPrice", [], gas_price).summary(
            "Returns the lowest gas price that the pool accepts from others, in sha, as a plain \
             number.",
        ),
    ]
}

/// `miner_start`.
fn start(node: &Node, (threads,): (Option<Count>,)) -> RpcResult<()> {
    node.beneficiary()?;
    let threads = threads
        .map(|count| usize::try_from(count.0))
        .transpose()
        .map_err(|_| RpcError::invalid_argument(0, "expected a number of threads"))?;
    node.miner.start(threads).map_err(RpcError::refused_by)?;
    node.chain.work().set_mining(true);
    Ok(())
}

/// `miner_stop`: returns true, also if the node was not mining.
fn stop(node: &Node) -> RpcResult<bool> {
    node.chain.work().set_mining(false);
    node.miner.stop();
    Ok(true)
}

/// `miner_setExtra`.
fn set_extra(node: &Node, (text,): (String,)) -> RpcResult<bool> {
    let (got, max) = (text.len(), EXTRA_DATA_BYTES_MAX);
    if got > max {
        return Err(RpcError::refused(format!(
            "extra data: got {got} bytes, expected at most {max}"
        )));
    }
    node.chain
        .change_settings(|settings| settings.extra_data = Bytes::from(text.into_bytes()));
    Ok(true)
}

/// `miner_setGasPrice`.
fn set_gas_price(node: &Node, (Quantity(price),): (Quantity<U256>,)) -> RpcResult<bool> {
    node.chain.pool().set_price_floor(price);
    Ok(true)
}

/// `miner_setMoacbase`.
fn set_moacbase(node: &Node, (WrittenAddress(address),): (WrittenAddress,)) -> RpcResult<bool> {
    if address.is_zero() {
        return Err(RpcError::invalid_argument(
            0,
            "nobody has the key of the zero address",
        ));
    }
    node.chain
        .change_settings(|settings| settings.beneficiary = address);
    Ok(true)
}

/// `miner_getHashrate`.
fn hashrate(node: &Node) -> RpcResult<PlainNumber> {
    Ok(PlainNumber(total_hashrate(node)))
}

/// `miner_getGasPrice`.
fn gas_price(node: &Node) -> RpcResult<PlainNumber> {
    Ok(PlainNumber(node.chain.pool().price_floor()))
}
