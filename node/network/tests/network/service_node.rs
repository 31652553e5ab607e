//! Nodes in this process that find each other on loopback.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::ChainSpec;
use network::testing::{LoopbackNode, chain_config};
use network::{NetworkHandle, NetworkSettings};
use store::Store;

use crate::support::key;

/// The longest time that a test waits.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a node with discovery. `mark` gives its key.
pub(crate) async fn start_node(
    mark: u8,
    spec: ChainSpec,
    change: impl FnOnce(&mut NetworkSettings),
) -> LoopbackNode {
    let store = Store::in_memory().expect("a store in memory");
    let change = |settings: &mut NetworkSettings| {
        settings.client = format!("node-{mark}/1");
        settings.has_discovery = true;
        change(settings);
    };
    LoopbackNode::start(key(mark), store, chain_config(Arc::new(spec)), change).await
}

/// Waits until `is_done`.
pub(crate) async fn wait(node: &LoopbackNode, what: &str, is_done: impl Fn(&NetworkHandle) -> bool) {
    let started = Instant::now();
    while !is_done(node.network()) {
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
