//! The same chain from a peer: two nodes in this process, over loopback, with the encrypted
//! connection, the messages and the synchronization of a real node.
//!
//! The serving node shares the processors with the one that is measured.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::Failure;
use chain::chain::ChainConfig;
use chain::import::{ForkLimits, Importer, StateRetention};
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainSpec};
use ethash::LightCaches;
use network::NodeContact;
use network::entropy::Entropy;
use network::messages::WireFamily;
use network::nat::NatOption;
use network::service::{NetworkService, NetworkSettings};
use primitives::Address;
use store::Store;
use tempfile::TempDir;

use crate::clock::{Clock, Took};
use crate::workload::{Workload, open};

/// How often the head is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// A synchronization that takes longer than this has failed.
const TIME_MAX: Duration = Duration::from_secs(1200);

/// A node that has the whole chain and serves it.
pub(crate) struct Server {
    runtime: tokio::runtime::Runtime,
    service: NetworkService,
    _chain: Chain,
    _directory: TempDir,
}

fn chain(store: Store, spec: &Arc<ChainSpec>, seals: SealCheck) -> Result<Chain, Failure> {
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

async fn service(
    chain: &Chain,
    folder: &TempDir,
    peers: Vec<NodeContact>,
) -> Result<NetworkService, Failure> {
    let settings = NetworkSettings {
        key: Entropy::from_system()?.secret_key(),
        client: "bench".to_owned(),
        family: WireFamily::Eth,
        network_id: chain.spec().network_id,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        has_discovery: false,
        boot_nodes: Vec::new(),
        nat: NatOption::None,
        ranges: None,
        peers_max: 8,
        folder: folder.path().to_owned(),
        static_nodes: peers,
        trusted_nodes: Vec::new(),
    };
    Ok(NetworkService::start(settings, chain.clone()).await?)
}

impl Server {
    /// Imports the whole workload and serves it.
    pub(crate) fn start(workload: &Workload) -> Result<Self, Failure> {
        let directory = workload.directory()?;
        let store = open(directory.path())?;
        let importer = Importer::new(store.clone(), workload.spec.clone(), SealCheck::Off);
        for block in &workload.blocks {
            importer.import(block, None)?;
        }
        let chain = chain(store, &workload.spec, SealCheck::Off)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let service = runtime.block_on(service(&chain, &directory, Vec::new()))?;
        Ok(Self {
            runtime,
            service,
            _chain: chain,
            _directory: directory,
        })
    }

    /// Lets a new node get the chain. The clock starts before the connection is made.
    pub(crate) fn sync(&self, workload: &Workload, caches: &LightCaches) -> Result<Took, Failure> {
        let directory = workload.directory()?;
        let store = open(directory.path())?;
        let chain = chain(store, &workload.spec, SealCheck::Ethash(caches.clone()))?;
        let handle = self.service.handle();
        let address = handle.address();
        let peer = NodeContact {
            id: handle.id(),
            ip: address.ip(),
            tcp: address.port(),
            udp: address.port(),
        };
        let goal = workload.blocks.last().ok_or("no blocks")?.hash();
        let (begun, clock) = (Instant::now(), Clock::start());
        let service = self.runtime.block_on(service(&chain, &directory, vec![peer]))?;
        while chain.view()?.head_hash() != goal {
            if begun.elapsed() > TIME_MAX {
                let head = chain.view()?.head_number();
                return Err(format!("the synchronization is at block {head} after {TIME_MAX:?}").into());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let took = clock.stop();
        self.runtime.block_on(service.stop());
        chain.stop();
        Ok(took)
    }
}
