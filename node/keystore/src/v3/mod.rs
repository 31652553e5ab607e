//! The text of a key file: JSON with one key, encrypted with a password. Version 3 of the Web3
//! secret storage.
//!
//! Knows the format and its ciphers. Files and folders are in [`crate::KeyDirectory`], the key
//! derivation is in [`crate::kdf`].
//!
//! A 32-byte key is derived from the password. Its first half encrypts the secret key with AES-128
//! in counter mode. The MAC is Keccak-256 of its second half and the ciphertext. So a wrong
//! password is recognised before anything is decrypted.

use std::fmt;

use aes::Aes128;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use primitives::{Address, KeyError, SecretKey, hex, keccak256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::kdf::{DERIVED_BYTES, Kdf, KdfError, ScryptCost};

/// The supported version.
const VERSION: u64 = 3;
/// The supported cipher.
const CIPHER: &str = "aes-128-ctr";
/// The supported pseudo-random function of PBKDF2.
const PRF: &str = "hmac-sha256";
/// Upper bound for the length of a key file, in bytes. A real one has about 500.
pub const FILE_BYTES_MAX: usize = 64 * 1024;
const SECRET_BYTES: usize = 32;
const IV_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

/// The reason why a text is not a key file, or no key can be decrypted from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The password is wrong. The message is that of the public network's nodes.
    #[error("could not decrypt key with given passphrase")]
    WrongPassword,
    /// The text is longer than [`FILE_BYTES_MAX`].
    #[error("key file: got {got} bytes, expected at most {FILE_BYTES_MAX}")]
    TooLong {
        /// Its length, in bytes.
        got: usize,
    },
    /// The text is not JSON, or a member is missing or has another type.
    #[error("key file: {0}")]
    Json(String),
    /// The format has another version.
    #[error("key file: got version {got}, expected {VERSION}")]
    Version {
        /// The value of the member `version`, as JSON.
        got: String,
    },
    /// The cipher, the key derivation or the function is not supported.
    #[error("key file: got {member} {got:?}, expected {expected}")]
    Unsupported {
        /// The member.
        member: &'static str,
        /// Its value.
        got: String,
        /// The supported values.
        expected: &'static str,
    },
    /// A member is not hexadecimal. The error does not repeat it.
    #[error("key file: {member}: expected hexadecimal digits in pairs")]
    NotHex {
        /// The member.
        member: &'static str,
    },
    /// A member has too few or too many bytes.
    #[error("key file: {member}: got {got} bytes, expected {expected}")]
    Length {
        /// The member.
        member: &'static str,
        /// The number of its bytes.
        got: usize,
        /// The number that it must have, in words.
        expected: &'static str,
    },
    /// The parameters of the key derivation are impossible or too costly.
    #[error("key file: {0}")]
    Kdf(#[from] KdfError),
    /// The decrypted bytes are not a secret key, or there is no randomness for a new file.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key belongs to another account than the file says.
    #[error("key file: got the key of {got:#x}, expected that of {expected:#x}")]
    OtherAccount {
        /// The address of the key.
        got: Address,
        /// The address that the file says.
        expected: Address,
    },
}

/// The members of the JSON text, as other clients write them. Other members are ignored.
#[derive(Serialize, Deserialize)]
struct KeyFileJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    // Some old web wallets write it with a capital letter.
    #[serde(alias = "Crypto")]
    crypto: CryptoJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    version: Value,
}

#[derive(Serialize, Deserialize)]
struct CryptoJson {
    cipher: String,
    cipherparams: CipherParamsJson,
    ciphertext: String,
    kdf: String,
    kdfparams: Value,
    mac: String,
}

#[derive(Serialize, Deserialize)]
struct CipherParamsJson {
    iv: String,
}

#[derive(Serialize, Deserialize)]
struct ScryptParamsJson {
    dklen: u64,
    n: u64,
    p: u64,
    r: u64,
    salt: String,
}

#[derive(Deserialize)]
struct Pbkdf2ParamsJson {
    c: u64,
    dklen: u64,
    prf: String,
    salt: String,
}

/// A key file whose text was read and checked, as far as that is possible without the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyFile {
    /// The address that the file claims. Some clients leave it out.
    pub(crate) address: Option<Address>,
    kdf: Kdf,
    salt: Vec<u8>,
    iv: [u8; IV_BYTES],
    ciphertext: Vec<u8>,
    mac: [u8; MAC_BYTES],
}

impl KeyFile {
    /// Reads and checks the text.
    pub(crate) fn read(json: &[u8]) -> Result<Self, KeyFileError> {
        if json.len() > FILE_BYTES_MAX {
            return Err(KeyFileError::TooLong { got: json.len() });
        }
        // The version is checked first. Other versions have other members, and an error about the
        // version explains that best.
        let json: Value = serde_json::from_slice(json).map_err(bad_json)?;
        match json.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            None if json.is_object() => return Err(KeyFileError::Json("missing field `version`".to_owned())),
            None => return Err(KeyFileError::Json("expected an object".to_owned())),
            Some(got) => {
                return Err(KeyFileError::Version {
                    got: shortened(&got.to_string()),
                });
            }
        }
        let text: KeyFileJson = serde_json::from_value(json).map_err(bad_json)?;
        let crypto = text.crypto;
        check_word("cipher", &crypto.cipher, CIPHER)?;
        let (kdf, salt) = read_kdf(&crypto.kdf, crypto.kdfparams)?;
        let ciphertext = bytes("ciphertext", &crypto.ciphertext)?;
        // Some clients leave out leading zero bytes of the secret key, so it may be shorter.
        if ciphertext.is_empty() || ciphertext.len() > SECRET_BYTES {
            let (member, got) = ("ciphertext", ciphertext.len());
            let expected = "1 to 32";
            return Err(KeyFileError::Length {
                member,
                got,
                expected,
            });
        }
        Ok(Self {
            address: read_address(text.address.as_deref())?,
            kdf,
            salt,
            iv: fixed("cipherparams.iv", &crypto.cipherparams.iv, "16")?,
            ciphertext,
            mac: fixed("mac", &crypto.mac, "32")?,
        })
    }

    /// Decrypts the secret key. Takes the time and memory of the key derivation.
    pub(crate) fn decrypt(&self, password: &[u8]) -> Result<SecretKey, KeyFileError> {
        let derived = self.kdf.derive(password, &self.salt);
        // All bytes are compared, so that the time does not depend on where they differ.
        let differing = mac(&derived, &self.ciphertext)
            .iter()
            .zip(&self.mac)
            .fold(0, |differing, (computed, stored)| differing | (computed ^ stored));
        if differing != 0 {
            return Err(KeyFileError::WrongPassword);
        }
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        let tail = &mut secret[SECRET_BYTES - self.ciphertext.len()..];
        tail.copy_from_slice(&self.ciphertext);
        apply_cipher(&derived, &self.iv, tail);
        let key = SecretKey::from_bytes(secret.as_slice())?;
        match (key.address(), self.address) {
            (got, Some(expected)) if got != expected => Err(KeyFileError::OtherAccount { got, expected }),
            _ => Ok(key),
        }
    }
}

/// Shows the claimed address and the parameters of the key derivation only.
impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile")
            .field("address", &self.address)
            .field("kdf", &self.kdf)
            .finish_non_exhaustive()
    }
}

/// The random parts of a new key file.
#[derive(Clone, Copy)]
pub(crate) struct FileRandomness {
    pub(crate) salt: [u8; 32],
    pub(crate) iv: [u8; IV_BYTES],
    pub(crate) id: [u8; 16],
}

impl FileRandomness {
    /// From the randomness of the operating system.
    fn new() -> Result<Self, KeyFileError> {
        let mut random = Self {
            salt: [0; 32],
            iv: [0; IV_BYTES],
            id: [0; 16],
        };
        for part in [&mut random.salt[..], &mut random.iv, &mut random.id] {
            getrandom::fill(part).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        }
        Ok(random)
    }
}

/// Decrypts the secret key in the text of a key file.
///
/// Takes the time and memory that the text asks for, within the bounds [`crate::SCRYPT_BYTES_MAX`],
/// [`crate::SCRYPT_BLOCKS_MAX`] and [`crate::PBKDF2_ROUNDS_MAX`]. Waits until other key derivations
/// of this process are done.
///
/// # Errors
/// [`KeyFileError`], with [`KeyFileError::WrongPassword`] if the password is wrong.
pub fn decrypt(json: &[u8], password: impl AsRef<[u8]>) -> Result<SecretKey, KeyFileError> {
    KeyFile::read(json)?.decrypt(password.as_ref())
}

/// The text of a key file with `key`, encrypted with `password`. The key derivation is scrypt with
/// this cost.
///
/// # Errors
/// [`KeyFileError::Key`] when the operating system provides no randomness.
pub fn encrypt(
    key: &SecretKey,
    password: impl AsRef<[u8]>,
    cost: ScryptCost,
) -> Result<String, KeyFileError> {
    Ok(encrypt_with(
        key,
        password.as_ref(),
        cost,
        &FileRandomness::new()?,
    ))
}

pub(crate) fn encrypt_with(
    key: &SecretKey,
    password: &[u8],
    cost: ScryptCost,
    random: &FileRandomness,
) -> String {
    let derived = Kdf::Scrypt(cost).derive(password, &random.salt);
    let mut ciphertext = key.to_bytes();
    apply_cipher(&derived, &random.iv, ciphertext.as_mut_slice());
    let params = ScryptParamsJson {
        dklen: DERIVED_BYTES as u64,
        n: cost.n(),
        p: cost.p.into(),
        r: cost.r.into(),
        salt: hex::encode(random.salt),
    };
    let text = KeyFileJson {
        address: Some(hex::encode(key.address())),
        crypto: CryptoJson {
            cipher: CIPHER.to_owned(),
            cipherparams: CipherParamsJson {
                iv: hex::encode(random.iv),
            },
            ciphertext: hex::encode(ciphertext.as_slice()),
            kdf: "scrypt".to_owned(),
            kdfparams: serde_json::to_value(params).expect("numbers and text are JSON"),
            mac: hex::encode(mac(&derived, ciphertext.as_slice())),
        },
        id: Some(uuid(random.id).into()),
        version: VERSION.into(),
    };
    serde_json::to_string(&text).expect("numbers and text are JSON")
}

/// Encrypts or decrypts `text` in place. In counter mode both are the same operation.
fn apply_cipher(derived: &[u8; DERIVED_BYTES], iv: &[u8; IV_BYTES], text: &mut [u8]) {
    let (key, _) = derived.split_at(16);
    let mut cipher = Ctr128BE::<Aes128>::new_from_slices(key, iv).expect("16 bytes each");
    cipher.apply_keystream(text);
}

fn mac(derived: &[u8; DERIVED_BYTES], ciphertext: &[u8]) -> [u8; MAC_BYTES] {
    let (_, key) = derived.split_at(16);
    // The vector must not grow: memory that a growing vector leaves behind is not wiped.
    let mut text = Zeroizing::new(Vec::with_capacity(key.len() + ciphertext.len()));
    text.extend_from_slice(key);
    text.extend_from_slice(ciphertext);
    keccak256(&*text).0
}

/// A random UUID as text (RFC 9562, version 4).
fn uuid(mut id: [u8; 16]) -> String {
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let digits = hex::encode(id);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

fn read_kdf(name: &str, params: Value) -> Result<(Kdf, Vec<u8>), KeyFileError> {
    let (kdf, dklen, salt) = match name {
        "scrypt" => {
            let params: ScryptParamsJson = serde_json::from_value(params).map_err(bad_params)?;
            let cost = ScryptCost::new(params.n, params.r, params.p)?;
            (Kdf::Scrypt(cost), params.dklen, params.salt)
        }
        "pbkdf2" => {
            let params: Pbkdf2ParamsJson = serde_json::from_value(params).map_err(bad_params)?;
            check_word("kdfparams.prf", &params.prf, PRF)?;
            (Kdf::pbkdf2(params.c)?, params.dklen, params.salt)
        }
        _ => {
            let (member, got) = ("kdf", shortened(name));
            let expected = "scrypt or pbkdf2";
            return Err(KeyFileError::Unsupported {
                member,
                got,
                expected,
            });
        }
    };
    Kdf::check_length(dklen)?;
    Ok((kdf, bytes("kdfparams.salt", &salt)?))
}

/// The address: 40 digits, some clients write `0x` before them. `None` if it is absent or empty.
fn read_address(text: Option<&str>) -> Result<Option<Address>, KeyFileError> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => fixed("address", text, "20").map(|address: [u8; 20]| Some(address.into())),
    }
}

fn check_word(member: &'static str, got: &str, expected: &'static str) -> Result<(), KeyFileError> {
    if got == expected {
        return Ok(());
    }
    let got = shortened(got);
    Err(KeyFileError::Unsupported {
        member,
        got,
        expected,
    })
}

fn bytes(member: &'static str, text: &str) -> Result<Vec<u8>, KeyFileError> {
    hex::decode(text).map_err(|_| KeyFileError::NotHex { member })
}

fn fixed<const N: usize>(
    member: &'static str,
    text: &str,
    expected: &'static str,
) -> Result<[u8; N], KeyFileError> {
    let bytes = bytes(member, text)?;
    let got = bytes.len();
    bytes.try_into().map_err(|_| KeyFileError::Length {
        member,
        got,
        expected,
    })
}

fn bad_json(error: serde_json::Error) -> KeyFileError {
    KeyFileError::Json(shortened(&error.to_string()))
}

fn bad_params(error: serde_json::Error) -> KeyFileError {
    KeyFileError::Json(format!("kdfparams: {}", shortened(&error.to_string())))
}

/// The beginning of a text, short enough for an error message.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 120;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
