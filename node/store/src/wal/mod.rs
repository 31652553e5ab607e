//! The write-ahead log: a file beside the database that makes a commit durable with one sync.
//!
//! A durable commit of redb costs two syncs, and it writes which pages are free: 131 KB for each
//! GiB of the database. So most batches are not committed that way. Their row changes are appended
//! to this log as one record ([`record`]) and synced. Then redb commits them in memory, which makes
//! them visible. Now and then redb commits durably what the log has. That is a checkpoint; after it
//! the log begins anew. An opening of the store applies the records that the database lacks
//! ([`replay`]).
//!
//! The file, in pages of 4096 bytes: two copies of the header ([`header`]), then records. Each
//! record begins at a page, so no page with a synced record is written to when another one is
//! appended. When the log begins anew, the header gets another salt, and new records overwrite the
//! old ones. So the file keeps its length, and a sync need not store a new one.
//!
//! After a failed write or sync a log begins anew after a checkpoint, or it is opened again, which
//! finds out whether the last record counts.
//!
//! Knows records and where they are; knows neither redb nor when a checkpoint is made.

mod header;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use crate::StoreError;
use crate::medium::Medium;
use header::{COPY_STARTS, LogHeader, random_number};
pub(crate) use record::{RowChanges, row_changes, row_changes_of};
pub(crate) use replay::NewRecord;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Offset of the first record.
const RECORDS_START: u64 = COPY_STARTS.len() as u64 * PAGE;

/// The position of a database in its log, as the database says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Id of the database.
    pub(crate) database: u64,
    /// Sequence of the last batch that the database has.
    pub(crate) sequence: u64,
}

impl LogPosition {
    /// The position of a new database, which gets a random id.
    pub(crate) fn begin() -> Self {
        Self {
            database: random_number(),
            sequence: 0,
        }
    }
}

/// An open write-ahead log. Only the holder of the write permit uses it.
#[derive(Debug)]
pub(crate) struct WriteAheadLog {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    header: LogHeader,
    /// The offset of the next record.
    end: u64,
    /// Sequence of the last batch, in the log or not.
    sequence: u64,
}

impl WriteAheadLog {
    /// Starts a log on an empty medium, for a database at `position`. The log is durable then.
    ///
    /// # Errors
    /// The errors of the medium.
    pub(crate) fn create(
        medium: Arc<dyn Medium>,
        path: PathBuf,
        position: LogPosition,
    ) -> Result<Self, StoreError> {
        let log = Self {
            medium,
            path,
            header: LogHeader::new(position.database),
            end: RECORDS_START,
            sequence: position.sequence,
        };
        let started = log
            .medium
            .set_len(RECORDS_START)
            .and_then(|()| log.header.write(&*log.medium));
        started.map_err(|source| StoreError::medium(&log.path, source))?;
        Ok(log)
    }

    /// Whether there are no records.
    pub(crate) const fn is_empty(&self) -> bool {
        self.end == RECORDS_START
    }

    /// The position that the database must have with the next batch.
    pub(crate) const fn next_position(&self) -> LogPosition {
        LogPosition {
            database: self.header.database,
            sequence: self.sequence + 1,
        }
    }

    /// Whether the log with a record of these changes has at most `log_bytes` bytes of records.
    pub(crate) fn has_room(&self, changes: &RowChanges, log_bytes: usize) -> bool {
        let len = changes.record_len();
        len.is_some_and(|len| self.end + len <= RECORDS_START + log_bytes as u64)
    }

    /// Appends the record of the next batch. When this returns, the record survives a crash and a
    /// power failure.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails. Then the log must begin anew after a checkpoint that
    /// has this batch, or be opened again. The record counts if all of it is there.
    pub(crate) fn append(&mut self, changes: RowChanges) -> Result<(), StoreError> {
        let record = changes.into_record(self.header.salt, self.sequence + 1);
        let written = self.medium.write(self.end, &record);
        written
            .and_then(|()| self.medium.sync())
            .map_err(|source| StoreError::medium(&self.path, source))?;
        self.end += record.len() as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Notes that the database has all batches up to the next one, durably. Removes all records.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails. Then the log must be opened again.
    pub(crate) fn begin_anew(&mut self, sequence: u64) -> Result<(), StoreError> {
        self.sequence = sequence;
        if self.is_empty() {
            return Ok(());
        }
        self.header = self.header.next();
        let written = self.header.write(&*self.medium);
        written.map_err(|source| StoreError::medium(&self.path, source))?;
        self.end = RECORDS_START;
        Ok(())
    }

    /// Sequence of the last batch.
    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }
}
