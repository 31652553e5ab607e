//! The block header: fifteen fields, its RLP and its two hashes.
//!
//! Does not judge the values. The limits of `extra_data`, difficulty, gas limit and timestamp are
//! rules of the package `chain`. The seal (`mix_hash` and `pow_nonce`) is checked by the package
//! `ethash`.

use alloy_primitives::{Address, B256, Bloom, Bytes, U256, keccak256};
use alloy_rlp::{BufMut, Encodable};

use crate::{
    error::DecodeError,
    rlp::{RlpReader, encode_fields, encode_fields_to_vec, fields_length},
};

/// Number of fields under the header hash, which miners get. The other two fields are the seal.
const UNSEALED_FIELDS: usize = 13;

/// A block's header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// Hash of the parent block.
    pub parent_hash: B256,
    /// Keccak-256 of the RLP list of uncles.
    pub uncles_hash: B256,
    /// The account that gets the block reward.
    pub beneficiary: Address,
    /// Root of the state after the block.
    pub state_root: B256,
    /// Root of the trie of the block's transactions.
    pub transactions_root: B256,
    /// Root of the trie of the block's receipts.
    pub receipts_root: B256,
    /// Bloom filter of the addresses and topics of all logs in the block.
    pub logs_bloom: Bloom,
    /// Average number of hashes that it takes to find a seal.
    pub difficulty: U256,
    /// Block number. Genesis has number 0.
    pub number: u64,
    /// Upper bound for the gas that all transactions use together.
    pub gas_limit: u64,
    /// Gas that all transactions used together.
    pub gas_used: u64,
    /// Seconds since 1970-01-01, UTC.
    pub timestamp: u64,
    /// Data chosen by the miner.
    pub extra_data: Bytes,
    /// The mix hash of the Ethash seal.
    pub mix_hash: B256,
    /// The nonce of the Ethash seal. Eight bytes in RLP, big-endian.
    pub pow_nonce: u64,
}

impl Header {
    /// The RLP of the header.
    pub fn encode(&self) -> Vec<u8> {
        self.with_fields(encode_fields_to_vec)
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`DecodeError`] if `rlp` is not exactly one list of the fifteen fields.
    pub fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_fields(RlpReader::open(rlp, "header")?)
    }

    /// The block hash: Keccak-256 of all fields.
    pub fn hash(&self) -> B256 {
        keccak256(self.encode())
    }

    /// The header hash (also: pow hash), which miners get: Keccak-256 of all fields but the seal.
    pub fn header_hash(&self) -> B256 {
        keccak256(self.with_fields(|fields| encode_fields_to_vec(&fields[..UNSEALED_FIELDS])))
    }

    pub(crate) fn decode_fields(mut reader: RlpReader<'_>) -> Result<Self, DecodeError> {
        reader.expect_count("header", 15, "15")?;
        Ok(Self {
            parent_hash: reader.fixed("header.parentHash")?,
            uncles_hash: reader.fixed("header.sha3Uncles")?,
            beneficiary: reader.address("header.miner")?,
            state_root: reader.fixed("header.stateRoot")?,
            transactions_root: reader.fixed("header.transactionsRoot")?,
            receipts_root: reader.fixed("header.receiptsRoot")?,
            logs_bloom: reader.bloom("header.logsBloom")?,
            difficulty: reader.u256("header.difficulty")?,
            number: reader.u64("header.number")?,
            gas_limit: reader.u64("header.gasLimit")?,
            gas_used: reader.u64("header.gasUsed")?,
            timestamp: reader.u64("header.timestamp")?,
            extra_data: reader.bytes("header.extraData")?,
            mix_hash: reader.fixed("header.mixHash")?,
            pow_nonce: u64::from_be_bytes(reader.fixed("header.nonce")?.0),
        })
    }

    fn with_fields<T>(&self, work: impl FnOnce(&[&dyn Encodable]) -> T) -> T {
        let pow_nonce = self.pow_nonce.to_be_bytes();
        work(&[
            &self.parent_hash,
            &self.uncles_hash,
            &self.beneficiary,
            &self.state_root,
            &self.transactions_root,
            &self.receipts_root,
            &self.logs_bloom,
            &self.difficulty,
            &self.number,
            &self.gas_limit,
            &self.gas_used,
            &self.timestamp,
            &self.extra_data,
            &self.mix_hash,
            &pow_nonce,
        ])
    }
}

impl Encodable for Header {
    fn encode(&self, out: &mut dyn BufMut) {
        self.with_fields(|fields| encode_fields(fields, out));
    }

    fn length(&self) -> usize {
        self.with_fields(fields_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlp::{RlpError, RlpItem};

    fn changed(change: impl FnOnce(&mut Vec<RlpItem>)) -> Result<Header, DecodeError> {
        let mut item = RlpItem::decode_exact(&Header::default().encode()).expect("our own encoding");
        let RlpItem::List(fields) = &mut item else {
            panic!("a list")
        };
        change(fields);
        Header::decode(&item.encode())
    }

    fn check_field(index: usize, bytes: &[u8], field: &'static str, cause: RlpError) {
        let got = changed(|fields| fields[index] = RlpItem::Bytes(bytes.to_vec()));
        assert_eq!(got, Err(DecodeError::Field { field, cause }));
    }

    #[test]
    fn fields_have_one_form() {
        let length = |got, expected| RlpError::WrongLength { got, expected };
        check_field(0, &[1; 31], "header.parentHash", length(31, 32));
        check_field(2, &[1; 21], "header.miner", length(21, 20));
        check_field(2, &[], "header.miner", length(0, 20));
        check_field(6, &[1; 257], "header.logsBloom", length(257, 256));
        check_field(14, &[1; 7], "header.nonce", length(7, 8));
        check_field(7, &[0], "header.difficulty", RlpError::IntegerLeadingZero);
        let wide = RlpError::IntegerWidth { got: 9, bound: 8 };
        check_field(11, &[1; 9], "header.timestamp", wide);
    }

    #[test]
    fn fifteen_fields() {
        let count = |got| {
            Err(DecodeError::FieldCount {
                what: "header",
                got,
                expected: "15",
            })
        };
        assert_eq!(changed(|fields| fields.truncate(14)), count(14));
        assert_eq!(changed(|fields| fields.push(RlpItem::Bytes(vec![7]))), count(16));
        assert_eq!(changed(|_| ()), Ok(Header::default()));
    }

    #[test]
    fn only_the_seal_is_outside_the_header_hash() {
        let header = Header::default();
        let sealed = Header {
            mix_hash: B256::repeat_byte(1),
            pow_nonce: 1,
            ..header.clone()
        };
        assert_eq!(sealed.header_hash(), header.header_hash());
        assert_ne!(sealed.hash(), header.hash());
        let other = Header {
            extra_data: Bytes::from_static(b"x"),
            ..header
        };
        assert_ne!(other.header_hash(), header.header_hash());
        // The nonce has eight bytes, although an integer would be shorter.
        assert!(sealed.encode().ends_with(&[0x88, 0, 0, 0, 0, 0, 0, 0, 1]));
    }
}
