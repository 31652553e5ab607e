//! Importing a block: header, seal, body, execution, roots, one write transaction.
//!
//! Mined, synced and imported-from-file blocks all come through [`Importer::import`]. A
//! block that makes a heavier chain becomes the head, with a reorganization where it does
//! not build on the present head; at equal total difficulty the first seen stays. All
//! roots are recomputed and compared, whoever made the block.

pub(crate) mod bad;
pub mod bulk;
mod error;
mod run;

pub use error::ImportError;
pub use run::RunCost;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::{Address, B256, Block, Bloom, Header};
use store::{
    BlockBody, BlockReads, HeaderRecord, Snapshot, Source, Store, StoreError, TableId, Tables, meta_key,
};

use crate::evm::execute::{Executed, Executor};
use crate::import::bad::BadBlocks;
use crate::rules::body::{BodyError, SealCheck, check_body};
use crate::rules::check_header;
use crate::spec::ChainSpec;
use crate::state::{BlockState, HeadState, StateError, StateUpdate, revert_block};
use crate::trie::ordered_root;
use run::RunSource;

/// A side block is executed at once where neither the chain nor the branch below the block has
/// more blocks than this since the fork; on deeper forks when its branch becomes the heavier one,
/// so that an old branch costs no quadratic work.
pub const SIDE_EXECUTION_DEPTH: u64 = 32;

/// A block's place: number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
}

/// What an import did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The block was there already.
    Known,
    /// The block is valid and kept beside the chain.
    Side,
    /// The block is the head now.
    Head {
        /// Blocks that are canonical no more, highest first.
        reverted: Vec<BlockId>,
        /// Blocks that became canonical, lowest first; the last is the new head.
        applied: Vec<BlockId>,
    },
}

/// A block with what could be checked of it without its parent.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The block.
    pub block: Block,
    /// Its hash.
    pub hash: B256,
    /// Its seal is good.
    sealed: bool,
    /// Its body is good, and these sent its transactions.
    senders: Option<Vec<Address>>,
}

/// Takes blocks into a store. The single writer owns it.
#[derive(Clone, Debug)]
pub struct Importer {
    store: Store,
    spec: Arc<ChainSpec>,
    seals: SealCheck,
    bad: BadBlocks,
    /// What is in memory of the state after the head that this importer made last. Clones share it.
    head: Arc<Mutex<Option<Held>>>,
}

/// State after the block with this hash.
type Held = (B256, HeadState);

impl Importer {
    /// An importer for a store that has the spec's block 0.
    pub fn new(store: Store, spec: Arc<ChainSpec>, seals: SealCheck) -> Self {
        Self {
            store,
            spec,
            seals,
            bad: BadBlocks::default(),
            head: Arc::default(),
        }
    }

    /// Takes a block in. `now` is the clock in unix seconds; `None` leaves the clock out.
    ///
    /// # Errors
    /// [`ImportError`] when the block is refused; then nothing was changed.
    pub fn import(&self, block: &Block, now: Option<u64>) -> Result<Imported, ImportError> {
        let hash = block.hash();
        let view = self.store.snapshot()?;
        if view.block_number(&hash)?.is_some() {
            return Ok(Imported::Known);
        }
        self.check_bad(&hash)?;
        let parent_hash = block.header.parent_hash;
        let number = view
            .block_number(&parent_hash)?
            .ok_or(ImportError::UnknownParent(parent_hash))?;
        let parent = header(&view, number, &parent_hash)?;
        self.check_beyond(number + 1)?;
        check_header(&self.spec, &block.header, &parent.header, now)?;
        self.seals.check(&self.spec, &block.header)?;
        let senders = check_body(&self.spec, &self.seals, &view, block)?;
        drop(view);

        let body = BlockBody {
            transactions: block.transactions.clone(),
            senders,
            uncles: block.uncles.clone(),
        };
        let total_difficulty = parent.total_difficulty + block.header.difficulty;
        let record = HeaderRecord {
            header: block.header.clone(),
            total_difficulty,
            executed: false,
        };
        let batch = self.store.batch()?;
        let placed = batch.write(|tables| self.place(tables, hash, &record, &body));
        match placed.inspect_err(|error| self.remember(&hash, error))? {
            Placed::Written(imported, held) => {
                self.commit(batch, |view| Ok(view.block_number(&hash)?.is_some()))?;
                if held.is_some() {
                    *self.head.lock() = held.map(|held| *held);
                }
                Ok(imported)
            }
            Placed::Lighter(executed) => {
                batch.abort()?;
                let batch = self.store.batch()?;
                batch.write(|tables| {
                    tables.put_block(&hash, &record, &body)?;
                    tables.put_executed(&hash, &record, &executed.receipts)
                })?;
                self.commit(batch, |view| Ok(view.block_number(&hash)?.is_some()))?;
                Ok(Imported::Side)
            }
        }
    }

    /// Commits a batch. A commit may fail after its last write: it is one where what was written
    /// is `there` afterwards.
    fn commit(
        &self,
        batch: store::WriteBatch,
        there: impl FnOnce(&Snapshot) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        batch.commit().or_else(|error| {
            let there = self.store.snapshot().and_then(|view| there(&view));
            match there {
                Ok(true) => Ok(()),
                _ => Err(error),
            }
        })
    }

    fn check_bad(&self, hash: &B256) -> Result<(), ImportError> {
        match self.bad.reason(hash) {
            Some(reason) => Err(ImportError::Bad { reason }),
            None => Ok(()),
        }
    }

    /// Remembers the block that executing has shown to be bad: this one, or one below it.
    fn remember(&self, hash: &B256, error: &ImportError) {
        match error {
            ImportError::Branch { hash, error, .. } => self.remember(hash, error),
            error if error.is_verdict() => self.bad.insert(*hash, &error.to_string()),
            _ => {}
        }
    }

    /// The store that blocks are taken into.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The rules.
    pub fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// Stops where rules begin that are not built here.
    fn check_beyond(&self, number: u64) -> Result<(), ImportError> {
        match self.spec.unsupported_fork(number) {
            None => Ok(()),
            Some(rules) => Err(ImportError::Beyond {
                rules: rules.to_owned(),
            }),
        }
    }

    /// Does ahead of the import what needs no parent: the seal and, where there are no uncles,
    /// the body. Any number of threads may do so at once; `view` may be of any moment.
    pub fn prepare(&self, view: &impl BlockReads, block: Block) -> Prepared {
        let hash = block.hash();
        self.seals.prepare_ahead(&self.spec, block.header.number);
        let sealed = self.seals.check(&self.spec, &block.header).is_ok();
        let senders = (sealed && block.uncles.is_empty())
            .then(|| check_body(&self.spec, &self.seals, view, &block).ok())
            .flatten();
        Prepared {
            block,
            hash,
            sealed,
            senders,
        }
    }

    /// Makes a good child of the head the head. `false`: it is none, and nothing was written.
    /// `held` is then nothing too, where the block was executed.
    fn extend(
        &self,
        (tables, committed): (&mut Tables<'_>, &Snapshot),
        held: &mut Option<Held>,
        prepared: &Prepared,
        now: Option<u64>,
        cost: &mut RunCost,
    ) -> Result<bool, StoreError> {
        let Prepared {
            block,
            hash,
            sealed,
            senders,
        } = prepared;
        let (number, parent_hash) = required(tables.head()?, TableId::Meta, meta_key::HEAD)?;
        // Without difficulty a block would make no heavier chain.
        let heavier = !block.header.difficulty.is_zero();
        if !sealed || !heavier || block.header.parent_hash != parent_hash {
            return Ok(false);
        }
        let parent = header(tables, number, &parent_hash)?;
        if self.check_beyond(number + 1).is_err()
            || check_header(&self.spec, &block.header, &parent.header, now).is_err()
        {
            return Ok(false);
        }
        let senders = match senders {
            Some(senders) => senders.clone(),
            None => match check_body(&self.spec, &self.seals, &*tables, block) {
                Ok(senders) => senders,
                Err(BodyError::Store(error)) => return Err(error),
                Err(_) => return Ok(false),
            },
        };
        let started = Instant::now();
        let source = RunSource {
            committed,
            tables: &*tables,
        };
        let executed = execute(
            &self.spec,
            &source,
            held,
            &parent.header,
            &block.header,
            &block.transactions,
            &senders,
            &block.uncles,
        );
        let (executed, update, roots) = match executed {
            Ok(done) => done,
            Err(ImportError::Store(error) | ImportError::State(StateError(error))) => return Err(error),
            Err(_) => return Ok(false),
        };
        cost.execute += started.elapsed().saturating_sub(roots);
        cost.roots += roots;
        if compare(&self.spec, &block.header, &executed, update.root).is_err() {
            return Ok(false);
        }
        let record = HeaderRecord {
            header: block.header.clone(),
            total_difficulty: parent.total_difficulty + block.header.difficulty,
            executed: true,
        };
        let body = BlockBody {
            transactions: block.transactions.clone(),
            senders,
            uncles: block.uncles.clone(),
        };
        tables.put_block(hash, &record, &body)?;
        *held = Some((*hash, update.write_versions(tables, number + 1)?));
        tables.put_executed(hash, &record, &executed.receipts)?;
        tables.put_notices(number + 1, hash, &executed.notices)?;
        tables.put_canonical(number + 1, hash, &body.transactions, &executed.receipts)?;
        Ok(true)
    }

    /// Writes the block where it belongs: as head, or beside the chain.
    fn place(
        &self,
        tables: &mut Tables<'_>,
        hash: B256,
        record: &HeaderRecord,
        body: &BlockBody,
    ) -> Result<Placed, ImportError> {
        let (head_number, head_hash) = required(tables.head()?, TableId::Meta, meta_key::HEAD)?;
        let head = header(tables, head_number, &head_hash)?;
        let heavier = record.total_difficulty > head.total_difficulty;
        // For a block that changes nothing yet the way is not gone further than it matters.
        let most = if heavier { u64::MAX } else { SIDE_EXECUTION_DEPTH };
        let near = |fork: &Fork| head_number.saturating_sub(fork.ancestor) <= most;
        let fork = self.fork(tables, &record.header.parent_hash, most)?;
        let Some(fork) = fork.filter(near) else {
            tables.put_block(&hash, record, body)?;
            return Ok(Placed::Written(Imported::Side, None));
        };
        for id in &fork.branch {
            self.check_bad(&id.hash).map_err(|error| ImportError::Branch {
                number: id.number,
                hash: id.hash,
                error: Box::new(error),
            })?;
        }
        let reverted = self.revert_to(tables, head.header, fork.ancestor)?;
        let mut applied = Vec::new();
        // What is held is of the head, and stays so where the head does.
        let extends = heavier && reverted.is_empty() && fork.branch.is_empty();
        let mut held = extends.then(|| self.head.lock().take()).flatten();
        for id in fork.branch.iter().rev() {
            let fail = |error| ImportError::Branch {
                number: id.number,
                hash: id.hash,
                error: Box::new(error),
            };
            let record = header(tables, id.number, &id.hash)?;
            let body = self.body(tables, id)?;
            self.apply(tables, &mut held, id.hash, &record, &body)
                .map_err(fail)?;
            applied.push(*id);
        }
        tables.put_block(&hash, record, body)?;
        let executed = self.apply(tables, &mut held, hash, record, body)?;
        applied.push(BlockId {
            number: record.header.number,
            hash,
        });
        Ok(if heavier {
            Placed::Written(Imported::Head { reverted, applied }, held.map(Box::new))
        } else {
            Placed::Lighter(Box::new(executed))
        })
    }

    /// Makes the canonical block `number` the head and forgets every block above it. Returns the
    /// blocks that were taken back, highest first.
    ///
    /// # Errors
    /// [`ImportError`] when the store fails; then nothing was changed.
    pub fn set_head(&self, number: u64) -> Result<Vec<BlockId>, ImportError> {
        // What is in memory is of the head that goes.
        self.head.lock().take();
        let batch = self.store.batch()?;
        let reverted = batch.write(|tables| {
            let (head_number, head_hash) = required(tables.head()?, TableId::Meta, meta_key::HEAD)?;
            let head = header(tables, head_number, &head_hash)?.header;
            let reverted = self.revert_to(tables, head, number)?;
            tables.delete_blocks_above(number)?;
            Ok::<_, ImportError>(reverted)
        })?;
        self.commit(batch, |view| {
            Ok(view.head()?.is_some_and(|(head, _)| head == number))
        })?;
        Ok(reverted)
    }

    fn body(&self, tables: &Tables<'_>, id: &BlockId) -> Result<BlockBody, StoreError> {
        let body = tables.body(id.number, &id.hash, self.spec.tx_rules())?;
        required(body, TableId::BlockToBody, id.hash.as_slice())
    }

    /// Where the branch that ends in `tip` leaves the canonical chain; `None` where it has more
    /// than `most` blocks.
    fn fork(&self, tables: &Tables<'_>, tip: &B256, most: u64) -> Result<Option<Fork>, StoreError> {
        let mut branch = Vec::new();
        let mut hash = *tip;
        loop {
            let number = required(
                tables.block_number(&hash)?,
                TableId::HashToNumber,
                hash.as_slice(),
            )?;
            if tables.canonical_hash(number)? == Some(hash) {
                return Ok(Some(Fork {
                    ancestor: number,
                    branch,
                }));
            }
            if branch.len() as u64 == most {
                return Ok(None);
            }
            // The header is compared with its hash, so numbers fall and the walk ends.
            branch.push(BlockId { number, hash });
            hash = header(tables, number, &hash)?.header.parent_hash;
        }
    }

    /// Takes canonical blocks back until `ancestor` is the head.
    fn revert_to(
        &self,
        tables: &mut Tables<'_>,
        mut head: Header,
        ancestor: u64,
    ) -> Result<Vec<BlockId>, ImportError> {
        let mut reverted = Vec::new();
        while head.number > ancestor {
            let id = BlockId {
                number: head.number,
                hash: head.hash(),
            };
            let body = self.body(tables, &id)?;
            let parent = header(tables, head.number - 1, &head.parent_hash)?.header;
            revert_block(tables, head.number, head.state_root, parent.state_root)?;
            tables.delete_canonical(&head, &body.transactions)?;
            tables.delete_notices(id.number, &id.hash)?;
            reverted.push(id);
            head = parent;
        }
        Ok(reverted)
    }

    /// Executes a block on the head, compares everything its header says, makes it head. `held`
    /// is of the head before and after.
    fn apply(
        &self,
        tables: &mut Tables<'_>,
        held: &mut Option<Held>,
        hash: B256,
        record: &HeaderRecord,
        body: &BlockBody,
    ) -> Result<Executed, ImportError> {
        let header = &record.header;
        let parent = self::header(tables, header.number - 1, &header.parent_hash)?.header;
        let (executed, update, _) = execute(
            &self.spec,
            &*tables,
            held,
            &parent,
            header,
            &body.transactions,
            &body.senders,
            &body.uncles,
        )?;
        compare(&self.spec, header, &executed, update.root)?;
        *held = Some((hash, update.write(tables, header.number)?));
        tables.put_executed(&hash, record, &executed.receipts)?;
        tables.put_notices(header.number, &hash, &executed.notices)?;
        tables.put_canonical(header.number, &hash, &body.transactions, &executed.receipts)?;
        Ok(executed)
    }
}

/// A row that another row says is there.
fn required<T>(row: Option<T>, table: TableId, key: &[u8]) -> Result<T, StoreError> {
    row.ok_or_else(|| StoreError::corrupt(table, key, "no such row"))
}

/// A header that must be there, compared with its hash.
fn header(source: &impl BlockReads, number: u64, hash: &B256) -> Result<HeaderRecord, StoreError> {
    let (table, key) = (TableId::BlockToHeader, hash.as_slice());
    let record = required(source.header(number, hash)?, table, key)?;
    let got = record.header.hash();
    if got != *hash || record.header.number != number {
        let reason = format!(
            "header {got} of number {}, want number {number}",
            record.header.number
        );
        return Err(StoreError::corrupt(table, key, reason));
    }
    Ok(record)
}

enum Placed {
    /// The batch is to be committed; then this is held of the head, if there is a new one.
    Written(Imported, Option<Box<Held>>),
    /// The block is valid, but its chain is not the heavier one.
    Lighter(Box<Executed>),
}

/// A branch that leaves the canonical chain at `ancestor`; its blocks, highest first.
struct Fork {
    ancestor: u64,
    branch: Vec<BlockId>,
}

/// Executes a block on its parent, of whose state `held` may be. Also says how long the roots took.
#[expect(
    clippy::too_many_arguments,
    reason = "a block's parts, from a message or from rows"
)]
fn execute(
    spec: &ChainSpec,
    source: &impl Source,
    held: &mut Option<Held>,
    parent: &Header,
    header: &Header,
    transactions: &[primitives::Transaction],
    senders: &[Address],
    uncles: &[Header],
) -> Result<(Executed, StateUpdate, Duration), ImportError> {
    let of_parent = held.take().filter(|(hash, _)| *hash == header.parent_hash);
    let head = of_parent.map_or_else(|| HeadState::new(parent.state_root), |(_, head)| head);
    let mut state = BlockState::over(source, parent.number, head);
    let mut executor = Executor::new(spec, header, &mut state);
    executor.begin()?;
    for (index, (transaction, sender)) in transactions.iter().zip(senders).enumerate() {
        executor
            .transaction(transaction, *sender)
            .map_err(|error| ImportError::Transaction {
                index,
                hash: transaction.hash(),
                error,
            })?;
    }
    let executed = executor.finish(uncles)?;
    let started = Instant::now();
    let update = state.update()?;
    Ok((executed, update, started.elapsed()))
}

fn compare(
    spec: &ChainSpec,
    header: &Header,
    executed: &Executed,
    state_root: B256,
) -> Result<(), ImportError> {
    if executed.gas_used != header.gas_used {
        return Err(ImportError::GasUsed {
            got: executed.gas_used,
            expected: header.gas_used,
        });
    }
    let got = receipts_root(spec, executed);
    if got != header.receipts_root {
        return Err(ImportError::ReceiptsRoot {
            got,
            expected: header.receipts_root,
        });
    }
    if executed.logs_bloom != header.logs_bloom {
        let bits = |bloom: &Bloom| bloom.iter().map(|byte| byte.count_ones()).sum();
        return Err(ImportError::Bloom {
            got_bits: bits(&executed.logs_bloom),
            expected_bits: bits(&header.logs_bloom),
        });
    }
    if state_root != header.state_root {
        return Err(ImportError::StateRoot {
            got: state_root,
            expected: header.state_root,
        });
    }
    Ok(())
}

/// The receipts root of an executed block.
pub(crate) fn receipts_root(spec: &ChainSpec, executed: &Executed) -> B256 {
    ordered_root(
        executed
            .receipts
            .iter()
            .map(|receipt| receipt.encode(spec.receipt_form())),
    )
}
