//! Transactions that wait for a block. Nobody pays gas, so only bounds keep a sender in check
//! (docs/microchain-design.md, 5).
//!
//! Knows senders, nonces, bytes and the gas that senders have used. Whether a transaction is
//! allowed is decided when a block is built.

mod ready;
#[cfg(test)]
mod tests;
mod used_gas;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chain::pool::{PendingFeed, PendingHashes, PoolContent};
use primitives::{Address, B256, Transaction};

pub(crate) use ready::{CHEAP_GAS_MAX, ReadyQueue};
use used_gas::GasLedger;

/// The most transactions, without those in the lane of members.
pub(crate) const POOL_TRANSACTIONS_MAX: usize = 8192;
/// The most bytes of these transactions.
pub(crate) const POOL_BYTES_MAX: usize = 16 << 20;
/// The part of places and bytes that accounts without tokens may have together: one half.
const EMPTY_PART: usize = 2;
/// The most transactions of a sender that can be executed one after another.
pub(crate) const PENDING_PER_SENDER_MAX: usize = 512;
/// The same for an account without tokens.
pub(crate) const PENDING_PER_EMPTY_MAX: usize = 64;
/// The most transactions of a sender that wait for one with a smaller nonce.
const QUEUED_PER_SENDER_MAX: usize = 64;
/// The same for an account without tokens.
const QUEUED_PER_EMPTY_MAX: usize = 16;
/// The most bytes of one transaction.
const TRANSACTION_BYTES_MAX: usize = 256 << 10;
/// The most messages of one member in the lane. A member sends one after the other.
const LANE_PER_MEMBER_MAX: usize = 4;
/// The most messages in the lane.
const LANE_MAX: usize = 400;
/// The most bytes of a message in the lane. One for 250 deposits has 24,500.
const LANE_BYTES_MAX: usize = 32 << 10;
/// Transactions are dropped after so many slots.
const SLOTS_MAX: u64 = 2000;
/// Transactions of accounts without tokens are dropped after so many slots.
const EMPTY_SLOTS_MAX: u64 = 256;
/// A transaction that was too slow for so many blocks of this SCS is dropped.
const SLOW_ATTEMPTS_MAX: u8 = 3;
/// Bytes that a place counts, when senders are compared: an even share.
const PLACE_BYTES: usize = POOL_BYTES_MAX / POOL_TRANSACTIONS_MAX;

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

/// The kind of an account, which decides how much it may have in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SenderClass {
    /// An account without tokens. Anyone can make any number of them.
    #[default]
    Empty,
    /// An account with tokens, the owner of the MicroChain, or a member.
    Known,
}

/// A transaction for the pool, with what is known of its sender.
#[derive(Debug)]
pub(crate) struct IncomingTransaction {
    pub(crate) transaction: Transaction,
    pub(crate) sender: Address,
    pub(crate) class: SenderClass,
    /// The sender's next nonce on the head's state.
    pub(crate) next: u64,
    /// Whether it is a message of a member to DappBase, which has a lane of its own.
    pub(crate) is_message: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct WaitingTransaction {
    pub(crate) transaction: Arc<Transaction>,
    hash: B256,
    /// In the order of arrival.
    sequence: u64,
    /// The slot in which it came, or was last sent to others.
    slot: u64,
    pub(crate) bytes: usize,
    /// The slot in which it came.
    arrived: u64,
    /// Whether it is in the lane of members.
    in_lane: bool,
    /// The gas that it used when this SCS tried it and left it out of a block; 0 if it did not.
    tried_gas: u64,
    /// The blocks of this SCS for which it was too slow.
    slow_attempts: u8,
    /// Whether it is in the feed of pending transactions.
    is_announced: bool,
}

/// Transactions, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PoolShare {
    places: usize,
    bytes: usize,
}

impl PoolShare {
    /// One number for both, to compare senders.
    const fn weight(self) -> usize {
        self.places * PLACE_BYTES + self.bytes
    }

    const fn add(&mut self, other: Self) {
        self.places += other.places;
        self.bytes += other.bytes;
    }

    const fn take(&mut self, other: Self) {
        self.places -= other.places;
        self.bytes -= other.bytes;
    }
}

/// The transactions of one sender.
#[derive(Clone, Debug, Default)]
struct SenderQueue {
    class: SenderClass,
    /// The sender's next nonce on the head's state.
    next: u64,
    waiting: BTreeMap<u64, WaitingTransaction>,
    /// The part of the pool that the sender has, without the lane.
    share: PoolShare,
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

    fn in_lane(&self) -> usize {
        self.waiting.values().filter(|one| one.in_lane).count()
    }
}

/// The pool of one MicroChain.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    senders: HashMap<Address, SenderQueue>,
    hashes: HashMap<B256, Address>,
    /// The part of all senders, without the lane.
    all: PoolShare,
    /// The part of accounts without tokens.
    empty: PoolShare,
    in_lane: usize,
    sequence: u64,
    gas: GasLedger,
    feed: PendingFeed,
}

/// An error if `got` is above `max`.
const fn within(what: &'static str, got: usize, max: usize) -> Result<(), PoolRefusal> {
    if got <= max {
        Ok(())
    } else {
        Err(PoolRefusal::Full { what, got, max })
    }
}

impl Pool {
    /// Whether the pool has a transaction.
    pub(crate) fn contains(&self, hash: &B256) -> bool {
        self.hashes.contains_key(hash)
    }

    /// Adds a transaction in the present slot. If the pool is full, the sender with most of it
    /// loses its last transaction.
    pub(crate) fn add(&mut self, incoming: IncomingTransaction, slot: u64) -> Result<(), PoolRefusal> {
        let IncomingTransaction {
            transaction,
            sender,
            class,
            next,
            is_message,
        } = incoming;
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
        let bytes = transaction.encode().len();
        within("bytes of the transaction", bytes, TRANSACTION_BYTES_MAX)?;
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
        let (pending_max, queued_max) = match class {
            SenderClass::Empty => (PENDING_PER_EMPTY_MAX, QUEUED_PER_EMPTY_MAX),
            SenderClass::Known => (PENDING_PER_SENDER_MAX, QUEUED_PER_SENDER_MAX),
        };
        if nonce == gap {
            let pending = (gap - next + 1) as usize;
            within("pending transactions of the sender", pending, pending_max)?;
        } else {
            let queued = queue.waiting.range(gap..).count() + 1;
            within("queued transactions of the sender", queued, queued_max)?;
        }
        let in_lane = is_message
            && bytes <= LANE_BYTES_MAX
            && self.in_lane < LANE_MAX
            && queue.in_lane() < LANE_PER_MEMBER_MAX;
        if !in_lane {
            self.make_room(&sender, class, bytes, slot)?;
        }
        self.set_head(&sender, next, class);
        self.sequence += 1;
        let one = WaitingTransaction {
            transaction: Arc::new(transaction),
            hash,
            sequence: self.sequence,
            slot,
            bytes,
            arrived: slot,
            in_lane,
            tried_gas: 0,
            slow_attempts: 0,
            is_announced: false,
        };
        self.hashes.insert(hash, sender);
        self.count(&sender, &one, PoolShare::add, |lane| lane + 1);
        let queue = self.senders.entry(sender).or_default();
        queue.waiting.insert(nonce, one);
        self.announce(&sender);
        Ok(())
    }

    /// Adds the transactions of `sender` to the feed that can be executed now and are not in it.
    fn announce(&mut self, sender: &Address) {
        let Some(queue) = self.senders.get_mut(sender) else {
            return;
        };
        for (_, one) in queue.waiting.range_mut(..queue.gap()) {
            if !one.is_announced {
                one.is_announced = true;
                self.feed.push(one.hash);
            }
        }
    }

    /// The cursor of the next transaction that can be executed.
    pub(crate) const fn pending_cursor(&self) -> u64 {
        self.feed.cursor()
    }

    /// Hashes of the transactions that could be executed first since `cursor`, at most `max`.
    pub(crate) fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        self.feed.since(cursor, max)
    }

    /// A transaction that waits, and its sender.
    pub(crate) fn get(&self, hash: &B256) -> Option<(Arc<Transaction>, Address)> {
        let sender = self.hashes.get(hash)?;
        let mut waiting = self.senders.get(sender)?.waiting.values();
        let one = waiting.find(|one| one.hash == *hash)?;
        Some((one.transaction.clone(), *sender))
    }

    /// Counts a transaction that comes, or one that goes.
    fn count(
        &mut self,
        sender: &Address,
        one: &WaitingTransaction,
        change: fn(&mut PoolShare, PoolShare),
        lane: fn(usize) -> usize,
    ) {
        if one.in_lane {
            self.in_lane = lane(self.in_lane);
            return;
        }
        let share = PoolShare {
            places: 1,
            bytes: one.bytes,
        };
        change(&mut self.all, share);
        if let Some(queue) = self.senders.get_mut(sender) {
            change(&mut queue.share, share);
            if queue.class == SenderClass::Empty {
                change(&mut self.empty, share);
            }
        }
    }

    /// Notes the next nonce and the class of a sender, and makes a queue for it if it has none.
    fn set_head(&mut self, sender: &Address, next: u64, class: SenderClass) {
        let queue = self.senders.entry(*sender).or_default();
        queue.next = next;
        if queue.class != class {
            queue.class = class;
            match class {
                SenderClass::Empty => self.empty.add(queue.share),
                SenderClass::Known => self.empty.take(queue.share),
            }
        }
    }

    /// Makes room for a transaction of `sender`: the senders with most lose their last ones, as
    /// long as they have more than this one would have.
    fn make_room(
        &mut self,
        sender: &Address,
        class: SenderClass,
        bytes: usize,
        slot: u64,
    ) -> Result<(), PoolRefusal> {
        let mut own = self
            .senders
            .get(sender)
            .map_or_else(PoolShare::default, |queue| queue.share);
        own.add(PoolShare { places: 1, bytes });
        let own = (own.weight(), self.gas.used(sender, slot));
        loop {
            let (empty_only, refusal) = match self.check_room(class, bytes) {
                Ok(()) => return Ok(()),
                Err(full) => full,
            };
            let others = self.senders.iter().filter(|(other, queue)| {
                let counts = !empty_only || queue.class == SenderClass::Empty;
                counts && *other != sender && queue.share.places > 0
            });
            let ranked =
                others.map(|(other, queue)| ((queue.share.weight(), self.gas.used(other, slot)), *other));
            let Some((_, most)) = ranked.max().filter(|(rank, _)| *rank > own) else {
                return Err(refusal);
            };
            let last = self.senders.get(&most).and_then(|queue| {
                let mut ordinary = queue.waiting.iter().rev().filter(|(_, one)| !one.in_lane);
                ordinary.next().map(|(nonce, _)| *nonce)
            });
            let Some(last) = last else {
                return Err(refusal);
            };
            self.drop_transaction(&most, last);
        }
    }

    /// Whether there is room for a transaction. An error says whether only the part of accounts
    /// without tokens is full.
    const fn check_room(&self, class: SenderClass, bytes: usize) -> Result<(), (bool, PoolRefusal)> {
        if matches!(class, SenderClass::Empty) {
            let (places, len) = (self.empty.places + 1, self.empty.bytes + bytes);
            let what = "transactions of accounts without tokens";
            if let Err(refusal) = within(what, places, POOL_TRANSACTIONS_MAX / EMPTY_PART) {
                return Err((true, refusal));
            }
            let what = "bytes of transactions of accounts without tokens";
            if let Err(refusal) = within(what, len, POOL_BYTES_MAX / EMPTY_PART) {
                return Err((true, refusal));
            }
        }
        let (places, len) = (self.all.places + 1, self.all.bytes + bytes);
        if let Err(refusal) = within("transactions", places, POOL_TRANSACTIONS_MAX) {
            return Err((false, refusal));
        }
        match within("bytes of all transactions", len, POOL_BYTES_MAX) {
            Ok(()) => Ok(()),
            Err(refusal) => Err((false, refusal)),
        }
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

    /// Follows the head: the next nonce of `sender` now, and its class. Drops transactions whose
    /// nonces are used.
    pub(crate) fn head_moved(&mut self, sender: &Address, next: u64, class: SenderClass) {
        let Some(queue) = self.senders.get(sender) else {
            return;
        };
        let used: Vec<u64> = queue.waiting.range(..next).map(|(nonce, _)| *nonce).collect();
        self.set_head(sender, next, class);
        for nonce in used {
            self.drop_transaction(sender, nonce);
        }
        self.announce(sender);
    }

    /// Notes that a transaction of `sender` is in a block, and used so much gas.
    pub(crate) fn charge(&mut self, sender: Address, gas: u64, slot: u64) {
        self.gas.charge(sender, gas, slot);
    }

    /// Drops a transaction that can be in no block.
    pub(crate) fn drop_transaction(&mut self, sender: &Address, nonce: u64) {
        let Some(queue) = self.senders.get_mut(sender) else {
            return;
        };
        if let Some(gone) = queue.waiting.remove(&nonce) {
            let is_last = queue.waiting.is_empty();
            self.hashes.remove(&gone.hash);
            self.count(sender, &gone, PoolShare::take, |lane| lane - 1);
            if is_last {
                self.senders.remove(sender);
            }
        }
    }

    /// Notes the gas that a transaction used when this SCS tried it and left it out of a block.
    pub(crate) fn note_costly(&mut self, sender: &Address, nonce: u64, gas: u64) {
        let queue = self.senders.get_mut(sender);
        if let Some(one) = queue.and_then(|queue| queue.waiting.get_mut(&nonce)) {
            one.tried_gas = gas;
        }
    }

    /// Notes that a transaction took too long for a block. Returns whether it is dropped now, which
    /// only happens if it may be.
    pub(crate) fn note_slow(&mut self, sender: &Address, nonce: u64, may_drop: bool) -> bool {
        let queue = self.senders.get_mut(sender);
        let Some(one) = queue.and_then(|queue| queue.waiting.get_mut(&nonce)) else {
            return false;
        };
        one.slow_attempts = one.slow_attempts.saturating_add(1);
        one.tried_gas = u64::MAX;
        let is_dropped = may_drop && one.slow_attempts >= SLOW_ATTEMPTS_MAX;
        if is_dropped {
            self.drop_transaction(sender, nonce);
        }
        is_dropped
    }

    /// Drops transactions that have waited too long for the present slot.
    pub(crate) fn expire(&mut self, slot: u64) {
        for sender in self.senders() {
            let Some(queue) = self.senders.get(&sender) else {
                continue;
            };
            let slots = match queue.class {
                SenderClass::Empty => EMPTY_SLOTS_MAX,
                SenderClass::Known => SLOTS_MAX,
            };
            let old = queue
                .waiting
                .iter()
                .filter(|(_, one)| one.arrived.saturating_add(slots) < slot);
            let old: Vec<u64> = old.map(|(nonce, _)| *nonce).collect();
            for nonce in old {
                self.drop_transaction(&sender, nonce);
            }
        }
    }

    /// The transactions that can be executed one after another, in the order of the present slot.
    pub(crate) fn ready(&self, slot: u64) -> ReadyQueue {
        let mut ready = ReadyQueue::default();
        for (sender, queue) in &self.senders {
            let gap = queue.gap();
            let by_nonce = queue.waiting.range(..gap).map(|(_, one)| one.clone());
            let list: Vec<WaitingTransaction> = by_nonce.rev().collect();
            ready.add(*sender, queue.class, self.gas.used(sender, slot), list);
        }
        ready
    }

    /// Transactions that can be executed and were not sent to others since the slot `before`: first
    /// one of each sender, those of members first, then of who has used least gas. They count as
    /// sent in `slot` then. At most `most`, and at most `bytes` bytes.
    pub(crate) fn take_unsent(
        &mut self,
        before: u64,
        slot: u64,
        most: usize,
        bytes: usize,
    ) -> Vec<Arc<Transaction>> {
        let mut unsent = Vec::new();
        for (sender, queue) in &self.senders {
            let used = self.gas.used(sender, slot);
            let ready = queue.waiting.range(..queue.gap());
            let old = ready.filter(|(_, one)| one.slot < before);
            unsent.extend(
                old.enumerate()
                    .map(|(turn, (nonce, one))| (turn, !one.in_lane, used, one.sequence, *sender, *nonce)),
            );
        }
        unsent.sort_unstable();
        let (mut found, mut left) = (Vec::new(), bytes);
        for (.., sender, nonce) in unsent {
            let queue = self.senders.get_mut(&sender);
            let Some(one) = queue.and_then(|queue| queue.waiting.get_mut(&nonce)) else {
                continue;
            };
            if found.len() == most || one.bytes > left {
                break;
            }
            one.slot = slot;
            left -= one.bytes;
            found.push(one.transaction.clone());
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
