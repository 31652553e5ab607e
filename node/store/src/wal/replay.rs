//! Opens a write-ahead log that a program left: finds its records, and what is wrong with them.
//!
//! The last record may be incomplete, because the program died while it was appended. It is cut
//! off. If another record follows an incomplete one, bytes were damaged later, because a record is
//! appended only when the one before is safe. Then the log cannot be opened, and it is not changed.
//!
//! Reads may show bytes that are not on the disk: after a failed sync, systems go on to show what
//! they have lost, and later syncs succeed. So the header and all records that count are written
//! again, with the same bytes at the same places, and synced before anything is built on them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::header::{COPY_STARTS, LogHeader};
use super::record::{FRONT, RecordFront};
use super::{LogPosition, PAGE, RECORDS_START, WriteAheadLog};
use crate::StoreError;
use crate::medium::Medium;
use crate::row_error::RowError;

/// Bytes that are written again at once.
const COPIED_BYTES: u64 = 1 << 20;

/// The reason why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
enum LogDamage {
    #[error("both copies of its header are damaged, at offsets {} and {}", .offsets[0], .offsets[1])]
    Headers { offsets: [u64; 2] },
    #[error(
        "id of the database: got {got:016x}, expected {expected:016x}: it is the log of another database"
    )]
    OtherDatabase { got: u64, expected: u64 },
    #[error(
        "its first record, at offset {offset}, has sequence {got}, expected at most {bound}: the database is older than its log"
    )]
    OldDatabase { offset: u64, got: u64, bound: u64 },
    #[error("the record at offset {offset} has sequence {got}, expected {expected}")]
    Sequence { offset: u64, got: u64, expected: u64 },
    #[error("the record at offset {offset} is damaged: record {next} follows at offset {next_offset}")]
    Record {
        offset: u64,
        next: u64,
        next_offset: u64,
    },
}

/// A record that the database lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord {
    /// Offset in the log.
    offset: u64,
    /// Number of bytes of its changes.
    len: u32,
    /// Its sequence.
    pub(crate) sequence: u64,
}

impl WriteAheadLog {
    /// Opens the log of the database that is at `position`. Returns it with the records that the
    /// database lacks, in order. They are safe on the medium.
    ///
    /// # Errors
    /// [`StoreError::DamagedAtOpening`] when the log is damaged or does not fit to the database,
    /// and those of the medium.
    pub(crate) fn open(
        medium: Arc<dyn Medium>,
        path: PathBuf,
        position: LogPosition,
    ) -> Result<(Self, Vec<NewRecord>), StoreError> {
        let failed = |source| StoreError::medium(&path, source);
        let damaged = |what: LogDamage| StoreError::damaged_beside(&path, what.to_string());
        let header = LogHeader::read(&*medium).map_err(failed)?;
        let header = header.ok_or_else(|| damaged(LogDamage::Headers { offsets: COPY_STARTS }))?;
        if header.database != position.database {
            return Err(damaged(LogDamage::OtherDatabase {
                got: header.database,
                expected: position.database,
            }));
        }
        let found = find_records(&*medium, &header)
            .map_err(failed)?
            .map_err(damaged)?;
        if let Some(first) = found.records.first()
            && first.sequence > position.sequence + 1
        {
            return Err(damaged(LogDamage::OldDatabase {
                offset: first.offset,
                got: first.sequence,
                bound: position.sequence + 1,
            }));
        }
        let mut log = Self {
            medium,
            header,
            end: found.end,
            sequence: found.records.last().map_or(0, |last| last.sequence),
            path: path.clone(),
        };
        if log.sequence <= position.sequence && !log.is_empty() {
            // After the last checkpoint the log did not begin anew.
            log.begin_anew(position.sequence)?;
        } else {
            log.sequence = log.sequence.max(position.sequence);
            log.make_safe().map_err(failed)?;
        }
        let mut records = found.records;
        records.retain(|record| record.sequence > position.sequence);
        Ok((log, records))
    }

    /// Reads the changes of a record.
    ///
    /// # Errors
    /// The errors of the medium.
    pub(crate) fn read_changes(&self, record: &NewRecord) -> Result<Vec<u8>, StoreError> {
        let mut changes = vec![0; record.len as usize];
        let read = self.medium.read(record.offset + FRONT as u64, &mut changes);
        read.map_err(|source| StoreError::medium(&self.path, source))?;
        Ok(changes)
    }

    /// The error for a record whose changes cannot be read.
    pub(crate) fn damaged_record(&self, record: &NewRecord, what: &RowError) -> StoreError {
        let what = format!("record {} at offset {}: {what}", record.sequence, record.offset);
        StoreError::damaged_beside(&self.path, what)
    }

    /// Writes the records and the header again, and syncs them.
    fn make_safe(&self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut offset = RECORDS_START;
        while offset < self.end {
            let len = (self.end - offset).min(COPIED_BYTES);
            bytes.resize(len as usize, 0);
            self.medium.read(offset, &mut bytes)?;
            self.medium.write(offset, &bytes)?;
            offset += len;
        }
        self.header.write(&*self.medium)
    }
}

/// The whole records of a log.
struct FoundRecords {
    records: Vec<NewRecord>,
    /// The offset of the next record.
    end: u64,
}

/// Finds the whole records. The inner error says what is damaged.
fn find_records(medium: &dyn Medium, header: &LogHeader) -> io::Result<Result<FoundRecords, LogDamage>> {
    let len = medium.len()?;
    let mut found = FoundRecords {
        records: Vec::new(),
        end: RECORDS_START,
    };
    let mut changes = Vec::new();
    while let Some(front) = read_front(medium, header, found.end, len)? {
        let end = found.end + front.record_len();
        if end > len {
            break;
        }
        changes.resize(front.len as usize, 0);
        medium.read(found.end + FRONT as u64, &mut changes)?;
        if crc32fast::hash(&changes) != front.checksum {
            break;
        }
        if let Some(last) = found.records.last()
            && front.sequence != last.sequence + 1
        {
            return Ok(Err(LogDamage::Sequence {
                offset: found.end,
                got: front.sequence,
                expected: last.sequence + 1,
            }));
        }
        found.records.push(NewRecord {
            offset: found.end,
            len: front.len,
            sequence: front.sequence,
        });
        found.end = end;
    }
    // Nothing may follow an incomplete record.
    for offset in (found.end..len).step_by(PAGE as usize).skip(1) {
        if let Some(front) = read_front(medium, header, offset, len)? {
            return Ok(Err(LogDamage::Record {
                offset: found.end,
                next: front.sequence,
                next_offset: offset,
            }));
        }
    }
    Ok(Ok(found))
}

/// Reads the front of a record at `offset`; `None` if there is none.
fn read_front(
    medium: &dyn Medium,
    header: &LogHeader,
    offset: u64,
    len: u64,
) -> io::Result<Option<RecordFront>> {
    let mut bytes = [0; FRONT];
    if offset + FRONT as u64 > len {
        return Ok(None);
    }
    medium.read(offset, &mut bytes)?;
    Ok(RecordFront::decode(header.salt, &bytes))
}
