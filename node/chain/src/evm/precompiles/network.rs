//! The public network's precompiled contracts 0x09 to 0x0c and 0x0e, which charge gas and return
//! data.
//!
//! 0x09, 0x0a and 0x0b were meant for shards. They charge 100,000 gas and return zero. 0x0c
//! transfers value between two other accounts when the system contract calls it. To this and any
//! other plain call it behaves like an account without code: it runs nothing and charges no gas.
//! 0x0e spends gas. Their output depends on their input only. Source: docs/base-chain.md, 4.

use primitives::{Address, Bytes, U256, address};
use revm::context_interface::ContextTr;
use revm::interpreter::{CallInputs, CallScheme};

/// `localShardCheckAndEnroll`.
const SHARD_ENROLL: Address = address!("0000000000000000000000000000000000000009");
/// `checkShardValid`.
const SHARD_VALID: Address = address!("000000000000000000000000000000000000000a");
/// `queryContract`.
const QUERY: Address = address!("000000000000000000000000000000000000000b");
/// `delegateSend`.
pub(super) const DELEGATE_SEND: Address = address!("000000000000000000000000000000000000000c");
/// `spendGas`.
const SPEND_GAS: Address = address!("000000000000000000000000000000000000000e");

/// Gas of 0x09 to 0x0c.
const STUB_GAS: u64 = 100_000;
/// Input length of 0x09.
const ENROLL_BYTES: usize = 132;
/// Input length of 0x0a.
const VALID_BYTES: usize = 100;
/// Smallest input length of 0x0b.
const QUERY_BYTES_MIN: usize = 132;
/// Smallest input length with which 0x0c transfers value: a selector and three words.
const TRANSFER_BYTES_MIN: usize = 100;
/// Input length of 0x0e: a selector and a word.
const SPEND_BYTES: usize = 36;
/// Gas of 0x0e for an input of another length.
const SPEND_OTHER_GAS: u64 = 8_000_000;
/// Gas of 0x0e for numbers up to the first step.
const SPEND_GAS_MIN: i64 = 1000;
/// Steps of 0x0e's gas as (number, gas): every unit above the number costs that much more gas. All
/// steps below a number are summed.
const SPEND_STEPS: [(i64, i64); 8] = [
    (10, 2000),
    (15, 4000),
    (20, 8000),
    (25, 16_000),
    (30, 32_000),
    (35, 64_000),
    (40, 128_000),
    (45, 256_000),
];

/// The end of a precompiled contract, provided that the gas covers its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrecompileOutcome {
    /// The contract returned this output.
    Returned { cost: u64, output: Bytes },
    /// The contract rejected its input. The output is return data, but is not copied to the
    /// caller's memory.
    Refused { cost: u64, output: Bytes },
}

/// A 32-byte word, big-endian.
pub(super) fn word(value: u8) -> Bytes {
    U256::from(value).to_be_bytes::<32>().into()
}

/// The network's own contracts with the public node's names.
pub(super) const OWN: [(&str, Address); 6] = [
    ("localShardCheckAndEnroll", SHARD_ENROLL),
    ("checkShardValid", SHARD_VALID),
    ("queryContract", QUERY),
    ("delegateSend", DELEGATE_SEND),
    ("notifySCS", super::NOTIFY_SCS),
    ("spendGas", SPEND_GAS),
];

/// Whether one of the network's own contracts has this address.
pub(super) fn is_own(address: &Address) -> bool {
    OWN.iter().any(|(_, own)| own == address)
}

/// Runs a contract of this module. Returns `None` for any other address.
pub(super) fn run<CTX: ContextTr>(
    context: &CTX,
    inputs: &CallInputs,
    spend_returns_word: bool,
) -> Option<PrecompileOutcome> {
    let length = inputs.input.len();
    let stub = |fits: bool| {
        let (cost, output) = (STUB_GAS, word(0));
        Some(if fits {
            PrecompileOutcome::Returned { cost, output }
        } else {
            PrecompileOutcome::Refused { cost, output }
        })
    };
    match inputs.bytecode_address {
        SHARD_ENROLL => stub(length == ENROLL_BYTES),
        SHARD_VALID => stub(length == VALID_BYTES),
        QUERY => stub(length >= QUERY_BYTES_MIN),
        DELEGATE_SEND if inputs.scheme == CallScheme::Call => Some(PrecompileOutcome::Returned {
            cost: 0,
            output: Bytes::new(),
        }),
        DELEGATE_SEND => stub(true),
        SPEND_GAS => Some(PrecompileOutcome::Returned {
            cost: spend_gas(&inputs.input.as_bytes(context)),
            output: if spend_returns_word { word(0) } else { Bytes::new() },
        }),
        _ => None,
    }
}

/// The gas of 0x0e. As on the public network, only the last 64 bits of the word count, as a signed
/// number, and the sum wraps around.
fn spend_gas(input: &[u8]) -> u64 {
    let Some((_selector, word)) = input
        .split_first_chunk::<4>()
        .filter(|_| input.len() == SPEND_BYTES)
    else {
        return SPEND_OTHER_GAS;
    };
    let number = word.last_chunk::<8>().map_or(0, |last| i64::from_be_bytes(*last));
    let gas = SPEND_STEPS
        .iter()
        .filter(|(from, _)| number > *from)
        .fold(SPEND_GAS_MIN, |gas, (from, each)| {
            gas.wrapping_add(each.wrapping_mul(number.wrapping_sub(*from)))
        });
    gas as u64
}

/// A transfer that the system contract asks 0x0c for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DelegatedTransfer {
    /// The account that pays.
    pub(crate) from: Address,
    /// The account that is paid.
    pub(crate) to: Address,
    /// The value in sha. `U256::MAX`, which no account can pay, if the number does not fit in 256
    /// bits.
    pub(crate) value: U256,
}

impl DelegatedTransfer {
    /// Decodes the input of 0x0c. Returns `None` if it is too short.
    pub(super) fn decode(input: &[u8]) -> Option<Self> {
        if input.len() < TRANSFER_BYTES_MIN {
            return None;
        }
        Some(Self {
            from: Address::from_slice(&input[16..36]),
            to: Address::from_slice(&input[48..68]),
            value: U256::try_from_be_slice(significant(&input[80..])).unwrap_or(U256::MAX),
        })
    }
}

/// A number without its leading zeros.
fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// The gas that revm's curve contracts 0x06 and 0x07 charge for an input that they reject.
/// Ethereum's other contracts reject no input.
pub(super) const fn curve_gas(address: Address) -> u64 {
    match address.0.0 {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, low] => match low {
            6 => 150,
            7 => 6000,
            _ => 0,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(number: U256) -> u64 {
        spend_gas(&[&[1, 2, 3, 4], number.to_be_bytes::<32>().as_slice()].concat())
    }

    #[test]
    fn gas_of_spend_gas_by_number() {
        let table: [(u64, u64); 9] = [
            (0, 1000),
            (10, 1000),
            (11, 3000),
            (15, 11_000),
            (16, 17_000),
            (20, 41_000),
            (21, 55_000),
            // 40·2000 + 35·4000 + 30·8000 + 25·16,000 + 20·32,000 + 15·64,000 + 10·128,000 +
            // 5·256,000
            (50, 5_021_000),
            (60, 10_121_000),
        ];
        for (number, gas) in table {
            assert_eq!(spend(U256::from(number)), gas, "{number}");
        }
        for length in [0, 4, 35, 37, 68] {
            assert_eq!(spend_gas(&vec![0; length]), SPEND_OTHER_GAS, "{length} bytes");
        }
        // Numbers whose highest of 64 bits is set are negative, and cost the least.
        assert_eq!(spend(U256::MAX), 1000);
        assert_eq!(spend(U256::from(1) << 63), 1000);
        assert_eq!(spend((U256::from(1) << 64) + U256::from(11)), 3000);
        // The sum wraps around: 510,000 times 2^60 is 0 in 64 bits, so the constant part remains.
        let wrapped = SPEND_STEPS.iter().map(|(from, each)| from * each).sum::<i64>();
        assert_eq!(spend(U256::from(1u64 << 60)), (1000 - wrapped) as u64);
    }

    #[test]
    fn delegated_transfers_are_decoded_from_three_words() {
        let (from, to) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let value = U256::from(77).to_be_bytes::<32>();
        let input = [
            &[9; 4][..],
            from.into_word().as_slice(),
            to.into_word().as_slice(),
            &value,
        ]
        .concat();
        let expected = DelegatedTransfer {
            from,
            to,
            value: U256::from(77),
        };
        assert_eq!(DelegatedTransfer::decode(&input), Some(expected.clone()));
        assert_eq!(DelegatedTransfer::decode(&input[..99]), None);
        // All further bytes are digits of the value.
        let longer = [&input[..], &[1]].concat();
        let value = U256::from(77 * 256 + 1);
        assert_eq!(
            DelegatedTransfer::decode(&longer),
            Some(DelegatedTransfer { value, ..expected })
        );
        let huge = [&input[..], &[0; 40]].concat();
        assert_eq!(
            DelegatedTransfer::decode(&huge),
            Some(DelegatedTransfer {
                value: U256::MAX,
                ..expected
            })
        );
    }
}
