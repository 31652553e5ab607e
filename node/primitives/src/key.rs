//! Secret keys, signatures and the recovery of signers, on the curve secp256k1.
//!
//! Signs 32-byte digests. The caller computes them; for messages there is
//! [`signed_message_digest`]. Key files are in the package `keystore`.

use std::{fmt, sync::LazyLock};

use alloy_primitives::{Address, B256, B512, U256, hex, keccak256, uint};
use secp256k1::{
    Message, PublicKey, SECP256K1, Secp256k1, SignOnly,
    ecdh::shared_secret_point,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use zeroize::Zeroizing;

/// The order of the group of secp256k1. r, s and secret keys are above 0 and below it.
pub const SECP256K1_ORDER: U256 =
    uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// The largest low s: half the order, rounded down.
pub const SECP256K1_HALF_ORDER: U256 =
    uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);

/// The context for signing. It is blinded with randomness once per process. This makes it harder to
/// learn a key from the time or the power that signing takes.
static SIGNER: LazyLock<Secp256k1<SignOnly>> = LazyLock::new(|| {
    let mut context = Secp256k1::signing_only();
    let mut seed = Zeroizing::new([0; 32]);
    // Without randomness the signatures are the same and still valid. Only the blinding is missing.
    if getrandom::fill(seed.as_mut_slice()).is_ok() {
        context.seeded_randomize(&seed);
    }
    context
});

/// The reason why bytes are not a secret key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key does not have 32 bytes.
    #[error("secret key: got {got} bytes, expected 32")]
    WrongLength {
        /// The number of bytes.
        got: usize,
    },
    /// The text is not hexadecimal. The error does not repeat it, because it may be almost a key.
    #[error("secret key: got other characters, expected 64 hexadecimal digits")]
    NotHex,
    /// The key is zero, or not below the order of the group.
    #[error("secret key: got a number out of range, expected above zero and below the order of secp256k1")]
    OutOfRange,
    /// The bytes are not a point of the curve.
    #[error("public key: got {got}, expected a point of secp256k1")]
    NotAPoint {
        /// The bytes in hex.
        got: String,
    },
    /// The operating system provides no randomness.
    #[error("secret key: no randomness from the operating system: {0}")]
    NoRandomness(String),
}

/// The reason why no signer can be recovered from a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The signature does not have 65 bytes.
    #[error("signature: got {got} bytes, expected 65")]
    WrongLength {
        /// The number of bytes.
        got: usize,
    },
    /// V contains no recovery id.
    #[error("signature: got V {got}, expected 27, 28 or 35 and above")]
    InvalidV {
        /// The V.
        got: U256,
    },
    /// V of a signed message is not 27 or 28. Messages have no chain id.
    #[error("signature: got V {got}, expected 27 or 28")]
    MessageV {
        /// The V.
        got: u8,
    },
    /// V contains no chain id, but one is required.
    #[error("signature: got V {got}, expected 35 or above (with a chain id)")]
    Unprotected {
        /// The V, 27 or 28.
        got: U256,
    },
    /// V contains a chain id that is too large.
    #[error("signature: got chain id {got}, expected below 2^{bound_bits}")]
    ChainId {
        /// The chain id.
        got: U256,
        /// The largest allowed number of bits.
        bound_bits: u32,
    },
    /// The recovery id is not 0 or 1.
    #[error("signature: got recovery id {got}, expected 0 or 1")]
    RecoveryId {
        /// The recovery id.
        got: u8,
    },
    /// s is in the upper half of its range. There is a second signature of the same key with a low
    /// s, and only that one is accepted.
    #[error("signature: got s {got:#x}, expected at most half the order of secp256k1")]
    HighS {
        /// The s.
        got: U256,
    },
    /// r or s is zero, or not below the order of the group.
    #[error("signature: got {name} {got:#x}, expected above zero and below the order of secp256k1")]
    OutOfRange {
        /// `r` or `s`.
        name: &'static str,
        /// Its value.
        got: U256,
    },
    /// No point of the curve has the x coordinate r, or the key would be the point at infinity.
    #[error("signature: no public key can have made it")]
    NoKey,
}

/// A secret key. It is wiped from memory when it is dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct SecretKey(Zeroizing<[u8; 32]>);

impl SecretKey {
    /// The key with these bytes, big-endian.
    ///
    /// # Errors
    /// [`KeyError`] if there are not 32 bytes, or if the number is zero or not below the order of
    /// the group.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut key = Zeroizing::new([0; 32]);
        if bytes.len() != key.len() {
            return Err(KeyError::WrongLength { got: bytes.len() });
        }
        key.copy_from_slice(bytes);
        let mut checked = secp256k1::SecretKey::from_byte_array(*key).map_err(|_| KeyError::OutOfRange)?;
        checked.non_secure_erase();
        Ok(Self(key))
    }

    /// The key with these 64 hexadecimal digits, with or without `0x`.
    ///
    /// # Errors
    /// [`KeyError`] if the text has another form, or as for [`Self::from_bytes`].
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        if digits.len() != 64 {
            return Err(KeyError::WrongLength {
                got: digits.len().div_ceil(2),
            });
        }
        let mut key = Zeroizing::new([0; 32]);
        hex::decode_to_slice(digits, key.as_mut_slice()).map_err(|_| KeyError::NotHex)?;
        Self::from_bytes(key.as_slice())
    }

    /// A new key from the randomness of the operating system.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`] if there is none.
    pub fn random() -> Result<Self, KeyError> {
        let mut key = Zeroizing::new([0; 32]);
        loop {
            getrandom::fill(key.as_mut_slice()).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
            // About one number in 2^127 is out of range. Then the next one is tried.
            if let Ok(key) = Self::from_bytes(key.as_slice()) {
                return Ok(key);
            }
        }
    }

    /// The 32 bytes of the key, big-endian, for a key file. The copy is wiped when it is dropped.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        self.0.clone()
    }

    /// The address of the account that the key controls.
    pub fn address(&self) -> Address {
        self.with_key(|key| address_of(&key.public_key(&SIGNER)))
    }

    /// The public key: x and y of the point, 32 bytes each, without prefix.
    pub fn public_key(&self) -> B512 {
        self.with_key(|key| coordinates(&key.public_key(&SIGNER)))
    }

    /// The secret that this key shares with the owner of `public_key` (ECDH): the x coordinate of
    /// the point. The copy is wiped when it is dropped.
    ///
    /// # Errors
    /// [`KeyError::NotAPoint`] if `public_key` is not on the curve.
    pub fn shared_secret(&self, public_key: &B512) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        let point = point(public_key)?;
        let mut coordinates = Zeroizing::new(self.with_key(|key| shared_secret_point(&point, key)));
        let mut secret = Zeroizing::new([0; 32]);
        secret.copy_from_slice(&coordinates[..32]);
        coordinates.fill(0);
        Ok(secret)
    }

    /// Signs a digest. The signature is deterministic (RFC 6979) and has a low s.
    pub fn sign(&self, digest: &B256) -> EcdsaSignature {
        let message = Message::from_digest(digest.0);
        let signed = self.with_key(|key| SIGNER.sign_ecdsa_recoverable(message, key));
        let (recovery_id, compact) = signed.serialize_compact();
        EcdsaSignature {
            r: U256::from_be_slice(&compact[..32]),
            s: U256::from_be_slice(&compact[32..]),
            recovery_id: i32::from(recovery_id) as u8,
        }
    }

    /// Calls `work` with the key in the library's type, then wipes that copy.
    fn with_key<T>(&self, work: impl FnOnce(&secp256k1::SecretKey) -> T) -> T {
        let mut key = secp256k1::SecretKey::from_byte_array(*self.0)
            .expect("the range was checked when the key was made");
        let result = work(&key);
        key.non_secure_erase();
        result
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(redacted)")
    }
}

/// An ECDSA signature from which the signer's public key can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcdsaSignature {
    /// The x coordinate of the nonce point, modulo the order of the group.
    pub r: U256,
    /// The second half of the signature.
    pub s: U256,
    /// 1 if the y coordinate of the nonce point is odd, otherwise 0.
    pub recovery_id: u8,
}

impl EcdsaSignature {
    /// The form of a signed message, 65 bytes: r (32, big-endian), s (32, big-endian), V (27 or
    /// 28).
    pub fn to_rsv(&self) -> [u8; 65] {
        let mut rsv = [0; 65];
        rsv[..32].copy_from_slice(&self.r.to_be_bytes::<32>());
        rsv[32..64].copy_from_slice(&self.s.to_be_bytes::<32>());
        rsv[64] = self.recovery_id.wrapping_add(27);
        rsv
    }

    /// Reads the form of [`Self::to_rsv`].
    ///
    /// # Errors
    /// [`SignatureError`] if there are not 65 bytes, or if V is not 27 or 28. r and s are checked
    /// by [`recover`] only.
    pub fn from_rsv(rsv: &[u8]) -> Result<Self, SignatureError> {
        let rsv: &[u8; 65] = rsv
            .try_into()
            .map_err(|_| SignatureError::WrongLength { got: rsv.len() })?;
        let recovery_id = match rsv[64] {
            27 => 0,
            28 => 1,
            got => return Err(SignatureError::MessageV { got }),
        };
        let r = U256::from_be_slice(&rsv[..32]);
        let s = U256::from_be_slice(&rsv[32..64]);
        Ok(Self { r, s, recovery_id })
    }

    /// Whether s is in the lower half of its range. Of the two signatures (s and order - s) for the
    /// same nonce, exactly one has a low s.
    pub fn is_low_s(&self) -> bool {
        self.s <= SECP256K1_HALF_ORDER
    }
}

/// The address of the account whose key signed `digest`.
///
/// A high s is accepted; see [`EcdsaSignature::is_low_s`].
///
/// # Errors
/// [`SignatureError`] if no key can have made the signature.
pub fn recover(digest: &B256, signature: &EcdsaSignature) -> Result<Address, SignatureError> {
    recover_point(digest, signature).map(|key| address_of(&key))
}

/// The public key that signed `digest`: x and y of the point, 32 bytes each, without prefix.
///
/// # Errors
/// As for [`recover`].
pub fn recover_public_key(digest: &B256, signature: &EcdsaSignature) -> Result<B512, SignatureError> {
    recover_point(digest, signature).map(|key| coordinates(&key))
}

fn recover_point(digest: &B256, signature: &EcdsaSignature) -> Result<PublicKey, SignatureError> {
    for (name, got) in [("r", signature.r), ("s", signature.s)] {
        if got.is_zero() || got >= SECP256K1_ORDER {
            return Err(SignatureError::OutOfRange { name, got });
        }
    }
    let recovery_id = match signature.recovery_id {
        0 => RecoveryId::Zero,
        1 => RecoveryId::One,
        got => return Err(SignatureError::RecoveryId { got }),
    };
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&signature.r.to_be_bytes::<32>());
    compact[32..].copy_from_slice(&signature.s.to_be_bytes::<32>());
    let signature =
        RecoverableSignature::from_compact(&compact, recovery_id).map_err(|_| SignatureError::NoKey)?;
    SECP256K1
        .recover_ecdsa(Message::from_digest(digest.0), &signature)
        .map_err(|_| SignatureError::NoKey)
}

/// The digest that is signed for a message: Keccak-256 of a label, the length in decimal, and the
/// message. The label is the public network's.
///
/// The label makes sure that a signed message is never a signed transaction.
pub fn signed_message_digest(message: &[u8]) -> B256 {
    labelled_digest("\x19MoacNode Signed Message:\n", message)
}

/// The same digest with Ethereum's label (EIP-191, version `0x45`).
pub fn ethereum_message_digest(message: &[u8]) -> B256 {
    labelled_digest("\x19Ethereum Signed Message:\n", message)
}

fn labelled_digest(label: &str, message: &[u8]) -> B256 {
    let mut labelled = format!("{label}{}", message.len()).into_bytes();
    labelled.extend_from_slice(message);
    keccak256(labelled)
}

/// The compressed form of a public key, 33 bytes: 2 or 3 for the parity of y, then x.
///
/// # Errors
/// [`KeyError::NotAPoint`] if `public_key` is not on the curve.
pub fn compress_public_key(public_key: &B512) -> Result<[u8; 33], KeyError> {
    point(public_key).map(|point| point.serialize())
}

/// Reads the form of [`compress_public_key`].
///
/// # Errors
/// [`KeyError::NotAPoint`] if `bytes` are not a point in this form.
pub fn expand_public_key(bytes: &[u8; 33]) -> Result<B512, KeyError> {
    let not_a_point = |_| KeyError::NotAPoint {
        got: hex::encode(bytes),
    };
    PublicKey::from_byte_array_compressed(*bytes)
        .map(|point| coordinates(&point))
        .map_err(not_a_point)
}

fn point(public_key: &B512) -> Result<PublicKey, KeyError> {
    let mut bytes = [4; 65];
    bytes[1..].copy_from_slice(public_key.as_slice());
    PublicKey::from_byte_array_uncompressed(bytes).map_err(|_| KeyError::NotAPoint {
        got: hex::encode(public_key),
    })
}

fn coordinates(key: &PublicKey) -> B512 {
    B512::from_slice(&key.serialize_uncompressed()[1..])
}

fn address_of(key: &PublicKey) -> Address {
    Address::from_word(keccak256(&key.serialize_uncompressed()[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        assert_eq!(SECP256K1_ORDER.to_be_bytes(), secp256k1::constants::CURVE_ORDER);
        assert_eq!(SECP256K1_HALF_ORDER, SECP256K1_ORDER >> 1);
    }

    #[test]
    fn two_keys_share_one_secret() {
        let key = |byte: u8| SecretKey::from_bytes(&[byte; 32]).expect("in range");
        let (one, two) = (key(1), key(2));
        let secret = one.shared_secret(&two.public_key()).expect("a point");
        assert_eq!(secret, two.shared_secret(&one.public_key()).expect("a point"));
        assert_ne!(secret, key(3).shared_secret(&two.public_key()).expect("a point"));
        let error = one.shared_secret(&B512::repeat_byte(7));
        assert!(matches!(error, Err(KeyError::NotAPoint { .. })), "{error:?}");
    }

    #[test]
    fn public_keys_are_compressed_and_expanded() {
        for byte in 1..9 {
            let public = SecretKey::from_bytes(&[byte; 32]).expect("in range").public_key();
            let compressed = compress_public_key(&public).expect("a point");
            assert_eq!(expand_public_key(&compressed), Ok(public));
        }
        assert!(expand_public_key(&[7; 33]).is_err());
        assert!(compress_public_key(&B512::ZERO).is_err());
    }

    #[test]
    fn keys_are_checked_and_hidden() {
        let digits = "46".repeat(32);
        let key = SecretKey::from_hex(&digits).expect("a key");
        assert_eq!(
            key.address().to_string(),
            "0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"
        );
        assert_eq!(format!("{key:?}"), "SecretKey(redacted)");
        assert_eq!(key.to_bytes().as_slice(), [0x46; 32]);
        let error = |text: &str| SecretKey::from_hex(text).unwrap_err();
        assert_eq!(error("0x46"), KeyError::WrongLength { got: 1 });
        assert_eq!(error(&format!("0x{digits}46")), KeyError::WrongLength { got: 33 });
        assert_eq!(error(&"4g".repeat(32)), KeyError::NotHex);
        assert_eq!(error(&"é".repeat(32)), KeyError::NotHex);
        assert_eq!(
            error(&format!("0x{}", &digits[2..])),
            KeyError::WrongLength { got: 31 }
        );
        assert_eq!(error(&"00".repeat(32)), KeyError::OutOfRange);
        assert_eq!(
            SecretKey::from_bytes(&SECP256K1_ORDER.to_be_bytes::<32>()).unwrap_err(),
            KeyError::OutOfRange
        );
        let below = (SECP256K1_ORDER - U256::from(1)).to_be_bytes::<32>();
        assert!(SecretKey::from_bytes(&below).is_ok());
    }

    #[test]
    fn random_keys_differ_and_sign() {
        let (one, two) = (SecretKey::random().unwrap(), SecretKey::random().unwrap());
        assert_ne!(one.address(), two.address());
        let digest = keccak256("digest");
        let signature = one.sign(&digest);
        assert!(signature.is_low_s());
        assert_eq!(recover(&digest, &signature), Ok(one.address()));
        assert_eq!(recover_public_key(&digest, &signature), Ok(one.public_key()));
        assert_ne!(recover(&keccak256("other"), &signature), Ok(one.address()));
        assert_eq!(EcdsaSignature::from_rsv(&signature.to_rsv()), Ok(signature));
    }

    #[test]
    fn high_s_recovers_the_same_signer() {
        let key = SecretKey::from_bytes(&[7; 32]).unwrap();
        let digest = keccak256("digest");
        let low = key.sign(&digest);
        let high = EcdsaSignature {
            s: SECP256K1_ORDER - low.s,
            recovery_id: low.recovery_id ^ 1,
            ..low
        };
        assert!(!high.is_low_s());
        assert_eq!(recover(&digest, &high), Ok(key.address()));
    }

    #[test]
    fn impossible_signatures() {
        let digest = keccak256("digest");
        let good = SecretKey::from_bytes(&[7; 32]).unwrap().sign(&digest);
        let check = |signature: EcdsaSignature, expected| {
            assert_eq!(recover(&digest, &signature), Err(expected));
        };
        let range = |name, got| SignatureError::OutOfRange { name, got };
        check(
            EcdsaSignature {
                r: U256::ZERO,
                ..good
            },
            range("r", U256::ZERO),
        );
        check(
            EcdsaSignature {
                s: U256::ZERO,
                ..good
            },
            range("s", U256::ZERO),
        );
        check(
            EcdsaSignature {
                r: SECP256K1_ORDER,
                ..good
            },
            range("r", SECP256K1_ORDER),
        );
        check(EcdsaSignature { s: U256::MAX, ..good }, range("s", U256::MAX));
        check(
            EcdsaSignature {
                recovery_id: 2,
                ..good
            },
            SignatureError::RecoveryId { got: 2 },
        );
        // 5^3 + 7 has no square root, so no point has x = 5.
        check(
            EcdsaSignature {
                r: U256::from(5),
                ..good
            },
            SignatureError::NoKey,
        );
        let length = |got| Err(SignatureError::WrongLength { got });
        assert_eq!(EcdsaSignature::from_rsv(&[1; 64]), length(64));
        assert_eq!(EcdsaSignature::from_rsv(&[1; 66]), length(66));
        let v = SignatureError::MessageV { got: 1 };
        assert_eq!(EcdsaSignature::from_rsv(&[1; 65]), Err(v));
    }
}
