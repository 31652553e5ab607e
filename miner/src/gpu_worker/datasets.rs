//! The datasets of a device: that of the present epoch, and ahead of its time that of the next.
//!
//! Knows how far they are and shows it; how they are made is [`crate::gpu`]'s business, which epoch comes the
//! crew's.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ethash::{Epoch, LightCache};

use super::GpuWorker;
use crate::gauge::DatasetProgress;
use crate::gpu::{GpuError, GpuSearcher};
use crate::progress::Progress;
use crate::room::Room;

/// An open device and the epoch whose dataset it holds.
pub(super) struct Device {
    pub(super) searcher: GpuSearcher,
    pub(super) loaded: Option<Epoch>,
    /// The epoch to come, once its dataset has begun or was refused.
    pub(super) ahead: Option<Ahead>,
}

pub(super) struct Ahead {
    epoch: Epoch,
    begun: Instant,
    /// It is made, or refused.
    settled: bool,
}

impl Device {
    pub(super) fn new(searcher: GpuSearcher) -> Self {
        Self {
            searcher,
            loaded: None,
            ahead: None,
        }
    }
}

impl GpuWorker {
    /// Brings the dataset of `epoch` to the device, as long as the work is of that epoch.
    pub(super) fn load(
        &self,
        device: &mut Device,
        epoch: Epoch,
        cache: &Arc<LightCache>,
    ) -> Result<(), GpuError> {
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

    /// Begins the dataset of the epoch that comes next, as soon as that is known, and shows how far it is.
    pub(super) fn prepare_next(&self, device: &mut Device, present: Epoch) -> Result<(), GpuError> {
        let Some((epoch, cache)) = self.crew.lights.coming(present) else {
            return Ok(());
        };
        let adapter = &self.adapter.name;
        if device.ahead.as_ref().is_none_or(|ahead| ahead.epoch != epoch) {
            device.ahead = Some(Ahead {
                epoch,
                begun: Instant::now(),
                settled: false,
            });
            let refused = if self.adapter.software && !Room::default().has(cache.dataset_bytes()) {
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
        let Some(ahead) = device.ahead.as_mut().filter(|ahead| !ahead.settled) else {
            return Ok(());
        };
        // There is none where it was refused, be it on the way.
        let at = device.searcher.prepared();
        let under_way = at.filter(|at| at.items_done < at.items_total);
        ahead.settled = under_way.is_none();
        self.gauge.set_dataset(under_way.map(|at| DatasetProgress {
            epoch: epoch.index,
            done: at.items_done,
            total: at.items_total,
        }));
        if at.is_some() && ahead.settled {
            let seconds = ahead.begun.elapsed().as_secs_f64();
            tracing::info!(epoch = epoch.index, %adapter, seconds, "next dataset made ahead");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fixture::{easy_work, idle_engine, wait_for, worker};
    use super::*;
    use crate::gpu::GpuWork;
    use crate::gpu::fixture::{first_adapter, loaded};

    #[test]
    fn the_next_dataset_is_there_at_the_switch() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [now, next] = [0, 1].map(Epoch::ethash);
        let caches = [now, next].map(|epoch| config.caches.get(epoch).expect("the test sizes"));
        let mut device = Device {
            loaded: Some(now),
            ..Device::new(loaded(&adapter, &config.gpu, &caches[0]))
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
        while !device.ahead.as_ref().is_some_and(|ahead| ahead.settled) {
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
    fn a_next_dataset_that_fails_on_the_way_is_shown_no_more() {
        let Some(adapter) = first_adapter() else { return };
        let (engine, config, _solutions) = idle_engine(&adapter);
        let [now, next] = [0, 1].map(Epoch::ethash);
        let cache = config.caches.get(now).expect("the test sizes");
        let worker = worker(&engine, adapter.clone(), config.gpu.clone());
        let mut device = Device {
            loaded: Some(now),
            ..Device::new(loaded(&adapter, &config.gpu, &cache))
        };
        engine.crew.lights.announce(now, next);
        wait_for(&engine, "the next light cache", || {
            engine.crew.lights.coming(now).is_some()
        });
        let shown = || worker.gauge.status(Instant::now()).dataset;
        worker.prepare_next(&mut device, now).expect("it begins");
        assert_eq!(shown().map(|at| (at.epoch, at.done, at.total)), Some((1, 0, 256)));
        device.searcher.spoil_ahead();
        worker.prepare_next(&mut device, now).expect("the device works");
        assert_eq!(shown(), None);
        assert!(
            device.ahead.is_some_and(|ahead| ahead.settled),
            "it is not begun again"
        );
    }
}
