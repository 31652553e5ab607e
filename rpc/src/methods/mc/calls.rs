//! Calls without a transaction (docs/interface.md, 4.5).
//!
//! The caller need not own what the call spends. Both methods have a smaller share of the threads
//! than other methods. The operator bounds their gas and their time. They stop when nobody waits
//! for them.

use chain::call::{CallOutcome, CallOverrides, CallRequest, revert_text};
use primitives::{Bytes, U256};

use super::accounts::check_chain;
use super::lookup::at_state;
use super::overrides::{BlockOverrides, StateOverrides};
use super::request::CallObject;
use crate::budget::query_limit;
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::{InlineError, Method, ReadScope};
use crate::types::{BlockRef, Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::brief(
            "mc_call",
            ["call", "block", "stateOverrides", "blockOverrides"],
            call,
        )
        .summary(
            "Returns the output of a contract call or, without a field `to`, the code that a creation \
             returns. No transaction is made. The overrides replace values of accounts and of the block.",
        ),
        Method::heavy(
            "mc_estimateGas",
            ["call", "block", "stateOverrides", "blockOverrides"],
            estimate_gas,
        )
        .summary(
            "Returns an amount of gas that is enough for a call. It is at most 1/64 above the \
             lowest such amount, or what the call uses if that is more. The default block is the pending block. The overrides replace values of \
             accounts and of the block.",
        ),
    ]
}

/// `mc_call`: the output of the contract. A call of no account creates a contract: the input is the
/// code that runs, and the output is the code that it returns. If the call fails, the answer is an
/// error. After a revert the data of the error is the output.
fn call(
    node: &Node,
    (call, at, state, block): (CallObject, BlockRef, StateOverrides, BlockOverrides),
    scope: ReadScope,
) -> Result<Data<Bytes>, InlineError> {
    let request = call_request(node, call, state, block)?;
    let view = node.view()?;
    let outcome = match (scope, at) {
        (ReadScope::Memory, BlockRef::Pending) => None,
        (ReadScope::Memory, _) if node.long_calls.skips(&request) => None,
        (ReadScope::Memory, at) => {
            let quick = at_state(node, &view, at, |place| view.quick_call(place, &request))?;
            if quick.is_none() && request.overrides == CallOverrides::default() {
                node.long_calls.note(&request);
            }
            quick
        }
        (ReadScope::Store, at) => Some(at_state(node, &view, at, |place| {
            view.call(place, &request, query_limit(node.settings.call_timeout))
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
/// little more, but not less than the call uses: its inner calls may fail with less. By default the
/// call runs in the pending block.
fn estimate_gas(
    node: &Node,
    (call, at, state, block): (CallObject, Option<BlockRef>, StateOverrides, BlockOverrides),
) -> RpcResult<Quantity> {
    let request = call_request(node, call, state, block)?;
    estimate(node, at.unwrap_or(BlockRef::Pending), &request).map(Quantity)
}

/// The gas for a call at `at`.
pub(super) fn estimate(node: &Node, at: BlockRef, request: &CallRequest) -> RpcResult<u64> {
    if let Some(application) = &node.application {
        application.check_call(request)?;
    }
    let view = node.view()?;
    let gas = at_state(node, &view, at, |place| {
        view.estimate_gas(place, request, query_limit(node.settings.call_timeout))
    })?;
    Ok(match node.application {
        Some(_) => gas.max(ethereum_intrinsic_gas(request)),
        None => gas,
    })
}

/// The gas that Ethereum takes for the input of a transaction before its code runs, by its dearest
/// rules. Libraries sign with no lower limit, though an application chain takes less.
fn ethereum_intrinsic_gas(request: &CallRequest) -> u64 {
    let zeros = request.input.iter().filter(|byte| **byte == 0).count() as u64;
    let len = request.input.len() as u64;
    let creation = match request.to {
        Some(_) => 0,
        None => 32_000 + 2 * len.div_ceil(32),
    };
    21_000 + 4 * zeros + 68 * (len - zeros) + creation
}

/// The call with what it replaces, within the operator's bounds. Refuses a call of another chain.
pub(in crate::methods) fn call_request(
    node: &Node,
    CallObject { request, chain_id }: CallObject,
    StateOverrides(accounts): StateOverrides,
    BlockOverrides(block): BlockOverrides,
) -> RpcResult<CallRequest> {
    check_chain(node, chain_id)?;
    Ok(CallRequest {
        gas_max: Some(node.settings.call_gas_max),
        // Nobody pays this price. It only has to fit the type of the virtual machine.
        gas_price: request.gas_price.min(U256::from(u128::MAX)),
        overrides: CallOverrides { accounts, block },
        ..request
    })
}
