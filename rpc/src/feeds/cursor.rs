//! Where a follower of the chain stands, and the way from there to the head.
//!
//! A cursor is a number in the journal and the head its follower has seen: all that a filter or a
//! subscription costs. While the journal has what came since, every change is given as it
//! happened, blocks that came and went included. Otherwise the way is read from the chain, back to
//! the last block in common and up again: nothing is lost, and no memory was held for it.

use chain::View;
use chain::chain::HeadEvent;
use chain::import::BlockId;
use primitives::{B256, Header};

use super::journal::{HeadJournal, blocks};
use crate::error::{RpcResult, failure};

/// Most steps given at once; the rest comes with the next question. A change with more blocks is
/// read from the chain, which can stop anywhere.
const STEPS_MAX: usize = 1024;
/// The place of a cursor that is not at any change of the journal.
const NOWHERE: u64 = 0;

/// Where a follower stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The number of the first change not seen.
    seq: u64,
    /// The head as the follower knows it.
    head: BlockId,
}

/// One block's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was taken back.
    Removed(BlockId),
    /// It became canonical.
    Applied(BlockId),
}

/// The next part of the way to the head.
#[derive(Debug)]
pub(crate) struct Way {
    /// In order.
    pub(crate) steps: Vec<Step>,
    /// Where it leads.
    pub(crate) end: Cursor,
}

impl Cursor {
    /// At the head now.
    pub(super) fn now(journal: &HeadJournal, view: impl FnOnce() -> RpcResult<View>) -> RpcResult<Self> {
        // The number first: a change between the two looks is passed over later.
        let seq = journal.next();
        let head = view()?.head_id();
        Ok(Self { seq, head })
    }

    /// Whether nothing has happened since.
    pub(super) fn is_current(&self, journal: &HeadJournal) -> bool {
        self.seq == journal.next()
    }

    /// The way on from here. `next` is the journal's number from before `view` was taken; what the
    /// journal has after it may not be in the view.
    pub(super) fn way(&self, journal: &HeadJournal, next: u64, view: &View) -> RpcResult<Way> {
        match journal.since(self.seq..next, &self.head, STEPS_MAX) {
            Some(unseen) if self.leads(&unseen.events, view)? => {
                let mut end = Self {
                    seq: unseen.next,
                    head: self.head,
                };
                let mut steps = Vec::new();
                for event in &unseen.events {
                    steps.extend(event.reverted.iter().copied().map(Step::Removed));
                    steps.extend(event.applied.iter().copied().map(Step::Applied));
                    if let Some(last) = event
                        .applied
                        .last()
                        .copied()
                        .map(Step::Applied)
                        .or(steps.last().copied())
                    {
                        end.head = after(view, &last)?;
                    }
                }
                if end.seq >= next && end.head != view.head_id() {
                    // The journal learns of a head a moment after the chain has it.
                    let rest = end.walk(next, view)?;
                    steps.extend(rest.steps);
                    end = rest.end;
                }
                Ok(Way { steps, end })
            }
            _ => self.walk(next, view),
        }
    }

    /// Whether these changes begin where this follower stands, and are small enough.
    fn leads(&self, events: &[std::sync::Arc<HeadEvent>], view: &View) -> RpcResult<bool> {
        let Some(first) = events.first() else {
            return Ok(true);
        };
        if events.iter().any(|event| blocks(event) > STEPS_MAX) {
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

    /// The way by the chain itself: down to the last block in common with it, and up to its head.
    pub(super) fn walk(&self, next: u64, view: &View) -> RpcResult<Way> {
        let mut at = self.head;
        let mut steps = Vec::new();
        while view.canonical_hash(at.number).map_err(failure)? != Some(at.hash) {
            if steps.len() == STEPS_MAX {
                return Ok(Way::unfinished(steps, at));
            }
            steps.push(Step::Removed(at));
            at = parent(view, &at)?;
        }
        while at.number < view.head_number() {
            if steps.len() == STEPS_MAX {
                return Ok(Way::unfinished(steps, at));
            }
            let number = at.number + 1;
            let hash = canonical(view, number)?;
            at = BlockId { number, hash };
            steps.push(Step::Applied(at));
        }
        let end = Self { seq: next, head: at };
        Ok(Way { steps, end })
    }
}

impl Way {
    fn unfinished(steps: Vec<Step>, head: BlockId) -> Self {
        let end = Cursor { seq: NOWHERE, head };
        Self { steps, end }
    }

    /// Where a follower stands who has taken only the first `taken` steps.
    pub(crate) fn stopped(&self, taken: usize, view: &View) -> RpcResult<Cursor> {
        if taken >= self.steps.len() {
            return Ok(self.end);
        }
        let head = match taken.checked_sub(1).map(|last| self.steps[last]) {
            Some(step) => after(view, &step)?,
            None => match self.steps[0] {
                Step::Removed(id) => id,
                Step::Applied(id) => parent(view, &id)?,
            },
        };
        Ok(Cursor { seq: NOWHERE, head })
    }
}

/// The head after a step.
fn after(view: &View, step: &Step) -> RpcResult<BlockId> {
    match step {
        Step::Applied(id) => Ok(*id),
        Step::Removed(id) => parent(view, id),
    }
}

/// The block before `id`. Where `id` was deleted, as the head was set back, it is the highest
/// canonical one below it.
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

/// The hash of the canonical block `number`, which is not above the head.
fn canonical(view: &View, number: u64) -> RpcResult<B256> {
    let hash = view.canonical_hash(number).map_err(failure)?;
    hash.ok_or_else(|| failure(format_args!("no canonical block {number} below the head")))
}

/// The header of a block that was canonical once; `None` where it was deleted, as the head was set
/// back.
pub(super) fn header(view: &View, id: &BlockId) -> RpcResult<Option<Header>> {
    let record = view.header_by_hash(&id.hash).map_err(failure)?;
    Ok(record.map(|record| record.header))
}
