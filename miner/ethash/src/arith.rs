//! The two small operations that every inner loop here is made of: the FNV mixing step and the
//! remainder by a number known only at run time. Also the prefetch hint, the only unsafe line of
//! these loops.

use crate::FNV_PRIME;

/// Ethash's mixing step. It multiplies before the exclusive or, unlike FNV-1a.
#[inline(always)]
pub(crate) fn fnv(a: u32, b: u32) -> u32 {
    a.wrapping_mul(FNV_PRIME) ^ b
}

/// Remainder by a fixed divisor with two multiplications instead of a division.
///
/// Exact for every 32-bit dividend and divisor (Lemire, Kaser, Kurz: "Faster remainder by direct
/// computation", 2019): 64 fraction bits are enough for 32-bit operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modulus {
    divisor: u32,
    inverse: u64,
}

impl Modulus {
    /// `divisor` must not be zero.
    pub(crate) const fn new(divisor: u32) -> Self {
        // For a divisor of 1 the inverse wraps to 0, and so does every remainder.
        Self {
            divisor,
            inverse: (u64::MAX / divisor as u64).wrapping_add(1),
        }
    }

    pub(crate) const fn divisor(self) -> u32 {
        self.divisor
    }

    #[inline(always)]
    pub(crate) fn of(self, value: u32) -> u32 {
        let fraction = self.inverse.wrapping_mul(u64::from(value));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }
}

/// Asks the processor to fetch the cache line at `place`; does nothing where there is no such hint.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast::<i8>());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults, whatever the address, and changes no register.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
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
                assert_eq!(modulus.of(edge), edge % divisor, "{edge} mod {divisor}");
            }
            for _ in 0..20_000 {
                value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                assert_eq!(modulus.of(value), value % divisor, "{value} mod {divisor}");
            }
        }
    }

    #[test]
    fn fnv_multiplies_first() {
        assert_eq!(fnv(1, 0), 0x0100_0193);
        assert_eq!(fnv(2, 0xffff_ffff), !0x0200_0326);
    }
}
