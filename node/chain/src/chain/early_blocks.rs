//! Blocks that are a little ahead of the clock: kept by the writer until their time has come.
//!
//! Clocks differ by some seconds. A block that is at most [`AHEAD_SECS_MAX`] ahead is checked as
//! far as its header tells, and waits. Its seal is right, so waiting here has cost its maker work.
//! The block is imported when the clock has reached its timestamp. Knows blocks and times; the
//! writer decides when to look.

use primitives::{B256, Block, Header};

use super::BlockOrigin;

/// The longest time that a block may be ahead of the clock, in seconds.
pub const AHEAD_SECS_MAX: u64 = 15;
/// The most blocks that wait.
const EARLY_BLOCKS_MAX: usize = 64;
/// The most bytes of blocks that wait, in their encoded form.
const EARLY_BYTES_MAX: usize = 16 << 20;

/// A block that waits for its time.
#[derive(Debug)]
pub(super) struct EarlyBlock {
    pub(super) block: Box<Block>,
    pub(super) origin: BlockOrigin,
    hash: B256,
    bytes: usize,
}

/// The blocks that wait for their time, the earliest first. A block comes after its parent, because
/// its timestamp is higher.
#[derive(Debug, Default)]
pub(super) struct EarlyBlocks {
    blocks: Vec<EarlyBlock>,
    bytes: usize,
}

/// There is no space for another block that is ahead of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "blocks ahead of the clock: got {blocks} with {bytes} bytes, expected at most {EARLY_BLOCKS_MAX} with {EARLY_BYTES_MAX} bytes"
)]
pub struct TooManyEarlyBlocks {
    /// The number of blocks that there would be.
    pub blocks: usize,
    /// The number of bytes that they would have.
    pub bytes: usize,
}

impl EarlyBlocks {
    /// The header of the waiting block `hash`.
    pub(super) fn header(&self, hash: &B256) -> Option<&Header> {
        let found = self.blocks.iter().find(|early| early.hash == *hash);
        found.map(|early| &early.block.header)
    }

    /// Whether no block waits.
    pub(super) const fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Keeps a block until its time has come. A block that waits already does not wait twice.
    ///
    /// # Errors
    /// [`TooManyEarlyBlocks`] if there is no space for it.
    pub(super) fn keep(&mut self, block: Box<Block>, origin: BlockOrigin) -> Result<(), TooManyEarlyBlocks> {
        let hash = block.hash();
        if self.header(&hash).is_some() {
            return Ok(());
        }
        let bytes = block.encode().len();
        let full = TooManyEarlyBlocks {
            blocks: self.blocks.len() + 1,
            bytes: self.bytes + bytes,
        };
        if full.blocks > EARLY_BLOCKS_MAX || full.bytes > EARLY_BYTES_MAX {
            return Err(full);
        }
        let at = self
            .blocks
            .partition_point(|early| early.block.header.timestamp <= block.header.timestamp);
        let early = EarlyBlock {
            block,
            origin,
            hash,
            bytes,
        };
        self.blocks.insert(at, early);
        self.bytes += bytes;
        Ok(())
    }

    /// Takes out the first block whose time has come. `now` is the clock in unix seconds.
    pub(super) fn take_due(&mut self, now: u64) -> Option<EarlyBlock> {
        let first = self.blocks.first()?;
        if first.block.header.timestamp > now {
            return None;
        }
        let due = self.blocks.remove(0);
        self.bytes -= due.bytes;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(timestamp: u64, extra: usize) -> Box<Block> {
        let header = Header {
            timestamp,
            extra_data: vec![7; extra].into(),
            ..Default::default()
        };
        Box::new(Block {
            header,
            ..Default::default()
        })
    }

    #[test]
    fn blocks_come_out_in_order_when_their_time_has_come() {
        let mut early = EarlyBlocks::default();
        for timestamp in [12, 10, 11, 10] {
            early.keep(block(timestamp, 0), BlockOrigin::Imported).unwrap();
        }
        let parent = block(11, 0);
        assert_eq!(early.header(&parent.hash()), Some(&parent.header));
        assert!(early.take_due(9).is_none());
        let mut due = |now| early.take_due(now).map(|early| early.block.header.timestamp);
        assert_eq!([due(10), due(10)], [Some(10), None]);
        assert_eq!([due(20), due(20), due(20)], [Some(11), Some(12), None]);
        assert!(early.is_empty());
        assert_eq!(early.bytes, 0);
    }

    #[test]
    fn blocks_are_bounded_in_number_and_bytes() {
        let mut early = EarlyBlocks::default();
        for timestamp in 1..=EARLY_BLOCKS_MAX as u64 {
            early.keep(block(timestamp, 0), BlockOrigin::Imported).unwrap();
        }
        let full = early.keep(block(99, 0), BlockOrigin::Imported).unwrap_err();
        assert_eq!(full.blocks, EARLY_BLOCKS_MAX + 1);
        assert!(early.take_due(1).is_some());
        early.keep(block(99, 0), BlockOrigin::Imported).unwrap();
        assert!(early.take_due(2).is_some());
        let full = early.keep(block(99, EARLY_BYTES_MAX), BlockOrigin::Imported);
        assert!(full.unwrap_err().bytes > EARLY_BYTES_MAX);
    }
}
