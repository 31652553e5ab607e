//! Keeps the full dataset of the epoch at work: finds it on disk or generates it, in the background.
//!
//! Searchers ask for it and go on with the light cache until it is there. The dataset of the epoch to come is
//! made ahead where there is memory for two, and at the switch otherwise. Generating shares the processor evenly with the search: hashing from the light cache is a
//! hundredth as fast as what the wait is for.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ethash::{Epoch, LightCache};
use parking_lot::Mutex;

use crate::dataset::{Dataset, DatasetError, file_name};
use crate::engine::DatasetPolicy;
use crate::gauge::Gauge;
use crate::progress::Progress;
use crate::room::{has_room_for, too_little_for};

/// Between two looks for room.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A dataset that waits for room longer is worth a line of the log: the one before takes a moment to go.
const TELL_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Keeper {
    policy: DatasetPolicy,
    threads: usize,
    /// What memory there is, where it is too little for so many bytes.
    too_little_for: fn(u64) -> Option<u64>,
    state: Mutex<State>,
    /// Where progress is shown, and whether by bars too.
    shown_on: OnceLock<(Arc<Gauge>, bool)>,
}

#[derive(Debug, Default)]
struct State {
    /// The epoch of the dataset that is there, on its way or given up.
    wanted: Option<Epoch>,
    ready: Option<Arc<Dataset>>,
    /// The epoch to come, for which nothing has been begun yet.
    coming: Option<(Epoch, Arc<LightCache>)>,
    /// The epoch whose dataset is made ahead, and that dataset once it is there.
    ahead: Option<(Epoch, Option<Arc<Dataset>>)>,
    builder: Option<JoinHandle<()>>,
    stopping: bool,
}

impl State {
    fn is_ahead(&self, epoch: Epoch) -> bool {
        self.ahead.as_ref().is_some_and(|(ahead, _)| *ahead == epoch)
    }
}

impl Keeper {
    pub(crate) fn new(policy: DatasetPolicy, threads: usize) -> Self {
        Self {
            policy,
            threads,
            too_little_for,
            state: Mutex::default(),
            shown_on: OnceLock::new(),
        }
    }

    /// Shows progress on the dials of `gauge`, and by bars on a terminal if they are wanted.
    pub(crate) fn show_on(&self, gauge: Arc<Gauge>, bars: bool) {
        // The first stays: there is one CPU.
        let _ = self.shown_on.set((gauge, bars));
    }

    /// Sees to it that the dataset of `epoch` comes, once; a dataset of another epoch is dropped.
    pub(crate) fn want(self: &Arc<Self>, epoch: Epoch, cache: &Arc<LightCache>) {
        if self.policy == DatasetPolicy::Never {
            return;
        }
        let mut state = self.state.lock();
        if state.stopping || state.wanted == Some(epoch) {
            return;
        }
        state.wanted = Some(epoch);
        state.ready = None;
        match state.ahead.take() {
            Some((ahead, Some(dataset))) if ahead == epoch => {
                tracing::info!(epoch = epoch.index, "the full dataset was made ahead");
                state.ready = Some(dataset);
            }
            // It is on its way, and comes to whoever wants it by now.
            Some((ahead, None)) if ahead == epoch => {}
            _ => {
                let cache = Arc::clone(cache);
                self.start_builder(&mut state, move |keeper| keeper.build(epoch, &cache));
            }
        }
    }

    /// `epoch` comes next: its dataset is made ahead, once that of the present epoch is there.
    pub(crate) fn prepare(self: &Arc<Self>, epoch: Epoch, cache: &Arc<LightCache>) {
        if self.policy == DatasetPolicy::Never {
            return;
        }
        let mut state = self.state.lock();
        if state.stopping || state.wanted == Some(epoch) {
            return;
        }
        state.coming = Some((epoch, Arc::clone(cache)));
        // Whoever builds the present one goes on with it.
        if state.ready.is_some() {
            self.start_builder(&mut state, |_| {});
        }
    }

    /// Starts a thread that builds, and then what is to be made ahead.
    fn start_builder(self: &Arc<Self>, state: &mut State, build: impl FnOnce(&Self) + Send + 'static) {
        let before = state.builder.take();
        let keeper = Arc::clone(self);
        let builder = std::thread::Builder::new().name("dataset".into()).spawn(move || {
            // It sees that its epoch is no longer wanted and ends soon.
            if let Some(before) = before {
                let _ = before.join();
            }
            build(&keeper);
            keeper.build_ahead();
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
        state.wanted = None;
        tracing::warn!("the full dataset gave a wrong hash; it is generated anew");
        if let DatasetPolicy::Disk(folder) = &self.policy {
            let _ = fs::remove_file(folder.join(file_name(&epoch.seed_hash())));
        }
    }

    /// Ends what is under way and waits for it.
    pub(crate) fn stop(&self) {
        let builder = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.builder.take()
        };
        if let Some(builder) = builder {
            let _ = builder.join();
        }
    }

    fn is_wanted(&self, epoch: Epoch) -> bool {
        let state = self.state.lock();
        !state.stopping && (state.wanted == Some(epoch) || state.is_ahead(epoch))
    }

    /// Makes the dataset of the epoch to come, if it is known, not begun and there is room for it.
    fn build_ahead(&self) {
        let (epoch, cache) = {
            let mut state = self.state.lock();
            // Before the present one, none is made for later.
            if state.ready.is_none() {
                return;
            }
            let Some((epoch, cache)) = state.coming.take() else {
                return;
            };
            if state.stopping || state.wanted == Some(epoch) {
                return;
            }
            if !has_room_for(cache.dataset_bytes()) {
                tracing::info!(
                    epoch = epoch.index,
                    bytes = cache.dataset_bytes(),
                    "no room for the next full dataset, it is made at the switch"
                );
                return;
            }
            state.ahead = Some((epoch, None));
            (epoch, cache)
        };
        self.build(epoch, &cache);
        let wanted_by_now = {
            let mut state = self.state.lock();
            if matches!(&state.ahead, Some((ahead, None)) if *ahead == epoch) {
                // It failed, which is said; the switch tries again.
                state.ahead = None;
            }
            !state.stopping && state.wanted == Some(epoch) && state.ready.is_none()
        };
        // It failed beside the one before, which has made room meanwhile.
        if wanted_by_now {
            self.build(epoch, &cache);
        }
    }

    /// Finds or makes the dataset of `epoch`, as long as it is wanted.
    fn build(&self, epoch: Epoch, cache: &LightCache) {
        let folder = match &self.policy {
            DatasetPolicy::Never => return,
            DatasetPolicy::Memory => None,
            DatasetPolicy::Disk(folder) => Some(folder),
        };
        if let Some(dataset) = folder.and_then(|folder| open(folder, cache)) {
            self.put(epoch, dataset);
            return;
        }
        if !self.wait_for_room(epoch, cache.dataset_bytes()) {
            return;
        }
        match self.generate(epoch, cache) {
            Ok(dataset) => {
                let Some(dataset) = self.put(epoch, dataset) else {
                    return;
                };
                if let Some(folder) = folder {
                    self.save(epoch, folder, cache, &dataset);
                }
            }
            Err(DatasetError::Cancelled) => {}
            Err(error) => tracing::warn!("no full dataset, the search stays with the light cache: {error}"),
        }
    }

    /// Waits until there is memory for `bytes`; false when the dataset is no longer wanted.
    fn wait_for_room(&self, epoch: Epoch, bytes: u64) -> bool {
        let (started, mut told) = (Instant::now(), false);
        while self.is_wanted(epoch) {
            let Some(free) = (self.too_little_for)(bytes) else {
                return true;
            };
            if !told && started.elapsed() >= TELL_AFTER {
                told = true;
                tracing::warn!(
                    epoch = epoch.index,
                    bytes,
                    free,
                    "too little memory for the full dataset, the search stays with the light cache until there is"
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
        false
    }

    fn generate(&self, epoch: Epoch, cache: &LightCache) -> Result<Dataset, DatasetError> {
        let (gauge, bars) = self.shown_on.get().cloned().unzip();
        let mut progress = Progress::shown(
            format!("generating the dataset of epoch {}", epoch.index),
            bars.unwrap_or(true),
            gauge.map(|gauge| (gauge, epoch.index)),
        );
        let dataset = Dataset::generate(cache, self.threads, &mut |done, total| {
            progress.report(done, total);
            if self.is_wanted(epoch) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let seconds = progress.end().as_secs_f64();
        if dataset.is_ok() {
            tracing::info!(
                epoch = epoch.index,
                bytes = cache.dataset_bytes(),
                seconds,
                "full dataset generated"
            );
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
        } else if state.is_ahead(epoch) {
            state.ahead = Some((epoch, Some(Arc::clone(&dataset))));
        } else {
            return None;
        }
        Some(dataset)
    }

    fn save(&self, epoch: Epoch, folder: &Path, cache: &LightCache, dataset: &Dataset) {
        match dataset.save(folder, &cache.seed_hash(), &|| !self.is_wanted(epoch)) {
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
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn cache(epoch: Epoch) -> Arc<LightCache> {
        Arc::new(LightCache::with_sizes(epoch.seed_hash(), 1024, 128 * 1031).expect("small sizes"))
    }

    fn wait_for(keeper: &Keeper, epoch: Epoch) -> Arc<Dataset> {
        let start = Instant::now();
        loop {
            if let Some(dataset) = keeper.ready(epoch) {
                return dataset;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "no dataset");
            std::thread::sleep(Duration::from_millis(2));
        }
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
        let keeper = Arc::new(Keeper::new(DatasetPolicy::Memory, 2));
        for index in [0, 1, 0] {
            let epoch = Epoch::ethash(index);
            keeper.want(epoch, &cache(epoch));
            keeper.want(epoch, &cache(epoch));
            let dataset = wait_for(&keeper, epoch);
            assert_eq!(
                dataset.view().hash(&ethash::B256::ZERO, 1),
                cache(epoch).hash(&ethash::B256::ZERO, 1)
            );
            assert!(keeper.ready(Epoch::ethash(9)).is_none());
        }
        keeper.stop();
        let epoch = Epoch::ethash(5);
        keeper.want(epoch, &cache(epoch));
        assert!(keeper.ready(epoch).is_none(), "nothing is begun after the stop");
    }

    #[test]
    fn the_next_dataset_is_made_ahead() {
        let keeper = Arc::new(Keeper::new(DatasetPolicy::Memory, 2));
        let [now, next] = [Epoch::ethash(0), Epoch::ethash(1)];
        // Known before anyone searches: then it waits for the present one.
        keeper.prepare(next, &cache(next));
        assert!(keeper.state.lock().builder.is_none(), "nobody searches yet");
        keeper.want(now, &cache(now));
        wait_for(&keeper, now);
        let start = Instant::now();
        while !matches!(&keeper.state.lock().ahead, Some((epoch, Some(_))) if *epoch == next) {
            assert!(start.elapsed() < Duration::from_secs(20), "nothing is made ahead");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(keeper.ready(now).is_some() && keeper.ready(next).is_none());
        keeper.want(next, &cache(next));
        let dataset = keeper.ready(next).expect("it is there at the switch");
        assert_eq!(
            dataset.view().hash(&ethash::B256::ZERO, 1),
            cache(next).hash(&ethash::B256::ZERO, 1)
        );
        assert!(keeper.ready(now).is_none());
        // Announced while there is one already.
        let last = Epoch::ethash(2);
        keeper.prepare(last, &cache(last));
        keeper.want(last, &cache(last));
        wait_for(&keeper, last);
        keeper.stop();
    }

    #[test]
    fn a_corrupt_file_is_made_anew() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let epoch = Epoch::ethash(0);
        let path = folder.path().join(file_name(&epoch.seed_hash()));
        fs::write(&path, vec![0xab; 8 + 128 * 1031]).expect("a bad file");
        let keeper = Arc::new(Keeper::new(DatasetPolicy::Disk(folder.path().to_owned()), 1));
        keeper.want(epoch, &cache(epoch));
        wait_for(&keeper, epoch);
        keeper.stop();
        // Stopped while writing, the bad file is still there; finished, the good one has replaced it.
        let keeper = Arc::new(Keeper::new(DatasetPolicy::Disk(folder.path().to_owned()), 1));
        keeper.want(epoch, &cache(epoch));
        let dataset = wait_for(&keeper, epoch);
        let start = Instant::now();
        while Dataset::open(folder.path(), &cache(epoch)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the bad file was not replaced"
            );
            std::thread::sleep(Duration::from_millis(2));
        }

        keeper.reject(epoch, &dataset);
        assert!(keeper.ready(epoch).is_none() && !path.exists());
        keeper.want(epoch, &cache(epoch));
        assert!(!Arc::ptr_eq(&wait_for(&keeper, epoch), &dataset));
        wait_for_file(&path);
        keeper.stop();
    }

    #[test]
    fn a_dataset_waits_for_memory() {
        static FULL: AtomicBool = AtomicBool::new(true);
        let epoch = Epoch::ethash(1);
        let mut keeper = Keeper::new(DatasetPolicy::Memory, 1);
        keeper.too_little_for = |_| FULL.load(Ordering::Acquire).then_some(5);
        let keeper = Arc::new(keeper);
        keeper.want(epoch, &cache(epoch));
        std::thread::sleep(Duration::from_millis(50));
        assert!(keeper.ready(epoch).is_none(), "there is no room");
        FULL.store(false, Ordering::Release);
        wait_for(&keeper, epoch);
        // One that waits in vain holds up neither another epoch nor the end.
        FULL.store(true, Ordering::Release);
        keeper.want(Epoch::ethash(2), &cache(Epoch::ethash(2)));
        keeper.want(Epoch::ethash(3), &cache(Epoch::ethash(3)));
        keeper.stop();
        assert!(keeper.ready(Epoch::ethash(3)).is_none());
    }
}
