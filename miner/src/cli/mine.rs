//! `miner getwork` and `miner stratum`: turn options into a running rig, and its end into an exit
//! code.

use std::time::Duration;

use command_line::ExitReason;
use daemon::Screen;
use daemon::tls::TlsOptions;
use engine::gpu::GpuOptions;
use engine::{DatasetPolicy, EngineConfig, KernelPolicy, MinerError};
use miner::client::{ClientConfig, MiningEndpoint, MiningEndpointError, MiningProtocol};
use miner::rig::{self, RigConfig, RigEnd, RigError};

use super::options::{CpuDataset, GetworkOptions, MiningOptions, StratumOptions};
use super::rig_options::BadRigOptions;

/// Mines for nodes.
pub(crate) fn getwork(options: &GetworkOptions) -> ExitReason {
    let endpoints = endpoints(
        &options.urls,
        "http",
        |protocol| protocol == MiningProtocol::GetWork,
        "http or https",
    );
    let recheck = Duration::from_millis(options.farm_recheck);
    run(&options.mining, endpoints, |client| ClientConfig {
        recheck,
        ..client
    })
}

/// Mines for pools.
pub(crate) fn stratum(options: &StratumOptions) -> ExitReason {
    let is_pool = |protocol| matches!(protocol, MiningProtocol::Stratum(_));
    let endpoints = endpoints(
        &options.urls,
        "stratum",
        is_pool,
        "stratum+tcp or another Stratum scheme",
    );
    let endpoints = endpoints.map(|mut endpoints| {
        for endpoint in &mut endpoints {
            if let Some(user) = options.user.as_deref().filter(|_| endpoint.user.is_empty()) {
                endpoint.set_account(user);
            }
            if endpoint.password.is_none() {
                endpoint.password.clone_from(&options.password);
            }
        }
        endpoints
    });
    run(&options.mining, endpoints, |client| client)
}

/// Reads the addresses. `expected` names the allowed schemes for the error.
fn endpoints(
    urls: &[String],
    default_scheme: &str,
    is_allowed: impl Fn(MiningProtocol) -> bool,
    expected: &str,
) -> Result<Vec<MiningEndpoint>, MiningEndpointError> {
    urls.iter()
        .map(|url| {
            let endpoint = MiningEndpoint::parse(url, default_scheme)?;
            if is_allowed(endpoint.protocol) {
                return Ok(endpoint);
            }
            Err(MiningEndpointError {
                got: endpoint.to_string(),
                reason: format!("expected {expected} with this command"),
            })
        })
        .collect()
}

/// Runs a rig. `change` sets what differs between the two commands.
fn run(
    options: &MiningOptions,
    endpoints: Result<Vec<MiningEndpoint>, MiningEndpointError>,
    change: impl FnOnce(ClientConfig) -> ClientConfig,
) -> ExitReason {
    let config = match endpoints.map_err(BadMiningOptions::from).and_then(|endpoints| {
        Ok(RigConfig {
            engine: engine_config(options)?,
            client: change(client_config(options, endpoints)),
            status: options.status,
            dashboard: options.dashboard,
            status_hosts: options.status_hosts.clone(),
            log_every: options.log_every,
            stall_timeout: above_zero(options.stall_timeout),
            api: options.api.config()?,
            care: options.care.config()?,
            costs: options.costs.config(),
            power_limit: options.care.power_limit,
        })
    }) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitReason::Usage;
        }
    };
    let screen = Screen::choose(options.plain || options.log_json);
    crate::start_log(&screen, options.log_json);
    let mut config = config;
    config.engine.bars = !screen.is_live();
    match rig::run(config, &screen) {
        Ok(RigEnd::Stopped | RigEnd::TimeOver) => {
            tracing::info!("stopped");
            ExitReason::Done
        }
        Ok(RigEnd::NoConnection { after, last }) => {
            tracing::error!("no connection for {after:?}: {last}");
            ExitReason::NoConnection
        }
        Ok(RigEnd::Stalled { after }) => {
            tracing::error!("there is work, but no device has made progress for {after:?}");
            ExitReason::Stalled
        }
        Ok(RigEnd::Fruitless { reason }) => {
            tracing::error!("the rig ends, as --fruitless-exit says: {reason}");
            ExitReason::Fruitless
        }
        Err(error @ RigError::Device(MinerError::NoAdapter { .. })) => {
            tracing::error!("{error}");
            ExitReason::NoDevice
        }
        Err(error) => {
            tracing::error!("{error}");
            ExitReason::Failed
        }
    }
}

/// The reasons why the options of a rig cannot be used.
#[derive(Debug, thiserror::Error)]
enum BadMiningOptions {
    /// An address is not that of an endpoint.
    #[error(transparent)]
    Endpoint(#[from] MiningEndpointError),
    /// Dataset files have no folder.
    #[error("--dataset disk needs --dagdir DIR")]
    NoDatasetFolder,
    /// An option of the API or of the care for the rig cannot be used.
    #[error(transparent)]
    Rig(#[from] BadRigOptions),
}

fn engine_config(options: &MiningOptions) -> Result<EngineConfig, BadMiningOptions> {
    let default = EngineConfig::default();
    let dataset = match (options.dataset, &options.dagdir) {
        (Some(CpuDataset::Never), _) => DatasetPolicy::Never,
        (Some(CpuDataset::Memory), _) | (None, None) => DatasetPolicy::Memory,
        (Some(CpuDataset::Disk) | None, Some(folder)) => DatasetPolicy::Disk(folder.clone()),
        (Some(CpuDataset::Disk), None) => return Err(BadMiningOptions::NoDatasetFolder),
    };
    Ok(EngineConfig {
        device: options.device.clone(),
        threads: options.threads.unwrap_or(default.threads),
        kernels: match options.kernel.form {
            None => KernelPolicy::measured(&dataset),
            Some(_) => KernelPolicy::Fixed,
        },
        dataset,
        schedule: options.schedule.schedule(),
        gpu: options.kernel.apply(GpuOptions {
            target_batch: Duration::from_millis(options.batch),
            ..default.gpu
        }),
        intensity: options.intensity,
        niceness: options.nice,
        ..default
    })
}

fn client_config(options: &MiningOptions, endpoints: Vec<MiningEndpoint>) -> ClientConfig {
    ClientConfig {
        schedule: options.schedule.schedule(),
        work_timeout: options.work_timeout,
        response_timeout: options.response_timeout,
        report_every: above_zero(options.report_hashrate),
        max_wait: above_zero(options.max_wait),
        first_back_off: options.retry_delay,
        last_back_off: options.retry_max.max(options.retry_delay),
        tls: TlsOptions {
            authority: options.tls_ca.clone(),
            trust_anybody: options.tls_trust_anybody,
        },
        ..ClientConfig::new(endpoints)
    }
}

/// `None` for zero, which disables an option.
fn above_zero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}
