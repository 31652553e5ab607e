//! The tries of recent states: the nodes of the head state, under those that blocks have changed
//! since.

use std::collections::HashMap;

use store::{
    AccountKey, AccountRecord, PastLeaves, PastNode, PastNodeReads, StateChanges, StateLeaf, StateReads,
    StateTrieId, StoreError,
};

use super::{NodeSource, StoredLeaf, nibbles, split_path};

/// For each path of a node that differs from that of the head: the first block above a block that
/// changed it.
#[derive(Clone, Debug)]
pub struct PastNodeIndex {
    /// The block after which the nodes are to be read.
    number: u64,
    blocks: HashMap<Vec<u8>, u64>,
}

impl PastNodeIndex {
    /// The index for the state after the head block, which has this number.
    fn at_head(number: u64) -> Self {
        Self {
            number,
            blocks: HashMap::new(),
        }
    }

    /// The index for the state after block `number`; `None` if past nodes that it needs are not
    /// stored. `head` is the number of the head block of `source`.
    ///
    /// # Errors
    /// [`StoreError`] when a read fails or a row is corrupt.
    pub fn new(source: &impl PastNodeReads, head: u64, number: u64) -> Result<Option<Self>, StoreError> {
        let mut index = Self::at_head(head);
        while index.number > number {
            if !index.step_down(source)? {
                return Ok(None);
            }
        }
        Ok((index.number == number).then_some(index))
    }

    /// Goes on to the state before the block. Returns `false` if the past nodes of the block are
    /// not stored; then the index is as it was.
    ///
    /// # Errors
    /// [`StoreError`] when a read fails or the row is corrupt.
    fn step_down(&mut self, source: &impl PastNodeReads) -> Result<bool, StoreError> {
        let Some(below) = self.number.checked_sub(1) else {
            return Ok(false);
        };
        let (number, blocks) = (self.number, &mut self.blocks);
        let is_stored = source.visit_past_paths(number, &mut |path| match blocks.get_mut(path) {
            Some(block) => *block = number,
            None => {
                blocks.insert(path.to_vec(), number);
            }
        })?;
        if is_stored {
            self.number = below;
        }
        Ok(is_stored)
    }

    /// The number of the block after which the nodes are read.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

/// The nodes and leaves of the tries after the block of an index. `source` must have the head for
/// which the index was made.
#[derive(Debug)]
pub struct PastNodes<'a, S> {
    source: &'a S,
    index: &'a PastNodeIndex,
}

impl<'a, S: StateReads + PastNodeReads> PastNodes<'a, S> {
    /// The nodes that the index says.
    pub const fn new(source: &'a S, index: &'a PastNodeIndex) -> Self {
        Self { source, index }
    }
}

impl<S: StateReads + PastNodeReads> NodeSource for PastNodes<'_, S> {
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.index.blocks.get(path) {
            None => self.source.trie_node(path),
            Some(block) => self.source.past_node(*block, path),
        }
    }

    fn leaf(&self, path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
        let (trie, nibbles) = split_path(path)?;
        let found = self.source.past_trie_leaf(trie, nibbles, self.index.number)?;
        Ok(found.map(|found| StoredLeaf::below(nibbles.len(), found)))
    }
}

/// The difference between the tries of a past state and those of the head, in memory. It is made
/// from the head downwards, block by block. So a read searches in no row of a block, and reading
/// all that a block changed takes time in proportion to it.
#[derive(Debug, Default)]
pub(crate) struct PastTries {
    nodes: HashMap<Vec<u8>, Option<Vec<u8>>>,
    leaves: PastLeaves,
}

impl PastTries {
    /// Goes on to the state before a block: its changes, and the nodes before it.
    pub(crate) fn take_back(&mut self, changes: &StateChanges, nodes: Vec<PastNode>) {
        self.leaves.take_back(changes);
        self.nodes.extend(nodes);
    }

    /// The nodes and leaves of this state. `source` must have the head from which it was made.
    pub(crate) const fn over<'a, S>(&'a self, source: &'a S) -> LoadedTries<'a, S> {
        LoadedTries { source, tries: self }
    }
}

/// The nodes and leaves of a past state: the head's, under what differs from them.
#[derive(Debug)]
pub(crate) struct LoadedTries<'a, S> {
    source: &'a S,
    tries: &'a PastTries,
}

impl<S: StateReads> LoadedTries<'_, S> {
    /// An account of the state; `None` if it did not exist.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    pub(crate) fn account(&self, key: &AccountKey) -> Result<Option<AccountRecord>, StoreError> {
        let path = nibbles(key.0.as_slice());
        let leaves = &self.tries.leaves;
        let found = self
            .source
            .trie_leaf_before(StateTrieId::Accounts, &path, leaves)?;
        Ok(match found {
            Some((_, StateLeaf::Account(account))) => Some(account),
            _ => None,
        })
    }
}

impl<S: StateReads> NodeSource for LoadedTries<'_, S> {
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.tries.nodes.get(path) {
            Some(node) => Ok(node.clone()),
            None => self.source.trie_node(path),
        }
    }

    fn leaf(&self, path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
        let (trie, nibbles) = split_path(path)?;
        let found = self.source.trie_leaf_before(trie, nibbles, &self.tries.leaves)?;
        Ok(found.map(|found| StoredLeaf::below(nibbles.len(), found)))
    }
}
