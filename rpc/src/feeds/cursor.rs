//! The position of a follower of the chain, and the changes from there to the head.
//!
//! A cursor is a position in the journal and the head that its follower has seen. A filter or a
//! subscription keeps nothing else. While the journal has all events since that position, every
//! change is returned as it happened, including blocks that came and went. Otherwise the changes
//! are read from the chain: back to the last common block, then up to the head. So no change of the
//! canonical chain is lost, and no memory is held for a follower that does not ask.

use chain::View;
use chain::chain::HeadEvent;
use chain::import::BlockId;
use primitives::{B256, Header};

use super::journal::{HeadJournal, block_count};
use crate::error::{RpcResult, failure};

/// Most changes returned at once. The next call returns the rest. An event with more blocks is read
/// from the chain instead, where the walk can stop after any block.
const CHANGES_MAX: usize = 1024;
/// The position of a cursor that is at no event of the journal.
const OUTSIDE_JOURNAL: u64 = 0;

/// The position of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadCursor {
    /// The number of the first event that the follower has not seen.
    next_event: u64,
    /// The head that the follower has seen.
    head: BlockId,
}

/// A block that joined or left the canonical chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockChange {
    /// The block was taken back.
    Removed(BlockId),
    /// The block became canonical.
    Applied(BlockId),
}

impl BlockChange {
    /// The block that joined or left.
    pub(crate) fn block(&self) -> &BlockId {
        let (Self::Removed(id) | Self::Applied(id)) = self;
        id
    }

    /// Whether the block left the canonical chain.
    pub(crate) fn is_removal(&self) -> bool {
        matches!(self, Self::Removed(_))
    }
}

/// The next changes between a follower's position and the head.
#[derive(Debug)]
pub(crate) struct UnseenChanges {
    /// The changes in their order.
    pub(crate) changes: Vec<BlockChange>,
    /// The position after the last of them.
    pub(crate) end: HeadCursor,
}

impl HeadCursor {
    /// A cursor that follows the chain alone until it reaches the head.
    fn outside_journal(head: BlockId) -> Self {
        Self {
            next_event: OUTSIDE_JOURNAL,
            head,
        }
    }

    /// A cursor at the head.
    pub(super) fn now(journal: &HeadJournal, view: impl FnOnce() -> RpcResult<View>) -> RpcResult<Self> {
        // The event number is read first. An event between the two reads is then skipped later.
        let next_event = journal.next();
        let head = view()?.head_id();
        Ok(Self { next_event, head })
    }

    /// Whether there was no event since.
    pub(super) fn is_current(&self, journal: &HeadJournal) -> bool {
        self.next_event == journal.next()
    }

    /// The next changes from here. `next` is the journal's next event number, read before `view`
    /// was opened: later events of the journal may not be in the view.
    pub(super) fn changes(&self, journal: &HeadJournal, next: u64, view: &View) -> RpcResult<UnseenChanges> {
        match journal.since(self.next_event..next, &self.head, CHANGES_MAX) {
            Some(unseen) if self.is_followed_by(&unseen.events, view)? => {
                let mut end = Self {
                    next_event: unseen.next,
                    head: self.head,
                };
                let mut changes = Vec::new();
                for event in &unseen.events {
                    changes.extend(event.reverted.iter().copied().map(BlockChange::Removed));
                    changes.extend(event.applied.iter().copied().map(BlockChange::Applied));
                    if let Some(last) = event
                        .applied
                        .last()
                        .copied()
                        .map(BlockChange::Applied)
                        .or(changes.last().copied())
                    {
                        end.head = head_after(view, &last)?;
                    }
                }
                if end.next_event >= next && end.head != view.head_id() {
                    // The journal gets the event of a new head a moment after the chain has it.
                    let rest = end.walk(next, view)?;
                    changes.extend(rest.changes);
                    end = rest.end;
                }
                Ok(UnseenChanges { changes, end })
            }
            _ => self.walk(next, view),
        }
    }

    /// Whether these events begin at this cursor's head and are small enough.
    fn is_followed_by(&self, events: &[std::sync::Arc<HeadEvent>], view: &View) -> RpcResult<bool> {
        let Some(first) = events.first() else {
            return Ok(true);
        };
        if events.iter().any(|event| block_count(event) > CHANGES_MAX) {
            return Ok(false);
        }
        match (first.reverted.first(), first.applied.first()) {
            (Some(top), _) => Ok(*top == self.head),
            (None, Some(block)) => {
                let header = view.header_by_hash(&block.hash).map_err(failure)?;
                Ok(header.is_some_and(|record| record.header.parent_hash == self.head.hash))
            }
            (None, None) => Ok(true),
        }
    }

    /// The next changes read from the chain: down to the last common block, then up to the head.
    pub(super) fn walk(&self, next: u64, view: &View) -> RpcResult<UnseenChanges> {
        let mut at = self.head;
        let mut changes = Vec::new();
        while view.canonical_hash(at.number).map_err(failure)? != Some(at.hash) {
            if changes.len() == CHANGES_MAX {
                return Ok(UnseenChanges::unfinished(changes, at));
            }
            changes.push(BlockChange::Removed(at));
            at = parent(view, &at)?;
        }
        while at.number < view.head_number() {
            if changes.len() == CHANGES_MAX {
                return Ok(UnseenChanges::unfinished(changes, at));
            }
            let number = at.number + 1;
            let hash = canonical(view, number)?;
            at = BlockId { number, hash };
            changes.push(BlockChange::Applied(at));
        }
        let end = Self {
            next_event: next,
            head: at,
        };
        Ok(UnseenChanges { changes, end })
    }
}

impl UnseenChanges {
    /// Changes that lead to `head`, which is not the chain's head yet.
    fn unfinished(changes: Vec<BlockChange>, head: BlockId) -> Self {
        let end = HeadCursor::outside_journal(head);
        Self { changes, end }
    }

    /// The position of a follower that has taken only the first `taken` changes.
    pub(crate) fn cursor_after(&self, taken: usize, view: &View) -> RpcResult<HeadCursor> {
        if taken >= self.changes.len() {
            return Ok(self.end);
        }
        let head = match taken.checked_sub(1).map(|last| self.changes[last]) {
            Some(change) => head_after(view, &change)?,
            None => match self.changes[0] {
                BlockChange::Removed(id) => id,
                BlockChange::Applied(id) => parent(view, &id)?,
            },
        };
        Ok(HeadCursor::outside_journal(head))
    }
}

/// The head after a change.
fn head_after(view: &View, change: &BlockChange) -> RpcResult<BlockId> {
    match change {
        BlockChange::Applied(id) => Ok(*id),
        BlockChange::Removed(id) => parent(view, id),
    }
}

/// The parent of `id`. If `id` was deleted when the head was set back, this is the highest
/// canonical block below it.
fn parent(view: &View, id: &BlockId) -> RpcResult<BlockId> {
    let number = id.number.saturating_sub(1);
    if let Some(header) = header(view, id)? {
        let hash = header.parent_hash;
        return Ok(BlockId { number, hash });
    }
    let number = number.min(view.head_number());
    let hash = canonical(view, number)?;
    Ok(BlockId { number, hash })
}

/// The hash of the canonical block `number`, which must not be above the head.
fn canonical(view: &View, number: u64) -> RpcResult<B256> {
    let hash = view.canonical_hash(number).map_err(failure)?;
    hash.ok_or_else(|| failure(format_args!("no canonical block {number} below the head")))
}

/// The header of a block that was canonical once. `None` if it was deleted when the head was set
/// back.
pub(super) fn header(view: &View, id: &BlockId) -> RpcResult<Option<Header>> {
    let record = view.header_by_hash(&id.hash).map_err(failure)?;
    Ok(record.map(|record| record.header))
}
