//! Reads single logs of a block, and single transactions, without decoding the whole row.
//!
//! A log search looks at many logs for each one that it keeps. So nothing is copied or hashed here
//! but what the caller asks for. Whole receipts are read with [`crate::BlockReads`].

use std::ops::ControlFlow;

use primitives::rlp::RlpReader;
use primitives::{Address, B256, Bytes, DecodeError, LOG_TOPICS_MAX, Log, Transaction, TxRules, keccak256};

use crate::ancient::{BlockPart, with_part};
use crate::codec::block_key;
use crate::part_rows::split_body;
use crate::row_error::RowError;
use crate::source::Source;
use crate::{StoreError, TableId};

/// A log, borrowed from a row of receipts.
#[derive(Clone, Copy, Debug)]
pub struct StoredLog<'a> {
    /// Index of its transaction in the block, from 0.
    pub transaction_index: usize,
    /// Index of the log in the block, from 0.
    pub log_index: usize,
    /// The contract that wrote the log.
    pub address: Address,
    topics: [B256; LOG_TOPICS_MAX],
    topic_count: usize,
    /// The data of the log, which is not indexed.
    pub data: &'a [u8],
}

impl StoredLog<'_> {
    /// The topics, in order.
    pub fn topics(&self) -> &[B256] {
        &self.topics[..self.topic_count]
    }

    /// A copy of the log.
    pub fn to_log(&self) -> Log {
        Log {
            address: self.address,
            topics: self.topics().to_vec(),
            data: Bytes::copy_from_slice(self.data),
        }
    }
}

/// Reads of single logs, and of the transactions that wrote them.
pub trait LogReads: Source + Sized {
    /// Calls `visit` with each log of a block, in order, until it breaks. Returns `false` if the
    /// receipts of the block are not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn scan_logs(
        &self,
        number: u64,
        hash: &B256,
        visit: impl FnMut(StoredLog<'_>) -> ControlFlow<()>,
    ) -> Result<bool, StoreError> {
        let key = block_key(number, hash);
        let scanned = with_part(self, BlockPart::Receipts, number, hash, |row| {
            walk_logs(row, visit)
        })?;
        scanned
            .transpose()
            .map(|found| found.is_some())
            .map_err(|error: RowError| error.in_row(TableId::BlockToReceipts, &key))
    }

    /// Hashes of the transactions with these indexes in a block. `indexes` must ascend.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails, or when the row is corrupt, missing or too short.
    fn transaction_hashes(
        &self,
        number: u64,
        hash: &B256,
        indexes: &[usize],
    ) -> Result<Vec<B256>, StoreError> {
        // A transaction's hash is the hash of its stored form, so nothing has to be decoded.
        let hashes = |row: &[u8]| read_transactions(row, indexes, hash_item);
        read_body(self, number, hash, hashes)
    }

    /// For each transaction of a block, in order: whether it is a system transaction. The blocks
    /// must be of the public network's family, whose transactions have twelve fields.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails, or when the row is corrupt or missing.
    fn are_system(&self, number: u64, hash: &B256) -> Result<Vec<bool>, StoreError> {
        read_body(self, number, hash, |row| {
            let mut transactions = body_transactions(row)?;
            let mut flags = Vec::new();
            while !transactions.is_empty() {
                let mut fields = transactions.list("transaction")?;
                fields.u64("transaction.nonce")?;
                flags.push(fields.u64("transaction.syscnt")? != 0);
            }
            Ok(flags)
        })
    }

    /// The transactions with these indexes in a block. `indexes` must ascend.
    ///
    /// # Errors
    /// As [`LogReads::transaction_hashes`].
    fn transactions_at(
        &self,
        number: u64,
        hash: &B256,
        indexes: &[usize],
        rules: TxRules,
    ) -> Result<Vec<Transaction>, StoreError> {
        let decode = |rlp: &[u8]| Transaction::decode_item(rlp, rules);
        read_body(self, number, hash, |row| read_transactions(row, indexes, decode))
    }
}

impl<S: Source> LogReads for S {}

/// Calls `read` with the row of a block's body. A missing row is an error.
fn read_body<T>(
    source: &impl Source,
    number: u64,
    hash: &B256,
    read: impl FnOnce(&[u8]) -> Result<T, RowError>,
) -> Result<T, StoreError> {
    let key = block_key(number, hash);
    with_part(source, BlockPart::Body, number, hash, read)?
        .unwrap_or(Err(RowError::Missing))
        .map_err(|error| error.in_row(TableId::BlockToBody, &key))
}

fn walk_logs(row: &[u8], mut visit: impl FnMut(StoredLog<'_>) -> ControlFlow<()>) -> Result<(), RowError> {
    let mut receipts = RlpReader::open(row, "receipts")?;
    let (mut transaction_index, mut log_index) = (0, 0);
    while !receipts.is_empty() {
        let mut receipt = receipts.list("receipt")?;
        receipt.slice("outcome")?;
        receipt.slice("cumulative gas")?;
        let mut logs = receipt.list("logs")?;
        while !logs.is_empty() {
            let log = logs.list("log")?;
            let log = read_log(log, transaction_index, log_index).map_err(|cause| DecodeError::Entry {
                list: "logs",
                index: log_index,
                cause: Box::new(cause),
            })?;
            if visit(log).is_break() {
                return Ok(());
            }
            log_index += 1;
        }
        transaction_index += 1;
    }
    Ok(())
}

fn read_log(
    mut fields: RlpReader<'_>,
    transaction_index: usize,
    log_index: usize,
) -> Result<StoredLog<'_>, DecodeError> {
    let address = fields.address("address")?;
    let mut list = fields.list("topics")?;
    let (mut topics, mut topic_count) = ([B256::ZERO; LOG_TOPICS_MAX], 0);
    while !list.is_empty() {
        let topic = topics.get_mut(topic_count).ok_or(DecodeError::Topics {
            bound: LOG_TOPICS_MAX,
        })?;
        *topic = list.fixed("topic")?;
        topic_count += 1;
    }
    let data = fields.slice("data")?;
    if !fields.is_empty() {
        return Err(DecodeError::FieldCount {
            what: "log",
            got: 3 + fields.count("log")?,
            expected: "3",
        });
    }
    Ok(StoredLog {
        transaction_index,
        log_index,
        address,
        topics,
        topic_count,
        data,
    })
}

/// The hash of a transaction that is an item of a list. If the item is a string, it has the bytes
/// of a typed transaction.
fn hash_item(item: &[u8]) -> Result<B256, DecodeError> {
    let mut string = RlpReader::over(item);
    Ok(keccak256(string.slice("transaction").unwrap_or(item)))
}

/// The list of transactions in the row of a body.
fn body_transactions(row: &[u8]) -> Result<RlpReader<'_>, RowError> {
    let (_, mut parts) = split_body(row)?;
    Ok(parts.list("transactions")?)
}

/// Calls `read` with the item of each transaction that `indexes` names.
fn read_transactions<T>(
    row: &[u8],
    indexes: &[usize],
    read: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, RowError> {
    let mut transactions = body_transactions(row)?;
    let mut next = 0;
    let mut read_at = |index: &usize| {
        loop {
            if transactions.is_empty() {
                return Err(RowError::NotBelow {
                    field: "index of a transaction",
                    got: *index as u64,
                    limit: next as u64,
                });
            }
            let raw = transactions.raw("transaction")?;
            next += 1;
            if next > *index {
                return Ok(read(raw)?);
            }
        }
    };
    indexes.iter().map(&mut read_at).collect()
}

#[cfg(test)]
mod tests {
    use primitives::{Header, Receipt, ReceiptOutcome, SecretKey, TxForm, U256, UnsignedTransaction};
    use proptest::prelude::*;

    use super::*;
    use crate::{BlockBody, BlockReads, HeaderRecord, Store};

    fn transactions() -> Vec<Transaction> {
        let key = SecretKey::from_bytes(&[0x46; 32]).unwrap();
        let sign = |tx_nonce, form| {
            let plain = UnsignedTransaction {
                tx_nonce,
                ..Default::default()
            };
            plain.sign(&key, 100, form)
        };
        vec![
            Transaction::system(7),
            sign(0, TxForm::Native),
            sign(1, TxForm::Classic),
        ]
    }

    fn receipts() -> Vec<Receipt> {
        let log = |topics: usize| Log {
            address: Address::repeat_byte(topics as u8),
            topics: (0..topics).map(|topic| B256::repeat_byte(topic as u8)).collect(),
            data: vec![9; 60 * topics].into(),
        };
        vec![
            Receipt::new(ReceiptOutcome::Status(true), 1, Vec::new()),
            Receipt::new(
                ReceiptOutcome::Root(B256::repeat_byte(3)),
                2,
                vec![log(0), log(4)],
            ),
            Receipt::new(ReceiptOutcome::Status(false), 900, vec![log(1)]),
        ]
    }

    fn store() -> (Store, B256) {
        let store = Store::in_memory().unwrap();
        let record = HeaderRecord {
            header: Header {
                number: 3,
                ..Default::default()
            },
            total_difficulty: U256::from(1),
            executed: true,
        };
        let body = BlockBody {
            transactions: transactions(),
            senders: vec![Address::ZERO; 3],
            uncles: Vec::new(),
        };
        let hash = record.header.hash();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put_block(&hash, &record, &body)?;
                tables.put_receipts(3, &hash, &receipts())
            })
            .unwrap();
        batch.commit().unwrap();
        (store, hash)
    }

    #[test]
    fn logs_are_those_of_the_receipts() {
        let (store, hash) = store();
        let view = store.snapshot().unwrap();
        let mut found = Vec::new();
        let mut visit = |log: StoredLog<'_>| {
            found.push((log.transaction_index, log.log_index, log.to_log()));
            ControlFlow::Continue(())
        };
        assert!(view.scan_logs(3, &hash, &mut visit).unwrap());
        let logs = |index: usize| receipts()[index].logs.clone();
        let expected = [
            (1, 0, logs(1)[0].clone()),
            (1, 1, logs(1)[1].clone()),
            (2, 2, logs(2)[0].clone()),
        ];
        assert_eq!(found, expected);
        assert!(
            !view
                .scan_logs(3, &B256::ZERO, |_| ControlFlow::Continue(()))
                .unwrap()
        );
        let mut count = 0;
        let mut once = |_: StoredLog<'_>| {
            count += 1;
            ControlFlow::Break(())
        };
        view.scan_logs(3, &hash, &mut once).unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn a_typed_transaction_is_hashed_without_its_length() {
        let key = SecretKey::from_bytes(&[0x46; 32]).unwrap();
        let plain = UnsignedTransaction::default();
        let both = [TxForm::Ethereum, TxForm::AccessList].map(|form| plain.sign(&key, 61, form));
        let store = Store::in_memory().unwrap();
        let record = HeaderRecord {
            header: Header::default(),
            total_difficulty: U256::from(1),
            executed: true,
        };
        let body = BlockBody {
            transactions: both.to_vec(),
            senders: vec![key.address(); 2],
            uncles: Vec::new(),
        };
        let hash = record.header.hash();
        let receipts = [0, 1].map(|tx_type| {
            Receipt::new(ReceiptOutcome::Status(true), 5, receipts()[2].logs.clone()).with_type(tx_type)
        });
        let batch = store.batch().unwrap();
        let write = batch.write(|tables| {
            tables.put_block(&hash, &record, &body)?;
            tables.put_receipts(0, &hash, &receipts)
        });
        write.unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        let hashes = view.transaction_hashes(0, &hash, &[0, 1]).unwrap();
        assert_eq!(hashes, both.each_ref().map(Transaction::hash));
        let rules = TxRules::Ethereum;
        assert_eq!(view.transactions_at(0, &hash, &[1], rules).unwrap(), both[1..]);
        assert_eq!(view.body(0, &hash, rules).unwrap(), Some(body));
        assert_eq!(view.receipts(0, &hash).unwrap().as_deref(), Some(&receipts[..]));
        let mut count = 0;
        let visit = |_: StoredLog<'_>| {
            count += 1;
            ControlFlow::Continue(())
        };
        assert!(view.scan_logs(0, &hash, visit).unwrap());
        assert_eq!(count, 2);
    }

    #[test]
    fn hashes_are_those_of_the_transactions() {
        let (store, hash) = store();
        let view = store.snapshot().unwrap();
        let expected: Vec<B256> = transactions().iter().map(Transaction::hash).collect();
        assert_eq!(view.transaction_hashes(3, &hash, &[0, 1, 2]).unwrap(), expected);
        assert_eq!(view.transaction_hashes(3, &hash, &[2]).unwrap(), expected[2..]);
        assert!(view.transaction_hashes(3, &hash, &[]).unwrap().is_empty());
        let whole = view.transactions_at(3, &hash, &[0, 2], TxRules::Moac).unwrap();
        assert_eq!(whole, [&transactions()[0], &transactions()[2]].map(Clone::clone));
        assert!(view.transactions_at(3, &hash, &[0], TxRules::Ethereum).is_err());
        let error = view.transaction_hashes(3, &hash, &[1, 3]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("index of a transaction: got 3, expected less than 3"),
            "{error}"
        );
        assert!(view.transaction_hashes(4, &hash, &[0]).is_err());
    }

    proptest! {
        #[test]
        fn changed_rows_never_panic(at in 0usize..1000, with: u8, cut in 0usize..1000) {
            let (store, hash) = store();
            let view = store.snapshot().unwrap();
            let key = block_key(3, &hash);
            for table in [TableId::BlockToReceipts, TableId::BlockToBody] {
                let mut row = view.get(table, &key).unwrap().unwrap();
                let length = row.len();
                row[at % length] = with;
                row.truncate(length - cut % 3);
                let _ = walk_logs(&row, |_| ControlFlow::Continue(()));
                let _ = read_transactions(&row, &[0, 2], |rlp| Ok(keccak256(rlp)));
            }
            prop_assert!(view.receipts(3, &hash).unwrap().is_some());
        }
    }
}
