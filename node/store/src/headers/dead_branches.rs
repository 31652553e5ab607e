//! Removes side blocks at heights that move into the blocks file, unless their branch goes on
//! above.
//!
//! A branch that has blocks above the moved heights may still become the canonical chain, so all of
//! its blocks stay. They are removed when the heights of its last blocks move. The blocks of the
//! best header chain stay, too: the blocks above are being fetched. Headers without bodies go with
//! the block that they build on.

use std::collections::HashMap;

use primitives::B256;

use super::HeaderReads;
use crate::StoreError;
use crate::write_tables::Tables;

impl Tables<'_> {
    /// Removes the side blocks with the numbers `first` to `last` that no stored block above `last`
    /// builds on, and the blocks below them that only they built on.
    pub(crate) fn delete_dead_branches(&mut self, first: u64, last: u64) -> Result<(), StoreError> {
        let Some(above) = last.checked_add(1) else {
            return Ok(());
        };
        let mut parents: Vec<B256> = self
            .side_blocks_at(above)?
            .into_iter()
            .map(|block| block.parent)
            .collect();
        let (mut below, mut removed) = (Vec::new(), Vec::new());
        for number in (first..=last).rev() {
            let best = self.best_hash_beside_chain(number)?;
            let (alive, dead): (Vec<_>, Vec<_>) = self
                .side_blocks_at(number)?
                .into_iter()
                .partition(|block| parents.contains(&block.hash) || best == Some(block.hash));
            for block in dead {
                removed.push(block.hash);
                self.delete_side_block(number, &block.hash)?;
                if number == first {
                    below.push(block.parent);
                }
            }
            parents = alive.into_iter().map(|block| block.parent).collect();
        }
        if let Some(below_first) = first.checked_sub(1) {
            for parent in below {
                self.delete_childless(below_first, parent, &mut removed)?;
            }
        }
        self.delete_bare_headers_on(removed)
    }

    /// Removes the side block `hash` with this number if no block builds on it, then its parent in
    /// the same way, and so on.
    fn delete_childless(
        &mut self,
        mut number: u64,
        mut hash: B256,
        removed: &mut Vec<B256>,
    ) -> Result<(), StoreError> {
        loop {
            if self.best_hash_beside_chain(number)? == Some(hash) {
                return Ok(());
            }
            let sides = self.side_blocks_at(number)?;
            let Some(block) = sides.into_iter().find(|block| block.hash == hash) else {
                return Ok(());
            };
            let children = self.side_blocks_at(number.saturating_add(1))?;
            if children.iter().any(|child| child.parent == hash) {
                return Ok(());
            }
            removed.push(hash);
            self.delete_side_block(number, &hash)?;
            let Some(parent_number) = number.checked_sub(1) else {
                return Ok(());
            };
            (number, hash) = (parent_number, block.parent);
        }
    }

    /// Removes the headers without bodies that build on the `removed` blocks.
    fn delete_bare_headers_on(&mut self, mut removed: Vec<B256>) -> Result<(), StoreError> {
        if removed.is_empty() {
            return Ok(());
        }
        let mut children: HashMap<B256, Vec<B256>> = HashMap::new();
        self.for_each_bare_header(|hash, bare| {
            children.entry(bare.header.parent_hash).or_default().push(hash);
        })?;
        while let Some(parent) = removed.pop() {
            for hash in children.remove(&parent).unwrap_or_default() {
                self.delete_bare_header(&hash)?;
                removed.push(hash);
            }
        }
        Ok(())
    }
}
