//! The ranges of a state: accounts in parts, their storages and codes.
//!
//! A part advances when storages and codes of its next accounts are complete: then these accounts
//! are handed over with their slots, in order. Small storages wait in memory until then. A large
//! one is handed over in chunks as they come, and the progress names it, so that it goes on where
//! it was, even after a restart.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use primitives::{B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256};
use store::{AccountRecord, StoreError};

use super::path::{high, key_below, next_key};
use super::sink::{SnapFigures, SnapSink};

/// The parts of the space of keys that are fetched side by side.
pub(super) const PARTS: usize = 16;
/// The most chunks of a large storage.
const CHUNKS_MAX: u64 = 16;
/// Memory for storages that are complete before their accounts are handed over, or that other
/// accounts may share.
const STORAGES_BYTES_MAX: usize = 64 << 20;
/// Accounts are handed over before all of their batch are complete if their slots take so much.
const FLUSH_BYTES: usize = 1 << 20;
/// The most hashes of codes that are remembered because they are here.
const KNOWN_CODES_MAX: usize = 1 << 20;
/// Memory of a slot.
const SLOT_MEMORY: usize = 64;

pub(super) const LAST_KEY: B256 = B256::repeat_byte(0xff);

pub(super) type Slots = Arc<Vec<(B256, U256)>>;

/// A part of the space of account hashes.
#[derive(Debug)]
pub(super) struct AccountPart {
    /// All accounts below it are handed over.
    pub(super) next: B256,
    pub(super) last: B256,
    pub(super) is_asked: bool,
    batch: Option<Batch>,
}

/// Accounts of an answer that are not handed over yet.
#[derive(Debug)]
struct Batch {
    accounts: VecDeque<(B256, AccountRecord)>,
    /// The slots of the first accounts, which are complete. `None` for none and for large ones.
    complete: VecDeque<Option<Slots>>,
    /// The bytes of memory of these slots.
    complete_bytes: usize,
    /// Accounts before this index need no question: their storages are here or asked for.
    scanned: usize,
    /// The range of the answer ends here.
    until: B256,
}

/// A range of a large storage.
#[derive(Clone, Debug)]
pub(super) struct StorageChunk {
    pub(super) next: B256,
    pub(super) last: B256,
    pub(super) is_asked: bool,
}

/// A storage that is handed over in chunks.
#[derive(Clone, Debug)]
pub(super) struct LargeStorage {
    /// The root of the storage in the state of the pivot. `None` until its account has come.
    pub(super) root: Option<B256>,
    /// The missing ranges.
    pub(super) chunks: Vec<StorageChunk>,
}

#[derive(Debug, Default)]
pub(super) struct Load {
    /// Parts that are done are left out.
    pub(super) parts: Vec<AccountPart>,
    pub(super) large: BTreeMap<B256, LargeStorage>,
    /// Complete storages by their roots: accounts share many.
    ready: HashMap<B256, Slots>,
    ready_order: VecDeque<B256>,
    ready_bytes: usize,
    /// Roots of storages that are asked for.
    asked_roots: HashSet<B256>,
    pub(super) wanted_codes: WantedCodes,
}

/// The codes that are missing, and some that are known to be here.
#[derive(Debug, Default)]
pub(super) struct WantedCodes {
    known: HashSet<B256>,
    pub(super) missing: VecDeque<B256>,
    waiting: HashSet<B256>,
}

impl WantedCodes {
    /// Whether the code is here. If not, it is wanted from now on.
    pub(super) fn is_here(&mut self, hash: &B256, sink: &dyn SnapSink) -> Result<bool, StoreError> {
        if *hash == EMPTY_CODE_HASH || self.known.contains(hash) {
            return Ok(true);
        }
        if self.waiting.contains(hash) {
            return Ok(false);
        }
        if sink.has_code(hash)? {
            self.note_here(*hash);
            return Ok(true);
        }
        self.waiting.insert(*hash);
        self.missing.push_back(*hash);
        Ok(false)
    }

    /// Notes that a code is here now.
    pub(super) fn note_here(&mut self, hash: B256) {
        self.waiting.remove(&hash);
        if self.known.len() >= KNOWN_CODES_MAX {
            self.known.clear();
        }
        self.known.insert(hash);
    }

    /// Forgets what is missing: another state needs other codes.
    pub(super) fn forget_missing(&mut self) {
        self.missing.clear();
        self.waiting.clear();
    }
}

impl AccountPart {
    pub(super) const fn new(next: B256, last: B256) -> Self {
        Self {
            next,
            last,
            is_asked: false,
            batch: None,
        }
    }

    /// Whether accounts can be asked for.
    pub(super) const fn is_free(&self) -> bool {
        !self.is_asked && self.batch.is_none()
    }

    /// Takes proven accounts from `next` on. `until` is the end of their range.
    pub(super) fn take(&mut self, accounts: Vec<(B256, AccountRecord)>, until: B256) {
        self.is_asked = false;
        self.batch = Some(Batch {
            accounts: accounts.into(),
            complete: VecDeque::new(),
            complete_bytes: 0,
            scanned: 0,
            until,
        });
    }
}

impl Load {
    /// Nothing is fetched yet.
    pub(super) fn begin() -> Self {
        let part =
            |first: usize| AccountPart::new(key_below(&[first as u8], 0), key_below(&[first as u8], 15));
        Self {
            parts: (0..PARTS).map(part).collect(),
            ..Self::default()
        }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.parts.is_empty()
    }

    /// The state has another root now. What is handed over stays; what was asked for is forgotten.
    pub(super) fn pivot_moved(&mut self) {
        for part in &mut self.parts {
            part.is_asked = false;
            part.batch = None;
        }
        for large in self.large.values_mut() {
            large.root = None;
            large.chunks.iter_mut().for_each(|chunk| chunk.is_asked = false);
        }
        self.asked_roots.clear();
        self.wanted_codes.forget_missing();
    }

    /// The storages to ask for in one request, at most `most`: accounts and roots.
    pub(super) fn storages_to_ask(&mut self, most: usize) -> Vec<(B256, B256)> {
        let mut chosen = Vec::new();
        for part in &mut self.parts {
            let Some(batch) = &mut part.batch else { continue };
            // The first account that is not complete is asked for in any case.
            let has_room =
                |index: usize| self.ready_bytes < STORAGES_BYTES_MAX || index == batch.complete.len();
            batch.scanned = batch.scanned.max(batch.complete.len());
            while chosen.len() < most
                && let Some((hash, account)) = batch.accounts.get(batch.scanned)
                && has_room(batch.scanned)
            {
                let root = account.storage_root;
                let is_needed = root != EMPTY_ROOT
                    && !self.ready.contains_key(&root)
                    && !self.large.contains_key(hash)
                    && self.asked_roots.insert(root);
                if is_needed {
                    chosen.push((*hash, root));
                }
                batch.scanned += 1;
            }
        }
        chosen
    }

    /// The storage was asked for and did not come.
    pub(super) fn storage_failed(&mut self, root: &B256) {
        self.asked_roots.remove(root);
        for batch in self.parts.iter_mut().filter_map(|part| part.batch.as_mut()) {
            batch.scanned = batch.complete.len();
        }
    }

    /// A whole storage has come.
    pub(super) fn storage_came(&mut self, root: B256, slots: Vec<(B256, U256)>) {
        self.asked_roots.remove(&root);
        let bytes = |slots: &Slots| slots.len() * SLOT_MEMORY;
        while self.ready_bytes > STORAGES_BYTES_MAX
            && let Some(oldest) = self.ready_order.pop_front()
        {
            self.ready_bytes -= self.ready.remove(&oldest).as_ref().map_or(0, bytes);
        }
        let slots = Arc::new(slots);
        self.ready_bytes += bytes(&slots);
        if self.ready.insert(root, slots).is_none() {
            self.ready_order.push_back(root);
        }
    }

    /// The begin of a storage has come, and there is more of it.
    pub(super) fn large_came(
        &mut self,
        account: B256,
        root: B256,
        slots: &[(B256, U256)],
        sink: &mut dyn SnapSink,
    ) -> Result<(), StoreError> {
        self.asked_roots.remove(&root);
        let Some((last, _)) = slots.last() else {
            return Ok(());
        };
        sink.replace_slots(&account, &B256::ZERO, last, slots)?;
        let Some(next) = next_key(last) else { return Ok(()) };
        // As many answers as this one are left.
        let count = (u64::MAX / high(last).max(1)).clamp(1, CHUNKS_MAX);
        let step = (U256::MAX - U256::from_be_bytes(next.0)) / U256::from(count);
        let start = |index: u64| U256::from_be_bytes(next.0) + step * U256::from(index);
        let chunk = |index: u64| StorageChunk {
            next: B256::from(start(index)),
            last: if index + 1 == count {
                LAST_KEY
            } else {
                B256::from(start(index + 1) - U256::from(1))
            },
            is_asked: false,
        };
        let chunks = (0..count).map(chunk).collect();
        self.large.insert(
            account,
            LargeStorage {
                root: Some(root),
                chunks,
            },
        );
        // Others that share the root have been passed over.
        self.storage_failed(&root);
        Ok(())
    }

    /// Notes which storages and codes the accounts of a new batch need.
    fn note_needs(&mut self, index: usize, sink: &dyn SnapSink) -> Result<(), StoreError> {
        let Some(batch) = &self.parts[index].batch else {
            return Ok(());
        };
        for (hash, account) in &batch.accounts {
            self.wanted_codes.is_here(&account.code_hash, sink)?;
            if let Some(large) = self.large.get_mut(hash) {
                large.root = Some(account.storage_root);
            }
        }
        Ok(())
    }

    /// Accounts of a part have come.
    pub(super) fn accounts_came(
        &mut self,
        index: usize,
        accounts: Vec<(B256, AccountRecord)>,
        until: B256,
        sink: &dyn SnapSink,
    ) -> Result<(), StoreError> {
        self.parts[index].take(accounts, until);
        self.note_needs(index, sink)
    }

    /// Hands over what is complete.
    pub(super) fn flush(
        &mut self,
        figures: &mut SnapFigures,
        sink: &mut dyn SnapSink,
    ) -> Result<(), StoreError> {
        for index in 0..self.parts.len() {
            self.complete(index, sink)?;
            self.flush_part(index, figures, sink)?;
        }
        self.parts.retain(|part| part.next <= part.last);
        Ok(())
    }

    /// Counts the first accounts of a part that are complete.
    fn complete(&mut self, index: usize, sink: &dyn SnapSink) -> Result<(), StoreError> {
        let Some(batch) = &mut self.parts[index].batch else {
            return Ok(());
        };
        while let Some((hash, account)) = batch.accounts.get(batch.complete.len()) {
            let root = account.storage_root;
            let slots = if root == EMPTY_ROOT {
                None
            } else if let Some(large) = self.large.get(hash) {
                if !large.chunks.is_empty() {
                    break;
                }
                None
            } else if let Some(slots) = self.ready.get(&root) {
                Some(Arc::clone(slots))
            } else {
                if !self.asked_roots.contains(&root) {
                    // The storage was here and made room for others.
                    batch.scanned = batch.complete.len();
                }
                break;
            };
            if !self.wanted_codes.is_here(&account.code_hash, sink)? {
                break;
            }
            batch.complete_bytes += slots.as_ref().map_or(0, |slots| slots.len() * SLOT_MEMORY);
            batch.complete.push_back(slots);
        }
        Ok(())
    }

    fn flush_part(
        &mut self,
        index: usize,
        figures: &mut SnapFigures,
        sink: &mut dyn SnapSink,
    ) -> Result<(), StoreError> {
        let part = &mut self.parts[index];
        let Some(batch) = &mut part.batch else {
            return Ok(());
        };
        let count = batch.complete.len();
        let is_whole = count == batch.accounts.len();
        if !is_whole && (count == 0 || batch.complete_bytes < FLUSH_BYTES) {
            return Ok(());
        }
        let rows: Vec<_> = batch.accounts.drain(..count).collect();
        let last = match rows.last() {
            Some((hash, _)) if !is_whole => *hash,
            _ => batch.until,
        };
        for ((hash, _), slots) in rows.iter().zip(batch.complete.drain(..)) {
            if let Some(slots) = slots {
                sink.replace_slots(hash, &B256::ZERO, &LAST_KEY, &slots)?;
                figures.slots += slots.len() as u64;
            }
        }
        (batch.complete_bytes, batch.scanned) = (0, batch.scanned.saturating_sub(count));
        sink.replace_accounts(&part.next, &last, &rows)?;
        figures.accounts += rows.len() as u64;
        // Storages whose chunks are all here, and those of accounts that are gone meanwhile.
        let ended: Vec<B256> = self
            .large
            .range(part.next..=last)
            .map(|(hash, _)| *hash)
            .collect();
        for hash in ended {
            self.large.remove(&hash);
            let row = rows.binary_search_by_key(&hash, |(hash, _)| *hash);
            if !row.is_ok_and(|at| rows[at].1.storage_root != EMPTY_ROOT) {
                sink.replace_slots(&hash, &B256::ZERO, &LAST_KEY, &[])?;
            }
        }
        if is_whole {
            part.batch = None;
        }
        match next_key(&last) {
            Some(next) if last < part.last => part.next = next,
            // Nothing is left: `next` is above `last`.
            _ => (part.next, part.last) = (LAST_KEY, B256::ZERO),
        }
        Ok(())
    }
}
