//! The datasets of a device: the one in use, and the one of the next epoch, which is generated in
//! advance.
//!
//! Starts their generation and shows the progress. The generation itself is in
//! [`gpu::dataset`](crate::gpu::dataset), and
//! [`LightCacheBuilder`](crate::dataset::LightCacheBuilder) tells which epoch comes next.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{Epoch, LightCache};

use super::GpuWorker;
use super::self_check::{SelfCheckSchedule, SelfCheckTimer};
use crate::dataset::FreeMemory;
use crate::gpu::error::GpuError;
use crate::gpu::searcher::GpuSearcher;
use crate::telemetry::{DatasetProgress, ProgressReporter};

/// An open device and the epoch whose dataset it has.
pub(super) struct OpenDevice {
    pub(super) searcher: GpuSearcher,
    pub(super) loaded: Option<Epoch>,
    /// The next epoch, once its dataset was begun or refused.
    pub(super) next: Option<NextEpochProgress>,
    pub(super) self_check: SelfCheckTimer,
}

/// The progress of the dataset of the next epoch.
pub(super) struct NextEpochProgress {
    epoch: Epoch,
    start: Instant,
    /// Whether the dataset is complete or was refused.
    is_settled: bool,
}

impl OpenDevice {
    pub(super) fn new(searcher: GpuSearcher, self_checks: SelfCheckSchedule) -> Self {
        Self {
            searcher,
            loaded: None,
            next: None,
            self_check: SelfCheckTimer::new(self_checks, Instant::now(), Duration::ZERO),
        }
    }
}

impl GpuWorker {
    /// Loads the dataset of `epoch` to the device. Cancels this if the work changes to another
    /// epoch.
    pub(super) fn load_dataset(
        &self,
        device: &mut OpenDevice,
        epoch: Epoch,
        cache: &Arc<LightCache>,
    ) -> Result<(), GpuError> {
        let what = format!(
            "generating the dataset of epoch {} on gpu:{}",
            epoch.index, self.adapter.index
        );
        let next = device.next.take().filter(|next| next.epoch == epoch);
        let prepared = device.searcher.next_progress().filter(|_| next.is_some());
        let shown_on = Some((Arc::clone(&self.telemetry), epoch.index));
        let mut progress = ProgressReporter::shown(what, self.bars, shown_on);
        let result = device.searcher.set_epoch(cache, &mut |generation| {
            progress.report(generation.items_done, generation.items_total);
            if self.context.current_job.needs_epoch(epoch) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let seconds = progress.end().as_secs_f64();
        result?;
        let (epoch, adapter) = (epoch.index, &self.adapter.name);
        if let Some(prepared) = prepared {
            let percent_ahead = u64::from(prepared.items_done) * 100 / u64::from(prepared.items_total.max(1));
            tracing::info!(
                epoch,
                %adapter,
                seconds,
                percent_ahead,
                "epoch switched, dataset made in advance"
            );
        } else {
            tracing::info!(epoch, %adapter, seconds, "dataset generated on the device");
        }
        Ok(())
    }

    /// Begins the dataset of the next epoch as soon as that epoch is known, and shows the progress.
    ///
    /// `current` is the epoch of the work.
    pub(super) fn prepare_next(&self, device: &mut OpenDevice, current: Epoch) -> Result<(), GpuError> {
        let Some((epoch, cache)) = self.light_caches.next_cache(current) else {
            return Ok(());
        };
        let adapter = &self.adapter.name;
        if device.next.as_ref().is_none_or(|next| next.epoch != epoch) {
            device.next = Some(NextEpochProgress {
                epoch,
                start: Instant::now(),
                is_settled: false,
            });
            let refused = if self.adapter.software && !FreeMemory::default().has(cache.dataset_bytes()) {
                Some("there is too little memory".to_owned())
            } else {
                match device.searcher.prepare_next(&cache) {
                    Ok(()) => None,
                    Err(error) if error.needs_rebuild() => return Err(error),
                    Err(error) => Some(error.to_string()),
                }
            };
            if let Some(reason) = refused {
                tracing::info!(
                    epoch = epoch.index,
                    %adapter,
                    reason,
                    "the next dataset will be generated when its epoch begins"
                );
            }
        }
        let Some(next) = device.next.as_mut().filter(|next| !next.is_settled) else {
            return Ok(());
        };
        // There is no progress if the dataset was refused, now or while it was generated.
        let prepared = device.searcher.next_progress();
        let unfinished = prepared.filter(|generation| generation.items_done < generation.items_total);
        next.is_settled = unfinished.is_none();
        self.telemetry
            .set_dataset(unfinished.map(|generation| DatasetProgress {
                epoch: epoch.index,
                done: generation.items_done,
                total: generation.items_total,
            }));
        if prepared.is_some() && next.is_settled {
            let seconds = next.start.elapsed().as_secs_f64();
            tracing::info!(epoch = epoch.index, %adapter, seconds, "next dataset generated in advance");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{easy_work, idle_engine, wait_for, worker};
    use super::*;
    use crate::gpu::GpuWork;
    use crate::gpu::fixture::{first_adapter, loaded};

    #[test]
    fn the_next_dataset_is_complete_when_its_epoch_begins() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [now, next] = [0, 1].map(Epoch::ethash);
        let caches = [now, next].map(|epoch| config.caches.get(epoch).expect("the test sizes"));
        let mut device = OpenDevice {
            loaded: Some(now),
            ..OpenDevice::new(
                loaded(&adapter, &config.gpu, &caches[0]),
                SelfCheckSchedule::default(),
            )
        };
        let worker = worker(&engine, adapter, config.gpu.clone());
        let job = engine
            .workers
            .context
            .current_job
            .set(Some(easy_work(now).into()))
            .expect("new work");
        let endless = GpuWork {
            nonces: u64::MAX,
            ..worker.gpu_work(&job)
        };
        device.searcher.set_work(endless);

        worker.prepare_next(&mut device, now).expect("nothing to do yet");
        assert!(device.next.is_none());
        engine.workers.light_caches.announce_next(now, next);
        let start = Instant::now();
        while !device.next.as_ref().is_some_and(|next| next.is_settled) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "the next dataset is not finished"
            );
            device.searcher.next_batch().expect("the search continues");
            worker.prepare_next(&mut device, now).expect("the device works");
        }
        assert_eq!(
            worker.telemetry.status(Instant::now()).dataset,
            None,
            "no longer under way"
        );
        // The work still belongs to the old epoch, so any generation would be cancelled now.
        assert!(!engine.workers.context.current_job.needs_epoch(next));
        worker
            .load_dataset(&mut device, next, &caches[1])
            .expect("the dataset is complete");
        assert!(device.next.is_none());
        device.searcher.set_work(endless);
        device.searcher.next_batch().expect("the search continues");
        let other = Epoch::ethash(2);
        let cache = config.caches.get(other).expect("the test sizes");
        let cancelled = worker.load_dataset(&mut device, other, &cache);
        assert!(
            matches!(cancelled, Err(GpuError::Cancelled { .. })),
            "{cancelled:?}"
        );
    }

    #[test]
    fn a_next_dataset_that_fails_is_no_longer_shown() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [now, next] = [0, 1].map(Epoch::ethash);
        let cache = config.caches.get(now).expect("the test sizes");
        let worker = worker(&engine, adapter.clone(), config.gpu.clone());
        let mut device = OpenDevice {
            loaded: Some(now),
            ..OpenDevice::new(
                loaded(&adapter, &config.gpu, &cache),
                SelfCheckSchedule::default(),
            )
        };
        engine.workers.light_caches.announce_next(now, next);
        wait_for(&engine, "the next light cache", || {
            engine.workers.light_caches.next_cache(now).is_some()
        });
        let shown = || worker.telemetry.status(Instant::now()).dataset;
        worker.prepare_next(&mut device, now).expect("it begins");
        assert_eq!(
            shown().map(|dataset| (dataset.epoch, dataset.done, dataset.total)),
            Some((1, 0, 256))
        );
        device.searcher.refuse_next();
        worker.prepare_next(&mut device, now).expect("the device works");
        assert_eq!(shown(), None);
        assert!(
            device.next.is_some_and(|next| next.is_settled),
            "it is not begun again"
        );
    }
}
