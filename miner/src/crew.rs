//! The crew: the searchers of an engine, their dials, and what it takes to start more of them.
//!
//! Gives new work to all, and puts the CPU in for graphics adapters that have all failed. What is searched where
//! is the desk's business, light caches are [`LightBuilder`]'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};
use ethash::{LightCaches, NEXT_EPOCH_LEAD_BLOCKS, Schedule};
use parking_lot::Mutex;

use crate::cpu::CpuSearcher;
use crate::device::Plan;
use crate::engine::{EngineConfig, KernelPolicy, MinerError};
use crate::gauge::Gauge;
use crate::gpu::{AdapterInfo, GpuOptions};
use crate::gpu_worker::GpuWorker;
use crate::intensity::{Intensity, Throttle, give_way};
use crate::light::LightBuilder;
use crate::shared::Shared;
use crate::task::{Cursor, Task};
use crate::threads::{join_until, spawn};

/// Between two samples of the hash counts.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// The searchers and what it takes to start more of them.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) shared: Arc<Shared>,
    caches: LightCaches,
    /// Brings those that are not there yet.
    pub(crate) lights: Arc<LightBuilder>,
    schedule: Schedule,
    kernels: KernelPolicy,
    threads: usize,
    intensity: Intensity,
    niceness: u8,
    /// Whether progress is shown by bars on the terminal.
    pub(crate) bars: bool,
    /// Graphics workers that have not given up.
    gpus_left: AtomicUsize,
    gpu_count: usize,
    cpu_started: AtomicBool,
    pub(crate) workers: Mutex<Vec<JoinHandle<()>>>,
    gauges: Mutex<Vec<Arc<Gauge>>>,
}

impl Crew {
    pub(crate) fn new(config: &EngineConfig, plan: &Plan, shared: Arc<Shared>) -> Self {
        let lights = LightBuilder::new(Arc::clone(&shared), config.caches.clone());
        Self {
            shared,
            caches: config.caches.clone(),
            lights: Arc::new(lights),
            schedule: config.schedule,
            kernels: config.kernels.clone(),
            threads: config.threads,
            intensity: config.intensity,
            niceness: config.niceness,
            bars: config.bars,
            gpus_left: AtomicUsize::new(plan.adapters.len()),
            gpu_count: plan.adapters.len(),
            cpu_started: AtomicBool::new(false),
            workers: Mutex::default(),
            gauges: Mutex::default(),
        }
    }

    /// The cursor of searcher `place`: adapters come first, then the threads of the CPU, whether they search
    /// yet or not.
    pub(crate) fn cursor(&self, place: usize) -> Cursor {
        Cursor::new(place, self.gpu_count + self.threads)
    }

    pub(crate) fn start_gpu(
        self: &Arc<Self>,
        place: usize,
        adapter: &AdapterInfo,
        options: &GpuOptions,
    ) -> Result<(), MinerError> {
        let worker = GpuWorker {
            crew: Arc::clone(self),
            gauge: self.gauge(
                format!("gpu:{}", adapter.index),
                adapter.name.clone(),
                adapter.pci_bus.clone(),
            ),
            adapter: adapter.clone(),
            options: options.clone(),
            kernels: self.kernels.clone(),
            cursor: self.cursor(place),
            intensity: self.intensity,
        };
        let handle = spawn(&format!("gpu-{}", adapter.index), move || worker.run())?;
        self.workers.lock().push(handle);
        Ok(())
    }

    /// Starts the threads of the CPU, unless they search already.
    pub(crate) fn start_cpu(&self) -> Result<(), MinerError> {
        if self.cpu_started.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let threads = if self.threads == 1 {
            "1 thread".into()
        } else {
            format!("{} threads", self.threads)
        };
        let gauge = self.gauge("cpu".into(), threads, None);
        self.shared.keeper.show_on(Arc::clone(&gauge), self.bars);
        for thread in 0..self.threads {
            let searcher = CpuSearcher {
                shared: Arc::clone(&self.shared),
                gauge: Arc::clone(&gauge),
                cursor: self.cursor(self.gpu_count + thread),
                throttle: Throttle::new(self.intensity),
            };
            let niceness = self.niceness;
            let handle = spawn(&format!("cpu-{thread}"), move || {
                give_way(niceness);
                searcher.run();
            })?;
            self.workers.lock().push(handle);
        }
        Ok(())
    }

    /// A graphics worker is out of use for `reason`, for good or for a while. The last one leaves the search to the CPU.
    pub(crate) fn gpu_failed(&self, adapter: &AdapterInfo, reason: &str) {
        let name = format!("gpu:{} ({})", adapter.index, adapter.name);
        let others = self.gpus_left.fetch_sub(1, Ordering::Relaxed) > 1;
        if others || self.cpu_started.load(Ordering::Relaxed) {
            self.shared
                .say(format!("{name} is out of use, the other devices go on: {reason}"));
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

    /// A graphics worker that was out of use searches again. Where the CPU was put in, it goes on too.
    pub(crate) fn gpu_back(&self, adapter: &AdapterInfo) {
        self.gpus_left.fetch_add(1, Ordering::Relaxed);
        self.shared.say(format!(
            "gpu:{} ({}) is in use again",
            adapter.index, adapter.name
        ));
    }

    fn gauge(&self, name: String, label: String, pci_bus: Option<String>) -> Arc<Gauge> {
        let mut gauges = self.gauges.lock();
        let gauge = Arc::new(Gauge::new(gauges.len(), name, label, pci_bus));
        gauges.push(Arc::clone(&gauge));
        gauge
    }

    /// The dials of all devices, in their order.
    pub(crate) fn gauges(&self) -> Vec<Arc<Gauge>> {
        self.gauges.lock().clone()
    }

    /// Waits for the end of all threads, until `deadline`; a graphics worker may start threads of the CPU while
    /// it ends.
    pub(crate) fn join(&self, deadline: Instant) {
        loop {
            let Some(worker) = self.workers.lock().pop() else {
                return;
            };
            join_until(worker, deadline);
        }
    }

    /// Takes work off the channel until the engine stops.
    pub(crate) fn dispatch<W: Into<Task>>(&self, work: &Receiver<Option<W>>, stopped: &Receiver<()>) {
        let never = crossbeam_channel::never();
        let mut source = work;
        loop {
            select! {
                recv(stopped) -> _ => return,
                recv(source) -> task => match task {
                    // Only the newest counts.
                    Ok(task) => self.take_work(work.try_iter().last().unwrap_or(task).map(Into::into)),
                    Err(_) => {
                        self.take_work(None);
                        source = &never;
                    }
                },
                default(SAMPLE_EVERY) => {}
            }
            let now = Instant::now();
            for gauge in self.gauges.lock().iter() {
                gauge.sample(now);
            }
        }
    }

    fn take_work(&self, task: Option<Task>) {
        let Some(job) = self.shared.desk.put(task) else {
            return;
        };
        let epoch = job.work.epoch;
        self.lights.bring(&job, self.caches.get_ready(epoch));
        let Some(number) = job.work.number else { return };
        let next = self.schedule.epoch(number.saturating_add(NEXT_EPOCH_LEAD_BLOCKS));
        if next != epoch && self.schedule.epoch(number) == epoch {
            self.lights.announce(epoch, next);
        }
    }
}
