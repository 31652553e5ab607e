//! Mines for a node for a while and counts what becomes of the solutions.
//!
//! The node is one that runs already, or a program that is started for a new network and ended
//! afterwards. That network is a private one whose difficulty fits the hash rate. If no rate is
//! known or the rate is low, it is the development network. Its difficulty is constant: a card
//! would solve each work in no time and then wait for the next.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use daemon::Screen;
use engine::gpu::KernelPolicy;
use engine::{DeviceChoice, EngineConfig};
use serde_json::{Value, json};

use super::figure::{FigureError, FigureResult, merged};
use crate::client::{ClientConfig, MiningEndpoint};
use crate::rig::{CareConfig, CostConfig, RigConfig, RigEnd, run_for};

/// The node that gives work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SteadyNode {
    /// A node that runs, by the address of its JSON-RPC.
    Url(String),
    /// The program of a node.
    Program(PathBuf),
}

/// The time between blocks of a new network, on average.
const BLOCK_SECONDS: f64 = 3.0;
/// Hashes per second from which on a private network is made.
const PRIVATE_FROM: f64 = 1e6;
/// Receives the rewards of the private network.
const REWARDED: &str = "0x00000000000000000000000000000000000000ff";

/// The time that the node may take to end before it is killed.
const NODE_END_MAX: Duration = Duration::from_secs(5);

/// The folder of a node, which is removed when this is dropped.
struct NodeFolder(PathBuf);

impl Drop for NodeFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), "not removed: {error}");
        }
    }
}

/// A started node. Its process ends when this is dropped, and then its folder is removed.
struct StartedNode {
    process: Child,
    _folder: NodeFolder,
    url: String,
}

impl StartedNode {
    /// Starts `program` for a network whose miners have `hashrate` hashes per second.
    fn start(program: &Path, hashrate: Option<f64>) -> Result<Self, FigureError> {
        let failed = |error: std::io::Error| FigureError::Other(format!("{}: {error}", program.display()));
        // The port is free now. If another program takes it meanwhile, the node ends with an error.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(failed)?
            .port();
        let folder = std::env::temp_dir().join(format!("miner-bench-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let folder = NodeFolder(folder);
        let mut command = Command::new(program);
        match hashrate.filter(|rate| *rate >= PRIVATE_FROM) {
            None => command.arg("--dev"),
            Some(rate) => {
                initialize(program, &folder.0, rate * BLOCK_SECONDS)?;
                command.args(["--moacbase", REWARDED, "--nodiscover", "--port", "0"])
            }
        };
        let process = command
            .args(["--mine", "--minerthreads", "0", "--rpc", "--rpcport"])
            .arg(port.to_string())
            .arg("--datadir")
            .arg(&folder.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            process,
            _folder: folder,
            url: format!("http://127.0.0.1:{port}"),
        })
    }

    /// The reasons why the node has ended, if it has.
    fn ended(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok().flatten()?;
        Some(format!("the node has ended: {status}"))
    }
}

impl Drop for StartedNode {
    fn drop(&mut self) {
        #[cfg(unix)]
        // SAFETY: the call takes only numbers, and the process is a child that was not waited for.
        unsafe {
            libc::kill(self.process.id() as libc::pid_t, libc::SIGTERM);
        }
        let start = Instant::now();
        while cfg!(unix) && start.elapsed() < NODE_END_MAX {
            if !matches!(self.process.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a private network of this difficulty in `folder`.
fn initialize(program: &Path, folder: &Path, difficulty: f64) -> Result<(), FigureError> {
    let genesis = json!({
        "config": {"chainId": 4711, "panguBlock": 0},
        "difficulty": format!("{:#x}", difficulty as u64),
        "gasLimit": "0x1c9c380",
        "alloc": {},
    });
    let file = folder.join("genesis.json");
    std::fs::write(&file, genesis.to_string())
        .map_err(|error| FigureError::Other(format!("{}: {error}", file.display())))?;
    let ended = Command::new(program)
        .arg("init")
        .arg(&file)
        .arg("--datadir")
        .arg(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| FigureError::Other(format!("{}: {error}", program.display())))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(FigureError::Other(format!(
        "{} init: {}: {}",
        program.display(),
        ended.status,
        said.trim()
    )))
}

/// Mines for `time` with these devices. `hashrate` is what they are expected to have.
pub(super) fn mine(
    node: &SteadyNode,
    device: &DeviceChoice,
    threads: usize,
    hashrate: Option<f64>,
    time: Duration,
) -> FigureResult {
    let mut started = match node {
        SteadyNode::Url(_) => None,
        SteadyNode::Program(program) => Some(StartedNode::start(program, hashrate)?),
    };
    let url = match (node, &started) {
        (SteadyNode::Url(url), _) => url.clone(),
        (_, Some(started)) => started.url.clone(),
        _ => return Err(FigureError::NothingToCompare),
    };
    let endpoint = MiningEndpoint::parse(&url, "http").map_err(FigureError::other)?;
    let config = RigConfig {
        engine: EngineConfig {
            device: device.clone(),
            threads,
            kernels: KernelPolicy::Measured(None),
            bars: false,
            ..EngineConfig::default()
        },
        client: ClientConfig::new(vec![endpoint]),
        status: None,
        dashboard: None,
        status_hosts: Default::default(),
        log_every: Duration::from_secs(30),
        stall_timeout: None,
        api: None,
        care: CareConfig::default(),
        costs: CostConfig::default(),
        power_limit: None,
    };
    let (end, report) = run_for(config, &Screen::choose(true), time).map_err(FigureError::other)?;
    if end == RigEnd::Stopped {
        return Err(FigureError::Stopped);
    }
    if let Some(reason) = started.as_mut().and_then(StartedNode::ended) {
        return Err(FigureError::Other(reason));
    }
    let total = report.client.total();
    let connections: u64 = report
        .client
        .endpoints
        .iter()
        .map(|endpoint| endpoint.connections)
        .sum();
    if connections == 0 {
        let errors = report
            .client
            .endpoints
            .iter()
            .filter_map(|endpoint| endpoint.last_error.clone());
        let errors: Vec<_> = errors.collect();
        return Err(FigureError::Other(format!(
            "no connection to {url}: {}",
            errors.join("; ")
        )));
    }
    let devices: Value = (report.devices.iter())
        .map(|device| json!({"device": device.status.name, "average": device.status.average}))
        .collect();
    let seconds = report.uptime.as_secs_f64();
    let counts = json!({
        "accepted": total.accepted,
        "stale": total.stale,
        "rejected": total.rejected,
        "lost": total.lost,
        "unknown": total.unknown,
        "invalid": report.engine.hardware_errors,
    });
    Ok(merged(
        counts,
        json!({
            "value": report.engine.hashes as f64 / seconds,
            "unit": "H/s",
            "seconds": seconds,
            "found": report.engine.solutions,
            "jobs": report.client.jobs,
            "devices": devices,
        }),
    ))
}
