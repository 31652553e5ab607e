//! EthereumStratum/1.0.0's difficulty, a floating-point number, to and from boundaries.
//!
//! Difficulty 1 is Bitcoin's: `00000000ffff0000…`, some 2^32 hashes. The arithmetic is exact: a
//! number's mantissa and exponent are used as they are, so that both sides get the same 256 bits.

use ethash::{B256, U256};

/// Why a number is no difficulty.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("difficulty {got}: expected a number above 0")]
pub struct DifficultyError {
    /// The number.
    pub got: f64,
}

/// The boundary of difficulty 1.
fn unit() -> U256 {
    U256::from(0xffff_u64) << 208
}

/// Bits of a double's fraction.
const FRACTION_BITS: i32 = 52;

/// The boundary of `difficulty`: that of difficulty 1 divided by it, rounded down, at most 2^256 -
/// 1.
///
/// # Errors
/// When the number is not above zero, or is none.
pub fn boundary_of_difficulty(difficulty: f64) -> Result<B256, DifficultyError> {
    if !(difficulty > 0.0 && difficulty.is_finite()) {
        return Err(DifficultyError { got: difficulty });
    }
    let bits = difficulty.to_bits();
    let exponent = ((bits >> FRACTION_BITS) & 0x7ff) as i32;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    // Numbers near zero have no leading one.
    let (mantissa, exponent) = if exponent == 0 {
        (fraction, 1)
    } else {
        (fraction | 1 << FRACTION_BITS, exponent)
    };
    // difficulty = mantissa · 2^shift
    let shift = exponent - 1023 - FRACTION_BITS;
    let (mantissa, unit) = (U256::from(mantissa), unit());
    let boundary = if shift >= 0 {
        let shift = shift.unsigned_abs() as usize;
        (unit / mantissa).checked_shr(shift).unwrap_or(U256::ZERO)
    } else {
        scaled(unit, mantissa, shift.unsigned_abs() as usize)
    };
    Ok(B256::from(boundary))
}

/// floor(unit · 2^shift / mantissa), at most the largest number: long division, a bit at a time.
fn scaled(unit: U256, mantissa: U256, shift: usize) -> U256 {
    let (mut quotient, mut remainder) = unit.div_rem(mantissa);
    for _ in 0..shift {
        if quotient.bit(255) {
            return U256::MAX;
        }
        quotient <<= 1;
        // The mantissa has 53 bits, so doubling what is below it overflows nothing.
        remainder <<= 1;
        if remainder >= mantissa {
            remainder -= mantissa;
            quotient |= U256::ONE;
        }
    }
    quotient
}

/// The difficulty whose boundary is nearest to `boundary`.
pub fn difficulty_of_boundary(boundary: &B256) -> f64 {
    let boundary = U256::from_be_bytes(boundary.0).max(U256::ONE);
    f64::from(unit()) / f64::from(boundary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(difficulty: f64, expected: &str) {
        let boundary = boundary_of_difficulty(difficulty).expect("above zero");
        let digits = expected.len();
        let got: String = boundary.to_string()[2..].to_owned();
        assert_eq!(&got[..digits], expected, "{difficulty}");
        assert!(
            got[digits..].bytes().all(|digit| digit == b'0'),
            "{difficulty}: {got}"
        );
    }

    #[test]
    fn boundaries_are_exact() {
        check(1.0, "00000000ffff");
        check(2.0, "000000007fff8");
        check(0.5, "00000001fffe");
        check(65_536.0, "000000000000ffff");
        // 3 divides 0xffff.
        check(3.0, "000000005555");
        assert_eq!(boundary_of_difficulty(1e-30), Ok(B256::repeat_byte(0xff)));
        assert_eq!(
            boundary_of_difficulty(f64::MIN_POSITIVE / 4.0),
            Ok(B256::repeat_byte(0xff))
        );
        assert_eq!(boundary_of_difficulty(f64::MAX), Ok(B256::ZERO));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(boundary_of_difficulty(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn difficulties_come_back() {
        for hashes in [512_u64, 131_072, 4_000_000_000, 1 << 50, u64::MAX] {
            let boundary = ethash::boundary(&U256::from(hashes));
            let again = boundary_of_difficulty(difficulty_of_boundary(&boundary)).expect("above zero");
            let [before, after] =
                [boundary, again].map(|boundary| f64::from(U256::from_be_bytes(boundary.0)));
            assert!(
                (before / after - 1.0).abs() < 1e-15,
                "{hashes}: {boundary} {again}"
            );
        }
    }
}
