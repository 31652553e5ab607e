//! The pairing contract 0x08 of the public network.
//!
//! Ethereum's contract rejects a G2 point that is on the curve, but not in the subgroup of prime
//! order. The public node's library does not check this, and goes on with the point.
//!
//! Both libraries compute the same Miller loop, with different digits of the same loop count. The
//! result does not depend on the digits, as long as no step of the loop adds a point to itself or
//! to its negative. This holds for every point of the curve: the order of a point is a product of
//! 10069, 5864401, 1875725156269, 197620364512881247228717050342013327560683201906968909 and the
//! order of the subgroup, and no step of either loop is such an addition modulo one of them.

use ark_bn254::{Bn254, Fq, Fq2, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use ark_ec::pairing::Pairing;
use ark_ff::{BigInt, One, PrimeField, Zero};

use super::network::{PrecompileOutcome, word};

/// Bytes of a pair: a G1 point of two coordinates and a G2 point of four.
const PAIR_BYTES: usize = 192;
/// Gas without pairs.
const BASE_GAS: u64 = 45_000;
/// Gas of a pair.
const PAIR_GAS: u64 = 34_000;

/// The gas of 0x08 for an input of this length.
pub(super) const fn pairing_gas(input_bytes: usize) -> u64 {
    BASE_GAS + PAIR_GAS * (input_bytes / PAIR_BYTES) as u64
}

/// Runs 0x08. `gas` is what the caller has given: no point is read if it does not cover the cost.
pub(super) fn run(input: &[u8], gas: u64) -> PrecompileOutcome {
    let cost = pairing_gas(input.len());
    let product = if cost > gas { None } else { product_is_one(input) };
    match product {
        Some(is_one) => PrecompileOutcome::Returned {
            cost,
            output: word(is_one.into()),
        },
        None => PrecompileOutcome::Refused {
            cost,
            output: Default::default(),
        },
    }
}

/// Whether the product of the pairings is 1. `None` if the input is not a list of points of the
/// curves.
fn product_is_one(input: &[u8]) -> Option<bool> {
    let pairs = input.chunks(PAIR_BYTES).map(read_pair);
    let pairs: Vec<(G1Affine, G2Affine)> = pairs.collect::<Option<_>>()?;
    let (g1, g2): (Vec<G1Affine>, Vec<G2Affine>) = pairs
        .into_iter()
        .filter(|(g1, g2)| !g1.is_zero() && !g2.is_zero())
        .unzip();
    // 0 has no inverse, so it has no final exponentiation. It is not 1.
    let result = Bn254::final_exponentiation(Bn254::multi_miller_loop(g1, g2));
    Some(result.is_some_and(|result| result.0.is_one()))
}

fn read_pair(bytes: &[u8]) -> Option<(G1Affine, G2Affine)> {
    let bytes: &[u8; PAIR_BYTES] = bytes.try_into().ok()?;
    let coordinate = |index: usize| read_coordinate(&bytes[index * 32..][..32]);
    let (x, y) = (coordinate(0)?, coordinate(1)?);
    let g1 = if x.is_zero() && y.is_zero() {
        G1Affine::zero()
    } else {
        // The whole curve is the subgroup.
        Some(G1Affine::new_unchecked(x, y)).filter(G1Affine::is_on_curve)?
    };
    // The imaginary part stands first.
    let x = Fq2::new(coordinate(3)?, coordinate(2)?);
    let y = Fq2::new(coordinate(5)?, coordinate(4)?);
    let g2 = if x.is_zero() && y.is_zero() {
        G2Affine::zero()
    } else {
        Some(G2Affine::new_unchecked(x, y)).filter(G2Affine::is_on_curve)?
    };
    Some((g1, g2))
}

/// Reads a big-endian coordinate. `None` if it is not below the field's modulus.
fn read_coordinate(bytes: &[u8]) -> Option<Fq> {
    let mut limbs = [0; 4];
    for (limb, bytes) in limbs.iter_mut().zip(bytes.rchunks(8)) {
        *limb = bytes
            .iter()
            .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    }
    Fq::from_bigint(BigInt::new(limbs))
}

#[cfg(test)]
mod tests {
    use ark_bn254::g2::Config;
    use ark_ec::short_weierstrass::SWCurveConfig;
    use ark_ec::{AdditiveGroup, CurveGroup};
    use ark_ff::{BigInteger, Field};

    use super::*;

    fn bytes(g1: G1Affine, g2: G2Affine) -> Vec<u8> {
        let (x1, y1) = g1.xy().unwrap_or_default();
        let (x2, y2) = g2.xy().unwrap_or_default();
        [x1, y1, x2.c1, x2.c0, y2.c1, y2.c0]
            .iter()
            .flat_map(|coordinate| coordinate.into_bigint().to_bytes_be())
            .collect()
    }

    /// The multiple `factor` of a point, big-endian. It adds and doubles only: the library's own
    /// multiplication is for points of the subgroup.
    fn times(point: G2Affine, factor: &[u8]) -> G2Affine {
        let mut sum = ark_bn254::G2Projective::zero();
        for bit in factor
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        {
            sum.double_in_place();
            if bit == 1 {
                sum += point;
            }
        }
        sum.into_affine()
    }

    /// A point of the curve outside the subgroup.
    fn outside() -> G2Affine {
        (1u64..)
            .find_map(|x| {
                let x = Fq2::new(Fq::from(x), Fq::from(1));
                let y = (x * x * x + Config::COEFF_B).sqrt()?;
                let point = G2Affine::new_unchecked(x, y);
                (!point.is_in_correct_subgroup_assuming_on_curve()).then_some(point)
            })
            .expect("most points are outside")
    }

    fn check(input: &[u8], expected: Option<bool>) {
        let cost = pairing_gas(input.len());
        let (got, uncovered) = (run(input, cost), run(input, cost - 1));
        let refused = PrecompileOutcome::Refused {
            cost,
            output: Default::default(),
        };
        assert_eq!(uncovered, refused, "the gas does not cover the cost");
        match expected {
            None => assert_eq!(got, refused),
            Some(is_one) => assert_eq!(
                got,
                PrecompileOutcome::Returned {
                    cost,
                    output: word(is_one.into())
                }
            ),
        }
    }

    #[test]
    fn points_outside_the_subgroup_are_paired() {
        let (g1, g2) = (G1Affine::generator(), outside());
        check(&bytes(g1, g2), Some(false));
        // e(P, Q)·e(−P, Q) is 1 for every point Q of the curve.
        check(&[bytes(g1, g2), bytes(-g1, g2)].concat(), Some(true));
        check(&[bytes(g1, g2), bytes(g1, g2)].concat(), Some(false));
        check(&bytes(G1Affine::zero(), g2), Some(true));
        let inside = G2Affine::generator();
        check(&[bytes(g1, inside), bytes(-g1, inside)].concat(), Some(true));
        check(&bytes(g1, inside), Some(false));
    }

    #[test]
    fn points_of_the_smallest_order_are_paired() {
        // The number of points of G2's curve divided by 10069.
        let order = primitives::hex::decode(concat!(
            "3b89d84c6eaab0cfb56a567ea5a2f2ec8020adba71a185dd3e299a8fab268ec1",
            "2d22f6541370c616fa58e5b72d7288a0ba9334d5d06e1dbbfa43015f1659"
        ));
        let small = times(outside(), &order.expect("hex"));
        assert!(!small.is_zero(), "another point must be taken");
        assert!(times(small, &10069u16.to_be_bytes()).is_zero());
        let g1 = G1Affine::generator();
        check(&bytes(g1, small), Some(false));
        check(&[bytes(g1, small), bytes(-g1, small)].concat(), Some(true));
    }

    #[test]
    fn other_inputs_are_rejected() {
        check(&[], Some(true));
        check(&[0; PAIR_BYTES], Some(true));
        check(&[0; PAIR_BYTES - 1], None);
        check(&[0; PAIR_BYTES + 1], None);
        let mut off_curve = bytes(G1Affine::generator(), G2Affine::generator());
        off_curve[63] ^= 1;
        check(&off_curve, None);
        let mut off_curve = bytes(G1Affine::generator(), G2Affine::generator());
        off_curve[191] ^= 1;
        check(&off_curve, None);
        // The modulus itself is no coordinate, although it is 0 in the field.
        let mut modulus = vec![0; PAIR_BYTES];
        modulus[..32].copy_from_slice(&Fq::MODULUS.to_bytes_be());
        check(&modulus, None);
    }
}
