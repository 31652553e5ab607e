//! Copies all rows of a snapshot into another store, in the order of their keys.
//!
//! Pages that are filled in this order are full, and lie behind each other. Each page that is read
//! is compared with its checksum.
//!
//! Knows tables; knows nothing of what rows mean, and of files.

use std::ops::ControlFlow;

use crate::ancient::indexed_end;
use crate::blocks_file::RECORDS_START;
use crate::source::Source;
use crate::{Snapshot, Store, StoreError, TableId, Tables};

/// Bytes of rows in a batch.
const BATCH_BYTES: u64 = 64 << 20;
/// Bytes of old blocks that are copied at once.
const CHUNK_BYTES: u64 = 8 << 20;
/// Rows between two calls of the observer.
const REPORT_ROWS: u64 = 10_000;
/// Memory for pages of the new database, in bytes.
pub(crate) const COPY_CACHE_BYTES: usize = 64 << 20;

/// The rows and bytes that were copied so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Rows of tables. A copy that is compared afterwards counts each of them twice.
    pub rows: u64,
    /// Rows that there are.
    pub rows_total: u64,
    /// Bytes of rows and of old blocks.
    pub bytes: u64,
}

/// Hears of the progress, and says whether to go on.
pub type CopyObserver<'a> = dyn FnMut(CopyProgress) -> ControlFlow<()> + 'a;

/// The reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Reading or writing failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The observer ended it.
    #[error("stopped; nothing was written")]
    Stopped,
}

/// A checksum of rows, their order included.
#[derive(Clone, Debug, Default)]
struct RowChecksum(crc32fast::Hasher);

impl RowChecksum {
    fn add(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.0.update(&[table as u8]);
        for part in [key, value] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }
}

/// A copy that is made.
pub(crate) struct RowCopy<'a> {
    view: &'a Snapshot,
    /// The progress so far.
    pub(crate) done: CopyProgress,
    observe: &'a mut CopyObserver<'a>,
    checksum: RowChecksum,
}

impl<'a> RowCopy<'a> {
    /// Begins a copy of what `view` shows. Calls `observe` now and then.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    pub(crate) fn new(view: &'a Snapshot, observe: &'a mut CopyObserver<'a>) -> Result<Self, StoreError> {
        let mut done = CopyProgress::default();
        for table in TableId::ALL {
            done.rows_total += view.rows(table)?;
        }
        Ok(Self {
            view,
            done,
            observe,
            checksum: RowChecksum::default(),
        })
    }

    /// Writes all rows into the new store `store`, and the records of old blocks if `old_blocks` is
    /// set.
    ///
    /// # Errors
    /// [`CopyError`].
    pub(crate) fn write(&mut self, store: &Store, old_blocks: bool) -> Result<(), CopyError> {
        for table in TableId::ALL {
            let mut from = Some(Vec::new());
            while let Some(low) = from.take() {
                let batch = store.batch()?;
                batch.write(|tables| {
                    if old_blocks && table == TableId::NumberToAncient && low.is_empty() {
                        self.copy_old_blocks(tables)?;
                    }
                    from = self.copy_batch(tables, table, &low)?;
                    Ok::<_, CopyError>(())
                })?;
                batch.commit()?;
            }
        }
        Ok(())
    }

    /// Reads all rows of the copy. Returns whether they are those that were written.
    ///
    /// # Errors
    /// [`CopyError`].
    pub(crate) fn is_equal(&mut self, copy: &Snapshot) -> Result<bool, CopyError> {
        let mut checksum = RowChecksum::default();
        for table in TableId::ALL {
            let mut ended = Ok(());
            copy.scan(table, &[], |key, value| {
                checksum.add(table, key, value);
                ended = self.count_row();
                if ended.is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            ended?;
        }
        Ok(checksum.0.finalize() == self.checksum.0.clone().finalize())
    }

    /// Counts a row that was written or compared.
    fn count_row(&mut self) -> Result<(), CopyError> {
        self.done.rows += 1;
        if self.done.rows.is_multiple_of(REPORT_ROWS) {
            return self.report();
        }
        Ok(())
    }

    fn report(&mut self) -> Result<(), CopyError> {
        match (self.observe)(self.done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(CopyError::Stopped),
        }
    }

    /// Copies rows of a table from the key `low` on, at most a batch. Returns the next key, if
    /// there is one.
    fn copy_batch(
        &mut self,
        tables: &mut Tables<'_>,
        table: TableId,
        low: &[u8],
    ) -> Result<Option<Vec<u8>>, CopyError> {
        let (begin, mut next, mut ended) = (self.done.bytes, None, Ok(()));
        self.view.scan(table, low, |key, value| {
            if self.done.bytes - begin >= BATCH_BYTES {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            self.checksum.add(table, key, value);
            self.done.bytes += (key.len() + value.len()) as u64;
            ended = tables
                .put(table, key, value)
                .map_err(CopyError::from)
                .and_then(|()| self.count_row());
            if ended.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        ended.map(|()| next)
    }

    /// Copies the records of old blocks to the same offsets. Their index counts from the commit on.
    fn copy_old_blocks(&mut self, tables: &Tables<'_>) -> Result<(), CopyError> {
        let mut end = Ok(RECORDS_START);
        let last = &[0xff; 9];
        self.view
            .visit_last(TableId::NumberToAncient, &[], last, &mut |key, row| {
                end = indexed_end(key, row);
            })?;
        let end = end?;
        let mut offset = RECORDS_START;
        while offset < end {
            let len = CHUNK_BYTES.min(end - offset);
            let bytes = self.view.ancient_file().read(0, "a record", offset, len)?;
            tables.ancient().append(offset, &bytes)?;
            offset += len;
            self.done.bytes += len;
            self.report()?;
        }
        if end > RECORDS_START {
            tables.ancient().set_end(end);
        }
        Ok(())
    }
}
