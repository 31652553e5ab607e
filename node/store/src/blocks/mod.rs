//! Blocks: headers with total difficulty, bodies with senders, receipts, positions of transactions.
//!
//! Canonical and side blocks are in the same tables. Only [`TableId::NumberToHash`] says which
//! blocks are canonical. Receipts are stored without blooms, which are computed from the logs. The
//! row encodings are in [`encoding`].

mod encoding;
mod old;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use primitives::{Address, B256, Block, Header, Receipt, Transaction, TxForm, TxRules, U256};

use crate::ancient::{BlockPart, with_part};
use crate::canonical::canonical_hash;
use crate::codec::{block_key, decode_block_key, fixed_number};
use crate::part_rows::encode_receipts;
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::tables::meta_key;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};
use encoding::{decode_body, decode_positions, decode_receipts, encode_body, encode_positions};

/// A stored header, with what else is known of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRecord {
    /// The header.
    pub header: Header,
    /// Sum of the difficulties of block 0 to this block.
    pub total_difficulty: U256,
    /// Whether the block was executed. Then its roots were found right and its receipts are stored.
    pub executed: bool,
}

/// A block without its header, with the senders of its transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockBody {
    /// The transactions, in the order of the block.
    pub transactions: Vec<Transaction>,
    /// The sender of each transaction, in the same order.
    pub senders: Vec<Address>,
    /// The headers of the uncles.
    pub uncles: Vec<Header>,
}

/// Bytes of a transaction's hash that are the key of its position. Two hashes with the same first
/// bytes only make the row of both longer.
pub(crate) const POSITION_KEY_BYTES: usize = 8;

fn position_key(hash: &B256) -> &[u8] {
    &hash[..POSITION_KEY_BYTES]
}

/// The place of a transaction of a canonical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionPosition {
    /// Number of the block.
    pub block_number: u64,
    /// Index of the transaction in the block, from 0.
    pub index: u32,
}

/// Reads of blocks.
pub trait BlockReads: Source + Sized {
    /// Number and hash of the head block; `None` in a store without blocks.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn head(&self) -> Result<Option<(u64, B256)>, StoreError> {
        read_row(self, TableId::Meta, meta_key::HEAD, decode_block_key)
    }

    /// Hash of the canonical block `number`; `None` if there is no such block.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, StoreError> {
        canonical_hash(self, number)
    }

    /// The lowest block from which on all canonical blocks are stored; 0 if all are. Of lower ones
    /// there may be a few.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn first_block(&self) -> Result<u64, StoreError> {
        let row = read_row(self, TableId::Meta, meta_key::FIRST_BLOCK, fixed_number)?;
        Ok(row.unwrap_or_default())
    }

    /// The lowest canonical block from `number` on; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn next_block(&self, number: u64) -> Result<Option<u64>, StoreError> {
        let (table, low) = (TableId::NumberToHash, number.to_be_bytes());
        let mut next = None;
        self.visit_from(table, &low, &mut |key, _| {
            next = Some(fixed_number(key).map_err(|error| error.in_row(table, key)));
            ControlFlow::Break(())
        })?;
        next.transpose()
    }

    /// Number of the block `hash`, canonical or not; `None` if it is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn block_number(&self, hash: &B256) -> Result<Option<u64>, StoreError> {
        read_row(self, TableId::HashToNumber, hash.as_slice(), fixed_number)
    }

    /// Header of the block `number` with `hash`; `None` if it is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn header(&self, number: u64, hash: &B256) -> Result<Option<HeaderRecord>, StoreError> {
        let key = block_key(number, hash);
        read_row(self, TableId::BlockToHeader, &key, HeaderRecord::decode)
    }

    /// Header of the block `hash`; `None` if it is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn header_by_hash(&self, hash: &B256) -> Result<Option<HeaderRecord>, StoreError> {
        match self.block_number(hash)? {
            Some(number) => self.header(number, hash),
            None => Ok(None),
        }
    }

    /// Body of the block `number` with `hash`; `None` if it is not stored. `rules` say which forms
    /// its transactions may have.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn body(&self, number: u64, hash: &B256, rules: TxRules) -> Result<Option<BlockBody>, StoreError> {
        with_part(self, BlockPart::Body, number, hash, |row| decode_body(row, rules))?
            .transpose()
            .map_err(|error| error.in_row(TableId::BlockToBody, &block_key(number, hash)))
    }

    /// Length of the rows of header and body of the block `number` with `hash`, in bytes; 0 if they
    /// are not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn block_bytes(&self, number: u64, hash: &B256) -> Result<usize, StoreError> {
        let header = self.with(TableId::BlockToHeader, &block_key(number, hash), <[u8]>::len)?;
        let body = with_part(self, BlockPart::Body, number, hash, <[u8]>::len)?;
        Ok(header.unwrap_or(0) + body.unwrap_or(0))
    }

    /// Receipts of the block `number` with `hash`; `None` if it was not executed.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn receipts(&self, number: u64, hash: &B256) -> Result<Option<Vec<Receipt>>, StoreError> {
        with_part(self, BlockPart::Receipts, number, hash, decode_receipts)?
            .transpose()
            .map_err(|error| error.in_row(TableId::BlockToReceipts, &block_key(number, hash)))
    }

    /// The places that the transaction `hash` may have. It is at one of them if a canonical block
    /// has it.
    ///
    /// Only the first bytes of the hash are stored, so the caller must compare the transaction. A
    /// classic transaction is also found by its Ethereum hash.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn transaction_positions(&self, hash: &B256) -> Result<Vec<TransactionPosition>, StoreError> {
        let (table, key) = (TableId::TransactionToPosition, position_key(hash));
        Ok(read_row(self, table, key, decode_positions)?.unwrap_or_default())
    }

    /// The number of transaction positions that are stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a row is corrupt.
    fn count_positions(&self) -> Result<u64, StoreError> {
        let (table, mut count, mut corrupt) = (TableId::TransactionToPosition, 0, Ok(()));
        self.scan(table, &[], |key, row| match decode_positions(row) {
            Ok(positions) => {
                count += positions.len() as u64;
                ControlFlow::Continue(())
            }
            Err(error) => {
                corrupt = Err(error.in_row(table, key));
                ControlFlow::Break(())
            }
        })?;
        corrupt.map(|()| count)
    }
}

impl<S: Source> BlockReads for S {}

impl Tables<'_> {
    /// Writes the header and the body of a block, which is no bare header any more. The block is
    /// not canonical yet.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_block(
        &mut self,
        hash: &B256,
        record: &HeaderRecord,
        body: &BlockBody,
    ) -> Result<(), StoreError> {
        let number = record.header.number;
        self.delete_bare_header(hash)?;
        self.put(TableId::HashToNumber, hash.as_slice(), &number.to_be_bytes())?;
        self.put(TableId::BlockToHeader, &block_key(number, hash), &record.encode())?;
        self.put(TableId::BlockToBody, &block_key(number, hash), &encode_body(body))
    }

    /// Writes the header row of a block, and replaces the one that is there.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_header(&mut self, hash: &B256, record: &HeaderRecord) -> Result<(), StoreError> {
        let key = block_key(record.header.number, hash);
        self.put(TableId::BlockToHeader, &key, &record.encode())
    }

    /// Writes the receipts of an executed block.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_receipts(&mut self, number: u64, hash: &B256, receipts: &[Receipt]) -> Result<(), StoreError> {
        let key = block_key(number, hash);
        self.put(TableId::BlockToReceipts, &key, &encode_receipts(receipts))
    }

    /// Makes an executed block canonical and the head: writes its hash by number, the positions of
    /// its transactions and the new head, and adds its logs to the log index.
    ///
    /// The rows of the log index are written at the end of
    /// [`WriteBatch::write`](crate::WriteBatch::write).
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_canonical(
        &mut self,
        number: u64,
        hash: &B256,
        transactions: &[Transaction],
        receipts: &[Receipt],
    ) -> Result<(), StoreError> {
        self.delete_if_there(TableId::SideBlockList, &block_key(number, hash))?;
        self.put(TableId::NumberToHash, &number.to_be_bytes(), hash.as_slice())?;
        for (index, hash) in position_hashes(number, transactions) {
            let position = TransactionPosition {
                block_number: number,
                index: index as u32,
            };
            self.change_positions(&hash, |positions| positions.push(position))?;
        }
        self.index_logs(number, receipts);
        self.put_head(number, hash)
    }

    /// Says that all canonical blocks are stored from block `number` on only.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_first_block(&mut self, number: u64) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::FIRST_BLOCK, &number.to_be_bytes())
    }

    /// Undoes [`Tables::put_canonical`] for the head block. Its parent becomes the head. The block
    /// stays stored as a side block, with rows for the parts that were in the blocks file.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails, or when the block's receipts or its part of the
    /// log index are corrupt.
    pub fn delete_canonical(
        &mut self,
        header: &Header,
        transactions: &[Transaction],
    ) -> Result<(), StoreError> {
        self.take_from_file(header.number, &header.hash())?;
        self.delete(TableId::NumberToHash, &header.number.to_be_bytes())?;
        for (_, hash) in position_hashes(header.number, transactions) {
            self.change_positions(&hash, |positions| {
                positions.retain(|position| position.block_number != header.number);
            })?;
        }
        let (number, hash) = (header.number, header.hash());
        let missing = |table| RowError::Missing.in_row(table, &block_key(number, &hash));
        let record = self.header(number, &hash)?;
        let record = record.ok_or_else(|| missing(TableId::BlockToHeader))?;
        self.list_side_block(header, &hash, record.total_difficulty)?;
        let receipts = self.receipts(number, &hash)?;
        let receipts = receipts.ok_or_else(|| missing(TableId::BlockToReceipts))?;
        self.unindex_logs(number, &receipts)?;
        self.put_head(header.number.saturating_sub(1), &header.parent_hash)
    }

    /// Removes all blocks above `number`, and all bare headers: the head is the best header then.
    /// None of the blocks may be canonical.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn delete_blocks_above(&mut self, number: u64) -> Result<(), StoreError> {
        let lowest = number.saturating_add(1);
        let mut keys = Vec::new();
        self.scan(TableId::BlockToHeader, &lowest.to_be_bytes(), |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in keys {
            self.delete_if_there(TableId::SideBlockList, &key)?;
            self.delete_block(&key)?;
        }
        self.delete_all_bare_headers()
    }

    /// Removes header, body and receipts of the block with this key.
    pub(crate) fn delete_block(&mut self, key: &[u8]) -> Result<(), StoreError> {
        for table in [
            TableId::BlockToHeader,
            TableId::BlockToBody,
            TableId::BlockToReceipts,
        ] {
            self.delete(table, key)?;
        }
        match key.get(8..) {
            Some(hash) => self.delete(TableId::HashToNumber, hash),
            None => Ok(()),
        }
    }

    /// Changes the row of positions of a transaction. A row without positions is removed.
    fn change_positions(
        &mut self,
        hash: &B256,
        change: impl FnOnce(&mut Vec<TransactionPosition>),
    ) -> Result<(), StoreError> {
        let mut positions = self.transaction_positions(hash)?;
        change(&mut positions);
        positions.sort_unstable();
        positions.dedup();
        let key = position_key(hash);
        if positions.is_empty() {
            self.delete(TableId::TransactionToPosition, key)
        } else {
            self.put(TableId::TransactionToPosition, key, &encode_positions(&positions))
        }
    }

    fn put_head(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::HEAD, &block_key(number, hash))
    }
}

/// The hashes under which the transactions of block `number` are found, with their indexes: the own
/// hash of each and, if it is classic, its Ethereum hash.
///
/// A block may contain any system transactions, and other blocks may contain the same. So a system
/// transaction is found only if it is the one that belongs to this block, at its first place.
pub fn position_hashes(number: u64, transactions: &[Transaction]) -> impl Iterator<Item = (usize, B256)> {
    let own = transactions.iter().position(Transaction::is_system);
    let own = own.filter(|index| {
        let tx_nonce = number.checked_sub(1);
        tx_nonce.is_some_and(|nonce| transactions[*index] == Transaction::system(nonce))
    });
    let found = transactions.iter().enumerate();
    let found = found.filter(move |(index, one)| !one.is_system() || own == Some(*index));
    found.flat_map(|(index, transaction)| {
        let classic = transaction.form == TxForm::Classic;
        let ethereum_hash = classic.then(|| transaction.ethereum_hash()).flatten();
        let hashes = std::iter::once(transaction.hash()).chain(ethereum_hash);
        hashes.map(move |hash| (index, hash))
    })
}

impl BlockBody {
    /// The body of `block`. `senders` are those of its transactions, in order.
    pub fn new(block: Block, senders: Vec<Address>) -> Self {
        Self {
            transactions: block.transactions,
            senders,
            uncles: block.uncles,
        }
    }
}
