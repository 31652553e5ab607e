//! Input for the built-in contracts: right, almost right, and wrong.

use primitives::{B256, SecretKey, U256, b256};

use crate::random::SeededRandom;

const fn number(bytes: B256) -> U256 {
    U256::from_be_bytes(bytes.0)
}

/// The modulus of the field of bn256 (EIP-196).
const FIELD: U256 = number(b256!(
    "30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47"
));
/// The order of bn256.
const ORDER: U256 = number(b256!(
    "30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001"
));
/// Twice the generator.
const TWICE: [U256; 2] = [
    number(b256!(
        "030644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd3"
    )),
    number(b256!(
        "15ed738c0e0a7c92e7845f96b2ae9c0a68a6a449e3538fc7ff3ebf7a5a18a2c4"
    )),
];
/// The generator of G2, in the order of the encoding (EIP-197).
const GENERATOR_2: [U256; 4] = [
    number(b256!(
        "198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c2"
    )),
    number(b256!(
        "1800deef121f1e76426a00665e5c4479674322d4f75edadd46debd5cd992f6ed"
    )),
    number(b256!(
        "090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b"
    )),
    number(b256!(
        "12c85ea5db8c6deb4aab71808dcb408fe3d1e7690c43d37b4ce6cc0166fa7daa"
    )),
];

/// Input for the built-in contract at address `number`.
pub(super) fn input(random: &SeededRandom, number: u64) -> Vec<u8> {
    let mut bytes = match number {
        1 => recovery(random),
        5 => modexp(random),
        6 => [point(random), point(random)].concat(),
        7 => [point(random), bytes_of(scalar(random))].concat(),
        8 => (0..random.below(4)).flat_map(|_| pair(random)).collect(),
        9 => blake2(random),
        _ => {
            let length = random.below(200);
            random.bytes(length)
        }
    };
    // Shorter, longer, or with a wrong byte.
    match random.weighted(&[75, 9, 8, 8]) {
        1 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        2 => {
            let length = random.below(70);
            bytes.extend(random.bytes(length));
        }
        3 if !bytes.is_empty() => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        _ => {}
    }
    bytes
}

fn bytes_of(word: U256) -> Vec<u8> {
    word.to_be_bytes::<32>().to_vec()
}

/// A digest with a signature, which may have another recovery id.
fn recovery(random: &SeededRandom) -> Vec<u8> {
    let digest = random.word();
    let key = SecretKey::from_bytes(&bytes_of(random.word() >> 1 | U256::from(1)));
    let signature = key.map(|key| key.sign(&digest.into()));
    let (r, s, id) = signature.map_or((U256::ZERO, U256::ZERO, 0), |it| (it.r, it.s, it.recovery_id));
    let v = match random.weighted(&[80, 20]) {
        0 => U256::from(27 + id),
        _ => U256::from(random.pick(&[0u64, 1, 26, 27, 28, 29, 283, u64::MAX])),
    };
    [digest, v, r, s].into_iter().flat_map(bytes_of).collect()
}

fn modexp(random: &SeededRandom) -> Vec<u8> {
    let mut lengths = [0; 3].map(|_: u64| random.pick(&[0, 1, 2, 31, 32, 33, 64, 65, 100]));
    // A zero modulus, an even one, and one with leading zeros are frequent.
    let body: Vec<u8> = lengths
        .iter()
        .flat_map(|length| {
            let mut number = random.bytes(*length);
            if random.percent(20) {
                number.fill(0);
            }
            number
        })
        .collect();
    if random.percent(8) {
        let at = random.below(3) as usize;
        lengths[at] = random.pick(&[1 << 16, 1 << 32, u64::MAX, 1000]);
    }
    let mut bytes: Vec<u8> = lengths
        .into_iter()
        .flat_map(|length| bytes_of(U256::from(length)))
        .collect();
    bytes.extend(body);
    bytes
}

/// A point of G1: mostly on the curve.
fn point(random: &SeededRandom) -> Vec<u8> {
    let [one, two] = [U256::from(1), U256::from(2)];
    let [x, y] = match random.weighted(&[25, 15, 15, 20, 10, 10, 5]) {
        0 => [one, two],
        1 => [one, FIELD - two],
        2 => [U256::ZERO, U256::ZERO],
        3 => TWICE,
        4 => [TWICE[0], FIELD - TWICE[1]],
        5 => [one + FIELD, two],
        _ => [random.word(), random.word()],
    };
    [bytes_of(x), bytes_of(y)].concat()
}

fn scalar(random: &SeededRandom) -> U256 {
    match random.weighted(&[30, 20, 20, 30]) {
        0 => U256::from(random.below(4)),
        1 => ORDER,
        2 => ORDER - U256::from(1),
        _ => random.word(),
    }
}

fn pair(random: &SeededRandom) -> Vec<u8> {
    let second = match random.weighted(&[60, 20, 10, 10]) {
        0 => GENERATOR_2,
        1 => [U256::ZERO; 4],
        2 => {
            let [x1, x0, y1, y0] = GENERATOR_2;
            [x1, x0, FIELD - y1, FIELD - y0]
        }
        _ => [0; 4].map(|_| random.word()),
    };
    let mut bytes = point(random);
    bytes.extend(second.into_iter().flat_map(bytes_of));
    bytes
}

fn blake2(random: &SeededRandom) -> Vec<u8> {
    let rounds = match random.weighted(&[70, 25, 5]) {
        0 => random.below(14),
        1 => random.below(1000),
        _ => random.pick(&[u64::from(u32::MAX), 1 << 31, 1 << 24]),
    };
    let mut bytes = (rounds as u32).to_be_bytes().to_vec();
    bytes.extend(random.bytes(208));
    bytes.push(random.pick(&[0, 1, 1, 0, 2]));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_points_are_on_their_curve() {
        let [x, y] = TWICE;
        let square = |number: U256| number.mul_mod(number, FIELD);
        assert_eq!(
            square(y),
            square(x).mul_mod(x, FIELD).add_mod(U256::from(3), FIELD)
        );
        assert!(GENERATOR_2.iter().all(|coordinate| *coordinate < FIELD));
    }

    #[test]
    fn every_contract_gets_input_of_its_own_length() {
        let random = SeededRandom::new(3, "contracts");
        for (number, length) in [(1, 128), (6, 128), (7, 96), (9, 213)] {
            let right = (0..100).filter(|_| input(&random, number).len() == length);
            assert!(right.count() > 60, "{number}");
        }
    }
}
