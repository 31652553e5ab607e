//! Pending transactions in the order in which a block builder tries them: highest gas price first,
//! those of each account by nonce.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use primitives::{Address, U256};

use super::PooledTransaction;
use super::entry::PoolEntry;

/// A copy of the pending transactions, for one block builder.
#[derive(Debug, Default)]
pub struct ReadyTransactions {
    accounts: HashMap<Address, VecDeque<Arc<PoolEntry>>>,
    /// The next transaction of each account.
    next: BinaryHeap<NextTransaction>,
}

/// Gas price, arrival (earlier is greater) and sender of an account's next transaction.
type NextTransaction = (U256, Reverse<u64>, Address);

fn next_transaction(entry: &PoolEntry) -> NextTransaction {
    (entry.price(), Reverse(entry.pooled.order), entry.pooled.sender)
}

impl ReadyTransactions {
    pub(super) fn new(pending: Vec<(Address, Vec<Arc<PoolEntry>>)>) -> Self {
        let firsts = pending.iter().filter_map(|(_, entries)| entries.first());
        let next = firsts.map(|first| next_transaction(first)).collect();
        let accounts = pending
            .into_iter()
            .map(|(address, entries)| (address, entries.into()))
            .collect();
        Self { accounts, next }
    }

    /// The transaction to try next; `None` if there are no more.
    pub fn best(&mut self) -> Option<PooledTransaction> {
        let (_, _, sender) = self.next.peek()?;
        let first = self.accounts.get(sender)?.front()?;
        Some(first.pooled.clone())
    }

    /// Notes that the best transaction, which `sender` sent, is in the block. The sender's next
    /// transaction may follow.
    pub fn mark_included(&mut self, sender: Address) {
        self.next.pop();
        if let Some(entries) = self.accounts.get_mut(&sender) {
            entries.pop_front();
            self.next
                .extend(entries.front().map(|next| next_transaction(next)));
        }
    }

    /// Notes that the best transaction, which `sender` sent, cannot be in the block. Then none of
    /// the sender's later transactions can be, so they are left out too.
    pub(crate) fn skip_sender(&mut self, sender: Address) {
        self.next.pop();
        self.accounts.remove(&sender);
    }
}
