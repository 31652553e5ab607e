//! A block whose body is still packed.
//!
//! The sender of a block has not worked for it before its seal is right. So only the header is
//! decoded with the message. The body stays as it came, until the seal was checked: packed it takes
//! the memory of its bytes, decoded it can take thirty times as much.

use alloy_rlp::BufMut;
use primitives::rlp::RlpReader;
use primitives::{B256, Block, Bytes, DecodeError, Encodable, Header, Transaction, TxRules, keccak256};

use super::codec::{BODY_UNCLES_MAX, MESSAGE_TRANSACTIONS_MAX};
use super::error::PeerMessageError;
use crate::raw_rlp::RawRlp;

/// The name of the message in errors.
const MESSAGE: &str = "NewBlock";
/// From this byte on, an RLP item is a list.
const LIST_MIN: u8 = 0xc0;

/// A header, and a body that is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedBlock {
    header: Header,
    hash: B256,
    /// The list of transactions and the list of uncles, one after the other.
    body: Bytes,
}

impl Default for PackedBlock {
    fn default() -> Self {
        Self::pack(&Block::default())
    }
}

impl PackedBlock {
    /// Packs a block.
    pub fn pack(block: &Block) -> Self {
        let mut body = Vec::new();
        alloy_rlp::encode_list(&block.transactions, &mut body);
        alloy_rlp::encode_list::<_, Header>(&block.uncles, &mut body);
        Self {
            header: block.header.clone(),
            hash: block.hash(),
            body: body.into(),
        }
    }

    /// Reads the three fields of a block. Of the body only the two lists are looked at, not what is
    /// in them.
    pub(super) fn read(mut fields: RlpReader<'_>) -> Result<Self, DecodeError> {
        fields.expect_count("block", 3, "3")?;
        let header = Header::decode(fields.raw("block.header")?)?;
        let body = fields.rest();
        fields.list("transactions")?;
        fields.list("uncles")?;
        Ok(Self {
            hash: header.hash(),
            header,
            body: Bytes::copy_from_slice(body),
        })
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The hash of the block.
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// The bytes in memory, nearly.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.header.extra_data.len() + self.body.len()
    }

    /// Whether two blocks with the same header have the same body, too.
    pub(crate) fn has_body_of(&self, other: &Self) -> bool {
        self.body == other.body
    }

    /// The hash of the list of uncles, as a header has it.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is not two lists.
    pub fn uncles_hash(&self) -> Result<B256, DecodeError> {
        let mut body = RlpReader::over(&self.body);
        body.list("transactions")?;
        Ok(keccak256(body.rest()))
    }

    /// The transactions in the form from which the root in the header is computed, still encoded.
    ///
    /// # Errors
    /// [`PeerMessageError`] if there are more than [`MESSAGE_TRANSACTIONS_MAX`], or the list cannot
    /// be read.
    pub fn encoded_transactions(&self) -> Result<Vec<&[u8]>, PeerMessageError> {
        let mut list = RlpReader::over(&self.body).list("transactions").map_err(field)?;
        let count = bounded(&list, "transactions", MESSAGE_TRANSACTIONS_MAX)?;
        let mut transactions = Vec::with_capacity(count);
        while !list.is_empty() {
            let mut item = RlpReader::over(list.raw("transaction").map_err(field)?);
            let is_list = item.rest().first().is_some_and(|first| *first >= LIST_MIN);
            let encoded = if is_list {
                item.rest()
            } else {
                // A typed transaction is a string of bytes.
                item.slice("transaction").map_err(field)?
            };
            transactions.push(encoded);
        }
        Ok(transactions)
    }

    /// The whole block. `rules` say which forms its transactions may have.
    ///
    /// # Errors
    /// [`PeerMessageError`] if the body cannot be decoded, or has more than
    /// [`MESSAGE_TRANSACTIONS_MAX`] transactions or `BODY_UNCLES_MAX` uncles.
    pub fn unpack(&self, rules: TxRules) -> Result<Block, PeerMessageError> {
        let mut body = RlpReader::over(&self.body);
        let mut list = body.list("transactions").map_err(field)?;
        let mut transactions = Vec::with_capacity(bounded(&list, "transactions", MESSAGE_TRANSACTIONS_MAX)?);
        while !list.is_empty() {
            let item = list.raw("transaction");
            transactions.push(
                item.and_then(|item| Transaction::decode_item(item, rules))
                    .map_err(field)?,
            );
        }
        let mut list = body.list("uncles").map_err(field)?;
        let mut uncles = Vec::with_capacity(bounded(&list, "uncles", BODY_UNCLES_MAX)?);
        while !list.is_empty() {
            uncles.push(list.raw("uncle").and_then(Header::decode).map_err(field)?);
        }
        Ok(Block {
            header: self.header.clone(),
            transactions,
            uncles,
        })
    }
}

const fn field(cause: DecodeError) -> PeerMessageError {
    let message = MESSAGE;
    PeerMessageError::Field { message, cause }
}

/// The number of entries in `reader`, at most `bound`.
fn bounded(reader: &RlpReader<'_>, list: &'static str, bound: usize) -> Result<usize, PeerMessageError> {
    let got = reader.count(list).map_err(field)?;
    if got > bound {
        return Err(PeerMessageError::TooMany {
            message: MESSAGE,
            list,
            got,
            bound,
        });
    }
    Ok(got)
}

impl Encodable for PackedBlock {
    fn encode(&self, out: &mut dyn BufMut) {
        primitives::rlp::encode_fields(&[&self.header, &RawRlp(&self.body)], out);
    }

    fn length(&self) -> usize {
        primitives::rlp::fields_length(&[&self.header, &RawRlp(&self.body)])
    }
}

#[cfg(test)]
mod tests {
    use primitives::uncles_hash;

    use super::*;

    fn block(transactions: usize, uncles: usize) -> Block {
        Block {
            header: Header {
                number: 7,
                ..Header::default()
            },
            transactions: vec![Transaction::system(6); transactions],
            uncles: vec![Header::default(); uncles],
        }
    }

    #[test]
    fn a_block_is_packed_and_unpacked() {
        for (transactions, uncles) in [(0, 0), (3, 0), (0, 2), (40, 1)] {
            let block = block(transactions, uncles);
            let packed = PackedBlock::pack(&block);
            assert_eq!(alloy_rlp::encode(&packed), block.encode());
            let fields = block.encode();
            let read = PackedBlock::read(RlpReader::open(&fields, "block").unwrap()).unwrap();
            assert_eq!(read, packed);
            assert_eq!(read.hash(), block.hash());
            assert_eq!(read.unpack(TxRules::Moac).unwrap(), block);
            assert_eq!(read.uncles_hash().unwrap(), uncles_hash(&block.uncles));
            let encoded: Vec<_> = block.transactions.iter().map(Transaction::encode).collect();
            assert_eq!(read.encoded_transactions().unwrap(), encoded);
        }
    }

    #[test]
    fn a_body_is_not_looked_into_before_it_is_unpacked() {
        let mut packed = PackedBlock::pack(&block(0, 0));
        // One transaction that is none.
        packed.body = Bytes::from_static(&[0xc1, 0xc0, 0xc0]);
        let encoded = alloy_rlp::encode(&packed);
        let read = PackedBlock::read(RlpReader::open(&encoded, "block").unwrap()).unwrap();
        assert_eq!(read, packed);
        assert!(read.unpack(TxRules::Moac).is_err());
        let mut many = vec![0xf9, 0xff, 0xff];
        many.resize(3 + 0xffff, 0xc0);
        many.extend([0xc0]);
        packed.body = many.clone().into();
        assert_eq!(packed.encoded_transactions().unwrap().len(), 0xffff);
        many[0] = 0xfa;
        many.splice(1..3, [1, 0, 1]);
        many.extend([0xc0; 2]);
        packed.body = many.into();
        let refused = packed.encoded_transactions().unwrap_err();
        assert!(
            matches!(refused, PeerMessageError::TooMany { got: 65_537, .. }),
            "{refused}"
        );
        assert!(packed.unpack(TxRules::Moac).is_err());
    }
}
