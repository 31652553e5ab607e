//! Records come back; what is incomplete is cut off; what is damaged is an error that says where.

use std::sync::Mutex;

use super::record::FRONT;
use super::*;
use crate::medium::{MemoryMedium as Memory, StoreMedia};
use crate::{Source, Store, StoreOptions, TableId};

const DATABASE: u64 = 0xdb;

/// The sequence of the database for which logs are made.
const START: u64 = 10;

const fn at(sequence: u64) -> LogPosition {
    LogPosition {
        database: DATABASE,
        sequence,
    }
}

/// The changes of a batch: a row with `len` bytes.
fn changes(mark: u8, len: usize) -> RowChanges {
    let mut changes = RowChanges::new(1 << 20);
    changes.put(TableId::HashToCode, &[mark], &vec![mark; len]);
    changes
}

/// A log with the records 11, 12 and so on, with values of these lengths.
fn log_of(lens: &[usize]) -> (Arc<Memory>, WriteAheadLog) {
    let memory = Arc::new(Memory::default());
    let mut log = WriteAheadLog::create(memory.clone(), "log".into(), at(START)).unwrap();
    for (mark, len) in lens.iter().enumerate() {
        log.append(changes(mark as u8, *len)).unwrap();
    }
    (memory, log)
}

/// Opens a log with these bytes. Returns the marks of the records that the database lacks.
fn open(bytes: Vec<u8>, sequence: u64) -> Result<Vec<u8>, StoreError> {
    let memory = Arc::new(Memory(Mutex::new(bytes)));
    let (log, records) = WriteAheadLog::open(memory, "log".into(), at(sequence))?;
    let expected = records.last().map_or(sequence, |last| last.sequence);
    assert_eq!(log.sequence(), expected.max(sequence));
    let marks = records.iter().map(|record| {
        let changes = log.read_changes(record).unwrap();
        let mut rows = row_changes(&changes).map(|change| change.unwrap().key[0]);
        let mark = rows.next().unwrap();
        assert_eq!(rows.next(), None);
        mark
    });
    Ok(marks.collect())
}

/// Opening a log with these bytes fails with an error that contains all of `words`.
#[track_caller]
fn check_damaged(bytes: Vec<u8>, sequence: u64, words: &[&str]) {
    let memory = Arc::new(Memory(Mutex::new(bytes.clone())));
    let error = WriteAheadLog::open(memory.clone(), "log".into(), at(sequence)).unwrap_err();
    assert!(error.is_final(), "{error}");
    let text = error.to_string();
    for word in words.iter().chain([&"log is damaged"]) {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert!(memory.bytes() == bytes, "the log was changed");
}

const LENS: [usize; 5] = [10, 5000, 4050, 20_000, 1];

/// Offsets of the records with values of [`LENS`] bytes, and their end.
const PLACES: [u64; 6] = [2, 3, 5, 6, 11, 12];

#[test]
fn records_that_the_database_lacks_come_back() {
    let (memory, log) = log_of(&LENS);
    assert_eq!(log.end, PLACES[5] * PAGE);
    assert_eq!(memory.len().unwrap(), PLACES[5] * PAGE);
    for sequence in START..=START + 5 {
        let expected: Vec<u8> = (0..5).skip((sequence - START) as usize).collect();
        assert_eq!(open(memory.bytes(), sequence).unwrap(), expected);
    }
    // A database that is ahead of its log has everything.
    assert!(open(memory.bytes(), START + 100).unwrap().is_empty());
}

#[test]
fn a_log_is_continued_after_it_was_opened() {
    let (memory, _) = log_of(&LENS[..2]);
    let (mut log, _) = WriteAheadLog::open(memory.clone(), "log".into(), at(START)).unwrap();
    log.append(changes(2, 9000)).unwrap();
    assert_eq!(open(memory.bytes(), START).unwrap(), [0, 1, 2]);
    log.begin_anew(START + 3).unwrap();
    assert!(open(memory.bytes(), START + 3).unwrap().is_empty());
    // The new record is shorter than the old ones, which follow it. They do not count.
    log.append(changes(7, 1)).unwrap();
    assert_eq!(open(memory.bytes(), START + 3).unwrap(), [7]);
    // A database that was ahead of the log: the next record follows the database.
    let (mut log, _) = WriteAheadLog::open(memory.clone(), "log".into(), at(START + 50)).unwrap();
    log.append(changes(8, 1)).unwrap();
    assert_eq!(open(memory.bytes(), START + 50).unwrap(), [8]);
}

#[test]
fn an_incomplete_last_record_is_cut_off() {
    let (memory, _) = log_of(&LENS);
    let whole = memory.bytes();
    let last_two = PLACES[3] as usize * PAGE as usize;
    let last = PLACES[4] as usize * PAGE as usize;
    for end in [
        last,
        last + 1,
        last + FRONT - 1,
        last + FRONT + 3,
        whole.len() - 1,
    ] {
        assert_eq!(
            open(whole[..end].to_vec(), START).unwrap(),
            [0, 1, 2, 3],
            "{end} bytes"
        );
    }
    for end in [last_two, last_two + 100, last - 1] {
        assert_eq!(
            open(whole[..end].to_vec(), START).unwrap(),
            [0, 1, 2],
            "{end} bytes"
        );
    }
    // Any sector of the last record may be missing.
    let four = &whole[..last];
    for sector in (last_two..last).step_by(512) {
        let mut torn = four.to_vec();
        torn[sector..sector + 512].fill(0);
        // The end of a record is zero anyway.
        let expected: &[u8] = if torn == four { &[0, 1, 2, 3] } else { &[0, 1, 2] };
        assert_eq!(open(torn, START).unwrap(), expected, "sector at {sector}");
    }
    // The next record takes the place of the incomplete one.
    let memory = Arc::new(Memory(Mutex::new(
        whole[..whole.len() - PAGE as usize + 9].to_vec(),
    )));
    let (mut log, records) = WriteAheadLog::open(memory.clone(), "log".into(), at(START)).unwrap();
    assert_eq!((records.len(), log.sequence()), (4, START + 4));
    log.append(changes(9, 1)).unwrap();
    assert_eq!(open(memory.bytes(), START).unwrap(), [0, 1, 2, 3, 9]);
}

#[test]
fn a_damaged_record_before_others_is_an_error() {
    let (memory, _) = log_of(&LENS);
    let whole = memory.bytes();
    for place in &PLACES[..4] {
        let start = place * PAGE;
        let offset = format!("record at offset {start} is damaged");
        let front = (0..FRONT as u64).chain([FRONT as u64 + 3, FRONT as u64 + 20]);
        for byte in front {
            let mut damaged = whole.clone();
            damaged[(start + byte) as usize] ^= 1;
            check_damaged(damaged, START, &[&offset, "follows at offset"]);
        }
    }
    let mut gone = whole;
    let (second, third) = (PLACES[1] * PAGE, PLACES[2] * PAGE);
    gone[second as usize..third as usize].fill(0);
    check_damaged(
        gone,
        START,
        &["record at offset 12288 is damaged", "record 13 follows"],
    );
}

#[test]
fn sequences_without_a_successor_are_errors() {
    let (memory, mut log) = log_of(&LENS[..2]);
    check_damaged(
        memory.bytes(),
        START - 1,
        &[
            "at offset 8192, has sequence 11, expected at most 10",
            "older than its log",
        ],
    );
    log.sequence += 1;
    log.append(changes(2, 1)).unwrap();
    check_damaged(
        memory.bytes(),
        START,
        &["at offset 20480 has sequence 14, expected 13"],
    );
}

#[test]
fn one_copy_of_the_header_is_enough() {
    let (memory, _) = log_of(&LENS);
    let whole = memory.bytes();
    for byte in 0..40 {
        for start in [0, PAGE as usize] {
            let mut damaged = whole.clone();
            damaged[start + byte] ^= 1;
            assert_eq!(open(damaged, START).unwrap(), [0, 1, 2, 3, 4], "byte {byte}");
        }
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        damaged[PAGE as usize + byte] ^= 1;
        check_damaged(
            damaged,
            START,
            &["both copies of its header", "offsets 0 and 4096"],
        );
    }
    check_damaged(vec![0x5a; 20_000], START, &["both copies of its header"]);
}

#[test]
fn the_log_of_another_database_is_refused() {
    let (memory, _) = log_of(&LENS);
    let other = LogPosition {
        database: 5,
        sequence: START,
    };
    let error = WriteAheadLog::open(memory, "log".into(), other).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("got 00000000000000db, expected 0000000000000005"),
        "{text}"
    );
}

#[test]
fn a_value_that_looks_like_a_record_is_none() {
    let (memory, mut log) = log_of(&[]);
    // Nobody who writes rows knows the salt. Here the row has a record of another log.
    let (foreign, _) = log_of(&[1, 2, 3]);
    let records = foreign.bytes().split_off(RECORDS_START as usize);
    let with_padding = |padding: usize| {
        let mut changes = RowChanges::new(1 << 20);
        let value = [vec![0; padding], records.clone()].concat();
        changes.put(TableId::HashToCode, b"k", &value);
        changes
    };
    // So much padding that the records inside begin at pages.
    let is_aligned = |padding: &usize| {
        let record = with_padding(*padding).into_record(0, 0);
        record[PAGE as usize..].starts_with(&records[..FRONT])
    };
    let padding = (0..PAGE as usize).find(is_aligned).unwrap();
    log.append(with_padding(padding)).unwrap();
    let bytes = memory.bytes();
    assert_eq!(open(bytes.clone(), START).unwrap(), *b"k");
    // Nor does it count as a record that follows an incomplete one.
    let mut torn = bytes;
    torn[RECORDS_START as usize + FRONT] ^= 1;
    assert!(open(torn, START).unwrap().is_empty());
}

#[test]
fn a_record_that_cannot_be_read_keeps_the_store_from_being_opened() {
    let [database, log, blocks] = [0, 1, 2].map(|_| Arc::new(Memory::default()));
    let on = |[database, log, blocks]: [Arc<Memory>; 3]| {
        let media = StoreMedia {
            database,
            log,
            blocks,
        };
        Store::on_media(&media, &StoreOptions::default())
    };
    let store = on([database.clone(), log.clone(), blocks.clone()]).unwrap();
    let write = |value: &[u8]| {
        let batch = store.batch().unwrap();
        batch
            .write(|tables| tables.put(TableId::HashToCode, b"key", value))
            .unwrap();
        batch.commit().unwrap();
    };
    write(b"one");
    // A copy of the files, as after `kill -9`.
    let crashed = || [&database, &log, &blocks].map(|medium| Arc::new(Memory(Mutex::new(medium.bytes()))));
    let again = on(crashed()).unwrap();
    let view = again.snapshot().unwrap();
    assert_eq!(view.get(TableId::HashToCode, b"key").unwrap().unwrap(), b"one");
    // A record with a right checksum, whose table this program does not know.
    let [database, log, blocks] = crashed();
    let mut bytes = log.bytes();
    let header = LogHeader::read(&*log).unwrap().unwrap();
    let mut changes = RowChanges::new(1000);
    changes.put(TableId::HashToCode, b"key", b"two");
    let record = changes.with_unknown_table().into_record(header.salt, 1);
    bytes[RECORDS_START as usize..][..record.len()].copy_from_slice(&record);
    let log = Arc::new(Memory(Mutex::new(bytes)));
    let error = on([database, log, blocks]).unwrap_err();
    assert!(error.is_final(), "{error}");
    let text = error.to_string();
    assert!(text.contains("record 1 at offset 8192: table: got"), "{text}");
}
