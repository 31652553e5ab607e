//! A state that comes from peers in rows, on its way into the store.
//!
//! [`FetchedState`] keeps what is handed over until [`FetchedState::commit`] writes all of it and
//! the progress together. So a process that dies at any moment leaves whole commits. When all rows
//! are there, [`FetchedState::build`] makes the tries in one pass, which is saved every few
//! seconds; from then on each commit changes them with the rows. While a state is fetched, no other
//! state can be read, and the head's blocks are written without being executed (`import::fill`).
//! Knows no peers.
//!
//! Invariants on the medium, at every moment:
//!
//! - Without the row of the fetched state, the present rows are the head's state.
//! - With it, nobody reads a state: the horizon is above every block.
//! - In stage `Tries`, the tries are those of the rows, and the storage root of an account is that
//!   of its slots. So a node of a trie has all that is below it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use primitives::{B256, EMPTY_ROOT, U256, keccak256};
use store::{
    AccountKey, AccountRecord, BlockReads, FetchedStage, FetchedStateReads, FetchedStateRecord, Snapshot,
    Source, StateReads, StateTrieId, StorageOwner, Store, StoreError, TableId, Tables, meta_key,
};

use crate::spec::ChainSpec;
use crate::trie::{SAVE_BYTES, StateTrie, TrieBuild, node_at};

/// Rows that are removed with one commit.
const CLEARED_ROWS: usize = 200_000;

/// The state that the store is fetching, and the rows that are not written yet.
#[derive(Debug)]
pub struct FetchedState {
    store: Store,
    stage: FetchedStage,
    /// The rows that wait. `None` removes an account, zero a slot.
    accounts: BTreeMap<B256, Option<AccountRecord>>,
    slots: BTreeMap<B256, BTreeMap<B256, U256>>,
    codes: HashMap<B256, Vec<u8>>,
}

impl FetchedState {
    /// The state that `store` is fetching; `None` if it fetches none.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn open(store: &Store) -> Result<Option<(Self, Vec<u8>)>, StoreError> {
        let Some(FetchedStateRecord { stage, progress }) = store.snapshot()?.fetched_state()? else {
            return Ok(None);
        };
        let mut state = Self {
            store: store.clone(),
            stage,
            accounts: BTreeMap::new(),
            slots: BTreeMap::new(),
            codes: HashMap::new(),
        };
        if stage == FetchedStage::Clearing {
            state.clear(|tables| tables.clear_state(CLEARED_ROWS))?;
            state.set_stage(FetchedStage::Rows)?;
        }
        Ok(Some((state, progress)))
    }

    /// Begins to fetch a state. From now on no state can be read. Goes on if one was begun.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or its head is not block 0: then it has a state.
    pub fn begin(store: &Store) -> Result<(Self, Vec<u8>), StoreError> {
        let view = store.snapshot()?;
        if view.fetched_state()?.is_none() {
            let head = view.head()?.map_or(0, |(number, _)| number);
            if head != 0 {
                let reason = format!("a state can be fetched while the head is block 0: got block {head}");
                return Err(StoreError::corrupt(TableId::Meta, meta_key::HEAD, reason));
            }
            let batch = store.batch()?;
            batch.write(|tables| tables.begin_fetched_state())?;
            batch.commit()?;
        }
        let missing = || StoreError::corrupt(TableId::Meta, b"fetched_state", "no such row");
        Self::open(store)?.ok_or_else(missing)
    }

    /// The store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Removes rows with many commits.
    fn clear(&self, clear: impl Fn(&mut Tables<'_>) -> Result<bool, StoreError>) -> Result<(), StoreError> {
        loop {
            let batch = self.store.batch()?;
            let is_done = batch.write(|tables| clear(tables))?;
            batch.commit()?;
            if is_done {
                return Ok(());
            }
        }
    }

    fn set_stage(&mut self, stage: FetchedStage) -> Result<(), StoreError> {
        let progress = self.progress()?;
        let batch = self.store.batch()?;
        batch.write(|tables| tables.put_fetched_state(stage, &progress))?;
        batch.commit()?;
        self.stage = stage;
        Ok(())
    }

    fn progress(&self) -> Result<Vec<u8>, StoreError> {
        let record = self.store.snapshot()?.fetched_state()?;
        Ok(record.map(|record| record.progress).unwrap_or_default())
    }

    /// Replaces all accounts from `first` to `last` by these rows, which ascend. Accounts that are
    /// not among them go, with their slots.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn replace_accounts(
        &mut self,
        first: &B256,
        last: &B256,
        rows: &[(B256, AccountRecord)],
    ) -> Result<(), StoreError> {
        let stored = self.store.snapshot()?.present_accounts(first, last, usize::MAX)?;
        let waiting = self.accounts.range(*first..=*last).map(|(hash, _)| *hash);
        let is_there = |hash: &B256| rows.binary_search_by_key(hash, |(hash, _)| *hash).is_ok();
        let gone: Vec<B256> = stored
            .into_iter()
            .chain(waiting)
            .filter(|hash| !is_there(hash))
            .collect();
        for hash in gone {
            self.replace_slots(&hash, &B256::ZERO, &B256::repeat_byte(0xff), &[])?;
            self.accounts.insert(hash, None);
        }
        self.accounts
            .extend(rows.iter().map(|(hash, account)| (*hash, Some(*account))));
        Ok(())
    }

    /// Replaces all slots of an account from `first` to `last` by these rows, which ascend.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn replace_slots(
        &mut self,
        account: &B256,
        first: &B256,
        last: &B256,
        rows: &[(B256, U256)],
    ) -> Result<(), StoreError> {
        let view = self.store.snapshot()?;
        let stored = view.present_slots(owner_of(account), first, last, usize::MAX)?;
        if stored.is_empty() && rows.is_empty() && !self.slots.contains_key(account) {
            return Ok(());
        }
        let slots = self.slots.entry(*account).or_default();
        slots
            .range_mut(*first..=*last)
            .for_each(|(_, value)| *value = U256::ZERO);
        slots.extend(stored.into_iter().map(|hash| (hash, U256::ZERO)));
        slots.extend(rows.iter().copied());
        Ok(())
    }

    /// Whether the code with this hash is here.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    pub fn has_code(&self, hash: &B256) -> Result<bool, StoreError> {
        let is_stored = || {
            self.store
                .snapshot()?
                .with(TableId::HashToCode, hash.as_slice(), |_| ())
        };
        Ok(self.codes.contains_key(hash) || is_stored()?.is_some())
    }

    /// Keeps a code.
    pub fn put_code(&mut self, hash: &B256, code: &[u8]) {
        self.codes.insert(*hash, code.to_vec());
    }

    /// Writes all that was handed over, and the progress. If the tries are built, they follow.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. Then nothing was written, or all of it; the next start
    /// shows which.
    pub fn commit(&mut self, progress: &[u8]) -> Result<(), StoreError> {
        let (mut early, mut trie) = (BTreeMap::new(), None);
        if self.stage == FetchedStage::Tries {
            early = self.take_early_slots()?;
            trie = Some(self.change_tries()?);
        }
        let batch = self.store.batch()?;
        batch.write(|tables| {
            for (hash, account) in &self.accounts {
                tables.put_fetched_account(AccountKey(*hash), *account)?;
            }
            for (hash, slots) in &self.slots {
                for (slot, value) in slots {
                    tables.put_fetched_slot(owner_of(hash).slot(*slot), *value)?;
                }
            }
            for (hash, code) in &self.codes {
                tables.put_code(hash, code)?;
            }
            if let Some(trie) = &mut trie {
                trie.write_to(tables)?;
            } else if !(self.accounts.is_empty() && self.slots.is_empty()) {
                tables.delete_begun_tries()?;
            }
            tables.put_fetched_state(self.stage, progress)
        })?;
        batch.commit()?;
        self.accounts.clear();
        self.slots = early;
        self.codes.clear();
        Ok(())
    }

    /// Takes out the slots whose accounts have not come: they wait for them. Otherwise they would
    /// stay for ever if the next pivot does not have the account. Adds the stored accounts whose
    /// slots change.
    fn take_early_slots(&mut self) -> Result<BTreeMap<B256, BTreeMap<B256, U256>>, StoreError> {
        let view = self.store.snapshot()?;
        let mut early = BTreeMap::new();
        for hash in self.slots.keys().copied().collect::<Vec<_>>() {
            if self.accounts.contains_key(&hash) {
                continue;
            }
            let stored = view.account_by_key(&AccountKey(hash), 0)?.account;
            if stored.is_some() {
                self.accounts.insert(hash, stored);
            } else if let Some(slots) = self.slots.remove(&hash) {
                early.insert(hash, slots);
            }
        }
        Ok(early)
    }

    /// Changes the tries as the rows that wait do. Sets the storage roots of accounts to those of
    /// their slots.
    fn change_tries(&mut self) -> Result<StateTrie, StoreError> {
        let view = self.store.snapshot()?;
        let mut trie = StateTrie::new(root_of(&view, StateTrieId::Accounts)?);
        for (hash, slots) in &self.slots {
            let owner = owner_of(hash);
            let root = root_of(&view, StateTrieId::Storage(owner))?;
            let slots = slots.iter().map(|(slot, value)| (*slot, *value));
            trie.set_slots(&*view, owner, root, slots)?;
        }
        trie.hash_storages();
        for (hash, account) in &mut self.accounts {
            if let Some(account) = account {
                let owner = owner_of(hash);
                account.storage_root = match trie.storage_root(owner) {
                    Some(root) => root,
                    None => root_of(&view, StateTrieId::Storage(owner))?,
                };
            }
        }
        let accounts: Vec<_> = self
            .accounts
            .iter()
            .map(|(hash, account)| (AccountKey(*hash), *account))
            .collect();
        trie.set_accounts(&*view, &accounts)?;
        Ok(trie)
    }

    /// Builds the tries of all rows that were committed, and returns the root of the state. Calls
    /// `report` with the number of accounts so far. Goes on where a build was interrupted, if no
    /// rows came since.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. Then the next call goes on from the last commit.
    pub fn build(&mut self, report: impl FnMut(u64)) -> Result<B256, StoreError> {
        self.build_in_steps(SAVE_BYTES, report)
    }

    /// The same with a commit after so many bytes of nodes.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn build_in_steps(&mut self, save_bytes: usize, report: impl FnMut(u64)) -> Result<B256, StoreError> {
        self.set_stage(FetchedStage::Rows)?;
        let begun = self.store.snapshot()?.begun_tries()?.unwrap_or_default();
        if begun.is_empty() {
            self.clear(|tables| tables.clear_tries(CLEARED_ROWS))?;
        }
        let view = self.store.snapshot()?;
        // Storage roots that differ from those of the rows are corrected with the next commit.
        let corrected = RefCell::new(Vec::new());
        let correct = |tables: &mut Tables<'_>| {
            let rows = corrected.take();
            let mut rows = rows.into_iter();
            rows.try_for_each(|(key, account)| tables.put_fetched_account(key, Some(account)))
        };
        let build = TrieBuild {
            store: &self.store,
            view: &view,
            number: 0,
            begun: &begun,
            save_bytes,
        };
        let root = build.run(
            |found, got| {
                if got != found.account.storage_root {
                    let account = AccountRecord {
                        storage_root: got,
                        ..found.account
                    };
                    corrected.borrow_mut().push((found.key, account));
                }
                Ok(got)
            },
            |tables, state| {
                correct(tables)?;
                tables.put_begun_tries(state)
            },
            report,
        )?;
        let batch = self.store.batch()?;
        batch.write(correct)?;
        batch.commit()?;
        drop(view);
        self.set_stage(FetchedStage::Tries)?;
        Ok(root)
    }

    /// Gives the state up: what was fetched goes, and the state is that of block 0 of `spec` again.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. Then the state is still being fetched, from its begin.
    pub fn give_up(mut self, spec: &ChainSpec) -> Result<(), StoreError> {
        let batch = self.store.batch()?;
        batch.write(|tables| tables.put_fetched_state(FetchedStage::Clearing, &[]))?;
        batch.commit()?;
        self.stage = FetchedStage::Clearing;
        self.clear(|tables| tables.clear_state(CLEARED_ROWS))?;
        let batch = self.store.batch()?;
        batch.write(|tables| {
            crate::genesis::write_accounts(tables, &spec.genesis)?;
            tables.drop_fetched_state()
        })?;
        batch.commit()
    }

    /// The RLP of a node of the own tries, as of the last commit: of the state's trie, or of an
    /// account's storage. The path has one nibble per byte. `None` if there is no node at the
    /// path, or if it is embedded in its parent.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let trie = account.map_or(StateTrieId::Accounts, |hash| StateTrieId::Storage(owner_of(hash)));
        node_at(&*self.store.snapshot()?, &trie.prefix(), path)
    }
}

/// The storage of an account. A fetched account has had one only.
const fn owner_of(account: &B256) -> StorageOwner {
    AccountKey(*account).storage(0)
}

/// The root of the accounts' trie in `view`.
pub(crate) fn state_root(view: &Snapshot) -> Result<B256, StoreError> {
    root_of(view, StateTrieId::Accounts)
}

fn root_of(view: &Snapshot, trie: StateTrieId) -> Result<B256, StoreError> {
    let root = node_at(view, &trie.prefix(), &[])?;
    Ok(root.map_or(EMPTY_ROOT, keccak256))
}
