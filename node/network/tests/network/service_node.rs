//! A node in this process: a chain whose seals are not checked, and its network on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::chain::ChainConfig;
use chain::import::{ForkLimits, StateRetention};
use chain::mining::build::build;
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::spec::ChainFamily;
use chain::{Chain, ChainSpec};
use network::dial::INBOUND_HANDSHAKES_MAX;
use network::messages::WireFamily;
use network::nat::NatOption;
use network::service::{NetworkHandle, NetworkService, NetworkSettings};
use primitives::Address;
use store::Store;

use crate::support::key;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running node. `mark` gives its key.
pub(crate) struct ServiceNode {
    chain: Chain,
    service: NetworkService,
    _folder: tempfile::TempDir,
}

impl ServiceNode {
    pub(crate) async fn start(mark: u8, spec: ChainSpec, change: impl FnOnce(&mut NetworkSettings)) -> Self {
        let family = match spec.family {
            ChainFamily::Ethereum => WireFamily::Eth,
            ChainFamily::Moac => WireFamily::Mc,
        };
        let config = ChainConfig {
            spec: Arc::new(spec),
            seals: SealCheck::Off,
            forks: ForkLimits::default(),
            pool: PoolConfig::default(),
            beneficiary: Address::ZERO,
            extra_data: Vec::new().into(),
            states: StateRetention::Archive,
        };
        let store = Store::in_memory().expect("a store in memory");
        let chain = Chain::open(store, config).expect("a chain");
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = NetworkSettings {
            key: key(mark),
            client: format!("node-{mark}/1"),
            family,
            network_id: 100,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            discovery_port: None,
            has_discovery: true,
            boot_nodes: Vec::new(),
            dns_lists: Vec::new(),
            dns_server: None,
            nat: NatOption::None,
            ranges: None,
            peers_max: 25,
            pending_max: INBOUND_HANDSHAKES_MAX,
            folder: folder.path().to_owned(),
            static_nodes: Vec::new(),
            trusted_nodes: Vec::new(),
            has_progress_lines: false,
        };
        change(&mut settings);
        let service = NetworkService::start(settings, chain.clone())
            .await
            .expect("a free port");
        Self {
            chain,
            service,
            _folder: folder,
        }
    }

    pub(crate) const fn network(&self) -> &NetworkHandle {
        self.service.handle()
    }

    pub(crate) fn peer_count(&self) -> usize {
        self.network().peer_count()
    }

    /// Makes the next block and imports it.
    pub(crate) fn mine(&self) {
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
        let block = block.expect("a block").block;
        self.chain.import(block).expect("a good block");
    }

    /// Waits until `is_done`.
    pub(crate) async fn wait(&self, what: &str, is_done: impl Fn(&NetworkHandle) -> bool) {
        let started = Instant::now();
        while !is_done(self.network()) {
            assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn stop(self) {
        self.service.stop().await;
        self.chain.stop();
    }
}
