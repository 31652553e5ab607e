//! Letting the pool, the uncle candidates, the work and the subscribers follow a new head.
//!
//! This code runs in the writer's thread. The importer says how the head has moved. If that is
//! not known, because a commit reported an error or the store could not be read, the state of
//! things is *in doubt*: then the path from the head that was followed last is read from the store,
//! before the next block is imported, or after a pause if none comes.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use primitives::{Block, Header};
use store::{BlockReads, FetchedStateReads, StateReads, StoreError};

use super::{ChainInner, HeadEvent, next_block, sender_state};
use crate::import::{BlockId, Imported};
use crate::path::ChainPath;
use crate::pool::RevertedTransaction;
use crate::rules::UNCLE_GENERATIONS;
use crate::view::View;

/// The most side blocks that are remembered as uncle candidates.
const UNCLE_CANDIDATES_MAX: usize = 16;

/// After the block with which so many transactions have returned to the pool, a reorganization
/// returns no more. The pool has space for fewer.
const RETURNING_MAX: usize = 65_536;

/// If more blocks than this are applied at once, all senders of the pool are looked at, instead of
/// what these blocks have changed.
const CHANGED_BLOCKS_MAX: usize = 32;

/// Side blocks that may become uncles of the next block.
#[derive(Debug, Default)]
pub(super) struct UncleCandidates {
    /// Oldest first.
    pub(super) headers: Vec<Header>,
    /// The number of candidates that have come so far, those included that were dropped.
    pub(super) come: u64,
}

impl UncleCandidates {
    /// Adds a candidate unless it is known. A block can be reverted more than once.
    fn remember(&mut self, header: Header) {
        if !self.headers.contains(&header) {
            self.headers.push(header);
            self.come += 1;
            let excess = self.headers.len().saturating_sub(UNCLE_CANDIDATES_MAX);
            self.headers.drain(..excess);
        }
    }
}

/// Whether the side block `number` can be an uncle of the block after `head`.
const fn may_be_uncle(number: u64, head: u64) -> bool {
    number.saturating_add(UNCLE_GENERATIONS) > head.saturating_add(1)
}

/// The event that makes it unknown how the store has changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doubt<'a> {
    /// The block with this header may be stored, as the head or not.
    Block(&'a Header),
    /// The head may be set back to the block with this number.
    SetBackTo(u64),
    /// The head has moved, or will move without a report.
    Head,
}

/// Whether the block with this header is stored and is not canonical.
fn is_side_block(view: &View, header: &Header) -> Result<bool, StoreError> {
    let hash = header.hash();
    let is_stored = view.header_by_hash(&hash)?.is_some();
    Ok(is_stored && view.canonical_hash(header.number)? != Some(hash))
}

/// Which heads were followed.
#[derive(Clone, Debug)]
pub(super) struct FollowState {
    /// The head that the pool has followed.
    pool_head: BlockId,
    /// The head that subscribers were told of.
    notified_head: BlockId,
    /// Whether one of the two may not be the head.
    in_doubt: bool,
    /// While in doubt: the lowest block that the head may have been set back to.
    set_back_to: Option<u64>,
    /// While in doubt: blocks that may be stored, and may be side blocks. Oldest first.
    blocks: Vec<Header>,
}

impl FollowState {
    /// Pool and subscribers know `head`.
    pub(super) const fn new(head: BlockId) -> Self {
        Self {
            pool_head: head,
            notified_head: head,
            in_doubt: false,
            set_back_to: None,
            blocks: Vec::new(),
        }
    }
}

/// The accounts whose state a new head may have changed.
enum AffectedAccounts<'a> {
    /// The accounts that these canonical blocks changed.
    ChangedBy(&'a [BlockId]),
    /// All. What a block has changed is known only while the block is canonical, so this is the
    /// answer if a block was reverted.
    All,
}

impl ChainInner {
    /// Lets everything follow an import.
    pub(super) fn follow_import(&self, block: &Block, imported: &Imported) -> Result<(), StoreError> {
        match imported {
            Imported::Known | Imported::Later => {}
            Imported::Side => {
                let head = self.store.snapshot()?.head()?.map_or(0, |(number, _)| number);
                if may_be_uncle(block.header.number, head) {
                    self.uncle_candidates.lock().remember(block.header.clone());
                    self.work.wake();
                }
            }
            Imported::Head { .. } if self.follow_state.lock().in_doubt => return self.catch_up(),
            Imported::Head { reverted, applied } => {
                let affected = match reverted[..] {
                    [] if applied.len() <= CHANGED_BLOCKS_MAX => AffectedAccounts::ChangedBy(applied),
                    _ => AffectedAccounts::All,
                };
                let followed = self
                    .view()
                    .and_then(|view| self.pool_follows(&view, reverted, affected));
                // Subscribers are told even if the pool could not follow: the head has moved.
                if let Some(head) = applied.last() {
                    self.notify_head(*head, reverted.clone(), applied.clone());
                }
                followed?;
            }
        }
        Ok(())
    }

    /// Lets everything follow the head that was set back to block `number`.
    pub(super) fn follow_set_head(&self, number: u64, reverted: Vec<BlockId>) -> Result<(), StoreError> {
        if self.follow_state.lock().in_doubt {
            self.put_in_doubt(Doubt::SetBackTo(number));
            return self.catch_up();
        }
        self.uncle_candidates.lock().headers.clear();
        let view = self.view()?;
        // The transactions of the reverted blocks do not return to the pool.
        let followed = self.pool_follows(&view, &[], AffectedAccounts::All);
        self.notify_head(view.head_id(), reverted, Vec::new());
        followed
    }

    /// Gives the pool the transactions of a branch that was left before the chain was opened.
    /// `old_head` was the head of that branch.
    pub(super) fn follow_earlier_reorganization(&self, old_head: BlockId) -> Result<(), StoreError> {
        let view = self.view()?;
        let path = view.path_to_head(old_head, None, usize::MAX)?;
        self.pool_follows(&view, &path.reverted, AffectedAccounts::All)
    }

    /// Lets everything follow the head whose state was fetched. Nobody is told of the blocks below.
    pub(super) fn follow_fetched_state(&self) -> Result<(), StoreError> {
        let view = self.view()?;
        let followed = self.pool_follows(&view, &[], AffectedAccounts::All);
        self.notify_head(view.head_id(), Vec::new(), vec![view.head_id()]);
        followed?;
        *self.follow_state.lock() = FollowState::new(view.head_id());
        Ok(())
    }

    /// Notes that pool, subscribers and uncle candidates may not have followed the store.
    pub(super) fn put_in_doubt(&self, doubt: Doubt<'_>) {
        let mut state = self.follow_state.lock();
        state.in_doubt = true;
        match doubt {
            Doubt::SetBackTo(number) => {
                state.set_back_to = Some(state.set_back_to.map_or(number, |lower| lower.min(number)));
            }
            Doubt::Block(header) => {
                state.blocks.push(header.clone());
                let excess = state.blocks.len().saturating_sub(UNCLE_CANDIDATES_MAX);
                state.blocks.drain(..excess);
            }
            Doubt::Head => {}
        }
    }

    /// Whether the head of the store is another one than subscribers were told of, or cannot be
    /// read.
    pub(super) fn has_head_moved(&self) -> bool {
        let head = self.store.snapshot().and_then(|snapshot| snapshot.head());
        let told = self.follow_state.lock().notified_head;
        !matches!(head, Ok(Some(head)) if head == (told.number, told.hash))
    }

    /// Lets everything follow the head that somebody may have moved without a report.
    pub(super) fn follow_other_writer(&self) -> Result<(), StoreError> {
        self.follow_state.lock().in_doubt = true;
        self.catch_up()
    }

    /// Whether pool, subscribers or uncle candidates may not have followed the store.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.follow_state.lock().in_doubt
    }

    /// If in doubt, lets everything follow the head from wherever pool and subscribers are.
    pub(super) fn catch_up(&self) -> Result<(), StoreError> {
        let FollowState {
            pool_head,
            notified_head,
            in_doubt,
            set_back_to,
            blocks,
        } = self.follow_state.lock().clone();
        if !in_doubt {
            return Ok(());
        }
        if self.store.snapshot()?.fetched_state()?.is_some() {
            // Blocks are filled in without being told of. The end of the state tells of the head.
            let mut state = self.follow_state.lock();
            (state.in_doubt, state.set_back_to, state.blocks) = (false, None, Vec::new());
            return Ok(());
        }
        // Comes first because the head may have moved even if something fails below.
        self.withdraw_work();
        let view = self.view()?;
        let head = view.head_id();
        let path_from = |from| match view.path_to_head(from, set_back_to, usize::MAX) {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, "the blocks before the head are not known to followers of the chain");
                Ok(ChainPath {
                    reverted: Vec::new(),
                    applied: vec![head],
                    end: head,
                    crosses_deleted: false,
                })
            }
            path => path,
        };
        let followed = if pool_head == head {
            Ok(())
        } else {
            let path = path_from(pool_head)?;
            if path.crosses_deleted {
                self.uncle_candidates.lock().headers.clear();
            }
            self.pool_follows(&view, &path.reverted, AffectedAccounts::All)
        };
        if notified_head != head {
            let path = path_from(notified_head)?;
            self.notify_head(head, path.reverted, path.applied);
        }
        followed?;
        self.side_blocks_follow(&view, blocks)?;
        *self.follow_state.lock() = FollowState::new(head);
        Ok(())
    }

    /// Adds those of `blocks` to the uncle candidates that are stored as side blocks.
    fn side_blocks_follow(&self, view: &View, blocks: Vec<Header>) -> Result<(), StoreError> {
        for header in blocks {
            match is_side_block(view, &header) {
                Ok(true) if may_be_uncle(header.number, view.head_number()) => {
                    self.uncle_candidates.lock().remember(header);
                    self.work.wake();
                }
                Ok(_) => {}
                Err(error) if error.is_damage() => {
                    tracing::error!(%error, number = header.number, "a block cannot be read, so it is no uncle candidate");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the current work away and makes the work maker make new work. The work maker may have
    /// seen the new head before its followers did. Then work on this head is lost, too.
    pub(super) fn withdraw_work(&self) {
        self.work.publish(None);
        self.work_lost.store(true, Ordering::Release);
        self.work.wake();
    }

    /// Tells miners and subscribers that the head has moved.
    fn notify_head(&self, head: BlockId, reverted: Vec<BlockId>, applied: Vec<BlockId>) {
        self.withdraw_work();
        self.subscribers
            .notify(&Arc::new(HeadEvent { reverted, applied }));
        self.follow_state.lock().notified_head = head;
    }

    /// Lets the pool and the uncle candidates follow the head of `view`.
    ///
    /// If rows are damaged, the pool counts as having followed, so that the same rows are not read
    /// again and again. If rows could not be read for another reason, they are read again later.
    fn pool_follows(
        &self,
        view: &View,
        reverted: &[BlockId],
        affected: AffectedAccounts<'_>,
    ) -> Result<(), StoreError> {
        self.work.seals().prepare_ahead(&self.spec, view.head_number());
        let followed = self
            .transactions_follow(view, reverted, affected)
            .and_then(|()| self.uncle_candidates_follow(view, reverted));
        if followed.as_ref().map_or_else(StoreError::is_damage, |()| true) {
            self.follow_state.lock().pool_head = view.head_id();
        }
        followed
    }

    /// Adds the reverted blocks to the uncle candidates and drops candidates that are too old.
    fn uncle_candidates_follow(&self, view: &View, reverted: &[BlockId]) -> Result<(), StoreError> {
        let head = view.head_number();
        let mut candidates = self.uncle_candidates.lock();
        for id in reverted.iter().filter(|id| may_be_uncle(id.number, head)) {
            if let Some(record) = view.header_by_hash(&id.hash)? {
                candidates.remember(record.header);
            }
        }
        candidates
            .headers
            .retain(|uncle| may_be_uncle(uncle.number, head));
        Ok(())
    }

    /// Gives the pool the new states of affected senders and the transactions of reverted blocks.
    fn transactions_follow(
        &self,
        view: &View,
        reverted: &[BlockId],
        affected: AffectedAccounts<'_>,
    ) -> Result<(), StoreError> {
        let _admission = self.admission.write();
        let affected = match affected {
            AffectedAccounts::All => self.pool.senders(),
            // The lists of what these blocks changed are gone.
            AffectedAccounts::ChangedBy(blocks)
                if blocks
                    .iter()
                    .any(|id| view.require_state(id.number.saturating_sub(1)).is_err()) =>
            {
                self.pool.senders()
            }
            AffectedAccounts::ChangedBy(blocks) => {
                let mut changed = HashSet::new();
                for id in blocks {
                    let changes = view.snapshot().changes(id.number)?;
                    changed.extend(changes.accounts.iter().map(|(address, _)| *address));
                }
                self.pool.senders_among(changed)
            }
        };
        let mut returning = Vec::new();
        for id in reverted.iter().rev() {
            if returning.len() >= RETURNING_MAX {
                break;
            }
            let Some(body) = view.snapshot().body(id.number, &id.hash, self.spec.tx_rules())? else {
                continue;
            };
            let sent = body.transactions.into_iter().zip(body.senders);
            for (transaction, sender) in sent.filter(|(transaction, _)| !transaction.is_system()) {
                returning.push(RevertedTransaction {
                    transaction,
                    sender,
                    sender_state: sender_state(view, &sender)?,
                });
            }
        }
        let next = next_block(&self.spec, &view.head().header, &self.settings.lock());
        let states: Vec<_> = affected
            .into_iter()
            .map(|address| Ok((address, sender_state(view, &address)?)))
            .collect::<Result<_, StoreError>>()?;
        self.pool.follow_head(next, states, returning);
        Ok(())
    }
}
