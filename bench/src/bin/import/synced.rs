//! The same chain from a peer: two nodes in this process, over loopback, with the encrypted
//! connection, the messages and the synchronization of a real node.
//!
//! The serving node shares the processors with the one that is measured.

use std::time::{Duration, Instant};

use bench::Failure;
use bench::clock::{Clock, Took};
use bench::network_node::{open_chain, start_network};
use chain::Chain;
use chain::import::Importer;
use chain::rules::seal::SealCheck;
use ethash::LightCaches;
use network::NetworkService;
use network::testing::contact_of;
use tempfile::TempDir;

use crate::workload::{Workload, open};

/// The time between two looks at the head.
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

impl Server {
    /// Imports the whole workload and serves it.
    pub(crate) fn start(workload: &Workload) -> Result<Self, Failure> {
        let directory = workload.directory()?;
        let store = open(directory.path())?;
        let importer = Importer::new(store.clone(), workload.spec.clone(), SealCheck::Off);
        for block in &workload.blocks {
            importer.import(block, None)?;
        }
        let chain = open_chain(store, &workload.spec, SealCheck::Off)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let service = runtime.block_on(start_network(&chain, directory.path(), Vec::new()))?;
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
        let chain = open_chain(store, &workload.spec, SealCheck::Ethash(caches.clone()))?;
        let peer = contact_of(self.service.handle());
        let goal = workload.blocks.last().ok_or("no blocks")?.hash();
        let (begun, clock) = (Instant::now(), Clock::start());
        let service = self
            .runtime
            .block_on(start_network(&chain, directory.path(), vec![peer]))?;
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
