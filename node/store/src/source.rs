//! What a snapshot and an open write transaction have in common: reading bytes by key.
//!
//! Everything typed is built on these three reads, so code that reads state or blocks is
//! written once and runs on either.

use std::ops::ControlFlow;

use crate::{StoreError, TableId};

/// Reads of byte rows.
pub trait Source {
    /// Hands the value under `key` to `read`; `None` where there is no such row.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError>;

    /// Hands the last row with `low <= key <= high` to `read`.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
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
    /// [`StoreError`] when the medium fails.
    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// The value under `key`, copied.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(table, key, <[u8]>::to_vec)
    }
}

/// Whoever shares a source reads it.
impl<S: Source> Source for std::sync::Arc<S> {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        (**self).with(table, key, read)
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        (**self).with_last(table, low, high, read)
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        (**self).scan(table, low, visit)
    }
}

/// The three reads over any redb table.
///
/// What a caller does with a row is not the database's affair, so it runs outside of what is
/// guarded. Rows are looked at once within: what does not panic there does not panic later.
pub(crate) mod rows {
    use redb::{AccessGuard, ReadableTable, StorageError};

    use super::{ControlFlow, StoreError};
    use crate::store::Watch;

    type Key = &'static [u8];
    type Row<'a> = (AccessGuard<'a, Key>, AccessGuard<'a, Key>);

    fn looked_at(row: Option<Result<Row<'_>, StorageError>>) -> Result<Option<Row<'_>>, StorageError> {
        row.transpose().inspect(|row| {
            if let Some((key, value)) = row {
                let _ = (key.value(), value.value());
            }
        })
    }

    pub(crate) fn with<R>(
        watch: &Watch,
        table: &impl ReadableTable<Key, Key>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let get = || {
            table.get(key).inspect(|row| {
                let _ = row.as_ref().map(AccessGuard::value);
            })
        };
        Ok(watch.run(get)?.map(|row| read(row.value())))
    }

    pub(crate) fn with_last<R>(
        watch: &Watch,
        table: &impl ReadableTable<Key, Key>,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let last = || looked_at(table.range::<&[u8]>(low..=high)?.next_back());
        Ok(watch
            .run(last)?
            .map(|(key, value)| read(key.value(), value.value())))
    }

    pub(crate) fn scan(
        watch: &Watch,
        table: &impl ReadableTable<Key, Key>,
        low: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut range = watch.run(|| table.range::<&[u8]>(low..))?;
        while let Some((key, value)) = watch.run(|| looked_at(range.next()))? {
            if visit(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}
