//! NEON of AArch64: the mixing step, and Keccak on two states at once.
//!
//! Every processor of the target `aarch64` has NEON, so anyone may make a value of [`Neon`]. The
//! intrinsics are unsafe only for targets without it.

use core::arch::aarch64::*;

use super::kernel::{SimdKernel, SimdOps};
use crate::cache_row::CacheRow;
use crate::keccak::{BATCH_STATES, Lane, NewLane};
use crate::{FNV_PRIME, ROW_WORDS};

/// Words of a 128-bit register.
const REGISTER_WORDS: usize = 4;

/// Operations of NEON. A quarter of a row fits a register.
#[derive(Clone, Copy)]
pub(super) struct Neon;

impl Neon {
    /// Runs `kernel`. The target has NEON, so nothing has to be enabled.
    #[inline]
    pub(super) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

impl SimdOps for Neon {
    type LatencyLane = u64;
    type ThroughputLane = Double;

    #[inline(always)]
    fn mix_row(self, mix: &mut CacheRow, row: &[u32; ROW_WORDS]) {
        for part in (0..ROW_WORDS).step_by(REGISTER_WORDS) {
            // SAFETY: the target has NEON. `part` and the three words after it lie within both
            // rows, and the loads and stores need the alignment of words only.
            unsafe {
                let mix = mix.0.as_mut_ptr().add(part);
                let product = vmulq_n_u32(vld1q_u32(mix), FNV_PRIME);
                vst1q_u32(mix, veorq_u32(product, vld1q_u32(row.as_ptr().add(part))));
            }
        }
    }
}

/// One lane of two states.
#[derive(Clone, Copy)]
pub(super) struct Double(uint64x2_t);

impl NewLane<Neon> for Double {
    #[inline(always)]
    fn splat(_simd: Neon, value: u64) -> Self {
        // SAFETY: the target has NEON.
        Self(unsafe { vdupq_n_u64(value) })
    }
    #[inline(always)]
    fn load(_simd: Neon, from: &[u64; BATCH_STATES], at: usize) -> Self {
        assert!(at + 2 <= BATCH_STATES, "within the batch");
        // SAFETY: the target has NEON, and both words lie within `from`, as just checked.
        Self(unsafe { vld1q_u64(from.as_ptr().add(at)) })
    }
}

impl Lane for Double {
    const WIDTH: usize = 2;
    #[inline(always)]
    fn filled(self, value: u64) -> Self {
        // SAFETY: the target has NEON.
        Self(unsafe { vdupq_n_u64(value) })
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; BATCH_STATES], at: usize) {
        assert!(at + 2 <= BATCH_STATES, "within the batch");
        // SAFETY: the target has NEON, and both words lie within `to`, as just checked.
        unsafe { vst1q_u64(to.as_mut_ptr().add(at), self.0) }
    }
    #[inline(always)]
    fn first(self) -> u64 {
        // SAFETY: the target has NEON.
        unsafe { vgetq_lane_u64::<0>(self.0) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the target has NEON.
        Self(unsafe { veorq_u64(self.0, other.0) })
    }
    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        // SAFETY: the target has NEON. `vbicq` clears in its first operand the bits of the second.
        Self(unsafe { veorq_u64(self.0, vbicq_u64(c.0, b.0)) })
    }
    #[inline(always)]
    fn rotate_left<const BITS: u32>(self) -> Self {
        // SAFETY: the target has NEON. A shift by a register goes left by positive counts and right
        // by negative ones; 64 in either direction gives 0.
        unsafe {
            let left = vshlq_u64(self.0, vdupq_n_s64(BITS as i64));
            let right = vshlq_u64(self.0, vdupq_n_s64(BITS as i64 - 64));
            Self(vorrq_u64(left, right))
        }
    }
}
