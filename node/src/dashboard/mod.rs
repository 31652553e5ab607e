//! The dashboard of the node, served at `--dashboard`: what a miner's dashboard shows, and the
//! chain, the workers of the Stratum server, rewards, and an explorer.
//!
//! The page and its server are those of the package `miner`. This module collects the figures.
//!
//! | subject | module |
//! |---|---|
//! | blocks as rows of tables | `blocks` |
//! | rewards of the last day | `rewards` |
//! | blocks, transactions and accounts by name | `explorer` |

mod blocks;
mod explorer;
mod rewards;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use chain::Chain;
use daemon::listen_text;
use daemon::status::{PageFuture, status_page};
use engine::ClientStatus;
use engine::dashboard::{DashboardServer, DashboardSource};
use engine::monitor::{DeviceObserver, RigReport};
use network::{NetworkHandle, SyncState};
use parking_lot::Mutex;
use rpc::server::Hosts;
use rpc::{Node, NodeFacts, Rpc};
use serde_json::{Value, json};
use store::StoreError;
use stratum_server::StratumObserver;

use self::blocks::{block_row, lost_races};
pub use self::explorer::ChainExplorer;
use self::rewards::RewardLedger;
use crate::mining::LocalMiner;
use crate::node_metrics::NodeMetrics;
use crate::sync_rate::SyncRate;

/// The most blocks in the list of the last ones.
const LAST_BLOCKS: u64 = 12;
/// The most workers that are shown.
const WORKERS_MAX: usize = 100;
/// The name of all workers of the Stratum server together, in the history of hashrates.
const WORKERS_NAME: &str = "stratum";

/// An error that keeps the dashboard from being served.
#[derive(Debug, thiserror::Error)]
#[error("{}", listen_text(address, source, &format!("--dashboard {address}")))]
pub struct DashboardError {
    address: SocketAddr,
    source: io::Error,
}

/// The parts of a node that its dashboard shows.
pub(crate) struct DashboardParts<'a> {
    pub(crate) rpc: &'a Arc<Rpc<Node>>,
    pub(crate) miner: LocalMiner,
    pub(crate) network: NetworkHandle,
    pub(crate) stratum: Option<StratumObserver>,
    /// The metrics, if they are recorded. They are at `/metrics` here, too.
    pub(crate) metrics: Option<Arc<NodeMetrics>>,
}

/// Serves the dashboard at `address`. Requests must name one of `hosts`.
///
/// # Errors
/// [`DashboardError`] if the address cannot be listened on.
pub(crate) async fn start(
    address: SocketAddr,
    hosts: Hosts,
    parts: DashboardParts<'_>,
) -> Result<DashboardServer, DashboardError> {
    let node = Arc::clone(parts.rpc.context());
    let source = NodeFigures {
        started: Instant::now(),
        chain: node.chain.clone(),
        explorer: ChainExplorer::new(Arc::new(parts.rpc.dispatcher(&ChainExplorer::modules()))),
        node,
        miner: parts.miner,
        network: parts.network,
        stratum: parts.stratum,
        metrics: parts.metrics,
        devices: DeviceObserver::start(),
        rewards: Mutex::default(),
        sync: Mutex::default(),
    };
    serve(address, hosts, Arc::new(source)).await
}

/// Serves the dashboard of `source` at `address`, the value of `--dashboard`. Requests must name
/// one of `hosts`.
///
/// # Errors
/// [`DashboardError`] if the address cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    hosts: Hosts,
    source: Arc<dyn DashboardSource>,
) -> Result<DashboardServer, DashboardError> {
    engine::dashboard::serve(address, hosts, source)
        .await
        .map_err(|source| DashboardError { address, source })
}

/// The address of the dashboard, as text for the banner.
pub fn endpoint(server: &DashboardServer) -> String {
    format!("http dashboard http://{}/", server.address())
}

/// Collects the figures of a node.
struct NodeFigures {
    started: Instant,
    chain: Chain,
    node: Arc<Node>,
    miner: LocalMiner,
    network: NetworkHandle,
    stratum: Option<StratumObserver>,
    metrics: Option<Arc<NodeMetrics>>,
    devices: DeviceObserver,
    explorer: ChainExplorer,
    rewards: Mutex<RewardLedger>,
    /// The speed of the head while the node synchronizes, and the last rate in blocks a second.
    sync: Mutex<(SyncRate, f64)>,
}

impl NodeFigures {
    /// The figures of the devices, in the form of a miner's status.
    fn rig(&self) -> Value {
        let (engine, answers) = self.miner.figures().unwrap_or_default();
        let devices = self.devices.reports(&engine.devices, &answers.devices);
        let report = RigReport {
            uptime: self.started.elapsed(),
            engine,
            client: ClientStatus {
                devices: answers.devices,
                ..ClientStatus::default()
            },
            devices,
        };
        report.to_json()
    }

    /// The figures of the chain and of all that has to do with it.
    fn chain(&self) -> Result<Value, StoreError> {
        let (chain, spec) = (&self.chain, self.chain.spec());
        let view = chain.view()?;
        let (head, next) = (view.head(), view.head_number() + 1);
        let header = &head.header;
        let epoch = spec.schedule.epoch(next);
        let own = chain.settings().beneficiary;
        let own = (!own.is_zero()).then_some(own);
        let mut blocks = Vec::new();
        for number in (0..next).rev().take(LAST_BLOCKS as usize) {
            if let Some(block) = view.block(number)? {
                let mut row = block_row(&view, &block, own)?;
                row["finder"] = self.finder(&block.record.header.header_hash()).into();
                blocks.push(row);
            }
        }
        let (pending, queued) = chain.pool().counts();
        let peers = self.network.peers();
        let inbound = peers.iter().filter(|peer| peer.is_inbound).count();
        Ok(json!({
            "client": self.node.client_version(),
            "network": {
                "name": spec.name,
                "network_id": self.node.network_id(),
                "chain_id": chain.chain_id(),
            },
            "mining": chain.work().mining(),
            "beneficiary": own.map(|address| address.to_string()),
            "head": {
                "number": header.number,
                "hash": view.head_hash().to_string(),
                "time_s": header.timestamp,
                "difficulty": header.difficulty.to_string(),
                "total_difficulty": head.total_difficulty.to_string(),
                "gas_limit": header.gas_limit,
                "gas_used": header.gas_used,
            },
            "next": {
                "number": next,
                "epoch": epoch.index,
                "epoch_first": epoch.first_block(),
                "epoch_blocks": epoch.length(),
            },
            "failure": chain.failure(),
            "work_pause": chain.work_pause().map(|reason| reason.to_string()),
            "sync": sync_json(&self.network.sync_progress(), self.sync.lock().1),
            "peers": {"inbound": inbound, "outbound": peers.len() - inbound},
            "pool": {"pending": pending, "queued": queued},
            "reported_hashrate": chain.work().reported_hashrate().to_string(),
            "stratum": self.stratum.as_ref().map(|server| server.figures(WORKERS_MAX)),
            "blocks": blocks,
            "lost_races": lost_races(&view, &chain.sealed_blocks())?,
            "rewards": self.rewards.lock().to_json(),
        }))
    }

    /// The device or the worker that found the block with this header hash.
    fn finder(&self, header_hash: &primitives::B256) -> Option<String> {
        let worker = || self.stratum.as_ref()?.finder(header_hash);
        self.miner.finder(header_hash).or_else(worker)
    }

    /// Follows the head: the rewards, and how fast the head moves.
    fn follow(&self) {
        let progress = self.network.sync_progress();
        {
            let (rate, last) = &mut *self.sync.lock();
            match progress.started_at {
                Some(_) => *last = rate.follow(Instant::now(), progress.head),
                None => (*rate, *last) = Default::default(),
            }
        }
        let own = self.chain.settings().beneficiary;
        let followed = self.chain.view().and_then(|view| {
            self.rewards
                .lock()
                .follow(&view, own, chain::unix_now().as_secs())
        });
        if let Err(error) = followed {
            tracing::debug!(%error, "the rewards for the dashboard cannot be read");
        }
    }
}

/// The synchronization as JSON; `rate` are blocks a second.
fn sync_json(progress: &SyncState, rate: f64) -> Value {
    let left = progress.highest.saturating_sub(progress.head) as f64 / rate;
    json!({
        "stage": progress.stage().name(),
        "from": progress.started_at,
        "head": progress.head,
        "best_header": progress.best_header,
        "highest": progress.highest,
        "missing": progress.missing,
        "blocks_per_s": rate,
        "left_s": left.is_finite().then_some(left),
    })
}

impl DashboardSource for NodeFigures {
    fn status(&self) -> Value {
        let mut status = self.rig();
        status["program"] = "vnode".into();
        match self.chain() {
            Ok(chain) => status["node"] = chain,
            Err(error) => {
                tracing::warn!(%error, "the chain cannot be read for the dashboard");
                status["error"] = format!("the chain cannot be read: {error}").into();
            }
        }
        status
    }

    fn rates(&self) -> Vec<(String, f64)> {
        self.follow();
        let mut rates = self.miner.devices();
        if let Some(stratum) = &self.stratum {
            rates.push((WORKERS_NAME.to_owned(), stratum.hashrate()));
        }
        rates
    }

    fn other_page<'a>(&'a self, path: &'a str, client: daemon::ClientId) -> Option<PageFuture<'a>> {
        match (&self.metrics, path) {
            (Some(metrics), "/metrics" | "/health") => {
                let page = status_page(path, &**metrics);
                Some(Box::pin(std::future::ready(page)))
            }
            _ => self.explorer.page(path, client),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_needs_a_rate() {
        let progress = SyncState {
            started_at: Some(10),
            head: 100,
            best_header: 200,
            highest: 300,
            missing: 100,
            far_behind: true,
            state: None,
        };
        let known = sync_json(&progress, 50.0);
        assert_eq!((&known["left_s"], &known["from"]), (&json!(4.0), &json!(10)));
        assert_eq!(sync_json(&progress, 0.0)["left_s"], Value::Null);
        assert_eq!(sync_json(&SyncState::default(), 0.0)["stage"], "idle");
    }
}
