//! A node in the process of a test: a chain whose seals are not checked, so that blocks cost
//! nothing and need no clock, and its network over real connections on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use chain::chain::ChainConfig;
use chain::import::{ForkLimits, StateRetention};
use chain::mining::build::build;
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::spec::ChainFamily;
use chain::{Chain, ChainSpec};
use primitives::{Address, Block, SecretKey};
use store::Store;
use tempfile::TempDir;

use crate::contact::NodeContact;
use crate::dial::INBOUND_HANDSHAKES_MAX;
use crate::messages::WireFamily;
use crate::nat::NatOption;
use crate::service::{NetworkHandle, NetworkService, NetworkSettings};

/// A chain that keeps all states and checks no seals.
pub fn chain_config(spec: Arc<ChainSpec>) -> ChainConfig {
    ChainConfig {
        spec,
        seals: SealCheck::Off,
        forks: ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: Address::ZERO,
        extra_data: Vec::new().into(),
        states: StateRetention::Archive,
    }
}

/// The network of a chain, on a free port of loopback, without discovery.
pub fn loopback_settings(key: SecretKey, spec: &ChainSpec, folder: &Path) -> NetworkSettings {
    NetworkSettings {
        key,
        client: "loopback/1".to_owned(),
        family: match spec.family {
            ChainFamily::Ethereum => WireFamily::Eth,
            ChainFamily::Moac => WireFamily::Mc,
        },
        network_id: spec.network_id,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        discovery_port: None,
        has_discovery: false,
        boot_nodes: Vec::new(),
        dns_lists: Vec::new(),
        dns_server: None,
        nat: NatOption::None,
        ranges: None,
        peers_max: 25,
        pending_max: INBOUND_HANDSHAKES_MAX,
        folder: folder.to_owned(),
        static_nodes: Vec::new(),
        trusted_nodes: Vec::new(),
        required_blocks: Vec::new(),
        has_progress_lines: false,
        fetches_state: false,
        work_needs_peers: false,
    }
}

/// The address at which others reach a network on loopback.
pub const fn contact_of(network: &NetworkHandle) -> NodeContact {
    let address = network.address();
    NodeContact {
        id: network.id(),
        ip: address.ip(),
        udp: address.port(),
        tcp: address.port(),
    }
}

/// A running node. [`Self::stop`] ends it.
pub struct LoopbackNode {
    /// The chain.
    pub chain: Chain,
    service: NetworkService,
    _folder: TempDir,
}

impl LoopbackNode {
    /// Starts a node with these changes of [`loopback_settings`].
    ///
    /// # Panics
    /// If the chain cannot be opened or the node cannot listen.
    pub async fn start(
        key: SecretKey,
        store: Store,
        config: ChainConfig,
        change: impl FnOnce(&mut NetworkSettings),
    ) -> Self {
        let chain = Chain::open(store, config).expect("a chain");
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = loopback_settings(key, chain.spec(), folder.path());
        change(&mut settings);
        let service = NetworkService::start(settings, chain.clone()).await;
        Self {
            chain,
            service: service.expect("a free port"),
            _folder: folder,
        }
    }

    /// The network of the node.
    pub const fn network(&self) -> &NetworkHandle {
        self.service.handle()
    }

    /// Makes the next block with the transactions of the pool.
    ///
    /// # Panics
    /// If no block can be made.
    pub fn make(&self) -> Block {
        let view = self.chain.view().expect("a view");
        let parent = view.head();
        let block = build(
            self.chain.spec(),
            view.snapshot(),
            parent,
            parent.header.timestamp.max(1_000_000) + 1,
            &self.chain.settings(),
            self.chain.pool().ready(),
            &[],
        );
        block.expect("a block").block
    }

    /// Makes the next block and imports it.
    ///
    /// # Panics
    /// If no block can be made or imported.
    pub fn mine(&self) -> Block {
        let block = self.make();
        self.chain.import(block.clone()).expect("a good block");
        block
    }

    /// Ends the network, then the chain.
    pub async fn stop(self) {
        self.service.stop().await;
        self.chain.stop();
    }
}
