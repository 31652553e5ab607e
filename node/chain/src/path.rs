//! The path from a block that a follower of the chain knows to the head: which blocks to take
//! back, which to apply.
//!
//! Normally the path goes down to the last canonical block and up again. A follower may also know
//! a block that was deleted since, because the head was set back. Then its parent is not known
//! any more, and the path continues at the highest canonical block below it.

use primitives::B256;
use store::{StoreError, TableId};

use crate::import::BlockId;
use crate::view::View;

/// A path from a block to the head, or the first part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPath {
    /// Blocks that are no longer canonical, highest first.
    pub reverted: Vec<BlockId>,
    /// Blocks that became canonical, lowest first.
    pub applied: Vec<BlockId>,
    /// The block that the path leads to: the head, unless the path was cut short.
    pub end: BlockId,
    /// Whether a block of `reverted` was deleted. Then blocks below it may be missing in
    /// `reverted`.
    pub crosses_deleted: bool,
}

/// The block that comes below another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockBelow {
    /// The parent.
    Parent(BlockId),
    /// The block was deleted: this is the highest canonical block below its number.
    Canonical(BlockId),
}

impl BlockBelow {
    /// Number and hash of the block below.
    pub const fn id(&self) -> BlockId {
        match self {
            Self::Parent(id) | Self::Canonical(id) => *id,
        }
    }
}

impl View {
    /// The path from the block `from` to the head, of at most `blocks_max` blocks.
    ///
    /// `set_back_to` is the lowest block that the head may have been set back to since `from` was
    /// the head, if it may have been. Blocks above it may have been replaced.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, or if no canonical block is found.
    pub fn path_to_head(
        &self,
        from: BlockId,
        set_back_to: Option<u64>,
        blocks_max: usize,
    ) -> Result<ChainPath, StoreError> {
        let mut path = ChainPath {
            reverted: Vec::new(),
            applied: Vec::new(),
            end: from,
            crosses_deleted: false,
        };
        while self.canonical_hash(path.end.number)? != Some(path.end.hash) {
            if path.reverted.len() == blocks_max {
                return Ok(path);
            }
            path.reverted.push(path.end);
            path.end = match self.block_below(&path.end)? {
                BlockBelow::Parent(id) => id,
                BlockBelow::Canonical(id) => {
                    path.crosses_deleted = true;
                    self.canonical_id(set_back_to.map_or(id.number, |number| number.min(id.number)))?
                }
            };
        }
        while path.end.number < self.head_number() && path.reverted.len() + path.applied.len() < blocks_max {
            path.end = self.canonical_id(path.end.number + 1)?;
            path.applied.push(path.end);
        }
        Ok(path)
    }

    /// The block below `id`, which is or was canonical.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, or if `id` is a block 0 that is not canonical.
    pub fn block_below(&self, id: &BlockId) -> Result<BlockBelow, StoreError> {
        let Some(number) = id.number.checked_sub(1) else {
            let reason = format!("block 0 is not canonical: {}", id.hash);
            return Err(StoreError::corrupt(TableId::NumberToHash, &[0; 8], reason));
        };
        if let Some(record) = self.header_by_hash(&id.hash)? {
            let hash = record.header.parent_hash;
            return Ok(BlockBelow::Parent(BlockId { number, hash }));
        }
        let below = self.canonical_id(number.min(self.head_number()))?;
        Ok(BlockBelow::Canonical(below))
    }

    /// The canonical block `number`, which is not above the head.
    fn canonical_id(&self, number: u64) -> Result<BlockId, StoreError> {
        let hash: B256 = self.canonical_hash(number)?.ok_or_else(|| {
            let key = number.to_be_bytes();
            StoreError::corrupt(TableId::NumberToHash, &key, "no such row")
        })?;
        Ok(BlockId { number, hash })
    }
}
