//! Builds the light caches that an engine needs: that of the current job, and in advance that of
//! the next epoch.
//!
//! Every work package names its epoch, and its sender may change the epoch with each package. So at
//! most one thread builds. It builds the cache that is needed now, and stops when that cache is no
//! longer needed. The caller announces which epoch comes next.

use core::fmt;
use std::sync::Arc;

use ethash::{CacheError, Epoch, LightCache, LightCaches};
use parking_lot::{Mutex, MutexGuard};

use super::free_memory::{FreeMemory, MemoryShortage};
use super::manager::DatasetManager;
use crate::search::{SearchContext, SearchJob};
use crate::threads::spawn;

/// Builds the light cache of an epoch. Stops with an error when the given function returns false.
type BuildFunction = dyn Fn(Epoch, &dyn Fn() -> bool) -> Result<Arc<LightCache>, CacheError> + Send + Sync;

/// Builds light caches in the background, and gives them to the current job and to the datasets.
pub(crate) struct LightCacheBuilder {
    context: Arc<SearchContext>,
    datasets: Arc<DatasetManager>,
    build: Box<BuildFunction>,
    memory: FreeMemory,
    state: Mutex<LightCacheBuilderState>,
}

#[derive(Default)]
struct LightCacheBuilderState {
    /// The job that waits for its cache.
    job: Option<Arc<SearchJob>>,
    next: Option<NextLightCache>,
    /// Whether a thread is running that will look for the next cache to build.
    is_running: bool,
    stopping: bool,
}

/// The epoch after `current`.
struct NextLightCache {
    current: Epoch,
    epoch: Epoch,
    cache: NextCacheState,
}

enum NextCacheState {
    Needed,
    Ready(Arc<LightCache>),
    Failed,
}

impl LightCacheBuilderState {
    /// Returns the epoch whose cache must be built now. The current job goes before the next epoch.
    fn needed_epoch(&self) -> Option<Epoch> {
        if self.stopping {
            return None;
        }
        let next_epoch = || match &self.next {
            Some(next) if matches!(next.cache, NextCacheState::Needed) => Some(next.epoch),
            _ => None,
        };
        self.job.as_ref().map(|job| job.work.epoch).or_else(next_epoch)
    }
}

impl LightCacheBuilder {
    /// Makes a builder for the jobs of `context` and for `datasets`. The caches are built in
    /// `caches`.
    pub(crate) fn new(
        context: Arc<SearchContext>,
        datasets: Arc<DatasetManager>,
        caches: LightCaches,
    ) -> Self {
        Self::with_build_function(
            context,
            datasets,
            Box::new(move |epoch, is_needed| caches.get_while(epoch, is_needed)),
        )
    }

    fn with_build_function(
        context: Arc<SearchContext>,
        datasets: Arc<DatasetManager>,
        build: Box<BuildFunction>,
    ) -> Self {
        Self {
            context,
            datasets,
            build,
            memory: FreeMemory::default(),
            state: Mutex::default(),
        }
    }

    /// Provides the light cache of `job`, which is the newest job. If the cache is `ready`, this
    /// happens at once. Otherwise it is built.
    ///
    /// The cache of an older job is no longer needed, nor is the next epoch if it does not follow
    /// the epoch of `job`.
    pub(crate) fn request(self: &Arc<Self>, job: &Arc<SearchJob>, ready: Option<Arc<LightCache>>) {
        let mut state = self.state.lock();
        state.next.take_if(|next| next.current != job.work.epoch);
        state.job = ready.is_none().then(|| Arc::clone(job));
        self.start_if_needed(state);
        if let Some(cache) = ready {
            self.context.current_job.set_light_cache(job, cache);
        }
    }

    /// Announces that `epoch` comes after `current`, the epoch of the current job.
    ///
    /// The light cache of `epoch` is built. After that, the CPU and the adapters may make their
    /// datasets.
    pub(crate) fn announce_next(self: &Arc<Self>, current: Epoch, epoch: Epoch) {
        let mut state = self.state.lock();
        let is_known = |next: &NextLightCache| next.current == current && next.epoch == epoch;
        if state.next.as_ref().is_some_and(is_known) {
            return;
        }
        state.next = Some(NextLightCache {
            current,
            epoch,
            cache: NextCacheState::Needed,
        });
        self.start_if_needed(state);
    }

    /// Returns the epoch after `current` with its light cache. Returns `None` as long as the epoch
    /// is unknown or its cache is not ready.
    pub(crate) fn next_cache(&self, current: Epoch) -> Option<(Epoch, Arc<LightCache>)> {
        match &self.state.lock().next {
            Some(next) if next.current == current => match &next.cache {
                NextCacheState::Ready(cache) => Some((next.epoch, Arc::clone(cache))),
                NextCacheState::Needed | NextCacheState::Failed => None,
            },
            _ => None,
        }
    }

    /// Stops building. The thread ends soon, but this function does not wait for it, because
    /// allocating and freeing the memory of a cache takes time.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
    }

    /// Starts the thread if a cache is needed and no thread is running.
    fn start_if_needed(self: &Arc<Self>, mut state: MutexGuard<'_, LightCacheBuilderState>) {
        let Some(epoch) = state.needed_epoch() else { return };
        if state.is_running {
            return;
        }
        let builder = Arc::clone(self);
        match spawn("light-cache", move || builder.run()) {
            Ok(_) => state.is_running = true,
            Err(error) => {
                drop(state);
                self.fail(epoch, &error);
            }
        }
    }

    /// Builds caches until no more are needed.
    fn run(&self) {
        while let Some(epoch) = self.take_needed_epoch() {
            let bytes = ethash::cache_bytes(epoch.index).unwrap_or_default();
            if let Some(MemoryShortage { needed, available }) = self.memory.cache_shortage(bytes) {
                let reason =
                    format!("its light cache needs {needed} bytes of memory, and {available} are free");
                self.fail(epoch, &reason);
                continue;
            }
            match (self.build)(epoch, &|| self.state.lock().needed_epoch() == Some(epoch)) {
                Ok(cache) => self.deliver(epoch, &cache),
                // Another cache is needed now, or none.
                Err(CacheError::Cancelled) => {}
                Err(error) => self.fail(epoch, &error),
            }
        }
    }

    /// Returns the epoch whose cache is needed now. If there is none, the thread counts as ended.
    fn take_needed_epoch(&self) -> Option<Epoch> {
        let mut state = self.state.lock();
        let epoch = state.needed_epoch();
        // The flag is set under the same lock, so that a later request starts another thread.
        state.is_running = epoch.is_some();
        epoch
    }

    /// Gives the cache of `epoch` to the job that waits for it, and to the datasets of the next
    /// epoch.
    fn deliver(&self, epoch: Epoch, cache: &Arc<LightCache>) {
        let mut state = self.state.lock();
        let job = state.job.take_if(|job| job.work.epoch == epoch);
        let current = match &mut state.next {
            Some(next) if next.epoch == epoch => {
                next.cache = NextCacheState::Ready(Arc::clone(cache));
                Some(next.current)
            }
            _ => None,
        };
        drop(state);
        if let Some(job) = job {
            self.context.current_job.set_light_cache(&job, Arc::clone(cache));
        }
        if let Some(current) = current {
            self.datasets.prepare_next(current, epoch, cache);
        }
    }

    /// Records that the cache of `epoch` cannot be built. A job of this epoch is not searched.
    fn fail(&self, epoch: Epoch, reason: &dyn fmt::Display) {
        let mut state = self.state.lock();
        let job = state.job.take_if(|job| job.work.epoch == epoch);
        if let Some(next) = state.next.as_mut().filter(|next| next.epoch == epoch) {
            next.cache = NextCacheState::Failed;
            tracing::warn!(epoch = epoch.index, "the next epoch is not prepared: {reason}");
        }
        drop(state);
        if let Some(job) = job {
            tracing::warn!(epoch = epoch.index, "work cannot be searched: {reason}");
            self.context.current_job.finish(&job);
        }
    }
}

impl fmt::Debug for LightCacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LightCacheBuilder")
            .field("needed_epoch", &self.state.lock().needed_epoch())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crossbeam_channel::{Receiver, Sender, unbounded};
    use ethash::{B256, WorkPackage};

    use super::*;
    use crate::dataset::DatasetPolicy;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A builder whose builds last until the test ends them, or until they are no longer needed.
    struct BuilderFixture {
        builder: Arc<LightCacheBuilder>,
        context: Arc<SearchContext>,
        /// The epochs whose builds have begun.
        begun: Receiver<u32>,
        /// Ends a build.
        finish: Sender<()>,
        /// The epochs whose builds were cancelled.
        cancelled: Receiver<u32>,
    }

    impl BuilderFixture {
        fn new() -> Self {
            let (solutions, _) = unbounded();
            let context = Arc::new(SearchContext::new(solutions));
            let (begun_out, begun) = unbounded();
            let (finish, finished) = unbounded::<()>();
            let (cancelled_out, cancelled) = unbounded();
            let build = move |epoch: Epoch, is_needed: &dyn Fn() -> bool| {
                let _ = begun_out.send(epoch.index);
                while finished.recv_timeout(Duration::from_millis(1)).is_err() {
                    if !is_needed() {
                        let _ = cancelled_out.send(epoch.index);
                        return Err(CacheError::Cancelled);
                    }
                }
                LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).map(Arc::new)
            };
            Self {
                builder: Arc::new(LightCacheBuilder::with_build_function(
                    Arc::clone(&context),
                    Arc::new(DatasetManager::new(DatasetPolicy::Never, 1, 0)),
                    Box::new(build),
                )),
                context,
                begun,
                finish,
                cancelled,
            }
        }

        /// Sets new work of an epoch whose cache must be built.
        fn work(&self, header: u8, epoch: u32) -> Arc<SearchJob> {
            let epoch = Epoch::ethash(epoch);
            let work = WorkPackage {
                header_hash: B256::repeat_byte(header),
                seed_hash: epoch.seed_hash(),
                boundary: B256::ZERO,
                number: None,
                epoch,
            };
            let job = self.context.current_job.set(Some(work.into())).expect("new work");
            self.builder.request(&job, None);
            job
        }

        fn begun(&self) -> u32 {
            self.begun.recv_timeout(PATIENCE).expect("a build begins")
        }

        fn finish_build(&self) {
            self.finish.send(()).expect("a build waits");
        }
    }

    #[test]
    fn one_thread_builds_the_cache_of_the_latest_job() {
        let fixture = BuilderFixture::new();
        fixture.work(0, 100);
        assert_eq!(fixture.begun(), 100);
        // More work of the same epoch does not restart the build.
        fixture.work(1, 100);
        for header in 2..50 {
            fixture.work(header, 100 + u32::from(header));
        }
        let last = fixture.work(50, 7);
        assert_eq!(fixture.cancelled.recv_timeout(PATIENCE), Ok(100));
        let mut begun = fixture.begun();
        // Some of the builds between may have begun, each after the one before was cancelled.
        while begun != 7 {
            assert_eq!(fixture.cancelled.recv_timeout(PATIENCE), Ok(begun));
            begun = fixture.begun();
        }
        fixture.finish_build();
        let cache = fixture
            .context
            .current_job
            .wait_for_light_cache(&last)
            .expect("the work is searched");
        assert_eq!(cache.seed_hash(), Epoch::ethash(7).seed_hash());
        assert!(fixture.begun.is_empty() && fixture.cancelled.is_empty());
        fixture.builder.stop();
    }

    #[test]
    fn the_current_job_goes_before_the_next_epoch() {
        let fixture = BuilderFixture::new();
        let [now, next] = [3, 4].map(Epoch::ethash);
        let job = fixture.work(1, 3);
        assert_eq!(fixture.begun(), 3);
        fixture.builder.announce_next(now, next);
        fixture.finish_build();
        assert!(fixture.context.current_job.wait_for_light_cache(&job).is_some());
        assert_eq!(fixture.begun(), 4);
        assert!(
            fixture.builder.next_cache(now).is_none(),
            "the cache is not ready"
        );
        fixture.finish_build();
        let start = Instant::now();
        while fixture.builder.next_cache(now).is_none() {
            assert!(start.elapsed() < PATIENCE, "the next cache does not become ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (epoch, cache) = fixture
            .builder
            .next_cache(now)
            .expect("the next cache was ready before");
        assert_eq!((epoch, cache.seed_hash()), (next, next.seed_hash()));
        assert!(
            fixture.builder.next_cache(next).is_none(),
            "no epoch was announced after this one"
        );
        fixture.builder.announce_next(now, next);
        assert!(fixture.begun.is_empty(), "the epoch was announced before");
        // The work changes to another epoch, for example after a long pause.
        fixture.work(2, 9);
        assert!(fixture.builder.next_cache(now).is_none());
        fixture.builder.stop();
    }

    #[test]
    fn a_cache_without_memory_is_not_begun() {
        let mut fixture = BuilderFixture::new();
        let builder = Arc::get_mut(&mut fixture.builder).expect("the test alone has it");
        // Enough for epoch 0 and not for epoch 100.
        builder.memory.available = || Some(17 << 20);
        let job = fixture.work(1, 100);
        let start = Instant::now();
        while fixture.context.current_job.is_active(&job) {
            assert!(start.elapsed() < PATIENCE, "the work is still to be searched");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(fixture.begun.is_empty());
        fixture.work(2, 0);
        assert_eq!(fixture.begun(), 0);
        fixture.builder.stop();
    }

    #[test]
    fn a_build_of_the_next_epoch_is_cancelled_for_a_job() {
        let fixture = BuilderFixture::new();
        fixture.builder.announce_next(Epoch::ethash(3), Epoch::ethash(4));
        assert_eq!(fixture.begun(), 4);
        fixture.work(1, 3);
        assert_eq!(fixture.cancelled.recv_timeout(PATIENCE), Ok(4));
        assert_eq!(fixture.begun(), 3);
        fixture.finish_build();
        assert_eq!(fixture.begun(), 4, "the build starts again");
        fixture.builder.stop();
        assert_eq!(fixture.cancelled.recv_timeout(PATIENCE), Ok(4));
        fixture.work(2, 8);
        assert!(fixture.begun.is_empty(), "no build begins after the stop");
    }
}
