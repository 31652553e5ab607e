//! AVX2 and AVX-512: the mixing step in their registers, and Keccak on two, four or eight states at
//! once.
//!
//! Everything here is reached only through [`run_avx2`] and [`run_avx512`], into which it is
//! inlined; who calls those has asked the processor.

use core::arch::x86_64::*;

use super::{Isa, Kernel};
use crate::keccak::{Lane, SIDE_BY_SIDE};
use crate::kernels::Row;
use crate::{FNV_PRIME, ROW_WORDS};

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
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

/// Half a row in a register. Used only inside [`run_avx2`].
struct Avx2;

impl Isa for Avx2 {
    type Few = u64;
    type Many = Quad;

    #[inline(always)]
    fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]) {
        let mix: *mut __m256i = mix.0.as_mut_ptr().cast();
        let row: *const __m256i = row.as_ptr().cast();
        // SAFETY: `mix` is two aligned halves of 32 bytes, `row` is as long, and this is code
        // reached through `run_avx2`.
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

/// A row in a register. Used only inside [`run_avx512`].
struct Avx512;

impl Isa for Avx512 {
    // A state alone is permuted sooner in a vector register too: rotations and three-way logic take
    // one instruction, and all 25 lanes find room in 32 registers.
    type Few = Pair;
    type Many = Octet;

    #[inline(always)]
    fn mix_row(mix: &mut Row, row: &[u32; ROW_WORDS]) {
        let mix: *mut __m512i = mix.0.as_mut_ptr().cast();
        // SAFETY: `mix` is 64 aligned bytes, `row` is as long, and this is code reached through
        // `run_avx512`.
        unsafe {
            let product = _mm512_mullo_epi32(_mm512_load_si512(mix), _mm512_set1_epi32(FNV_PRIME as i32));
            let mixed = _mm512_xor_si512(product, _mm512_loadu_si512(row.as_ptr().cast()));
            _mm512_store_si512(mix, mixed);
        }
    }
}

/// The `WIDTH` words of `from` at `at`, as a register.
///
/// # Safety
/// `at + WIDTH` must not pass the end, and `R` must be `WIDTH` words of any content.
#[inline(always)]
unsafe fn load_register<R: Copy, const WIDTH: usize>(from: &[u64; SIDE_BY_SIDE], at: usize) -> R {
    const { assert!(size_of::<R>() == WIDTH * 8, "as wide as the register") };
    assert!(at + WIDTH <= SIDE_BY_SIDE, "within the states");
    // SAFETY: within `from`, as just looked at; read without a claim to alignment.
    unsafe { from.as_ptr().add(at).cast::<R>().read_unaligned() }
}

/// The other way.
///
/// # Safety
/// As [`load_register`].
#[inline(always)]
unsafe fn store_register<R: Copy, const WIDTH: usize>(register: R, to: &mut [u64; SIDE_BY_SIDE], at: usize) {
    const { assert!(size_of::<R>() == WIDTH * 8, "as wide as the register") };
    assert!(at + WIDTH <= SIDE_BY_SIDE, "within the states");
    // SAFETY: within `to`, as just looked at; written without a claim to alignment.
    unsafe { to.as_mut_ptr().add(at).cast::<R>().write_unaligned(register) }
}

/// The same lane of four states.
#[derive(Clone, Copy)]
struct Quad(__m256i);

// SAFETY of every block below: a `Quad` exists only in code reached through `run_avx2`.
impl Lane for Quad {
    const WIDTH: usize = 4;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(unsafe { _mm256_set1_epi64x(value as i64) })
    }
    #[inline(always)]
    fn load(from: &[u64; SIDE_BY_SIDE], at: usize) -> Self {
        Self(unsafe { load_register::<_, 4>(from, at) })
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; SIDE_BY_SIDE], at: usize) {
        unsafe { store_register::<_, 4>(self.0, to, at) }
    }
    #[inline(always)]
    fn first(self) -> u64 {
        unsafe { _mm256_extract_epi64::<0>(self.0) as u64 }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        Self(unsafe { _mm256_xor_si256(self.0, _mm256_andnot_si256(b.0, c.0)) })
    }
    #[inline(always)]
    fn rotate<const LEFT: u32>(self) -> Self {
        unsafe {
            let left = _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(LEFT as i32));
            let right = _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(64 - LEFT as i32));
            Self(_mm256_or_si256(left, right))
        }
    }
}

/// A lane of several states in a register of `$width` words, with rotations and three-way logic.
macro_rules! lane_of_avx512 {
    ($(#[$doc:meta])* $name:ident, $register:ty, $width:literal, $splat:ident, $first:ident, $xor:ident, $ternary:ident, $rotate:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name($register);

        // SAFETY of every block below: such a lane exists only in code reached through
        // `run_avx512`.
        impl Lane for $name {
            const WIDTH: usize = $width;
            #[inline(always)]
            fn splat(value: u64) -> Self {
                Self(unsafe { $splat(value as i64) })
            }
            #[inline(always)]
            fn load(from: &[u64; SIDE_BY_SIDE], at: usize) -> Self {
                Self(unsafe { load_register::<_, $width>(from, at) })
            }
            #[inline(always)]
            fn store(self, to: &mut [u64; SIDE_BY_SIDE], at: usize) {
                unsafe { store_register::<_, $width>(self.0, to, at) }
            }
            #[inline(always)]
            fn first(self) -> u64 {
                unsafe { _mm_cvtsi128_si64($first(self.0)) as u64 }
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                Self(unsafe { $xor(self.0, other.0) })
            }
            #[inline(always)]
            fn chi(self, b: Self, c: Self) -> Self {
                // Truth table of a ^ (!b & c).
                Self(unsafe { $ternary::<0xd2>(self.0, b.0, c.0) })
            }
            #[inline(always)]
            fn rotate<const LEFT: u32>(self) -> Self {
                Self(unsafe { $rotate(self.0, $splat(i64::from(LEFT))) })
            }
            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                // Truth table of a ^ b ^ c.
                Self(unsafe { $ternary::<0x96>(self.0, b.0, c.0) })
            }
        }
    };
}

/// A register of two words is its own lower half.
#[inline(always)]
fn itself(register: __m128i) -> __m128i {
    register
}

lane_of_avx512! {
    /// The same lane of two states.
    Pair, __m128i, 2, _mm_set1_epi64x, itself, _mm_xor_si128, _mm_ternarylogic_epi64, _mm_rolv_epi64
}
lane_of_avx512! {
    /// The same lane of eight states.
    Octet, __m512i, 8, _mm512_set1_epi64, _mm512_castsi512_si128, _mm512_xor_si512, _mm512_ternarylogic_epi64, _mm512_rolv_epi64
}
