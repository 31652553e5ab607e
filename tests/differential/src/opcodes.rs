//! The instructions of the EVM: names, and how many words they take and leave.

use crate::rules::{ForkFeature, ForkRules};

/// An instruction without immediate bytes.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Its byte.
    pub code: u8,
    /// Its name.
    pub name: &'static str,
    /// The words that it takes from the stack.
    pub inputs: usize,
    /// The words that it leaves on the stack.
    pub outputs: usize,
    /// The feature that brought it; `None` if every fork has it.
    pub since: Option<ForkFeature>,
}

impl Instruction {
    /// Whether programs of these rules may contain it.
    pub fn is_in(&self, rules: &ForkRules) -> bool {
        self.since.is_none_or(|feature| rules.has(feature))
    }
}

const fn old(code: u8, name: &'static str, inputs: usize, outputs: usize) -> Instruction {
    Instruction {
        code,
        name,
        inputs,
        outputs,
        since: None,
    }
}

const fn new(code: u8, name: &'static str, inputs: usize, outputs: usize, since: ForkFeature) -> Instruction {
    Instruction {
        since: Some(since),
        ..old(code, name, inputs, outputs)
    }
}

/// Instructions that compute a word from words.
pub const PURE: [Instruction; 25] = [
    old(0x01, "ADD", 2, 1),
    old(0x02, "MUL", 2, 1),
    old(0x03, "SUB", 2, 1),
    old(0x04, "DIV", 2, 1),
    old(0x05, "SDIV", 2, 1),
    old(0x06, "MOD", 2, 1),
    old(0x07, "SMOD", 2, 1),
    old(0x08, "ADDMOD", 3, 1),
    old(0x09, "MULMOD", 3, 1),
    old(0x0a, "EXP", 2, 1),
    old(0x0b, "SIGNEXTEND", 2, 1),
    old(0x10, "LT", 2, 1),
    old(0x11, "GT", 2, 1),
    old(0x12, "SLT", 2, 1),
    old(0x13, "SGT", 2, 1),
    old(0x14, "EQ", 2, 1),
    old(0x15, "ISZERO", 1, 1),
    old(0x16, "AND", 2, 1),
    old(0x17, "OR", 2, 1),
    old(0x18, "XOR", 2, 1),
    old(0x19, "NOT", 1, 1),
    old(0x1a, "BYTE", 2, 1),
    new(0x1b, "SHL", 2, 1, ForkFeature::Shifts),
    new(0x1c, "SHR", 2, 1, ForkFeature::Shifts),
    new(0x1d, "SAR", 2, 1, ForkFeature::Shifts),
];

/// Instructions that read something of the frame, the transaction or the block.
pub const READS: [Instruction; 20] = [
    old(0x30, "ADDRESS", 0, 1),
    old(0x32, "ORIGIN", 0, 1),
    old(0x33, "CALLER", 0, 1),
    old(0x34, "CALLVALUE", 0, 1),
    old(0x35, "CALLDATALOAD", 1, 1),
    old(0x36, "CALLDATASIZE", 0, 1),
    old(0x38, "CODESIZE", 0, 1),
    old(0x3a, "GASPRICE", 0, 1),
    new(0x3d, "RETURNDATASIZE", 0, 1, ForkFeature::Returndata),
    old(0x40, "BLOCKHASH", 1, 1),
    old(0x41, "COINBASE", 0, 1),
    old(0x42, "TIMESTAMP", 0, 1),
    old(0x43, "NUMBER", 0, 1),
    old(0x44, "DIFFICULTY", 0, 1),
    old(0x45, "GASLIMIT", 0, 1),
    new(0x46, "CHAINID", 0, 1, ForkFeature::Chainid),
    new(0x47, "SELFBALANCE", 0, 1, ForkFeature::Chainid),
    old(0x58, "PC", 0, 1),
    old(0x59, "MSIZE", 0, 1),
    old(0x5a, "GAS", 0, 1),
];

/// Instructions that read an account.
pub const ACCOUNT_READS: [Instruction; 3] = [
    old(0x31, "BALANCE", 1, 1),
    old(0x3b, "EXTCODESIZE", 1, 1),
    new(0x3f, "EXTCODEHASH", 1, 1, ForkFeature::Extcodehash),
];

/// Instructions that call. CALL and CALLCODE take seven words, the others six.
pub const CALLS: [Instruction; 4] = [
    old(0xf1, "CALL", 7, 1),
    old(0xf2, "CALLCODE", 7, 1),
    new(0xf4, "DELEGATECALL", 6, 1, ForkFeature::Delegatecall),
    new(0xfa, "STATICCALL", 6, 1, ForkFeature::Returndata),
];

/// All other instructions that the generator names.
pub mod op {
    #![expect(missing_docs, reason = "the names of the EVM")]
    pub const STOP: u8 = 0x00;
    pub const ADD: u8 = 0x01;
    pub const SHA3: u8 = 0x20;
    pub const LT: u8 = 0x10;
    pub const ADDRESS: u8 = 0x30;
    pub const BALANCE: u8 = 0x31;
    pub const CALLER: u8 = 0x33;
    pub const CALLDATALOAD: u8 = 0x35;
    pub const CALLDATACOPY: u8 = 0x37;
    pub const CODESIZE: u8 = 0x38;
    pub const CODECOPY: u8 = 0x39;
    pub const EXTCODECOPY: u8 = 0x3c;
    pub const RETURNDATASIZE: u8 = 0x3d;
    pub const RETURNDATACOPY: u8 = 0x3e;
    pub const BLOCKHASH: u8 = 0x40;
    pub const NUMBER: u8 = 0x43;
    pub const SUB: u8 = 0x03;
    pub const BASEFEE: u8 = 0x48;
    pub const POP: u8 = 0x50;
    pub const MLOAD: u8 = 0x51;
    pub const MSTORE: u8 = 0x52;
    pub const MSTORE8: u8 = 0x53;
    pub const SLOAD: u8 = 0x54;
    pub const SSTORE: u8 = 0x55;
    pub const JUMP: u8 = 0x56;
    pub const JUMPI: u8 = 0x57;
    pub const MSIZE: u8 = 0x59;
    pub const GAS: u8 = 0x5a;
    pub const PUSH0: u8 = 0x5f;
    pub const DUP1: u8 = 0x80;
    pub const SWAP1: u8 = 0x90;
    pub const LOG0: u8 = 0xa0;
    pub const CREATE: u8 = 0xf0;
    pub const CALL: u8 = 0xf1;
    pub const CALLCODE: u8 = 0xf2;
    pub const RETURN: u8 = 0xf3;
    pub const DELEGATECALL: u8 = 0xf4;
    pub const CREATE2: u8 = 0xf5;
    pub const REVERT: u8 = 0xfd;
    pub const INVALID: u8 = 0xfe;
    pub const SELFDESTRUCT: u8 = 0xff;
}

/// The name of an instruction, or its byte in hex.
pub fn name(code: u8) -> String {
    let tables: [&[Instruction]; 4] = [&PURE, &READS, &ACCOUNT_READS, &CALLS];
    if let Some(found) = tables.into_iter().flatten().find(|known| known.code == code) {
        return found.name.to_owned();
    }
    let named = match code {
        op::STOP => "STOP",
        op::SHA3 => "SHA3",
        op::CALLDATACOPY => "CALLDATACOPY",
        op::CODECOPY => "CODECOPY",
        op::EXTCODECOPY => "EXTCODECOPY",
        op::RETURNDATACOPY => "RETURNDATACOPY",
        op::POP => "POP",
        op::MLOAD => "MLOAD",
        op::MSTORE => "MSTORE",
        op::MSTORE8 => "MSTORE8",
        op::SLOAD => "SLOAD",
        op::SSTORE => "SSTORE",
        op::JUMP => "JUMP",
        op::JUMPI => "JUMPI",
        0x5b => "JUMPDEST",
        op::CREATE => "CREATE",
        op::RETURN => "RETURN",
        op::CREATE2 => "CREATE2",
        op::REVERT => "REVERT",
        op::INVALID => "INVALID",
        op::SELFDESTRUCT => "SELFDESTRUCT",
        op::PUSH0 => "PUSH0",
        op::BASEFEE => "BASEFEE",
        0x60..=0x7f => return format!("PUSH{}", code - 0x5f),
        0x80..=0x8f => return format!("DUP{}", code - 0x7f),
        0x90..=0x9f => return format!("SWAP{}", code - 0x8f),
        0xa0..=0xa4 => return format!("LOG{}", code - 0xa0),
        _ => return format!("0x{code:02x}"),
    };
    named.to_owned()
}
