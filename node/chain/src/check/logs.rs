//! Checks the log index: it has every canonical block under each key of the block's logs, and no
//! other entries.
//!
//! The first part is checked block by block. For the second, the entries are counted: they are all
//! different, so if their number is right, there are no others.

use std::ops::ControlFlow;

use primitives::{B256, Receipt, hex};
use store::{LogIndexReads, LogKey, StoreError, TableId};

use super::blocks::BlockCheck;
use super::{CheckFault, StoreCheck, guarded};

const TABLE: TableId = TableId::LogKeyToBlocks;

impl BlockCheck<'_> {
    /// Checks that the index has the canonical block `number` under each key of its logs.
    pub(super) fn log_keys(
        &mut self,
        number: u64,
        hash: B256,
        receipts: &[Receipt],
    ) -> Result<(), StoreError> {
        let mut row = Vec::new();
        for key in LogKey::of_logs(receipts.iter().flat_map(|receipt| &receipt.logs)) {
            self.counts.log_entries += 1;
            self.view.log_blocks(&key, number, &mut row)?;
            if row.binary_search(&number).is_err() {
                let expected = format!("an entry under {}", hex::encode(key.as_bytes()));
                self.differs(number, hash, "log index", "none", &expected);
            }
        }
        Ok(())
    }
}

impl StoreCheck<'_> {
    /// Reads the whole index. Its rows must be valid and in order, without blocks above the head,
    /// and have `expected` entries in total.
    pub(super) fn log_index(&mut self, head: u64, expected: u64) {
        let (mut entries, mut faults) = (0, Vec::new());
        let mut previous: Option<(LogKey, u64)> = None;
        let view = self.view;
        let scanned = guarded(TABLE.name(), || {
            view.scan_log_index(|row| {
                match row {
                    Err(error) => faults.push(error.into()),
                    Ok((key, blocks)) => {
                        let first = blocks.first().copied().unwrap_or_default();
                        let last = blocks.last().copied().unwrap_or_default();
                        let row_key = [key.as_bytes().as_slice(), &first.to_be_bytes()].concat();
                        if previous.is_some_and(|(same, last)| same == key && last >= first) {
                            faults.push(CheckFault::row(TABLE, &row_key, "overlaps the previous row"));
                        }
                        if last > head {
                            faults.push(CheckFault::row(
                                TABLE,
                                &row_key,
                                format!("block number: got {last}, expected at most the head's {head}"),
                            ));
                        }
                        entries += blocks.len() as u64;
                        previous = Some((key, last));
                    }
                }
                ControlFlow::Continue(())
            })
        });
        faults.extend(scanned.err());
        if entries != expected {
            faults.push(CheckFault::Entries {
                table: TABLE.name(),
                got: entries,
                expected,
            });
        }
        self.faults(faults);
    }
}
