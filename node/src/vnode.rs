//! Runs a VNODE from its options to its end.
//!
//! Order of the start: options, log, light cache (the longest wait, so it begins first),
//! store, chain, miner, servers, banner. The end takes them down in the opposite order, and
//! within two seconds.

use crate::accounts::{self, AccountsError};
use crate::banner::Banner;
use crate::commands::DirectoryError;
use crate::commands::directory::{Directory, Purpose};
use crate::logging;
use crate::mining::{Miner, rate_text};
use crate::options::{Network, OptionsError, VnodeOptions, is_loopback};
use crate::vnodeconfig::{ConfigError, VnodeConfig};
use chain::body::SealCheck;
use chain::chain::OpenError;
use chain::spec::DEV_ACCOUNTS;
use chain::{Chain, ChainConfig, ChainSpec};
use ethash::LightCaches;
use keystore::AccountBook;
use primitives::{Address, SecretKey};
use rpc::methods::NodeFacts;
use rpc::server::ServeError;
use rpc::server::http::{HttpOptions, HttpServer};
use rpc::{Limits, Modules, Rpc};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{Store, StoreError};

/// How often the hashrate is logged while mining.
const HASHRATE_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is looked whether the chain still takes blocks.
const FAILURE_INTERVAL: Duration = Duration::from_millis(200);
/// How often it is looked for accounts whose time is over.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);
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
    Chain(#[from] OpenError),
    /// The searchers cannot be started.
    #[error(transparent)]
    Miner(#[from] miner::MinerError),
    /// A server cannot listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
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

impl rpc::MinerControl for Miner {
    fn hashrate(&self) -> f64 {
        Self::hashrate(self)
    }
}

/// Runs the node until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] when it cannot start, or cannot go on.
pub fn run(options: &VnodeOptions) -> Result<(), StartError> {
    options.check()?;
    logging::start(options);
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
    let _config = VnodeConfig::load(options.vnodeconfig.as_deref())?;
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
    let miner = Miner::default();
    let mining = if options.mine {
        chain.desk().set_mining(true);
        miner.start(options, &caches, &chain)?
    } else {
        vec!["off (--mine starts it; external miners get work all the same)".to_owned()]
    };

    let facts = Facts {
        version: client_version(),
        network_id: spec.network_id,
    };
    let node = rpc::Node::new(
        chain.clone(),
        accounts.clone(),
        Box::new(facts),
        Arc::new(miner.clone()),
    )
    .with_log_limits(options.log_limits());
    let limits = Limits {
        stop_grace: STOP_GRACE,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(node), rpc::methods::all(), limits)
        .expect("the table of methods is checked by the tests of `rpc`");
    let http = start_http(options, &rpc).await?;
    let ipc = start_ipc(options, &rpc, &directory)?;
    let endpoints = endpoints(http.as_ref(), ipc.as_ref());
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
    let end = async {
        if let Some(http) = http {
            http.stop().await;
        }
        if let Some(ipc) = ipc {
            ipc.stop().await;
        }
    };
    let down = tokio::task::spawn_blocking(move || {
        miner.stop();
        chain.stop();
    });
    let (down, ()) = tokio::join!(down, end);
    if down.is_err() {
        tracing::error!("miner or chain did not stop cleanly");
    }
    tracing::info!("stopped");
    match failed {
        None => Ok(()),
        Some(reason) => Err(StartError::Failed(reason)),
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
) -> Result<Chain, OpenError> {
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

async fn start_http(
    options: &VnodeOptions,
    rpc: &Arc<Rpc<rpc::Node>>,
) -> Result<Option<HttpServer>, StartError> {
    if !options.rpc {
        return Ok(None);
    }
    let http = HttpOptions {
        host: options.rpcaddr.clone(),
        port: options.rpcport,
        cors: options.rpccorsdomain.parse().unwrap_or_default(),
    };
    let server = rpc::server::http::start(Arc::new(rpc.dispatcher(&options.rpcapi)), &http).await?;
    if server.addresses().iter().any(|address| !is_loopback(address)) {
        tracing::warn!(
            "HTTP listens beyond this machine, in plain text and without passwords; this node's unlocked accounts sign for whoever calls"
        );
    }
    Ok(Some(server))
}

fn start_ipc(
    options: &VnodeOptions,
    rpc: &Arc<Rpc<rpc::Node>>,
    directory: &Path,
) -> Result<Option<rpc::server::ipc::IpcServer>, StartError> {
    if options.ipcdisable {
        return Ok(None);
    }
    let path = options
        .ipcpath
        .clone()
        .unwrap_or_else(|| directory.join(rpc::server::ipc::SOCKET_NAME));
    let dispatcher = Arc::new(rpc.dispatcher(&Modules::all()));
    Ok(Some(rpc::server::ipc::start(dispatcher, &path)?))
}

fn endpoints(http: Option<&HttpServer>, ipc: Option<&rpc::server::ipc::IpcServer>) -> Vec<String> {
    let mut all: Vec<_> = http
        .map(|server| {
            server
                .addresses()
                .iter()
                .map(|address| format!("http://{address}"))
                .collect()
        })
        .unwrap_or_default();
    all.extend(ipc.map(|server| format!("ipc {}", server.path().display())));
    all
}

async fn log_hashrate(miner: &Miner) {
    let mut interval = tokio::time::interval(HASHRATE_INTERVAL);
    interval.tick().await;
    loop {
        interval.tick().await;
        for (device, rate) in miner.devices() {
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

/// SIGINT or SIGTERM. Listens from its making on, within a runtime of tokio.
pub(crate) struct StopSignal {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignal {
    pub(crate) fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    pub(crate) async fn wait(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
