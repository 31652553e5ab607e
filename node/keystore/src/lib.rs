//! The accounts of a node: their key files, and the keys of those that are unlocked.
//!
//! [`AccountBook`] says which accounts there are and lends unlocked keys; [`KeyDirectory`] is a
//! folder of key files; [`encrypt`] and [`decrypt`] are one key file's text, version 3 of the
//! Web3 secret storage, as other clients of this family read and write it.
//!
//! Knows no transactions, no requests and no terminal: who may sign what is decided by the caller,
//! and so is where a password comes from. Secret keys, derived keys and decrypted bytes wipe
//! themselves; nothing here shows or logs one.

mod book;
mod directory;
mod kdf;
mod name;
mod v3;

pub use book::{AccountBook, AccountError, Clock, HeldAccount, UnlockError};
pub use directory::{DirectoryError, KeyDirectory, Listing, Skipped, StoredAccount, url};
pub use kdf::{
    KdfError, PBKDF2_ROUNDS_MAX, SCRYPT_BLOCKS_MAX, SCRYPT_BYTES_MAX, SCRYPT_FACTOR_MAX, ScryptCost,
};
pub use v3::{FILE_BYTES_MAX, KeyFileError, decrypt, encrypt};
