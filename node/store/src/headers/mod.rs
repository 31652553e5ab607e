//! Headers beside the canonical chain: headers without bodies, the list of side blocks, and the
//! best header chain.
//!
//! A header whose body is not stored is a *bare header*. It is in a table of its own, so that the
//! tables of blocks have blocks only. The row goes away when the block comes.
//!
//! The best header chain is the one with the most total difficulty, whether its bodies are here or
//! not. It is stored only as far as it is not canonical: [`meta_key::BEST_HEADER`] and
//! [`TableId::BestNumberToHash`]. Which chain that is, and what is removed when there is too much,
//! is decided in the package `chain`.

mod dead_branches;

use std::ops::ControlFlow;

use alloy_rlp::Encodable;
use primitives::{B256, Header, U256};

use crate::blocks::{BlockBody, BlockReads, HeaderRecord};
use crate::codec::{RowReader, block_key, decode_block_key, fixed_hash, fixed_number};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::tables::meta_key;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

/// A header whose body is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareHeader {
    /// The header.
    pub header: Header,
    /// Sum of the difficulties of block 0 to this header.
    pub total_difficulty: U256,
}

impl BareHeader {
    fn encode(&self) -> Vec<u8> {
        let mut row = self.total_difficulty.to_be_bytes::<32>().to_vec();
        Encodable::encode(&self.header, &mut row);
        row
    }

    fn decode(row: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(row);
        let total_difficulty = U256::from_be_bytes(reader.array::<32>()?);
        let header = Header::decode(reader.remaining())?;
        Ok(Self {
            header,
            total_difficulty,
        })
    }
}

/// A side block in the list of side blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideBlock {
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
    /// Hash of its parent.
    pub parent: B256,
    /// Sum of the difficulties of block 0 to this block.
    pub total_difficulty: U256,
}

impl SideBlock {
    fn decode(key: &[u8], row: &[u8]) -> Result<Self, RowError> {
        let (mut key, mut row) = (RowReader::new(key), RowReader::new(row));
        let side = Self {
            number: u64::from_be_bytes(key.array()?),
            hash: B256::from(key.array::<32>()?),
            parent: B256::from(row.array::<32>()?),
            total_difficulty: U256::from_be_bytes(row.array::<32>()?),
        };
        key.finish()?;
        row.finish()?;
        Ok(side)
    }
}

/// A reorganization that has begun and has not ended: its parts were committed up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenReorganization {
    /// Number and hash of the stored block that is to become the head.
    pub target: (u64, B256),
    /// Number and hash of the head before the first part.
    pub old_head: (u64, B256),
}

impl OpenReorganization {
    fn encode(&self) -> Vec<u8> {
        let key = |(number, hash): &(u64, B256)| block_key(*number, hash);
        [key(&self.target), key(&self.old_head)].concat()
    }

    fn decode(row: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(row);
        let mut block = || decode_block_key(reader.take(40)?);
        let (target, old_head) = (block()?, block()?);
        reader.finish()?;
        Ok(Self { target, old_head })
    }
}

/// Reads of headers beside the canonical chain.
pub trait HeaderReads: BlockReads {
    /// The header `hash` whose body is not stored; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn bare_header(&self, hash: &B256) -> Result<Option<BareHeader>, StoreError> {
        read_row(
            self,
            TableId::HashToBareHeader,
            hash.as_slice(),
            BareHeader::decode,
        )
    }

    /// Header and total difficulty of the block or bare header `hash`; `None` if there is neither.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn known_header(&self, hash: &B256) -> Result<Option<BareHeader>, StoreError> {
        match self.header_by_hash(hash)? {
            Some(HeaderRecord {
                header,
                total_difficulty,
                ..
            }) => Ok(Some(BareHeader {
                header,
                total_difficulty,
            })),
            None => self.bare_header(hash),
        }
    }

    /// Number and hash of the best header; `None` if it is the head.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn best_header(&self) -> Result<Option<(u64, B256)>, StoreError> {
        read_row(self, TableId::Meta, meta_key::BEST_HEADER, decode_block_key)
    }

    /// Hash of the best header chain's block or header `number`, if it is not canonical.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn best_hash_beside_chain(&self, number: u64) -> Result<Option<B256>, StoreError> {
        read_row(self, TableId::BestNumberToHash, &number.to_be_bytes(), fixed_hash)
    }

    /// Hash of the best header chain's block or header `number`; `None` above the best header.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn best_hash(&self, number: u64) -> Result<Option<B256>, StoreError> {
        if let Some(hash) = self.best_hash_beside_chain(number)? {
            return Ok(Some(hash));
        }
        match self.best_header()? {
            Some((best, _)) if number > best => Ok(None),
            _ => self.canonical_hash(number),
        }
    }

    /// The numbers and hashes of the best header chain that are not canonical, ascending, from
    /// `first` on, at most `most`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn best_hashes_beside_chain(&self, first: u64, most: usize) -> Result<Vec<(u64, B256)>, StoreError> {
        let (table, mut found) = (TableId::BestNumberToHash, Vec::new());
        let mut corrupt = None;
        let first = first.to_be_bytes();
        // A damaged key may be shorter than any number.
        let low = if first == [0; 8] { &[][..] } else { &first };
        self.scan(table, low, |key, row| {
            match (fixed_number(key), fixed_hash(row)) {
                _ if found.len() == most => return ControlFlow::Break(()),
                (Ok(number), Ok(hash)) => found.push((number, hash)),
                (Err(error), _) | (_, Err(error)) => {
                    corrupt = Some(error.in_row(table, key));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        corrupt.map_or(Ok(found), Err)
    }

    /// The list of side blocks, ascending by number.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn side_blocks(&self) -> Result<Vec<SideBlock>, StoreError> {
        let mut found = Vec::new();
        self.scan_side_blocks(&[], |side| {
            found.push(side);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The side blocks with this number.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn side_blocks_at(&self, number: u64) -> Result<Vec<SideBlock>, StoreError> {
        let mut found = Vec::new();
        self.scan_side_blocks(&number.to_be_bytes(), |side| {
            if side.number != number {
                return ControlFlow::Break(());
            }
            found.push(side);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Calls `visit` with each side block from the key `low` on, ascending by number, until it
    /// breaks.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn scan_side_blocks(
        &self,
        low: &[u8],
        mut visit: impl FnMut(SideBlock) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let (table, mut corrupt) = (TableId::SideBlockList, None);
        self.scan(table, low, |key, row| match SideBlock::decode(key, row) {
            Ok(side) => visit(side),
            Err(error) => {
                corrupt = Some(error.in_row(table, key));
                ControlFlow::Break(())
            }
        })?;
        corrupt.map_or(Ok(()), Err)
    }

    /// Calls `visit` with each bare header and its hash, in no order.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn for_each_bare_header(&self, mut visit: impl FnMut(B256, BareHeader)) -> Result<(), StoreError> {
        let (table, mut corrupt) = (TableId::HashToBareHeader, None);
        self.scan(table, &[], |key, row| {
            match (fixed_hash(key), BareHeader::decode(row)) {
                (Ok(hash), Ok(header)) => {
                    visit(hash, header);
                    ControlFlow::Continue(())
                }
                (Err(error), _) | (_, Err(error)) => {
                    corrupt = Some(error.in_row(table, key));
                    ControlFlow::Break(())
                }
            }
        })?;
        corrupt.map_or(Ok(()), Err)
    }

    /// The reorganization that was cut short; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn open_reorganization(&self) -> Result<Option<OpenReorganization>, StoreError> {
        read_row(
            self,
            TableId::Meta,
            meta_key::REORGANIZATION,
            OpenReorganization::decode,
        )
    }
}

impl<S: BlockReads> HeaderReads for S {}

impl Tables<'_> {
    /// Writes a header whose body is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_bare_header(&mut self, hash: &B256, header: &BareHeader) -> Result<(), StoreError> {
        self.put(TableId::HashToBareHeader, hash.as_slice(), &header.encode())
    }

    /// Removes a header whose body is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete_bare_header(&mut self, hash: &B256) -> Result<(), StoreError> {
        self.delete_if_there(TableId::HashToBareHeader, hash.as_slice())
    }

    /// Writes the header and the body of a side block, and adds it to the list of side blocks.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_side_block(
        &mut self,
        hash: &B256,
        record: &HeaderRecord,
        body: &BlockBody,
    ) -> Result<(), StoreError> {
        self.put_block(hash, record, body)?;
        self.list_side_block(&record.header, hash, record.total_difficulty)
    }

    /// Adds a stored block to the list of side blocks.
    pub(crate) fn list_side_block(
        &mut self,
        header: &Header,
        hash: &B256,
        total_difficulty: U256,
    ) -> Result<(), StoreError> {
        let row = [
            header.parent_hash.as_slice(),
            &total_difficulty.to_be_bytes::<32>(),
        ]
        .concat();
        self.put(TableId::SideBlockList, &block_key(header.number, hash), &row)
    }

    /// Removes a side block: its header, its body, its receipts, and the row in the list.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete_side_block(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        let key = block_key(number, hash);
        self.delete(TableId::SideBlockList, &key)?;
        self.delete_block(&key)
    }

    /// Removes all headers whose bodies are not stored. The head is the best header then.
    pub(crate) fn delete_all_bare_headers(&mut self) -> Result<(), StoreError> {
        let mut bare = Vec::new();
        self.for_each_bare_header(|hash, _| bare.push(hash))?;
        for hash in bare {
            self.delete_bare_header(&hash)?;
        }
        self.delete_best_header()
    }

    /// Makes a header the best one. The rows of its chain are written with
    /// [`Tables::put_best_hash`].
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_best_header(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::BEST_HEADER, &block_key(number, hash))
    }

    /// Writes which block or header the best header chain has at `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_best_hash(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        self.put(TableId::BestNumberToHash, &number.to_be_bytes(), hash.as_slice())
    }

    /// Removes the row that [`Tables::put_best_hash`] has written for `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete_best_hash(&mut self, number: u64) -> Result<(), StoreError> {
        self.delete(TableId::BestNumberToHash, &number.to_be_bytes())
    }

    /// Makes the head the best header.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn delete_best_header(&mut self) -> Result<(), StoreError> {
        for (number, _) in self.best_hashes_beside_chain(0, usize::MAX)? {
            self.delete_best_hash(number)?;
        }
        self.delete_if_there(TableId::Meta, meta_key::BEST_HEADER)
    }

    /// Notes that a reorganization goes on in the next transaction.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_open_reorganization(&mut self, open: &OpenReorganization) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::REORGANIZATION, &open.encode())
    }

    /// Notes that no reorganization goes on.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn delete_open_reorganization(&mut self) -> Result<(), StoreError> {
        self.delete_if_there(TableId::Meta, meta_key::REORGANIZATION)
    }

    /// Removes a row if there is one. Unlike [`Tables::delete`] this leaves nothing in the log
    /// otherwise.
    pub(crate) fn delete_if_there(&mut self, table: TableId, key: &[u8]) -> Result<(), StoreError> {
        match self.with(table, key, |_| ())? {
            Some(()) => self.delete(table, key),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Store;

    fn write<T>(store: &Store, work: impl FnOnce(&mut Tables<'_>) -> Result<T, StoreError>) -> T {
        let batch = store.batch().unwrap();
        let value = batch.write(work).unwrap();
        batch.commit().unwrap();
        value
    }

    fn bare(number: u64) -> (B256, BareHeader) {
        let header = Header {
            number,
            parent_hash: B256::repeat_byte(number as u8),
            ..Default::default()
        };
        let total_difficulty = U256::from(number * 512);
        let bare = BareHeader {
            header,
            total_difficulty,
        };
        (bare.header.hash(), bare)
    }

    #[test]
    fn a_bare_header_is_no_block_and_goes_when_the_block_comes() {
        let store = Store::in_memory().unwrap();
        let (hash, header) = bare(7);
        write(&store, |tables| tables.put_bare_header(&hash, &header));
        let view = store.snapshot().unwrap();
        assert_eq!(view.bare_header(&hash).unwrap().as_ref(), Some(&header));
        assert_eq!(view.known_header(&hash).unwrap().as_ref(), Some(&header));
        assert_eq!(view.block_number(&hash).unwrap(), None);
        assert_eq!(view.header_by_hash(&hash).unwrap(), None);
        let record = HeaderRecord {
            header: header.header.clone(),
            total_difficulty: header.total_difficulty,
            executed: false,
        };
        write(&store, |tables| {
            tables.put_side_block(&hash, &record, &BlockBody::default())
        });
        let view = store.snapshot().unwrap();
        assert_eq!(view.bare_header(&hash).unwrap(), None);
        assert_eq!(view.known_header(&hash).unwrap(), Some(header.clone()));
        assert_eq!(view.block_number(&hash).unwrap(), Some(7));
        let side = SideBlock {
            number: 7,
            hash,
            parent: header.header.parent_hash,
            total_difficulty: header.total_difficulty,
        };
        assert_eq!(view.side_blocks().unwrap(), [side]);
        write(&store, |tables| tables.delete_side_block(7, &hash));
        let view = store.snapshot().unwrap();
        assert_eq!(view.side_blocks().unwrap(), []);
        assert_eq!(view.known_header(&hash).unwrap(), None);
    }

    #[test]
    fn the_best_header_chain_is_read_by_number() {
        let store = Store::in_memory().unwrap();
        let (hash, _) = bare(3);
        write(&store, |tables| {
            tables.put(TableId::NumberToHash, &1u64.to_be_bytes(), hash.as_slice())?;
            tables.put(TableId::NumberToHash, &4u64.to_be_bytes(), hash.as_slice())?;
            tables.put_best_hash(2, &hash)?;
            tables.put_best_hash(3, &hash)?;
            tables.put_best_header(3, &hash)
        });
        let view = store.snapshot().unwrap();
        let numbers = [1, 2, 3, 4, 5].map(|number| view.best_hash(number).unwrap().is_some());
        assert_eq!(numbers, [true, true, true, false, false]);
        assert_eq!(view.best_header().unwrap(), Some((3, hash)));
        assert_eq!(view.best_hashes_beside_chain(3, 9).unwrap(), [(3, hash)]);
        assert_eq!(view.best_hashes_beside_chain(0, 1).unwrap(), [(2, hash)]);
        write(&store, |tables| tables.delete_best_header());
        let view = store.snapshot().unwrap();
        assert_eq!(view.best_header().unwrap(), None);
        assert_eq!(view.best_hash(4).unwrap(), Some(hash));
        assert_eq!(view.best_hash(3).unwrap(), None);
    }

    #[test]
    fn an_open_reorganization_is_read_as_it_was_written() {
        let store = Store::in_memory().unwrap();
        let open = OpenReorganization {
            target: (8, B256::repeat_byte(8)),
            old_head: (7, B256::repeat_byte(7)),
        };
        write(&store, |tables| tables.put_open_reorganization(&open));
        let read = |store: &Store| store.snapshot().unwrap().open_reorganization();
        assert_eq!(read(&store).unwrap(), Some(open));
        write(&store, |tables| tables.delete_open_reorganization());
        assert_eq!(read(&store).unwrap(), None);
    }

    proptest! {
        #[test]
        fn damaged_rows_are_errors(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            key in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            // A decoder must not panic, whatever it gets; what it takes, it writes in the same way.
            if let Ok(header) = BareHeader::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes.clone());
            }
            let is_row = key.len() == 40 && bytes.len() == 64;
            prop_assert_eq!(SideBlock::decode(&key, &bytes).is_ok(), is_row);
            prop_assert_eq!(OpenReorganization::decode(&bytes).is_ok(), bytes.len() == 80);
            let store = Store::in_memory().unwrap();
            write(&store, |tables| {
                tables.put(TableId::SideBlockList, &key, &bytes)?;
                tables.put(TableId::BestNumberToHash, &key, &bytes)?;
                tables.put(TableId::HashToBareHeader, &key, &bytes)
            });
            let view = store.snapshot().unwrap();
            prop_assert_eq!(view.side_blocks().is_ok(), is_row);
                let is_hash = key.len() == 8 && bytes.len() == 32;
            prop_assert_eq!(view.best_hashes_beside_chain(0, 1).is_ok(), is_hash);
            let is_header = key.len() == 32 && BareHeader::decode(&bytes).is_ok();
            prop_assert_eq!(view.for_each_bare_header(|_, _| ()).is_ok(), is_header);
        }
    }

    #[test]
    fn a_truncated_bare_header_is_an_error() {
        let row = bare(9).1.encode();
        assert_eq!(BareHeader::decode(&row).unwrap(), bare(9).1);
        for cut in 0..row.len() {
            assert!(BareHeader::decode(&row[..cut]).is_err(), "truncated at {cut}");
        }
    }
}
