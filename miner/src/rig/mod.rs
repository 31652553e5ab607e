//! A rig: an engine, a client that brings it work, and what people and programs need to observe
//! them.
//!
//! A rig runs until it is told to stop, or until it cannot work any more. [`RigEnd`] says why it
//! has ended.

mod care;
mod events;
mod fruitless;
mod heat;
mod hours;
mod prices;
mod stall;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{bounded, unbounded};
use daemon::status::{self, StatusSource};
use daemon::tls::TlsError;
use daemon::{Hosts, Screen, StopSignal, listen_text};
use engine::ClientStats;
use engine::FoundSolution;
use engine::MinerError;
use engine::dashboard::{self, DashboardSource};
use engine::monitor::RigReport;
use engine::sensors::PowerLimits;
use engine::{Engine, EngineConfig};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

use crate::api::{self, ApiConfig};
use crate::client::{self, ClientConfig, ClientEnd, EngineLink};
use crate::display;
use crate::monitor::RigMonitor;

pub use care::CareConfig;
pub use heat::HeatLimits;
pub use hours::{RestHours, TimeOfDay, TimeOfDayError};
pub use prices::{PowerPrices, PriceFileError};

pub use crate::monitor::CostConfig;

/// The most solutions that may wait for the client.
const SOLUTIONS_MAX: usize = 256;

/// Time limit for the end of the client.
const CLIENT_END_MAX: Duration = Duration::from_millis(1500);

/// The settings of a rig.
#[derive(Clone, Debug)]
pub struct RigConfig {
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// Settings of the client.
    pub client: ClientConfig,
    /// Address and port where status and metrics are served. `None`: they are not served.
    pub status: Option<SocketAddr>,
    /// Address and port where the dashboard is served. `None`: it is not served.
    pub dashboard: Option<SocketAddr>,
    /// The API of ethminer. `None`: it is not served.
    pub api: Option<ApiConfig>,
    /// Host names that requests for the status and the dashboard may name.
    pub status_hosts: Hosts,
    /// Time between two log lines about the hashrate, if no table is shown.
    pub log_every: Duration,
    /// The rig ends if it has had work but made no progress for this time. `None`: never.
    pub stall_timeout: Option<Duration>,
    /// The dangers that the rig is protected from.
    pub care: CareConfig,
    /// Prices, for the balance of a day.
    pub costs: CostConfig,
    /// The power of each card is limited to this number of watts.
    pub power_limit: Option<u32>,
}

/// The reasons why a rig has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RigEnd {
    /// The rig got a signal to stop.
    Stopped,
    /// No endpoint could be reached for [`ClientConfig::max_wait`].
    NoConnection {
        /// The limit.
        after: Duration,
        /// The last error.
        last: String,
    },
    /// There was work, but no device made progress.
    Stalled {
        /// The time without progress.
        after: Duration,
    },
    /// The rig worked in vain, and nothing has helped.
    Fruitless {
        /// The sign of that.
        reason: String,
    },
    /// Its time was over.
    TimeOver,
}

/// The reasons why a rig cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// A device is missing.
    #[error(transparent)]
    Device(#[from] MinerError),
    /// The settings for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address cannot be listened on. The text names the option.
    #[error("{}", listen_text(address, reason, &format!("{option} {address}")))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The option that gives it.
        option: &'static str,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The operating system refuses something.
    #[error("{what}: {reason}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The error of the operating system.
        reason: io::Error,
    },
}

fn listen(option: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> RigError {
    move |reason| RigError::Listen {
        address,
        option,
        reason,
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> RigError {
    move |reason| RigError::System { what, reason }
}

/// Runs a rig and shows it on `screen`.
///
/// # Errors
/// [`RigError`] if the rig cannot start.
pub fn run(config: RigConfig, screen: &Screen) -> Result<RigEnd, RigError> {
    run_for(config, screen, Duration::MAX).map(|(end, _)| end)
}

/// Runs a rig for at most `time`. Returns why it has ended, and its last report.
///
/// # Errors
/// [`RigError`] if the rig cannot start.
pub(crate) fn run_for(
    config: RigConfig,
    screen: &Screen,
    time: Duration,
) -> Result<(RigEnd, RigReport), RigError> {
    // One thread is enough: the other processors are for searching.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("cannot start the network thread"))?;
    let end = runtime.block_on(serve(config, screen, time));
    // Do not wait for tasks that block, such as a name lookup.
    runtime.shutdown_timeout(Duration::from_millis(100));
    end
}

async fn serve(config: RigConfig, screen: &Screen, time: Duration) -> Result<(RigEnd, RigReport), RigError> {
    let mut signal = StopSignal::listen().map_err(system("cannot listen for signals"))?;
    let (work, work_in) = unbounded();
    let (solutions_out, solutions) = bounded::<FoundSolution>(SOLUTIONS_MAX);
    let stats = Arc::new(ClientStats::new(
        config.client.endpoints.iter().map(ToString::to_string),
    ));
    let engine = Engine::start(config.engine, work_in, solutions_out)?;
    for line in engine.describe() {
        tracing::info!("{line}");
    }
    let monitor = Arc::new(RigMonitor::new(
        engine,
        Arc::clone(&stats),
        config.care.heat.map(|heat| (heat.start_c, heat.stop_c)),
        config.costs,
    ));
    let power_limits = config.power_limit.map(|watts| limit_power(&monitor, watts));
    let (found_out, found) = mpsc::channel(SOLUTIONS_MAX);
    // The thread ends when the engine drops its end of the channel.
    std::thread::Builder::new()
        .name("solutions".into())
        .spawn(move || {
            for solution in solutions {
                if found_out.blocking_send(solution).is_err() {
                    return;
                }
            }
        })
        .map_err(system("cannot start the thread for solutions"))?;
    let status_server = match config.status {
        None => None,
        Some(address) => {
            let source: Arc<dyn StatusSource> = Arc::clone(&monitor) as _;
            let server = status::serve(address, config.status_hosts.clone(), source)
                .await
                .map_err(listen("--status", address))?;
            let bound = server.address();
            tracing::info!("status at http://{bound}/, metrics at http://{bound}/metrics");
            Some(server)
        }
    };
    let api = match config.api {
        None => None,
        Some(api) => {
            let (address, can_change) = (
                api.address.socket,
                !api.address.read_only && api.password.is_some(),
            );
            let server = api::serve(api, Arc::clone(&monitor) as _)
                .await
                .map_err(listen("--api-bind", address))?;
            let rights = if can_change {
                "with a password"
            } else {
                "read-only"
            };
            tracing::info!("API of ethminer at {}, {rights}", server.address());
            Some(server)
        }
    };
    let dashboard = match config.dashboard {
        None => None,
        Some(address) => {
            let source: Arc<dyn DashboardSource> = Arc::clone(&monitor) as _;
            let server = dashboard::serve(address, config.status_hosts, source)
                .await
                .map_err(listen("--dashboard", address))?;
            tracing::info!("dashboard at http://{}/", server.address());
            Some(server)
        }
    };
    let reconnect = Arc::<Notify>::default();
    let (rate, epochs) = (Arc::clone(&monitor), Arc::clone(&monitor));
    let link = EngineLink {
        work,
        found,
        hashrate: Arc::new(move || rate.hashrate()),
        check_epoch: Arc::new(move |epoch| epochs.check_epoch(epoch)),
        reconnect: Arc::clone(&reconnect),
    };
    let (stop, stopped) = watch::channel(false);
    let mut client = Box::pin(client::run(config.client, link, stats, stopped));
    let mut client_ended = false;
    let end = tokio::select! {
        end = &mut client => {
            client_ended = true;
            end.map(RigEnd::from).map_err(Into::into)
        }
        () = signal.wait() => Ok(RigEnd::Stopped),
        () = tokio::time::sleep(time) => Ok(RigEnd::TimeOver),
        after = stall::watch(&monitor, config.stall_timeout) => Ok(RigEnd::Stalled { after }),
        reason = care::watch(&monitor, config.care, &reconnect) => Ok(RigEnd::Fruitless { reason }),
        never = display::show(screen, &monitor, config.log_every) => match never {},
    };
    stop.send_replace(true);
    if !client_ended {
        // Solutions that are being sent reach the node or pool, or are counted as lost.
        let _ = timeout(CLIENT_END_MAX, client).await;
    }
    drop((status_server, dashboard, api, power_limits));
    screen.clear();
    let report = monitor.report();
    display::log_totals(&report);
    monitor.stop_engine();
    end.map(|end| (end, report))
}

/// Limits the power of all cards, as far as that is possible.
fn limit_power(monitor: &RigMonitor, watts: u32) -> PowerLimits {
    let mut limits = PowerLimits::none();
    for device in monitor.engine_status().devices {
        let Some(bus) = &device.pci_bus else { continue };
        match limits.set(bus, watts) {
            Ok(()) => tracing::info!(device = device.name, "power limited to {watts} W"),
            Err(error) => tracing::warn!(device = device.name, "power not limited: {error}"),
        }
    }
    limits
}

impl From<ClientEnd> for RigEnd {
    fn from(end: ClientEnd) -> Self {
        match end {
            ClientEnd::Stopped => Self::Stopped,
            ClientEnd::NoConnection { after, last } => Self::NoConnection { after, last },
        }
    }
}
