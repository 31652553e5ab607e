//! What this node does with its peers, from the first Status on.
//!
//! | question | module |
//! |---|---|
//! | who is a peer, and what is each told? | `hub`, a state machine |
//! | what does it ask its caller to do? | `action` |
//! | how are requests of peers answered? | `serve` |
//! | what is asked of the chain? | `chain_access` |
//! | what do synchronization and peers tell each other? | `interface` |

mod action;
mod chain_access;
mod hub;
mod interface;
mod known;
pub mod serve;

pub use action::{ENDED_BY_OTHER, PeerAction, PeerCounters};
pub use chain_access::{ChainAccess, ChainAccessError, ChainHead, ChainReader, ImportResult};
pub use hub::{
    ANNOUNCEMENTS_MAX, BANNED_MAX, BLOCKS_WAITING_MAX, FAULT_BAN, HubSettings, KNOWN_BLOCKS_MAX,
    KNOWN_TRANSACTIONS_MAX, NEAR_ABOVE, NEAR_BELOW, NewPeer, OTHER_CHAIN_BAN, PeerHub, STATUS_TIMEOUT,
    TRANSACTION_FETCHES_MAX, WANTED_TRANSACTIONS_MAX,
};
pub use interface::{PeerFacts, PeerFault, PeerId, PeerNews, PeerOrder, PeerRequest, RequestTicket};
