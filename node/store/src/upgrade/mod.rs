//! Rewrites the file of layout 4, whose accounts and slots stood under addresses and numbers.
//!
//! Each old table of the state is read once. Its rows get their new keys, are sorted in files
//! beside the database ([`sorter`]), and are written to the new tables in the order of the keys.
//! The old tables go at the end, in the commit that writes the new version. After that the file has
//! no tries: the package `chain` builds them, and [`Store::end_upgrade`] says that they are there.
//!
//! A process that dies at any moment loses nothing: the next one goes on behind the last file of
//! sorted rows, or behind the last rows that were written. The rewrite needs as much free space as
//! the tables of the state take, twice: for the sorted files, and for the new tables. It does not
//! begin, or go on, with less.
//!
//! Knows the old layout and the new one; knows no tries and no hashes of blocks.

mod old_rows;
mod sorter;
#[cfg(test)]
mod tests;

use std::path::Path;

use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle,
    WriteTransaction,
};

use crate::medium::free_bytes;
use crate::monitor::CallMonitor;
use crate::open::{DatabaseLocation, FILE_NAME, StoreOptions};
use crate::open_database::{commit_durably, read_position, read_schema, write_position};
use crate::tables::{ByteSlice, SCHEMA_VERSION, TableId, meta_key};
use crate::wal::{LogPosition, row_changes_of};
use crate::{Store, StoreError};
use old_rows::{Converter, OLD_TABLES, OldKind, OldTable, TRIE_TABLE, old_table_by_name};
use sorter::{SortedRow, Sorter};

/// The version of the layout that is rewritten.
const OLD_VERSION: u32 = 4;
/// The folder of the sorted files, beside the database.
const FOLDER: &str = "upgrade";
/// Bytes of rows that are written with one commit.
const BATCH_BYTES: usize = 64 << 20;
/// Bytes of a page of redb.
const PAGE_BYTES: u64 = 4096;
/// Progress is reported once in so many rows.
const REPORT_ROWS: u64 = 8192;

/// The progress of a rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpgradeProgress {
    /// The part: `accounts`, `slots` and so on.
    pub what: &'static str,
    /// The number of rows that were read or written.
    pub done: u64,
    /// The number of all: each row is read once and written once.
    pub total: u64,
}

/// The work that a file needs before it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeState {
    /// Nothing: it has the layout of this program, or there is no file.
    Current,
    /// Its rows were rewritten. The tries are to be built.
    WithoutTries,
}

impl Store {
    /// Rewrites the rows of the database in `directory` if it has the layout before this program's.
    /// The database must not be open. Calls `report` with the progress.
    ///
    /// # Errors
    /// [`StoreError::Schema`] when the file has another layout, newer or older,
    /// [`StoreError::NoSpaceToUpgrade`] when there is too little space, and
    /// [`StoreError::DamagedRun`]; otherwise as for [`Store::open`]. Nothing is lost; the next call
    /// goes on.
    pub fn upgrade(
        directory: &Path,
        options: &StoreOptions,
        report: &mut dyn FnMut(UpgradeProgress),
    ) -> Result<UpgradeState, StoreError> {
        let path = directory.join(FILE_NAME);
        if !path.exists() {
            return Ok(UpgradeState::Current);
        }
        let location = DatabaseLocation::File(path.clone());
        let monitor = CallMonitor::new(path.clone());
        let (database, _) = location.open(options)?;
        let folder = directory.join(FOLDER);
        let (got, unfinished) = read_schema(&database, &monitor)?;
        match got {
            SCHEMA_VERSION => {
                remove_folder(&folder)?;
                return Ok(if unfinished {
                    UpgradeState::WithoutTries
                } else {
                    UpgradeState::Current
                });
            }
            OLD_VERSION => {}
            got => {
                return Err(StoreError::Schema {
                    path,
                    got,
                    expected: SCHEMA_VERSION,
                });
            }
        }
        let upgrade = Upgrade {
            database: &database,
            monitor: &monitor,
            folder: &folder,
            run_bytes: (options.cache_bytes / 2).max(1 << 20),
        };
        std::fs::create_dir_all(&folder).map_err(|source| StoreError::medium(&folder, source))?;
        let free = free_bytes(&folder).map_err(|source| StoreError::medium(&folder, source))?;
        upgrade.check_space(free)?;
        upgrade.apply_log(&location)?;
        for table in &OLD_TABLES {
            upgrade.rewrite(table, report)?;
        }
        upgrade.finish()?;
        drop(database);
        remove_folder(&folder)?;
        Ok(UpgradeState::WithoutTries)
    }

    /// Notes that the tries are built. Until then [`Store::open`] refuses the file, unless
    /// [`StoreOptions::without_tries`] is set.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn end_upgrade(&self) -> Result<(), StoreError> {
        let batch = self.batch()?;
        batch.write(|tables| {
            tables.delete_begun_tries()?;
            tables.delete(TableId::Meta, meta_key::WITHOUT_TRIES)
        })?;
        batch.commit()
    }
}

/// The thing to do with a file of another schema version.
pub(crate) const fn advice(got: u32) -> &'static str {
    match got {
        OLD_VERSION => {
            "start `vnode` or `scs` on it, or run any other command that reads it: that rewrites it for this version"
        }
        _ => "use the program that made the file, or choose a new --datadir",
    }
}

fn remove_folder(folder: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| StoreError::medium(folder, source)),
    }
}

/// Key and value of an old row.
type OldRow = (Vec<u8>, Vec<u8>);

/// A rewrite that runs.
struct Upgrade<'a> {
    database: &'a Database,
    monitor: &'a CallMonitor,
    folder: &'a Path,
    /// Bytes of rows that are sorted at once.
    run_bytes: usize,
}

const fn definition(name: &str) -> TableDefinition<'_, ByteSlice, ByteSlice> {
    TableDefinition::new(name)
}

impl Upgrade<'_> {
    fn begin(&self) -> Result<WriteTransaction, StoreError> {
        self.monitor.run_transaction(|| self.database.begin_write())
    }

    /// Compares the free bytes of the file system with what the rewrite still needs.
    fn check_space(&self, free: u64) -> Result<(), StoreError> {
        // The tables are not measured if they cannot be too long.
        let file = std::fs::metadata(&self.monitor.path);
        let file = file.map_err(|source| StoreError::medium(&self.monitor.path, source))?;
        if free >= file.len().saturating_mul(2) {
            return Ok(());
        }
        let needed = self.needed_bytes()?;
        if free >= needed {
            return Ok(());
        }
        Err(StoreError::NoSpaceToUpgrade {
            path: self.monitor.path.clone(),
            got: free,
            needed,
        })
    }

    /// Bytes that sorted files and new tables still need: those of the old tables for each of both,
    /// less what is there.
    fn needed_bytes(&self) -> Result<u64, StoreError> {
        let mut needed = 0;
        for table in &OLD_TABLES {
            let sorter = Sorter::open(self.folder, table.name)?;
            if sorter.is_written() {
                continue;
            }
            let old = self.table_bytes(table.name)?;
            let mut new = 0;
            for target in table.kind.targets() {
                new += self.table_bytes(target.name())?;
            }
            needed += old.saturating_sub(new);
            if !sorter.is_complete() {
                needed += old.saturating_sub(sorter.run_bytes()?);
            }
        }
        Ok(needed)
    }

    /// Bytes of the pages of a table; 0 if there is none.
    fn table_bytes(&self, name: &str) -> Result<u64, StoreError> {
        self.monitor.run(|| -> Result<u64, redb::Error> {
            match self.database.begin_read()?.open_table(definition(name)) {
                Ok(table) => {
                    let stats = table.stats()?;
                    Ok((stats.leaf_pages() + stats.branch_pages()) * PAGE_BYTES)
                }
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Applies the records of the write-ahead log that the database lacks, with the old tables.
    fn apply_log(&self, location: &DatabaseLocation) -> Result<(), StoreError> {
        let position = read_position(self.database, self.monitor)?;
        let Some((mut log, records)) = location.open_log(position)? else {
            return Ok(());
        };
        if records.is_empty() {
            return Ok(());
        }
        let transaction = self.begin()?;
        for record in &records {
            let bytes = log.read_changes(record)?;
            for change in row_changes_of(&bytes, old_table_by_name) {
                let change = change.map_err(|what| log.damaged_record(record, &what))?;
                let apply = || -> Result<(), redb::Error> {
                    let mut table = transaction.open_table(definition(change.table))?;
                    match change.value {
                        Some(value) => table.insert(change.key, value)?,
                        None => table.remove(change.key)?,
                    };
                    Ok(())
                };
                self.monitor.run(apply)?;
            }
        }
        let position = LogPosition {
            sequence: log.sequence(),
            ..log.next_position()
        };
        write_position(self.monitor, &transaction, position)?;
        commit_durably(self.monitor, transaction)?;
        log.begin_anew(position.sequence)
    }

    /// Sorts the rows of an old table and writes them to the new ones.
    fn rewrite(&self, table: &OldTable, report: &mut dyn FnMut(UpgradeProgress)) -> Result<(), StoreError> {
        let mut sorter = Sorter::open(self.folder, table.name)?;
        if sorter.is_written() {
            return Ok(());
        }
        let rows = self.rows(table.name)?;
        let mut progress = Progress {
            what: table.what,
            done: 0,
            total: 2 * rows,
            report,
        };
        if !sorter.is_complete() {
            self.sort(table, &mut sorter, &mut progress)?;
        }
        progress.done = rows;
        self.write(table.kind, &sorter, &mut progress)?;
        sorter.end()
    }

    fn rows(&self, name: &str) -> Result<u64, StoreError> {
        self.monitor.run(|| -> Result<u64, redb::Error> {
            match self.database.begin_read()?.open_table(definition(name)) {
                Ok(table) => Ok(table.len()?),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn sort(
        &self,
        table: &OldTable,
        sorter: &mut Sorter,
        progress: &mut Progress<'_>,
    ) -> Result<(), StoreError> {
        let mut converter = Converter::default();
        let mut from = sorter.last_read().map(<[u8]>::to_vec);
        loop {
            // A part of the table at a time, so that what redb says of a damaged page is heard.
            let part = self.read_part(table.name, from.as_deref())?;
            let Some((last, _)) = part.last() else { break };
            from = Some(last.clone());
            for (key, value) in part {
                let converted = converter
                    .convert(table.kind, &key, &value)
                    .map_err(|error| StoreError::corrupt_row(table.name, &key, error))?;
                sorter.add(&key, converted, self.run_bytes)?;
                progress.add();
            }
        }
        sorter.complete()
    }

    /// The rows of an old table behind the key `after`, some thousand at most.
    fn read_part(&self, name: &str, after: Option<&[u8]>) -> Result<Vec<OldRow>, StoreError> {
        const PART_ROWS: usize = 4096;
        self.monitor.run(|| -> Result<_, redb::Error> {
            let table = match self.database.begin_read()?.open_table(definition(name)) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                table => table?,
            };
            let low = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let mut part = Vec::new();
            for row in table
                .range::<&[u8]>((low, std::ops::Bound::Unbounded))?
                .take(PART_ROWS)
            {
                let (key, value) = row?;
                part.push((key.value().to_vec(), value.value().to_vec()));
            }
            Ok(part)
        })
    }

    /// Writes the sorted rows to the new tables, behind those that are there.
    fn write(&self, kind: OldKind, sorter: &Sorter, progress: &mut Progress<'_>) -> Result<(), StoreError> {
        let mut last = Vec::new();
        for table in kind.targets() {
            last = last.max(self.last_key(*table)?);
        }
        let mut merged = sorter.merge()?;
        let mut batch = Vec::new();
        let mut bytes = 0;
        loop {
            let row = merged.next()?;
            if bytes >= BATCH_BYTES {
                self.write_batch(&batch)?;
                batch.clear();
                bytes = 0;
            }
            let Some(row) = row else {
                return self.write_batch(&batch);
            };
            progress.add();
            if row.key > last {
                bytes += row.key.len() + row.value.len();
                batch.push(row);
            }
        }
    }

    fn last_key(&self, table: TableId) -> Result<Vec<u8>, StoreError> {
        self.monitor.run(|| -> Result<Vec<u8>, redb::Error> {
            let table = match self.database.begin_read()?.open_table(table.definition()) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                table => table?,
            };
            Ok(table
                .last()?
                .map(|(key, _)| key.value().to_vec())
                .unwrap_or_default())
        })
    }

    fn write_batch(&self, rows: &[SortedRow]) -> Result<(), StoreError> {
        let transaction = self.begin()?;
        let write = || -> Result<(), redb::Error> {
            for id in TableId::ALL {
                let mut rows = rows.iter().filter(|row| row.table == id).peekable();
                if rows.peek().is_none() {
                    continue;
                }
                let mut table = transaction.open_table(id.definition())?;
                for row in rows {
                    table.insert(row.key.as_slice(), row.value.as_slice())?;
                }
            }
            Ok(())
        };
        self.monitor.run(write)?;
        commit_durably(self.monitor, transaction)
    }

    /// Removes the old tables, and writes the new version.
    fn finish(&self) -> Result<(), StoreError> {
        let transaction = self.begin()?;
        let finish = || -> Result<(), redb::Error> {
            let old: Vec<_> = transaction
                .list_tables()?
                .filter(|table| {
                    table.name() == TRIE_TABLE || OLD_TABLES.iter().any(|old| old.name == table.name())
                })
                .collect();
            for table in old {
                transaction.delete_table(table)?;
            }
            for table in TableId::ALL {
                transaction.open_table(table.definition())?;
            }
            let mut meta = transaction.open_table(TableId::Meta.definition())?;
            meta.insert(meta_key::WITHOUT_TRIES, [].as_slice())?;
            meta.insert(meta_key::SCHEMA, SCHEMA_VERSION.to_be_bytes().as_slice())?;
            Ok(())
        };
        self.monitor.run(finish)?;
        commit_durably(self.monitor, transaction)
    }
}

/// Counts rows and reports them.
struct Progress<'a> {
    what: &'static str,
    done: u64,
    total: u64,
    report: &'a mut dyn FnMut(UpgradeProgress),
}

impl Progress<'_> {
    fn add(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(REPORT_ROWS) || self.done == self.total {
            (self.report)(UpgradeProgress {
                what: self.what,
                done: self.done,
                total: self.total,
            });
        }
    }
}
