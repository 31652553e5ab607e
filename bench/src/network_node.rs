//! A node in this process, with the network of a real one: encrypted connections, messages,
//! synchronization.

use std::path::Path;
use std::sync::Arc;

use chain::chain::ChainConfig;
use chain::import::StateRetention;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainSpec};
use network::testing::{Entropy, chain_config, loopback_settings};
use network::{NetworkService, NetworkSettings, NodeContact};
use store::Store;

use crate::Failure;

/// The most peers of a node here.
const PEERS_MAX: usize = 128;

/// A chain on a store, as a node runs it.
///
/// # Errors
/// If the chain cannot be opened.
pub fn open_chain(store: Store, spec: &Arc<ChainSpec>, seals: SealCheck) -> Result<Chain, Failure> {
    let config = ChainConfig {
        seals,
        states: StateRetention::default(),
        ..chain_config(spec.clone())
    };
    Ok(Chain::open(store, config)?)
}

/// Starts the network of a chain on loopback. It stays connected to `peers`.
///
/// # Errors
/// If the node cannot listen.
pub async fn start_network(
    chain: &Chain,
    folder: &Path,
    peers: Vec<NodeContact>,
) -> Result<NetworkService, Failure> {
    let key = Entropy::from_system()?.secret_key();
    let settings = NetworkSettings {
        peers_max: PEERS_MAX,
        static_nodes: peers.into_iter().map(Into::into).collect(),
        ..loopback_settings(key, chain.spec(), folder)
    };
    Ok(NetworkService::start(settings, chain.clone()).await?)
}
