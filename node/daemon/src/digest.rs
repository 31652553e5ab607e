//! Secrets that clients must know, kept as digests.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// SHA-256 of a secret, such as a token or a password. The secret itself is not kept.
#[derive(Clone, Copy)]
pub struct SecretDigest(pub [u8; 32]);

impl SecretDigest {
    /// The digest of a secret.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }
}

/// The comparison takes the same time wherever the digests part.
impl PartialEq for SecretDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretDigest {}

/// Shows no secret.
impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest (not shown)")
    }
}
