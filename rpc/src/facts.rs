//! What the methods need to know of a node beside its chain.

/// How far a download of the chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncStatus {
    /// The block at which the download began.
    pub starting_block: u64,
    /// The highest block that peers speak of.
    pub highest_block: u64,
}

/// What the methods need to know of a node beside its chain.
pub trait NodeFacts {
    /// Client version: name, version, platform and toolchain separated by slashes.
    fn client_version(&self) -> &str;

    /// Network id: 99 main, 101 test, 100 local development.
    fn network_id(&self) -> u64;

    /// Whether the node listens for network connections.
    fn is_listening(&self) -> bool;

    /// Connected peers.
    fn peer_count(&self) -> u64;

    /// How far a download of the chain is; `None` while there is none, which is always so for a
    /// node without peers.
    fn sync_status(&self) -> Option<SyncStatus> {
        None
    }
}
