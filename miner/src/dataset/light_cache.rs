//! Brings the light caches that an engine needs: that of its work at once, that of the next epoch ahead.
//!
//! Work names its epoch, and whoever sends it may name another with every package. So there is one thread at
//! most, it builds what is wanted now, and gives up what no longer is. Which epoch comes next is told.

use core::fmt;
use std::sync::Arc;

use ethash::{CacheError, Epoch, LightCache, LightCaches};
use parking_lot::Mutex;

use super::manager::DatasetManager;
use crate::search::{SearchContext, SearchJob};
use crate::threads::spawn;

/// Gives the light cache of an epoch, as long as it is wanted.
type Build = dyn Fn(Epoch, &dyn Fn() -> bool) -> Result<Arc<LightCache>, CacheError> + Send + Sync;

/// See the module.
pub(crate) struct LightCacheBuilder {
    context: Arc<SearchContext>,
    datasets: Arc<DatasetManager>,
    build: Box<Build>,
    state: Mutex<LightCacheBuilderState>,
}

#[derive(Default)]
struct LightCacheBuilderState {
    /// The job that waits for its cache.
    job: Option<Arc<SearchJob>>,
    next: Option<NextLightCache>,
    /// Whether the thread looks for more when it is done.
    is_running: bool,
    stopping: bool,
}

/// The epoch that comes after the one at work.
struct NextLightCache {
    present: Epoch,
    epoch: Epoch,
    cache: NextCacheState,
}

enum NextCacheState {
    Wanted,
    Ready(Arc<LightCache>),
    Failed,
}

impl LightCacheBuilderState {
    /// The epoch whose cache is to be built now: work goes before what is to come.
    fn order(&self) -> Option<Epoch> {
        if self.stopping {
            return None;
        }
        let ahead = || match &self.next {
            Some(next) if matches!(next.cache, NextCacheState::Wanted) => Some(next.epoch),
            _ => None,
        };
        self.job.as_ref().map(|job| job.work.epoch).or_else(ahead)
    }
}

impl LightCacheBuilder {
    /// For the work of `context`'s current_job, from `caches`.
    pub(crate) fn new(
        context: Arc<SearchContext>,
        datasets: Arc<DatasetManager>,
        caches: LightCaches,
    ) -> Self {
        Self::with(
            context,
            datasets,
            Box::new(move |epoch, wanted| caches.get_while(epoch, wanted)),
        )
    }

    fn with(context: Arc<SearchContext>, datasets: Arc<DatasetManager>, build: Box<Build>) -> Self {
        Self {
            context,
            datasets,
            build,
            state: Mutex::default(),
        }
    }

    /// Brings the cache of `job`, which is the newest; one that is `ready` at once. What was wanted for the
    /// job before, or for the epoch after another than this job's, is no longer.
    pub(crate) fn request(self: &Arc<Self>, job: &Arc<SearchJob>, ready: Option<Arc<LightCache>>) {
        let mut state = self.state.lock();
        state.next.take_if(|next| next.present != job.work.epoch);
        state.job = ready.is_none().then(|| Arc::clone(job));
        self.start(state);
        if let Some(cache) = ready {
            self.context.current_job.set_light_cache(job, cache);
        }
    }

    /// After the epoch `present`, at work now, comes `epoch`: its cache is built, and then the keeper and the
    /// adapters may make their datasets from it.
    pub(crate) fn announce_next(self: &Arc<Self>, present: Epoch, epoch: Epoch) {
        let mut state = self.state.lock();
        let known = |next: &NextLightCache| next.present == present && next.epoch == epoch;
        if state.next.as_ref().is_some_and(known) {
            return;
        }
        state.next = Some(NextLightCache {
            present,
            epoch,
            cache: NextCacheState::Wanted,
        });
        self.start(state);
    }

    /// The epoch that comes after `present` with its light cache, once both are known.
    pub(crate) fn next_cache(&self, present: Epoch) -> Option<(Epoch, Arc<LightCache>)> {
        match &self.state.lock().next {
            Some(next) if next.present == present => match &next.cache {
                NextCacheState::Ready(cache) => Some((next.epoch, Arc::clone(cache))),
                NextCacheState::Wanted | NextCacheState::Failed => None,
            },
            _ => None,
        }
    }

    /// Gives up what is being built. The thread sees it soon, and is not waited for: to get and to give back a
    /// cache's memory takes its time.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
    }

    /// Sees to it that the thread runs if there is something to build.
    fn start(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, LightCacheBuilderState>) {
        let Some(epoch) = state.order() else { return };
        if state.is_running {
            return;
        }
        let builder = Arc::clone(self);
        match spawn("light-cache", move || builder.run()) {
            Ok(_) => state.is_running = true,
            Err(error) => {
                drop(state);
                self.refuse(epoch, &error);
            }
        }
    }

    fn run(&self) {
        while let Some(epoch) = self.next_order() {
            match (self.build)(epoch, &|| self.state.lock().order() == Some(epoch)) {
                Ok(cache) => self.deliver(epoch, &cache),
                // Then something else is wanted, or nothing.
                Err(CacheError::Cancelled) => {}
                Err(error) => self.refuse(epoch, &error),
            }
        }
    }

    fn next_order(&self) -> Option<Epoch> {
        let mut state = self.state.lock();
        let order = state.order();
        // Under the same lock as the look, so that whoever has an order afterwards starts another thread.
        state.is_running = order.is_some();
        order
    }

    fn deliver(&self, epoch: Epoch, cache: &Arc<LightCache>) {
        let mut state = self.state.lock();
        let job = state.job.take_if(|job| job.work.epoch == epoch);
        let present = match &mut state.next {
            Some(next) if next.epoch == epoch => {
                next.cache = NextCacheState::Ready(Arc::clone(cache));
                Some(next.present)
            }
            _ => None,
        };
        drop(state);
        if let Some(job) = job {
            self.context.current_job.set_light_cache(&job, Arc::clone(cache));
        }
        if let Some(present) = present {
            self.datasets.prepare_next(present, epoch, cache);
        }
    }

    /// There is no cache of `epoch`: its work is not searched.
    fn refuse(&self, epoch: Epoch, reason: &dyn fmt::Display) {
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
            .field("order", &self.state.lock().order())
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

    /// A builder whose builds last until they are told to end or no longer wanted.
    struct Fixture {
        builder: Arc<LightCacheBuilder>,
        context: Arc<SearchContext>,
        /// The epochs whose building began.
        begun: Receiver<u32>,
        /// Ends a build.
        go: Sender<()>,
        /// The epochs whose building was given up.
        given_up: Receiver<u32>,
    }

    impl Fixture {
        fn new() -> Self {
            let (solutions, _) = unbounded();
            let context = Arc::new(SearchContext::new(solutions));
            let (begins, begun) = unbounded();
            let (go, gone) = unbounded::<()>();
            let (gives_up, given_up) = unbounded();
            let build = move |epoch: Epoch, wanted: &dyn Fn() -> bool| {
                let _ = begins.send(epoch.index);
                while gone.recv_timeout(Duration::from_millis(1)).is_err() {
                    if !wanted() {
                        let _ = gives_up.send(epoch.index);
                        return Err(CacheError::Cancelled);
                    }
                }
                LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).map(Arc::new)
            };
            Self {
                builder: Arc::new(LightCacheBuilder::with(
                    Arc::clone(&context),
                    Arc::new(DatasetManager::new(DatasetPolicy::Never, 1, 0)),
                    Box::new(build),
                )),
                context,
                begun,
                go,
                given_up,
            }
        }

        /// New work of an epoch, whose cache is not there.
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
            self.go.send(()).expect("a build waits");
        }
    }

    #[test]
    fn one_thread_builds_what_is_wanted_last() {
        let fixture = Fixture::new();
        fixture.work(0, 100);
        assert_eq!(fixture.begun(), 100);
        // More work of the same epoch does not begin it anew.
        fixture.work(1, 100);
        for header in 2..50 {
            fixture.work(header, 100 + u32::from(header));
        }
        let last = fixture.work(50, 7);
        assert_eq!(fixture.given_up.recv_timeout(PATIENCE), Ok(100));
        let mut begun = fixture.begun();
        // Some of those in between may have been begun, each after the one before was given up.
        while begun != 7 {
            assert_eq!(fixture.given_up.recv_timeout(PATIENCE), Ok(begun));
            begun = fixture.begun();
        }
        fixture.finish_build();
        let cache = fixture
            .context
            .current_job
            .wait_for_light_cache(&last)
            .expect("the work is searched");
        assert_eq!(cache.seed_hash(), Epoch::ethash(7).seed_hash());
        assert!(fixture.begun.is_empty() && fixture.given_up.is_empty());
        fixture.builder.stop();
    }

    #[test]
    fn work_goes_before_what_is_to_come() {
        let fixture = Fixture::new();
        let [now, next] = [3, 4].map(Epoch::ethash);
        let job = fixture.work(1, 3);
        assert_eq!(fixture.begun(), 3);
        fixture.builder.announce_next(now, next);
        fixture.finish_build();
        assert!(fixture.context.current_job.wait_for_light_cache(&job).is_some());
        assert_eq!(fixture.begun(), 4);
        assert!(fixture.builder.next_cache(now).is_none(), "not there yet");
        fixture.finish_build();
        let start = Instant::now();
        while fixture.builder.next_cache(now).is_none() {
            assert!(start.elapsed() < PATIENCE, "nothing comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (epoch, cache) = fixture.builder.next_cache(now).expect("it was there just now");
        assert_eq!((epoch, cache.seed_hash()), (next, next.seed_hash()));
        assert!(
            fixture.builder.next_cache(next).is_none(),
            "after another epoch another comes"
        );
        fixture.builder.announce_next(now, next);
        assert!(fixture.begun.is_empty(), "it is known");
        // Elsewhere, or after a long pause, another epoch is at work.
        fixture.work(2, 9);
        assert!(fixture.builder.next_cache(now).is_none());
        fixture.builder.stop();
    }

    #[test]
    fn what_was_to_come_is_given_up_for_work() {
        let fixture = Fixture::new();
        fixture.builder.announce_next(Epoch::ethash(3), Epoch::ethash(4));
        assert_eq!(fixture.begun(), 4);
        fixture.work(1, 3);
        assert_eq!(fixture.given_up.recv_timeout(PATIENCE), Ok(4));
        assert_eq!(fixture.begun(), 3);
        fixture.finish_build();
        assert_eq!(fixture.begun(), 4, "taken up again");
        fixture.builder.stop();
        assert_eq!(fixture.given_up.recv_timeout(PATIENCE), Ok(4));
        fixture.work(2, 8);
        assert!(fixture.begun.is_empty(), "nothing is begun after the stop");
    }
}
