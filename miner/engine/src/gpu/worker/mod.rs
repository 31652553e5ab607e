//! Searches nonces on one graphics adapter, for an engine.
//!
//! The worker takes the current job, keeps the dataset of its epoch on the device, and checks every
//! hit with the light cache. The module `recovery` decides what happens when the device fails. A
//! device that is out of use is reported to the engine, which decides what searches instead.

mod datasets;
#[cfg(test)]
mod fixture;
mod recovery;
mod self_check;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ethash::{Epoch, LightCache};

use self::datasets::OpenDevice;
use self::recovery::{FailureRecord, REFUSED_AGAIN, RecoveryAction};
pub(crate) use self::self_check::SelfCheckSchedule;
use self::self_check::SelfCheckTimer;
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

/// The events that a worker tells the engine about its device.
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
    /// The choice of the search kernel. After the choice, the kernel is part of `options` and this
    /// is `Fixed`.
    pub(crate) kernels: KernelPolicy,
    /// The nonces of this device.
    pub(crate) cursor: NonceCursor,
    pub(crate) intensity: Intensity,
    /// The times at which the device is compared with the CPU.
    pub(crate) self_checks: SelfCheckSchedule,
}

impl GpuWorker {
    /// Searches until the engine stops. A device that is given up waits for a request to begin
    /// anew.
    pub(crate) fn run(self) {
        self.run_with(None, &mut GpuSearcher::find);
    }

    fn run_with(mut self, mut device: Option<OpenDevice>, open: &mut OpenAdapter<'_>) {
        let mut record = FailureRecord::default();
        while let Some(job) = self.context.current_job.wait_for_job() {
            if self.telemetry.control.take_restart() {
                tracing::info!("gpu:{} ({}) begins anew", self.adapter.index, self.adapter.name);
                device = None;
                record.forget();
            }
            let Err(error) = self.use_device(&mut device, open, &job, &mut record) else {
                continue;
            };
            if matches!(error, GpuError::Cancelled { .. }) {
                continue;
            }
            let loading = device.as_ref().is_some_and(|device| device.loaded.is_none());
            let action = record.action_after(&error, loading, Instant::now());
            // Nothing of a failed device can be used again.
            device = None;
            self.telemetry.set_dataset(None);
            if self
                .recover(action, &error, &mut record, job.work.epoch)
                .is_break()
            {
                let current_job = &self.context.current_job;
                if !current_job.wait_until(|| self.telemetry.control.wants_restart()) {
                    return;
                }
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
                let (index, name) = (self.adapter.index, &self.adapter.name);
                if error.is_wrong_data() {
                    tracing::error!(
                        "gpu:{index} ({name}) gives wrong results: {error}; its dataset is generated again, once"
                    );
                } else {
                    tracing::warn!("gpu:{index} ({name}): {error}; the device is opened again in {wait:?}");
                }
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
                let reason = if error.is_wrong_data() {
                    tracing::error!(
                        "gpu:{} ({}) gives wrong results again: it is faulty",
                        self.adapter.index,
                        self.adapter.name
                    );
                    format!("faulty, also with a new dataset: {error}")
                } else {
                    error.to_string()
                };
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
            None => {
                let searcher = open(&self.adapter, self.throttled_options())?;
                device.insert(OpenDevice::new(searcher, self.self_checks))
            }
        };
        record.record_opening();
        if device.loaded != Some(epoch) {
            self.telemetry.set_state(preparing);
            device.loaded = None;
            self.load_dataset(device, epoch, &cache)?;
            self.choose_kernel(device, epoch)?;
            device.loaded = Some(epoch);
            let check_time = device.searcher.check_time();
            device.self_check = SelfCheckTimer::new(self.self_checks, Instant::now(), check_time);
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
            kernel = %chosen.kernel,
            workgroup_size = chosen.workgroup_size,
            batch_ms = chosen.target_batch.map(|batch| batch.as_secs_f64() * 1e3),
            remembered = chosen.hashrate.is_none(),
            "search kernel chosen"
        );
        self.options.kernel = chosen.kernel;
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
        // Each batch in flight may belong to a job of its own.
        let replaced_max = device.searcher.options().in_flight.max(1);
        let mut replaced = VecDeque::new();
        loop {
            self.telemetry
                .set_state(DeviceState::Searching { epoch: epoch.index });
            self.cursor.begin_job();
            device.searcher.set_work(self.gpu_work(&job));
            while self.context.current_job.is_active(&job) {
                if self.telemetry.control.wants_restart() {
                    return device.searcher.stop();
                }
                if self.telemetry.control.is_resting() {
                    device.searcher.stop()?;
                    let resting =
                        || self.telemetry.control.is_resting() && !self.telemetry.control.wants_restart();
                    self.context.current_job.wait_while(&job, resting);
                    device.searcher.set_work(self.gpu_work(&job));
                    continue;
                }
                if self.cursor.is_exhausted(job.nonces) {
                    device.searcher.stop()?;
                    self.telemetry.warn_of_used_up_nonces();
                    // A device without nonces must not look like a stalled one.
                    self.telemetry.set_state(DeviceState::Waiting);
                    self.context.current_job.wait_for_end(&job);
                    break;
                }
                let report = device.searcher.next_batch()?;
                if record.record_batch() {
                    self.events.in_use_again(&self.adapter);
                }
                let ReportOutcome {
                    reached_end,
                    is_wrong,
                } = self.take_report(&report, &job, &replaced, cache);
                if reached_end {
                    device.searcher.set_work(self.gpu_work(&job));
                }
                if is_wrong {
                    device.self_check.record_wrong_hit();
                }
                self.check_device(device)?;
                self.prepare_next(device, epoch)?;
                if !self.intensity.is_full() {
                    let pause = self.intensity.pause(report.elapsed);
                    self.context.current_job.sleep(pause);
                }
            }
            match self.context.current_job.get() {
                Some(next) if next.work.epoch == epoch => {
                    replaced.truncate(replaced_max - 1);
                    replaced.push_front(std::mem::replace(&mut job, next));
                }
                _ => return device.searcher.stop(),
            }
        }
    }

    /// Compares the device with the CPU if it is time for that.
    fn check_device(&self, device: &mut OpenDevice) -> Result<(), GpuError> {
        let start = Instant::now();
        if !device.self_check.is_due(start) {
            return Ok(());
        }
        let result = device.searcher.self_check();
        let end = Instant::now();
        device.self_check.record(start, end);
        let milliseconds = (end - start).as_secs_f64() * 1e3;
        tracing::debug!(adapter = %self.adapter.name, milliseconds, "compared with the CPU");
        match &result {
            Ok(()) => self.telemetry.count_check(true),
            Err(error) if error.is_wrong_data() => self.telemetry.count_check(false),
            // The device could not be asked, which says nothing of its results.
            Err(_) => {}
        }
        result
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
    /// After a change of the job, a few batches of `replaced` jobs are still in flight. Their hits
    /// are solutions, too, but their nonces are not those of the cursor.
    fn take_report(
        &mut self,
        report: &BatchReport,
        job: &Arc<SearchJob>,
        replaced: &VecDeque<Arc<SearchJob>>,
        cache: &LightCache,
    ) -> ReportOutcome {
        self.telemetry.add_hashes(report.count.into());
        let mut outcome = ReportOutcome::default();
        let mut jobs = std::iter::once(job).chain(replaced);
        let Some(searched) = jobs.find(|job| job.id == report.work.id) else {
            return outcome;
        };
        if searched.id == job.id {
            outcome.reached_end = self
                .cursor
                .advance(job.nonces, report.first_nonce, report.count.into());
        }
        for hit in &report.hits {
            if !self.context.current_job.wants_solution(searched) {
                break;
            }
            let candidate = CandidateSolution {
                pow_nonce: hit.pow_nonce,
                mix_hash: hit.mix_hash,
                compared: ComparedBits::Top64,
            };
            if !self
                .context
                .verify_and_submit(searched, &self.telemetry, cache, &candidate)
            {
                outcome.is_wrong = true;
                tracing::warn!(
                    adapter = %self.adapter.name,
                    nonce = hit.pow_nonce,
                    "the device found a wrong hash"
                );
            }
        }
        outcome
    }
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct ReportOutcome {
    /// The batch reached the end of this device's nonces. The next batch must begin at another
    /// nonce.
    reached_end: bool,
    /// A hit was wrong.
    is_wrong: bool,
}
