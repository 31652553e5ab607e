//! The codes of the messages: their names, and how long each may be.
//!
//! A message longer than [`bytes_max`] is refused before anything of it is decoded. Source:
//! docs/p2p.md, 2, 3 and 6.

use super::protocol::WireProtocol;
use super::snap::SNAP_OFFER;

pub(crate) const STATUS: u64 = 0x00;
pub(crate) const NEW_BLOCK_HASHES: u64 = 0x01;
pub(crate) const TRANSACTIONS: u64 = 0x02;
pub(crate) const GET_BLOCK_HEADERS: u64 = 0x03;
pub(crate) const BLOCK_HEADERS: u64 = 0x04;
pub(crate) const GET_BLOCK_BODIES: u64 = 0x05;
pub(crate) const BLOCK_BODIES: u64 = 0x06;
pub(crate) const NEW_BLOCK: u64 = 0x07;
pub(crate) const NEW_POOLED_HASHES: u64 = 0x08;
pub(crate) const GET_POOLED: u64 = 0x09;
pub(crate) const POOLED: u64 = 0x0a;
pub(crate) const GET_NODE_DATA: u64 = 0x0d;
pub(crate) const NODE_DATA: u64 = 0x0e;
pub(crate) const GET_RECEIPTS: u64 = 0x0f;
pub(crate) const RECEIPTS: u64 = 0x10;
pub(crate) const APPLICATION_CHAIN: u64 = 0x31;
/// Messages of `mc` that are read without effect.
pub(crate) const WITHOUT_EFFECT: [u64; 4] = [0x21, 0x22, 0x32, 0x33];

/// The first code of `snap/1` inside of this package. On a connection its codes follow those of the
/// capabilities before it.
pub const SNAP: u64 = 0x100;

/// The code of `snap/1` that stands behind a code of this package. `None` if it is not one.
pub(crate) const fn of_snap(code: u64) -> Option<u64> {
    match code.checked_sub(SNAP) {
        Some(own) if own < SNAP_OFFER.length => Some(own),
        _ => None,
    }
}

/// Most bytes of a Status, and of a request for headers. Both have a few numbers and hashes.
pub(crate) const SHORT_MESSAGE_BYTES_MAX: usize = 1 << 10;
/// Most bytes of a message with hashes only. The longest list has some 700 KiB.
pub(crate) const HASHES_BYTES_MAX: usize = 1 << 20;
/// Most bytes of an answer with headers. 1024 headers have some 600 KiB.
pub(crate) const HEADERS_BYTES_MAX: usize = 4 << 20;
/// Most bytes of a message with transactions outside of blocks. Nodes end a pack at 100 KiB, some
/// at 1 MiB, and an answer at 2 MiB, each with one more transaction of at most 128 KiB.
pub(crate) const TRANSACTIONS_BYTES_MAX: usize = 4 << 20;
/// Most bytes of a message of an application chain: as many as gRPC carries between VNODE and SCS.
pub(crate) const APPLICATION_MESSAGE_BYTES_MAX: usize = 4 << 20;

/// The most bytes of the RLP of a message with this code. One of an application chain may be longer
/// here, because an honest node may have passed it on. It is then left out, see the hub of peers.
pub(super) const fn bytes_max(protocol: WireProtocol, code: u64) -> usize {
    match code {
        STATUS | GET_BLOCK_HEADERS => SHORT_MESSAGE_BYTES_MAX,
        NEW_BLOCK_HASHES | NEW_POOLED_HASHES | GET_BLOCK_BODIES | GET_POOLED | GET_NODE_DATA
        | GET_RECEIPTS => HASHES_BYTES_MAX,
        BLOCK_HEADERS => HEADERS_BYTES_MAX,
        TRANSACTIONS | POOLED => TRANSACTIONS_BYTES_MAX,
        _ => protocol.family().message_bytes_max(),
    }
}

pub(super) const fn is_request_or_answer(code: u64) -> bool {
    matches!(
        code,
        GET_BLOCK_HEADERS..=BLOCK_BODIES | GET_POOLED | POOLED | GET_NODE_DATA..=RECEIPTS
    )
}

/// The name of the message. `None` if the version has no such code.
pub(super) fn message_name(protocol: WireProtocol, code: u64) -> Option<&'static str> {
    let (name, is_known) = match code {
        STATUS => ("Status", true),
        NEW_BLOCK_HASHES => ("NewBlockHashes", true),
        TRANSACTIONS => ("Transactions", true),
        GET_BLOCK_HEADERS => ("GetBlockHeaders", true),
        BLOCK_HEADERS => ("BlockHeaders", true),
        GET_BLOCK_BODIES => ("GetBlockBodies", true),
        BLOCK_BODIES => ("BlockBodies", true),
        NEW_BLOCK => ("NewBlock", true),
        NEW_POOLED_HASHES => ("NewPooledTransactionHashes", protocol.has_pooled_transactions()),
        GET_POOLED => ("GetPooledTransactions", protocol.has_pooled_transactions()),
        POOLED => ("PooledTransactions", protocol.has_pooled_transactions()),
        GET_NODE_DATA => ("GetNodeData", protocol.has_node_data()),
        NODE_DATA => ("NodeData", protocol.has_node_data()),
        GET_RECEIPTS => ("GetReceipts", protocol.has_receipts()),
        RECEIPTS => ("Receipts", protocol.has_receipts()),
        APPLICATION_CHAIN => ("ScsMsg", protocol.has_application_chains()),
        other if WITHOUT_EFFECT.contains(&other) => ("message", protocol.has_application_chains()),
        _ => return None,
    };
    is_known.then_some(name)
}
