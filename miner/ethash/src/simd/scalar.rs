//! The baseline instruction set: ordinary registers, one state at a time.

use super::kernel::SimdOps;
use crate::ROW_WORDS;
use crate::arith::fnv;
use crate::cache_row::CacheRow;

/// Operations that work on every processor, so anyone may make a value.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

impl SimdOps for Scalar {
    type LatencyLane = u64;
    type ThroughputLane = u64;

    #[inline(always)]
    fn mix_row(self, mix: &mut CacheRow, row: &[u32; ROW_WORDS]) {
        for (word, other) in mix.0.iter_mut().zip(row) {
            *word = fnv(*word, *other);
        }
    }
}
