//! Snippets that call contracts and create them.

use primitives::U256;

use super::super::{contracts, values};
use super::{CodeWriter, INPUT_OFFSET, NESTING_MAX};
use crate::opcodes::{CALLS, op};
use crate::program::{Part, Program};
use crate::rules::ForkFeature;

impl CodeWriter<'_> {
    /// Calls a contract, this one, or any other account.
    pub(super) fn call(&mut self) {
        let instruction = self.instruction(&CALLS);
        for _ in 0..2 {
            self.push_length();
            self.push_offset();
        }
        if instruction.inputs == 7 {
            self.call_value();
        }
        self.push_any_address(&[80, 12, 4, 4]);
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
    pub(super) fn built_in(&mut self) {
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
    pub(super) fn create(&mut self) {
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
    pub(super) fn creation(&mut self) {
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

    pub(super) fn return_program(&mut self, program: Program) {
        let label = self.write_memory(0, program);
        self.parts.push(Part::PushLength(label));
        self.push_small(0u8);
        self.op(op::RETURN);
    }
}
