//! The traits that let a hot loop be written once and compiled for every instruction set.

use crate::ROW_WORDS;
use crate::cache_row::CacheRow;
use crate::keccak::{BATCH_STATES, Lane, NewLane, PAD_END, RATE_512, StateBatch, permute_batch};

/// A hot loop that is compiled once per instruction set.
pub(crate) trait SimdKernel {
    type Output;
    /// Runs the loop with the operations of one instruction set.
    ///
    /// The implementation must be `#[inline(always)]`, and so must every function that it calls in
    /// the hot path: a function that is not inlined is compiled for the baseline instruction set
    /// only. Closures cannot carry the attribute. So these loops use no closures, and no `map` or
    /// `from_fn` of arrays.
    fn run<S: SimdOps>(self, simd: S) -> Self::Output;
}

/// The operations that have their own code per instruction set. The compiler does the rest.
///
/// A value of this type is the proof that the processor has the instructions. It has no size, so
/// it costs nothing to hand it on.
pub(crate) trait SimdOps: Copy {
    /// The lane type with the lowest latency: it permutes one or two states in the shortest time.
    type LatencyLane: NewLane<Self>;
    /// The lane type with the highest throughput: it permutes the most states in the same time.
    type ThroughputLane: NewLane<Self>;

    /// Mixes each word of `row` into the same word of `mix`.
    ///
    /// The compiler would vectorize the plain loop too. But it was seen to load a value across the
    /// boundary of two stores it had just made. That delay costs more than the rest of the step.
    fn mix_row(self, mix: &mut CacheRow, row: &[u32; ROW_WORDS]);

    /// Permutes the first `count` states of `batch`. May also permute states after them.
    #[inline(always)]
    fn permute(self, batch: &mut StateBatch, count: usize) {
        if count <= Self::LatencyLane::WIDTH {
            permute_batch::<Self, Self::LatencyLane>(self, batch, count);
        } else {
            permute_batch::<Self, Self::ThroughputLane>(self, batch, count);
        }
    }

    /// Replaces each row by its Keccak-512.
    #[inline(always)]
    fn keccak512_rows(self, rows: &mut [CacheRow]) {
        for rows in rows.chunks_mut(BATCH_STATES) {
            let mut states = [[0; BATCH_STATES]; 25];
            for (j, row) in rows.iter().enumerate() {
                for (lanes, lane) in states.iter_mut().zip(row.lanes()) {
                    lanes[j] = lane;
                }
            }
            // The message leaves one lane of the rate, so the first and the last bit of the padding
            // share it.
            states[RATE_512 - 1] = [1 | PAD_END; BATCH_STATES];
            self.permute(&mut states, rows.len());
            for (j, row) in rows.iter_mut().enumerate() {
                let mut lanes = [0; 8];
                for (lane, lanes) in lanes.iter_mut().zip(&states) {
                    *lane = lanes[j];
                }
                *row = CacheRow::from_lanes(&lanes);
            }
        }
    }
}
