//! Making blocks (docs/microchain-design.md, 1 to 3).

use std::time::Duration;

use chain::application::BlockExtra;
use primitives::Address;

use super::{EngineError, MemberEngine};
use crate::block::owner_of_slot;
use crate::contract::{ContractState, ContractStatus};
use crate::fill::{FillTime, LeftOut};
use crate::message::PeerContent;

/// A producer names members that it has read unchanged over so many base blocks.
const LIST_STABLE_BLOCKS: u64 = 3;
/// No transaction is begun after half of a slot.
const FILL_PART: u32 = 2;
/// A transaction may take a quarter of a slot. So a block is on its way after three quarters.
const TRANSACTION_PART: u32 = 4;
/// A transaction may always take this long: on a busy machine even a short one does.
const TRANSACTION_TIME_MIN: Duration = Duration::from_millis(500);

/// The time for the transactions of a block, if a slot has so many seconds.
pub(super) fn fill_time(period_secs: u64) -> FillTime {
    let period = Duration::from_secs(period_secs);
    FillTime {
        all: period / FILL_PART,
        each: (period / TRANSACTION_PART).max(TRANSACTION_TIME_MIN),
    }
}

impl MemberEngine {
    /// Makes a block, if this is a slot of this SCS and nothing stands against it.
    pub(super) fn produce(&mut self) -> Result<(), EngineError> {
        let slot = self.slot();
        let into_slot = self.now_ms - 1000 * slot * self.setup.period_secs;
        // A block late in its slot would only compete with the next one.
        let is_late = into_slot > 750 * self.setup.period_secs;
        if slot <= self.memory.signed_slot || is_late {
            return Ok(());
        }
        let Some(contract) = self.started() else {
            return Ok(());
        };
        if contract.status == ContractStatus::Closed || !contract.members.contains(&self.id) {
            return Ok(());
        }
        let view = self.ledger.view()?;
        let Some(parent) = self.ledger.parent(&view, &view.head_hash())? else {
            return Ok(());
        };
        let list = self.list_to_name(contract, &parent.members);
        let members = if list.is_empty() { &parent.members } else { &list };
        let is_mine = owner_of_slot(members, slot) == Some(self.id);
        let timestamp = slot * self.setup.period_secs;
        if !is_mine || timestamp <= parent.timestamp || self.lacks_flush(&view) {
            return Ok(());
        }
        let extra = BlockExtra {
            base: contract.base_block.max(parent.extra.base),
            since: if list.is_empty() {
                parent.extra.since
            } else {
                parent.number + 1
            },
            list,
        };
        if !self.is_caught_up(slot, parent.number) {
            return Ok(());
        }
        // First on the disk, so that no crash lets this SCS sign another block of the slot.
        self.remember(|memory| {
            memory.signed_slot = slot;
            true
        })?;
        let ready = self.pool.lock().ready(slot);
        let (at, time) = ((timestamp, &extra), self.fill_time);
        let (block, left_out) = self.ledger.build(&view, &parent, &self.key, at, ready, time)?;
        drop(view);
        self.note_left_out(left_out);
        self.send(&PeerContent::Block(Box::new(block.clone())), None);
        self.store_block(&block)?;
        Ok(())
    }

    /// Tells the pool which transactions cannot be in a block, or only if nothing else waits.
    fn note_left_out(&self, left_out: LeftOut) {
        let mut pool = self.pool.lock();
        for (sender, nonce) in left_out.invalid {
            pool.drop_transaction(&sender, nonce);
        }
        for ((sender, nonce), gas) in left_out.costly {
            pool.note_costly(&sender, nonce, gas);
        }
        for (sender, nonce) in left_out.slow {
            // Nothing begins without the owner, so only its own machine decides what is too slow.
            let is_owner = sender == self.setup.owner;
            if pool.note_slow(&sender, nonce, !is_owner) {
                let chain = self.setup.address;
                tracing::warn!(%chain, %sender, nonce, "a transaction takes too long for a block and is dropped");
            }
        }
    }

    /// The list that the next block should carry: that of the chain base, if the chain does not
    /// have it yet. Block 1 always carries it.
    fn list_to_name(&self, contract: &ContractState, in_force: &[Address]) -> Vec<Address> {
        let stable = self.memory.lists.back().is_some_and(|list| {
            list.members == contract.members
                && contract.base_block.saturating_sub(list.base) >= LIST_STABLE_BLOCKS
        });
        if in_force.is_empty() || (stable && *in_force != contract.members[..]) {
            contract.members.clone()
        } else {
            Vec::new()
        }
    }
}
