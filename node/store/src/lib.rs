//! The store: every redb table, the codecs of what lies in them, and versioned state.
//!
//! One file holds everything. A [`Store`] gives [`Snapshot`]s (any number, never
//! blocked) and one [`Batch`] at a time (a write transaction: all of it or none is
//! seen). Both answer the same reads through [`Source`] and the traits built on it:
//! [`BlockReads`] and [`StateReads`].
//!
//! Knows primitives and bytes. Knows no rules: what it is given it keeps, and whether a
//! block is valid is decided in the package `chain`.

mod blocks;
mod codec;
mod error;
mod later;
mod source;
mod state;
mod store;
mod tables;

pub use blocks::{BlockBody, BlockReads, HeaderRecord, TransactionPosition};
pub use error::StoreError;
pub use source::Source;
pub use state::{AccountRecord, AccountVersion, StateChanges, StateReads};
pub use store::{Batch, CACHE_BYTES_DEFAULT, FILE_NAME, Snapshot, Store, StoreOptions, TableStats, Tables};
pub use tables::{SCHEMA_VERSION, TableId, meta_key};
