//! Finds the blocks of a range that may have matching logs, ascending. Logs are not read here.
//!
//! With the log index: the block lists of alternative keys are united, and the unions intersected.
//! Each list is asked for its next block at or above the highest block that any other list has
//! reached. So the shortest list sets the pace, and long lists skip whole rows.
//!
//! With blooms: every header of the range is tested.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use store::{LogIndexReads, LogKey, StoreError, TableId};

use super::{BloomTest, LogError};
use crate::import::BlockId;
use crate::query_limit::QueryLimit;
use crate::view::View;

/// The limit of the search is checked once in so many reads of the store.
const READS_PER_CHECK: usize = 64;

/// Iterates over the blocks that may have matching logs.
#[derive(Debug)]
pub(super) struct CandidateBlocks {
    /// The first block of the remaining range; `None` at the end.
    next: Option<u64>,
    last: u64,
    source: CandidateSource,
}

#[derive(Debug)]
enum CandidateSource {
    Index(Vec<KeyUnion>),
    Blooms(BloomTest),
}

impl CandidateBlocks {
    /// The blocks `first..=last` that the index has under at least one key of each set.
    pub(super) fn by_index(keys: Vec<Vec<LogKey>>, first: u64, last: u64) -> Self {
        let unions = keys.into_iter().map(KeyUnion::new).collect();
        Self::new(first, last, CandidateSource::Index(unions))
    }

    /// The blocks `first..=last` whose bloom passes the test.
    pub(super) fn by_blooms(test: BloomTest, first: u64, last: u64) -> Self {
        Self::new(first, last, CandidateSource::Blooms(test))
    }

    fn new(first: u64, last: u64, source: CandidateSource) -> Self {
        Self {
            next: (first <= last).then_some(first),
            last,
            source,
        }
    }

    /// The next block, within `work`.
    pub(super) fn next(&mut self, view: &View, work: &QueryLimit) -> Result<Option<BlockId>, LogError> {
        let Some(from) = self.next.take() else {
            return Ok(None);
        };
        let found = match &mut self.source {
            CandidateSource::Index(unions) => {
                match first_common(unions, view.snapshot(), from, self.last, work)? {
                    Some(number) => Some(BlockId {
                        number,
                        hash: required(view.canonical_hash(number)?, number)?,
                    }),
                    None => None,
                }
            }
            CandidateSource::Blooms(test) => first_passing(test, view, from, self.last, work)?,
        };
        self.next = found
            .and_then(|block| block.number.checked_add(1))
            .filter(|next| *next <= self.last);
        Ok(found)
    }
}

/// The first block from `from` to `last` that is in all unions.
fn first_common(
    unions: &mut [KeyUnion],
    source: &impl LogIndexReads,
    from: u64,
    last: u64,
    work: &QueryLimit,
) -> Result<Option<u64>, LogError> {
    // `unions_with_block` counts the unions, in a row, that have `block`.
    let (mut block, mut unions_with_block) = (from, 0);
    for (reads, index) in (0..unions.len()).cycle().enumerate() {
        if reads.is_multiple_of(READS_PER_CHECK) {
            work.check()?;
        }
        match unions[index].seek(source, block)? {
            Some(found) if found == block => unions_with_block += 1,
            Some(found) if found <= last => (block, unions_with_block) = (found, 1),
            _ => return Ok(None),
        }
        if unions_with_block == unions.len() {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

/// The first block from `from` to `last` whose bloom passes the test.
fn first_passing(
    test: &BloomTest,
    view: &View,
    from: u64,
    last: u64,
    work: &QueryLimit,
) -> Result<Option<BlockId>, LogError> {
    for (reads, number) in (from..=last).enumerate() {
        if reads.is_multiple_of(READS_PER_CHECK) {
            work.check()?;
        }
        let (hash, record) = required(view.header(number)?, number)?;
        if test.may_match(&record.header.logs_bloom) {
            return Ok(Some(BlockId { number, hash }));
        }
    }
    Ok(None)
}

/// Turns a missing row of a block up to the head into an error.
fn required<T>(found: Option<T>, number: u64) -> Result<T, StoreError> {
    let missing = || StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), "no such block");
    found.ok_or_else(missing)
}

/// The blocks that the index has under any of several keys.
#[derive(Debug)]
struct KeyUnion {
    lists: Vec<KeyBlocks>,
    /// The next block of each list that has one, with the list's index.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    started: bool,
}

impl KeyUnion {
    fn new(keys: Vec<LogKey>) -> Self {
        Self {
            lists: keys.into_iter().map(KeyBlocks::new).collect(),
            heads: BinaryHeap::new(),
            started: false,
        }
    }

    /// The first block at or above `from`. `from` must not decrease from call to call.
    fn seek(&mut self, source: &impl LogIndexReads, from: u64) -> Result<Option<u64>, StoreError> {
        if !self.started {
            self.started = true;
            for (index, list) in self.lists.iter_mut().enumerate() {
                let head = list.seek(source, from)?;
                self.heads.extend(head.map(|block| Reverse((block, index))));
            }
        }
        while let Some(Reverse((block, index))) = self.heads.peek().copied() {
            if block >= from {
                return Ok(Some(block));
            }
            self.heads.pop();
            let head = self.lists[index].seek(source, from)?;
            self.heads.extend(head.map(|block| Reverse((block, index))));
        }
        Ok(None)
    }
}

/// The blocks that the index has under one key. It reads one row at a time.
#[derive(Debug)]
struct KeyBlocks {
    key: LogKey,
    row: Vec<u64>,
    /// The current position in `row`.
    position: usize,
    ended: bool,
}

impl KeyBlocks {
    const fn new(key: LogKey) -> Self {
        Self {
            key,
            row: Vec::new(),
            position: 0,
            ended: false,
        }
    }

    /// The first block at or above `from`. `from` must not decrease from call to call.
    fn seek(&mut self, source: &impl LogIndexReads, from: u64) -> Result<Option<u64>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        if self.row.last().is_none_or(|last| *last < from) {
            self.position = 0;
            self.ended = !source.log_blocks(&self.key, from, &mut self.row)?;
        }
        self.position += self.row[self.position..].partition_point(|block| *block < from);
        Ok(self.row.get(self.position).copied())
    }
}
