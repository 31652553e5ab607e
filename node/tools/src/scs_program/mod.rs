//! The program `scs`: options, settings and key of a server of application chains, and its
//! JSON-RPC over HTTP.
//!
//! The work of the server is in the package `scs_node`.

mod checks;
mod dashboard;
mod key;
mod options;
mod userconfig;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use daemon::{StopSignal, listen_text};
use keystore::ScryptCost;
use node::config_file::{ConfigError, warn_of_unknown_keys};
use node::dashboard::DashboardError;
use node::exposure::warn_of_plain_tokens;
use node::guards::{GuardFiles, GuardsError};
use node::logging::{self, LogStartError};
use node::node_metrics::{self, Collector, MetricsError, MetricsServer, process_collector};
use node::{span_export, system};
use primitives::Address;
use rpc::node_servers::start_scs_http;
use rpc::server::http::HttpOptions;
use rpc::server::{ServeError, TcpServer};
use rpc::{Limits, Rpc, ScsNode, WalletChains};
use scs_node::admission::JoinMode;
use scs_node::{ScsNodeConfig, ScsRunner, ScsRunnerError, ServedChains};
use scs_service::client::{AuthorityError, ClientTls};

pub use checks::BaseRulesError;
pub use key::{KEY_FOLDER, PASSWORD_DEFAULT, ScsKeyError};
pub use options::{ScsProgramOptions, VerifyBase};
pub use userconfig::UserConfig;

use checks::checks_of;
use key::password_of;
pub(crate) use key::{LockedKey, open_key};

/// An error while an SCS starts.
#[derive(Debug, thiserror::Error)]
pub enum ScsProgramError {
    /// `userconfig.json` cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogStartError),
    /// The certificates for the connection to the VNODE cannot be used.
    #[error("{option} {error}")]
    Tls {
        /// The option that names the file.
        option: &'static str,
        /// The fault.
        error: AuthorityError,
    },
    /// The key cannot be read or made.
    #[error(transparent)]
    Key(#[from] ScsKeyError),
    /// The base chain cannot be checked.
    #[error(transparent)]
    Checks(#[from] BaseRulesError),
    /// The SCS cannot start.
    #[error(transparent)]
    Runner(#[from] ScsRunnerError),
    /// The HTTP server cannot be guarded.
    #[error(transparent)]
    Guards(#[from] GuardsError),
    /// The metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The dashboard cannot be served.
    #[error(transparent)]
    Dashboard(#[from] DashboardError),
    /// The HTTP server cannot listen.
    #[error("{}", listen_text(address, reason, option))]
    Listen {
        /// The address.
        address: String,
        /// The option that gives the port, with its value.
        option: String,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// The system failed to provide threads or signals.
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
}

fn system_error(what: &'static str) -> impl FnOnce(std::io::Error) -> ScsProgramError {
    move |source| ScsProgramError::System { what, source }
}

/// Runs the SCS until SIGINT or SIGTERM. `warnings` go to the log first.
///
/// # Errors
/// [`ScsProgramError`] if it cannot start.
pub fn run(options: &ScsProgramOptions, warnings: &[String]) -> Result<(), ScsProgramError> {
    let config = UserConfig::load(options.userconfig.as_deref())?;
    logging::start(options.verbosity.unwrap_or(config.log_level), &options.log)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let file = options.userconfig.as_deref();
    let file = file.map_or_else(
        || userconfig::FILE_NAME.to_owned(),
        |file| file.display().to_string(),
    );
    warn_of_unknown_keys(&file, &config.unknown_keys);
    system::raise_open_files();
    let runtime = system::network_threads().map_err(system_error("cannot start the network threads"))?;
    let result = runtime.block_on(serve(options, config));
    // Threads that are still in a long call are not waited for.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    span_export::finish();
    result
}

async fn serve(options: &ScsProgramOptions, config: UserConfig) -> Result<(), ScsProgramError> {
    let mut stop = StopSignal::listen().map_err(system_error("cannot listen for signals"))?;
    let recorded = options.metrics.map(|_| node_metrics::record()).transpose()?;
    let tls = options.vnode_tls_ca.clone().map(|authority| ClientTls {
        authority,
        name: options.vnode_tls_name.clone(),
        own: options.vnode_certificate(),
    });
    if let Some(tls) = &tls {
        tls.check().map_err(|error| ScsProgramError::Tls {
            option: match &tls.own {
                _ if error.path == tls.authority => "--vnode.tls.ca",
                Some(own) if error.path == own.key => "--vnode.tls.key",
                _ => "--vnode.tls.cert",
            },
            error,
        })?;
    }
    let mut files = GuardFiles::default();
    let guards = files.json_rpc(&options.access)?;
    let mut reload = files.listen()?;
    let scheme = if guards.tls.is_some() { "https" } else { "http" };
    let directory = options
        .datadir
        .clone()
        .unwrap_or_else(|| config.data_directory.clone());
    let password = password_of(options.password_file.as_deref(), options.password.as_deref())?;
    let cost = ScryptCost::of_option(options.lightkdf);
    let locked = open_key(&directory, Path::new(KEY_FOLDER), &password, cost)?;
    let id = locked.key.address();
    let join = options.join_rules();
    if join.mode == JoinMode::Any {
        tracing::warn!(
            "--join any: whoever makes a contract that says that it is a chain base can take the whole free bond in a published pool, and an owner can take all coins of a MicroChain"
        );
    }
    let runner = ScsRunner::start(ScsNodeConfig {
        vnode: config.vnode.clone(),
        tls,
        chain_id: config.chain_id,
        key: locked.key.clone(),
        directory: directory.clone(),
        period_secs: options.period,
        confirmations: options.confirmations,
        beneficiary: config.beneficiary.unwrap_or(Address::ZERO),
        join,
        bond_max: config.bond_max.0,
        reward_min: config.reward_min.0,
        capability: config.capability,
        chains: options.chains.iter().copied().collect(),
        reconnect_max: config.reconnect_interval,
        states: options.states(),
        blocks: options.blocks,
        checks: checks_of(options, config.chain_id, &config.vnode)?,
    })?;
    let mut text = format!(
        "{}\nSCS id     {id:#x}\ndata       {}\nkey        {}\nvnode      {} (chain id {})\nperiod     {} s\n",
        node::version_of("scs"),
        directory.display(),
        locked.folder.display(),
        config.vnode,
        config.chain_id,
        options.period,
    );
    let server = if options.rpc {
        let http = HttpOptions {
            host: options.rpcaddr.clone(),
            port: options.rpcport,
            cors: options.rpccorsdomain.clone(),
            hosts: options.rpcvhosts.clone(),
            guards: guards.clone(),
        };
        let server = start_http(&runner, &http, &options.rpcapi).await;
        let server = server.map_err(|ServeError::Bind { address, reason }| ScsProgramError::Listen {
            address,
            option: format!("--rpcport {}", options.rpcport),
            reason,
        })?;
        for address in server.addresses() {
            text.push_str(&format!("endpoint   {scheme}://{address}\n"));
        }
        warn_of_plain_tokens("HTTP", server.addresses(), &guards);
        Some(server)
    } else {
        text.push_str("endpoint   none (--rpc serves HTTP)\n");
        None
    };
    let metrics = match options.metrics.zip(recorded) {
        Some((address, recorded)) => {
            let served = runner.served();
            scs_node::describe_figures();
            let collectors: Vec<Collector> = vec![
                Box::new(move || scs_node::record_figures(&served)),
                process_collector(),
            ];
            let hosts = options.rpcvhosts.clone();
            Some(MetricsServer::start(address, hosts, recorded, collectors).await?)
        }
        None => None,
    };
    if let Some(metrics) = &metrics {
        text.push_str(&format!("endpoint   {}\n", metrics.endpoint()));
    }
    let dashboard = match options.dashboard {
        Some(address) => {
            let source = dashboard::ScsFigures::new(runner.served());
            let hosts = options.rpcvhosts.clone();
            Some(node::dashboard::serve(address, hosts, Arc::new(source)).await?)
        }
        None => None,
    };
    if let Some(dashboard) = &dashboard {
        text.push_str(&format!("endpoint   {}\n", node::dashboard::endpoint(dashboard)));
    }
    // The SCS also runs if standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    tokio::select! {
        () = stop.wait() => {}
        never = reload.follow() => match never {},
    }
    tracing::info!("stopping");
    if let Some(server) = server {
        server.stop().await;
    }
    drop(metrics);
    drop(dashboard);
    drop(runner);
    tracing::info!("stopped");
    Ok(())
}

/// Serves the methods of an SCS over HTTP, and those of wallets at the path of each MicroChain.
pub(crate) async fn start_http(
    runner: &ScsRunner,
    http: &HttpOptions,
    modules: &rpc::Modules,
) -> Result<TcpServer, ServeError> {
    let (rpc, chains) = methods_of(runner.served(), modules);
    start_scs_http(Arc::new(rpc.dispatcher(modules)), http, chains).await
}

/// The methods of an SCS, and those of wallets on each of its MicroChains.
fn methods_of(served: Arc<ServedChains>, modules: &rpc::Modules) -> (Arc<Rpc<ScsNode>>, WalletChains) {
    let rpc = Rpc::new(
        Arc::new(ScsNode(served)),
        rpc::methods::scs::methods(),
        Limits::default(),
    )
    .expect("the table of methods is checked by the tests of `rpc`");
    let chains = WalletChains::new(Arc::clone(&rpc), modules)
        .expect("the table of methods is checked by the tests of `rpc`");
    (rpc, chains)
}
