//! The writes of the tests of failing disks: batches of pseudo-random changes and of blocks, some
//! of which move into the blocks file and back. Also the content that the store must have after
//! each batch.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use primitives::{B256, Header, Receipt, ReceiptOutcome, TxRules, U256};
use store::{
    BlockBody, BlockReads, HeaderRecord, Snapshot, Source, Store, StoreError, StoreOptions, TableId, Tables,
};

use crate::disk::Disk;

/// The rows of [`TABLE`], value by key. Blocks are in it, too, under longer keys.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const TABLE: TableId = TableId::Account;

/// Bytes of a key of [`TABLE`].
pub(crate) const KEY_BYTES: usize = 8;

/// Number of batches in the scenario.
pub(crate) const BATCHES: u32 = 8;

/// The limits of the opened store.
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

    pub(crate) fn options(self) -> StoreOptions {
        match self {
            Self::SmallCache => StoreOptions {
                cache_bytes: 64 << 10,
                ..StoreOptions::default()
            },
            Self::ShortLog => StoreOptions {
                cache_bytes: 8 << 20,
                log_bytes: 50 << 10,
                ..StoreOptions::default()
            },
        }
    }

    pub(crate) fn open(self, disk: &Arc<Disk>) -> Result<Store, StoreError> {
        disk.open_store(&self.options())
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

/// The blocks that a batch takes back, writes and moves, in this order.
struct BlockPlan {
    /// The number of canonical blocks that are taken back, and the mark of their branch.
    taken_back: (u64, u8),
    /// The blocks that it makes canonical, and the mark of their branch.
    added: (std::ops::Range<u64>, u8),
    /// The last block that it moves into the file.
    moved: Option<u64>,
}

/// The plan of batch `index`. Branches 1 and 2 begin with block 3.
fn block_plan(index: u32) -> BlockPlan {
    let plan = |taken_back, added, moved| BlockPlan {
        taken_back,
        added,
        moved,
    };
    match index {
        0 => plan((0, 0), (0..3, 0), None),
        1 => plan((0, 0), (3..4, 0), Some(0)),
        2 => plan((0, 0), (4..5, 0), Some(2)),
        3 => plan((0, 0), (5..6, 0), Some(3)),
        // Block 3 comes back from the file, and another block 3 moves in the same batch.
        4 => plan((3, 0), (3..5, 1), Some(3)),
        5 => plan((0, 0), (5..6, 1), Some(4)),
        // Blocks 3 and 4 come back from the file.
        6 => plan((3, 1), (0..0, 0), None),
        _ => plan((0, 0), (3..4, 2), Some(3)),
    }
}

/// A block with its hash and receipts.
type Written = (B256, HeaderRecord, BlockBody, Vec<Receipt>);

/// Number of branches, and of the blocks of each.
const BRANCHES: u8 = 3;
const BRANCH_BLOCKS: u64 = 6;

/// A block of branch `mark`, which has bytes that cannot be compressed.
fn block(number: u64, mark: u8) -> &'static Written {
    static BLOCKS: LazyLock<Vec<Vec<Written>>> = LazyLock::new(|| (0..BRANCHES).map(branch).collect());
    &BLOCKS[usize::from(mark)][number as usize]
}

fn branch(mark: u8) -> Vec<Written> {
    let mut blocks: Vec<Written> = Vec::new();
    for number in 0..BRANCH_BLOCKS {
        let parent_hash = blocks.last().map_or(B256::ZERO, |(hash, ..)| *hash);
        blocks.push(make_block(number, if number < 3 { 0 } else { mark }, parent_hash));
    }
    blocks
}

fn make_block(number: u64, mark: u8, parent_hash: B256) -> Written {
    let header = Header {
        number,
        parent_hash,
        extra_data: vec![mark; 9].into(),
        ..Header::default()
    };
    let mut random = Random(number * 7 + u64::from(mark) + 1);
    let bytes: Vec<u8> = (0..100 + number * 1500).map(|_| random.next() as u8).collect();
    let uncle = Header {
        extra_data: bytes.into(),
        ..Header::default()
    };
    let body = BlockBody {
        uncles: vec![uncle],
        ..BlockBody::default()
    };
    let receipts = vec![Receipt::new(ReceiptOutcome::Status(true), number, Vec::new())];
    let hash = header.hash();
    let record = HeaderRecord {
        header,
        total_difficulty: U256::from(number),
        executed: true,
    };
    (hash, record, body, receipts)
}

fn write_blocks(tables: &mut Tables<'_>, index: u32) -> Result<(), StoreError> {
    let BlockPlan {
        taken_back: (count, old_mark),
        added: (numbers, mark),
        moved,
    } = block_plan(index);
    for _ in 0..count {
        // A batch that is written again has nothing to take back.
        if let Some((number, hash)) = tables.head()?
            && hash == block(number, old_mark).0
        {
            tables.delete_canonical(&block(number, old_mark).1.header, &[])?;
        }
    }
    for number in numbers {
        let (hash, record, body, receipts) = block(number, mark);
        tables.put_block(hash, record, body)?;
        tables.put_receipts(number, hash, receipts)?;
        tables.put_canonical(number, hash, &[], receipts)?;
    }
    moved.map_or(Ok(()), |last| tables.move_to_file(last))
}

/// Key and value of a block in [`Rows`].
fn block_row(hash: &B256, is_canonical: bool, body: &BlockBody, receipts: &[Receipt]) -> (Vec<u8>, Vec<u8>) {
    let BlockBody {
        transactions,
        senders,
        uncles,
    } = body;
    let mut value = format!("{is_canonical} {transactions:?} {senders:?} {receipts:?}").into_bytes();
    value.extend(uncles.iter().flat_map(Header::encode));
    (hash.as_slice().to_vec(), value)
}

/// All blocks that were written in the batches up to `index`, with their parts.
fn apply_blocks(rows: &mut Rows, index: u32) {
    let mut canonical: Vec<&B256> = Vec::new();
    let mut stored = Vec::new();
    for earlier in 0..=index {
        let plan = block_plan(earlier);
        canonical.truncate(canonical.len() - plan.taken_back.0 as usize);
        for number in plan.added.0 {
            let (hash, _, body, receipts) = block(number, plan.added.1);
            canonical.push(hash);
            stored.push((hash, body, receipts));
        }
    }
    rows.extend(
        stored
            .iter()
            .map(|&(hash, body, receipts)| block_row(hash, canonical.contains(&hash), body, receipts)),
    );
}

/// Adds the blocks of the store.
fn read_blocks(view: &Snapshot, rows: &mut Rows) -> Result<(), StoreError> {
    let mut hashes = Vec::new();
    view.scan(TableId::BlockToHeader, &[], |key, _| {
        hashes.push(B256::from_slice(&key[8..]));
        ControlFlow::Continue(())
    })?;
    for hash in hashes {
        let number = view.block_number(&hash)?.expect("the block has a number");
        let body = view.body(number, &hash, TxRules::Moac)?.expect("a body");
        let receipts = view.receipts(number, &hash)?.expect("receipts");
        let is_canonical = view.canonical_hash(number)? == Some(hash);
        rows.extend([block_row(&hash, is_canonical, &body, &receipts)]);
    }
    Ok(())
}

pub(crate) fn apply(rows: &mut Rows, index: u32) {
    for (key, value) in changes(index) {
        match value {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        };
    }
    apply_blocks(rows, index);
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
    write_blocks(tables, index)
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
    read_blocks(view, &mut rows)?;
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
