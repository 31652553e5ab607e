//! The accounts of a node: their key files, and the keys of those that are unlocked.
//!
//! [`AccountManager`] says which accounts there are and lends unlocked keys; [`KeyDirectory`] is a
//! folder of key files; [`encrypt`] and [`decrypt`] are one key file's text, version 3 of the
//! Web3 secret storage, as other clients of this family read and write it.
//!
//! Knows no transactions, no requests and no terminal: who may sign what is decided by the caller,
//! and so is where a password comes from. Secret keys, derived keys and decrypted bytes wipe
//! themselves; nothing here shows or logs one.

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
