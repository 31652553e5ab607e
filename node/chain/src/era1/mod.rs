//! Era1 files: blocks of a chain with their receipts and total difficulties, as they are published.
//!
//! A file is a list of entries: type (2 bytes), length (4), two zero bytes, data. Numbers are
//! little-endian. The order is: version, then header, body, receipts and total difficulty for each
//! block, then the accumulator and the index. Headers, bodies and receipts are RLP in the framing
//! format of Snappy. Entries of other types are skipped. A file has at most [`FILE_BLOCKS_MAX`]
//! blocks, and file N of a chain begins with block N times that. The accumulator is the root of
//! the list of block hashes and total difficulties ([`accumulator`]). Source: the published format
//! `formats/era1.md` of eth-clients/e2store-format-specs.
//!
//! | what | module |
//! |---|---|
//! | reads a file from its first byte to its last | [`Era1Reader`] |
//! | writes a file | [`Era1Writer`] |
//! | reads single blocks of a folder of files, for the store | [`Era1Archive`] |
//! | the name of a file | [`Era1Name`] |
//!
//! Whether a block is valid is decided in [`crate::import`].

pub mod accumulator;
mod archive;
mod entry;
mod error;
mod name;
mod reader;
mod writer;

pub use archive::{Era1Archive, Era1Index};
pub use error::{Era1Error, Era1FileError};
pub use name::{Era1Name, era1_files};
pub use reader::{Era1Reader, check_receipts};
pub use writer::Era1Writer;

/// The most blocks of a file.
pub const FILE_BLOCKS_MAX: u64 = 8192;

/// The first byte of a file. No RLP list begins with it.
pub const FIRST_BYTE: u8 = 0x65;
