//! The facts of a node for tests. Every test binary of this package uses them.

use rpc::NodeFacts;

/// A node with a fixed version and network id.
pub(crate) struct TestFacts {
    pub(crate) is_listening: bool,
    pub(crate) peer_count: u64,
}

impl NodeFacts for TestFacts {
    fn client_version(&self) -> &str {
        "Test/v1.2.3/linux-x86_64/rustc1.95"
    }

    fn network_id(&self) -> u64 {
        100
    }

    fn is_listening(&self) -> bool {
        self.is_listening
    }

    fn peer_count(&self) -> u64 {
        self.peer_count
    }
}
