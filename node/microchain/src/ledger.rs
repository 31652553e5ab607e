//! The stored chain of one MicroChain: opening, reading, building and taking blocks.
//!
//! Execution, roots and rows are those of the package `chain`. This module adds who may produce a
//! block. Which of two chains is better is decided in [`crate::engine`].

use std::sync::Arc;

use chain::application::{ApplicationRules, BlockExtra};
use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::import::{BlockId, ForkLimits, ImportError, Imported, Importer, OldBlocks, StateRetention};
use chain::mining::build::{BlockFill, UnsealedBlock, build_on};
use chain::rules::seal::SealCheck;
use chain::state::StateError;
use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, Header, SecretKey};
use store::{HeaderReads, SideBlock, Store, StoreError};

use crate::block::{
    HeaderRefusal, ParentBlock, check_block_header, draft_header, genesis_extra, sign_header,
};
use crate::error::EngineError;
use crate::event::{MicroChainSetup, PERIOD_SECS_MAX};
use crate::fill::{BlockFiller, FillTime, LeftOut};
use crate::pool::ReadyQueue;

/// The most side blocks of a MicroChain that are kept.
const SIDE_BLOCKS_MAX: usize = 2048;
/// A side block that is further below the head than this is not taken.
const SIDE_BLOCK_AGE_MAX: u64 = 4096;

/// The reason why a block is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockRefusal {
    #[error("unknown parent {0}")]
    UnknownParent(B256),
    #[error(transparent)]
    Header(#[from] HeaderRefusal),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BlockRefusal {
    /// The store's error, if the block was refused because of the store.
    pub(crate) fn into_store_error(self) -> Result<StoreError, Self> {
        match self {
            Self::Store(error)
            | Self::Import(ImportError::Store(error) | ImportError::State(StateError(error))) => Ok(error),
            other => Err(other),
        }
    }
}

/// The chain of one MicroChain.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    setup: MicroChainSetup,
    rules: ApplicationRules,
    store: Store,
    spec: Arc<ChainSpec>,
    importer: Importer,
}

impl Ledger {
    /// Opens the chain in `store`, or writes block 0.
    pub(crate) fn open(setup: MicroChainSetup, store: Store) -> Result<Self, EngineError> {
        if !(1..=PERIOD_SECS_MAX).contains(&setup.period_secs) {
            return Err(EngineError::Period {
                got: setup.period_secs,
            });
        }
        let rules = ApplicationRules {
            address: setup.address,
            owner: setup.owner,
            supply: setup.supply,
            withdrawal_min: setup.withdrawal_min,
        };
        let spec = Arc::new(rules.spec(setup.chain_id, genesis_extra(&setup)));
        ensure_genesis(&store, &spec)?;
        let importer = Importer::new(store.clone(), spec.clone(), SealCheck::Off)
            .with_chosen_head()
            .with_limits(ForkLimits {
                side_blocks_max: SIDE_BLOCKS_MAX,
                side_block_age_max: SIDE_BLOCK_AGE_MAX,
                ..Default::default()
            });
        match importer.finish_open_reorganization() {
            Ok(_) => {}
            Err(ImportError::Store(error)) => return Err(error.into()),
            Err(error) => tracing::warn!(chain = %setup.address, %error, "a reorganization failed"),
        }
        Ok(Self {
            setup,
            rules,
            store,
            spec,
            importer,
        })
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    pub(crate) fn dapp_base(&self) -> Address {
        self.rules.dapp_base()
    }

    /// The chain at this moment.
    pub(crate) fn view(&self) -> Result<View, StoreError> {
        View::new(&self.store, self.spec.clone())
    }

    /// Keeps these past states from now on.
    pub(crate) fn keep(&mut self, states: StateRetention) {
        self.importer = self.importer.clone().keeping(states);
    }

    /// Lets all blocks be rows, so that old ones can be removed.
    pub(crate) fn keep_no_file(&mut self) {
        let (depth, step) = (u64::MAX, 1);
        self.importer = self.importer.clone().moving(OldBlocks { depth, step });
    }

    /// Removes blocks below `target` but for those in `keep`, at most so many.
    pub(crate) fn drop_blocks(&self, target: u64, keep: &[u64], most: u64) -> Result<(), StoreError> {
        self.importer.drop_blocks(target, keep, most as usize)
    }

    /// The slot of a block.
    pub(crate) const fn slot_of(&self, header: &Header) -> u64 {
        header.timestamp / self.setup.period_secs
    }

    /// A stored block as the parent of others.
    pub(crate) fn parent(&self, view: &View, hash: &B256) -> Result<Option<ParentBlock>, StoreError> {
        let Some(record) = view.header_by_hash(hash)? else {
            return Ok(None);
        };
        let header = record.header;
        let extra = extra_of(&header);
        Ok(Some(ParentBlock {
            number: header.number,
            hash: *hash,
            timestamp: header.timestamp,
            members: named_members(view, &header, &extra)?,
            extra,
        }))
    }

    /// Checks everything of a header that needs no execution. Returns its extra data.
    pub(crate) fn check(&self, view: &View, header: &Header) -> Result<BlockExtra, BlockRefusal> {
        let parent = self.parent(view, &header.parent_hash)?;
        let parent = parent.ok_or(BlockRefusal::UnknownParent(header.parent_hash))?;
        Ok(check_block_header(&self.setup, header, &parent)?)
    }

    /// Takes a block whose header was checked. A child of the head is executed and becomes the
    /// head; others become side blocks.
    pub(crate) fn import(&self, block: &Block) -> Result<Imported, BlockRefusal> {
        Ok(self.importer.import(block, None)?)
    }

    /// Makes a side block the head.
    pub(crate) fn choose(&self, hash: &B256) -> Result<Imported, BlockRefusal> {
        Ok(self.importer.choose_head(hash)?)
    }

    /// Makes a canonical block the head again, and forgets all that follow it.
    pub(crate) fn go_back(&self, number: u64) -> Result<Vec<BlockId>, BlockRefusal> {
        Ok(self.importer.set_head(number)?)
    }

    /// Makes the last of these blocks the head, without those below it: the fetched state is its
    /// own. The others are those that later blocks refer to.
    pub(crate) fn begin_later(&self, blocks: &[Block]) -> Result<(), BlockRefusal> {
        Ok(self.importer.begin_later(blocks)?)
    }

    /// The hash of the ancestor with this number of the block `id`, or its own.
    pub(crate) fn ancestor(&self, view: &View, id: BlockId, number: u64) -> Result<Option<B256>, StoreError> {
        let mut at = id;
        loop {
            if at.number < number {
                return Ok(None);
            }
            if at.number == number {
                return Ok(Some(at.hash));
            }
            if view.canonical_hash(at.number)? == Some(at.hash) {
                return view.canonical_hash(number);
            }
            let Some(record) = view.header_by_hash(&at.hash)? else {
                return Ok(None);
            };
            at = BlockId {
                number: at.number - 1,
                hash: record.header.parent_hash,
            };
        }
    }

    /// The stored blocks that are not canonical.
    pub(crate) fn side_blocks(&self, view: &View) -> Result<Vec<SideBlock>, StoreError> {
        view.snapshot().side_blocks()
    }

    /// The hashes of all stored blocks with this number.
    pub(crate) fn hashes_at(&self, view: &View, number: u64) -> Result<Vec<B256>, StoreError> {
        let side = view.snapshot().side_blocks_at(number)?;
        let canonical = view.canonical_hash(number)?;
        Ok(canonical
            .into_iter()
            .chain(side.into_iter().map(|side| side.hash))
            .collect())
    }

    /// Executes what `run` executes, as a block after the head that is thrown away. Returns it with
    /// its state.
    pub(crate) fn try_out(
        &self,
        view: &View,
        key: &SecretKey,
        run: impl FnOnce(&mut Executor<'_, '_>) -> Result<(), StateError>,
    ) -> Result<UnsealedBlock, EngineError> {
        let parent = self.parent(view, &view.head_hash())?.unwrap_or_default();
        let extra = BlockExtra {
            base: parent.extra.base,
            since: parent.extra.since,
            list: Vec::new(),
        };
        let timestamp = parent.timestamp + self.setup.period_secs;
        let header = draft_header(&parent, key.address(), timestamp, &extra);
        let fill = |executor: &mut Executor<'_, '_>| {
            run(executor)?;
            Ok((Vec::new(), Vec::new()))
        };
        self.execute(view, header, Box::new(fill))
    }

    /// Executes a block with this header after the head. `fill` returns its transactions with their
    /// senders.
    fn execute(
        &self,
        view: &View,
        header: Header,
        fill: BlockFill<'_>,
    ) -> Result<UnsealedBlock, EngineError> {
        let (spec, snapshot) = (&self.spec, view.snapshot());
        Ok(build_on(spec, snapshot, view.head(), header, Vec::new(), fill)?)
    }

    /// Builds and signs the block after the head. Returns what was left out, too.
    pub(crate) fn build(
        &self,
        view: &View,
        parent: &ParentBlock,
        key: &SecretKey,
        (timestamp, extra): (u64, &BlockExtra),
        ready: ReadyQueue,
        time: FillTime,
    ) -> Result<(Block, LeftOut), EngineError> {
        let header = draft_header(parent, key.address(), timestamp, extra);
        let mut left_out = LeftOut::default();
        let fill = |executor: &mut Executor<'_, '_>| {
            let filled = BlockFiller::new(executor, ready, time).fill()?;
            left_out = filled.2;
            Ok((filled.0, filled.1))
        };
        let built = self.execute(view, header, Box::new(fill))?;
        let mut block = built.block;
        sign_header(&mut block.header, &self.setup.address, key)?;
        Ok((block, left_out))
    }
}

/// The content of a stored header's extra data; zeros for block 0, which has another form.
fn extra_of(header: &Header) -> BlockExtra {
    match header.number {
        0 => BlockExtra::default(),
        _ => BlockExtra::decode(&header.extra_data).unwrap_or_default(),
    }
}

/// The members in force at a stored block, canonical or not.
fn named_members(view: &View, header: &Header, extra: &BlockExtra) -> Result<Vec<Address>, StoreError> {
    let (mut at, mut named) = (header.clone(), extra.clone());
    while named.list.is_empty() && at.number > extra.since {
        let hash = view.canonical_hash(at.number)?;
        let next = if hash == Some(at.hash()) {
            view.header(extra.since)?.map(|(_, record)| record)
        } else {
            view.header_by_hash(&at.parent_hash)?
        };
        let Some(record) = next else { break };
        at = record.header;
        named = extra_of(&at);
    }
    Ok(named.list)
}
