//! The order in which a producer takes transactions into a block (docs/microchain-design.md, 5).
//!
//! The sender that has used least gas lately comes first. Transactions that turn out to be costly
//! wait until all others are in the block.

use std::collections::{BTreeSet, HashMap};

use chain::application::BLOCK_GAS_FILL;
use primitives::Address;

use super::{SenderClass, WaitingTransaction};

/// A transaction that uses more gas than this is costly: it waits for the others. A block has room
/// for 16 that use as much.
pub(crate) const CHEAP_GAS_MAX: u64 = BLOCK_GAS_FILL / 16;

/// The gas with which a transaction of a sender ranks in a queue, its arrival, and the sender.
type ReadyPlace = (u64, u64, Address);

/// The transactions of one sender.
#[derive(Debug)]
struct ReadySender {
    /// Gas that counts against the sender.
    rank: u64,
    /// The next one last.
    waiting: Vec<WaitingTransaction>,
    /// Whether a message of this member is in the block.
    has_used_lane: bool,
}

/// The transactions that a block is filled from.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    senders: HashMap<Address, ReadySender>,
    /// Messages of members.
    lane: BTreeSet<ReadyPlace>,
    cheap: BTreeSet<ReadyPlace>,
    /// Transactions that are known to be costly. They rank with what they used.
    costly: BTreeSet<ReadyPlace>,
}

impl ReadyQueue {
    /// Adds a sender that has used so much gas, with its transactions, the next one last.
    pub(super) fn add(
        &mut self,
        sender: Address,
        class: SenderClass,
        used: u64,
        waiting: Vec<WaitingTransaction>,
    ) {
        // Anyone can make an account without tokens. So it ranks as one that has used its share.
        let handicap = match class {
            SenderClass::Empty => CHEAP_GAS_MAX,
            SenderClass::Known => 0,
        };
        let ready = ReadySender {
            rank: used.saturating_add(handicap),
            waiting,
            has_used_lane: false,
        };
        self.senders.insert(sender, ready);
        self.enter(sender);
    }

    /// Puts the next transaction of a sender into its queue.
    fn enter(&mut self, sender: Address) {
        let Some(ready) = self.senders.get(&sender) else {
            return;
        };
        let Some(next) = ready.waiting.last() else {
            return;
        };
        if next.in_lane && !ready.has_used_lane && next.tried_gas <= CHEAP_GAS_MAX {
            self.lane.insert((ready.rank, next.sequence, sender));
        } else if next.tried_gas <= CHEAP_GAS_MAX {
            self.cheap.insert((ready.rank, next.sequence, sender));
        } else {
            let rank = ready.rank.saturating_add(next.tried_gas);
            self.costly.insert((rank, next.sequence, sender));
        }
    }

    fn take(&mut self, sender: Address) -> Option<(Address, WaitingTransaction)> {
        let next = self.senders.get_mut(&sender)?.waiting.pop()?;
        Some((sender, next))
    }

    /// The next message of a member. Each member has one in a block.
    pub(crate) fn next_of_members(&mut self) -> Option<(Address, WaitingTransaction)> {
        let (.., sender) = self.lane.pop_first()?;
        self.senders.get_mut(&sender)?.has_used_lane = true;
        self.take(sender)
    }

    /// The messages of members that are left wait with the others.
    pub(crate) fn close_lane(&mut self) {
        self.cheap.append(&mut self.lane);
    }

    /// The next transaction that is not known to be costly.
    pub(crate) fn next_cheap(&mut self) -> Option<(Address, WaitingTransaction)> {
        let (.., sender) = self.cheap.pop_first()?;
        self.take(sender)
    }

    pub(crate) fn has_costly(&self) -> bool {
        !self.costly.is_empty()
    }

    /// The next costly transaction that has used at most `gas`.
    pub(crate) fn next_costly(&mut self, gas: u64) -> Option<(Address, WaitingTransaction)> {
        let fits = |(.., sender): &&ReadyPlace| {
            let next = self.senders.get(sender).and_then(|one| one.waiting.last());
            next.is_some_and(|next| next.tried_gas <= gas)
        };
        let place = *self.costly.iter().find(fits)?;
        self.costly.remove(&place);
        self.take(place.2)
    }

    /// Notes that the transaction of `sender` is in the block, so that the sender's next one can
    /// follow.
    pub(crate) fn included(&mut self, sender: Address, gas: u64) {
        if let Some(ready) = self.senders.get_mut(&sender) {
            ready.rank = ready.rank.saturating_add(gas);
        }
        self.enter(sender);
    }

    /// Puts a transaction that uses so much gas among the costly ones.
    pub(crate) fn put_aside(&mut self, sender: Address, mut one: WaitingTransaction, gas: u64) {
        one.tried_gas = gas;
        if let Some(ready) = self.senders.get_mut(&sender) {
            ready.waiting.push(one);
        }
        self.enter(sender);
    }
}
