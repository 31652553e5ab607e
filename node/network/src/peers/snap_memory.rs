//! States in memory, and the chain of the last of them, for tests.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use chain::trie::{NoNodes, Trie, account_value, slot_value};
use primitives::{B256, Bytes, EMPTY_ROOT, U256, keccak256};
use store::{AccountRecord, StoreError};

use super::snap_serve::{SnapSource, SnapState};

/// The states of so many blocks are served.
const WINDOW: usize = 128;

/// An account without code and storage.
pub(crate) fn account(nonce: u64) -> AccountRecord {
    AccountRecord {
        tx_nonce: nonce,
        balance: U256::from(nonce) * U256::from(1_000_000),
        ..AccountRecord::default()
    }
}

/// Rows of a state, by hashes. Storage roots follow when its tries are built.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryState {
    pub(crate) accounts: BTreeMap<B256, AccountRecord>,
    pub(crate) slots: BTreeMap<(B256, B256), U256>,
    pub(crate) codes: HashMap<B256, Bytes>,
    touched: u64,
}

/// The nodes of tries: of the state's, and of each account's.
pub(crate) type Nodes = HashMap<(Option<B256>, Vec<u8>), Vec<u8>>;

impl MemoryState {
    pub(crate) fn put_account(&mut self, hash: B256, account: AccountRecord) {
        self.accounts.insert(hash, account);
    }

    pub(crate) fn put_slot(&mut self, account: B256, slot: B256, value: U256) {
        self.slots.insert((account, slot), value);
    }

    pub(crate) fn put_code(&mut self, code: &[u8]) -> B256 {
        let hash = keccak256(code);
        self.codes.insert(hash, Bytes::copy_from_slice(code));
        hash
    }

    /// Changes one account.
    pub(crate) fn touch(&mut self) {
        self.touched += 1;
        let hash = keccak256(self.touched.to_be_bytes());
        self.put_account(hash, account(self.touched));
    }

    pub(crate) fn slots_of(&self, hash: &B256) -> impl Iterator<Item = (B256, U256)> + '_ {
        let range = (
            Bound::Included((*hash, B256::ZERO)),
            Bound::Included((*hash, B256::repeat_byte(0xff))),
        );
        self.slots.range(range).map(|((_, slot), value)| (*slot, *value))
    }

    /// Sets the storage roots, and returns the root and all nodes.
    pub(crate) fn build(&mut self) -> (B256, Nodes) {
        let mut nodes = Nodes::new();
        let mut put = |owner: Option<B256>, mut trie: Trie| {
            let (root, all) = trie.nodes();
            nodes.extend(all.into_iter().map(|(path, rlp)| ((owner, path), rlp)));
            root
        };
        let mut tries: BTreeMap<B256, Trie> = BTreeMap::new();
        for ((owner, slot), value) in &self.slots {
            let trie = tries.entry(*owner).or_insert_with(Trie::in_memory);
            trie.insert(&NoNodes, slot.as_slice(), &slot_value(value))
                .expect("in memory");
        }
        let roots: BTreeMap<B256, B256> = tries
            .into_iter()
            .map(|(owner, trie)| (owner, put(Some(owner), trie)))
            .collect();
        let mut state = Trie::in_memory();
        for (hash, account) in &mut self.accounts {
            account.storage_root = roots.get(hash).copied().unwrap_or(EMPTY_ROOT);
            state
                .insert(&NoNodes, hash.as_slice(), &account_value(account))
                .expect("in memory");
        }
        let root = put(None, state);
        (root, nodes)
    }
}

struct BuiltState {
    state: MemoryState,
    nodes: Nodes,
}

/// A chain of states, the newest last.
pub(crate) struct MemoryChain {
    states: Vec<(B256, BuiltState)>,
    has_genesis: bool,
    /// The states of so many blocks are served.
    pub(crate) window: usize,
}

impl MemoryChain {
    pub(crate) fn of(mut state: MemoryState) -> Self {
        let (root, nodes) = state.build();
        Self {
            states: vec![(root, BuiltState { state, nodes })],
            has_genesis: false,
            window: WINDOW,
        }
    }

    /// Says that the first state is that of block 0.
    pub(crate) fn make_genesis(&mut self) {
        self.has_genesis = true;
    }

    pub(crate) fn next_block(&mut self, change: impl FnOnce(&mut MemoryState)) {
        let (_, head) = self.states.last().expect("there is one");
        let mut state = head.state.clone();
        change(&mut state);
        let (root, nodes) = state.build();
        self.states.push((root, BuiltState { state, nodes }));
        // Keep nothing that is never served again.
        let old = self.states.len().saturating_sub(self.window + 2);
        for (_, state) in &mut self.states[..old] {
            *state = BuiltState {
                state: MemoryState::default(),
                nodes: Nodes::new(),
            };
        }
    }

    pub(crate) fn roots(&self) -> Vec<B256> {
        self.states.iter().map(|(root, _)| *root).collect()
    }

    pub(crate) fn head_root(&self) -> B256 {
        self.states.last().expect("there is one").0
    }

    pub(crate) fn head_state(&self) -> &MemoryState {
        &self.states.last().expect("there is one").1.state
    }
}

impl SnapSource for MemoryChain {
    fn state(&self, root: &B256) -> Result<Option<Box<dyn SnapState + '_>>, StoreError> {
        let first = usize::from(self.has_genesis).max(self.states.len().saturating_sub(self.window));
        let found = self.states[first..].iter().rev().find(|(other, _)| other == root);
        Ok(found.map(|(_, state)| Box::new(state) as Box<dyn SnapState + '_>))
    }

    fn code(&self, hash: &B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.head_state().codes.get(hash).cloned())
    }
}

impl SnapState for &BuiltState {
    fn account(&self, hash: &B256) -> Result<Option<AccountRecord>, StoreError> {
        Ok(self.state.accounts.get(hash).copied())
    }

    fn accounts(
        &self,
        from: &B256,
        visit: &mut dyn FnMut(B256, AccountRecord) -> bool,
    ) -> Result<(), StoreError> {
        for (hash, account) in self.state.accounts.range(*from..) {
            if !visit(*hash, *account) {
                break;
            }
        }
        Ok(())
    }

    fn slots(
        &self,
        account: &B256,
        from: &B256,
        visit: &mut dyn FnMut(B256, U256) -> bool,
    ) -> Result<(), StoreError> {
        for (slot, value) in self.state.slots_of(account).filter(|(slot, _)| slot >= from) {
            if !visit(slot, value) {
                break;
            }
        }
        Ok(())
    }

    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.nodes.get(&(account.copied(), path.to_vec())).cloned())
    }
}
