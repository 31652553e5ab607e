//! The state: accounts and slots as they are now, and what they were after each earlier block.
//!
//! The tables [`TableId::Account`] and [`TableId::Storage`] hold the present values. Each row also
//! lists the newest blocks that changed it ([`history`]). What a block changed, with the values
//! before it, is in the row of [`TableId::BlockToChanges`] ([`changes`]). So:
//!
//! - A present value is one look-up.
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
mod history;
mod horizon;

use std::ops::ControlFlow;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256};

use crate::codec::{RowReader, push_uint};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::write_tables::Tables;
use crate::{StoreError, TableId};
use account_changes::{change_after, change_before};
pub use changes::{SlotChange, StateChanges};
pub use history::NewestChanges;
use history::{StateRow, newest_changes, next_older_change, scan_older_changes};
pub use horizon::{HorizonReads, StateHorizon};

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
    /// The account after the block.
    pub version: AccountVersion,
    /// The changed slots of the account's incarnation, ascending, with their values after the
    /// block. No slot is there twice.
    pub slots: Vec<(U256, U256)>,
}

/// The key of a slot: address (20), incarnation (4), slot (32).
pub(crate) fn slot_key(address: &Address, incarnation: u32, slot: &U256) -> [u8; 56] {
    let mut key = [0; 56];
    key[..20].copy_from_slice(address.as_slice());
    key[20..24].copy_from_slice(&incarnation.to_be_bytes());
    key[24..].copy_from_slice(&slot.to_be_bytes::<32>());
    key
}

fn decode_slot_value(value: &[u8]) -> Result<U256, RowError> {
    U256::try_from_be_slice(value).ok_or(RowError::TooLong {
        field: "value",
        got: value.len(),
        bound: 32,
    })
}

impl NewestChanges {
    /// Reads the list in `row`, the value under `key` of [`TableId::Account`] or
    /// [`TableId::Storage`].
    ///
    /// # Errors
    /// [`StoreError`] when the row is corrupt.
    pub fn read(table: TableId, key: &[u8], row: &[u8]) -> Result<Self, StoreError> {
        newest_changes(table, key, row)
    }
}

/// Reads of the state after a block.
pub trait StateReads: Source {
    /// The account after block `number`. If it was never written: no account, incarnation 0.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn account_at(&self, address: &Address, number: u64) -> Result<AccountVersion, StoreError> {
        let find = |row: &[u8]| StateChanges::find_account(row, address);
        let found = value_at(
            self,
            TableId::Account,
            address.as_slice(),
            number,
            AccountVersion::decode,
            find,
        )?;
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
        let key = slot_key(address, incarnation, slot);
        let find = |row: &[u8]| StateChanges::find_slot(row, address, incarnation, slot);
        let found = value_at(self, TableId::Storage, &key, number, decode_slot_value, find)?;
        Ok(found.unwrap_or_default())
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
    /// `visit` gets the table and the key of the account or slot, and blocks, ascending.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn scan_older_changes(
        &self,
        visit: impl FnMut(Result<(TableId, &[u8], &[u64]), StoreError>) -> ControlFlow<()>,
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

/// The value under `key` after block `number`; `None` if there is no row. `find` finds the value
/// before a block in the row of what that block changed.
fn value_at<T>(
    source: &(impl StateReads + ?Sized),
    table: TableId,
    key: &[u8],
    number: u64,
    decode: impl FnOnce(&[u8]) -> Result<T, RowError>,
    find: impl FnOnce(&[u8]) -> Result<Option<T>, RowError>,
) -> Result<Option<T>, StoreError> {
    let looked_up = read_row(source, table, key, |row| {
        let row = StateRow::parse(row)?;
        Ok(match row.next_change(number)? {
            None => Ok(decode(row.value)?),
            Some(later) => Err(later),
        })
    })?;
    let change = match looked_up {
        None => return Ok(None),
        Some(Ok(value)) => return Ok(Some(value)),
        Some(Err(later)) => later,
    };
    let older = if change.may_be_older {
        next_older_change(source, table, key, number)?
    } else {
        None
    };
    let block = older.unwrap_or(change.block);
    let block_key = block.to_be_bytes();
    let found = match read_row(source, TableId::BlockToChanges, &block_key, find)? {
        None => Err(RowError::Missing),
        Some(found) => found.ok_or_else(|| RowError::LacksChange {
            table,
            key: key.to_vec(),
        }),
    };
    found
        .map(Some)
        .map_err(|error| error.in_row(TableId::BlockToChanges, &block_key))
}

impl Tables<'_> {
    /// Writes what block `number` changed, and the values before it. The block must be above all
    /// blocks that were written before. No account is there twice.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails or a row is corrupt.
    pub fn put_state(&mut self, number: u64, changed: &[AccountWrite]) -> Result<(), StoreError> {
        let mut sorted: Vec<_> = changed.iter().collect();
        sorted.sort_unstable_by_key(|change| change.address);
        let mut changes = StateChanges::default();
        for AccountWrite {
            address,
            version,
            slots,
        } in sorted
        {
            let key = address.as_slice();
            let before = self.put_value(TableId::Account, key, number, &version.to_bytes())?;
            let before = before.map(|value| {
                AccountVersion::decode(&value).map_err(|error| error.in_row(TableId::Account, key))
            });
            changes
                .accounts
                .push((*address, before.transpose()?.unwrap_or_default()));
            debug_assert!(slots.is_sorted_by(|one, other| one.0 < other.0));
            for (slot, value) in slots {
                let key = slot_key(address, version.incarnation, slot);
                let value = value.to_be_bytes_trimmed_vec();
                let before = self.put_value(TableId::Storage, &key, number, &value)?;
                let before = before.map(|value| {
                    decode_slot_value(&value).map_err(|error| error.in_row(TableId::Storage, &key))
                });
                changes.slots.push(SlotChange {
                    address: *address,
                    incarnation: version.incarnation,
                    slot: *slot,
                    before: before.transpose()?.unwrap_or_default(),
                });
            }
        }
        self.put(TableId::BlockToChanges, &number.to_be_bytes(), &changes.encode())
    }

    /// Takes back what block `number` changed. It must be the last block that was written, and
    /// `changes` must be what it changed.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails or a row is corrupt.
    pub fn revert_state(&mut self, number: u64, changes: &StateChanges) -> Result<(), StoreError> {
        for (address, before) in &changes.accounts {
            self.revert_value(TableId::Account, address.as_slice(), number, &before.to_bytes())?;
        }
        for change in &changes.slots {
            let key = slot_key(&change.address, change.incarnation, &change.slot);
            let before = change.before.to_be_bytes_trimmed_vec();
            self.revert_value(TableId::Storage, &key, number, &before)?;
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
