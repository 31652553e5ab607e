//! Other nodes: connections to them, the messages on these connections, how they are found, and
//! whom to dial.
//!
//! All that decides takes bytes, the time ([`moment`]) and randomness ([`entropy`]) and returns
//! bytes and events. Thin layers on tokio ([`rlpx::PeerConnection`], the socket of discovery) run
//! it. So a simulation can run the same logic without sockets. Knows neither the database nor
//! JSON-RPC nor options. Source: docs/p2p.md.

pub mod address;
mod bootnodes;
mod contact;
pub mod dial;
pub mod discovery;
pub mod dns;
mod enr;
pub mod entropy;
mod fork_id;
pub mod messages;
pub mod moment;
pub mod nat;
pub mod node_files;
mod node_text;
pub mod peers;
mod raw_rlp;
pub mod requests;
pub mod rlpx;
pub mod service;
pub mod sockets;
mod status_check;
pub mod sync;
#[cfg(test)]
mod vectors;

pub use alloy_eip2124::{ForkFilter, ForkHash, ForkId};

pub use bootnodes::boot_nodes;
pub use contact::NodeContact;
pub use enr::{NodeClaims, NodeRecord, NodeRecordError, RECORD_BYTES_MAX};
pub use fork_id::{fork_filter, fork_head, known_rules};
pub use node_text::{NodeTextError, read_node};
pub use status_check::{StatusMismatch, check_status};
