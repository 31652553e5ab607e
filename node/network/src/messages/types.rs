//! The contents of the messages of `eth` and `mc`, apart from headers, transactions and receipts.
//!
//! Source: docs/p2p.md, 2 and 6; docs/scs-wire.md, 8; ethereum/devp2p, `caps/eth.md`.

use std::sync::Arc;

use alloy_eip2124::ForkId;
use primitives::rlp::encode_fields_to_vec;
use primitives::{B256, Bytes, Header, Receipt, Transaction, U256, keccak256};

use super::packed_block::PackedBlock;
use super::snap::SnapMessage;

/// The number that ties an answer to its request. 0 where the version has none.
pub(crate) type RequestId = u64;

/// The first message of each side: what chain it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The version of the capability, once more.
    pub version: u64,
    /// The id of the network.
    pub network_id: u64,
    /// Total difficulty of the head.
    pub total_difficulty: U256,
    /// Hash of the head.
    pub head: B256,
    /// Hash of block 0.
    pub genesis: B256,
    /// The past forks and the next one, from eth/64 on.
    pub fork_id: Option<ForkId>,
}

/// A block that a peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnnouncedBlock {
    /// The hash of the block.
    pub hash: B256,
    /// The number of the block.
    pub number: u64,
}

/// A transaction that a peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnnouncedTransaction {
    /// The hash of the transaction.
    pub hash: B256,
    /// The type of the transaction (EIP-2718) and its length in bytes, from eth/68 on.
    pub kind_and_size: Option<(u8, u64)>,
}

/// The first block of a request for headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadersStart {
    /// The block with this hash, whether it is canonical or not.
    Hash(B256),
    /// The canonical block with this number.
    Number(u64),
}

/// A request for headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadersRequest {
    /// The first block.
    pub start: HeadersStart,
    /// The number of headers that are asked for.
    pub amount: u64,
    /// The number of blocks that are left out between two headers.
    pub skip: u64,
    /// The numbers fall.
    pub reverse: bool,
}

/// Transactions and uncles of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerBody {
    /// The transactions, in order of execution.
    pub transactions: Vec<Transaction>,
    /// The headers of the uncles.
    pub uncles: Vec<Header>,
}

/// A message between nodes of application chains, which every node passes on. The fields are
/// bytes; this node does not read most of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationChainMessage {
    /// The id of the request.
    pub request_id: Bytes,
    /// The time at which it was sent.
    pub timestamp: Bytes,
    /// Whether it is a request.
    pub is_request: bool,
    /// The subject.
    pub kind: Bytes,
    /// A number whose meaning depends on the kind.
    pub status: Bytes,
    /// The node that sent it.
    pub scs_id: Bytes,
    /// The application chain.
    pub subchain_id: Bytes,
    /// The sender.
    pub sender: Bytes,
    /// The receiver.
    pub receiver: Bytes,
    /// The content.
    pub content: Bytes,
}

impl ApplicationChainMessage {
    /// The number of bytes of all its fields.
    pub fn length(&self) -> usize {
        let fields = [
            &self.request_id,
            &self.timestamp,
            &self.kind,
            &self.status,
            &self.scs_id,
            &self.subchain_id,
            &self.sender,
            &self.receiver,
            &self.content,
        ];
        fields.iter().map(|field| field.len()).sum()
    }

    /// The hash by which a message is recognized, so that it is passed on once.
    pub fn key(&self) -> B256 {
        keccak256(encode_fields_to_vec(&[
            &self.request_id,
            &self.scs_id,
            &self.is_request,
            &self.content,
        ]))
    }
}

/// A message of `eth`, `mc` or `snap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// The first message of each side.
    Status(PeerStatus),
    /// Blocks that the sender has imported.
    NewBlockHashes(Vec<AnnouncedBlock>),
    /// Transactions of the sender's pool.
    Transactions(Vec<Transaction>),
    /// Asks for headers.
    GetBlockHeaders(RequestId, HeadersRequest),
    /// Answers with headers.
    BlockHeaders(RequestId, Vec<Header>),
    /// Asks for the bodies of the blocks with these hashes.
    GetBlockBodies(RequestId, Vec<B256>),
    /// Answers with bodies.
    BlockBodies(RequestId, Vec<PeerBody>),
    /// A new block and the total difficulty with it.
    NewBlock(Arc<PackedBlock>, U256),
    /// Transactions that the sender has, from eth/65 on.
    NewPooledTransactionHashes(Vec<AnnouncedTransaction>),
    /// Asks for transactions by their hashes.
    GetPooledTransactions(RequestId, Vec<B256>),
    /// Answers with transactions.
    PooledTransactions(RequestId, Vec<Transaction>),
    /// Asks for nodes of the state trie and for code, by hash.
    GetNodeData(RequestId, Vec<B256>),
    /// Answers with nodes and code.
    NodeData(RequestId, Vec<Bytes>),
    /// Asks for the receipts of the blocks with these hashes.
    GetReceipts(RequestId, Vec<B256>),
    /// Answers with the receipts of each block.
    Receipts(RequestId, Vec<Vec<Receipt>>),
    /// A message of an application chain, on `mc` (code 31 in hex).
    ApplicationChain(Box<ApplicationChainMessage>),
    /// A message that has no effect: codes 21, 22, 32 and 33 (hex) of `mc`. The RLP of its body.
    WithoutEffect(u64, Bytes),
    /// A message of `snap/1`, on a connection that has it beside `eth`.
    Snap(SnapMessage),
}

impl PeerMessage {
    /// The request that this message answers, or whose id it has.
    pub const fn request_id(&self) -> Option<RequestId> {
        match self {
            Self::GetBlockHeaders(id, _)
            | Self::BlockHeaders(id, _)
            | Self::GetBlockBodies(id, _)
            | Self::BlockBodies(id, _)
            | Self::GetPooledTransactions(id, _)
            | Self::PooledTransactions(id, _)
            | Self::GetNodeData(id, _)
            | Self::NodeData(id, _)
            | Self::GetReceipts(id, _)
            | Self::Receipts(id, _) => Some(*id),
            Self::Snap(message) => Some(message.request_id()),
            _ => None,
        }
    }

    /// Gives a request or an answer another id. Does nothing to other messages.
    pub(crate) const fn set_request_id(&mut self, new: RequestId) {
        match self {
            Self::GetBlockHeaders(id, _)
            | Self::BlockHeaders(id, _)
            | Self::GetBlockBodies(id, _)
            | Self::BlockBodies(id, _)
            | Self::GetPooledTransactions(id, _)
            | Self::PooledTransactions(id, _)
            | Self::GetNodeData(id, _)
            | Self::NodeData(id, _)
            | Self::GetReceipts(id, _)
            | Self::Receipts(id, _) => *id = new,
            Self::Snap(message) => message.set_request_id(new),
            _ => {}
        }
    }
}
