//! Values that are likely to show faults: edges of types, of memory and of gas.

use primitives::{Address, U256};

use crate::random::SeededRandom;

/// Addresses that programs and transactions use.
#[derive(Clone, Debug, Default)]
pub struct AddressPool {
    /// Contracts of the case.
    pub contracts: Vec<Address>,
    /// The accounts of the senders.
    pub senders: Vec<Address>,
    /// Accounts that are empty, accounts that do not exist, and beneficiaries.
    pub others: Vec<Address>,
}

impl AddressPool {
    /// An address; often a contract.
    pub fn any(&self, random: &SeededRandom) -> Address {
        match random.weighted(&[60, 8, 17, 15]) {
            0 => random.pick(&self.contracts),
            1 => random.pick(&self.senders),
            2 => random.pick(&self.others),
            _ => low_address(random.between(0, 16)),
        }
    }
}

/// The address of a built-in contract.
pub(super) fn low_address(number: u64) -> Address {
    Address::from_word(U256::from(number).into())
}

/// Bytes without leading zeros; one zero byte for zero.
pub(super) fn minimal(value: U256) -> Vec<u8> {
    let bytes = value.to_be_bytes::<32>();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(31);
    bytes[first..].to_vec()
}

/// A word.
pub(super) fn word(random: &SeededRandom) -> U256 {
    let bit = random.pick(&[8, 16, 31, 32, 63, 64, 127, 128, 159, 160, 255]);
    let power = U256::from(1) << bit;
    match random.weighted(&[30, 10, 10, 10, 10, 10, 20]) {
        0 => U256::from(random.below(4)),
        1 => U256::from(random.below(300)),
        2 => power,
        3 => power.wrapping_sub(U256::from(1)),
        4 => U256::MAX.wrapping_sub(U256::from(random.below(3))),
        5 => U256::ZERO.wrapping_sub(power),
        _ => random.word() >> random.below(256),
    }
}

/// A slot. There are few, so that they are written again and again.
pub(super) fn slot(random: &SeededRandom) -> U256 {
    U256::from(random.below(if random.percent(95) { 5 } else { u64::MAX }))
}

/// A value for a slot. Zero and the first values are frequent, because refunds depend on them.
pub(super) fn slot_value(random: &SeededRandom) -> U256 {
    match random.weighted(&[40, 45, 15]) {
        0 => U256::ZERO,
        1 => U256::from(random.between(1, 3)),
        _ => word(random),
    }
}

/// An offset in memory or in data.
pub(super) fn offset(random: &SeededRandom) -> U256 {
    // Far offsets cost more gas than most transactions have, so they are rare.
    match random.weighted(&[760, 200, 28, 4, 4, 4]) {
        0 => U256::from(32 * random.below(8)),
        1 => U256::from(random.below(300)),
        2 => U256::from(random.below(1 << 16)),
        3 => U256::from(random.below(1 << 22)),
        4 => U256::from(random.pick(&[
            u64::MAX,
            u64::MAX - 31,
            1 << 63,
            1 << 32,
            (1 << 32) - 1,
            0x1f_ffff_ffe0,
            0x1f_ffff_ffff,
        ])),
        _ => word(random),
    }
}

/// A length.
pub(super) fn length(random: &SeededRandom) -> U256 {
    match random.weighted(&[200, 250, 430, 100, 14, 6]) {
        0 => U256::ZERO,
        1 => U256::from(32),
        2 => U256::from(random.below(100)),
        3 => U256::from(random.below(2000)),
        4 => U256::from(random.below(30_000)),
        _ => offset(random),
    }
}

/// Gas for a call.
pub(super) fn call_gas(random: &SeededRandom) -> U256 {
    let edge = random.pick(&[
        0, 1, 2, 3, 20, 40, 100, 200, 400, 700, 800, 2299, 2300, 2301, 5000, 9000, 20_000, 25_000, 32_000,
        34_500,
    ]);
    match random.weighted(&[35, 45, 10, 10]) {
        0 => U256::from(edge),
        1 => U256::from(random.below(120_000)),
        2 => U256::from(random.below(3000)),
        _ => word(random),
    }
}
