//! Receipts, logs and their bloom filter.
//!
//! A receipt has two forms, with five or four fields. That of a typed transaction begins with the
//! type (EIP-2718), and is a string of bytes in a list. The bloom of a decoded receipt is taken
//! from the bytes; it is not computed from the logs.

use alloy_primitives::{Address, B256, Bloom, Bytes, hex};
use alloy_rlp::{BufMut, Encodable};

use crate::{
    error::DecodeError,
    rlp::{RlpError, RlpReader, encode_fields, encode_fields_to_vec, fields_length},
    transaction::{ACCESS_LIST_TX_TYPE, LEGACY_TX_TYPE, TX_TYPE_MAX},
};

/// Largest number of topics of a log. There is no instruction for more.
pub const LOG_TOPICS_MAX: usize = 4;

/// A log entry (event) that a contract wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    /// The contract that wrote it.
    pub address: Address,
    /// The topics, by which logs are searched. At most [`LOG_TOPICS_MAX`].
    pub topics: Vec<B256>,
    /// The data, which is not indexed.
    pub data: Bytes,
}

impl Log {
    /// Decodes a log.
    ///
    /// # Errors
    /// [`DecodeError`] if `rlp` is not exactly one list `[address, topics, data]`.
    pub fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = RlpReader::open(rlp, "log")?;
        reader.expect_count("log", 3, "3")?;
        Ok(Self {
            address: reader.address("log.address")?,
            topics: decode_topics(reader.list("log.topics")?)?,
            data: reader.bytes("log.data")?,
        })
    }

    fn fields(&self) -> [&dyn Encodable; 3] {
        [&self.address, &self.topics, &self.data]
    }
}

impl Encodable for Log {
    fn encode(&self, out: &mut dyn BufMut) {
        encode_fields(&self.fields(), out);
    }

    fn length(&self) -> usize {
        fields_length(&self.fields())
    }
}

/// The bloom filter of `logs`. Each address and each topic sets three of the 2048 bits.
pub fn logs_bloom<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    bloom
}

/// The result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiptOutcome {
    /// Whether it succeeded.
    Status(bool),
    /// The state root after it. Used by Ethereum before Byzantium.
    Root(B256),
}

/// The form in which a receipt is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiptForm {
    /// Five fields, used by the public network. The fifth is always 0.
    Five,
    /// Four fields, used by Ethereum.
    Four,
}

/// The result of an executed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The type of the transaction: [`LEGACY_TX_TYPE`] or [`ACCESS_LIST_TX_TYPE`].
    pub tx_type: u8,
    /// The result of the transaction.
    pub outcome: ReceiptOutcome,
    /// Gas that this and all earlier transactions of the block used together.
    pub cumulative_gas_used: u64,
    /// Bloom filter of the addresses and topics of its logs.
    pub logs_bloom: Bloom,
    /// The logs, in the order in which they were written.
    pub logs: Vec<Log>,
    /// The output of the call, or the reason of its revert, on application chains; else empty. It
    /// is stored, but it is no part of the encoded receipt, so no root covers it.
    pub output: Bytes,
}

impl Receipt {
    /// The receipt of a transaction without a type. The bloom is computed from `logs`.
    pub fn new(outcome: ReceiptOutcome, cumulative_gas_used: u64, logs: Vec<Log>) -> Self {
        Self {
            tx_type: LEGACY_TX_TYPE,
            outcome,
            cumulative_gas_used,
            logs_bloom: logs_bloom(&logs),
            logs,
            output: Bytes::new(),
        }
    }

    /// The same receipt, of a transaction with this type.
    #[must_use]
    pub fn with_type(self, tx_type: u8) -> Self {
        Self { tx_type, ..self }
    }

    /// The same receipt, with what the call returned.
    #[must_use]
    pub fn with_output(self, output: Bytes) -> Self {
        Self { output, ..self }
    }

    /// The receipt as it is in the trie of receipts: the type, if there is one, and the RLP.
    pub fn encode(&self, form: ReceiptForm) -> Vec<u8> {
        let outcome = match &self.outcome {
            ReceiptOutcome::Status(true) => &[1][..],
            ReceiptOutcome::Status(false) => &[],
            ReceiptOutcome::Root(root) => root.as_slice(),
        };
        let fields: [&dyn Encodable; 5] = [
            &outcome,
            &self.cumulative_gas_used,
            &self.logs_bloom,
            &self.logs,
            &0u8,
        ];
        let fields = match form {
            ReceiptForm::Five => &fields[..],
            ReceiptForm::Four => &fields[..4],
        };
        if self.tx_type == LEGACY_TX_TYPE {
            return encode_fields_to_vec(fields);
        }
        let mut out = Vec::with_capacity(1 + fields_length(fields));
        out.push(self.tx_type);
        encode_fields(fields, &mut out);
        out
    }

    /// The RLP of the receipt as an item of a list, as in messages between nodes: one with a type
    /// is a string of bytes there.
    pub fn encode_item(&self, form: ReceiptForm) -> Vec<u8> {
        let bytes = self.encode(form);
        if self.tx_type == LEGACY_TX_TYPE {
            return bytes;
        }
        alloy_rlp::encode(&bytes[..])
    }

    /// Decodes a receipt as it is in the trie of receipts. One of four fields may have a type.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` are not exactly one receipt of this form.
    pub fn decode(bytes: &[u8], form: ReceiptForm) -> Result<Self, DecodeError> {
        match bytes.split_first() {
            Some((&tx_type @ ..=TX_TYPE_MAX, rlp)) if form == ReceiptForm::Four => {
                check_type(tx_type)?;
                Ok(Self::decode_list(rlp, form)?.with_type(tx_type))
            }
            _ => Self::decode_list(bytes, form),
        }
    }

    /// Decodes a receipt that is an item of a list, see [`Self::encode_item`].
    ///
    /// # Errors
    /// [`DecodeError`] if `item` is not exactly one such item.
    pub fn decode_item(item: &[u8], form: ReceiptForm) -> Result<Self, DecodeError> {
        let is_string = item.first().is_some_and(|first| *first < 0xc0);
        if !is_string || form != ReceiptForm::Four {
            return Self::decode_list(item, form);
        }
        let mut reader = RlpReader::over(item);
        let bytes = reader.slice("receipt")?;
        match reader.rest().len() {
            0 => {}
            got => {
                return Err(DecodeError::Field {
                    field: "receipt",
                    cause: RlpError::Trailing { got },
                });
            }
        }
        // A string never holds a receipt without a type.
        check_type(bytes.first().copied().unwrap_or_default())?;
        Self::decode(bytes, form)
    }

    /// Decodes the list of fields.
    fn decode_list(rlp: &[u8], form: ReceiptForm) -> Result<Self, DecodeError> {
        let mut reader = RlpReader::open(rlp, "receipt")?;
        match form {
            ReceiptForm::Five => reader.expect_count("receipt", 5, "5")?,
            ReceiptForm::Four => reader.expect_count("receipt", 4, "4")?,
        }
        let receipt = Self {
            tx_type: LEGACY_TX_TYPE,
            outcome: decode_outcome(reader.slice("receipt.outcome")?)?,
            cumulative_gas_used: reader.u64("receipt.cumulativeGasUsed")?,
            logs_bloom: reader.bloom("receipt.logsBloom")?,
            logs: decode_logs(reader.list("receipt.logs")?)?,
            output: Bytes::new(),
        };
        if form == ReceiptForm::Five {
            match reader.u64("receipt.tail")? {
                0 => (),
                got => return Err(DecodeError::ReceiptTail { got }),
            }
        }
        Ok(receipt)
    }
}

/// Refuses the type of a receipt that is not known.
const fn check_type(got: u8) -> Result<(), DecodeError> {
    if got == ACCESS_LIST_TX_TYPE {
        return Ok(());
    }
    Err(DecodeError::Typed {
        got,
        expected: "type 0x01 or a list of 4 fields",
    })
}

fn decode_outcome(bytes: &[u8]) -> Result<ReceiptOutcome, DecodeError> {
    match bytes {
        [] => Ok(ReceiptOutcome::Status(false)),
        [1] => Ok(ReceiptOutcome::Status(true)),
        _ => match B256::try_from(bytes) {
            Ok(root) => Ok(ReceiptOutcome::Root(root)),
            Err(_) => {
                let got = hex::encode(&bytes[..bytes.len().min(33)]);
                Err(DecodeError::Outcome { got })
            }
        },
    }
}

fn decode_logs(mut reader: RlpReader<'_>) -> Result<Vec<Log>, DecodeError> {
    let mut logs = Vec::new();
    while !reader.is_empty() {
        let rlp = reader.raw("receipt.logs")?;
        let log = Log::decode(rlp).map_err(DecodeError::entry("receipt.logs", logs.len()))?;
        logs.push(log);
    }
    Ok(logs)
}

fn decode_topics(mut reader: RlpReader<'_>) -> Result<Vec<B256>, DecodeError> {
    let mut topics = Vec::with_capacity(LOG_TOPICS_MAX);
    while !reader.is_empty() {
        if topics.len() == LOG_TOPICS_MAX {
            return Err(DecodeError::Topics {
                bound: LOG_TOPICS_MAX,
            });
        }
        topics.push(reader.fixed("log.topics")?);
    }
    Ok(topics)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{address, b256};

    use super::*;
    use crate::rlp::{RlpError, RlpItem};

    fn log() -> Log {
        Log {
            address: Address::repeat_byte(0x65),
            topics: vec![B256::repeat_byte(1), B256::repeat_byte(2)],
            data: Bytes::from_static(b"data"),
        }
    }

    fn sample() -> Receipt {
        Receipt::new(ReceiptOutcome::Status(true), 21_000, vec![log(), Log::default()])
    }

    fn changed(index: usize, item: RlpItem) -> DecodeError {
        let rlp = sample().encode(ReceiptForm::Five);
        let Ok(RlpItem::List(mut fields)) = RlpItem::decode_exact(&rlp) else {
            panic!("a list")
        };
        fields[index] = item;
        Receipt::decode(&RlpItem::List(fields).encode(), ReceiptForm::Five).unwrap_err()
    }

    #[test]
    fn both_forms() {
        let outcomes = [
            ReceiptOutcome::Status(true),
            ReceiptOutcome::Status(false),
            ReceiptOutcome::Root(B256::repeat_byte(9)),
        ];
        for outcome in outcomes {
            let receipt = Receipt { outcome, ..sample() };
            let five = receipt.encode(ReceiptForm::Five);
            let four = receipt.encode(ReceiptForm::Four);
            assert_eq!(five.len(), four.len() + 1);
            assert_eq!(five.last(), Some(&0x80));
            assert_eq!(Receipt::decode(&five, ReceiptForm::Five), Ok(receipt.clone()));
            assert_eq!(Receipt::decode(&four, ReceiptForm::Four), Ok(receipt));
            let count = |got, expected| {
                Err(DecodeError::FieldCount {
                    what: "receipt",
                    got,
                    expected,
                })
            };
            assert_eq!(Receipt::decode(&five, ReceiptForm::Four), count(5, "4"));
            assert_eq!(Receipt::decode(&four, ReceiptForm::Five), count(4, "5"));
        }
    }

    #[test]
    fn receipts_with_a_type() {
        let typed = sample().with_type(ACCESS_LIST_TX_TYPE);
        let bytes = typed.encode(ReceiptForm::Four);
        assert_eq!(bytes[0], ACCESS_LIST_TX_TYPE);
        assert_eq!(bytes[1..], sample().encode(ReceiptForm::Four));
        assert_eq!(Receipt::decode(&bytes, ReceiptForm::Four), Ok(typed.clone()));
        let item = typed.encode_item(ReceiptForm::Four);
        assert_eq!(Receipt::decode_item(&item, ReceiptForm::Four), Ok(typed));
        let plain = sample().encode_item(ReceiptForm::Four);
        assert_eq!(Receipt::decode_item(&plain, ReceiptForm::Four), Ok(sample()));
        // Neither stands in the place of the other, and no other type is known.
        assert!(Receipt::decode_item(&bytes, ReceiptForm::Four).is_err());
        assert!(Receipt::decode(&item, ReceiptForm::Four).is_err());
        assert!(Receipt::decode(&bytes, ReceiptForm::Five).is_err());
        let wrapped = alloy_rlp::encode(&plain[..]);
        assert!(Receipt::decode_item(&wrapped, ReceiptForm::Four).is_err());
        for other in [0, 2, 0x7f] {
            let bytes = [&[other][..], &plain].concat();
            let error = Receipt::decode(&bytes, ReceiptForm::Four).unwrap_err();
            assert!(matches!(error, DecodeError::Typed { .. }), "{error}");
        }
    }

    #[test]
    fn refuses_other_values() {
        let outcome = |bytes: Vec<u8>| changed(0, RlpItem::Bytes(bytes)).to_string();
        let end = "expected 0x01, no bytes or 32 bytes";
        assert_eq!(outcome(vec![2]), format!("receipt.outcome: got 0x02, {end}"));
        assert_eq!(outcome(vec![0]), format!("receipt.outcome: got 0x00, {end}"));
        let long = "aa".repeat(33);
        assert_eq!(
            outcome(vec![0xaa; 99]),
            format!("receipt.outcome: got 0x{long}, {end}")
        );
        assert_eq!(
            changed(4, RlpItem::Bytes(vec![1])),
            DecodeError::ReceiptTail { got: 1 }
        );
        let word = || RlpItem::Bytes(vec![7; 32]);
        let log = |topics| {
            let address = RlpItem::Bytes(vec![5; 20]);
            RlpItem::List(vec![RlpItem::List(vec![address, RlpItem::List(topics), word()])])
        };
        let five = changed(3, log(vec![word(); 5]));
        let text = "receipt.logs[0]: log.topics: got more than 4, expected at most 4";
        assert_eq!(five.to_string(), text);
        let short = changed(3, log(vec![word(), RlpItem::Bytes(vec![7; 31])]));
        let cause = RlpError::WrongLength {
            got: 31,
            expected: 32,
        };
        let cause = Box::new(DecodeError::Field {
            field: "log.topics",
            cause,
        });
        assert_eq!(
            short,
            DecodeError::Entry {
                list: "receipt.logs",
                index: 0,
                cause
            }
        );
    }

    #[test]
    fn bloom_bits() {
        // The first three pairs of bytes of the hash, each modulo 2048, are the numbers of the
        // bits.
        let address = address!("0x22341ae42d6dd7384bc8584e50419ea3ac75b83f");
        let topic = b256!("0x04491edcd115127caedbd478e2e7895ed80c7847e903431f94f9cfa579cad47f");
        let bloom = logs_bloom(&[Log {
            address,
            topics: vec![topic],
            data: Bytes::new(),
        }]);
        let mut expected = Bloom::ZERO;
        for value in [address.as_slice(), topic.as_slice()] {
            let hash = alloy_primitives::keccak256(value);
            for pair in [0, 2, 4] {
                let bit = usize::from(u16::from_be_bytes([hash[pair], hash[pair + 1]])) % 2048;
                expected.0[255 - bit / 8] |= 1 << (bit % 8);
            }
        }
        assert_eq!(bloom, expected);
        assert_eq!(logs_bloom(&[]), Bloom::ZERO);
        assert!(sample().logs_bloom.contains_raw_log(log().address, &log().topics));
    }
}
