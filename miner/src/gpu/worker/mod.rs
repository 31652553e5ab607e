//! Searches nonces on one graphics adapter, for an engine.
//!
//! The worker takes the current job, keeps the dataset of its epoch on the device, and checks every
//! hit with the light cache. The module `recovery` decides what happens when the device fails. A
//! device that is out of use is reported to the engine, which decides what searches instead.

mod datasets;
#[cfg(test)]
mod fixture;
mod recovery;

use core::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use ethash::{Epoch, LightCache};

use self::datasets::OpenDevice;
use self::recovery::{FailureRecord, REFUSED_AGAIN, RecoveryAction};
use crate::dataset::LightCacheBuilder;
use crate::gpu::adapter::AdapterInfo;
use crate::gpu::batch::GpuWork;
use crate::gpu::error::GpuError;
use crate::gpu::options::GpuOptions;
use crate::gpu::searcher::{BatchReport, GpuSearcher};
use crate::gpu::tuning::{KernelPolicy, choose_kernel};
use crate::search::{CandidateSolution, ComparedBits, Intensity, NonceCursor, SearchContext, SearchJob};
use crate::telemetry::{DeviceState, DeviceTelemetry};

/// Opens an adapter that was listed before. Its index may have changed since then.
type OpenAdapter<'a> = dyn FnMut(&AdapterInfo, GpuOptions) -> Result<GpuSearcher, GpuError> + 'a;

/// What a worker tells the engine about its device.
pub(crate) trait GpuWorkerEvents: fmt::Debug + Send + Sync {
    /// The device is out of use for `reason`, for good or for a while.
    fn out_of_use(&self, adapter: &AdapterInfo, reason: &str);
    /// The device was out of use and searches again.
    fn in_use_again(&self, adapter: &AdapterInfo);
}

/// The searcher of one adapter.
pub(crate) struct GpuWorker {
    pub(crate) context: Arc<SearchContext>,
    pub(crate) light_caches: Arc<LightCacheBuilder>,
    pub(crate) events: Arc<dyn GpuWorkerEvents>,
    pub(crate) telemetry: Arc<DeviceTelemetry>,
    /// Whether progress bars are drawn on the terminal.
    pub(crate) bars: bool,
    pub(crate) adapter: AdapterInfo,
    pub(crate) options: GpuOptions,
    /// How the search kernel is chosen. After the choice, the kernel is part of `options` and this
    /// is `Fixed`.
    pub(crate) kernels: KernelPolicy,
    /// The nonces of this device.
    pub(crate) cursor: NonceCursor,
    pub(crate) intensity: Intensity,
}

impl GpuWorker {
    /// Searches until the engine stops or the device is given up.
    pub(crate) fn run(self) {
        self.run_with(None, &mut GpuSearcher::find);
    }

    fn run_with(mut self, mut device: Option<OpenDevice>, open: &mut OpenAdapter<'_>) {
        let mut record = FailureRecord::default();
        while let Some(job) = self.context.current_job.wait_for_job() {
            let Err(error) = self.use_device(&mut device, open, &job, &mut record) else {
                continue;
            };
            if matches!(error, GpuError::Cancelled { .. }) {
                continue;
            }
            let loading = device.as_ref().is_some_and(|device| device.loaded.is_none());
            let action = record.action_after(&error, loading);
            // Nothing of a failed device can be used again.
            device = None;
            self.telemetry.set_dataset(None);
            if self
                .recover(action, &error, &mut record, job.work.epoch)
                .is_break()
            {
                return;
            }
        }
    }

    /// Carries out `action` after `error`, which came while work of `epoch` was searched. Breaks if
    /// the device is given up.
    fn recover(
        &self,
        action: RecoveryAction,
        error: &GpuError,
        record: &mut FailureRecord,
        epoch: Epoch,
    ) -> ControlFlow<()> {
        let set_recovering = |reason: String| self.telemetry.set_state(DeviceState::Recovering { reason });
        match action {
            RecoveryAction::Reopen(wait) => {
                tracing::warn!(
                    "gpu:{} ({}): {error}; the device is opened again in {wait:?}",
                    self.adapter.index,
                    self.adapter.name
                );
                set_recovering(error.to_string());
                if record.is_long_absent() {
                    self.report_out_of_use(record, &error.to_string());
                }
                self.context.current_job.sleep(wait);
            }
            RecoveryAction::WaitForOtherEpoch => {
                let reason = format!("{error}; it waits for another epoch than {}", epoch.index);
                set_recovering(reason.clone());
                self.report_out_of_use(record, &reason);
                self.context
                    .current_job
                    .wait_for_other_epoch(epoch, REFUSED_AGAIN);
            }
            RecoveryAction::GiveUp => {
                let reason = error.to_string();
                self.report_out_of_use(record, &reason);
                self.telemetry.set_state(DeviceState::Failed { reason });
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells the engine, once, that the device is out of use for `reason`.
    fn report_out_of_use(&self, record: &mut FailureRecord, reason: &str) {
        if record.is_out_of_use {
            tracing::warn!("gpu:{} ({}): {reason}", self.adapter.index, self.adapter.name);
        } else {
            record.is_out_of_use = true;
            self.events.out_of_use(&self.adapter, reason);
        }
    }

    /// Searches for `job` and the jobs after it, until there is nothing to search or the device
    /// fails.
    ///
    /// Opens the device and loads the dataset first, if necessary.
    fn use_device(
        &mut self,
        device: &mut Option<OpenDevice>,
        open: &mut OpenAdapter<'_>,
        job: &Arc<SearchJob>,
        record: &mut FailureRecord,
    ) -> Result<(), GpuError> {
        let epoch = job.work.epoch;
        let preparing = DeviceState::Preparing { epoch: epoch.index };
        // A device that is out of use keeps its state until it can be opened again.
        if !record.is_out_of_use {
            self.telemetry.set_state(preparing.clone());
        }
        let Some(cache) = self.context.current_job.wait_for_light_cache(job) else {
            return Ok(());
        };
        let device = match device {
            Some(device) => device,
            None => device.insert(OpenDevice::new(open(&self.adapter, self.throttled_options())?)),
        };
        record.record_opening();
        if device.loaded != Some(epoch) {
            self.telemetry.set_state(preparing);
            device.loaded = None;
            self.load_dataset(device, epoch, &cache)?;
            self.choose_kernel(device, epoch)?;
            device.loaded = Some(epoch);
        }
        self.search(device, job, &cache, record)
    }

    /// Returns the options for the configured intensity. Pauses have an effect only if one batch is
    /// in flight at a time.
    fn throttled_options(&self) -> GpuOptions {
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

    /// Chooses the search kernel if the policy asks for it and it was not chosen yet.
    fn choose_kernel(&mut self, device: &mut OpenDevice, epoch: Epoch) -> Result<(), GpuError> {
        let KernelPolicy::Measured(cache) = &self.kernels else {
            return Ok(());
        };
        let is_needed = || self.context.current_job.needs_epoch(epoch);
        let chosen = choose_kernel(&mut device.searcher, cache.as_ref(), &is_needed)?;
        tracing::info!(
            adapter = %self.adapter.name,
            form = chosen.form.name(),
            workgroup_size = chosen.workgroup_size,
            batch_ms = chosen.target_batch.map(|batch| batch.as_secs_f64() * 1e3),
            remembered = chosen.hashrate.is_none(),
            "search kernel chosen"
        );
        self.options.kernel = chosen.form;
        self.options.workgroup_size = chosen.workgroup_size;
        if let Some(batch) = chosen.target_batch {
            self.options.target_batch = batch.min(self.options.target_batch);
        }
        self.kernels = KernelPolicy::Fixed;
        Ok(())
    }

    /// Runs batches for `job` and all later jobs of its epoch. The device is kept busy between
    /// jobs.
    fn search(
        &mut self,
        device: &mut OpenDevice,
        job: &Arc<SearchJob>,
        cache: &Arc<LightCache>,
        record: &mut FailureRecord,
    ) -> Result<(), GpuError> {
        let epoch = job.work.epoch;
        let mut job = Arc::clone(job);
        loop {
            self.telemetry
                .set_state(DeviceState::Searching { epoch: epoch.index });
            self.cursor.begin_job();
            device.searcher.set_work(self.gpu_work(&job));
            while self.context.current_job.is_active(&job) {
                if self.cursor.is_exhausted(job.nonces) {
                    device.searcher.stop()?;
                    // A device without nonces must not look like a stalled one.
                    self.telemetry.set_state(DeviceState::Waiting);
                    self.context.current_job.wait_for_end(&job);
                    break;
                }
                let report = device.searcher.next_batch()?;
                if record.record_batch() {
                    self.events.in_use_again(&self.adapter);
                }
                if self.take_report(&report, &job, cache) {
                    device.searcher.set_work(self.gpu_work(&job));
                }
                self.prepare_next(device, epoch)?;
                if !self.intensity.is_full() {
                    let pause = self.intensity.pause(report.elapsed);
                    self.context.current_job.sleep(pause);
                }
            }
            match self.context.current_job.get() {
                Some(next) if next.work.epoch == epoch => job = next,
                _ => return device.searcher.stop(),
            }
        }
    }

    /// Returns the work of `job` with the next nonces of this device.
    fn gpu_work(&self, job: &SearchJob) -> GpuWork {
        GpuWork {
            id: job.id,
            header_hash: job.work.header_hash,
            boundary: job.work.boundary,
            start_nonce: self.cursor.peek(job.nonces),
            nonces: self.cursor.contiguous(job.nonces),
        }
    }

    /// Counts the hashes of a batch and submits its hits.
    ///
    /// Returns true if the batch reached the end of this device's nonces. Then the next batch must
    /// begin at another nonce.
    fn take_report(&mut self, report: &BatchReport, job: &SearchJob, cache: &LightCache) -> bool {
        self.telemetry.add_hashes(report.count.into());
        // After a change of the job, a few batches of the old job are still in flight. Their hits
        // are useless.
        if report.work.id != job.id {
            return false;
        }
        let reached_end = self
            .cursor
            .advance(job.nonces, report.first_nonce, report.count.into());
        for hit in &report.hits {
            let candidate = CandidateSolution {
                pow_nonce: hit.pow_nonce,
                mix_hash: hit.mix_hash,
                compared: ComparedBits::Top64,
            };
            if !self
                .context
                .verify_and_submit(job, &self.telemetry, cache, &candidate)
            {
                tracing::warn!(
                    adapter = %self.adapter.name,
                    nonce = hit.pow_nonce,
                    "the device found a wrong hash"
                );
            }
            if !self.context.current_job.is_active(job) {
                return reached_end;
            }
        }
        reached_end
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ethash::{B256, WorkPackage};

    use super::fixture::{easy_work, idle_engine, wait_for, worker};
    use super::*;
    use crate::gpu::fixture::{first_adapter, loaded};
    use crate::search::{NonceSpace, SearchTask};

    #[test]
    fn a_lost_device_is_opened_again_and_the_search_continues() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let searcher = loaded(&adapter, &config.gpu, &cache);
        searcher.destroy_device();
        let worker = worker(&engine, adapter, config.gpu.clone());
        let device = OpenDevice {
            loaded: Some(epoch),
            ..OpenDevice::new(searcher)
        };
        let work = easy_work(epoch);
        let job = engine
            .workers
            .context
            .current_job
            .set(Some(work.clone().into()))
            .expect("new work");
        engine
            .workers
            .context
            .current_job
            .set_light_cache(&job, Arc::clone(&cache));
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run_with(Some(device), &mut GpuSearcher::find));
            let solution = solutions.recv_timeout(Duration::from_secs(60));
            engine.workers.context.current_job.stop();
            let found = solution.expect("the search continues").solution;
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
            engine.workers.context.messages.lock().is_empty(),
            "the device was not given up"
        );
    }

    #[test]
    fn a_device_that_is_absent_for_a_while_is_waited_for() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let worker = worker(&engine, adapter.clone(), config.gpu.clone());
        let current_job = &engine.workers.context.current_job;
        let job = current_job.set(Some(easy_work(epoch).into())).expect("new work");
        current_job.set_light_cache(&job, Arc::clone(&cache));
        let mut attempts = 0;
        let mut open = |adapter: &AdapterInfo, options: GpuOptions| {
            attempts += 1;
            match attempts {
                1 => {
                    let searcher = GpuSearcher::find(adapter, options)?;
                    searcher.destroy_device();
                    Ok(searcher)
                }
                2 => Err(GpuError::AdapterAbsent {
                    adapter: adapter.name.clone(),
                    found: 0,
                }),
                3 => Err(GpuError::DeviceRefused {
                    adapter: adapter.name.clone(),
                    reason: "resetting".into(),
                }),
                _ => GpuSearcher::find(adapter, options),
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run_with(None, &mut open));
            let solution = solutions.recv_timeout(Duration::from_secs(60));
            current_job.stop();
            solution.expect("the search continues");
        });
        assert_eq!(attempts, 4);
        assert!(
            engine.workers.context.messages.lock().is_empty(),
            "the device was never out of use"
        );
    }

    #[test]
    fn a_device_that_never_existed_is_given_up() {
        let Some(adapter) = first_adapter() else { return };
        let gone = AdapterInfo {
            name: "Card of no maker".into(),
            pci_bus: Some("ffff:ff:1f.7".into()),
            ..adapter
        };
        let (engine, config, _solutions) = idle_engine(&gone);
        let epoch = Epoch::ethash(0);
        let job = engine
            .workers
            .context
            .current_job
            .set(Some(easy_work(epoch).into()));
        let cache = config.caches.get(epoch).expect("the test sizes");
        engine
            .workers
            .context
            .current_job
            .set_light_cache(&job.expect("new work"), cache);
        let worker = worker(&engine, gone, config.gpu.clone());
        let telemetry = Arc::clone(&worker.telemetry);
        worker.run();
        let state = telemetry.status(Instant::now()).state;
        assert!(
            matches!(&state, DeviceState::Failed { reason } if reason.contains("ffff:ff:1f.7")),
            "{state:?}"
        );
        assert_eq!(engine.workers.context.messages.lock().len(), 1);
    }

    #[test]
    fn a_device_waits_while_an_epoch_is_too_large_for_it() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [small, large] = [0, 1].map(Epoch::ethash);
        // 16 items a page: the small dataset has 16 of them, the large one more than any adapter
        // binds.
        let options = GpuOptions {
            max_page_items: Some(16),
            ..config.gpu.clone()
        };
        let small_cache = config.caches.get(small).expect("the test sizes");
        let large_cache = LightCache::with_sizes(large.seed_hash(), 1024, 128 * 1_000_003);
        let large_cache = Arc::new(large_cache.expect("the test sizes"));
        let worker = worker(&engine, adapter, options);
        let telemetry = Arc::clone(&worker.telemetry);
        let status = || telemetry.status(Instant::now());
        let current_job = &engine.workers.context.current_job;
        let set_work = |epoch, header, cache: &Arc<LightCache>| {
            let task = SearchTask {
                repeat: true,
                work: WorkPackage {
                    header_hash: B256::repeat_byte(header),
                    boundary: B256::ZERO,
                    ..easy_work(epoch)
                },
                nonces: NonceSpace::default(),
            };
            let job = current_job.set(Some(task)).expect("new work");
            current_job.set_light_cache(&job, Arc::clone(cache));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run());
            for round in 1..=2 {
                set_work(large, round, &large_cache);
                wait_for(
                    &engine,
                    "the refusal",
                    || matches!(status().state, DeviceState::Recovering { reason } if reason.contains("too small")),
                );
                let before = status().hashes;
                set_work(small, round, &small_cache);
                wait_for(&engine, "a batch", || {
                    status().state == DeviceState::Searching { epoch: 0 } && status().hashes > before
                });
            }
            current_job.stop();
        });
        let lines = engine.workers.context.messages.lock().clone();
        let [first, back, again, back_again] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert!(
            first.contains("the CPU searches") && first.contains("another epoch than 1"),
            "{first}"
        );
        assert!(again.contains("the other devices go on"), "{again}");
        assert!(
            back.ends_with("is in use again") && back == back_again,
            "{lines:?}"
        );
    }

    #[test]
    fn a_device_without_nonces_has_the_state_waiting() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let worker = worker(&engine, adapter, config.gpu.clone());
        let telemetry = Arc::clone(&worker.telemetry);
        let current_job = &engine.workers.context.current_job;
        let task = SearchTask {
            repeat: true,
            work: WorkPackage {
                boundary: B256::ZERO,
                ..easy_work(epoch)
            },
            nonces: NonceSpace::new(0, NonceSpace::BITS_MAX),
        };
        let job = current_job.set(Some(task)).expect("new work");
        current_job.set_light_cache(&job, Arc::clone(&cache));
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run());
            wait_for(&engine, "the end of the nonces", || {
                let status = telemetry.status(Instant::now());
                status.hashes >= u64::from(u16::MAX) && status.state == DeviceState::Waiting
            });
            assert!(current_job.is_active(&job), "the job has not ended");
            let next = current_job.set(Some(easy_work(epoch).into())).expect("new work");
            current_job.set_light_cache(&next, cache);
            wait_for(&engine, "the next job's solution", || {
                telemetry.status(Instant::now()).solutions == 1
            });
            current_job.stop();
        });
    }
}
