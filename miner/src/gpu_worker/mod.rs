//! Searches nonces on one graphics adapter, for an engine.
//!
//! Takes work from the desk, keeps the dataset of its epoch on the device and checks every hit with the
//! light cache. What becomes of a device that fails is in `recovery`; one that is out of use is reported, and
//! the engine decides who goes on. How the device is driven is [`crate::gpu`]'s business.

mod datasets;
#[cfg(test)]
mod fixture;
mod recovery;

use std::ops::ControlFlow;
use std::sync::Arc;

use ethash::{Epoch, LightCache};

use crate::crew::Crew;
use crate::desk::Job;
use crate::engine::KernelPolicy;
use crate::gauge::{DeviceState, Gauge};
use crate::gpu::{AdapterInfo, BatchReport, GpuError, GpuOptions, GpuSearcher, GpuWork, choose_kernel};
use crate::intensity::Intensity;
use crate::shared::{Compared, Hit};
use crate::task::Cursor;
use datasets::Device;
use recovery::{REFUSED_AGAIN, Record, Remedy};

/// Opens an adapter, wherever it stands in the list by now.
type Open<'a> = dyn FnMut(&AdapterInfo, GpuOptions) -> Result<GpuSearcher, GpuError> + 'a;

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
        self.run_with(None, &mut GpuSearcher::find);
    }

    fn run_with(mut self, mut device: Option<Device>, open: &mut Open<'_>) {
        let mut record = Record::default();
        while let Some(job) = self.crew.shared.desk.take() {
            let Err(error) = self.use_device(&mut device, open, &job, &mut record) else {
                continue;
            };
            if matches!(error, GpuError::Cancelled { .. }) {
                continue;
            }
            let loading = device.as_ref().is_some_and(|device| device.loaded.is_none());
            let remedy = record.remedy(&error, loading);
            // Nothing of a failed device is worth keeping.
            device = None;
            self.gauge.set_dataset(None);
            if self
                .follow(remedy, &error, &mut record, job.work.epoch)
                .is_break()
            {
                return;
            }
        }
    }

    /// Does what is to be done after `error` came in `epoch`. Breaks where the device is given up.
    fn follow(&self, remedy: Remedy, error: &GpuError, record: &mut Record, epoch: Epoch) -> ControlFlow<()> {
        let desk = &self.crew.shared.desk;
        let recovering = |reason: String| self.gauge.set_state(DeviceState::Recovering { reason });
        match remedy {
            Remedy::Reopen(wait) => {
                tracing::warn!(
                    "gpu:{} ({}): {error}; opened anew in {wait:?}",
                    self.adapter.index,
                    self.adapter.name
                );
                recovering(error.to_string());
                if record.is_long_absent() {
                    self.leave(record, &error.to_string());
                }
                desk.sleep(wait);
            }
            Remedy::Outwait => {
                let reason = format!("{error}; it waits for another epoch than {}", epoch.index);
                recovering(reason.clone());
                self.leave(record, &reason);
                desk.outwait_epoch(epoch, REFUSED_AGAIN);
            }
            Remedy::GiveUp => {
                let reason = error.to_string();
                self.leave(record, &reason);
                self.gauge.set_state(DeviceState::Failed { reason });
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Counts the device as out of use, for `reason`.
    fn leave(&self, record: &mut Record, reason: &str) {
        if record.is_out {
            tracing::warn!("gpu:{} ({}): {reason}", self.adapter.index, self.adapter.name);
        } else {
            record.is_out = true;
            self.crew.gpu_failed(&self.adapter, reason);
        }
    }

    /// Searches for `job` and what follows it, until there is nothing to search or the device fails.
    fn use_device(
        &mut self,
        device: &mut Option<Device>,
        open: &mut Open<'_>,
        job: &Arc<Job>,
        record: &mut Record,
    ) -> Result<(), GpuError> {
        let epoch = job.work.epoch;
        let preparing = DeviceState::Preparing { epoch: epoch.index };
        // A device that is away for long shows that until it is there again.
        if !record.is_out {
            self.gauge.set_state(preparing.clone());
        }
        let Some(cache) = self.crew.shared.desk.cache_of(job) else {
            return Ok(());
        };
        let device = match device {
            Some(device) => device,
            None => device.insert(Device::new(open(&self.adapter, self.steered())?)),
        };
        record.take_opening();
        if device.loaded != Some(epoch) {
            self.gauge.set_state(preparing);
            device.loaded = None;
            self.load(device, epoch, &cache)?;
            self.choose_kernel(device, epoch)?;
            device.loaded = Some(epoch);
        }
        self.search(device, job, &cache, record)
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
            batch_ms = chosen.target_batch.map(|batch| batch.as_secs_f64() * 1e3),
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

    /// Batches for `job` and for all that follows in its epoch, without letting the device run empty.
    fn search(
        &mut self,
        device: &mut Device,
        job: &Arc<Job>,
        cache: &Arc<LightCache>,
        record: &mut Record,
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
                    // Whoever has no nonces is not stalled.
                    self.gauge.set_state(DeviceState::Waiting);
                    self.crew.shared.desk.outwait(&job);
                    break;
                }
                let report = device.searcher.next_batch()?;
                if record.take_batch() {
                    self.crew.gpu_back(&self.adapter);
                }
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ethash::{B256, WorkPackage};

    use super::fixture::{easy_work, idle_engine, wait_for, worker};
    use super::*;
    use crate::gpu::fixture::{first_adapter, loaded};
    use crate::task::{NonceSpace, Task};

    #[test]
    fn a_lost_device_is_opened_anew_and_the_work_goes_on() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let searcher = loaded(&adapter, &config.gpu, &cache);
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
            scope.spawn(|| worker.run_with(Some(device), &mut GpuSearcher::find));
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
    fn a_device_that_is_away_for_a_while_is_waited_for() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let worker = worker(&engine, adapter.clone(), config.gpu.clone());
        let desk = &engine.crew.shared.desk;
        let job = desk.put(Some(easy_work(epoch).into())).expect("new work");
        desk.bring_cache(&job, Arc::clone(&cache));
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
            desk.stop();
            solution.expect("the work goes on");
        });
        assert_eq!(attempts, 4);
        assert!(
            engine.crew.shared.lines.lock().is_empty(),
            "it was never out of use"
        );
    }

    #[test]
    fn a_device_that_never_was_there_is_given_up() {
        let Some(adapter) = first_adapter() else { return };
        let gone = AdapterInfo {
            name: "Card of no maker".into(),
            pci_bus: Some("ffff:ff:1f.7".into()),
            ..adapter
        };
        let (engine, config, _solutions) = idle_engine(&gone);
        let epoch = Epoch::ethash(0);
        let job = engine.crew.shared.desk.put(Some(easy_work(epoch).into()));
        let cache = config.caches.get(epoch).expect("the test sizes");
        engine
            .crew
            .shared
            .desk
            .bring_cache(&job.expect("new work"), cache);
        let worker = worker(&engine, gone, config.gpu.clone());
        let gauge = Arc::clone(&worker.gauge);
        worker.run();
        let state = gauge.status(Instant::now()).state;
        assert!(
            matches!(&state, DeviceState::Failed { reason } if reason.contains("ffff:ff:1f.7")),
            "{state:?}"
        );
        assert_eq!(engine.crew.shared.lines.lock().len(), 1);
    }

    #[test]
    fn an_epoch_that_is_too_large_is_outwaited() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [small, large] = [0, 1].map(Epoch::ethash);
        // 16 items a page: the small dataset has 16 of them, the large one more than any adapter binds.
        let options = GpuOptions {
            max_page_items: Some(16),
            ..config.gpu.clone()
        };
        let small_cache = config.caches.get(small).expect("the test sizes");
        let large_cache = LightCache::with_sizes(large.seed_hash(), 1024, 128 * 1_000_003);
        let large_cache = Arc::new(large_cache.expect("the test sizes"));
        let worker = worker(&engine, adapter, options);
        let gauge = Arc::clone(&worker.gauge);
        let status = || gauge.status(Instant::now());
        let desk = &engine.crew.shared.desk;
        let put = |epoch, header, cache: &Arc<LightCache>| {
            let task = Task {
                repeat: true,
                work: WorkPackage {
                    header_hash: B256::repeat_byte(header),
                    boundary: B256::ZERO,
                    ..easy_work(epoch)
                },
                nonces: NonceSpace::default(),
            };
            let job = desk.put(Some(task)).expect("new work");
            desk.bring_cache(&job, Arc::clone(cache));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run());
            for round in 1..=2 {
                put(large, round, &large_cache);
                wait_for(
                    &engine,
                    "the refusal",
                    || matches!(status().state, DeviceState::Recovering { reason } if reason.contains("too small")),
                );
                let before = status().hashes;
                put(small, round, &small_cache);
                wait_for(&engine, "a batch", || {
                    status().state == DeviceState::Searching { epoch: 0 } && status().hashes > before
                });
            }
            desk.stop();
        });
        let lines = engine.crew.shared.lines.lock().clone();
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
    fn a_device_without_nonces_waits_and_does_not_stall() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let epoch = Epoch::ethash(0);
        let cache = config.caches.get(epoch).expect("the test sizes");
        let worker = worker(&engine, adapter, config.gpu.clone());
        let gauge = Arc::clone(&worker.gauge);
        let desk = &engine.crew.shared.desk;
        let task = Task {
            repeat: true,
            work: WorkPackage {
                boundary: B256::ZERO,
                ..easy_work(epoch)
            },
            nonces: NonceSpace::new(0, NonceSpace::BITS_MAX),
        };
        let job = desk.put(Some(task)).expect("new work");
        desk.bring_cache(&job, Arc::clone(&cache));
        std::thread::scope(|scope| {
            scope.spawn(|| worker.run());
            wait_for(&engine, "the end of the nonces", || {
                let status = gauge.status(Instant::now());
                status.hashes >= u64::from(u16::MAX) && status.state == DeviceState::Waiting
            });
            assert!(desk.is_active(&job), "the job has not ended");
            let next = desk.put(Some(easy_work(epoch).into())).expect("new work");
            desk.bring_cache(&next, cache);
            wait_for(&engine, "the next job's solution", || {
                gauge.status(Instant::now()).solutions == 1
            });
            desk.stop();
        });
    }
}
