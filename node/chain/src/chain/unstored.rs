//! Sealed blocks that the store could not take: kept by the writer, which tries them again.
//!
//! A sealed block is worth a reward, and its solution cannot be found again. So a failure of the
//! store must not lose the block. Blocks that were imported can be imported again by those who have
//! them, so they are not kept. Knows blocks and errors; the writer decides when to try again.

use std::collections::VecDeque;

use primitives::{B256, Block};
use store::StoreError;

/// The most sealed blocks that are kept. The oldest are lost first.
const UNSTORED_BLOCKS_MAX: usize = 4;
/// The number of times that a block is tried again that fails for another reason than missing
/// space. Such a failure may be of this block alone, for example if it needs a damaged row.
const RETRIES_MAX: u32 = 3;

/// A sealed block that could not be stored.
#[derive(Debug)]
pub(super) struct UnstoredBlock {
    pub(super) block: Box<Block>,
    hash: B256,
    /// The number of times that it may still fail for another reason than missing space.
    retries_left: u32,
}

/// The sealed blocks that could not be stored, oldest first.
#[derive(Debug, Default)]
pub(super) struct UnstoredBlocks(VecDeque<UnstoredBlock>);

impl UnstoredBlocks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all blocks out, so that each can be tried again.
    pub(super) fn take(&mut self) -> VecDeque<UnstoredBlock> {
        std::mem::take(&mut self.0)
    }

    /// Keeps a block that has failed with `error` for the first time. A block that is kept already
    /// is not kept twice.
    pub(super) fn keep(&mut self, block: Box<Block>, error: &StoreError) {
        let hash = block.hash();
        if self.0.iter().any(|kept| kept.hash == hash) {
            return;
        }
        tracing::warn!(number = block.header.number, %hash, %error, "a sealed block is kept until it can be stored");
        self.0.push_back(UnstoredBlock {
            block,
            hash,
            retries_left: RETRIES_MAX,
        });
        if self.0.len() > UNSTORED_BLOCKS_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.log_lost("newer sealed blocks are kept");
        }
    }

    /// Keeps a block that was taken out and has failed again with `error`.
    pub(super) fn keep_again(&mut self, mut kept: UnstoredBlock, error: &StoreError) {
        if !error.wants_space() {
            let Some(left) = kept.retries_left.checked_sub(1) else {
                return kept.log_lost(&error.to_string());
            };
            kept.retries_left = left;
        }
        self.0.push_back(kept);
    }

    /// Logs that the blocks are lost, because nobody tries them again.
    pub(super) fn log_lost(self, reason: &str) {
        self.0.into_iter().for_each(|kept| kept.log_lost(reason));
    }
}

impl UnstoredBlock {
    fn log_lost(self, reason: &str) {
        let Self { block, hash, .. } = self;
        tracing::error!(number = block.header.number, %hash, reason, "a sealed block is lost");
    }
}

#[cfg(test)]
mod tests {
    use primitives::Header;

    use super::*;

    fn block(number: u64) -> Box<Block> {
        let header = Header {
            number,
            ..Default::default()
        };
        Box::new(Block {
            header,
            ..Default::default()
        })
    }

    fn numbers(unstored: &UnstoredBlocks) -> Vec<u64> {
        unstored.0.iter().map(|kept| kept.block.header.number).collect()
    }

    fn full() -> StoreError {
        StoreError::Full {
            path: "of the test".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        }
    }

    fn closed() -> StoreError {
        StoreError::Closed {
            path: "of the test".into(),
        }
    }

    #[test]
    fn few_blocks_are_kept_and_none_twice() {
        let mut unstored = UnstoredBlocks::default();
        for number in [1, 2, 2, 3, 4, 1] {
            unstored.keep(block(number), &full());
        }
        assert_eq!(numbers(&unstored), [1, 2, 3, 4]);
        unstored.keep(block(5), &full());
        assert_eq!(numbers(&unstored), [2, 3, 4, 5]);
    }

    #[test]
    fn a_block_waits_for_space_without_end_but_for_other_causes_a_few_times() {
        let mut unstored = UnstoredBlocks::default();
        unstored.keep(block(1), &closed());
        let mut fails_with = |error: StoreError| {
            for kept in unstored.take() {
                unstored.keep_again(kept, &error);
            }
            !unstored.is_empty()
        };
        assert!((0..100).all(|_| fails_with(full())));
        assert!((0..RETRIES_MAX).all(|_| fails_with(closed())));
        assert!(!fails_with(closed()));
    }
}
