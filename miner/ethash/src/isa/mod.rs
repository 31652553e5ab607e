//! Chooses, at run time, for which instruction set a hot loop is compiled.
//!
//! A loop is a [`Kernel`] whose `run` is inlined into one function per instruction set, so it is
//! written once. Besides wider vectors for the mixing step, an [`Isa`] brings the registers that
//! states of Keccak lie in. Knows nothing of what the loops compute. The sets of x86 are in
//! `isa/x86.rs`.

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::ROW_WORDS;
use crate::arith::fnv;
use crate::keccak::{Lane, PAD_END, RATE_512, SIDE_BY_SIDE, States, permute_states};
use crate::kernels::Row;

#[cfg(target_arch = "x86_64")]
mod x86;

/// What the hot loops may use of the processor; a greater one includes the lesser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// What every processor of its kind has.
    Baseline = 1,
    /// 256-bit vectors and the bit operations that came with them.
    Avx2 = 2,
    /// 512-bit vectors, rotations and three-way logic.
    Avx512 = 3,
}

/// The set in use; 0 until it is first asked for.
static IN_USE: AtomicU8 = AtomicU8::new(0);

impl InstructionSet {
    /// All sets, the least first.
    pub const ALL: [Self; 3] = [Self::Baseline, Self::Avx2, Self::Avx512];

    /// The best set of this processor.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx512() {
                return Self::Avx512;
            }
            if x86::has_avx2() {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// The set in use: the processor's best, unless [`limit`](Self::limit) said less.
    #[inline]
    pub fn in_use() -> Self {
        match IN_USE.load(Ordering::Relaxed) {
            1 => Self::Baseline,
            2 => Self::Avx2,
            3 => Self::Avx512,
            _ => Self::Avx512.limit(),
        }
    }

    /// From now on uses this set, or the processor's best where that is less, in the whole process,
    /// and says which. For comparisons, and for processors that slow down under wide vectors.
    pub fn limit(self) -> Self {
        let set = self.min(Self::detect());
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
        })
    }
}

/// A name that is no instruction set's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction set {got:?}, expected baseline, avx2 or avx512")]
pub struct InstructionSetError {
    /// The name.
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

/// A loop to be compiled once per instruction set.
pub(crate) trait Kernel {
    type Output;
    /// Must be `#[inline(always)]`, and so must all it calls that is hot, or that is compiled for
    /// the baseline only. Closures cannot be marked so: such loops have none, nor `map` or
    /// `from_fn` of arrays.
    fn run<I: Isa>(self) -> Self::Output;
}

/// What differs between instruction sets beyond what the compiler does by itself.
pub(crate) trait Isa {
    /// Where one state of Keccak, or two, are permuted soonest.
    type Few: Lane;
    /// Where most states are permuted in the same time.
    type Many: Lane;
    /// Mixes the words of `row` into `mix`, one by one.
    ///
    /// The compiler would vectorize the loop too, but it has been seen to load what it has just
    /// stored across the ends of two stores, which costs more than the rest of the step.
    fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]);

    /// Permutes the first `count` states, and perhaps some that follow.
    #[inline(always)]
    fn permute(states: &mut States, count: usize) {
        if count <= Self::Few::WIDTH {
            permute_states::<Self::Few>(states, count);
        } else {
            permute_states::<Self::Many>(states, count);
        }
    }

    /// Replaces each row by its Keccak-512.
    #[inline(always)]
    fn keccak512_rows(rows: &mut [Row]) {
        for rows in rows.chunks_mut(SIDE_BY_SIDE) {
            let mut states = [[0; SIDE_BY_SIDE]; 25];
            for (j, row) in rows.iter().enumerate() {
                for (lanes, lane) in states.iter_mut().zip(row.lanes()) {
                    lanes[j] = lane;
                }
            }
            // The message ends one lane before the rate does, so both ends of the padding share
            // that lane.
            states[RATE_512 - 1] = [1 | PAD_END; SIDE_BY_SIDE];
            Self::permute(&mut states, rows.len());
            for (j, row) in rows.iter_mut().enumerate() {
                let mut lanes = [0; 8];
                for (lane, lanes) in lanes.iter_mut().zip(&states) {
                    *lane = lanes[j];
                }
                *row = Row::from_lanes(&lanes);
            }
        }
    }
}

/// Runs `kernel` on the instruction set in use.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match InstructionSet::in_use() {
        // SAFETY: a set in use is never above what the processor was found to have.
        InstructionSet::Avx512 => return unsafe { x86::run_avx512(kernel) },
        // SAFETY: as above.
        InstructionSet::Avx2 => return unsafe { x86::run_avx2(kernel) },
        InstructionSet::Baseline => (),
    }
    kernel.run::<Scalar>()
}

/// One state at a time, in ordinary registers.
pub(crate) struct Scalar;

impl Isa for Scalar {
    type Few = u64;
    type Many = u64;

    #[inline(always)]
    fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]) {
        for (word, other) in mix.0.iter_mut().zip(row) {
            *word = fnv(*word, *other);
        }
    }
}

/// Runs `check` once for each instruction set this processor has, told by name.
#[cfg(test)]
pub(crate) fn on_every_set<K: Kernel>(kernel: impl Fn() -> K, check: impl Fn(K::Output, &str)) {
    check(kernel().run::<Scalar>(), "baseline");
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx2() {
            // SAFETY: the processor has just been asked.
            check(unsafe { x86::run_avx2(kernel()) }, "avx2");
        }
        if x86::has_avx512() {
            // SAFETY: the processor has just been asked.
            check(unsafe { x86::run_avx512(kernel()) }, "avx512");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keccak::{bytes_of, keccak512};

    struct HashRows<const N: usize>([Row; N]);

    impl<const N: usize> Kernel for HashRows<N> {
        type Output = [Row; N];
        #[inline(always)]
        fn run<I: Isa>(mut self) -> [Row; N] {
            I::keccak512_rows(&mut self.0);
            self.0
        }
    }

    fn row(seed: u32) -> Row {
        Row(core::array::from_fn(|i| {
            (i as u32 + seed * 7919 + 1).wrapping_mul(0x9e37_79b9)
        }))
    }

    #[test]
    fn many_rows_hash_like_one() {
        fn check<const N: usize>() {
            let rows: [Row; N] = core::array::from_fn(|j| row(j as u32));
            let expected = rows.map(|row| keccak512(&bytes_of::<8, 64>(row.lanes())));
            on_every_set(
                || HashRows(rows),
                |got, set| {
                    assert_eq!(got.map(|row| bytes_of::<8, 64>(row.lanes())), expected, "{set}");
                },
            );
        }
        check::<1>();
        check::<2>();
        check::<3>();
        check::<7>();
        check::<8>();
        check::<19>();
    }

    struct Mix(Row, Row);

    impl Kernel for Mix {
        type Output = Row;
        #[inline(always)]
        fn run<I: Isa>(mut self) -> Row {
            I::mix_row(&mut self.0, &self.1.0);
            self.0
        }
    }

    #[test]
    fn rows_mix_word_by_word() {
        let expected = Row(core::array::from_fn(|i| fnv(row(1).0[i], row(77).0[i])));
        on_every_set(
            || Mix(row(1), row(77)),
            |got, set| assert_eq!(got, expected, "{set}"),
        );
    }

    #[test]
    fn a_set_in_use_is_one_the_processor_has() {
        let best = InstructionSet::detect();
        for set in InstructionSet::ALL {
            assert_eq!(set.to_string().parse(), Ok(set));
            assert_eq!(set.limit(), set.min(best));
            assert!(InstructionSet::in_use() <= best);
        }
        assert_eq!(InstructionSet::Avx512.limit(), best);
        let error = "sse9".parse::<InstructionSet>().expect_err("no such set");
        assert!(error.to_string().contains("sse9"), "{error}");
    }
}
