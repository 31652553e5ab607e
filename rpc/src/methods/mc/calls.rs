//! Calls without a transaction (interface 4.5).
//!
//! The caller need not own what it sends. Both run on their own, smaller share of threads, and for
//! no longer than [`TIMEOUT_DEFAULT`].

use chain::call::{CALL_GAS_DEFAULT, CallOutcome, CallRequest, TIMEOUT_DEFAULT, revert_text};
use primitives::{Bytes, U256};

use super::accounts::check_chain;
use super::lookup::at_state;
use super::request::Call;
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::node::Node;
use crate::table::{Method, Reach, Stop, reply};
use crate::types::{BlockRef, Data, Quantity};

/// The most gas a call may ask for. More is cut to this.
const GAS_MAX: u64 = CALL_GAS_DEFAULT;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::brief("mc_call", |node, params, reach| {
            Ok(Json::write(&call(node, params.parse()?, reach)?)?)
        })
        .says(
            "call: CallRequest, block?: BLOCKREF -> DATA",
            "What a contract answers; no transaction is made.",
        ),
        Method::heavy("mc_estimateGas", |node, params| {
            reply(params.parse().and_then(|given| estimate_gas(node, given)))
        })
        .says(
            "call: CallRequest, block?: BLOCKREF -> QUANTITY",
            "Gas with which a call succeeds, at most 1/64 of it above the least, in the pending block unless told otherwise.",
        ),
    ]
}

/// `mc_call`: what the contract returns. What it does not return in peace is an error, whose data
/// is what it gave as reason.
fn call(node: &Node, (call, at): (Call, BlockRef), reach: Reach) -> Result<Data<Bytes>, Stop> {
    check_chain(node, call.chain_id)?;
    let request = call.request;
    if request.to.is_none() {
        return Err(RpcError::invalid_argument(0, "missing field to").into());
    }
    let request = limited(request);
    let view = node.view()?;
    let outcome = match (reach, at) {
        (Reach::Memory, BlockRef::Pending) => None,
        (Reach::Memory, at) => at_state(node, &view, at, |place| view.quick_call(place, &request))?,
        (Reach::Store, at) => Some(at_state(node, &view, at, |place| {
            view.call(place, &request, TIMEOUT_DEFAULT)
        })?),
    };
    match outcome.ok_or(Stop::Deferred)? {
        CallOutcome::Success { output, .. } => Ok(Data(output)),
        CallOutcome::Revert { output, .. } => Err(RpcError::reverted(revert_text(&output), &output).into()),
        CallOutcome::OutOfGas => Err(RpcError::refused("out of gas").into()),
        CallOutcome::Failed(reason) => Err(RpcError::refused(reason).into()),
    }
}

/// `mc_estimateGas`: gas with which the call succeeds, the least or little more, in the pending
/// block unless told otherwise.
fn estimate_gas(node: &Node, (call, at): (Call, Option<BlockRef>)) -> RpcResult<Quantity> {
    check_chain(node, call.chain_id)?;
    let request = limited(call.request);
    let view = node.view()?;
    let at = at.unwrap_or(BlockRef::Pending);
    at_state(node, &view, at, |place| {
        view.estimate_gas(place, &request, TIMEOUT_DEFAULT)
    })
    .map(Quantity)
}

fn limited(request: CallRequest) -> CallRequest {
    CallRequest {
        gas: request.gas.map(|gas| gas.min(GAS_MAX)),
        // What nobody pays for only has to fit the machine.
        gas_price: request.gas_price.min(U256::from(u128::MAX)),
        ..request
    }
}
