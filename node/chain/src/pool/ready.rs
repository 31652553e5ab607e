//! Pending transactions in the order a block takes them: dearest first, each account's by nonce.

use super::PooledTransaction;
use primitives::{Address, U256};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// A builder's copy of the pending transactions.
#[derive(Debug, Default)]
pub struct ReadyTransactions {
    accounts: HashMap<Address, VecDeque<PooledTransaction>>,
    /// Each account's next transaction: price, earlier arrival, sender.
    heads: BinaryHeap<(U256, Reverse<u64>, Address)>,
}

impl ReadyTransactions {
    pub(super) fn new(pending: impl IntoIterator<Item = (Address, VecDeque<PooledTransaction>)>) -> Self {
        let mut ready = Self::default();
        for (address, transactions) in pending {
            if !transactions.is_empty() {
                ready.accounts.insert(address, transactions);
                ready.push_head(address);
            }
        }
        ready
    }

    fn push_head(&mut self, sender: Address) {
        if let Some(next) = self.accounts.get(&sender).and_then(VecDeque::front) {
            self.heads
                .push((next.transaction.gas_price, Reverse(next.order), sender));
        }
    }

    /// The transaction to try next.
    pub fn best(&mut self) -> Option<PooledTransaction> {
        let (_, _, sender) = self.heads.peek()?;
        self.accounts.get(sender)?.front().cloned()
    }

    /// `sender`'s transaction is in the block; its next one may follow.
    pub fn taken(&mut self, sender: Address) {
        self.heads.pop();
        if let Some(transactions) = self.accounts.get_mut(&sender) {
            transactions.pop_front();
        }
        self.push_head(sender);
    }

    /// `sender`'s transaction cannot be in this block, so none of its later ones can.
    pub fn refused(&mut self, sender: Address) {
        self.heads.pop();
        self.accounts.remove(&sender);
    }
}
