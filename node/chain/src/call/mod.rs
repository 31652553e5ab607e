//! Reads of a state and calls on it: accounts, slots, code, contract calls, gas estimates.
//!
//! Each is asked on the state of a canonical block or of the pending block. A call needs no funds,
//! and its changes are dropped. A call may replace values of accounts and of the block before it
//! runs: `overrides.rs`.

mod listing;
mod opcodes;
mod overrides;
mod reads;

pub use listing::AccessListOutcome;
pub use overrides::{BlockOverride, CallOverrides};
pub use reads::CallReads;

use std::time::Duration;

use primitives::{ACCESS_LIST_TX_TYPE, AccessListEntry, Address, Bytes, Header, LEGACY_TX_TYPE, U256};
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction};
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::primitives::TxKind;
use store::{StateReads, StoreError};

use self::opcodes::{INVALID_OPCODE, invalid_opcode_text};
use crate::evm::deadline::Deadline;
use crate::evm::handler::{EvmOutcome, inspect, transact_within};
use crate::evm::quick_call::QuickCallGuard;
use crate::evm::{ChainEvm, EvmContext, access_list, block_env, chain_evm, intrinsic_gas};
use crate::mining::build::UnsealedBlock;
use crate::pool::SenderState;
use crate::query_limit::{QueryLimit, QueryStop};
use crate::spec::{BlockRules, Rule};
use crate::state::{BlockState, Overlay, StateError, StateNotKept};
use crate::view::View;

/// The gas limit of a call that has none.
pub const CALL_GAS_DEFAULT: u64 = 50_000_000;

/// The default time limit of a call, or of all runs of an estimate.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// An estimate exceeds the smallest sufficient gas by at most this fraction of itself, 1/64.
const ESTIMATE_EXCESS_DIVISOR: u64 = 64;

/// A call to run.
#[derive(Clone, Debug, Default)]
pub struct CallRequest {
    /// The caller; `None` means the zero address.
    pub from: Option<Address>,
    /// The called account; `None` creates a contract.
    pub to: Option<Address>,
    /// The gas limit.
    pub gas: Option<u64>,
    /// The most gas that the call gets, whatever limit it asks for. `None` means as much as it asks
    /// for.
    pub gas_max: Option<u64>,
    /// The gas price, in sha. Nobody pays it, but the contract can read it.
    pub gas_price: U256,
    /// The value, in sha.
    pub value: U256,
    /// The call's input, or the code that creates the contract.
    pub input: Bytes,
    /// Accounts and slots that are named in advance (EIP-2930). They count where blocks may contain
    /// transactions with access lists.
    pub access_list: Vec<AccessListEntry>,
    /// The values that are replaced before the call runs.
    pub overrides: CallOverrides,
}

impl CallRequest {
    /// The access list, where it counts.
    fn access_list_at(&self, rules: BlockRules) -> &[AccessListEntry] {
        if rules.has(Rule::Eip2930) {
            &self.access_list
        } else {
            &[]
        }
    }

    /// The gas that the call gets.
    pub(crate) fn gas_of_call(&self) -> u64 {
        self.bounded_gas(self.gas, CALL_GAS_DEFAULT)
    }

    /// The gas of a call that asks for `gas`; `default` if it asks for none and has no bound.
    fn bounded_gas(&self, gas: Option<u64>, default: u64) -> u64 {
        match self.gas_max {
            Some(max) => gas.map_or(max, |gas| gas.min(max)),
            None => gas.unwrap_or(default),
        }
    }
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call succeeded.
    Success {
        /// The data that the contract returned, or the code of the created contract.
        output: Bytes,
        /// Gas used, after refunds.
        gas_used: u64,
    },
    /// The contract reverted.
    Revert {
        /// The data of the revert.
        output: Bytes,
        /// Gas used.
        gas_used: u64,
    },
    /// The call ran out of gas.
    OutOfGas,
    /// The call failed for another reason, which the text tells.
    Failed(String),
}

impl CallOutcome {
    /// The data that the contract returned or reverted with; nothing if the call failed otherwise.
    pub fn into_answer(self) -> Bytes {
        match self {
            Self::Success { output, .. } | Self::Revert { output, .. } => output,
            Self::OutOfGas | Self::Failed(_) => Bytes::new(),
        }
    }

    fn is_invalid_opcode(&self) -> bool {
        matches!(self, Self::Failed(reason) if reason == INVALID_OPCODE)
    }
}

/// The reason why a call could not be run.
#[derive(Debug, thiserror::Error)]
pub enum EvmCallError {
    /// The requested block is above the head.
    #[error("block {got} is above the head block {head}")]
    AboveHead {
        /// The requested block number.
        got: u64,
        /// The head's block number.
        head: u64,
    },
    /// The request is not valid.
    #[error("{0}")]
    Refused(String),
    /// The contract reverts with this data, with the most gas that is allowed.
    #[error("{}", revert_text(.0))]
    Reverted(Bytes),
    /// The call fails even with the most gas that is allowed.
    #[error("{0}")]
    AlwaysFails(String),
    /// The call was stopped because it exceeded its time limit, or nobody waits for it any more.
    #[error(transparent)]
    Stopped(#[from] QueryStop),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state is too old.
    #[error(transparent)]
    NotKept(#[from] StateNotKept),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The state that is read or that a call runs on.
#[derive(Clone, Copy, Debug)]
pub enum StateAt<'a> {
    /// The state after the canonical block of this number. A call sees the values of that block.
    Block(u64),
    /// The state after the pending block. A call sees the values of the pending block.
    Pending(&'a UnsealedBlock),
}

impl View {
    /// The nonce and balance of an account; zeros if it does not exist.
    ///
    /// # Errors
    /// [`EvmCallError`] when the block is above the head or the store fails.
    pub fn sender_state(&self, at: StateAt<'_>, address: &Address) -> Result<SenderState, EvmCallError> {
        let number = self.state_number(at)?;
        if let StateAt::Pending(draft) = at
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
    /// [`EvmCallError`] when the block is above the head or the store fails.
    pub fn slot_in(&self, at: StateAt<'_>, address: &Address, slot: &U256) -> Result<U256, EvmCallError> {
        let number = self.state_number(at)?;
        if let StateAt::Pending(draft) = at
            && let Some(value) = draft.overlay.slot(address, slot)
        {
            return Ok(value);
        }
        Ok(self.slot(address, slot, number)?)
    }

    /// The code of an account; empty if it has none.
    ///
    /// # Errors
    /// [`EvmCallError`] when the block is above the head or the store fails.
    pub fn code_in(&self, at: StateAt<'_>, address: &Address) -> Result<Vec<u8>, EvmCallError> {
        let number = self.state_number(at)?;
        if let StateAt::Pending(draft) = at
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

    /// The number of the stored block whose state `at` is or is built on.
    fn state_number(&self, at: StateAt<'_>) -> Result<u64, EvmCallError> {
        let (got, head) = (self.parent_number(at), self.head_number());
        if got > head {
            return Err(EvmCallError::AboveHead { got, head });
        }
        self.require_state(got)?;
        Ok(got)
    }

    /// Runs a call within `limit`.
    ///
    /// # Errors
    /// [`EvmCallError`] when the call cannot be run or takes too long. A failing contract is an
    /// outcome.
    pub fn call(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
        limit: impl Into<QueryLimit>,
    ) -> Result<CallOutcome, EvmCallError> {
        let (header, state) = self.open_call(at, request)?;
        let gas = request.gas_of_call();
        self.run(&header, state, request, gas, &mut Deadline::new(limit.into()))
    }

    /// Runs a call that needs at most some thousand instructions and a few reads of the store, see
    /// `evm::quick_call`. Returns `None` if the call needs more; then it was stopped.
    ///
    /// # Errors
    /// As for [`View::call`].
    pub fn quick_call(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
    ) -> Result<Option<CallOutcome>, EvmCallError> {
        let (header, mut state) = self.open_call(at, request)?;
        let gas = request.gas_of_call();
        let mut guard = QuickCallGuard::default();
        let outcome = self.run_call(&header, &mut state, request, gas, &mut guard);
        if guard.limit_reached() {
            return Ok(None);
        }
        // A whole call knows which opcode it was.
        let outcome = outcome_of(outcome?.result);
        Ok(Some(outcome).filter(|outcome| !outcome.is_invalid_opcode()))
    }

    /// Finds a gas limit with which a call succeeds, within `limit`. The result is what the call
    /// uses, or exceeds the smallest sufficient limit by at most 1/64 of itself. It is at most the
    /// request's gas or, without one, the block's gas limit.
    ///
    /// # Errors
    /// [`EvmCallError::Reverted`] or [`EvmCallError::AlwaysFails`] when the call does not succeed
    /// with the largest limit, [`EvmCallError::Stopped`] when the time is over.
    pub fn estimate_gas(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
        limit: impl Into<QueryLimit>,
    ) -> Result<u64, EvmCallError> {
        let mut deadline = Deadline::new(limit.into());
        let (header, state) = self.open_call(at, request)?;
        let overlay = state.into_overlay();
        let mut attempt = |gas: u64| {
            let state = self.state_with(at, overlay.clone())?;
            self.run(&header, state, request, gas, &mut deadline)
        };
        let cap = request.bounded_gas(request.gas.or(Some(header.gas_limit)), header.gas_limit);
        let rules = self.spec().rules_at(header.number);
        let listed = request.access_list_at(rules);
        let floor = intrinsic_gas(rules, &request.input, request.to.is_none(), listed);
        if cap < floor {
            return Err(EvmCallError::AlwaysFails(format!(
                "gas required exceeds allowance: got {cap}, expected at least {floor}"
            )));
        }
        let used = match attempt(cap)? {
            CallOutcome::Success { gas_used, .. } => gas_used,
            CallOutcome::Revert { output, .. } => {
                return Err(EvmCallError::Reverted(output));
            }
            CallOutcome::OutOfGas => {
                return Err(EvmCallError::AlwaysFails(format!(
                    "gas required exceeds allowance ({cap}) or always failing transaction"
                )));
            }
            CallOutcome::Failed(reason) => return Err(EvmCallError::AlwaysFails(reason)),
        };
        // The gas used is enough for most calls. It is not if a part is held back at inner calls,
        // or if refunds reduced it.
        let least = floor.max(used);
        if matches!(attempt(least)?, CallOutcome::Success { .. }) {
            return Ok(least);
        }
        let (mut fails, mut succeeds) = (least, cap);
        while succeeds - fails > 1 && succeeds - fails > succeeds / ESTIMATE_EXCESS_DIVISOR {
            // Most calls need little more than `fails`, and `succeeds` may be very high. So each
            // step at most doubles `fails`.
            let middle = (fails + (succeeds - fails) / 2).min(fails.saturating_mul(2));
            match attempt(middle)? {
                CallOutcome::Success { .. } => succeeds = middle,
                _ => fails = middle,
            }
        }
        Ok(succeeds)
    }

    const fn parent_number(&self, at: StateAt<'_>) -> u64 {
        match at {
            StateAt::Block(number) => number,
            StateAt::Pending(draft) => draft.block.header.number.saturating_sub(1),
        }
    }

    fn state_root_of(&self, number: u64) -> Result<primitives::B256, EvmCallError> {
        let head = self.head_number();
        let record = self
            .header(number)?
            .ok_or(EvmCallError::AboveHead { got: number, head })?
            .1;
        Ok(record.header.state_root)
    }

    /// The stored state that `at` is built on, with the changes of `overlay`.
    fn state_with(&self, at: StateAt<'_>, overlay: Overlay) -> Result<BlockState<'_>, EvmCallError> {
        let number = self.parent_number(at);
        let root = self.state_root_of(number)?;
        Ok(BlockState::with_overlay(self.snapshot(), number, root, overlay))
    }

    /// The header and the state that a call runs on, with what the call replaces.
    pub(crate) fn open_call(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
    ) -> Result<(Header, BlockState<'_>), EvmCallError> {
        let (mut header, mut state) = self.open_state(at)?;
        request.overrides.apply(&mut state, &mut header)?;
        Ok((header, state))
    }

    fn open_state(&self, at: StateAt<'_>) -> Result<(Header, BlockState<'_>), EvmCallError> {
        match at {
            StateAt::Block(number) => {
                let head = self.head_number();
                let (_, record) = self
                    .header(number)?
                    .ok_or(EvmCallError::AboveHead { got: number, head })?;
                self.require_state(number)?;
                let state = BlockState::new(self.snapshot(), number, record.header.state_root);
                Ok((record.header, state))
            }
            StateAt::Pending(draft) => {
                let state = self.state_with(at, draft.overlay.clone())?;
                Ok((draft.block.header.clone(), state))
            }
        }
    }

    fn run(
        &self,
        header: &Header,
        mut state: BlockState<'_>,
        request: &CallRequest,
        gas: u64,
        deadline: &mut Deadline,
    ) -> Result<CallOutcome, EvmCallError> {
        let EvmOutcome { result, .. } = self.run_call_within(header, &mut state, request, gas, deadline)?;
        let outcome = outcome_of(result);
        if outcome.is_invalid_opcode() {
            // The outermost call ends with its last instruction.
            let rules = self.spec().rules_at(header.number);
            let text = invalid_opcode_text(rules, deadline.last_opcode());
            return Ok(CallOutcome::Failed(text));
        }
        Ok(outcome)
    }

    /// Runs a call within a limit, and commits nothing.
    fn run_call_within(
        &self,
        header: &Header,
        state: &mut BlockState<'_>,
        request: &CallRequest,
        gas: u64,
        deadline: &mut Deadline,
    ) -> Result<EvmOutcome, EvmCallError> {
        let outcome = self.run_call_by(header, state, request, gas, |mut evm, transaction| {
            transact_within(&mut evm, self.spec(), transaction, deadline)
        });
        // If the call was stopped, its outcome is meaningless.
        if let Some(stop) = deadline.stopped() {
            return Err(stop.into());
        }
        let outcome = outcome?;
        deadline.check()?;
        Ok(outcome)
    }

    /// Runs a call with an inspector, and commits nothing.
    pub(crate) fn run_call<'s, 'v, I>(
        &self,
        header: &Header,
        state: &'s mut BlockState<'v>,
        request: &CallRequest,
        gas: u64,
        inspector: I,
    ) -> Result<EvmOutcome, EvmCallError>
    where
        I: Inspector<EvmContext<&'s mut BlockState<'v>>, EthInterpreter>,
    {
        self.run_call_by(header, state, request, gas, |evm, transaction| {
            inspect(&mut evm.with_inspector(inspector), self.spec(), transaction)
        })
    }

    /// Makes the EVM and the transaction of a call, and lets `run` run them.
    fn run_call_by<'s, 'v>(
        &self,
        header: &Header,
        state: &'s mut BlockState<'v>,
        request: &CallRequest,
        gas: u64,
        run: impl FnOnce(ChainEvm<&'s mut BlockState<'v>>, TxEnv) -> Result<EvmOutcome, EVMError<StateError>>,
    ) -> Result<EvmOutcome, EvmCallError> {
        let caller = request.from.unwrap_or_default();
        let nonce = state.balance_and_nonce(caller)?.1;
        let gas_price = u128::try_from(request.gas_price).map_err(|_| {
            EvmCallError::Refused(format!(
                "gas price {} does not fit in 128 bits",
                request.gas_price
            ))
        })?;
        // Nobody pays this cost, but the EVM computes it and must not overflow.
        let cost = gas_price.checked_mul(u128::from(gas)).map(U256::from);
        if cost.and_then(|cost| cost.checked_add(request.value)).is_none() {
            return Err(EvmCallError::Refused(format!(
                "gas {gas} times gas price {gas_price} plus value {} does not fit in 256 bits",
                request.value
            )));
        }
        let chain_id = self.spec().wallet_chain_id(header.number);
        let mut evm = chain_evm(state, self.spec(), block_env(header), |cfg| {
            cfg.chain_id = chain_id;
            cfg.disable_balance_check = true;
            cfg.disable_block_gas_limit = true;
            cfg.disable_nonce_check = true;
            cfg.disable_eip3607 = true;
            cfg.tx_chain_id_check = false;
        });
        evm.ctx.chain.create2.refuses_large_memory = true;
        let listed = request.access_list_at(self.spec().rules_at(header.number));
        let tx_type = if listed.is_empty() {
            LEGACY_TX_TYPE
        } else {
            ACCESS_LIST_TX_TYPE
        };
        let transaction = TxEnv {
            tx_type,
            access_list: access_list(listed),
            caller,
            gas_limit: gas,
            gas_price,
            kind: request.to.map_or(TxKind::Create, TxKind::Call),
            value: request.value,
            data: request.input.clone(),
            nonce,
            chain_id: Some(chain_id),
            ..Default::default()
        };
        run(evm, transaction).map_err(|error| match error {
            EVMError::Database(error) => error.into(),
            EVMError::Transaction(InvalidTransaction::CallGasCostMoreThanGasLimit {
                initial_gas,
                gas_limit,
            }) => EvmCallError::Refused(format!(
                "intrinsic gasRemaining too low: got {gas_limit}, expected {initial_gas}"
            )),
            other => EvmCallError::Refused(other.to_string()),
        })
    }
}

/// The end of a call, as its caller sees it.
fn outcome_of(result: ExecutionResult<HaltReason>) -> CallOutcome {
    let gas_used = result.tx_gas_used();
    match result {
        ExecutionResult::Success { output, .. } => CallOutcome::Success {
            output: output.into_data(),
            gas_used,
        },
        ExecutionResult::Revert { output, .. } => CallOutcome::Revert { output, gas_used },
        ExecutionResult::Halt {
            reason: HaltReason::OutOfGas(_),
            ..
        } => CallOutcome::OutOfGas,
        ExecutionResult::Halt { reason, .. } => CallOutcome::Failed(halt_text(&reason)),
    }
}

/// The text of a halt, for users.
pub(crate) fn halt_text(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode | HaltReason::NotActivated => {
            INVALID_OPCODE.to_owned()
        }
        HaltReason::CreateCollision => "contract address collision".to_owned(),
        other => format!("evm: {other:?}"),
    }
}

/// The text of a revert, with the reason if the data is the ABI encoding of `Error(string)`, or of
/// `Panic(uint256)` with a code that Solidity has.
pub fn revert_text(output: &[u8]) -> String {
    const ERROR_STRING: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
    let panic = || {
        let code = <[u8; 32]>::try_from(output.strip_prefix(&PANIC)?).ok()?;
        panic_reason(u8::try_from(U256::from_be_bytes(code)).ok()?)
    };
    let reason = || {
        let arguments = output.strip_prefix(&ERROR_STRING)?;
        let offset = usize::try_from(U256::try_from_be_slice(arguments.get(..32)?)?).ok()?;
        let tail = arguments.get(offset..)?;
        let length = usize::try_from(U256::try_from_be_slice(tail.get(..32)?)?).ok()?;
        std::str::from_utf8(tail.get(32..)?.get(..length)?).ok()
    };
    match reason().or_else(panic) {
        Some(reason) => format!("evm: execution reverted: {reason}"),
        None => "evm: execution reverted".to_owned(),
    }
}

/// The meaning of a code of Solidity's `Panic`, in the words of geth.
const fn panic_reason(code: u8) -> Option<&'static str> {
    Some(match code {
        0x00 => "generic panic",
        0x01 => "assert(false)",
        0x11 => "arithmetic underflow or overflow",
        0x12 => "division or modulo by zero",
        0x21 => "enum overflow",
        0x22 => "invalid encoded storage byte array accessed",
        0x31 => "out-of-bounds array access; popping on an empty array",
        0x32 => "out-of-bounds access of an array or bytesN",
        0x41 => "out of memory",
        0x51 => "uninitialized function",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_have_a_reason() {
        let text = |code: u64| {
            let code = U256::from(code).to_be_bytes::<32>();
            revert_text(&[&[0x4e, 0x48, 0x7b, 0x71], code.as_slice()].concat())
        };
        assert_eq!(text(0x12), "evm: execution reverted: division or modulo by zero");
        assert_eq!((text(2), text(0x112)), (text(0x99), text(0x99)));
        assert_eq!(text(0x99), "evm: execution reverted");
    }

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
