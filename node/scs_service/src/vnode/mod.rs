//! The VNODE's side of the service: what it answers, and whom it pushes what.
//!
//! | question | module |
//! |---|---|
//! | what does the service ask the node for? | [`host`] |
//! | who may connect, and how much may everybody have? | `allow`, `limits`, `client_share` |
//! | how are connections and calls served? | `server`, `routes` |
//! | what happens on a stream? | `streams` |
//! | which SCSs are connected, and what waits for them? | `registry`, `queue` |
//! | who gets which message? | `filter`, `roles`, `pushing`, `seen` |
//! | how do notices of contracts get to the SCSs? | `notices` |
//! | what do the unary calls answer? | `calls`, `storage`, `uploads` |
//!
//! A published SCS proves nothing when it shakes hands: anyone can claim an id that is not
//! connected. One of ours signs a challenge, and takes its place from whoever has it without proof
//! (`registry`). An id only decides who gets a message. Whoever acts on a message checks its
//! content.

mod allow;
mod answers;
mod calls;
mod client_share;
mod filter;
mod held_calls;
pub mod host;
mod limits;
mod notices;
mod pushing;
mod queue;
mod registry;
mod roles;
mod routes;
mod seen;
mod server;
mod service;
mod storage;
mod streams;
mod uploads;

pub use allow::{AllowEntry, AllowList, BadAllowEntry};
pub use filter::ScsRole;
pub use host::{
    AcceptedTransaction, BlockNotices, ContractView, DirectCall, HostAccount, HostContract, HostError,
    HostNotice, RoleAnswer, ScsHost,
};
pub use limits::{ADDRESS_CONNECTIONS_MAX, CONNECTIONS_MAX, ServiceLimits};
pub use server::{ALPN, ScsServer, ServerError};
pub use service::{DirectCallError, ScsService, ServiceConfig, ServiceCounters};
