//! A disk in memory that can fail.
//!
//! The tests of the package `chain` use this file too. Power failures are in `power_loss`, which
//! only the tests of the store use.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard};

use store::Medium;

/// Bytes that a file system allocates at once.
const BLOCK: usize = 4096;

/// How the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// Every operation fails for lack of space.
    Full,
    /// Every operation fails with an error of the drive.
    Broken,
    /// Writes to blocks that were never written fail for lack of space. A full file system does
    /// this, because a file has holes where nothing was written.
    NoGrowth,
}

#[derive(Debug, Default)]
pub(crate) struct DiskState {
    /// The bytes that a reader sees.
    pub(crate) bytes: Vec<u8>,
    /// The bytes at the last sync. They survive a power failure.
    pub(crate) safe: Vec<u8>,
    /// Changes since the last sync.
    pub(crate) unsynced: Vec<UnsyncedChange>,
    /// Numbers of the blocks that were written. The other blocks are holes.
    in_use: HashSet<usize>,
    /// Number of writes, length changes and syncs so far.
    operations: u64,
    /// The number of the first operation that fails, and how.
    fault: Option<(u64, DiskFault)>,
    /// The number of the operation at which the machine goes off. It and all later ones fail.
    pub(crate) off_at: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum UnsyncedChange {
    /// Data at an offset.
    Data(usize, Vec<u8>),
    /// A new length.
    Length(usize),
}

/// The disk in memory.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<DiskState>);

impl Disk {
    /// A disk with these bytes.
    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(DiskState {
            in_use: (0..=bytes.len() / BLOCK).collect(),
            safe: bytes.clone(),
            bytes,
            ..DiskState::default()
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().expect("no holder panics")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Number of writes, length changes and syncs so far.
    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes operations fail, from number `at` on, until [`Self::repair`].
    pub(crate) fn fail_from(&self, at: u64, fault: DiskFault) {
        self.state().fault = Some((at, fault));
    }

    /// Ends the failure of operations.
    pub(crate) fn repair(&self) {
        self.state().fault = None;
    }
}

impl DiskState {
    /// Counts an operation and lets it fail if it should. `needs_space` says whether it writes to a
    /// block that was never written.
    fn operate(&mut self, needs_space: bool) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        if self.off_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the machine is off"));
        }
        match self.fault {
            Some((at, fault)) if number >= at => match fault {
                DiskFault::Full => Err(io::ErrorKind::StorageFull.into()),
                DiskFault::NoGrowth if needs_space => Err(io::ErrorKind::StorageFull.into()),
                DiskFault::NoGrowth => Ok(()),
                DiskFault::Broken => Err(io::Error::other("the drive does not answer")),
            },
            _ => Ok(()),
        }
    }
}

impl Medium for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let state = self.state();
        let source = state.bytes.get(offset..offset + out.len());
        out.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let end = offset + data.len();
        let mut state = self.state();
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let needs_space = blocks.clone().any(|block| !state.in_use.contains(&block));
        state.operate(needs_space)?;
        state.in_use.extend(blocks);
        if end > state.bytes.len() {
            state.bytes.resize(end, 0);
            state.unsynced.push(UnsyncedChange::Length(end));
        }
        state.bytes[offset..end].copy_from_slice(data);
        state.unsynced.push(UnsyncedChange::Data(offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut state = self.state();
        state.operate(false)?;
        state.bytes.resize(len, 0);
        state.unsynced.push(UnsyncedChange::Length(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.operate(false)?;
        let changes = std::mem::take(&mut state.unsynced);
        for change in changes {
            match change {
                UnsyncedChange::Length(len) => state.safe.resize(len, 0),
                UnsyncedChange::Data(offset, data) => {
                    let end = offset + data.len();
                    if state.safe.len() < end {
                        state.safe.resize(end, 0);
                    }
                    state.safe[offset..end].copy_from_slice(&data);
                }
            }
        }
        Ok(())
    }
}
