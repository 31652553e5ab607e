//! The depth of deposits on the base chain, in base blocks (docs/microchain-design.md, 6).
//!
//! A chain base tells only how many deposits it has, not in which block each was bought. So each
//! reading leaves a mark: from this base block on there were so many. What a reorganization took
//! back or changed counts as new.

use std::collections::VecDeque;

use crate::contract::DepositList;

/// A deposit is credited when so many base blocks lie on top of the one in which it was read.
/// docs/microchain-design.md, 6 has the arithmetic.
pub(super) const DEPOSIT_DEPTH: u64 = 12;

/// Marks of so many base blocks are kept: more than a turn and the depth together.
const MARKED_BLOCKS: u64 = 64;

/// From the base block `first` on, the chain base had the deposits below the position `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DepositMark {
    first: u64,
    end: u64,
}

/// The deposits of the chain base by base block. At most one mark for each block that is kept.
#[derive(Debug, Default)]
pub(super) struct DepositMarks(VecDeque<DepositMark>);

impl DepositMarks {
    /// Takes the deposits that were read at the base block `base`. `before` is the reading before
    /// this one. Returns the position from which on the readings differ, if what was read before
    /// does not hold any more.
    pub(super) fn take(&mut self, base: u64, before: Option<&DepositList>, now: &DepositList) -> Option<u64> {
        let changed = before.and_then(|before| first_change(before, now));
        if let Some(position) = changed {
            for mark in &mut self.0 {
                mark.end = mark.end.min(position);
            }
        }
        while self.0.back().is_some_and(|mark| mark.first > base) {
            self.0.pop_back();
        }
        let end = end_of(now);
        if self.0.back().is_none_or(|mark| mark.end != end) {
            self.0.push_back(DepositMark { first: base, end });
        }
        while self
            .0
            .get(1)
            .is_some_and(|mark| mark.first.saturating_add(MARKED_BLOCKS) <= base)
        {
            self.0.pop_front();
        }
        changed
    }

    /// The position up to which the chain base had its deposits at the base block `base`.
    pub(super) fn end_at(&self, base: u64) -> Option<u64> {
        let mark = self.0.iter().rfind(|mark| mark.first <= base)?;
        Some(mark.end)
    }
}

/// The position behind the last deposit.
pub(super) const fn end_of(list: &DepositList) -> u64 {
    list.from.saturating_add(list.entries.len() as u64)
}

/// The first position at which a list does not go on with what was read before; `None` if it does.
/// A list that begins earlier than the one before was not compared there, so it counts as changed.
fn first_change(before: &DepositList, now: &DepositList) -> Option<u64> {
    if now.from < before.from {
        return Some(now.from);
    }
    let skipped = usize::try_from(now.from - before.from).unwrap_or(usize::MAX);
    let old = before.entries.get(skipped..).unwrap_or_default();
    let same = old.iter().zip(&now.entries).take_while(|(old, new)| old == new);
    let same = same.count();
    (same < old.len()).then(|| now.from + same as u64)
}

#[cfg(test)]
mod tests {
    use primitives::{Address, U256};

    use super::*;
    use crate::contract::Deposit;

    fn list(from: u64, users: &[u8]) -> DepositList {
        let entries = users.iter().map(|byte| Deposit {
            user: Address::repeat_byte(*byte),
            tokens: U256::from(5),
            bought: 7,
        });
        DepositList {
            from,
            entries: entries.collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_mark_says_what_there_was_at_a_block() {
        let mut marks = DepositMarks::default();
        let mut before: Option<DepositList> = None;
        let mut take = |base, now: DepositList| {
            let changed = marks.take(base, before.as_ref(), &now);
            before = Some(now);
            (changed, [100, 102, 105, 200].map(|base| marks.end_at(base)))
        };
        assert_eq!(take(100, list(0, &[1])), (None, [Some(1); 4]));
        let two = [Some(1), Some(2), Some(2), Some(2)];
        assert_eq!(take(102, list(0, &[1, 2])), (None, two));
        // The flush takes the first one out of the list.
        assert_eq!(take(103, list(1, &[2])), (None, two));
        let four = [Some(1), Some(2), Some(4), Some(4)];
        assert_eq!(take(105, list(1, &[2, 3, 4])), (None, four));
        // The base chain has other deposits from position 2 on: they are as new as this block.
        assert_eq!(
            take(106, list(1, &[2, 9, 4, 5])),
            (Some(2), [Some(1), Some(2), Some(2), Some(5)])
        );
        // The base chain has taken a flush back.
        assert_eq!(
            take(107, list(0, &[1, 2])),
            (Some(0), [Some(0), Some(0), Some(0), Some(2)])
        );
        // Old marks go.
        for base in 108..200 {
            assert_eq!(take(base, list(0, &vec![1; base as usize])).1[3], Some(base));
        }
        assert!(marks.0.len() as u64 <= MARKED_BLOCKS + 2, "{}", marks.0.len());
    }
}
