//! Rows that wait in memory, so that a batch of many blocks writes them sorted by key.
//!
//! Writing a row whose key is far from the previous one costs a walk down the table's tree and a
//! page of its own. Thousands of rows, written sorted, share walks and pages. Until they are
//! written, reads of the batch find them here. Which tables take part is declared in the list of
//! tables ([`TableInfo::may_wait`](crate::TableInfo::may_wait)). Knows keys and values only.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::source::RowVisitor;
use crate::tables::TABLE_COUNT;
use crate::{StoreError, TableId};

/// Memory of a row beside its bytes, roughly.
const ROW_BYTES: usize = 80;

/// Rows of one table: value by key.
type PendingRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows that are not in their tables yet.
#[derive(Debug, Default)]
pub(crate) struct WaitingRows {
    /// In the order of [`TableId::ALL`].
    tables: [PendingRows; TABLE_COUNT],
    bytes: usize,
}

impl WaitingRows {
    /// Memory that the rows take, in bytes, roughly.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        let old = self.tables[table as usize].insert(key.to_vec(), value.to_vec());
        self.bytes += key.len() + value.len() + ROW_BYTES;
        if let Some(old) = old {
            self.bytes -= key.len() + old.len() + ROW_BYTES;
        }
    }

    pub(crate) fn delete(&mut self, table: TableId, key: &[u8]) {
        if let Some(old) = self.tables[table as usize].remove(key) {
            self.bytes -= key.len() + old.len() + ROW_BYTES;
        }
    }

    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<&[u8]> {
        self.tables[table as usize].get(key).map(Vec::as_slice)
    }

    /// The waiting row with the highest key in `low..=high`.
    pub(crate) fn last(&self, table: TableId, low: &[u8], high: &[u8]) -> Option<(&[u8], &[u8])> {
        let rows = &self.tables[table as usize];
        if rows.is_empty() || low > high {
            return None;
        }
        let range = (Bound::Included(low), Bound::Included(high));
        let (key, value) = rows.range::<[u8], _>(range).next_back()?;
        Some((key, value))
    }

    /// Merges the waiting rows with the stored ones and calls `visit` for each row from `low` on,
    /// sorted by key, until it breaks. A waiting row hides the stored row with the same key.
    ///
    /// `stored` must call its argument for the stored rows from `low` on, sorted by key.
    pub(crate) fn merge(
        &self,
        table: TableId,
        low: &[u8],
        stored: impl FnOnce(&mut RowVisitor<'_>) -> Result<(), StoreError>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), StoreError> {
        let range = (Bound::Included(low), Bound::Unbounded);
        let mut waiting = self.tables[table as usize].range::<[u8], _>(range).peekable();
        let mut ended = false;
        stored(&mut |key, value| {
            let mut visit_up_to_key = || {
                while let Some((before, row)) = waiting.next_if(|(other, _)| other.as_slice() < key) {
                    visit(before, row)?;
                }
                match waiting.next_if(|(other, _)| other.as_slice() == key) {
                    Some((_, newer)) => visit(key, newer),
                    None => visit(key, value),
                }
            };
            let flow = visit_up_to_key();
            ended = flow.is_break();
            flow
        })?;
        if !ended {
            let _ = waiting.try_for_each(|(key, value)| visit(key, value));
        }
        Ok(())
    }

    /// The rows by table, in the order of the tables.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = (TableId, PendingRows)> {
        TableId::ALL.into_iter().zip(self.tables)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{Source, Store, Tables};

    #[test]
    fn waiting_rows_are_read_like_written_ones() {
        use TableId::Account as TABLE;
        let store = Store::in_memory().unwrap();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                for key in [b"a1", b"a3", b"b1", b"c1"] {
                    tables.put(TABLE, key, b"old")?;
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
        let check = |tables: &Tables<'_>| {
            let last = |low: &[u8], high: &[u8]| {
                let row = |key: &[u8], value: &[u8]| [key, value].concat();
                tables.with_last(TABLE, low, high, row).unwrap()
            };
            assert_eq!(last(b"a0", b"a9").unwrap(), b"a5new");
            assert_eq!(last(b"a0", b"a4").unwrap(), b"a3new");
            assert_eq!(last(b"a0", b"a2").unwrap(), b"a1old");
            assert_eq!(last(b"b0", b"b9").unwrap(), b"b1old");
            assert_eq!(last(b"c0", b"c9"), None);
            assert_eq!(tables.get(TABLE, b"a3").unwrap().unwrap(), b"new");
            assert_eq!(tables.get(TABLE, b"c1").unwrap(), None);
            let rows = |low: &[u8], most: usize| {
                let mut rows = Vec::new();
                let visit = |key: &[u8], value: &[u8]| {
                    rows.push([key, value].concat());
                    if rows.len() < most {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                };
                tables.scan(TABLE, low, visit).unwrap();
                rows
            };
            let all = [&b"a1old"[..], b"a3new", b"a5new", b"b1old", b"d1new"];
            assert_eq!(rows(b"", 9), all);
            assert_eq!(rows(b"a2", 9), all[1..]);
            assert_eq!(rows(b"", 2), all[..2]);
            assert_eq!(rows(b"", 3), all[..3]);
        };
        batch
            .write_in_order(|tables| {
                for key in [b"d1", b"a5", b"a3", b"d2"] {
                    tables.put(TABLE, key, b"new")?;
                }
                assert!(tables.waiting_bytes() > 0);
                for key in [b"c1", b"d2"] {
                    tables.delete(TABLE, key)?;
                }
                check(tables);
                Ok::<_, StoreError>(())
            })
            .unwrap();
        batch
            .write(|tables| {
                check(tables);
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }
}
