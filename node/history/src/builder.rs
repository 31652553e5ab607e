//! The thread that follows the head and writes the index, and its check.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain::query_limit::{CancelFlag, QueryLimit};
use chain::trace::{CallOptions, TraceError, TraceRequest, Tracer};
use chain::{Chain, View};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use primitives::Address;
use store::StoreError;

use crate::error::IndexFileError;
use crate::file::{AddressIndex, IndexReader, Participation};
use crate::touches::{self, BlockTouches};

/// The most blocks of one commit.
const PART_BLOCKS: u64 = 1000;
/// The most accounts of one commit, over all its blocks.
const PART_ROLES: usize = 50_000;
/// The longest time until what was found is committed.
const PART_TIME: Duration = Duration::from_secs(2);
/// Time between two looks at the head.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Time until the next attempt after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two lines about the progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(8);
/// The longest time for the trace of a block. What takes longer is partial.
const TRACE_TIME: Duration = Duration::from_secs(60);
/// The newest blocks that a check runs again.
const CHECKED_BLOCKS: u64 = 1000;

/// The reason why a part of the index was not made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The file failed.
    #[error(transparent)]
    File(#[from] IndexFileError),
    /// The chain cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A block cannot be run again.
    #[error("index by address: {0}")]
    Trace(#[from] TraceError),
    /// A canonical block is missing.
    #[error("index by address: block {0} is below the head and not stored")]
    Missing(u64),
}

/// Builds the index on a thread until it is dropped.
#[derive(Debug)]
pub struct IndexBuilder {
    /// Dropping the sender ends the thread.
    stop: Option<Sender<()>>,
    cancel: CancelFlag,
    thread: Option<JoinHandle<()>>,
}

impl IndexBuilder {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error if it cannot be started.
    pub fn start(chain: Chain, index: Arc<AddressIndex>) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let cancel = CancelFlag::default();
        let flag = cancel.clone();
        let thread = std::thread::Builder::new()
            .name("address-index".to_owned())
            .spawn(move || follow(&chain, &index, &flag, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            cancel,
            thread: Some(thread),
        })
    }
}

impl Drop for IndexBuilder {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The result of a thread that panicked was printed by the panic.
            let _ = thread.join();
        }
    }
}

/// Follows the head until the sender of `stop` is gone.
fn follow(chain: &Chain, index: &AddressIndex, cancel: &CancelFlag, stop: &Receiver<()>) {
    let mut reported = Instant::now();
    let mut failure = String::new();
    loop {
        let pause = match step(chain, index, cancel) {
            Ok(Step::Done) => LOOK_INTERVAL,
            Ok(Step::Part { next, head }) => {
                failure.clear();
                if reported.elapsed() >= REPORT_INTERVAL {
                    reported = Instant::now();
                    tracing::info!(
                        block = next.saturating_sub(1),
                        head,
                        "building the index by address"
                    );
                }
                if stop.try_recv() == Err(TryRecvError::Disconnected) {
                    return;
                }
                continue;
            }
            Err(error) => {
                let text = error.to_string();
                if text != failure && !cancel.is_cancelled() {
                    tracing::error!("{text}");
                    failure = text;
                }
                RETRY_INTERVAL
            }
        };
        if stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The index has all blocks up to the head.
    Done,
    /// A part was committed; `next` is the next block.
    Part { next: u64, head: u64 },
}

/// Takes back what is not canonical, then adds a part of the blocks that are missing.
fn step(chain: &Chain, index: &AddressIndex, cancel: &CancelFlag) -> Result<Step, BuildError> {
    let view = chain.view()?;
    let head = view.head_number();
    let reader = index.read()?;
    let (before, next) = (reader.next(), canonical_end(&view, &reader)?);
    drop(reader);
    if next < before {
        index.take_back(next)?;
    }
    if next > head {
        return Ok(Step::Done);
    }
    let (begin, mut blocks, mut roles) = (Instant::now(), Vec::new(), 0);
    for number in next..=head.min(next + PART_BLOCKS - 1) {
        let block = view.block(number)?.ok_or(BuildError::Missing(number))?;
        let touches = touches::of_block(&view, &block, &request(cancel))?;
        if cancel.is_cancelled() {
            // The trace was cut off, so its block would be partial.
            break;
        }
        roles += touches.roles.len();
        blocks.push((block.hash, touches));
        if roles >= PART_ROLES || begin.elapsed() >= PART_TIME {
            break;
        }
    }
    index.append(&blocks)?;
    let next = next + blocks.len() as u64;
    Ok(Step::Part { next, head })
}

fn request(cancel: &CancelFlag) -> TraceRequest {
    let limit = QueryLimit::new(TRACE_TIME).cancelled_by(cancel);
    TraceRequest::new(Tracer::Calls(CallOptions::default()), limit)
}

/// The number of indexed blocks that are canonical in `view`. If none of those whose hashes are
/// kept is canonical, it is zero.
///
/// # Errors
/// [`BuildError`] if the index or the chain cannot be read.
pub fn canonical_end(view: &View, reader: &IndexReader<'_>) -> Result<u64, BuildError> {
    let mut end = reader.next();
    while let Some(last) = end.checked_sub(1) {
        let Some(indexed) = reader.hash(last)? else {
            return Ok(0);
        };
        if view.canonical_hash(last)? == Some(indexed) {
            break;
        }
        end = last;
    }
    Ok(end)
}

/// Compares the index with the chain: no row may be above the indexed blocks, and the newest 1,000
/// of them are run again. Returns what is wrong, in words.
///
/// # Errors
/// [`BuildError`] if the index or the chain cannot be read.
pub fn check(view: &View, index: &AddressIndex) -> Result<Vec<String>, BuildError> {
    let mut faults = Vec::new();
    let reader = index.read()?;
    let end = canonical_end(view, &reader)?;
    if end < reader.next() {
        faults.push(format!(
            "indexed blocks: got {}, of which the first {end} are canonical; the next start takes the others back",
            reader.next()
        ));
    }
    let first = end.saturating_sub(CHECKED_BLOCKS);
    let mut found: BTreeMap<(u64, Address, Option<u32>), Participation> = BTreeMap::new();
    reader.each(|address, place| {
        if place.number >= first {
            found.insert((place.number, address, place.index), place);
        }
    })?;
    for number in first..end {
        let block = view.block(number)?.ok_or(BuildError::Missing(number))?;
        let expected = touches::of_block(view, &block, &request(&CancelFlag::default()))?;
        if !expected.is_partial && !agrees(number, &expected, &mut found) {
            faults.push(format!(
                "block {number}: its accounts are not those of its transactions"
            ));
        }
    }
    if let Some((number, address, _)) = found.keys().find(|key| key.0 >= reader.next()) {
        let end = reader.next();
        faults.push(format!(
            "account {address}: got block {number}, expected less than {end}"
        ));
    }
    Ok(faults)
}

/// Whether the rows of a block are those that it should have. They are removed from `found`.
fn agrees(
    number: u64,
    expected: &BlockTouches,
    found: &mut BTreeMap<(u64, Address, Option<u32>), Participation>,
) -> bool {
    let above = found.split_off(&(number + 1, Address::ZERO, None));
    let rows = std::mem::replace(found, above);
    let rows = rows
        .into_iter()
        .map(|((_, address, index), place)| ((address, index), place.roles));
    rows.eq(expected.roles.iter().map(|(key, roles)| (*key, *roles)))
}
