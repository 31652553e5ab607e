//! Reading rows by key, from a snapshot or from an open write transaction.
//!
//! All typed reads are built on the three reads of [`Source`]. So code that reads state or blocks
//! is written once and works on both.

use std::ops::ControlFlow;

use crate::blocks_file::AncientFile;
use crate::{StoreError, TableId};

/// A source of rows: keys and values are byte strings.
pub trait Source {
    /// Calls `read` with the value under `key` and returns its result; `None` if there is no such
    /// row.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError>;

    /// Calls `read` with the row that has the highest key in `low..=high`; `None` if there is no
    /// row in that range.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError>;

    /// Calls `visit` with each row from `low` on, sorted by key, until it breaks.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// The file with the old blocks that the rows name.
    fn ancient_file(&self) -> &AncientFile;

    /// A copy of the value under `key`; `None` if there is no such row.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(table, key, <[u8]>::to_vec)
    }
}

/// Reads from the shared source.
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

    fn ancient_file(&self) -> &AncientFile {
        (**self).ancient_file()
    }
}

/// The three reads on any redb table.
///
/// `read` and `visit` of the caller run outside the monitored call: a panic in them is the
/// caller's, not redb's. redb decodes keys and values lazily and may panic on damaged bytes. So
/// each row is decoded once inside the monitored call; after that decoding it again cannot panic.
pub(crate) mod rows {
    use redb::{AccessGuard, ReadableTable, StorageError};

    use super::{ControlFlow, StoreError};
    use crate::monitor::CallMonitor;
    use crate::tables::ByteSlice;

    /// Key and value of a row, as redb lends them.
    type RowGuards<'a> = (AccessGuard<'a, ByteSlice>, AccessGuard<'a, ByteSlice>);

    /// Decodes key and value once, so that a panic happens here.
    fn decoded(
        row: Option<Result<RowGuards<'_>, StorageError>>,
    ) -> Result<Option<RowGuards<'_>>, StorageError> {
        row.transpose().inspect(|row| {
            if let Some((key, value)) = row {
                let _ = (key.value(), value.value());
            }
        })
    }

    pub(crate) fn with<R>(
        monitor: &CallMonitor,
        table: &impl ReadableTable<ByteSlice, ByteSlice>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let get = || {
            table.get(key).inspect(|row| {
                let _ = row.as_ref().map(AccessGuard::value);
            })
        };
        Ok(monitor.run(get)?.map(|row| read(row.value())))
    }

    pub(crate) fn with_last<R>(
        monitor: &CallMonitor,
        table: &impl ReadableTable<ByteSlice, ByteSlice>,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let last = || decoded(table.range::<&[u8]>(low..=high)?.next_back());
        Ok(monitor
            .run(last)?
            .map(|(key, value)| read(key.value(), value.value())))
    }

    pub(crate) fn scan(
        monitor: &CallMonitor,
        table: &impl ReadableTable<ByteSlice, ByteSlice>,
        low: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut range = monitor.run(|| table.range::<&[u8]>(low..))?;
        while let Some((key, value)) = monitor.run(|| decoded(range.next()))? {
            if visit(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}
