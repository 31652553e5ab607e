//! Facts about a node that do not come from its chain.

use primitives::B256;

/// The progress of a download of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncStatus {
    /// The number of the block at which the download began.
    pub starting_block: u64,
    /// The number of the highest block that a peer has announced.
    pub highest_block: u64,
    /// The state that is fetched from peers; `None` if all blocks are executed.
    pub state: Option<SyncedState>,
}

/// The parts of a state that came from peers so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncedState {
    /// Accounts.
    pub accounts: u64,
    /// Storage slots.
    pub slots: u64,
    /// Codes of contracts.
    pub codes: u64,
    /// Trie nodes that were fetched to find what has changed.
    pub healed: u64,
    /// Bytes of the accounts, as peers have sent them.
    pub account_bytes: u64,
    /// Bytes of the slots.
    pub slot_bytes: u64,
    /// Bytes of the codes.
    pub code_bytes: u64,
    /// Bytes of those trie nodes.
    pub healed_bytes: u64,
}

/// Facts about a node that do not come from its chain.
pub trait NodeFacts {
    /// The client version: name, version, platform and toolchain, separated by slashes.
    fn client_version(&self) -> &str;

    /// Network id: 99 main, 101 test, 100 local development.
    fn network_id(&self) -> u64;

    /// Whether the node listens for network connections.
    fn is_listening(&self) -> bool;

    /// The number of connected peers.
    fn peer_count(&self) -> u64;

    /// The checksum of block 0, whose hash is `genesis`, and of the forks up to `block` (EIP-2124).
    /// `None` for networks without fork ids.
    fn fork_hash(&self, _genesis: B256, _block: u64) -> Option<[u8; 4]> {
        None
    }

    /// The progress of a download of the chain. `None` if nothing is being downloaded, for example
    /// in a node without peers.
    fn sync_status(&self) -> Option<SyncStatus> {
        None
    }
}
