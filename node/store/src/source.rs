//! Reading rows by key, from a snapshot or from an open write transaction.
//!
//! All typed reads are built on the three reads of [`Source`]. So code that reads state or blocks
//! is written once and works on both.

use std::ops::ControlFlow;

use crate::blocks_file::AncientFile;
use crate::row_error::RowError;
use crate::{StoreError, TableId};

/// Takes a key and its value. Says whether the walk over the rows goes on.
pub type RowVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A source of rows: keys and values are byte strings.
///
/// The required reads take `dyn` functions, so that redb is compiled once, in this package.
pub trait Source {
    /// Calls `read` with the value under `key`, if there is such a row.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn visit(&self, table: TableId, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), StoreError>;

    /// Calls `read` with the row that has the highest key in `low..=high`, if that range has a
    /// row.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn visit_last(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError>;

    /// Calls `visit` with each row from `low` on, sorted by key, until it breaks.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn visit_from(&self, table: TableId, low: &[u8], visit: &mut RowVisitor<'_>) -> Result<(), StoreError>;

    /// The file with the old blocks that the rows name.
    fn ancient_file(&self) -> &AncientFile;

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
    ) -> Result<Option<R>, StoreError>
    where
        Self: Sized,
    {
        let (mut read, mut result) = (Some(read), None);
        self.visit(table, key, &mut |row| result = read.take().map(|read| read(row)))?;
        Ok(result)
    }

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
    ) -> Result<Option<R>, StoreError>
    where
        Self: Sized,
    {
        let (mut read, mut result) = (Some(read), None);
        self.visit_last(table, low, high, &mut |key, value| {
            result = read.take().map(|read| read(key, value));
        })?;
        Ok(result)
    }

    /// Calls `visit` with each row from `low` on, sorted by key, until it breaks.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        self.visit_from(table, low, &mut visit)
    }

    /// A copy of the value under `key`; `None` if there is no such row.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>
    where
        Self: Sized,
    {
        self.with(table, key, <[u8]>::to_vec)
    }
}

/// Reads from the shared source.
impl<S: Source> Source for std::sync::Arc<S> {
    fn visit(&self, table: TableId, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        (**self).visit(table, key, read)
    }

    fn visit_last(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        (**self).visit_last(table, low, high, read)
    }

    fn visit_from(&self, table: TableId, low: &[u8], visit: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        (**self).visit_from(table, low, visit)
    }

    fn ancient_file(&self) -> &AncientFile {
        (**self).ancient_file()
    }
}

/// Reads from a source of any kind.
impl Source for &dyn Source {
    fn visit(&self, table: TableId, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        (**self).visit(table, key, read)
    }

    fn visit_last(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        (**self).visit_last(table, low, high, read)
    }

    fn visit_from(&self, table: TableId, low: &[u8], visit: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        (**self).visit_from(table, low, visit)
    }

    fn ancient_file(&self) -> &AncientFile {
        (**self).ancient_file()
    }
}

/// Decodes the row under `key`; `None` if there is no such row.
///
/// # Errors
/// [`StoreError`] when the read fails or the row is corrupt.
pub(crate) fn read_row<T>(
    source: &impl Source,
    table: TableId,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, RowError>,
) -> Result<Option<T>, StoreError> {
    let row = source.with(table, key, decode)?;
    row.transpose().map_err(|error| error.in_row(table, key))
}

/// The three reads on any redb table.
///
/// `read` and `visit` of the caller run outside the monitored call: a panic in them is the
/// caller's, not redb's. redb decodes keys and values lazily and may panic on damaged bytes. So
/// each row is decoded once inside the monitored call; after that decoding it again cannot panic.
pub(crate) mod rows {
    use redb::{AccessGuard, ReadableTable, StorageError};

    use super::{RowVisitor, StoreError};
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

    pub(crate) fn visit(
        monitor: &CallMonitor,
        table: &impl ReadableTable<ByteSlice, ByteSlice>,
        key: &[u8],
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), StoreError> {
        let get = || {
            table.get(key).inspect(|row| {
                let _ = row.as_ref().map(AccessGuard::value);
            })
        };
        if let Some(row) = monitor.run(get)? {
            read(row.value());
        }
        Ok(())
    }

    pub(crate) fn visit_last(
        monitor: &CallMonitor,
        table: &impl ReadableTable<ByteSlice, ByteSlice>,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let last = || decoded(table.range::<&[u8]>(low..=high)?.next_back());
        if let Some((key, value)) = monitor.run(last)? {
            read(key.value(), value.value());
        }
        Ok(())
    }

    pub(crate) fn visit_from(
        monitor: &CallMonitor,
        table: &impl ReadableTable<ByteSlice, ByteSlice>,
        low: &[u8],
        visit: &mut RowVisitor<'_>,
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
