//! Single blocks of a folder of Era1 files, for a store that has no copy of them.
//!
//! The index at the end of a file says where its blocks are. It is read when the folder is opened.
//! Each read opens the file again: a chain has thousands of files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use primitives::rlp::RlpReader;
use primitives::{B256, Block, Receipt, keccak256};
use store::{ArchiveError, ArchivedBody, BlockArchive};

use super::entry::{EntryType, HEADER_BYTES, decompress, read_data, read_header};
use super::reader::block_rlp;
use super::{Era1Error, Era1FileError, FILE_BLOCKS_MAX, era1_files};
use crate::rules::body::senders;
use crate::spec::ChainSpec;

/// The RLP of a block's header and of another part of the block.
struct PartOfBlock {
    header: Vec<u8>,
    part: Vec<u8>,
}

/// The blocks of one file by its index.
#[derive(Clone, Debug)]
pub struct Era1Index {
    path: PathBuf,
    first: u64,
    count: u64,
    /// The offset of the index.
    start: u64,
}

impl Era1Index {
    /// Reads the index of the file at `path`.
    ///
    /// # Errors
    /// [`Era1FileError`] if the file ends without an index.
    pub fn open(path: &Path) -> Result<Self, Era1FileError> {
        Self::read(path).map_err(|error| Era1FileError {
            path: path.to_owned(),
            block: None,
            error: Box::new(error),
        })
    }

    fn read(path: &Path) -> Result<Self, Era1Error> {
        /// Bytes of an index beside its offsets: entry, first number, count.
        const FIXED: u64 = HEADER_BYTES + 16;
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let cut = || Era1Error::Order {
            got: "a file without an index at its end",
            expected: "a whole Era1 file",
        };
        let end = length.checked_sub(8).ok_or_else(cut)?;
        let count = read_number(&mut file, end)?;
        if count == 0 || count > FILE_BLOCKS_MAX {
            return Err(cut());
        }
        let bytes = FIXED + 8 * count;
        let start = length.checked_sub(bytes).ok_or_else(cut)?;
        file.seek(SeekFrom::Start(start))?;
        match read_header(&mut file)? {
            Some((Some(EntryType::Index), length)) if length == bytes - HEADER_BYTES => {}
            _ => return Err(cut()),
        }
        let first = read_number(&mut file, start + HEADER_BYTES)?;
        first.checked_add(count).ok_or_else(cut)?;
        Ok(Self {
            path: path.to_owned(),
            first,
            count,
            start,
        })
    }

    /// The number of its first block.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The number of its last block.
    pub const fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// Hash of its last block.
    ///
    /// # Errors
    /// [`Era1FileError`] if the file is damaged there.
    pub fn last_hash(&self) -> Result<B256, Era1FileError> {
        let hash = || -> Result<B256, Era1Error> {
            let mut file = self.seek(self.last())?;
            Ok(keccak256(read_compressed(&mut file, EntryType::Header)?))
        };
        hash().map_err(|error| self.fault(self.last(), error))
    }

    const fn has(&self, number: u64) -> bool {
        self.first <= number && number - self.first < self.count
    }

    /// The open file at the first entry of block `number`, which it has.
    fn seek(&self, number: u64) -> Result<File, Era1Error> {
        let mut file = File::open(&self.path)?;
        let at = self.start + HEADER_BYTES + 8 + 8 * (number - self.first);
        let got = read_number(&mut file, at)?.cast_signed();
        let offset = self.start.checked_add_signed(got);
        let offset = offset
            .filter(|offset| *offset < self.start)
            .ok_or_else(|| Era1Error::Index {
                what: "offset of a block",
                got: got.into(),
                expected: -1,
            })?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file)
    }

    /// The RLP of the header of block `number`, which must have `hash`, and of the entry `wanted`.
    fn part(&self, number: u64, hash: &B256, wanted: EntryType) -> Result<PartOfBlock, Era1Error> {
        let mut file = self.seek(number)?;
        let header = read_compressed(&mut file, EntryType::Header)?;
        let got = keccak256(&header);
        if got != *hash {
            let expected = *hash;
            return Err(Era1Error::Hash { got, expected });
        }
        if wanted == EntryType::Receipts {
            find(&mut file, EntryType::Body, true)?;
        }
        let part = read_compressed(&mut file, wanted)?;
        Ok(PartOfBlock { header, part })
    }

    fn fault(&self, number: u64, error: Era1Error) -> Era1FileError {
        Era1FileError {
            path: self.path.clone(),
            block: Some(number),
            error: Box::new(error),
        }
    }
}

/// The 8 bytes at `offset`, as a number.
fn read_number(file: &mut File, offset: u64) -> Result<u64, Era1Error> {
    let mut bytes = [0; 8];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The length of the next entry's data, which must be of this type. Others that are not known are
/// skipped, and with `skip` the data, too.
fn find(file: &mut File, expected: EntryType, skip: bool) -> Result<u64, Era1Error> {
    loop {
        let (entry, length) = read_header(file)?.ok_or(Era1Error::Order {
            got: "the end of the file",
            expected: expected.name(),
        })?;
        if entry.is_some_and(|entry| entry != expected) {
            return Err(Era1Error::Order {
                got: entry.map_or("another entry", EntryType::name),
                expected: expected.name(),
            });
        }
        if skip || entry.is_none() {
            file.seek_relative(length as i64)?;
        }
        if entry.is_some() {
            return Ok(length);
        }
    }
}

fn read_compressed(file: &mut File, entry: EntryType) -> Result<Vec<u8>, Era1Error> {
    let length = find(file, entry, false)?;
    decompress(entry, &read_data(file, entry, length)?)
}

/// The blocks of a folder of Era1 files.
#[derive(Debug)]
pub struct Era1Archive {
    spec: Arc<ChainSpec>,
    /// In the order of their first blocks.
    files: Vec<Era1Index>,
}

impl Era1Archive {
    /// Reads the indices of the files in `folder`, which are of the chain with this spec.
    ///
    /// # Errors
    /// [`Era1FileError`] if the folder cannot be read, or for the first file without an index.
    pub fn open(folder: &Path, spec: Arc<ChainSpec>) -> Result<Self, Era1FileError> {
        let paths = era1_files(folder).map_err(|error| Era1FileError {
            path: folder.to_owned(),
            block: None,
            error: Box::new(error.into()),
        })?;
        let files = paths.iter().map(|path| Era1Index::open(path));
        let mut files = files.collect::<Result<Vec<_>, _>>()?;
        files.sort_by_key(|file| (file.first, file.count));
        Ok(Self { spec, files })
    }

    /// The number of blocks in the files.
    pub fn blocks(&self) -> u64 {
        self.files.iter().map(|file| file.count).sum()
    }

    /// The content of an entry of block `number` with `hash`, behind its header; `None` if no file
    /// has the number.
    fn read(&self, number: u64, hash: &B256, entry: EntryType) -> Result<Option<PartOfBlock>, ArchiveError> {
        let upper = self.files.partition_point(|file| file.first <= number);
        let Some(file) = self.files[..upper].iter().rev().find(|file| file.has(number)) else {
            return Ok(None);
        };
        file.part(number, hash, entry)
            .map(Some)
            .map_err(|error| archive_error(file, error))
    }

    fn file_error(&self, number: u64, error: Era1Error) -> ArchiveError {
        match self.files.iter().find(|file| file.has(number)) {
            Some(file) => archive_error(file, error),
            None => ArchiveError {
                path: PathBuf::new(),
                reason: error.to_string(),
            },
        }
    }
}

fn archive_error(file: &Era1Index, error: Era1Error) -> ArchiveError {
    ArchiveError {
        path: file.path.clone(),
        reason: error.to_string(),
    }
}

impl BlockArchive for Era1Archive {
    fn body(&self, number: u64, hash: &B256) -> Result<Option<Vec<u8>>, ArchiveError> {
        let body = self.read(number, hash, EntryType::Body)?;
        Ok(body.map(|body| body.part))
    }

    fn body_with_senders(&self, number: u64, hash: &B256) -> Result<Option<ArchivedBody>, ArchiveError> {
        let Some(PartOfBlock { header, part: body }) = self.read(number, hash, EntryType::Body)? else {
            return Ok(None);
        };
        let failed = |error| self.file_error(number, error);
        let rlp = block_rlp(&header, &body).map_err(failed)?;
        let block = Block::decode(&rlp, self.spec.tx_rules()).map_err(|error| failed(error.into()))?;
        let senders = senders(&self.spec, number, &block.transactions)
            .map_err(|error| failed(Era1Error::Body(error)))?;
        Ok(Some(ArchivedBody { senders, rlp: body }))
    }

    fn receipts(&self, number: u64, hash: &B256) -> Result<Option<Vec<Receipt>>, ArchiveError> {
        let Some(PartOfBlock { part: rlp, .. }) = self.read(number, hash, EntryType::Receipts)? else {
            return Ok(None);
        };
        let decode = || -> Result<Vec<Receipt>, Era1Error> {
            let mut list = RlpReader::open(&rlp, "receipts")?;
            let mut receipts = Vec::new();
            while !list.is_empty() {
                receipts.push(Receipt::decode_item(
                    list.raw("receipt")?,
                    self.spec.receipt_form(),
                )?);
            }
            Ok(receipts)
        };
        decode().map(Some).map_err(|error| self.file_error(number, error))
    }
}
