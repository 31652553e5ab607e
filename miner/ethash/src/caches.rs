//! Light caches shared by many threads. Each cache is built once, by the first thread that needs
//! it.
//!
//! Keeps the caches of [`CACHES_KEPT`] epochs, more for a while after
//! [`LightCaches::prepare_many`], and drops the least recently used. This module does not know
//! which epoch comes next: a caller that follows the blocks calls [`LightCaches::prepare`].

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::light_cache::CacheSizes;
use crate::{CacheError, Epoch, LightCache};

/// The number of caches that are kept: for the current epoch, the one before and the one after.
pub const CACHES_KEPT: usize = 3;

/// The most caches that are built side by side: as many as a register of 256 bits has states.
const CACHES_AT_ONCE: usize = 4;

/// Caches that were built side by side are kept until they were not prepared again for so long.
const MANY_KEPT: Duration = Duration::from_secs(60);

/// A thread that waits while another builds its cache checks this often whether it still needs it.
const WANTED_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The place of one cache; `None` until it is built. The builder holds the lock, so all others wait
/// for the same cache.
type CacheSlot = Arc<Mutex<Option<Arc<LightCache>>>>;

/// Light caches by epoch. Clones share the same caches.
#[derive(Clone, Debug, Default)]
pub struct LightCaches {
    inner: Arc<SharedCaches>,
}

#[derive(Debug, Default)]
struct SharedCaches {
    slots: Mutex<CacheSlots>,
    /// Sizes of cache and dataset in bytes, for every epoch. `None`: the sizes follow the epoch.
    fixed_sizes: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct CacheSlots {
    /// The most recently used is last.
    by_use: Vec<(Epoch, CacheSlot)>,
    /// The time of the last call of [`LightCaches::prepare_many`].
    many_prepared: Option<Instant>,
}

impl CacheSlots {
    fn find(&self, epoch: Epoch) -> Option<&CacheSlot> {
        let found = self.by_use.iter().find(|(known, _)| *known == epoch);
        found.map(|(_, slot)| slot)
    }

    fn has_begun(&self, epoch: Epoch) -> bool {
        let has_begun = |slot: &CacheSlot| slot.try_lock().is_none_or(|cache| cache.is_some());
        self.find(epoch).is_some_and(has_begun)
    }

    /// The slot of `epoch`, which becomes the most recently used one.
    fn take(&mut self, epoch: Epoch) -> CacheSlot {
        let found = self.by_use.iter().position(|(known, _)| *known == epoch);
        let slot = found.map_or_else(CacheSlot::default, |index| self.by_use.remove(index).1);
        self.by_use.push((epoch, Arc::clone(&slot)));
        let has_many = self.many_prepared.is_some_and(|time| time.elapsed() < MANY_KEPT);
        let kept = CACHES_KEPT + if has_many { CACHES_AT_ONCE } else { 0 };
        self.by_use.drain(..self.by_use.len().saturating_sub(kept));
        slot
    }
}

impl LightCaches {
    /// An empty set of caches whose sizes follow the epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set of caches that all have the given sizes, as clients use for tests.
    pub fn with_sizes(cache_bytes: u64, dataset_bytes: u64) -> Self {
        let inner = SharedCaches {
            slots: Mutex::default(),
            fixed_sizes: Some((cache_bytes, dataset_bytes)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The cache of `epoch`. Builds it if there is none; waits for it if another thread is building
    /// it.
    ///
    /// # Errors
    /// As [`LightCache::build`]. Errors are not stored: the next call tries again.
    pub fn get(&self, epoch: Epoch) -> Result<Arc<LightCache>, CacheError> {
        self.get_while(epoch, &|| true)
    }

    /// As [`get`](Self::get), but gives up once `wanted` returns false. `wanted` is called
    /// repeatedly.
    ///
    /// # Errors
    /// As [`get`](Self::get), and [`CacheError::Cancelled`] once `wanted` has returned false.
    pub fn get_while(&self, epoch: Epoch, wanted: &dyn Fn() -> bool) -> Result<Arc<LightCache>, CacheError> {
        let slot = self.slot(epoch);
        let mut cache = loop {
            match slot.try_lock_for(WANTED_CHECK_INTERVAL) {
                Some(cache) => break cache,
                None if wanted() => {}
                None => return Err(CacheError::Cancelled),
            }
        };
        if let Some(cache) = &*cache {
            return Ok(Arc::clone(cache));
        }
        let mut progress = |_, _| {
            if wanted() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let built = LightCache::build_one(self.sizes(epoch)?, &mut progress)?;
        Ok(Arc::clone(cache.insert(Arc::new(built))))
    }

    fn sizes(&self, epoch: Epoch) -> Result<CacheSizes, CacheError> {
        let Some((cache_bytes, dataset_bytes)) = self.inner.fixed_sizes else {
            return Ok(CacheSizes::of(epoch)?);
        };
        Ok(CacheSizes {
            seed_hash: epoch.seed_hash(),
            cache_bytes,
            dataset_bytes,
        })
    }

    /// The cache of `epoch` if it is already built. Never waits and never builds.
    pub fn get_ready(&self, epoch: Epoch) -> Option<Arc<LightCache>> {
        let slot = self.inner.slots.lock().find(epoch).map(Arc::clone)?;
        slot.try_lock()?.clone()
    }

    /// Builds the cache of `epoch` on a background thread, unless it is built or being built.
    ///
    /// If no thread can be started, nothing happens: [`get`](Self::get) then builds the cache when
    /// it is needed.
    pub fn prepare(&self, epoch: Epoch) {
        let mut slots = self.inner.slots.lock();
        if !slots.has_begun(epoch) {
            let slot = slots.take(epoch);
            drop(slots);
            self.start(vec![(epoch, slot)]);
        }
    }

    /// Prepares the caches of the next epochs for a caller that goes through many of them quickly.
    ///
    /// If the cache of the first or second of `epochs` is missing, it and those after it are built
    /// side by side on a background thread, four at most. They are kept while this is called once
    /// a minute.
    pub fn prepare_many(&self, epochs: &[Epoch]) {
        let mut slots = self.inner.slots.lock();
        slots.many_prepared = Some(Instant::now());
        let missing = epochs.iter().take(2).position(|epoch| !slots.has_begun(*epoch));
        let Some(missing) = missing else { return };
        let group = epochs[missing..].iter().take(CACHES_AT_ONCE);
        let group = group.map(|epoch| (*epoch, slots.take(*epoch)));
        let group = group.collect();
        drop(slots);
        self.start(group);
    }

    /// Starts a thread that fills the slots. It is detached and ends by itself. An error appears
    /// again in the next call of [`get`](Self::get).
    fn start(&self, slots: Vec<(Epoch, CacheSlot)>) {
        let caches = self.clone();
        let _ = std::thread::Builder::new()
            .name("light-cache".into())
            .spawn(move || caches.fill(&slots));
    }

    /// Builds the caches that no other thread has built or is building.
    fn fill(&self, slots: &[(Epoch, CacheSlot)]) -> Result<(), CacheError> {
        let (mut open, mut sizes) = (Vec::new(), Vec::new());
        for (epoch, slot) in slots {
            if let Some(cache) = slot.try_lock().filter(|cache| cache.is_none()) {
                sizes.push(self.sizes(*epoch)?);
                open.push(cache);
            }
        }
        let built = LightCache::build_group(&sizes, &mut |_, _| ControlFlow::Continue(()))?;
        for (mut cache, built) in open.into_iter().zip(built) {
            *cache = Some(Arc::new(built));
        }
        Ok(())
    }

    /// The slot of `epoch`, which becomes the most recently used one.
    fn slot(&self, epoch: Epoch) -> CacheSlot {
        self.inner.slots.lock().take(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> LightCaches {
        LightCaches::with_sizes(1024, 32_768)
    }

    #[test]
    fn threads_that_need_a_cache_at_the_same_time_share_it() {
        let caches = LightCaches::new();
        let built: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| caches.get(Epoch::ethash(0))))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic").expect("epoch 0 exists"))
                .collect()
        });
        assert!(built.iter().all(|cache| Arc::ptr_eq(cache, &built[0])));
    }

    #[test]
    fn the_least_recently_used_epoch_is_dropped() {
        let caches = small();
        let get = |index| caches.get(Epoch::ethash(index)).expect("small cache");
        let (zero, one) = (get(0), get(1));
        get(2);
        assert!(
            Arc::ptr_eq(&zero, &get(0)),
            "kept, and now the most recently used"
        );
        get(3);
        assert!(caches.get_ready(Epoch::ethash(1)).is_none());
        assert!(Arc::ptr_eq(&zero, &get(0)));
        assert!(!Arc::ptr_eq(&one, &get(1)), "built anew");
        assert_eq!(one.as_words(), get(1).as_words());
    }

    #[test]
    fn prepared_caches_are_built_in_the_background() {
        let caches = small();
        let epoch = Epoch::ethash(7);
        assert!(caches.get_ready(epoch).is_none());
        caches.prepare(epoch);
        let start = Instant::now();
        while caches.get_ready(epoch).is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "never built");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(
            caches.get_ready(epoch).map(|cache| cache.seed_hash()),
            Some(epoch.seed_hash())
        );
    }

    #[test]
    fn many_are_prepared_when_one_of_the_next_two_is_missing() {
        let caches = small();
        let epochs: Vec<_> = (10..20).map(Epoch::ethash).collect();
        let is_ready = |epoch: &Epoch| caches.get_ready(*epoch).is_some();
        let wait_for = |epochs: &[Epoch]| {
            let start = Instant::now();
            while !epochs.iter().all(is_ready) {
                assert!(start.elapsed() < Duration::from_secs(10), "never built");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let now = caches.get(epochs[0]).expect("small cache");
        caches.prepare_many(&epochs[1..6]);
        wait_for(&epochs[..5]);
        assert!(!is_ready(&epochs[5]), "four at once");
        caches.prepare_many(&epochs[3..8]);
        assert!(!is_ready(&epochs[5]), "the next two are there");
        let third = caches.get(epochs[3]).expect("small cache");
        caches.prepare_many(&epochs[4..9]);
        wait_for(&epochs[5..9]);
        assert!(Arc::ptr_eq(&third, &caches.get(epochs[3]).expect("kept")));
        for epoch in &epochs[4..9] {
            let cache = caches.get(*epoch).expect("kept");
            assert_eq!(
                cache.as_words(),
                small().get(*epoch).expect("small cache").as_words()
            );
        }
        assert!(
            !Arc::ptr_eq(&now, &caches.get(epochs[0]).expect("small cache")),
            "dropped"
        );
        // A minute later as few as ever are kept.
        caches.inner.slots.lock().many_prepared = Instant::now().checked_sub(MANY_KEPT);
        caches.get(epochs[0]).expect("small cache");
        assert_eq!(epochs.iter().filter(|epoch| is_ready(epoch)).count(), CACHES_KEPT);
        caches.prepare_many(&[]);
        // The error of an epoch out of range comes when its cache is needed.
        let (real, too_high) = (LightCaches::new(), Epoch::ethash(u32::MAX));
        real.prepare_many(&[too_high]);
        assert!(matches!(real.get(too_high), Err(CacheError::Size(_))));
    }

    #[test]
    fn errors_are_returned_and_not_stored() {
        let caches = LightCaches::new();
        let epoch = Epoch::ethash(u32::MAX);
        assert!(matches!(caches.get(epoch), Err(CacheError::Size(error)) if error.got == u32::MAX));
        assert!(caches.get_ready(epoch).is_none());
        assert!(caches.get(epoch).is_err());
    }

    #[test]
    fn a_cache_that_is_no_longer_wanted_is_given_up_and_can_be_built_later() {
        let caches = small();
        let epoch = Epoch::ethash(3);
        let given_up = caches.get_while(epoch, &|| false);
        assert!(matches!(given_up, Err(CacheError::Cancelled)), "{given_up:?}");
        assert!(caches.get_ready(epoch).is_none());
        // A caller that no longer needs the cache does not wait for another thread that builds it.
        let slot = caches.slot(epoch);
        let building = slot.lock();
        let given_up = caches.get_while(epoch, &|| false);
        assert!(matches!(given_up, Err(CacheError::Cancelled)), "{given_up:?}");
        drop(building);
        caches.prepare(epoch);
        let start = Instant::now();
        while caches.get_ready(epoch).is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "never built");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
