//! Keccak-256 of one long input, with the fastest instructions for a single state.
//!
//! The blocks of a sponge depend on each other, so a long input cannot use the width of vector
//! registers. It still gains from their rotations and their three-operand logic.

use crate::keccak::{Lane, NewLane, PAD_END, RATE_256, bytes_of, permute};
use crate::simd::{SimdKernel, SimdOps, dispatch};

/// Bytes in one block of the sponge.
const RATE_BYTES: usize = RATE_256 * 8;

/// Keccak-256 of `data`: the same as [`keccak256`](crate::keccak256). It is faster for inputs of
/// some hundred bytes and more.
pub fn keccak256_long(data: &[u8]) -> [u8; 32] {
    dispatch(HashLong { data })
}

struct HashLong<'a> {
    data: &'a [u8],
}

impl SimdKernel for HashLong<'_> {
    type Output = [u8; 32];

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) -> [u8; 32] {
        let mut state = [S::LatencyLane::splat(simd, 0); 25];
        let (blocks, rest) = self.data.as_chunks::<RATE_BYTES>();
        for block in blocks {
            absorb(&mut state, block);
            permute(&mut state);
        }
        let mut last = [0; RATE_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 1;
        absorb(&mut state, &last);
        state[RATE_256 - 1] = state[RATE_256 - 1].xor(state[0].filled(PAD_END));
        permute(&mut state);
        bytes_of([
            state[0].first(),
            state[1].first(),
            state[2].first(),
            state[3].first(),
        ])
    }
}

#[inline(always)]
fn absorb<L: Lane>(state: &mut [L; 25], block: &[u8; RATE_BYTES]) {
    for (lane, word) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane = lane.xor(lane.filled(u64::from_le_bytes(*word)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keccak::keccak256;

    #[test]
    fn every_length_gives_the_hash_of_the_plain_code() {
        let data: Vec<u8> = (0..2000u32)
            .map(|index| (index * 7 + index / 256) as u8)
            .collect();
        for length in 0..data.len() {
            let data = &data[..length];
            assert_eq!(keccak256_long(data), keccak256(data), "{length} bytes");
        }
    }
}
