//! The accounts of a node: their key files, and the keys of unlocked accounts.
//!
//! - [`AccountManager`] knows which accounts exist and gives access to unlocked keys.
//! - [`KeyDirectory`] is a folder of key files.
//! - [`encrypt`] and [`decrypt`] write and read the text of one key file. The format is version 3
//!   of the Web3 secret storage, which other clients of the Ethereum family read and write too.
//!
//! Knows no transactions, no requests and no terminal. Callers decide who may sign what, and where
//! a password comes from. Secret keys, derived keys and decrypted bytes are wiped from memory when
//! they are dropped. Nothing here displays or logs a key.

mod directory;
mod kdf;
mod manager;
mod name;
mod v3;

pub use directory::{KeyDirectory, KeyDirectoryError, KeyDirectoryListing, SkippedFile, StoredAccount, url};
pub use kdf::{
    KdfError, PBKDF2_ROUNDS_MAX, SCRYPT_BLOCKS_MAX, SCRYPT_BYTES_MAX, SCRYPT_FACTOR_MAX, ScryptCost,
};
pub use manager::{AccountError, AccountManager, AccountStatus, MonotonicClock, UnlockError};
pub use v3::{FILE_BYTES_MAX, KeyFileError, decrypt, encrypt};
