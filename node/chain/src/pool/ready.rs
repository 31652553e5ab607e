//! Pending transactions in the order a block takes them: dearest first, each account's by nonce.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use primitives::{Address, U256};

use super::PooledTransaction;
use super::entry::Entry;

/// A builder's copy of the pending transactions.
#[derive(Debug, Default)]
pub struct ReadyTransactions {
    accounts: HashMap<Address, VecDeque<Arc<Entry>>>,
    /// Each account's next transaction: price, earlier arrival, sender.
    heads: BinaryHeap<Head>,
}

type Head = (U256, Reverse<u64>, Address);

fn head(entry: &Entry) -> Head {
    (entry.price(), Reverse(entry.pooled.order), entry.pooled.sender)
}

impl ReadyTransactions {
    pub(super) fn new(pending: Vec<(Address, Vec<Arc<Entry>>)>) -> Self {
        let firsts = pending.iter().filter_map(|(_, entries)| entries.first());
        let heads = firsts.map(|first| head(first)).collect();
        let accounts = pending
            .into_iter()
            .map(|(address, entries)| (address, entries.into()))
            .collect();
        Self { accounts, heads }
    }

    /// The transaction to try next.
    pub fn best(&mut self) -> Option<PooledTransaction> {
        let (_, _, sender) = self.heads.peek()?;
        let first = self.accounts.get(sender)?.front()?;
        Some(first.pooled.clone())
    }

    /// `sender`'s transaction is in the block; its next one may follow.
    pub fn taken(&mut self, sender: Address) {
        self.heads.pop();
        if let Some(entries) = self.accounts.get_mut(&sender) {
            entries.pop_front();
            self.heads.extend(entries.front().map(|next| head(next)));
        }
    }

    /// `sender`'s transaction cannot be in this block, so none of its later ones can.
    pub fn refused(&mut self, sender: Address) {
        self.heads.pop();
        self.accounts.remove(&sender);
    }
}
