//! Calls without a transaction (docs/interface.md, 4.5).
//!
//! The caller need not own what the call spends. Both methods have a smaller share of the threads
//! than other methods. They run for at most [`TIMEOUT_DEFAULT`], and stop when nobody waits for
//! them.

use chain::call::{CALL_GAS_DEFAULT, CallOutcome, CallRequest, TIMEOUT_DEFAULT, revert_text};
use primitives::{Bytes, U256};

use super::accounts::check_chain;
use super::lookup::at_state;
use super::request::CallObject;
use crate::budget::work_limit;
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::{InlineError, Method, ReadScope};
use crate::types::{BlockRef, Data, Quantity};

/// The most gas of a call. A call that asks for more gets this much.
const GAS_MAX: u64 = CALL_GAS_DEFAULT;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::brief("mc_call", ["call", "block"], call).summary(
            "Returns the output of a contract call or, without a field `to`, the code that a creation \
                 returns. No transaction is made.",
        ),
        Method::heavy("mc_estimateGas", ["call", "block"], estimate_gas).summary(
            "Returns an amount of gas that is enough for a call. It is at most 1/64 above the \
             lowest such amount. The default block is the pending block.",
        ),
    ]
}

/// `mc_call`: the output of the contract. A call of no account creates a contract: the input is the
/// code that runs, and the output is the code that it returns. If the call fails, the answer is an
/// error. After a revert the data of the error is the output.
fn call(
    node: &Node,
    (call, at): (CallObject, BlockRef),
    scope: ReadScope,
) -> Result<Data<Bytes>, InlineError> {
    check_chain(node, call.chain_id)?;
    let request = limited(call.request);
    let view = node.view()?;
    let outcome = match (scope, at) {
        (ReadScope::Memory, BlockRef::Pending) => None,
        (ReadScope::Memory, at) => at_state(node, &view, at, |place| view.quick_call(place, &request))?,
        (ReadScope::Store, at) => Some(at_state(node, &view, at, |place| {
            view.call(place, &request, work_limit(TIMEOUT_DEFAULT))
        })?),
    };
    match outcome.ok_or(InlineError::Deferred)? {
        CallOutcome::Success { output, .. } => Ok(Data(output)),
        CallOutcome::Revert { output, .. } => Err(RpcError::reverted(revert_text(&output), &output).into()),
        CallOutcome::OutOfGas => Err(RpcError::refused("out of gas").into()),
        CallOutcome::Failed(reason) => Err(RpcError::refused(reason).into()),
    }
}

/// `mc_estimateGas`: an amount of gas with which the call succeeds. It is the lowest such amount or
/// little more. By default the call runs in the pending block.
fn estimate_gas(node: &Node, (call, at): (CallObject, Option<BlockRef>)) -> RpcResult<Quantity> {
    check_chain(node, call.chain_id)?;
    let request = limited(call.request);
    let view = node.view()?;
    let at = at.unwrap_or(BlockRef::Pending);
    at_state(node, &view, at, |place| {
        view.estimate_gas(place, &request, work_limit(TIMEOUT_DEFAULT))
    })
    .map(Quantity)
}

fn limited(request: CallRequest) -> CallRequest {
    CallRequest {
        gas: request.gas.map(|gas| gas.min(GAS_MAX)),
        // Nobody pays this price. It only has to fit the type of the virtual machine.
        gas_price: request.gas_price.min(U256::from(u128::MAX)),
        ..request
    }
}
