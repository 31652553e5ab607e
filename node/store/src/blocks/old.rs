//! Removing the oldest blocks of a chain that does not keep all.

use primitives::TxRules;

use super::{BlockReads, position_hashes};
use crate::codec::block_key;
use crate::row_error::RowError;
use crate::write_tables::Tables;
use crate::{LogKey, StoreError, TableId};

impl Tables<'_> {
    /// Removes canonical blocks above block 0 and below `target`, the oldest first, at most `most`,
    /// but for those in `keep`: headers, bodies, receipts, the places of transactions, and rows of
    /// the log index that name no later block. Parts that are in the blocks file stay there.
    /// Returns `true` when nothing is left to do.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails or a row is corrupt.
    pub fn delete_old_blocks(
        &mut self,
        target: u64,
        keep: &[u64],
        most: usize,
        rules: TxRules,
    ) -> Result<bool, StoreError> {
        let mut at = self.first_block()?.max(1);
        let before = at;
        let mut is_done = false;
        for _ in 0..most {
            let Some(number) = self.next_block(at)?.filter(|number| *number < target) else {
                is_done = true;
                break;
            };
            if !keep.contains(&number) {
                self.delete_old_block(number, rules)?;
            }
            at = number + 1;
        }
        if at != before {
            self.put_first_block(at)?;
        }
        Ok(is_done)
    }

    fn delete_old_block(&mut self, number: u64, rules: TxRules) -> Result<(), StoreError> {
        let key = number.to_be_bytes();
        let hash = self.canonical_hash(number)?;
        let hash = hash.ok_or_else(|| RowError::Missing.in_row(TableId::NumberToHash, &key))?;
        let body = self.body(number, &hash, rules)?.unwrap_or_default();
        for (_, hash) in position_hashes(number, &body.transactions) {
            self.change_positions(&hash, |positions| {
                positions.retain(|position| position.block_number != number);
            })?;
        }
        let receipts = self.receipts(number, &hash)?.unwrap_or_default();
        for key in LogKey::of_receipts(&receipts) {
            self.drop_old_log_row(&key, number)?;
        }
        self.delete_block(&block_key(number, &hash))?;
        self.delete(TableId::NumberToHash, &key)
    }
}
