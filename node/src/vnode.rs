//! Runs a VNODE from its options to its end.
//!
//! Order of the start: options, log, light cache (the longest wait, so it begins first),
//! store, chain, miner, servers, banner. The end takes them all down side by side, so that none that
//! hangs keeps another from its end, and within two seconds; where a driver hangs, within three.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain::chain::OpenError as ChainOpenError;
use chain::rules::body::SealCheck;
use chain::spec::DEV_ACCOUNTS;
use chain::{Chain, ChainConfig, ChainSpec};
use ethash::LightCaches;
use keystore::AccountBook;
use miner::StopSignal;
use miner::display::rate_text;
use primitives::{Address, SecretKey};
use rpc::NodeFacts;
use rpc::server::http::HttpOptions;
use rpc::{Limits, NodeSettings, Rpc, VnodeSettings};
use store::{Store, StoreError};

use crate::accounts::{self, AccountsError};
use crate::banner::Banner;
use crate::commands::DirectoryError;
use crate::commands::directory::{Directory, Purpose};
use crate::listener::HttpListener;
use crate::logging;
use crate::mining::Miner;
use crate::network::{NetworkError, Registry};
use crate::nodekey::{self, NodeKeyError};
use crate::options::{Network, OptionsError, VnodeOptions};
use crate::servers::{Servers, ServersError};
use crate::system;
use crate::vnodeconfig::{ConfigError, VnodeConfig};

/// How often the hashrate is logged while mining.
const HASHRATE_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is looked whether the chain still takes blocks.
const FAILURE_INTERVAL: Duration = Duration::from_millis(200);
/// How often it is looked for accounts whose time is over.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);
/// How long the end of the miner is waited for: a little longer than its own patience with threads that hang.
const MINER_PATIENCE: Duration = Duration::from_millis(2500);
/// How long requests in flight may go on when the node stops.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Why a node did not start, or ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// `vnodeconfig.json` cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Accounts cannot be read or unlocked.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The chain cannot be opened.
    #[error(transparent)]
    Chain(#[from] ChainOpenError),
    /// The searchers cannot be started.
    #[error(transparent)]
    Miner(#[from] miner::MinerError),
    /// The methods have no ground to stand on.
    #[error(transparent)]
    Node(#[from] rpc::NodeError),
    /// A server cannot listen.
    #[error(transparent)]
    Servers(#[from] ServersError),
    /// The node's own key cannot be read or made.
    #[error(transparent)]
    NodeKey(#[from] NodeKeyError),
    /// What is kept of the network cannot be used.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No more blocks can be taken.
    #[error("stopped, as no more blocks can be taken: {0}")]
    Failed(String),
    /// Something of the system is missing: threads, signals, a directory.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Name, version, platform and toolchain, separated by slashes.
pub fn client_version() -> String {
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "vnode/v{}/{platform}/rust{}",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_RUST_VERSION")
    )
}

struct Facts {
    version: String,
    network_id: u64,
}

impl NodeFacts for Facts {
    fn client_version(&self) -> &str {
        &self.version
    }

    fn network_id(&self) -> u64 {
        self.network_id
    }

    /// No peer-to-peer network is part of this version.
    fn is_listening(&self) -> bool {
        false
    }

    fn peer_count(&self) -> u64 {
        0
    }
}

/// Runs the node until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] when it cannot start, or cannot go on.
pub fn run(options: &VnodeOptions) -> Result<(), StartError> {
    options.check()?;
    logging::start(options);
    system::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(system("cannot start the network threads"))?;
    let result = runtime.block_on(serve(options));
    // What still blocks (a long call) is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

async fn serve(options: &VnodeOptions) -> Result<(), StartError> {
    let mut stop = StopSignal::listen().map_err(system("cannot listen for signals"))?;
    let config = VnodeConfig::load(options.vnodeconfig.as_deref())?;
    let caches = LightCaches::new();
    if options.network()? == Some(Network::Dev) {
        // The cache is the longest wait of a first start, and here its epoch is known already.
        caches.prepare(ChainSpec::dev().schedule.epoch(0));
    }
    let Directory {
        path: directory,
        store,
        spec,
        dev,
    } = Directory::open(options, Purpose::Run)?;
    // From here on `dev` says what runs, whether an option or the directory said so.
    let options = &VnodeOptions {
        dev,
        ..options.clone()
    };
    let (accounts, warnings) = accounts::open(options, &directory)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if dev {
        add_dev_accounts(&accounts);
    }
    accounts::unlock(options, &accounts)?;
    let beneficiary = beneficiary(options, &accounts, &spec)?;
    let chain = open_chain(options, &spec, &caches, store, &directory, beneficiary)?;
    let miner = Miner::new(options, &caches, &chain);
    let mining = if options.mine {
        chain.desk().set_mining(true);
        miner.start(None)?
    } else {
        vec!["off (--mine starts it; external miners get work all the same)".to_owned()]
    };

    let node_key = nodekey::load(options, &directory)?;
    let network = Registry::open(&node_key, &config, &directory)?;
    let facts = Facts {
        version: client_version(),
        network_id: spec.network_id,
    };
    let listener = Arc::new(HttpListener::new(HttpOptions {
        hosts: options.rpcvhosts.clone(),
        ..HttpOptions::default()
    }));
    let node = rpc::Node::new(
        chain.clone(),
        accounts.clone(),
        Box::new(facts),
        Arc::new(miner.clone()),
    )?
    .with_filter_limits(options.limits.filters())
    .with_settings(settings(options, &config, &directory))
    .with_listener(listener.clone())
    .with_network(Arc::new(network));
    let limits = Limits {
        stop_grace: STOP_GRACE,
        ..options.limits.servers()
    };
    let rpc = Rpc::new(Arc::new(node), methods(options), limits)
        .expect("the table of methods is checked by the tests of `rpc`");
    listener.serve(&rpc);
    let servers = Servers::start(options, &rpc, listener, &caches, &directory).await?;
    let endpoints = servers.endpoints();
    let view = chain.view()?;
    let banner = Banner {
        version: &client_version(),
        spec: &spec,
        directory: &directory,
        view: &view,
        dev,
        beneficiary,
        endpoints: &endpoints,
        mining: &mining,
    };
    // A closed standard output is no reason to stop.
    let _ = std::io::stdout().write_all(banner.text().as_bytes());
    drop(view);

    let failed = tokio::select! {
        () = stop.wait() => None,
        reason = failure(&chain) => Some(reason),
        () = log_hashrate(&miner) => None,
        () = expire_accounts(&accounts) => None,
    };
    tracing::info!("stopping");
    let down = take_down(move || miner.stop(), move || chain.stop());
    tokio::join!(down, servers.stop());
    tracing::info!("stopped");
    match failed {
        None => Ok(()),
        Some(reason) => Err(StartError::Failed(reason)),
    }
}

/// Stops miner and chain, neither of which waits for the other.
async fn take_down(stop_miner: impl FnOnce() + Send + 'static, stop_chain: impl FnOnce() + Send + 'static) {
    let miner = tokio::task::spawn_blocking(stop_miner);
    let chain = tokio::task::spawn_blocking(stop_chain);
    let (miner, chain) = tokio::join!(tokio::time::timeout(MINER_PATIENCE, miner), chain);
    match miner {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::error!("the miner did not stop cleanly"),
        Err(_) => tracing::error!("the miner does not stop (a driver that hangs?), it is left behind"),
    }
    if chain.is_err() {
        tracing::error!("the chain did not stop cleanly");
    }
}

/// Adds the development network's accounts, unlocked.
fn add_dev_accounts(accounts: &AccountBook) {
    for (_, key) in DEV_ACCOUNTS {
        accounts.unlock(SecretKey::from_hex(key).expect("a constant, checked by a test of `chain`"));
    }
}

/// Who is paid for mined blocks: whom the options say, or the first account, where there is one.
fn beneficiary(
    options: &VnodeOptions,
    accounts: &AccountBook,
    spec: &ChainSpec,
) -> Result<Option<Address>, OptionsError> {
    let first = || accounts.accounts().first().map(|held| held.address);
    let beneficiary = match options.moacbase {
        Some(address) => Some(address),
        None if options.dev => Some(DEV_ACCOUNTS[0].0),
        None => first(),
    };
    match beneficiary {
        None if options.mine => Err(OptionsError::NoBeneficiary(spec.name.clone())),
        None => {
            tracing::warn!("nobody is paid for blocks that external miners find: give --moacbase ADDRESS");
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
    beneficiary: Option<Address>,
) -> Result<Chain, ChainOpenError> {
    let chain = Chain::open(
        store,
        ChainConfig {
            spec: spec.clone(),
            seals: SealCheck::Ethash(caches.clone()),
            pool: options
                .txpool
                .config(spec, directory, options.mine, options.gasprice),
            beneficiary: beneficiary.unwrap_or_default(),
            extra_data: options.extra_data().into(),
        },
    )?;
    let next = chain.view()?.head_number() + 1;
    caches.prepare(spec.schedule.epoch(next));
    chain.change_settings(|settings| settings.gas_target = options.targetgaslimit);
    Ok(chain)
}

/// The rows to serve.
fn methods(options: &VnodeOptions) -> Vec<rpc::Method<rpc::Node>> {
    let rows = rpc::methods::all();
    if options.rpc_noalias {
        rows.into_iter().map(rpc::Method::without_alias).collect()
    } else {
        rows
    }
}

/// What methods are told of the start.
fn settings(options: &VnodeOptions, config: &VnodeConfig, directory: &Path) -> NodeSettings {
    NodeSettings {
        data_directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
        pending_number: options.rpc_pendingnumber,
        log_limits: options.limits.logs(),
        response_len_max: options.limits.response,
        vnode: VnodeSettings {
            beneficial_address: config.beneficial_address,
            scs_service: config.scs_service,
            service_port: config.service_port(),
            show_to_public: config.show_to_public,
            ip: config.ip.clone(),
        },
    }
}

async fn log_hashrate(miner: &Miner) {
    let mut interval = tokio::time::interval(HASHRATE_INTERVAL);
    interval.tick().await;
    loop {
        interval.tick().await;
        // A search that is being started or ended is waited for, which must not hold the end of the node.
        let miner = miner.clone();
        let devices = tokio::task::spawn_blocking(move || miner.devices()).await;
        for (device, rate) in devices.unwrap_or_default() {
            tracing::info!(device, rate = rate_text(rate), "hashrate");
        }
    }
}

/// Waits until no more blocks can be taken; says why.
async fn failure(chain: &Chain) -> String {
    let mut interval = tokio::time::interval(FAILURE_INTERVAL);
    loop {
        interval.tick().await;
        if let Some(reason) = chain.failure() {
            return reason;
        }
    }
}

/// Lets keys go when the time of their accounts is over.
async fn expire_accounts(accounts: &AccountBook) {
    let mut interval = tokio::time::interval(EXPIRE_INTERVAL);
    loop {
        interval.tick().await;
        accounts.expire();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_miner_that_hangs_does_not_keep_the_chain() {
        let (release, held) = mpsc::channel::<()>();
        let (out, stopped) = mpsc::channel();
        let node = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let chain = out.clone();
            runtime.block_on(take_down(
                move || {
                    let _ = held.recv();
                },
                move || chain.send("chain").unwrap(),
            ));
            out.send("node").unwrap();
            runtime.shutdown_background();
        });
        let patience = Duration::from_secs(20);
        assert_eq!(stopped.recv_timeout(patience), Ok("chain"));
        assert_eq!(stopped.recv_timeout(patience), Ok("node"), "it waits for ever");
        node.join().unwrap();
        drop(release);
    }
}
