//! Light caches shared by many threads. Each cache is built once, by the first thread that needs
//! it.
//!
//! Keeps the caches of [`CACHES_KEPT`] epochs and drops the least recently used. This module does
//! not know which epoch comes next: a caller that follows the blocks calls
//! [`LightCaches::prepare`].

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{CacheError, Epoch, LightCache};

/// The number of caches that are kept: for the current epoch, the one before and the one after.
pub const CACHES_KEPT: usize = 3;

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
    /// The most recently used is last.
    slots: Mutex<Vec<(Epoch, CacheSlot)>>,
    /// Sizes of cache and dataset in bytes, for every epoch. `None`: the sizes follow the epoch.
    fixed_sizes: Option<(u64, u64)>,
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
        let built = match self.inner.fixed_sizes {
            None => LightCache::build_with(epoch, &mut progress),
            Some((cache_bytes, dataset_bytes)) => {
                LightCache::build_sized(epoch.seed_hash(), cache_bytes, dataset_bytes, &mut progress)
            }
        };
        Ok(Arc::clone(cache.insert(Arc::new(built?))))
    }

    /// The cache of `epoch` if it is already built. Never waits and never builds.
    pub fn get_ready(&self, epoch: Epoch) -> Option<Arc<LightCache>> {
        let slot = self
            .inner
            .slots
            .lock()
            .iter()
            .find(|(known, _)| *known == epoch)
            .map(|(_, slot)| Arc::clone(slot))?;
        slot.try_lock()?.clone()
    }

    /// Builds the cache of `epoch` on a background thread, unless it is built or being built.
    ///
    /// If no thread can be started, nothing happens: [`get`](Self::get) then builds the cache when
    /// it is needed.
    pub fn prepare(&self, epoch: Epoch) {
        let is_built_or_building = |slot: &CacheSlot| slot.try_lock().is_none_or(|cache| cache.is_some());
        let known = |(known, slot): &(Epoch, CacheSlot)| *known == epoch && is_built_or_building(slot);
        if self.inner.slots.lock().iter().any(known) {
            return;
        }
        let caches = self.clone();
        // The thread is detached and ends by itself. An error appears again in the next call of
        // `get`.
        let _ = std::thread::Builder::new()
            .name("light-cache".into())
            .spawn(move || caches.get(epoch).map(drop));
    }

    /// The slot of `epoch`, which becomes the most recently used one.
    fn slot(&self, epoch: Epoch) -> CacheSlot {
        let mut slots = self.inner.slots.lock();
        let found = slots
            .iter()
            .position(|(known, _)| *known == epoch)
            .map(|index| slots.remove(index).1);
        let slot = found.unwrap_or_default();
        slots.push((epoch, Arc::clone(&slot)));
        if slots.len() > CACHES_KEPT {
            slots.remove(0);
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
