//! Keeps the trie nodes that the tries of recent states need, in the commit of each block.
//!
//! The nodes before a block follow from the values before it: taking the block back in memory makes
//! them, and the root shows that they are right. So a long import makes none, and neither does a
//! synchronization as long as the best header is far ahead. What is missing afterwards is made from
//! the head downwards, some with each commit, or by [`Importer::make_past_nodes`].
//!
//! The rows are those of the blocks up to the head without a gap, or none. A reader that meets a
//! block without a row knows that the trie of the state before it is not kept.

use store::{
    AncientReads, BlockReads, HeaderReads, HorizonReads, PastNodeReads, StateReads, StoreError, Tables,
};

use super::super::Importer;
use super::super::block::read_header;
use crate::state::nodes_before_block;
use crate::trie::PastTries;

/// The number of states whose tries can be read, that of the head included.
pub const KEPT_TRIES: u64 = 128;
/// The most blocks whose past nodes one commit makes. After a commit of more blocks there are none.
pub(in crate::import) const PAST_NODES_A_COMMIT: usize = 32;

impl Importer {
    /// Makes the past nodes that a commit is to make, and removes those that are too old. A commit
    /// of a long import makes none, and none stay. Returns `true` if none are missing.
    pub(in crate::import) fn keep_past_nodes(
        &self,
        tables: &mut Tables<'_>,
        is_long: bool,
    ) -> Result<bool, StoreError> {
        let Some((head, _)) = tables.head()? else {
            return Ok(true);
        };
        let mut stored = tables.past_nodes_range()?;
        let new = stored.map_or(0, |(_, last)| head.saturating_sub(last));
        if (is_long || new > PAST_NODES_A_COMMIT as u64)
            && let Some((first, last)) = stored.take()
        {
            tables.delete_past_nodes(first, last)?;
        }
        if is_long {
            return Ok(false);
        }
        let lowest = lowest_kept(tables, head)?;
        if let Some((first, last)) = stored.filter(|(first, _)| *first < lowest) {
            tables.delete_past_nodes(first, last.min(lowest - 1))?;
            stored = (last >= lowest).then_some((lowest, last));
        }
        let (mut number, mut tries) = (head, PastTries::default());
        let mut left = PAST_NODES_A_COMMIT;
        while number >= lowest {
            let is_stored = match stored {
                Some((first, last)) if first == lowest && number <= last => return Ok(true),
                Some((first, last)) => (first..=last).contains(&number),
                None => false,
            };
            if !is_stored {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
            }
            match step_down(tables, number, &mut tries, is_stored) {
                Ok(()) => {}
                // Blocks are imported all the same. Missing are these proofs, and reorganizations
                // that take the block back.
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%error, number, "trie nodes before this block cannot be made");
                    if let Some((first, _)) = stored {
                        tables.delete_past_nodes(first, number)?;
                    }
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
            number -= 1;
        }
        Ok(true)
    }

    /// Makes all past nodes that are missing. The caller must be the only one who imports.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails or is damaged. What was committed before stays.
    pub fn make_past_nodes(&self) -> Result<(), StoreError> {
        let view = self.store.snapshot()?;
        let head = view.head()?.map_or(0, |(head, _)| head);
        let lowest = lowest_kept(&*view, head)?;
        if lowest > head || view.past_nodes_range()? == Some((lowest, head)) {
            return Ok(());
        }
        drop(view);
        loop {
            let batch = self.store.batch()?;
            if batch.write(|tables| self.keep_past_nodes(tables, false))? {
                return batch.commit();
            }
            batch.commit()?;
        }
    }
}

/// The lowest block whose past nodes are kept, above the head if there is none. Storages that
/// blocks of the blocks file have destroyed have no trie nodes any more.
fn lowest_kept(
    source: &(impl HorizonReads + AncientReads + HeaderReads),
    head: u64,
) -> Result<u64, StoreError> {
    let horizon = source.state_horizon()?;
    // Headers whose blocks are yet to come: the states of blocks far below them are soon too old.
    let newest = source.best_header()?.map_or(head, |(number, _)| number.max(head));
    let oldest = (newest + 2).saturating_sub(KEPT_TRIES).max(1);
    let oldest = oldest.max(source.ancient_count()?);
    Ok(oldest
        .max(horizon.first_changes)
        .max(horizon.block.saturating_add(1)))
}

/// Goes on from the state after block `number` to the state before it. Stores the nodes of that
/// state, if they are not stored.
fn step_down(
    tables: &mut Tables<'_>,
    number: u64,
    tries: &mut PastTries,
    is_stored: bool,
) -> Result<(), StoreError> {
    let changes = tables.changes(number)?;
    let stored = if is_stored {
        tables.past_nodes(number)?
    } else {
        None
    };
    let nodes = match stored {
        Some(nodes) => nodes,
        None => {
            let root = |number: u64| {
                let hash = tables.canonical_hash(number)?.unwrap_or_default();
                Ok::<_, StoreError>(read_header(tables, number, &hash)?.header.state_root)
            };
            let (root, parent_root) = (root(number)?, root(number.saturating_sub(1))?);
            let nodes = nodes_before_block(&tries.over(&*tables), number, &changes, root, parent_root)?;
            tables.put_past_nodes(number, &nodes)?;
            nodes
        }
    };
    tries.take_back(&changes, nodes);
    Ok(())
}
