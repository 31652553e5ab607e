//! The index by address: the transactions that an account took part in, as sender, as one end of a
//! call, or by a transfer of tokens; the blocks that paid it; and the tokens it ever had.
//!
//! The index is a file of its own beside the chain ([`FILE_NAME`]). [`IndexBuilder`] follows the
//! head on a thread: it runs each block again, and writes who took part in it. So the
//! import of blocks does not wait for the index, and the index may be begun at any time. A part of
//! blocks is written with one commit, so a killed process goes on behind the last one. Blocks that
//! are no longer canonical are taken back first. Everything in the file can be made again: a
//! damaged one is deleted.
//!
//! Knows redb and chains; knows neither JSON-RPC nor options.

mod builder;
mod error;
mod file;
mod touches;

pub use builder::{BuildError, IndexBuilder, canonical_end, check};
pub use error::IndexFileError;
pub use file::{AddressIndex, FILE_NAME, IndexReader, Participation};
pub use touches::{BlockTouches, Roles};
