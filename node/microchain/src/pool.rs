//! Transactions that wait for a block. Nobody pays gas, so only bounds keep a sender in check
//! (docs/microchain-design.md, 5).
//!
//! Knows senders, nonces and bytes. Whether a transaction is allowed is decided when a block is
//! built.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chain::pool::PoolContent;
use primitives::{Address, B256, Transaction};

/// The most transactions.
pub(crate) const POOL_TRANSACTIONS_MAX: usize = 8192;
/// The most bytes of all transactions.
pub(crate) const POOL_BYTES_MAX: usize = 16 << 20;
/// The most transactions of a sender that can be executed one after another.
pub(crate) const PENDING_PER_SENDER_MAX: u64 = 512;
/// The most transactions of a sender that wait for one with a smaller nonce.
pub(crate) const QUEUED_PER_SENDER_MAX: usize = 64;
/// The most bytes of one transaction.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 256 << 10;

/// The reason why a transaction is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// The transaction is in the pool.
    #[error("the transaction is known")]
    Known,
    /// The nonce is used.
    #[error("nonce too low: got {got}, expected at least {expected}")]
    NonceTooLow {
        /// The nonce.
        got: u64,
        /// The sender's next one.
        expected: u64,
    },
    /// Another transaction of the sender has this nonce.
    #[error("nonce {0} of this sender is taken")]
    NonceTaken(u64),
    /// A bound is reached.
    #[error("{what}: got {got}, expected at most {max}")]
    Full {
        /// The bound.
        what: &'static str,
        /// The amount that there would be.
        got: usize,
        /// The largest that is allowed.
        max: usize,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct WaitingTransaction {
    pub(crate) transaction: Arc<Transaction>,
    pub(crate) hash: B256,
    /// In the order of arrival.
    sequence: u64,
    /// The slot in which it came, or was last sent to others.
    pub(crate) slot: u64,
    pub(crate) bytes: usize,
    /// The slot in which it came.
    arrived: u64,
}

/// The transactions of one sender.
#[derive(Clone, Debug, Default)]
struct SenderQueue {
    /// The sender's next nonce on the head's state.
    next: u64,
    waiting: BTreeMap<u64, WaitingTransaction>,
}

impl SenderQueue {
    /// The first nonce from `next` on that is missing.
    fn gap(&self) -> u64 {
        let mut gap = self.next;
        for nonce in self.waiting.keys() {
            if *nonce != gap {
                break;
            }
            gap += 1;
        }
        gap
    }

    fn queued(&self) -> usize {
        let gap = self.gap();
        self.waiting.range(gap..).count()
    }
}

/// The pool of one MicroChain.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    senders: HashMap<Address, SenderQueue>,
    hashes: HashMap<B256, Address>,
    bytes: usize,
    sequence: u64,
}

impl Pool {
    /// Whether the pool has a transaction.
    pub(crate) fn contains(&self, hash: &B256) -> bool {
        self.hashes.contains_key(hash)
    }

    /// Adds a transaction. `next` is the sender's next nonce on the head's state, `slot` the
    /// present slot.
    pub(crate) fn add(
        &mut self,
        transaction: Transaction,
        sender: Address,
        next: u64,
        slot: u64,
    ) -> Result<(), PoolRefusal> {
        let hash = transaction.hash();
        if self.contains(&hash) {
            return Err(PoolRefusal::Known);
        }
        let nonce = transaction.tx_nonce;
        if nonce < next {
            return Err(PoolRefusal::NonceTooLow {
                got: nonce,
                expected: next,
            });
        }
        let full = |what, got, max| {
            if got <= max {
                Ok(())
            } else {
                Err(PoolRefusal::Full { what, got, max })
            }
        };
        let bytes = transaction.encode().len();
        full("bytes of the transaction", bytes, TRANSACTION_BYTES_MAX)?;
        full("transactions", self.hashes.len() + 1, POOL_TRANSACTIONS_MAX)?;
        full("bytes of all transactions", self.bytes + bytes, POOL_BYTES_MAX)?;
        let empty = SenderQueue::default();
        let queue = self.senders.get(&sender).unwrap_or(&empty);
        if queue.waiting.contains_key(&nonce) {
            return Err(PoolRefusal::NonceTaken(nonce));
        }
        let next = queue.next.max(next);
        let gap = if queue.waiting.is_empty() {
            next
        } else {
            queue.gap()
        };
        if nonce == gap {
            let (pending, max) = (gap - next + 1, PENDING_PER_SENDER_MAX as usize);
            full("pending transactions of the sender", pending as usize, max)?;
        } else {
            let queued = queue.queued() + 1;
            full("queued transactions of the sender", queued, QUEUED_PER_SENDER_MAX)?;
        }
        let queue = self.senders.entry(sender).or_default();
        queue.next = next;
        self.sequence += 1;
        queue.waiting.insert(
            nonce,
            WaitingTransaction {
                transaction: Arc::new(transaction),
                hash,
                sequence: self.sequence,
                slot,
                bytes,
                arrived: slot,
            },
        );
        self.hashes.insert(hash, sender);
        self.bytes += bytes;
        Ok(())
    }

    /// The nonce that the next transaction of `sender` should have: after those that can be
    /// executed. `next` is the one on the head's state.
    pub(crate) fn next_nonce(&self, sender: &Address, next: u64) -> u64 {
        self.senders
            .get(sender)
            .map_or(next, |queue| queue.gap().max(next))
    }

    /// The senders that have transactions.
    pub(crate) fn senders(&self) -> Vec<Address> {
        self.senders.keys().copied().collect()
    }

    /// Follows the head: `next` is the next nonce of `sender` now. Drops transactions whose nonces
    /// are used.
    pub(crate) fn head_moved(&mut self, sender: &Address, next: u64) {
        let Some(queue) = self.senders.get_mut(sender) else {
            return;
        };
        queue.next = next;
        let left = queue.waiting.split_off(&next);
        for (_, gone) in std::mem::replace(&mut queue.waiting, left) {
            self.hashes.remove(&gone.hash);
            self.bytes -= gone.bytes;
        }
        if queue.waiting.is_empty() {
            self.senders.remove(sender);
        }
    }

    /// Drops a transaction that can be in no block.
    pub(crate) fn drop_transaction(&mut self, sender: &Address, nonce: u64) {
        if let Some(queue) = self.senders.get_mut(sender)
            && let Some(gone) = queue.waiting.remove(&nonce)
        {
            self.hashes.remove(&gone.hash);
            self.bytes -= gone.bytes;
            if queue.waiting.is_empty() {
                self.senders.remove(sender);
            }
        }
    }

    /// Drops transactions that came before the slot `before`.
    pub(crate) fn expire(&mut self, before: u64) {
        for sender in self.senders() {
            let waiting = self.senders[&sender].waiting.iter();
            let old = waiting.filter(|(_, one)| one.arrived < before);
            let old: Vec<u64> = old.map(|(nonce, _)| *nonce).collect();
            for nonce in old {
                self.drop_transaction(&sender, nonce);
            }
        }
    }

    /// The transactions that can be executed one after another. A sender's are in the order of
    /// their nonces, senders in the order in which their first ones came.
    pub(crate) fn ready(&self) -> ReadyQueue {
        let mut ready = ReadyQueue::default();
        for (sender, queue) in &self.senders {
            let gap = queue.gap();
            let by_nonce = queue.waiting.range(..gap).map(|(_, one)| one.clone());
            let list: Vec<WaitingTransaction> = by_nonce.rev().collect();
            if let Some(first) = list.last() {
                ready.first.insert(first.sequence, *sender);
                ready.lists.insert(*sender, list);
            }
        }
        ready
    }

    /// Transactions that can be executed and were not sent to others since the slot `before`. They
    /// count as sent in `slot` then. At most `most`, and at most `bytes` bytes.
    pub(crate) fn take_unsent(
        &mut self,
        before: u64,
        slot: u64,
        most: usize,
        bytes: usize,
    ) -> Vec<Arc<Transaction>> {
        let (mut found, mut used) = (Vec::new(), 0);
        for queue in self.senders.values_mut() {
            let gap = queue.gap();
            for (_, one) in queue.waiting.range_mut(..gap) {
                if one.slot >= before {
                    continue;
                }
                if found.len() == most || used + one.bytes > bytes {
                    return found;
                }
                one.slot = slot;
                used += one.bytes;
                found.push(one.transaction.clone());
            }
        }
        found
    }

    /// All transactions, for clients.
    pub(crate) fn content(&self) -> PoolContent {
        let mut content = PoolContent::default();
        for (sender, queue) in &self.senders {
            let gap = queue.gap();
            for (nonce, one) in &queue.waiting {
                let part = if *nonce < gap {
                    &mut content.pending
                } else {
                    &mut content.queued
                };
                part.entry(*sender)
                    .or_default()
                    .insert(*nonce, one.transaction.clone());
            }
        }
        content
    }
}

/// The transactions that a block is filled from.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    /// The arrival of the first transaction of each sender.
    first: BTreeMap<u64, Address>,
    /// The transactions of each sender, the next one last.
    lists: HashMap<Address, Vec<WaitingTransaction>>,
}

impl ReadyQueue {
    pub(crate) fn next(&mut self) -> Option<(Address, WaitingTransaction)> {
        let (_, sender) = self.first.pop_first()?;
        let list = self.lists.get_mut(&sender)?;
        let next = list.pop()?;
        Some((sender, next))
    }

    /// Notes that the transaction of `sender` is in the block, so that the sender's next one can
    /// follow.
    pub(crate) fn included(&mut self, sender: Address) {
        if let Some(next) = self.lists.get(&sender).and_then(|list| list.last()) {
            self.first.insert(next.sequence, sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use primitives::{TxForm, UnsignedTransaction};

    use super::*;

    const ONE: Address = Address::repeat_byte(1);
    const TWO: Address = Address::repeat_byte(2);

    fn transaction(nonce: u64, gas: u64) -> Transaction {
        let unsigned = UnsignedTransaction {
            tx_nonce: nonce,
            gas,
            ..Default::default()
        };
        unsigned.with_form(TxForm::Native, 0)
    }

    fn order(pool: &Pool) -> Vec<(Address, u64)> {
        let (mut ready, mut order) = (pool.ready(), Vec::new());
        while let Some((sender, one)) = ready.next() {
            order.push((sender, one.transaction.tx_nonce));
            ready.included(sender);
        }
        order
    }

    #[test]
    fn senders_take_turns_by_arrival_and_gaps_wait() {
        let mut pool = Pool::default();
        for (nonce, sender) in [(1, ONE), (0, TWO), (0, ONE), (3, ONE), (1, TWO)] {
            pool.add(transaction(nonce, sender[0].into()), sender, 0, 0)
                .unwrap();
        }
        assert_eq!(order(&pool), [(TWO, 0), (ONE, 0), (ONE, 1), (TWO, 1)]);
        let content = pool.content();
        assert_eq!(content.pending[&ONE].len(), 2);
        assert_eq!(content.queued[&ONE].keys().collect::<Vec<_>>(), [&3]);
        assert_eq!((pool.next_nonce(&ONE, 0), pool.next_nonce(&TWO, 0)), (2, 2));
        pool.head_moved(&ONE, 3);
        assert_eq!(order(&pool), [(TWO, 0), (ONE, 3), (TWO, 1)]);
        pool.drop_transaction(&ONE, 3);
        pool.head_moved(&TWO, 2);
        assert_eq!((order(&pool), pool.bytes, pool.hashes.len()), (Vec::new(), 0, 0));
    }

    #[test]
    fn used_known_and_too_many_are_refused() {
        let mut pool = Pool::default();
        pool.add(transaction(5, 0), ONE, 5, 0).unwrap();
        let add = |pool: &mut Pool, nonce, gas| pool.add(transaction(nonce, gas), ONE, 5, 0);
        assert_eq!(add(&mut pool, 5, 0), Err(PoolRefusal::Known));
        assert_eq!(add(&mut pool, 5, 1), Err(PoolRefusal::NonceTaken(5)));
        assert!(matches!(
            add(&mut pool, 4, 0),
            Err(PoolRefusal::NonceTooLow { .. })
        ));
        for nonce in 0..QUEUED_PER_SENDER_MAX as u64 {
            add(&mut pool, 7 + nonce, 0).unwrap();
        }
        assert!(matches!(add(&mut pool, 2000, 0), Err(PoolRefusal::Full { .. })));
        for nonce in 1..PENDING_PER_SENDER_MAX {
            match add(&mut pool, 5 + nonce, 0) {
                Ok(()) | Err(PoolRefusal::Known) => {}
                other => panic!("{nonce}: {other:?}"),
            }
        }
        let next = 5 + PENDING_PER_SENDER_MAX;
        assert!(matches!(add(&mut pool, next, 0), Err(PoolRefusal::Full { .. })));
        let large = UnsignedTransaction {
            input: vec![0; TRANSACTION_BYTES_MAX].into(),
            ..Default::default()
        };
        let large = large.with_form(TxForm::Native, 0);
        assert!(matches!(
            pool.add(large, TWO, 0, 0),
            Err(PoolRefusal::Full { .. })
        ));
        assert_eq!(pool.senders(), [ONE]);
    }

    #[test]
    fn what_waits_is_sent_once_in_a_while() {
        let mut pool = Pool::default();
        for nonce in 0..3 {
            pool.add(transaction(nonce, 0), ONE, 0, 10).unwrap();
        }
        assert_eq!(pool.take_unsent(10, 12, 64, 1 << 20).len(), 0);
        assert_eq!(pool.take_unsent(11, 12, 2, 1 << 20).len(), 2);
        assert_eq!(pool.take_unsent(11, 12, 64, 1 << 20).len(), 1);
        assert_eq!(pool.take_unsent(11, 12, 64, 1 << 20).len(), 0);
        pool.expire(10);
        assert_eq!(pool.hashes.len(), 3);
        pool.expire(11);
        assert_eq!((pool.hashes.len(), pool.bytes), (0, 0));
    }
}
