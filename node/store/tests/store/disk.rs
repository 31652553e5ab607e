//! A disk in memory that fails when told to, and loses what was not synced when the power goes.
//!
//! Also used by the tests of the package `chain`.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard};

use store::Medium;

/// What a drive writes at once, or not at all.
const SECTOR: usize = 512;
/// What a file system gives at once.
const BLOCK: usize = 4096;

/// What the disk does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No space.
    Full,
    /// Writing fails.
    Broken,
    /// No space beyond what is in use: what was never written cannot be. A file system that is
    /// full does this, as files have holes where nothing was written.
    NoGrowth,
}

#[derive(Debug, Default)]
struct State {
    /// What a reader sees.
    bytes: Vec<u8>,
    /// What is there after the power was gone.
    safe: Vec<u8>,
    /// What came since: offset and data, or a new length.
    since: Vec<Change>,
    /// Blocks that were written; the others are holes.
    in_use: HashSet<usize>,
    /// Writes, lengthenings and syncs so far.
    operations: u64,
    trouble: Option<(u64, Trouble)>,
    /// No operation is taken any more: the machine is off.
    off_at: Option<u64>,
}

#[derive(Clone, Debug)]
enum Change {
    Data(usize, Vec<u8>),
    Length(usize),
}

/// The disk.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<State>);

impl Disk {
    /// A disk with these bytes.
    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(State {
            in_use: (0..=bytes.len() / BLOCK).collect(),
            safe: bytes.clone(),
            bytes,
            ..State::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Writes, lengthenings and syncs so far.
    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    /// From the operation number `at` on there is trouble, until it is taken away.
    pub(crate) fn trouble(&self, at: u64, trouble: Trouble) {
        self.state().trouble = Some((at, trouble));
    }

    pub(crate) fn no_trouble(&self) {
        self.state().trouble = None;
    }

    /// At the operation number `at` the machine goes off.
    #[allow(dead_code, reason = "not every package that shares this file cuts the power")]
    pub(crate) fn off_at(&self, at: u64) {
        self.state().off_at = Some(at);
    }

    /// What is on the disk after the power was gone: all that was synced, and of the rest
    /// whatever sectors `lucky` says.
    #[allow(dead_code, reason = "not every package that shares this file cuts the power")]
    pub(crate) fn after_power_loss(&self, mut lucky: impl FnMut() -> bool) -> Vec<u8> {
        let state = self.state();
        let mut bytes = state.safe.clone();
        for change in &state.since {
            match change {
                Change::Length(len) => {
                    if lucky() {
                        bytes.resize(*len, 0);
                    }
                }
                Change::Data(offset, data) => {
                    let mut at = *offset;
                    while at < offset + data.len() {
                        let end = ((at / SECTOR + 1) * SECTOR).min(offset + data.len());
                        if lucky() && end <= bytes.len() {
                            bytes[at..end].copy_from_slice(&data[at - offset..end - offset]);
                        }
                        at = end;
                    }
                }
            }
        }
        bytes
    }
}

impl State {
    /// Counts an operation; `needs_space`: it writes where nothing was written.
    fn operate(&mut self, needs_space: bool) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        if self.off_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the machine is off"));
        }
        match self.trouble {
            Some((at, trouble)) if number >= at => match trouble {
                Trouble::Full => Err(io::ErrorKind::StorageFull.into()),
                Trouble::NoGrowth if needs_space => Err(io::ErrorKind::StorageFull.into()),
                Trouble::NoGrowth => Ok(()),
                Trouble::Broken => Err(io::Error::other("the drive does not answer")),
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
        let there = state.bytes.get(offset..offset + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
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
            state.since.push(Change::Length(end));
        }
        state.bytes[offset..end].copy_from_slice(data);
        state.since.push(Change::Data(offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut state = self.state();
        state.operate(false)?;
        state.bytes.resize(len, 0);
        state.since.push(Change::Length(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.operate(false)?;
        let changes = std::mem::take(&mut state.since);
        for change in changes {
            match change {
                Change::Length(len) => state.safe.resize(len, 0),
                Change::Data(offset, data) => {
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
