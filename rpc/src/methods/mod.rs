//! The methods, one file per module, each with its rows.

pub mod chain3;
pub mod net;

/// What `chain3` and `net` need to know of a node.
pub trait NodeFacts {
    /// Client version: name, version, platform and toolchain separated by slashes.
    fn client_version(&self) -> &str;

    /// Network id: 99 main, 101 test, 100 local development.
    fn network_id(&self) -> u64;

    /// Whether the node listens for network connections.
    fn is_listening(&self) -> bool;

    /// Connected peers.
    fn peer_count(&self) -> u64;
}
