//! The work on the chain that the synchronization asks for, and what comes of it.
//!
//! The synchronization itself checks what is cheap: hashes, links, numbers. Whatever takes long or
//! writes is a [`SyncJob`]: seals, roots of bodies, execution. [`run_job`] does one. It may run
//! anywhere, so a node runs jobs on threads, and a simulation at a simulated time.

use std::iter::Peekable;
use std::sync::Arc;

use chain::chain::{ImportedMany, WriteError};
use chain::import::{BlockId, FilledBlock, ImportError, PreparedBlock};
use chain::rules::HeaderError;
use chain::rules::body::transactions_root;
use chain::{Chain, ChainSpec};
use primitives::{B256, Block, Header, uncles_hash};

use super::comparisons::body_bytes;
pub(super) use super::state_fetch::StateReport;
use crate::messages::PeerBody;
use crate::peers::RequestTicket;

/// The most bodies that are looked at together.
const SLICE_BODIES: usize = 16;
/// No more bodies are added to those that have more bytes than this.
const SLICE_BYTES: usize = 1 << 20;

/// A block whose header is known and whose body is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedBody {
    /// The block's hash.
    pub hash: B256,
    /// The header.
    pub header: Arc<Header>,
}

/// Work on the chain.
#[derive(Clone, Debug)]
pub enum SyncJob {
    /// Check headers with all their seals, and store them. Each is the parent of the next one.
    Headers(Vec<Header>),
    /// Find out which blocks these bodies belong to, and check of these blocks what needs no
    /// parent.
    Bodies {
        /// The question that was answered.
        ticket: RequestTicket,
        /// The blocks that were asked for.
        wanted: Vec<WantedBody>,
        /// The bodies that came, in the order of the question. Any may be missing.
        bodies: Vec<PeerBody>,
    },
    /// Import blocks, each the parent of the next one.
    Blocks(Vec<Arc<PreparedBlock>>),
    /// Write blocks without executing them, each the parent of the next one.
    Fill(Vec<FilledBlock>),
    /// Remove a header without body, and all that builds on it.
    Forget(B256),
}

/// The outcome of a [`SyncJob`].
#[derive(Clone, Debug)]
pub enum SyncOutcome {
    /// Of [`SyncJob::Headers`].
    Headers(Result<(), ChainRefusal>),
    /// Of [`SyncJob::Bodies`].
    Bodies {
        /// The question that was answered.
        ticket: RequestTicket,
        /// For each block that was asked for: the block, if its body came.
        blocks: Vec<Option<Arc<PreparedBlock>>>,
        /// The place of the first body that belongs to none of the blocks. Those after it were not
        /// looked at.
        wrong: Option<usize>,
    },
    /// Of [`SyncJob::Blocks`] and [`SyncJob::Fill`].
    Blocks {
        /// The number of the blocks that are stored, counted from the first one.
        stored: usize,
        /// The reason why the block after those is refused.
        refusal: Option<ChainRefusal>,
    },
    /// Of [`SyncJob::Forget`].
    Forgotten,
    /// Of the thread that fetches a state.
    State(StateReport),
}

/// The reason why the chain does not take headers or blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainRefusal {
    /// A block is invalid for good. Whoever has it on its chain is wrong.
    Invalid {
        /// The block.
        id: BlockId,
        /// The fault: what was got and what was expected.
        text: String,
    },
    /// The chain cannot be followed by this node, whether it is valid or not: for example, it
    /// leaves ours too far below the head.
    Unsuitable(String),
    /// Not yet: a block is ahead of the clock.
    Early(String),
    /// Not now: the store has failed, for example.
    NotNow(String),
}

impl ChainRefusal {
    /// The reason why the block or header `id` is refused. If the error names another one, that one
    /// counts.
    pub fn of(id: BlockId, error: &ImportError) -> Self {
        let text = error.to_string();
        match error {
            ImportError::OfHeader { number, hash, error } | ImportError::Branch { number, hash, error } => {
                let (number, hash) = (*number, *hash);
                match Self::of(BlockId { number, hash }, error) {
                    Self::Invalid { id, .. } => Self::Invalid { id, text },
                    Self::Unsuitable(_) => Self::Unsuitable(text),
                    Self::Early(_) => Self::Early(text),
                    Self::NotNow(_) => Self::NotNow(text),
                }
            }
            ImportError::Header(HeaderError::Future { .. }) => Self::Early(text),
            error if error.is_invalid_block() => Self::Invalid { id, text },
            ImportError::StateNotKept(_)
            | ImportError::ReorgDepth { .. }
            | ImportError::TooManyHeaders { .. }
            | ImportError::SideBlockAge { .. }
            | ImportError::UnsupportedRules { .. } => Self::Unsuitable(text),
            _ => Self::NotNow(text),
        }
    }

    fn of_write(id: BlockId, error: &WriteError) -> Self {
        match error {
            WriteError::Import(error) => Self::of(id, error),
            other => Self::NotNow(other.to_string()),
        }
    }
}

/// The chain of the jobs: a running one, or the store of a simulation.
pub trait SyncTarget {
    /// The rules.
    fn spec(&self) -> &ChainSpec;

    /// Checks headers with their seals, and stores them.
    ///
    /// # Errors
    /// [`ChainRefusal`] if a header is refused. Those before it may be stored.
    fn take_headers(&self, headers: Vec<Header>) -> Result<(), ChainRefusal>;

    /// Checks of blocks what needs no parent.
    ///
    /// # Errors
    /// [`ChainRefusal::NotNow`] if the store fails.
    fn prepare_blocks(&self, blocks: Vec<Block>) -> Result<Vec<PreparedBlock>, ChainRefusal>;

    /// Imports blocks. Returns how many are stored, and why the next one is refused.
    fn take_blocks(&self, blocks: Vec<Arc<PreparedBlock>>) -> (usize, Option<ChainRefusal>);

    /// Writes blocks without executing them. Returns how many are stored, and why the next one is
    /// refused.
    fn fill_blocks(&self, blocks: Vec<FilledBlock>) -> (usize, Option<ChainRefusal>);

    /// Removes a header without body, and all that builds on it.
    fn forget_headers(&self, hash: B256);
}

/// The id of the first header, for errors that name none.
fn first_id(headers: &[Header]) -> BlockId {
    headers.first().map_or(
        BlockId {
            number: 0,
            hash: B256::ZERO,
        },
        |first| BlockId {
            number: first.number,
            hash: first.hash(),
        },
    )
}

impl SyncTarget for Chain {
    fn spec(&self) -> &ChainSpec {
        Self::spec(self)
    }

    fn take_headers(&self, headers: Vec<Header>) -> Result<(), ChainRefusal> {
        let first = first_id(&headers);
        self.import_headers(headers)
            .map(|_| ())
            .map_err(|error| ChainRefusal::of_write(first, &error))
    }

    fn prepare_blocks(&self, blocks: Vec<Block>) -> Result<Vec<PreparedBlock>, ChainRefusal> {
        self.prepare(blocks)
            .map_err(|error| ChainRefusal::NotNow(error.to_string()))
    }

    fn take_blocks(&self, blocks: Vec<Arc<PreparedBlock>>) -> (usize, Option<ChainRefusal>) {
        let ids: Vec<_> = blocks.iter().map(|block| block_id(block)).collect();
        stored_of(&ids, self.import_many(blocks))
    }

    fn fill_blocks(&self, blocks: Vec<FilledBlock>) -> (usize, Option<ChainRefusal>) {
        let ids: Vec<_> = blocks.iter().map(|block| block_id(&block.prepared)).collect();
        stored_of(&ids, self.fill(blocks))
    }

    fn forget_headers(&self, hash: B256) {
        if let Err(error) = Self::forget_headers(self, hash) {
            tracing::warn!(%error, %hash, "headers whose bodies nobody has stay");
        }
    }
}

const fn block_id(block: &PreparedBlock) -> BlockId {
    BlockId {
        number: block.block.header.number,
        hash: block.hash,
    }
}

/// The number of the blocks that are stored, and why the next one is refused.
fn stored_of(ids: &[BlockId], imported: Result<ImportedMany, WriteError>) -> (usize, Option<ChainRefusal>) {
    let id = |at: usize| ids.get(at).copied().unwrap_or_else(|| first_id(&[]));
    match imported {
        Ok(ImportedMany { stored, refused }) => {
            let refusal = refused.map(|error| ChainRefusal::of(id(stored), &error));
            (stored, refusal)
        }
        Err(error) => (0, Some(ChainRefusal::of_write(id(0), &error))),
    }
}

/// Does a job.
pub fn run_job(target: &impl SyncTarget, job: SyncJob) -> SyncOutcome {
    match job {
        SyncJob::Headers(headers) => SyncOutcome::Headers(target.take_headers(headers)),
        SyncJob::Bodies {
            ticket,
            wanted,
            bodies,
        } => {
            let (blocks, wrong) = match_bodies(target, &wanted, bodies);
            SyncOutcome::Bodies {
                ticket,
                blocks,
                wrong,
            }
        }
        SyncJob::Blocks(blocks) => {
            let (stored, refusal) = target.take_blocks(blocks);
            SyncOutcome::Blocks { stored, refusal }
        }
        SyncJob::Fill(blocks) => {
            let (stored, refusal) = target.fill_blocks(blocks);
            SyncOutcome::Blocks { stored, refusal }
        }
        SyncJob::Forget(hash) => {
            target.forget_headers(hash);
            SyncOutcome::Forgotten
        }
    }
}

fn block_of(wanted: &WantedBody, body: PeerBody) -> Block {
    Block {
        header: (*wanted.header).clone(),
        transactions: body.transactions,
        uncles: body.uncles,
    }
}

/// Finds the block of each body. Returns the blocks whose bodies came, in the order of `wanted`,
/// and the place of the first body that belongs to none. The work ends there. After a failure of
/// the store the rest is missing.
///
/// Usually all bodies came, or the first ones. So this is tried first: then the checks of the
/// blocks, which run on all processors, show that the bodies are right, and no root is computed
/// twice. Bodies are looked at in slices, so that wrong ones cost little.
fn match_bodies(
    target: &impl SyncTarget,
    wanted: &[WantedBody],
    bodies: Vec<PeerBody>,
) -> (Vec<Option<Arc<PreparedBlock>>>, Option<usize>) {
    let mut found: Vec<Option<Arc<PreparedBlock>>> = vec![None; wanted.len()];
    let (mut next, mut looked_at) = (0, 0);
    let mut left = bodies.into_iter().peekable();
    loop {
        let slice = take_slice(&mut left);
        let count = slice.len();
        if count == 0 {
            return (found, None);
        }
        match match_slice(target, wanted, next, slice, &mut found) {
            Ok(after) => next = after,
            Err(SliceEnd::Wrong(at)) => return (found, Some(looked_at + at)),
            Err(SliceEnd::StoreFailed) => return (found, None),
        }
        looked_at += count;
    }
}

/// The next bodies: not more than [`SLICE_BODIES`], and not many more than [`SLICE_BYTES`].
fn take_slice(left: &mut Peekable<impl Iterator<Item = PeerBody>>) -> Vec<PeerBody> {
    let (mut slice, mut bytes) = (Vec::new(), 0usize);
    while slice.len() < SLICE_BODIES
        && let Some(body) = left.next_if(|_| bytes <= SLICE_BYTES)
    {
        bytes = bytes.saturating_add(body_bytes(&body.transactions, &body.uncles));
        slice.push(body);
    }
    slice
}

/// The reason why bodies are not looked at any more.
enum SliceEnd {
    /// The body of this place in the slice belongs to none of the blocks.
    Wrong(usize),
    StoreFailed,
}

/// Finds the blocks of some bodies among those from place `next` on. Returns the place after the
/// last one.
fn match_slice(
    target: &impl SyncTarget,
    wanted: &[WantedBody],
    mut next: usize,
    slice: Vec<PeerBody>,
    found: &mut [Option<Arc<PreparedBlock>>],
) -> Result<usize, SliceEnd> {
    let first = next;
    let expected = wanted.get(first..).unwrap_or_default();
    if slice.len() > expected.len() {
        return Err(SliceEnd::Wrong(expected.len()));
    }
    let failed = |_| SliceEnd::StoreFailed;
    let blocks = expected
        .iter()
        .zip(slice)
        .map(|(wanted, body)| block_of(wanted, body));
    let prepared = target.prepare_blocks(blocks.collect()).map_err(failed)?;
    let (mut wrong, mut moved, mut moved_to) = (None, Vec::new(), Vec::new());
    for (at, prepared) in prepared.into_iter().enumerate() {
        let guess = first + at;
        let place = if next == guess && prepared.body_is_right() {
            Some(guess)
        } else {
            // A body before this one is missing, so the rest belongs to later blocks.
            let Block {
                transactions, uncles, ..
            } = &prepared.block;
            let roots = (transactions_root(transactions), uncles_hash(uncles));
            let fits =
                |wanted: &WantedBody| roots == (wanted.header.transactions_root, wanted.header.uncles_hash);
            let rest = wanted.get(next..).unwrap_or_default();
            rest.iter().position(fits).map(|place| next + place)
        };
        match place {
            Some(place) if place == guess => found[place] = Some(Arc::new(prepared)),
            Some(place) => {
                let Block {
                    transactions, uncles, ..
                } = prepared.block;
                let body = PeerBody { transactions, uncles };
                moved.push(block_of(&wanted[place], body));
                moved_to.push(place);
            }
            None => {
                wrong = Some(at);
                break;
            }
        }
        next = place.map_or(next, |place| place + 1);
    }
    let prepared = target.prepare_blocks(moved).map_err(failed)?;
    for (place, prepared) in moved_to.into_iter().zip(prepared) {
        found[place] = Some(Arc::new(prepared));
    }
    wrong.map_or(Ok(next), |at| Err(SliceEnd::Wrong(at)))
}
