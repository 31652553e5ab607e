//! The leading digits of the nonce, which a pool assigns to each session so that no two miners
//! search the same nonces.
//!
//! The length is counted in hexadecimal digits, not in bytes, because EthereumStratum/2.0.0 allows
//! an odd number of digits.

use core::fmt;
use core::str::FromStr;

/// Number of hexadecimal digits in a nonce.
const NONCE_DIGITS: u32 = 16;
/// The most digits that a pool may assign: six bytes.
const DIGITS_MAX: u32 = 12;

/// The leading digits of every nonce of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extranonce {
    /// The digits, in the most significant bits of the number. The other bits are zero.
    prefix: u64,
    digits: u32,
}

/// A text that is not an extranonce.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("extranonce: got {got:?}, expected at most {DIGITS_MAX} hexadecimal digits")]
pub struct ExtranonceError {
    /// The text.
    pub got: String,
}

impl Extranonce {
    /// The extranonce that is the lowest `bytes` bytes of `number`. At most six bytes are used.
    pub fn new(number: u64, bytes: u32) -> Self {
        let digits = (bytes * 2).min(DIGITS_MAX);
        if digits == 0 {
            return Self::default();
        }
        Self {
            prefix: number << ((NONCE_DIGITS - digits) * 4),
            digits,
        }
    }

    /// The lowest nonce that begins with this extranonce.
    pub const fn prefix(self) -> u64 {
        self.prefix
    }

    /// The length of this extranonce in bits.
    pub const fn bits(self) -> u32 {
        self.digits * 4
    }

    /// Whether `nonce` begins with this extranonce.
    pub fn holds(self, nonce: u64) -> bool {
        // For an empty extranonce the shift is 64 bits, which is `None`: every nonce fits.
        (nonce ^ self.prefix)
            .checked_shr(u64::BITS - self.bits())
            .is_none_or(|rest| rest == 0)
    }

    /// The digits of `nonce` after the extranonce, as miners submit them.
    pub fn tail(self, nonce: u64) -> String {
        let all = format!("{nonce:016x}");
        all[self.digits as usize..].to_owned()
    }

    /// The whole nonce whose digits after the extranonce are `tail`.
    ///
    /// Some miners submit all sixteen digits. These are accepted too if they begin with the
    /// extranonce. `None` if `tail` has neither form.
    pub fn nonce(self, tail: &str) -> Option<u64> {
        let tail = tail.strip_prefix("0x").unwrap_or(tail);
        let length = tail.len() as u32;
        if !tail.bytes().all(|byte| byte.is_ascii_hexdigit()) || length > NONCE_DIGITS {
            return None;
        }
        let number = u64::from_str_radix(tail, 16).ok()?;
        if length == NONCE_DIGITS - self.digits {
            Some(self.prefix | number)
        } else {
            (length == NONCE_DIGITS && self.holds(number)).then_some(number)
        }
    }
}

impl FromStr for Extranonce {
    type Err = ExtranonceError;

    fn from_str(text: &str) -> Result<Self, ExtranonceError> {
        let error = || ExtranonceError {
            got: text.chars().take(64).collect(),
        };
        let hex = text.strip_prefix("0x").unwrap_or(text);
        let digits = u32::try_from(hex.len()).map_err(|_| error())?;
        if digits > DIGITS_MAX || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(error());
        }
        if digits == 0 {
            return Ok(Self::default());
        }
        let number = u64::from_str_radix(hex, 16).map_err(|_| error())?;
        Ok(Self {
            prefix: number << ((NONCE_DIGITS - digits) * 4),
            digits,
        })
    }
}

impl fmt::Display for Extranonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = format!("{:016x}", self.prefix);
        f.write_str(&all[..self.digits as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_top_of_the_nonce() {
        let check = |text: &str, prefix: u64, bits: u32| {
            let extranonce: Extranonce = text.parse().expect(text);
            assert_eq!((extranonce.prefix(), extranonce.bits()), (prefix, bits), "{text}");
            assert_eq!(extranonce.to_string(), text.trim_start_matches("0x"));
        };
        check("", 0, 0);
        check("af4c", 0xaf4c_0000_0000_0000, 16);
        check("0x01ac", 0x01ac_0000_0000_0000, 16);
        check("1ac", 0x1ac0_0000_0000_0000, 12);
        check("a2eea0", 0xa2ee_a000_0000_0000, 24);
        for bad in ["xy", "00000000000000", "+1", "0x0x"] {
            assert!(bad.parse::<Extranonce>().is_err(), "{bad}");
        }
        assert_eq!(Extranonce::new(0x1_af4c, 2), "af4c".parse().expect("hex"));
        assert_eq!(Extranonce::new(7, 0), Extranonce::default());
    }

    #[test]
    fn nonces_are_split_and_joined() {
        // The sample of the NiceHash specification.
        let extranonce: Extranonce = "a2eea0".parse().expect("hex");
        let nonce = 0xa2ee_a0cf_ae7d_f760;
        assert_eq!(extranonce.tail(nonce), "cfae7df760");
        assert_eq!(extranonce.nonce("cfae7df760"), Some(nonce));
        assert_eq!(extranonce.nonce("a2eea0cfae7df760"), Some(nonce));
        for bad in ["", "cfae7df7", "b2eea0cfae7df760", "cfae7df76g", "+fae7df760"] {
            assert_eq!(extranonce.nonce(bad), None, "{bad}");
        }
        let none = Extranonce::default();
        assert!(none.holds(u64::MAX) && extranonce.holds(nonce) && !extranonce.holds(0));
        assert_eq!(none.tail(1), "0000000000000001");
        assert_eq!(none.nonce("0xffffffffffffffff"), Some(u64::MAX));
    }
}
