//! What the tests of failing disks do: batches of pseudo-random changes, and the rows that the
//! store must have after each of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use store::{Snapshot, Source, Store, StoreError, StoreOptions, TableId, Tables};

use crate::disk::Disk;

/// The rows of a table: value by key.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const TABLE: TableId = TableId::Account;

/// Number of batches in the scenario.
pub(crate) const BATCHES: u32 = 8;

/// How the store is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// With a cache into which the pages of a batch do not fit: they are read from the disk again
    /// and again, and written before their commit. So every second batch or so is a checkpoint.
    SmallCache,
    /// With a cache for everything and a short write-ahead log: some batches are in the log, and
    /// others are checkpoints because the log has no room.
    ShortLog,
}

impl Setting {
    pub(crate) const ALL: [Self; 2] = [Self::SmallCache, Self::ShortLog];

    pub(crate) fn open(self, disk: &Arc<Disk>) -> Result<Store, StoreError> {
        let options = match self {
            Self::SmallCache => StoreOptions {
                cache_bytes: 64 << 10,
                ..StoreOptions::default()
            },
            Self::ShortLog => StoreOptions {
                cache_bytes: 8 << 20,
                log_bytes: 50 << 10,
            },
        };
        disk.open_store(&options)
    }
}

/// Pseudo-random numbers: the same seed gives the same numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// The rows that batch `index` writes, or deletes where there is no value.
pub(crate) fn changes(index: u32) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random(u64::from(index) + 1);
    (0..60)
        .map(|_| {
            let key = (random.next() % 500).to_be_bytes().to_vec();
            let length = match random.next() % 30 {
                0 => 9000,
                short => short as usize * 7,
            };
            let value = (!random.next().is_multiple_of(5)).then(|| vec![index as u8 + 1; length]);
            (key, value)
        })
        .collect()
}

pub(crate) fn apply(rows: &mut Rows, index: u32) {
    for (key, value) in changes(index) {
        match value {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        };
    }
}

/// The expected rows after each number of batches, from 0 to [`BATCHES`].
pub(crate) fn models() -> Vec<Rows> {
    let mut models = vec![Rows::new()];
    for index in 0..BATCHES {
        let mut rows = models.last().expect("one").clone();
        apply(&mut rows, index);
        models.push(rows);
    }
    models
}

pub(crate) fn write_changes(tables: &mut Tables<'_>, index: u32) -> Result<(), StoreError> {
    for (key, value) in changes(index) {
        match value {
            Some(value) => tables.put(TABLE, &key, &value)?,
            None => tables.delete(TABLE, &key)?,
        }
    }
    Ok(())
}

pub(crate) fn write(store: &Store, index: u32) -> Result<(), StoreError> {
    let batch = store.batch()?;
    batch.write(|tables| write_changes(tables, index))?;
    batch.commit()
}

pub(crate) fn rows(view: &Snapshot) -> Result<Rows, StoreError> {
    let mut rows = Rows::new();
    view.scan(TABLE, &[], |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

pub(crate) fn read(store: &Store) -> Result<Rows, StoreError> {
    rows(&*store.snapshot()?)
}

/// Runs the scenario on a good disk. Returns the numbers of disk operations before the first batch
/// and after the last one.
pub(crate) fn operations(setting: Setting) -> (u64, u64) {
    let disk = Arc::new(Disk::default());
    let store = setting.open(&disk).expect("a good disk");
    let _early = store.snapshot().expect("a good disk");
    let first = disk.operations();
    for index in 0..BATCHES {
        write(&store, index).expect("a good disk");
    }
    (first, disk.operations())
}
