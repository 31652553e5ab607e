//! The log index: every canonical block under each key of its logs, and nothing else.
//!
//! The first half is asked block by block. For the second the entries are counted: they are
//! distinct, so as many as the blocks call for are exactly those.

use std::ops::ControlFlow;

use primitives::{B256, Receipt, hex};
use store::{LogIndexReads, LogKey, StoreError, TableId};

use super::blocks::BlockCheck;
use super::{CheckFault, StoreCheck, guarded};

const TABLE: TableId = TableId::LogKeyToBlocks;

impl BlockCheck<'_> {
    /// Looks the canonical block `number` up under each key of its logs.
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
    /// Reads the whole index: sound rows, in order, none beyond the head, `expected` entries.
    pub(super) fn log_index(&mut self, head: u64, expected: u64) {
        let (mut entries, mut faults) = (0, Vec::new());
        let mut before: Option<(LogKey, u64)> = None;
        let view = self.view;
        let scanned = guarded(TABLE.name(), || {
            view.scan_log_index(|row| {
                match row {
                    Err(error) => faults.push(error.into()),
                    Ok((key, blocks)) => {
                        let first = blocks.first().copied().unwrap_or_default();
                        let last = blocks.last().copied().unwrap_or_default();
                        let row_key = [key.as_bytes().as_slice(), &first.to_be_bytes()].concat();
                        if before.is_some_and(|(same, last)| same == key && last >= first) {
                            faults.push(CheckFault::row(TABLE, &row_key, "begins within the row before"));
                        }
                        if last > head {
                            faults.push(CheckFault::row(
                                TABLE,
                                &row_key,
                                format!("names block {last}, the head is {head}"),
                            ));
                        }
                        entries += blocks.len() as u64;
                        before = Some((key, last));
                    }
                }
                ControlFlow::Continue(())
            })
        });
        match scanned {
            Ok(Ok(())) => {}
            Ok(Err(error)) => faults.push(error.into()),
            Err(fault) => faults.push(fault),
        }
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
