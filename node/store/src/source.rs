//! What a snapshot and an open write transaction have in common: reading bytes by key.
//!
//! Everything typed is built on these three reads, so code that reads state or blocks is
//! written once and runs on either.

use crate::{StoreError, TableId};
use std::ops::ControlFlow;

/// Reads of byte rows.
pub trait Source {
    /// Hands the value under `key` to `read`; `None` where there is no such row.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError>;

    /// Hands the last row with `low <= key <= high` to `read`.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError>;

    /// Hands the rows with `low <= key` in order to `visit` until it breaks or rows end.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// The value under `key`, copied.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(table, key, <[u8]>::to_vec)
    }
}

/// The three reads over any redb table.
pub(crate) mod rows {
    use super::{ControlFlow, StoreError};
    use redb::ReadableTable;

    type Key = &'static [u8];

    pub(crate) fn with<R>(
        table: &impl ReadableTable<Key, Key>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        Ok(table.get(key)?.map(|guard| read(guard.value())))
    }

    pub(crate) fn with_last<R>(
        table: &impl ReadableTable<Key, Key>,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        match table.range::<&[u8]>(low..=high)?.next_back() {
            None => Ok(None),
            Some(row) => {
                let (key, value) = row?;
                Ok(Some(read(key.value(), value.value())))
            }
        }
    }

    pub(crate) fn scan(
        table: &impl ReadableTable<Key, Key>,
        low: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        for row in table.range::<&[u8]>(low..)? {
            let (key, value) = row?;
            if visit(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}
