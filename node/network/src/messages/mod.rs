//! The messages of the capabilities `eth`, `mc` and `snap`: their types, and one codec for all
//! versions.
//!
//! Knows bytes, not what a node does with a message. Source: docs/p2p.md, 2, 3 and 6.

pub(crate) mod codec;
pub(crate) mod codes;
mod error;
mod packed_block;
mod protocol;
pub(crate) mod snap;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use codec::read_fork_id;
pub use codec::{ANNOUNCED_TRANSACTIONS_MAX, MESSAGE_TRANSACTIONS_MAX};
pub(crate) use codes::APPLICATION_MESSAGE_BYTES_MAX;
pub use codes::SNAP;
pub use error::PeerMessageError;
pub use packed_block::PackedBlock;
pub use protocol::{ETH_VERSIONS, ETH_VERSIONS_OFFERED, MC_VERSIONS, WireFamily, WireProtocol};
pub(crate) use types::RequestId;
pub use types::{
    AnnouncedBlock, AnnouncedTransaction, ApplicationChainMessage, HeadersRequest, HeadersStart, PeerBody,
    PeerMessage, PeerStatus,
};
