//! Questions about a state: what an account has, what a contract would answer, what gas that takes.
//!
//! Asked at a canonical block or at the pending one. A caller need not own what it sends, and
//! nothing is kept.

use std::time::Duration;

use primitives::{Address, Bytes, Header, U256};
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction};
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::primitives::TxKind;
use store::{Snapshot, StateReads, StoreError};

use crate::evm::deadline::Deadline;
use crate::evm::handler::{Outcome, inspect};
use crate::evm::quick::Watchdog;
use crate::evm::{Ctx, block_env, chain_evm, intrinsic_gas};
use crate::mining::build::UnsealedBlock;
use crate::pool::SenderState;
use crate::state::{BlockState, StateError};
use crate::view::View;

/// Gas of a call that names none.
pub const CALL_GAS_DEFAULT: u64 = 50_000_000;

/// How long a call, or all of an estimate, may take unless told otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// An estimate is above the least gas by no more than this part of itself.
const ESTIMATE_EXCESS_PART: u64 = 64;

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct CallRequest {
    /// Who calls; the zero address where absent.
    pub from: Option<Address>,
    /// Who is called; `None` makes a contract.
    pub to: Option<Address>,
    /// Gas to give.
    pub gas: Option<u64>,
    /// Price per gas, in sha; nobody pays it, but the contract sees it.
    pub gas_price: U256,
    /// Value to send along.
    pub value: U256,
    /// Data.
    pub input: Bytes,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// With this answer, for this much gas.
    Success {
        /// What the contract returned, or the code a creation made.
        output: Bytes,
        /// Gas used, after refunds.
        gas_used: u64,
    },
    /// The contract reverted with this data.
    Revert {
        /// What it gave as reason.
        output: Bytes,
        /// Gas used.
        gas_used: u64,
    },
    /// It ran out of gas.
    OutOfGas,
    /// It failed otherwise; the text says how.
    Failed(String),
}

/// Why a call could not be run.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No state at this height.
    #[error("block {got} is above the head block {head}")]
    AboveHead {
        /// The height asked for.
        got: u64,
        /// The head's height.
        head: u64,
    },
    /// The request itself is refused.
    #[error("{0}")]
    Refused(String),
    /// The contract reverts with this data whatever the gas.
    #[error("{}", revert_text(.0))]
    Reverted(Bytes),
    /// The gas does not suffice even at the cap, or the call always fails.
    #[error("{0}")]
    AlwaysFails(String),
    /// It was stopped, as it took longer than it may.
    #[error("execution aborted (timeout = {0:?})")]
    Timeout(Duration),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Where a question is asked.
#[derive(Clone, Copy, Debug)]
pub enum CallPlace<'a> {
    /// On the state after a canonical block, as part of that block.
    After(u64),
    /// On the state after the pending block, as part of it.
    Pending(&'a UnsealedBlock),
}

impl View {
    /// Nonce and balance of an account; zeros where it does not exist.
    ///
    /// # Errors
    /// [`CallError`] when there is no such state or the store fails.
    pub fn standing_in(&self, place: CallPlace<'_>, address: &Address) -> Result<SenderState, CallError> {
        let number = self.state_number(place)?;
        if let CallPlace::Pending(draft) = place
            && let Some(info) = draft.overlay.account(address)
        {
            return Ok(info.map_or_else(SenderState::default, |info| SenderState {
                tx_nonce: info.nonce,
                balance: info.balance,
            }));
        }
        let account = self.account(address, number)?.unwrap_or_default();
        Ok(SenderState {
            tx_nonce: account.tx_nonce,
            balance: account.balance,
        })
    }

    /// The value of a storage slot.
    ///
    /// # Errors
    /// [`CallError`] when there is no such state or the store fails.
    pub fn slot_in(&self, place: CallPlace<'_>, address: &Address, slot: &U256) -> Result<U256, CallError> {
        let number = self.state_number(place)?;
        if let CallPlace::Pending(draft) = place
            && let Some(value) = draft.overlay.slot(address, slot)
        {
            return Ok(value);
        }
        Ok(self.slot(address, slot, number)?)
    }

    /// The code at an address; empty where there is none.
    ///
    /// # Errors
    /// [`CallError`] when there is no such state or the store fails.
    pub fn code_in(&self, place: CallPlace<'_>, address: &Address) -> Result<Vec<u8>, CallError> {
        let number = self.state_number(place)?;
        if let CallPlace::Pending(draft) = place
            && let Some(info) = draft.overlay.account(address)
        {
            let Some(info) = info else {
                return Ok(Vec::new());
            };
            return Ok(match draft.overlay.code(&info.code_hash) {
                Some(code) => code.original_byte_slice().to_vec(),
                None => self.snapshot().code(&info.code_hash)?,
            });
        }
        Ok(self.code(address, number)?)
    }

    /// The stored height that a place's state is, or is built on.
    fn state_number(&self, place: CallPlace<'_>) -> Result<u64, CallError> {
        let (got, head) = (self.parent_number(place), self.head_number());
        if got > head {
            return Err(CallError::AboveHead { got, head });
        }
        Ok(got)
    }

    /// Runs a call, for at most `timeout`.
    ///
    /// # Errors
    /// [`CallError`] when it cannot be run or takes too long; a failing contract is an outcome.
    pub fn call(
        &self,
        place: CallPlace<'_>,
        request: &CallRequest,
        timeout: Duration,
    ) -> Result<CallOutcome, CallError> {
        let (header, state) = self.place(place)?;
        let gas = request.gas.unwrap_or(CALL_GAS_DEFAULT);
        self.run(&header, state, request, gas, &mut Deadline::new(timeout))
    }

    /// Runs a call where it ends within some thousand instructions and a few reads of the store.
    /// `None`: it takes longer, or may, and was given up.
    ///
    /// # Errors
    /// As for [`View::call`].
    pub fn quick_call(
        &self,
        place: CallPlace<'_>,
        request: &CallRequest,
    ) -> Result<Option<CallOutcome>, CallError> {
        let (header, state) = self.place(place)?;
        let gas = request.gas.unwrap_or(CALL_GAS_DEFAULT);
        let mut watchdog = Watchdog::default();
        let outcome = self.run_under(&header, state, request, gas, &mut watchdog);
        if watchdog.has_given_up() {
            return Ok(None);
        }
        outcome.map(Some)
    }

    /// Gas with which a call succeeds, no more than a 64th of it above the least; found within
    /// `timeout`. The cap is the request's gas, or the block's gas limit.
    ///
    /// # Errors
    /// [`CallError::Reverted`] or [`CallError::AlwaysFails`] when it does not succeed with the
    /// cap, [`CallError::Timeout`] when the time does not suffice.
    pub fn estimate_gas(
        &self,
        place: CallPlace<'_>,
        request: &CallRequest,
        timeout: Duration,
    ) -> Result<u64, CallError> {
        let mut deadline = Deadline::new(timeout);
        let (header, state) = self.place(place)?;
        let overlay = state.into_overlay();
        let mut attempt = |gas: u64| {
            let number = self.parent_number(place);
            let state = BlockState::with_overlay(
                self.snapshot(),
                number,
                self.state_root_of(number)?,
                overlay.clone(),
            );
            self.run(&header, state, request, gas, &mut deadline)
        };
        let cap = request.gas.unwrap_or(header.gas_limit);
        let floor = intrinsic_gas(
            self.spec().at(header.number),
            &request.input,
            request.to.is_none(),
        );
        if cap < floor {
            return Err(CallError::AlwaysFails(format!(
                "gas required exceeds allowance: want at least {floor}, the cap is {cap}"
            )));
        }
        let used = match attempt(cap)? {
            CallOutcome::Success { gas_used, .. } => gas_used,
            CallOutcome::Revert { output, .. } => {
                return Err(CallError::Reverted(output));
            }
            CallOutcome::OutOfGas => {
                return Err(CallError::AlwaysFails(format!(
                    "gas required exceeds allowance ({cap}) or always failing transaction"
                )));
            }
            CallOutcome::Failed(reason) => return Err(CallError::AlwaysFails(reason)),
        };
        // Mostly the gas used is enough; not where calls keep a part back or refunds come last.
        let least = floor.max(used);
        if matches!(attempt(least)?, CallOutcome::Success { .. }) {
            return Ok(least);
        }
        let (mut fails, mut succeeds) = (least, cap);
        while succeeds - fails > 1 && succeeds - fails > succeeds / ESTIMATE_EXCESS_PART {
            // What is too little is so by little, mostly, and caps are high.
            let middle = (fails + (succeeds - fails) / 2).min(fails.saturating_mul(2));
            match attempt(middle)? {
                CallOutcome::Success { .. } => succeeds = middle,
                _ => fails = middle,
            }
        }
        Ok(succeeds)
    }

    fn parent_number(&self, place: CallPlace<'_>) -> u64 {
        match place {
            CallPlace::After(number) => number,
            CallPlace::Pending(draft) => draft.block.header.number.saturating_sub(1),
        }
    }

    fn state_root_of(&self, number: u64) -> Result<primitives::B256, CallError> {
        let head = self.head_number();
        let record = self
            .header(number)?
            .ok_or(CallError::AboveHead { got: number, head })?
            .1;
        Ok(record.header.state_root)
    }

    fn place(&self, place: CallPlace<'_>) -> Result<(Header, BlockState<'_, Snapshot>), CallError> {
        match place {
            CallPlace::After(number) => {
                let head = self.head_number();
                let (_, record) = self
                    .header(number)?
                    .ok_or(CallError::AboveHead { got: number, head })?;
                let state = BlockState::new(self.snapshot(), number, record.header.state_root);
                Ok((record.header, state))
            }
            CallPlace::Pending(draft) => {
                let number = self.parent_number(place);
                let root = self.state_root_of(number)?;
                let overlay = draft.overlay.clone();
                let state = BlockState::with_overlay(self.snapshot(), number, root, overlay);
                Ok((draft.block.header.clone(), state))
            }
        }
    }

    fn run(
        &self,
        header: &Header,
        state: BlockState<'_, Snapshot>,
        request: &CallRequest,
        gas: u64,
        deadline: &mut Deadline,
    ) -> Result<CallOutcome, CallError> {
        let outcome = self.run_under(header, state, request, gas, &mut *deadline)?;
        if deadline.is_over() {
            // It may have been stopped, and then tells nothing.
            return Err(CallError::Timeout(deadline.timeout()));
        }
        Ok(outcome)
    }

    /// Runs a call under the eyes of `inspector`.
    fn run_under<'v, I>(
        &self,
        header: &Header,
        mut state: BlockState<'v, Snapshot>,
        request: &CallRequest,
        gas: u64,
        inspector: I,
    ) -> Result<CallOutcome, CallError>
    where
        I: for<'s> Inspector<Ctx<&'s mut BlockState<'v, Snapshot>>, EthInterpreter>,
    {
        let caller = request.from.unwrap_or_default();
        let nonce = state.balance_and_nonce(caller)?.1;
        let gas_price = u128::try_from(request.gas_price)
            .map_err(|_| CallError::Refused(format!("gas price {} is over 128 bits", request.gas_price)))?;
        // Nobody pays, but the machine multiplies and adds.
        let cost = gas_price.checked_mul(u128::from(gas)).map(U256::from);
        if cost.and_then(|cost| cost.checked_add(request.value)).is_none() {
            return Err(CallError::Refused(format!(
                "gas {gas} at price {gas_price} and value {} are more than fits the machine",
                request.value
            )));
        }
        let mut evm = chain_evm(&mut state, self.spec(), block_env(header), |cfg| {
            cfg.disable_balance_check = true;
            cfg.disable_block_gas_limit = true;
            cfg.disable_nonce_check = true;
            cfg.disable_eip3607 = true;
            cfg.tx_chain_id_check = false;
        })
        .with_inspector(inspector);
        let transaction = TxEnv {
            caller,
            gas_limit: gas,
            gas_price,
            kind: request.to.map_or(TxKind::Create, TxKind::Call),
            value: request.value,
            data: request.input.clone(),
            nonce,
            chain_id: Some(self.spec().chain_id),
            ..Default::default()
        };
        match inspect(&mut evm, self.spec(), transaction) {
            // Of a call nothing stays: neither changes nor notices.
            Ok(Outcome { result, .. }) => Ok(match result {
                ExecutionResult::Success { ref output, .. } => CallOutcome::Success {
                    output: output.data().clone(),
                    gas_used: result.tx_gas_used(),
                },
                ExecutionResult::Revert { ref output, .. } => CallOutcome::Revert {
                    output: output.clone(),
                    gas_used: result.tx_gas_used(),
                },
                ExecutionResult::Halt {
                    reason: HaltReason::OutOfGas(_),
                    ..
                } => CallOutcome::OutOfGas,
                ExecutionResult::Halt { reason, .. } => CallOutcome::Failed(halt_text(&reason)),
            }),
            Err(EVMError::Database(error)) => Err(error.into()),
            Err(EVMError::Transaction(InvalidTransaction::CallGasCostMoreThanGasLimit {
                initial_gas,
                gas_limit,
            })) => Err(CallError::Refused(format!(
                "intrinsic gasRemaining too low: got {gas_limit}, want {initial_gas}"
            ))),
            Err(other) => Err(CallError::Refused(other.to_string())),
        }
    }
}

/// How a halt is told to users.
pub(crate) fn halt_text(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode | HaltReason::NotActivated => {
            "Invalid opcode".to_owned()
        }
        HaltReason::CreateCollision => "contract address collision".to_owned(),
        other => format!("evm: {other:?}"),
    }
}

/// The text of a revert: with the reason where the data is `Error(string)`.
pub fn revert_text(output: &[u8]) -> String {
    const ERROR_STRING: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    let reason = || {
        let arguments = output.strip_prefix(&ERROR_STRING)?;
        let offset = usize::try_from(U256::try_from_be_slice(arguments.get(..32)?)?).ok()?;
        let tail = arguments.get(offset..)?;
        let length = usize::try_from(U256::try_from_be_slice(tail.get(..32)?)?).ok()?;
        std::str::from_utf8(tail.get(32..)?.get(..length)?).ok()
    };
    match reason() {
        Some(reason) => format!("evm: execution reverted: {reason}"),
        None => "evm: execution reverted".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revert_reasons_are_read_and_bad_ones_ignored() {
        let mut data = vec![0x08, 0xc3, 0x79, 0xa0];
        data.extend(U256::from(32).to_be_bytes::<32>());
        data.extend(U256::from(3).to_be_bytes::<32>());
        data.extend(b"why");
        data.resize(100, 0);
        assert_eq!(revert_text(&data), "evm: execution reverted: why");
        for cut in 0..70 {
            assert_eq!(
                revert_text(&data[..cut]),
                "evm: execution reverted",
                "cut at {cut}"
            );
        }
        data[4..36].fill(0xff);
        assert_eq!(revert_text(&data), "evm: execution reverted");
    }
}
