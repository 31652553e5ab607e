//! Making blocks (docs/microchain-design.md, 1 to 3).

use chain::application::BlockExtra;
use primitives::Address;

use super::{EngineError, MemberEngine};
use crate::block::owner_of_slot;
use crate::contract::{ContractState, ContractStatus};
use crate::message::PeerContent;

/// A producer names members that it has read unchanged over so many base blocks.
const LIST_STABLE_BLOCKS: u64 = 3;

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
        let ready = self.pool.lock().ready();
        let mut invalid = Vec::new();
        let block = self.ledger.build(
            &view,
            &parent,
            &self.key,
            (timestamp, &extra),
            ready,
            |sender, nonce| {
                invalid.push((sender, nonce));
            },
        )?;
        drop(view);
        for (sender, nonce) in invalid {
            self.pool.lock().drop_transaction(&sender, nonce);
        }
        self.send(&PeerContent::Block(Box::new(block.clone())), None);
        self.store_block(&block)?;
        Ok(())
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
