//! The fields of a pushed message, read strictly (docs/scs-wire.md, 2).
//!
//! An error names the field, what was got and what was expected. The payloads of handshakes and
//! pings are in [`payload`].

mod kind;
pub mod payload;

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use primitives::{Address, B256, DecodeError, hex, keccak256};

use crate::proto::ScsPushMsg;
pub use kind::{BroadcastStatus, ControlStatus, MessageKind, OWN_STATUS_FIRST};

/// Most bytes of a requestid. A node id with a counter has about 150.
pub(crate) const REQUEST_ID_LEN_MAX: usize = 1024;
/// Fewest bytes of the requestid of a message that is passed on. The published VNODE ends when it
/// passes a shorter one on.
pub(crate) const REQUEST_ID_LEN_MIN: usize = 16;
/// Most bytes of an scsid. An id has 42.
pub(crate) const SCS_ID_LEN_MAX: usize = 128;
/// Bytes of an address.
const ADDRESS_LEN: usize = 20;
/// The RLP prefix of 20 bytes.
const ADDRESS_RLP_PREFIX: u8 = 0x94;

/// The reason why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScsMessageError {
    /// A field has a length that it cannot have.
    #[error("{field}: got {got} bytes, expected {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// The length of the field.
        got: usize,
        /// The lengths that it may have.
        expected: &'static str,
    },
    /// A field of 21 bytes is not the RLP of an address.
    #[error("{field}: got a first byte of {got:#04x} before 20 bytes, expected 0x94")]
    AddressPrefix {
        /// The field.
        field: &'static str,
        /// The first byte.
        got: u8,
    },
    /// A number is negative.
    #[error("{field}: got {got}, expected at least 0")]
    Negative {
        /// The field.
        field: &'static str,
        /// The number.
        got: i32,
    },
    /// Only broadcasts are passed on from node to node.
    #[error("type: got {got}, expected 2, a broadcast")]
    NotBroadcast {
        /// The number of the kind.
        got: i32,
    },
    /// The payload is not what the kind of message has.
    #[error("msghash: {0}")]
    Payload(#[from] DecodeError),
    /// A text of the payload is not UTF-8.
    #[error("msghash: {field}: got bytes that are no text, expected UTF-8")]
    Text {
        /// The field of the payload.
        field: &'static str,
    },
}

/// The id of an SCS: the address of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScsId(pub Address);

/// A text that is not the id of an SCS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SCS id: got {0:?}, expected 0x and 40 hex digits, not all 0")]
pub struct BadScsId(pub String);

impl ScsId {
    /// The id in the field scsid of a handshake.
    ///
    /// # Errors
    /// [`BadScsId`] if the bytes are no id.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, BadScsId> {
        let bad =
            || BadScsId(String::from_utf8_lossy(&bytes[..bytes.len().min(SCS_ID_LEN_MAX)]).into_owned());
        std::str::from_utf8(bytes).map_err(|_| bad())?.parse()
    }

    /// The bytes for the field scsid: `0x` and 40 lower-case hex digits.
    pub fn to_wire(self) -> Bytes {
        Bytes::from(self.to_string())
    }
}

impl FromStr for ScsId {
    type Err = BadScsId;

    fn from_str(text: &str) -> Result<Self, BadScsId> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let mut address = Address::ZERO;
        // The library would skip a second 0x, which leaves fewer bytes: that is an error, too.
        let is_read = digits
            .filter(|digits| digits.len() == 2 * ADDRESS_LEN)
            .is_some_and(|digits| hex::decode_to_slice(digits, address.as_mut_slice()).is_ok());
        if is_read && !address.is_zero() {
            Ok(Self(address))
        } else {
            Err(BadScsId(text.chars().take(SCS_ID_LEN_MAX).collect()))
        }
    }
}

impl fmt::Display for ScsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{}", hex::encode(self.0))
    }
}

/// The form of an address in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    /// 20 bytes.
    Raw,
    /// 21 bytes: the RLP of the 20.
    Rlp,
}

/// An address of a message. Messages are passed on as they are, so its form is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireAddress {
    /// The address.
    pub address: Address,
    /// The form of the address.
    pub form: AddressForm,
}

impl WireAddress {
    /// An address written as 20 bytes.
    pub const fn raw(address: Address) -> Self {
        Self {
            address,
            form: AddressForm::Raw,
        }
    }

    /// An address written as its RLP.
    pub const fn rlp(address: Address) -> Self {
        Self {
            address,
            form: AddressForm::Rlp,
        }
    }

    fn encode(self) -> Bytes {
        match self.form {
            AddressForm::Raw => Bytes::copy_from_slice(self.address.as_slice()),
            AddressForm::Rlp => [&[ADDRESS_RLP_PREFIX][..], self.address.as_slice()]
                .concat()
                .into(),
        }
    }
}

/// Reads an address; `None` if the field is empty.
///
/// # Errors
/// [`ScsMessageError`] for anything but 0, 20 or 21 bytes.
pub fn read_address(field: &'static str, bytes: &[u8]) -> Result<Option<WireAddress>, ScsMessageError> {
    match (bytes.len(), bytes.first()) {
        (0, _) => Ok(None),
        (20, _) => Ok(Some(WireAddress::raw(Address::from_slice(bytes)))),
        (21, Some(&ADDRESS_RLP_PREFIX)) => Ok(Some(WireAddress::rlp(Address::from_slice(&bytes[1..])))),
        (21, Some(&got)) => Err(ScsMessageError::AddressPrefix { field, got }),
        (got, _) => Err(ScsMessageError::Length {
            field,
            got,
            expected: "0, 20 or 21",
        }),
    }
}

/// A message with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScsMessage {
    /// Names the message.
    pub request_id: Bytes,
    /// Unix time in seconds; `None` if the message has none.
    pub timestamp: Option<u64>,
    /// Whether this is a request, not an answer.
    pub is_request: bool,
    /// The purpose of the message.
    pub kind: MessageKind,
    /// The text of the field scsid, which need not be an id.
    pub scs_id: Bytes,
    /// The MicroChain.
    pub chain: Option<WireAddress>,
    /// The sender.
    pub sender: Option<WireAddress>,
    /// The receiver.
    pub receiver: Option<WireAddress>,
    /// The content, whose form depends on the kind.
    pub payload: Bytes,
}

impl ScsMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// [`ScsMessageError`] for the first field that is wrong.
    pub fn decode(message: &ScsPushMsg) -> Result<Self, ScsMessageError> {
        at_most(
            "requestid",
            &message.requestid,
            REQUEST_ID_LEN_MAX,
            "at most 1024",
        )?;
        at_most("scsid", &message.scsid, SCS_ID_LEN_MAX, "at most 128")?;
        let kind = read_number("type", &message.r#type)?;
        let status = read_number("status", &message.status)?;
        Ok(Self {
            request_id: message.requestid.clone(),
            timestamp: read_timestamp(&message.timestamp)?,
            is_request: message.requestflag,
            kind: MessageKind::new(kind, status),
            scs_id: message.scsid.clone(),
            chain: read_address("subchainid", &message.subchainid)?,
            sender: read_address("sender", &message.sender)?,
            receiver: read_address("receiver", &message.receiver)?,
            payload: message.msghash.clone(),
        })
    }

    /// The message as it travels.
    pub fn encode(&self) -> ScsPushMsg {
        let (kind, status) = self.kind.numbers();
        let address = |address: Option<WireAddress>| address.map(WireAddress::encode).unwrap_or_default();
        ScsPushMsg {
            requestid: self.request_id.clone(),
            timestamp: self.timestamp.map(timestamp_bytes).unwrap_or_default(),
            requestflag: self.is_request,
            r#type: number_bytes(kind),
            status: status.map(number_bytes).unwrap_or_default(),
            scsid: self.scs_id.clone(),
            subchainid: address(self.chain),
            sender: address(self.sender),
            receiver: address(self.receiver),
            msghash: self.payload.clone(),
        }
    }

    /// The MicroChain of a message that is passed on.
    ///
    /// # Errors
    /// [`ScsMessageError::Length`] if the message names none, or its requestid is too short.
    pub fn route(&self) -> Result<Address, ScsMessageError> {
        let got = self.request_id.len();
        if got < REQUEST_ID_LEN_MIN {
            return Err(ScsMessageError::Length {
                field: "requestid",
                got,
                expected: "16 to 1024",
            });
        }
        self.chain
            .map(|chain| chain.address)
            .ok_or(ScsMessageError::Length {
                field: "subchainid",
                got: 0,
                expected: "20 or 21",
            })
    }
}

/// The hash by which a message is recognized: that of requestid, scsid, requestflag and msghash
/// (docs/scs-wire.md, 5).
pub fn message_hash(message: &ScsPushMsg) -> B256 {
    let mut out = Vec::with_capacity(message.content_len() + 32);
    let fields: [&dyn primitives::Encodable; 4] = [
        &message.requestid,
        &message.scsid,
        &message.requestflag,
        &message.msghash,
    ];
    alloy_rlp::encode_list::<_, dyn primitives::Encodable>(&fields, &mut out);
    keccak256(out)
}

/// A number as the fields type and status have it.
fn number_bytes(number: i32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// A time as the field timestamp has it.
pub(crate) fn timestamp_bytes(seconds: u64) -> Bytes {
    Bytes::copy_from_slice(&seconds.to_be_bytes())
}

/// A number of 4 bytes. Fewer bytes are 0, as in the published programs.
fn read_number(field: &'static str, bytes: &[u8]) -> Result<i32, ScsMessageError> {
    match (<[u8; 4]>::try_from(bytes), bytes.len()) {
        (Ok(bytes), _) => match i32::from_be_bytes(bytes) {
            got @ ..0 => Err(ScsMessageError::Negative { field, got }),
            number => Ok(number),
        },
        (Err(_), ..4) => Ok(0),
        (Err(_), got) => Err(ScsMessageError::Length {
            field,
            got,
            expected: "at most 4",
        }),
    }
}

fn read_timestamp(bytes: &[u8]) -> Result<Option<u64>, ScsMessageError> {
    match (<[u8; 8]>::try_from(bytes), bytes.len()) {
        (Ok(bytes), _) => Ok(Some(u64::from_be_bytes(bytes))),
        (Err(_), 0) => Ok(None),
        (Err(_), got) => Err(ScsMessageError::Length {
            field: "timestamp",
            got,
            expected: "0 or 8",
        }),
    }
}

const fn at_most(
    field: &'static str,
    bytes: &[u8],
    max: usize,
    expected: &'static str,
) -> Result<(), ScsMessageError> {
    match bytes.len() {
        got if got > max => Err(ScsMessageError::Length { field, got, expected }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
