//! Old blocks: their bodies and receipts, compressed, in a file that only grows.
//!
//! A block that no reorganization is likely to reach needs no rows that can change. So the bodies
//! and receipts of old canonical blocks are moved to the file `chain.blocks`
//! ([`crate::blocks_file`]), some blocks at a time ([`moves`]).
//! [`TableId::NumberToAncient`](crate::TableId::NumberToAncient) says where they are. It has the
//! numbers from 0 to that of the last moved block, without gaps.
//!
//! A move appends to the file, syncs it, and then writes the index rows in the same batch in which
//! the moved rows are removed. So the index is the truth after a crash: what it names is on the
//! disk, and bytes behind the last record that it names are overwritten some day. If a
//! reorganization reaches a moved block, its parts become rows again in the same batch.
//!
//! Each part of a block has a checksum of its own ([`record`]), so a read of the receipts reads and
//! decompresses nothing else. A block of which an archive has the same parts has a row without a
//! length, and nothing in the file ([`crate::archive`]). Whoever reads a block reads it with
//! [`with_part`], which looks at the rows first.

mod in_archive;
mod moves;
mod record;
#[cfg(test)]
pub(crate) mod tests;

use primitives::B256;

use crate::blocks_file::{RECORDS_START, lowest_end};
use crate::canonical::canonical_hash;
use crate::codec::{RowReader, block_key, fixed_number, push_number};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::{StoreError, TableId};
use record::decode_part;

const INDEX: TableId = TableId::NumberToAncient;

/// A part of a block that has a row, or a place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockPart {
    Body,
    Receipts,
}

impl BlockPart {
    const ALL: [Self; 2] = [Self::Body, Self::Receipts];

    /// The table of the part's rows.
    pub(crate) const fn table(self) -> TableId {
        match self {
            Self::Body => TableId::BlockToBody,
            Self::Receipts => TableId::BlockToReceipts,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Receipts => "receipts",
        }
    }
}

/// The place of a block in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AncientPlace {
    /// The offset of the record.
    offset: u64,
    /// Bytes of each part, in the order of [`BlockPart::ALL`].
    lens: [u64; 2],
}

impl AncientPlace {
    fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(12);
        for number in [self.offset, self.lens[0], self.lens[1]] {
            push_number(&mut row, number);
        }
        row
    }

    fn decode(row: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(row);
        let place = Self {
            offset: reader.number()?,
            lens: [reader.number()?, reader.number()?],
        };
        reader.finish()?;
        let end = place.lens.into_iter().try_fold(place.offset, u64::checked_add);
        match end {
            Some(_) if place.offset >= RECORDS_START => Ok(place),
            _ => Err(RowError::Place {
                offset: place.offset,
                lens: place.lens,
                lowest: RECORDS_START,
            }),
        }
    }

    /// The place of a block that the archive has. The records before it end at `end`.
    const fn in_archive(end: u64) -> Self {
        Self {
            offset: end,
            lens: [0; 2],
        }
    }

    /// Whether the archive has the block. Each part in the file has a checksum, so none is empty.
    const fn is_in_archive(&self) -> bool {
        matches!(self.lens, [0, 0])
    }

    /// The offset behind the record.
    const fn end(&self) -> u64 {
        self.offset + self.lens[0] + self.lens[1]
    }

    /// Offset and bytes of a part.
    const fn part(&self, part: BlockPart) -> (u64, u64) {
        match part {
            BlockPart::Body => (self.offset, self.lens[0]),
            BlockPart::Receipts => (self.offset + self.lens[0], self.lens[1]),
        }
    }
}

/// The place of block `number`; `None` if it is not in the file.
fn place_of(source: &impl Source, number: u64) -> Result<Option<AncientPlace>, StoreError> {
    read_row(source, INDEX, &number.to_be_bytes(), AncientPlace::decode)
}

/// The last block in the file, with its place; `None` if the file has none.
fn last_place(source: &impl Source) -> Result<Option<(u64, AncientPlace)>, StoreError> {
    source
        .with_last(INDEX, &[], &u64::MAX.to_be_bytes(), indexed)?
        .transpose()
}

/// Number and place by a row of the index.
fn indexed(key: &[u8], row: &[u8]) -> Result<(u64, AncientPlace), StoreError> {
    let read = || Ok((fixed_number(key)?, AncientPlace::decode(row)?));
    read().map_err(|error: RowError| error.in_row(INDEX, key))
}

/// The end of the record that a row of the index names.
///
/// Stores of earlier programs have places of archived blocks that were rounded up to the next page.
/// So for such a place it is the lowest end that the records before can have.
///
/// # Errors
/// [`StoreError`] when the row is corrupt.
pub(crate) fn indexed_end(key: &[u8], row: &[u8]) -> Result<u64, StoreError> {
    let (_, place) = indexed(key, row)?;
    Ok(if place.is_in_archive() {
        lowest_end(place.offset)
    } else {
        place.end()
    })
}

/// Calls `read` with a part of the block `number` with `hash`, from its row or from the file. The
/// bytes are the same. `None` if the part is not stored.
///
/// # Errors
/// [`StoreError`] when the read fails, or when the part in the file is damaged.
pub(crate) fn with_part<R>(
    source: &impl Source,
    part: BlockPart,
    number: u64,
    hash: &B256,
    read: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>, StoreError> {
    let mut unused = Some(read);
    let found = source.with(part.table(), &block_key(number, hash), |row| {
        unused.take().map(|read| read(row))
    })?;
    let Some(read) = unused else {
        return Ok(found.flatten());
    };
    Ok(read_part(source, part, number, hash)?.map(|row| read(&row)))
}

/// The row that a part of a block had before it was moved; `None` if it is not in the file.
fn read_part(
    source: &impl Source,
    part: BlockPart,
    number: u64,
    hash: &B256,
) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(place) = place_of(source, number)? else {
        return Ok(None);
    };
    // The file has canonical blocks only.
    if canonical_hash(source, number)? != Some(*hash) {
        return Ok(None);
    }
    let file = source.ancient_file();
    if place.is_in_archive() {
        return in_archive::read_part(file, part, number, hash).map(Some);
    }
    let (offset, len) = place.part(part);
    let bytes = file.read(number, part.name(), offset, len)?;
    decode_part(number, part, hash, &bytes)
        .map(Some)
        .map_err(|error| file.damaged(number, part.name(), offset, &error))
}

/// A block whose place in the file was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AncientRow {
    /// Number of the block.
    pub number: u64,
    /// Bytes of its record.
    pub len: u64,
}

/// Reads of the index of the file.
pub trait AncientReads: Source + Sized {
    /// The number of blocks in the file. Their numbers begin with 0 and have no gaps.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the last row of the index is corrupt.
    fn ancient_count(&self) -> Result<u64, StoreError> {
        Ok(last_place(self)?.map_or(0, |(number, _)| number.saturating_add(1)))
    }

    /// Whether the first or the last old block is in the archive, so that the store needs it.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row of the index is corrupt.
    fn needs_archive(&self) -> Result<bool, StoreError> {
        let first = place_of(self, 0)?;
        let last = last_place(self)?.map(|(_, place)| place);
        Ok([first, last]
            .into_iter()
            .flatten()
            .any(|place| place.is_in_archive()))
    }

    /// The rows that the block `number` with `hash` had before it was moved, with their tables.
    /// Empty if the block is not in the file.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails, or when a part in the file is damaged.
    fn ancient_rows(&self, number: u64, hash: &B256) -> Result<Vec<(TableId, Vec<u8>)>, StoreError> {
        let row = |part| Ok(read_part(self, part, number, hash)?.map(|row| (BlockPart::table(part), row)));
        BlockPart::ALL
            .into_iter()
            .filter_map(|part| row(part).transpose())
            .collect()
    }

    /// Calls `visit` with each block of the file. A row that is corrupt, or that does not follow
    /// the row before, is an error that the walk goes on after: numbers must not have gaps, and
    /// records must not overlap.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn scan_ancient(&self, mut visit: impl FnMut(Result<AncientRow, StoreError>)) -> Result<(), StoreError> {
        let (mut next, mut free) = (0u64, RECORDS_START);
        self.scan(INDEX, &[], |key, row| {
            let row = indexed(key, row).and_then(|(number, place)| {
                let expected = (next, free);
                (next, free) = (number.wrapping_add(1), place.end());
                if number != expected.0 || place.offset < expected.1 {
                    let reason = format!(
                        "got block {number} at offset {}, expected block {} at {} or later",
                        place.offset, expected.0, expected.1
                    );
                    return Err(StoreError::corrupt(INDEX, key, reason));
                }
                let len = place.end() - place.offset;
                Ok(AncientRow { number, len })
            });
            visit(row);
            std::ops::ControlFlow::Continue(())
        })
    }
}

impl<S: Source> AncientReads for S {}
