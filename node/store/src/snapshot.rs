//! Reading: one moment of the database, unmoved by later writes.
//!
//! Knows redb and which block is the head; what rows mean is elsewhere.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use primitives::B256;
use redb::{ReadOnlyTable, ReadableTableMetadata};

use crate::StoreError;
use crate::blocks::{BlockReads, HeaderRecord};
use crate::source::{Source, rows};
use crate::store::Watch;
use crate::tables::{TABLE_COUNT, TableId, meta_key};

type Bytes = &'static [u8];

/// A consistent view of one moment. Tables open at first use.
pub struct Snapshot {
    // Tables go before the transaction they are of.
    tables: [OnceLock<ReadOnlyTable<Bytes, Bytes>>; TABLE_COUNT],
    head: OnceLock<Option<Head>>,
    transaction: redb::ReadTransaction,
    watch: Arc<Watch>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// The head block.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its hash.
    pub hash: B256,
    /// Header and total difficulty.
    pub record: Arc<HeaderRecord>,
}

/// Size of one table.
#[derive(Clone, Debug)]
pub struct TableStats {
    /// The table's name.
    pub name: &'static str,
    /// How many rows it has.
    pub rows: u64,
    /// Bytes of keys and values.
    pub stored_bytes: u64,
    /// Bytes of the pages that they lie on.
    pub page_bytes: u64,
}

impl Snapshot {
    /// What `transaction` sees.
    pub(crate) fn new(transaction: redb::ReadTransaction, watch: Arc<Watch>) -> Self {
        Self {
            tables: Default::default(),
            head: OnceLock::new(),
            transaction,
            watch,
        }
    }

    fn table(&self, table: TableId) -> Result<&ReadOnlyTable<Bytes, Bytes>, StoreError> {
        let cell = &self.tables[table as usize];
        if let Some(open) = cell.get() {
            return Ok(open);
        }
        let open = self
            .watch
            .run(|| self.transaction.open_table(table.definition()))?;
        Ok(cell.get_or_init(|| open))
    }

    /// The head block; `None` in a store without blocks. Read once.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the head's header is missing.
    pub fn head_block(&self) -> Result<Option<Head>, StoreError> {
        if let Some(head) = self.head.get() {
            return Ok(head.clone());
        }
        let head = match self.head()? {
            None => None,
            Some((number, hash)) => {
                let record = self.header(number, &hash)?;
                let missing =
                    || StoreError::corrupt(TableId::Meta, meta_key::HEAD, "no header of the head block");
                let record = Arc::new(record.ok_or_else(missing)?);
                Some(Head { hash, record })
            }
        };
        Ok(self.head.get_or_init(|| head).clone())
    }

    /// Rows and bytes of every table.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn stats(&self) -> Result<Vec<TableStats>, StoreError> {
        let one = |table: TableId| {
            let open = self.table(table)?;
            let figures = || Ok::<_, redb::Error>((open.len()?, open.stats()?));
            let (rows, stats) = self.watch.run(figures)?;
            let stored_bytes = stats.stored_bytes();
            Ok(TableStats {
                name: table.name(),
                rows,
                stored_bytes,
                page_bytes: stored_bytes + stats.metadata_bytes() + stats.fragmented_bytes(),
            })
        };
        TableId::ALL.into_iter().map(one).collect()
    }
}

impl Source for Snapshot {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        rows::with(&self.watch, self.table(table)?, key, read)
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        rows::with_last(&self.watch, self.table(table)?, low, high, read)
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        rows::scan(&self.watch, self.table(table)?, low, visit)
    }
}
