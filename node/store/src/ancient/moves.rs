//! Moves blocks from rows into the blocks file, and back.

use primitives::B256;

use super::record::PartEncoder;
use super::{AncientPlace, BlockPart, INDEX, in_archive, last_place, place_of, read_part};
use crate::blocks_file::RECORDS_START;
use crate::canonical::canonical_hash;
use crate::codec::block_key;
use crate::compression::CONTENT_BYTES_MAX;
use crate::row_error::RowError;
use crate::source::Source;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

/// A move ends with the block that makes its records longer than this.
const MOVE_BYTES_MAX: usize = 32 << 20;

impl Tables<'_> {
    /// Moves the bodies and receipts of canonical blocks from their rows into the blocks file: up
    /// to block `last`, from the first that is not there yet. Long blocks end the move earlier.
    /// Removes the side blocks at the heights of the moved blocks that no block above builds on.
    ///
    /// The file has the blocks when this returns. If it has no space, nothing is moved.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails, or when a row is missing.
    pub fn move_to_file(&mut self, last: u64) -> Result<(), StoreError> {
        let (first, mut end) = last_place(self)?.map_or((0, RECORDS_START), |(number, place)| {
            (number.saturating_add(1), place.end())
        });
        let mut records = Vec::new();
        let mut moved = Vec::new();
        let offset = self.ancient().next_offset();
        let no_memory = |source| StoreError::medium(self.ancient().file().path(), source);
        let mut encoder = PartEncoder::new().map_err(no_memory)?;
        for number in first..=last {
            if records.len() > MOVE_BYTES_MAX {
                break;
            }
            let Some(block) = self.encode_block(&mut encoder, number, (offset, end), &mut records)? else {
                break;
            };
            end = block.1.end();
            moved.push(block);
        }
        let Some((AncientBlock { number: last, .. }, _)) = moved.last().copied() else {
            return Ok(());
        };
        if !records.is_empty() {
            match self.ancient().append(offset, &records) {
                // The blocks stay rows.
                Err(error) if error.wants_space() => return Ok(()),
                appended => self.note_failure(appended)?,
            }
        }
        for (block, place) in &moved {
            self.put(INDEX, &block.number.to_be_bytes(), &place.encode())?;
            for part in BlockPart::ALL {
                self.delete(part.table(), &block_key(block.number, &block.hash))?;
            }
        }
        self.ancient().set_end(end);
        self.delete_dead_branches(first, last)
    }

    /// Appends the record of a canonical block to `records`, which begin at `offset`. Returns where
    /// it is; `None` for a block that is too long for the file. A block that the archive has gets
    /// no record, and the place `end`: that of the end of the records before.
    fn encode_block(
        &self,
        encoder: &mut PartEncoder,
        number: u64,
        (offset, end): (u64, u64),
        records: &mut Vec<u8>,
    ) -> Result<Option<(AncientBlock, AncientPlace)>, StoreError> {
        let key = number.to_be_bytes();
        let missing = |table, key: &[u8]| RowError::Missing.in_row(table, key);
        let hash = canonical_hash(self, number)?.ok_or_else(|| missing(TableId::NumberToHash, &key))?;
        let key = block_key(number, &hash);
        let begin = records.len();
        let mut place = AncientPlace {
            offset: offset + begin as u64,
            lens: [0; 2],
        };
        if in_archive::has_block(self, number, &hash)? {
            return Ok(Some((
                AncientBlock { number, hash },
                AncientPlace::in_archive(end),
            )));
        }
        for (part, len) in BlockPart::ALL.into_iter().zip(&mut place.lens) {
            let encoded = self.with(part.table(), &key, |row| {
                let fits = row.len() <= CONTENT_BYTES_MAX;
                fits.then(|| encoder.encode(number, part, &hash, row, records))
            })?;
            let Some(encoded) = encoded.ok_or_else(|| missing(part.table(), &key))? else {
                records.truncate(begin);
                return Ok(None);
            };
            *len = encoded.map_err(|source| StoreError::medium(self.ancient().file().path(), source))?;
        }
        Ok(Some((AncientBlock { number, hash }, place)))
    }

    /// Makes the parts of a canonical block rows again if they are in the blocks file. The block
    /// must be the last one there.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails, or when other blocks follow in the file.
    pub(crate) fn take_from_file(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        if place_of(self, number)?.is_none() {
            return Ok(());
        }
        let key = number.to_be_bytes();
        if let Some((last, _)) = last_place(self)?
            && last != number
        {
            let error = RowError::Differs {
                field: "last block of the file",
                got: last,
                expected: number,
            };
            return Err(error.in_row(INDEX, &key));
        }
        for part in BlockPart::ALL {
            let row = read_part(self, part, number, hash);
            let row = self.note_failure(row)?.ok_or_else(|| {
                let reason = format!("{hash} is not the canonical block {number}");
                StoreError::corrupt(INDEX, &key, reason)
            })?;
            self.put(part.table(), &block_key(number, hash), &row)?;
        }
        self.delete(INDEX, &key)?;
        let end = last_place(self)?.map_or(RECORDS_START, |(_, place)| place.end());
        self.ancient().set_end(end);
        Ok(())
    }
}

/// Number and hash of a block that is moved.
#[derive(Clone, Copy, Debug)]
struct AncientBlock {
    number: u64,
    hash: B256,
}
