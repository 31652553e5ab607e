//! The public network's BLS12-381 contracts at the decimal addresses 60 to 68.
//!
//! The contracts are those of an early draft of EIP-2537, with its gas. The draft differs from the
//! final EIP-2537 in three things: there are contracts for single multiplications, multiplications
//! do not check that a point is in the subgroup, and the gas is another. As in the final one, a
//! pairing does check it, and an addition does not.
//!
//! A plain call finds no code at these addresses and runs nothing. The other kinds of calls run the
//! contract. Source: docs/base-chain.md, 4.

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AdditiveGroup, AffineRepr, CurveGroup};
use ark_ff::{BigInt, BigInteger, Field, PrimeField, Zero};
use primitives::{Address, Bytes};
use revm::precompile::crypto;

use super::network::{PrecompileOutcome, word};

/// The address of the first contract. The others follow.
const FIRST: u8 = 60;
/// The address of the last contract.
const LAST: u8 = 68;

/// Bytes of a coordinate's part in the input: 16 zeros, then 48 bytes.
const FIELD_BYTES: usize = 64;
/// Bytes of a coordinate's part without the zeros.
const NUMBER_BYTES: usize = 48;
/// Bytes of a G1 point.
const G1_BYTES: usize = 2 * FIELD_BYTES;
/// Bytes of a G2 point.
const G2_BYTES: usize = 4 * FIELD_BYTES;
/// Bytes of a scalar.
const SCALAR_BYTES: usize = 32;
/// Bytes of a pair of points.
const PAIR_BYTES: usize = G1_BYTES + G2_BYTES;

/// Gas of the operations.
const G1_ADD_GAS: u64 = 600;
const G1_MULTIPLY_GAS: u64 = 12_000;
const G2_ADD_GAS: u64 = 4500;
const G2_MULTIPLY_GAS: u64 = 55_000;
const PAIRING_GAS: u64 = 115_000;
const PAIR_GAS: u64 = 23_000;
const MAP_G1_GAS: u64 = 5500;
const MAP_G2_GAS: u64 = 110_000;

/// The part of the price, in thousandths, at which each of 1, 2, … multiplications together is
/// charged. The last number holds for all longer lists.
const DISCOUNTS: [u64; 128] = [
    1200, 888, 764, 641, 594, 547, 500, 453, 438, 423, 408, 394, 379, 364, 349, 334, 330, 326, 322, 318, 314,
    310, 306, 302, 298, 294, 289, 285, 281, 277, 273, 269, 268, 266, 265, 263, 262, 260, 259, 257, 256, 254,
    253, 251, 250, 248, 247, 245, 244, 242, 241, 239, 238, 236, 235, 233, 232, 231, 229, 228, 226, 225, 223,
    222, 221, 220, 219, 219, 218, 217, 216, 216, 215, 214, 213, 213, 212, 211, 211, 210, 209, 208, 208, 207,
    206, 205, 205, 204, 203, 202, 202, 201, 200, 199, 199, 198, 197, 196, 196, 195, 194, 193, 193, 192, 191,
    191, 190, 189, 188, 188, 187, 186, 185, 185, 184, 183, 182, 182, 181, 180, 179, 179, 178, 177, 176, 176,
    175, 174,
];

/// The names of the contracts, by their order. EIP-7910 has most of them.
const NAMES: [&str; 9] = [
    "BLS12_G1ADD",
    "BLS12_G1MUL",
    "BLS12_G1MSM",
    "BLS12_G2ADD",
    "BLS12_G2MUL",
    "BLS12_G2MSM",
    "BLS12_PAIRING_CHECK",
    "BLS12_MAP_FP_TO_G1",
    "BLS12_MAP_FP2_TO_G2",
];

/// The contracts with their names.
pub(super) fn named() -> impl Iterator<Item = (&'static str, Address)> {
    let addresses = (FIRST..=LAST).map(Address::with_last_byte);
    NAMES.into_iter().zip(addresses)
}

/// Whether one of these contracts has this address.
pub(super) fn is_bls(address: &Address) -> bool {
    number(address).is_some()
}

/// The last byte of the address of one of these contracts.
fn number(address: &Address) -> Option<u8> {
    let [zeros @ .., last] = address.0.0;
    (zeros == [0; 19] && (FIRST..=LAST).contains(&last)).then_some(last)
}

/// Runs the contract at `address`. `gas` is what the caller has given: nothing is computed if it
/// does not cover the cost. Returns `None` for any other address.
pub(super) fn run(address: &Address, input: &[u8], gas: u64) -> Option<PrecompileOutcome> {
    let contract = number(address)?;
    let cost = cost(contract, input.len());
    let output = if cost > gas { None } else { output(contract, input) };
    Some(match output {
        Some(output) => PrecompileOutcome::Returned { cost, output },
        None => PrecompileOutcome::Refused {
            cost,
            output: Bytes::new(),
        },
    })
}

fn cost(contract: u8, input_bytes: usize) -> u64 {
    let together = |point_bytes: usize, each: u64| {
        let count = input_bytes / (point_bytes + SCALAR_BYTES);
        let index = count.min(DISCOUNTS.len()).checked_sub(1);
        index.map_or(0, |index| count as u64 * each * DISCOUNTS[index] / 1000)
    };
    match contract {
        60 => G1_ADD_GAS,
        61 => G1_MULTIPLY_GAS,
        62 => together(G1_BYTES, G1_MULTIPLY_GAS),
        63 => G2_ADD_GAS,
        64 => G2_MULTIPLY_GAS,
        65 => together(G2_BYTES, G2_MULTIPLY_GAS),
        66 => PAIRING_GAS + PAIR_GAS * (input_bytes / PAIR_BYTES) as u64,
        67 => MAP_G1_GAS,
        _ => MAP_G2_GAS,
    }
}

/// The output of a contract; `None` if it rejects the input.
fn output(contract: u8, input: &[u8]) -> Option<Bytes> {
    match contract {
        60 => add::<g1::Config>(input),
        61 => (input.len() == G1_BYTES + SCALAR_BYTES).then(|| multiply::<g1::Config>(input))?,
        62 => multiply::<g1::Config>(input),
        63 => add::<g2::Config>(input),
        64 => (input.len() == G2_BYTES + SCALAR_BYTES).then(|| multiply::<g2::Config>(input))?,
        65 => multiply::<g2::Config>(input),
        66 => pairing(input),
        67 => {
            let input = number_bytes(input)?;
            let point = crypto().bls12_381_fp_to_g1(input).ok()?;
            Some(padded(&point))
        }
        _ => {
            let (first, second) = input.split_at_checked(FIELD_BYTES)?;
            let input = (*number_bytes(first)?, *number_bytes(second)?);
            let point = crypto().bls12_381_fp2_to_g2(input).ok()?;
            Some(padded(&point))
        }
    }
}

/// A coordinate's 48 bytes; `None` if the length is wrong or the bytes before them are not zero.
fn number_bytes(bytes: &[u8]) -> Option<&[u8; NUMBER_BYTES]> {
    let (zeros, number) = bytes.split_last_chunk::<NUMBER_BYTES>()?;
    (zeros == [0; FIELD_BYTES - NUMBER_BYTES]).then_some(number)
}

/// Numbers of 48 bytes, each with 16 zeros before it.
fn padded(numbers: &[u8]) -> Bytes {
    let with_zeros = |number: &[u8]| [&[0; FIELD_BYTES - NUMBER_BYTES], number].concat();
    let all: Vec<u8> = numbers.chunks(NUMBER_BYTES).flat_map(with_zeros).collect();
    all.into()
}

/// One of the two curves.
trait Curve: SWCurveConfig {
    /// Bytes of a point in input and output.
    const POINT_BYTES: usize;

    /// Reads a coordinate; `None` if a part of it is not below the modulus.
    fn read_coordinate(bytes: &[u8]) -> Option<Self::BaseField>;
}

impl Curve for g1::Config {
    const POINT_BYTES: usize = G1_BYTES;

    fn read_coordinate(bytes: &[u8]) -> Option<Fq> {
        read_number(bytes)
    }
}

impl Curve for g2::Config {
    const POINT_BYTES: usize = G2_BYTES;

    fn read_coordinate(bytes: &[u8]) -> Option<Fq2> {
        let (c0, c1) = bytes.split_at_checked(FIELD_BYTES)?;
        Some(Fq2::new(read_number(c0)?, read_number(c1)?))
    }
}

/// Reads a point of the curve. Two coordinates that are zero are the point at infinity.
fn read_point<C: Curve>(bytes: &[u8]) -> Option<Affine<C>> {
    let (x, y) = bytes.split_at_checked(C::POINT_BYTES / 2)?;
    let (x, y) = (C::read_coordinate(x)?, C::read_coordinate(y)?);
    if x.is_zero() && y.is_zero() {
        return Some(Affine::zero());
    }
    Some(Affine::new_unchecked(x, y)).filter(Affine::is_on_curve)
}

/// The encoded point.
fn write_point<C: Curve>(point: Projective<C>) -> Bytes {
    let Some((x, y)) = point.into_affine().xy() else {
        return vec![0; C::POINT_BYTES].into();
    };
    let parts = x
        .to_base_prime_field_elements()
        .chain(y.to_base_prime_field_elements());
    let numbers: Vec<u8> = parts.flat_map(|part| part.into_bigint().to_bytes_be()).collect();
    padded(&numbers)
}

/// Reads a number of the field; `None` if it is not below the modulus.
fn read_number(bytes: &[u8]) -> Option<Fq> {
    let mut limbs = [0; 6];
    for (limb, bytes) in limbs.iter_mut().zip(number_bytes(bytes)?.rchunks(8)) {
        *limb = bytes
            .iter()
            .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    }
    Fq::from_bigint(BigInt::new(limbs))
}

/// The sum of two points.
fn add<C: Curve>(input: &[u8]) -> Option<Bytes> {
    if input.len() != 2 * C::POINT_BYTES {
        return None;
    }
    let (first, second) = input.split_at(C::POINT_BYTES);
    let sum = Projective::<C>::from(read_point(first)?) + read_point::<C>(second)?;
    Some(write_point(sum))
}

/// The sum of points, each multiplied by the scalar after it. The list must not be empty.
fn multiply<C: Curve>(input: &[u8]) -> Option<Bytes> {
    let item_bytes = C::POINT_BYTES + SCALAR_BYTES;
    if input.is_empty() || !input.len().is_multiple_of(item_bytes) {
        return None;
    }
    let read = |item: &[u8]| {
        let (point, scalar) = item.split_last_chunk::<SCALAR_BYTES>()?;
        Some((read_point::<C>(point)?, *scalar))
    };
    let items: Vec<_> = input.chunks(item_bytes).map(read).collect::<Option<_>>()?;
    Some(write_point(sum_of_products(&items)))
}

/// The sum of points multiplied by scalars, which are big-endian and may be as large as 2^256 − 1.
///
/// The points may be outside the subgroup, so only additions are used: the library's own
/// multiplications take a scalar modulo the subgroup's order. Four bits of all scalars are taken at
/// a time, so that the doublings are shared.
fn sum_of_products<C: SWCurveConfig>(items: &[(Affine<C>, [u8; SCALAR_BYTES])]) -> Projective<C> {
    const WINDOW_BITS: usize = 4;
    let mut sum = Projective::zero();
    for window in 0..SCALAR_BYTES * 8 / WINDOW_BITS {
        for _ in 0..WINDOW_BITS {
            sum.double_in_place();
        }
        // The sum of all points whose scalar has this digit here; digit 0 adds nothing.
        let mut by_digit = [Projective::<C>::zero(); (1 << WINDOW_BITS) - 1];
        for (point, scalar) in items {
            let byte = scalar[window / 2];
            let digit = if window % 2 == 0 { byte >> 4 } else { byte & 15 };
            if let Some(index) = usize::from(digit).checked_sub(1) {
                by_digit[index] += point;
            }
        }
        let mut of_higher_digits = Projective::zero();
        for of_digit in by_digit.iter().rev() {
            of_higher_digits += of_digit;
            sum += of_higher_digits;
        }
    }
    sum
}

/// Whether the product of the pairings of a list that is not empty is 1. All points must be in
/// their subgroups.
fn pairing(input: &[u8]) -> Option<Bytes> {
    if input.is_empty() || !input.len().is_multiple_of(PAIR_BYTES) {
        return None;
    }
    let read = |pair: &[u8]| {
        let mut numbers = [[0; NUMBER_BYTES]; PAIR_BYTES / FIELD_BYTES];
        for (number, bytes) in numbers.iter_mut().zip(pair.chunks(FIELD_BYTES)) {
            *number = *number_bytes(bytes)?;
        }
        let [x, y, x0, x1, y0, y1] = numbers;
        Some(((x, y), (x0, x1, y0, y1)))
    };
    let pairs: Vec<_> = input.chunks(PAIR_BYTES).map(read).collect::<Option<_>>()?;
    let is_one = crypto().bls12_381_pairing_check(&pairs).ok()?;
    Some(word(is_one.into()))
}

#[cfg(test)]
mod tests {
    use std::ops::Neg;

    use ark_bls12_381::G1Affine;
    use serde_json::Value;

    use super::*;

    /// Most cases are published with EIP-2537. Those of points outside the subgroups were computed
    /// independently, with plain integers.
    #[test]
    fn contracts_give_the_outputs_of_the_vectors() {
        let text = include_str!("../../../../../tests/vectors/bls12381.json");
        let cases: Vec<Value> = serde_json::from_str(text).expect("JSON");
        assert!(cases.len() > 50);
        for case in cases {
            let name = format!("{}: {}", case["contract"], case["name"]);
            let hex = |key: &str| primitives::hex::decode(case[key].as_str().expect("text")).expect("hex");
            let contract = case["contract"].as_u64().expect("a number") as u8;
            let (address, input) = (Address::with_last_byte(contract), hex("input"));
            let got = run(&address, &input, u64::MAX).expect("a contract");
            match got {
                PrecompileOutcome::Returned { cost, output } => {
                    assert_eq!(case["gas"], cost, "{name}");
                    assert_eq!(output, hex("output"), "{name}");
                    let uncovered = run(&address, &input, cost - 1).expect("a contract");
                    assert!(matches!(uncovered, PrecompileOutcome::Refused { .. }), "{name}");
                }
                PrecompileOutcome::Refused { .. } => assert!(case["output"].is_null(), "{name}"),
            }
        }
    }

    #[test]
    fn long_lists_are_cheaper_and_have_the_sum_of_their_items() {
        assert_eq!((cost(62, 0), cost(62, 159)), (0, 0));
        assert_eq!(cost(62, 160), 14_400);
        assert_eq!(cost(62, 128 * 160), 128 * 12_000 * 174 / 1000);
        assert_eq!(cost(62, 200 * 160 + 3), 200 * 12_000 * 174 / 1000);
        assert_eq!(cost(65, 2 * 288), 2 * 55_000 * 888 / 1000);
        // Points outside the subgroup, with their negatives.
        let point = (2u64..)
            .find_map(|x| G1Affine::get_point_from_x_unchecked(Fq::from(x), false))
            .expect("about half of all numbers are coordinates");
        assert!(!point.is_in_correct_subgroup_assuming_on_curve());
        let item = |point: G1Affine, scalar: u8| {
            [write_point(point.into()).as_ref(), &[scalar; SCALAR_BYTES]].concat()
        };
        let all: Vec<u8> = (0..=255u8)
            .flat_map(|scalar| [item(point, scalar), item(point.neg(), scalar)].concat())
            .collect();
        assert_eq!(multiply::<g1::Config>(&all), Some(vec![0; G1_BYTES].into()));
        let one_more = [&all[..], &item(point, 0x77)].concat();
        assert_eq!(
            multiply::<g1::Config>(&one_more),
            multiply::<g1::Config>(&item(point, 0x77))
        );
    }

    #[test]
    fn addresses_are_decimal() {
        let is = |last| is_bls(&Address::with_last_byte(last));
        assert!(is(60) && is(68) && !is(59) && !is(69));
        assert!(!is_bls(&Address::repeat_byte(60)));
    }
}
