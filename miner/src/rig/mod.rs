//! A rig: an engine, a client that brings it work, and everything by which people and programs
//! watch them.
//!
//! Runs until it is told to stop, or until it cannot do its work any more and says why by its
//! [`RigEnd`].

mod metrics;
mod monitor;
mod stall;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{bounded, unbounded};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::client::{self, ClientConfig, Ending, Ledger, TlsError, Wires};
use crate::display::{self, Screen};
use crate::engine::{Engine, EngineConfig};
use crate::error::MinerError;
use crate::search::FoundSolution;
use crate::status::{self, Status};
use crate::stop::StopSignal;

pub use monitor::{DeviceReport, Monitor, Report};

#[cfg(test)]
pub(crate) use monitor::tests::sample as sample_report;

/// Solutions that may wait for the client.
const SOLUTIONS_MAX: usize = 256;

/// How long the client may take to end.
const CLIENT_END_MAX: Duration = Duration::from_millis(1500);

/// How a rig is to be.
#[derive(Clone, Debug)]
pub struct RigConfig {
    /// The searchers.
    pub engine: EngineConfig,
    /// Nodes and pools.
    pub client: ClientConfig,
    /// Where status and metrics are served, as address and port; nowhere when `None`.
    pub status: Option<SocketAddr>,
    /// Between two lines about the hashrate, where no table is shown.
    pub log_every: Duration,
    /// With work and without a single hash for so long, the rig ends; never when `None`.
    pub stall_timeout: Option<Duration>,
}

/// Why a rig has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RigEnd {
    /// By a signal.
    Stopped,
    /// No endpoint could be reached for as long as was allowed.
    NoConnection {
        /// How long that was.
        after: Duration,
        /// What went wrong last.
        last: String,
    },
    /// There was work, and no device did any of it.
    Stalled {
        /// For how long.
        after: Duration,
    },
}

/// Why a rig did not start.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] MinerError),
    /// The settings for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The status cannot be served there.
    #[error("cannot serve the status on {address}: {reason}")]
    Status {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        reason: io::Error,
    },
    /// Something of the system is missing.
    #[error("{what}: {reason}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        reason: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> RigError {
    move |reason| RigError::System { what, reason }
}

/// Runs a rig that is watched on `screen`.
///
/// # Errors
/// [`RigError`] when it cannot start.
pub fn run(config: RigConfig, screen: &Screen) -> Result<RigEnd, RigError> {
    // One thread: the rest of the machine is for searching.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("cannot start the network thread"))?;
    let end = runtime.block_on(serve(config, screen));
    // What still waits (a name that is being looked up) is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    end
}

async fn serve(config: RigConfig, screen: &Screen) -> Result<RigEnd, RigError> {
    let mut signal = StopSignal::listen().map_err(system("cannot listen for signals"))?;
    let (work, work_in) = unbounded();
    let (solutions_out, solutions) = bounded::<FoundSolution>(SOLUTIONS_MAX);
    let ledger = Arc::new(Ledger::new(&config.client.endpoints));
    let engine = Engine::start(config.engine, work_in, solutions_out)?;
    for line in engine.describe() {
        tracing::info!("{line}");
    }
    let monitor = Arc::new(Monitor::new(engine, Arc::clone(&ledger)));
    let (found_out, found) = mpsc::channel(SOLUTIONS_MAX);
    // Ends with the engine, whose end of the channel it waits for.
    std::thread::Builder::new()
        .name("solutions".into())
        .spawn(move || {
            for solution in solutions {
                if found_out.blocking_send(solution).is_err() {
                    return;
                }
            }
        })
        .map_err(system("no thread for solutions"))?;
    let mut served = None;
    if let Some(address) = config.status {
        let watched: Arc<dyn Status> = Arc::clone(&monitor) as _;
        let status = status::serve(address, watched)
            .await
            .map_err(|reason| RigError::Status { address, reason })?;
        let bound = status.address();
        tracing::info!("status at http://{bound}/, metrics at http://{bound}/metrics");
        served = Some(status);
    }
    let rate = Arc::clone(&monitor);
    let wires = Wires {
        work,
        found,
        hashrate: Arc::new(move || rate.hashrate()),
    };
    let (stop, stopped) = watch::channel(false);
    let mut client = Box::pin(client::run(config.client, wires, ledger, stopped));
    let mut client_ended = false;
    let end = tokio::select! {
        ending = &mut client => {
            client_ended = true;
            ending.map(RigEnd::from).map_err(Into::into)
        }
        () = signal.wait() => Ok(RigEnd::Stopped),
        after = stall::watch(&monitor, config.stall_timeout) => Ok(RigEnd::Stalled { after }),
        never = display::show(screen, &monitor, config.log_every) => match never {},
    };
    stop.send_replace(true);
    if !client_ended {
        // What is on its way to a node or a pool gets there, or is counted as lost.
        let _ = timeout(CLIENT_END_MAX, client).await;
    }
    drop(served);
    screen.clear();
    display::sum_up(&monitor.report());
    monitor.stop_engine();
    end
}

impl From<Ending> for RigEnd {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Stopped => Self::Stopped,
            Ending::NoConnection { after, last } => Self::NoConnection { after, last },
        }
    }
}
