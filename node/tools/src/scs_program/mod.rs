//! The program `scs`: options, settings and key of a server of application chains, and its
//! JSON-RPC over HTTP.
//!
//! The work of the server is in the package `scs_node`.

mod key;
mod options;
mod userconfig;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use daemon::StopSignal;
use keystore::ScryptCost;
use node::config_file::{ConfigError, warn_of_unknown_keys};
use node::exposure::warn_of_plain_tokens;
use node::guards::{GuardFiles, GuardsError};
use node::logging::{self, LogStartError};
use node::{span_export, system};
use primitives::Address;
use rpc::server::http::HttpOptions;
use rpc::server::{ServeError, TcpServer};
use rpc::{Limits, Rpc, ScsNode};
use scs_node::{ScsNodeConfig, ScsRunner, ScsRunnerError};
use scs_service::client::{AuthorityError, ClientTls};

pub use key::{KEY_FOLDER, PASSWORD_DEFAULT, ScsKeyError};
pub use options::ScsProgramOptions;
pub use userconfig::UserConfig;

pub(crate) use key::open_key;

/// An error while an SCS starts.
#[derive(Debug, thiserror::Error)]
pub enum ScsProgramError {
    /// `userconfig.json` cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogStartError),
    /// The certificates for the VNODE cannot be used.
    #[error("--vnode.tls.ca {0}")]
    Tls(#[from] AuthorityError),
    /// The key cannot be read or made.
    #[error(transparent)]
    Key(#[from] ScsKeyError),
    /// The SCS cannot start.
    #[error(transparent)]
    Runner(#[from] ScsRunnerError),
    /// The HTTP server cannot be guarded.
    #[error(transparent)]
    Guards(#[from] GuardsError),
    /// The HTTP server cannot listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
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

/// Runs the SCS until SIGINT or SIGTERM.
///
/// # Errors
/// [`ScsProgramError`] if it cannot start.
pub fn run(options: &ScsProgramOptions) -> Result<(), ScsProgramError> {
    let config = UserConfig::load(options.userconfig.as_deref())?;
    logging::start(options.verbosity.unwrap_or(config.log_level), &options.log)?;
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
    let tls = options.vnode_tls_ca.clone().map(|authority| ClientTls {
        authority,
        name: options.vnode_tls_name.clone(),
    });
    if let Some(tls) = &tls {
        tls.check()?;
    }
    let mut files = GuardFiles::default();
    let guards = files.json_rpc(&options.access)?;
    let mut reload = files.listen()?;
    let scheme = if guards.tls.is_some() { "https" } else { "http" };
    let password = options.password.as_deref().unwrap_or(PASSWORD_DEFAULT);
    let key = open_key(&PathBuf::from(KEY_FOLDER), password, ScryptCost::STANDARD)?;
    let id = key.address();
    let directory = options
        .datadir
        .clone()
        .unwrap_or_else(|| config.data_directory.clone());
    let runner = ScsRunner::start(ScsNodeConfig {
        vnode: config.vnode.clone(),
        tls,
        chain_id: config.chain_id,
        key,
        directory: directory.clone(),
        period_secs: options.period,
        beneficiary: config.beneficiary.unwrap_or(Address::ZERO),
        bond_max: config.bond_max.0,
        reward_min: config.reward_min.0,
        capability: config.capability,
        reconnect_max: config.reconnect_interval,
    })?;
    let mut text = format!(
        "{}\nSCS id     {id:#x}\ndata       {}\nvnode      {} (chain id {})\nperiod     {} s\n",
        node::version_of("scs"),
        directory.display(),
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
        let server = start_http(&runner, &http, &options.rpcapi).await?;
        for address in server.addresses() {
            text.push_str(&format!("endpoint   {scheme}://{address}\n"));
        }
        warn_of_plain_tokens("HTTP", server.addresses(), &guards);
        Some(server)
    } else {
        text.push_str("endpoint   none (--rpc serves HTTP)\n");
        None
    };
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
    drop(runner);
    tracing::info!("stopped");
    Ok(())
}

/// Serves the methods of an SCS over HTTP.
pub(crate) async fn start_http(
    runner: &ScsRunner,
    http: &HttpOptions,
    modules: &rpc::Modules,
) -> Result<TcpServer, ServeError> {
    let context = Arc::new(ScsNode(runner.served()));
    let rpc = Rpc::new(context, rpc::methods::scs::methods(), Limits::default())
        .expect("the table of methods is checked by the tests of `rpc`");
    rpc::server::http::start(Arc::new(rpc.dispatcher(modules)), http).await
}
