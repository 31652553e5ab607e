//! The file of the index: its tables, what a commit does, and reads.
//!
//! | table | key | value |
//! |---|---|---|
//! | `roles` | address (20), block number (8), index of the transaction (4) or four times 0xff for the block | [`Roles`] (1) |
//! | `tokens` | address (20), contract of the token (20) | number of the first block (8) |
//! | `blocks` | block number (8), only the newest ones | block hash (32), number of keys of `roles` (4), the keys without the block number (24 each), the new keys of `tokens` (40 each) |
//! | `partial` | block number (8) | nothing: not all accounts of the block are known |
//! | `meta` | name | version, hash of block 0, number of indexed blocks |

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use primitives::{Address, B256, catch_panic};
use redb::{
    Database, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction,
};

use crate::error::IndexFileError;
use crate::touches::{BlockTouches, Roles};

/// The name of the file in the data directory.
pub const FILE_NAME: &str = "addresses.redb";

/// The layout of the file.
const VERSION: u64 = 1;
/// The newest blocks of which the keys are kept, so that they can be taken back quickly.
const KEPT_BLOCKS: u64 = 4096;
/// The index of a transaction that stands for the block.
const BLOCK_ITSELF: u32 = u32::MAX;
const ADDRESS_LEN: usize = 20;
const ROLE_KEY_LEN: usize = ADDRESS_LEN + 8 + 4;
/// A key of `roles` without the block number.
const SHORT_KEY_LEN: usize = ADDRESS_LEN + 4;
const TOKEN_KEY_LEN: usize = 2 * ADDRESS_LEN;
/// Memory for cached pages.
const CACHE_BYTES: usize = 64 << 20;

type Rows = TableDefinition<'static, &'static [u8], &'static [u8]>;
type ReadRows = ReadOnlyTable<&'static [u8], &'static [u8]>;
type WriteRows<'t> = Table<'t, &'static [u8], &'static [u8]>;
const ROLES: Rows = TableDefinition::new("roles");
const TOKENS: Rows = TableDefinition::new("tokens");
const BLOCKS: Rows = TableDefinition::new("blocks");
const PARTIAL: Rows = TableDefinition::new("partial");
const META: Rows = TableDefinition::new("meta");
const META_VERSION: &[u8] = b"version";
const META_GENESIS: &[u8] = b"genesis";
const META_NEXT: &[u8] = b"next";

/// A transaction, or a block, that an account took part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participation {
    /// The number of the block.
    pub number: u64,
    /// The index of the transaction; `None` for the block itself.
    pub index: Option<u32>,
    /// The parts that the account had.
    pub roles: Roles,
}

/// The open file. One process opens it at a time.
#[derive(Debug)]
pub struct AddressIndex {
    path: PathBuf,
    database: Database,
}

fn key_of(address: &Address, number: u64, index: u32) -> [u8; ROLE_KEY_LEN] {
    let mut key = [0; ROLE_KEY_LEN];
    key[..ADDRESS_LEN].copy_from_slice(address.as_slice());
    key[ADDRESS_LEN..ADDRESS_LEN + 8].copy_from_slice(&number.to_be_bytes());
    key[ADDRESS_LEN + 8..].copy_from_slice(&index.to_be_bytes());
    key
}

fn number_in(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn participation(key: &[u8], value: &[u8]) -> Option<Participation> {
    let index = u32::from_be_bytes(key.get(ADDRESS_LEN + 8..)?.try_into().ok()?);
    Some(Participation {
        number: number_in(key.get(ADDRESS_LEN..ADDRESS_LEN + 8)?)?,
        index: (index != BLOCK_ITSELF).then_some(index),
        roles: Roles(*value.first()?),
    })
}

/// A failure inside of a call into redb.
enum IndexCallFailure {
    Redb(redb::Error),
    Damaged(String),
}

impl<E: Into<redb::Error>> From<E> for IndexCallFailure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

fn damaged(what: impl Into<String>) -> IndexCallFailure {
    IndexCallFailure::Damaged(what.into())
}

impl AddressIndex {
    /// Opens the file in a data directory, or makes it. `genesis` is the hash of block 0.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file cannot be used, or is that of another chain.
    pub fn open(directory: &Path, genesis: B256) -> Result<Self, IndexFileError> {
        let path = directory.join(FILE_NAME);
        let database = guarded(&path, || {
            Ok(redb::Builder::new().set_cache_size(CACHE_BYTES).create(&path)?)
        })?;
        let index = Self { path, database };
        index.begin(genesis)?;
        Ok(index)
    }

    /// Opens the file in a data directory if there is one.
    ///
    /// # Errors
    /// As [`AddressIndex::open`].
    pub fn open_existing(directory: &Path, genesis: B256) -> Result<Option<Self>, IndexFileError> {
        if !directory.join(FILE_NAME).exists() {
            return Ok(None);
        }
        Self::open(directory, genesis).map(Some)
    }

    /// Writes what a new file begins with, or compares it with what is there.
    fn begin(&self, genesis: B256) -> Result<(), IndexFileError> {
        let found = self.write(|transaction| {
            for table in [ROLES, TOKENS, BLOCKS, PARTIAL] {
                transaction.open_table(table)?;
            }
            let mut meta = transaction.open_table(META)?;
            let version = meta.get(META_VERSION)?.map(|row| row.value().to_vec());
            if let Some(version) = version {
                let stored = meta.get(META_GENESIS)?;
                let stored = stored.map(|row| row.value().to_vec()).unwrap_or_default();
                return Ok(Some((number_in(&version).unwrap_or_default(), stored)));
            }
            meta.insert(META_VERSION, VERSION.to_be_bytes().as_slice())?;
            meta.insert(META_GENESIS, genesis.as_slice())?;
            meta.insert(META_NEXT, 0_u64.to_be_bytes().as_slice())?;
            Ok(None)
        })?;
        match found {
            Some((got, _)) if got != VERSION => Err(IndexFileError::Version {
                path: self.path.clone(),
                got,
                expected: VERSION,
            }),
            Some((_, stored)) if stored != genesis.as_slice() => Err(IndexFileError::OtherChain {
                path: self.path.clone(),
                got: primitives::hex::encode_prefixed(stored),
                expected: genesis.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Writes in one durable commit.
    fn write<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, IndexCallFailure>,
    ) -> Result<T, IndexFileError> {
        guarded(&self.path, || {
            let mut transaction = self.database.begin_write()?;
            transaction.set_quick_repair(true);
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    /// Adds the next blocks, in order, with their hashes. All of them, or none, are added.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn append(&self, blocks: &[(B256, BlockTouches)]) -> Result<(), IndexFileError> {
        self.write(|transaction| {
            let mut roles = transaction.open_table(ROLES)?;
            let mut tokens = transaction.open_table(TOKENS)?;
            let mut rows = transaction.open_table(BLOCKS)?;
            let mut partial = transaction.open_table(PARTIAL)?;
            let mut meta = transaction.open_table(META)?;
            let mut next = next_in(&meta)?;
            for (hash, touches) in blocks {
                let mut row = hash.to_vec();
                let count = u32::try_from(touches.roles.len()).map_err(|_| damaged("too many accounts"))?;
                row.extend_from_slice(&count.to_be_bytes());
                for ((address, index), parts) in &touches.roles {
                    let key = key_of(address, next, index.unwrap_or(BLOCK_ITSELF));
                    roles.insert(key.as_slice(), [parts.0].as_slice())?;
                    row.extend_from_slice(&key[..ADDRESS_LEN]);
                    row.extend_from_slice(&key[ADDRESS_LEN + 8..]);
                }
                for (address, token) in &touches.tokens {
                    let key = [address.as_slice(), token.as_slice()].concat();
                    if tokens.get(key.as_slice())?.is_none() {
                        tokens.insert(key.as_slice(), next.to_be_bytes().as_slice())?;
                        row.extend_from_slice(&key);
                    }
                }
                if touches.is_partial {
                    partial.insert(next.to_be_bytes().as_slice(), b"".as_slice())?;
                }
                rows.insert(next.to_be_bytes().as_slice(), row.as_slice())?;
                if let Some(old) = next.checked_sub(KEPT_BLOCKS) {
                    rows.remove(old.to_be_bytes().as_slice())?;
                }
                next += 1;
            }
            meta.insert(META_NEXT, next.to_be_bytes().as_slice())?;
            Ok(())
        })
    }

    /// Takes back all blocks from `first` on. If their keys are not kept, the whole table is
    /// searched.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn take_back(&self, first: u64) -> Result<(), IndexFileError> {
        self.write(|transaction| {
            let mut roles = transaction.open_table(ROLES)?;
            let mut tokens = transaction.open_table(TOKENS)?;
            let mut rows = transaction.open_table(BLOCKS)?;
            let mut partial = transaction.open_table(PARTIAL)?;
            let mut meta = transaction.open_table(META)?;
            let next = next_in(&meta)?;
            let mut is_whole = true;
            for number in (first..next).rev() {
                let row = rows.remove(number.to_be_bytes().as_slice())?;
                let Some(row) = row.map(|row| row.value().to_vec()) else {
                    is_whole = false;
                    break;
                };
                remove_block(number, &row, &mut roles, &mut tokens)?;
            }
            if !is_whole {
                let from = |number: Option<u64>| number.is_none_or(|number| number >= first);
                roles.retain(|key, _| !from(key.get(ADDRESS_LEN..ADDRESS_LEN + 8).and_then(number_in)))?;
                tokens.retain(|_, value| !from(number_in(value)))?;
            }
            partial.retain_in(first.to_be_bytes().as_slice().., |_, _| false)?;
            if first < next {
                meta.insert(META_NEXT, first.to_be_bytes().as_slice())?;
            }
            Ok(())
        })
    }

    /// The index as it is now.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn read(&self) -> Result<IndexReader<'_>, IndexFileError> {
        guarded(&self.path, || {
            let transaction = self.database.begin_read()?;
            let next = next_in(&transaction.open_table(META)?)?;
            Ok(IndexReader {
                path: &self.path,
                roles: transaction.open_table(ROLES)?,
                tokens: transaction.open_table(TOKENS)?,
                blocks: transaction.open_table(BLOCKS)?,
                partial: transaction.open_table(PARTIAL)?,
                next,
            })
        })
    }
}

/// Removes the rows of a block, whose keys are in its row of `blocks`.
fn remove_block(
    number: u64,
    row: &[u8],
    roles: &mut WriteRows<'_>,
    tokens: &mut WriteRows<'_>,
) -> Result<(), IndexCallFailure> {
    let bad = || damaged(format!("the row of block {number} is too short"));
    let count = row.get(32..36).and_then(|bytes| bytes.try_into().ok());
    let count = count.map(u32::from_be_bytes).ok_or_else(bad)?;
    let keys_len = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(SHORT_KEY_LEN))
        .ok_or_else(bad)?;
    let (keys, token_keys) = row[36..].split_at_checked(keys_len).ok_or_else(bad)?;
    for key in keys.chunks_exact(SHORT_KEY_LEN) {
        let (address, index) = key.split_at(ADDRESS_LEN);
        let key = [address, &number.to_be_bytes(), index].concat();
        roles.remove(key.as_slice())?;
    }
    for key in token_keys.chunks_exact(TOKEN_KEY_LEN) {
        tokens.remove(key)?;
    }
    Ok(())
}

/// The number of indexed blocks, which is the number of the next one.
fn next_in(meta: &impl ReadableTable<&'static [u8], &'static [u8]>) -> Result<u64, IndexCallFailure> {
    let row = meta.get(META_NEXT)?;
    row.and_then(|row| number_in(row.value()))
        .ok_or_else(|| damaged("the number of indexed blocks is missing"))
}

/// Runs a call into redb, which panics on some damaged bytes.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, IndexCallFailure>) -> Result<T, IndexFileError> {
    let path = || path.to_owned();
    match catch_panic(work) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(IndexCallFailure::Redb(source))) => Err(IndexFileError::Database {
            path: path(),
            source: Box::new(source),
        }),
        Ok(Err(IndexCallFailure::Damaged(what))) => Err(IndexFileError::Damaged { path: path(), what }),
        Err(panic) => Err(IndexFileError::Panicked { path: path(), panic }),
    }
}

/// The index at one moment.
pub struct IndexReader<'i> {
    path: &'i Path,
    roles: ReadRows,
    tokens: ReadRows,
    blocks: ReadRows,
    partial: ReadRows,
    next: u64,
}

impl IndexReader<'_> {
    /// The number of indexed blocks: those from 0 on.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The hash of an indexed block; `None` if only those of newer blocks are kept.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn hash(&self, number: u64) -> Result<Option<B256>, IndexFileError> {
        guarded(self.path, || {
            let row = self.blocks.get(number.to_be_bytes().as_slice())?;
            let hash = row.map(|row| row.value().get(..32).map(B256::from_slice));
            hash.map(|hash| hash.ok_or_else(|| damaged(format!("the row of block {number} is too short"))))
                .transpose()
        })
    }

    /// The transactions and blocks of `range` in which `address` took part with one of `roles`, in
    /// order: the first ones, or, with `newest`, the last ones, the newest first. At most `max`.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn participations(
        &self,
        address: &Address,
        range: RangeInclusive<u64>,
        roles: Roles,
        newest: bool,
        max: usize,
    ) -> Result<Vec<Participation>, IndexFileError> {
        let (low, high) = (
            key_of(address, *range.start(), 0),
            key_of(address, *range.end(), BLOCK_ITSELF),
        );
        if range.is_empty() {
            return Ok(Vec::new());
        }
        guarded(self.path, || {
            let mut rows = self.roles.range(low.as_slice()..=high.as_slice())?;
            let mut found = Vec::new();
            while found.len() < max {
                let row = if newest { rows.next_back() } else { rows.next() };
                let Some(row) = row else { break };
                let (key, value) = row?;
                let place = participation(key.value(), value.value())
                    .ok_or_else(|| damaged("a row of an account is too short"))?;
                if place.roles.has_any(roles) {
                    found.push(place);
                }
            }
            Ok(found)
        })
    }

    /// The first block of `range`, or with `newest` the last one, whose accounts are not all known.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn partial(&self, range: RangeInclusive<u64>, newest: bool) -> Result<Option<u64>, IndexFileError> {
        if range.is_empty() {
            return Ok(None);
        }
        let (low, high) = (range.start().to_be_bytes(), range.end().to_be_bytes());
        guarded(self.path, || {
            let mut rows = self.partial.range(low.as_slice()..=high.as_slice())?;
            let row = if newest { rows.next_back() } else { rows.next() };
            let number = row.transpose()?.map(|(key, _)| number_in(key.value()));
            number
                .map(|number| number.ok_or_else(|| damaged("a block number is too short")))
                .transpose()
        })
    }

    /// The contracts of the tokens that `address` ever received, at most `max` of them, sorted.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn tokens(&self, address: &Address, max: usize) -> Result<Vec<Address>, IndexFileError> {
        let low = [address.as_slice(), &[0; ADDRESS_LEN]].concat();
        let high = [address.as_slice(), &[0xff; ADDRESS_LEN]].concat();
        guarded(self.path, || {
            let rows = self.tokens.range(low.as_slice()..=high.as_slice())?;
            rows.take(max)
                .map(|row| -> Result<Address, IndexCallFailure> {
                    Ok(Address::from_slice(&row?.0.value()[ADDRESS_LEN..]))
                })
                .collect()
        })
    }

    /// Calls `visit` with each row of the accounts, in the order of the addresses.
    ///
    /// # Errors
    /// [`IndexFileError`] if the file fails.
    pub fn each(&self, mut visit: impl FnMut(Address, Participation)) -> Result<(), IndexFileError> {
        guarded(self.path, || {
            for row in self.roles.iter()? {
                let (key, value) = row?;
                let place = participation(key.value(), value.value());
                let place = place.ok_or_else(|| damaged("a row of an account is too short"))?;
                visit(Address::from_slice(&key.value()[..ADDRESS_LEN]), place);
            }
            Ok(())
        })
    }
}

impl std::fmt::Debug for IndexReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexReader")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENESIS: B256 = B256::repeat_byte(0xee);

    fn address(byte: u8) -> Address {
        Address::repeat_byte(byte)
    }

    /// A block with a transaction of account `one` to account 9, in which `one` gets tokens of 7.
    fn block(one: u8) -> (B256, BlockTouches) {
        let mut touches = BlockTouches::default();
        touches
            .roles
            .insert((address(one), Some(0)), Roles::END.or(Roles::TOKENS));
        touches.roles.insert((address(9), Some(0)), Roles::END);
        touches.roles.insert((address(8), None), Roles::PAID);
        touches.tokens.insert((address(one), address(7)));
        (B256::repeat_byte(one), touches)
    }

    fn all(index: &AddressIndex) -> Vec<(Address, Participation)> {
        let mut rows = Vec::new();
        let reader = index.read().expect("a reader");
        reader
            .each(|address, place| rows.push((address, place)))
            .expect("rows");
        rows
    }

    fn numbers(
        index: &AddressIndex,
        of: u8,
        range: RangeInclusive<u64>,
        newest: bool,
        max: usize,
    ) -> Vec<u64> {
        let reader = index.read().expect("a reader");
        let places = reader.participations(&address(of), range, Roles::END.or(Roles::PAID), newest, max);
        places.expect("rows").iter().map(|place| place.number).collect()
    }

    #[test]
    fn rows_are_found_taken_back_and_still_there_after_an_opening() {
        let folder = tempfile::tempdir().expect("a folder");
        let index = AddressIndex::open(folder.path(), GENESIS).expect("a file");
        index.append(&[block(1), block(2)]).expect("added");
        let two = all(&index);
        let mut partial = block(1);
        partial.1.is_partial = true;
        index.append(&[partial, block(4)]).expect("added");
        assert_eq!(index.read().expect("a reader").next(), 4);
        assert_eq!(numbers(&index, 9, 0..=9, false, 9), [0, 1, 2, 3]);
        assert_eq!(numbers(&index, 9, 1..=2, true, 9), [2, 1]);
        assert_eq!(numbers(&index, 9, 0..=9, true, 1), [3]);
        assert_eq!(numbers(&index, 1, 0..=9, false, 9), [0, 2]);
        assert_eq!(numbers(&index, 3, 0..=9, false, 9), [0; 0]);
        let reader = index.read().expect("a reader");
        assert_eq!(reader.partial(0..=9, true).expect("a row"), Some(2));
        assert_eq!(reader.partial(0..=1, false).expect("no row"), None);
        assert_eq!(reader.tokens(&address(4), 9).expect("tokens"), [address(7)]);
        drop(reader);
        index.take_back(2).expect("taken back");
        assert_eq!(all(&index), two);
        drop(index);
        let index = AddressIndex::open(folder.path(), GENESIS).expect("the file");
        let reader = index.read().expect("a reader");
        assert_eq!(
            (reader.next(), reader.hash(1).expect("a hash")),
            (2, Some(B256::repeat_byte(2)))
        );
        assert_eq!(reader.tokens(&address(4), 9).expect("tokens"), [Address::ZERO; 0]);
        assert_eq!(
            reader.tokens(&address(1), 9).expect("tokens"),
            [address(7)],
            "block 0 has it, too"
        );
        assert_eq!(reader.partial(0..=9, true).expect("no row"), None);
    }

    #[test]
    fn blocks_whose_keys_are_gone_are_taken_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let index = AddressIndex::open(folder.path(), GENESIS).expect("a file");
        let blocks: Vec<_> = (0..KEPT_BLOCKS + 3)
            .map(|number| block(1 + (number % 5) as u8))
            .collect();
        index.append(&blocks[..1]).expect("added");
        let one = all(&index);
        index.append(&blocks[1..]).expect("added");
        assert_eq!(index.read().expect("a reader").hash(2).expect("no hash"), None);
        index.take_back(1).expect("taken back");
        assert_eq!(all(&index), one);
    }

    #[test]
    fn files_of_others_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(
            AddressIndex::open_existing(folder.path(), GENESIS)
                .expect("none")
                .is_none()
        );
        AddressIndex::open(folder.path(), GENESIS).expect("a file");
        let other = AddressIndex::open(folder.path(), B256::ZERO)
            .expect_err("refused")
            .to_string();
        assert!(other.contains("it is of another chain"), "{other}");
        std::fs::write(folder.path().join(FILE_NAME), [7; 5000]).expect("written");
        AddressIndex::open(folder.path(), GENESIS).expect_err("no database");
        // A file that is damaged behind its first page gives errors, and no panic.
        std::fs::remove_file(folder.path().join(FILE_NAME)).expect("removed");
        let index = AddressIndex::open(folder.path(), GENESIS).expect("a file");
        index.append(&[block(1), block(2)]).expect("added");
        drop(index);
        let path = folder.path().join(FILE_NAME);
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[4096..].fill(0xa5);
        std::fs::write(&path, bytes).expect("written");
        let used = AddressIndex::open(folder.path(), GENESIS).and_then(|index| index.append(&[block(3)]));
        used.expect_err("damaged");
    }
}
