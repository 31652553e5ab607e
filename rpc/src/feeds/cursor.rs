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
use primitives::Header;

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
    pub(crate) const fn block(&self) -> &BlockId {
        let (Self::Removed(id) | Self::Applied(id)) = self;
        id
    }

    /// Whether the block left the canonical chain.
    pub(crate) const fn is_removal(&self) -> bool {
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
    const fn outside_journal(head: BlockId) -> Self {
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
                        .or_else(|| changes.last().copied())
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
        let path = view.path_to_head(self.head, None, CHANGES_MAX).map_err(failure)?;
        let removed = path.reverted.into_iter().map(BlockChange::Removed);
        let changes = removed.chain(path.applied.into_iter().map(BlockChange::Applied));
        let end = if path.end == view.head_id() {
            Self {
                next_event: next,
                head: path.end,
            }
        } else {
            // These changes lead to a block below the head; the next call reads on from there.
            Self::outside_journal(path.end)
        };
        Ok(UnseenChanges {
            changes: changes.collect(),
            end,
        })
    }
}

impl UnseenChanges {
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

fn head_after(view: &View, change: &BlockChange) -> RpcResult<BlockId> {
    match change {
        BlockChange::Applied(id) => Ok(*id),
        BlockChange::Removed(id) => parent(view, id),
    }
}

/// The parent of `id`. If `id` was deleted when the head was set back, this is the highest
/// canonical block below it.
fn parent(view: &View, id: &BlockId) -> RpcResult<BlockId> {
    Ok(view.block_below(id).map_err(failure)?.id())
}

/// The header of a block that was canonical once. `None` if it was deleted when the head was set
/// back.
pub(super) fn header(view: &View, id: &BlockId) -> RpcResult<Option<Header>> {
    let record = view.header_by_hash(&id.hash).map_err(failure)?;
    Ok(record.map(|record| record.header))
}
