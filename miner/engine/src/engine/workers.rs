//! The searchers of an engine: starts them, gives them new work and reports their figures.
//!
//! If all graphics adapters have failed, the CPU searches instead. Which job is searched is decided
//! by [`SearchContext`], and light caches are built by [`LightCacheBuilder`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};
use ethash::{Epoch, LightCaches, NEXT_EPOCH_LEAD_BLOCKS, Schedule};
use parking_lot::Mutex;

use super::config::EngineConfig;
use super::device_choice::DeviceSelection;
use super::epoch_memory::{EpochMemory, EpochRefusal};
use crate::cpu::CpuSearcher;
use crate::dataset::{DatasetManager, LightCacheBuilder};
use crate::error::MinerError;
use crate::gpu::worker::{GpuWorker, GpuWorkerEvents, SelfCheckSchedule};
use crate::gpu::{AdapterInfo, GpuOptions, KernelPolicy};
use crate::search::{CpuThrottle, Intensity, NonceCursor, SearchContext, SearchTask};
use crate::telemetry::DeviceTelemetry;
use crate::threads::{join_until, set_thread_niceness, spawn};

/// Time between two samples of the hash counts.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// The searchers of an engine, and what is needed to start more of them.
#[derive(Debug)]
pub(crate) struct EngineWorkers {
    pub(crate) context: Arc<SearchContext>,
    caches: LightCaches,
    /// Builds light caches that do not exist yet.
    pub(crate) light_caches: Arc<LightCacheBuilder>,
    /// The datasets of the CPU.
    pub(crate) datasets: Arc<DatasetManager>,
    schedule: Schedule,
    kernels: KernelPolicy,
    cpu_threads: usize,
    intensity: Intensity,
    niceness: u8,
    /// Whether progress bars are drawn on the terminal.
    bars: bool,
    /// Number of graphics workers that are in use.
    gpus_left: AtomicUsize,
    gpu_count: usize,
    cpu_started: AtomicBool,
    epoch_memory: EpochMemory,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    telemetry: Mutex<Vec<Arc<DeviceTelemetry>>>,
}

impl EngineWorkers {
    pub(crate) fn new(config: &EngineConfig, devices: &DeviceSelection, context: Arc<SearchContext>) -> Self {
        let datasets = DatasetManager::new(config.dataset.clone(), config.threads, config.niceness);
        let datasets = Arc::new(datasets);
        let light_caches =
            LightCacheBuilder::new(Arc::clone(&context), Arc::clone(&datasets), config.caches.clone());
        Self {
            context,
            caches: config.caches.clone(),
            light_caches: Arc::new(light_caches),
            datasets,
            schedule: config.schedule,
            kernels: config.kernels.clone(),
            cpu_threads: config.threads,
            intensity: config.intensity,
            niceness: config.niceness,
            bars: config.bars,
            gpus_left: AtomicUsize::new(devices.adapters.len()),
            gpu_count: devices.adapters.len(),
            cpu_started: AtomicBool::new(false),
            epoch_memory: EpochMemory::new(&devices.adapters),
            threads: Mutex::default(),
            telemetry: Mutex::default(),
        }
    }

    /// Returns the nonce cursor of adapter `index`. The adapters and the CPU have equal parts of
    /// the nonces. The CPU has the last one, even if it does not search yet.
    fn adapter_cursor(&self, index: usize) -> NonceCursor {
        NonceCursor::new(index, self.gpu_count + 1)
    }

    /// Returns the nonce cursor of CPU thread `thread`.
    fn cpu_cursor(&self, thread: usize) -> NonceCursor {
        NonceCursor::new(self.gpu_count, self.gpu_count + 1).of_thread(thread, self.cpu_threads)
    }

    /// Starts the worker of a graphics adapter. `index` counts the adapters of this engine.
    pub(crate) fn start_gpu(
        self: &Arc<Self>,
        index: usize,
        adapter: &AdapterInfo,
        options: &GpuOptions,
    ) -> Result<(), MinerError> {
        let worker = GpuWorker {
            context: Arc::clone(&self.context),
            light_caches: Arc::clone(&self.light_caches),
            events: Arc::clone(self) as Arc<dyn GpuWorkerEvents>,
            telemetry: self.add_device(
                format!("gpu:{}", adapter.index),
                adapter.name.clone(),
                adapter.pci_bus.clone(),
            ),
            bars: self.bars,
            adapter: adapter.clone(),
            options: options.clone(),
            kernels: self.kernels.clone(),
            cursor: self.adapter_cursor(index),
            intensity: self.intensity,
            self_checks: SelfCheckSchedule::default(),
        };
        let handle = spawn(&format!("gpu-{}", adapter.index), move || worker.run())?;
        self.threads.lock().push(handle);
        Ok(())
    }

    /// Starts the threads of the CPU, unless they are already running.
    pub(crate) fn start_cpu(&self) -> Result<(), MinerError> {
        if self.cpu_started.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let label = if self.cpu_threads == 1 {
            "1 thread".into()
        } else {
            format!("{} threads", self.cpu_threads)
        };
        let telemetry = self.add_device("cpu".into(), label, None);
        self.datasets.show_progress_on(Arc::clone(&telemetry), self.bars);
        for thread in 0..self.cpu_threads {
            let searcher = CpuSearcher {
                context: Arc::clone(&self.context),
                datasets: Arc::clone(&self.datasets),
                telemetry: Arc::clone(&telemetry),
                cursor: self.cpu_cursor(thread),
                throttle: CpuThrottle::new(self.intensity),
            };
            let niceness = self.niceness;
            let handle = spawn(&format!("cpu-{thread}"), move || {
                set_thread_niceness(niceness);
                searcher.run();
            })?;
            self.threads.lock().push(handle);
        }
        Ok(())
    }

    /// Checks whether the devices have the memory for `epoch`.
    pub(crate) fn check_epoch(&self, epoch: Epoch) -> Result<(), EpochRefusal> {
        let has_cache = self.caches.get_ready(epoch).is_some();
        let cpu = self.cpu_started.load(Ordering::Relaxed);
        self.epoch_memory.check(epoch, has_cache, cpu)
    }

    /// Adds a device to the status of the engine.
    fn add_device(&self, name: String, label: String, pci_bus: Option<String>) -> Arc<DeviceTelemetry> {
        let mut devices = self.telemetry.lock();
        let device = Arc::new(DeviceTelemetry::new(devices.len(), name, label, pci_bus));
        devices.push(Arc::clone(&device));
        device
    }

    /// The telemetry of all devices, in the order of their indices.
    pub(crate) fn telemetry(&self) -> Vec<Arc<DeviceTelemetry>> {
        self.telemetry.lock().clone()
    }

    /// Waits until all threads have ended, or until `deadline`.
    ///
    /// A graphics worker may start CPU threads while it ends. This function waits for them too.
    pub(crate) fn join(&self, deadline: Instant) {
        loop {
            let Some(thread) = self.threads.lock().pop() else {
                return;
            };
            join_until(thread, deadline);
        }
    }

    /// Takes work off the channel until the engine stops.
    pub(crate) fn dispatch<W: Into<SearchTask>>(&self, work: &Receiver<Option<W>>, stopped: &Receiver<()>) {
        let never = crossbeam_channel::never();
        let mut source = work;
        loop {
            select! {
                recv(stopped) -> _ => return,
                recv(source) -> task => match task {
                    // Only the newest task is searched.
                    Ok(task) => self.set_work(work.try_iter().last().unwrap_or(task).map(Into::into)),
                    Err(_) => {
                        self.set_work(None);
                        source = &never;
                    }
                },
                default(SAMPLE_EVERY) => {}
            }
            let now = Instant::now();
            for device in self.telemetry.lock().iter() {
                device.sample(now);
            }
        }
    }

    /// Makes `task` the current job and requests its light cache. Announces the next epoch shortly
    /// before it begins.
    fn set_work(&self, task: Option<SearchTask>) {
        let Some(job) = self.context.current_job.set(task) else {
            return;
        };
        let epoch = job.work.epoch;
        self.light_caches.request(&job, self.caches.get_ready(epoch));
        let Some(number) = job.work.number else { return };
        let next = self.schedule.epoch(number.saturating_add(NEXT_EPOCH_LEAD_BLOCKS));
        if next != epoch && self.schedule.epoch(number) == epoch {
            self.light_caches.announce_next(epoch, next);
        }
    }
}

impl GpuWorkerEvents for EngineWorkers {
    fn out_of_use(&self, adapter: &AdapterInfo, reason: &str) {
        let name = format!("gpu:{} ({})", adapter.index, adapter.name);
        let others = self.gpus_left.fetch_sub(1, Ordering::Relaxed) > 1;
        if others || self.cpu_started.load(Ordering::Relaxed) {
            self.context
                .add_message(format!("{name} is out of use, the other devices go on: {reason}"));
            return;
        }
        self.context.add_message(format!(
            "{name} is out of use, the CPU searches with {} threads: {reason}",
            self.cpu_threads
        ));
        if let Err(error) = self.start_cpu() {
            self.context
                .add_message(format!("the CPU does not search: {error}"));
        }
    }

    fn in_use_again(&self, adapter: &AdapterInfo) {
        self.gpus_left.fetch_add(1, Ordering::Relaxed);
        self.context.add_message(format!(
            "gpu:{} ({}) is in use again",
            adapter.index, adapter.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::NonceSpace;

    #[test]
    fn threads_of_the_cpu_leave_a_card_its_part_of_the_nonces() {
        let adapter = AdapterInfo {
            index: 0,
            name: "a card".into(),
            backend: "Vulkan".into(),
            driver: "1".into(),
            software: false,
            max_binding: 1 << 27,
            max_buffer: 1 << 31,
            max_pages: 31,
            subgroup_size: 8,
            pci_bus: None,
        };
        let space = NonceSpace::new(0xaf4c_89ab << 32, 32);
        // Returns the ranges of the cards, and those of the CPU.
        let ranges = |cards: usize, threads: usize| {
            let config = EngineConfig {
                threads,
                ..EngineConfig::default()
            };
            let devices = DeviceSelection {
                adapters: vec![adapter.clone(); cards],
                cpu: false,
                reason: "a test".into(),
            };
            let (solutions, _) = crossbeam_channel::unbounded();
            let context = Arc::new(SearchContext::new(solutions));
            let workers = EngineWorkers::new(&config, &devices, context);
            let cards = (0..cards).map(|index| workers.adapter_cursor(index).range(space));
            let threads = (0..threads).map(|thread| workers.cpu_cursor(thread).range(space));
            (cards.collect::<Vec<_>>(), threads.collect::<Vec<_>>())
        };
        for (cards, threads, card_len_min) in [(1, 64, (1 << 31) - 1), (3, 64, (1 << 30) - 1), (0, 64, 0)] {
            let (cards, threads) = ranges(cards, threads);
            assert!(cards.iter().all(|range| range.len >= card_len_min), "{cards:?}");
            let all = [cards, threads].concat();
            for pair in all.windows(2) {
                assert_eq!(pair[0].first + pair[0].len, pair[1].first, "{all:?}");
            }
            let last = all[all.len() - 1];
            assert!(space.contains(all[0].first) && space.contains(last.first + (last.len - 1)));
            let covered: u64 = all.iter().map(|range| range.len).sum();
            assert!((1 << 32) - covered <= 128, "{covered} nonces are dealt out");
        }
    }
}
