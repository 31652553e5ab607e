//! The handling of peers, from the first Status on.
//!
//! | question | module |
//! |---|---|
//! | who is a peer, and what is each told? | `hub`, a state machine |
//! | what does it ask its caller to do? | `action` |
//! | how are requests of peers answered? | `serve`; for parts of states `snap_serve` |
//! | what is asked of the chain? | `chain_access`; for parts of states `snap_states` |
//! | what happens to transactions that peers offer? | `offered` |
//! | how much work does each address get? | `share` |
//! | what do synchronization and peers tell each other? | `interface` |

mod action;
mod chain_access;
mod hub;
mod interface;
mod known;
mod offered;
pub mod serve;
mod share;
#[cfg(test)]
pub(crate) mod snap_memory;
pub(crate) mod snap_serve;
mod snap_states;
#[cfg(test)]
pub(crate) mod stub_chain;

pub use action::{ENDED_BY_OTHER, PeerAction, PeerCounters};
pub use chain_access::{BlockFault, ChainAccess, ChainAccessError, ChainHead, ChainReader, ImportResult};
pub use hub::{
    BLOCKS_WAITING_MAX, HubSettings, NewPeer, PeerFigures, PeerHub, REQUIRED_BLOCKS_MAX, WAITING_BYTES_MAX,
    WaitingUse,
};
pub(crate) use hub::{CHECKS_MAX, FAULT_BAN, NEAR_BELOW};
#[cfg(test)]
pub(crate) use hub::{JUDGED_TRANSACTIONS_MIN, WORTHLESS_PAUSE};
pub(crate) use interface::{PeerFacts, PeerFault, PeerOrder, PeerRequest};
pub use interface::{PeerId, PeerNews, RequestTicket};
pub(crate) use offered::TransactionPack;
pub use offered::{HashedTransaction, JudgedTransactions, TransactionVerdict};
pub(crate) use offered::{LOOK_COST, PACK_PART, TRANSACTION_SHARE};
pub(crate) use share::{HeldShares, ShareHolder};
pub use snap_serve::{SnapSource, SnapState};
