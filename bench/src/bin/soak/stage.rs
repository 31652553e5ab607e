//! The processes of the soak test: three nodes around the first one, which searches itself, a miner
//! at the second one, SCSs, with all their data in a temporary folder.

use std::path::Path;

use bench::Failure;
use e2e::microchain::PROXY;
use e2e::process::{EndSignal, ProcessUsage};
use e2e::scs::Scs;
use e2e::wait::wait_for;
use e2e::{Caller, Launch, MinerProcess, Vnode, quantity};
use serde_json::json;
use tempfile::TempDir;

/// The chain id of the development network.
const CHAIN_ID: u64 = 100;
const NODES: usize = 3;
/// Memory for pages of a node's store. With more, caches would fill in the day, and that would look
/// like a leak.
const CACHE_MIB: &str = "2";
const MIB: f64 = (1 << 20) as f64;

/// The use of a process.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) name: String,
    /// Resident memory in MiB.
    pub(crate) memory: f64,
    /// Open descriptors.
    pub(crate) descriptors: f64,
    pub(crate) threads: f64,
    /// Processor time since the start, in seconds.
    pub(crate) processor: f64,
    /// Length of all files in MiB.
    pub(crate) disk: f64,
}

/// The mean of several looks at the same processes.
pub(crate) fn means(looks: &[Vec<Use>]) -> Vec<Use> {
    let Some(last) = looks.last() else {
        return Vec::new();
    };
    let mean = |at: usize, field: fn(&Use) -> f64| {
        looks.iter().map(|look| field(&look[at])).sum::<f64>() / looks.len() as f64
    };
    let process = |(at, now): (usize, &Use)| Use {
        name: now.name.clone(),
        memory: mean(at, |now| now.memory),
        descriptors: mean(at, |now| now.descriptors),
        threads: mean(at, |now| now.threads),
        // Files and processor time only grow, so their end counts.
        processor: now.processor,
        disk: now.disk,
    };
    last.iter().enumerate().map(process).collect()
}

/// The network.
pub(crate) struct Stage {
    /// The first one serves SCSs, and the others dial it.
    pub(crate) nodes: [Vnode; NODES],
    /// The address at which the first node serves SCSs.
    pub(crate) service: String,
    scs: Vec<Scs>,
    /// At the second node.
    miner: MinerProcess,
    /// Keeps the data until the processes have ended.
    folder: TempDir,
}

impl Stage {
    /// Starts the processes, with so many SCSs.
    pub(crate) fn start(members: usize) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let start = |index: usize| -> Result<Vnode, Failure> {
            let home = folder.path().join(format!("node{index}"));
            std::fs::create_dir(&home)?;
            if index == 0 {
                let settings = json!({
                    "SCSService": true, "VnodeServiceCfg": "localhost:0", "VnodeBeneficialAddress": PROXY,
                });
                std::fs::write(home.join("vnodeconfig.json"), settings.to_string())?;
            }
            let modules = "mc,net,admin,evm,miner,txpool,vnode,debug";
            let mut options = vec![
                "--port",
                "0",
                "--verbosity",
                "2",
                "--rpcapi",
                modules,
                "--cache",
                CACHE_MIB,
            ];
            if index == 0 {
                options.extend(["--mine", "--minerthreads", "1"]);
            }
            Ok(Launch::dev(options)
                .data(&home.join("data"))
                .directory(&home)
                .start())
        };
        let nodes = [start(0)?, start(1)?, start(2)?];
        let endpoints = nodes[0].banner_values("endpoint");
        let service = endpoints.iter().find_map(|value| value.strip_prefix("grpc://"));
        let service = service.ok_or("the node serves no SCSs")?.to_owned();
        let server = |index: usize| {
            let home = folder.path().join(format!("scs{index}"));
            Scs::configure(&home, &service, CHAIN_ID);
            Scs::start(&home, &["--period", "1", "--verbosity", "2"])
        };
        let scs = (0..members).map(server).collect();
        let miner = MinerProcess::start(["getwork".to_owned(), nodes[1].url()]);
        let stage = Self {
            nodes,
            service,
            scs,
            miner,
            folder,
        };
        stage.dial(2);
        stage.connect();
        Ok(stage)
    }

    /// Clients of all nodes, with connections of their own.
    pub(crate) fn callers(&self) -> [Caller; NODES] {
        self.nodes.each_ref().map(|node| Caller::new(node.addresses()[0]))
    }

    pub(crate) fn servers(&self) -> Vec<&Scs> {
        self.scs.iter().collect()
    }

    fn dial(&self, from: usize) {
        let info = self.nodes[0].rpc("admin_nodeInfo", json!([]));
        self.nodes[from].rpc("admin_addPeer", json!([info["enode"]]));
    }

    fn wait_for_peers(&self, count: u128) {
        wait_for("the number of peers", || {
            let peers = quantity(&self.nodes[1].rpc("net_peerCount", json!([])));
            (peers == count).then_some(())
        });
    }

    /// Connects the second node with the first one.
    pub(crate) fn connect(&self) {
        self.dial(1);
        self.wait_for_peers(1);
    }

    /// Leaves the second node alone.
    pub(crate) fn part(&self) {
        let info = self.nodes[0].rpc("admin_nodeInfo", json!([]));
        self.nodes[1].rpc("admin_removePeer", json!([info["enode"]]));
        self.wait_for_peers(0);
    }

    /// The use of each process at this moment.
    pub(crate) fn uses(&self) -> Result<Vec<Use>, Failure> {
        let of = |name: String, usage: ProcessUsage, folder: Option<String>| -> Result<Use, Failure> {
            let bytes = folder.map_or(Ok(0), |name| length(&self.folder.path().join(name)))?;
            Ok(Use {
                name,
                memory: usage.memory as f64 / MIB,
                descriptors: usage.descriptors as f64,
                threads: usage.threads as f64,
                processor: usage.processor.as_secs_f64(),
                disk: bytes as f64 / MIB,
            })
        };
        let mut all = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let name = format!("node{index}");
            all.push(of(name.clone(), node.usage(), Some(name))?);
        }
        for (index, server) in self.scs.iter().enumerate() {
            let name = format!("scs{index}");
            all.push(of(name.clone(), server.usage(), Some(name))?);
        }
        all.push(of("miner".to_owned(), self.miner.usage(), None)?);
        Ok(all)
    }

    /// Waits until all nodes agree, ends all processes, and checks the databases of the nodes.
    pub(crate) fn check(self) -> Result<(), Failure> {
        self.miner.end(EndSignal::Interrupt);
        self.nodes[0].rpc("miner_stop", json!([]));
        wait_for("the same head everywhere", || {
            let heads = self
                .nodes
                .each_ref()
                .map(|node| node.head_block()["hash"].clone());
            heads.iter().all(|head| *head == heads[0]).then_some(())
        });
        let head = self.nodes[0].head();
        for server in self.scs {
            server.end(EndSignal::Terminate);
        }
        for (index, node) in self.nodes.into_iter().enumerate() {
            node.end(EndSignal::Terminate);
            let data = self.folder.path().join(format!("node{index}/data"));
            let check = Launch::bare(["--dev"])
                .data(&data)
                .command(&["db", "check", "--full"])
                .run();
            if !check.status.success() {
                return Err(format!("db check of node {index}: {}{}", check.stdout, check.stderr).into());
            }
        }
        println!("all nodes have block {head} as their head; db check --full finds nothing in any of them");
        Ok(())
    }
}

/// The length of all files in a folder, in bytes. A file that goes meanwhile does not count.
fn length(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(found) = entry.metadata() else { continue };
        bytes += if found.is_dir() {
            length(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}
