//! Which blocks of a range can hold wanted logs, ascending.
//!
//! From the index: the lists of alternatives are united, the unions intersected. Each list is
//! asked for its next block at or above the furthest that any other has reached, so the
//! rarest leads by itself and lists with a block in every row are leapt over, row by row.
//! From blooms: every header of the range. The logs themselves are not looked at here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use store::{LogIndexReads, LogKey, StoreError, TableId};

use super::BloomTest;
use crate::import::BlockId;
use crate::view::View;

/// Gives the blocks that are worth a look.
#[derive(Debug)]
pub(super) struct CandidateBlocks {
    /// Where to go on; `None` at the end.
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
    /// The blocks `first..=last` that lie under a key of each set.
    pub(super) fn by_index(keys: Vec<Vec<LogKey>>, first: u64, last: u64) -> Self {
        let unions = keys.into_iter().map(KeyUnion::new).collect();
        Self::new(first, last, CandidateSource::Index(unions))
    }

    /// The blocks `first..=last` whose bloom passes.
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

    /// The next block.
    pub(super) fn next(&mut self, view: &View) -> Result<Option<BlockId>, StoreError> {
        let Some(from) = self.next.take() else {
            return Ok(None);
        };
        let found = match &mut self.source {
            CandidateSource::Index(unions) => match common(unions, view.snapshot(), from, self.last)? {
                Some(number) => Some(BlockId {
                    number,
                    hash: required(view.canonical_hash(number)?, number)?,
                }),
                None => None,
            },
            CandidateSource::Blooms(test) => passing(test, view, from, self.last)?,
        };
        self.next = found
            .and_then(|block| block.number.checked_add(1))
            .filter(|next| *next <= self.last);
        Ok(found)
    }
}

/// The first block from `from` to `last` that all unions have.
fn common(
    unions: &mut [KeyUnion],
    source: &impl LogIndexReads,
    from: u64,
    last: u64,
) -> Result<Option<u64>, StoreError> {
    let (mut block, mut agreed) = (from, 0);
    for turn in (0..unions.len()).cycle() {
        match unions[turn].seek(source, block)? {
            Some(found) if found == block => agreed += 1,
            Some(found) if found <= last => (block, agreed) = (found, 1),
            _ => return Ok(None),
        }
        if agreed == unions.len() {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

/// The first block from `from` to `last` whose bloom passes.
fn passing(test: &BloomTest, view: &View, from: u64, last: u64) -> Result<Option<BlockId>, StoreError> {
    for number in from..=last {
        let (hash, record) = required(view.header(number)?, number)?;
        if test.may_match(&record.header.logs_bloom) {
            return Ok(Some(BlockId { number, hash }));
        }
    }
    Ok(None)
}

/// What must be there of a block up to the head.
fn required<T>(found: Option<T>, number: u64) -> Result<T, StoreError> {
    let missing = || StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), "no such block");
    found.ok_or_else(missing)
}

/// The blocks under any of some keys.
#[derive(Debug)]
struct KeyUnion {
    lists: Vec<KeyBlocks>,
    /// The next block of each list that has one, and the list's place.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    begun: bool,
}

impl KeyUnion {
    fn new(keys: Vec<LogKey>) -> Self {
        Self {
            lists: keys.into_iter().map(KeyBlocks::new).collect(),
            heads: BinaryHeap::new(),
            begun: false,
        }
    }

    /// The first block at or above `from`, which never falls.
    fn seek(&mut self, source: &impl LogIndexReads, from: u64) -> Result<Option<u64>, StoreError> {
        if !self.begun {
            self.begun = true;
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

/// The blocks under one key, a row at a time.
#[derive(Debug)]
struct KeyBlocks {
    key: LogKey,
    row: Vec<u64>,
    at: usize,
    ended: bool,
}

impl KeyBlocks {
    fn new(key: LogKey) -> Self {
        Self {
            key,
            row: Vec::new(),
            at: 0,
            ended: false,
        }
    }

    /// The first block at or above `from`, which never falls.
    fn seek(&mut self, source: &impl LogIndexReads, from: u64) -> Result<Option<u64>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        if self.row.last().is_none_or(|last| *last < from) {
            self.at = 0;
            self.ended = !source.log_blocks(&self.key, from, &mut self.row)?;
        }
        self.at += self.row[self.at..].partition_point(|block| *block < from);
        Ok(self.row.get(self.at).copied())
    }
}
