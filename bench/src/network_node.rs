//! A node in this process, with the network of a real one: encrypted connections, messages,
//! synchronization.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use chain::chain::ChainConfig;
use chain::import::{ForkLimits, StateRetention};
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::spec::ChainFamily;
use chain::{Chain, ChainSpec};
use network::NodeContact;
use network::dial::INBOUND_HANDSHAKES_MAX;
use network::entropy::Entropy;
use network::messages::WireFamily;
use network::nat::NatOption;
use network::service::{NetworkService, NetworkSettings};
use primitives::Address;
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
        spec: spec.clone(),
        seals,
        forks: ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: Address::ZERO,
        extra_data: Default::default(),
        states: StateRetention::default(),
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
    let settings = NetworkSettings {
        key: Entropy::from_system()?.secret_key(),
        client: "bench".to_owned(),
        family: match chain.spec().family {
            ChainFamily::Ethereum => WireFamily::Eth,
            ChainFamily::Moac => WireFamily::Mc,
        },
        network_id: chain.spec().network_id,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        discovery_port: None,
        has_discovery: false,
        boot_nodes: Vec::new(),
        dns_lists: Vec::new(),
        dns_server: None,
        nat: NatOption::None,
        ranges: None,
        peers_max: PEERS_MAX,
        pending_max: INBOUND_HANDSHAKES_MAX,
        folder: folder.to_owned(),
        static_nodes: peers.into_iter().map(Into::into).collect(),
        trusted_nodes: Vec::new(),
        has_progress_lines: false,
    };
    Ok(NetworkService::start(settings, chain.clone()).await?)
}

/// How to reach a running network.
pub const fn contact_of(service: &NetworkService) -> NodeContact {
    let handle = service.handle();
    let address = handle.address();
    NodeContact {
        id: handle.id(),
        ip: address.ip(),
        tcp: address.port(),
        udp: address.port(),
    }
}
