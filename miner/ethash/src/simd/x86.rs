//! AVX2 and AVX-512: the mixing step, and Keccak on two, four or eight states at once.
//!
//! The reason why the unsafe code here is sound: a value of [`Avx2`] or [`Avx512`] comes from
//! `detect` only, which has found the instructions on this processor. Every operation takes such a
//! value, or a vector register ([`Quad`], [`Pair`], [`Octet`]), which cannot be made without one.
//! The fields of all these types are private to this file.

use core::arch::x86_64::*;
use std::sync::LazyLock;

use super::kernel::{SimdKernel, SimdOps};
use crate::cache_row::CacheRow;
use crate::keccak::{BATCH_STATES, Lane, NewLane};
use crate::{FNV_PRIME, ROW_WORDS};

/// Operations of AVX2, BMI1 and BMI2. Half a row fits a register.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// The operations, if the processor has the instructions.
    pub(super) fn detect() -> Option<Self> {
        static FOUND: LazyLock<Option<Avx2>> = LazyLock::new(|| {
            let found = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            found.then_some(Avx2(()))
        });
        *FOUND
    }

    /// Runs `kernel`, compiled for AVX2, BMI1 and BMI2.
    #[inline]
    pub(super) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn run<K: SimdKernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` is the proof that the processor has these features.
        unsafe { run(self, kernel) }
    }
}

impl SimdOps for Avx2 {
    type LatencyLane = u64;
    type ThroughputLane = Quad;

    #[inline(always)]
    fn mix_row(self, mix: &mut CacheRow, row: &[u32; ROW_WORDS]) {
        let mix: *mut __m256i = mix.0.as_mut_ptr().cast();
        let row: *const __m256i = row.as_ptr().cast();
        // SAFETY: `self` is the proof of AVX2. `mix` points to a `CacheRow` of 64
        // bytes, aligned to 64, so both halves can be loaded and stored aligned. `row` points to 64
        // readable bytes, which are loaded without alignment.
        unsafe {
            let prime = _mm256_set1_epi32(FNV_PRIME as i32);
            for half in 0..2 {
                let product = _mm256_mullo_epi32(_mm256_load_si256(mix.add(half)), prime);
                let mixed = _mm256_xor_si256(product, _mm256_loadu_si256(row.add(half)));
                _mm256_store_si256(mix.add(half), mixed);
            }
        }
    }
}

/// Operations of AVX-512 F, BW, DQ and VL, and of [`Avx2`]. A row fits a register.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// The operations, if the processor has the instructions.
    pub(super) fn detect() -> Option<Self> {
        static FOUND: LazyLock<Option<Avx512>> = LazyLock::new(|| {
            let found = Avx2::detect().is_some()
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            found.then_some(Avx512(()))
        });
        *FOUND
    }

    /// Runs `kernel`, compiled for AVX-512 F, BW, DQ and VL.
    #[inline]
    pub(super) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
        fn run<K: SimdKernel>(simd: Avx512, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` is the proof that the processor has these features.
        unsafe { run(self, kernel) }
    }
}

impl SimdOps for Avx512 {
    // Even one state alone is permuted faster in vector registers than in ordinary ones: a rotation
    // and a three-operand operation take one instruction each, and all 25 lanes fit the 32
    // registers.
    type LatencyLane = Pair;
    type ThroughputLane = Octet;

    #[inline(always)]
    fn mix_row(self, mix: &mut CacheRow, row: &[u32; ROW_WORDS]) {
        let mix: *mut __m512i = mix.0.as_mut_ptr().cast();
        // SAFETY: `self` is the proof of AVX-512. `mix` points to a `CacheRow` of
        // 64 bytes, aligned to 64, so it can be loaded and stored aligned. `row` points to 64
        // readable bytes, which are loaded without alignment.
        unsafe {
            let product = _mm512_mullo_epi32(_mm512_load_si512(mix), _mm512_set1_epi32(FNV_PRIME as i32));
            let mixed = _mm512_xor_si512(product, _mm512_loadu_si512(row.as_ptr().cast()));
            _mm512_store_si512(mix, mixed);
        }
    }
}

/// Loads `from[at..at + WIDTH]` as a register. Panics if that range is out of bounds.
///
/// # Safety
/// Every bit pattern must be a valid `R`.
#[inline(always)]
unsafe fn load_register<R: Copy, const WIDTH: usize>(from: &[u64; BATCH_STATES], at: usize) -> R {
    const { assert!(size_of::<R>() == WIDTH * 8, "the register holds WIDTH words") };
    assert!(at + WIDTH <= BATCH_STATES, "within the batch");
    // SAFETY: the range lies within `from`, as just checked, `R` has the size of the range, and the
    // read needs no alignment. The caller guarantees that the bits are a valid `R`.
    unsafe { from.as_ptr().add(at).cast::<R>().read_unaligned() }
}

/// Stores `register` to `to[at..at + WIDTH]`. Panics if that range is out of bounds.
///
/// # Safety
/// `R` must have no padding, so that all its bytes are initialized.
#[inline(always)]
unsafe fn store_register<R: Copy, const WIDTH: usize>(register: R, to: &mut [u64; BATCH_STATES], at: usize) {
    const { assert!(size_of::<R>() == WIDTH * 8, "the register holds WIDTH words") };
    assert!(at + WIDTH <= BATCH_STATES, "within the batch");
    // SAFETY: the range lies within `to`, as just checked, `R` has the size of the range, and the
    // write needs no alignment. The caller guarantees that all bytes of `R` are initialized.
    unsafe { to.as_mut_ptr().add(at).cast::<R>().write_unaligned(register) }
}

/// One lane of four states.
#[derive(Clone, Copy)]
pub(super) struct Quad(__m256i);

impl NewLane<Avx2> for Quad {
    #[inline(always)]
    fn splat(_simd: Avx2, value: u64) -> Self {
        // SAFETY: the caller has the proof of AVX2.
        Self(unsafe { _mm256_set1_epi64x(value as i64) })
    }
    #[inline(always)]
    fn load(_simd: Avx2, from: &[u64; BATCH_STATES], at: usize) -> Self {
        // SAFETY: `__m256i` is four words, and every bit pattern is valid.
        Self(unsafe { load_register::<_, 4>(from, at) })
    }
}

impl Lane for Quad {
    const WIDTH: usize = 4;
    #[inline(always)]
    fn filled(self, value: u64) -> Self {
        // SAFETY: `self` exists, so the processor has AVX2.
        Self(unsafe { _mm256_set1_epi64x(value as i64) })
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; BATCH_STATES], at: usize) {
        // SAFETY: `__m256i` has no padding.
        unsafe { store_register::<_, 4>(self.0, to, at) }
    }
    #[inline(always)]
    fn first(self) -> u64 {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { _mm256_extract_epi64::<0>(self.0) as u64 }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: `self` exists, so the processor has AVX2.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        // SAFETY: `self` exists, so the processor has AVX2.
        Self(unsafe { _mm256_xor_si256(self.0, _mm256_andnot_si256(b.0, c.0)) })
    }
    #[inline(always)]
    fn rotate_left<const BITS: u32>(self) -> Self {
        // SAFETY: `self` exists, so the processor has AVX2. Shift counts of 64 or more give 0.
        unsafe {
            let left = _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(BITS as i32));
            let right = _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(64 - BITS as i32));
            Self(_mm256_or_si256(left, right))
        }
    }
}

/// Defines a lane type of AVX-512 for `$width` states, with rotations and three-operand logic.
macro_rules! avx512_lane {
    ($(#[$doc:meta])* $name:ident, $register:ty, $width:literal, $splat:ident, $low_half:ident, $xor:ident, $ternary:ident, $rotate:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name($register);

        impl NewLane<Avx512> for $name {
            #[inline(always)]
            fn splat(_simd: Avx512, value: u64) -> Self {
                // SAFETY: the caller has the proof of AVX-512.
                Self(unsafe { $splat(value as i64) })
            }
            #[inline(always)]
            fn load(_simd: Avx512, from: &[u64; BATCH_STATES], at: usize) -> Self {
                // SAFETY: every bit pattern of a vector register is valid.
                Self(unsafe { load_register::<_, $width>(from, at) })
            }
        }

        impl Lane for $name {
            const WIDTH: usize = $width;
            #[inline(always)]
            fn filled(self, value: u64) -> Self {
                // SAFETY: `self` exists, so the processor has AVX-512.
                Self(unsafe { $splat(value as i64) })
            }
            #[inline(always)]
            fn store(self, to: &mut [u64; BATCH_STATES], at: usize) {
                // SAFETY: a vector register has no padding.
                unsafe { store_register::<_, $width>(self.0, to, at) }
            }
            #[inline(always)]
            fn first(self) -> u64 {
                // SAFETY: `self` exists, so the processor has AVX-512.
                unsafe { _mm_cvtsi128_si64($low_half(self.0)) as u64 }
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: `self` exists, so the processor has AVX-512.
                Self(unsafe { $xor(self.0, other.0) })
            }
            #[inline(always)]
            fn chi(self, b: Self, c: Self) -> Self {
                // 0xd2 is the truth table of a ^ (!b & c).
                // SAFETY: `self` exists, so the processor has AVX-512.
                Self(unsafe { $ternary::<0xd2>(self.0, b.0, c.0) })
            }
            #[inline(always)]
            fn rotate_left<const BITS: u32>(self) -> Self {
                // SAFETY: `self` exists, so the processor has AVX-512.
                Self(unsafe { $rotate(self.0, $splat(i64::from(BITS))) })
            }
            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                // 0x96 is the truth table of a ^ b ^ c.
                // SAFETY: `self` exists, so the processor has AVX-512.
                Self(unsafe { $ternary::<0x96>(self.0, b.0, c.0) })
            }
        }
    };
}

/// The low 128 bits of a 128-bit register: all of it.
#[inline(always)]
const fn whole_register(register: __m128i) -> __m128i {
    register
}

avx512_lane! {
    /// One lane of two states.
    Pair, __m128i, 2, _mm_set1_epi64x, whole_register, _mm_xor_si128, _mm_ternarylogic_epi64, _mm_rolv_epi64
}
avx512_lane! {
    /// One lane of eight states.
    Octet, __m512i, 8, _mm512_set1_epi64, _mm512_castsi512_si128, _mm512_xor_si512, _mm512_ternarylogic_epi64, _mm512_rolv_epi64
}
