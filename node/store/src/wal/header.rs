//! The header of the write-ahead log, kept in two copies.
//!
//! A copy is at the start of the first and of the second page. It is: name (8), form (4), CRC-32 of
//! the rest (4), generation (8), salt (8), id of the database (8), numbers little-endian. The
//! generation counts how often the log was begun anew. The copy with the higher generation counts.
//!
//! The copies are written one after the other, each with a sync. So at any moment one of them is
//! whole, and afterwards both are the same: a damaged byte in one of them loses nothing.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use super::PAGE;
use crate::medium::Medium;

/// The first bytes of a copy.
const MAGIC: &[u8; 8] = b"vnodewal";
/// The form of the log that this module and [`super::record`] describe.
const FORM: u32 = 1;
/// Bytes of a copy.
const COPY_BYTES: usize = 40;
/// Offsets of the copies.
pub(super) const COPY_STARTS: [u64; 2] = [0, PAGE];

/// The header of a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    /// The number of times that the log was begun anew.
    generation: u64,
    /// Random; part of the checksums of this generation's records.
    pub(super) salt: u64,
    /// Id of the database that the log belongs to.
    pub(super) database: u64,
}

impl LogHeader {
    /// The header of a new log.
    pub(super) fn new(database: u64) -> Self {
        Self {
            generation: 1,
            salt: random_number(),
            database,
        }
    }

    /// The header of the next generation. Records of this one are no records of the next.
    pub(super) fn next(&self) -> Self {
        Self {
            generation: self.generation + 1,
            salt: random_number(),
            database: self.database,
        }
    }

    /// Reads the copies. Returns the newer one; `None` if both are damaged.
    pub(super) fn read(medium: &dyn Medium) -> io::Result<Option<Self>> {
        let mut newest: Option<Self> = None;
        for start in COPY_STARTS {
            let mut bytes = [0; COPY_BYTES];
            match medium.read(start, &mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                read => read?,
            }
            if let Some(copy) = Self::decode(&bytes)
                && newest.is_none_or(|newest| copy.generation > newest.generation)
            {
                newest = Some(copy);
            }
        }
        Ok(newest)
    }

    /// Writes both copies. Everything that was written before is safe then, too.
    pub(super) fn write(&self, medium: &dyn Medium) -> io::Result<()> {
        let bytes = self.encode();
        for start in COPY_STARTS {
            medium.write(start, &bytes)?;
            medium.sync()?;
        }
        Ok(())
    }

    fn encode(&self) -> [u8; COPY_BYTES] {
        let mut bytes = [0; COPY_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORM.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..].copy_from_slice(&self.database.to_le_bytes());
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; COPY_BYTES]) -> Option<Self> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let is_copy = bytes.starts_with(MAGIC)
            && bytes[8..12] == FORM.to_le_bytes()
            && bytes[12..16] == checksum(bytes).to_le_bytes();
        is_copy.then(|| Self {
            generation: number(16),
            salt: number(24),
            database: number(32),
        })
    }
}

/// CRC-32 of a copy without its checksum.
fn checksum(bytes: &[u8; COPY_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// A random number from the system.
pub(super) fn random_number() -> u64 {
    // The keys of a new hasher are random.
    RandomState::new().build_hasher().finish()
}
