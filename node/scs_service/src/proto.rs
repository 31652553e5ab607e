//! The messages of the package `moac`, version 3 of protocol buffers (docs/scs-wire.md, 1).
//!
//! Only field numbers and types are known here. What a field of [`ScsPushMsg`] means is in
//! [`crate::message`].

use bytes::Bytes;
use prost::Message;

/// The message on the streams of `ScsPush`, in both directions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ScsPushMsg {
    /// Names the message; an SCS begins it with its own id.
    #[prost(bytes = "bytes", tag = "1")]
    pub requestid: Bytes,
    /// Unix time in seconds, 8 bytes, big-endian.
    #[prost(bytes = "bytes", tag = "2")]
    pub timestamp: Bytes,
    /// Whether this is a request, not an answer.
    #[prost(bool, tag = "3")]
    pub requestflag: bool,
    /// The kind of message, 4 bytes, big-endian.
    #[prost(bytes = "bytes", tag = "4")]
    pub r#type: Bytes,
    /// The sort of a broadcast or a notice, 4 bytes, big-endian.
    #[prost(bytes = "bytes", tag = "5")]
    pub status: Bytes,
    /// The id of an SCS as text.
    #[prost(bytes = "bytes", tag = "6")]
    pub scsid: Bytes,
    /// The address of a MicroChain.
    #[prost(bytes = "bytes", tag = "7")]
    pub subchainid: Bytes,
    /// The address of the sender.
    #[prost(bytes = "bytes", tag = "8")]
    pub sender: Bytes,
    /// The address of the receiver.
    #[prost(bytes = "bytes", tag = "9")]
    pub receiver: Bytes,
    /// The content. Its name is that of the published message.
    #[prost(bytes = "bytes", tag = "10")]
    pub msghash: Bytes,
}

impl ScsPushMsg {
    /// Bytes of all fields, for bounds on memory.
    pub(crate) const fn content_len(&self) -> usize {
        self.requestid.len()
            + self.timestamp.len()
            + self.r#type.len()
            + self.status.len()
            + self.scsid.len()
            + self.subchainid.len()
            + self.sender.len()
            + self.receiver.len()
            + self.msghash.len()
    }

    /// The same message in memory of its own. A decoded message shares the memory of what was
    /// received with it, so that a short message can keep a long one in memory.
    #[must_use]
    pub fn compact(&self) -> Self {
        let mut all = Vec::with_capacity(self.content_len());
        for field in [
            &self.requestid,
            &self.timestamp,
            &self.r#type,
            &self.status,
            &self.scsid,
            &self.subchainid,
            &self.sender,
            &self.receiver,
            &self.msghash,
        ] {
            all.extend_from_slice(field);
        }
        let mut all = Bytes::from(all);
        let mut next = |field: &Bytes| all.split_to(field.len());
        Self {
            requestid: next(&self.requestid),
            timestamp: next(&self.timestamp),
            requestflag: self.requestflag,
            r#type: next(&self.r#type),
            status: next(&self.status),
            scsid: next(&self.scsid),
            subchainid: next(&self.subchainid),
            sender: next(&self.sender),
            receiver: next(&self.receiver),
            msghash: next(&self.msghash),
        }
    }
}

/// Asks for an account of the base chain.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AccountInfoRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The account.
    #[prost(bytes = "bytes", tag = "2")]
    pub addr: Bytes,
}

/// Asks for parts of a contract's storage.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ChainInfoRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The contract.
    #[prost(bytes = "bytes", tag = "2")]
    pub consensusaddr: Bytes,
    /// The parts.
    #[prost(message, repeated, tag = "3")]
    pub request: Vec<StorageRequest>,
}

/// A part of a contract's storage.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StorageRequest {
    /// 0 to 5: all, array, mapping, struct, slot, string (docs/scs-wire.md, 9).
    #[prost(uint32, tag = "1")]
    pub reqtype: u32,
    /// The slot of the variable.
    #[prost(bytes = "bytes", tag = "2")]
    pub storagekey: Bytes,
    /// The index in an array, or the key of a mapping.
    #[prost(bytes = "bytes", tag = "3")]
    pub position: Bytes,
    /// The members of a struct, a digit for each.
    #[prost(bytes = "bytes", tag = "4")]
    pub structformat: Bytes,
}

/// A transaction for the pool of the base chain.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RemoteCallRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// Unused.
    #[prost(bytes = "bytes", tag = "2")]
    pub sender: Bytes,
    /// Unused.
    #[prost(bytes = "bytes", tag = "3")]
    pub contractaddr: Bytes,
    /// The signed transaction.
    #[prost(bytes = "bytes", tag = "4")]
    pub data: Bytes,
}

/// A call of a contract at the head.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ScbPublicCallRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// Unused.
    #[prost(bytes = "bytes", tag = "2")]
    pub sender: Bytes,
    /// The contract, which is also the caller.
    #[prost(bytes = "bytes", tag = "3")]
    pub contractaddr: Bytes,
    /// The input of the call.
    #[prost(bytes = "bytes", tag = "4")]
    pub data: Bytes,
}

/// Asks for headers of the base chain. Only programs of this project know it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BaseHeadersRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The number of the first header.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// The most headers.
    #[prost(uint32, tag = "3")]
    pub count: u32,
}

/// Asks for the proof of an account, of some of its slots, and of a call. Only programs of this
/// project know it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WitnessRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The number of the block after which the state is proven.
    #[prost(uint64, tag = "2")]
    pub blocknumber: u64,
    /// The hash of the block.
    #[prost(bytes = "bytes", tag = "3")]
    pub blockhash: Bytes,
    /// The contract, which is also the caller.
    #[prost(bytes = "bytes", tag = "4")]
    pub contractaddr: Bytes,
    /// Slots of the contract, 32 bytes each.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub slots: Vec<Bytes>,
    /// The input of the call; missing if there is no call.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub data: Option<Bytes>,
}

/// A block of a MicroChain to keep for others.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UploadBlockRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The SCS that keeps it here.
    #[prost(bytes = "bytes", tag = "2")]
    pub sender: Bytes,
    /// The number of the block.
    #[prost(uint64, tag = "3")]
    pub blocknumber: u64,
    /// The hash of the block.
    #[prost(bytes = "bytes", tag = "4")]
    pub blockhash: Bytes,
    /// Unused.
    #[prost(bytes = "bytes", tag = "5")]
    pub scsid: Bytes,
    /// The MicroChain.
    #[prost(bytes = "bytes", tag = "6")]
    pub subchainid: Bytes,
    /// The block.
    #[prost(bytes = "bytes", tag = "7")]
    pub blockdata: Bytes,
}

/// Asks for a block that was uploaded.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DownloadBlockRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The SCS that uploaded the block.
    #[prost(bytes = "bytes", tag = "2")]
    pub sender: Bytes,
    /// The number of the block.
    #[prost(uint64, tag = "3")]
    pub blocknumber: u64,
    /// The hash of the block; empty for the last one with this number.
    #[prost(bytes = "bytes", tag = "4")]
    pub blockhash: Bytes,
    /// Unused.
    #[prost(bytes = "bytes", tag = "5")]
    pub scsid: Bytes,
    /// Unused.
    #[prost(bytes = "bytes", tag = "6")]
    pub uploadscsid: Bytes,
    /// The MicroChain.
    #[prost(bytes = "bytes", tag = "7")]
    pub subchainid: Bytes,
}

/// Asks an SCS for a block. No published program sends it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BlockSyncRequest {
    /// Repeated in the reply.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The SCS that asks.
    #[prost(bytes = "bytes", tag = "2")]
    pub sender: Bytes,
    /// The number of the block.
    #[prost(uint32, tag = "3")]
    pub blocknumber: u32,
    /// The id of the SCS.
    #[prost(bytes = "bytes", tag = "4")]
    pub scsid: Bytes,
}

/// The reply of every unary call: each has a message of its own, and all have these fields.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServiceReply {
    /// The id of the request.
    #[prost(uint32, tag = "1")]
    pub requestid: u32,
    /// The result, whose form depends on the call.
    #[prost(bytes = "bytes", tag = "2")]
    pub replybody: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_numbers_are_those_of_the_table() {
        let field = |text: &'static str| Bytes::from_static(text.as_bytes());
        let message = ScsPushMsg {
            requestid: field("a"),
            timestamp: field("b"),
            requestflag: true,
            r#type: field("d"),
            status: field("e"),
            scsid: field("f"),
            subchainid: field("g"),
            sender: field("h"),
            receiver: field("i"),
            msghash: field("j"),
        };
        let expected =
            b"\x0a\x01a\x12\x01b\x18\x01\x22\x01d\x2a\x01e\x32\x01f\x3a\x01g\x42\x01h\x4a\x01i\x52\x01j";
        assert_eq!(message.encode_to_vec(), expected);
        assert_eq!(ScsPushMsg::decode(&expected[..]), Ok(message.clone()));
        assert_eq!(message.compact(), message);
        assert_eq!(message.content_len(), 9);
        let storage = StorageRequest {
            reqtype: 5,
            storagekey: field("k"),
            position: field("l"),
            structformat: field("m"),
        };
        let chain = ChainInfoRequest {
            requestid: 7,
            consensusaddr: field("c"),
            request: vec![storage],
        };
        let expected = b"\x08\x07\x12\x01c\x1a\x0b\x08\x05\x12\x01k\x1a\x01l\x22\x01m";
        assert_eq!(chain.encode_to_vec(), expected);
        let upload = UploadBlockRequest {
            requestid: 1,
            sender: field("s"),
            blocknumber: 300,
            blockhash: field("h"),
            scsid: field("i"),
            subchainid: field("c"),
            blockdata: field("d"),
        };
        let expected = b"\x08\x01\x12\x01s\x18\xac\x02\x22\x01h\x2a\x01i\x32\x01c\x3a\x01d";
        assert_eq!(upload.encode_to_vec(), expected);
        let download = DownloadBlockRequest {
            requestid: 1,
            sender: field("s"),
            blocknumber: 3,
            blockhash: field("h"),
            scsid: field("i"),
            uploadscsid: field("u"),
            subchainid: field("c"),
        };
        let expected = b"\x08\x01\x12\x01s\x18\x03\x22\x01h\x2a\x01i\x32\x01u\x3a\x01c";
        assert_eq!(download.encode_to_vec(), expected);
        let call = RemoteCallRequest {
            requestid: 9,
            sender: field("s"),
            contractaddr: field("c"),
            data: field("d"),
        };
        let expected = b"\x08\x09\x12\x01s\x1a\x01c\x22\x01d";
        assert_eq!(call.encode_to_vec(), expected);
        assert_eq!(
            ScbPublicCallRequest::decode(&expected[..]).map(|call| call.data),
            Ok(field("d"))
        );
        let reply = ServiceReply {
            requestid: 9,
            replybody: field("r"),
        };
        assert_eq!(reply.encode_to_vec(), b"\x08\x09\x12\x01r");
    }
}
