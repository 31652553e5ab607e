//! Writes and reads the messages of `eth` and `mc`.
//!
//! Decoding is strict. Each message has a bound in bytes, and each list a bound in entries. Both
//! are compared before memory is taken for the entries. Source: docs/p2p.md, 2, 3 and 6.

use std::sync::Arc;

use alloy_eip2124::{ForkHash, ForkId};
use primitives::rlp::{RlpError, RlpReader, encode_fields_to_vec};
use primitives::{B256, Bytes, DecodeError, Encodable, Header, Receipt, ReceiptForm, Transaction, TxRules};

use super::codes::{
    APPLICATION_CHAIN, BLOCK_BODIES, BLOCK_HEADERS, GET_BLOCK_BODIES, GET_BLOCK_HEADERS, GET_NODE_DATA,
    GET_POOLED, GET_RECEIPTS, NEW_BLOCK, NEW_BLOCK_HASHES, NEW_POOLED_HASHES, NODE_DATA, POOLED, RECEIPTS,
    SNAP, STATUS, TRANSACTIONS, WITHOUT_EFFECT, bytes_max, is_request_or_answer, message_name, of_snap,
};
use super::error::PeerMessageError;
use super::packed_block::PackedBlock;
use super::protocol::WireProtocol;
use super::snap::SnapMessage;
use super::types::{
    AnnouncedBlock, AnnouncedTransaction, ApplicationChainMessage, HeadersRequest, HeadersStart, PeerBody,
    PeerMessage, PeerStatus, RequestId,
};
use crate::raw_rlp::RawRlp;

pub(crate) const ANNOUNCED_BLOCKS_MAX: usize = 1024;
/// Most transactions in one announcement.
pub const ANNOUNCED_TRANSACTIONS_MAX: usize = 16_384;
pub(crate) const REQUESTED_HASHES_MAX: usize = 16_384;
pub(crate) const ANSWERED_HEADERS_MAX: usize = 1024;
/// Most bodies, lists of receipts or state nodes in one answer.
pub(crate) const ANSWERED_ENTRIES_MAX: usize = 1024;
/// Most transactions outside of blocks in one message. A pack of 1 MiB has some 10,000 of the
/// smallest ones with a signature.
pub(crate) const GOSSIPED_TRANSACTIONS_MAX: usize = 16_384;
/// Most transactions in one message, the bodies of its blocks included. A transaction takes more
/// memory than bytes on the wire.
pub const MESSAGE_TRANSACTIONS_MAX: usize = 65_536;
pub(crate) const MESSAGE_RECEIPTS_MAX: usize = 65_536;
/// Most uncles of one block. The rules allow two.
pub(crate) const BODY_UNCLES_MAX: usize = 16;

/// The fewest bytes of the RLP of an entry. A list takes memory for as many entries as its bytes
/// can hold, so a list of empty items takes little.
mod entry_bytes {
    pub(super) const HASH: usize = 33;
    /// Nine numbers of one byte and their head.
    pub(super) const TRANSACTION: usize = 10;
    /// The bloom filter and six hashes.
    pub(super) const HEADER: usize = 256 + 6 * 33;
    pub(super) const RECEIPT: usize = 256;
    /// Two empty lists and their head.
    pub(super) const BODY: usize = 3;
    pub(super) const ANY: usize = 1;
}

pub(super) fn list<T: Encodable>(items: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    alloy_rlp::encode_list(items, &mut out);
    out
}

pub(crate) fn raw_list(items: &[Vec<u8>]) -> Vec<u8> {
    let items: Vec<_> = items.iter().map(|item| RawRlp(item)).collect();
    list(&items)
}

fn encode_body(body: &PeerBody) -> Vec<u8> {
    encode_fields_to_vec(&[&body.transactions, &body.uncles])
}

fn encode_announcements(announced: &[AnnouncedTransaction], is_typed: bool) -> Vec<u8> {
    let hashes: Vec<_> = announced.iter().map(|each| each.hash).collect();
    if !is_typed {
        return list(&hashes);
    }
    let kind_and_size = |each: &AnnouncedTransaction| each.kind_and_size.unwrap_or_default();
    let kinds: Bytes = announced.iter().map(|each| kind_and_size(each).0).collect();
    let sizes: Vec<_> = announced.iter().map(|each| kind_and_size(each).1).collect();
    encode_fields_to_vec(&[&kinds, &sizes, &hashes])
}

fn encode_status(status: &PeerStatus) -> Vec<u8> {
    let PeerStatus {
        version,
        network_id,
        total_difficulty,
        head,
        genesis,
        fork_id,
    } = status;
    let fork_id = fork_id.map(|fork_id| encode_fields_to_vec(&[&fork_id.hash.0, &fork_id.next]));
    let fork_id = fork_id.as_deref().map(RawRlp);
    let mut fields: Vec<&dyn Encodable> = vec![version, network_id, total_difficulty, head, genesis];
    fields.extend(fork_id.iter().map(|fork_id| fork_id as &dyn Encodable));
    encode_fields_to_vec(&fields)
}

fn encode_headers_request(request: &HeadersRequest) -> Vec<u8> {
    let HeadersRequest {
        start,
        amount,
        skip,
        reverse,
    } = request;
    let start: &dyn Encodable = match start {
        HeadersStart::Hash(hash) => hash,
        HeadersStart::Number(number) => number,
    };
    encode_fields_to_vec(&[start, amount, skip, reverse])
}

fn encode_application_chain(message: &ApplicationChainMessage) -> Vec<u8> {
    encode_fields_to_vec(&[
        &message.request_id,
        &message.timestamp,
        &message.is_request,
        &message.kind,
        &message.status,
        &message.scs_id,
        &message.subchain_id,
        &message.sender,
        &message.receiver,
        &message.content,
    ])
}

impl PeerMessage {
    /// The code and the RLP of the message. What the version has no field for is left out.
    pub fn encode(&self, protocol: WireProtocol) -> (u64, Vec<u8>) {
        let (code, body) = self.encode_body(protocol);
        if matches!(self, Self::Snap(_)) {
            return (code, body);
        }
        match self.request_id() {
            Some(id) if protocol.has_request_ids() => (code, encode_fields_to_vec(&[&id, &RawRlp(&body)])),
            _ => (code, body),
        }
    }

    fn encode_body(&self, protocol: WireProtocol) -> (u64, Vec<u8>) {
        let form = protocol.family().receipt_form();
        match self {
            Self::Status(status) => (STATUS, encode_status(status)),
            Self::NewBlockHashes(blocks) => {
                let entry = |block: &AnnouncedBlock| encode_fields_to_vec(&[&block.hash, &block.number]);
                let entries: Vec<_> = blocks.iter().map(entry).collect();
                (NEW_BLOCK_HASHES, raw_list(&entries))
            }
            Self::Transactions(transactions) => (TRANSACTIONS, list(transactions)),
            Self::GetBlockHeaders(_, request) => (GET_BLOCK_HEADERS, encode_headers_request(request)),
            Self::BlockHeaders(_, headers) => (BLOCK_HEADERS, list(headers)),
            Self::GetBlockBodies(_, hashes) => (GET_BLOCK_BODIES, list(hashes)),
            Self::BlockBodies(_, bodies) => {
                let entries: Vec<_> = bodies.iter().map(encode_body).collect();
                (BLOCK_BODIES, raw_list(&entries))
            }
            Self::NewBlock(block, td) => (NEW_BLOCK, encode_fields_to_vec(&[&**block, td])),
            Self::NewPooledTransactionHashes(announced) => {
                let is_typed = protocol.has_typed_announcements();
                (NEW_POOLED_HASHES, encode_announcements(announced, is_typed))
            }
            Self::GetPooledTransactions(_, hashes) => (GET_POOLED, list(hashes)),
            Self::PooledTransactions(_, transactions) => (POOLED, list(transactions)),
            Self::GetNodeData(_, hashes) => (GET_NODE_DATA, list(hashes)),
            Self::NodeData(_, nodes) => (NODE_DATA, list(nodes)),
            Self::GetReceipts(_, hashes) => (GET_RECEIPTS, list(hashes)),
            Self::Receipts(_, blocks) => {
                let encode = |receipt: &Receipt| receipt.encode_item(form);
                let block =
                    |receipts: &Vec<Receipt>| raw_list(&receipts.iter().map(encode).collect::<Vec<_>>());
                let entries: Vec<_> = blocks.iter().map(block).collect();
                (RECEIPTS, raw_list(&entries))
            }
            Self::ApplicationChain(message) => (APPLICATION_CHAIN, encode_application_chain(message)),
            Self::WithoutEffect(code, body) => (*code, body.to_vec()),
            Self::Snap(message) => (SNAP + message.code(), message.encode()),
        }
    }

    /// Reads the message with `code`, counted from the capability's first one.
    ///
    /// # Errors
    /// [`PeerMessageError`] if the version has no such message, or it has another form.
    pub fn decode(protocol: WireProtocol, code: u64, payload: &[u8]) -> Result<Self, PeerMessageError> {
        if let Some(code) = of_snap(code) {
            return SnapMessage::decode(protocol, code, payload).map(Self::Snap);
        }
        let Some(message) = message_name(protocol, code) else {
            return Err(PeerMessageError::UnknownCode { got: code, protocol });
        };
        let (got, bound) = (payload.len(), bytes_max(protocol, code));
        if got > bound {
            return Err(PeerMessageError::Size { message, got, bound });
        }
        let decoder = MessageDecoder::new(message, protocol);
        if WITHOUT_EFFECT.contains(&code) {
            return Ok(Self::WithoutEffect(code, Bytes::copy_from_slice(payload)));
        }
        let outer = decoder.field(RlpReader::open(payload, "body"))?;
        let has_id = is_request_or_answer(code) && protocol.has_request_ids();
        let (id, body) = if has_id {
            decoder.with_id(outer)?
        } else {
            (0, outer)
        };
        decoder.body(code, id, body)
    }
}

#[derive(Clone, Copy)]
pub(super) struct MessageDecoder {
    message: &'static str,
    protocol: WireProtocol,
}

impl MessageDecoder {
    pub(super) const fn new(message: &'static str, protocol: WireProtocol) -> Self {
        Self { message, protocol }
    }

    pub(super) const fn value_error(
        self,
        field: &'static str,
        got: u64,
        expected: &'static str,
    ) -> PeerMessageError {
        PeerMessageError::Value {
            message: self.message,
            field,
            got,
            expected,
        }
    }

    pub(super) fn field<T>(self, result: Result<T, DecodeError>) -> Result<T, PeerMessageError> {
        result.map_err(|cause| PeerMessageError::Field {
            message: self.message,
            cause,
        })
    }

    fn with_id<'a>(self, mut outer: RlpReader<'a>) -> Result<(RequestId, RlpReader<'a>), PeerMessageError> {
        self.field(outer.expect_count(self.message, 2, "2"))?;
        let id = self.field(outer.u64("requestId"))?;
        Ok((id, self.field(outer.list("body"))?))
    }

    fn body(
        self,
        code: u64,
        id: RequestId,
        mut body: RlpReader<'_>,
    ) -> Result<PeerMessage, PeerMessageError> {
        Ok(match code {
            STATUS => PeerMessage::Status(self.status(body)?),
            NEW_BLOCK_HASHES => PeerMessage::NewBlockHashes(self.announced_blocks(body)?),
            TRANSACTIONS => PeerMessage::Transactions(self.gossiped(body)?),
            GET_BLOCK_HEADERS => PeerMessage::GetBlockHeaders(id, self.headers_request(body)?),
            BLOCK_HEADERS => PeerMessage::BlockHeaders(id, self.headers(body)?),
            GET_BLOCK_BODIES => PeerMessage::GetBlockBodies(id, self.hashes(body)?),
            BLOCK_BODIES => PeerMessage::BlockBodies(id, self.bodies(body)?),
            NEW_BLOCK => {
                self.field(body.expect_count(self.message, 2, "2"))?;
                let block = self.field(body.list("block").and_then(PackedBlock::read))?;
                PeerMessage::NewBlock(Arc::new(block), self.field(body.u256("td"))?)
            }
            NEW_POOLED_HASHES => PeerMessage::NewPooledTransactionHashes(self.announced_transactions(body)?),
            GET_POOLED => PeerMessage::GetPooledTransactions(id, self.hashes(body)?),
            POOLED => PeerMessage::PooledTransactions(id, self.gossiped(body)?),
            GET_NODE_DATA => PeerMessage::GetNodeData(id, self.hashes(body)?),
            NODE_DATA => {
                let nodes =
                    self.entries(body, "nodes", (ANSWERED_ENTRIES_MAX, entry_bytes::ANY), |body| {
                        body.bytes("node")
                    })?;
                PeerMessage::NodeData(id, nodes)
            }
            GET_RECEIPTS => PeerMessage::GetReceipts(id, self.hashes(body)?),
            RECEIPTS => PeerMessage::Receipts(id, self.receipts(body)?),
            APPLICATION_CHAIN => PeerMessage::ApplicationChain(Box::new(self.application_chain(body)?)),
            got => {
                let protocol = self.protocol;
                return Err(PeerMessageError::UnknownCode { got, protocol });
            }
        })
    }

    /// The number of entries in `reader`, at most `bound`.
    pub(super) fn count(
        self,
        reader: &RlpReader<'_>,
        list: &'static str,
        bound: usize,
    ) -> Result<usize, PeerMessageError> {
        let got = self.field(reader.count(list))?;
        if got > bound {
            return Err(PeerMessageError::TooMany {
                message: self.message,
                list,
                got,
                bound,
            });
        }
        Ok(got)
    }

    /// Memory for `count` entries, but not for more than the rest of the list can hold if each has
    /// `entry_bytes` at least. An entry with fewer is refused when it is read.
    pub(super) fn room<T>(reader: &RlpReader<'_>, count: usize, entry_bytes: usize) -> Vec<T> {
        Vec::with_capacity(count.min(reader.rest().len() / entry_bytes))
    }

    /// Reads all entries of a list, each of at least `entry_bytes`.
    pub(super) fn entries<'a, T>(
        self,
        mut reader: RlpReader<'a>,
        list: &'static str,
        (bound, entry_bytes): (usize, usize),
        mut read: impl FnMut(&mut RlpReader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, PeerMessageError> {
        let count = self.count(&reader, list, bound)?;
        let mut entries = Self::room(&reader, count, entry_bytes);
        while !reader.is_empty() {
            let index = entries.len();
            let entry = read(&mut reader).map_err(|cause| DecodeError::Entry {
                list,
                index,
                cause: Box::new(cause),
            });
            entries.push(self.field(entry)?);
        }
        Ok(entries)
    }

    pub(super) fn hashes(self, reader: RlpReader<'_>) -> Result<Vec<B256>, PeerMessageError> {
        self.entries(
            reader,
            "hashes",
            (REQUESTED_HASHES_MAX, entry_bytes::HASH),
            |reader| reader.fixed("hash"),
        )
    }

    fn headers(self, reader: RlpReader<'_>) -> Result<Vec<Header>, PeerMessageError> {
        self.entries(
            reader,
            "headers",
            (ANSWERED_HEADERS_MAX, entry_bytes::HEADER),
            |reader| Header::decode(reader.raw("header")?),
        )
    }

    /// Transactions outside of blocks.
    fn gossiped(self, reader: RlpReader<'_>) -> Result<Vec<Transaction>, PeerMessageError> {
        let rules = self.protocol.family().tx_rules();
        self.entries(
            reader,
            "transactions",
            (GOSSIPED_TRANSACTIONS_MAX, entry_bytes::TRANSACTION),
            |reader| {
                let item = reader.raw("transaction")?;
                if rules == TxRules::Ethereum {
                    return Transaction::decode_item(item, rules);
                }
                // The raw form may have nine fields, but not between nodes.
                let fields = RlpReader::open(item, "transaction")?;
                fields.expect_count("transaction", 12, "12")?;
                Transaction::decode_raw(item, rules)
            },
        )
    }

    fn announced_blocks(self, reader: RlpReader<'_>) -> Result<Vec<AnnouncedBlock>, PeerMessageError> {
        self.entries(
            reader,
            "blocks",
            (ANNOUNCED_BLOCKS_MAX, entry_bytes::HASH),
            |reader| {
                let mut entry = reader.list("block")?;
                entry.expect_count("block", 2, "2")?;
                Ok(AnnouncedBlock {
                    hash: entry.fixed("block.hash")?,
                    number: entry.u64("block.number")?,
                })
            },
        )
    }

    fn announced_transactions(
        self,
        mut reader: RlpReader<'_>,
    ) -> Result<Vec<AnnouncedTransaction>, PeerMessageError> {
        let bound = ANNOUNCED_TRANSACTIONS_MAX;
        if !self.protocol.has_typed_announcements() {
            return self.entries(reader, "hashes", (bound, entry_bytes::HASH), |reader| {
                Ok(AnnouncedTransaction {
                    hash: reader.fixed("hash")?,
                    kind_and_size: None,
                })
            });
        }
        self.field(reader.expect_count(self.message, 3, "3"))?;
        let kinds = self.field(reader.slice("types"))?;
        let sizes = self.field(reader.list("sizes"))?;
        let hashes = self.field(reader.list("hashes"))?;
        let got = [
            kinds.len(),
            self.count(&sizes, "sizes", bound)?,
            self.count(&hashes, "hashes", bound)?,
        ];
        if got[0] != got[1] || got[1] != got[2] {
            return Err(PeerMessageError::UnequalLists {
                message: self.message,
                got,
            });
        }
        let sizes = self.entries(sizes, "sizes", (bound, entry_bytes::ANY), |reader| {
            reader.u64("size")
        })?;
        let mut kinds_and_sizes = kinds.iter().copied().zip(sizes);
        self.entries(hashes, "hashes", (bound, entry_bytes::HASH), |reader| {
            Ok(AnnouncedTransaction {
                hash: reader.fixed("hash")?,
                kind_and_size: kinds_and_sizes.next(),
            })
        })
    }

    fn flag(self, reader: &mut RlpReader<'_>, field: &'static str) -> Result<bool, PeerMessageError> {
        match self.field(reader.u64(field))? {
            0 => Ok(false),
            1 => Ok(true),
            got => Err(self.value_error(field, got, "0 or 1")),
        }
    }

    fn headers_request(self, mut reader: RlpReader<'_>) -> Result<HeadersRequest, PeerMessageError> {
        self.field(reader.expect_count(self.message, 4, "4"))?;
        let mut hash = reader;
        let is_hash = hash.slice("start").is_ok_and(|bytes| bytes.len() == 32);
        let start = if is_hash {
            HeadersStart::Hash(self.field(reader.fixed("start"))?)
        } else {
            HeadersStart::Number(self.field(reader.u64("start"))?)
        };
        Ok(HeadersRequest {
            start,
            amount: self.field(reader.u64("amount"))?,
            skip: self.field(reader.u64("skip"))?,
            reverse: self.flag(&mut reader, "reverse")?,
        })
    }

    fn transactions_and_uncles(
        self,
        reader: &mut RlpReader<'_>,
        left: &mut usize,
    ) -> Result<PeerBody, PeerMessageError> {
        let rules = self.protocol.family().tx_rules();
        let transactions = self.field(reader.list("transactions"))?;
        let transactions = self.entries(
            transactions,
            "transactions",
            (*left, entry_bytes::TRANSACTION),
            |reader| Transaction::decode_item(reader.raw("transaction")?, rules),
        )?;
        *left -= transactions.len();
        let uncles = self.field(reader.list("uncles"))?;
        let uncles = self.entries(
            uncles,
            "uncles",
            (BODY_UNCLES_MAX, entry_bytes::HEADER),
            |reader| Header::decode(reader.raw("uncle")?),
        )?;
        Ok(PeerBody { transactions, uncles })
    }

    fn bodies(self, mut reader: RlpReader<'_>) -> Result<Vec<PeerBody>, PeerMessageError> {
        let count = self.count(&reader, "bodies", ANSWERED_ENTRIES_MAX)?;
        let mut bodies = Self::room(&reader, count, entry_bytes::BODY);
        let mut left = MESSAGE_TRANSACTIONS_MAX;
        while !reader.is_empty() {
            let mut body = self.field(reader.list("body"))?;
            self.field(body.expect_count("body", 2, "2"))?;
            bodies.push(self.transactions_and_uncles(&mut body, &mut left)?);
        }
        Ok(bodies)
    }

    fn receipts(self, mut reader: RlpReader<'_>) -> Result<Vec<Vec<Receipt>>, PeerMessageError> {
        let form: ReceiptForm = self.protocol.family().receipt_form();
        let count = self.count(&reader, "blocks", ANSWERED_ENTRIES_MAX)?;
        let mut blocks = Self::room(&reader, count, entry_bytes::ANY);
        let mut left = MESSAGE_RECEIPTS_MAX;
        while !reader.is_empty() {
            let block = self.field(reader.list("block"))?;
            let receipts = self.entries(block, "receipts", (left, entry_bytes::RECEIPT), |reader| {
                Receipt::decode_item(reader.raw("receipt")?, form)
            })?;
            left -= receipts.len();
            blocks.push(receipts);
        }
        Ok(blocks)
    }

    fn status(self, mut reader: RlpReader<'_>) -> Result<PeerStatus, PeerMessageError> {
        let has_fork_id = self.protocol.has_fork_id();
        let (count, text) = if has_fork_id { (6, "6") } else { (5, "5") };
        self.field(reader.expect_count(self.message, count, text))?;
        let mut read = || {
            Ok(PeerStatus {
                version: reader.u64("version")?,
                network_id: reader.u64("networkId")?,
                total_difficulty: reader.u256("td")?,
                head: reader.fixed("head")?,
                genesis: reader.fixed("genesis")?,
                fork_id: has_fork_id.then(|| read_fork_id(&mut reader)).transpose()?,
            })
        };
        self.field(read())
    }

    fn application_chain(
        self,
        mut reader: RlpReader<'_>,
    ) -> Result<ApplicationChainMessage, PeerMessageError> {
        self.field(reader.expect_count(self.message, 10, "10"))?;
        let mut next = |field| self.field(reader.bytes(field));
        let (request_id, timestamp) = (next("requestid")?, next("timestamp")?);
        let is_request = self.flag(&mut reader, "requestflag")?;
        let mut next = |field| self.field(reader.bytes(field));
        Ok(ApplicationChainMessage {
            request_id,
            timestamp,
            is_request,
            kind: next("type")?,
            status: next("status")?,
            scs_id: next("scsid")?,
            subchain_id: next("subchainid")?,
            sender: next("sender")?,
            receiver: next("receiver")?,
            content: next("msghash")?,
        })
    }
}

/// Reads `[hash of 4 bytes, next]`.
pub(crate) fn read_fork_id(reader: &mut RlpReader<'_>) -> Result<ForkId, DecodeError> {
    let mut fields = reader.list("forkId")?;
    let fork_id = ForkId {
        hash: ForkHash(fields.fixed::<4>("forkId.hash")?.0),
        next: fields.u64("forkId.next")?,
    };
    if !fields.is_empty() {
        let got = fields.rest().len();
        return Err(DecodeError::Field {
            field: "forkId",
            cause: RlpError::Trailing { got },
        });
    }
    Ok(fork_id)
}
