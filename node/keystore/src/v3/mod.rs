//! One key in one JSON text, encrypted under a password: version 3 of the Web3 secret storage.
//!
//! Knows the format and its ciphers. Files and folders are in [`crate::KeyDirectory`], costs of
//! a password in [`crate::kdf`].
//!
//! A 32-byte key is derived from the password. Its first half encrypts the secret key with
//! AES-128 in counter mode; the MAC is Keccak-256 of its second half and the ciphertext, so a
//! wrong password is told from a right one before anything is decrypted.

use std::fmt;

use aes::Aes128;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use primitives::{Address, KeyError, SecretKey, hex, keccak256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::kdf::{DERIVED_BYTES, Kdf, KdfError, ScryptCost};

/// The version read and written.
const VERSION: u64 = 3;
/// The cipher read and written.
const CIPHER: &str = "aes-128-ctr";
/// The pseudo-random function of PBKDF2 that is read.
const PRF: &str = "hmac-sha256";
/// Longest text that is taken for a key file; a real one has some 500 bytes.
pub const FILE_BYTES_MAX: usize = 64 * 1024;
const SECRET_BYTES: usize = 32;
const IV_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

/// Why a text is no key file, or gives no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The password is another one. The text of the public network's nodes.
    #[error("could not decrypt key with given passphrase")]
    WrongPassword,
    /// Longer than any key file.
    #[error("key file: got {got} bytes, expected at most {FILE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        got: usize,
    },
    /// Not JSON, or a member is missing or of another type.
    #[error("key file: {0}")]
    Json(String),
    /// Another version of the format.
    #[error("key file: got version {got}, expected {VERSION}")]
    Version {
        /// What it has as version, as JSON.
        got: String,
    },
    /// A cipher, derivation or function that is not read.
    #[error("key file: got {member} {got:?}, expected {expected}")]
    Unsupported {
        /// Which member.
        member: &'static str,
        /// Its value.
        got: String,
        /// What would be read.
        expected: &'static str,
    },
    /// Bytes that are no hexadecimal digits.
    #[error("key file: {member}: expected hexadecimal digits in pairs")]
    NotHex {
        /// Which member.
        member: &'static str,
    },
    /// Too few or too many bytes.
    #[error("key file: {member}: got {got} bytes, expected {expected}")]
    Length {
        /// Which member.
        member: &'static str,
        /// How many there are.
        got: usize,
        /// How many there must be.
        expected: &'static str,
    },
    /// Parameters of the derivation that are impossible or too costly.
    #[error("key file: {0}")]
    Kdf(#[from] KdfError),
    /// What was decrypted is no secret key, or the system gave no randomness for a new file.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file says that it is of another account.
    #[error("key file: got the key of {got:#x}, expected that of {expected:#x}")]
    OtherAccount {
        /// Whose key it holds.
        got: Address,
        /// Whose key it claims to hold.
        expected: Address,
    },
}

/// The JSON text, as other clients write it. Members that are not listed are ignored.
#[derive(Serialize, Deserialize)]
struct KeyFileJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    // Some old web wallets write it with a capital.
    #[serde(alias = "CryptoJson")]
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

/// A key file that was read and found sound, but for what only the password can tell.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyFile {
    /// Whose key it claims to hold; some clients leave that out.
    pub(crate) address: Option<Address>,
    kdf: Kdf,
    salt: Vec<u8>,
    iv: [u8; IV_BYTES],
    ciphertext: Vec<u8>,
    mac: [u8; MAC_BYTES],
}

impl KeyFile {
    /// Reads the text.
    pub(crate) fn read(json: &[u8]) -> Result<Self, KeyFileError> {
        if json.len() > FILE_BYTES_MAX {
            return Err(KeyFileError::TooLong { got: json.len() });
        }
        // The version first: other versions have other members, and that is the better answer.
        let json: Value = serde_json::from_slice(json).map_err(bad_json)?;
        match json.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            None if json.is_object() => return Err(KeyFileError::Json("missing field `version`".to_owned())),
            None => return Err(KeyFileError::Json("expected an object".to_owned())),
            Some(got) => return Err(KeyFileError::Version { got: short(got) }),
        }
        let text: KeyFileJson = serde_json::from_value(json).map_err(bad_json)?;
        let crypto = text.crypto;
        check_word("cipher", &crypto.cipher, CIPHER)?;
        let (kdf, salt) = read_kdf(&crypto.kdf, crypto.kdfparams)?;
        let ciphertext = bytes("ciphertext", &crypto.ciphertext)?;
        // Some clients drop the leading zero bytes of a secret key.
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

    /// The secret key. Takes the time and memory of the derivation.
    pub(crate) fn decrypt(&self, password: &[u8]) -> Result<SecretKey, KeyFileError> {
        let derived = self.kdf.derive(password, &self.salt);
        // Compared without a shortcut, so that time tells nothing about where they differ.
        let differing = mac(&derived, &self.ciphertext)
            .iter()
            .zip(&self.mac)
            .fold(0, |differing, (ours, theirs)| differing | (ours ^ theirs));
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

/// Shows whose key it is said to be, and how it was derived.
impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile")
            .field("address", &self.address)
            .field("kdf", &self.kdf)
            .finish_non_exhaustive()
    }
}

/// What a new key file needs of chance.
#[derive(Clone, Copy)]
pub(crate) struct FileRandomness {
    pub(crate) salt: [u8; 32],
    pub(crate) iv: [u8; IV_BYTES],
    pub(crate) id: [u8; 16],
}

impl FileRandomness {
    /// Drawn from the operating system.
    fn draw() -> Result<Self, KeyFileError> {
        let mut drawn = Self {
            salt: [0; 32],
            iv: [0; IV_BYTES],
            id: [0; 16],
        };
        for part in [&mut drawn.salt[..], &mut drawn.iv, &mut drawn.id] {
            getrandom::fill(part).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        }
        Ok(drawn)
    }
}

/// The secret key in the JSON text `json`, which is encrypted under `password`.
///
/// Takes the time and memory that the text asks for, within the bounds of
/// [`crate::SCRYPT_BYTES_MAX`] and [`crate::SCRYPT_BLOCKS_MAX`], and waits
/// for other derivations of this process.
///
/// # Errors
/// [`KeyFileError::WrongPassword`], or what is wrong with the text.
pub fn decrypt(json: &[u8], password: impl AsRef<[u8]>) -> Result<SecretKey, KeyFileError> {
    KeyFile::read(json)?.decrypt(password.as_ref())
}

/// A JSON text that holds `key`, encrypted under `password` with scrypt at this cost.
///
/// # Errors
/// [`KeyFileError::Key`] when the operating system gives no randomness.
pub fn encrypt(
    key: &SecretKey,
    password: impl AsRef<[u8]>,
    cost: ScryptCost,
) -> Result<String, KeyFileError> {
    Ok(encrypt_with(
        key,
        password.as_ref(),
        cost,
        &FileRandomness::draw()?,
    ))
}

pub(crate) fn encrypt_with(
    key: &SecretKey,
    password: &[u8],
    cost: ScryptCost,
    chance: &FileRandomness,
) -> String {
    let derived = Kdf::Scrypt(cost).derive(password, &chance.salt);
    let mut ciphertext = key.to_bytes();
    apply_cipher(&derived, &chance.iv, ciphertext.as_mut_slice());
    let params = ScryptParamsJson {
        dklen: DERIVED_BYTES as u64,
        n: cost.n(),
        p: cost.p.into(),
        r: cost.r.into(),
        salt: hex::encode(chance.salt),
    };
    let text = KeyFileJson {
        address: Some(hex::encode(key.address())),
        crypto: CryptoJson {
            cipher: CIPHER.to_owned(),
            cipherparams: CipherParamsJson {
                iv: hex::encode(chance.iv),
            },
            ciphertext: hex::encode(ciphertext.as_slice()),
            kdf: "scrypt".to_owned(),
            kdfparams: serde_json::to_value(params).expect("numbers and text are JSON"),
            mac: hex::encode(mac(&derived, ciphertext.as_slice())),
        },
        id: Some(uuid(chance.id).into()),
        version: VERSION.into(),
    };
    serde_json::to_string(&text).expect("numbers and text are JSON")
}

/// Encrypts or decrypts, which is the same.
fn apply_cipher(derived: &[u8; DERIVED_BYTES], iv: &[u8; IV_BYTES], text: &mut [u8]) {
    let (key, _) = derived.split_at(16);
    let mut cipher = Ctr128BE::<Aes128>::new_from_slices(key, iv).expect("16 bytes each");
    cipher.apply_keystream(text);
}

fn mac(derived: &[u8; DERIVED_BYTES], ciphertext: &[u8]) -> [u8; MAC_BYTES] {
    let (_, key) = derived.split_at(16);
    // Large enough from the start: what a growing vector leaves behind is not wiped.
    let mut text = Zeroizing::new(Vec::with_capacity(key.len() + ciphertext.len()));
    text.extend_from_slice(key);
    text.extend_from_slice(ciphertext);
    keccak256(&*text).0
}

/// A random identifier in the usual form (RFC 9562, version 4).
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
            let (member, got) = ("kdf", cut(name));
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

/// The address, where there is one: 40 digits, by some clients with `0x`, by some empty.
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
    let got = cut(got);
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
    KeyFileError::Json(cut(&error.to_string()))
}

fn bad_params(error: serde_json::Error) -> KeyFileError {
    KeyFileError::Json(format!("kdfparams: {}", cut(&error.to_string())))
}

fn short(value: &Value) -> String {
    cut(&value.to_string())
}

/// So much of a foreign text as an error should repeat.
fn cut(text: &str) -> String {
    const CHARACTERS_MAX: usize = 120;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
