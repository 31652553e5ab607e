//! Past states that are not kept: the horizon, and the removal of what only older states need.
//!
//! The horizon is the oldest block whose state can be read. Reading the state after block N needs
//! what the blocks above N changed. So when the horizon moves to block N,
//!
//! - the list of what block N changed goes;
//! - older rows of [`TableId::StateHistory`] go if they list no block above N;
//! - the trie nodes before block N go, if they are kept ([`super::past_nodes`]);
//! - slots whose last change was in block N go if they are zero;
//! - storages that block N destroyed go ([`super::dead_storages`]).
//!
//! Each account and each slot is looked at when the horizon reaches a block that changed it, so
//! nothing else has to be searched. A block may have changed more than a batch should look at. Then
//! the horizon is at that block already, its list stays, and the next batch goes on with it.
//!
//! Blocks up to the horizon may still be listed in rows of accounts and slots. Nobody reads these
//! numbers.

use super::history::read_state_row;
use super::{AccountKey, StateChanges, StateKind, StateReads};
use crate::codec::RowReader;
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::tables::meta_key;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

/// Which states are kept, and how far the removal of the others is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateHorizon {
    /// The oldest block whose state can be read.
    pub block: u64,
    /// The lowest block whose list of changes is stored.
    pub first_changes: u64,
    /// The number of accounts and slots of that list that were looked at already.
    pub(super) looked_at: u64,
}

impl StateHorizon {
    fn encode(&self) -> Vec<u8> {
        [self.block, self.first_changes, self.looked_at]
            .map(u64::to_be_bytes)
            .concat()
    }

    fn decode(row: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(row);
        let mut number = || reader.array().map(u64::from_be_bytes);
        let horizon = Self {
            block: number()?,
            first_changes: number()?,
            looked_at: number()?,
        };
        reader.finish()?;
        let bound = horizon.block.saturating_add(1);
        if horizon.first_changes > bound {
            return Err(RowError::Above {
                field: "block of the first list of changes",
                got: horizon.first_changes,
                bound,
            });
        }
        Ok(horizon)
    }
}

/// Reads of the horizon.
pub trait HorizonReads: Source + Sized {
    /// Which states are kept.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn state_horizon(&self) -> Result<StateHorizon, StoreError> {
        let row = read_row(self, TableId::Meta, meta_key::STATE_HORIZON, StateHorizon::decode)?;
        Ok(row.unwrap_or_default())
    }
}

impl<S: Source> HorizonReads for S {}

impl Tables<'_> {
    /// Moves the horizon up to block `target`, which is not above the head, and removes what only
    /// older states need. Looks at `keys_max` accounts and slots at most, and always at one.
    /// Returns `true` when nothing is left to do.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails or a row is corrupt.
    pub fn prune_states(&mut self, target: u64, keys_max: usize) -> Result<bool, StoreError> {
        let before = self.state_horizon()?;
        let mut now = before;
        let mut left = keys_max.max(1);
        while left > 0 && now.first_changes <= target {
            let number = now.first_changes;
            now.block = now.block.max(number);
            // Rows that are written from here on do not list older blocks.
            self.put_horizon(&now)?;
            self.delete_past_nodes(number, number)?;
            let looked_at = if number == 0 {
                // Block 0 is the first change of everything that it has.
                None
            } else {
                let changes = self.changes(number)?;
                if now.looked_at == 0 {
                    self.note_dead_storages(number, &changes, true)?;
                }
                self.prune_block(number, &changes, now.looked_at, &mut left)?
            };
            match looked_at {
                Some(looked_at) => now.looked_at = looked_at,
                None => {
                    self.delete(TableId::BlockToChanges, &number.to_be_bytes())?;
                    now.first_changes = number + 1;
                    now.looked_at = 0;
                    left = left.saturating_sub(1);
                }
            }
        }
        if now != before {
            self.put_horizon(&now)?;
        }
        Ok(now.first_changes > target)
    }

    pub(super) fn put_horizon(&mut self, horizon: &StateHorizon) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::STATE_HORIZON, &horizon.encode())
    }

    /// Removes what only states before block `number` need of the accounts and slots that the block
    /// changed, from the one with index `from` on. Returns the index to go on with; `None` at the
    /// end.
    fn prune_block(
        &mut self,
        number: u64,
        changes: &StateChanges,
        from: u64,
        left: &mut usize,
    ) -> Result<Option<u64>, StoreError> {
        let accounts = changes
            .accounts
            .iter()
            .map(|(address, _)| (StateKind::Account, AccountKey::of(address).0.to_vec()));
        let slots = changes.slots.iter();
        let slots = slots.map(|change| (StateKind::Slot, change.row_key().to_bytes().to_vec()));
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        for (index, (kind, key)) in accounts.chain(slots).enumerate().skip(skipped) {
            if *left == 0 {
                return Ok(Some(index as u64));
            }
            *left -= 1;
            self.prune_key(kind, &key, number)?;
        }
        Ok(None)
    }

    /// Removes what only states before block `number` need of an account or a slot.
    fn prune_key(&mut self, kind: StateKind, key: &[u8], number: u64) -> Result<(), StoreError> {
        let found = read_state_row(self, kind, key, |row| {
            let is_zero = kind == StateKind::Slot && row.value.is_empty();
            Ok((row.has_older(), is_zero && row.next_change(number)?.is_none()))
        })?;
        // A slot of a destroyed storage may be gone already.
        let Some((table, (has_older, is_gone))) = found else {
            return Ok(());
        };
        if has_older {
            self.delete_older(kind, key, number)?;
        }
        if is_gone {
            self.delete(table, key)?;
        }
        Ok(())
    }
}
