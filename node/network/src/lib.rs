//! Other nodes: connections to them, the messages on these connections, how they are found, and
//! whom to dial.
//!
//! All that decides takes bytes, the time (`moment`) and randomness (`entropy`) and returns bytes
//! and events. Thin layers on tokio (`rlpx::PeerConnection`, the socket of discovery) run it. So a
//! simulation can run the same logic without sockets. Knows neither the database nor JSON-RPC nor
//! options. [`NetworkService`] runs all of it in a node; [`testing`] shows the parts to tests.
//! Source: docs/p2p.md.

mod address;
mod bootnodes;
mod contact;
mod dial;
mod discovery;
#[cfg(test)]
#[path = "../../store/tests/store/disk.rs"]
#[expect(dead_code, reason = "the tests of the store use more of it")]
mod disk;
mod dns;
mod enr;
mod entropy;
mod fork_id;
mod messages;
mod moment;
mod nat;
mod node_files;
mod node_text;
mod peers;
mod raw_rlp;
mod requests;
mod rlpx;
mod service;
pub mod snap;
mod sockets;
mod status_check;
mod sync;
pub mod testing;
#[cfg(test)]
mod vectors;

#[cfg(test)]
use features as _;

pub use address::{AddressRangeError, AddressRanges};
pub use bootnodes::boot_nodes;
pub use contact::NodeContact;
pub use dial::{DialTarget, INBOUND_HANDSHAKES_MAX};
pub use dns::{DnsEntryError, DnsListUrl, dns_lists};
pub use fork_id::{fork_hash, known_rules};
pub use messages::{ApplicationChainMessage, WireFamily};
pub use nat::{NatOption, NatOptionError};
pub use node_files::{
    LISTED_NODES_MAX, NodeFileError, STATIC_NODES_FILE, TRUSTED_NODES_FILE, read_enodes, write_enodes,
};
pub use node_text::{NodeTextError, read_node};
pub use peers::{ENDED_BY_OTHER, PeerCounters, PeerFigures, REQUIRED_BLOCKS_MAX};
pub use rlpx::RlpxDisconnect;
pub use service::{
    ApplicationChains, NetworkHandle, NetworkService, NetworkSettings, NetworkStartError, PeerReport,
    SubnetPlan, SubnetReport, TrafficCounters,
};
pub use snap::client::{SnapFigures, SnapPhase};
pub use sync::{StateProgress, SyncStage, SyncState, time_text};
