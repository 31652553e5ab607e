//! The engine: starts the searchers, hands them work, counts what they do and ends them.
//!
//! Two channels are all it shares with whoever makes the work. Knows no chain: which epoch a package belongs
//! to stands in the package, and which comes next follows from the schedule in the configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ethash::{LightCaches, Schedule};

use crate::crew::Crew;
use crate::device::{DeviceChoice, Plan};
use crate::gauge::{DeviceState, EngineStatus};
use crate::gpu::{AdapterInfo, GpuOptions, KernelMemory};
use crate::intensity::Intensity;
use crate::keeper::Keeper;
use crate::shared::Shared;
use crate::task::{Found, Task};
use crate::threads::{join_until, spawn};

/// How long the end of an engine waits for its threads. None needs a second unless it hangs in a driver or a
/// disk.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Where CPU threads get the full dataset from. Graphics adapters always have their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DatasetPolicy {
    /// There is none: they hash from the light cache.
    #[default]
    Never,
    /// It is generated in memory in the background.
    Memory,
    /// It is read from this folder, or generated and written there.
    Disk(PathBuf),
}

/// How graphics adapters come to their search kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KernelPolicy {
    /// It is the one that the options name.
    #[default]
    Given,
    /// It is the fastest, measured for some seconds on the first dataset, unless it is remembered there.
    Measured(Option<KernelMemory>),
}

impl KernelPolicy {
    /// The fastest, remembered beside the dataset files, or in the user's cache where there are none.
    pub fn measured(dataset: &DatasetPolicy) -> Self {
        Self::Measured(match dataset {
            DatasetPolicy::Disk(folder) => Some(KernelMemory::in_folder(folder)),
            DatasetPolicy::Never | DatasetPolicy::Memory => KernelMemory::in_user_cache(),
        })
    }
}

/// How an engine is to be.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The devices that search.
    pub device: DeviceChoice,
    /// Threads of the CPU, where it searches or generates a dataset. 0: nothing is searched at all,
    /// whatever the device.
    pub threads: usize,
    /// Where CPU threads get the full dataset from.
    pub dataset: DatasetPolicy,
    /// Light caches, shared with whoever checks seals.
    pub caches: LightCaches,
    /// From which the next epoch is known ahead.
    pub schedule: Schedule,
    /// For graphics adapters.
    pub gpu: GpuOptions,
    /// How graphics adapters come to their search kernel.
    pub kernels: KernelPolicy,
    /// How hard every device works.
    pub intensity: Intensity,
    /// How far the threads of the CPU let other programs go before them, where the system can: from 0, not
    /// at all, to 19.
    pub niceness: u8,
    /// Shows on a terminal how far datasets are. Off for whoever draws on the terminal itself.
    pub bars: bool,
}

impl Default for EngineConfig {
    /// The best device, a thread for each of the CPU's, no full dataset.
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            dataset: DatasetPolicy::Never,
            caches: LightCaches::new(),
            schedule: Schedule::Ethash,
            gpu: GpuOptions::default(),
            kernels: KernelPolicy::default(),
            intensity: Intensity::FULL,
            niceness: 0,
            bars: true,
        }
    }
}

/// Why an engine did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MinerError {
    /// The graphics adapter asked for does not exist.
    #[error("no graphics adapter{}: {found} found (is a Vulkan, Metal or DX12 driver installed?)", wanted.map(|index| format!(" {index}")).unwrap_or_default())]
    NoAdapter {
        /// Its number; `None` when any would have done.
        wanted: Option<usize>,
        /// How many there are.
        found: usize,
    },
    /// The system gave no thread.
    #[error("no thread for {what}: {reason}")]
    NoThread {
        /// What it was for.
        what: String,
        /// The system's words.
        reason: String,
    },
}

/// Searchers at work. Dropping it stops them.
#[derive(Debug)]
pub struct Engine {
    pub(crate) crew: Arc<Crew>,
    /// Dropped to end the dispatcher.
    stop: Option<Sender<()>>,
    dispatcher: Option<JoinHandle<()>>,
    summary: Vec<String>,
}

impl Engine {
    /// Starts the searchers; they wait for work.
    ///
    /// `work` brings tasks, of which the newest counts, and `None` for a pause. The end of that channel is a
    /// pause too. `solutions` takes at most one solution per task, unless the task asks for more.
    ///
    /// # Errors
    /// When the graphics adapter asked for does not exist, or there are no threads.
    pub fn start<W: Into<Task> + Send + 'static>(
        config: EngineConfig,
        work: Receiver<Option<W>>,
        solutions: Sender<Found>,
    ) -> Result<Self, MinerError> {
        let searches = config.threads > 0;
        let plan = if searches {
            config.device.plan_here()?
        } else {
            Plan {
                adapters: Vec::new(),
                cpu: false,
                reason: "it has 0 threads".into(),
            }
        };
        let mut engine = Self::prepare(&config, &plan, solutions);
        engine.start_dispatcher(work)?;
        for (place, adapter) in plan.adapters.iter().enumerate() {
            engine.crew.start_gpu(place, adapter, &config.gpu)?;
        }
        if plan.cpu {
            engine.crew.start_cpu()?;
        }
        Ok(engine)
    }

    /// An engine without threads.
    pub(crate) fn prepare(config: &EngineConfig, plan: &Plan, solutions: Sender<Found>) -> Self {
        let keeper = Keeper::new(config.dataset.clone(), config.threads, config.niceness);
        let shared = Arc::new(Shared::new(keeper, solutions));
        let crew = Arc::new(Crew::new(config, plan, shared));
        Self {
            crew,
            stop: None,
            dispatcher: None,
            summary: summary(config, plan),
        }
    }

    fn start_dispatcher<W: Into<Task> + Send + 'static>(
        &mut self,
        work: Receiver<Option<W>>,
    ) -> Result<(), MinerError> {
        let (stop, stopped) = bounded(0);
        let crew = Arc::clone(&self.crew);
        let run = move || crew.dispatch(&work, &stopped);
        self.dispatcher = Some(spawn("miner-work", run)?);
        self.stop = Some(stop);
        Ok(())
    }

    /// Hashes per second over the last ten seconds.
    pub fn hashrate(&self) -> f64 {
        self.status().hashrate
    }

    /// Rates, counts and states.
    pub fn status(&self) -> EngineStatus {
        let now = Instant::now();
        let mut devices: Vec<_> = self.crew.gauges().iter().map(|gauge| gauge.status(now)).collect();
        if self.crew.shared.desk.peek().is_none() {
            for device in &mut devices {
                if matches!(device.state, DeviceState::Searching { .. }) {
                    device.state = DeviceState::Waiting;
                }
            }
        }
        EngineStatus {
            hashrate: devices.iter().map(|device| device.hashrate).sum(),
            hashes: devices.iter().map(|device| device.hashes).sum(),
            solutions: devices.iter().map(|device| device.solutions).sum(),
            hardware_errors: devices.iter().map(|device| device.hardware_errors).sum(),
            devices,
        }
    }

    /// What searches and why, for the log: first how it was planned, then what has changed since.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = self.summary.clone();
        lines.extend(self.crew.shared.lines.lock().iter().cloned());
        lines
    }

    /// Ends all searchers and waits for them, though not longer than two seconds: threads that hang in a driver
    /// are left behind. No solution comes afterwards. Dropping the engine does the same.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        let deadline = Instant::now() + STOP_PATIENCE;
        self.crew.shared.desk.stop();
        drop(self.stop.take());
        self.crew.lights.stop();
        self.crew.shared.keeper.stop(deadline);
        if let Some(dispatcher) = self.dispatcher.take() {
            join_until(dispatcher, deadline);
        }
        self.crew.join(deadline);
        self.crew.shared.close();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// What will search and why, in a line or two.
fn summary(config: &EngineConfig, plan: &Plan) -> Vec<String> {
    if config.threads == 0 {
        return vec![format!("nothing is searched in this process: {}", plan.reason)];
    }
    let mut lines: Vec<_> = plan
        .adapters
        .iter()
        .map(|adapter| adapter_line(adapter, &plan.reason))
        .collect();
    if plan.cpu {
        let source = match &config.dataset {
            DatasetPolicy::Never => "from the light cache".into(),
            DatasetPolicy::Memory => "from the light cache until the full dataset is in memory".into(),
            DatasetPolicy::Disk(folder) => {
                format!(
                    "from the light cache until the full dataset is in {}",
                    folder.display()
                )
            }
        };
        lines.push(format!(
            "searching on the CPU with {} threads, {source}: {}",
            config.threads, plan.reason
        ));
    }
    lines
}

fn adapter_line(adapter: &AdapterInfo, reason: &str) -> String {
    let AdapterInfo {
        index,
        name,
        backend,
        driver,
        ..
    } = adapter;
    format!("searching on gpu:{index} ({name}, {backend}, {driver}): {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_does_not_hold_the_stop() {
        let (work, work_in) = crossbeam_channel::unbounded::<Option<Task>>();
        let (solutions_out, solutions) = crossbeam_channel::unbounded();
        let config = EngineConfig {
            device: DeviceChoice::Cpu,
            threads: 1,
            ..EngineConfig::default()
        };
        let engine = Engine::start(config, work_in, solutions_out).expect("the engine starts");
        let (release, held) = bounded::<()>(0);
        let crew = Arc::clone(&engine.crew);
        let hung = spawn("hung", move || {
            // As a searcher in a driver: it holds what all searchers share.
            let _ = held.recv();
            drop(crew);
        });
        engine.crew.workers.lock().push(hung.expect("a thread"));
        let (ended_out, ended) = bounded(1);
        std::thread::spawn(move || {
            engine.stop();
            let _ = ended_out.send(());
        });
        let patience = Duration::from_secs(20);
        assert_eq!(ended.recv_timeout(patience), Ok(()), "the stop waits for ever");
        assert_eq!(
            solutions.recv_timeout(patience),
            Err(crossbeam_channel::RecvTimeoutError::Disconnected),
            "whoever takes solutions ends too"
        );
        drop((release, work));
    }
}
