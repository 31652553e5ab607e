//! The contracts of the workloads, written in opcodes, and their assembler.
//!
//! Knows opcodes and labels, but neither transactions nor chains.

use std::collections::HashMap;

/// A token: the mapping `balances` at slot 0, `transfer(address,uint256)` with its event, and
/// `balanceOf(address)`. Compiled tokens do the same reads, writes and hashes, with a few more
/// opcodes.
const TOKEN: &str = "
    PUSH 00 CALLDATALOAD PUSH e0 SHR
    DUP1 PUSH a9059cbb EQ @transfer JUMPI
    DUP1 PUSH 70a08231 EQ @balance JUMPI
    @fail JUMP
transfer:
    PUSH 24 CALLDATALOAD
    CALLER PUSH 00 MSTORE PUSH 00 PUSH 20 MSTORE PUSH 40 PUSH 00 KECCAK256
    DUP1 SLOAD
    DUP3 DUP2 LT @fail JUMPI
    DUP3 SWAP1 SUB SWAP1 SSTORE
    PUSH 04 CALLDATALOAD PUSH 00 MSTORE PUSH 40 PUSH 00 KECCAK256
    DUP1 SLOAD DUP3 ADD SWAP1 SSTORE
    PUSH 00 MSTORE
    PUSH 04 CALLDATALOAD CALLER
    PUSH ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef
    PUSH 20 PUSH 00 LOG3
    PUSH 01 PUSH 00 MSTORE PUSH 20 PUSH 00 RETURN
balance:
    PUSH 04 CALLDATALOAD PUSH 00 MSTORE PUSH 00 PUSH 20 MSTORE
    PUSH 40 PUSH 00 KECCAK256 SLOAD PUSH 00 MSTORE PUSH 20 PUSH 00 RETURN
fail:
    PUSH 00 DUP1 REVERT
";

/// Adds 1 to `count` slots. The first word of the input is `seed`, the second is `count`. The slots
/// are chosen among 2^17 by hashing `seed`, `seed + 1` and so on.
const COUNTERS: &str = "
    PUSH 00 CALLDATALOAD PUSH 20 CALLDATALOAD
loop:
    DUP1 ISZERO @end JUMPI
    DUP2 PUSH 00 MSTORE PUSH 20 PUSH 00 KECCAK256 PUSH 01ffff AND
    DUP1 SLOAD PUSH 01 ADD SWAP1 SSTORE
    PUSH 01 SWAP1 SUB SWAP1 PUSH 01 ADD SWAP1
    @loop JUMP
end:
    STOP
";

/// Number of slots that [`counters`] chooses from.
pub(crate) const COUNTER_SLOTS: u64 = 1 << 17;

/// Code of the token contract.
pub(crate) fn token() -> Vec<u8> {
    assemble(TOKEN)
}

/// Code of the contract that writes many slots.
pub(crate) fn counters() -> Vec<u8> {
    assemble(COUNTERS)
}

/// The opcodes without operands that the contracts use.
const OPCODES: [(&str, u8); 27] = [
    ("STOP", 0x00),
    ("ADD", 0x01),
    ("SUB", 0x03),
    ("LT", 0x10),
    ("EQ", 0x14),
    ("ISZERO", 0x15),
    ("AND", 0x16),
    ("SHR", 0x1c),
    ("KECCAK256", 0x20),
    ("CALLER", 0x33),
    ("CALLDATALOAD", 0x35),
    ("MSTORE", 0x52),
    ("SLOAD", 0x54),
    ("SSTORE", 0x55),
    ("JUMP", 0x56),
    ("JUMPI", 0x57),
    ("JUMPDEST", 0x5b),
    ("DUP1", 0x80),
    ("DUP2", 0x81),
    ("DUP3", 0x82),
    ("DUP4", 0x83),
    ("SWAP1", 0x90),
    ("SWAP2", 0x91),
    ("LOG3", 0xa3),
    ("RETURN", 0xf3),
    ("REVERT", 0xfd),
    ("INVALID", 0xfe),
];

/// Assembles `text`: `PUSH hex` pushes bytes, `label:` defines a jump destination, `@label` pushes
/// its position.
fn assemble(text: &str) -> Vec<u8> {
    let mut code = Vec::new();
    let mut positions = HashMap::new();
    let mut references = Vec::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "PUSH" {
            let digits = words.next().expect("PUSH has an operand");
            let operand = primitives::hex::decode(digits).expect("an operand is hex");
            code.push(0x5f + u8::try_from(operand.len()).expect("at most 32 bytes"));
            code.extend(operand);
        } else if let Some(label) = word.strip_suffix(':') {
            positions.insert(label, code.len());
            code.push(0x5b);
        } else if let Some(label) = word.strip_prefix('@') {
            references.push((code.len() + 1, label));
            code.extend([0x61, 0, 0]);
        } else {
            let known = OPCODES.iter().find(|(name, _)| *name == word);
            code.push(known.expect("a known opcode").1);
        }
    }
    for (at, label) in references {
        let position = u16::try_from(positions[label]).expect("short code");
        code[at..at + 2].copy_from_slice(&position.to_be_bytes());
    }
    code
}
