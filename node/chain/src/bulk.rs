//! Importing whole streams: one thread reads ahead and checks what needs no parent, another
//! executes, and many blocks share a commit.
//!
//! Knows streams and the importer; knows neither files nor terminals. What is imported stays,
//! whatever comes after it: the same stream given again goes on where the last one ended.

use crate::import::{ImportError, Imported, Importer, Prepared};
use crate::stream::{BlockStream, RawBlock, StreamError};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use primitives::{B256, Block, DecodeError};
use std::io::{BufReader, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{BlockReads, StoreError};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Most blocks that are checked ahead at once.
const CHUNK_BLOCKS_MAX: usize = 256;
/// Most bytes that are checked ahead at once, but for the block that goes over it.
const CHUNK_BYTES_MAX: usize = 8 << 20;
/// After this time a run is committed, so that a kill costs little.
const RUN_TIME_MAX: Duration = Duration::from_secs(2);
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
    let (sender, chunks) = bounded(1);
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
    };
    loop {
        let chunk = bulk.next(&chunks)?;
        bulk.take(&chunk.blocks)?;
        bulk.progress.known += chunk.known;
        bulk.progress.bytes = chunk.end;
        (bulk.report)(&bulk.progress);
        match chunk.then {
            Then::More => {}
            Then::End if bulk.progress.blocks + bulk.progress.known == 0 => return Err(BulkError::Empty),
            Then::End => return Ok(()),
            Then::Fault(error) => return Err(*error),
        }
    }
}

/// Blocks in the stream's order, and what comes after them.
struct Chunk {
    blocks: Vec<Prepared>,
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

/// The executing side.
struct Bulk<'a, F> {
    importer: &'a Importer,
    stop: &'a AtomicBool,
    progress: BulkProgress,
    report: F,
}

impl<F: FnMut(&BulkProgress)> Bulk<'_, F> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn next(&self, chunks: &Receiver<Chunk>) -> Result<Chunk, BulkError> {
        while !self.stopped() {
            match chunks.recv_timeout(STOP_INTERVAL) {
                Ok(chunk) => return Ok(chunk),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(BulkError::Reader),
            }
        }
        Err(BulkError::Interrupted)
    }

    /// Imports blocks by runs; what no run takes goes the ordinary way, which knows side
    /// blocks and says what is wrong.
    fn take(&mut self, blocks: &[Prepared]) -> Result<(), BulkError> {
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            if self.stopped() {
                return Err(BulkError::Interrupted);
            }
            let started = Instant::now();
            let go_on = || !self.stopped() && started.elapsed() < RUN_TIME_MAX;
            // A store that fails says so again below, for the block where it does.
            let taken = self
                .importer
                .import_run(rest, Some(unix_now()), go_on)
                .unwrap_or(0);
            let imported = rest[..taken].iter();
            imported.for_each(|prepared| self.count(prepared));
            if taken == 0 && !self.stopped() {
                self.take_alone(first)?;
                rest = &rest[1..];
            }
            rest = &rest[taken..];
            (self.report)(&self.progress);
        }
        Ok(())
    }

    fn take_alone(&mut self, prepared: &Prepared) -> Result<(), BulkError> {
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

    fn count(&mut self, prepared: &Prepared) {
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
fn prepare(importer: &Importer, raw: &[RawBlock]) -> (Vec<Prepared>, Option<BulkError>) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let portion = raw.len().div_ceil(threads).max(1);
    let work = |raw: &[RawBlock]| prepare_portion(importer, raw);
    let done = std::thread::scope(|scope| {
        let mut portions = raw.chunks(portion);
        let own = portions.next();
        let running: Vec<_> = portions
            .map(|portion| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || work(portion));
                (portion, thread)
            })
            .collect();
        let mut done: Vec<_> = own.map(work).into_iter().collect();
        for (portion, thread) in running {
            done.push(match thread {
                Ok(thread) => thread.join().expect("checking a block does not panic"),
                // The system gives no more threads: slower, not wrong.
                Err(_) => work(portion),
            });
        }
        done
    });
    let mut blocks = Vec::with_capacity(raw.len());
    for (portion, fault) in done {
        blocks.extend(portion);
        if fault.is_some() {
            return (blocks, fault);
        }
    }
    (blocks, None)
}

fn prepare_portion(importer: &Importer, raw: &[RawBlock]) -> (Vec<Prepared>, Option<BulkError>) {
    let mut blocks = Vec::with_capacity(raw.len());
    let view = match importer.store().snapshot() {
        Ok(view) => view,
        Err(error) => return (blocks, Some(error.into())),
    };
    for raw in raw {
        match raw.decode(importer.spec().tx_rules()) {
            Ok(block) => blocks.push(importer.prepare(&view, block)),
            Err(error) => {
                let fault = BulkError::Body {
                    number: raw.header.number,
                    hash: raw.hash,
                    offset: raw.offset,
                    error,
                };
                return (blocks, Some(fault));
            }
        }
    }
    (blocks, None)
}
