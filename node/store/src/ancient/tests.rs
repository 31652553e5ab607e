//! Blocks are read from the file as from their rows, come back, and are never overwritten while a
//! snapshot may read them.

use std::sync::Arc;

use primitives::{B256, Header, Receipt, ReceiptOutcome, TxRules, U256};

use super::*;
use crate::medium::{MemoryMedium, StoreMedia};
use crate::{
    ArchiveError, ArchivedBody, BLOCKS_FILE_NAME, BlockArchive, BlockBody, BlockReads, HeaderRecord,
    Snapshot, Store, StoreOptions, Tables,
};

/// Branches other than 0 begin with this block.
const FORK: u64 = 3;

/// Bytes that cannot be compressed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    (0..len).map(|_| next()).collect()
}

struct TestBlock {
    number: u64,
    hash: B256,
    record: HeaderRecord,
    body: BlockBody,
    receipts: Vec<Receipt>,
}

fn block(number: u64, mark: u8) -> TestBlock {
    let mark = if number < FORK { 0 } else { mark };
    let header = Header {
        number,
        parent_hash: number
            .checked_sub(1)
            .map_or(B256::ZERO, |parent| block(parent, mark).hash),
        extra_data: vec![mark].into(),
        ..Header::default()
    };
    let uncle = Header {
        extra_data: noise(number * 300 + u64::from(mark), 1500).into(),
        ..Header::default()
    };
    TestBlock {
        number,
        hash: header.hash(),
        record: HeaderRecord {
            header,
            total_difficulty: U256::from(number),
            executed: true,
        },
        body: BlockBody {
            uncles: vec![uncle],
            ..BlockBody::default()
        },
        receipts: vec![Receipt::new(ReceiptOutcome::Status(true), number, Vec::new())],
    }
}

fn put(tables: &mut Tables<'_>, block: &TestBlock, is_canonical: bool) -> Result<(), StoreError> {
    tables.put_receipts(block.number, &block.hash, &block.receipts)?;
    if !is_canonical {
        return tables.put_side_block(&block.hash, &block.record, &block.body);
    }
    tables.put_block(&block.hash, &block.record, &block.body)?;
    tables.put_canonical(block.number, &block.hash, &[], &block.receipts)
}

fn write(store: &Store, work: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>) {
    let batch = store.batch().unwrap();
    batch.write(work).unwrap();
    batch.commit().unwrap();
}

/// Makes the blocks of `numbers` canonical.
fn add(store: &Store, numbers: std::ops::Range<u64>, mark: u8) {
    write(store, |tables| {
        numbers
            .map(|number| block(number, mark))
            .try_for_each(|block| put(tables, &block, true))
    });
}

fn take_back(tables: &mut Tables<'_>, number: u64, mark: u8) -> Result<(), StoreError> {
    tables.delete_canonical(&block(number, mark).record.header, &[])
}

#[track_caller]
fn assert_has(view: &Snapshot, block: &TestBlock) {
    let body = view.body(block.number, &block.hash, TxRules::Moac).unwrap();
    assert_eq!(body.as_ref(), Some(&block.body), "block {}", block.number);
    let receipts = view.receipts(block.number, &block.hash).unwrap();
    assert_eq!(receipts.as_ref(), Some(&block.receipts), "block {}", block.number);
}

fn has_row(view: &Snapshot, block: &TestBlock) -> bool {
    let rows = BlockPart::ALL.map(|part| {
        let row = view
            .get(part.table(), &block_key(block.number, &block.hash))
            .unwrap();
        row.is_some()
    });
    assert_eq!(rows[0], rows[1]);
    rows[0]
}

/// Stores these first blocks, and moves all but the last three to the file.
pub(crate) fn store_old_blocks(store: &Store, count: u64) {
    add(store, 0..count, 0);
    write(store, |tables| tables.move_to_file(count - 4));
}

/// Whether the store has these first blocks with all their parts.
#[track_caller]
pub(crate) fn assert_has_old_blocks(view: &Snapshot, count: u64) {
    assert_eq!(view.ancient_count().unwrap(), count - 3);
    (0..count).for_each(|number| assert_has(view, &block(number, 0)));
}

#[test]
fn a_moved_block_is_read_from_the_file_and_comes_back_as_rows() {
    let store = Store::in_memory().unwrap();
    add(&store, 0..8, 0);
    let before = store.snapshot().unwrap();
    write(&store, |tables| tables.move_to_file(2));
    write(&store, |tables| {
        tables.move_to_file(5)?;
        // A batch reads what it has moved.
        let body = tables.body(4, &block(4, 0).hash, TxRules::Moac)?;
        assert_eq!(body.unwrap(), block(4, 0).body);
        Ok(())
    });
    let view = store.snapshot().unwrap();
    assert_eq!(view.ancient_count().unwrap(), 6);
    for number in 0..8 {
        let block = block(number, 0);
        assert_has(&before, &block);
        assert_has(&view, &block);
        assert!(has_row(&before, &block));
        assert_eq!(has_row(&view, &block), number > 5);
    }
    // A block of another branch is not in the file, although its number is.
    let other = block(4, 1);
    assert_eq!(view.body(4, &other.hash, TxRules::Moac).unwrap(), None);
    let mut seen = Vec::new();
    view.scan_ancient(|row| seen.push(row.unwrap().number)).unwrap();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    let rows = |view: &Snapshot| {
        let key = block_key(4, &block(4, 0).hash);
        BlockPart::ALL.map(|part| view.get(part.table(), &key).unwrap())
    };
    write(&store, |tables| {
        (4..8).rev().try_for_each(|number| take_back(tables, number, 0))
    });
    let after = store.snapshot().unwrap();
    assert_eq!(after.ancient_count().unwrap(), 4);
    assert_eq!(rows(&after), rows(&before));
    for number in 0..8 {
        assert_has(&after, &block(number, 0));
        assert_eq!(has_row(&after, &block(number, 0)), number > 3);
    }
}

#[test]
fn only_the_last_block_of_the_file_can_be_taken_back() {
    let store = Store::in_memory().unwrap();
    add(&store, 0..4, 0);
    write(&store, |tables| tables.move_to_file(3));
    let batch = store.batch().unwrap();
    let error = batch
        .write(|tables| tables.take_from_file(2, &block(2, 0).hash))
        .unwrap_err();
    assert!(error.to_string().contains("got 3, expected 2"), "{error}");
}

#[test]
fn a_snapshot_keeps_its_blocks_when_others_take_their_place() {
    let media = StoreMedia {
        database: Arc::new(MemoryMedium::default()),
        log: Arc::new(MemoryMedium::default()),
        blocks: Arc::new(MemoryMedium::default()),
    };
    let store = Store::on_media(&media, &StoreOptions::default()).unwrap();
    add(&store, 0..8, 0);
    write(&store, |tables| tables.move_to_file(7));
    let old = store.snapshot().unwrap();
    let mut lens = vec![media.blocks.len().unwrap()];
    for round in 1..6 {
        // From the second round on the marks take turns; nobody holds a snapshot of the last one.
        write(&store, |tables| {
            (FORK..8)
                .rev()
                .try_for_each(|number| take_back(tables, number, round - 1))
        });
        add(&store, FORK..8, round);
        write(&store, |tables| tables.move_to_file(7));
        lens.push(media.blocks.len().unwrap());
        for number in FORK..8 {
            assert_has(&old, &block(number, 0));
            assert!(!has_row(&old, &block(number, 0)));
            assert_has(&store.snapshot().unwrap(), &block(number, round));
        }
    }
    assert!(lens[1] > lens[0], "the records of the snapshot stay");
    assert!(
        lens[5] - lens[1] < 4096,
        "other records are overwritten: {lens:?}"
    );
    // Once the snapshot is gone, its place is used.
    drop(old);
    write(&store, |tables| {
        (FORK..8)
            .rev()
            .try_for_each(|number| take_back(tables, number, 5))
    });
    add(&store, FORK..8, 6);
    write(&store, |tables| tables.move_to_file(7));
    let view = store.snapshot().unwrap();
    let first = place_of(&view, FORK).unwrap().unwrap();
    assert!(first.offset < lens[0], "{first:?}");
    // The next opening finds the same blocks.
    drop((view, store));
    let store = Store::on_media(&media, &StoreOptions::default()).unwrap();
    (FORK..8).for_each(|number| assert_has(&store.snapshot().unwrap(), &block(number, 6)));
}

#[test]
fn a_batch_that_is_thrown_away_moves_nothing() {
    let store = Store::in_memory().unwrap();
    add(&store, 0..8, 0);
    write(&store, |tables| tables.move_to_file(5));
    let batch = store.batch().unwrap();
    batch
        .write(|tables| {
            (4..8).rev().try_for_each(|number| take_back(tables, number, 0))?;
            put(tables, &block(4, 1), true)?;
            tables.move_to_file(4)
        })
        .unwrap();
    batch.abort().unwrap();
    let view = store.snapshot().unwrap();
    (0..8).for_each(|number| assert_has(&view, &block(number, 0)));
    write(&store, |tables| tables.move_to_file(7));
    (0..8).for_each(|number| assert_has(&store.snapshot().unwrap(), &block(number, 0)));
}

#[test]
fn side_blocks_are_removed_when_their_branch_has_ended() {
    let store = Store::in_memory().unwrap();
    add(&store, 0..12, 0);
    write(&store, |tables| {
        // Branch 1 ends with block 4, branch 2 with block 8.
        (FORK..5).try_for_each(|number| put(tables, &block(number, 1), false))?;
        (FORK..9).try_for_each(|number| put(tables, &block(number, 2), false))
    });
    let stored = |mark: u8| {
        let view = store.snapshot().unwrap();
        let mut found = Vec::new();
        for number in FORK..12 {
            let block = block(number, mark);
            let is_stored = view.block_number(&block.hash).unwrap().is_some();
            assert_eq!(is_stored, view.header(number, &block.hash).unwrap().is_some());
            assert_eq!(is_stored, has_row(&view, &block) || mark == 0);
            found.extend(is_stored.then_some(number));
        }
        found
    };
    write(&store, |tables| tables.move_to_file(3));
    assert_eq!((stored(1), stored(2).len()), (vec![3, 4], 6));
    write(&store, |tables| tables.move_to_file(6));
    assert_eq!((stored(1), stored(2).len()), (vec![], 6));
    write(&store, |tables| tables.move_to_file(8));
    assert_eq!((stored(1), stored(2)), (vec![], vec![]));
    assert_eq!(stored(0).len(), 9);
}

#[test]
fn a_file_that_does_not_fit_to_its_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(directory.path(), &StoreOptions::default());
    let store = open().unwrap();
    let path = directory.path().join(BLOCKS_FILE_NAME);
    let empty = std::fs::read(&path).unwrap();
    add(&store, 0..8, 0);
    write(&store, |tables| tables.move_to_file(5));
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let check = |bytes: Option<&[u8]>, words: &[&str]| {
        match bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let error = open().unwrap_err();
        assert!(error.is_final(), "{error}");
        let text = error.to_string();
        for word in words.iter().chain([&BLOCKS_FILE_NAME]) {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert_eq!(
            std::fs::read(&path).ok().as_deref(),
            bytes,
            "the file was changed"
        );
    };
    let len = whole.len().to_string();
    check(Some(&whole[..whole.len() - 1]), &["is cut off", "expected", &len]);
    check(Some(&empty), &["is cut off", "got 4096 bytes"]);
    check(Some(&[0; 100_000]), &["header is damaged"]);
    let mut foreign = whole.clone();
    foreign[..24].copy_from_slice(&crate::blocks_file::header(5));
    check(
        Some(&foreign),
        &["id of the database: got 0000000000000005, expected"],
    );
    check(None, &["is gone"]);
    // Bytes behind the last record are of a move that was not committed.
    std::fs::write(&path, [&whole[..], &[7; 5000]].concat()).unwrap();
    let store = open().unwrap();
    write(&store, |tables| tables.move_to_file(7));
    drop(store);
    let store = open().unwrap();
    (0..8).for_each(|number| assert_has(&store.snapshot().unwrap(), &block(number, 0)));
}

/// Has the blocks of branch 0 with these numbers.
#[derive(Debug)]
struct SomeBlocks(std::ops::Range<u64>);

impl BlockArchive for SomeBlocks {
    fn body(&self, number: u64, hash: &B256) -> Result<Option<Vec<u8>>, ArchiveError> {
        Ok(self.body_with_senders(number, hash)?.map(|body| body.rlp))
    }

    fn body_with_senders(&self, number: u64, _: &B256) -> Result<Option<ArchivedBody>, ArchiveError> {
        Ok(self.0.contains(&number).then(|| {
            let store = Store::in_memory().unwrap();
            add(&store, number..number + 1, 0);
            let key = block_key(number, &block(number, 0).hash);
            let row = store.snapshot().unwrap().get(TableId::BlockToBody, &key).unwrap();
            let row = row.unwrap();
            ArchivedBody {
                senders: Vec::new(),
                rlp: row[size_of::<u32>()..].to_vec(),
            }
        }))
    }

    fn receipts(&self, number: u64, _: &B256) -> Result<Option<Vec<Receipt>>, ArchiveError> {
        Ok(self.0.contains(&number).then(|| block(number, 0).receipts))
    }
}

#[test]
fn a_store_opens_whose_last_old_blocks_are_in_an_archive_alone() {
    let directory = tempfile::tempdir().unwrap();
    let open = |archived: std::ops::Range<u64>| {
        let options = StoreOptions::default();
        options.archive.set(Arc::new(SomeBlocks(archived)));
        Store::open(directory.path(), &options)
    };
    let store = open(0..0).unwrap();
    add(&store, 0..12, 0);
    write(&store, |tables| tables.move_to_file(2));
    drop(store);
    let store = open(3..8).unwrap();
    write(&store, |tables| tables.move_to_file(5));
    drop(store);
    let store = open(3..8).unwrap();
    let view = store.snapshot().unwrap();
    let [own, archived] = [2, 5].map(|number| place_of(&view, number).unwrap().unwrap());
    assert_eq!((archived.offset, archived.is_in_archive()), (own.end(), true));
    drop(view);
    write(&store, |tables| tables.move_to_file(8));
    drop(store);
    let store = open(3..8).unwrap();
    let view = store.snapshot().unwrap();
    (0..12).for_each(|number| assert_has(&view, &block(number, 0)));
    view.scan_ancient(|row| assert!(row.is_ok(), "{row:?}")).unwrap();
    // A store of which such a place was rounded up to the next page, beyond the end of the file.
    write(&store, |tables| {
        (6..12).rev().try_for_each(|number| take_back(tables, number, 0))
    });
    let rounded = AncientPlace::in_archive(own.end().next_multiple_of(4096));
    write(&store, |tables| {
        tables.put(INDEX, &5u64.to_be_bytes(), &rounded.encode())
    });
    drop((view, store));
    let path = directory.path().join(BLOCKS_FILE_NAME);
    let file = std::fs::File::options().write(true).open(path);
    file.unwrap().set_len(own.end()).unwrap();
    let store = open(3..8).unwrap();
    add(&store, 6..12, 0);
    write(&store, |tables| tables.move_to_file(8));
    (0..12).for_each(|number| assert_has(&store.snapshot().unwrap(), &block(number, 0)));
}

#[test]
fn a_corrupt_index_is_an_error() {
    let store = Store::in_memory().unwrap();
    add(&store, 0..8, 0);
    write(&store, |tables| tables.move_to_file(5));
    let faults = |key: &[u8], row: Option<&[u8]>| {
        let before = store.snapshot().unwrap().get(INDEX, key).unwrap();
        let put = |row: Option<&[u8]>| {
            write(&store, |tables| match row {
                Some(row) => tables.put(INDEX, key, row),
                None => tables.delete(INDEX, key),
            });
        };
        put(row);
        let mut faults = Vec::new();
        let view = store.snapshot().unwrap();
        view.scan_ancient(|row| faults.extend(row.err().map(|error| error.to_string())))
            .unwrap();
        let hash = block(3, 0).hash;
        let read = view.body(3, &hash, TxRules::Moac);
        put(before.as_deref());
        (faults, read.map_err(|error| error.to_string()))
    };
    let three = 3u64.to_be_bytes();
    let row = store.snapshot().unwrap().get(INDEX, &three).unwrap().unwrap();
    assert_eq!(faults(&three, Some(&row)).0, Vec::<String>::new());
    let (found, read) = faults(&three, None);
    assert!(
        found[0].contains("got block 4 at offset") && found[0].contains("expected block 3"),
        "{found:?}"
    );
    assert_eq!(read, Ok(None));
    let (found, read) = faults(&three, Some(&row[..row.len() - 1]));
    assert!(found[0].contains("row ends"), "{found:?}");
    assert!(read.unwrap_err().contains("row ends"));
    // The place of another block, a place outside the file, and an absurd length.
    let two = store
        .snapshot()
        .unwrap()
        .get(INDEX, &2u64.to_be_bytes())
        .unwrap()
        .unwrap();
    let (found, read) = faults(&three, Some(&two));
    assert!(found[0].contains("got block 3 at offset"), "{found:?}");
    assert!(read.unwrap_err().contains("body of block 3"));
    let place = |offset, len| {
        AncientPlace {
            offset,
            lens: [len, 1],
        }
        .encode()
    };
    let (_, read) = faults(&three, Some(&place(1 << 40, 5)));
    assert!(read.unwrap_err().contains("expected at least 1099511627781"));
    let (_, read) = faults(&three, Some(&place(RECORDS_START, 1 << 62)));
    assert!(read.unwrap_err().contains("got a file of"));
    let (found, _) = faults(&three, Some(&place(3, 5)));
    assert!(found[0].contains("expected an offset from 4096 on"), "{found:?}");
    let (found, _) = faults(b"short", Some(&row));
    assert!(
        found
            .iter()
            .any(|fault| fault.contains("got 5 bytes, expected 8")),
        "{found:?}"
    );
}
