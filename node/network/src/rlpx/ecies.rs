//! ECIES, the encryption of the two messages of the handshake.
//!
//! Curve secp256k1, NIST's concatenation KDF with SHA-256, AES-128-CTR with a random IV, and
//! HMAC-SHA-256. An encrypted message is `04 ‖ ephemeral key (64) ‖ IV (16) ‖ ciphertext ‖ tag
//! (32)`. Source: docs/p2p.md, 1; ethereum/devp2p, `rlpx.md`.

use aes::Aes128;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use primitives::{B512, SecretKey};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::entropy::Entropy;

/// The first byte of an encrypted message: the key after it is not compressed.
pub(super) const POINT_PREFIX: u8 = 4;
const KEY_END: usize = 65;
const IV_END: usize = KEY_END + 16;
const TAG_BYTES: usize = 32;
/// Bytes that encryption adds.
pub(super) const OVERHEAD: usize = IV_END + TAG_BYTES;

/// The reason why a message cannot be decrypted or encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EciesError {
    /// The message is shorter than what encryption adds.
    #[error("got {got} bytes, expected more than {OVERHEAD}")]
    TooShort {
        /// The length of the message.
        got: usize,
    },
    /// The message does not begin with 4.
    #[error("got first byte {got:#04x}, expected 0x04")]
    Prefix {
        /// The byte.
        got: u8,
    },
    /// The public key in the message, or that of the recipient, is not on the curve.
    #[error("public key: got other bytes, expected a point of secp256k1")]
    PublicKey,
    /// The message is not for this key, or it was changed.
    #[error("tag: got another value than the one computed with our key")]
    Tag,
}

struct MessageKeys {
    cipher: Zeroizing<[u8; 16]>,
    tag: Zeroizing<[u8; 32]>,
}

fn message_keys(secret: &[u8; 32]) -> MessageKeys {
    // One round of the KDF gives 32 bytes: SHA-256 of the counter 1 and the secret.
    let derived = Sha256::new()
        .chain_update([0, 0, 0, 1])
        .chain_update(secret)
        .finalize();
    let mut keys = MessageKeys {
        cipher: Zeroizing::new([0; 16]),
        tag: Zeroizing::new([0; 32]),
    };
    keys.cipher.copy_from_slice(&derived[..16]);
    keys.tag.copy_from_slice(&Sha256::digest(&derived[16..]));
    keys
}

fn tag_state(keys: &MessageKeys, iv_and_text: &[u8], extra: &[u8]) -> Hmac<Sha256> {
    let mut state =
        Hmac::<Sha256>::new_from_slice(keys.tag.as_slice()).expect("HMAC takes keys of any length");
    state.update(iv_and_text);
    state.update(extra);
    state
}

fn apply_cipher(keys: &MessageKeys, iv: &[u8], text: &mut [u8]) {
    let mut start = [0; 16];
    start.copy_from_slice(iv);
    Ctr128BE::<Aes128>::new(&(*keys.cipher).into(), &start.into()).apply_keystream(text);
}

/// Encrypts `text` for the owner of `recipient`. `extra` is under the tag, but not in the result.
///
/// # Errors
/// [`EciesError::PublicKey`] if `recipient` is not on the curve.
pub(super) fn encrypt(
    recipient: &B512,
    text: &[u8],
    extra: &[u8],
    entropy: &mut Entropy,
) -> Result<Vec<u8>, EciesError> {
    let ephemeral = entropy.secret_key();
    let secret = ephemeral
        .shared_secret(recipient)
        .map_err(|_| EciesError::PublicKey)?;
    let keys = message_keys(&secret);
    let mut out = Vec::with_capacity(OVERHEAD + text.len());
    out.push(POINT_PREFIX);
    out.extend_from_slice(ephemeral.public_key().as_slice());
    out.extend(entropy.bytes::<16>());
    out.extend_from_slice(text);
    let (front, encrypted) = out.split_at_mut(IV_END);
    apply_cipher(&keys, &front[KEY_END..], encrypted);
    let tag = tag_state(&keys, &out[KEY_END..], extra).finalize().into_bytes();
    out.extend_from_slice(&tag);
    Ok(out)
}

/// Decrypts `message`. The tag is compared first, so a changed message is not decrypted.
///
/// # Errors
/// [`EciesError`] if the message has another form, or is not for `key`.
pub(super) fn decrypt(key: &SecretKey, message: &[u8], extra: &[u8]) -> Result<Vec<u8>, EciesError> {
    if message.len() <= OVERHEAD {
        return Err(EciesError::TooShort { got: message.len() });
    }
    if message[0] != POINT_PREFIX {
        return Err(EciesError::Prefix { got: message[0] });
    }
    let ephemeral = B512::from_slice(&message[1..KEY_END]);
    let secret = key.shared_secret(&ephemeral).map_err(|_| EciesError::PublicKey)?;
    let keys = message_keys(&secret);
    let (body, tag) = message.split_at(message.len() - TAG_BYTES);
    tag_state(&keys, &body[KEY_END..], extra)
        .verify_slice(tag)
        .map_err(|_| EciesError::Tag)?;
    let mut text = body[IV_END..].to_vec();
    apply_cipher(&keys, &body[KEY_END..IV_END], &mut text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entropy() -> Entropy {
        Entropy::from_seed([3; 32])
    }

    #[test]
    fn only_the_recipient_reads_it() {
        let mut entropy = entropy();
        let (key, other) = (entropy.secret_key(), entropy.secret_key());
        let message = encrypt(&key.public_key(), b"text", b"extra", &mut entropy).expect("a point");
        assert_eq!(message.len(), OVERHEAD + 4);
        assert_eq!(decrypt(&key, &message, b"extra").expect("for us"), b"text");
        assert_eq!(decrypt(&other, &message, b"extra"), Err(EciesError::Tag));
        assert_eq!(decrypt(&key, &message, b"other"), Err(EciesError::Tag));
    }

    #[test]
    fn each_changed_byte_is_noticed() {
        let mut entropy = entropy();
        let key = entropy.secret_key();
        let message = encrypt(&key.public_key(), b"text", &[], &mut entropy).expect("a point");
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(decrypt(&key, &changed, &[]).is_err(), "byte {at}");
            assert!(decrypt(&key, &message[..at], &[]).is_err(), "{at} bytes");
        }
        assert_eq!(
            encrypt(&B512::repeat_byte(9), b"", &[], &mut entropy),
            Err(EciesError::PublicKey)
        );
    }
}
