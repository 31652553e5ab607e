//! What this node does with its peers, from the first Status on.
//!
//! | question | module |
//! |---|---|
//! | who is a peer, and what is each told? | `hub`, a state machine |
//! | what does it ask its caller to do? | `action` |
//! | how are requests of peers answered? | `serve` |
//! | what is asked of the chain? | `chain_access` |
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

pub use action::{ENDED_BY_OTHER, PeerAction, PeerCounters};
pub use chain_access::{BlockFault, ChainAccess, ChainAccessError, ChainHead, ChainReader, ImportResult};
pub use hub::{
    AHEAD_BLOCKS_MAX, ANNOUNCED_HASHES_SHARE, ANNOUNCEMENTS_MAX, APPLICATION_MESSAGE_COST_MIN,
    APPLICATION_MESSAGES_SHARE, BANNED_MAX, BLOCKS_WAITING_MAX, CHECKS_MAX, EMPTY_ANSWERS_MAX, FAULT_BAN,
    HubSettings, JUDGED_TRANSACTIONS_MIN, KNOWN_BLOCKS_MAX, KNOWN_TRANSACTIONS_MAX, NEAR_ABOVE, NEAR_BELOW,
    NewPeer, OTHER_CHAIN_BAN, PEER_WAITING_BYTES_MAX, PeerFigures, PeerHub, STATUS_TIMEOUT,
    TRANSACTION_FETCHES_MAX, WAITING_BYTES_MAX, WANTED_ALL_MAX, WANTED_TIME_MAX, WANTED_TRANSACTIONS_MAX,
    WORTHLESS_PAUSE, WRONG_BODIES_MAX,
};
pub use interface::{PeerFacts, PeerFault, PeerId, PeerNews, PeerOrder, PeerRequest, RequestTicket};
pub use offered::{
    HashedTransaction, JudgedTransactions, LOOK_COST, PACK_PART, TRANSACTION_SHARE, TransactionPack,
    TransactionVerdict,
};
pub use share::{HeldShares, SHARE_HOLDERS_MAX, ShareHolder, ShareRate, UsedShare};
