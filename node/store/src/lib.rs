//! The store: every redb table, the codecs of what lies in them, and versioned state.
//!
//! One file holds everything. A [`Store`] gives [`Snapshot`]s (any number, never
//! blocked) and one [`Batch`] at a time (a write transaction: all of it or none is
//! seen). Both answer the same reads through [`Source`] and the traits built on it:
//! [`BlockReads`], [`StateReads`], [`NoticeReads`], [`LogReads`] and [`LogIndexReads`].
//!
//! Knows primitives and bytes. Knows no rules: what it is given it keeps, and whether a
//! block is valid is decided in the package `chain`.

mod batch;
mod blocks;
mod codec;
mod error;
mod guard;
mod later;
mod log_index;
mod logs;
mod medium;
mod notices;
mod open;
mod pages;
mod snapshot;
mod source;
mod state;
mod store;
mod tables;

pub use batch::{Batch, Tables};
pub use blocks::{BlockBody, BlockReads, HeaderRecord, TransactionPosition};
pub use error::StoreError;
pub use guard::quiet_contained_panics;
pub use log_index::{LogIndexReads, LogKey};
pub use logs::{LogReads, StoredLog};
pub use medium::{Medium, sync_name};
pub use notices::{Notice, NoticeReads};
pub use open::FILE_NAME;
pub use snapshot::{Head, Snapshot, TableStats};
pub use source::Source;
pub use state::{AccountRecord, AccountVersion, StateChanges, StateReads};
pub use store::{CACHE_BYTES_DEFAULT, Store, StoreOptions};
pub use tables::{SCHEMA_VERSION, TableId, meta_key};
