//! The states of recent blocks, found by their roots and read with their tries.
//!
//! A peer that fetches a state asks for many parts of the same few. So roots, and the index of the
//! trie nodes that have changed since a state, are kept from one request to the next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use primitives::{B256, U256};
use store::{AccountKey, AccountRecord, StateReads, StateTrieId, StoreError};

use crate::import::KEPT_TRIES;
use crate::trie::{PastNodeIndex, PastNodes, node_at};
use crate::view::View;

/// Indexes that are kept. Those who fetch a state ask for two at most: before and after they go on
/// to a newer one.
const INDEXES_MAX: usize = 4;

/// The memory of which states there are.
#[derive(Debug, Default)]
pub(crate) struct RecentStates {
    known: Mutex<KnownStates>,
    /// Held while an index is built. One is built at a time, and nobody waits for it who does not
    /// need another one.
    building: Mutex<()>,
}

#[derive(Debug, Default)]
struct KnownStates {
    /// Hash and state root of each recent block, by number.
    blocks: BTreeMap<u64, (B256, B256)>,
    /// Indexes with the hash of the head that they are for, the one used last first.
    indexes: VecDeque<(B256, Arc<PastNodeIndex>)>,
}

impl RecentStates {
    /// The state with this root, if it is that of one of the last [`KEPT_TRIES`] canonical blocks
    /// of `view`, not of block 0, and the nodes of its tries are there.
    pub(crate) fn find(&self, view: View, root: &B256) -> Result<Option<RecentState>, StoreError> {
        let Some(number) = self.known.lock().number(&view, root)? else {
            return Ok(None);
        };
        let index = self.index(view.head_hash(), number, || view.past_nodes(number))?;
        Ok(index.map(|index| RecentState { view, index }))
    }

    /// The index for the state after block `number` below this head. `build` makes it if it is not
    /// here.
    fn index(
        &self,
        head: B256,
        number: u64,
        build: impl FnOnce() -> Result<Option<PastNodeIndex>, StoreError>,
    ) -> Result<Option<Arc<PastNodeIndex>>, StoreError> {
        let known = || self.known.lock().index(head, number);
        if let Some(index) = known() {
            return Ok(Some(index));
        }
        let _turn = self.building.lock();
        // Another caller may have built it meanwhile.
        if let Some(index) = known() {
            return Ok(Some(index));
        }
        let built = build()?.map(Arc::new);
        if let Some(index) = &built {
            self.known.lock().keep(head, Arc::clone(index));
        }
        Ok(built)
    }
}

impl KnownStates {
    /// The highest of the recent blocks with this state root.
    fn number(&mut self, view: &View, root: &B256) -> Result<Option<u64>, StoreError> {
        let head = view.head_number();
        let lowest = (head + 1).saturating_sub(KEPT_TRIES).max(1);
        self.blocks.retain(|number, _| (lowest..=head).contains(number));
        for number in (lowest..=head).rev() {
            let hash = view.canonical_hash(number)?;
            let is_known = self
                .blocks
                .get(&number)
                .is_some_and(|(known, _)| Some(*known) == hash);
            if is_known && self.blocks.first_key_value().map(|(first, _)| *first) == Some(lowest) {
                // So are those below.
                break;
            }
            if let Some((hash, record)) = view.header(number)? {
                self.blocks.insert(number, (hash, record.header.state_root));
            }
        }
        let found = self.blocks.iter().rev().find(|(_, (_, other))| other == root);
        Ok(found.map(|(number, _)| *number))
    }

    fn index(&mut self, head: B256, number: u64) -> Option<Arc<PastNodeIndex>> {
        let is_it = |(other, index): &(B256, Arc<PastNodeIndex>)| *other == head && index.number() == number;
        let at = self.indexes.iter().position(is_it)?;
        let (_, index) = self.indexes.remove(at)?;
        self.keep(head, Arc::clone(&index));
        Some(index)
    }

    fn keep(&mut self, head: B256, index: Arc<PastNodeIndex>) {
        self.indexes.push_front((head, index));
        self.indexes.truncate(INDEXES_MAX);
    }
}

/// A recent state: accounts by the hashes of their addresses, slots by the hashes of their numbers,
/// and the nodes of its tries. All reads see one moment of the chain.
#[derive(Debug)]
pub struct RecentState {
    view: View,
    index: Arc<PastNodeIndex>,
}

impl RecentState {
    /// The account with this hash.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn account(&self, hash: &B256) -> Result<Option<AccountRecord>, StoreError> {
        let number = self.index.number();
        let version = self.view.snapshot().account_by_key(&AccountKey(*hash), number)?;
        Ok(version.account)
    }

    /// Hands over the accounts from the hash `from` on, in order, until `visit` returns `false`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn accounts(
        &self,
        from: &B256,
        visit: &mut dyn FnMut(B256, AccountRecord) -> bool,
    ) -> Result<(), StoreError> {
        let (snapshot, number) = (self.view.snapshot(), self.index.number());
        EarlyEnd::of(snapshot.walk_accounts(&AccountKey(*from), number, |found| {
            EarlyEnd::unless(visit(found.key.0, found.account))
        }))
    }

    /// Hands over the slots of an account from the hash `from` on, in order, until `visit` returns
    /// `false`. No value is zero.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn slots(
        &self,
        account: &B256,
        from: &B256,
        visit: &mut dyn FnMut(B256, U256) -> bool,
    ) -> Result<(), StoreError> {
        let (snapshot, number) = (self.view.snapshot(), self.index.number());
        let key = AccountKey(*account);
        let version = snapshot.account_by_key(&key, number)?;
        if version.account.is_none() {
            return Ok(());
        }
        let owner = key.storage(version.incarnation);
        EarlyEnd::of(snapshot.walk_slots(&owner, from, number, |found| {
            EarlyEnd::unless(visit(found.hash, found.value))
        }))
    }

    /// The RLP of the node at a path of the state's trie, or of the storage trie of `account`. The
    /// path has one nibble per byte. A node that is embedded in its parent is none.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let snapshot = self.view.snapshot();
        let trie = match account {
            None => StateTrieId::Accounts,
            Some(hash) => {
                let key = AccountKey(*hash);
                let version = snapshot.account_by_key(&key, self.index.number())?;
                StateTrieId::Storage(key.storage(version.incarnation))
            }
        };
        node_at(&PastNodes::new(snapshot, &self.index), &trie.prefix(), path)
    }
}

/// The reason why a walk over rows ends before the last one.
enum EarlyEnd {
    Enough,
    Store(StoreError),
}

impl From<StoreError> for EarlyEnd {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl EarlyEnd {
    const fn unless(goes_on: bool) -> Result<(), Self> {
        if goes_on { Ok(()) } else { Err(Self::Enough) }
    }

    fn of(walked: Result<(), Self>) -> Result<(), StoreError> {
        match walked {
            Ok(()) | Err(Self::Enough) => Ok(()),
            Err(Self::Store(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use store::Store;

    use super::*;

    /// Expected events happen in this time.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Asks for the index of the state after the head block, which has this number. `build` is
    /// called before it is built.
    fn ask(states: &RecentStates, number: u64, build: impl FnOnce()) -> u64 {
        let built = || {
            build();
            let store = Store::in_memory()?;
            PastNodeIndex::new(&*store.snapshot()?, number, number)
        };
        let index = states.index(B256::repeat_byte(1), number, built);
        index.expect("memory").expect("it is built").number()
    }

    #[test]
    fn an_index_that_is_here_does_not_wait_for_one_that_is_being_built() {
        let states = &RecentStates::default();
        assert_eq!(ask(states, 1, || {}), 1);
        let (begun, builds) = channel();
        let (go_on, waits) = channel();
        let (came, comes) = channel();
        let again = begun.clone();
        let found = std::thread::scope(|scope| {
            scope.spawn(move || {
                ask(states, 2, || {
                    begun.send(()).expect("it is counted");
                    waits.recv().expect("the test goes on");
                })
            });
            builds.recv_timeout(LIMIT).expect("the build begins");
            scope.spawn(move || came.send(ask(states, 1, || panic!("it is here"))));
            let found = comes.recv_timeout(LIMIT);
            // A caller that needs the same one waits, and does not build it again.
            scope.spawn(move || ask(states, 2, || again.send(()).expect("it is counted")));
            go_on.send(()).expect("the build waits");
            found
        });
        assert_eq!(found, Ok(1));
        assert_eq!(builds.try_iter().count(), 0, "one build");
    }
}
