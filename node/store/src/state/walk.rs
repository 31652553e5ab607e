//! Walks over accounts and slots at a height, in the order of their keys.
//!
//! The trie has this order, too. Present rows and those that are gone are read in pages and merged,
//! so a walk needs little memory whatever the size of the state. It compares nothing.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use primitives::{Address, B256, U256};

use super::history::{StateRow, read_state_row};
use super::leaves::begins_with;
use super::{
    AccountKey, AccountRecord, AccountVersion, RowValue, StateChanges, StateKind, StorageOwner,
    decode_slot_value, value_before_change,
};
use crate::row_error::RowError;
use crate::source::Source;
use crate::{StoreError, TableId};

/// Rows that a walk reads at once.
const PAGE_ROWS: usize = 256;
/// Rows that are read at once to find the first of some.
const FIRST_ROWS: usize = 2;

/// An account that exists at the height of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkedAccount {
    /// The hash of the address.
    pub key: AccountKey,
    /// The address; `None` if only its hash is known.
    pub address: Option<Address>,
    /// The incarnation that the account's storage belongs to.
    pub incarnation: u32,
    /// Nonce, balance, code hash and storage root.
    pub account: AccountRecord,
}

impl WalkedAccount {
    /// The address in lower case, or `pre(HASH)` if only its hash is known, as geth writes it.
    pub fn name(&self) -> String {
        match self.address {
            Some(address) => format!("{address:#x}"),
            None => format!("pre({})", self.key.0),
        }
    }

    /// The storage of the account.
    pub const fn storage(&self) -> StorageOwner {
        self.key.storage(self.incarnation)
    }
}

/// A slot that is not zero at the height of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkedSlot {
    /// The hash of the slot's number.
    pub hash: B256,
    /// The number; `None` if only its hash is known.
    pub slot: Option<U256>,
    /// The value.
    pub value: U256,
}

impl WalkedSlot {
    /// The number as 32 bytes, or `pre(HASH)` if only its hash is known.
    pub fn name(&self) -> String {
        match self.slot {
            Some(slot) => B256::from(slot).to_string(),
            None => format!("pre({})", self.hash),
        }
    }
}

/// Visits the accounts that exist after block `number`, in the order of their keys, from `low` on.
///
/// # Errors
/// Any error of `visit`, and [`StoreError`] when a row cannot be read.
pub(super) fn accounts<E: From<StoreError>>(
    source: &impl Source,
    low: &AccountKey,
    number: u64,
    mut visit: impl FnMut(WalkedAccount) -> Result<(), E>,
) -> Result<(), E> {
    let mut rows = MergedRows::new(
        source,
        StateKind::Account,
        (Vec::new(), low.0.to_vec()),
        PAGE_ROWS,
    );
    while let Some(found) = next_account(source, &mut rows, number)? {
        visit(found)?;
    }
    Ok(())
}

/// The first account from `low` on that exists after block `number`, if its key begins with
/// `nibbles`.
pub(super) fn first_account(
    source: &impl Source,
    low: &AccountKey,
    nibbles: &[u8],
    number: u64,
) -> Result<Option<WalkedAccount>, StoreError> {
    let mut rows = MergedRows::new(
        source,
        StateKind::Account,
        (Vec::new(), low.0.to_vec()),
        FIRST_ROWS,
    );
    let first = next_account(source, &mut rows, number)?;
    Ok(first.filter(|found| begins_with(&found.key.0, nibbles)))
}

fn next_account<S: Source>(
    source: &S,
    rows: &mut MergedRows<'_, S>,
    number: u64,
) -> Result<Option<WalkedAccount>, StoreError> {
    while let Some(found) = rows.next()? {
        let row = found.parse()?;
        let value = row.value_after(number, AccountVersion::decode);
        let version = match value.map_err(|error| found.fault(error))? {
            RowValue::Here(version) => version,
            RowValue::Earlier(change) => {
                let preimage = row.known_preimage().map_err(|error| found.fault(error))?;
                let address = Address::from_slice(preimage);
                let find = |changes: &[u8]| StateChanges::find_account(changes, &address);
                value_before_change(source, StateKind::Account, &found.key, change, number, find)?
            }
        };
        if let Some(account) = version.account {
            return Ok(Some(WalkedAccount {
                key: AccountKey(B256::from_slice(&found.key)),
                address: row.preimage.map(Address::from_slice),
                incarnation: version.incarnation,
                account,
            }));
        }
    }
    Ok(None)
}

/// Visits the slots of a storage that are not zero after block `number`, in the order of their
/// hashes, from `low` on.
///
/// # Errors
/// Any error of `visit`, and [`StoreError`] when a row cannot be read.
pub(super) fn slots<E: From<StoreError>>(
    source: &impl Source,
    owner: &StorageOwner,
    low: &B256,
    number: u64,
    mut visit: impl FnMut(WalkedSlot) -> Result<(), E>,
) -> Result<(), E> {
    let mut rows = slot_rows(source, owner, low, PAGE_ROWS);
    let mut address = None;
    while let Some(found) = next_slot(source, &mut rows, owner, number, &mut address)? {
        visit(found)?;
    }
    Ok(())
}

/// The first slot from `low` on that is not zero after block `number`, if its hash begins with
/// `nibbles`.
pub(super) fn first_slot(
    source: &impl Source,
    owner: &StorageOwner,
    low: &B256,
    nibbles: &[u8],
    number: u64,
) -> Result<Option<WalkedSlot>, StoreError> {
    let mut rows = slot_rows(source, owner, low, FIRST_ROWS);
    let first = next_slot(source, &mut rows, owner, number, &mut None)?;
    Ok(first.filter(|found| begins_with(&found.hash, nibbles)))
}

fn slot_rows<'s, S: Source>(
    source: &'s S,
    owner: &StorageOwner,
    low: &B256,
    page_rows: usize,
) -> MergedRows<'s, S> {
    let keys = (owner.to_bytes().to_vec(), owner.slot(*low).to_bytes().to_vec());
    MergedRows::new(source, StateKind::Slot, keys, page_rows)
}

/// The next slot that is not zero. `address` is that of the account, once it was looked up.
fn next_slot<S: Source>(
    source: &S,
    rows: &mut MergedRows<'_, S>,
    owner: &StorageOwner,
    number: u64,
    address: &mut Option<Address>,
) -> Result<Option<WalkedSlot>, StoreError> {
    while let Some(found) = rows.next()? {
        let row = found.parse()?;
        let value = row.value_after(number, decode_slot_value);
        let value = match value.map_err(|error| found.fault(error))? {
            RowValue::Here(value) => value,
            RowValue::Earlier(change) => {
                let preimage = row.known_preimage().map_err(|error| found.fault(error))?;
                let slot = U256::from_be_slice(preimage);
                let address = match address {
                    Some(address) => *address,
                    None => *address.insert(known_address(source, &owner.account)?),
                };
                let find =
                    |changes: &[u8]| StateChanges::find_slot(changes, &address, owner.incarnation, &slot);
                value_before_change(source, StateKind::Slot, &found.key, change, number, find)?
            }
        };
        if !value.is_zero() {
            return Ok(Some(WalkedSlot {
                hash: B256::from_slice(&found.key[StorageOwner::BYTES..]),
                slot: row.preimage.map(U256::from_be_slice),
                value,
            }));
        }
    }
    Ok(None)
}

/// The address of an account that a block has changed here.
pub(super) fn known_address(source: &impl Source, key: &AccountKey) -> Result<Address, StoreError> {
    let read = |row: &StateRow<'_>| row.known_preimage().map(Address::from_slice);
    let found = read_state_row(source, StateKind::Account, key.0.as_slice(), read)?;
    found
        .map(|(_, address)| address)
        .ok_or_else(|| RowError::Missing.in_row(TableId::Account, key.0.as_slice()))
}

/// A row that the walk has reached.
struct FoundRow {
    kind: StateKind,
    table: TableId,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl FoundRow {
    fn parse(&self) -> Result<StateRow<'_>, StoreError> {
        StateRow::parse(self.kind, &self.row).map_err(|error| self.fault(error))
    }

    fn fault(&self, error: RowError) -> StoreError {
        error.in_row(self.table, &self.key)
    }
}

/// The rows of both tables of a kind, sorted by key.
struct MergedRows<'s, S> {
    source: &'s S,
    kind: StateKind,
    /// All keys begin with this.
    prefix: Vec<u8>,
    /// Rows of a table that are read at once.
    page_rows: usize,
    pages: [RowPage; 2],
}

/// Rows of a table that are read ahead.
struct RowPage {
    table: TableId,
    rows: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// The lowest key that was not read yet; `None` at the end.
    next: Option<Vec<u8>>,
}

impl<'s, S: Source> MergedRows<'s, S> {
    fn new(source: &'s S, kind: StateKind, (prefix, low): (Vec<u8>, Vec<u8>), page_rows: usize) -> Self {
        let pages = kind.tables().map(|table| RowPage {
            table,
            rows: VecDeque::new(),
            next: Some(low.clone()),
        });
        Self {
            source,
            kind,
            prefix,
            page_rows,
            pages,
        }
    }

    fn next(&mut self) -> Result<Option<FoundRow>, StoreError> {
        for page in &mut self.pages {
            page.fill(self.source, self.kind, &self.prefix, self.page_rows)?;
        }
        let lowest = self
            .pages
            .iter_mut()
            .filter(|page| !page.rows.is_empty())
            .min_by(|one, other| one.rows[0].0.cmp(&other.rows[0].0));
        let found = lowest.and_then(|page| Some((page.table, page.rows.pop_front()?)));
        Ok(found.map(|(table, (key, row))| FoundRow {
            kind: self.kind,
            table,
            key,
            row,
        }))
    }
}

impl RowPage {
    /// Reads the next rows if there are none left.
    fn fill(
        &mut self,
        source: &impl Source,
        kind: StateKind,
        prefix: &[u8],
        page_rows: usize,
    ) -> Result<(), StoreError> {
        let Some(low) = self.next.take_if(|_| self.rows.is_empty()) else {
            return Ok(());
        };
        let (table, rows) = (self.table, &mut self.rows);
        let (mut next, mut fault) = (None, None);
        source.visit_from(table, &low, &mut |key, row| {
            if !key.starts_with(prefix) {
                return ControlFlow::Break(());
            }
            if key.len() != kind.key_bytes() {
                let error = RowError::Length {
                    field: "key",
                    got: key.len(),
                    expected: kind.key_bytes(),
                };
                fault = Some(error.in_row(table, key));
                return ControlFlow::Break(());
            }
            if rows.len() == page_rows {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            rows.push_back((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        self.next = next;
        fault.map_or(Ok(()), Err)
    }
}
