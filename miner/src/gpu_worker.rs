//! Searches nonces on one graphics adapter, for an engine.
//!
//! Takes work from the desk, keeps the dataset of its epoch on the device and checks every hit with the
//! light cache. A lost or hung device is opened anew; one that cannot be used is reported, and the engine
//! decides who goes on. How the device is driven is [`crate::gpu`]'s business.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{Epoch, LightCache};

use crate::crew::Crew;
use crate::desk::Job;
use crate::engine::KernelPolicy;
use crate::gauge::{DatasetProgress, DeviceState, Gauge};
use crate::gpu::{AdapterInfo, BatchReport, GpuError, GpuOptions, GpuSearcher, GpuWork, choose_kernel};
use crate::intensity::Intensity;
use crate::progress::Progress;
use crate::room::has_room_for;
use crate::shared::{Compared, Hit};
use crate::task::Cursor;

/// The wait before a lost device is opened anew, doubled with each failure.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
/// The longest such wait.
const LAST_BACK_OFF: Duration = Duration::from_secs(30);
/// Failures in a row after which a device is given up.
const FAILURES_MAX: u32 = 6;

/// The searcher of one adapter.
pub(crate) struct GpuWorker {
    pub(crate) crew: Arc<Crew>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) adapter: AdapterInfo,
    pub(crate) options: GpuOptions,
    /// How the search kernel is found; once it is, it stands in the options.
    pub(crate) kernels: KernelPolicy,
    /// This device's own nonces.
    pub(crate) cursor: Cursor,
    pub(crate) intensity: Intensity,
}

impl GpuWorker {
    /// Searches until the engine stops or the device is given up.
    pub(crate) fn run(self) {
        self.run_with(None);
    }

    fn run_with(mut self, mut device: Option<Device>) {
        let mut failures = 0;
        while let Some(job) = self.crew.shared.desk.take() {
            let Err(error) = self.use_device(&mut device, &job, &mut failures) else {
                continue;
            };
            if matches!(error, GpuError::Cancelled { .. }) {
                continue;
            }
            failures += 1;
            if !is_passing(&error) || failures > FAILURES_MAX {
                drop(device);
                let reason = error.to_string();
                self.crew.gpu_failed(&self.adapter, &reason);
                self.gauge.set_state(DeviceState::Failed { reason });
                return;
            }
            // Opened anew: nothing of a failed device is worth keeping.
            device = None;
            let wait = back_off(failures);
            let line = format!(
                "gpu:{} ({}): {error}; opened anew in {wait:?}",
                self.adapter.index, self.adapter.name
            );
            tracing::warn!("{line}");
            self.gauge.set_state(DeviceState::Recovering {
                reason: error.to_string(),
            });
            self.crew.shared.desk.sleep(wait);
        }
    }

    /// Searches for `job` and what follows it, until there is nothing to search or the device fails.
    fn use_device(
        &mut self,
        device: &mut Option<Device>,
        job: &Arc<Job>,
        failures: &mut u32,
    ) -> Result<(), GpuError> {
        let epoch = job.work.epoch;
        self.gauge
            .set_state(DeviceState::Preparing { epoch: epoch.index });
        let Some(cache) = self.crew.shared.desk.cache_of(job) else {
            return Ok(());
        };
        let device = match device {
            Some(device) => device,
            None => device.insert(Device::new(GpuSearcher::new(self.adapter.index, self.steered())?)),
        };
        if device.loaded != Some(epoch) {
            device.loaded = None;
            self.load(device, epoch, &cache)?;
            self.choose_kernel(device, epoch)?;
            device.loaded = Some(epoch);
        }
        self.search(device, job, &cache, failures)
    }

    /// The options, at the intensity asked for: pauses are worth something only with one batch at a time.
    fn steered(&self) -> GpuOptions {
        let options = self.options.clone();
        if self.intensity.is_full() {
            return options;
        }
        GpuOptions {
            in_flight: 1,
            target_batch: self.intensity.batch(options.target_batch),
            ..options
        }
    }

    /// Brings the dataset of `epoch` to the device, as long as the work is of that epoch.
    fn load(&self, device: &mut Device, epoch: Epoch, cache: &Arc<LightCache>) -> Result<(), GpuError> {
        let what = format!(
            "generating the dataset of epoch {} on gpu:{}",
            epoch.index, self.adapter.index
        );
        let ahead = device.ahead.take().filter(|ahead| ahead.epoch == epoch);
        let made_ahead = device.searcher.prepared().filter(|_| ahead.is_some());
        let dials = Some((Arc::clone(&self.gauge), epoch.index));
        let mut progress = Progress::shown(what, self.crew.bars, dials);
        let result = device.searcher.set_epoch(cache, &mut |at| {
            progress.report(at.items_done, at.items_total);
            let wanted = self.crew.shared.desk.wants_epoch(epoch);
            if wanted {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let seconds = progress.end().as_secs_f64();
        result?;
        let (epoch, adapter) = (epoch.index, &self.adapter.name);
        if let Some(at) = made_ahead {
            let percent_ahead = u64::from(at.items_done) * 100 / u64::from(at.items_total.max(1));
            tracing::info!(epoch, %adapter, seconds, percent_ahead, "epoch switched, dataset made ahead");
        } else {
            tracing::info!(epoch, %adapter, seconds, "dataset generated on the device");
        }
        Ok(())
    }

    /// Chooses the search kernel, the first time, if it is to be chosen.
    fn choose_kernel(&mut self, device: &mut Device, epoch: Epoch) -> Result<(), GpuError> {
        let KernelPolicy::Measured(memory) = &self.kernels else {
            return Ok(());
        };
        let desk = &self.crew.shared.desk;
        let wanted = || desk.wants_epoch(epoch);
        let chosen = choose_kernel(&mut device.searcher, memory.as_ref(), &wanted)?;
        tracing::info!(
            adapter = %self.adapter.name,
            form = chosen.form.name(),
            workgroup_size = chosen.workgroup_size,
            batch_ms = chosen.target_batch.map(|batch| batch.as_millis() as u64),
            remembered = chosen.hashrate.is_none(),
            "search kernel chosen"
        );
        self.options.kernel = chosen.form;
        self.options.workgroup_size = chosen.workgroup_size;
        if let Some(batch) = chosen.target_batch {
            self.options.target_batch = batch.min(self.options.target_batch);
        }
        self.kernels = KernelPolicy::Given;
        Ok(())
    }

    /// Begins the dataset of the epoch that comes next, as soon as that is known, and shows how far it is.
    fn prepare_next(&self, device: &mut Device, present: Epoch) -> Result<(), GpuError> {
        let Some((epoch, cache)) = self.crew.lights.coming(present) else {
            return Ok(());
        };
        let adapter = &self.adapter.name;
        if device.ahead.as_ref().is_none_or(|ahead| ahead.epoch != epoch) {
            device.ahead = Some(Ahead {
                epoch,
                begun: Instant::now(),
                made: false,
            });
            let refused = if self.adapter.software && !has_room_for(cache.dataset_bytes()) {
                Some("there is too little memory".to_owned())
            } else {
                match device.searcher.prepare(&cache) {
                    Ok(()) => None,
                    Err(error) if error.needs_rebuild() => return Err(error),
                    Err(error) => Some(error.to_string()),
                }
            };
            if let Some(reason) = refused {
                tracing::info!(epoch = epoch.index, %adapter, reason, "the next dataset is made at the switch");
            }
        }
        let (Some(ahead), Some(at)) = (&mut device.ahead, device.searcher.prepared()) else {
            return Ok(());
        };
        if ahead.made {
            return Ok(());
        }
        ahead.made = at.items_done == at.items_total;
        self.gauge.set_dataset((!ahead.made).then_some(DatasetProgress {
            epoch: epoch.index,
            done: at.items_done,
            total: at.items_total,
        }));
        if ahead.made {
            let seconds = ahead.begun.elapsed().as_secs_f64();
            tracing::info!(epoch = epoch.index, %adapter, seconds, "next dataset made ahead");
        }
        Ok(())
    }

    /// Batches for `job` and for all that follows in its epoch, without letting the device run empty.
    fn search(
        &mut self,
        device: &mut Device,
        job: &Arc<Job>,
        cache: &Arc<LightCache>,
        failures: &mut u32,
    ) -> Result<(), GpuError> {
        let epoch = job.work.epoch;
        let mut job = Arc::clone(job);
        loop {
            self.gauge
                .set_state(DeviceState::Searching { epoch: epoch.index });
            self.cursor.begin();
            device.searcher.set_work(self.gpu_work(&job));
            while self.crew.shared.desk.is_active(&job) {
                if self.cursor.is_used_up(job.nonces) {
                    device.searcher.stop()?;
                    self.crew.shared.desk.outwait(&job);
                    break;
                }
                let report = device.searcher.next_batch()?;
                *failures = 0;
                if self.take_report(&report, &job, cache) {
                    device.searcher.set_work(self.gpu_work(&job));
                }
                self.prepare_next(device, epoch)?;
                if !self.intensity.is_full() {
                    self.crew.shared.desk.sleep(self.intensity.pause(report.elapsed));
                }
            }
            match self.crew.shared.desk.peek() {
                Some(next) if next.work.epoch == epoch => job = next,
                _ => return device.searcher.stop(),
            }
        }
    }

    /// The work with the next of this device's nonces.
    fn gpu_work(&self, job: &Job) -> GpuWork {
        GpuWork {
            id: job.id,
            header_hash: job.work.header_hash,
            boundary: job.work.boundary,
            start_nonce: self.cursor.peek(job.nonces),
            nonces: self.cursor.in_a_row(job.nonces),
        }
    }

    /// Counts a batch and hands in what it found. True where it reached the end of this device's nonces, so
    /// that the next one must begin elsewhere.
    fn take_report(&mut self, report: &BatchReport, job: &Job, cache: &LightCache) -> bool {
        self.gauge.add(report.count.into());
        // Batches for the work before are under way for a moment; what they find is of no use.
        if report.work.id != job.id {
            return false;
        }
        let over = self
            .cursor
            .advance(job.nonces, report.first_nonce, report.count.into());
        for hit in &report.hits {
            let hit = Hit {
                pow_nonce: hit.pow_nonce,
                mix_hash: hit.mix_hash,
                compared: Compared::Top64,
            };
            if !self.crew.shared.check_and_solve(job, &self.gauge, cache, &hit) {
                tracing::warn!(adapter = %self.adapter.name, nonce = hit.pow_nonce, "the device found a wrong hash");
            }
            if !self.crew.shared.desk.is_active(job) {
                return over;
            }
        }
        over
    }
}

/// An open device and the epoch whose dataset it holds.
struct Device {
    searcher: GpuSearcher,
    loaded: Option<Epoch>,
    /// The epoch to come, once its dataset has begun or was refused.
    ahead: Option<Ahead>,
}

struct Ahead {
    epoch: Epoch,
    begun: Instant,
    made: bool,
}

impl Device {
    fn new(searcher: GpuSearcher) -> Self {
        Self {
            searcher,
            loaded: None,
            ahead: None,
        }
    }
}

/// Whether opening the device anew may help.
fn is_passing(error: &GpuError) -> bool {
    error.needs_rebuild() || matches!(error, GpuError::WrongItem { .. } | GpuError::WrongHash { .. })
}

/// The wait after so many failures in a row.
fn back_off(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_BACK_OFF.saturating_mul(doubled).min(LAST_BACK_OFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Plan;
    use crate::engine::{Engine, EngineConfig};
    use crate::task::Found;
    use ethash::{B256, LightCaches, WorkPackage};

    /// The first adapter. `None`, with a word why, where there is none and none is required.
    fn first_adapter() -> Option<AdapterInfo> {
        let adapter = crate::gpu::list_adapters().into_iter().next();
        if adapter.is_none() {
            assert!(
                std::env::var_os("REQUIRE_GPU").is_none(),
                "REQUIRE_GPU is set and there is no adapter"
            );
            eprintln!("skipped: no graphics adapter");
        }
        adapter
    }

    /// An engine without threads for `adapter`, with the test sizes, and the receiver of its solutions.
    fn idle_engine(adapter: &AdapterInfo) -> (Engine, EngineConfig, crossbeam_channel::Receiver<Found>) {
        let config = EngineConfig {
            caches: LightCaches::with_sizes(1024, 32_768),
            threads: 1,
            ..EngineConfig::default()
        };
        let plan = Plan {
            adapters: vec![adapter.clone()],
            cpu: false,
            reason: "a test".into(),
        };
        let (solutions_out, solutions) = crossbeam_channel::unbounded();
        (Engine::prepare(&config, &plan, solutions_out), config, solutions)
    }

    fn worker(engine: &Engine, adapter: AdapterInfo, options: GpuOptions) -> GpuWorker {
        GpuWorker {
            crew: Arc::clone(&engine.crew),
            gauge: Arc::default(),
            adapter,
            options,
            kernels: KernelPolicy::Given,
            cursor: Cursor::starting_at(0, 1, u64::MAX - 100),
            intensity: Intensity::FULL,
        }
    }

    fn open(adapter: &AdapterInfo, options: &GpuOptions, cache: &Arc<LightCache>) -> GpuSearcher {
        let mut searcher = GpuSearcher::new(adapter.index, options.clone()).expect("the adapter opens");
        searcher
            .set_epoch(cache, &mut |_| ControlFlow::Continue(()))
            .expect("the test dataset");
        searcher
    }

    fn easy_work(epoch: Epoch) -> WorkPackage {
        WorkPackage {
            header_hash: B256::repeat_byte(9),
            seed_hash: epoch.seed_hash(),
            boundary: ethash::boundary(&ethash::U256::from(5000)),
            number: None,
            epoch,
        }
    }

    #[test]
    fn a_lost_device_is_opened_anew_and_the_work_goes_on() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let searcher = open(&adapter, &config.gpu, &cache);
        searcher.destroy_device();
        let worker = worker(&engine, adapter, config.gpu.clone());
        let device = Device {
            loaded: Some(epoch),
            ..Device::new(searcher)
        };
        let work = easy_work(epoch);
        let job = engine
            .crew
            .shared
            .desk
            .put(Some(work.clone().into()))
            .expect("new work");
        engine.crew.shared.desk.bring_cache(&job, Arc::clone(&cache));
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run_with(Some(device)));
            let solution = solutions.recv_timeout(Duration::from_secs(60));
            engine.crew.shared.desk.stop();
            let found = solution.expect("the work goes on").solution;
            let seal = ethash::verify_seal(
                &cache,
                &work.header_hash,
                found.pow_nonce,
                &found.mix_hash,
                &work.boundary,
            );
            assert_eq!(seal, Ok(()));
        });
        assert!(
            engine.crew.shared.lines.lock().is_empty(),
            "the device was not given up"
        );
    }

    #[test]
    fn the_next_dataset_is_there_at_the_switch() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [now, next] = [0, 1].map(Epoch::ethash);
        let caches = [now, next].map(|epoch| config.caches.get(epoch).expect("the test sizes"));
        let mut device = Device {
            loaded: Some(now),
            ..Device::new(open(&adapter, &config.gpu, &caches[0]))
        };
        let worker = worker(&engine, adapter, config.gpu.clone());
        let job = engine
            .crew
            .shared
            .desk
            .put(Some(easy_work(now).into()))
            .expect("new work");
        let endless = GpuWork {
            nonces: u64::MAX,
            ..worker.gpu_work(&job)
        };
        device.searcher.set_work(endless);

        worker.prepare_next(&mut device, now).expect("nothing to do yet");
        assert!(device.ahead.is_none());
        engine.crew.lights.announce(now, next);
        let start = Instant::now();
        while !device.ahead.as_ref().is_some_and(|ahead| ahead.made) {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing is made ahead");
            device.searcher.next_batch().expect("the search goes on");
            worker.prepare_next(&mut device, now).expect("the device works");
        }
        assert_eq!(
            worker.gauge.status(Instant::now()).dataset,
            None,
            "no longer under way"
        );
        // The work is still of the old epoch: whatever had to be generated now would be cancelled.
        assert!(!engine.crew.shared.desk.wants_epoch(next));
        worker.load(&mut device, next, &caches[1]).expect("it is there");
        assert!(device.ahead.is_none());
        device.searcher.set_work(endless);
        device.searcher.next_batch().expect("the search goes on");
        let other = Epoch::ethash(2);
        let cache = config.caches.get(other).expect("the test sizes");
        let cancelled = worker.load(&mut device, other, &cache);
        assert!(
            matches!(cancelled, Err(GpuError::Cancelled { .. })),
            "{cancelled:?}"
        );
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        assert_eq!(back_off(1), Duration::from_millis(250));
        assert_eq!(back_off(2), Duration::from_millis(500));
        assert_eq!(back_off(6), Duration::from_secs(8));
        assert_eq!(back_off(8), LAST_BACK_OFF);
        assert_eq!(back_off(1000), LAST_BACK_OFF);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let lost = GpuError::DeviceLost {
            reason: "reset".into(),
        };
        assert!(is_passing(&lost));
        assert!(is_passing(&GpuError::WrongItem {
            item: 0,
            got: 1,
            expected: 2
        }));
        assert!(!is_passing(&GpuError::NoAdapter { wanted: 0, found: 0 }));
        let refused = GpuError::AllocationRefused {
            what: "page".into(),
            bytes: 1,
            reason: "full".into(),
        };
        assert!(!is_passing(&refused));
    }
}
