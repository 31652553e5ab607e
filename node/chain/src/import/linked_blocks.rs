//! The blocks of a stream that build on stored blocks without a gap.
//!
//! A seal is checked with the light cache of the block's epoch, which takes time and memory. The
//! number in a header is whatever its maker has written. So a seal is looked at only if the block's
//! number follows that of its parent, and the parent's follows that of its own parent, down to a
//! stored block. Then a light cache of another epoch costs its maker a whole epoch of headers.

use std::collections::{HashMap, VecDeque};

use primitives::{B256, Header};

/// The most blocks that are remembered. Of a block whose parent is forgotten nothing is checked
/// ahead; the import checks it.
const LINKED_BLOCKS_MAX: usize = 1024;

/// The last blocks of a stream whose numbers follow those of their parents.
#[derive(Debug, Default)]
pub(super) struct LinkedBlocks {
    numbers: HashMap<B256, u64>,
    /// Oldest first.
    order: VecDeque<B256>,
}

impl LinkedBlocks {
    /// The number of the block `hash`, if it is one of these.
    pub(super) fn number(&self, hash: &B256) -> Option<u64> {
        self.numbers.get(hash).copied()
    }

    /// Adds a block if its number follows `parent`, the number of its parent.
    pub(super) fn extend(&mut self, hash: B256, header: &Header, parent: Option<u64>) {
        if !follows(header, parent) || self.numbers.insert(hash, header.number).is_some() {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > LINKED_BLOCKS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }
}

/// Whether a header has the number after `parent`, the number of its parent.
pub(super) fn follows(header: &Header, parent: Option<u64>) -> bool {
    parent.and_then(|parent| parent.checked_add(1)) == Some(header.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(number: u64, parent_hash: B256) -> Header {
        Header {
            number,
            parent_hash,
            ..Default::default()
        }
    }

    #[test]
    fn a_gap_ends_a_chain_of_links() {
        let mut linked = LinkedBlocks::default();
        let mut add = |number: u64, parent: Option<u64>| {
            let header = header(number, B256::ZERO);
            linked.extend(header.hash(), &header, parent);
            linked.number(&header.hash())
        };
        assert_eq!(add(1, Some(0)), Some(1));
        assert_eq!(add(3, Some(1)), None);
        assert_eq!(add(4, None), None);
        assert_eq!(add(0, Some(u64::MAX)), None);
    }

    #[test]
    fn the_newest_are_remembered() {
        let mut linked = LinkedBlocks::default();
        let hashes: Vec<_> = (1..=LINKED_BLOCKS_MAX as u64 + 1)
            .map(|number| {
                let header = header(number, B256::ZERO);
                linked.extend(header.hash(), &header, Some(number - 1));
                header.hash()
            })
            .collect();
        assert_eq!(linked.number(&hashes[0]), None);
        assert_eq!(linked.number(&hashes[1]), Some(2));
        assert_eq!(linked.numbers.len(), LINKED_BLOCKS_MAX);
    }
}
