//! States of other nodes and for other nodes, by `snap/1`.
//!
//! | question | module |
//! |---|---|
//! | how are requests for parts of a state answered? | `peers::snap_serve` |
//! | how is a state fetched from peers? | `client` |
//!
//! Knows neither sockets nor clocks nor where a state is kept: [`SnapSource`] gives, and
//! `client::SnapSink` takes. Source: ethereum/devp2p, `caps/snap.md`.

pub mod client;

pub use crate::messages::snap::{
    AccountRange, AccountRangeRequest, ByteCodesRequest, PathSet, SnapMessage, StorageRanges,
    StorageRangesRequest, TrieNodesRequest,
};
pub use crate::peers::{SnapSource, SnapState};
