//! An account in memory, over a block and from block to block.
//!
//! Knows one account's values before and now; knows neither store nor trie.

use primitives::{B256, EMPTY_ROOT, U256};
use revm::primitives::U256Map;
use revm::state::AccountInfo;
use store::{AccountRecord, AccountVersion};

/// A slot as the block has it so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) now: U256,
    /// As the parent block left it.
    before: U256,
}

impl Slot {
    pub(super) fn unchanged(value: U256) -> Self {
        Self {
            now: value,
            before: value,
        }
    }
}

/// An account as the block has it so far.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    /// Now, without a storage root; `None`: does not exist.
    pub(super) now: Option<AccountInfo>,
    /// As the parent block left it.
    pub(super) before: AccountVersion,
    /// The storage root when the state root was last computed.
    pub(super) storage_root: B256,
    /// Storage was emptied within the block.
    pub(super) wiped: bool,
    /// Changed since the state root was last computed.
    pub(super) unrooted: bool,
    /// Changed in the block before that.
    pub(super) rooted: bool,
    /// Slots that were read or written.
    pub(super) slots: U256Map<Slot>,
    /// Slots written since the state root was last computed, some perhaps twice.
    pub(super) written: Vec<U256>,
    /// Slots written in the block before that, some perhaps twice.
    pub(super) rooted_slots: Vec<U256>,
}

impl Cached {
    /// An account as its parent block left it.
    pub(super) fn new(before: AccountVersion) -> Self {
        let now = before.account.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.tx_nonce,
            code_hash: account.code_hash,
            code: None,
            ..Default::default()
        });
        Self {
            now,
            before,
            storage_root: before.account.map_or(EMPTY_ROOT, |account| account.storage_root),
            wiped: false,
            unrooted: false,
            rooted: false,
            slots: U256Map::default(),
            written: Vec::new(),
            rooted_slots: Vec::new(),
        }
    }

    /// Whose storage it has now.
    pub(super) fn incarnation(&self) -> u32 {
        self.before.incarnation + u32::from(self.wiped)
    }

    /// The account as it is now, with the storage root of when the state root was last computed.
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

    /// Writes a slot, which held `original` at the beginning of the transaction. Returns how
    /// many slots more are held for it.
    pub(super) fn write(&mut self, slot: U256, original: U256, value: U256) -> usize {
        let before = if self.wiped { U256::ZERO } else { original };
        let held = self.slots.len();
        let entry = self.slots.entry(slot);
        entry.or_insert_with(|| Slot::unchanged(before)).now = value;
        self.written.push(slot);
        self.slots.len() - held
    }

    /// Forgets all slots; the storage is empty now.
    pub(super) fn empty_storage(&mut self) {
        self.storage_root = EMPTY_ROOT;
        self.slots.clear();
        self.written.clear();
        self.rooted_slots.clear();
    }

    /// The slots that the trie must be told of, with their values. They count as told.
    pub(super) fn take_unrooted(&mut self) -> Vec<(U256, U256)> {
        self.written.sort_unstable();
        self.written.dedup();
        let told_before = !self.rooted_slots.is_empty();
        let slots = &self.slots;
        let values = self.written.iter().filter_map(|key| {
            let slot = slots.get(key)?;
            (told_before || slot.now != slot.before).then_some((*key, slot.now))
        });
        let values = values.collect();
        self.rooted_slots.append(&mut self.written);
        values
    }

    /// The slots that the trie was told of in this block, with the values before it.
    pub(super) fn rooted_changes(&self) -> Vec<(U256, U256)> {
        let before = |key: &U256| Some((*key, self.slots.get(key)?.before));
        self.rooted_slots.iter().filter_map(before).collect()
    }

    /// Makes all changes of the block ones that the trie was not told of.
    pub(super) fn unroot(&mut self) {
        self.written.append(&mut self.rooted_slots);
        (self.rooted, self.unrooted) = (false, false);
        self.storage_root = match self.before.account {
            Some(account) if !self.wiped => account.storage_root,
            _ => EMPTY_ROOT,
        };
    }

    /// Ends the block: the version now becomes the one before. Returns the slots that differ
    /// from what the parent left, in order, with their values.
    pub(super) fn end_block(&mut self) -> Vec<(U256, U256)> {
        let mut keys = std::mem::take(&mut self.rooted_slots);
        keys.sort_unstable();
        keys.dedup();
        let mut changed = Vec::new();
        for key in keys {
            if let Some(slot) = self.slots.get_mut(&key)
                && slot.now != slot.before
            {
                slot.before = slot.now;
                changed.push((key, slot.now));
            }
        }
        self.before = self.version();
        (self.wiped, self.rooted) = (false, false);
        changed
    }
}
