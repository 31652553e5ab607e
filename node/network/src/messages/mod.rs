//! The messages of the capabilities `eth` and `mc`: their types and one codec for all versions.
//!
//! Knows bytes, not what a node does with a message. Source: docs/p2p.md, 2, 3 and 6.

mod codec;
mod protocol;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use codec::read_fork_id;
pub use codec::{
    ANNOUNCED_BLOCKS_MAX, ANNOUNCED_TRANSACTIONS_MAX, ANSWERED_ENTRIES_MAX, ANSWERED_HEADERS_MAX,
    BODY_UNCLES_MAX, MESSAGE_RECEIPTS_MAX, MESSAGE_TRANSACTIONS_MAX, PeerMessageError, REQUESTED_HASHES_MAX,
};
pub use protocol::{ETH_VERSIONS, ETH_VERSIONS_OFFERED, MC_VERSIONS, WireFamily, WireProtocol};
pub use types::{
    AnnouncedBlock, AnnouncedTransaction, ApplicationChainMessage, HeadersRequest, HeadersStart, PeerBody,
    PeerMessage, PeerStatus, RequestId,
};
