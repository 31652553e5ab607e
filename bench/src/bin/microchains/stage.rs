//! The processes that are measured: a node and servers of application chains, on free ports, with
//! all their data in a temporary folder.

use bench::Failure;
use e2e::microchain::PROXY;
use e2e::process::ProcessUsage;
use e2e::scs::Scs;
use e2e::{Launch, Vnode};
use serde_json::json;
use tempfile::TempDir;

/// The chain id of the development network.
pub(crate) const CHAIN_ID: u64 = 100;

/// A node and its SCSs.
pub(crate) struct Stage {
    pub(crate) node: Vnode,
    /// The address at which the node serves SCSs.
    pub(crate) service: String,
    pub(crate) scs: Vec<Scs>,
    /// Seconds between two blocks of a MicroChain.
    pub(crate) period: u64,
    /// Keeps the data until the processes have ended.
    _folder: TempDir,
}

impl Stage {
    /// Starts the processes: `count` SCSs with this time between two blocks, which serve at most so
    /// many `chains`.
    pub(crate) fn start(count: usize, period: u64, chains: usize) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let settings = json!({
            "SCSService": true, "VnodeServiceCfg": "localhost:0", "VnodeBeneficialAddress": PROXY,
        });
        std::fs::write(folder.path().join("vnodeconfig.json"), settings.to_string())?;
        // One thread looks for blocks, and waits most of the time.
        let node = Launch::dev(["--mine", "--minerthreads", "1", "--rpcapi", "mc,net,vnode"])
            .data(&folder.path().join("data"))
            .directory(folder.path())
            .start();
        let endpoints = node.banner_values("endpoint");
        let service = endpoints.iter().find_map(|value| value.strip_prefix("grpc://"));
        let service = service.ok_or("the node serves no SCSs")?.to_owned();
        let option = period.to_string();
        let start = |index: usize| {
            let home = folder.path().join(format!("scs{index}"));
            Scs::configure_for(&home, &service, CHAIN_ID, chains);
            Scs::start(&home, &["--period", &option, "--verbosity", "2"])
        };
        let scs = (0..count).map(start).collect();
        Ok(Self {
            node,
            service,
            scs,
            period,
            _folder: folder,
        })
    }

    pub(crate) fn servers(&self) -> Vec<&Scs> {
        self.scs.iter().collect()
    }

    /// Returns the use of the node and of each SCS so far.
    pub(crate) fn usage(&self) -> Vec<ProcessUsage> {
        let scs = self.scs.iter().map(Scs::usage);
        std::iter::once(self.node.usage()).chain(scs).collect()
    }
}
