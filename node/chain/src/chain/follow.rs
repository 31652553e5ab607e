//! What follows a new head: pool, possible uncles, work, subscribers.
//!
//! Runs in the writer's thread. What the head became is the importer's doing.

use super::{HeadEvent, Inner, next_block, standing};
use crate::import::{BlockId, Imported};
use crate::pool::Reverted;
use crate::rules::UNCLE_GENERATIONS;
use crate::view::View;
use primitives::{Address, Block, Header};
use std::collections::HashSet;
use std::sync::Arc;
use store::{BlockReads, StateReads, StoreError};

/// Most side blocks remembered as possible uncles.
const UNCLE_CANDIDATES_MAX: usize = 16;

/// Possible uncles.
#[derive(Debug, Default)]
pub(super) struct Uncles {
    pub(super) headers: Vec<Header>,
    /// How many have come so far.
    pub(super) come: u64,
}

impl Uncles {
    /// Adds one, once: a block may be taken back more often than that.
    fn remember(&mut self, header: Header) {
        if !self.headers.contains(&header) {
            self.headers.push(header);
            self.come += 1;
            let excess = self.headers.len().saturating_sub(UNCLE_CANDIDATES_MAX);
            self.headers.drain(..excess);
        }
    }
}

/// Whether a side block can be an uncle of the block after `head`.
fn may_be_uncle(number: u64, head: u64) -> bool {
    number.saturating_add(UNCLE_GENERATIONS) > head
}

impl Inner {
    /// Pool, possible uncles, work and subscribers follow an import.
    pub(super) fn follow(&self, block: &Block, imported: &Imported) -> Result<(), StoreError> {
        match imported {
            Imported::Known => {}
            Imported::Side => {
                let head = self.store.snapshot()?.head()?.map_or(0, |(number, _)| number);
                if may_be_uncle(block.header.number, head) {
                    self.uncles.lock().remember(block.header.clone());
                    self.desk.wake();
                }
            }
            Imported::Head { reverted, applied } => {
                if let Some(head) = applied.last() {
                    *self.followed.lock() = *head;
                }
                let followed = self.follow_head(reverted, applied);
                // Whatever failed above, the head has moved.
                self.tell(reverted.clone(), applied.clone());
                followed?;
            }
        }
        Ok(())
    }

    /// Miners and readers learn that the head has moved.
    pub(super) fn tell(&self, reverted: Vec<BlockId>, applied: Vec<BlockId>) {
        self.desk.publish(None);
        self.desk.wake();
        let event = Arc::new(HeadEvent { reverted, applied });
        self.subscribers
            .lock()
            .retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }

    fn follow_head(&self, reverted: &[BlockId], applied: &[BlockId]) -> Result<(), StoreError> {
        let view = View::new(&self.store, self.spec.clone())?;
        let head = view.head_number();
        self.desk.seals().prepare_ahead(&self.spec, head);
        self.pool_follows(&view, reverted, applied)?;
        let mut uncles = self.uncles.lock();
        for id in reverted.iter().filter(|id| may_be_uncle(id.number, head)) {
            if let Some(record) = view.header_by_hash(&id.hash)? {
                uncles.remember(record.header);
            }
        }
        uncles.headers.retain(|uncle| may_be_uncle(uncle.number, head));
        Ok(())
    }

    fn pool_follows(&self, view: &View, reverted: &[BlockId], applied: &[BlockId]) -> Result<(), StoreError> {
        let _admission = self.admission.write();
        let moved = if reverted.is_empty() {
            let mut changed = HashSet::new();
            for id in applied {
                changed.extend(view.snapshot().changes(id.number)?.accounts);
            }
            self.pool.present(changed)
        } else {
            // What a block changed is known while it is canonical.
            self.pool.senders()
        };
        let mut back = Vec::new();
        for id in reverted.iter().rev() {
            let Some(body) = view.snapshot().body(id.number, &id.hash, self.spec.tx_rules())? else {
                continue;
            };
            let sent = body.transactions.into_iter().zip(body.senders);
            for (transaction, sender) in sent.filter(|(transaction, _)| !transaction.is_system()) {
                let standing = standing(view, &sender)?;
                back.push(Reverted {
                    transaction,
                    sender,
                    standing,
                });
            }
        }
        self.pool_stands(view, moved, back)
    }

    /// Tells the pool of the head of `view`, how these accounts stand there, and what comes back.
    /// The caller alone holds the admission.
    pub(super) fn pool_stands(
        &self,
        view: &View,
        moved: Vec<Address>,
        back: Vec<Reverted>,
    ) -> Result<(), StoreError> {
        let next = next_block(&self.spec, &view.head().header, &self.settings.lock());
        let standings: Vec<_> = moved
            .into_iter()
            .map(|address| Ok((address, standing(view, &address)?)))
            .collect::<Result<_, StoreError>>()?;
        self.pool.follow_head(next, standings, back);
        Ok(())
    }
}
