//! Versioned state: the value of an account or a slot at block N is its last version at or below N.
//!
//! The storage of an account belongs to an incarnation. Destroying the account begins the next
//! incarnation. So the old slots need not be deleted, and they stay readable at past blocks. The
//! rows of [`TableId::BlockToChanges`] name what each canonical block changed, so that a
//! reorganization removes exactly the versions of that block. The trie is in the package `chain`;
//! here are only its rows.

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256};

use crate::codec::{RowReader, push_uint};
use crate::source::Source;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

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

// Flags: which parts a row of `AccountAtBlock` has.
const HAS_ACCOUNT: u8 = 1;
const HAS_STORAGE: u8 = 2;
const HAS_CODE: u8 = 4;

impl AccountVersion {
    fn encode(&self) -> Vec<u8> {
        let mut row = vec![0];
        push_uint(&mut row, U256::from(self.incarnation));
        if let Some(account) = &self.account {
            row[0] |= HAS_ACCOUNT;
            push_uint(&mut row, U256::from(account.tx_nonce));
            push_uint(&mut row, account.balance);
            if account.storage_root != EMPTY_ROOT {
                row[0] |= HAS_STORAGE;
                row.extend_from_slice(account.storage_root.as_slice());
            }
            if account.code_hash != EMPTY_CODE_HASH {
                row[0] |= HAS_CODE;
                row.extend_from_slice(account.code_hash.as_slice());
            }
        }
        row
    }

    fn decode(row: &[u8]) -> Result<Self, String> {
        let mut reader = RowReader::new(row);
        let [flags] = reader.array()?;
        if flags & !(HAS_ACCOUNT | HAS_STORAGE | HAS_CODE) != 0 {
            return Err(format!("flags: got {flags:#04x}, expected at most 0x07"));
        }
        let incarnation = u32::try_from(reader.uint64()?).map_err(|_| "incarnation: got 2^32 or more")?;
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
        reader.finish()?;
        Ok(Self { account, incarnation })
    }
}

pub(crate) fn account_key(address: &Address, number: u64) -> [u8; 28] {
    let mut key = [0; 28];
    key[..20].copy_from_slice(address.as_slice());
    key[20..].copy_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn slot_key(address: &Address, incarnation: u32, slot: &U256, number: u64) -> [u8; 64] {
    let mut key = [0; 64];
    key[..20].copy_from_slice(address.as_slice());
    key[20..24].copy_from_slice(&incarnation.to_be_bytes());
    key[24..56].copy_from_slice(&slot.to_be_bytes::<32>());
    key[56..].copy_from_slice(&number.to_be_bytes());
    key
}

/// What one block changed: keys only, without values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// Accounts with a new version.
    pub accounts: Vec<Address>,
    /// Slots with a new version: address, incarnation, slot.
    pub slots: Vec<(Address, u32, U256)>,
}

impl StateChanges {
    fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(4 + self.accounts.len() * 20 + self.slots.len() * 56);
        row.extend_from_slice(&(self.accounts.len() as u32).to_be_bytes());
        for address in &self.accounts {
            row.extend_from_slice(address.as_slice());
        }
        for (address, incarnation, slot) in &self.slots {
            row.extend_from_slice(address.as_slice());
            row.extend_from_slice(&incarnation.to_be_bytes());
            row.extend_from_slice(&slot.to_be_bytes::<32>());
        }
        row
    }

    fn decode(row: &[u8]) -> Result<Self, String> {
        let mut reader = RowReader::new(row);
        let count = reader.u32()? as usize;
        let accounts = reader
            .take(count.checked_mul(20).ok_or("number of accounts is too large")?)?
            .chunks_exact(20)
            .map(Address::from_slice)
            .collect();
        let rest = reader.remaining();
        if !rest.len().is_multiple_of(56) {
            return Err(format!(
                "slots: got {} bytes, expected a multiple of 56",
                rest.len()
            ));
        }
        let slot = |row: &[u8]| {
            let mut reader = RowReader::new(row);
            Ok((
                Address::from(reader.array()?),
                reader.u32()?,
                U256::from_be_bytes(reader.array::<32>()?),
            ))
        };
        let slots = rest.chunks_exact(56).map(slot).collect::<Result<_, String>>()?;
        Ok(Self { accounts, slots })
    }
}

/// Reads of the state after a block. Each is one range look-up.
pub trait StateReads: Source {
    /// The account after block `number`. If it was never written: no account, incarnation 0.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn account_at(&self, address: &Address, number: u64) -> Result<AccountVersion, StoreError> {
        let (low, high) = (account_key(address, 0), account_key(address, number));
        self.with_last(TableId::AccountAtBlock, &low, &high, |key, row| {
            AccountVersion::decode(row)
                .map_err(|reason| StoreError::corrupt(TableId::AccountAtBlock, key, reason))
        })?
        .transpose()
        .map(Option::unwrap_or_default)
    }

    /// The value of a slot after block `number`; zero if it was never written.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn slot_at(
        &self,
        address: &Address,
        incarnation: u32,
        slot: &U256,
        number: u64,
    ) -> Result<U256, StoreError> {
        let low = slot_key(address, incarnation, slot, 0);
        let high = slot_key(address, incarnation, slot, number);
        self.with_last(TableId::StorageAtBlock, &low, &high, |key, row| {
            U256::try_from_be_slice(row).ok_or_else(|| {
                StoreError::corrupt(TableId::StorageAtBlock, key, "value: got more than 32 bytes")
            })
        })?
        .transpose()
        .map(Option::unwrap_or_default)
    }

    /// The code with the hash `code_hash`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails, or when the code is missing or has another hash.
    fn code(&self, code_hash: &B256) -> Result<Vec<u8>, StoreError> {
        if *code_hash == EMPTY_CODE_HASH {
            return Ok(Vec::new());
        }
        let corrupt = |reason: &str| StoreError::corrupt(TableId::HashToCode, code_hash.as_slice(), reason);
        let code = self
            .get(TableId::HashToCode, code_hash.as_slice())?
            .ok_or_else(|| corrupt("row is missing"))?;
        if primitives::keccak256(&code) == *code_hash {
            Ok(code)
        } else {
            Err(corrupt("the code has another hash"))
        }
    }

    /// What the canonical block `number` changed.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt or missing.
    fn changes(&self, number: u64) -> Result<StateChanges, StoreError> {
        let key = number.to_be_bytes();
        let corrupt = |reason: String| StoreError::corrupt(TableId::BlockToChanges, &key, reason);
        self.with(TableId::BlockToChanges, &key, StateChanges::decode)?
            .ok_or_else(|| corrupt("row is missing".to_owned()))?
            .map_err(corrupt)
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

impl Tables<'_> {
    /// Writes the account after block `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_account(
        &mut self,
        address: &Address,
        number: u64,
        version: &AccountVersion,
    ) -> Result<(), StoreError> {
        self.put(
            TableId::AccountAtBlock,
            &account_key(address, number),
            &version.encode(),
        )
    }

    /// Writes the value of a slot after block `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_slot(
        &mut self,
        address: &Address,
        incarnation: u32,
        slot: &U256,
        number: u64,
        value: &U256,
    ) -> Result<(), StoreError> {
        let bytes = value.to_be_bytes_trimmed_vec();
        self.put(
            TableId::StorageAtBlock,
            &slot_key(address, incarnation, slot, number),
            &bytes,
        )
    }

    /// Writes code under its hash.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_code(&mut self, code_hash: &B256, code: &[u8]) -> Result<(), StoreError> {
        self.put(TableId::HashToCode, code_hash.as_slice(), code)
    }

    /// Writes what the canonical block `number` changed.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_changes(&mut self, number: u64, changes: &StateChanges) -> Result<(), StoreError> {
        self.put(TableId::BlockToChanges, &number.to_be_bytes(), &changes.encode())
    }

    /// Removes all versions of block `number` that `changes` names, and the row with these changes.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete_versions(&mut self, number: u64, changes: &StateChanges) -> Result<(), StoreError> {
        for address in &changes.accounts {
            self.delete(TableId::AccountAtBlock, &account_key(address, number))?;
        }
        for (address, incarnation, slot) in &changes.slots {
            self.delete(
                TableId::StorageAtBlock,
                &slot_key(address, *incarnation, slot, number),
            )?;
        }
        self.delete(TableId::BlockToChanges, &number.to_be_bytes())
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Store;

    fn version() -> impl Strategy<Value = AccountVersion> {
        let record = (
            any::<u64>(),
            any::<[u8; 32]>(),
            any::<Option<[u8; 32]>>(),
            any::<Option<[u8; 32]>>(),
        );
        (any::<u32>(), proptest::option::of(record)).prop_map(|(incarnation, record)| AccountVersion {
            incarnation,
            account: record.map(|(tx_nonce, balance, root, code)| AccountRecord {
                tx_nonce,
                balance: U256::from_be_bytes(balance),
                storage_root: root.map_or(EMPTY_ROOT, B256::from),
                code_hash: code.map_or(EMPTY_CODE_HASH, B256::from),
            }),
        })
    }

    proptest! {
        #[test]
        fn account_versions_round_trip(version in version()) {
            prop_assert_eq!(AccountVersion::decode(&version.encode()).unwrap(), version);
        }

        #[test]
        fn changes_round_trip(accounts: Vec<[u8; 20]>, slots: Vec<([u8; 20], u32, [u8; 32])>) {
            let changes = StateChanges {
                accounts: accounts.into_iter().map(Address::from).collect(),
                slots: slots
                    .into_iter()
                    .map(|(address, incarnation, slot)| {
                        (Address::from(address), incarnation, U256::from_be_bytes(slot))
                    })
                    .collect(),
            };
            prop_assert_eq!(StateChanges::decode(&changes.encode()).unwrap(), changes);
        }

        #[test]
        fn bad_rows_are_errors_not_panics(row: Vec<u8>) {
            let _ = AccountVersion::decode(&row);
            let _ = StateChanges::decode(&row);
        }
    }

    #[test]
    fn the_last_version_at_or_below_a_block_counts() {
        let store = Store::in_memory().unwrap();
        let address = Address::repeat_byte(7);
        let slot = U256::from(3);
        let at = |nonce| AccountVersion {
            account: Some(AccountRecord {
                tx_nonce: nonce,
                ..Default::default()
            }),
            incarnation: 0,
        };
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put_account(&address, 2, &at(1))?;
                tables.put_account(&address, 5, &at(2))?;
                tables.put_account(
                    &address,
                    9,
                    &AccountVersion {
                        account: None,
                        incarnation: 1,
                    },
                )?;
                tables.put_slot(&address, 0, &slot, 5, &U256::from(500))?;
                tables.put_slot(&address, 0, &slot, 6, &U256::ZERO)
            })
            .unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        let nonce = |number| {
            view.account_at(&address, number)
                .unwrap()
                .account
                .map(|a| a.tx_nonce)
        };
        let nonces: Vec<_> = [1, 2, 4, 5, 8, 9, u64::MAX].map(nonce).to_vec();
        assert_eq!(nonces, [None, Some(1), Some(1), Some(2), Some(2), None, None]);
        assert_eq!(view.account_at(&address, 9).unwrap().incarnation, 1);
        let value = |incarnation, number| view.slot_at(&address, incarnation, &slot, number).unwrap();
        assert_eq!(
            [value(0, 4), value(0, 5), value(0, 6)],
            [U256::ZERO, U256::from(500), U256::ZERO]
        );
        assert_eq!(value(1, 5), U256::ZERO);
    }

    #[test]
    fn changed_code_is_an_error() {
        let store = Store::in_memory().unwrap();
        let hash = primitives::keccak256(b"code");
        let batch = store.batch().unwrap();
        batch.write(|tables| tables.put_code(&hash, b"cxde")).unwrap();
        batch.commit().unwrap();
        let error = store.snapshot().unwrap().code(&hash).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
}
