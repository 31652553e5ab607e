//! The engine: starts the searchers, gives them work, reports their figures and ends them.
//!
//! The engine and its owner share two channels: one for work, one for solutions. The engine knows
//! no chain. A work package names its epoch, and the schedule in the configuration tells which
//! epoch comes next.

mod config;
mod device_choice;
mod epoch_memory;
mod workers;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ethash::Epoch;

use self::workers::EngineWorkers;
use crate::dataset::DatasetPolicy;
use crate::error::MinerError;
use crate::gpu::AdapterInfo;
use crate::search::{FoundSolution, SearchContext, SearchTask};
use crate::telemetry::{DeviceState, EngineStatus, RestCause};
use crate::threads::{join_until, spawn};

pub use config::EngineConfig;
pub use device_choice::{DeviceChoice, DeviceParseError, DeviceSelection};
pub use epoch_memory::{EpochRefusal, check_bench_memory};

/// The time for which the end of an engine waits for its threads. Every thread ends within a
/// second, unless it hangs in a driver or in a disk operation.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// A running engine. Dropping it stops its searchers.
#[derive(Debug)]
pub struct Engine {
    pub(crate) workers: Arc<EngineWorkers>,
    /// Dropped to end the dispatcher.
    stop: Option<Sender<()>>,
    dispatcher: Option<JoinHandle<()>>,
    summary: Vec<String>,
}

impl Engine {
    /// Starts the searchers. They wait for work.
    ///
    /// `work` brings tasks. Only the newest task is searched. `None` pauses the search, and so does
    /// the end of that channel. `solutions` gets at most one solution for each task, unless the
    /// task asks for more.
    ///
    /// # Errors
    /// If the requested graphics adapter does not exist, or the system starts no thread.
    pub fn start<W: Into<SearchTask> + Send + 'static>(
        config: EngineConfig,
        work: Receiver<Option<W>>,
        solutions: Sender<FoundSolution>,
    ) -> Result<Self, MinerError> {
        let searches = config.threads > 0;
        let devices = if searches {
            config.device.select_here()?
        } else {
            DeviceSelection {
                adapters: Vec::new(),
                cpu: false,
                reason: "it has 0 threads".into(),
            }
        };
        let mut engine = Self::without_threads(&config, &devices, solutions);
        engine.start_dispatcher(work)?;
        for (index, adapter) in devices.adapters.iter().enumerate() {
            engine.workers.start_gpu(index, adapter, &config.gpu)?;
        }
        if devices.cpu {
            engine.workers.start_cpu()?;
        }
        Ok(engine)
    }

    /// Makes an engine that has no threads yet.
    pub(crate) fn without_threads(
        config: &EngineConfig,
        devices: &DeviceSelection,
        solutions: Sender<FoundSolution>,
    ) -> Self {
        let context = Arc::new(SearchContext::new(solutions));
        Self {
            workers: Arc::new(EngineWorkers::new(config, devices, context)),
            stop: None,
            dispatcher: None,
            summary: summary(config, devices),
        }
    }

    fn start_dispatcher<W: Into<SearchTask> + Send + 'static>(
        &mut self,
        work: Receiver<Option<W>>,
    ) -> Result<(), MinerError> {
        let (stop, stopped) = bounded(0);
        let workers = Arc::clone(&self.workers);
        let run = move || workers.dispatch(&work, &stopped);
        self.dispatcher = Some(spawn("miner-work", run)?);
        self.stop = Some(stop);
        Ok(())
    }

    /// Hashes per second over the last ten seconds.
    pub fn hashrate(&self) -> f64 {
        self.status().hashrate
    }

    /// Hash rates, counts and states of all devices.
    pub fn status(&self) -> EngineStatus {
        let now = Instant::now();
        let telemetry = self.workers.telemetry();
        let mut devices: Vec<_> = telemetry.iter().map(|device| device.status(now)).collect();
        if self.workers.context.current_job.get().is_none() {
            for device in &mut devices {
                // Without work, a device that has begun to generate its dataset goes on.
                let has_ended = match device.state {
                    DeviceState::Searching { .. } => true,
                    DeviceState::Preparing { .. } => device.dataset.is_none(),
                    _ => false,
                };
                if has_ended {
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

    /// Makes device `index` rest for `cause`, or ends that rest. Returns whether that is a change.
    pub fn set_rest(&self, index: usize, cause: RestCause, rests: bool) -> bool {
        let telemetry = self.workers.telemetry();
        let changes = telemetry
            .get(index)
            .is_some_and(|device| device.control.set_rest(cause, rests));
        self.workers.context.current_job.wake();
        changes
    }

    /// Notes that device `index` has made no progress for `time`, although it should have: until
    /// `None` is given, it is shown as one that is tried again.
    pub fn set_hung(&self, index: usize, time: Option<Duration>) {
        if let Some(device) = self.workers.telemetry().get(index) {
            device.control.set_hung(time);
        }
    }

    /// Makes cards begin anew: they are opened again, with a new dataset, even if they were given
    /// up. With `index` only that device. Threads of the processor have nothing to open.
    pub fn restart(&self, index: Option<usize>) {
        for device in self.workers.telemetry() {
            if index.is_none_or(|index| index == device.index) {
                device.control.request_restart();
            }
        }
        self.workers.context.current_job.wake();
    }

    /// Checks whether the devices have the memory for `epoch`.
    ///
    /// # Errors
    /// [`EpochRefusal`] says what is too small.
    pub fn check_epoch(&self, epoch: Epoch) -> Result<(), EpochRefusal> {
        self.workers.check_epoch(epoch)
    }

    /// Describes for the log which devices search and why: first the choice at the start, then what
    /// has changed since.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = self.summary.clone();
        lines.extend(self.workers.context.messages.lock().iter().cloned());
        lines
    }

    /// Ends all searchers and waits for them, for two seconds at most. Threads that hang in a
    /// driver are left behind. No solution is sent afterwards. Dropping the engine does the same.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        let deadline = Instant::now() + STOP_PATIENCE;
        self.workers.context.current_job.stop();
        drop(self.stop.take());
        self.workers.light_caches.stop();
        self.workers.datasets.stop(deadline);
        if let Some(dispatcher) = self.dispatcher.take() {
            join_until(dispatcher, deadline);
        }
        self.workers.join(deadline);
        self.workers.context.close_solutions();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Describes which devices will search and why, in one line for each.
fn summary(config: &EngineConfig, devices: &DeviceSelection) -> Vec<String> {
    if config.threads == 0 {
        return vec![format!("nothing is searched in this process: {}", devices.reason)];
    }
    let mut lines: Vec<_> = devices
        .adapters
        .iter()
        .map(|adapter| adapter_line(adapter, &devices.reason))
        .collect();
    if devices.cpu {
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
            config.threads, devices.reason
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
    use crate::telemetry::DatasetProgress;

    #[test]
    fn without_work_only_a_dataset_under_way_is_shown_as_preparing() {
        let (_work, work_in) = crossbeam_channel::unbounded::<Option<SearchTask>>();
        let config = EngineConfig {
            device: DeviceChoice::Cpu,
            threads: 1,
            ..EngineConfig::default()
        };
        let (solutions_out, _solutions) = crossbeam_channel::unbounded();
        let engine = Engine::start(config, work_in, solutions_out).expect("the engine starts");
        let device = &engine.workers.telemetry()[0];
        let preparing = DeviceState::Preparing { epoch: 1 };
        device.set_state(preparing.clone());
        let state = || engine.status().devices[0].state.clone();
        assert_eq!(state(), DeviceState::Waiting);
        device.set_dataset(Some(DatasetProgress {
            epoch: 1,
            done: 0,
            total: 9,
        }));
        assert_eq!(state(), preparing);
    }

    #[test]
    fn a_thread_that_hangs_does_not_hold_the_stop() {
        let (work, work_in) = crossbeam_channel::unbounded::<Option<SearchTask>>();
        let (solutions_out, solutions) = crossbeam_channel::unbounded();
        let config = EngineConfig {
            device: DeviceChoice::Cpu,
            threads: 1,
            ..EngineConfig::default()
        };
        let engine = Engine::start(config, work_in, solutions_out).expect("the engine starts");
        let (release, released) = bounded::<()>(0);
        let workers = Arc::clone(&engine.workers);
        let hung = spawn("hung", move || {
            // Like a searcher that hangs in a driver, the thread holds what all searchers share.
            let _ = released.recv();
            drop(workers);
        });
        engine.workers.threads.lock().push(hung.expect("a thread"));
        let (ended_out, ended) = bounded(1);
        std::thread::spawn(move || {
            engine.stop();
            let _ = ended_out.send(());
        });
        let patience = Duration::from_secs(20);
        assert_eq!(ended.recv_timeout(patience), Ok(()), "the stop waits forever");
        assert_eq!(
            solutions.recv_timeout(patience),
            Err(crossbeam_channel::RecvTimeoutError::Disconnected),
            "the channel of solutions is closed"
        );
        drop((release, work));
    }
}
