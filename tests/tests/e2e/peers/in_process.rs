//! Nodes in this process: a chain whose seals are not checked, so that blocks cost nothing and need
//! no clock, and the network over real connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use chain::chain::ChainConfig;
use chain::import::{ForkLimits, StateRetention};
use chain::mining::build::build;
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainSpec};
use network::NodeContact;
use network::dial::INBOUND_HANDSHAKES_MAX;
use network::messages::WireFamily;
use network::nat::NatOption;
use network::service::{NetworkHandle, NetworkService, NetworkSettings};
use primitives::{Address, B256, Block, U256};
use store::Store;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::peers::support::key;

/// A node of the development network. `mark` gives its key, its beneficiary and its extra data.
pub(crate) struct InProcess {
    pub(crate) chain: Chain,
    pub(crate) service: NetworkService,
    pub(crate) beneficiary: Address,
    _folder: TempDir,
}

impl InProcess {
    pub(crate) fn start(runtime: &Runtime, mark: u8, store: Store) -> Self {
        let beneficiary = Address::repeat_byte(mark);
        let config = ChainConfig {
            spec: Arc::new(ChainSpec::dev()),
            seals: SealCheck::Off,
            forks: ForkLimits::default(),
            pool: PoolConfig {
                price_floor: U256::ZERO,
                ..PoolConfig::default()
            },
            beneficiary,
            extra_data: vec![mark].into(),
            states: StateRetention::Archive,
        };
        let chain = Chain::open(store, config).expect("a chain");
        let folder = tempfile::tempdir().expect("a folder");
        let settings = NetworkSettings {
            key: key(mark),
            client: "in-process/1".to_owned(),
            family: WireFamily::Mc,
            network_id: 100,
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
            folder: folder.path().to_owned(),
            static_nodes: Vec::new(),
            trusted_nodes: Vec::new(),
            has_progress_lines: false,
        };
        let service = runtime
            .block_on(NetworkService::start(settings, chain.clone()))
            .expect("a free port");
        Self {
            chain,
            service,
            beneficiary,
            _folder: folder,
        }
    }

    pub(crate) const fn network(&self) -> &NetworkHandle {
        self.service.handle()
    }

    pub(crate) const fn contact(&self) -> NodeContact {
        let handle = self.network();
        NodeContact {
            id: handle.id(),
            ip: handle.address().ip(),
            udp: handle.address().port(),
            tcp: handle.address().port(),
        }
    }

    pub(crate) fn head(&self) -> B256 {
        self.chain.view().expect("a view").head_hash()
    }

    /// Makes the next block with what is in the pool.
    pub(crate) fn make(&self) -> Block {
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
    pub(crate) fn mine(&self) -> Block {
        let block = self.make();
        self.chain.import(block.clone()).expect("a good block");
        block
    }

    pub(crate) fn balance(&self, address: &Address) -> U256 {
        let view = self.chain.view().expect("a view");
        let account = view.account(address, view.head_number()).expect("read");
        account.unwrap_or_default().balance
    }

    pub(crate) fn stop(self, runtime: &Runtime) {
        runtime.block_on(self.service.stop());
        self.chain.stop();
    }
}
