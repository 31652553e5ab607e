//! Checks which blocks changed which accounts and slots.
//!
//! The store says it twice: by block, and in the row of each account and slot. Both must be the
//! same. They are compared by sums over hashes, so nothing is held in memory. If the sums differ,
//! a second pass names rows. Before the first change of an account or slot there must have
//! been nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use primitives::hex;
use store::{
    NewestChanges, Snapshot, Source, StateChanges, StateHorizon, StateKind, StateReads, StoreError, TableId,
};

use super::blocks::is_counted;
use super::{CheckError, CheckFault, StoreCheck, guarded};

/// The most rows that the second pass names.
const NAMED_MAX: usize = 16;

/// A number of changes, and sums over their hashes. The order of the changes does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeSum {
    count: u64,
    sums: [u64; 2],
}

impl ChangeSum {
    /// Adds the change of an account or a slot by block `number`.
    pub(super) fn add(&mut self, kind: StateKind, key: &[u8], number: u64) {
        self.count += 1;
        for (salt, sum) in self.sums.iter_mut().enumerate() {
            let mut hasher = DefaultHasher::new();
            (salt, kind, key, number).hash(&mut hasher);
            *sum = sum.wrapping_add(hasher.finish());
        }
    }

    pub(super) const fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sums[0] = self.sums[0].wrapping_add(other.sums[0]);
        self.sums[1] = self.sums[1].wrapping_add(other.sums[1]);
    }
}

/// Compares the changes in the rows of accounts and slots with those that the blocks have.
pub(super) fn check(check: &mut StoreCheck<'_>, expected: &ChangeSum) -> Result<(), CheckError> {
    let mut rows = ChangeLists {
        view: check.view,
        horizon: check.horizon,
        sum: ChangeSum::default(),
        with_older: 0,
        faults: Vec::new(),
        last_changes: None,
    };
    let tables = StateKind::ALL.map(|kind| kind.tables().map(|table| (kind, table)));
    for (kind, table) in tables.into_iter().flatten() {
        let scanned = guarded(table.name(), || rows.newest(kind, table));
        rows.faults.extend(scanned.err());
        check.progress("changes of accounts and slots", rows.sum.count, expected.count)?;
    }
    let scanned = guarded("state_history", || rows.older());
    rows.faults.extend(scanned.err());
    if rows.faults.is_empty() && rows.sum != *expected {
        rows.faults.push(CheckFault::Changes {
            got: rows.sum.count,
            expected: expected.count,
        });
        let named = guarded("state", || rows.name_rows());
        rows.faults.extend(named.err());
    }
    let faults = rows.faults;
    check.faults(faults);
    Ok(())
}

/// The changes that the rows of accounts and slots list.
struct ChangeLists<'a> {
    view: &'a Snapshot,
    horizon: StateHorizon,
    sum: ChangeSum,
    /// Accounts and slots that say that they have older changes.
    with_older: u64,
    faults: Vec<CheckFault>,
    /// The changes of the block that was looked up last.
    last_changes: Option<(u64, StateChanges)>,
}

impl ChangeLists<'_> {
    /// Reads the lists in the rows of `table`.
    fn newest(&mut self, kind: StateKind, table: TableId) -> Result<(), StoreError> {
        let view = self.view;
        view.scan(table, &[], |key, row| {
            match NewestChanges::read(kind, table, key, row) {
                Err(error) => self.faults.push(error.into()),
                Ok(changes) => {
                    self.add(kind, key, &changes.blocks);
                    if changes.has_older {
                        self.with_older += 1;
                    } else {
                        self.first_change(kind, key, changes.blocks[0]);
                    }
                }
            }
            ControlFlow::Continue(())
        })
    }

    /// Reads the lists of older changes.
    fn older(&mut self) -> Result<(), StoreError> {
        let view = self.view;
        let mut last_key = Vec::new();
        let mut keys = 0;
        view.scan_older_changes(|found| {
            match found {
                Err(error) => self.faults.push(error.into()),
                Ok((kind, key, blocks)) => {
                    self.add(kind, key, blocks);
                    if last_key != key {
                        last_key = key.to_vec();
                        keys += 1;
                        self.first_change(kind, key, blocks[0]);
                        self.says_older(kind, key);
                    }
                }
            }
            ControlFlow::Continue(())
        })?;
        if self.faults.is_empty() && keys != self.with_older {
            self.faults.push(CheckFault::Entries {
                table: TableId::StateHistory.name(),
                got: keys,
                expected: self.with_older,
            });
        }
        Ok(())
    }

    /// Adds the changes of a row by these blocks.
    fn add(&mut self, kind: StateKind, key: &[u8], blocks: &[u64]) {
        for number in blocks.iter().filter(|number| is_counted(&self.horizon, **number)) {
            self.sum.add(kind, key, *number);
        }
    }

    /// Checks that the row of an account or a slot says that it has older changes.
    fn says_older(&mut self, kind: StateKind, key: &[u8]) {
        for table in kind.tables() {
            let row = self
                .view
                .with(table, key, |row| NewestChanges::read(kind, table, key, row));
            match row {
                Ok(None) => continue,
                Ok(Some(Ok(changes))) if changes.has_older => {}
                Ok(Some(Ok(_))) => break,
                Ok(Some(Err(error))) | Err(error) => self.faults.push(error.into()),
            }
            return;
        }
        self.faults.push(CheckFault::row(
            kind.present(),
            key,
            "it has older changes in state_history, and does not say so",
        ));
    }

    /// Checks that there was nothing before the first change, by block `number`.
    fn first_change(&mut self, kind: StateKind, key: &[u8], number: u64) {
        if self.horizon.first_changes > 0 {
            // Older changes are no longer listed.
            return;
        }
        match self
            .view
            .was_nothing_before(kind, key, number, &mut self.last_changes)
        {
            Ok(None | Some(true)) => {}
            Ok(Some(false)) => self.faults.push(CheckFault::row(
                TableId::BlockToChanges,
                &number.to_be_bytes(),
                format!(
                    "{} {} before its first change: got something, expected nothing",
                    kind.present().name(),
                    hex::encode(key)
                ),
            )),
            Err(error) => self.faults.push(error.into()),
        }
    }

    /// Names rows that list a block that did not change them.
    fn name_rows(&mut self) -> Result<(), StoreError> {
        let (view, horizon) = (self.view, self.horizon);
        let (mut named, mut last) = (Vec::new(), None);
        let mut must_have = |kind: StateKind, key: &[u8], blocks: &[u64]| {
            for number in blocks.iter().filter(|number| is_counted(&horizon, **number)) {
                let found = view.was_nothing_before(kind, key, *number, &mut last);
                if !found.is_ok_and(|found| found.is_some()) && named.len() < NAMED_MAX {
                    named.push(CheckFault::Change {
                        table: kind.present().name(),
                        key: hex::encode(key),
                        number: *number,
                    });
                }
            }
        };
        for kind in StateKind::ALL {
            for table in kind.tables() {
                view.scan(table, &[], |key, row| {
                    if let Ok(changes) = NewestChanges::read(kind, table, key, row) {
                        must_have(kind, key, &changes.blocks);
                    }
                    ControlFlow::Continue(())
                })?;
            }
        }
        view.scan_older_changes(|found| {
            if let Ok((kind, key, blocks)) = found {
                must_have(kind, key, blocks);
            }
            ControlFlow::Continue(())
        })?;
        self.faults.append(&mut named);
        Ok(())
    }
}
