//! Derives an encryption key from a password, with scrypt or PBKDF2, within bounds of cost.
//!
//! Anyone may have written the parameters in a key file. So each is checked before memory or time
//! is spent on it. Knows no files and no ciphers. Sources: RFC 7914 (scrypt), RFC 8018 (PBKDF2).

use std::ops::RangeInclusive;

use parking_lot::Mutex;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of a derived key that are used: 16 to encrypt, 16 to authenticate. A key file may ask for
/// more. The first bytes are the same then, with both functions.
pub(crate) const DERIVED_BYTES: usize = 32;
/// Lengths of a derived key that a file may ask for, in bytes.
const DERIVED_BYTES_RANGE: RangeInclusive<u64> = DERIVED_BYTES as u64..=1024;
/// Upper bound for the memory of scrypt's table, 128·n·r bytes. Four times the standard cost.
pub const SCRYPT_BYTES_MAX: u64 = 1 << 30;
/// Upper bound for the number of blocks that scrypt mixes, n·r·p. Eight times the standard cost,
/// which takes about a second.
pub const SCRYPT_BLOCKS_MAX: u64 = 1 << 24;
/// Upper bound for scrypt's parameters r and p.
pub const SCRYPT_FACTOR_MAX: u32 = 1024;
/// Upper bound for the rounds of PBKDF2. 64 times the usual number; takes some seconds.
pub const PBKDF2_ROUNDS_MAX: u32 = 1 << 24;

/// Held during a derivation, so that there is one at a time. Otherwise a client that tries many
/// passwords in parallel could use the memory of many derivations.
static DERIVATION_LOCK: Mutex<()> = Mutex::new(());

/// The parameters of scrypt for a key file: N = 2^`log_n`, r and p. Always within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScryptCost {
    pub(crate) log_n: u8,
    pub(crate) r: u32,
    pub(crate) p: u32,
}

impl ScryptCost {
    /// The usual cost: 256 MiB, about a second.
    pub const STANDARD: Self = Self {
        log_n: 18,
        r: 8,
        p: 1,
    };
    /// The cost for small devices and tests: 4 MiB, some hundredths of a second.
    pub const LIGHT: Self = Self {
        log_n: 12,
        r: 8,
        p: 6,
    };

    /// The cost that the option `--lightkdf` asks for.
    pub const fn of_option(lightkdf: bool) -> Self {
        match lightkdf {
            true => Self::LIGHT,
            false => Self::STANDARD,
        }
    }

    /// Checks the parameters of a file.
    pub(crate) fn new(n: u64, r: u64, p: u64) -> Result<Self, KdfError> {
        if n < 2 || !n.is_power_of_two() {
            return Err(KdfError::ScryptN { got: n });
        }
        let factor = |name, got: u64| match u32::try_from(got) {
            Ok(factor @ 1..=SCRYPT_FACTOR_MAX) => Ok(factor),
            _ => Err(KdfError::ScryptFactor { name, got }),
        };
        let cost = Self {
            log_n: n.trailing_zeros() as u8,
            r: factor("r", r)?,
            p: factor("p", p)?,
        };
        // r and p are small here, so only products with n can overflow.
        let within = |count: Option<u64>, max| count.is_some_and(|count| count <= max);
        if !within(n.checked_mul(128 * r), SCRYPT_BYTES_MAX)
            || !within(n.checked_mul(r * p), SCRYPT_BLOCKS_MAX)
        {
            return Err(KdfError::ScryptCost { n, r, p });
        }
        Ok(cost)
    }

    /// The number of blocks in scrypt's table.
    pub(crate) const fn n(self) -> u64 {
        1 << self.log_n
    }
}

/// A key derivation with checked parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kdf {
    /// Scrypt.
    Scrypt(ScryptCost),
    /// PBKDF2 with HMAC-SHA-256.
    Pbkdf2 {
        /// The number of rounds.
        rounds: u32,
    },
}

impl Kdf {
    /// Checks the rounds of a file.
    pub(crate) fn pbkdf2(rounds: u64) -> Result<Self, KdfError> {
        match u32::try_from(rounds) {
            Ok(rounds @ 1..=PBKDF2_ROUNDS_MAX) => Ok(Self::Pbkdf2 { rounds }),
            _ => Err(KdfError::Pbkdf2Rounds { got: rounds }),
        }
    }

    /// Checks the length of the derived key that a file asks for, in bytes.
    pub(crate) fn check_length(bytes: u64) -> Result<(), KdfError> {
        if DERIVED_BYTES_RANGE.contains(&bytes) {
            return Ok(());
        }
        Err(KdfError::DerivedLength { got: bytes })
    }

    /// Derives the key. Takes the time and memory that the parameters ask for, and waits until
    /// other derivations of this process are done.
    pub(crate) fn derive(self, password: &[u8], salt: &[u8]) -> Zeroizing<[u8; DERIVED_BYTES]> {
        let mut derived = Zeroizing::new([0; DERIVED_BYTES]);
        let _lock = DERIVATION_LOCK.lock();
        match self {
            Self::Scrypt(ScryptCost { log_n, r, p }) => {
                let params = scrypt::Params::new(log_n, r, p).expect("checked when the cost was made");
                scrypt::scrypt(password, salt, &params, derived.as_mut_slice())
                    .expect("scrypt accepts a length of 32 bytes");
            }
            Self::Pbkdf2 { rounds } => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, rounds, derived.as_mut_slice());
            }
        }
        derived
    }
}

/// The reason why the parameters of a key derivation are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KdfError {
    /// n is not a power of two above 1.
    #[error("scrypt: got n {got}, expected a power of two above 1")]
    ScryptN {
        /// The n.
        got: u64,
    },
    /// r or p is zero or too large.
    #[error("scrypt: got {name} {got}, expected 1 to {SCRYPT_FACTOR_MAX}")]
    ScryptFactor {
        /// `r` or `p`.
        name: &'static str,
        /// Its value.
        got: u64,
    },
    /// scrypt would take too much memory or time.
    #[error(
        "scrypt: got n {n}, r {r}, p {p}, expected at most {SCRYPT_BLOCKS_MAX} blocks (n·r·p) in {SCRYPT_BYTES_MAX} bytes (128·n·r)"
    )]
    ScryptCost {
        /// The n.
        n: u64,
        /// The r.
        r: u64,
        /// The p.
        p: u64,
    },
    /// The number of rounds is zero or too large.
    #[error("pbkdf2: got {got} rounds, expected 1 to {PBKDF2_ROUNDS_MAX}")]
    Pbkdf2Rounds {
        /// The rounds.
        got: u64,
    },
    /// The derived key would be too short or too long.
    #[error("dklen: got {got}, expected {} to {}", DERIVED_BYTES_RANGE.start(), DERIVED_BYTES_RANGE.end())]
    DerivedLength {
        /// The length, in bytes.
        got: u64,
    },
}

#[cfg(test)]
mod tests {
    use primitives::hex;

    use super::*;

    #[test]
    fn published_vectors() {
        // RFC 7914, sections 12 (scrypt) and 11 (PBKDF2): the first 32 of the 64 bytes.
        let check = |kdf: Kdf, password: &str, salt: &str, expected: &str| {
            let derived = kdf.derive(password.as_bytes(), salt.as_bytes());
            assert_eq!(hex::encode(derived.as_slice()), expected, "{kdf:?}");
        };
        let scrypt = |n, r, p| Kdf::Scrypt(ScryptCost::new(n, r, p).expect("within bounds"));
        check(
            scrypt(16, 1, 1),
            "",
            "",
            "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442",
        );
        check(
            scrypt(1024, 8, 16),
            "password",
            "NaCl",
            "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162",
        );
        check(
            Kdf::pbkdf2(1).expect("within bounds"),
            "passwd",
            "salt",
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc",
        );
        check(
            Kdf::pbkdf2(80_000).expect("within bounds"),
            "Password",
            "NaCl",
            "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56",
        );
    }

    #[test]
    fn usual_costs_are_within_the_bounds() {
        for (n, r, p) in [
            (262_144, 8, 1),
            (262_144, 1, 8),
            (4096, 8, 6),
            (1 << 20, 8, 1),
            (2, 8, 1),
        ] {
            assert!(ScryptCost::new(n, r, p).is_ok(), "{n} {r} {p}");
        }
        assert_eq!(ScryptCost::new(262_144, 8, 1), Ok(ScryptCost::STANDARD));
        assert_eq!(ScryptCost::new(4096, 8, 6), Ok(ScryptCost::LIGHT));
        assert_eq!(ScryptCost::STANDARD.n(), 262_144);
        for rounds in [1, 10_240, 262_144, 1_000_000, u64::from(PBKDF2_ROUNDS_MAX)] {
            assert!(Kdf::pbkdf2(rounds).is_ok(), "{rounds}");
        }
        for length in [32, 64, 1024] {
            assert_eq!(Kdf::check_length(length), Ok(()));
        }
    }

    #[test]
    fn costs_beyond_the_bounds_are_refused() {
        let scrypt = |n, r, p| ScryptCost::new(n, r, p).unwrap_err();
        for n in [0, 1, 3, 262_143, u64::MAX] {
            assert_eq!(scrypt(n, 8, 1), KdfError::ScryptN { got: n });
        }
        for got in [0, 1025, 1 << 32, u64::MAX] {
            assert_eq!(scrypt(2, got, 1), KdfError::ScryptFactor { name: "r", got });
            assert_eq!(scrypt(2, 1, got), KdfError::ScryptFactor { name: "p", got });
        }
        for (n, r, p) in [
            (1 << 21, 8, 1),
            (1 << 63, 1, 1),
            (1 << 63, 1024, 1024),
            (262_144, 8, 9),
        ] {
            assert_eq!(scrypt(n, r, p), KdfError::ScryptCost { n, r, p });
        }
        for got in [0, u64::from(PBKDF2_ROUNDS_MAX) + 1, 1 << 32, u64::MAX] {
            assert_eq!(Kdf::pbkdf2(got), Err(KdfError::Pbkdf2Rounds { got }));
        }
        for got in [0, 16, 31, 1025, u64::MAX] {
            assert_eq!(Kdf::check_length(got), Err(KdfError::DerivedLength { got }));
        }
    }
}
