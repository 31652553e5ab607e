//! Blocks: headers with total difficulty, bodies with senders, receipts, positions.
//!
//! Canonical and side blocks lie in the same tables; what is canonical is only in
//! [`TableId::NumberToHash`]. Receipts are kept without blooms, which follow from logs.

use std::ops::ControlFlow;

use alloy_rlp::Encodable;
use primitives::rlp::Reader;
use primitives::{
    Address, B256, Block, Header, Log, Receipt, ReceiptOutcome, Transaction, TxForm, TxRules, U256,
};

use crate::batch::Tables;
use crate::codec::{Cursor, block_key};
use crate::source::Source;
use crate::tables::meta_key;
use crate::{StoreError, TableId};

/// A stored header and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRecord {
    /// The header.
    pub header: Header,
    /// Sum of the difficulties from block 0 to this block.
    pub total_difficulty: U256,
    /// Whether the block was executed: its receipts are there and its roots were compared.
    pub executed: bool,
}

impl HeaderRecord {
    fn encode(&self) -> Vec<u8> {
        let mut row = self.total_difficulty.to_be_bytes::<32>().to_vec();
        row.push(u8::from(self.executed));
        Encodable::encode(&self.header, &mut row);
        row
    }

    fn decode(row: &[u8]) -> Result<Self, String> {
        let mut cursor = Cursor::new(row);
        let total_difficulty = U256::from_be_bytes(cursor.array::<32>()?);
        let [executed] = cursor.array()?;
        if executed > 1 {
            return Err(format!("unknown flag {executed}"));
        }
        let header = Header::decode(cursor.remaining()).map_err(|error| error.to_string())?;
        Ok(Self {
            header,
            total_difficulty,
            executed: executed == 1,
        })
    }
}

/// What a block holds beside its header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockBody {
    /// The transactions in order.
    pub transactions: Vec<Transaction>,
    /// Who sent each; as many as transactions.
    pub senders: Vec<Address>,
    /// Headers of uncles.
    pub uncles: Vec<Header>,
}

/// Where a canonical transaction lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionPosition {
    /// Its block.
    pub block_number: u64,
    /// Its place in the block.
    pub index: u32,
}

fn encode_body(body: &BlockBody) -> Vec<u8> {
    let mut row = (body.senders.len() as u32).to_be_bytes().to_vec();
    for sender in &body.senders {
        row.extend_from_slice(sender.as_slice());
    }
    let parts: [&dyn Encodable; 2] = [&body.transactions, &body.uncles];
    alloy_rlp::encode_list::<_, dyn Encodable>(&parts, &mut row);
    row
}

fn decode_body(row: &[u8], rules: TxRules) -> Result<BlockBody, String> {
    let mut cursor = Cursor::new(row);
    let count = cursor.u32()? as usize;
    let senders: Vec<_> = cursor
        .take(count.checked_mul(20).ok_or("sender count overflows")?)?
        .chunks_exact(20)
        .map(Address::from_slice)
        .collect();
    let error = |error: primitives::DecodeError| error.to_string();
    let mut parts = Reader::open(cursor.remaining(), "body").map_err(error)?;
    let transactions = entries(parts.list("transactions").map_err(error)?, |rlp| {
        Transaction::decode_stored(rlp, rules)
    })?;
    let uncles = entries(parts.list("uncles").map_err(error)?, Header::decode)?;
    if !parts.is_empty() || transactions.len() != senders.len() {
        return Err(format!(
            "{} senders for {} transactions, or a third part",
            senders.len(),
            transactions.len()
        ));
    }
    Ok(BlockBody {
        transactions,
        senders,
        uncles,
    })
}

/// Decodes every entry of a list.
fn entries<T>(
    mut list: Reader<'_>,
    decode: impl Fn(&[u8]) -> Result<T, primitives::DecodeError>,
) -> Result<Vec<T>, String> {
    let mut out = Vec::new();
    while !list.is_empty() {
        let entry = list
            .raw("entry")
            .and_then(&decode)
            .map_err(|error| error.to_string())?;
        out.push(entry);
    }
    Ok(out)
}

fn encode_receipts(receipts: &[Receipt]) -> Vec<u8> {
    struct Stored<'a>(&'a Receipt);
    impl Encodable for Stored<'_> {
        fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
            let outcome: &[u8] = match &self.0.outcome {
                ReceiptOutcome::Status(false) => &[],
                ReceiptOutcome::Status(true) => &[1],
                ReceiptOutcome::Root(root) => root.as_slice(),
            };
            let fields: [&dyn Encodable; 3] = [&outcome, &self.0.cumulative_gas_used, &self.0.logs];
            alloy_rlp::encode_list::<_, dyn Encodable>(&fields, out);
        }
    }
    let mut row = Vec::new();
    let stored: Vec<_> = receipts.iter().map(Stored).collect();
    alloy_rlp::encode_list::<_, Stored<'_>>(&stored, &mut row);
    row
}

fn decode_receipts(row: &[u8]) -> Result<Vec<Receipt>, String> {
    let error = |error: primitives::DecodeError| error.to_string();
    entries(Reader::open(row, "receipts").map_err(error)?, |rlp| {
        let mut fields = Reader::open(rlp, "receipt")?;
        fields.expect_count("receipt", 3, "3")?;
        let outcome = match fields.slice("outcome")? {
            [] => ReceiptOutcome::Status(false),
            [1] => ReceiptOutcome::Status(true),
            _ => {
                let mut again = Reader::open(rlp, "receipt")?;
                ReceiptOutcome::Root(again.fixed("outcome")?)
            }
        };
        let cumulative_gas_used = fields.u64("cumulative gas")?;
        let mut list = fields.list("logs")?;
        let mut logs = Vec::new();
        while !list.is_empty() {
            logs.push(Log::decode(list.raw("log")?)?);
        }
        Ok(Receipt::new(outcome, cumulative_gas_used, logs))
    })
}

fn fixed<const N: usize>(table: TableId, key: &[u8], row: &[u8]) -> Result<[u8; N], StoreError> {
    row.try_into()
        .map_err(|_| StoreError::corrupt(table, key, format!("want {N} bytes, got {}", row.len())))
}

/// Reads of blocks.
pub trait BlockReads: Source {
    /// Number and hash of the head block; `None` in a store without genesis.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn head(&self) -> Result<Option<(u64, B256)>, StoreError> {
        self.with(TableId::Meta, meta_key::HEAD, |row| {
            let row: [u8; 40] = fixed(TableId::Meta, meta_key::HEAD, row)?;
            let (number, hash) = row.split_at(8);
            Ok((
                u64::from_be_bytes(number.try_into().expect("8 bytes")),
                B256::from_slice(hash),
            ))
        })?
        .transpose()
    }

    /// Hash of the canonical block `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, StoreError> {
        let key = number.to_be_bytes();
        self.with(TableId::NumberToHash, &key, |row| {
            fixed::<32>(TableId::NumberToHash, &key, row).map(B256::from)
        })?
        .transpose()
    }

    /// Number of the block `hash`, canonical or not.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn block_number(&self, hash: &B256) -> Result<Option<u64>, StoreError> {
        self.with(TableId::HashToNumber, hash.as_slice(), |row| {
            fixed::<8>(TableId::HashToNumber, hash.as_slice(), row).map(u64::from_be_bytes)
        })?
        .transpose()
    }

    /// Header of a block.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn header(&self, number: u64, hash: &B256) -> Result<Option<HeaderRecord>, StoreError> {
        let key = block_key(number, hash);
        self.with(TableId::BlockToHeader, &key, HeaderRecord::decode)?
            .transpose()
            .map_err(|reason| StoreError::corrupt(TableId::BlockToHeader, &key, reason))
    }

    /// Header of the block `hash`.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or a row is corrupt.
    fn header_by_hash(&self, hash: &B256) -> Result<Option<HeaderRecord>, StoreError> {
        match self.block_number(hash)? {
            Some(number) => self.header(number, hash),
            None => Ok(None),
        }
    }

    /// Body of a block. `rules` say which transaction forms may lie in it.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn body(&self, number: u64, hash: &B256, rules: TxRules) -> Result<Option<BlockBody>, StoreError> {
        let key = block_key(number, hash);
        self.with(TableId::BlockToBody, &key, |row| decode_body(row, rules))?
            .transpose()
            .map_err(|reason| StoreError::corrupt(TableId::BlockToBody, &key, reason))
    }

    /// Receipts of an executed block.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn receipts(&self, number: u64, hash: &B256) -> Result<Option<Vec<Receipt>>, StoreError> {
        let key = block_key(number, hash);
        self.with(TableId::BlockToReceipts, &key, decode_receipts)?
            .transpose()
            .map_err(|reason| StoreError::corrupt(TableId::BlockToReceipts, &key, reason))
    }

    /// Where the canonical transaction `hash` lies.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn transaction_position(&self, hash: &B256) -> Result<Option<TransactionPosition>, StoreError> {
        self.with(TableId::TransactionToPosition, hash.as_slice(), |row| {
            let row: [u8; 12] = fixed(TableId::TransactionToPosition, hash.as_slice(), row)?;
            let mut cursor = Cursor::new(&row);
            let number = cursor.array().map(u64::from_be_bytes);
            let index = cursor.u32();
            match (number, index) {
                (Ok(block_number), Ok(index)) => Ok(TransactionPosition { block_number, index }),
                _ => Err(StoreError::corrupt(
                    TableId::TransactionToPosition,
                    hash.as_slice(),
                    "short row",
                )),
            }
        })?
        .transpose()
    }
}

impl<S: Source> BlockReads for S {}

impl Tables<'_> {
    /// Writes a block with its senders.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn put_block(
        &mut self,
        hash: &B256,
        record: &HeaderRecord,
        body: &BlockBody,
    ) -> Result<(), StoreError> {
        let number = record.header.number;
        self.put(TableId::HashToNumber, hash.as_slice(), &number.to_be_bytes())?;
        self.put(TableId::BlockToHeader, &block_key(number, hash), &record.encode())?;
        self.put(TableId::BlockToBody, &block_key(number, hash), &encode_body(body))
    }

    /// Writes the header row of a block, over the one that is there.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn put_header(&mut self, hash: &B256, record: &HeaderRecord) -> Result<(), StoreError> {
        let key = block_key(record.header.number, hash);
        self.put(TableId::BlockToHeader, &key, &record.encode())
    }

    /// Writes the receipts of an executed block.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn put_receipts(&mut self, number: u64, hash: &B256, receipts: &[Receipt]) -> Result<(), StoreError> {
        self.put(
            TableId::BlockToReceipts,
            &block_key(number, hash),
            &encode_receipts(receipts),
        )
    }

    /// Makes an executed block canonical and head: number, position of each transaction, index
    /// of its logs (which is written at the end of [`Batch::write`](crate::Batch::write)).
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn put_canonical(
        &mut self,
        number: u64,
        hash: &B256,
        transactions: &[Transaction],
        receipts: &[Receipt],
    ) -> Result<(), StoreError> {
        self.put(TableId::NumberToHash, &number.to_be_bytes(), hash.as_slice())?;
        for (index, transaction) in transactions.iter().enumerate() {
            let mut row = [0; 12];
            row[..8].copy_from_slice(&number.to_be_bytes());
            row[8..].copy_from_slice(&(index as u32).to_be_bytes());
            for hash in position_keys(transaction) {
                self.put(TableId::TransactionToPosition, hash.as_slice(), &row)?;
            }
        }
        self.index_logs(number, receipts);
        self.put_head(number, hash)
    }

    /// Takes the canonical head block back; its parent becomes head. The block stays as a side block.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails, or the block's receipts or the index of its logs
    /// are corrupt.
    pub fn delete_canonical(
        &mut self,
        header: &Header,
        transactions: &[Transaction],
    ) -> Result<(), StoreError> {
        self.delete(TableId::NumberToHash, &header.number.to_be_bytes())?;
        for hash in transactions.iter().flat_map(position_keys) {
            self.delete(TableId::TransactionToPosition, hash.as_slice())?;
        }
        let (number, hash) = (header.number, header.hash());
        let receipts = self.receipts(number, &hash)?;
        let receipts = receipts.ok_or_else(|| {
            let key = block_key(number, &hash);
            StoreError::corrupt(TableId::BlockToReceipts, &key, "no such row")
        })?;
        self.unindex_logs(number, &receipts)?;
        self.put_head(header.number.saturating_sub(1), &header.parent_hash)
    }

    /// Forgets every block above `number`; none of them may be canonical.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    pub fn delete_blocks_above(&mut self, number: u64) -> Result<(), StoreError> {
        let Some(lowest) = number.checked_add(1) else {
            return Ok(());
        };
        let mut keys = Vec::new();
        self.scan(TableId::BlockToHeader, &lowest.to_be_bytes(), |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in keys {
            for table in [
                TableId::BlockToHeader,
                TableId::BlockToBody,
                TableId::BlockToReceipts,
            ] {
                self.delete(table, &key)?;
            }
            if let Some(hash) = key.get(8..) {
                self.delete(TableId::HashToNumber, hash)?;
            }
        }
        Ok(())
    }

    fn put_head(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::HEAD, &block_key(number, hash))
    }
}

/// The hashes a transaction is found under: its own and, for a classic one, Ethereum's.
fn position_keys(transaction: &Transaction) -> impl Iterator<Item = B256> {
    let classic = transaction.form == TxForm::Classic;
    let other = classic.then(|| transaction.ethereum_hash()).flatten();
    std::iter::once(transaction.hash()).chain(other)
}

/// A block taken apart for the store.
impl BlockBody {
    /// The body of `block`, whose senders are known.
    pub fn new(block: Block, senders: Vec<Address>) -> Self {
        Self {
            transactions: block.transactions,
            senders,
            uncles: block.uncles,
        }
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Bytes, SecretKey, UnsignedTransaction};

    use super::*;
    use crate::{LogIndexReads, LogKey, Store};

    fn transaction() -> (Transaction, Address) {
        let key = SecretKey::from_bytes(&[0x46; 32]).unwrap();
        let unsigned = UnsignedTransaction {
            tx_nonce: 9,
            gas_price: U256::from(20),
            gas: 21000,
            to: Some(Address::repeat_byte(0x35)),
            value: U256::from(7),
            input: Bytes::from_static(b"abc"),
            ..Default::default()
        };
        (unsigned.sign(&key, 100, TxForm::Classic), key.address())
    }

    fn block() -> (HeaderRecord, BlockBody, Vec<Receipt>) {
        let (transaction, sender) = transaction();
        let header = Header {
            number: 3,
            extra_data: Bytes::from_static(b"x"),
            ..Default::default()
        };
        let uncle = Header {
            number: 2,
            ..Default::default()
        };
        let logs = vec![Log {
            address: Address::repeat_byte(1),
            topics: vec![B256::repeat_byte(2), B256::repeat_byte(3)],
            data: Bytes::from_static(b"data"),
        }];
        let receipt = Receipt {
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 21000,
            logs_bloom: primitives::logs_bloom(&logs),
            logs,
        };
        let older = Receipt {
            outcome: ReceiptOutcome::Root(B256::repeat_byte(9)),
            ..receipt.clone()
        };
        let record = HeaderRecord {
            header,
            total_difficulty: U256::from(12345),
            executed: false,
        };
        let body = BlockBody {
            transactions: vec![transaction],
            senders: vec![sender],
            uncles: vec![uncle],
        };
        (record, body, vec![receipt, older])
    }

    #[test]
    fn blocks_receipts_and_positions_round_trip() {
        let store = Store::in_memory().unwrap();
        let (record, body, receipts) = block();
        let hash = record.header.hash();
        let transaction = &body.transactions[0];
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put_block(&hash, &record, &body)?;
                let executed = HeaderRecord {
                    executed: true,
                    ..record.clone()
                };
                tables.put_header(&hash, &executed)?;
                tables.put_receipts(3, &hash, &receipts)?;
                tables.put_canonical(3, &hash, &body.transactions, &receipts)
            })
            .unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        assert_eq!(view.head().unwrap(), Some((3, hash)));
        assert_eq!(view.canonical_hash(3).unwrap(), Some(hash));
        let read = view.header_by_hash(&hash).unwrap().unwrap();
        assert_eq!(
            read,
            HeaderRecord {
                executed: true,
                ..record.clone()
            }
        );
        assert_eq!(view.body(3, &hash, TxRules::Moac).unwrap().unwrap(), body);
        assert_eq!(view.receipts(3, &hash).unwrap().unwrap(), receipts);
        let key = LogKey::topic(1, &B256::repeat_byte(3));
        let mut indexed = Vec::new();
        assert!(view.log_blocks(&key, 0, &mut indexed).unwrap());
        assert_eq!(indexed, [3]);
        let position = Some(TransactionPosition {
            block_number: 3,
            index: 0,
        });
        assert_eq!(view.transaction_position(&transaction.hash()).unwrap(), position);
        assert_eq!(
            view.transaction_position(&transaction.ethereum_hash().unwrap())
                .unwrap(),
            position
        );

        let batch = store.batch().unwrap();
        batch
            .write(|tables| tables.delete_canonical(&record.header, &body.transactions))
            .unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        assert_eq!(view.head().unwrap(), Some((2, record.header.parent_hash)));
        assert_eq!(view.canonical_hash(3).unwrap(), None);
        assert_eq!(view.transaction_position(&transaction.hash()).unwrap(), None);
        assert!(view.header_by_hash(&hash).unwrap().is_some());
        assert!(!view.log_blocks(&key, 0, &mut indexed).unwrap());
    }

    #[test]
    fn every_cut_of_a_row_is_an_error() {
        let (record, body, receipts) = block();
        let rows = [record.encode(), encode_body(&body), encode_receipts(&receipts)];
        for cut in 0..rows[0].len() {
            assert!(
                HeaderRecord::decode(&rows[0][..cut]).is_err(),
                "header cut at {cut}"
            );
        }
        for cut in 0..rows[1].len() {
            assert!(
                decode_body(&rows[1][..cut], TxRules::Moac).is_err(),
                "body cut at {cut}"
            );
        }
        for cut in 0..rows[2].len() {
            assert!(decode_receipts(&rows[2][..cut]).is_err(), "receipts cut at {cut}");
        }
    }
}
