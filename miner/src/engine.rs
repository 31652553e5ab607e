//! The engine: starts the searchers, hands them work, counts what they do and ends them.
//!
//! Two channels are all it shares with whoever makes the work. Knows no chain: which epoch a package belongs
//! to stands in the package, and which comes next follows from the schedule in the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{hash::BuildHasher, hash::Hasher, hash::RandomState, io, path::PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use ethash::{LightCaches, Schedule, Solution, WorkPackage};
use parking_lot::Mutex;

use crate::cpu::CpuSearcher;
use crate::desk::Job;
use crate::device::{DeviceChoice, Plan};
use crate::gpu::{AdapterInfo, GpuOptions};
use crate::gpu_worker::GpuWorker;
use crate::keeper::Keeper;
use crate::rate::Meter;
use crate::shared::{EngineStatus, Shared};

/// Between two samples of the hash counts.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// How many blocks before its first one the next epoch's light cache is built.
const PREPARE_BLOCKS_AHEAD: u64 = 1000;

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

/// How an engine is to be.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The device that searches.
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
    /// `work` brings packages, of which the newest counts, and `None` for a pause. The end of that channel is
    /// a pause too. `solutions` takes at most one solution per package.
    ///
    /// # Errors
    /// When the graphics adapter asked for does not exist, or there are no threads.
    pub fn start(
        config: EngineConfig,
        work: Receiver<Option<WorkPackage>>,
        solutions: Sender<Solution>,
    ) -> Result<Self, MinerError> {
        let searches = config.threads > 0;
        let plan = if searches {
            config.device.plan_here()?
        } else {
            Plan {
                adapters: Vec::new(),
                reason: "it has 0 threads".into(),
            }
        };
        let mut engine = Self::prepare(&config, &plan, solutions);
        engine.start_dispatcher(work)?;
        for (place, adapter) in plan.adapters.iter().enumerate() {
            engine.crew.start_gpu(place, adapter, &config.gpu)?;
        }
        if searches && plan.adapters.is_empty() {
            engine.crew.start_cpu()?;
        }
        Ok(engine)
    }

    /// An engine without threads.
    pub(crate) fn prepare(config: &EngineConfig, plan: &Plan, solutions: Sender<Solution>) -> Self {
        let keeper = Keeper::new(config.dataset.clone(), config.threads);
        let shared = Arc::new(Shared::new(keeper, solutions));
        let crew = Arc::new(Crew {
            shared,
            caches: config.caches.clone(),
            schedule: config.schedule,
            threads: config.threads,
            gpus_left: AtomicU64::new(plan.adapters.len() as u64),
            nonces: NonceRanges::new(plan.adapters.len() + config.threads),
            gpu_count: plan.adapters.len(),
            workers: Mutex::default(),
            meters: Mutex::default(),
        });
        Self {
            crew,
            stop: None,
            dispatcher: None,
            summary: summary(config, plan),
        }
    }

    fn start_dispatcher(&mut self, work: Receiver<Option<WorkPackage>>) -> Result<(), MinerError> {
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

    /// Rates and counts.
    pub fn status(&self) -> EngineStatus {
        let now = Instant::now();
        let meters = self.crew.meters.lock();
        EngineStatus {
            hashrate: meters.iter().map(|(_, meter)| meter.rate(now)).sum(),
            hashes: meters.iter().map(|(_, meter)| meter.total()).sum(),
            solutions: self.crew.shared.found.load(Ordering::Relaxed),
            hardware_errors: self.crew.shared.hardware_errors.load(Ordering::Relaxed),
            devices: meters
                .iter()
                .map(|(name, meter)| (name.clone(), meter.rate(now)))
                .collect(),
        }
    }

    /// What searches and why, for the log: first how it was planned, then what has changed since.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = self.summary.clone();
        lines.extend(self.crew.shared.lines.lock().iter().cloned());
        lines
    }

    /// Ends all searchers and waits for them. Dropping the engine does the same.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        self.crew.shared.desk.stop();
        drop(self.stop.take());
        self.crew.shared.keeper.stop();
        if let Some(dispatcher) = self.dispatcher.take() {
            let _ = dispatcher.join();
        }
        // A graphics worker may start CPU threads while it ends.
        loop {
            let Some(worker) = self.crew.workers.lock().pop() else {
                break;
            };
            let _ = worker.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// The searchers and what it takes to start more of them.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) shared: Arc<Shared>,
    caches: LightCaches,
    schedule: Schedule,
    threads: usize,
    /// Graphics workers that have not given up.
    gpus_left: AtomicU64,
    gpu_count: usize,
    nonces: NonceRanges,
    workers: Mutex<Vec<JoinHandle<()>>>,
    meters: Mutex<Vec<(String, Arc<Meter>)>>,
}

impl Crew {
    fn start_gpu(
        self: &Arc<Self>,
        place: usize,
        adapter: &AdapterInfo,
        options: &GpuOptions,
    ) -> Result<(), MinerError> {
        let worker = GpuWorker {
            crew: Arc::clone(self),
            meter: self.meter(format!("gpu:{}", adapter.index)),
            adapter: adapter.clone(),
            options: options.clone(),
            next_nonce: self.nonces.start(place),
        };
        let handle = spawn(&format!("gpu-{}", adapter.index), move || worker.run())?;
        self.workers.lock().push(handle);
        Ok(())
    }

    fn start_cpu(&self) -> Result<(), MinerError> {
        let meter = self.meter("cpu".into());
        for thread in 0..self.threads {
            let searcher = CpuSearcher {
                shared: Arc::clone(&self.shared),
                meter: Arc::clone(&meter),
                next_nonce: self.nonces.start(self.gpu_count + thread),
            };
            let handle = spawn(&format!("cpu-{thread}"), move || searcher.run())?;
            self.workers.lock().push(handle);
        }
        Ok(())
    }

    /// A graphics worker gives up for `reason`. The last one leaves the search to the CPU.
    pub(crate) fn gpu_failed(&self, adapter: &AdapterInfo, reason: &str) {
        let name = format!("gpu:{} ({})", adapter.index, adapter.name);
        if self.gpus_left.fetch_sub(1, Ordering::Relaxed) > 1 {
            self.shared.say(format!(
                "{name} is out of use, the other adapters go on: {reason}"
            ));
            return;
        }
        self.shared.say(format!(
            "{name} is out of use, the CPU searches with {} threads: {reason}",
            self.threads
        ));
        if let Err(error) = self.start_cpu() {
            self.shared.say(format!("the CPU does not search: {error}"));
        }
    }

    fn meter(&self, name: String) -> Arc<Meter> {
        let meter = Arc::new(Meter::default());
        meter.sample(Instant::now());
        self.meters.lock().push((name, Arc::clone(&meter)));
        meter
    }

    /// Takes work off the channel until the engine stops.
    fn dispatch(self: &Arc<Self>, work: &Receiver<Option<WorkPackage>>, stopped: &Receiver<()>) {
        let never = crossbeam_channel::never();
        let mut source = work;
        loop {
            select! {
                recv(stopped) -> _ => return,
                recv(source) -> package => match package {
                    // Only the newest counts.
                    Ok(package) => self.take_work(work.try_iter().last().unwrap_or(package)),
                    Err(_) => {
                        self.take_work(None);
                        source = &never;
                    }
                },
                default(SAMPLE_EVERY) => {}
            }
            let now = Instant::now();
            for (_, meter) in self.meters.lock().iter() {
                meter.sample(now);
            }
        }
    }

    fn take_work(self: &Arc<Self>, package: Option<WorkPackage>) {
        let Some(job) = self.shared.desk.put(package) else {
            return;
        };
        let epoch = job.work.epoch;
        match self.caches.get_ready(epoch) {
            Some(cache) => self.shared.desk.bring_cache(&job, cache),
            None => self.fetch_cache(&job),
        }
        let Some(number) = job.work.number else { return };
        let next = self.schedule.epoch(number.saturating_add(PREPARE_BLOCKS_AHEAD));
        if next != epoch && self.schedule.epoch(number) == epoch {
            self.caches.prepare(next);
        }
    }

    /// Brings the light cache of `job` when it is there. The thread is nobody's: building cannot be hurried,
    /// and the engine's end does not wait for it.
    fn fetch_cache(self: &Arc<Self>, job: &Arc<Job>) {
        let (crew, own_job) = (Arc::clone(self), Arc::clone(job));
        let fetch = move || match crew.caches.get(own_job.work.epoch) {
            Ok(cache) => crew.shared.desk.bring_cache(&own_job, cache),
            Err(error) => {
                tracing::warn!(
                    epoch = own_job.work.epoch.index,
                    "work cannot be searched: {error}"
                );
                crew.shared.desk.finish(&own_job);
            }
        };
        if let Err(error) = spawn("light-cache", fetch) {
            tracing::warn!("work cannot be searched: {error}");
            self.shared.desk.finish(job);
        }
    }
}

/// A range of nonces for each searcher, from a random start, so that no two ever try the same.
#[derive(Debug)]
struct NonceRanges {
    start: u64,
    width: u64,
}

impl NonceRanges {
    fn new(searchers: usize) -> Self {
        // The keys of a new hasher come from the system's randomness.
        let start = RandomState::new().build_hasher().finish();
        Self {
            start,
            width: u64::MAX / (searchers as u64).max(1),
        }
    }

    fn start(&self, place: usize) -> u64 {
        self.start.wrapping_add(self.width.wrapping_mul(place as u64))
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MinerError> {
    let no_thread = |error: io::Error| MinerError::NoThread {
        what: name.to_owned(),
        reason: error.to_string(),
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(no_thread)
}

/// What will search and why, in a line or two.
fn summary(config: &EngineConfig, plan: &Plan) -> Vec<String> {
    if config.threads == 0 {
        return vec![format!("nothing is searched in this process: {}", plan.reason)];
    }
    if plan.adapters.is_empty() {
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
        return vec![format!(
            "searching on the CPU with {} threads, {source}: {}",
            config.threads, plan.reason
        )];
    }
    let line = |adapter: &AdapterInfo| {
        let AdapterInfo {
            index,
            name,
            backend,
            driver,
            ..
        } = adapter;
        format!(
            "searching on gpu:{index} ({name}, {backend}, {driver}): {}",
            plan.reason
        )
    };
    plan.adapters.iter().map(line).collect()
}
