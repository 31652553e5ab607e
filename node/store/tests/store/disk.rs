//! A disk in memory that can fail, with the files of a store.
//!
//! The tests of the package `chain` use this file too. Power failures and failed syncs are in
//! `power_loss`, which only the tests of the store use.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use store::{Medium, Store, StoreError, StoreMedia, StoreOptions};

/// Bytes that a file system allocates at once.
const BLOCK: usize = 4096;

/// The fault of a disk.
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

/// A file of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Database,
    Log,
    Blocks,
}

/// Number of files.
pub(crate) const FILES: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct DiskState {
    /// By [`FileName`].
    pub(crate) files: [FileState; FILES],
    /// Number of writes, length changes and syncs so far.
    operations: u64,
    /// The number of the first operation that fails, and how.
    fault: Option<(u64, DiskFault)>,
    /// The number of the operation at which the machine goes off. It and all later ones fail.
    pub(crate) off_at: Option<u64>,
    /// The number of the operation whose sync fails, if it is a sync. A failed sync may lose what
    /// it should have written, although reads still show it.
    pub(crate) lost_sync_at: Option<u64>,
    /// The next sync fails as that one does.
    pub(crate) loses_next_sync: bool,
    /// Syncs say that they have written, and write nothing.
    pub(crate) forgets_syncs: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    /// The bytes that a reader sees.
    pub(crate) bytes: Vec<u8>,
    /// The bytes at the last sync. They survive a power failure.
    pub(crate) safe: Vec<u8>,
    /// Changes since the last sync.
    pub(crate) unsynced: Vec<UnsyncedChange>,
    /// Numbers of the blocks that were written. The other blocks are holes.
    in_use: HashSet<usize>,
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
pub(crate) struct Disk(pub(crate) Mutex<DiskState>);

/// A file of the disk as the store sees it.
#[derive(Debug)]
struct DiskFile {
    disk: Arc<Disk>,
    name: FileName,
}

impl Disk {
    /// A disk whose files have these bytes.
    pub(crate) fn with(files: [Vec<u8>; FILES]) -> Self {
        Self(Mutex::new(DiskState {
            files: files.map(|bytes| FileState {
                in_use: (0..=bytes.len() / BLOCK).collect(),
                safe: bytes.clone(),
                bytes,
                ..FileState::default()
            }),
            ..DiskState::default()
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().expect("no holder panics")
    }

    /// The bytes of all files.
    pub(crate) fn bytes(&self) -> [Vec<u8>; FILES] {
        self.state().files.each_ref().map(|file| file.bytes.clone())
    }

    /// The files of the store on this disk.
    pub(crate) fn media(self: &Arc<Self>) -> StoreMedia {
        let file = |name| {
            Arc::new(DiskFile {
                disk: self.clone(),
                name,
            })
        };
        StoreMedia {
            database: file(FileName::Database),
            log: file(FileName::Log),
            blocks: file(FileName::Blocks),
        }
    }

    /// Opens the store on this disk.
    pub(crate) fn open_store(self: &Arc<Self>, options: &StoreOptions) -> Result<Store, StoreError> {
        Store::on_media(&self.media(), options)
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
    /// block that was never written. Returns the operation's number.
    fn operate(&mut self, needs_space: bool) -> io::Result<u64> {
        let number = self.operations;
        self.operations += 1;
        if self.off_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the machine is off"));
        }
        match self.fault {
            Some((at, fault)) if number >= at => match fault {
                DiskFault::Full => Err(io::ErrorKind::StorageFull.into()),
                DiskFault::NoGrowth if needs_space => Err(io::ErrorKind::StorageFull.into()),
                DiskFault::NoGrowth => Ok(number),
                DiskFault::Broken => Err(io::Error::other("the drive does not answer")),
            },
            _ => Ok(number),
        }
    }
}

impl FileState {
    /// Makes a change survive a power failure.
    fn save(&mut self, change: UnsyncedChange) {
        match change {
            UnsyncedChange::Length(len) => self.safe.resize(len, 0),
            UnsyncedChange::Data(offset, data) => {
                let end = offset + data.len();
                if self.safe.len() < end {
                    self.safe.resize(end, 0);
                }
                self.safe[offset..end].copy_from_slice(&data);
            }
        }
    }
}

impl FileState {
    /// Makes a third of a change survive a power failure, in small pieces: what a failed sync has
    /// written.
    fn save_parts(&mut self, change: UnsyncedChange, seed: usize) {
        const PIECE: usize = 16;
        let survives = |piece: usize| (seed + piece).is_multiple_of(3);
        match change {
            UnsyncedChange::Data(offset, data) => {
                for (index, piece) in data.chunks(PIECE).enumerate().filter(|piece| survives(piece.0)) {
                    self.save(UnsyncedChange::Data(offset + index * PIECE, piece.to_vec()));
                }
            }
            UnsyncedChange::Length(_) if survives(0) => self.save(change),
            UnsyncedChange::Length(_) => {}
        }
    }
}

impl Medium for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.name as usize].bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let state = self.disk.state();
        let bytes = &state.files[self.name as usize].bytes;
        let source = bytes.get(offset..offset + out.len());
        out.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let end = offset + data.len();
        let mut state = self.disk.state();
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let in_use = &state.files[self.name as usize].in_use;
        let needs_space = blocks.clone().any(|block| !in_use.contains(&block));
        state.operate(needs_space)?;
        let file = &mut state.files[self.name as usize];
        file.in_use.extend(blocks);
        if end > file.bytes.len() {
            file.bytes.resize(end, 0);
            file.unsynced.push(UnsyncedChange::Length(end));
        }
        file.bytes[offset..end].copy_from_slice(data);
        file.unsynced.push(UnsyncedChange::Data(offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        state.operate(false)?;
        let file = &mut state.files[self.name as usize];
        file.bytes.resize(len, 0);
        file.unsynced.push(UnsyncedChange::Length(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let number = state.operate(false)?;
        if state.forgets_syncs {
            return Ok(());
        }
        let is_lost = std::mem::take(&mut state.loses_next_sync) || state.lost_sync_at == Some(number);
        let file = &mut state.files[self.name as usize];
        for (index, change) in std::mem::take(&mut file.unsynced).into_iter().enumerate() {
            if is_lost {
                file.save_parts(change, number as usize + index);
            } else {
                file.save(change);
            }
        }
        if is_lost {
            return Err(io::Error::other("the sync failed"));
        }
        Ok(())
    }
}
