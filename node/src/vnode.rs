//! Runs the node from its start to its end.
//!
//! Order of the start: options, log, light cache (which takes longest, so it starts first), store,
//! chain, miner, service for SCS servers, other servers, banner. When the node stops, all parts
//! stop in parallel, so that a part that hangs does not keep the others running. Stopping takes at
//! most two seconds, or three if a driver hangs.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain::chain::ChainOpenError;
use chain::rules::seal::SealCheck;
use chain::spec::{ChainFamily, DEV_ACCOUNTS};
use chain::{Chain, ChainConfig, ChainSpec};
use ethash::LightCaches;
use keystore::AccountManager;
use miner::StopSignal;
use miner::display::{Screen, rate_text};
use network::known_rules;
use network::service::{NetworkHandle, NetworkStartError};
use primitives::{Address, SecretKey};
use rpc::developer::DeveloperError;
use rpc::{Limits, NodeSettings, Rpc, VnodeSettings};
use rpc::{NetworkControl, NodeFacts, SyncStatus};
use store::{Store, StoreError};

use crate::accounts::{self, AccountsError};
use crate::banner::Banner;
use crate::config_file::ConfigError;
use crate::dashboard::{self, DashboardError, DashboardParts};
use crate::data_directory::{DataDirectory, DataDirectoryError, OpenPurpose};
use crate::guards::{GuardFiles, GuardsError};
use crate::listener::{ListenerKind, RpcListener};
use crate::logging::{self, LogStartError};
use crate::mining::LocalMiner;
use crate::node_metrics::{
    self, MetricsError, MetricsServer, chain_collector, mining_collector, peer_collector, process_collector,
};
use crate::nodekey::{self, NodeKeyError};
use crate::options::{DevSeal, Network, OptionsError, VnodeOptions};
use crate::peers::{self, NetworkError, NetworkParts, PeerRegistry};
use crate::scs::{self, NodeScsService, ScsStartError};
use crate::scs_demo::{self, DemoOptions, DemoStage, ScsDemoError};
use crate::servers::{Listeners, Servers, ServersError};
use crate::service_manager::{self, ServiceNotice};
use crate::span_export;
use crate::sync_row;
use crate::system;
use crate::version::{client_version, client_version_of};
use crate::vnodeconfig::VnodeConfig;

/// Time between two logs of the hashrate while mining.
const HASHRATE_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two checks that the chain still accepts blocks.
const FAILURE_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two checks for accounts whose unlock time is over.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);
/// How long the node waits for the miner to stop: a little longer than the miner waits for its own
/// threads.
const MINER_STOP_TIMEOUT: Duration = Duration::from_millis(2500);
/// How long running requests may go on when the node stops.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Why a node did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogStartError),
    /// `vnodeconfig.json` cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DataDirectoryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Accounts cannot be read or unlocked.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The chain cannot be opened.
    #[error(transparent)]
    Chain(#[from] ChainOpenError),
    /// The miner cannot start.
    #[error(transparent)]
    Miner(#[from] miner::MinerError),
    /// The context of the JSON-RPC methods cannot be created.
    #[error(transparent)]
    Node(#[from] rpc::NodeError),
    /// A server cannot start.
    #[error(transparent)]
    Servers(#[from] ServersError),
    /// The files with certificates, keys or tokens cannot be used.
    #[error(transparent)]
    Guards(#[from] GuardsError),
    /// The service for SCS servers cannot start.
    #[error(transparent)]
    Scs(#[from] ScsStartError),
    /// The node's own key cannot be read or created.
    #[error(transparent)]
    NodeKey(#[from] NodeKeyError),
    /// The stored lists of peers and subnets cannot be used.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The demo failed.
    #[error("scs-demo: {0}")]
    Demo(#[from] ScsDemoError),
    /// The peer-to-peer network cannot start.
    #[error(transparent)]
    Peers(#[from] NetworkStartError),
    /// The metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The dashboard cannot be served.
    #[error(transparent)]
    Dashboard(#[from] DashboardError),
    /// The first block of a development network cannot be made.
    #[error(transparent)]
    Developer(#[from] Box<DeveloperError>),
    /// The chain can accept no more blocks.
    #[error("stopped, because the chain can accept no more blocks: {0}")]
    Failed(String),
    /// The system failed to provide threads or signals.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

struct VnodeFacts {
    version: String,
    network_id: u64,
    network: NetworkHandle,
}

impl NodeFacts for VnodeFacts {
    fn client_version(&self) -> &str {
        &self.version
    }

    fn network_id(&self) -> u64 {
        self.network_id
    }

    /// A node that runs listens: it does not start otherwise.
    fn is_listening(&self) -> bool {
        true
    }

    fn peer_count(&self) -> u64 {
        self.network.peer_count() as u64
    }

    fn sync_status(&self) -> Option<SyncStatus> {
        let (starting_block, highest_block) = self.network.sync_status()?;
        Some(SyncStatus {
            starting_block,
            highest_block,
        })
    }
}

/// Runs the node until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] if the node cannot start or cannot go on.
pub fn run(options: &VnodeOptions) -> Result<(), StartError> {
    run_node(options, None)
}

/// Runs the node of the development network, three SCSs and a MicroChain until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] if the node or an SCS cannot start or cannot go on.
pub fn run_demo(
    options: &VnodeOptions,
    rpc_port: u16,
    scs_port: u16,
    period_secs: u64,
) -> Result<(), StartError> {
    let options = VnodeOptions {
        command: None,
        dev: true,
        mine: true,
        rpc: true,
        rpcport: rpc_port,
        rpcapi: "chain3,mc,net,vnode,txpool,personal".parse().unwrap_or_default(),
        ..options.clone()
    };
    let demo = DemoOptions {
        scs_port,
        period_secs,
    };
    run_node(&options, Some(demo))
}

fn run_node(options: &VnodeOptions, demo: Option<DemoOptions>) -> Result<(), StartError> {
    options.check()?;
    let screen = logging::start(options.verbosity, &options.log)?;
    system::raise_open_files();
    let runtime = system::network_threads().map_err(system("cannot start the network threads"))?;
    let result = runtime.block_on(serve(options, demo, &screen));
    // Threads that are still in a long call are not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    span_export::finish();
    result
}

async fn serve(options: &VnodeOptions, demo: Option<DemoOptions>, screen: &Screen) -> Result<(), StartError> {
    let options = &options.clone().for_anvil();
    let mut stop = StopSignal::listen().map_err(system("cannot listen for signals"))?;
    let recorded = options.metrics.map(|_| node_metrics::record()).transpose()?;
    let config = match demo {
        None => VnodeConfig::load(options.vnodeconfig.as_deref())?,
        Some(_) => VnodeConfig {
            scs_service: true,
            service_cfg: "localhost:0".to_owned(),
            beneficial_address: Some(DEV_ACCOUNTS[0].0),
            ..VnodeConfig::default()
        },
    };
    // Files that cannot be used end the start before anything else is done.
    let mut files = GuardFiles::default();
    let guards = files.json_rpc(&options.access)?;
    let scs_tls = files.tls("--scs.tls", options.scs.tls_files(), &[scs::ALPN])?;
    let stratum_tls = files.tls("--stratum.tls", options.stratum_tls_files(), &[])?;
    let mut reload = files.listen()?;
    let caches = LightCaches::new();
    if options.network()? == Some(Network::Dev) && options.dev_seal == DevSeal::Ethash {
        // Building the light cache takes longest at a first start. Here its epoch is known already.
        caches.prepare(ChainSpec::dev().schedule.epoch(0));
    }
    let DataDirectory {
        path: directory,
        store,
        spec,
        dev,
    } = DataDirectory::open(options, OpenPurpose::Run)?;
    // From here on `dev` is true for the development network, whether an option or the directory
    // named it.
    let options = &VnodeOptions {
        dev,
        ..options.clone()
    };
    if options.dev_seal == DevSeal::Instant && !dev {
        let option = if options.dev_anvil {
            "--dev.anvil"
        } else {
            "--dev.seal instant"
        };
        return Err(OptionsError::SealNetwork(option).into());
    }
    let (accounts, warnings) = accounts::open(options, &directory)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if dev {
        add_dev_accounts(&accounts);
    }
    accounts::unlock(options, &accounts)?;
    let beneficiary = beneficiary(options, &accounts, &spec)?;
    let chain = open_chain(options, &spec, &caches, store, &directory, &accounts, beneficiary)?;
    let miner = LocalMiner::new(options, &caches, &chain);
    let mining = if options.mine {
        chain.work().set_mining(true);
        miner.start(None)?
    } else {
        vec!["off (--mine starts it; other miners can get work)".to_owned()]
    };

    let node_key = nodekey::load(options, &directory)?;
    let scs = NodeScsService::start(&options.scs, scs_tls, &config, &node_key, &chain).await?;
    let config = announced(config, scs.as_ref());
    let registry = Arc::new(PeerRegistry::open(&node_key, &config, &directory)?);
    let parts = NetworkParts {
        key: &node_key,
        chain: &chain,
        folder: &directory,
        registry: &registry,
        is_dev: dev,
        has_progress_lines: !screen.is_live(),
    };
    let network = peers::start(&options.peers, parts).await?;
    scs::connect(network.handle(), &chain, scs.as_ref());
    let client = client_version_of(options.peers.identity.as_ref());
    let facts = VnodeFacts {
        version: if options.dev_anvil {
            format!("anvil/{client}")
        } else {
            client
        },
        network_id: spec.network_id,
        network: network.handle().clone(),
    };
    let listener = |kind| Arc::new(RpcListener::new(kind, options.rpcvhosts.clone(), guards.clone()));
    let listeners = Listeners {
        http: listener(ListenerKind::Http),
        ws: listener(ListenerKind::WebSocket),
    };
    let node = rpc::Node::new(
        chain.clone(),
        accounts.clone(),
        Box::new(facts),
        Arc::new(miner.clone()),
    )?
    .with_filter_limits(options.limits.filters())
    .with_settings(settings(options, &config, &directory, spec.family))
    .with_listener(listeners.http.clone())
    .with_ws_listener(listeners.ws.clone())
    .with_network(registry.clone());
    let node = match options.dev_seal {
        DevSeal::Instant => node.with_automine(),
        DevSeal::Ethash => node,
    };
    let node = if options.dev_anvil {
        node.with_present_head().map_err(Box::new)?
    } else {
        node
    };
    let node = match &scs {
        Some(scs) => node.with_scs_service(scs.control(&chain)),
        None => node,
    };
    let limits = Limits {
        stop_grace: STOP_GRACE,
        ..options.limits.servers()
    };
    let rpc = Rpc::new(Arc::new(node), methods(options), limits)
        .expect("the table of methods is checked by the tests of `rpc`");
    listeners.http.set_methods(&rpc);
    listeners.ws.set_methods(&rpc);
    let servers = Servers::start(options, &rpc, listeners, &caches, &directory, stratum_tls).await?;
    let metrics = match options.metrics.zip(recorded) {
        Some((address, recorded)) => {
            let collectors = vec![
                chain_collector(chain.clone(), directory.clone()),
                mining_collector(miner.clone(), chain.clone()),
                peer_collector(network.handle().clone()),
                process_collector(),
            ];
            let hosts = options.rpcvhosts.clone();
            Some(MetricsServer::start(address, hosts, recorded, collectors).await?)
        }
        None => None,
    };
    let dashboard = match options.dashboard {
        Some(address) => {
            let parts = DashboardParts {
                rpc: &rpc,
                miner: miner.clone(),
                network: network.handle().clone(),
                stratum: servers.stratum(),
            };
            Some(dashboard::start(address, options.rpcvhosts.clone(), parts).await?)
        }
        None => None,
    };
    let mut endpoints = servers.endpoints();
    endpoints.extend(dashboard.as_ref().map(dashboard::endpoint));
    endpoints.extend(metrics.as_ref().map(MetricsServer::endpoint));
    endpoints.extend(scs.as_ref().map(NodeScsService::endpoint));
    let view = chain.view()?;
    let enode = registry.enode().to_string();
    let genesis = view.canonical_hash(0)?.unwrap_or_default();
    if let Some(rules) = known_rules(&spec, genesis, view.head_number()) {
        tracing::info!(rules, network = spec.name, "rules");
    }
    let banner = Banner {
        version: &client_version(),
        spec: &spec,
        directory: &directory,
        view: &view,
        dev,
        beneficiary,
        endpoints: &endpoints,
        enode: &enode,
        mining: &mining,
    };
    // The node also runs if standard output is closed.
    let _ = std::io::stdout().write_all(banner.text().as_bytes());
    drop(view);
    service_manager::tell(ServiceNotice::Ready);

    let stage = demo.zip(scs.as_ref()).map(|(demo, scs)| {
        let stage = DemoStage {
            chain: chain.clone(),
            directory: directory.clone(),
            service: scs.address(),
            control: scs.control(&chain),
            endpoints: servers.endpoints(),
            via: config.beneficial_address.unwrap_or_default(),
        };
        (stage, demo)
    });
    let failure = tokio::select! {
        () = stop.wait() => None,
        reason = chain_failure(&chain) => Some(StartError::Failed(reason)),
        error = play(stage) => Some(error.into()),
        () = log_hashrate(&miner) => None,
        () = sync_row::show(screen, network.handle()) => None,
        () = expire_accounts(&accounts) => None,
        never = service_manager::tell_alive(&chain) => match never {},
        never = reload.follow() => match never {},
    };
    screen.clear();
    tracing::info!("stopping");
    service_manager::tell(ServiceNotice::Stopping);
    drop((metrics, dashboard));
    let miner_and_chain = stop_both(move || miner.stop(), move || chain.stop());
    let stop_scs = async {
        if let Some(scs) = scs {
            scs.stop().await;
        }
    };
    tokio::join!(miner_and_chain, servers.stop(), stop_scs, network.stop());
    tracing::info!("stopped");
    failure.map_or(Ok(()), Err)
}

/// Runs the demo, if there is one. Returns only if it fails.
async fn play(demo: Option<(DemoStage, DemoOptions)>) -> ScsDemoError {
    match demo {
        Some((stage, options)) => Box::pin(scs_demo::run(stage, options)).await,
        None => std::future::pending().await,
    }
}

/// The settings with the real port of the service for SCS servers, as peers and clients see it.
fn announced(config: VnodeConfig, scs: Option<&NodeScsService>) -> VnodeConfig {
    let service_cfg = scs.map(|scs| format!(":{}", scs.address().port()));
    VnodeConfig {
        service_cfg: service_cfg.unwrap_or_else(|| config.service_cfg.clone()),
        ..config
    }
}

/// Stops miner and chain in parallel; neither waits for the other.
async fn stop_both(stop_miner: impl FnOnce() + Send + 'static, stop_chain: impl FnOnce() + Send + 'static) {
    let miner = tokio::task::spawn_blocking(stop_miner);
    let chain = tokio::task::spawn_blocking(stop_chain);
    let (miner, chain) = tokio::join!(tokio::time::timeout(MINER_STOP_TIMEOUT, miner), chain);
    match miner {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::error!("the miner panicked while it stopped"),
        Err(_) => tracing::error!(
            "the miner does not stop, perhaps because a driver hangs; the node ends without it"
        ),
    }
    if chain.is_err() {
        tracing::error!("the chain panicked while it stopped");
    }
}

/// Adds the development network's accounts, unlocked.
fn add_dev_accounts(accounts: &AccountManager) {
    for (_, key) in DEV_ACCOUNTS {
        accounts.add_unlocked(SecretKey::from_hex(key).expect("a constant, checked by a test of `chain`"));
    }
}

/// The address that receives the rewards of mined blocks: `--moacbase`, or the first account if
/// there is one.
fn beneficiary(
    options: &VnodeOptions,
    accounts: &AccountManager,
    spec: &ChainSpec,
) -> Result<Option<Address>, OptionsError> {
    let first = || accounts.accounts().first().map(|account| account.address);
    let beneficiary = match options.moacbase {
        Some(address) => Some(address),
        None if options.dev => Some(DEV_ACCOUNTS[0].0),
        None => first(),
    };
    match beneficiary {
        None if options.mine => Err(OptionsError::NoBeneficiary(spec.name.clone())),
        None => {
            tracing::warn!("blocks that other miners find pay nobody: give --moacbase ADDRESS");
            Ok(None)
        }
        some => Ok(some),
    }
}

fn open_chain(
    options: &VnodeOptions,
    spec: &Arc<ChainSpec>,
    caches: &LightCaches,
    store: Store,
    directory: &Path,
    accounts: &AccountManager,
    beneficiary: Option<Address>,
) -> Result<Chain, ChainOpenError> {
    let chain = Chain::open(
        store,
        ChainConfig {
            spec: spec.clone(),
            seals: match options.dev_seal {
                DevSeal::Ethash => SealCheck::Ethash(caches.clone()),
                DevSeal::Instant => SealCheck::Off,
            },
            forks: options.fork_limits(),
            pool: options
                .txpool
                .config(spec, directory, accounts, options.mine, options.gasprice),
            beneficiary: beneficiary.unwrap_or_default(),
            extra_data: options.extra_data().into(),
            states: options.state.unwrap_or_default(),
        },
    )?;
    let next = chain.view()?.head_number() + 1;
    if options.dev_seal == DevSeal::Ethash {
        caches.prepare(spec.schedule.epoch(next));
    }
    chain.change_settings(|settings| settings.gas_target = options.targetgaslimit);
    Ok(chain)
}

/// The methods to serve, with or without their aliases.
fn methods(options: &VnodeOptions) -> Vec<rpc::Method<rpc::Node>> {
    let rows = rpc::methods::all();
    if options.rpc_noalias {
        rows.into_iter().map(rpc::Method::without_alias).collect()
    } else {
        rows
    }
}

/// The settings that methods read.
fn settings(
    options: &VnodeOptions,
    config: &VnodeConfig,
    directory: &Path,
    family: ChainFamily,
) -> NodeSettings {
    NodeSettings {
        data_directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
        // Pool software of Ethereum's family needs the number.
        pending_number: options
            .rpc_pendingnumber
            .unwrap_or(family == ChainFamily::Ethereum),
        log_limits: options.limits.logs(),
        logs_timeout: options.limits.logs_time.0,
        insecure_unlock: options.allow_insecure_unlock,
        send_wait: Duration::from_millis(options.limits.send_wait_millis),
        call_gas_max: options.limits.call_gas_max(),
        call_timeout: options.limits.call_time.0,
        trace_timeout_max: options.limits.trace_time.0,
        response_len_max: options.limits.response,
        vnode: VnodeSettings {
            beneficial_address: config.beneficial_address,
            service_port: config.service_port(),
            show_to_public: config.show_to_public,
            ip: config.ip.clone(),
        },
    }
}

async fn log_hashrate(miner: &LocalMiner) {
    let mut interval = tokio::time::interval(HASHRATE_INTERVAL);
    interval.tick().await;
    loop {
        interval.tick().await;
        // This may wait for a lock, so it runs on a thread for blocking work.
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
                move || chain.send("chain").unwrap(),
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
