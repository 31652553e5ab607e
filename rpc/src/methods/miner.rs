//! The `miner` module: the search in this process, and what this node chooses about its blocks.
//!
//! External miners have `mc_getWork` and its kin.

use chain::rules::EXTRA_DATA_BYTES_MAX;
use primitives::{Address, Bytes, U256};

use super::mc::total_hashrate;
use super::plain_number;
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::{Method, reply};
use crate::types::{Count, Quantity};

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("miner_start", |node, params| {
            reply(params.parse().and_then(|given| start(node, given)))
        })
        .says(
            "threads?: COUNT -> null",
            "Starts to mine, with so many CPU threads where they are named.",
        ),
        Method::blocking("miner_stop", |node, params| {
            reply(params.parse().map(|()| stop(node)))
        })
        .says("-> Boolean", "Stops to mine."),
        Method::inline("miner_setExtra", |node, params| {
            reply(params.parse().and_then(|given| set_extra(node, given)))
        })
        .says(
            "text: String -> Boolean",
            "Sets the text in blocks made here, at most 32 bytes.",
        ),
        Method::inline("miner_setGasPrice", |node, params| {
            reply(params.parse().map(|given| set_gas_price(node, given)))
        })
        .says(
            "price: QUANTITY -> Boolean",
            "Sets the cheapest gas price taken from others, in sha.",
        ),
        Method::inline("miner_setMoacbase", |node, params| {
            reply(params.parse().and_then(|given| set_moacbase(node, given)))
        })
        .says(
            "address: DATA20 -> Boolean",
            "Sets who is paid for blocks made here.",
        ),
        Method::inline("miner_getHashrate", |node, params| {
            reply(params.parse().and_then(|()| plain_number(total_hashrate(node))))
        })
        .says(
            "-> Number",
            "Hashes per second, as mc_hashrate, as a plain number.",
        ),
        Method::inline("miner_getGasPrice", |node: &Node, params| {
            reply(
                params
                    .parse()
                    .and_then(|()| plain_number(node.chain.pool().price_floor())),
            )
        })
        .says(
            "-> Number",
            "The cheapest gas price taken from others, in sha, as a plain number.",
        ),
    ]
}

/// `miner_start`: null.
fn start(node: &Node, (threads,): (Option<Count>,)) -> RpcResult<()> {
    node.beneficiary()?;
    let threads = threads
        .map(|count| usize::try_from(count.0))
        .transpose()
        .map_err(|_| RpcError::invalid_argument(0, "want a number of threads"))?;
    node.miner.start(threads).map_err(RpcError::refused)?;
    node.chain.work().set_mining(true);
    Ok(())
}

/// `miner_stop`: true, whether there was mining or not.
fn stop(node: &Node) -> bool {
    node.chain.work().set_mining(false);
    node.miner.stop();
    true
}

/// `miner_setExtra`.
fn set_extra(node: &Node, (text,): (String,)) -> RpcResult<bool> {
    let (got, max) = (text.len(), EXTRA_DATA_BYTES_MAX);
    if got > max {
        return Err(RpcError::refused(format!(
            "extra data of {got} bytes, at most {max} are allowed"
        )));
    }
    node.chain
        .change_settings(|settings| settings.extra_data = Bytes::from(text.into_bytes()));
    Ok(true)
}

/// `miner_setGasPrice`.
fn set_gas_price(node: &Node, (Quantity(price),): (Quantity<U256>,)) -> bool {
    node.chain.pool().set_price_floor(price);
    true
}

/// `miner_setMoacbase`.
fn set_moacbase(node: &Node, (address,): (Address,)) -> RpcResult<bool> {
    if address.is_zero() {
        return Err(RpcError::invalid_argument(0, "nobody has the zero address's key"));
    }
    node.chain
        .change_settings(|settings| settings.beneficiary = address);
    Ok(true)
}
