//! A record of the write-ahead log: the row changes of one batch, as bytes.
//!
//! A record is:
//!
//! - its front: number of bytes of the changes (4), sequence (8), CRC-32 of the changes (4), CRC-32
//!   of the log's salt and the 16 bytes before (4), all little-endian;
//! - the changes, in the order in which they were made;
//! - zeros up to the end of the page.
//!
//! A change begins with a byte. 0 names a table: length of the name (1), name. The tables of a
//! record get the numbers 0, 1, 2 and so on in the order in which they are named. 1 + 2 × number
//! writes a row of the table with that number: length of the key, key, length of the value, value.
//! 2 + 2 × number removes a row: length of the key, key. Lengths are in LEB128.
//!
//! Tables have names and not fixed numbers, so that a later version may add tables to its list.
//!
//! The salt is random and belongs to one filling of the file. Without it nobody can write a row
//! whose bytes are taken for a record.

use super::PAGE;
use crate::TableId;
use crate::codec::{push_number, read_number, take};
use crate::row_error::RowError;
use crate::tables::TABLE_COUNT;

/// Bytes of a record before its changes.
pub(super) const FRONT: usize = 20;
/// Bytes of a change beside names, keys and values, at most.
const CHANGE_BYTES_MAX: usize = 32;
/// The first byte of a change that names a table.
const NAME: u8 = 0;

// Numbers of tables fit into the first byte of a change.
const _: () = assert!(TABLE_COUNT < 127);

/// The row changes of a batch, for its record.
#[derive(Debug)]
pub(crate) struct RowChanges {
    /// The record. Its front is filled in at the end.
    bytes: Vec<u8>,
    /// The number of each table in this record, in the order of [`TableId::ALL`].
    numbers: [Option<u8>; TABLE_COUNT],
    /// The number of tables that have a number.
    tables: u8,
    /// Length of the longest record that fits into the log.
    bytes_max: usize,
    /// Whether the changes do not fit. Then they are not kept.
    is_too_long: bool,
    /// Bytes of all keys and values, whether they are kept or not.
    written: usize,
}

impl RowChanges {
    /// No changes yet. Keeps changes as long as their record has at most `bytes_max` bytes.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            numbers: [None; TABLE_COUNT],
            tables: 0,
            bytes_max,
            is_too_long: false,
            written: 0,
        }
    }

    /// Keeps no changes.
    pub(crate) const fn none() -> Self {
        Self::new(0)
    }

    /// Bytes of all keys and values that were written, and of all keys that were removed.
    pub(crate) const fn written(&self) -> usize {
        self.written
    }

    /// Whether there were no changes.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.is_too_long
    }

    /// Length of the record in the log, whole pages; `None` if the changes do not fit into any log.
    pub(super) fn record_len(&self) -> Option<u64> {
        (!self.is_too_long).then(|| whole_pages(self.bytes.len()))
    }

    /// Adds a row that was written.
    pub(crate) fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        if let Some(number) = self.begin(table, key.len() + value.len()) {
            self.bytes.push(1 + 2 * number);
            self.push_bytes(key);
            self.push_bytes(value);
        }
    }

    /// Adds a row that was removed.
    pub(crate) fn delete(&mut self, table: TableId, key: &[u8]) {
        if let Some(number) = self.begin(table, key.len()) {
            self.bytes.push(2 + 2 * number);
            self.push_bytes(key);
        }
    }

    /// Begins a change with `len` bytes of key and value. Returns the number of the table; `None`
    /// if the record gets too long.
    fn begin(&mut self, table: TableId, len: usize) -> Option<u8> {
        self.written += len;
        if self.is_too_long {
            return None;
        }
        let name = table.name().as_bytes();
        if self.bytes.len() + FRONT + name.len() + len + CHANGE_BYTES_MAX > self.bytes_max {
            self.is_too_long = true;
            self.bytes = Vec::new();
            return None;
        }
        if self.bytes.is_empty() {
            self.bytes.resize(FRONT, 0);
        }
        let number = self.numbers[table as usize].unwrap_or_else(|| {
            let number = self.tables;
            self.tables += 1;
            self.bytes.push(NAME);
            self.bytes.push(name.len() as u8);
            self.bytes.extend_from_slice(name);
            number
        });
        self.numbers[table as usize] = Some(number);
        Some(number)
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        push_number(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Changes the name of the first table, so that no program knows it.
    #[cfg(test)]
    pub(super) fn with_unknown_table(mut self) -> Self {
        self.bytes[FRONT + 2] ^= 1;
        self
    }

    /// The record with this sequence, for the log with this salt.
    pub(super) fn into_record(mut self, salt: u64, sequence: u64) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().max(FRONT), 0);
        let changes = &self.bytes[FRONT..];
        let front = RecordFront {
            len: u32::try_from(changes.len()).expect("records are much shorter than 2^32 bytes"),
            sequence,
            checksum: crc32fast::hash(changes),
        };
        self.bytes[..FRONT].copy_from_slice(&front.encode(salt));
        let len = whole_pages(self.bytes.len()) as usize;
        self.bytes.resize(len, 0);
        self.bytes
    }
}

/// `len` rounded up to whole pages.
const fn whole_pages(len: usize) -> u64 {
    (len as u64).next_multiple_of(PAGE)
}

/// The front of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordFront {
    /// Number of bytes of the changes.
    pub(super) len: u32,
    /// Number of the batch. Each batch has the number after the one before.
    pub(super) sequence: u64,
    /// CRC-32 of the changes.
    pub(super) checksum: u32,
}

impl RecordFront {
    /// Length of the whole record in the log.
    pub(super) const fn record_len(&self) -> u64 {
        whole_pages(FRONT + self.len as usize)
    }

    fn encode(&self, salt: u64) -> [u8; FRONT] {
        let mut bytes = [0; FRONT];
        bytes[..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        let sum = salted_checksum(salt, &bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the front of a record of the log with this salt; `None` if the bytes are none.
    pub(super) fn decode(salt: u64, bytes: &[u8; FRONT]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let front = Self {
            len: number(0),
            sequence: u64::from_le_bytes(std::array::from_fn(|byte| bytes[4 + byte])),
            checksum: number(12),
        };
        (number(16) == salted_checksum(salt, &bytes[..16])).then_some(front)
    }
}

fn salted_checksum(salt: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// A change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowChange<'a, T = TableId> {
    /// The table.
    pub(crate) table: T,
    /// The key of the row.
    pub(crate) key: &'a [u8],
    /// The value; `None` if the row was removed.
    pub(crate) value: Option<&'a [u8]>,
}

/// Reads the changes of a record, in order. Ends after the first error.
pub(crate) fn row_changes(bytes: &[u8]) -> impl Iterator<Item = Result<RowChange<'_>, RowError>> {
    row_changes_of(bytes, table_by_name)
}

/// As [`row_changes`], with the tables that `by_name` knows.
pub(crate) fn row_changes_of<T: Copy>(
    bytes: &[u8],
    by_name: fn(&[u8]) -> Result<T, RowError>,
) -> impl Iterator<Item = Result<RowChange<'_, T>, RowError>> {
    let mut rest = bytes;
    let mut tables = Vec::new();
    std::iter::from_fn(move || {
        let change = next_change(&mut rest, &mut tables, by_name).transpose()?;
        if change.is_err() {
            rest = &[];
        }
        Some(change)
    })
}

/// Reads the next change; `None` at the end.
fn next_change<'a, T: Copy>(
    rest: &mut &'a [u8],
    tables: &mut Vec<T>,
    by_name: fn(&[u8]) -> Result<T, RowError>,
) -> Result<Option<RowChange<'a, T>>, RowError> {
    while let Some((kind, behind)) = rest.split_first() {
        *rest = behind;
        let Some(kind) = kind.checked_sub(1) else {
            let (len, behind) = rest
                .split_first()
                .ok_or(RowError::CutOff { got: 0, expected: 1 })?;
            *rest = behind;
            tables.push(by_name(take(rest, u64::from(*len))?)?);
            continue;
        };
        let number = usize::from(kind / 2);
        let table = tables.get(number).ok_or(RowError::NotBelow {
            field: "number of a table",
            got: number as u64,
            limit: tables.len() as u64,
        })?;
        let len = read_number(rest)?;
        let key = take(rest, len)?;
        let value = if kind % 2 == 0 {
            let len = read_number(rest)?;
            Some(take(rest, len)?)
        } else {
            None
        };
        return Ok(Some(RowChange {
            table: *table,
            key,
            value,
        }));
    }
    Ok(None)
}

fn table_by_name(name: &[u8]) -> Result<TableId, RowError> {
    let mut tables = TableId::ALL.into_iter();
    let table = tables.find(|table| table.name().as_bytes() == name);
    table.ok_or_else(|| RowError::UnknownTable {
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Change = (usize, Vec<u8>, Option<Vec<u8>>);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..300);
        let change = (0..TABLE_COUNT, bytes(), prop::option::of(bytes()));
        prop::collection::vec(change, 1..40)
    }

    fn record(changes: &[Change], salt: u64, sequence: u64) -> Vec<u8> {
        let mut record = RowChanges::new(1 << 20);
        for (table, key, value) in changes {
            match value {
                Some(value) => record.put(TableId::ALL[*table], key, value),
                None => record.delete(TableId::ALL[*table], key),
            }
        }
        let len = record.record_len();
        let record = record.into_record(salt, sequence);
        assert_eq!(len, Some(record.len() as u64));
        record
    }

    fn front(record: &[u8]) -> [u8; FRONT] {
        record[..FRONT].try_into().unwrap()
    }

    proptest! {
        #[test]
        fn records_round_trip(changes in changes(), salt: u64, sequence: u64) {
            let record = record(&changes, salt, sequence);
            let front = RecordFront::decode(salt, &front(&record)).unwrap();
            prop_assert_eq!(front.sequence, sequence);
            prop_assert_eq!(front.record_len(), record.len() as u64);
            let bytes = &record[FRONT..FRONT + front.len as usize];
            prop_assert_eq!(crc32fast::hash(bytes), front.checksum);
            let got: Vec<Change> = row_changes(bytes)
                .map(|change| {
                    let change = change.unwrap();
                    (change.table as usize, change.key.to_vec(), change.value.map(<[u8]>::to_vec))
                })
                .collect();
            prop_assert_eq!(got, changes);
        }

        #[test]
        fn another_salt_or_a_changed_byte_is_no_front(changes in changes(), salt: u64, other: u64, at in 0..FRONT) {
            let mut front = front(&record(&changes, salt, 7));
            prop_assume!(salt != other);
            prop_assert_eq!(RecordFront::decode(other, &front), None);
            front[at] ^= 1;
            prop_assert_eq!(RecordFront::decode(salt, &front), None);
        }

        #[test]
        fn bad_bytes_are_errors_and_never_a_panic(bytes: Vec<u8>, cut in 0usize..200, changes in changes()) {
            let errors = row_changes(&bytes).filter(Result::is_err).count();
            prop_assert!(errors <= 1);
            // A record that is cut anywhere gives the changes before the cut, and then an error or
            // the end.
            let record = record(&changes, 1, 2);
            let cut = record.len().min(FRONT + cut);
            let before = row_changes(&record[FRONT..cut]).filter_map(Result::ok).count();
            prop_assert!(before <= changes.len());
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let check = |bytes: &[u8], expected: &str| {
            let error = row_changes(bytes).find_map(Result::err).unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[0], "got 0 more bytes, expected 1");
        check(&[0, 3, b'n', b'o', b'n'], "table: got \"non\", which is unknown");
        check(&[0, 9, b'n'], "got 1 more bytes, expected 9");
        check(&[1, 0, 0], "number of a table: got 0, expected less than 0");
        let meta = [&[0, 4][..], b"meta"].concat();
        check(
            &[&meta[..], &[1, 2, 9, 9, 5, 1]].concat(),
            "got 1 more bytes, expected 5",
        );
    }

    #[test]
    fn changes_that_do_not_fit_are_not_kept() {
        let mut changes = RowChanges::new(1000);
        assert!(changes.is_empty());
        changes.put(TableId::Meta, b"key", &[1; 500]);
        assert_eq!(changes.record_len(), Some(PAGE));
        changes.put(TableId::Meta, b"key", &[1; 500]);
        assert_eq!(changes.record_len(), None);
        assert!(!changes.is_empty());
        changes.delete(TableId::Meta, b"key");
        assert!(changes.bytes.is_empty());
    }
}
