//! Random programs: snippets that bring their own operands, between any other bytes.

mod calls;

use primitives::{Address, U256};

use super::values::{self, AddressPool};
use crate::opcodes::{ACCOUNT_READS, Instruction, PURE, READS, op};
use crate::program::{Part, Program};
use crate::random::SeededRandom;
use crate::rules::{ForkFeature, ForkRules};

/// Programs in programs in programs: no deeper than this.
const NESTING_MAX: usize = 3;
/// The place in memory where loops count. Other snippets rarely write there.
const COUNTER_OFFSET: u16 = 0x1e0;
/// The word of memory at which built-in contracts get their input.
const INPUT_OFFSET: u16 = 0x200;

/// The rules and the addresses of a program.
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
        let weights = [160, 130, 70, 120, 100, 50, 40, 120, 80, 70, 40, 8, 110, 50, 8, 1];
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
        if self.context.rules.base_fee && self.random.percent(8) {
            self.op(op::BASEFEE);
            return self.sink();
        }
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

    fn log(&mut self) {
        let topics = self.random.below(5) as u8;
        for _ in 0..topics {
            self.push_word();
        }
        self.push_length();
        self.push_offset();
        self.op(op::LOG0 + topics);
    }

    /// Pushes an address: a known one, this contract's, the caller's, or any word, with these
    /// weights.
    fn push_any_address(&mut self, weights: &[u64; 4]) {
        match self.random.weighted(weights) {
            0 => {
                let address = self.context.addresses.any(self.random);
                self.push_address(address);
            }
            1 => self.op(op::ADDRESS),
            2 => self.op(op::CALLER),
            _ => self.push_word(),
        }
    }

    fn destroy(&mut self) {
        self.push_any_address(&[65, 15, 10, 10]);
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
                // The gas that this frame needs for itself.
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
