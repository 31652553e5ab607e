//! Keccak-256 of many inputs at once, in the vector registers of the processor.
//!
//! For hash trees: the nodes of one height do not depend on each other. Inputs with the same number
//! of sponge blocks are hashed together, so that all states of a batch finish at the same time.

use crate::keccak::{BATCH_STATES, Lane, PAD_END, RATE_256, StateBatch, bytes_of, keccak256};
use crate::simd::{SimdKernel, SimdOps, dispatch};

/// Bytes in one block of the sponge.
const RATE_BYTES: usize = RATE_256 * 8;

/// Keccak-256 of each input, in the order of the inputs.
///
/// The result is the same as that of [`keccak256`] for each input. It is faster on processors with
/// vector registers of 256 bits or more.
pub fn keccak256_many(inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    let mut hashes = vec![[0; 32]; inputs.len()];
    dispatch(HashMany {
        inputs,
        hashes: &mut hashes,
    });
    hashes
}

/// Hashes every input into the entry of `hashes` with the same index.
struct HashMany<'a> {
    inputs: &'a [&'a [u8]],
    hashes: &'a mut [[u8; 32]],
}

impl SimdKernel for HashMany<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) {
        let Self { inputs, hashes } = self;
        if S::ThroughputLane::WIDTH == 1 {
            for (hash, input) in hashes.iter_mut().zip(inputs) {
                *hash = keccak256(input);
            }
            return;
        }
        for group in indices_by_block_count(inputs).chunks(BATCH_STATES) {
            if let [index] = group {
                hashes[*index] = keccak256(inputs[*index]);
                continue;
            }
            let mut batch = [&[][..]; BATCH_STATES];
            for (input, index) in batch.iter_mut().zip(group) {
                *input = inputs[*index];
            }
            for (index, hash) in group.iter().zip(hash_batch(simd, &batch)) {
                hashes[*index] = hash;
            }
        }
    }
}

/// The indices of `inputs`, sorted by the number of sponge blocks of the input.
fn indices_by_block_count(inputs: &[&[u8]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by_key(|index| block_count(inputs[*index]));
    order
}

/// The number of sponge blocks of `input` with its padding.
#[inline(always)]
const fn block_count(input: &[u8]) -> usize {
    input.len() / RATE_BYTES + 1
}

/// Hashes eight inputs. They may have different lengths; the hash of a shorter input is read from
/// its state right after its last block.
#[inline(always)]
fn hash_batch<S: SimdOps>(simd: S, inputs: &[&[u8]; BATCH_STATES]) -> [[u8; 32]; BATCH_STATES] {
    let mut states = [[0; BATCH_STATES]; 25];
    let mut hashes = [[0; 32]; BATCH_STATES];
    let mut longest = 0;
    for input in inputs {
        longest = longest.max(block_count(input));
    }
    for block in 0..longest {
        for (j, input) in inputs.iter().enumerate() {
            absorb(&mut states, j, input, block);
        }
        simd.permute(&mut states, BATCH_STATES);
        for (j, input) in inputs.iter().enumerate() {
            if block_count(input) == block + 1 {
                hashes[j] = bytes_of([states[0][j], states[1][j], states[2][j], states[3][j]]);
            }
        }
    }
    hashes
}

/// Absorbs block number `block` of `input` into state `j`. Pads the last block; after the last
/// block it does nothing.
#[inline(always)]
fn absorb(states: &mut StateBatch, j: usize, input: &[u8], block: usize) {
    if block >= block_count(input) {
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
    use crate::simd::on_each_instruction_set;

    #[test]
    fn many_hash_like_one() {
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 37 + i / 256) as u8).collect();
        for count in [0, 1, 2, 7, 8, 9, 40] {
            // Lengths below and above each block boundary, in no order.
            let inputs: Vec<_> = (0..count).map(|i| &data[i..i + (i * 135) % 680]).collect();
            let expected: Vec<_> = inputs.iter().map(|input| keccak256(input)).collect();
            on_each_instruction_set(|set| {
                assert_eq!(keccak256_many(&inputs), expected, "{count} inputs, {set}");
            });
        }
        for length in 0..300 {
            let eight = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| &data[i..i + length]);
            let expected = eight.map(keccak256);
            on_each_instruction_set(|set| {
                assert_eq!(keccak256_many(&eight), expected, "{length} bytes, {set}");
            });
        }
    }
}
