//! Chooses at run time for which instruction set the hot loops run.
//!
//! A hot loop implements [`SimdKernel`]. Its `run` is inlined into one function per instruction
//! set, so the loop is written once and compiled several times. Beside the wider vectors that the
//! compiler uses, each set has its own [`SimdOps`]: the mixing step and the registers for Keccak
//! states. A value of these operations exists only where the processor has the instructions, and
//! nothing of a set can be done without that value.
//!
//! Does not know what the loops compute. The code for x86-64 is in `simd/x86.rs`, that
//! for AArch64 in `simd/neon.rs`, the choice by time in `simd/choice.rs`.

mod choice;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicU8, Ordering};

pub(crate) use choice::choose_once;
pub(crate) use kernel::{SimdKernel, SimdOps};
pub(crate) use scalar::Scalar;

/// An instruction set that the hot loops can use. Of the sets of one architecture, a greater one
/// includes the lesser ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// The instructions that every processor of the target has.
    Baseline = 1,
    /// AVX2, BMI1 and BMI2: 256-bit vectors and bit operations.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL: 512-bit vectors, vector rotations and three-operand logic.
    Avx512 = 3,
    /// NEON of AArch64: 128-bit vectors. Every such processor has them.
    Neon = 4,
}

/// The set in use, as its number in [`InstructionSet`]. 0 until it is chosen by time or by a call
/// of `limit`.
static IN_USE: AtomicU8 = AtomicU8::new(0);

impl InstructionSet {
    /// All sets of all architectures, from the least to the greatest.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::Avx2, Self::Avx512, Self::Neon];

    /// The greatest set that this processor supports.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::Avx512::detect().is_some() {
                return Self::Avx512;
            }
            if x86::Avx2::detect().is_some() {
                return Self::Avx2;
            }
        }
        if cfg!(target_arch = "aarch64") {
            return Self::Neon;
        }
        Self::Baseline
    }

    /// Whether this processor supports the set.
    pub fn runs_here(self) -> bool {
        let best = Self::detect();
        match self {
            Self::Baseline => true,
            Self::Neon => best == Self::Neon,
            Self::Avx2 | Self::Avx512 => best != Self::Neon && self <= best,
        }
    }

    /// The set in use: the one that [`limit`](Self::limit) has set, or the quickest of this
    /// processor. The first light cache shows which one that is. Before, the greatest is in use.
    #[inline]
    pub fn in_use() -> Self {
        #[cfg(test)]
        if let Some(set) = tests::OF_THREAD.get() {
            return set;
        }
        match IN_USE.load(Ordering::Relaxed) {
            1 => Self::Baseline,
            2 => Self::Avx2,
            3 => Self::Avx512,
            4 => Self::Neon,
            _ => Self::detect(),
        }
    }

    /// Makes the whole process use at most this set from now on, and returns the set in use.
    ///
    /// The result is this set, or the greatest one of the processor if it does not support this
    /// set. For comparisons.
    pub fn limit(self) -> Self {
        let set = if self.runs_here() { self } else { Self::detect() };
        IN_USE.store(set as u8, Ordering::Relaxed);
        set
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        })
    }
}

/// A text that is not the name of an instruction set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction set: got {got:?}, expected baseline, avx2, avx512 or neon")]
pub struct InstructionSetError {
    /// The text.
    pub got: String,
}

impl FromStr for InstructionSet {
    type Err = InstructionSetError;

    fn from_str(text: &str) -> Result<Self, InstructionSetError> {
        let mut all = Self::ALL.into_iter();
        all.find(|set| set.to_string() == text)
            .ok_or_else(|| InstructionSetError { got: text.to_owned() })
    }
}

/// Runs `kernel` on the instruction set in use.
#[inline]
pub(crate) fn dispatch<K: SimdKernel>(kernel: K) -> K::Output {
    dispatch_on(InstructionSet::in_use(), kernel)
}

/// Runs `kernel` on `set`, or on the instructions that every processor has if this one lacks it.
#[inline]
pub(crate) fn dispatch_on<K: SimdKernel>(set: InstructionSet, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match set {
        InstructionSet::Avx512 => {
            if let Some(simd) = x86::Avx512::detect() {
                return simd.run(kernel);
            }
        }
        InstructionSet::Avx2 => {
            if let Some(simd) = x86::Avx2::detect() {
                return simd.run(kernel);
            }
        }
        InstructionSet::Baseline | InstructionSet::Neon => (),
    }
    #[cfg(target_arch = "aarch64")]
    if set == InstructionSet::Neon {
        return neon::Neon.run(kernel);
    }
    kernel.run(Scalar)
}

/// Runs `check` with each instruction set of this processor in use by this thread. So a test calls
/// what programs call, and no kernel is compiled for it.
#[cfg(test)]
pub(crate) fn on_each_instruction_set(check: impl Fn(InstructionSet)) {
    for set in InstructionSet::ALL.into_iter().filter(|set| set.runs_here()) {
        tests::OF_THREAD.set(Some(set));
        check(set);
    }
    tests::OF_THREAD.set(None);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::arith::fnv;
    use crate::cache_row::CacheRow;
    use crate::keccak::{bytes_of, keccak512};

    thread_local! {
        /// The set that this thread uses, if it is not that of the process.
        pub(super) static OF_THREAD: Cell<Option<InstructionSet>> = const { Cell::new(None) };
    }

    struct HashRows<const N: usize>([CacheRow; N]);

    impl<const N: usize> SimdKernel for HashRows<N> {
        type Output = [CacheRow; N];
        #[inline(always)]
        fn run<S: SimdOps>(mut self, simd: S) -> [CacheRow; N] {
            simd.keccak512_rows(&mut self.0);
            self.0
        }
    }

    fn row(seed: u32) -> CacheRow {
        CacheRow(core::array::from_fn(|i| {
            (i as u32 + seed * 7919 + 1).wrapping_mul(0x9e37_79b9)
        }))
    }

    #[test]
    fn many_rows_hash_like_one() {
        fn check<const N: usize>() {
            let rows: [CacheRow; N] = core::array::from_fn(|j| row(j as u32));
            let expected = rows.map(|row| keccak512(&bytes_of::<8, 64>(row.lanes())));
            on_each_instruction_set(|set| {
                let got = dispatch(HashRows(rows));
                assert_eq!(got.map(|row| bytes_of::<8, 64>(row.lanes())), expected, "{set}");
            });
        }
        check::<1>();
        check::<7>();
        check::<19>();
    }

    struct MixRow(CacheRow, CacheRow);

    impl SimdKernel for MixRow {
        type Output = CacheRow;
        #[inline(always)]
        fn run<S: SimdOps>(mut self, simd: S) -> CacheRow {
            simd.mix_row(&mut self.0, &self.1.0);
            self.0
        }
    }

    #[test]
    fn rows_mix_word_by_word() {
        let expected = CacheRow(core::array::from_fn(|i| fnv(row(1).0[i], row(77).0[i])));
        on_each_instruction_set(|set| assert_eq!(dispatch(MixRow(row(1), row(77))), expected, "{set}"));
    }

    #[test]
    fn a_set_in_use_is_one_the_processor_has() {
        let best = InstructionSet::detect();
        for set in InstructionSet::ALL {
            assert_eq!(set.to_string().parse(), Ok(set));
            let limited = set.limit();
            assert_eq!(limited, if set.runs_here() { set } else { best });
            choose_once(|_| panic!("the set of a call of `limit` stays"));
            assert_eq!(InstructionSet::in_use(), limited);
        }
        assert!(InstructionSet::Baseline.runs_here() && best.runs_here());
        assert!(!(InstructionSet::Neon.runs_here() && InstructionSet::Avx2.runs_here()));
        assert_eq!(best.limit(), best);
        let error = "sse9".parse::<InstructionSet>().expect_err("no such set");
        assert!(error.to_string().contains("sse9"), "{error}");
    }
}
