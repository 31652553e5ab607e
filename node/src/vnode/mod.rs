//! Runs the node from its start to its end.
//!
//! | step | module |
//! |---|---|
//! | 1. files that guard servers; light cache, data directory, accounts, chain | `base` |
//! | 2. the service for SCS servers, the network | `surroundings` |
//! | 3. what JSON-RPC works on | `context` |
//! | 4. servers, metrics and dashboard; the banner | here |
//! | 5. running until a signal or a failure, then stopping | here |
//!
//! At the end of the node all parts stop in parallel, so that a part that hangs does not keep the
//! others running. Stopping takes at most two seconds, or three if a driver hangs.

mod base;
mod context;
mod error;
mod surroundings;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chain::Chain;
use daemon::tls::ServerTls;
use daemon::{Screen, StopSignal};
use engine::dashboard::DashboardServer;
use engine::units::rate_text;
use keystore::AccountManager;
use metrics_exporter_prometheus::PrometheusHandle;
use network::known_rules;
use primitives::Address;
use rpc::server::Guards;
use rpc::{NetworkControl, Node, Rpc, ScsServiceControl};
use store::StoreError;

use self::base::NodeBase;
use self::error::system;
use self::surroundings::Surroundings;
use crate::banner::Banner;
use crate::dashboard::{self, DashboardParts};
use crate::guards::{GuardFiles, ReloadSignal};
use crate::logging;
use crate::mining::LocalMiner;
use crate::node_metrics::{
    self, MetricsServer, chain_collector, mining_collector, peer_collector, process_collector,
};
use crate::options::VnodeOptions;
use crate::scs::{self, NodeScsService};
use crate::servers::Servers;
use crate::service_manager::{self, ServiceNotice};
use crate::span_export;
use crate::sync_row;
use crate::system;
use crate::version::client_version;
use crate::vnodeconfig::VnodeConfig;
use crate::work_notices;

pub use error::{CompanionError, StartError};

/// Time between two logs of the hashrate while mining.
const HASHRATE_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two lines of a node that looks for peers and has none.
const NO_PEERS_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two checks that the chain still accepts blocks.
const FAILURE_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two checks for accounts whose unlock time is over.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the miner to stop: a little longer than the miner waits for its own
/// threads.
const MINER_STOP_TIMEOUT: Duration = Duration::from_millis(2500);

/// The running node, as its companion sees it.
pub struct RunningNode {
    /// The chain.
    pub chain: Chain,
    /// The data directory.
    pub directory: PathBuf,
    /// The address at which SCSs connect.
    pub service: SocketAddr,
    /// The service for SCS servers.
    pub control: Arc<dyn ScsServiceControl>,
    /// The addresses at which clients reach the node.
    pub endpoints: Vec<String>,
    /// The address that is paid for relaying.
    pub via: Address,
}

/// Runs beside the node until it is dropped, or until it fails.
pub type Companion =
    Box<dyn FnOnce(RunningNode) -> Pin<Box<dyn Future<Output = CompanionError> + Send>> + Send>;

/// Runs the node until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] if the node cannot start or cannot go on.
pub fn run(options: &VnodeOptions) -> Result<(), StartError> {
    run_node(
        options,
        |options| Ok(VnodeConfig::load(options.vnodeconfig.as_deref())?),
        None,
    )
}

/// Runs the node with these settings and a service for SCS servers, and `companion` beside it,
/// until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] if the node or the companion cannot start or cannot go on.
pub fn run_with(options: &VnodeOptions, config: VnodeConfig, companion: Companion) -> Result<(), StartError> {
    run_node(options, |_| Ok(config), Some(companion))
}

fn run_node(
    options: &VnodeOptions,
    config: impl FnOnce(&VnodeOptions) -> Result<VnodeConfig, StartError>,
    companion: Option<Companion>,
) -> Result<(), StartError> {
    options.check()?;
    let screen = logging::start(options.verbosity, &options.log)?;
    options.warn();
    system::raise_open_files();
    let runtime = system::network_threads().map_err(system("cannot start the network threads"))?;
    let options = options.clone().for_anvil();
    let result = runtime.block_on(async {
        // From here on signals do not end the process by themselves.
        let stop = StopSignal::listen().map_err(system("cannot listen for signals"))?;
        let recorded = options.metrics.map(|_| node_metrics::record()).transpose()?;
        let config = config(&options)?;
        Box::pin(serve(options, config, recorded, companion, stop, &screen)).await
    });
    // Threads that are still in a long call are not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    span_export::finish();
    result
}

async fn serve(
    options: VnodeOptions,
    config: VnodeConfig,
    recorded: Option<PrometheusHandle>,
    companion: Option<Companion>,
    stop: StopSignal,
    screen: &Screen,
) -> Result<(), StartError> {
    // Files that cannot be used end the start before anything else is done.
    let guards = NodeGuards::load(&options)?;
    let base = NodeBase::open(options)?;
    let miner = LocalMiner::new(&base.options, &base.seals.caches, &base.chain);
    let mining = if base.options.mine {
        base.chain.work().set_mining(true);
        miner.start(None)?
    } else {
        vec!["off (--mine starts it; other miners can get work)".to_owned()]
    };
    if let Some(notify) = base.options.miner_notify.clone() {
        work_notices::start(notify, &base.chain).map_err(StartError::Notices)?;
    }
    let around = Surroundings::start(&base, config, guards.scs, !screen.is_live()).await?;
    let (rpc, listeners) = context::make(&base, &miner, &around, &guards.json_rpc)?;
    let servers = Servers::start(
        &base.options,
        &rpc,
        listeners,
        &base.seals.caches,
        &base.directory,
        guards.stratum,
    )
    .await?;
    let mut node = ServedNode {
        base,
        miner,
        around,
        servers,
        metrics: None,
        dashboard: None,
    };
    node.show(&rpc, recorded).await?;
    node.print_banner(&mining)?;
    service_manager::tell(ServiceNotice::Ready);
    let failure = node.run(companion, stop, guards.reload, screen).await;
    screen.clear();
    tracing::info!("stopping");
    service_manager::tell(ServiceNotice::Stopping);
    Box::pin(node.stop()).await;
    tracing::info!("stopped");
    failure.map_or(Ok(()), Err)
}

/// The guards of the servers, read from files.
struct NodeGuards {
    json_rpc: Guards,
    scs: Option<Arc<ServerTls>>,
    stratum: Option<Arc<ServerTls>>,
    /// Reads the files again when SIGHUP comes.
    reload: ReloadSignal,
}

impl NodeGuards {
    fn load(options: &VnodeOptions) -> Result<Self, StartError> {
        let mut files = GuardFiles::default();
        Ok(Self {
            json_rpc: files.json_rpc(&options.access)?,
            scs: files.tls("--scs.tls", options.scs.tls_files(), &[scs::ALPN])?,
            stratum: files.tls("--stratum.tls", options.stratum_tls_files(), &[])?,
            reload: files.listen()?,
        })
    }
}

/// A node with all its parts.
struct ServedNode {
    base: NodeBase,
    miner: LocalMiner,
    around: Surroundings,
    servers: Servers,
    metrics: Option<MetricsServer>,
    dashboard: Option<DashboardServer>,
}

impl ServedNode {
    /// Serves metrics and dashboard, if the options say so.
    async fn show(
        &mut self,
        rpc: &Arc<Rpc<Node>>,
        recorded: Option<PrometheusHandle>,
    ) -> Result<(), StartError> {
        let NodeBase {
            options,
            directory,
            chain,
            seals,
            ..
        } = &self.base;
        if let Some((address, recorded)) = options.metrics.zip(recorded) {
            let collectors = vec![
                chain_collector(chain.clone(), directory.clone()),
                mining_collector(self.miner.clone(), chain.clone()),
                peer_collector(self.around.network.handle().clone()),
                seals.collector(),
                process_collector(),
            ];
            let hosts = options.rpcvhosts.clone();
            self.metrics = Some(MetricsServer::start(address, hosts, recorded, collectors).await?);
        }
        if let Some(address) = options.dashboard {
            let parts = DashboardParts {
                rpc,
                miner: self.miner.clone(),
                network: self.around.network.handle().clone(),
                stratum: self.servers.stratum(),
                metrics: self.metrics.as_ref().map(MetricsServer::source),
            };
            self.dashboard = Some(dashboard::start(address, options.rpcvhosts.clone(), parts).await?);
        }
        Ok(())
    }

    /// Prints version, network, accounts and endpoints. `mining` are lines about the miner.
    fn print_banner(&self, mining: &[String]) -> Result<(), StoreError> {
        let base = &self.base;
        let mut endpoints = self.servers.endpoints();
        endpoints.extend(self.dashboard.as_ref().map(dashboard::endpoint));
        endpoints.extend(self.metrics.as_ref().map(MetricsServer::endpoint));
        endpoints.extend(self.around.scs.as_ref().map(NodeScsService::endpoint));
        let view = base.chain.view()?;
        let genesis = view.canonical_hash(0)?.unwrap_or_default();
        if let Some(rules) = known_rules(&base.spec, genesis, view.head_number()) {
            tracing::info!(rules, network = base.spec.name, "the chain's rules are known");
        }
        let banner = Banner {
            version: &client_version(),
            spec: &base.spec,
            directory: &base.directory,
            view: &view,
            dev: base.options.dev,
            beneficiary: base.beneficiary,
            endpoints: &endpoints,
            enode: &self.around.registry.enode().to_string(),
            mining,
        };
        // The node also runs if standard output is closed.
        let _ = std::io::stdout().write_all(banner.text().as_bytes());
        Ok(())
    }

    /// Runs until a signal comes or the node cannot go on, which is then the result.
    async fn run(
        &self,
        companion: Option<Companion>,
        mut stop: StopSignal,
        mut reload: ReloadSignal,
        screen: &Screen,
    ) -> Option<StartError> {
        let chain = &self.base.chain;
        tokio::select! {
            () = stop.wait() => None,
            reason = chain_failure(chain) => Some(StartError::Failed(reason)),
            error = self.accompany(companion) => Some(StartError::Companion(error)),
            () = log_hashrate(&self.miner) => None,
            () = sync_row::show(screen, self.around.network.handle()) => None,
            () = self.log_missing_peers() => None,
            () = expire_accounts(&self.base.accounts) => None,
            never = service_manager::tell_alive(chain) => match never {},
            never = reload.follow() => match never {},
        }
    }

    /// Logs a line now and then while the node looks for peers and has none, for ever.
    async fn log_missing_peers(&self) {
        let options = &self.base.options;
        if !options.peers.has_discovery(options.is_alone()) || options.peers.maxpeers == 0 {
            return std::future::pending().await;
        }
        let mut interval = tokio::time::interval(NO_PEERS_INTERVAL);
        interval.tick().await;
        loop {
            interval.tick().await;
            let network = self.around.network.handle();
            if network.peer_count() == 0 {
                let head = network.sync_progress().head;
                tracing::info!(head, "no peers: looking for nodes of this network");
            }
        }
    }

    /// Runs the companion, if there is one. Returns only if it fails.
    async fn accompany(&self, companion: Option<Companion>) -> CompanionError {
        let chain = &self.base.chain;
        match companion.zip(self.around.scs.as_ref()) {
            Some((companion, scs)) => {
                let node = RunningNode {
                    chain: chain.clone(),
                    directory: self.base.directory.clone(),
                    service: scs.address(),
                    control: scs.control(chain),
                    endpoints: self.servers.endpoints(),
                    via: self.around.config.beneficial_address.unwrap_or_default(),
                };
                companion(node).await
            }
            None => std::future::pending().await,
        }
    }

    /// Stops the servers, and then the chain, the SCS service and the network. A share or a
    /// solution that the servers still judge may be a block. The miner stops beside all of them.
    async fn stop(self) {
        drop((self.metrics, self.dashboard));
        let (miner, seals) = (self.miner, self.base.seals);
        let (chain, index) = (self.base.chain, self.base.index);
        let stop_cards = move || {
            seals.close();
            miner.stop();
        };
        let stop_chain = move || {
            drop(index.map(|built| built.builder));
            chain.stop();
        };
        let stop_scs = async {
            if let Some(scs) = self.around.scs {
                scs.stop().await;
            }
        };
        let stop_others = async {
            self.servers.stop().await;
            let chain = tokio::task::spawn_blocking(stop_chain);
            let (chain, (), ()) = tokio::join!(chain, stop_scs, self.around.network.stop());
            if chain.is_err() {
                tracing::error!("the chain panicked while it stopped");
            }
        };
        stop_both(stop_cards, stop_others).await;
    }
}

/// Stops the miner beside the other parts; neither waits for the other.
async fn stop_both(stop_miner: impl FnOnce() + Send + 'static, stop_others: impl Future<Output = ()>) {
    let miner = tokio::task::spawn_blocking(stop_miner);
    let (miner, ()) = tokio::join!(tokio::time::timeout(MINER_STOP_TIMEOUT, miner), stop_others);
    match miner {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::error!("the miner panicked while it stopped"),
        Err(_) => tracing::error!(
            "the miner does not stop, perhaps because a driver hangs; the node ends without it"
        ),
    }
}

async fn log_hashrate(miner: &LocalMiner) {
    let mut interval = tokio::time::interval(HASHRATE_INTERVAL);
    interval.tick().await;
    loop {
        interval.tick().await;
        // Reading may wait for a lock, so it runs on a thread for blocking work.
        let miner = miner.clone();
        let devices = tokio::task::spawn_blocking(move || miner.devices()).await;
        for (device, rate) in devices.unwrap_or_default() {
            tracing::info!(device, rate = rate_text(rate), "hashrate");
        }
    }
}

/// Waits until the chain can accept no more blocks. Returns the reason.
async fn chain_failure(chain: &Chain) -> String {
    let mut interval = tokio::time::interval(FAILURE_INTERVAL);
    loop {
        interval.tick().await;
        if let Some(reason) = chain.failure() {
            return reason;
        }
    }
}

/// Locks accounts again when their unlock time is over.
async fn expire_accounts(accounts: &AccountManager) {
    let mut interval = tokio::time::interval(EXPIRE_INTERVAL);
    loop {
        interval.tick().await;
        accounts.lock_expired();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_miner_that_hangs_does_not_keep_the_chain_running() {
        let (release, released) = mpsc::channel::<()>();
        let (sender, stopped) = mpsc::channel();
        let node = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let chain = sender.clone();
            runtime.block_on(stop_both(
                move || {
                    let _ = released.recv();
                },
                async move { chain.send("chain").unwrap() },
            ));
            sender.send("node").unwrap();
            runtime.shutdown_background();
        });
        let timeout = Duration::from_secs(20);
        assert_eq!(stopped.recv_timeout(timeout), Ok("chain"));
        assert_eq!(
            stopped.recv_timeout(timeout),
            Ok("node"),
            "the node waits for the miner"
        );
        node.join().unwrap();
        drop(release);
    }
}
