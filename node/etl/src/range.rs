//! Ranges of blocks, and how a range is divided into partitions.

use std::fmt;

/// The blocks from `first` to `last`, both of them included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockRange {
    /// The first block.
    pub first: u64,
    /// The last block, which is not below the first.
    pub last: u64,
}

impl BlockRange {
    /// Whether all blocks of `other` are in this range.
    pub(crate) const fn contains(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Whether a block is in both ranges.
    pub(crate) const fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The number of blocks.
    pub const fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// The parts of this range between the multiples of `size`.
    pub(crate) fn parts(self, size: u64) -> impl Iterator<Item = Self> + Send {
        let size = size.max(1);
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let first = next?;
            let last = (first - first % size).saturating_add(size - 1).min(self.last);
            next = (last < self.last).then(|| last + 1);
            Some(Self { first, last })
        })
    }
}

impl fmt::Display for BlockRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} to {}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_between_multiples() {
        let parts = |first, last, size| {
            let parts = BlockRange { first, last }.parts(size);
            parts.map(|part| (part.first, part.last)).collect::<Vec<_>>()
        };
        assert_eq!(parts(0, 25, 10), [(0, 9), (10, 19), (20, 25)]);
        assert_eq!(parts(7, 10, 10), [(7, 9), (10, 10)]);
        assert_eq!(parts(3, 3, 10), [(3, 3)]);
        assert_eq!(parts(2, 4, 0), [(2, 2), (3, 3), (4, 4)]);
        let top = u64::MAX;
        assert_eq!(parts(top - 1, top, 10), [(top - 1, top)]);
    }

    #[test]
    fn ranges_compare() {
        let range = |first, last| BlockRange { first, last };
        assert!(range(0, 9).contains(&range(3, 9)) && !range(0, 9).contains(&range(3, 10)));
        assert!(range(0, 9).overlaps(&range(9, 10)) && !range(0, 9).overlaps(&range(10, 10)));
        assert_eq!((range(3, 3).count(), range(0, u64::MAX).count()), (1, u64::MAX));
    }
}
