//! Running one transaction on the EVM: the ordinary way, with the public network's refund
//! of failed calls, and the unmetered system call.
//!
//! Source: facts of the public network, sections 1 and 9. Knows frames and gas; knows no
//! blocks.

use crate::evm::ChainEvm;
use crate::spec::ChainSpec;
use crate::state::StateError;
use revm::Database;
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason};
use revm::context_interface::JournalTr;
use revm::handler::evm::FrameTr;
use revm::handler::{EthFrame, EvmTr, FrameResult, Handler, ItemOrResult, MainnetHandler};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{CallScheme, FrameInput, InstructionResult};
use revm::primitives::{Address, Bytes, TxKind};
use revm::state::EvmState;
use std::marker::PhantomData;

/// What the EVM gives: how the transaction ended, and the accounts it changed.
pub(crate) type Outcome = (ExecutionResult<HaltReason>, EvmState);

type Frame = EthFrame<EthInterpreter>;
type Plain<DB> = MainnetHandler<ChainEvm<DB>, EVMError<StateError>, Frame>;

/// Runs a transaction by the rules of `spec`. After an error nothing is left in the EVM.
///
/// # Errors
/// Why the transaction cannot be run, or the failure of the store.
pub(crate) fn transact<DB: Database<Error = StateError>>(
    evm: &mut ChainEvm<DB>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<Outcome, EVMError<StateError>> {
    evm.ctx.tx = transaction;
    let result = if spec.failed_calls_refund_gas {
        RefundingHandler(PhantomData).run(evm)
    } else {
        Plain::default().run(evm)
    };
    let state = evm.ctx.journaled_state.finalize();
    Ok((result?, state))
}

/// Runs a call that nobody pays and no gas limits: no nonce moves, no fee is paid.
///
/// # Errors
/// The failure of the store; a failing contract is a result.
pub(crate) fn system_call<DB: Database<Error = StateError>>(
    evm: &mut ChainEvm<DB>,
    caller: Address,
    contract: Address,
    data: Bytes,
) -> Result<Outcome, EVMError<StateError>> {
    /// As good as none, and far enough from overflow in sums of gas.
    const UNMETERED: u64 = i64::MAX as u64;
    evm.ctx.tx = TxEnv {
        caller,
        kind: TxKind::Call(contract),
        data,
        gas_limit: UNMETERED,
        ..Default::default()
    };
    let result = Plain::default().run_system_call(evm);
    let state = evm.ctx.journaled_state.finalize();
    Ok((result?, state))
}

/// Gives the gas that is left in a failed CALL, and in a failed transaction, back to the
/// caller, whatever the failure was. Other kinds of calls burn it.
struct RefundingHandler<DB>(PhantomData<DB>);

impl<DB: Database<Error = StateError>> Handler for RefundingHandler<DB> {
    type Evm = ChainEvm<DB>;
    type Error = EVMError<StateError>;
    type HaltReason = HaltReason;

    fn run_exec_loop(
        &mut self,
        evm: &mut Self::Evm,
        first: <Frame as FrameTr>::FrameInit,
    ) -> Result<FrameResult, Self::Error> {
        let mut refunds = vec![true];
        if let ItemOrResult::Result(result) = evm.frame_init(first)? {
            return Ok(soften(result, true));
        }
        loop {
            let (result, refund) = match evm.frame_run()? {
                ItemOrResult::Item(init) => {
                    let refund = is_call(&init.frame_input);
                    match evm.frame_init(init)? {
                        ItemOrResult::Item(_) => {
                            refunds.push(refund);
                            continue;
                        }
                        ItemOrResult::Result(result) => (result, refund),
                    }
                }
                ItemOrResult::Result(result) => (result, refunds.pop().unwrap_or(true)),
            };
            if let Some(result) = evm.frame_return_result(soften(result, refund))? {
                return Ok(result);
            }
        }
    }
}

fn is_call(input: &FrameInput) -> bool {
    matches!(input, FrameInput::Call(inputs) if inputs.scheme == CallScheme::Call)
}

/// Turns a halt into a revert without data, which undoes as much and keeps the gas.
fn soften(mut result: FrameResult, refund: bool) -> FrameResult {
    let inner = match &mut result {
        FrameResult::Call(outcome) => &mut outcome.result,
        FrameResult::Create(outcome) => &mut outcome.result,
    };
    if refund && inner.result.is_halt() && inner.result != InstructionResult::FatalExternalError {
        inner.result = InstructionResult::Revert;
        inner.output = Bytes::new();
    }
    result
}
