//! The keys of accounts, storages, slots and trie nodes, and which tables have them.
//!
//! Accounts and slots stand under hashes, in the order of the trie: a walk over the rows is a walk
//! over the trie's leaves. This is the one place that knows how keys are laid out. Knows no values.

use primitives::{Address, B256, U256, keccak256};

use crate::TableId;

/// The key of an account: Keccak-256 of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey(pub B256);

impl AccountKey {
    /// The key of the account with this address.
    pub fn of(address: &Address) -> Self {
        Self(keccak256(address))
    }

    /// The storage of this incarnation of the account.
    pub const fn storage(self, incarnation: u32) -> StorageOwner {
        StorageOwner {
            account: self,
            incarnation,
        }
    }
}

/// The key of a slot within its storage: Keccak-256 of its number as 32 bytes, big-endian.
pub fn slot_hash(slot: &U256) -> B256 {
    keccak256(slot.to_be_bytes::<32>())
}

/// A storage: that of one incarnation of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageOwner {
    /// The account.
    pub account: AccountKey,
    /// Which storage of the account.
    pub incarnation: u32,
}

impl StorageOwner {
    /// Bytes of a key.
    pub(crate) const BYTES: usize = 36;

    /// The key: hash of the address (32), incarnation (4).
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut key = [0; Self::BYTES];
        key[..32].copy_from_slice(self.account.0.as_slice());
        key[32..].copy_from_slice(&self.incarnation.to_be_bytes());
        key
    }

    /// Reads a key; `None` if it has another length.
    pub fn from_bytes(key: &[u8]) -> Option<Self> {
        let (account, incarnation) = key.split_last_chunk::<4>()?;
        let account = AccountKey(B256::try_from(account).ok()?);
        Some(account.storage(u32::from_be_bytes(*incarnation)))
    }

    /// The key of the slot with this hash.
    pub const fn slot(self, hash: B256) -> SlotKey {
        SlotKey { owner: self, hash }
    }
}

/// The key of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey {
    /// The storage.
    pub owner: StorageOwner,
    /// Hash of the slot's number, see [`slot_hash`].
    pub hash: B256,
}

impl SlotKey {
    /// Bytes of a key.
    pub(crate) const BYTES: usize = StorageOwner::BYTES + 32;

    /// The key: hash of the address (32), incarnation (4), hash of the slot (32).
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut key = [0; Self::BYTES];
        key[..StorageOwner::BYTES].copy_from_slice(&self.owner.to_bytes());
        key[StorageOwner::BYTES..].copy_from_slice(self.hash.as_slice());
        key
    }
}

/// A row of the state: an account or a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateKind {
    /// An account, under an [`AccountKey`].
    Account,
    /// A slot, under a [`SlotKey`].
    Slot,
}

impl StateKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Account, Self::Slot];

    /// The table of the rows that the head state has.
    pub const fn present(self) -> TableId {
        match self {
            Self::Account => TableId::Account,
            Self::Slot => TableId::Storage,
        }
    }

    /// The table of the rows that only earlier states have.
    pub const fn gone(self) -> TableId {
        match self {
            Self::Account => TableId::GoneAccount,
            Self::Slot => TableId::GoneStorage,
        }
    }

    /// Both tables.
    pub const fn tables(self) -> [TableId; 2] {
        [self.present(), self.gone()]
    }

    /// Bytes of a key.
    pub(super) const fn key_bytes(self) -> usize {
        match self {
            Self::Account => 32,
            Self::Slot => SlotKey::BYTES,
        }
    }

    /// The hash of an address, or of the number of a slot without leading zero bytes.
    pub(super) fn hash(self, preimage: &[u8]) -> B256 {
        match self {
            Self::Account => keccak256(preimage),
            Self::Slot => slot_hash(&U256::try_from_be_slice(preimage).unwrap_or_default()),
        }
    }

    /// The first byte of the keys of older changes.
    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::Account => ACCOUNTS,
            Self::Slot => STORAGE,
        }
    }
}

/// First byte of the account trie's rows, and of accounts in [`TableId::StateHistory`].
const ACCOUNTS: u8 = 0;
/// First byte of the storage tries' rows, and of slots in [`TableId::StateHistory`].
pub(super) const STORAGE: u8 = 1;

/// A trie of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateTrieId {
    /// The trie of all accounts, whose root is the state root.
    Accounts,
    /// The trie of a storage.
    Storage(StorageOwner),
}

impl StateTrieId {
    /// The beginning of the keys of the trie's nodes in [`TableId::PathToTrieNode`].
    pub fn prefix(self) -> Vec<u8> {
        match self {
            Self::Accounts => vec![ACCOUNTS],
            Self::Storage(owner) => [&[STORAGE][..], &owner.to_bytes()].concat(),
        }
    }

    /// Splits the key of a trie node into its trie and its path, one nibble for each byte; `None`
    /// if it is no such key.
    pub fn split(row: &[u8]) -> Option<(Self, &[u8])> {
        match row.split_first()? {
            (&ACCOUNTS, path) => Some((Self::Accounts, path)),
            (&STORAGE, rest) => {
                let (owner, path) = rest.split_at_checked(StorageOwner::BYTES)?;
                Some((Self::Storage(StorageOwner::from_bytes(owner)?), path))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tries_are_split() {
        let owner = AccountKey::of(&Address::repeat_byte(7)).storage(0x0102_0304);
        assert_eq!(StorageOwner::from_bytes(&owner.to_bytes()), Some(owner));
        for trie in [StateTrieId::Accounts, StateTrieId::Storage(owner)] {
            let row = [trie.prefix(), vec![1, 2, 15]].concat();
            assert_eq!(StateTrieId::split(&row), Some((trie, &[1, 2, 15][..])));
        }
        for row in [&[][..], &[2, 0], &[1, 0, 0]] {
            assert_eq!(StateTrieId::split(row), None);
        }
    }
}
