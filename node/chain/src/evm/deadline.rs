//! A limit for the EVM that stops it: the time is over, or nobody waits any more.
//!
//! Calls run in a loop of their own, [`Deadline::run_frame`], which counts instructions and does
//! nothing else for each. It ends with an error.
//!
//! An inspector that is needed anyway has the limit as a part. An inspector cannot return an error.
//! So it halts the interpreter, and the caller asks [`Deadline::check`] afterwards.

use revm::Database;
use revm::context::result::EVMError;
use revm::handler::{EthFrame, FrameInitOrResult};
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{Jumps, LegacyBytecode, LoopControl};
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
    InterpreterResult,
};
use revm::primitives::Bytes;

use crate::evm::ChainEvm;
use crate::evm::refund::{finish_frame, restore_gas};
use crate::query_limit::{QueryLimit, QueryStop};
use crate::state::StateError;

/// The limit is checked once in so many steps, because reading the clock costs more than a step.
const STEPS_PER_CHECK: u32 = 256;

/// The time at which the EVM has to end, and the reason why it was stopped.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: QueryLimit,
    /// The most gas that one frame may use, with the frames that it has called and that have ended.
    frame_gas: u64,
    steps: u32,
    last_opcode: u8,
    stop: Option<QueryStop>,
    /// Whether a frame has used more gas.
    is_costly: bool,
}

impl Deadline {
    pub(crate) const fn new(limit: QueryLimit) -> Self {
        Self {
            limit,
            frame_gas: u64::MAX,
            steps: 0,
            last_opcode: 0,
            stop: None,
            is_costly: false,
        }
    }

    /// The same limit, which also stops the EVM when a frame has used more gas.
    pub(crate) const fn with_frame_gas(mut self, gas: u64) -> Self {
        self.frame_gas = gas;
        self
    }

    /// Whether the EVM was stopped because a frame had used too much gas.
    pub(crate) const fn is_costly(&self) -> bool {
        self.is_costly
    }

    /// The opcode of the instruction that ended the last run of [`Self::run_frame`].
    pub(crate) const fn last_opcode(&self) -> u8 {
        self.last_opcode
    }

    /// The limit that the EVM has.
    pub(crate) const fn limit(&self) -> &QueryLimit {
        &self.limit
    }

    /// The reason why the EVM was stopped; `None` if it ended by itself.
    pub(crate) const fn stopped(&self) -> Option<QueryStop> {
        self.stop
    }

    /// Counts a step. Returns `false` if the EVM has to end; then this must be the last step.
    pub(crate) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_CHECK) {
            self.is_over();
        }
        self.stop.is_none()
    }

    /// Checks whether the EVM has to end now, or had to end before.
    ///
    /// # Errors
    /// The reason, if it has.
    pub(crate) fn check(&self) -> Result<(), QueryStop> {
        match self.stop {
            Some(stop) => Err(stop),
            None => self.limit.check(),
        }
    }

    /// Checks whether the EVM has to end, and remembers the reason. This reads the clock.
    ///
    /// # Errors
    /// The reason as a text. The caller asks [`Self::stopped`] for it.
    pub(crate) fn go_on(&mut self) -> Result<(), EVMError<StateError>> {
        self.is_over();
        self.stop
            .map_or(Ok(()), |stop| Err(EVMError::Custom(stop.to_string())))
    }

    /// Runs the top frame until it makes a call or ends. `refunded` says that its gas goes back
    /// when it fails, see [`restore_gas`].
    ///
    /// # Errors
    /// [`EVMError::Database`] when the store fails, and as for [`Self::go_on`].
    pub(crate) fn run_frame<DB: Database<Error = StateError>, I>(
        &mut self,
        evm: &mut ChainEvm<DB, I>,
        refunded: bool,
    ) -> Result<FrameInitOrResult<EthFrame<EthInterpreter>>, EVMError<StateError>> {
        let frame = evm.frame_stack.get();
        let (table, gas_table) = (evm.instruction.instruction_table(), evm.instruction.gas_table());
        let interpreter = &mut frame.interpreter;
        let (end, before) = 'run: loop {
            for _ in 0..STEPS_PER_CHECK {
                let before = interpreter.gas.remaining();
                if let Err(end) = interpreter.step(table, gas_table, &mut evm.ctx) {
                    break 'run (end, before);
                }
            }
            self.go_on()?;
        };
        // The program counter is behind the opcode. Only a jump, which ends nothing, moves it on.
        let opcode_at = interpreter.bytecode.pc().wrapping_sub(1);
        let opcode = interpreter.bytecode.bytecode_slice().get(opcode_at);
        self.last_opcode = opcode.copied().unwrap_or(0);
        if interpreter.bytecode.action().is_none() {
            interpreter.halt(end);
        }
        let mut action = interpreter.take_next_action();
        if refunded {
            action = restore_gas(action, before);
        }
        finish_frame(frame, &mut evm.ctx, action)
    }

    /// Whether the EVM has to end. This reads the clock.
    fn is_over(&mut self) -> bool {
        self.stop = self.check().err();
        self.stop.is_some()
    }
}

/// The result of a frame that is not run because a limit was reached.
pub(crate) const fn skipped_frame(gas_limit: u64) -> InterpreterResult {
    InterpreterResult::new(InstructionResult::OutOfGas, Bytes::new(), Gas::new(gas_limit))
}

/// The result of a call that is not run because a limit was reached.
pub(crate) fn skipped_call(inputs: &CallInputs) -> CallOutcome {
    CallOutcome::new(
        skipped_frame(inputs.gas_limit),
        inputs.return_memory_offset.clone(),
    )
}

impl<C> Inspector<C, EthInterpreter> for Deadline {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        self.is_costly |= interpreter.gas.total_gas_spent() > self.frame_gas;
        if !self.step() || self.is_costly {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    // A precompiled contract has no steps and takes much longer than a step. So the limit is
    // checked at every call.
    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.is_over().then(|| skipped_call(inputs))
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.is_over()
            .then(|| CreateOutcome::new(skipped_frame(inputs.gas_limit()), None))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use primitives::hex;
    use revm::bytecode::Bytecode;
    use revm::context::{BlockEnv, TxEnv};
    use revm::primitives::{Address, B256, TxKind, U256};
    use revm::state::AccountInfo;

    use super::*;
    use crate::evm::chain_evm;
    use crate::evm::handler::{EvmOutcome, transact, transact_within};
    use crate::query_limit::CancelFlag;
    use crate::spec::ChainSpec;
    use crate::state::StorageProbe;

    #[track_caller]
    fn check_stops(mut deadline: Deadline, expected: QueryStop) {
        let steps = (0..).take_while(|_| deadline.step()).count();
        assert!(steps < STEPS_PER_CHECK as usize, "{steps}");
        assert!(!deadline.step());
        assert_eq!(deadline.check(), Err(expected));
    }

    #[test]
    fn a_deadline_that_is_over_stays_over() {
        let flag = CancelFlag::default();
        let endless = || Deadline::new(QueryLimit::new(Duration::MAX).cancelled_by(&flag));
        let mut deadline = endless();
        assert!((0..=STEPS_PER_CHECK).all(|_| deadline.step()) && deadline.check().is_ok());
        flag.cancel();
        check_stops(endless(), QueryStop::Cancelled);
        check_stops(
            Deadline::new(Duration::ZERO.into()),
            QueryStop::Timeout(Duration::ZERO),
        );
    }

    const CONTRACT: Address = Address::repeat_byte(0xc0);
    const GAS: u64 = 50_000_000;

    /// A state with one contract. Nobody waits any more once an account from 0x1000 to 0x2fff is
    /// read.
    struct OneContract {
        code: Bytecode,
        flag: CancelFlag,
        reads: u32,
    }

    impl Database for OneContract {
        type Error = StateError;

        fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
            if (0x1000..0x3000).contains(&U256::from_be_slice(address.as_slice()).saturating_to::<u64>()) {
                self.flag.cancel();
                self.reads += 1;
            }
            Ok((address == CONTRACT).then(|| AccountInfo::from_bytecode(self.code.clone())))
        }

        fn code_by_hash(&mut self, _: B256) -> Result<Bytecode, StateError> {
            Ok(self.code.clone())
        }

        fn storage(&mut self, _: Address, _: U256) -> Result<U256, StateError> {
            Ok(U256::ZERO)
        }

        fn block_hash(&mut self, _: u64) -> Result<B256, StateError> {
            Ok(B256::ZERO)
        }
    }

    impl StorageProbe for OneContract {
        fn has_storage(&mut self, _: Address) -> Result<bool, StateError> {
            Ok(false)
        }
    }

    fn specs() -> [ChainSpec; 2] {
        let ethereum = ChainSpec::dev_of_fork("Shanghai").expect("a fork");
        [ChainSpec::dev(), ethereum]
    }

    /// Runs the contract, with a deadline or without one. Returns the outcome and the number of
    /// accounts from 0x1000 to 0x2fff that were read.
    fn run_code(
        spec: &ChainSpec,
        code: &str,
        deadline: Option<&mut Deadline>,
        flag: CancelFlag,
    ) -> (Result<EvmOutcome, EVMError<StateError>>, u32) {
        let code = hex::decode(code.replace(' ', "")).expect("digits");
        let state = OneContract {
            code: Bytecode::new_legacy(code.into()),
            flag,
            reads: 0,
        };
        let mut evm = chain_evm(state, spec, BlockEnv::default(), |cfg| {
            cfg.disable_block_gas_limit = true;
            cfg.tx_chain_id_check = false;
        });
        let transaction = TxEnv {
            kind: TxKind::Call(CONTRACT),
            gas_limit: GAS,
            ..Default::default()
        };
        let outcome = match deadline {
            Some(deadline) => transact_within(&mut evm, spec, transaction, deadline),
            None => transact(&mut evm, spec, transaction),
        };
        (outcome, evm.ctx.journaled_state.database.reads)
    }

    #[test]
    fn code_of_every_shape_stops_soon() {
        // Reads the balance of an account.
        let read = |account: u32| format!("61{account:04x}3150");
        let call = |to: &str| format!("6000600060006000600073{to}5af150");
        let endless = |body: &str| format!("5b{}{body}600056", read(0x1000));
        let own = hex::encode(CONTRACT);
        let identity = "0000000000000000000000000000000000000004";
        let straight: String = (0x1000..0x2000).map(read).collect();
        for code in [
            &straight,
            &endless(""),
            &format!("5b{}6001600057", read(0x1000)),
            &endless(&call(&own)),
            &endless(&call(identity)),
            &endless(&call("00000000000000000000000000000000000000ff")),
            &endless("600060006000f050"),
        ] {
            for spec in specs() {
                let flag = CancelFlag::default();
                let mut deadline = Deadline::new(QueryLimit::new(Duration::MAX).cancelled_by(&flag));
                let (outcome, reads) = run_code(&spec, code, Some(&mut deadline), flag);
                assert!(outcome.is_err(), "{}: {code:.80}", spec.name);
                assert_eq!(deadline.stopped(), Some(QueryStop::Cancelled));
                // Each read of the straight code has three steps.
                assert!((1..=STEPS_PER_CHECK / 3 + 1).contains(&reads), "{reads}");
            }
        }
    }

    #[test]
    fn a_deadline_that_is_not_reached_changes_nothing() {
        // 1,400 steps, then one of these ends, whose last opcode is known.
        let count = "60c85b6001900380600257";
        // Without input: a call of the same code with input and this gas, and three slots that tell
        // how it went.
        let nested =
            |gas: &str| format!("36602a5760006000600160006000 30 61{gas}f1 3d600155 600055 5a600255 00 5b");
        for (end, opcode) in [
            ("", 0x00),
            ("60206000f3", 0xf3),
            ("60206000fd", 0xfd),
            ("fe", 0xfe),
            ("0c", 0x0c),
            ("01", 0x01),
            ("600056", 0x56),
            ("63ffffffff51", 0x51),
            ("60016000a0", 0x00),
            ("6001600055 60206000f3", 0xf3),
        ] {
            for code in [
                format!("{count}{end}"),
                format!("{count}{}{end}", nested("ffff")),
                format!("{count}{}{end}", nested("0100")),
            ] {
                for spec in specs() {
                    let mut deadline = Deadline::new(QueryLimit::new(Duration::MAX));
                    let within = run_code(&spec, &code, Some(&mut deadline), CancelFlag::default()).0;
                    let without = run_code(&spec, &code, None, CancelFlag::default()).0;
                    let (within, without) = (within.expect("an end"), without.expect("an end"));
                    assert_eq!(within.result, without.result, "{}: {code}", spec.name);
                    assert_eq!(within.changes, without.changes, "{}: {code}", spec.name);
                    let is_nested = code.len() > count.len() + end.len();
                    let last = if is_nested { 0x00 } else { opcode };
                    assert_eq!(deadline.last_opcode(), last, "{}: {code}", spec.name);
                }
            }
        }
    }
}
