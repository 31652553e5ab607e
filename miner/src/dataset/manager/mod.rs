//! Provides the full dataset of the current epoch: from disk, or generated in the background.
//!
//! The searchers ask for the dataset and continue with the light cache until it exists. If there is
//! too little memory for it, the manager waits. The dataset of the next epoch is made in advance if
//! there is memory for two, and otherwise when that epoch begins.
//!
//! The generation and the search get equal shares of the processor. This does not slow the miner
//! down much: a hash from the light cache takes about a hundred times as long as one from the
//! dataset.

mod state;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ethash::{Epoch, LightCache};
use parking_lot::Mutex;

use self::state::{DatasetManagerState, EarlyDataset, NextEpoch};
use crate::dataset::error::DatasetError;
use crate::dataset::file_format::file_name;
use crate::dataset::free_memory::{FreeMemory, MemoryShortage};
use crate::dataset::full_dataset::Dataset;
use crate::dataset::policy::DatasetPolicy;
use crate::telemetry::{DeviceTelemetry, ProgressReporter};
use crate::threads::{join_until, set_thread_niceness, spawn};

/// Provides the full dataset of the CPU.
#[derive(Debug)]
pub(crate) struct DatasetManager {
    policy: DatasetPolicy,
    threads: usize,
    /// The niceness of the threads that generate a dataset.
    niceness: u8,
    memory: FreeMemory,
    state: Mutex<DatasetManagerState>,
    shown_on: OnceLock<ProgressTarget>,
}

/// Where the progress of a generation is shown.
#[derive(Clone, Debug)]
struct ProgressTarget {
    telemetry: Arc<DeviceTelemetry>,
    /// Whether there is also a bar on the terminal.
    bars: bool,
}

impl DatasetManager {
    /// Makes a manager that generates datasets with `threads` threads of this niceness.
    pub(crate) fn new(policy: DatasetPolicy, threads: usize, niceness: u8) -> Self {
        Self {
            policy,
            threads,
            niceness,
            memory: FreeMemory::default(),
            state: Mutex::default(),
            shown_on: OnceLock::new(),
        }
    }

    /// Shows the progress in `telemetry`, and as a bar on the terminal if `bars` is set.
    pub(crate) fn show_progress_on(&self, telemetry: Arc<DeviceTelemetry>, bars: bool) {
        // Only the first call has an effect. There is only one CPU.
        let _ = self.shown_on.set(ProgressTarget { telemetry, bars });
    }

    /// Begins to provide the dataset of `epoch`, unless this was begun before. Drops the dataset of
    /// any other epoch.
    pub(crate) fn request(self: &Arc<Self>, epoch: Epoch, cache: &Arc<LightCache>) {
        if self.policy == DatasetPolicy::Never {
            return;
        }
        let mut state = self.state.lock();
        if state.stopping || state.wanted == Some(epoch) && !state.needs_rebuild {
            return;
        }
        let is_another = state.wanted.replace(epoch) != Some(epoch);
        state.needs_rebuild = false;
        if is_another {
            state.ready = None;
            state.planned.take_if(|next| next.current != epoch);
            match state.early.take_if(|early| early.target.epoch == epoch) {
                Some(EarlyDataset {
                    dataset: Some(dataset),
                    ..
                }) => {
                    tracing::info!(epoch = epoch.index, "the full dataset was made in advance");
                    state.ready = Some(dataset);
                    if state.planned.is_some() {
                        self.start_builder(&mut state, |_| {});
                    }
                    return;
                }
                // The builder is making this dataset. It will publish it for the wanted epoch.
                Some(EarlyDataset { dataset: None, .. }) => return,
                None => state.early = None,
            }
        }
        let cache = Arc::clone(cache);
        self.start_builder(&mut state, move |manager| manager.build(epoch, &cache));
    }

    /// Announces that `epoch` comes after `current`. Its dataset is made in advance, after that of
    /// `current`.
    pub(crate) fn prepare_next(self: &Arc<Self>, current: Epoch, epoch: Epoch, cache: &Arc<LightCache>) {
        if self.policy == DatasetPolicy::Never {
            return;
        }
        let mut state = self.state.lock();
        if state.stopping || state.has_begun_early(epoch) {
            return;
        }
        state.planned = Some(NextEpoch {
            current,
            epoch,
            cache: Arc::clone(cache),
        });
        // If the current dataset is not ready, its builder will continue with this one.
        if state.ready.is_some() && state.wanted == Some(current) {
            self.start_builder(&mut state, |_| {});
        }
    }

    /// Starts a thread that runs `build` and then makes the planned dataset.
    fn start_builder(
        self: &Arc<Self>,
        state: &mut DatasetManagerState,
        build: impl FnOnce(&Self) + Send + 'static,
    ) {
        let previous = state.builder.take();
        let manager = Arc::clone(self);
        let builder = spawn("dataset", move || {
            // The threads that this one starts inherit its niceness.
            set_thread_niceness(manager.niceness);
            // The previous builder notices that its epoch is no longer needed and ends soon.
            if let Some(previous) = previous {
                let _ = previous.join();
            }
            build(&manager);
            while manager.build_planned() {}
        });
        match builder {
            Ok(builder) => state.builder = Some(builder),
            Err(error) => {
                tracing::warn!("no full dataset, the search stays with the light cache: {error}");
            }
        }
    }

    /// Returns the dataset of `epoch` if it is ready.
    pub(crate) fn ready(&self, epoch: Epoch) -> Option<Arc<Dataset>> {
        let state = self.state.lock();
        state.ready.clone().filter(|_| state.wanted == Some(epoch))
    }

    /// Drops `dataset` and its file, because it gave a wrong hash. The next request makes a new
    /// one.
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
        state.needs_rebuild = true;
        // The new dataset of this epoch goes before an unfinished dataset of the next epoch.
        if let Some(early) = state.early.take_if(|early| early.dataset.is_none()) {
            state.planned = Some(early.target);
        }
        drop(state);
        tracing::warn!("the full dataset gave a wrong hash; it is generated again");
        if let DatasetPolicy::Disk(folder) = &self.policy {
            let _ = fs::remove_file(folder.join(file_name(&epoch.seed_hash())));
        }
    }

    /// Stops the builder and waits for it, until `deadline`.
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

    /// Makes the planned dataset if there is memory for it. Returns false if there was nothing to
    /// do.
    fn build_planned(&self) -> bool {
        let Some(NextEpoch { epoch, cache, .. }) = self.begin_planned() else {
            return false;
        };
        self.build(epoch, &cache);
        let is_wanted_now = {
            let mut state = self.state.lock();
            // The generation failed and has logged the reason. It is tried again when the epoch
            // begins.
            state
                .early
                .take_if(|early| early.target.epoch == epoch && early.dataset.is_none());
            state.wanted == Some(epoch) && !state.needs_rebuild
        };
        // If the epoch began meanwhile, the dataset before it was dropped, so there is more memory
        // now. Where the first attempt has succeeded, this does nothing.
        if is_wanted_now {
            self.build(epoch, &cache);
        }
        true
    }

    /// Marks the planned dataset as begun and returns its epoch. Returns `None` if nothing is
    /// planned for the current epoch, if the current dataset is not ready, or if there is too
    /// little memory.
    fn begin_planned(&self) -> Option<NextEpoch> {
        let mut state = self.state.lock();
        if state.stopping || state.ready.is_none() {
            return None;
        }
        let wanted = state.wanted;
        let next = state.planned.take_if(|next| wanted == Some(next.current))?;
        let bytes = next.cache.dataset_bytes();
        if !self.memory.has(bytes) {
            tracing::info!(
                epoch = next.epoch.index,
                bytes,
                "too little memory for the next full dataset; it will be made when its epoch begins"
            );
            return None;
        }
        state.early = Some(EarlyDataset {
            target: next.clone(),
            dataset: None,
        });
        Some(next)
    }

    /// Opens or generates the dataset of `epoch` and publishes it, if it is still needed.
    fn build(&self, epoch: Epoch, cache: &LightCache) {
        if !self.state.lock().needs(epoch) {
            return;
        }
        let folder = match &self.policy {
            DatasetPolicy::Never => return,
            DatasetPolicy::Memory => None,
            DatasetPolicy::Disk(folder) => Some(folder),
        };
        if let Some(dataset) = folder.and_then(|folder| open(folder, cache)) {
            self.publish(epoch, dataset);
            return;
        }
        match self.generate(epoch, cache) {
            Ok(dataset) => {
                let Some(dataset) = self.publish(epoch, dataset) else {
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
        let is_needed = || self.state.lock().needs(epoch);
        // The system might grant this memory, and then end a program or use the swap.
        let report_shortage = |MemoryShortage { needed, available }| {
            tracing::warn!(
                epoch = epoch.index,
                bytes,
                needed,
                available,
                "too little memory for the full dataset, the search stays with the light cache until there is enough"
            );
        };
        if !self.memory.wait(bytes, is_needed, report_shortage) {
            return Err(DatasetError::Cancelled);
        }
        let target = self.shown_on.get();
        let mut progress = ProgressReporter::shown(
            format!("generating the dataset of epoch {}", epoch.index),
            target.is_none_or(|target| target.bars),
            target.map(|target| (Arc::clone(&target.telemetry), epoch.index)),
        );
        let dataset = Dataset::generate(cache, self.threads, &mut |done, total| {
            progress.report(done, total);
            if is_needed() {
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

    /// Makes `dataset` available to the searchers, now or when its epoch begins, and returns it.
    ///
    /// Returns `None` if the dataset is no longer needed.
    fn publish(&self, epoch: Epoch, dataset: Dataset) -> Option<Arc<Dataset>> {
        let mut state = self.state.lock();
        let dataset = Arc::new(dataset);
        if state.stopping {
            return None;
        }
        if state.wanted == Some(epoch) {
            state.ready = Some(Arc::clone(&dataset));
            return Some(dataset);
        }
        match &mut state.early {
            Some(early) if early.target.epoch == epoch => {
                early.dataset = Some(Arc::clone(&dataset));
                Some(dataset)
            }
            _ => None,
        }
    }

    /// Writes `dataset` to `folder`. Stops if the dataset is no longer used.
    fn save(&self, folder: &Path, cache: &LightCache, dataset: &Arc<Dataset>) {
        let cancelled = || {
            let state = self.state.lock();
            state.stopping || !state.keeps(dataset)
        };
        match dataset.save(folder, &cache.seed_hash(), &cancelled) {
            // It was rejected after the last check, before there was a file that `reject` could
            // remove.
            Ok(path) if self.state.lock().rejected.as_ptr() == Arc::as_ptr(dataset) => {
                let _ = fs::remove_file(path);
            }
            Ok(path) => tracing::info!(path = %path.display(), "full dataset written"),
            Err(DatasetError::Cancelled) => {}
            Err(error) => tracing::warn!("full dataset stays in memory only: {error}"),
        }
    }
}

/// Returns the dataset in `folder`, if there is a good one. Logs what is wrong with a bad one.
fn open(folder: &Path, cache: &LightCache) -> Option<Dataset> {
    match Dataset::open(folder, cache) {
        Ok(dataset) => {
            tracing::info!(bytes = dataset.bytes(), folder = %folder.display(), "full dataset found on disk");
            Some(dataset)
        }
        Err(error) if error.is_absent() => None,
        Err(error) => {
            tracing::warn!("dataset file not usable, it is generated again: {error}");
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

    /// Waits for the dataset that is made in advance for `epoch`.
    fn wait_for_early(manager: &DatasetManager, epoch: Epoch) -> Arc<Dataset> {
        let start = Instant::now();
        loop {
            if let Some(early) = &manager.state.lock().early
                && early.target.epoch == epoch
                && let Some(dataset) = &early.dataset
            {
                return Arc::clone(dataset);
            }
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "no dataset is made in advance"
            );
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
    fn each_epoch_gets_its_dataset() {
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
        assert!(
            manager.ready(epoch).is_none(),
            "no dataset is begun after the stop"
        );
    }

    #[test]
    fn the_next_dataset_is_made_in_advance() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 2, 0));
        let [now, next] = [Epoch::ethash(0), Epoch::ethash(1)];
        // The next epoch is announced before anyone searches. Its dataset waits for the current
        // one.
        manager.prepare_next(now, next, &cache(next));
        assert!(manager.state.lock().builder.is_none(), "no dataset was requested");
        manager.request(now, &cache(now));
        wait_for(&manager, now);
        wait_for_early(&manager, next);
        assert!(manager.ready(now).is_some() && manager.ready(next).is_none());
        manager.request(next, &cache(next));
        let dataset = manager.ready(next).expect("the dataset was made in advance");
        assert_eq!(
            dataset.view().hash(&ethash::B256::ZERO, 1),
            cache(next).hash(&ethash::B256::ZERO, 1)
        );
        assert!(manager.ready(now).is_none());
        // The next epoch is announced while the current dataset is ready.
        let last = Epoch::ethash(2);
        manager.prepare_next(next, last, &cache(last));
        manager.request(last, &cache(last));
        wait_for(&manager, last);
        stop(&manager);
    }

    #[test]
    fn a_corrupt_file_is_replaced() {
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
        // If the manager was stopped while it wrote, the bad file still exists. Otherwise the good
        // file has replaced it.
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
    fn only_the_epoch_after_the_current_one_is_made_in_advance() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 0));
        let [now, next, other] = [0, 1, 5].map(Epoch::ethash);
        manager.prepare_next(now, next, &cache(next));
        // The work changes to an unexpected epoch, for example that of another pool.
        manager.request(other, &cache(other));
        assert!(manager.state.lock().planned.is_none());
        wait_for(&manager, other);
        let builder = manager.state.lock().builder.take();
        builder.expect("a builder was started").join().expect("no panic");
        manager.prepare_next(now, next, &cache(next));
        let state = manager.state.lock();
        assert!(
            state.builder.is_none() && state.early.is_none(),
            "the announced epoch does not follow the current one"
        );
        drop(state);
        // The searchers request the new epoch a moment after its successor was announced.
        manager.request(now, &cache(now));
        wait_for_early(&manager, next);
        let last = Epoch::ethash(2);
        manager.prepare_next(next, last, &cache(last));
        manager.request(next, &cache(next));
        assert!(manager.ready(next).is_some(), "it was made in advance");
        wait_for_early(&manager, last);
        stop(&manager);
    }

    #[test]
    fn a_rejected_dataset_is_not_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let manager = DatasetManager::new(DatasetPolicy::Disk(folder.path().to_owned()), 1, 0);
        let epoch = Epoch::ethash(0);
        let path = folder.path().join(file_name(&epoch.seed_hash()));
        let mut on_progress = |_, _| ControlFlow::Continue(());
        let dataset = Dataset::generate(&cache(epoch), 1, &mut on_progress).expect("130 KB");
        manager.state.lock().wanted = Some(epoch);
        let dataset = manager.publish(epoch, dataset).expect("the dataset is needed");
        manager.save(folder.path(), &cache(epoch), &dataset);
        assert!(path.exists(), "a good dataset is written");

        // While the dataset is written again, it is rejected, and a searcher requests a new one at
        // once.
        manager.reject(epoch, &dataset);
        assert!(!path.exists());
        manager.state.lock().needs_rebuild = false;
        manager.save(folder.path(), &cache(epoch), &dataset);
        assert!(!path.exists(), "a rejected dataset is not written");
        // The dataset is rejected after it was written completely.
        manager.state.lock().ready = Some(Arc::clone(&dataset));
        manager.save(folder.path(), &cache(epoch), &dataset);
        assert!(!path.exists(), "the file of a rejected dataset is removed");
    }

    #[test]
    fn the_next_dataset_outlives_a_rejected_one() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 0));
        let [now, next] = [0, 1].map(Epoch::ethash);
        manager.request(now, &cache(now));
        let first = wait_for(&manager, now);
        manager.prepare_next(now, next, &cache(next));
        let early = wait_for_early(&manager, next);
        manager.reject(now, &first);
        assert!(manager.ready(now).is_none());
        manager.request(now, &cache(now));
        let second = wait_for(&manager, now);
        assert!(!Arc::ptr_eq(&first, &second));
        manager.reject(now, &first);
        assert!(
            manager.ready(now).is_some(),
            "only the current dataset can be rejected"
        );

        // An unfinished next dataset waits until the current one was made again.
        if let Some(early) = &mut manager.state.lock().early {
            early.dataset = None;
        }
        manager.reject(now, &second);
        assert!(manager.state.lock().early.is_none());
        manager.request(now, &cache(now));
        wait_for(&manager, now);
        let second_early = wait_for_early(&manager, next);
        assert!(!Arc::ptr_eq(&early, &second_early));
        manager.reject(now, &wait_for(&manager, now));
        manager.request(next, &cache(next));
        let dataset = manager.ready(next).expect("the dataset was made in advance");
        assert!(Arc::ptr_eq(&second_early, &dataset));
        stop(&manager);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_builder_has_the_configured_niceness() {
        let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 7));
        let (out, niceness) = crossbeam_channel::bounded(1);
        // SAFETY: `getpriority` takes only numbers. Process 0 is the calling thread.
        let own_niceness = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let build = move |_: &DatasetManager| out.send(own_niceness()).expect("the test waits");
        manager.start_builder(&mut manager.state.lock(), build);
        let niceness = niceness.recv_timeout(Duration::from_secs(20)).expect("a thread");
        assert_eq!(niceness, own_niceness().max(7));
        stop(&manager);
    }

    #[test]
    fn a_dataset_waits_for_memory() {
        static FULL: AtomicBool = AtomicBool::new(true);
        let epoch = Epoch::ethash(1);
        let manager = Arc::new(DatasetManager {
            memory: FreeMemory {
                available: || Some(if FULL.load(Ordering::Acquire) { 5 } else { 1 << 40 }),
                patience: Duration::ZERO,
            },
            ..DatasetManager::new(DatasetPolicy::Memory, 1, 0)
        });
        manager.request(epoch, &cache(epoch));
        std::thread::sleep(Duration::from_millis(50));
        assert!(manager.ready(epoch).is_none(), "there is too little memory");
        FULL.store(false, Ordering::Release);
        wait_for(&manager, epoch);
        // A dataset that waits for memory delays neither another epoch nor the stop.
        FULL.store(true, Ordering::Release);
        manager.request(Epoch::ethash(2), &cache(Epoch::ethash(2)));
        manager.request(Epoch::ethash(3), &cache(Epoch::ethash(3)));
        stop(&manager);
        assert!(manager.ready(Epoch::ethash(3)).is_none());
    }
}
