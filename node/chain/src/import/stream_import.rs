//! Importing a whole stream of blocks.
//!
//! One thread reads the stream. It has the checks that need no parent done ahead, on all
//! processors. The calling thread executes, and many blocks share a commit.
//!
//! This module knows streams and the importer; it knows neither files nor terminals. Blocks that
//! were imported stay in the store, whatever comes after them. If the same stream is given again,
//! the import continues where the last one ended.

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ethash::LIGHT_IN_FLIGHT;
use primitives::{B256, DecodeError, U256};
use store::{BlockReads, StoreError};

use crate::clock::unix_now;
use crate::era1::{Era1Error, check_receipts};
use crate::import::linked_blocks::LinkedBlocks;
use crate::import::read_ahead::read_ahead;
use crate::import::{ImportError, Imported, Importer, PreparedBlock};
use crate::parallel::for_each_in_order;
use crate::stream::{BlockSource, BlockStream, BlockStreamError, RawBlock};

/// Length of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;
/// The most blocks of a chunk. A chunk is checked on all processors and then handed on.
const CHUNK_BLOCKS_MAX: usize = 2 * LIGHT_IN_FLIGHT;
/// A chunk ends with the first block that makes it longer than this.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// The most chunks that wait to be executed.
const CHUNKS_MAX: usize = 8;
/// A run is committed after this time, so that no more is lost if the process is killed.
const RUN_TIME_MAX: Duration = Duration::from_secs(180);
/// The time between two reports of blocks that are not committed yet.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// A run is committed if the stream has given no block for this long.
const IDLE_MAX: Duration = Duration::from_millis(200);
/// The time between two looks at the stop flag while the stream gives no block.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// The reason why an import ended before the end of its stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamImportError {
    /// The stream cannot be read any further.
    #[error(transparent)]
    Stream(#[from] BlockStreamError),
    /// A block of the stream has a header, but its body cannot be decoded.
    #[error("block {number} ({hash}) at byte {offset}: {error}")]
    Body {
        /// The number in the block's header.
        number: u64,
        /// The block's hash.
        hash: B256,
        /// The offset of the block in the stream.
        offset: u64,
        /// The fault of the body.
        error: DecodeError,
    },
    /// The file has other receipts or another total difficulty for a block.
    #[error("block {number} ({hash}): {error}")]
    Published {
        /// The block's number.
        number: u64,
        /// The block's hash.
        hash: B256,
        /// The difference.
        error: Box<Era1Error>,
    },
    /// The stream is of another chain.
    #[error("block 0 of the stream: got {got}, expected the data directory's {expected}")]
    OtherGenesis {
        /// Hash of the stream's block 0.
        got: B256,
        /// Hash of the store's block 0.
        expected: B256,
    },
    /// A block is refused.
    #[error("block {number} ({hash}): {error}")]
    Refused {
        /// The block's number.
        number: u64,
        /// The block's hash.
        hash: B256,
        /// The reason why it is refused.
        error: Box<ImportError>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream has no blocks.
    #[error("there is no block in the stream")]
    Empty,
    /// The caller has set the stop flag.
    #[error("interrupted; to continue, give the same stream again")]
    Interrupted,
    /// The reading thread has ended before the stream.
    #[error("the reading thread ended early")]
    Reader,
}

impl StreamImportError {
    /// The number of the block at which the import ended, if a block is the reason.
    pub const fn block(&self) -> Option<u64> {
        match self {
            Self::Body { number, .. } | Self::Published { number, .. } | Self::Refused { number, .. } => {
                Some(*number)
            }
            Self::OtherGenesis { .. } => Some(0),
            Self::Stream(_) | Self::Store(_) | Self::Empty | Self::Interrupted | Self::Reader => None,
        }
    }
}

/// The progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamImportProgress {
    /// Bytes of the stream whose blocks are in the store.
    pub bytes: u64,
    /// Blocks that were imported.
    pub blocks: u64,
    /// Blocks that the store had before.
    pub known: u64,
    /// Transactions of the imported blocks.
    pub transactions: u64,
    /// Gas used by the imported blocks.
    pub gas: u64,
    /// Blocks that were executed and are not committed yet. They do not count above.
    pub pending: u64,
    /// Bytes of the stream whose blocks are in the store or are pending.
    pub read_bytes: u64,
}

impl StreamImportProgress {
    /// Counts imported blocks with so many transactions and so much gas.
    const fn count(&mut self, blocks: u64, transactions: u64, gas: u64) {
        self.blocks += blocks;
        self.transactions += transactions;
        self.gas = self.gas.saturating_add(gas);
    }
}

/// Imports all blocks of a stream.
///
/// `report` is called now and then, after every commit, and with the final progress at the end,
/// whether that is a success or an error. Setting `stop` ends the import between two blocks.
///
/// # Errors
/// [`StreamImportError`] if not all of the stream was imported. The blocks before the error are in
/// the store.
pub fn import_stream(
    importer: &Importer,
    input: Box<dyn Read + Send>,
    stop: &AtomicBool,
    report: impl FnMut(&StreamImportProgress),
) -> Result<(), StreamImportError> {
    let stream = BlockStream::new(BufReader::with_capacity(BUFFER_BYTES, input));
    import_blocks(importer, Box::new(stream), stop, report)
}

/// Imports all blocks of a source, as [`import_stream`] does.
///
/// # Errors
/// As [`import_stream`].
pub fn import_blocks(
    importer: &Importer,
    stream: Box<dyn BlockSource>,
    stop: &AtomicBool,
    report: impl FnMut(&StreamImportProgress),
) -> Result<(), StreamImportError> {
    let (sender, chunks) = bounded(CHUNKS_MAX);
    let reader = ChunkReader {
        importer: importer.clone(),
        stream,
        linked: LinkedBlocks::default(),
        before: None,
        is_waiting: Arc::default(),
    };
    let reader_is_waiting = reader.is_waiting.clone();
    // The thread is not scoped: a pipe that gives nothing would delay the end of the import.
    std::thread::Builder::new()
        .name("block-reader".to_owned())
        .spawn(move || reader.run(&sender))
        .map_err(|source| BlockStreamError::Read { offset: 0, source })?;
    let mut import = StreamImport {
        importer,
        stop,
        progress: StreamImportProgress::default(),
        report,
        queue: BlockQueue {
            chunks,
            reader_is_waiting,
            blocks: VecDeque::new(),
            known: 0,
            end: 0,
            after: AfterChunk::NextChunk,
        },
    };
    loop {
        if let Err(error) = import.import_next_run() {
            (import.report)(&import.progress);
            return Err(error);
        }
        if !import.queue.blocks.is_empty() {
            if import.is_stopped() {
                return Err(StreamImportError::Interrupted);
            }
            continue;
        }
        // All blocks of the chunk are in the store, so its bytes count.
        import.progress.known += std::mem::take(&mut import.queue.known);
        import.progress.bytes = import.queue.end;
        import.progress.read_bytes = import.queue.end;
        (import.report)(&import.progress);
        let is_empty = import.progress.blocks + import.progress.known == 0;
        match std::mem::replace(&mut import.queue.after, AfterChunk::NextChunk) {
            AfterChunk::NextChunk if import.is_stopped() => return Err(StreamImportError::Interrupted),
            AfterChunk::NextChunk => {}
            AfterChunk::EndOfStream if is_empty => return Err(StreamImportError::Empty),
            AfterChunk::EndOfStream => return Ok(()),
            AfterChunk::Error(error) => return Err(*error),
        }
    }
}

/// Consecutive blocks of the stream.
struct Chunk {
    /// The blocks that the store does not have.
    blocks: Vec<PreparedBlock>,
    /// The number of blocks that were left out because the store has them.
    known: u64,
    /// The end of the chunk in the stream.
    end: u64,
    after: AfterChunk,
}

/// The event after a chunk.
enum AfterChunk {
    NextChunk,
    EndOfStream,
    Error(Box<StreamImportError>),
}

/// The blocks that were read and are to be executed.
struct BlockQueue {
    chunks: Receiver<Chunk>,
    /// Whether the reading thread waits for the stream.
    reader_is_waiting: Arc<AtomicBool>,
    /// The blocks that are left of the last chunk.
    blocks: VecDeque<Arc<PreparedBlock>>,
    /// The number of blocks that the store had, in the chunks since this was last reset.
    known: u64,
    /// The end of the last chunk in the stream.
    end: u64,
    /// The event after the last chunk.
    after: AfterChunk,
}

impl BlockQueue {
    /// The next block. If there is none yet, waits for as long as `may_wait` is true. Returns
    /// `None` if there is none now, or none any more, or if a chunk has only known blocks.
    fn next(&mut self, may_wait: impl Fn() -> bool) -> Option<Arc<PreparedBlock>> {
        while self.blocks.is_empty() && matches!(self.after, AfterChunk::NextChunk) && may_wait() {
            match self.chunks.recv_timeout(STOP_INTERVAL) {
                Ok(chunk) => {
                    self.blocks = chunk.blocks.into_iter().map(Arc::new).collect();
                    self.known += chunk.known;
                    self.end = chunk.end;
                    self.after = chunk.after;
                    if self.blocks.is_empty() {
                        // Known blocks are progress that is reported.
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.after = AfterChunk::Error(Box::new(StreamImportError::Reader));
                }
            }
        }
        self.blocks.pop_front()
    }
}

/// The executing side of an import.
struct StreamImport<'a, F> {
    importer: &'a Importer,
    stop: &'a AtomicBool,
    progress: StreamImportProgress,
    report: F,
    queue: BlockQueue,
}

impl<F: FnMut(&StreamImportProgress)> StreamImport<'_, F> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Imports a run of blocks with one commit. Blocks that were given to the run but are not part
    /// of it are then imported one by one. This also handles side blocks and reports what is wrong
    /// with a block.
    fn import_next_run(&mut self) -> Result<(), StreamImportError> {
        let stop = self.stop;
        let is_stopped = || stop.load(Ordering::Acquire);
        // The run begins when there is a block for it.
        let Some(first) = self.queue.next(|| !is_stopped()) else {
            return Ok(());
        };
        self.queue.blocks.push_front(first);
        let mut taken = 0;
        let reader_is_waiting = self.queue.reader_is_waiting.clone();
        let (started, mut reported) = (Instant::now(), Instant::now());
        let imported = self.importer.import_run(Some(unix_now().as_secs()), &mut || {
            let waiting_since = Instant::now();
            if is_stopped() || started.elapsed() > RUN_TIME_MAX {
                return None;
            }
            if reported.elapsed() > REPORT_INTERVAL {
                reported = waiting_since;
                self.progress.pending = taken;
                self.progress.read_bytes = self.queue.end;
                (self.report)(&self.progress);
            }
            // A reader that checks blocks gives some soon.
            let is_idle = || waiting_since.elapsed() > IDLE_MAX && reader_is_waiting.load(Ordering::Acquire);
            let next = self.queue.next(|| !is_stopped() && !is_idle())?;
            taken += 1;
            Some(next)
        });
        let run = imported?;
        self.progress.pending = 0;
        self.progress.count(run.blocks as u64, run.transactions, run.gas);
        (self.report)(&self.progress);
        for block in &run.rest {
            if self.is_stopped() {
                return Err(StreamImportError::Interrupted);
            }
            self.import_one(block)?;
        }
        Ok(())
    }

    fn import_one(&mut self, prepared: &PreparedBlock) -> Result<(), StreamImportError> {
        let header = &prepared.block.header;
        match self.importer.import(&prepared.block, Some(unix_now().as_secs())) {
            Ok(Imported::Known) => self.progress.known += 1,
            Ok(Imported::Side | Imported::Head { .. } | Imported::Later) => {
                let transactions = prepared.block.transactions.len() as u64;
                self.progress.count(1, transactions, header.gas_used);
            }
            Err(error) => {
                return Err(StreamImportError::Refused {
                    number: header.number,
                    hash: prepared.hash,
                    error: Box::new(error),
                });
            }
        }
        Ok(())
    }
}

/// The reading side of an import: reads chunks and checks their blocks ahead.
struct ChunkReader {
    importer: Importer,
    stream: Box<dyn BlockSource>,
    /// The blocks that were read and whose numbers follow those of their parents.
    linked: LinkedBlocks,
    /// Hash and total difficulty of the block that was read last, if its file has one for it.
    before: Option<(B256, U256)>,
    /// Whether the thread waits for the stream.
    is_waiting: Arc<AtomicBool>,
}

impl ChunkReader {
    /// Sends chunks until the stream ends, an error occurs, or the receiver is gone.
    fn run(mut self, chunks: &Sender<Chunk>) {
        loop {
            let chunk = self.read_chunk();
            let is_last = !matches!(chunk.after, AfterChunk::NextChunk);
            if chunks.send(chunk).is_err() || is_last {
                return;
            }
        }
    }

    fn read_chunk(&mut self) -> Chunk {
        let RawChunk {
            blocks,
            known,
            mut after,
        } = self.read_blocks();
        let (blocks, error) = prepare_blocks(&self.importer, &blocks);
        if let Ok(view) = self.importer.store().snapshot() {
            read_ahead(&view, &blocks);
        }
        if let Some(error) = error {
            after = AfterChunk::Error(Box::new(error));
        }
        Chunk {
            blocks,
            known,
            end: self.stream.offset(),
            after,
        }
    }

    fn read_blocks(&mut self) -> RawChunk {
        let mut chunk = RawChunk {
            blocks: Vec::new(),
            known: 0,
            after: AfterChunk::NextChunk,
        };
        match self.read_blocks_into(&mut chunk) {
            Ok(after) => chunk.after = after,
            Err(error) => chunk.after = AfterChunk::Error(Box::new(error)),
        }
        chunk
    }

    /// Compares the total difficulty that a file has for a block with that of the block's parent:
    /// the block that was read before, or a stored one. Of other blocks the parent is not known.
    fn check_total_difficulty(
        &mut self,
        view: &impl BlockReads,
        block: &RawBlock,
    ) -> Result<(), StreamImportError> {
        let before = std::mem::take(&mut self.before);
        let Some((_, got)) = block.published else {
            return Ok(());
        };
        self.before = Some((block.hash, got));
        let parent_hash = &block.header.parent_hash;
        let parent = match before {
            Some((hash, total_difficulty)) if hash == *parent_hash => Some(total_difficulty),
            _ => view
                .header_by_hash(parent_hash)?
                .map(|parent| parent.total_difficulty),
        };
        match parent.map(|parent| parent.saturating_add(block.header.difficulty)) {
            Some(expected) if expected != got => {
                Err(published(block, Era1Error::TotalDifficulty { got, expected }))
            }
            _ => Ok(()),
        }
    }

    /// Reads the blocks of a chunk. After an error, `chunk` has the blocks before it.
    fn read_blocks_into(&mut self, chunk: &mut RawChunk) -> Result<AfterChunk, StreamImportError> {
        let view = self.importer.store().snapshot()?;
        let genesis = view.canonical_hash(0)?;
        let mut bytes = 0;
        let start = self.stream.offset();
        while chunk.blocks.len() < CHUNK_BLOCKS_MAX && bytes < CHUNK_BYTES_MAX {
            self.is_waiting.store(true, Ordering::Release);
            let next = self.stream.next_block();
            self.is_waiting.store(false, Ordering::Release);
            let Some(block) = next? else {
                return Ok(AfterChunk::EndOfStream);
            };
            match genesis {
                Some(expected) if block.header.number == 0 && block.hash != expected => {
                    return Err(StreamImportError::OtherGenesis {
                        got: block.hash,
                        expected,
                    });
                }
                _ => {}
            }
            self.check_total_difficulty(&*view, &block)?;
            if view.block_number(&block.hash)?.is_some() {
                chunk.known += 1;
                // A chunk of known blocks ends too, so that progress is reported and the stop flag
                // is looked at.
                if self.stream.offset() - start > CHUNK_BYTES_MAX as u64 {
                    break;
                }
                continue;
            }
            bytes += block.rlp.len();
            let parent_hash = &block.header.parent_hash;
            let parent = match self.linked.number(parent_hash) {
                Some(number) => Some(number),
                None => view.block_number(parent_hash)?,
            };
            self.linked.extend(block.hash, &block.header, parent);
            chunk.blocks.push((block, parent));
            if !self.stream.has_more() {
                // The next block may take long to come. Those that are here need not wait for it.
                break;
            }
        }
        Ok(AfterChunk::NextChunk)
    }
}

fn published(block: &RawBlock, error: Era1Error) -> StreamImportError {
    StreamImportError::Published {
        number: block.header.number,
        hash: block.hash,
        error: Box::new(error),
    }
}

/// The blocks of a chunk before they are decoded and checked.
struct RawChunk {
    /// The blocks that the store does not have, each with the number of its parent if that is
    /// known.
    blocks: Vec<(RawBlock, Option<u64>)>,
    /// The number of blocks that were left out because the store has them.
    known: u64,
    after: AfterChunk,
}

/// Decodes and checks blocks on all processors. Returns the blocks before the first error, and
/// that error.
fn prepare_blocks(
    importer: &Importer,
    raw: &[(RawBlock, Option<u64>)],
) -> (Vec<PreparedBlock>, Option<StreamImportError>) {
    let mut blocks = Vec::with_capacity(raw.len());
    let headers: Vec<_> = raw
        .iter()
        .map(|(raw, parent)| (&raw.header, raw.hash, *parent))
        .collect();
    let seals = match importer.store().snapshot() {
        Ok(view) => importer.seals_are_right(&view, &headers),
        Err(error) => return (blocks, Some(error.into())),
    };
    let result = for_each_in_order(
        raw.iter().zip(seals),
        |((raw, _), seal_is_right)| prepare_block(importer, raw, seal_is_right),
        |prepared| {
            blocks.push(prepared?);
            Ok(())
        },
    );
    (blocks, result.err())
}

fn prepare_block(
    importer: &Importer,
    raw: &RawBlock,
    seal_is_right: bool,
) -> Result<PreparedBlock, StreamImportError> {
    let view = importer.store().snapshot()?;
    if let Some((receipts, _)) = &raw.published {
        check_receipts(receipts, &raw.header).map_err(|error| published(raw, error))?;
    }
    match raw.decode(importer.spec().tx_rules()) {
        Ok(block) => Ok(importer.prepare_sealed(&view, block, seal_is_right)),
        Err(error) => Err(StreamImportError::Body {
            number: raw.header.number,
            hash: raw.hash,
            offset: raw.offset,
            error,
        }),
    }
}
