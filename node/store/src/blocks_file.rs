//! The blocks file: where its records are, and which of its bytes are free.
//!
//! The file, in pages of 4096 bytes: the header, then the records of the moves. Each move begins at
//! a page, so no page with a record that counts is written to when other records are appended. The
//! header is: name (8), form (4), CRC-32 of the rest (4), id of the database (8), numbers
//! little-endian.
//!
//! Bytes are free if neither the last commit nor a snapshot names them. After a reorganization the
//! records behind the new end stay where they are until the snapshots that may read them are gone.
//!
//! After a failed sync, systems show bytes that are not on the disk. Nothing is built on such
//! bytes: records whose sync failed are in no index and are written again as a whole. The header is
//! written again by every opening until the file has records.
//!
//! Knows bytes and offsets; what the records contain is in [`crate::ancient`].

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StoreError;
use crate::archive::ArchiveSlot;
use crate::medium::{Medium, MemoryMedium};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Offset of the first record.
pub(crate) const RECORDS_START: u64 = PAGE;
/// The first bytes of the file.
const MAGIC: &[u8; 8] = b"vnodeblk";
/// The form of the file that this module and [`crate::ancient`] describe.
const FORM: u32 = 1;
/// Bytes of the header.
const HEADER_BYTES: usize = 24;

/// The file with the old blocks of a store.
pub struct AncientFile {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    /// Whether the store was closed or opened again. Then others may write to the file.
    is_closed: AtomicBool,
    space: Mutex<FileSpace>,
    archive: ArchiveSlot,
}

/// Which bytes of the file are in use.
struct FileSpace {
    /// The end of the records that the last commit names.
    end: u64,
    /// Held by snapshots that may be of the last commit.
    readers: AncientReaders,
    /// Ends of the records that earlier commits named, as long as there may be snapshots of these
    /// commits.
    earlier: Vec<(AncientReaders, u64)>,
}

/// The lowest end of records that gives `offset` when it is rounded up to the next page; `offset`
/// if that is not the beginning of a page.
pub(crate) fn lowest_end(offset: u64) -> u64 {
    if offset.is_multiple_of(PAGE) {
        (offset - (PAGE - 1)).max(RECORDS_START)
    } else {
        offset
    }
}

/// Keeps records that a snapshot may read from being overwritten.
#[derive(Clone, Default)]
pub(crate) struct AncientReaders(Arc<()>);

impl fmt::Debug for AncientFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AncientFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl AncientFile {
    /// A file in memory, for a database in memory.
    pub(crate) fn in_memory() -> Self {
        let path = PathBuf::from("(memory) of old blocks");
        Self::with(Arc::new(MemoryMedium::default()), path, RECORDS_START)
    }

    fn with(medium: Arc<dyn Medium>, path: PathBuf, end: u64) -> Self {
        Self {
            medium,
            path,
            is_closed: AtomicBool::new(false),
            space: Mutex::new(FileSpace {
                end,
                readers: AncientReaders::default(),
                earlier: Vec::new(),
            }),
            archive: ArchiveSlot::default(),
        }
    }

    /// The same file, beside which an archive may have old blocks.
    pub(crate) fn beside(self, archive: &ArchiveSlot) -> Self {
        let archive = archive.clone();
        Self { archive, ..self }
    }

    /// The place of the archive beside the file.
    pub(crate) const fn archive(&self) -> &ArchiveSlot {
        &self.archive
    }

    /// Opens the file of the database with the id `database`, whose records end at `end`. Starts a
    /// file on an empty medium.
    ///
    /// # Errors
    /// [`StoreError::Truncated`] when the medium ends before `end`,
    /// [`StoreError::DamagedAtOpening`] when it is not the file of this database, and those of the
    /// medium. The medium is not changed then.
    pub(crate) fn open(
        medium: Arc<dyn Medium>,
        path: PathBuf,
        database: u64,
        end: u64,
    ) -> Result<Self, StoreError> {
        let failed = |source| StoreError::medium(&path, source);
        let got = medium.len().map_err(failed)?;
        if got < end && end > RECORDS_START {
            return Err(StoreError::Truncated {
                path,
                got,
                expected: end,
            });
        }
        // A file without records, as it is while it is made.
        let is_new = end == RECORDS_START && got <= RECORDS_START;
        match read_header(&*medium, got).map_err(failed)? {
            Some(found) if found == database => {}
            Some(found) => {
                let what = format!(
                    "id of the database: got {found:016x}, expected {database:016x}: it belongs to another \
                     database"
                );
                return Err(StoreError::damaged_beside(&path, what));
            }
            None if is_new => {}
            None => {
                let what = "its header is damaged, at offset 0".to_owned();
                return Err(StoreError::damaged_beside(&path, what));
            }
        }
        if end == RECORDS_START {
            write_header(&*medium, database, got).map_err(failed)?;
        }
        Ok(Self::with(medium, path, end))
    }

    /// The path for error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn space(&self) -> MutexGuard<'_, FileSpace> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Must be taken before the snapshot that holds it.
    pub(crate) fn readers(&self) -> AncientReaders {
        self.space().readers.clone()
    }

    /// The file is no longer this store's alone: every read is an error from now on.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.medium.close();
    }

    fn closed(&self) -> Option<StoreError> {
        self.is_closed
            .load(Ordering::Acquire)
            .then(|| StoreError::Closed {
                path: self.path.clone(),
            })
    }

    /// Reads `len` bytes of a part of block `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the file is closed, ends too early or cannot be read.
    pub(crate) fn read(&self, number: u64, part: &str, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        let file_len = self
            .medium
            .len()
            .map_err(|source| StoreError::medium(&self.path, source))?;
        // The index may be damaged, so its length is not trusted with memory.
        if offset.saturating_add(len) > file_len {
            let reason = format!(
                "end: got a file of {file_len} bytes, expected at least {}",
                offset + len
            );
            return Err(self.damaged(number, part, offset, &reason));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        match self.medium.read(offset, &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damaged(number, part, offset, &"the file ends in it"))
            }
            Err(source) => Err(StoreError::medium(&self.path, source)),
            Ok(()) => self.closed().map_or(Ok(bytes), Err),
        }
    }

    /// The error for a part that cannot be one that was written.
    pub(crate) fn damaged(
        &self,
        number: u64,
        part: &str,
        offset: u64,
        reason: &dyn std::fmt::Display,
    ) -> StoreError {
        self.closed().unwrap_or_else(|| StoreError::Damaged {
            path: self.path.clone(),
            what: format!("{part} of block {number} at offset {offset}: {reason}"),
        })
    }

    /// Appends records at `offset`, which was free. When this returns, they survive a crash and a
    /// power failure.
    fn append(&self, offset: u64, records: &[u8]) -> Result<(), StoreError> {
        let written = self.medium.write(offset, records);
        written
            .and_then(|()| self.medium.sync())
            .map_err(|source| StoreError::medium(&self.path, source))
    }
}

/// The changes of a batch in the file. Nothing of them counts before the commit.
#[derive(Debug)]
pub(crate) struct AncientBatch {
    file: Arc<AncientFile>,
    /// The end of the records that this batch has appended.
    appended: Cell<u64>,
    /// The end of the records that the batch's index names, if the batch has changed the index.
    end: Cell<Option<u64>>,
}

impl AncientBatch {
    pub(crate) const fn new(file: Arc<AncientFile>) -> Self {
        Self {
            file,
            appended: Cell::new(0),
            end: Cell::new(None),
        }
    }

    pub(crate) fn file(&self) -> &AncientFile {
        &self.file
    }

    /// The offset at which the next records are appended: the first page of which all bytes are
    /// free.
    pub(crate) fn next_offset(&self) -> u64 {
        let mut space = self.file.space();
        // Nobody else gets a snapshot of an earlier commit any more.
        space
            .earlier
            .retain(|(readers, _)| Arc::strong_count(&readers.0) > 1);
        let earlier = space.earlier.iter().map(|(_, end)| *end);
        let used = earlier.fold(space.end.max(self.appended.get()), u64::max);
        used.next_multiple_of(PAGE)
    }

    /// Appends records at [`Self::next_offset`]. They survive a power failure when this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails. The records do not count then.
    pub(crate) fn append(&self, offset: u64, records: &[u8]) -> Result<(), StoreError> {
        self.file.append(offset, records)?;
        self.appended.set(offset + records.len() as u64);
        Ok(())
    }

    /// Notes where the records end that the batch's index names.
    pub(crate) fn set_end(&self, end: u64) {
        self.end.set(Some(end));
    }

    /// The batch is committed, durably, and every snapshot from now on shows it.
    pub(crate) fn committed(&self) {
        let Some(end) = self.end.get() else { return };
        let mut space = self.file.space();
        if end < space.end {
            let readers = std::mem::take(&mut space.readers);
            let before = space.end;
            space.earlier.push((readers, before));
        }
        space.end = end;
    }
}

/// The id of the database in the header; `None` if the bytes are no header.
fn read_header(medium: &dyn Medium, len: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; HEADER_BYTES];
    if len < HEADER_BYTES as u64 {
        return Ok(None);
    }
    medium.read(0, &mut bytes)?;
    let database = u64::from_le_bytes(std::array::from_fn(|byte| bytes[16 + byte]));
    Ok((bytes == header(database)).then_some(database))
}

fn write_header(medium: &dyn Medium, database: u64, len: u64) -> io::Result<()> {
    if len < RECORDS_START {
        medium.set_len(RECORDS_START)?;
    }
    medium.write(0, &header(database))?;
    medium.sync()
}

pub(crate) fn header(database: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORM.to_le_bytes());
    bytes[16..].copy_from_slice(&database.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    bytes[12..16].copy_from_slice(&hasher.finalize().to_le_bytes());
    bytes
}
