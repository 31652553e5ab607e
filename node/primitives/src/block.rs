//! The block: header, transactions, uncles, and its RLP.
//!
//! Does not compare the body with the roots and hashes in the header.

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{BufMut, Encodable};

use crate::{
    error::DecodeError,
    header::Header,
    rlp::{RlpReader, encode_fields, encode_fields_to_vec, fields_length},
    transaction::{Transaction, TxRules},
};

/// A block with its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The header.
    pub header: Header,
    /// The transactions, in order of execution.
    pub transactions: Vec<Transaction>,
    /// The headers of the uncles: valid blocks beside the canonical chain.
    pub uncles: Vec<Header>,
}

impl Block {
    /// The RLP of the block: `[header, transactions, uncles]`.
    pub fn encode(&self) -> Vec<u8> {
        encode_fields_to_vec(&self.fields())
    }

    /// Decodes a block. `rules` say which forms its transactions may have.
    ///
    /// # Errors
    /// [`DecodeError`] if `rlp` is not exactly one list `[header, transactions, uncles]`, or if an
    /// entry in it cannot be decoded.
    pub fn decode(rlp: &[u8], rules: TxRules) -> Result<Self, DecodeError> {
        let mut reader = RlpReader::open(rlp, "block")?;
        reader.expect_count("block", 3, "3")?;
        let header = Header::decode_fields(reader.list("block.header")?)?;
        let transactions = decode_entries(reader.list("block.transactions")?, "block.transactions", |rlp| {
            Transaction::decode_item(rlp, rules)
        })?;
        let uncles = decode_entries(reader.list("block.uncles")?, "block.uncles", Header::decode)?;
        Ok(Self {
            header,
            transactions,
            uncles,
        })
    }

    /// The block hash, which is the hash of the header.
    pub fn hash(&self) -> B256 {
        self.header.hash()
    }

    /// Length of the block's RLP, in bytes.
    pub fn size(&self) -> usize {
        fields_length(&self.fields())
    }

    fn fields(&self) -> [&dyn Encodable; 3] {
        [&self.header, &self.transactions, &self.uncles]
    }
}

impl Encodable for Block {
    fn encode(&self, out: &mut dyn BufMut) {
        encode_fields(&self.fields(), out);
    }

    fn length(&self) -> usize {
        self.size()
    }
}

/// The header field `uncles_hash` for these uncles: Keccak-256 of their RLP list.
pub fn uncles_hash(uncles: &[Header]) -> B256 {
    let mut out = Vec::new();
    alloy_rlp::encode_list::<_, Header>(uncles, &mut out);
    keccak256(out)
}

/// Decodes every entry of a list. An error names the index of the entry.
fn decode_entries<T>(
    mut reader: RlpReader<'_>,
    list: &'static str,
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let entry = decode(reader.raw(list)?).map_err(DecodeError::entry(list, entries.len()))?;
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlp::{RlpError, RlpItem};

    fn sample() -> Block {
        Block {
            header: Header {
                number: 7,
                ..Default::default()
            },
            transactions: vec![Transaction::system(6), Transaction::system(7)],
            uncles: vec![Header {
                number: 6,
                ..Default::default()
            }],
        }
    }

    fn changed(change: impl FnOnce(&mut Vec<RlpItem>)) -> Result<Block, DecodeError> {
        let mut item = RlpItem::decode_exact(&sample().encode()).expect("our own encoding");
        let RlpItem::List(fields) = &mut item else {
            panic!("a list")
        };
        change(fields);
        Block::decode(&item.encode(), TxRules::Moac)
    }

    #[test]
    fn round_trip() {
        assert_eq!(changed(|_| ()), Ok(sample()));
        assert_eq!(sample().size(), sample().encode().len());
        let mut twice = sample().encode();
        twice.push(0);
        let error = Block::decode(&twice, TxRules::Moac).unwrap_err();
        assert_eq!(
            error,
            DecodeError::Field {
                field: "block",
                cause: RlpError::Trailing { got: 1 }
            }
        );
    }

    #[test]
    fn three_parts() {
        let count = |got| {
            Err(DecodeError::FieldCount {
                what: "block",
                got,
                expected: "3",
            })
        };
        assert_eq!(changed(|fields| fields.truncate(2)), count(2));
        assert_eq!(changed(|fields| fields.push(RlpItem::List(vec![]))), count(4));
        let no_list = changed(|fields| fields[1] = RlpItem::Bytes(vec![]));
        let cause = RlpError::ExpectedList;
        assert_eq!(
            no_list,
            Err(DecodeError::Field {
                field: "block.transactions",
                cause
            })
        );
    }

    #[test]
    fn errors_name_the_entry() {
        let got = changed(|fields| {
            let RlpItem::List(transactions) = &mut fields[1] else {
                panic!("a list")
            };
            let RlpItem::List(second) = &mut transactions[1] else {
                panic!("a list")
            };
            second[3] = RlpItem::Bytes(vec![1; 9]);
        });
        assert_eq!(
            got.unwrap_err().to_string(),
            "block.transactions[1]: transaction.gas: got an integer of 9 bytes, expected at most 8"
        );
        let got = changed(|fields| fields[2] = RlpItem::List(vec![RlpItem::Bytes(vec![])]));
        assert_eq!(
            got.unwrap_err().to_string(),
            "block.uncles[0]: header: got bytes, expected a list"
        );
    }

    #[test]
    fn rules_choose_the_transactions() {
        let rlp = sample().encode();
        let error = Block::decode(&rlp, TxRules::Ethereum).unwrap_err();
        assert_eq!(
            error.to_string(),
            "block.transactions[0]: transaction: got 12 fields, expected 9"
        );
    }
}
