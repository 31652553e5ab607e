//! Metrics of the whole node for Prometheus, served at `--metrics`; also of an SCS.
//!
//! Parts of the node record what happens through the `metrics` crate. What is a state, such as the
//! number of peers, is read by a [`Collector`] whenever the metrics are asked for. All names begin
//! with `vnode_`, but for those of the process, `process_`. Without `--metrics` nothing is
//! recorded.

mod chain;
mod peers;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::listen_text;
use daemon::status::{self, StatusServer, StatusSource};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use rpc::server::Hosts;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::version::client_version;

pub use chain::process_collector;
pub(crate) use chain::{chain_collector, mining_collector};
pub(crate) use peers::peer_collector;

/// Upper bounds of the buckets of times, in seconds.
const TIME_BUCKETS: [f64; 14] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0,
];
/// The same for calls of JSON-RPC, most of which take some microseconds.
const RPC_BUCKETS: [f64; 12] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0,
];
/// The same for depths of reorganizations, in blocks.
const DEPTH_BUCKETS: [f64; 8] = [1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0];
/// Time between two moves of recorded times into their buckets. They take no memory while nobody
/// asks.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Reads states into gauges and counters.
pub type Collector = Box<dyn Fn() + Send + Sync>;

/// An error that keeps metrics from being served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The recorder cannot be made.
    #[error("--metrics: {0}")]
    Recorder(#[from] BuildError),
    /// The address cannot be listened on.
    #[error("{}", listen_text(address, source, &format!("--metrics {address}")))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}

/// Records from now on what the parts of the node report.
///
/// # Errors
/// [`MetricsError::Recorder`] if this process records already.
pub fn record() -> Result<PrometheusHandle, MetricsError> {
    let full = |name: &str| Matcher::Full(name.to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets(&TIME_BUCKETS)?
        .set_buckets_for_metric(full("vnode_rpc_seconds"), &RPC_BUCKETS)?
        .set_buckets_for_metric(full("vnode_reorganization_blocks"), &DEPTH_BUCKETS)?;
    Ok(builder.install_recorder()?)
}

/// The server of the metrics. Dropping it ends it.
pub struct MetricsServer {
    source: Arc<NodeMetrics>,
    server: StatusServer,
    upkeep: JoinHandle<()>,
}

impl MetricsServer {
    /// Serves what `recorded` has and what `collectors` read. Requests must name one of `hosts`.
    ///
    /// # Errors
    /// [`MetricsError::Listen`] if the address cannot be listened on.
    pub async fn start(
        address: SocketAddr,
        hosts: Hosts,
        recorded: PrometheusHandle,
        collectors: Vec<Collector>,
    ) -> Result<Self, MetricsError> {
        let source = Arc::new(NodeMetrics {
            recorded: recorded.clone(),
            collectors,
        });
        let server = status::serve(address, hosts, source.clone())
            .await
            .map_err(|source| MetricsError::Listen { address, source })?;
        let upkeep = tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP_INTERVAL).await;
                recorded.run_upkeep();
            }
        });
        Ok(Self {
            source,
            server,
            upkeep,
        })
    }

    /// The metrics, for other servers that show them, too.
    pub(crate) fn source(&self) -> Arc<NodeMetrics> {
        Arc::clone(&self.source)
    }

    /// The address of the metrics, as text for the banner.
    pub fn endpoint(&self) -> String {
        format!("http metrics http://{}/metrics", self.server.address())
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

/// The metrics of a node.
pub(crate) struct NodeMetrics {
    recorded: PrometheusHandle,
    collectors: Vec<Collector>,
}

impl StatusSource for NodeMetrics {
    fn json(&self) -> Value {
        json!({ "client": client_version() })
    }

    fn metrics(&self) -> String {
        for collect in &self.collectors {
            collect();
        }
        self.recorded.render()
    }

    fn health(&self) -> (bool, &'static str) {
        (true, "the node runs")
    }
}
