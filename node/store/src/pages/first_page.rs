//! redb's first page, kept in two copies.
//!
//! The first page is the only one that redb overwrites in place. A crash during that write could
//! destroy it. So writes alternate between two copies: a copy that is synced is not overwritten
//! before the other one is synced too.
//!
//! A copy that was read is not known to be synced. After a failed sync, systems go on to show the
//! bytes that did not reach the disk, and later syncs succeed without them. So
//! [`FirstPage::make_safe`] writes the copy again, with the same bytes at the same place, and syncs
//! it. If the power fails meanwhile, either the copy was on the disk before and its bytes do not
//! change, or the other copy is the one that is safe.
//!
//! A copy is: sequence (8), logical length of the database (8), CRC-32 of the other bytes (4), all
//! little-endian; then the first 1024 bytes of the page.

use std::io;

use super::layout::PAGE;
use crate::medium::Medium;

/// Bytes of redb's first page that are kept. redb writes 320 and nothing beyond them.
pub(super) const FIRST_PAGE_BYTES: usize = 1024;
/// Bytes of a copy before the page: sequence, length, checksum.
const COPY_FRONT: usize = 20;
/// Bytes of a copy.
pub(super) const COPY_BYTES: usize = COPY_FRONT + FIRST_PAGE_BYTES;

/// redb's first page, and which copy of it is current.
#[derive(Debug)]
pub(super) struct FirstPage {
    pub(super) bytes: [u8; FIRST_PAGE_BYTES],
    /// Number of writes. The copy with the higher number is the current one.
    sequence: u64,
    /// The current copy: 0 or 1.
    pub(super) copy: u64,
    /// Whether the current copy is safe on the medium. Then the next write goes to the other copy.
    synced: bool,
}

impl FirstPage {
    /// The first page of a new database: zeros.
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; FIRST_PAGE_BYTES],
            sequence: 0,
            copy: 0,
            synced: true,
        }
    }

    /// Reads the current copy. Returns the page and the logical length stored with it; `None` if
    /// both copies are damaged. [`Self::make_safe`] must follow before the first write.
    pub(super) fn read(medium: &dyn Medium) -> io::Result<Option<(Self, u64)>> {
        let copies = [read_copy(medium, 0)?, read_copy(medium, 1)?];
        let intact = copies.into_iter().flatten();
        Ok(intact.max_by_key(|(page, _)| page.sequence))
    }

    /// Writes the copy that was read again, and syncs the medium. Then the copy is safe, and so is
    /// everything that was written before.
    pub(super) fn make_safe(&mut self, medium: &dyn Medium, len: u64) -> io::Result<()> {
        self.write_copy(medium, len)?;
        self.sync(medium)
    }

    /// Writes the page, with `len` as the logical length that the database has or is about to get.
    pub(super) fn write(&mut self, medium: &dyn Medium, len: u64) -> io::Result<()> {
        if self.synced {
            self.copy ^= 1;
            self.synced = false;
        }
        self.sequence += 1;
        self.write_copy(medium, len)
    }

    /// Writes the page to the current copy.
    fn write_copy(&self, medium: &dyn Medium, len: u64) -> io::Result<()> {
        let mut copy = [0; COPY_BYTES];
        copy[..8].copy_from_slice(&self.sequence.to_le_bytes());
        copy[8..16].copy_from_slice(&len.to_le_bytes());
        copy[COPY_FRONT..].copy_from_slice(&self.bytes);
        let checksum = copy_checksum(&copy);
        copy[16..COPY_FRONT].copy_from_slice(&checksum.to_le_bytes());
        medium.write(copy_start(self.copy), &copy)
    }

    /// Syncs the medium. Then the current copy is safe.
    pub(super) fn sync(&mut self, medium: &dyn Medium) -> io::Result<()> {
        medium.sync()?;
        self.synced = true;
        Ok(())
    }
}

/// Offset of copy 0 or 1 in the file.
pub(super) const fn copy_start(copy: u64) -> u64 {
    (1 + copy) * PAGE
}

/// Reads a copy and the length stored with it; `None` if the copy is damaged or was never written.
fn read_copy(medium: &dyn Medium, copy: u64) -> io::Result<Option<(FirstPage, u64)>> {
    let mut bytes = [0; COPY_BYTES];
    medium.read(copy_start(copy), &mut bytes)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let (sequence, len) = (number(0), number(8));
    let checksum = u32::from_le_bytes(std::array::from_fn(|byte| bytes[16 + byte]));
    if sequence == 0 || checksum != copy_checksum(&bytes) || !len.is_multiple_of(PAGE) {
        return Ok(None);
    }
    let page = FirstPage {
        bytes: std::array::from_fn(|at| bytes[COPY_FRONT + at]),
        sequence,
        copy,
        synced: false,
    };
    Ok(Some((page, len)))
}

/// Checksum of a copy: CRC-32 of all its bytes but those of the checksum.
fn copy_checksum(copy: &[u8; COPY_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&copy[..16]);
    hasher.update(&copy[COPY_FRONT..]);
    hasher.finalize()
}
