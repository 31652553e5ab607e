//! Importing blocks: the one way in which a block gets into the store.
//!
//! Blocks that were mined here, came from peers or were read from a file all take these steps. In a
//! running node a tenth one follows: pool and subscribers follow the head (`chain/follow/mod.rs`).
//!
//! | step | function | module |
//! |---|---|---|
//! | 1. the block is new, its parent is known | `refuse_known_invalid`, `read_parent` | this one |
//! | 1. this program has the block's rules | `check_rules_are_supported` | `validate` |
//! | 2. the header follows the rules, given its parent | `check_header` | [`crate::rules`] |
//! | 3. the proof-of-work seal is right | `check_seal` | [`crate::rules::seal`] |
//! | 4. body and header agree; the senders are known | `check_body` | [`crate::rules::body`] |
//! | 5. head or side block | `write_and_commit` | `fork_choice` |
//! | 5. its parent becomes the head of a transaction | `run_parts` | `reorg` |
//! | 6. the transactions run on the parent's state | `execute_block` | `apply` |
//! | 7. gas, receipts, logs and state are those of the header | `compare_with_header` | `apply` |
//! | 8. the block's rows are written and it becomes the head | `write_head_block` | `apply` |
//! | 8. old blocks move into their file, old states go | `upkeep` | `upkeep` |
//! | 8. trie nodes of recent states are kept | `keep_past_nodes` | `upkeep` |
//! | 9. the transaction is committed | `run_parts`, `attempt_run` | `reorg`, `run` |
//!
//! Two callers take these steps:
//!
//! * [`Importer::import`] takes one block with any known parent.
//! * [`Importer::import_run`] takes many blocks, each a child of the one before, in one write
//!   transaction. It takes no other blocks, so it needs no step 5. Module [`stream_import`] feeds
//!   it from a stream.
//!
//! An `OpenState` holds the state between the blocks of a transaction. It is where the two
//! callers differ: where state is read, and when trie nodes are written.
//!
//! All roots are computed again and compared, no matter who made the block. A block that becomes
//! the head is written in one write transaction. Of a side block only header and body are written:
//! it is executed, and its other rows follow, when its branch becomes the canonical chain. If a
//! step fails, the transaction is dropped, so nothing of it is stored.
//!
//! While a state is fetched from peers, blocks below it are written without being executed
//! ([`Importer::fill`]): then receipts come with them.
//!
//! Headers may come before their blocks: see [`Importer::import_headers`] (module `header_chain`).
//! What is kept beside the canonical chain is bounded by [`ForkLimits`].

mod apply;
mod block;
mod error;
pub(crate) mod failed_executions;
mod fill;
mod fork_choice;
mod fork_tree;
mod header_chain;
mod later_begin;
pub mod limits;
mod linked_blocks;
mod mess;
mod open_state;
pub(crate) mod read_ahead;
mod reorg;
mod root_worker;
mod run;
pub mod stream_import;
mod upkeep;
mod validate;

pub(crate) use apply::receipts_root;
pub use block::PreparedBlock;
pub use error::ImportError;
pub use fill::FilledBlock;
pub(crate) use header_chain::best_header_id;
pub use header_chain::{CheckedHeaders, ImportedHeaders};
pub use limits::ForkLimits;
pub use run::{ImportedRun, RunCost};
pub use upkeep::{KEPT_TRIES, OldBlocks, PruneProgress, RECENT_STATES_DEFAULT, StateRetention};

use std::sync::Arc;

use primitives::{B256, Block, Header};
use store::{BlockReads, HeaderReads, HeaderRecord, Snapshot, Store, StoreError, Tables, WriteBatch};

use crate::measured::ImportStage;
use crate::rules::body::check_body;
use crate::rules::seal::SealCheck;
use crate::spec::ChainSpec;
use block::{CandidateBlock, read_header};
use failed_executions::{FAILED_EXECUTIONS_MAX, FailedExecutionCache};
use fork_choice::SideBytes;
use limits::BATCH_BYTES_DEFAULT;
use linked_blocks::follows;
use open_state::HeadStateCache;
use reorg::ReaderHold;

/// Number and hash of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
}

/// The result of the import of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The block was in the store already. Nothing changed.
    Known,
    /// The block is a little ahead of the clock. It is imported when its time has come. Only a
    /// running chain keeps such blocks.
    Later,
    /// The block is stored as a side block, without being executed. The head did not change.
    Side,
    /// The block is the new head.
    Head {
        /// Blocks that are no longer canonical, highest first.
        reverted: Vec<BlockId>,
        /// Blocks that became canonical, lowest first. The last one is the new head.
        applied: Vec<BlockId>,
    },
}

/// Takes blocks into a store. Only one importer may write to a store at a time.
///
/// Clones share the memory of failed executions and of the head's state.
#[derive(Clone, Debug)]
pub struct Importer {
    store: Store,
    spec: Arc<ChainSpec>,
    seals: SealCheck,
    failed_executions: FailedExecutionCache,
    head_state: HeadStateCache,
    reader_hold: ReaderHold,
    side_bytes: SideBytes,
    limits: Arc<ForkLimits>,
    old_blocks: OldBlocks,
    states: StateRetention,
    /// See [`Importer::with_batch_bytes`].
    batch_bytes: usize,
    /// Whether the caller chooses between branches.
    head_is_chosen: bool,
}

impl Importer {
    /// The mode in which seals are checked.
    pub(crate) const fn seals(&self) -> &SealCheck {
        &self.seals
    }

    /// Makes an importer for a store that already has the spec's block 0.
    pub fn new(store: Store, spec: Arc<ChainSpec>, seals: SealCheck) -> Self {
        Self {
            store,
            spec,
            seals,
            failed_executions: FailedExecutionCache::default(),
            head_state: HeadStateCache::default(),
            reader_hold: ReaderHold::default(),
            side_bytes: SideBytes::default(),
            limits: Arc::default(),
            old_blocks: OldBlocks::default(),
            states: StateRetention::default(),
            batch_bytes: BATCH_BYTES_DEFAULT,
            head_is_chosen: false,
        }
    }

    /// The same importer with other limits of what is kept beside the canonical chain.
    #[must_use]
    pub fn with_limits(self, limits: ForkLimits) -> Self {
        let limits = Arc::new(limits);
        Self { limits, ..self }
    }

    /// The same importer with another bound for the memory of the blocks that share a commit. The
    /// bound holds for the state that they have read and changed together with the rows that wait
    /// for the commit. The blocks have it for themselves: they are in memory only if they must be
    /// done again. The block that passes the bound is the last one of its commit. The more blocks
    /// share a commit, the fewer pages are written.
    #[must_use]
    pub const fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// The same importer for a chain on which not the difficulty decides: of the imported blocks
    /// only children of the head become the head. Others are side blocks until
    /// [`Self::choose_head`](Importer::choose_head) is called.
    #[must_use]
    pub const fn with_chosen_head(mut self) -> Self {
        self.head_is_chosen = true;
        self
    }

    /// The snapshot that readers use while a reorganization is done in parts.
    pub(crate) const fn reader_hold(&self) -> &ReaderHold {
        &self.reader_hold
    }

    /// The store that blocks are imported into.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The rules of the chain.
    pub fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// Imports one block.
    ///
    /// The block becomes the head if its chain has more total difficulty than the head's. At
    /// equal total difficulty the head stays.
    /// `now` is the clock in unix seconds; with `None` the clock is not checked.
    ///
    /// # Errors
    /// [`ImportError`] if the block is refused. After a store error the block may be stored all the
    /// same; the next snapshot shows it.
    pub fn import(&self, block: &Block, now: Option<u64>) -> Result<Imported, ImportError> {
        self.finish_open_reorganization()?;
        let mut candidate = CandidateBlock::unchecked(block);
        self.refuse_known_invalid(&candidate.hash)?;
        let view = self.store.snapshot()?;
        if view.block_number(&candidate.hash)?.is_some() {
            return Ok(Imported::Known);
        }
        let header = &block.header;
        let parent_id = BlockId {
            number: header.number.saturating_sub(1),
            hash: header.parent_hash,
        };
        self.refuse_known_invalid(&parent_id.hash)
            .map_err(|error| error.in_branch(&parent_id))?;
        let parent = read_parent(&view, block)?;
        self.check_header_rules(header, &parent.header, now)?;
        let id = BlockId {
            number: header.number,
            hash: candidate.hash,
        };
        self.check_age(
            &*view,
            &id,
            parent.total_difficulty.saturating_add(header.difficulty),
        )?;
        candidate.seal_is_right = view.bare_header(&id.hash)?.is_some();
        let checked = self.check_seal_and_body(&view, &parent, &candidate);
        drop(view);
        match checked {
            Ok(checked) => self.write_and_commit(checked),
            Err(error) if error.proves_invalid() => {
                self.discard_invalid(&id.hash, &error, |_| Ok(()))?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks a block that is ahead of the clock as far as its header tells: parent, rules, seal.
    /// Returns whether the block is stored already.
    ///
    /// `waiting` is the header of the parent, if the parent is not stored because it waits for its
    /// time, too. `latest` is the latest allowed timestamp, in unix seconds.
    pub(crate) fn check_early(
        &self,
        block: &Block,
        waiting: Option<&Header>,
        latest: u64,
    ) -> Result<bool, ImportError> {
        let (hash, header) = (block.hash(), &block.header);
        self.refuse_known_invalid(&hash)?;
        let view = self.store.snapshot()?;
        if view.block_number(&hash)?.is_some() {
            return Ok(true);
        }
        let parent = match waiting {
            Some(parent) => parent.clone(),
            None => read_parent(&view, block)?.header,
        };
        self.check_header_rules(header, &parent, Some(latest))?;
        self.seals.check_seal(&self.spec, header)?;
        Ok(false)
    }

    /// Checks the parts of a block that do not depend on its parent: the seal and, if the block
    /// has no uncles, the body.
    ///
    /// `parent` is the number of the parent, if the caller knows it; otherwise it is looked up in
    /// `view`. Nothing is checked unless the block's number follows it, because a light cache is
    /// made for any number.
    ///
    /// Any number of threads may do this at the same time. `view` may be any snapshot of the
    /// store. A part that was not checked, or fails here, is not marked as checked; the import
    /// checks it and reports the error.
    pub fn prepare(&self, view: &impl BlockReads, block: Block, parent: Option<u64>) -> PreparedBlock {
        let parent = parent.or_else(|| view.block_number(&block.header.parent_hash).ok().flatten());
        let seal_is_right = follows(&block.header, parent) && {
            self.seals.prepare_ahead(&self.spec, block.header.number);
            let is_known = view.bare_header(&block.hash());
            is_known.is_ok_and(|header| header.is_some())
                || self.seals.check_seal(&self.spec, &block.header).is_ok()
        };
        self.prepare_sealed(view, block, seal_is_right)
    }

    /// As [`Self::prepare`], for a block of whose seal it is known whether it was found right.
    pub(crate) fn prepare_sealed(
        &self,
        view: &impl BlockReads,
        block: Block,
        seal_is_right: bool,
    ) -> PreparedBlock {
        let senders = (seal_is_right && block.uncles.is_empty())
            .then(|| check_body(&self.spec, &self.seals, view, &block).ok())
            .flatten();
        PreparedBlock {
            hash: block.hash(),
            block,
            seal_is_right,
            senders,
        }
    }

    /// Whether the seals of headers are right. Each has its block hash and, if it is known, the
    /// number of its parent. As [`Self::prepare`] does, this looks only at headers whose number
    /// follows.
    pub(crate) fn seals_are_right(
        &self,
        view: &impl BlockReads,
        headers: &[(&Header, B256, Option<u64>)],
    ) -> Vec<bool> {
        let mut right = vec![false; headers.len()];
        let (mut open, mut places) = (Vec::new(), Vec::new());
        for (place, (header, hash, parent)) in headers.iter().enumerate() {
            if !follows(header, *parent) {
                continue;
            }
            if view.bare_header(hash).is_ok_and(|header| header.is_some()) {
                right[place] = true;
            } else {
                open.push(*header);
                places.push(place);
            }
        }
        let checked = self.seals.check_seals(&self.spec, &open, |at, result| {
            right[places[at]] = result.is_ok();
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = checked;
        right
    }

    /// Refuses a block that was executed before and found invalid.
    fn refuse_known_invalid(&self, hash: &B256) -> Result<(), ImportError> {
        match self.failed_executions.reason(hash) {
            Some(reason) => Err(ImportError::KnownInvalid { reason }),
            None => Ok(()),
        }
    }

    /// Remembers that the block `hash` is invalid, and removes it and everything that builds on it:
    /// side blocks and headers without bodies. `write` writes further rows of the same transaction.
    fn discard_invalid(
        &self,
        hash: &B256,
        error: &ImportError,
        write: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let reason = match error {
            ImportError::Branch { error, .. } => error.to_string(),
            error => error.to_string(),
        };
        let batch = self.store.batch()?;
        let removed = batch.write(|tables| {
            write(tables)?;
            self.discard(tables, hash)
        })?;
        // The block itself is remembered last, and so the longest.
        let above = format!("it builds on block {hash}: {reason}");
        let removed = removed.iter().take(FAILED_EXECUTIONS_MAX - 1);
        for child in removed.rev().filter(|child| *child != hash) {
            self.failed_executions.insert(*child, &above);
        }
        self.failed_executions.insert(*hash, &reason);
        self.commit(batch, |view| Ok(view.known_header(hash)?.is_none()))
    }

    /// Commits a write transaction. A commit can report an error although its last write reached
    /// the medium; it counts as done if `is_committed` finds the result in a new snapshot.
    fn commit(
        &self,
        batch: WriteBatch,
        is_committed: impl FnOnce(&Snapshot) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Err(error) = ImportStage::Commit.time(|| batch.commit()) else {
            return Ok(());
        };
        match self.store.snapshot().and_then(|view| is_committed(&view)) {
            Ok(true) => {
                tracing::warn!(%error, "a commit reported an error, but its rows are stored");
                Ok(())
            }
            Ok(false) => Err(error),
            Err(unreadable) => {
                tracing::warn!(error = %unreadable, "whether a failed commit was stored cannot be read yet");
                Err(error)
            }
        }
    }
}

/// The parent of `block`, which must be stored.
fn read_parent(view: &Snapshot, block: &Block) -> Result<HeaderRecord, ImportError> {
    let hash = block.header.parent_hash;
    let number = view.block_number(&hash)?;
    let number = number.ok_or(ImportError::UnknownParent(hash))?;
    Ok(read_header(view, number, &hash)?)
}
