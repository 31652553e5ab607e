//! Random programs: snippets that bring their own operands, between any other bytes.

use primitives::{Address, U256};

use super::contracts;
use super::values::{self, AddressPool};
use crate::opcodes::{ACCOUNT_READS, CALLS, Instruction, PURE, READS, op};
use crate::program::{Part, Program};
use crate::random::SeededRandom;
use crate::rules::{ForkFeature, ForkRules};

/// Programs in programs in programs: no deeper than this.
const NESTING_MAX: usize = 3;
/// Where loops count, in memory. Other snippets rarely write there.
const COUNTER_OFFSET: u16 = 0x1e0;
/// The word of memory at which built-in contracts get their input.
const INPUT_OFFSET: u16 = 0x200;

/// What programs are made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeContext<'a> {
    pub(crate) rules: &'static ForkRules,
    pub(crate) addresses: &'a AddressPool,
}

/// Makes one program.
pub(super) struct CodeWriter<'a> {
    random: &'a SeededRandom,
    context: CodeContext<'a>,
    parts: Vec<Part>,
    /// Programs that are only data; they follow the code.
    inner: Vec<Part>,
    labels: usize,
    nesting: usize,
    /// The words that are likely to be on the stack.
    depth: usize,
}

/// A program with this many snippets, more or less.
pub(super) fn program(random: &SeededRandom, context: CodeContext<'_>, snippets: u64) -> Program {
    let mut writer = CodeWriter::new(random, context, 0);
    writer.snippets(snippets);
    writer.end();
    writer.finish()
}

/// Code of a creation. It mostly leaves `runtime` or another program as the code of the account.
pub(super) fn creation(random: &SeededRandom, context: CodeContext<'_>, runtime: Option<Program>) -> Program {
    let mut writer = CodeWriter::new(random, context, 0);
    match runtime {
        Some(runtime) => writer.return_program(runtime),
        None => writer.creation(),
    }
    writer.finish()
}

impl<'a> CodeWriter<'a> {
    pub(super) const fn new(random: &'a SeededRandom, context: CodeContext<'a>, nesting: usize) -> Self {
        Self {
            random,
            context,
            parts: Vec::new(),
            inner: Vec::new(),
            labels: 0,
            nesting,
            depth: 0,
        }
    }

    pub(super) fn finish(mut self) -> Program {
        if !self.inner.is_empty() {
            self.op(op::STOP);
        }
        self.parts.append(&mut self.inner);
        Program(self.parts)
    }

    fn op(&mut self, code: u8) {
        self.parts.push(Part::Op(code));
    }

    fn push(&mut self, value: U256) {
        self.parts.push(Part::Push(values::minimal(value)));
    }

    fn push_small(&mut self, value: impl Into<u64>) {
        self.push(U256::from(value.into()));
    }

    /// Pushes an address, sometimes with other bits above it.
    fn push_address(&mut self, address: Address) {
        let mut word = address.into_word();
        if self.random.percent(6) {
            word[..12].fill(0xa5);
        }
        self.parts.push(Part::Push(match word[0] {
            0 => address.to_vec(),
            _ => word.to_vec(),
        }));
    }

    const fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    /// Pushes a word of any kind.
    fn push_word(&mut self) {
        match self.random.weighted(&[70, 8, 8, 7, 7]) {
            0 => {
                let value = values::word(self.random);
                self.push(value);
            }
            1 => {
                let address = self.context.addresses.any(self.random);
                self.push_address(address);
            }
            2 => {
                self.push_small(32 * self.random.below(4));
                self.op(op::CALLDATALOAD);
            }
            3 => self.op(op::GAS),
            _ => {
                let slot = values::slot(self.random);
                self.push(slot);
                self.op(op::SLOAD);
            }
        }
    }

    fn push_offset(&mut self) {
        let value = values::offset(self.random);
        self.push(value);
    }

    fn push_length(&mut self) {
        let value = values::length(self.random);
        self.push(value);
    }

    /// Puts a result of one word somewhere.
    fn sink(&mut self) {
        match self.random.weighted(&[45, 18, 15, 22]) {
            0 => {
                self.push_small(32 * self.random.below(10));
                self.op(op::MSTORE);
            }
            1 => {
                let slot = values::slot(self.random);
                self.push(slot);
                self.op(op::SSTORE);
            }
            2 => self.op(op::POP),
            _ => self.depth += 1,
        }
    }

    pub(super) fn snippets(&mut self, count: u64) {
        let count = self.random.between(count / 2, count + 1);
        for _ in 0..count {
            self.snippet();
        }
    }

    fn snippet(&mut self) {
        let weights = [160, 130, 70, 120, 100, 50, 40, 120, 80, 70, 40, 8, 110, 50, 8, 4];
        match self.random.weighted(&weights) {
            0 => self.pure(),
            1 => self.read(),
            2 => self.memory(),
            3 => self.store(),
            4 => self.copy(),
            5 => self.jump(),
            6 => self.repeat(),
            7 => self.call(),
            8 => self.built_in(),
            9 => self.create(),
            10 => self.log(),
            11 => self.destroy(),
            12 => self.shuffle(),
            13 => self.account(),
            14 => self.stray_byte(),
            _ => self.fill_stack(),
        }
    }

    /// An instruction of a table that these rules have; rarely one that they do not have.
    fn instruction(&self, table: &[Instruction]) -> Instruction {
        loop {
            let found = self.random.pick(table);
            if found.is_in(self.context.rules) || self.random.percent(1) {
                return found;
            }
        }
    }

    fn pure(&mut self) {
        let instruction = self.instruction(&PURE);
        for missing in 0..instruction.inputs {
            // An operand may be what an earlier snippet left.
            if missing > 0 || self.depth == 0 || self.random.percent(60) {
                self.push_word();
            } else {
                self.depth -= 1;
            }
        }
        self.op(instruction.code);
        self.sink();
    }

    fn read(&mut self) {
        if self.context.rules.has(ForkFeature::Push0) && self.random.percent(12) {
            // BASEFEE is not an opcode of all chains that have PUSH0.
            let is_base_fee = self.random.percent(4);
            self.op(if is_base_fee { op::BASEFEE } else { op::PUSH0 });
            return self.sink();
        }
        let instruction = self.instruction(&READS);
        if instruction.code == op::BLOCKHASH && self.random.percent(80) {
            let back = self
                .random
                .pick(&[0, 1, 1, 2, 3, 255, 256, 257, u64::MAX])
                .min(u64::from(u32::MAX));
            self.push_small(back);
            self.op(op::NUMBER);
            self.op(op::SUB);
        } else {
            for _ in 0..instruction.inputs {
                self.push_word();
            }
        }
        self.op(instruction.code);
        self.sink();
    }

    fn memory(&mut self) {
        match self.random.weighted(&[30, 30, 20, 20]) {
            0 => {
                self.push_offset();
                self.op(op::MLOAD);
                self.sink();
            }
            1 => {
                self.push_word();
                self.push_offset();
                self.op(op::MSTORE);
            }
            2 => {
                self.push_word();
                self.push_offset();
                self.op(op::MSTORE8);
            }
            _ => {
                self.push_length();
                self.push_offset();
                self.op(op::SHA3);
                self.sink();
            }
        }
    }

    /// Writes to a slot, often several times: refunds depend on the order of the values.
    fn store(&mut self) {
        let slot = values::slot(self.random);
        for _ in 0..self.random.between(1, 3) {
            if self.random.percent(85) {
                let value = values::slot_value(self.random);
                self.push(value);
            } else {
                self.push_word();
            }
            self.push(slot);
            self.op(op::SSTORE);
        }
        if self.random.percent(30) {
            self.push(slot);
            self.op(op::SLOAD);
            self.sink();
        }
    }

    fn copy(&mut self) {
        let has_returndata = self.context.rules.has(ForkFeature::Returndata);
        match self
            .random
            .weighted(&[25, 25, 25, if has_returndata { 40 } else { 1 }])
        {
            0 => self.copy_from(op::CALLDATACOPY),
            1 => self.copy_from(op::CODECOPY),
            2 => {
                self.push_length();
                self.push_offset();
                self.push_offset();
                let address = self.context.addresses.any(self.random);
                self.push_address(address);
                self.op(op::EXTCODECOPY);
            }
            _ => self.copy_returndata(),
        }
    }

    fn copy_from(&mut self, code: u8) {
        self.push_length();
        self.push_offset();
        self.push_offset();
        self.op(code);
    }

    /// RETURNDATACOPY: mostly within what was returned, because reading beyond it ends the frame.
    fn copy_returndata(&mut self) {
        match self.random.weighted(&[60, 32, 4, 4]) {
            0 => {
                self.op(op::RETURNDATASIZE);
                self.push_small(0u8);
            }
            1 => {
                self.push_small(0u8);
                self.op(op::RETURNDATASIZE);
            }
            2 => {
                self.push_small(self.random.pick(&[1u64, 2, 32]));
                self.push_small(0u8);
            }
            _ => {
                self.push_length();
                self.push_offset();
            }
        }
        self.push_small(32 * self.random.below(8));
        self.op(op::RETURNDATACOPY);
    }

    /// A jump forward over something, on a condition; rarely to a place that is no destination.
    fn jump(&mut self) {
        let label = self.label();
        let condition = self.random.percent(70);
        if condition {
            self.push_word();
        }
        match self.random.weighted(&[97, 2, 1]) {
            0 => self.parts.push(Part::PushPosition(label)),
            1 => self.push_small(self.random.below(200)),
            _ => self.push_word(),
        }
        self.op(if condition { op::JUMPI } else { op::JUMP });
        let depth = self.depth;
        for _ in 0..self.random.below(3) {
            self.snippet();
        }
        if self.random.percent(25) {
            // A JUMPDEST in the bytes of a PUSH is no destination.
            self.parts.push(Part::Push(vec![0x5b, 0x5b]));
            self.op(op::POP);
        }
        if condition && self.random.percent(12) {
            self.end();
        }
        self.parts.push(Part::Label(label));
        self.depth = self.depth.min(depth);
    }

    /// A loop of a few turns.
    fn repeat(&mut self) {
        let label = self.label();
        let turns = self.random.between(2, 6);
        let exact = self.random.percent(97);
        self.parts.push(Part::Label(label));
        self.snippet();
        self.push_small(COUNTER_OFFSET);
        self.op(op::MLOAD);
        self.push_small(1u8);
        self.op(op::ADD);
        self.op(op::DUP1);
        self.push_small(COUNTER_OFFSET);
        self.op(op::MSTORE);
        // Counter below the number of turns: the counter is the lower operand.
        self.push_small(turns);
        self.op(if exact { op::SWAP1 } else { op::DUP1 });
        self.op(op::LT);
        self.parts.push(Part::PushPosition(label));
        self.op(op::JUMPI);
    }

    /// Calls a contract, this one, or any other account.
    fn call(&mut self) {
        let instruction = self.instruction(&CALLS);
        for _ in 0..2 {
            self.push_length();
            self.push_offset();
        }
        if instruction.inputs == 7 {
            self.call_value();
        }
        match self.random.weighted(&[80, 12, 4, 4]) {
            0 => {
                let address = self.context.addresses.any(self.random);
                self.push_address(address);
            }
            1 => self.op(op::ADDRESS),
            2 => self.op(op::CALLER),
            _ => self.push_word(),
        }
        self.call_gas();
        self.op(instruction.code);
        self.after_call();
    }

    fn call_value(&mut self) {
        match self.random.weighted(&[60, 22, 8, 5, 5]) {
            0 => self.push_small(0u8),
            1 => self.push_small(self.random.between(1, 100)),
            2 => {
                self.op(op::ADDRESS);
                self.op(op::BALANCE);
            }
            3 => self.push_word(),
            _ => {
                self.push_small(1u8);
                self.op(op::ADDRESS);
                self.op(op::BALANCE);
                self.op(op::ADD);
            }
        }
    }

    fn call_gas(&mut self) {
        if !self.context.rules.has(ForkFeature::GasReserve) {
            // A call that asks for more gas than there is ends the frame.
            self.push_small(self.random.pick(&[0u64, 100, 2300, 5000, 10_000, 20_000, 40_000]));
        } else if self.random.percent(50) {
            self.op(op::GAS);
        } else {
            let gas = values::call_gas(self.random);
            self.push(gas);
        }
    }

    fn after_call(&mut self) {
        self.sink();
        if self.context.rules.has(ForkFeature::Returndata) && self.random.percent(35) {
            self.op(op::RETURNDATASIZE);
            self.sink();
            if self.random.percent(50) {
                self.copy_returndata();
            }
        }
    }

    /// Calls a built-in contract with input that it understands.
    fn built_in(&mut self) {
        let number = self.random.pick(&[1, 2, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 9, 9]);
        let input = contracts::input(self.random, number);
        let length = input.len();
        self.write_memory(u64::from(INPUT_OFFSET), Program(vec![Part::Raw(input)]));
        let instruction = self.instruction(&CALLS);
        let output = self.random.pick(&[0u64, 32, 32, 64, 128]);
        self.push_small(output);
        self.push_small(self.random.below(64));
        self.push_small(length as u64);
        self.push_small(INPUT_OFFSET);
        if instruction.inputs == 7 {
            self.call_value();
        }
        self.push_address(values::low_address(number));
        if self.random.percent(75) && self.context.rules.has(ForkFeature::GasReserve) {
            self.op(op::GAS);
        } else {
            let gas = self
                .random
                .pick(&[0u64, 15, 60, 72, 149, 150, 500, 700, 2999, 3000, 6000, 40_000]);
            self.push_small(gas);
        }
        self.op(instruction.code);
        self.after_call();
    }

    /// Copies a program, as data, into memory.
    fn write_memory(&mut self, offset: u64, program: Program) -> usize {
        let label = self.label();
        self.inner.push(Part::Inner(label, program));
        self.parts.push(Part::PushLength(label));
        self.parts.push(Part::PushPosition(label));
        self.push_small(offset);
        self.op(op::CODECOPY);
        label
    }

    /// CREATE or CREATE2, sometimes twice with the same salt, and a call of what was created.
    fn create(&mut self) {
        if self.nesting >= NESTING_MAX {
            return;
        }
        let mut inner = CodeWriter::new(self.random, self.context, self.nesting + 1);
        inner.creation();
        let code = inner.finish();
        let offset = 32 * self.random.below(3);
        let label = self.write_memory(offset, code);
        let salted = self.context.rules.has(ForkFeature::Create2) && self.random.percent(60);
        let salted = salted || self.random.percent(1);
        let salt = U256::from(self.random.below(2));
        for _ in 0..if self.random.percent(25) { 2 } else { 1 } {
            if salted {
                self.push(salt);
            }
            if self.random.percent(94) {
                self.parts.push(Part::PushLength(label));
            } else {
                self.push_length();
            }
            self.push_small(offset);
            self.call_value();
            self.op(if salted { op::CREATE2 } else { op::CREATE });
            if self.random.percent(50) {
                self.sink();
            } else {
                self.call_created();
            }
        }
    }

    /// Calls the account whose address is on the stack.
    fn call_created(&mut self) {
        let slot = values::slot(self.random);
        self.op(op::DUP1);
        self.push(slot);
        self.op(op::SSTORE);
        // Five words below the address and the gas.
        for _ in 0..4 {
            self.push_small(0u8);
        }
        self.push_small(self.random.below(2));
        self.op(0x85 + u8::from(self.random.percent(3)));
        self.call_gas();
        self.op(if self.random.percent(80) {
            op::CALL
        } else {
            op::CALLCODE
        });
        self.after_call();
        self.depth += 1;
    }

    /// The code of a creation: some snippets, and an end that mostly returns code.
    fn creation(&mut self) {
        let count = self.random.below(4);
        self.snippets(count);
        match self.random.weighted(&[55, 10, 8, 7, 10, 10]) {
            0 => {
                let mut runtime = CodeWriter::new(self.random, self.context, self.nesting + 1);
                runtime.snippets(3);
                runtime.end();
                let runtime = runtime.finish();
                self.return_program(runtime);
            }
            1 => {
                // Much code, up to more than an account may have.
                self.push_small(self.random.pick(&[100u64, 3000, 24_576, 24_577, 30_000]));
                self.push_small(0u8);
                self.op(op::RETURN);
            }
            2 => {
                // Code that begins with 0xef.
                self.push_small(0xefu8);
                self.push_small(0u8);
                self.op(op::MSTORE8);
                self.push_small(self.random.between(1, 3));
                self.push_small(0u8);
                self.op(op::RETURN);
            }
            3 => {
                let address = self.context.addresses.any(self.random);
                self.push_address(address);
                self.op(op::SELFDESTRUCT);
            }
            4 => self.op(op::STOP),
            _ => self.end(),
        }
    }

    fn return_program(&mut self, program: Program) {
        let label = self.write_memory(0, program);
        self.parts.push(Part::PushLength(label));
        self.push_small(0u8);
        self.op(op::RETURN);
    }

    fn log(&mut self) {
        let topics = self.random.below(5) as u8;
        for _ in 0..topics {
            self.push_word();
        }
        self.push_length();
        self.push_offset();
        self.op(op::LOG0 + topics);
    }

    fn destroy(&mut self) {
        match self.random.weighted(&[65, 15, 10, 10]) {
            0 => {
                let address = self.context.addresses.any(self.random);
                self.push_address(address);
            }
            1 => self.op(op::ADDRESS),
            2 => self.op(op::CALLER),
            _ => self.push_word(),
        }
        self.op(op::SELFDESTRUCT);
    }

    fn shuffle(&mut self) {
        let at = self.random.below(16);
        // The words that the instruction needs, with one more for an exchange; rarely one too few.
        let needed = at as usize + 2 - usize::from(self.random.percent(1));
        while self.depth < needed {
            self.push_small(self.random.below(200));
            self.depth += 1;
        }
        if self.random.percent(50) {
            self.op(op::DUP1 + at as u8);
            self.depth += 1;
        } else {
            self.op(op::SWAP1 + at as u8);
        }
    }

    fn account(&mut self) {
        let instruction = self.instruction(&ACCOUNT_READS);
        let address = self.context.addresses.any(self.random);
        self.push_address(address);
        self.op(instruction.code);
        self.sink();
    }

    /// Any byte, mostly after words enough for an instruction.
    fn stray_byte(&mut self) {
        for _ in 0..self.random.below(8) {
            self.push_word();
        }
        let code = self.random.next() as u8;
        self.op(code);
    }

    /// Brings the stack near its limit of 1024 words.
    fn fill_stack(&mut self) {
        self.push_word();
        let words = self.random.between(1000, 1026) as usize;
        let words = words.saturating_sub(self.depth);
        self.parts
            .push(Part::Raw(vec![op::DUP1 + self.random.below(2) as u8; words]));
        self.parts.push(Part::Raw(vec![op::POP; words.min(1010)]));
    }

    /// An end of the frame. What the program computed is often returned or logged first.
    pub(super) fn end(&mut self) {
        if self.random.percent(30) {
            self.push_small(0x100u16);
            self.push_small(0u8);
            self.op(op::LOG0);
        }
        let has_revert = self.context.rules.has(ForkFeature::Returndata);
        match self
            .random
            .weighted(&[25, 40, if has_revert { 15 } else { 1 }, 3, 5, 12])
        {
            0 => self.op(op::STOP),
            1 => {
                self.push_length();
                self.push_offset();
                self.op(op::RETURN);
            }
            2 => {
                self.push_length();
                self.push_offset();
                self.op(op::REVERT);
            }
            3 => self.op(op::INVALID),
            4 => self.destroy(),
            _ => {
                self.push_small(32 * self.random.below(5));
                self.push_small(0u8);
                self.op(op::SHA3);
                let slot = values::slot(self.random);
                self.push(slot);
                self.op(op::SSTORE);
                self.op(op::STOP);
            }
        }
    }

    /// A program that goes as deep as calls can, and counts on its way back.
    pub(super) fn recursion(&mut self) {
        let code = self.random.pick(&[
            op::CALL,
            op::CALL,
            op::CALLCODE,
            op::DELEGATECALL,
            0xfa,
            op::CREATE,
        ]);
        if code == op::CREATE {
            self.op(op::CODESIZE);
            self.push_small(0u8);
            self.push_small(0u8);
            self.op(op::CODECOPY);
            self.op(op::CODESIZE);
            self.push_small(0u8);
            self.push_small(0u8);
        } else {
            for _ in 0..4 {
                self.push_small(0u8);
            }
            if matches!(code, op::CALL | op::CALLCODE) {
                self.push_small(self.random.below(2));
            }
            self.op(op::ADDRESS);
            if self.context.rules.has(ForkFeature::GasReserve) {
                self.op(op::GAS);
            } else {
                // What this frame needs for itself.
                self.push_small(60_000u32);
                self.op(op::GAS);
                self.op(op::SUB);
            }
        }
        self.op(code);
        self.push_small(1u8);
        self.op(op::ADD);
        self.push_small(0u8);
        self.op(op::SLOAD);
        self.op(op::ADD);
        self.push_small(0u8);
        self.op(op::SSTORE);
    }
}
