//! Removes side blocks at heights that move into the blocks file, unless their branch goes on
//! above.
//!
//! A branch that has blocks above the moved heights may still become the canonical chain, so all of
//! its blocks stay. They are removed when the heights of its last blocks move.

use std::ops::ControlFlow;

use primitives::B256;

use super::{BlockReads, HeaderRecord};
use crate::codec::block_key;
use crate::source::Source;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

/// A stored block that is not canonical.
struct SideBlock {
    hash: B256,
    parent: B256,
}

impl Tables<'_> {
    /// Removes the side blocks with the numbers `first` to `last` that no stored block above `last`
    /// builds on, and the blocks below them that only they built on.
    pub(crate) fn delete_dead_branches(&mut self, first: u64, last: u64) -> Result<(), StoreError> {
        let Some(above) = last.checked_add(1) else {
            return Ok(());
        };
        let mut parents: Vec<B256> = self
            .side_blocks(above)?
            .into_iter()
            .map(|block| block.parent)
            .collect();
        let mut below = Vec::new();
        for number in (first..=last).rev() {
            let (alive, dead): (Vec<_>, Vec<_>) = self
                .side_blocks(number)?
                .into_iter()
                .partition(|block| parents.contains(&block.hash));
            for block in dead {
                self.delete_block(number, &block.hash)?;
                if number == first {
                    below.push(block.parent);
                }
            }
            parents = alive.into_iter().map(|block| block.parent).collect();
        }
        let Some(below_first) = first.checked_sub(1) else {
            return Ok(());
        };
        for parent in below {
            self.delete_childless(below_first, parent)?;
        }
        Ok(())
    }

    /// Removes the side block `hash` with this number if no block builds on it, then its parent in
    /// the same way, and so on.
    fn delete_childless(&mut self, mut number: u64, mut hash: B256) -> Result<(), StoreError> {
        loop {
            let sides = self.side_blocks(number)?;
            let Some(block) = sides.into_iter().find(|block| block.hash == hash) else {
                return Ok(());
            };
            let children = self.side_blocks(number + 1)?;
            if children.iter().any(|child| child.parent == hash) {
                return Ok(());
            }
            self.delete_block(number, &hash)?;
            let Some(parent_number) = number.checked_sub(1) else {
                return Ok(());
            };
            (number, hash) = (parent_number, block.parent);
        }
    }

    /// The side blocks with this number.
    fn side_blocks(&self, number: u64) -> Result<Vec<SideBlock>, StoreError> {
        let canonical = self.canonical_hash(number)?;
        let mut blocks = Vec::new();
        let mut corrupt = Ok(());
        self.scan(
            TableId::BlockToHeader,
            &block_key(number, &B256::ZERO),
            |key, row| {
                let Some(hash) = key.strip_prefix(&number.to_be_bytes()) else {
                    return ControlFlow::Break(());
                };
                let block = <[u8; 32]>::try_from(hash)
                    .map_err(|_| format!("key: got {} bytes, expected 40", key.len()))
                    .and_then(|hash| Ok((B256::from(hash), HeaderRecord::decode(row)?)));
                match block {
                    Ok((hash, _)) if Some(hash) == canonical => {}
                    Ok((hash, record)) => blocks.push(SideBlock {
                        hash,
                        parent: record.header.parent_hash,
                    }),
                    Err(reason) => {
                        corrupt = Err(StoreError::corrupt(TableId::BlockToHeader, key, reason));
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            },
        )?;
        corrupt.map(|()| blocks)
    }
}
