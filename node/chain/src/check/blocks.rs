//! Checks blocks: header, parent, total difficulty, body, senders, receipts, positions of
//! transactions, log keys, list of changes.
//!
//! A block is compared with its own header and with its parent's. State is checked elsewhere.

use std::ops::RangeInclusive;

use primitives::{Address, B256, Bloom, Receipt, Transaction, U256, uncles_hash};
use store::{
    AccountKey, BlockBody, BlockReads, HeaderRecord, Snapshot, StateHorizon, StateKind, StateReads,
    StoreError, TransactionPosition, position_hashes,
};

use super::changes::ChangeSum;
use super::{CheckFault, guarded};
use crate::rules::body::{senders, transactions_root};
use crate::rules::order::ExecutionOrder;
use crate::spec::ChainSpec;
use crate::trie::ordered_root;

/// Name of the flag that the store keeps with the header of an executed block.
const EXECUTED: &str = "flag of an executed block";

/// Blocks that one thread checks at once.
pub(super) enum BlockTask {
    /// Canonical blocks, by number.
    Canonical(RangeInclusive<u64>),
    /// Blocks that are not canonical, by number and hash.
    Side(Vec<(u64, B256)>),
}

/// The numbers of rows that the checked blocks need.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockCounts {
    /// Canonical blocks.
    pub(super) blocks: u64,
    pub(super) side_blocks: u64,
    /// Blocks with receipts, canonical or not.
    pub(super) executed: u64,
    /// Transactions of canonical blocks.
    pub(super) transactions: u64,
    /// Hashes by which canonical transactions are found. A transaction may have two.
    pub(super) positions: u64,
    /// Entries of canonical blocks in the log index.
    pub(super) log_entries: u64,
    /// Changes of accounts and slots.
    pub(super) changes: ChangeSum,
    /// The state root in the head's header, if the task has the head and it can be read.
    pub(super) head_state_root: Option<B256>,
}

impl BlockCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.side_blocks += other.side_blocks;
        self.executed += other.executed;
        self.transactions += other.transactions;
        self.positions += other.positions;
        self.log_entries += other.log_entries;
        self.changes.merge(&other.changes);
        self.head_state_root = self.head_state_root.or(other.head_state_root);
    }
}

/// Checks the blocks of a task.
pub(super) fn check(
    view: &Snapshot,
    spec: &ChainSpec,
    (head, horizon): (u64, StateHorizon),
    task: &BlockTask,
) -> (BlockCounts, Vec<CheckFault>) {
    let mut check = BlockCheck {
        view,
        spec,
        head,
        horizon,
        counts: BlockCounts::default(),
        faults: Vec::new(),
    };
    match task {
        BlockTask::Canonical(numbers) => numbers.clone().for_each(|number| check.canonical(number)),
        BlockTask::Side(blocks) => blocks
            .iter()
            .for_each(|(number, hash)| check.side(*number, *hash)),
    }
    (check.counts, check.faults)
}

pub(super) struct BlockCheck<'a> {
    pub(super) view: &'a Snapshot,
    spec: &'a ChainSpec,
    head: u64,
    horizon: StateHorizon,
    pub(super) counts: BlockCounts,
    faults: Vec<CheckFault>,
}

impl BlockCheck<'_> {
    fn canonical(&mut self, number: u64) {
        self.counts.blocks += 1;
        let hash = match self.view.canonical_hash(number) {
            Ok(Some(hash)) => hash,
            Ok(None) => return self.faults.push(CheckFault::NoBlock { number }),
            Err(error) => return self.faults.push(error.into()),
        };
        if let Some(record) = self.guarded(number, hash, |check| check.header(number, hash, true)) {
            if number == self.head {
                self.counts.head_state_root = Some(record.header.state_root);
            }
            self.guarded(number, hash, |check| check.body(hash, &record, true));
        }
        self.guarded(number, hash, |check| check.changes(number));
    }

    fn side(&mut self, number: u64, hash: B256) {
        self.counts.side_blocks += 1;
        if let Some(record) = self.guarded(number, hash, |check| check.header(number, hash, false)) {
            self.guarded(number, hash, |check| check.body(hash, &record, false));
        }
    }

    /// Runs a part of a block's check. Turns an error or a panic into a fault.
    fn guarded<T>(
        &mut self,
        number: u64,
        hash: B256,
        work: impl FnOnce(&mut Self) -> Result<Option<T>, StoreError>,
    ) -> Option<T> {
        match guarded(&format!("block {number} ({hash})"), || work(self)) {
            Ok(result) => result,
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    /// Checks the header. Returns it if it has this number and hash.
    fn header(
        &mut self,
        number: u64,
        hash: B256,
        canonical: bool,
    ) -> Result<Option<HeaderRecord>, StoreError> {
        let found = self.view.block_number(&hash)?;
        if found != Some(number) {
            self.differs(
                number,
                hash,
                "number stored for its hash",
                &number_text(found),
                &number.to_string(),
            );
        }
        let Some(record) = self.view.header(number, &hash)? else {
            self.lacks(number, hash, "header");
            return Ok(None);
        };
        let header = &record.header;
        if header.hash() != hash {
            self.differs(
                number,
                hash,
                "hash of the header",
                &header.hash().to_string(),
                &hash.to_string(),
            );
            return Ok(None);
        }
        if header.number != number {
            self.differs(
                number,
                hash,
                "number in the header",
                &header.number.to_string(),
                &number.to_string(),
            );
            return Ok(None);
        }
        let expected = match number.checked_sub(1) {
            None => Some(U256::ZERO),
            Some(parent_number) => self.parent_difficulty(parent_number, hash, &record, canonical)?,
        };
        // Without the parent, the total difficulty cannot be checked.
        let expected = expected.map(|parent| parent.saturating_add(header.difficulty));
        if let Some(expected) = expected.filter(|expected| *expected != record.total_difficulty) {
            let got = record.total_difficulty.to_string();
            self.differs(number, hash, "total difficulty", &got, &expected.to_string());
        }
        Ok(Some(record))
    }

    /// Checks that the parent is stored and, for a canonical block, canonical. Returns the parent's
    /// total difficulty, if the parent can be read.
    fn parent_difficulty(
        &mut self,
        parent_number: u64,
        hash: B256,
        record: &HeaderRecord,
        canonical: bool,
    ) -> Result<Option<U256>, StoreError> {
        let (number, parent) = (record.header.number, record.header.parent_hash);
        if canonical {
            let expected = self.view.canonical_hash(parent_number)?;
            if expected.is_some_and(|expected| expected != parent) {
                let expected = expected.unwrap_or_default().to_string();
                self.differs(number, hash, "parent", &parent.to_string(), &expected);
            }
        }
        // A canonical parent that cannot be read is reported by its own check.
        let parent_record = self.view.header(parent_number, &parent).ok().flatten();
        if parent_record.is_none() && !canonical {
            self.lacks(number, hash, "parent");
        }
        Ok(parent_record.map(|parent| parent.total_difficulty))
    }

    fn body(&mut self, hash: B256, record: &HeaderRecord, canonical: bool) -> Result<Option<()>, StoreError> {
        let header = &record.header;
        let number = header.number;
        let body = self.view.body(number, &hash, self.spec.tx_rules());
        // Without the body, the receipts can still be checked.
        let body = match body {
            Ok(Some(body)) => Some(body),
            Ok(None) => {
                self.lacks(number, hash, "body");
                None
            }
            Err(error) => {
                self.faults.push(error.into());
                None
            }
        };
        if let Some(body) = &body {
            let got = transactions_root(&body.transactions);
            self.same_hash(number, hash, "transactions root", got, header.transactions_root);
            let got = uncles_hash(&body.uncles);
            self.same_hash(number, hash, "uncles hash", got, header.uncles_hash);
            self.senders(number, hash, body);
            if canonical {
                self.counts.transactions += body.transactions.len() as u64;
                self.positions(number, &body.transactions)?;
            }
        }
        let receipts = self.view.receipts(number, &hash);
        self.counts.executed += u64::from(!matches!(receipts, Ok(None)));
        match receipts? {
            Some(receipts) => {
                let order = |body: &BlockBody| ExecutionOrder::of(self.spec, number, &body.transactions);
                let count = body.as_ref().map(|body| order(body).receipts());
                self.receipts(hash, record, &receipts, count);
                if canonical {
                    self.log_keys(number, hash, &receipts)?;
                }
                if !record.executed {
                    self.differs(number, hash, EXECUTED, "none", "one, since receipts are stored");
                }
            }
            None if record.executed => self.lacks(number, hash, "receipts"),
            None if canonical => self.differs(number, hash, EXECUTED, "none", "one"),
            None => {}
        }
        Ok(Some(()))
    }

    fn senders(&mut self, number: u64, hash: B256, body: &BlockBody) {
        match senders(self.spec, number, &body.transactions) {
            Err(error) => {
                self.differs(
                    number,
                    hash,
                    "senders",
                    &error.to_string(),
                    "one for each transaction",
                );
            }
            Ok(expected) if expected != body.senders => {
                let text = |senders: &[Address]| {
                    senders
                        .iter()
                        .map(Address::to_string)
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                self.differs(number, hash, "senders", &text(&body.senders), &text(&expected));
            }
            Ok(_) => {}
        }
    }

    fn positions(&mut self, number: u64, transactions: &[Transaction]) -> Result<(), StoreError> {
        for (index, hash) in position_hashes(number, transactions) {
            let expected = TransactionPosition {
                block_number: number,
                index: index as u32,
            };
            self.counts.positions += 1;
            let got = self.view.transaction_positions(&hash)?;
            if !got.contains(&expected) {
                let text = |position: &TransactionPosition| {
                    format!("{} in block {}", position.index, position.block_number)
                };
                self.faults.push(CheckFault::Position {
                    hash,
                    got: got.first().map_or_else(|| "nowhere".to_owned(), text),
                    expected: text(&expected),
                });
            }
        }
        Ok(())
    }

    fn receipts(
        &mut self,
        hash: B256,
        record: &HeaderRecord,
        receipts: &[Receipt],
        expected_receipts: Option<usize>,
    ) {
        let header = &record.header;
        let number = header.number;
        if let Some(expected) = expected_receipts.filter(|count| *count != receipts.len()) {
            let got = receipts.len().to_string();
            self.differs(number, hash, "number of receipts", &got, &expected.to_string());
        }
        let used = receipts.last().map_or(0, |last| last.cumulative_gas_used);
        // In test vectors, the header of block 0 may have gas used without transactions.
        if used != header.gas_used && number > 0 {
            self.differs(
                number,
                hash,
                "gas used",
                &used.to_string(),
                &header.gas_used.to_string(),
            );
        }
        let form = self.spec.receipt_form();
        let got = ordered_root(receipts.iter().map(|receipt| receipt.encode(form)));
        self.same_hash(number, hash, "receipts root", got, header.receipts_root);
        let mut bloom = Bloom::ZERO;
        for receipt in receipts {
            bloom |= receipt.logs_bloom;
        }
        if bloom != header.logs_bloom {
            self.differs(
                number,
                hash,
                "logs bloom",
                &bloom.to_string(),
                &header.logs_bloom.to_string(),
            );
        }
    }

    /// Counts what the block changed in the state.
    fn changes(&mut self, number: u64) -> Result<Option<()>, StoreError> {
        if number < self.horizon.first_changes {
            return Ok(Some(()));
        }
        let changes = self.view.changes(number)?;
        if !is_counted(&self.horizon, number) {
            return Ok(Some(()));
        }
        let sum = &mut self.counts.changes;
        for (address, _) in &changes.accounts {
            sum.add(StateKind::Account, AccountKey::of(address).0.as_slice(), number);
        }
        for change in &changes.slots {
            sum.add(StateKind::Slot, &change.row_key().to_bytes(), number);
        }
        Ok(Some(()))
    }

    /// Adds a fault if `got` is not `expected`.
    fn same_hash(&mut self, number: u64, hash: B256, what: &'static str, got: B256, expected: B256) {
        if got != expected {
            self.differs(number, hash, what, &got.to_string(), &expected.to_string());
        }
    }

    /// Adds a fault for a wrong value.
    pub(super) fn differs(&mut self, number: u64, hash: B256, what: &'static str, got: &str, expected: &str) {
        self.faults.push(CheckFault::Block {
            number,
            hash,
            what,
            got: got.to_owned(),
            expected: expected.to_owned(),
        });
    }

    /// Adds a fault for a missing row.
    fn lacks(&mut self, number: u64, hash: B256, what: &'static str) {
        self.faults.push(CheckFault::BlockLacks { number, hash, what });
    }
}

/// Whether the changes of block `number` are in all rows of accounts and slots. Without a horizon
/// all are; otherwise those above it.
pub(super) const fn is_counted(horizon: &StateHorizon, number: u64) -> bool {
    number > horizon.block || horizon.first_changes == 0
}

fn number_text(number: Option<u64>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}
