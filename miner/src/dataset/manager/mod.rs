//! Keeps the full dataset of the epoch at work: finds it on disk or generates it, in the background.
//!
//! Searchers ask for it and go on with the light cache until it is there, which takes until there is memory for
//! it. The dataset of the epoch to come is made ahead where there is memory for two, and at the switch
//! otherwise. Generating shares the processor evenly with the search: hashing from the light cache is a hundredth
//! as fast as what the wait is for.

mod state;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ethash::{Epoch, LightCache};
use parking_lot::Mutex;

use self::state::{DatasetManagerState, NextEpoch};
use crate::dataset::error::DatasetError;
use crate::dataset::file_format::file_name;
use crate::dataset::free_memory::{FreeMemory, MemoryShortage};
use crate::dataset::full_dataset::Dataset;
use crate::dataset::policy::DatasetPolicy;
use crate::telemetry::{DeviceTelemetry, ProgressReporter};
use crate::threads::{join_until, set_thread_niceness};

#[derive(Debug)]
pub(crate) struct DatasetManager {
    policy: DatasetPolicy,
    threads: usize,
    /// How far those threads let other programs go before them.
    niceness: u8,
    room: FreeMemory,
    state: Mutex<DatasetManagerState>,
    /// Where progress is shown, and whether by bars too.
    shown_on: OnceLock<(Arc<DeviceTelemetry>, bool)>,
}

impl DatasetManager {
    /// Generates with `threads` threads of `niceness`.
    pub(crate) fn new(policy: DatasetPolicy, threads: usize, niceness: u8) -> Self {
        Self {
            policy,
            threads,
            niceness,
            room: FreeMemory::default(),
            state: Mutex::default(),
            shown_on: OnceLock::new(),
        }
    }

    /// Shows progress on the dials of `telemetry`, and by bars on a terminal if they are wanted.
    pub(crate) fn show_progress_on(&self, telemetry: Arc<DeviceTelemetry>, bars: bool) {
        // The first stays: there is one CPU.
        let _ = self.shown_on.set((telemetry, bars));
    }

    /// Sees to it that the dataset of `epoch` comes, once; a dataset of another epoch is dropped.
    pub(crate) fn request(self: &Arc<Self>, epoch: Epoch, cache: &Arc<LightCache>) {
        if self.policy == DatasetPolicy::Never {
            return;
        }
        let mut state = self.state.lock();
        if state.stopping || state.wanted == Some(epoch) && !state.is_due_anew {
            return;
        }
        let is_another = state.wanted.replace(epoch) != Some(epoch);
        state.is_due_anew = false;
        if is_another {
            state.ready = None;
            state.coming.take_if(|coming| coming.present != epoch);
            match state.ahead.take() {
                Some((ahead, Some(dataset))) if ahead.epoch == epoch => {
                    tracing::info!(epoch = epoch.index, "the full dataset was made ahead");
                    state.ready = Some(dataset);
                    if state.coming.is_some() {
                        self.start_builder(&mut state, |_| {});
                    }
                    return;
                }
                // It is on its way, and comes to whoever wants it by now.
                Some((ahead, None)) if ahead.epoch == epoch => return,
                _ => {}
            }
        }
        let cache = Arc::clone(cache);
        self.start_builder(&mut state, move |manager| manager.build(epoch, &cache));
    }

    /// After the epoch `present` comes `epoch`: its dataset is made ahead, once that of `present` is there.
    pub(crate) fn prepare_next(self: &Arc<Self>, present: Epoch, epoch: Epoch, cache: &Arc<LightCache>) {
        if self.policy == DatasetPolicy::Never {
            return;
        }
        let mut state = self.state.lock();
        if state.stopping || state.is_ahead(epoch) {
            return;
        }
        state.coming = Some(NextEpoch {
            present,
            epoch,
            cache: Arc::clone(cache),
        });
        // Whoever builds the present one, be it that nobody wants it yet, goes on with it.
        if state.ready.is_some() && state.wanted == Some(present) {
            self.start_builder(&mut state, |_| {});
        }
    }

    /// Starts a thread that builds, and then what is to be made ahead.
    fn start_builder(
        self: &Arc<Self>,
        state: &mut DatasetManagerState,
        build: impl FnOnce(&Self) + Send + 'static,
    ) {
        let before = state.builder.take();
        let manager = Arc::clone(self);
        let builder = std::thread::Builder::new().name("dataset".into()).spawn(move || {
            // Those that help it do as it does.
            set_thread_niceness(manager.niceness);
            // It sees that its epoch is no longer wanted and ends soon.
            if let Some(before) = before {
                let _ = before.join();
            }
            build(&manager);
            while manager.build_ahead() {}
        });
        match builder {
            Ok(builder) => state.builder = Some(builder),
            Err(error) => {
                tracing::warn!("no full dataset, the search stays with the light cache: no thread: {error}")
            }
        }
    }

    /// The dataset of `epoch` if it is there.
    pub(crate) fn ready(&self, epoch: Epoch) -> Option<Arc<Dataset>> {
        let state = self.state.lock();
        state.ready.clone().filter(|_| state.wanted == Some(epoch))
    }

    /// `dataset` gave a wrong hash: it is dropped with its file, and built anew when wanted again.
    pub(crate) fn reject(&self, epoch: Epoch, dataset: &Arc<Dataset>) {
        let mut state = self.state.lock();
        if state.wanted != Some(epoch)
            || !state
                .ready
                .as_ref()
                .is_some_and(|ready| Arc::ptr_eq(ready, dataset))
        {
            return;
        }
        state.ready = None;
        state.rejected = Arc::downgrade(dataset);
        state.is_due_anew = true;
        // What is only begun ahead comes after it.
        if let Some((coming, _)) = state.ahead.take_if(|(_, dataset)| dataset.is_none()) {
            state.coming = Some(coming);
        }
        drop(state);
        tracing::warn!("the full dataset gave a wrong hash; it is generated anew");
        if let DatasetPolicy::Disk(folder) = &self.policy {
            let _ = fs::remove_file(folder.join(file_name(&epoch.seed_hash())));
        }
    }

    /// Ends what is under way and waits for it, until `deadline`.
    pub(crate) fn stop(&self, deadline: Instant) {
        let builder = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.builder.take()
        };
        if let Some(builder) = builder {
            join_until(builder, deadline);
        }
    }

    /// Makes the dataset of the epoch to come, if it is known, not begun and there is room for it. False where
    /// there was nothing to do.
    fn build_ahead(&self) -> bool {
        let NextEpoch { epoch, cache, .. } = {
            let mut state = self.state.lock();
            // Before the present one, none is made for later.
            if state.stopping || state.ready.is_none() {
                return false;
            }
            let wanted = state.wanted;
            let Some(coming) = state.coming.take_if(|coming| wanted == Some(coming.present)) else {
                return false;
            };
            let bytes = coming.cache.dataset_bytes();
            if !self.room.has(bytes) {
                tracing::info!(
                    epoch = coming.epoch.index,
                    bytes,
                    "no room for the next full dataset, it is made at the switch"
                );
                return false;
            }
            state.ahead = Some((coming.clone(), None));
            coming
        };
        self.build(epoch, &cache);
        // It failed, which is said; the switch tries again.
        let unmade =
            |(ahead, dataset): &mut (NextEpoch, Option<_>)| ahead.epoch == epoch && dataset.is_none();
        let wanted_by_now = {
            let mut state = self.state.lock();
            state.ahead.take_if(unmade);
            state.wanted == Some(epoch) && !state.is_due_anew
        };
        // It failed beside the one before, which has made room meanwhile.
        if wanted_by_now {
            self.build(epoch, &cache);
        }
        true
    }

    /// Finds or makes the dataset of `epoch`, as long as it is wanted and not there.
    fn build(&self, epoch: Epoch, cache: &LightCache) {
        if !self.state.lock().lacks(epoch) {
            return;
        }
        let folder = match &self.policy {
            DatasetPolicy::Never => return,
            DatasetPolicy::Memory => None,
            DatasetPolicy::Disk(folder) => Some(folder),
        };
        if let Some(dataset) = folder.and_then(|folder| open(folder, cache)) {
            self.put(epoch, dataset);
            return;
        }
        match self.generate(epoch, cache) {
            Ok(dataset) => {
                let Some(dataset) = self.put(epoch, dataset) else {
                    return;
                };
                if let Some(folder) = folder {
                    self.save(folder, cache, &dataset);
                }
            }
            Err(DatasetError::Cancelled) => {}
            Err(error) => tracing::warn!("no full dataset, the search stays with the light cache: {error}"),
        }
    }

    fn generate(&self, epoch: Epoch, cache: &LightCache) -> Result<Dataset, DatasetError> {
        let bytes = cache.dataset_bytes();
        let wanted = || self.state.lock().lacks(epoch);
        // The system would give it and then have to end a program, or go through the swap.
        let tell = |MemoryShortage { needed, available }| {
            tracing::warn!(
                epoch = epoch.index,
                bytes,
                needed,
                available,
                "too little memory for the full dataset, the search stays with the light cache until there is"
            );
        };
        if !self.room.wait(bytes, wanted, tell) {
            return Err(DatasetError::Cancelled);
        }
        let (telemetry, bars) = self.shown_on.get().cloned().unzip();
        let mut progress = ProgressReporter::shown(
            format!("generating the dataset of epoch {}", epoch.index),
            bars.unwrap_or(true),
            telemetry.map(|telemetry| (telemetry, epoch.index)),
        );
        let dataset = Dataset::generate(cache, self.threads, &mut |done, total| {
            progress.report(done, total);
            if wanted() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let seconds = progress.end().as_secs_f64();
        if dataset.is_ok() {
            tracing::info!(epoch = epoch.index, bytes, seconds, "full dataset generated");
        }
        dataset
    }

    /// Offers `dataset` to the searchers, or lays it by for them, if it is still wanted, and gives it back.
    fn put(&self, epoch: Epoch, dataset: Dataset) -> Option<Arc<Dataset>> {
        let mut state = self.state.lock();
        let dataset = Arc::new(dataset);
        if state.stopping {
            return None;
        }
        if state.wanted == Some(epoch) {
            state.ready = Some(Arc::clone(&dataset));
            return Some(dataset);
        }
        match &mut state.ahead {
            Some((ahead, place)) if ahead.epoch == epoch => {
                *place = Some(Arc::clone(&dataset));
                Some(dataset)
            }
            _ => None,
        }
    }

    /// Writes `dataset`, as long as it is the one that is used.
    fn save(&self, folder: &Path, cache: &LightCache, dataset: &Arc<Dataset>) {
        let cancelled = || {
            let state = self.state.lock();
            state.stopping || !state.keeps(dataset)
        };
        match dataset.save(folder, &cache.seed_hash(), &cancelled) {
            // Rejected at the last moment: then there was no file yet to be removed with it.
            Ok(path) if self.state.lock().rejected.as_ptr() == Arc::as_ptr(dataset) => {
                let _ = fs::remove_file(path);
            }
            Ok(path) => tracing::info!(path = %path.display(), "full dataset written"),
            Err(DatasetError::Cancelled) => {}
            Err(error) => tracing::warn!("full dataset stays in memory only: {error}"),
        }
    }
}

/// The dataset in `folder`, if there is a good one; what is wrong with a bad one is said.
fn open(folder: &Path, cache: &LightCache) -> Option<Dataset> {
    match Dataset::open(folder, cache) {
        Ok(dataset) => {
            tracing::info!(bytes = dataset.bytes(), folder = %folder.display(), "full dataset found on disk");
            Some(dataset)
        }
        Err(error) if error.is_absent() => None,
        Err(error) => {
            tracing::warn!("dataset file not usable, it is made anew: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    fn cache(epoch: Epoch) -> Arc<LightCache> {
        Arc::new(LightCache::with_sizes(epoch.seed_hash(), 1024, 128 * 1031).expect("small sizes"))
    }

    fn wait_for(manager: &DatasetManager, epoch: Epoch) -> Arc<Dataset> {
        let start = Instant::now();
        loop {
            if let Some(dataset) = manager.ready(epoch) {
                return dataset;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "no dataset");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The dataset made ahead, once it is there.
    fn wait_for_ahead(manager: &DatasetManager, epoch: Epoch) -> Arc<Dataset> {
        let start = Instant::now();
        loop {
            if let Some((coming, Some(dataset))) = &manager.state.lock().ahead
                && coming.epoch == epoch
            {
                return Arc::clone(dataset);
            }
            assert!(start.elapsed() < Duration::from_secs(20), "nothing is made ahead");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop(manager: &DatasetManager) {
        manager.stop(Instant::now() + Duration::from_secs(20));
    }

    fn wait_for_file(path: &Path) {
        let start = Instant::now();
        while !path.exists() {
            assert!(start.elapsed() < Duration::from_secs(20), "no file");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn epochs_follow_each_other() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 2, 0));
        for index in [0, 1, 0] {
            let epoch = Epoch::ethash(index);
            manager.request(epoch, &cache(epoch));
            manager.request(epoch, &cache(epoch));
            let dataset = wait_for(&manager, epoch);
            assert_eq!(
                dataset.view().hash(&ethash::B256::ZERO, 1),
                cache(epoch).hash(&ethash::B256::ZERO, 1)
            );
            assert!(manager.ready(Epoch::ethash(9)).is_none());
        }
        stop(&manager);
        let epoch = Epoch::ethash(5);
        manager.request(epoch, &cache(epoch));
        assert!(manager.ready(epoch).is_none(), "nothing is begun after the stop");
    }

    #[test]
    fn the_next_dataset_is_made_ahead() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 2, 0));
        let [now, next] = [Epoch::ethash(0), Epoch::ethash(1)];
        // Known before anyone searches: then it waits for the present one.
        manager.prepare_next(now, next, &cache(next));
        assert!(manager.state.lock().builder.is_none(), "nobody searches yet");
        manager.request(now, &cache(now));
        wait_for(&manager, now);
        wait_for_ahead(&manager, next);
        assert!(manager.ready(now).is_some() && manager.ready(next).is_none());
        manager.request(next, &cache(next));
        let dataset = manager.ready(next).expect("it is there at the switch");
        assert_eq!(
            dataset.view().hash(&ethash::B256::ZERO, 1),
            cache(next).hash(&ethash::B256::ZERO, 1)
        );
        assert!(manager.ready(now).is_none());
        // Announced while there is one already.
        let last = Epoch::ethash(2);
        manager.prepare_next(next, last, &cache(last));
        manager.request(last, &cache(last));
        wait_for(&manager, last);
        stop(&manager);
    }

    #[test]
    fn a_corrupt_file_is_made_anew() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let epoch = Epoch::ethash(0);
        let path = folder.path().join(file_name(&epoch.seed_hash()));
        fs::write(&path, vec![0xab; 8 + 128 * 1031]).expect("a bad file");
        let manager = Arc::new(DatasetManager::new(
            DatasetPolicy::Disk(folder.path().to_owned()),
            1,
            0,
        ));
        manager.request(epoch, &cache(epoch));
        wait_for(&manager, epoch);
        stop(&manager);
        // Stopped while writing, the bad file is still there; finished, the good one has replaced it.
        let manager = Arc::new(DatasetManager::new(
            DatasetPolicy::Disk(folder.path().to_owned()),
            1,
            0,
        ));
        manager.request(epoch, &cache(epoch));
        let dataset = wait_for(&manager, epoch);
        let start = Instant::now();
        while Dataset::open(folder.path(), &cache(epoch)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the bad file was not replaced"
            );
            std::thread::sleep(Duration::from_millis(2));
        }

        manager.reject(epoch, &dataset);
        assert!(manager.ready(epoch).is_none() && !path.exists());
        manager.request(epoch, &cache(epoch));
        assert!(!Arc::ptr_eq(&wait_for(&manager, epoch), &dataset));
        wait_for_file(&path);
        stop(&manager);
    }

    #[test]
    fn only_what_follows_the_present_epoch_is_made_ahead() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 0));
        let [now, next, other] = [0, 1, 5].map(Epoch::ethash);
        manager.prepare_next(now, next, &cache(next));
        // The rig comes back, or another pool has it, in another epoch.
        manager.request(other, &cache(other));
        assert!(manager.state.lock().coming.is_none());
        wait_for(&manager, other);
        let builder = manager.state.lock().builder.take();
        builder.expect("it was begun").join().expect("no panic");
        manager.prepare_next(now, next, &cache(next));
        let state = manager.state.lock();
        assert!(
            state.builder.is_none() && state.ahead.is_none(),
            "not yet, or no more"
        );
        drop(state);
        // The searchers see the new work a moment after it was announced what follows.
        manager.request(now, &cache(now));
        wait_for_ahead(&manager, next);
        let last = Epoch::ethash(2);
        manager.prepare_next(next, last, &cache(last));
        manager.request(next, &cache(next));
        assert!(manager.ready(next).is_some(), "made ahead");
        wait_for_ahead(&manager, last);
        stop(&manager);
    }

    #[test]
    fn a_rejected_dataset_is_not_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let manager = DatasetManager::new(DatasetPolicy::Disk(folder.path().to_owned()), 1, 0);
        let epoch = Epoch::ethash(0);
        let path = folder.path().join(file_name(&epoch.seed_hash()));
        let mut go_on = |_, _| ControlFlow::Continue(());
        let dataset = Dataset::generate(&cache(epoch), 1, &mut go_on).expect("130 KB");
        manager.state.lock().wanted = Some(epoch);
        let dataset = manager.put(epoch, dataset).expect("it is wanted");
        manager.save(folder.path(), &cache(epoch), &dataset);
        assert!(path.exists(), "a good one is written");

        // While it is written again, it turns out bad, and a searcher wants another at once.
        manager.reject(epoch, &dataset);
        assert!(!path.exists());
        manager.state.lock().is_due_anew = false;
        manager.save(folder.path(), &cache(epoch), &dataset);
        assert!(!path.exists(), "a bad one is not");
        // The same when all of it was written before it was seen to be bad.
        manager.state.lock().ready = Some(Arc::clone(&dataset));
        manager.save(folder.path(), &cache(epoch), &dataset);
        assert!(!path.exists(), "a bad one goes by its name");
    }

    #[test]
    fn what_was_made_ahead_outlives_a_rejected_dataset() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 0));
        let [now, next] = [0, 1].map(Epoch::ethash);
        manager.request(now, &cache(now));
        let first = wait_for(&manager, now);
        manager.prepare_next(now, next, &cache(next));
        let ahead = wait_for_ahead(&manager, next);
        manager.reject(now, &first);
        assert!(manager.ready(now).is_none());
        manager.request(now, &cache(now));
        let second = wait_for(&manager, now);
        assert!(!Arc::ptr_eq(&first, &second));
        manager.reject(now, &first);
        assert!(manager.ready(now).is_some(), "what is gone cannot be rejected");

        // Only begun, it comes after the present one.
        if let Some((_, dataset)) = &mut manager.state.lock().ahead {
            *dataset = None;
        }
        manager.reject(now, &second);
        assert!(manager.state.lock().ahead.is_none());
        manager.request(now, &cache(now));
        wait_for(&manager, now);
        let anew = wait_for_ahead(&manager, next);
        assert!(!Arc::ptr_eq(&ahead, &anew));
        manager.reject(now, &wait_for(&manager, now));
        manager.request(next, &cache(next));
        let at_once = manager.ready(next).expect("it is there at the switch");
        assert!(Arc::ptr_eq(&anew, &at_once));
        stop(&manager);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn those_who_generate_let_others_go_first() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 7));
        let (out, niceness) = crossbeam_channel::bounded(1);
        // SAFETY: takes numbers alone; process 0 is the calling thread.
        let own = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let build = move |_: &DatasetManager| out.send(own()).expect("the test waits");
        manager.start_builder(&mut manager.state.lock(), build);
        let niceness = niceness.recv_timeout(Duration::from_secs(20)).expect("a thread");
        assert_eq!(niceness, own().max(7));
        stop(&manager);
    }

    #[test]
    fn a_dataset_waits_for_memory() {
        static FULL: AtomicBool = AtomicBool::new(true);
        let epoch = Epoch::ethash(1);
        let manager = Arc::new(DatasetManager {
            room: FreeMemory {
                available: || Some(if FULL.load(Ordering::Acquire) { 5 } else { 1 << 40 }),
                patience: Duration::ZERO,
            },
            ..DatasetManager::new(DatasetPolicy::Memory, 1, 0)
        });
        manager.request(epoch, &cache(epoch));
        std::thread::sleep(Duration::from_millis(50));
        assert!(manager.ready(epoch).is_none(), "there is no room");
        FULL.store(false, Ordering::Release);
        wait_for(&manager, epoch);
        // One that waits in vain holds up neither another epoch nor the end.
        FULL.store(true, Ordering::Release);
        manager.request(Epoch::ethash(2), &cache(Epoch::ethash(2)));
        manager.request(Epoch::ethash(3), &cache(Epoch::ethash(3)));
        stop(&manager);
        assert!(manager.ready(Epoch::ethash(3)).is_none());
    }
}
