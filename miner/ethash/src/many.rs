//! Keccak-256 of many inputs at once, as many side by side as the processor has room for.
//!
//! For trees of hashes, whose nodes of one height do not wait for each other. Inputs are put
//! together by how many blocks of the sponge they fill, so that no state idles.

use crate::isa::{Isa, Kernel, dispatch};
use crate::keccak::{Lane, PAD_END, RATE_256, SIDE_BY_SIDE, States, bytes_of, keccak256};

/// Bytes absorbed before each permutation.
const RATE_BYTES: usize = RATE_256 * 8;

/// Keccak-256 of each input, in their order. The same as [`keccak256`] of each, and faster
/// where the processor has wide registers.
pub fn keccak256_many(inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    let mut hashes = vec![[0; 32]; inputs.len()];
    dispatch(Many {
        inputs,
        hashes: &mut hashes,
    });
    hashes
}

struct Many<'a> {
    inputs: &'a [&'a [u8]],
    hashes: &'a mut [[u8; 32]],
}

impl Kernel for Many<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self) {
        let Self { inputs, hashes } = self;
        if I::Many::WIDTH == 1 {
            for (hash, input) in hashes.iter_mut().zip(inputs) {
                *hash = keccak256(input);
            }
            return;
        }
        for group in by_blocks(inputs).chunks(SIDE_BY_SIDE) {
            if let [one] = group {
                hashes[*one] = keccak256(inputs[*one]);
                continue;
            }
            let mut eight = [&[][..]; SIDE_BY_SIDE];
            for (input, index) in eight.iter_mut().zip(group) {
                *input = inputs[*index];
            }
            for (index, hash) in group.iter().zip(hash_eight::<I>(&eight)) {
                hashes[*index] = hash;
            }
        }
    }
}

/// The inputs' indices, those that fill as many blocks beside each other.
fn by_blocks(inputs: &[&[u8]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by_key(|index| blocks(inputs[*index]));
    order
}

/// How many blocks of the sponge an input fills, its padding included.
#[inline(always)]
fn blocks(input: &[u8]) -> usize {
    input.len() / RATE_BYTES + 1
}

/// Hashes eight inputs. Shorter ones are done before the longest is, and their hashes kept.
#[inline(always)]
fn hash_eight<I: Isa>(inputs: &[&[u8]; SIDE_BY_SIDE]) -> [[u8; 32]; SIDE_BY_SIDE] {
    let mut states = [[0; SIDE_BY_SIDE]; 25];
    let mut hashes = [[0; 32]; SIDE_BY_SIDE];
    let mut longest = 0;
    for input in inputs {
        longest = longest.max(blocks(input));
    }
    for block in 0..longest {
        for (j, input) in inputs.iter().enumerate() {
            absorb(&mut states, j, input, block);
        }
        I::permute(&mut states, SIDE_BY_SIDE);
        for (j, input) in inputs.iter().enumerate() {
            if blocks(input) == block + 1 {
                hashes[j] = bytes_of([states[0][j], states[1][j], states[2][j], states[3][j]]);
            }
        }
    }
    hashes
}

/// Absorbs block `block` of `input`, padded where it is the last, into state `j`; nothing
/// where the input has ended.
#[inline(always)]
fn absorb(states: &mut States, j: usize, input: &[u8], block: usize) {
    if block >= blocks(input) {
        return;
    }
    let rest = &input[block * RATE_BYTES..];
    if let Some((whole, _)) = rest.split_first_chunk::<RATE_BYTES>() {
        for (lane, bytes) in states.iter_mut().zip(whole.as_chunks::<8>().0) {
            lane[j] ^= u64::from_le_bytes(*bytes);
        }
        return;
    }
    let (words, tail) = rest.as_chunks::<8>();
    for (lane, bytes) in states.iter_mut().zip(words) {
        lane[j] ^= u64::from_le_bytes(*bytes);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    last[tail.len()] = 1;
    states[words.len()][j] ^= u64::from_le_bytes(last);
    states[RATE_256 - 1][j] ^= PAD_END;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Scalar, on_every_set};

    struct Collect<'a>(&'a [&'a [u8]]);

    impl Kernel for Collect<'_> {
        type Output = Vec<[u8; 32]>;
        #[inline(always)]
        fn run<I: Isa>(self) -> Self::Output {
            let mut hashes = vec![[0; 32]; self.0.len()];
            Many {
                inputs: self.0,
                hashes: &mut hashes,
            }
            .run::<I>();
            hashes
        }
    }

    #[test]
    fn many_hash_like_one() {
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 37 + i / 256) as u8).collect();
        for count in [0, 1, 2, 7, 8, 9, 40] {
            // Lengths on both sides of every border of a block, in no order.
            let inputs: Vec<_> = (0..count).map(|i| &data[i..i + (i * 135) % 680]).collect();
            let expected: Vec<_> = inputs.iter().map(|input| keccak256(input)).collect();
            assert_eq!(keccak256_many(&inputs), expected, "{count} inputs");
            let kernel = || Collect(&inputs);
            on_every_set(kernel, |hashes, set| {
                assert_eq!(hashes, expected, "{count} inputs, {set}");
            });
        }
        for length in 0..300 {
            let eight = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| &data[i..i + length]);
            let expected = eight.map(keccak256);
            assert_eq!(keccak256_many(&eight), expected, "{length} bytes");
            assert_eq!(hash_eight::<Scalar>(&eight), expected, "{length} bytes");
        }
    }
}
