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
#[cfg(test)]
mod tests;

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

/// The place where the progress of a generation is shown.
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
        let is_needed = || self.state.lock().needs(epoch);
        if !self.wait_for_memory(epoch, cache, &is_needed) {
            return;
        }
        if let Some(dataset) = folder.and_then(|folder| open(folder, cache, &|| !is_needed())) {
            self.publish(epoch, dataset);
            return;
        }
        match self.generate(epoch, cache, &is_needed) {
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

    /// Waits until there is memory for the dataset of `epoch`. Returns false if it is no longer
    /// needed.
    fn wait_for_memory(
        &self,
        epoch: Epoch,
        cache: &LightCache,
        is_needed: &(dyn Fn() -> bool + Sync),
    ) -> bool {
        let bytes = cache.dataset_bytes();
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
        self.memory.wait(bytes, is_needed, report_shortage)
    }

    fn generate(
        &self,
        epoch: Epoch,
        cache: &LightCache,
        is_needed: &(dyn Fn() -> bool + Sync),
    ) -> Result<Dataset, DatasetError> {
        let bytes = cache.dataset_bytes();
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
            // The dataset was rejected after the last check, before there was a file that `reject`
            // could remove.
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
fn open(folder: &Path, cache: &LightCache, cancelled: &dyn Fn() -> bool) -> Option<Dataset> {
    match Dataset::open(folder, cache, cancelled) {
        Ok(dataset) => {
            tracing::info!(bytes = dataset.bytes(), folder = %folder.display(), "full dataset found on disk");
            Some(dataset)
        }
        Err(DatasetError::Cancelled) => None,
        Err(error) if error.is_absent() => None,
        Err(error) => {
            tracing::warn!("dataset file not usable, it is generated again: {error}");
            None
        }
    }
}
