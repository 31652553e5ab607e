//! Writes and reads the messages of `snap/1`.
//!
//! As in the codec of `eth`, the entries of each list are counted and compared with a bound before
//! memory is taken for them. Source: ethereum/devp2p, `caps/snap.md`.

use alloy_rlp::{BufMut, Header};
use primitives::rlp::{RlpError, RlpReader, encode_fields, encode_fields_to_vec, fields_length};
use primitives::{B256, Bytes, DecodeError, EMPTY_CODE_HASH, EMPTY_ROOT, Encodable, U256};
use store::AccountRecord;

use super::{
    AccountRange, AccountRangeRequest, ByteCodesRequest, PathSet, SNAP_MESSAGE_BYTES_MAX, SnapMessage,
    StorageRanges, StorageRangesRequest, TrieNodesRequest,
};
use crate::messages::codec::{MessageDecoder, REQUESTED_HASHES_MAX, list, raw_list};
use crate::messages::codes::HASHES_BYTES_MAX;
use crate::messages::error::PeerMessageError;
use crate::messages::protocol::WireProtocol;
use crate::raw_rlp::RawRlp;

pub(super) const GET_ACCOUNT_RANGE: u64 = 0;
pub(super) const ACCOUNT_RANGE: u64 = 1;
pub(super) const GET_STORAGE_RANGES: u64 = 2;
pub(super) const STORAGE_RANGES: u64 = 3;
pub(super) const GET_BYTE_CODES: u64 = 4;
pub(super) const BYTE_CODES: u64 = 5;
pub(super) const GET_TRIE_NODES: u64 = 6;
pub(super) const TRIE_NODES: u64 = 7;

/// Most accounts or slots in one answer. The shortest have some 40 bytes, and a server ends at
/// 2 MiB.
pub(super) const RANGE_ENTRIES_MAX: usize = 65_536;
/// Most nodes in one proof: two paths, and as many again for servers that send nodes twice.
pub(super) const PROOF_NODES_MAX: usize = 2 * chain::trie::RANGE_PROOF_NODES_MAX;
/// Most codes or nodes in one answer.
pub(super) const ANSWERED_ITEMS_MAX: usize = 2048;

/// The fewest bytes of the RLP of an account: a hash, and four items of a byte.
const ACCOUNT_BYTES: usize = 39;
/// The fewest bytes of the RLP of a slot.
const SLOT_BYTES: usize = 35;

/// The name of the message with this code.
pub(in crate::messages) const fn snap_message_name(code: u64) -> Option<&'static str> {
    Some(match code {
        GET_ACCOUNT_RANGE => "GetAccountRange",
        ACCOUNT_RANGE => "AccountRange",
        GET_STORAGE_RANGES => "GetStorageRanges",
        STORAGE_RANGES => "StorageRanges",
        GET_BYTE_CODES => "GetByteCodes",
        BYTE_CODES => "ByteCodes",
        GET_TRIE_NODES => "GetTrieNodes",
        TRIE_NODES => "TrieNodes",
        _ => return None,
    })
}

/// The most bytes of the RLP of a message with this code.
pub(in crate::messages) const fn snap_bytes_max(code: u64) -> usize {
    if code.is_multiple_of(2) {
        HASHES_BYTES_MAX
    } else {
        SNAP_MESSAGE_BYTES_MAX
    }
}

/// The account as the messages have it: no root and no code are no bytes.
struct Slim<'a>(&'a AccountRecord);

impl Slim<'_> {
    fn with_fields<R>(&self, act: impl FnOnce(&[&dyn Encodable]) -> R) -> R {
        let AccountRecord {
            tx_nonce,
            balance,
            storage_root,
            code_hash,
        } = self.0;
        act(&[
            tx_nonce,
            balance,
            &HashOrNone((*storage_root != EMPTY_ROOT).then_some(storage_root)),
            &HashOrNone((*code_hash != EMPTY_CODE_HASH).then_some(code_hash)),
        ])
    }
}

impl Encodable for Slim<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        self.with_fields(|fields| encode_fields(fields, out));
    }

    fn length(&self) -> usize {
        self.with_fields(fields_length)
    }
}

/// A hash, or no bytes.
struct HashOrNone<'a>(Option<&'a B256>);

impl Encodable for HashOrNone<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        self.0.map_or(&[][..], B256::as_slice).encode(out);
    }

    fn length(&self) -> usize {
        self.0.map_or(1, Encodable::length)
    }
}

/// The entries of a list: each is a list of a hash and of the value as `V` encodes it.
struct Entries<'a, T, V>(&'a [(B256, T)], fn(&'a T) -> V);

impl<'a, T, V: Encodable> Entries<'a, T, V> {
    fn entry_payload(&self, value: &'a T) -> usize {
        B256::ZERO.length() + (self.1)(value).length()
    }

    fn list(&self) -> Header {
        let length =
            |(_, value): &'a (B256, T)| entry_header(self.entry_payload(value)).length_with_payload();
        entry_header(self.0.iter().map(length).sum())
    }
}

const fn entry_header(payload_length: usize) -> Header {
    Header {
        list: true,
        payload_length,
    }
}

impl<T, V: Encodable> Encodable for Entries<'_, T, V> {
    fn encode(&self, out: &mut dyn BufMut) {
        self.list().encode(out);
        for (hash, value) in self.0 {
            entry_header(self.entry_payload(value)).encode(out);
            hash.encode(out);
            (self.1)(value).encode(out);
        }
    }

    fn length(&self) -> usize {
        self.list().length_with_payload()
    }
}

/// The value of a slot: bytes that are the RLP of the number.
struct SlotValue<'a>(&'a U256);

impl SlotValue<'_> {
    /// A short number is a byte that stands for itself, inside and outside.
    fn is_short(&self) -> bool {
        (1..0x80).contains(&self.0.saturating_to::<u8>())
    }
}

impl Encodable for SlotValue<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        if !self.is_short() {
            let header = Header {
                list: false,
                payload_length: self.0.length(),
            };
            header.encode(out);
        }
        self.0.encode(out);
    }

    fn length(&self) -> usize {
        usize::from(!self.is_short()) + self.0.length()
    }
}

/// The slots of some accounts.
struct Storages<'a>(&'a [Vec<(B256, U256)>]);

impl Storages<'_> {
    fn list(&self) -> Header {
        let length = |slots: &Vec<_>| Entries(slots, SlotValue).length();
        entry_header(self.0.iter().map(length).sum())
    }
}

impl Encodable for Storages<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        self.list().encode(out);
        for slots in self.0 {
            Entries(slots, SlotValue).encode(out);
        }
    }

    fn length(&self) -> usize {
        self.list().length_with_payload()
    }
}

/// The bytes that an account counts in an answer.
pub(crate) fn account_bytes(account: &AccountRecord) -> usize {
    32 + Slim(account).length()
}

/// The bytes that a slot counts in an answer.
pub(crate) fn slot_bytes(value: &U256) -> usize {
    32 + value.length()
}

impl SnapMessage {
    /// The RLP of the message.
    pub(in crate::messages) fn encode(&self) -> Vec<u8> {
        let id = self.request_id();
        match self {
            Self::GetAccountRange(_, request) => {
                let AccountRangeRequest {
                    root,
                    origin,
                    limit,
                    bytes,
                } = request;
                encode_fields_to_vec(&[&id, root, origin, limit, bytes])
            }
            Self::AccountRange(_, AccountRange { accounts, proof }) => {
                encode_fields_to_vec(&[&id, &Entries(accounts, Slim), proof])
            }
            Self::GetStorageRanges(_, request) => {
                let StorageRangesRequest {
                    root,
                    accounts,
                    origin,
                    limit,
                    bytes,
                } = request;
                encode_fields_to_vec(&[&id, root, accounts, origin, limit, bytes])
            }
            Self::StorageRanges(_, StorageRanges { slots, proof }) => {
                encode_fields_to_vec(&[&id, &Storages(slots), proof])
            }
            Self::GetByteCodes(_, ByteCodesRequest { hashes, bytes }) => {
                encode_fields_to_vec(&[&id, hashes, bytes])
            }
            Self::ByteCodes(_, items) | Self::TrieNodes(_, items) => encode_fields_to_vec(&[&id, items]),
            Self::GetTrieNodes(_, TrieNodesRequest { root, paths, bytes }) => {
                let sets: Vec<_> = paths.iter().map(|set| list(set)).collect();
                encode_fields_to_vec(&[&id, root, &RawRlp(&raw_list(&sets)), bytes])
            }
        }
    }

    /// Reads the message with `code`, counted from the capability's first one. `protocol` is the
    /// connection's, for errors.
    pub(in crate::messages) fn decode(
        protocol: WireProtocol,
        code: u64,
        payload: &[u8],
    ) -> Result<Self, PeerMessageError> {
        let Some(message) = snap_message_name(code) else {
            return Err(PeerMessageError::UnknownCode { got: code, protocol });
        };
        let (got, bound) = (payload.len(), snap_bytes_max(code));
        if got > bound {
            return Err(PeerMessageError::Size { message, got, bound });
        }
        let decoder = SnapDecoder(MessageDecoder::new(message, protocol));
        let mut fields = decoder.0.field(RlpReader::open(payload, "body"))?;
        let (count, text) = match code {
            GET_ACCOUNT_RANGE => (5, "5"),
            GET_STORAGE_RANGES => (6, "6"),
            GET_TRIE_NODES => (4, "4"),
            BYTE_CODES | TRIE_NODES => (2, "2"),
            _ => (3, "3"),
        };
        decoder.0.field(fields.expect_count(message, count, text))?;
        let id = decoder.0.field(fields.u64("requestId"))?;
        decoder.body(code, id, fields)
    }
}

#[derive(Clone, Copy)]
struct SnapDecoder(MessageDecoder);

impl SnapDecoder {
    fn body(self, code: u64, id: u64, mut fields: RlpReader<'_>) -> Result<SnapMessage, PeerMessageError> {
        let Self(decoder) = self;
        Ok(match code {
            GET_ACCOUNT_RANGE => {
                let request = read_account_request(&mut fields);
                SnapMessage::GetAccountRange(id, decoder.field(request)?)
            }
            ACCOUNT_RANGE => {
                let accounts = decoder.field(fields.list("accounts"))?;
                let accounts = decoder.entries(
                    accounts,
                    "accounts",
                    (RANGE_ENTRIES_MAX, ACCOUNT_BYTES),
                    read_account,
                )?;
                let proof = self.proof(&mut fields)?;
                SnapMessage::AccountRange(id, AccountRange { accounts, proof })
            }
            GET_STORAGE_RANGES => {
                let root = decoder.field(fields.fixed("root"))?;
                let accounts = decoder.hashes(decoder.field(fields.list("accounts"))?)?;
                let origin = decoder.field(read_bound(&mut fields, "origin", B256::ZERO))?;
                let limit = decoder.field(read_bound(&mut fields, "limit", B256::repeat_byte(0xff)))?;
                let bytes = decoder.field(fields.u64("bytes"))?;
                let request = StorageRangesRequest {
                    root,
                    accounts,
                    origin,
                    limit,
                    bytes,
                };
                SnapMessage::GetStorageRanges(id, request)
            }
            STORAGE_RANGES => {
                let slots = self.storages(decoder.field(fields.list("slots"))?)?;
                let proof = self.proof(&mut fields)?;
                SnapMessage::StorageRanges(id, StorageRanges { slots, proof })
            }
            GET_BYTE_CODES => {
                let hashes = decoder.hashes(decoder.field(fields.list("hashes"))?)?;
                let bytes = decoder.field(fields.u64("bytes"))?;
                SnapMessage::GetByteCodes(id, ByteCodesRequest { hashes, bytes })
            }
            BYTE_CODES => SnapMessage::ByteCodes(id, self.items(&mut fields, "codes", ANSWERED_ITEMS_MAX)?),
            GET_TRIE_NODES => {
                let root = decoder.field(fields.fixed("root"))?;
                let paths = self.path_sets(decoder.field(fields.list("paths"))?)?;
                let bytes = decoder.field(fields.u64("bytes"))?;
                SnapMessage::GetTrieNodes(id, TrieNodesRequest { root, paths, bytes })
            }
            _ => SnapMessage::TrieNodes(id, self.items(&mut fields, "nodes", ANSWERED_ITEMS_MAX)?),
        })
    }

    fn items(
        self,
        fields: &mut RlpReader<'_>,
        name: &'static str,
        bound: usize,
    ) -> Result<Vec<Bytes>, PeerMessageError> {
        let items = self.0.field(fields.list(name))?;
        self.0
            .entries(items, name, (bound, 1), |reader| reader.bytes("item"))
    }

    fn proof(self, fields: &mut RlpReader<'_>) -> Result<Vec<Bytes>, PeerMessageError> {
        self.items(fields, "proof", PROOF_NODES_MAX)
    }

    /// Reads a list for each account. The bound holds for the slots of all of them.
    fn storages(self, mut reader: RlpReader<'_>) -> Result<Vec<Vec<(B256, U256)>>, PeerMessageError> {
        let count = self.0.count(&reader, "slots", REQUESTED_HASHES_MAX)?;
        let mut storages = MessageDecoder::room(&reader, count, 1);
        let mut left = RANGE_ENTRIES_MAX;
        while !reader.is_empty() {
            let slots = self.0.field(reader.list("storage"))?;
            let slots = self.0.entries(slots, "storage", (left, SLOT_BYTES), read_slot)?;
            left -= slots.len();
            storages.push(slots);
        }
        Ok(storages)
    }

    /// Reads the sets of paths. The bound holds for the paths of all of them.
    fn path_sets(self, mut reader: RlpReader<'_>) -> Result<Vec<PathSet>, PeerMessageError> {
        let count = self.0.count(&reader, "paths", REQUESTED_HASHES_MAX)?;
        let mut sets = MessageDecoder::room(&reader, count, 1);
        let mut left = REQUESTED_HASHES_MAX;
        while !reader.is_empty() {
            let set = self.0.field(reader.list("set"))?;
            if set.is_empty() {
                return Err(self.0.value_error("set", 0, "one path or more"));
            }
            let set = self
                .0
                .entries(set, "set", (left, 1), |reader| reader.bytes("path"))?;
            left -= set.len();
            sets.push(set);
        }
        Ok(sets)
    }
}

fn read_account_request(fields: &mut RlpReader<'_>) -> Result<AccountRangeRequest, DecodeError> {
    Ok(AccountRangeRequest {
        root: fields.fixed("root")?,
        origin: fields.fixed("origin")?,
        limit: fields.fixed("limit")?,
        bytes: fields.u64("bytes")?,
    })
}

/// Reads a hash, or no bytes for `default`. A shorter one is a number, as other nodes read it.
fn read_bound(fields: &mut RlpReader<'_>, name: &'static str, default: B256) -> Result<B256, DecodeError> {
    let bytes = fields.slice(name)?;
    match bytes.len() {
        0 => Ok(default),
        1..=32 => Ok(B256::left_padding_from(bytes)),
        got => Err(DecodeError::Field {
            field: name,
            cause: RlpError::Trailing { got: got - 32 },
        }),
    }
}

fn read_account(reader: &mut RlpReader<'_>) -> Result<(B256, AccountRecord), DecodeError> {
    let mut entry = reader.list("account")?;
    entry.expect_count("account", 2, "2")?;
    let hash = entry.fixed("account.hash")?;
    let mut body = entry.list("account.body")?;
    body.expect_count("account.body", 4, "4")?;
    let (tx_nonce, balance) = (body.u64("nonce")?, body.u256("balance")?);
    let hash_or = |body: &mut RlpReader<'_>, name, empty: B256| {
        let mut probe = *body;
        if probe.slice(name)?.is_empty() {
            *body = probe;
            return Ok(empty);
        }
        body.fixed(name)
    };
    let account = AccountRecord {
        tx_nonce,
        balance,
        storage_root: hash_or(&mut body, "storageRoot", EMPTY_ROOT)?,
        code_hash: hash_or(&mut body, "codeHash", EMPTY_CODE_HASH)?,
    };
    Ok((hash, account))
}

fn read_slot(reader: &mut RlpReader<'_>) -> Result<(B256, U256), DecodeError> {
    let mut entry = reader.list("slot")?;
    entry.expect_count("slot", 2, "2")?;
    let hash = entry.fixed("slot.hash")?;
    let value = chain::trie::read_slot_value(entry.slice("slot.value")?)?;
    Ok((hash, value))
}
