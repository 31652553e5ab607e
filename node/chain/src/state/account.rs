//! One cached account: its values at the parent block and now.
//!
//! The account stays in memory within a block and from block to block. This module knows neither
//! the store nor the trie.

use ethash::keccak256_many;
use primitives::{B256, EMPTY_ROOT, U256};
use revm::primitives::U256Map;
use revm::state::AccountInfo;
use store::{AccountKey, AccountRecord, AccountVersion, SlotWrite, StorageOwner, slot_hash};

/// A storage slot: its value now and at the parent block.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedSlot {
    pub(super) now: U256,
    /// The value after the parent block.
    before: U256,
    /// Hash of the slot's number, once it is known.
    hash: Option<B256>,
}

impl CachedSlot {
    /// A slot that was read under the hash of its number.
    pub(super) const fn read(hash: B256, value: U256) -> Self {
        Self {
            now: value,
            before: value,
            hash: Some(hash),
        }
    }

    /// The hash of the number `slot`, which is that of this slot.
    fn hash_of(&self, slot: &U256) -> B256 {
        self.hash.unwrap_or_else(|| slot_hash(slot))
    }

    /// The slot `slot`, which is this one, with its value now.
    fn write(&self, slot: U256) -> SlotWrite {
        SlotWrite {
            slot,
            hash: self.hash_of(&slot),
            value: self.now,
        }
    }

    const fn unchanged(value: U256) -> Self {
        Self {
            now: value,
            before: value,
            hash: None,
        }
    }
}

/// An account with the changes of the block being executed.
#[derive(Clone, Debug)]
pub(super) struct CachedAccount {
    /// Hash of the address.
    pub(super) key: AccountKey,
    /// The account now, without its storage root. `None` if the account does not exist.
    pub(super) now: Option<AccountInfo>,
    /// The account after the parent block.
    pub(super) before: AccountVersion,
    /// The storage root when the state root was last computed.
    pub(super) storage_root: B256,
    /// The number of earlier blocks that changed slots of this incarnation and have no state root
    /// yet. Until it is 0, both storage roots here are out of date.
    pub(super) blocks_without_root: u32,
    /// The block has emptied the storage that the parent block left.
    pub(super) wiped: bool,
    /// The account changed after the state root was last computed.
    pub(super) unrooted: bool,
    /// The account changed in this block before the state root was last computed.
    pub(super) rooted: bool,
    /// `None` as long as no slot was read or written, as with most accounts.
    slots: Option<Box<CachedSlots>>,
}

/// The slots of an account.
#[derive(Clone, Debug, Default)]
struct CachedSlots {
    /// Slots that were read or written.
    values: U256Map<CachedSlot>,
    /// Slots written after the state root was last computed. A slot may appear twice.
    written: Vec<U256>,
    /// Slots written in this block before the state root was last computed. A slot may appear
    /// twice.
    rooted: Vec<U256>,
}

impl CachedSlots {
    /// Hashes the numbers of the slots that were written and have no hash yet.
    fn hash_written(&mut self) {
        let values = &self.values;
        let unhashed = |key: &&U256| values.get(*key).is_some_and(|slot| slot.hash.is_none());
        let keys: Vec<U256> = self.written.iter().filter(unhashed).copied().collect();
        if keys.is_empty() {
            return;
        }
        let numbers: Vec<[u8; 32]> = keys.iter().map(U256::to_be_bytes).collect();
        let numbers: Vec<&[u8]> = numbers.iter().map(<[u8; 32]>::as_slice).collect();
        for (key, hash) in keys.iter().zip(keccak256_many(&numbers)) {
            if let Some(slot) = self.values.get_mut(key) {
                slot.hash = Some(B256::from(hash));
            }
        }
    }
}

impl CachedAccount {
    /// The account after the parent block, without changes.
    pub(super) fn new(key: AccountKey, before: AccountVersion) -> Self {
        let now = before.account.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.tx_nonce,
            code_hash: account.code_hash,
            code: None,
            ..Default::default()
        });
        Self {
            key,
            now,
            before,
            storage_root: before.account.map_or(EMPTY_ROOT, |account| account.storage_root),
            blocks_without_root: 0,
            wiped: false,
            unrooted: false,
            rooted: false,
            slots: None,
        }
    }

    /// The incarnation that the account's storage belongs to now.
    pub(super) fn incarnation(&self) -> u32 {
        self.before.incarnation + u32::from(self.wiped)
    }

    /// The account now, with the storage root from the last computation of the state root.
    pub(super) fn version(&self) -> AccountVersion {
        let account = self.now.as_ref().map(|info| AccountRecord {
            tx_nonce: info.nonce,
            balance: info.balance,
            storage_root: self.storage_root,
            code_hash: info.code_hash,
        });
        AccountVersion {
            account,
            incarnation: self.incarnation(),
        }
    }

    /// The slot, if it was read or written.
    pub(super) fn slot(&self, slot: &U256) -> Option<&CachedSlot> {
        self.slots.as_ref()?.values.get(slot)
    }

    /// The slots that were read or written, by number.
    pub(super) fn slots(&self) -> impl Iterator<Item = (&U256, &CachedSlot)> {
        self.slots.iter().flat_map(|slots| &slots.values)
    }

    /// Keeps a slot that was read.
    pub(super) fn keep_read(&mut self, slot: U256, read: CachedSlot) {
        self.slots.get_or_insert_default().values.insert(slot, read);
    }

    /// Writes `value` to a slot. `original` is the slot's value at the start of the transaction.
    /// Returns how many slots were added to the cache: 0 or 1.
    pub(super) fn write(&mut self, slot: U256, original: U256, value: U256) -> usize {
        let before = if self.wiped { U256::ZERO } else { original };
        let slots = self.slots.get_or_insert_default();
        let count_before = slots.values.len();
        let entry = slots.values.entry(slot);
        entry.or_insert_with(|| CachedSlot::unchanged(before)).now = value;
        slots.written.push(slot);
        slots.values.len() - count_before
    }

    /// Makes the storage empty and forgets all slots.
    pub(super) fn empty_storage(&mut self) {
        self.storage_root = EMPTY_ROOT;
        self.slots = None;
    }

    /// The storage that the account has now.
    pub(super) fn storage(&self) -> StorageOwner {
        self.key.storage(self.incarnation())
    }

    /// Returns the slots that the trie does not have yet, with their values, and marks them as
    /// passed to the trie.
    pub(super) fn take_unrooted(&mut self) -> Vec<SlotWrite> {
        let Some(slots) = &mut self.slots else {
            return Vec::new();
        };
        slots.written.sort_unstable();
        slots.written.dedup();
        slots.hash_written();
        // Once the trie has had changes of this block, a slot that went back to its old value
        // must be written too.
        let trie_has_changes = !slots.rooted.is_empty();
        let values = slots.written.iter().filter_map(|key| {
            let slot = slots.values.get(key)?;
            (trie_has_changes || slot.now != slot.before).then(|| slot.write(*key))
        });
        let values = values.collect();
        slots.rooted.append(&mut slots.written);
        values
    }

    /// The slots of this block that were passed to the trie, with their values at the parent block.
    pub(super) fn rooted_changes(&self) -> Vec<(B256, U256)> {
        let before = |key: &U256| {
            let slot = self.slot(key)?;
            Some((slot.hash_of(key), slot.before))
        };
        let rooted = self.slots.iter().flat_map(|slots| &slots.rooted);
        rooted.filter_map(before).collect()
    }

    /// Marks all changes of the block as not yet passed to the trie.
    pub(super) fn unroot(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.written.append(&mut slots.rooted);
        }
        (self.rooted, self.unrooted) = (false, false);
        self.storage_root = match self.before.account {
            Some(account) if !self.wiped => account.storage_root,
            _ => EMPTY_ROOT,
        };
    }

    /// Takes the storage root of `version`, the account after an earlier block that changed slots.
    pub(super) const fn take_storage_root(&mut self, version: &AccountVersion) {
        // The root of a storage that was emptied since is known.
        if self.before.incarnation == version.incarnation
            && let (Some(account), Some(after)) = (&mut self.before.account, version.account)
        {
            self.blocks_without_root = self.blocks_without_root.saturating_sub(1);
            account.storage_root = after.storage_root;
            self.storage_root = after.storage_root;
        }
    }

    /// Ends the block: the current values become the values of the next block's parent. Returns
    /// the slots that the block changed, with their new values.
    pub(super) fn end_block(&mut self) -> Vec<SlotWrite> {
        let mut changed = Vec::new();
        if let Some(slots) = &mut self.slots {
            let mut keys = std::mem::take(&mut slots.rooted);
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                if let Some(slot) = slots.values.get_mut(&key)
                    && slot.now != slot.before
                {
                    slot.before = slot.now;
                    changed.push(slot.write(key));
                }
            }
        }
        if self.wiped {
            self.blocks_without_root = 0;
        }
        self.before = self.version();
        (self.wiped, self.rooted) = (false, false);
        changed
    }
}
