//! The calls with which an SCS checks what a VNODE tells of the base chain (docs/scs-wire.md, 9).
//! Only programs of this project know them.

use bytes::Bytes as RawBytes;
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{Address, B256, Bytes, DecodeError, Encodable, Header, U256};

use crate::proto::WitnessRequest;

/// The most headers in an answer: usually 110 kB.
pub(crate) const HEADERS_MAX: u64 = 192;
/// Bytes of headers after which an answer ends. Extra data of a chain for development can be long.
const HEADERS_LEN_MAX: usize = 1 << 20;
/// The most slots in a request.
const SLOTS_MAX: usize = 64;

/// A part of the base chain's state that is to be proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessWish {
    /// The number of the block after which the state is read.
    pub number: u64,
    /// The hash of the block.
    pub hash: B256,
    /// The contract.
    pub contract: Address,
    /// Slots of the contract.
    pub slots: Vec<U256>,
    /// The input of a call of the contract in its own name; `None` for no call.
    pub input: Option<Bytes>,
}

/// The reason why a request for a proof is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WishError {
    #[error("{field}: got {got} bytes, expected 32")]
    Length {
        field: &'static str,
        /// The bytes.
        got: usize,
    },
    #[error("slots: got {0}, expected at most {SLOTS_MAX}")]
    Slots(usize),
}

impl WitnessWish {
    /// The message.
    pub(crate) fn request(&self) -> WitnessRequest {
        let raw = |bytes: &[u8]| RawBytes::copy_from_slice(bytes);
        WitnessRequest {
            requestid: 0,
            blocknumber: self.number,
            blockhash: raw(self.hash.as_slice()),
            contractaddr: raw(self.contract.as_slice()),
            slots: self
                .slots
                .iter()
                .map(|slot| raw(&slot.to_be_bytes::<32>()))
                .collect(),
            data: self.input.as_ref().map(|input| input.0.clone()),
        }
    }

    /// Reads the message, whose contract was read before.
    pub(crate) fn read(contract: Address, request: WitnessRequest) -> Result<Self, WishError> {
        if request.slots.len() > SLOTS_MAX {
            return Err(WishError::Slots(request.slots.len()));
        }
        let word = |field, bytes: &[u8]| {
            B256::try_from(bytes).map_err(|_| WishError::Length {
                field,
                got: bytes.len(),
            })
        };
        let slots = request.slots.iter();
        let slots = slots.map(|slot| word("slots", slot).map(|slot| U256::from_be_bytes(slot.0)));
        Ok(Self {
            number: request.blocknumber,
            hash: word("blockhash", &request.blockhash)?,
            contract,
            slots: slots.collect::<Result<_, _>>()?,
            input: request.data.map(Into::into),
        })
    }
}

/// The body of an answer with headers: a list, with the first headers only if it would be long.
pub(crate) fn encode_headers(headers: &[Header]) -> RawBytes {
    let mut len = 0;
    let fitting = headers.iter().take_while(|header| {
        len += header.length();
        len - header.length() < HEADERS_LEN_MAX
    });
    let fields: Vec<&dyn Encodable> = fitting.map(|header| header as &dyn Encodable).collect();
    encode_fields_to_vec(&fields).into()
}

/// Reads the body of an answer with headers.
pub(crate) fn decode_headers(body: &[u8]) -> Result<Vec<Header>, DecodeError> {
    let mut list = RlpReader::open(body, "headers")?;
    let mut headers = Vec::new();
    while !list.is_empty() {
        headers.push(Header::decode(list.raw("header")?)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_and_headers_are_read_as_they_were_written() {
        let wish = WitnessWish {
            number: 7,
            hash: B256::repeat_byte(1),
            contract: Address::repeat_byte(2),
            slots: vec![U256::from(9), U256::MAX],
            input: Some(vec![1, 2].into()),
        };
        assert_eq!(WitnessWish::read(wish.contract, wish.request()), Ok(wish.clone()));
        let mut request = wish.request();
        request.blockhash = RawBytes::from_static(b"short");
        let error = WitnessWish::read(wish.contract, request).unwrap_err();
        assert_eq!(error.to_string(), "blockhash: got 5 bytes, expected 32");
        let mut request = wish.request();
        request.slots = vec![RawBytes::from_static(&[0; 32]); SLOTS_MAX + 1];
        let error = WitnessWish::read(wish.contract, request).unwrap_err();
        assert_eq!(error.to_string(), "slots: got 65, expected at most 64");
        let headers: Vec<Header> = (0..3)
            .map(|number| Header {
                number,
                ..Header::default()
            })
            .collect();
        assert_eq!(decode_headers(&encode_headers(&headers)), Ok(headers));
        assert_eq!(decode_headers(&encode_headers(&[])), Ok(Vec::new()));
        assert!(decode_headers(b"none").is_err());
    }
}
