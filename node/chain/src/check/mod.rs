//! Verifies a whole store: every row is compared with the hashes and roots in the headers.
//!
//! The check starts at block 0, whose hash identifies the chain. Each header verifies its parent,
//! its body and its receipts; the head's header verifies the state and the trie. After a fault the
//! check continues with the next row. It repairs nothing. Each kind of row has a module.

mod blocks;
mod changes;
mod fault;
mod headers;
mod history;
mod logs;
mod notices;
mod past_nodes;
mod state;

pub use fault::CheckFault;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use primitives::catch_panic;
use store::{
    AncientReads, AncientRow, BlockReads, HorizonReads, NO_STATE, Snapshot, Source, StateHorizon, StateReads,
    StorageOwner, Store, StoreError, TableId, meta_key,
};

use crate::genesis::{genesis_header, read_record};
use crate::parallel::for_each_in_order;
use crate::spec::ChainSpec;
use blocks::{BlockCounts, BlockTask};

/// Number of blocks in a task of a thread.
const TASK_BLOCKS: u64 = 128;

/// An event of a running check.
#[derive(Clone, Copy, Debug)]
pub enum CheckEvent<'a> {
    /// A fault was found.
    Fault(&'a CheckFault),
    /// A part of the check has progressed.
    Progress {
        /// The part that is being checked: `blocks`, `accounts` and so on.
        what: &'static str,
        /// The number of checked ones.
        done: u64,
        /// The number of all; 0 if it is not known.
        total: u64,
    },
}

/// The counts of a finished check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Canonical blocks, block 0 included.
    pub blocks: u64,
    /// Blocks that are not canonical.
    pub side_blocks: u64,
    /// Headers without bodies.
    pub bare_headers: u64,
    /// Transactions of canonical blocks.
    pub transactions: u64,
    /// Accounts at the head.
    pub accounts: u64,
    /// Storage slots at the head.
    pub slots: u64,
    /// Contract codes.
    pub codes: u64,
    /// Trie nodes at the head.
    pub trie_nodes: u64,
    /// Faults that were found.
    pub faults: u64,
}

/// The reason why a check did not finish.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The store cannot be read at all.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has no chain.
    #[error("the data directory has no chain")]
    Empty,
    /// `stop` was set.
    #[error("interrupted")]
    Interrupted,
}

/// Checks all rows of a store with this spec's chain.
///
/// With `full` it also checks the state of every block, and with it the values that were before
/// each block. It holds the whole state in memory then. While a state is fetched from peers, no
/// state is checked. It calls `report` with faults and progress. It ends early when `stop` is set.
///
/// # Errors
/// [`CheckError`] when the check cannot be finished. A fault in the store is not an error.
pub fn check_store(
    store: &Store,
    spec: &ChainSpec,
    full: bool,
    stop: &AtomicBool,
    report: &mut dyn FnMut(CheckEvent<'_>),
) -> Result<CheckSummary, CheckError> {
    let view = store.snapshot()?;
    let mut check = StoreCheck {
        horizon: view.state_horizon()?,
        view: &view,
        spec,
        stop,
        report,
        summary: CheckSummary::default(),
    };
    let head = check.head()?;
    check.genesis();
    let sides = check.side_blocks()?;
    let counts = check.blocks(store, head, &sides)?;
    check.row_counts(head, &counts);
    headers::check(&mut check, &sides)?;
    notices::check(&mut check)?;
    check.log_index(head, counts.log_entries);
    if check.horizon.block == NO_STATE {
        // Rows of a state are being fetched. They are those of no block yet.
        return Ok(check.summary);
    }
    check.dead_storages(head);
    changes::check(&mut check, &counts.changes)?;
    let mut faults = Vec::new();
    if let Some(root) = counts.head_state_root {
        state::check(&mut check, head, root)?;
        past_nodes::check(&mut check, head)?;
        if full {
            history::check(&mut check, head)?;
        }
    } else {
        faults.push(CheckFault::Skipped {
            what: "the state at the head",
            reason: "the head's header cannot be read",
        });
    }
    check.faults(faults);
    Ok(check.summary)
}

/// A running check.
struct StoreCheck<'a> {
    view: &'a Snapshot,
    /// Which states are kept.
    horizon: StateHorizon,
    spec: &'a ChainSpec,
    stop: &'a AtomicBool,
    report: &'a mut dyn FnMut(CheckEvent<'_>),
    summary: CheckSummary,
}

impl StoreCheck<'_> {
    /// Counts and reports faults.
    fn faults(&mut self, faults: Vec<CheckFault>) {
        for fault in faults {
            self.summary.faults += 1;
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

    /// The number of the head block. If the stored head is not canonical, the number of canonical
    /// blocks decides.
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
            Ok(got) => CheckFault::Meta {
                what: "head",
                got: got.map_or_else(
                    || "none".to_owned(),
                    |(number, hash)| format!("{number} ({hash})"),
                ),
                expected: format!("the last of {canonical} canonical blocks"),
            },
        };
        self.faults(vec![fault]);
        Ok(last)
    }

    /// Checks block 0 and the stored spec against the given spec.
    fn genesis(&mut self) {
        let mut faults = Vec::new();
        let canonical = self.view.canonical_hash(0);
        let stored = self.view.get(TableId::Meta, meta_key::GENESIS);
        match (canonical, stored) {
            (Ok(Some(canonical)), Ok(stored)) => {
                if stored.as_deref() != Some(canonical.as_slice()) {
                    faults.push(CheckFault::Meta {
                        what: "genesis hash",
                        got: stored.map_or_else(|| "none".to_owned(), primitives::hex::encode_prefixed),
                        expected: canonical.to_string(),
                    });
                }
                let expected = genesis_header(self.spec).hash();
                if expected != canonical {
                    faults.push(CheckFault::Block {
                        number: 0,
                        hash: canonical,
                        what: "hash of the spec's block 0",
                        got: expected.to_string(),
                        expected: canonical.to_string(),
                    });
                }
            }
            // The check of blocks reports the missing row.
            (Ok(None), _) => {}
            (Err(error), _) | (_, Err(error)) => faults.push(error.into()),
        }
        faults.extend(self.spec_record().map(|got| CheckFault::Meta {
            what: "chain spec",
            got,
            expected: "the spec of this chain".to_owned(),
        }));
        self.faults(faults);
    }

    /// Describes the stored spec if it is not the given one. A store without a spec is right.
    fn spec_record(&self) -> Option<String> {
        let record = match read_record(self.view) {
            Ok(record) => record?,
            Err(error) => return Some(error.to_string()),
        };
        let spec = match record.spec() {
            Ok(stored) => stored.spec,
            Err(error) => return Some(error.to_string()),
        };
        match spec.differs_from(self.spec) {
            Some(first) => Some(format!("a spec with other rules from block {first} on")),
            None => (genesis_header(&spec) != genesis_header(self.spec))
                .then(|| "a spec with another block 0".to_owned()),
        }
    }

    /// Checks every block, canonical or not, on all processors. Faults are reported in the order of
    /// blocks.
    fn blocks(
        &mut self,
        store: &Store,
        head: u64,
        sides: &[(u64, primitives::B256)],
    ) -> Result<BlockCounts, CheckError> {
        let spans = (0..=head)
            .step_by(TASK_BLOCKS as usize)
            .map(|first| BlockTask::Canonical(first..=head.min(first + (TASK_BLOCKS - 1))));
        let sides = sides.chunks(TASK_BLOCKS as usize);
        let tasks = spans.chain(sides.map(|blocks| BlockTask::Side(blocks.to_vec())));
        let (spec, stop, horizon) = (self.spec, self.stop, self.horizon);
        let tasks = tasks.take_while(|_| !stop.load(Ordering::Acquire));
        let work = |task: BlockTask| {
            let view = store.snapshot()?;
            Ok::<_, StoreError>(blocks::check(&view, spec, (head, horizon), &task))
        };
        let mut figures = BlockCounts::default();
        for_each_in_order(tasks, work, |result| {
            let (found, faults) = result?;
            self.faults(faults);
            figures.add(&found);
            self.progress("blocks", figures.blocks.min(head + 1), head + 1)
        })?;
        if stop.load(Ordering::Acquire) {
            return Err(CheckError::Interrupted);
        }
        self.summary.blocks = figures.blocks;
        self.summary.side_blocks = figures.side_blocks;
        self.summary.transactions = figures.transactions;
        Ok(figures)
    }

    /// The numbers and hashes of the blocks that are not canonical, sorted by number.
    fn side_blocks(&mut self) -> Result<Vec<(u64, primitives::B256)>, CheckError> {
        let (mut sides, mut faults) = (Vec::new(), Vec::new());
        let view = self.view;
        let scanned = guarded("block_to_header", || {
            view.scan(TableId::BlockToHeader, &[], |key, _| {
                match <[u8; 40]>::try_from(key) {
                    Err(_) => faults.push(CheckFault::row(
                        TableId::BlockToHeader,
                        key,
                        "key is not of 40 bytes",
                    )),
                    Ok(key) => {
                        let number = u64::from_be_bytes(std::array::from_fn(|at| key[at]));
                        let hash = primitives::B256::from_slice(&key[8..]);
                        // A canonical hash that cannot be read is reported with its block.
                        if view.canonical_hash(number).ok().flatten() != Some(hash) {
                            sides.push((number, hash));
                        }
                    }
                }
                ControlFlow::Continue(())
            })
        });
        faults.extend(scanned.err());
        self.faults(faults);
        Ok(sides)
    }

    /// Compares the numbers of rows with the numbers that the blocks need. This finds rows that
    /// belong to no block.
    fn row_counts(&mut self, head: u64, counts: &BlockCounts) {
        let positions = guarded("transaction_to_position", || self.view.count_positions());
        let fault = match positions {
            Ok(got) if got == counts.positions => None,
            Ok(got) => Some(CheckFault::Entries {
                table: TableId::TransactionToPosition.name(),
                got,
                expected: counts.positions,
            }),
            Err(fault) => Some(fault),
        };
        self.faults(fault.into_iter().collect());
        let stats = match self.view.stats() {
            Ok(stats) => stats,
            Err(error) => return self.faults(vec![error.into()]),
        };
        let stored = counts.blocks + counts.side_blocks;
        let ancient = self.ancient(head);
        let expected = [
            (TableId::NumberToHash, head + 1),
            (TableId::HashToNumber, stored),
            (TableId::BlockToHeader, stored),
            (TableId::BlockToBody, stored - ancient),
            (TableId::BlockToReceipts, counts.executed.saturating_sub(ancient)),
            (
                TableId::BlockToChanges,
                (head + 1).saturating_sub(self.horizon.first_changes),
            ),
        ];
        let faults = expected.into_iter().filter_map(|(table, expected)| {
            let got = stats[table as usize].rows;
            (got != expected).then(|| CheckFault::Rows {
                table: table.name(),
                got,
                expected,
            })
        });
        self.faults(faults.collect());
    }
}

impl StoreCheck<'_> {
    /// Checks the index of the blocks file: no gaps, no records that overlap, no block above the
    /// head. What the records contain is checked with the blocks. Returns how many blocks it names.
    fn ancient(&mut self, head: u64) -> u64 {
        let (view, mut count, mut faults) = (self.view, 0, Vec::new());
        let scanned = guarded("number_to_ancient", || {
            view.scan_ancient(|row| match row {
                Ok(AncientRow { number, .. }) if number <= head => count += 1,
                Ok(AncientRow { number, .. }) => faults.push(CheckFault::row(
                    TableId::NumberToAncient,
                    &number.to_be_bytes(),
                    format!("it is above the head, which is block {head}"),
                )),
                Err(error) => faults.push(error.into()),
            })
        });
        faults.extend(scanned.err());
        self.faults(faults);
        count
    }
}

impl StoreCheck<'_> {
    /// Checks that storages whose rows are to be removed are of earlier incarnations.
    fn dead_storages(&mut self, head: u64) {
        let (view, mut faults) = (self.view, Vec::new());
        let scanned = guarded("dead_storage", || {
            view.scan(TableId::DeadStorage, &[], |key, row| {
                let dead = StorageOwner::from_bytes(key).and_then(|owner| {
                    let now = view.account_by_key(&owner.account, head).ok()?;
                    (owner.incarnation < now.incarnation && matches!(row, [0 | 1])).then_some(())
                });
                if dead.is_none() {
                    let reason = "it is of no storage that was destroyed, or its value is not 0 or 1";
                    faults.push(CheckFault::row(TableId::DeadStorage, key, reason));
                }
                ControlFlow::Continue(())
            })
        });
        faults.extend(scanned.err());
        self.faults(faults);
    }
}

/// Runs `work`, and turns an error of the store, or a panic, into a fault. The database can panic
/// when its own pages are damaged.
fn guarded<T>(place: &str, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, CheckFault> {
    Ok(panic_to_fault(place, work)??)
}

/// Runs `work`, and turns a panic into a fault.
fn panic_to_fault<T>(place: &str, work: impl FnOnce() -> T) -> Result<T, CheckFault> {
    catch_panic(work).map_err(|message| CheckFault::Unreadable {
        place: place.to_owned(),
        reason: format!("the database panicked: {message}"),
    })
}
