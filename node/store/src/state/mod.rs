//! The state: accounts and slots as they are now, and what they were after each earlier block.
//!
//! The tables [`TableId::Account`] and [`TableId::Storage`] hold the present values, under the
//! hashes that are the keys of the trie ([`keys`]): they are its leaves. What only earlier states
//! have is in [`TableId::GoneAccount`] and [`TableId::GoneStorage`]. Each row also lists the newest
//! blocks that changed it, and the address or the number of the slot ([`history`]). What a block
//! changed, with the values before it, is in the row of [`TableId::BlockToChanges`] ([`changes`]).
//! So:
//!
//! - A present value is one look-up; one that is not there takes two.
//! - The value after an earlier block N is the value before the first block above N that changed
//!   it: two look-ups, or three if the change is long ago.
//! - A reorganization puts back what the row of the block says.
//!
//! States before the horizon are not kept ([`horizon`]). A store without one keeps all states.
//!
//! The storage of an account belongs to an incarnation. Destroying the account begins the next
//! incarnation. So the old slots need not be deleted, and they stay readable at past blocks, until
//! [`dead_storages`] removes them. The trie is in the package `chain`; here are only its rows.

mod account_changes;
mod changes;
mod dead_storages;
mod fetched;
mod history;
mod horizon;
mod keys;
mod leaves;
mod past_nodes;
mod walk;

use std::borrow::Borrow;
use std::ops::ControlFlow;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256};

use crate::codec::{RowReader, push_uint};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::write_tables::Tables;
use crate::{StoreError, TableId};
use account_changes::{change_after, change_before};
use changes::ChangesBefore;
pub use changes::{SlotChange, StateChanges};
pub use fetched::{FetchedStage, FetchedStateReads, FetchedStateRecord, NO_STATE};
pub use history::NewestChanges;
pub(crate) use history::is_present;
use history::{LaterChange, StateRow, next_older_change, read_state_row, scan_older_changes};
pub use horizon::{HorizonReads, StateHorizon};
pub use keys::{AccountKey, SlotKey, StateKind, StateTrieId, StorageOwner, slot_hash};
pub use leaves::{PastLeaves, StateLeaf};
use leaves::{past_trie_leaf, trie_leaf};
pub use past_nodes::{PastNode, PastNodeReads};
pub use walk::{WalkedAccount, WalkedSlot};

/// An account as the state trie holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    /// Number of transactions sent; for a contract, number of contracts created.
    pub tx_nonce: u64,
    /// Balance in sha.
    pub balance: U256,
    /// Root of the account's storage trie.
    pub storage_root: B256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
}

impl Default for AccountRecord {
    fn default() -> Self {
        Self {
            tx_nonce: 0,
            balance: U256::ZERO,
            storage_root: EMPTY_ROOT,
            code_hash: EMPTY_CODE_HASH,
        }
    }
}

/// An account after a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountVersion {
    /// `None`: the account does not exist.
    pub account: Option<AccountRecord>,
    /// The incarnation that the account's storage belongs to. If the account does not exist: the
    /// incarnation that it would get.
    pub incarnation: u32,
}

// Flags: which parts the encoding of an account has.
const HAS_ACCOUNT: u8 = 1;
const HAS_STORAGE: u8 = 2;
const HAS_CODE: u8 = 4;

impl AccountVersion {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(0);
        push_uint(out, U256::from(self.incarnation));
        if let Some(account) = &self.account {
            let mut flags = HAS_ACCOUNT;
            push_uint(out, U256::from(account.tx_nonce));
            push_uint(out, account.balance);
            if account.storage_root != EMPTY_ROOT {
                flags |= HAS_STORAGE;
                out.extend_from_slice(account.storage_root.as_slice());
            }
            if account.code_hash != EMPTY_CODE_HASH {
                flags |= HAS_CODE;
                out.extend_from_slice(account.code_hash.as_slice());
            }
            out[start] = flags;
        }
    }

    /// Whether an encoded version has an account.
    fn has_account(value: &[u8]) -> bool {
        value.first().is_some_and(|flags| flags & HAS_ACCOUNT != 0)
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        self.encode(&mut bytes);
        bytes
    }

    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        let flags = read_flags(reader)?;
        let incarnation = u32::try_from(reader.uint64()?).map_err(|_| RowError::Overflow {
            field: "incarnation",
            bits: 32,
        })?;
        let account = if flags & HAS_ACCOUNT == 0 {
            None
        } else {
            let mut account = AccountRecord {
                tx_nonce: reader.uint64()?,
                balance: reader.uint()?,
                ..Default::default()
            };
            if flags & HAS_STORAGE != 0 {
                account.storage_root = B256::from(reader.array()?);
            }
            if flags & HAS_CODE != 0 {
                account.code_hash = B256::from(reader.array()?);
            }
            Some(account)
        };
        Ok(Self { account, incarnation })
    }

    /// Passes over an account without reading its values.
    fn skip(reader: &mut RowReader<'_>) -> Result<(), RowError> {
        let flags = read_flags(reader)?;
        reader.uint_bytes()?;
        if flags & HAS_ACCOUNT != 0 {
            reader.uint_bytes()?;
            reader.uint_bytes()?;
            let hashes = (flags & (HAS_STORAGE | HAS_CODE)).count_ones() as usize;
            reader.take(hashes * 32)?;
        }
        Ok(())
    }

    fn decode(value: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(value);
        let version = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(version)
    }
}

fn read_flags(reader: &mut RowReader<'_>) -> Result<u8, RowError> {
    let [flags] = reader.array()?;
    if flags & !(HAS_ACCOUNT | HAS_STORAGE | HAS_CODE) != 0 {
        return Err(RowError::Flags {
            got: flags,
            expected: "at most 0x07",
        });
    }
    if flags & HAS_ACCOUNT == 0 && flags != 0 {
        return Err(RowError::Flags {
            got: flags,
            expected: "bit 0 to be set",
        });
    }
    Ok(flags)
}

/// An account after a block that changed it, with the slots that the block changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountWrite {
    /// The address of the account.
    pub address: Address,
    /// The hash of the address.
    pub key: AccountKey,
    /// The account after the block.
    pub version: AccountVersion,
    /// The changed slots of the account's incarnation, in any order. No slot is there twice.
    pub slots: Vec<SlotWrite>,
}

impl AccountWrite {
    /// The storage that the changed slots belong to.
    pub const fn storage(&self) -> StorageOwner {
        self.key.storage(self.version.incarnation)
    }
}

/// A slot after a block that changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWrite {
    /// The slot.
    pub slot: U256,
    /// The hash of its number, see [`slot_hash`].
    pub hash: B256,
    /// The value.
    pub value: U256,
}

impl SlotWrite {
    /// The slot with this value.
    pub fn new(slot: U256, value: U256) -> Self {
        Self {
            slot,
            hash: slot_hash(&slot),
            value,
        }
    }
}

fn decode_slot_value(value: &[u8]) -> Result<U256, RowError> {
    U256::try_from_be_slice(value).ok_or(RowError::TooLong {
        field: "value",
        got: value.len(),
        bound: 32,
    })
}

/// Reads of the state after a block.
pub trait StateReads: Source + Sized {
    /// The account after block `number`. If it was never written: no account, incarnation 0.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn account_at(&self, address: &Address, number: u64) -> Result<AccountVersion, StoreError> {
        self.account_by_key(&AccountKey::of(address), number)
    }

    /// As [`Self::account_at`], of the account with the hash `key`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn account_by_key(&self, key: &AccountKey, number: u64) -> Result<AccountVersion, StoreError> {
        let find = |changes: &[u8], preimage: &[u8]| {
            StateChanges::find_account(changes, &Address::from_slice(preimage))
        };
        let kind = StateKind::Account;
        let found = value_at(self, kind, key.0.as_slice(), number, AccountVersion::decode, find)?;
        Ok(found.unwrap_or_default())
    }

    /// The value of a slot after block `number`; zero if it was never written.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn slot_at(
        &self,
        address: &Address,
        incarnation: u32,
        slot: &U256,
        number: u64,
    ) -> Result<U256, StoreError> {
        let owner = AccountKey::of(address).storage(incarnation);
        self.slot_by_key(address, &owner.slot(slot_hash(slot)), number)
    }

    /// As [`Self::slot_at`], of the slot with this key. `address` is that of the account.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn slot_by_key(&self, address: &Address, key: &SlotKey, number: u64) -> Result<U256, StoreError> {
        let find = |changes: &[u8], preimage: &[u8]| {
            let slot = U256::from_be_slice(preimage);
            StateChanges::find_slot(changes, address, key.owner.incarnation, &slot)
        };
        let bytes = key.to_bytes();
        let found = value_at(self, StateKind::Slot, &bytes, number, decode_slot_value, find)?;
        Ok(found.unwrap_or_default())
    }

    /// Visits the accounts that exist after block `number`, in the order of their keys, from `low`
    /// on.
    ///
    /// # Errors
    /// Any error of `visit`, and [`StoreError`] when a row cannot be read.
    fn walk_accounts<E: From<StoreError>>(
        &self,
        low: &AccountKey,
        number: u64,
        visit: impl FnMut(WalkedAccount) -> Result<(), E>,
    ) -> Result<(), E> {
        walk::accounts(self, low, number, visit)
    }

    /// Visits the slots of a storage that are not zero after block `number`, in the order of their
    /// hashes, from `low` on.
    ///
    /// # Errors
    /// Any error of `visit`, and [`StoreError`] when a row cannot be read.
    fn walk_slots<E: From<StoreError>>(
        &self,
        owner: &StorageOwner,
        low: &B256,
        number: u64,
        visit: impl FnMut(WalkedSlot) -> Result<(), E>,
    ) -> Result<(), E> {
        walk::slots(self, owner, low, number, visit)
    }

    /// Whether an account or a slot was never written before block `number`, which changed it;
    /// `None` if the block did not change it. `last` keeps the changes of the block that was asked
    /// for last.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn was_nothing_before(
        &self,
        kind: StateKind,
        key: &[u8],
        number: u64,
        last: &mut Option<(u64, StateChanges)>,
    ) -> Result<Option<bool>, StoreError> {
        was_nothing_before(self, kind, key, number, last)
    }

    /// The first leaf of a trie of the head state whose path begins with these nibbles, with its
    /// key; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn trie_leaf(&self, trie: StateTrieId, nibbles: &[u8]) -> Result<Option<(B256, StateLeaf)>, StoreError> {
        trie_leaf(self, trie, nibbles, |_| false)
    }

    /// As [`Self::trie_leaf`], of the past state whose leaves differ by `leaves` from those of the
    /// head.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn trie_leaf_before(
        &self,
        trie: StateTrieId,
        nibbles: &[u8],
        leaves: &PastLeaves,
    ) -> Result<Option<(B256, StateLeaf)>, StoreError> {
        leaves.first(self, trie, nibbles)
    }

    /// As [`Self::trie_leaf`], of the state after block `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn past_trie_leaf(
        &self,
        trie: StateTrieId,
        nibbles: &[u8],
        number: u64,
    ) -> Result<Option<(B256, StateLeaf)>, StoreError> {
        past_trie_leaf(self, trie, nibbles, number)
    }

    /// The first block above `number` that changed the account; `None` if none did.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn account_change_after(&self, address: &Address, number: u64) -> Result<Option<u64>, StoreError> {
        change_after(self, address, number)
    }

    /// The last block below `number` that changed the account; `None` if none did. Blocks whose
    /// states are not kept any more may be missing.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn account_change_before(&self, address: &Address, number: u64) -> Result<Option<u64>, StoreError> {
        change_before(self, address, number)
    }

    /// Calls `visit` with the older changes of each account and slot, row by row, until it breaks.
    /// `visit` gets the kind and the key of the account or slot, and blocks, ascending.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn scan_older_changes(
        &self,
        visit: impl FnMut(Result<(StateKind, &[u8], &[u64]), StoreError>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        scan_older_changes(self, visit)
    }

    /// The code with the hash `code_hash`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails, or when the code is missing or has another hash.
    fn code(&self, code_hash: &B256) -> Result<Vec<u8>, StoreError> {
        if *code_hash == EMPTY_CODE_HASH {
            return Ok(Vec::new());
        }
        let (table, key) = (TableId::HashToCode, code_hash.as_slice());
        let code = self.get(table, key)?;
        let code = code.ok_or_else(|| RowError::Missing.in_row(table, key))?;
        let got = primitives::keccak256(&code);
        if got == *code_hash {
            return Ok(code);
        }
        let error = RowError::Hash {
            got,
            expected: *code_hash,
        };
        Err(error.in_row(table, key))
    }

    /// The changes of the canonical block `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt or missing.
    fn changes(&self, number: u64) -> Result<StateChanges, StoreError> {
        let key = number.to_be_bytes();
        read_row(self, TableId::BlockToChanges, &key, StateChanges::decode)?
            .ok_or_else(|| RowError::Missing.in_row(TableId::BlockToChanges, &key))
    }

    /// The trie node of the head state under `path`; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn trie_node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(TableId::PathToTrieNode, path)
    }
}

impl<S: Source> StateReads for S {}

/// The value of a row after a block.
enum RowValue<T> {
    /// The value, which is in the row.
    Here(T),
    /// The first later change, of a value that is elsewhere.
    Earlier(LaterChange),
}

impl StateRow<'_> {
    /// The value after block `number`.
    fn value_after<T>(
        &self,
        number: u64,
        decode: impl FnOnce(&[u8]) -> Result<T, RowError>,
    ) -> Result<RowValue<T>, RowError> {
        Ok(match self.next_change(number)? {
            None => RowValue::Here(decode(self.value)?),
            Some(later) => RowValue::Earlier(later),
        })
    }

    /// The address or the number of the slot, which a row has that a block has changed.
    fn known_preimage(&self) -> Result<&[u8], RowError> {
        self.preimage.ok_or(RowError::NoPreimage)
    }
}

/// The value under `key` after block `number`; `None` if there is no row. `find` finds the value
/// before a block in the row of what that block changed, by the preimage of the key.
fn value_at<T>(
    source: &impl Source,
    kind: StateKind,
    key: &[u8],
    number: u64,
    decode: fn(&[u8]) -> Result<T, RowError>,
    find: impl FnOnce(&[u8], &[u8]) -> Result<Option<T>, RowError>,
) -> Result<Option<T>, StoreError> {
    let looked_up = read_state_row(source, kind, key, |row| {
        Ok(match row.value_after(number, decode)? {
            RowValue::Here(value) => Ok(value),
            RowValue::Earlier(change) => Err((change, row.known_preimage()?.to_vec())),
        })
    })?;
    let (change, preimage) = match looked_up {
        None => return Ok(None),
        Some((_, Ok(value))) => return Ok(Some(value)),
        Some((_, Err(later))) => later,
    };
    value_before_change(source, kind, key, change, number, |changes| {
        find(changes, &preimage)
    })
    .map(Some)
}

/// The value under `key` after block `number`, before the first change that is later.
fn value_before_change<T>(
    source: &impl Source,
    kind: StateKind,
    key: &[u8],
    change: LaterChange,
    number: u64,
    find: impl FnOnce(&[u8]) -> Result<Option<T>, RowError>,
) -> Result<T, StoreError> {
    let older = if change.may_be_older {
        next_older_change(source, kind, key, number)?
    } else {
        None
    };
    let block = older.unwrap_or(change.block);
    let block_key = block.to_be_bytes();
    let found = match read_row(source, TableId::BlockToChanges, &block_key, find)? {
        None => Err(RowError::Missing),
        Some(found) => found.ok_or_else(|| RowError::LacksChange {
            table: kind.present(),
            key: key.to_vec(),
        }),
    };
    found.map_err(|error| error.in_row(TableId::BlockToChanges, &block_key))
}

fn was_nothing_before(
    source: &impl StateReads,
    kind: StateKind,
    key: &[u8],
    number: u64,
    last: &mut Option<(u64, StateChanges)>,
) -> Result<Option<bool>, StoreError> {
    let preimage = read_state_row(source, kind, key, |row| row.known_preimage().map(<[u8]>::to_vec))?;
    let Some((_, preimage)) = preimage else {
        return Ok(None);
    };
    let owner = (kind == StateKind::Slot)
        .then(|| StorageOwner::from_bytes(&key[..StorageOwner::BYTES]))
        .flatten();
    let address = match owner {
        Some(owner) => walk::known_address(source, &owner.account)?,
        None => Address::from_slice(&preimage),
    };
    let changes = match last {
        Some((found, changes)) if *found == number => changes,
        _ => &mut last.insert((number, source.changes(number)?)).1,
    };
    Ok(match owner {
        None => {
            let place = changes
                .accounts
                .binary_search_by_key(&address, |(address, _)| *address);
            place
                .ok()
                .map(|place| changes.accounts[place].1 == AccountVersion::default())
        }
        Some(owner) => {
            let wanted = (address, owner.incarnation, U256::from_be_slice(&preimage));
            let place = changes.slots.binary_search_by_key(&wanted, SlotChange::key);
            place.ok().map(|place| changes.slots[place].before.is_zero())
        }
    })
}

impl Tables<'_> {
    /// Writes what block `number` changed, and the values before it. The block must be above all
    /// blocks that were written before; block 0 needs tables without rows of the state. No account
    /// is there twice.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails or a row is corrupt.
    pub fn put_state(&mut self, number: u64, changed: &[AccountWrite]) -> Result<(), StoreError> {
        let mut sorted: Vec<_> = changed.iter().collect();
        sorted.sort_unstable_by_key(|change| change.key);
        self.put_sorted_state(number, sorted)
    }

    /// As [`Self::put_state`], of accounts that come in the order of their keys.
    ///
    /// # Errors
    /// As [`Self::put_state`].
    pub fn put_sorted_state(
        &mut self,
        number: u64,
        changed: impl IntoIterator<Item = impl Borrow<AccountWrite>>,
    ) -> Result<(), StoreError> {
        // Rows are written in the order of their keys; what was before is listed by address.
        let changed = changed.into_iter();
        let mut changes = ChangesBefore::with_capacity(changed.size_hint().0);
        for write in changed {
            let write = write.borrow();
            let before = self.put_account(number, write)?;
            changes.add_account(write.address, &before);
            let mut slots: Vec<_> = write.slots.iter().collect();
            slots.sort_unstable_by_key(|slot| slot.hash);
            for slot in slots {
                let before = self.put_slot(number, write.storage(), slot)?;
                changes.slots.push(SlotChange {
                    address: write.address,
                    incarnation: write.version.incarnation,
                    slot: slot.slot,
                    before,
                });
            }
        }
        self.put(TableId::BlockToChanges, &number.to_be_bytes(), &changes.encode())
    }

    /// Writes the row of an account. Returns the account before.
    fn put_account(&mut self, number: u64, write: &AccountWrite) -> Result<AccountVersion, StoreError> {
        debug_assert_eq!(write.key, AccountKey::of(&write.address));
        let key = write.key.0.as_slice();
        let (preimage, value) = (write.address.as_slice(), write.version.to_bytes());
        let before = self.put_value(StateKind::Account, key, preimage, number, &value)?;
        let before = before
            .map(|value| AccountVersion::decode(&value).map_err(|error| error.in_row(TableId::Account, key)));
        Ok(before.transpose()?.unwrap_or_default())
    }

    /// Writes the row of a slot. Returns the value before.
    fn put_slot(&mut self, number: u64, owner: StorageOwner, write: &SlotWrite) -> Result<U256, StoreError> {
        debug_assert_eq!(write.hash, slot_hash(&write.slot));
        let key = owner.slot(write.hash).to_bytes();
        let preimage = write.slot.to_be_bytes_trimmed_vec();
        let value = write.value.to_be_bytes_trimmed_vec();
        let before = self.put_value(StateKind::Slot, &key, &preimage, number, &value)?;
        let before = before
            .map(|value| decode_slot_value(&value).map_err(|error| error.in_row(TableId::Storage, &key)));
        Ok(before.transpose()?.unwrap_or_default())
    }

    /// Takes back what block `number` changed. It must be the last block that was written, and
    /// `changes` must be what it changed.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails or a row is corrupt.
    pub fn revert_state(&mut self, number: u64, changes: &StateChanges) -> Result<(), StoreError> {
        for (address, before) in &changes.accounts {
            let key = AccountKey::of(address);
            self.revert_value(StateKind::Account, key.0.as_slice(), number, &before.to_bytes())?;
        }
        for change in &changes.slots {
            let key = change.row_key().to_bytes();
            let before = change.before.to_be_bytes_trimmed_vec();
            self.revert_value(StateKind::Slot, &key, number, &before)?;
        }
        self.delete(TableId::BlockToChanges, &number.to_be_bytes())
    }

    /// Writes code under its hash.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_code(&mut self, code_hash: &B256, code: &[u8]) -> Result<(), StoreError> {
        self.put(TableId::HashToCode, code_hash.as_slice(), code)
    }

    /// Writes a trie node; `None` removes it.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_trie_node(&mut self, path: &[u8], node: Option<&[u8]>) -> Result<(), StoreError> {
        match node {
            Some(node) => self.put(TableId::PathToTrieNode, path, node),
            None => self.delete(TableId::PathToTrieNode, path),
        }
    }
}

#[cfg(test)]
mod tests;
