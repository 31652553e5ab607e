//! Importing whole streams: threads read ahead and check what needs no parent, another
//! executes, and many blocks share a commit.
//!
//! Knows streams and the importer; knows neither files nor terminals. What is imported stays,
//! whatever comes after it: the same stream given again goes on where the last one ended.

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use primitives::{B256, Block, DecodeError};
use store::{BlockReads, StoreError};

use crate::import::{ImportError, Imported, Importer, PreparedBlock};
use crate::stream::{BlockStream, RawBlock, StreamError};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Most blocks of a chunk, which is checked on all processors and handed on as one.
const CHUNK_BLOCKS_MAX: usize = 64;
/// Most bytes of a chunk, but for the block that goes over it.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Most chunks that wait to be executed.
const CHUNKS_MAX: usize = 8;
/// After this time a run is committed, so that a kill costs little.
const RUN_TIME_MAX: Duration = Duration::from_secs(2);
/// A run is committed when the stream has said nothing for so long.
const IDLE_MAX: Duration = Duration::from_millis(200);
/// How often it is looked whether to stop, while the stream says nothing.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Why an import ended before its stream.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// The stream cannot be read on.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Something in the stream has a block's header and no block's body.
    #[error("block {number} ({hash}) at byte {offset}: {error}")]
    Body {
        /// Number in its header.
        number: u64,
        /// Its hash.
        hash: B256,
        /// Where it lies.
        offset: u64,
        /// What is wrong.
        error: DecodeError,
    },
    /// The stream is of another chain.
    #[error("the stream's block 0 is {got}, the data directory's is {expected}")]
    OtherGenesis {
        /// In the stream.
        got: B256,
        /// In the store.
        expected: B256,
    },
    /// A block is refused.
    #[error("block {number} ({hash}): {error}")]
    Refused {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// Why.
        error: Box<ImportError>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream holds nothing.
    #[error("there is no block in the stream")]
    Empty,
    /// It was told to stop.
    #[error("interrupted; the same stream given again goes on from here")]
    Interrupted,
    /// The thread that reads ended otherwise than by the end of the stream.
    #[error("the reading thread ended early")]
    Reader,
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkProgress {
    /// Bytes of the stream that are dealt with.
    pub bytes: u64,
    /// Blocks that were imported.
    pub blocks: u64,
    /// Blocks that were there already.
    pub known: u64,
    /// Transactions of the imported blocks.
    pub transactions: u64,
    /// Gas of the imported blocks.
    pub gas: u64,
}

/// Imports a stream. `report` is told after every commit, and has all of it at the end,
/// whatever the end is; `stop` ends the import between two blocks.
///
/// # Errors
/// [`BulkError`] when not all of the stream was imported; all before it is in the store.
pub fn import_stream(
    importer: &Importer,
    input: Box<dyn Read + Send>,
    stop: &AtomicBool,
    report: impl FnMut(&BulkProgress),
) -> Result<(), BulkError> {
    let (sender, chunks) = bounded(CHUNKS_MAX);
    let ahead = Ahead {
        importer: importer.clone(),
        stream: BlockStream::new(BufReader::with_capacity(BUFFER_BYTES, input)),
    };
    // Not scoped: a pipe that says nothing must not hold up the end.
    std::thread::Builder::new()
        .name("block-reader".to_owned())
        .spawn(move || ahead.run(&sender))
        .map_err(|source| StreamError::Read { offset: 0, source })?;
    let mut bulk = Bulk {
        importer,
        stop,
        progress: BulkProgress::default(),
        report,
        queue: Queue {
            chunks,
            blocks: VecDeque::new(),
            known: 0,
            end: 0,
            then: Then::More,
        },
    };
    loop {
        bulk.run()?;
        if !bulk.queue.blocks.is_empty() {
            if bulk.stopped() {
                return Err(BulkError::Interrupted);
            }
            continue;
        }
        // Bytes are counted by chunks.
        bulk.progress.known += std::mem::take(&mut bulk.queue.known);
        bulk.progress.bytes = bulk.queue.end;
        (bulk.report)(&bulk.progress);
        match std::mem::replace(&mut bulk.queue.then, Then::More) {
            Then::More if bulk.stopped() => return Err(BulkError::Interrupted),
            Then::More => {}
            Then::End if bulk.progress.blocks + bulk.progress.known == 0 => return Err(BulkError::Empty),
            Then::End => return Ok(()),
            Then::Fault(error) => return Err(*error),
        }
    }
}

/// Blocks in the stream's order, and what comes after them.
struct Chunk {
    blocks: Vec<PreparedBlock>,
    /// Blocks that were passed over.
    known: u64,
    /// Where the stream goes on.
    end: u64,
    then: Then,
}

enum Then {
    More,
    End,
    Fault(Box<BulkError>),
}

/// What was read and is to be executed.
struct Queue {
    chunks: Receiver<Chunk>,
    /// Blocks of the last chunk.
    blocks: VecDeque<Arc<PreparedBlock>>,
    /// Blocks that were passed over since this was last asked.
    known: u64,
    /// Where the last chunk ends.
    end: u64,
    /// What comes after it.
    then: Then,
}

impl Queue {
    /// The next block; `None` where there is none for now, for what reason ever. Waits for one
    /// while `patient` says so.
    fn next(&mut self, patient: impl Fn() -> bool) -> Option<Arc<PreparedBlock>> {
        while self.blocks.is_empty() && matches!(self.then, Then::More) && patient() {
            match self.chunks.recv_timeout(STOP_INTERVAL) {
                Ok(chunk) => {
                    self.blocks = chunk.blocks.into_iter().map(Arc::new).collect();
                    self.known += chunk.known;
                    self.end = chunk.end;
                    self.then = chunk.then;
                    if self.blocks.is_empty() {
                        // Known blocks are progress too.
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.then = Then::Fault(Box::new(BulkError::Reader)),
            }
        }
        self.blocks.pop_front()
    }
}

/// The executing side.
struct Bulk<'a, F> {
    importer: &'a Importer,
    stop: &'a AtomicBool,
    progress: BulkProgress,
    report: F,
    queue: Queue,
}

impl<F: FnMut(&BulkProgress)> Bulk<'_, F> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Imports as much as one commit should have; what no run takes goes the ordinary way,
    /// which knows side blocks and says what is wrong.
    fn run(&mut self) -> Result<(), BulkError> {
        let stop = self.stop;
        let stopped = || stop.load(Ordering::Acquire);
        // Nothing is begun before there is something to do.
        let Some(first) = self.queue.next(|| !stopped()) else {
            return Ok(());
        };
        self.queue.blocks.push_front(first);
        let mut run = Vec::new();
        let started = Instant::now();
        let imported = self.importer.import_run(Some(unix_now()), &mut || {
            let asked = Instant::now();
            if stopped() || started.elapsed() > RUN_TIME_MAX {
                return None;
            }
            let next = self.queue.next(|| !stopped() && asked.elapsed() < IDLE_MAX)?;
            run.push(next.clone());
            Some(next)
        });
        // A store that fails says so again below, for the block where it does.
        let taken = imported.map_or(0, |(taken, _)| taken);
        run[..taken].iter().for_each(|prepared| self.count(prepared));
        (self.report)(&self.progress);
        for prepared in &run[taken..] {
            if self.stopped() {
                return Err(BulkError::Interrupted);
            }
            self.take_alone(prepared)?;
        }
        Ok(())
    }

    fn take_alone(&mut self, prepared: &PreparedBlock) -> Result<(), BulkError> {
        let header = &prepared.block.header;
        match self.importer.import(&prepared.block, Some(unix_now())) {
            Ok(Imported::Known) => self.progress.known += 1,
            Ok(Imported::Side | Imported::Head { .. }) => self.count(prepared),
            Err(error) => {
                return Err(BulkError::Refused {
                    number: header.number,
                    hash: prepared.hash,
                    error: Box::new(error),
                });
            }
        }
        Ok(())
    }

    fn count(&mut self, prepared: &PreparedBlock) {
        let Block {
            header, transactions, ..
        } = &prepared.block;
        self.progress.blocks += 1;
        self.progress.transactions += transactions.len() as u64;
        self.progress.gas = self.progress.gas.saturating_add(header.gas_used);
    }
}

/// The clock, in unix seconds.
fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// The side that reads and checks ahead.
struct Ahead {
    importer: Importer,
    stream: BlockStream<BufReader<Box<dyn Read + Send>>>,
}

impl Ahead {
    /// Works until the stream ends, or nobody wants more.
    fn run(mut self, chunks: &Sender<Chunk>) {
        loop {
            let chunk = self.chunk();
            let last = !matches!(chunk.then, Then::More);
            if chunks.send(chunk).is_err() || last {
                return;
            }
        }
    }

    fn chunk(&mut self) -> Chunk {
        let mut raw = Vec::new();
        let (known, mut then) = match self.read(&mut raw) {
            (known, Ok(then)) => (known, then),
            (known, Err(error)) => (known, Then::Fault(Box::new(error))),
        };
        let (blocks, fault) = prepare(&self.importer, &raw);
        if let Some(fault) = fault {
            then = Then::Fault(Box::new(fault));
        }
        Chunk {
            blocks,
            known,
            end: self.stream.offset(),
            then,
        }
    }

    /// Reads blocks that the store does not have; says how many it has.
    fn read(&mut self, raw: &mut Vec<RawBlock>) -> (u64, Result<Then, BulkError>) {
        let mut known = 0;
        let mut read = || {
            let view = self.importer.store().snapshot()?;
            let genesis = view.canonical_hash(0)?;
            let mut bytes = 0;
            let start = self.stream.offset();
            while raw.len() < CHUNK_BLOCKS_MAX && bytes < CHUNK_BYTES_MAX {
                let Some(block) = self.stream.next_block()? else {
                    return Ok(Then::End);
                };
                match genesis {
                    Some(expected) if block.header.number == 0 && block.hash != expected => {
                        return Err(BulkError::OtherGenesis {
                            got: block.hash,
                            expected,
                        });
                    }
                    _ => {}
                }
                if view.block_number(&block.hash)?.is_some() {
                    known += 1;
                    // Many known blocks are progress too, and time to look whether to stop.
                    if self.stream.offset() - start > CHUNK_BYTES_MAX as u64 {
                        break;
                    }
                    continue;
                }
                bytes += block.rlp.len();
                raw.push(block);
                if self.stream.input().buffer().is_empty() {
                    // The next block may be long in coming, and this one need not wait for it.
                    break;
                }
            }
            Ok(Then::More)
        };
        let then = read();
        (known, then)
    }
}

/// Decodes and checks on all processors; ends before the first that is no block.
fn prepare(importer: &Importer, raw: &[RawBlock]) -> (Vec<PreparedBlock>, Option<BulkError>) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let work = || prepare_some(importer, raw, &next);
    let mut done = std::thread::scope(|scope| {
        // Where the system gives no more threads it takes longer.
        let others: Vec<_> = (1..threads.min(raw.len()))
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().expect("checking a block does not panic"));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    let mut blocks = Vec::with_capacity(raw.len());
    for (_, result) in done {
        match result {
            Ok(prepared) => blocks.push(prepared),
            Err(fault) => return (blocks, Some(fault)),
        }
    }
    (blocks, None)
}

/// Decodes and checks those that no other thread has begun with.
fn prepare_some(
    importer: &Importer,
    raw: &[RawBlock],
    next: &AtomicUsize,
) -> Vec<(usize, Result<PreparedBlock, BulkError>)> {
    let mut done = Vec::new();
    while let Some((index, raw)) = {
        let index = next.fetch_add(1, Ordering::Relaxed);
        raw.get(index).map(|raw| (index, raw))
    } {
        done.push((index, prepare_one(importer, raw)));
    }
    done
}

fn prepare_one(importer: &Importer, raw: &RawBlock) -> Result<PreparedBlock, BulkError> {
    let view = importer.store().snapshot()?;
    match raw.decode(importer.spec().tx_rules()) {
        Ok(block) => Ok(importer.prepare(&view, block)),
        Err(error) => Err(BulkError::Body {
            number: raw.header.number,
            hash: raw.hash,
            offset: raw.offset,
            error,
        }),
    }
}
