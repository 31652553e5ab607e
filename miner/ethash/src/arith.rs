//! The two small operations of every inner loop in this package: the FNV mixing step, and the
//! remainder by a divisor that is known only at run time. Also the prefetch hint.

use crate::FNV_PRIME;

/// Ethash's mixing step, `a * FNV_PRIME ^ b`. It multiplies before the exclusive or, unlike FNV-1a.
#[inline(always)]
pub(crate) const fn fnv(a: u32, b: u32) -> u32 {
    a.wrapping_mul(FNV_PRIME) ^ b
}

/// Computes remainders by a fixed divisor with two multiplications instead of a division.
///
/// The result is exact for every 32-bit dividend and divisor, because 64 fraction bits are enough
/// for 32-bit operands. Source: Lemire, Kaser, Kurz, "Faster remainder by direct computation", 2019
/// (<https://arxiv.org/abs/1902.01961>).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modulus {
    divisor: u32,
    inverse: u64,
}

impl Modulus {
    /// `divisor` must not be zero.
    pub(crate) const fn new(divisor: u32) -> Self {
        // For a divisor of 1 the inverse wraps to 0, so every remainder is 0, as it should be.
        Self {
            divisor,
            inverse: (u64::MAX / divisor as u64).wrapping_add(1),
        }
    }

    pub(crate) const fn divisor(self) -> u32 {
        self.divisor
    }

    /// `value` modulo the divisor.
    #[inline(always)]
    pub(crate) fn reduce(self, value: u32) -> u32 {
        let fraction = self.inverse.wrapping_mul(u64::from(value));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }
}

/// Asks the processor to load the cache line at `address`.
///
/// Does nothing on processors other than x86-64 and AArch64. `address` may be any address, even an
/// invalid one.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the prefetch instruction never faults and changes no memory, whatever the address.
    // Every x86-64 processor has it, as part of SSE.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the prefetch instruction never faults and changes neither memory nor registers,
    // whatever the address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modulus_equals_division() {
        let divisors = [
            1,
            2,
            3,
            16,
            17,
            255,
            262_139,
            8_388_593,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_fffb,
            u32::MAX,
        ];
        let mut value = 0x9e37_79b9_u32;
        for divisor in divisors {
            let modulus = Modulus::new(divisor);
            for edge in [
                0,
                1,
                divisor - 1,
                divisor,
                divisor.wrapping_add(1),
                u32::MAX - 1,
                u32::MAX,
            ] {
                assert_eq!(modulus.reduce(edge), edge % divisor, "{edge} mod {divisor}");
            }
            for _ in 0..20_000 {
                value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                assert_eq!(modulus.reduce(value), value % divisor, "{value} mod {divisor}");
            }
        }
    }

    #[test]
    fn fnv_multiplies_first() {
        assert_eq!(fnv(1, 0), 0x0100_0193);
        assert_eq!(fnv(2, 0xffff_ffff), !0x0200_0326);
    }
}
