//! Verifies a whole store: every row against the hashes and roots that the headers have.
//!
//! Begins at block 0, whose hash says what chain this is; each header answers for the next
//! and for its body and receipts, the head's for the state and the trie. Finds faults and
//! goes on beside them; repairs nothing. One module per kind of row.

mod blocks;
mod fault;
mod logs;
mod notices;
mod replay;
mod state;

pub use fault::Fault;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use primitives::catch_panic;
use store::{BlockReads, Snapshot, Source, Store, StoreError, TableId, meta_key};

use crate::genesis::{genesis_header, read_record};
use crate::parallel::for_each_in_order;
use crate::spec::ChainSpec;
use blocks::{BlockFigures, Task};

/// Blocks that one thread checks before it looks for more.
const TASK_BLOCKS: u64 = 128;

/// What a check tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum CheckEvent<'a> {
    /// Something is wrong.
    Fault(&'a Fault),
    /// How far it is with what.
    Progress {
        /// What is being checked.
        what: &'static str,
        /// How many of them are done.
        done: u64,
        /// How many there are; 0 where that is not known.
        total: u64,
    },
}

/// What was checked, and how many faults were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Canonical blocks, block 0 included.
    pub blocks: u64,
    /// Blocks beside the chain.
    pub side_blocks: u64,
    /// Transactions of canonical blocks.
    pub transactions: u64,
    /// Accounts at the head.
    pub accounts: u64,
    /// Storage slots at the head.
    pub slots: u64,
    /// Codes.
    pub codes: u64,
    /// Trie nodes at the head.
    pub trie_nodes: u64,
    /// Faults.
    pub faults: u64,
}

/// Why a check did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The store cannot be read at all.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no chain in the store.
    #[error("the data directory holds no chain")]
    Empty,
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Checks everything in a store of this spec's chain. With `full` also the state of every
/// block, which holds the whole state in memory. `report` is told of faults and progress.
///
/// # Errors
/// [`CheckError`] when it cannot be done; what is wrong in the store is no error but a fault.
pub fn check_store(
    store: &Store,
    spec: &ChainSpec,
    full: bool,
    stop: &AtomicBool,
    report: &mut dyn FnMut(CheckEvent<'_>),
) -> Result<Checked, CheckError> {
    let view = store.snapshot()?;
    let mut check = Check {
        view: &view,
        spec,
        stop,
        report,
        checked: Checked::default(),
    };
    let head = check.head()?;
    check.genesis();
    let figures = check.blocks(store, head)?;
    check.counts(head, &figures);
    notices::check(&mut check)?;
    check.log_index(head, figures.log_entries);
    let mut faults = Vec::new();
    if let Some(root) = figures.head_state_root {
        state::check(&mut check, head, root)?;
        if full {
            replay::check(&mut check, head)?;
        }
    } else {
        faults.push(Fault::Skipped {
            what: "the state at the head",
            reason: "the head's header cannot be read",
        });
    }
    check.faults(faults);
    Ok(check.checked)
}

/// A check under way.
struct Check<'a> {
    view: &'a Snapshot,
    spec: &'a ChainSpec,
    stop: &'a AtomicBool,
    report: &'a mut dyn FnMut(CheckEvent<'_>),
    checked: Checked,
}

impl Check<'_> {
    fn faults(&mut self, faults: Vec<Fault>) {
        for fault in faults {
            self.checked.faults += 1;
            (self.report)(CheckEvent::Fault(&fault));
        }
    }

    fn progress(&mut self, what: &'static str, done: u64, total: u64) -> Result<(), CheckError> {
        if self.stop.load(Ordering::Acquire) {
            return Err(CheckError::Interrupted);
        }
        (self.report)(CheckEvent::Progress { what, done, total });
        Ok(())
    }

    /// The number of the head: from the row that says so or, where that contradicts the
    /// canonical blocks, from their number.
    fn head(&mut self) -> Result<u64, CheckError> {
        let stats = self.view.stats()?;
        let canonical = stats[TableId::NumberToHash as usize].rows;
        let got = self.view.head();
        if let Ok(Some((number, hash))) = got
            && self
                .view
                .canonical_hash(number)
                .is_ok_and(|found| found == Some(hash))
        {
            return Ok(number);
        }
        let Some(last) = canonical.checked_sub(1) else {
            return Err(CheckError::Empty);
        };
        let fault = match got {
            Err(error) => error.into(),
            Ok(got) => Fault::Meta {
                what: "head",
                got: got.map_or_else(
                    || "nothing".to_owned(),
                    |(number, hash)| format!("{number} ({hash})"),
                ),
                expected: format!("the last of {canonical} canonical blocks"),
            },
        };
        self.faults(vec![fault]);
        Ok(last)
    }

    /// Block 0 against the spec, and what the directory says of itself.
    fn genesis(&mut self) {
        let mut faults = Vec::new();
        let canonical = self.view.canonical_hash(0);
        let stored = self.view.get(TableId::Meta, meta_key::GENESIS);
        match (canonical, stored) {
            (Ok(Some(canonical)), Ok(stored)) => {
                if stored.as_deref() != Some(canonical.as_slice()) {
                    faults.push(Fault::Meta {
                        what: "genesis hash",
                        got: stored.map_or_else(|| "nothing".to_owned(), primitives::hex::encode_prefixed),
                        expected: canonical.to_string(),
                    });
                }
                match genesis_header(self.spec) {
                    Ok(header) if header.hash() != canonical => faults.push(Fault::Block {
                        number: 0,
                        hash: canonical,
                        what: "hash of the spec's block 0",
                        got: header.hash().to_string(),
                        expected: canonical.to_string(),
                    }),
                    Ok(_) => {}
                    Err(error) => faults.push(error.into()),
                }
            }
            // That there is no such row is said with the blocks.
            (Ok(None), _) => {}
            (Err(error), _) | (_, Err(error)) => faults.push(error.into()),
        }
        if let Err(got) = self.record() {
            faults.push(Fault::Meta {
                what: "chain spec",
                got,
                expected: "the chain's".to_owned(),
            });
        }
        self.faults(faults);
    }

    /// What the directory says of its spec, where it does; in words, what is wrong with that.
    fn record(&self) -> Result<(), String> {
        let record = read_record(self.view).map_err(|error| error.to_string())?;
        let Some(record) = record else { return Ok(()) };
        let spec = record.spec().map_err(|error| error.to_string())?.spec;
        match spec.differs_from(self.spec) {
            Some(first) => Err(format!("other rules from block {first} on")),
            None if spec.genesis != self.spec.genesis => Err("another block 0".to_owned()),
            None => Ok(()),
        }
    }

    /// Every block, canonical or not, on all processors; faults come in the order of blocks.
    fn blocks(&mut self, store: &Store, head: u64) -> Result<BlockFigures, CheckError> {
        let sides = self.side_blocks()?;
        let spans = (0..=head)
            .step_by(TASK_BLOCKS as usize)
            .map(|first| Task::Canonical(first..=head.min(first + (TASK_BLOCKS - 1))));
        let sides = sides.chunks(TASK_BLOCKS as usize);
        let tasks = spans.chain(sides.map(|blocks| Task::Side(blocks.to_vec())));
        let (spec, stop) = (self.spec, self.stop);
        let tasks = tasks.take_while(|_| !stop.load(Ordering::Acquire));
        let work = |task: Task| {
            let view = store.snapshot()?;
            Ok::<_, StoreError>(blocks::check(&view, spec, head, &task))
        };
        let mut figures = BlockFigures::default();
        for_each_in_order(tasks, work, |result| {
            let (found, faults) = result?;
            self.faults(faults);
            figures.add(&found);
            self.progress("blocks", figures.blocks.min(head + 1), head + 1)
        })?;
        if stop.load(Ordering::Acquire) {
            return Err(CheckError::Interrupted);
        }
        self.checked.blocks = figures.blocks;
        self.checked.side_blocks = figures.side_blocks;
        self.checked.transactions = figures.transactions;
        Ok(figures)
    }

    /// Blocks beside the chain, by number.
    fn side_blocks(&mut self) -> Result<Vec<(u64, primitives::B256)>, CheckError> {
        let (mut sides, mut faults) = (Vec::new(), Vec::new());
        let view = self.view;
        let scanned = guarded("block_to_header", || {
            view.scan(TableId::BlockToHeader, &[], |key, _| {
                match <[u8; 40]>::try_from(key) {
                    Err(_) => faults.push(Fault::row(TableId::BlockToHeader, key, "key is not of 40 bytes")),
                    Ok(key) => {
                        let number = u64::from_be_bytes(std::array::from_fn(|at| key[at]));
                        let hash = primitives::B256::from_slice(&key[8..]);
                        // A number that cannot be read is said with its block.
                        if view.canonical_hash(number).ok().flatten() != Some(hash) {
                            sides.push((number, hash));
                        }
                    }
                }
                ControlFlow::Continue(())
            })
        });
        match scanned {
            Ok(Ok(())) => {}
            Ok(Err(error)) => faults.push(error.into()),
            Err(fault) => faults.push(fault),
        }
        self.faults(faults);
        Ok(sides)
    }

    /// Rows that no block answers for show in the numbers of rows.
    fn counts(&mut self, head: u64, figures: &BlockFigures) {
        let stats = match self.view.stats() {
            Ok(stats) => stats,
            Err(error) => return self.faults(vec![error.into()]),
        };
        let stored = figures.blocks + figures.side_blocks;
        let expected = [
            (TableId::NumberToHash, head + 1),
            (TableId::HashToNumber, stored),
            (TableId::BlockToHeader, stored),
            (TableId::BlockToBody, stored),
            (TableId::BlockToReceipts, figures.executed),
            (TableId::TransactionToPosition, figures.positions),
            (TableId::BlockToChanges, head + 1),
            (TableId::AccountAtBlock, figures.account_versions),
            (TableId::StorageAtBlock, figures.slot_versions),
        ];
        let faults = expected.into_iter().filter_map(|(table, expected)| {
            let got = stats[table as usize].rows;
            (got != expected).then(|| Fault::Rows {
                table: table.name(),
                got,
                expected,
            })
        });
        self.faults(faults.collect());
    }
}

/// Runs `work`, in which the database may end by a panic where its own pages are damaged.
fn guarded<T>(place: &str, work: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_panic(work).map_err(|message| Fault::Unreadable {
        place: place.to_owned(),
        reason: format!("the database gives up: {message}"),
    })
}
