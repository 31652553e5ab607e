//! Which blocks changed an account or a slot.
//!
//! The row of an account or a slot begins with the newest blocks that changed it:
//!
//! - in LEB128: four times the length of the following list in bytes, plus 2 if the address or the
//!   number of the slot is known, plus 1 if older changes are in [`TableId::StateHistory`];
//! - the list, each number in LEB128: the newest block, then the distance of each block to the one
//!   after it;
//! - if it is known, the address (20), or the number of the slot (number): the *preimage* of the
//!   key. Whatever was executed here has it.
//!
//! The value follows. So a block that changes an account writes one row, and the present value is
//! read from one row. When the list has more than [`NEWEST_MAX`] blocks, the [`MOVED`] oldest ones
//! move to rows of [`TableId::StateHistory`], which are lists as in [`crate::block_list`]. When a
//! reorganization leaves fewer than [`NEWEST_MIN`], as many move back. So the rows depend on the
//! canonical blocks only.
//!
//! The row stands in the table of present rows ([`StateKind::present`]) if the head state has the
//! account or slot, otherwise in that of rows that are gone ([`StateKind::gone`]). So the present
//! rows are the leaves of the trie, neither more nor fewer.
//!
//! Knows block numbers and keys, and nothing of values.

use std::ops::ControlFlow;

use super::{AccountVersion, HorizonReads, StateKind};
use crate::block_list::{BlockListRow, BlockListTail};
use crate::codec::{RowReader, push_number, read_number, take};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

pub(super) const TABLE: TableId = TableId::StateHistory;

/// The most blocks in the list of a row.
const NEWEST_MAX: usize = 40;
/// The number of blocks that move to older rows, or back, at once.
const MOVED: usize = 32;
/// The fewest blocks in the list of a row that has older changes.
const NEWEST_MIN: usize = NEWEST_MAX + 1 - MOVED;

/// A row of an account or a slot.
pub(super) struct StateRow<'a> {
    /// Whether older changes are in [`TableId::StateHistory`].
    has_older: bool,
    /// The list of blocks, as it is stored.
    newest: &'a [u8],
    /// The bytes of the address or of the slot's number, if they are known.
    pub(super) preimage: Option<&'a [u8]>,
    /// The value after the newest of these blocks.
    pub(super) value: &'a [u8],
}

/// A change after a block, as the row of an account or a slot lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaterChange {
    /// The first block of the row's list that is later.
    pub(super) block: u64,
    /// Whether the first later change may be among the older ones, which are not in the row.
    pub(super) may_be_older: bool,
}

impl<'a> StateRow<'a> {
    pub(super) fn parse(kind: StateKind, row: &'a [u8]) -> Result<Self, RowError> {
        let mut rest = row;
        let front = read_number(&mut rest)?;
        let newest = take(&mut rest, front / 4)?;
        let mut rest = RowReader::new(rest);
        let preimage = match (front & 2, kind) {
            (0, _) => None,
            (_, StateKind::Account) => Some(rest.take(ADDRESS_BYTES)?),
            (_, StateKind::Slot) => Some(rest.uint_bytes()?),
        };
        Ok(Self {
            has_older: front % 2 == 1,
            newest,
            preimage,
            value: rest.remaining(),
        })
    }

    /// The first change after block `number`; `None` if the value is still the same.
    pub(super) fn next_change(&self, number: u64) -> Result<Option<LaterChange>, RowError> {
        let mut list = self.newest;
        let mut block = read_number(&mut list)?;
        if block <= number {
            return Ok(None);
        }
        while !list.is_empty() {
            let older = older_block(block, read_number(&mut list)?)?;
            if older <= number {
                return Ok(Some(LaterChange {
                    block,
                    may_be_older: false,
                }));
            }
            block = older;
        }
        Ok(Some(LaterChange {
            block,
            may_be_older: self.has_older,
        }))
    }

    /// Whether older changes are in [`TableId::StateHistory`].
    pub(super) const fn has_older(&self) -> bool {
        self.has_older
    }

    /// The blocks of the list, ascending.
    pub(super) fn blocks(&self) -> Result<Vec<u64>, RowError> {
        let mut list = self.newest;
        let mut blocks = Vec::with_capacity(NEWEST_MAX + 1);
        blocks.push(read_number(&mut list)?);
        while !list.is_empty() {
            blocks.push(older_block(blocks[blocks.len() - 1], read_number(&mut list)?)?);
        }
        blocks.reverse();
        Ok(blocks)
    }
}

const fn older_block(block: u64, distance: u64) -> Result<u64, RowError> {
    match block.checked_sub(distance) {
        Some(older) if distance > 0 => Ok(older),
        _ => Err(RowError::Distance { block, got: distance }),
    }
}

/// Bytes of an address.
const ADDRESS_BYTES: usize = 20;

/// Encodes a row. `blocks` ascend.
pub(super) fn encode_row(
    kind: StateKind,
    has_older: bool,
    blocks: &[u64],
    preimage: Option<&[u8]>,
    value: &[u8],
) -> Vec<u8> {
    let mut newest = Vec::with_capacity(blocks.len() + 8);
    let mut after = None;
    for block in blocks.iter().rev() {
        push_number(&mut newest, after.map_or(*block, |after: u64| after - block));
        after = Some(*block);
    }
    let mut row = Vec::with_capacity(newest.len() + value.len() + 36);
    let front = newest.len() as u64 * 4 + u64::from(preimage.is_some()) * 2 + u64::from(has_older);
    push_number(&mut row, front);
    row.extend_from_slice(&newest);
    if let Some(preimage) = preimage {
        if kind == StateKind::Slot {
            row.push(preimage.len() as u8);
        }
        row.extend_from_slice(preimage);
    }
    row.extend_from_slice(value);
    row
}

/// The part of a key of [`TableId::StateHistory`] before the block number.
pub(super) fn history_prefix(kind: StateKind, key: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(key.len() + 9);
    prefix.push(kind.byte());
    prefix.extend_from_slice(key);
    prefix
}

pub(super) fn history_key(prefix: &[u8], first: u64) -> Vec<u8> {
    [prefix, &first.to_be_bytes()].concat()
}

/// Calls `read` with the list of an older row, and its first block.
pub(super) fn with_list<T>(
    prefix: &[u8],
    key: &[u8],
    value: &[u8],
    read: impl FnOnce(&BlockListRow<'_>) -> Result<T, RowError>,
) -> Result<T, StoreError> {
    let parse = || {
        let first = key.strip_prefix(prefix).and_then(|first| first.try_into().ok());
        let first = first.ok_or(RowError::OtherKey)?;
        read(&BlockListRow::parse(u64::from_be_bytes(first), value)?)
    };
    parse().map_err(|error: RowError| error.in_row(TABLE, key))
}

/// The first change after block `number` in the older rows of `key`; `None` if they have none.
pub(super) fn next_older_change(
    source: &impl Source,
    kind: StateKind,
    key: &[u8],
    number: u64,
) -> Result<Option<u64>, StoreError> {
    let prefix = history_prefix(kind, key);
    let (low, high) = (history_key(&prefix, 0), history_key(&prefix, number));
    let inside = source.with_last(TABLE, &low, &high, |key, value| {
        with_list(&prefix, key, value, |row| {
            if row.last <= number {
                return Ok(None);
            }
            let mut blocks = Vec::new();
            row.read(&mut blocks)?;
            Ok(blocks.into_iter().find(|block| *block > number))
        })
    })?;
    if let Some(block) = inside.transpose()?.flatten() {
        return Ok(Some(block));
    }
    let Some(above) = number.checked_add(1) else {
        return Ok(None);
    };
    let mut next = None;
    source.scan(TABLE, &history_key(&prefix, above), |key, _| {
        next = key.strip_prefix(prefix.as_slice()).map(<[u8; 8]>::try_from);
        ControlFlow::Break(())
    })?;
    Ok(next.and_then(Result::ok).map(u64::from_be_bytes))
}

/// The newest blocks that changed an account or a slot, as its row lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestChanges {
    /// The blocks, ascending.
    pub blocks: Vec<u64>,
    /// Whether older changes are in [`TableId::StateHistory`].
    pub has_older: bool,
}

impl NewestChanges {
    /// Reads the list in `row`, the value under `key` of `table`, which is one of `kind`.
    ///
    /// # Errors
    /// [`StoreError`] when the row is corrupt, stands in the wrong table, or has an address or
    /// number of a slot that is not that of the key.
    pub fn read(kind: StateKind, table: TableId, key: &[u8], row: &[u8]) -> Result<Self, StoreError> {
        let read = || {
            let row = StateRow::parse(kind, row)?;
            if is_present(kind, row.value) != (table == kind.present()) {
                return Err(RowError::OtherTable);
            }
            if let Some(preimage) = row.preimage {
                let hash = kind.hash(preimage);
                if !key.ends_with(hash.as_slice()) {
                    return Err(RowError::OtherKey);
                }
            }
            Ok(Self {
                blocks: row.blocks()?,
                has_older: row.has_older,
            })
        };
        read().map_err(|error: RowError| error.in_row(table, key))
    }
}

/// Reads the row of an account or a slot, present or gone. Returns also the table it is in.
pub(super) fn read_state_row<T>(
    source: &impl Source,
    kind: StateKind,
    key: &[u8],
    mut read: impl FnMut(&StateRow<'_>) -> Result<T, RowError>,
) -> Result<Option<(TableId, T)>, StoreError> {
    for table in kind.tables() {
        if let Some(found) = read_row(source, table, key, |row| read(&StateRow::parse(kind, row)?))? {
            return Ok(Some((table, found)));
        }
    }
    Ok(None)
}

/// Calls `visit` with each row of [`TableId::StateHistory`], sorted by key and block number, until
/// it breaks. `visit` gets the kind and the key of the account or slot, and the blocks of the row.
pub(super) fn scan_older_changes(
    source: &impl Source,
    mut visit: impl FnMut(Result<(StateKind, &[u8], &[u64]), StoreError>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut blocks = Vec::new();
    source.scan(TABLE, &[], |key, value| {
        let prefix = &key[..key.len().saturating_sub(8)];
        let found = prefix.split_first().and_then(|(byte, owner)| {
            let kind = StateKind::ALL.into_iter().find(|kind| kind.byte() == *byte)?;
            (owner.len() == kind.key_bytes()).then_some((kind, owner))
        });
        let Some((kind, owner)) = found else {
            return visit(Err(RowError::OtherKey.in_row(TABLE, key)));
        };
        let read = with_list(prefix, key, value, |row| row.read(&mut blocks));
        visit(read.map(|()| (kind, owner, blocks.as_slice())))
    })
}

/// Whether the state has an account or a slot with this value.
pub(crate) fn is_present(kind: StateKind, value: &[u8]) -> bool {
    match kind {
        StateKind::Account => AccountVersion::has_account(value),
        StateKind::Slot => !value.is_empty(),
    }
}

/// Whether a value is that of an account or a slot that was never written.
fn is_nothing(kind: StateKind, value: &[u8]) -> bool {
    match kind {
        StateKind::Account => value == AccountVersion::default().to_bytes(),
        StateKind::Slot => value.is_empty(),
    }
}

/// A row as it is before it is written again.
#[derive(Default)]
struct RowBefore {
    has_older: bool,
    blocks: Vec<u64>,
    preimage: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl RowBefore {
    fn read(row: &StateRow<'_>) -> Result<Self, RowError> {
        Ok(Self {
            has_older: row.has_older,
            blocks: row.blocks()?,
            preimage: row.preimage.map(<[u8]>::to_vec),
            value: Some(row.value.to_vec()),
        })
    }
}

impl Tables<'_> {
    /// Writes the value after block `number`, which is above all blocks that changed it before.
    /// Returns the value before, if there was a row. Block 0 is written into tables without rows of
    /// the state, so there none is looked for.
    pub(super) fn put_value(
        &mut self,
        kind: StateKind,
        key: &[u8],
        preimage: &[u8],
        number: u64,
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        // Block 0 may have a million accounts.
        let stored = if number > 0 {
            read_state_row(self, kind, key, RowBefore::read)?
        } else {
            None
        };
        let table = stored.as_ref().map(|(table, _)| *table);
        let mut row = stored.map(|(_, row)| row).unwrap_or_default();
        if let (Some(table), Some(newest)) = (table, row.blocks.last().filter(|newest| **newest >= number)) {
            let error = RowError::NotBelow {
                field: "block of the newest change",
                got: *newest,
                limit: number,
            };
            return Err(error.in_row(table, key));
        }
        row.blocks.push(number);
        if row.blocks.len() > NEWEST_MAX {
            // Nobody reads changes up to the horizon.
            let horizon = self.state_horizon()?.block;
            let older: Vec<_> = row
                .blocks
                .drain(..MOVED)
                .filter(|block| *block > horizon || horizon == 0)
                .collect();
            self.move_to_older(&history_prefix(kind, key), &older)?;
            row.has_older |= !older.is_empty();
        }
        let encoded = encode_row(kind, row.has_older, &row.blocks, Some(preimage), value);
        self.put_state_row(kind, key, table, value, &encoded)?;
        Ok(row.value)
    }

    /// Writes the row of an account or a slot into the table that its value belongs to. `before` is
    /// the table that it was in.
    fn put_state_row(
        &mut self,
        kind: StateKind,
        key: &[u8],
        before: Option<TableId>,
        value: &[u8],
        row: &[u8],
    ) -> Result<(), StoreError> {
        let table = if is_present(kind, value) {
            kind.present()
        } else {
            kind.gone()
        };
        if let Some(other) = before.filter(|before| *before != table) {
            self.delete(other, key)?;
        }
        self.put(table, key, row)
    }

    /// Takes the change of block `number` back, which must be the newest one. `before` is the value
    /// before it.
    pub(super) fn revert_value(
        &mut self,
        kind: StateKind,
        key: &[u8],
        number: u64,
        before: &[u8],
    ) -> Result<(), StoreError> {
        let stored = read_state_row(self, kind, key, RowBefore::read)?;
        let (table, mut row) = stored.ok_or_else(|| RowError::Missing.in_row(kind.present(), key))?;
        let newest = row.blocks.pop().unwrap_or_default();
        if newest != number {
            let error = RowError::Differs {
                field: "block of the newest change",
                got: newest,
                expected: number,
            };
            return Err(error.in_row(table, key));
        }
        if row.has_older && row.blocks.len() < NEWEST_MIN {
            let prefix = history_prefix(kind, key);
            let older;
            (older, row.has_older) = self.take_from_older(&prefix)?;
            row.blocks.splice(0..0, older);
        }
        if row.blocks.is_empty() {
            let horizon = self.state_horizon()?.block;
            if horizon == 0 || is_nothing(kind, before) {
                return self.delete(table, key);
            }
            // The blocks that made this value are no longer listed. All of them are this old.
            row.blocks.push(horizon);
        }
        let preimage = row.preimage.as_deref();
        let encoded = encode_row(kind, row.has_older, &row.blocks, preimage, before);
        self.put_state_row(kind, key, Some(table), before, &encoded)
    }

    /// Removes the older rows of an account or a slot that list no block above `number`. Notes in
    /// its row if none are left.
    pub(super) fn delete_older(
        &mut self,
        kind: StateKind,
        key: &[u8],
        number: u64,
    ) -> Result<(), StoreError> {
        let prefix = history_prefix(kind, key);
        loop {
            let mut first = None;
            self.scan(TABLE, &history_key(&prefix, 0), |row_key, value| {
                if row_key.len() == prefix.len() + 8 && row_key.starts_with(&prefix) {
                    let last = with_list(&prefix, row_key, value, |row| Ok(row.last));
                    first = Some((row_key.to_vec(), last));
                }
                ControlFlow::Break(())
            })?;
            let Some((row_key, last)) = first else { break };
            if last? > number {
                return Ok(());
            }
            self.delete(TABLE, &row_key)?;
        }
        let shorter = read_state_row(self, kind, key, |row| {
            Ok(encode_row(kind, false, &row.blocks()?, row.preimage, row.value))
        })?;
        shorter.map_or(Ok(()), |(table, row)| self.put(table, key, &row))
    }

    /// Adds blocks to the older rows of `prefix`. They are above all blocks there.
    fn move_to_older(&mut self, prefix: &[u8], blocks: &[u64]) -> Result<(), StoreError> {
        let mut tail = self.older_tail(prefix)?.map(|(tail, _)| tail);
        for block in blocks {
            let Some(row) = &mut tail else {
                tail = Some(BlockListTail::new(*block));
                continue;
            };
            let Some(distance) = block.checked_sub(row.last).filter(|distance| *distance > 0) else {
                return Err(row
                    .not_below(*block)
                    .in_row(TABLE, &history_key(prefix, row.first)));
            };
            if !row.push(distance) {
                self.put(TABLE, &history_key(prefix, row.first), &row.value())?;
                tail = Some(BlockListTail::new(*block));
            }
        }
        match tail {
            Some(row) => self.put(TABLE, &history_key(prefix, row.first), &row.value()),
            None => Ok(()),
        }
    }

    /// Removes the newest [`MOVED`] blocks of the older rows of `prefix`. Returns them, ascending,
    /// and whether there are any left.
    fn take_from_older(&mut self, prefix: &[u8]) -> Result<(Vec<u64>, bool), StoreError> {
        let mut taken = Vec::new();
        loop {
            let Some((tail, mut blocks)) = self.older_tail(prefix)? else {
                taken.reverse();
                return Ok((taken, false));
            };
            if taken.len() == MOVED {
                taken.reverse();
                return Ok((taken, true));
            }
            let left = blocks.len().saturating_sub(MOVED - taken.len());
            taken.extend(blocks.drain(left..).rev());
            let key = history_key(prefix, tail.first);
            let Some((first, others)) = blocks.split_first() else {
                self.delete(TABLE, &key)?;
                continue;
            };
            let mut shorter = BlockListTail::new(*first);
            for block in others {
                let fits = shorter.push(block - shorter.last);
                debug_assert!(fits, "a part of a list is not longer than the list");
            }
            self.put(TABLE, &key, &shorter.value())?;
        }
    }

    /// The last of the older rows of `prefix`, and its blocks.
    fn older_tail(&self, prefix: &[u8]) -> Result<Option<(BlockListTail, Vec<u64>)>, StoreError> {
        let (low, high) = (history_key(prefix, 0), history_key(prefix, u64::MAX));
        self.with_last(TABLE, &low, &high, |key, value| {
            with_list(prefix, key, value, |row| {
                let mut blocks = Vec::new();
                row.read(&mut blocks)?;
                Ok((BlockListTail::of(row), blocks))
            })
        })?
        .transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use primitives::{B256, keccak256};
    use proptest::prelude::*;

    use super::*;
    use crate::Store;

    static KEY: LazyLock<B256> = LazyLock::new(|| keccak256(ADDRESS));
    const ADDRESS: &[u8] = &[7; 20];

    fn rows(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        for table in [TableId::Account, TABLE] {
            let collect = |key: &[u8], value: &[u8]| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            store.snapshot().unwrap().scan(table, &[], collect).unwrap();
        }
        rows
    }

    fn write(store: &Store, work: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>) {
        let batch = store.batch().unwrap();
        batch.write(work).unwrap();
        batch.commit().unwrap();
    }

    #[test]
    fn rows_depend_on_the_changes_only() {
        // Distances of three lengths, so that older rows fill up.
        let blocks: Vec<u64> = (0..600u64).map(|at| at * 200 + (at % 7) * (1 << 20)).collect();
        let blocks = {
            let mut sum = 0;
            blocks.iter().map(move |step| {
                sum += step % 30_000 + 1;
                sum
            })
        }
        .collect::<Vec<u64>>();
        let store = Store::in_memory().unwrap();
        let mut states = vec![rows(&store)];
        for (index, block) in blocks.iter().enumerate() {
            write(&store, |tables| {
                let before = tables.put_value(
                    StateKind::Account,
                    KEY.as_slice(),
                    ADDRESS,
                    *block,
                    &[1, index as u8],
                )?;
                assert_eq!(before, index.checked_sub(1).map(|before| vec![1, before as u8]));
                Ok(())
            });
            states.push(rows(&store));
        }
        assert!(states.last().unwrap().len() > 3, "there are several older rows");
        let view = store.snapshot().unwrap();
        let row = view.get(TableId::Account, KEY.as_slice()).unwrap().unwrap();
        let mut all = Vec::new();
        scan_older_changes(&view, |found| {
            let (kind, key, older) = found.unwrap();
            assert_eq!((kind, key), (StateKind::Account, KEY.as_slice()));
            all.extend_from_slice(older);
            ControlFlow::Continue(())
        })
        .unwrap();
        all.extend(
            NewestChanges::read(StateKind::Account, TableId::Account, KEY.as_slice(), &row)
                .unwrap()
                .blocks,
        );
        assert_eq!(all, blocks);
        for number in [
            0,
            blocks[0],
            blocks[99] - 1,
            blocks[300],
            blocks[590],
            blocks[599],
        ] {
            let expected = blocks.iter().copied().find(|block| *block > number);
            let change = StateRow::parse(StateKind::Account, &row)
                .unwrap()
                .next_change(number)
                .unwrap();
            let got = change.map(|change| {
                let older = || next_older_change(&view, StateKind::Account, KEY.as_slice(), number).unwrap();
                let older = change.may_be_older.then(older).flatten();
                older.unwrap_or(change.block)
            });
            assert_eq!(got, expected, "after {number}");
        }
        for (index, block) in blocks.iter().enumerate().rev() {
            states.pop();
            write(&store, |tables| {
                let before = index
                    .checked_sub(1)
                    .map_or(Vec::new(), |before| vec![1, before as u8]);
                tables.revert_value(StateKind::Account, KEY.as_slice(), *block, &before)
            });
            assert!(rows(&store) == states[index], "after {block} was taken back");
        }
    }

    #[test]
    fn changes_out_of_order_are_errors() {
        let store = Store::in_memory().unwrap();
        let check = |work: &dyn Fn(&mut Tables<'_>) -> Result<(), StoreError>, expected: &str| {
            let error = store.batch().unwrap().write(work).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(
            &|tables| {
                tables.put_value(StateKind::Account, KEY.as_slice(), ADDRESS, 5, &[])?;
                tables
                    .put_value(StateKind::Account, KEY.as_slice(), ADDRESS, 5, &[])
                    .map(drop)
            },
            "got 5, expected less than 5",
        );
        check(
            &|tables| {
                tables.put_value(StateKind::Account, KEY.as_slice(), ADDRESS, 5, &[])?;
                tables.revert_value(StateKind::Account, KEY.as_slice(), 4, &[])
            },
            "got 5, expected 4",
        );
    }

    proptest! {
        #[test]
        fn rows_round_trip(mut blocks in proptest::collection::btree_set(any::<u64>(), 1..NEWEST_MAX), has_older: bool, known: bool, value: Vec<u8>) {
            let ascending: Vec<_> = std::mem::take(&mut blocks).into_iter().collect();
            for (kind, preimage) in [(StateKind::Account, ADDRESS), (StateKind::Slot, &[7; 3])] {
                let preimage = known.then_some(preimage);
                let bytes = encode_row(kind, has_older, &ascending, preimage, &value);
                let row = StateRow::parse(kind, &bytes).unwrap();
                prop_assert_eq!(row.blocks().unwrap(), &*ascending);
                prop_assert_eq!((row.has_older, row.preimage, row.value), (has_older, preimage, value.as_slice()));
            }
        }

        #[test]
        fn bad_rows_are_errors_and_never_a_panic(row: Vec<u8>, number: u64) {
            for kind in StateKind::ALL {
                if let Ok(row) = StateRow::parse(kind, &row) {
                    let _ = row.blocks();
                    let _ = row.next_change(number);
                }
            }
        }
    }
}
