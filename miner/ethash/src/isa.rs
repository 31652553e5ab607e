//! Chooses, at run time, for which instruction set a hot loop is compiled.
//!
//! A loop is a [`Kernel`] whose `run` is inlined into one function per instruction set, so it is written
//! once. Besides wider vectors for the mixing step, an [`Isa`] brings its own way to put several rows through
//! Keccak-512. Knows nothing of what the loops compute.

use crate::arith::fnv;
use crate::keccak::{Lane, keccak512_64, permute};
use crate::kernels::Row;
use crate::{FNV_PRIME, ROW_WORDS};

/// A loop to be compiled once per instruction set.
pub(crate) trait Kernel {
    type Output;
    /// Must be `#[inline(always)]`, and so must all it calls that is hot, or that is compiled for the baseline
    /// only. Closures cannot be marked so: such loops have none, nor `map` or `from_fn` of arrays.
    fn run<I: Isa>(self) -> Self::Output;
}

/// What differs between instruction sets beyond what the compiler does by itself.
pub(crate) trait Isa {
    /// Replaces each row by its Keccak-512.
    fn keccak512_rows<const N: usize>(rows: &mut [Row; N]);
    /// Whether [`Isa::permute_eight`] costs much less than eight permutations.
    const WIDE: bool = false;
    /// Permutes eight states of Keccak; lane `i` of state `j` is `states[i][j]`.
    #[inline(always)]
    fn permute_eight(states: &mut [[u64; 8]; 25]) {
        for j in 0..8 {
            let mut state = [0; 25];
            for (lane, lanes) in state.iter_mut().zip(&*states) {
                *lane = lanes[j];
            }
            permute(&mut state);
            for (lane, lanes) in state.iter().zip(&mut *states) {
                lanes[j] = *lane;
            }
        }
    }
    /// Mixes the words of `row` into `mix`, one by one.
    ///
    /// The compiler would vectorize the loop too, but it has been seen to load what it has just stored
    /// across the ends of two stores, which costs more than the rest of the step.
    fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]);
}

/// Runs `kernel` on the best instruction set this processor has.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx512() {
            // SAFETY: the processor has just been asked.
            return unsafe { x86::run_avx512(kernel) };
        }
        if x86::has_avx2() {
            // SAFETY: the processor has just been asked.
            return unsafe { x86::run_avx2(kernel) };
        }
    }
    kernel.run::<Scalar>()
}

/// One state at a time, in ordinary registers.
pub(crate) struct Scalar;

impl Isa for Scalar {
    #[inline(always)]
    fn keccak512_rows<const N: usize>(rows: &mut [Row; N]) {
        for row in rows {
            *row = Row::from_lanes(&keccak512_64(&row.lanes()));
        }
    }

    #[inline(always)]
    fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]) {
        for (word, other) in mix.0.iter_mut().zip(row) {
            *word = fnv(*word, *other);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use core::arch::x86_64::*;

    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
    }

    pub(super) fn has_avx512() -> bool {
        has_avx2()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Avx2>()
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Avx512>()
    }

    /// One state at a time, half a row in a register. Used only inside [`run_avx2`].
    struct Avx2;

    impl Isa for Avx2 {
        #[inline(always)]
        fn keccak512_rows<const N: usize>(rows: &mut [Row; N]) {
            Scalar::keccak512_rows(rows);
        }

        #[inline(always)]
        fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]) {
            let mix: *mut __m256i = mix.0.as_mut_ptr().cast();
            let row: *const __m256i = row.as_ptr().cast();
            // SAFETY: `mix` is two aligned halves of 32 bytes, `row` is as long, and this is code reached through `run_avx2`.
            unsafe {
                let prime = _mm256_set1_epi32(FNV_PRIME as i32);
                for half in 0..2 {
                    let product = _mm256_mullo_epi32(_mm256_load_si256(mix.add(half)), prime);
                    _mm256_store_si256(
                        mix.add(half),
                        _mm256_xor_si256(product, _mm256_loadu_si256(row.add(half))),
                    );
                }
            }
        }
    }

    /// Eight states side by side in 512-bit registers. Used only inside [`run_avx512`].
    struct Avx512;

    impl Isa for Avx512 {
        #[inline(always)]
        fn keccak512_rows<const N: usize>(rows: &mut [Row; N]) {
            let (eights, rest) = rows.as_chunks_mut::<8>();
            for eight in eights {
                // Lane i of all eight rows, then the sponge, then back.
                let mut columns = [[0; 8]; 8];
                for (j, row) in eight.iter().enumerate() {
                    for (column, lane) in columns.iter_mut().zip(row.lanes()) {
                        column[j] = lane;
                    }
                }
                let mut words = [Octet::splat(0); 8];
                for (word, column) in words.iter_mut().zip(columns) {
                    *word = Octet::from_array(column);
                }
                for (column, word) in columns.iter_mut().zip(keccak512_64(&words)) {
                    *column = word.into_array();
                }
                for (j, row) in eight.iter_mut().enumerate() {
                    let mut lanes = [0; 8];
                    for (lane, column) in lanes.iter_mut().zip(&columns) {
                        *lane = column[j];
                    }
                    *row = Row::from_lanes(&lanes);
                }
            }
            for row in rest {
                *row = Row::from_lanes(&keccak512_64(&row.lanes()));
            }
        }

        const WIDE: bool = true;

        #[inline(always)]
        fn permute_eight(states: &mut [[u64; 8]; 25]) {
            let mut octets = [Octet::splat(0); 25];
            for (octet, lanes) in octets.iter_mut().zip(&*states) {
                *octet = Octet::from_array(*lanes);
            }
            permute(&mut octets);
            for (octet, lanes) in octets.iter().zip(states) {
                *lanes = octet.into_array();
            }
        }

        #[inline(always)]
        fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]) {
            let mix: *mut __m512i = mix.0.as_mut_ptr().cast();
            // SAFETY: `mix` is 64 aligned bytes, `row` is as long, and this is code reached through `run_avx512`.
            unsafe {
                let product = _mm512_mullo_epi32(_mm512_load_si512(mix), _mm512_set1_epi32(FNV_PRIME as i32));
                _mm512_store_si512(
                    mix,
                    _mm512_xor_si512(product, _mm512_loadu_si512(row.as_ptr().cast())),
                );
            }
        }
    }

    /// The same lane of eight states.
    #[derive(Clone, Copy)]
    struct Octet(__m512i);

    impl Octet {
        #[inline(always)]
        fn from_array(lanes: [u64; 8]) -> Self {
            // SAFETY: both are 64 bytes without invalid values; no instruction is chosen by this.
            Self(unsafe { core::mem::transmute::<[u64; 8], __m512i>(lanes) })
        }

        #[inline(always)]
        fn into_array(self) -> [u64; 8] {
            // SAFETY: as above.
            unsafe { core::mem::transmute::<__m512i, [u64; 8]>(self.0) }
        }
    }

    // SAFETY of every block below: an `Octet` exists only in code reached through `run_avx512`.
    impl Lane for Octet {
        #[inline(always)]
        fn splat(value: u64) -> Self {
            Self(unsafe { _mm512_set1_epi64(value as i64) })
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            Self(unsafe { _mm512_xor_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn chi(self, b: Self, c: Self) -> Self {
            // Truth table of a ^ (!b & c).
            Self(unsafe { _mm512_ternarylogic_epi64::<0xd2>(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn rotate<const LEFT: u32>(self) -> Self {
            Self(unsafe { _mm512_rolv_epi64(self.0, _mm512_set1_epi64(i64::from(LEFT))) })
        }
        #[inline(always)]
        fn xor5(self, b: Self, c: Self, d: Self, e: Self) -> Self {
            // Truth table of a ^ b ^ c.
            unsafe {
                let three = _mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0);
                Self(_mm512_ternarylogic_epi64::<0x96>(three, d.0, e.0))
            }
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

    #[test]
    fn many_rows_hash_like_one() {
        fn check<const N: usize>() {
            let rows: [Row; N] = core::array::from_fn(|j| {
                Row(core::array::from_fn(|i| {
                    (j * 7919 + i * 104_729 + 1) as u32 * 0x9e37
                }))
            });
            let expected = rows.map(|row| keccak512(&bytes_of::<8, 64>(row.lanes())));
            assert_eq!(
                dispatch(HashRows(rows)).map(|row| bytes_of::<8, 64>(row.lanes())),
                expected
            );
            assert_eq!(
                HashRows(rows)
                    .run::<Scalar>()
                    .map(|row| bytes_of::<8, 64>(row.lanes())),
                expected
            );
        }
        check::<1>();
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
        let row = |seed: u32| {
            Row(core::array::from_fn(|i| {
                (i as u32 + seed).wrapping_mul(0x9e37_79b9)
            }))
        };
        let expected = Row(core::array::from_fn(|i| fnv(row(1).0[i], row(77).0[i])));
        assert_eq!(dispatch(Mix(row(1), row(77))), expected);
        assert_eq!(Mix(row(1), row(77)).run::<Scalar>(), expected);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn narrower_instruction_sets_agree() {
        if !x86::has_avx2() {
            eprintln!("skipped: no AVX2");
            return;
        }
        let row = |seed: u32| {
            Row(core::array::from_fn(|i| {
                (i as u32 + seed).wrapping_mul(0x9e37_79b9)
            }))
        };
        // SAFETY: the processor has just been asked.
        let mixed = unsafe { x86::run_avx2(Mix(row(5), row(9))) };
        assert_eq!(mixed, Mix(row(5), row(9)).run::<Scalar>());
        let rows = [row(1), row(2), row(3)];
        // SAFETY: as above.
        assert_eq!(
            unsafe { x86::run_avx2(HashRows(rows)) },
            HashRows(rows).run::<Scalar>()
        );
    }
}
