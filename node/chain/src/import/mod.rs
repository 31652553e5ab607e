//! Importing blocks: the one way in which a block gets into the store.
//!
//! Blocks that were mined here, received or read from a file all take the same steps:
//!
//! | step | function | module |
//! |---|---|---|
//! | 1. the header follows the rules, given its parent | `check_header` | `validate` |
//! | 2. the proof-of-work seal is right ([`ethash::verify_seal`]) | `check_seal` | `validate` |
//! | 3. the body has the header's roots; its senders are known | `check_body` | `validate` |
//! | 4. the transactions run on the parent's state | `execute_block` | `apply` |
//! | 5. gas, receipts, logs and state are those of the header | `compare_with_header` | `apply` |
//! | 6. the block's rows are written and it becomes the head | `write_head_block` | `apply` |
//!
//! Two callers take these steps:
//!
//! * [`Importer::import`] takes one block with any known parent in one write transaction.
//!   Module `fork_choice` decides whether the block becomes the head, and module `reorg` changes
//!   the canonical chain first if the block does not build on the head.
//! * [`Importer::import_run`] takes many blocks, each a child of the one before, in one write
//!   transaction. Module [`bulk`] feeds it from a stream.
//!
//! A `StateSession` holds the state between the blocks of a transaction. It is where the two
//! callers differ: where state is read, and when trie nodes are written.
//!
//! All roots are computed again and compared, no matter who made the block. All rows of a block are
//! written in one write transaction. If a step fails, the transaction is dropped, so nothing of the
//! block is stored.

mod apply;
mod block;
pub mod bulk;
mod error;
mod fork_choice;
pub(crate) mod invalid_blocks;
mod reorg;
mod run;
mod state_session;
mod validate;

pub(crate) use apply::receipts_root;
pub use block::PreparedBlock;
pub use error::ImportError;
pub use fork_choice::SIDE_EXECUTION_DEPTH;
pub use run::RunCost;

use std::sync::Arc;

use primitives::{B256, Block};
use store::{BlockReads, Snapshot, Store, StoreError, WriteBatch};

use crate::rules::body::{SealCheck, check_body};
use crate::spec::ChainSpec;
use block::{CandidateBlock, read_header};
use invalid_blocks::InvalidBlockCache;
use state_session::HeadStateCache;

/// Number and hash of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
}

/// What became of an imported block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The block was in the store already. Nothing changed.
    Known,
    /// The block is stored as a side block. The head did not change.
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
/// Clones share the memory of invalid blocks and of the head's state.
#[derive(Clone, Debug)]
pub struct Importer {
    store: Store,
    spec: Arc<ChainSpec>,
    seals: SealCheck,
    invalid_blocks: InvalidBlockCache,
    head_state: HeadStateCache,
}

impl Importer {
    /// Makes an importer for a store that already has the spec's block 0.
    pub fn new(store: Store, spec: Arc<ChainSpec>, seals: SealCheck) -> Self {
        Self {
            store,
            spec,
            seals,
            invalid_blocks: InvalidBlockCache::default(),
            head_state: HeadStateCache::default(),
        }
    }

    /// The store that blocks are imported into.
    pub fn store(&self) -> &Store {
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
    /// [`ImportError`] if the block is refused. Then nothing was changed.
    pub fn import(&self, block: &Block, now: Option<u64>) -> Result<Imported, ImportError> {
        let candidate = CandidateBlock::unchecked(block);
        let view = self.store.snapshot()?;
        if view.block_number(&candidate.hash)?.is_some() {
            return Ok(Imported::Known);
        }
        self.refuse_known_invalid(&candidate.hash)?;
        let parent_hash = block.header.parent_hash;
        let parent_number = view
            .block_number(&parent_hash)?
            .ok_or(ImportError::UnknownParent(parent_hash))?;
        let parent = read_header(&view, parent_number, &parent_hash)?;
        let checked = self.check_block(&view, &parent, &candidate, now)?;
        drop(view);
        self.insert_block(checked)
    }

    /// Checks the parts of a block that do not depend on its parent: the seal and, if the block
    /// has no uncles, the body.
    ///
    /// Any number of threads may do this at the same time. `view` may be any snapshot of the
    /// store. A part that fails here is not marked as checked; the import checks it again and
    /// reports the error.
    pub fn prepare(&self, view: &impl BlockReads, block: Block) -> PreparedBlock {
        let hash = block.hash();
        self.seals.prepare_ahead(&self.spec, block.header.number);
        let seal_checked = self.seals.check(&self.spec, &block.header).is_ok();
        let senders = (seal_checked && block.uncles.is_empty())
            .then(|| check_body(&self.spec, &self.seals, view, &block).ok())
            .flatten();
        PreparedBlock {
            block,
            hash,
            seal_checked,
            senders,
        }
    }

    /// Refuses a block that was executed before and found invalid.
    fn refuse_known_invalid(&self, hash: &B256) -> Result<(), ImportError> {
        match self.invalid_blocks.reason(hash) {
            Some(reason) => Err(ImportError::KnownInvalid { reason }),
            None => Ok(()),
        }
    }

    /// Remembers the block that execution has shown to be invalid: the block `hash`, or the
    /// earlier block of its branch that `error` names.
    fn remember_invalid(&self, hash: &B256, error: &ImportError) {
        match error {
            ImportError::Branch { hash, error, .. } => self.remember_invalid(hash, error),
            error if error.is_execution_failure() => self.invalid_blocks.insert(*hash, &error.to_string()),
            _ => {}
        }
    }

    /// Commits a write transaction. A commit can report an error although its last write reached
    /// the medium; it counts as done if `is_committed` finds the result in a new snapshot.
    fn commit(
        &self,
        batch: WriteBatch,
        is_committed: impl FnOnce(&Snapshot) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Err(error) = batch.commit() else { return Ok(()) };
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
