//! Reads the blocks of an Era1 file, from its first byte to its last.
//!
//! A block is given as soon as it was read. What can be checked without its parent is checked
//! before: order, numbers, parent hashes, checksums of the compression, and the sums of the
//! difficulties within the file. The end of the file is checked when it is reached: accumulator,
//! index and name.

use std::io::{BufRead, Read};
use std::path::PathBuf;

use alloy_rlp::Header as RlpHeader;
use primitives::rlp::RlpReader;
use primitives::{B256, Bytes, Header, U256, keccak256};

use super::accumulator::accumulator;
use super::entry::{EntryType, decompress, fixed, read_data, read_header, skip_data};
use super::{Era1Error, Era1FileError, Era1Name, FILE_BLOCKS_MAX};
use crate::stream::{BlockSource, BlockStreamError, RawBlock};
use crate::trie::ordered_root;

/// Reads the blocks of one file.
#[derive(Debug)]
pub struct Era1Reader<R> {
    input: Counted<R>,
    path: PathBuf,
    /// Number of the first block.
    first: u64,
    /// Hash and total difficulty of each block so far.
    blocks: Vec<(B256, U256)>,
    /// The offset of each block's first entry.
    offsets: Vec<u64>,
    is_at_end: bool,
}

impl<R: BufRead> Era1Reader<R> {
    /// A reader of `input`, which is read from its first byte. `path` is for errors; if it has the
    /// form of [`Era1Name`], the content must fit to it.
    pub const fn new(input: R, path: PathBuf) -> Self {
        Self {
            input: Counted { input, offset: 0 },
            path,
            first: 0,
            blocks: Vec::new(),
            offsets: Vec::new(),
            is_at_end: false,
        }
    }

    /// The next block; `None` at the end of a whole file.
    ///
    /// # Errors
    /// [`Era1FileError`] with the first fault. After it the file cannot be read any further.
    pub fn read_block(&mut self) -> Result<Option<RawBlock>, Era1FileError> {
        if self.is_at_end {
            return Ok(None);
        }
        let result = if self.blocks.is_empty() {
            self.read_version().and_then(|()| self.try_next())
        } else {
            self.try_next()
        };
        result.map_err(|error| Era1FileError {
            path: self.path.clone(),
            block: self.place_of(&error),
            error: Box::new(error),
        })
    }

    /// The number of the block at which `error` was found, if that is known.
    fn place_of(&self, error: &Era1Error) -> Option<u64> {
        match error {
            Era1Error::Accumulator { .. }
            | Era1Error::Index { .. }
            | Era1Error::Trailing
            | Era1Error::Name { .. } => self.first.checked_add(self.blocks.len() as u64 - 1),
            // The number of the first block is not known before its header was read.
            _ if self.blocks.is_empty() => Era1Name::of(&self.path).map(|name| name.number * FILE_BLOCKS_MAX),
            _ => Some(self.next_number()),
        }
    }

    const fn next_number(&self) -> u64 {
        self.first.saturating_add(self.blocks.len() as u64)
    }

    fn read_version(&mut self) -> Result<(), Era1Error> {
        match read_header(&mut self.input)? {
            Some((Some(EntryType::Version), 0)) => Ok(()),
            Some((Some(EntryType::Version), got)) => Err(Era1Error::Length {
                what: EntryType::Version.name(),
                got,
                expected: "0".to_owned(),
            }),
            Some((entry, _)) => Err(Era1Error::Order {
                got: entry_name(entry),
                expected: "the version of an e2store file",
            }),
            None => Err(Era1Error::Order {
                got: "an empty file",
                expected: "the version of an e2store file",
            }),
        }
    }

    fn try_next(&mut self) -> Result<Option<RawBlock>, Era1Error> {
        let (offset, entry, length) = self.next_entry("a header or the accumulator")?;
        match entry {
            EntryType::Accumulator if !self.blocks.is_empty() => {
                self.read_end(length)?;
                self.is_at_end = true;
                Ok(None)
            }
            EntryType::Header => self.rest_of_block(offset, length).map(Some),
            other => Err(Era1Error::Order {
                got: other.name(),
                expected: "a header",
            }),
        }
    }

    /// Reads a block whose first entry begins at `offset`.
    fn rest_of_block(&mut self, offset: u64, length: u64) -> Result<RawBlock, Era1Error> {
        if self.blocks.len() as u64 >= FILE_BLOCKS_MAX {
            return Err(Era1Error::TooMany { max: FILE_BLOCKS_MAX });
        }
        let header_rlp = decompress(
            EntryType::Header,
            &read_data(&mut self.input, EntryType::Header, length)?,
        )?;
        let header = Header::decode(&header_rlp)?;
        let hash = keccak256(&header_rlp);
        if let Some((parent, _)) = self.blocks.last() {
            if header.number != self.next_number() {
                return Err(Era1Error::Number {
                    got: header.number,
                    expected: self.next_number(),
                });
            }
            if header.parent_hash != *parent {
                return Err(Era1Error::ParentHash {
                    got: header.parent_hash,
                    expected: *parent,
                });
            }
        }
        let body = self.expect(EntryType::Body)?;
        let rlp = block_rlp(&header_rlp, &decompress(EntryType::Body, &body)?)?;
        let receipts = self.expect(EntryType::Receipts)?;
        let total = self.expect(EntryType::TotalDifficulty)?;
        let total = U256::from_le_bytes(fixed(EntryType::TotalDifficulty, &total)?);
        let before = match self.blocks.last() {
            Some((_, before)) => Some(*before),
            None => (header.number == 0).then_some(U256::ZERO),
        };
        if let Some(expected) = before.map(|before| before.saturating_add(header.difficulty))
            && total != expected
        {
            return Err(Era1Error::TotalDifficulty { got: total, expected });
        }
        if self.blocks.is_empty() {
            self.first = header.number;
        }
        self.blocks.push((hash, total));
        self.offsets.push(offset);
        Ok(RawBlock {
            offset,
            hash,
            header,
            rlp,
            published: Some((receipts.into(), total)),
        })
    }

    /// Reads accumulator, index and the end of the file.
    fn read_end(&mut self, length: u64) -> Result<(), Era1Error> {
        let entry = EntryType::Accumulator;
        let got = B256::from(fixed(entry, &read_data(&mut self.input, entry, length)?)?);
        let expected = accumulator(&self.blocks);
        if got != expected {
            return Err(Era1Error::Accumulator { got, expected });
        }
        let (start, entry, length) = self.next_entry("the index")?;
        if entry != EntryType::Index {
            return Err(Era1Error::Order {
                got: entry.name(),
                expected: "the index",
            });
        }
        let index = read_data(&mut self.input, entry, length)?;
        check_index(&index, self.first, start, &self.offsets)?;
        if read_header(&mut self.input)?.is_some() {
            return Err(Era1Error::Trailing);
        }
        match Era1Name::of(&self.path) {
            Some(name) => name.check(self.first, &expected),
            None => Ok(()),
        }
    }

    /// The offset of the next entry of a known type, the type, and the length of its data.
    fn next_entry(&mut self, expected: &'static str) -> Result<(u64, EntryType, u64), Era1Error> {
        loop {
            let offset = self.input.offset;
            match read_header(&mut self.input)? {
                Some((Some(entry), length)) => return Ok((offset, entry, length)),
                Some((None, length)) => skip_data(&mut self.input, length)?,
                None => {
                    return Err(Era1Error::Order {
                        got: "the end of the file",
                        expected,
                    });
                }
            }
        }
    }

    /// The data of the next entry, which must have this type.
    fn expect(&mut self, expected: EntryType) -> Result<Vec<u8>, Era1Error> {
        let (_, entry, length) = self.next_entry(expected.name())?;
        if entry != expected {
            return Err(Era1Error::Order {
                got: entry.name(),
                expected: expected.name(),
            });
        }
        read_data(&mut self.input, entry, length)
    }
}

impl<R: BufRead + Send> BlockSource for Era1Reader<R> {
    fn next_block(&mut self) -> Result<Option<RawBlock>, BlockStreamError> {
        self.read_block()
            .map_err(|error| BlockStreamError::Source(Box::new(error)))
    }

    fn offset(&self) -> u64 {
        self.input.offset
    }

    fn has_more(&mut self) -> bool {
        // A file does not let its reader wait.
        true
    }
}

/// The names of known types, and of others.
fn entry_name(entry: Option<EntryType>) -> &'static str {
    entry.map_or("an entry of another type", EntryType::name)
}

/// Compares an index with the numbers and places that were read. `start` is the offset of the
/// index.
fn check_index(index: &[u8], first: u64, start: u64, offsets: &[u64]) -> Result<(), Era1Error> {
    let count = offsets.len() as u64;
    let equal = |what, got: i128, expected: i128| {
        if got == expected {
            return Ok(());
        }
        Err(Era1Error::Index { what, got, expected })
    };
    equal("bytes", index.len() as i128, i128::from(16 + 8 * count))?;
    let mut words = index
        .chunks_exact(8)
        .map(|word| i64::from_le_bytes(word.try_into().expect("chunks of 8 bytes")));
    let mut next = || i128::from(words.next().unwrap_or_default());
    equal("first block", next(), i128::from(first))?;
    for offset in offsets {
        equal(
            "offset of a block",
            next(),
            i128::from(*offset) - i128::from(start),
        )?;
    }
    equal("number of blocks", next(), i128::from(count))
}

/// The RLP of the block with this header and this body, which is a list of transactions and uncles.
pub(super) fn block_rlp(header: &[u8], body: &[u8]) -> Result<Vec<u8>, Era1Error> {
    let parts = RlpReader::open(body, "body")?.rest();
    let list = RlpHeader {
        list: true,
        payload_length: header.len() + parts.len(),
    };
    let mut rlp = Vec::with_capacity(list.length_with_payload());
    list.encode(&mut rlp);
    rlp.extend_from_slice(header);
    rlp.extend_from_slice(parts);
    Ok(rlp)
}

/// Compares the compressed receipts of a block in a file with the root in its header.
///
/// # Errors
/// [`Era1Error`] if they are no receipts, or those of another block.
pub fn check_receipts(receipts: &Bytes, header: &Header) -> Result<(), Era1Error> {
    let receipts = decompress(EntryType::Receipts, receipts)?;
    let mut list = RlpReader::open(&receipts, "receipts")?;
    let mut leaves = Vec::new();
    while !list.is_empty() {
        // A receipt with a type is a string of the bytes that the trie has.
        leaves.push(match list.rest().first() {
            Some(0..=0xbf) => list.slice("receipt")?,
            _ => list.raw("receipt")?,
        });
    }
    let got = ordered_root(leaves);
    if got == header.receipts_root {
        return Ok(());
    }
    Err(Era1Error::ReceiptsRoot {
        got,
        expected: header.receipts_root,
    })
}

/// Counts the bytes that are read.
#[derive(Debug)]
struct Counted<R> {
    input: R,
    offset: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(bytes)?;
        self.offset += read as u64;
        Ok(read)
    }
}
