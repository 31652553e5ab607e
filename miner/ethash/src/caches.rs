//! Light caches shared by every thread that needs one: each is built once, whoever asks first.
//!
//! Keeps the few epochs in use and forgets the one asked for longest ago. Does not know which epoch
//! comes next: whoever sees blocks go by calls [`LightCaches::prepare`].

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{CacheError, Epoch, LightCache};

/// How many epochs are kept: the one at work, its neighbour on either side.
pub const CACHES_KEPT: usize = 3;

/// Between two looks whether whoever waits for somebody else's cache still wants it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A cache, or where it will be. Whoever builds it holds the lock, so others wait for the same one.
type Slot = Arc<Mutex<Option<Arc<LightCache>>>>;

/// Light caches by epoch; clones share them.
#[derive(Clone, Debug, Default)]
pub struct LightCaches {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Latest used last.
    slots: Mutex<Vec<(Epoch, Slot)>>,
    /// Sizes given by hand for every epoch, in bytes of cache and dataset.
    sizes: Option<(u64, u64)>,
}

impl LightCaches {
    /// No cache yet; sizes follow the epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// No cache yet; every epoch has these sizes, as clients use for tests.
    pub fn with_sizes(cache_bytes: u64, dataset_bytes: u64) -> Self {
        let inner = Inner {
            slots: Mutex::default(),
            sizes: Some((cache_bytes, dataset_bytes)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The cache of `epoch`, built now if nobody has; waits if somebody is about to have.
    ///
    /// # Errors
    /// As [`LightCache::build`]. The next caller tries again.
    pub fn get(&self, epoch: Epoch) -> Result<Arc<LightCache>, CacheError> {
        self.get_while(epoch, &|| true)
    }

    /// The same, as long as it is `wanted`, which is asked now and then.
    ///
    /// # Errors
    /// As [`get`](Self::get), and [`CacheError::Cancelled`] once it is no longer wanted.
    pub fn get_while(&self, epoch: Epoch, wanted: &dyn Fn() -> bool) -> Result<Arc<LightCache>, CacheError> {
        let slot = self.slot(epoch);
        let mut cache = loop {
            match slot.try_lock_for(LOOK_EVERY) {
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
        let built = match self.inner.sizes {
            None => LightCache::build_with(epoch, &mut progress),
            Some((cache_bytes, dataset_bytes)) => {
                LightCache::make(epoch.seed_hash(), cache_bytes, dataset_bytes, &mut progress)
            }
        };
        Ok(Arc::clone(cache.insert(Arc::new(built?))))
    }

    /// The cache of `epoch` if it is ready; never waits, never builds.
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

    /// Builds the cache of `epoch` in the background unless it is there or on its way.
    ///
    /// Where no thread can be started nothing happens: [`get`](Self::get) then builds it when it is
    /// needed.
    pub fn prepare(&self, epoch: Epoch) {
        let is_underway = |slot: &Slot| slot.try_lock().is_none_or(|cache| cache.is_some());
        let known = |(known, slot): &(Epoch, Slot)| *known == epoch && is_underway(slot);
        if self.inner.slots.lock().iter().any(known) {
            return;
        }
        let caches = self.clone();
        // Detached: it ends by itself, and an error shows again when the cache is asked for.
        let _ = std::thread::Builder::new()
            .name("light-cache".into())
            .spawn(move || caches.get(epoch).map(drop));
    }

    /// The slot of `epoch`, now the latest used.
    fn slot(&self, epoch: Epoch) -> Slot {
        let mut slots = self.inner.slots.lock();
        let found = slots
            .iter()
            .position(|(known, _)| *known == epoch)
            .map(|place| slots.remove(place).1);
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
    fn threads_that_ask_together_share_one_cache() {
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
    fn the_epoch_used_longest_ago_is_forgotten() {
        let caches = small();
        let get = |index| caches.get(Epoch::ethash(index)).expect("small cache");
        let (zero, one) = (get(0), get(1));
        get(2);
        assert!(Arc::ptr_eq(&zero, &get(0)), "kept, and now the latest used");
        get(3);
        assert!(caches.get_ready(Epoch::ethash(1)).is_none());
        assert!(Arc::ptr_eq(&zero, &get(0)));
        assert!(!Arc::ptr_eq(&one, &get(1)), "built anew");
        assert_eq!(one.as_words(), get(1).as_words());
    }

    #[test]
    fn prepared_caches_appear_by_themselves() {
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
    fn errors_are_told_and_not_kept() {
        let caches = LightCaches::new();
        let epoch = Epoch::ethash(u32::MAX);
        assert!(matches!(caches.get(epoch), Err(CacheError::Size(error)) if error.got == u32::MAX));
        assert!(caches.get_ready(epoch).is_none());
        assert!(caches.get(epoch).is_err());
    }

    #[test]
    fn what_is_no_longer_wanted_is_given_up_and_can_be_had_later() {
        let caches = small();
        let epoch = Epoch::ethash(3);
        let given_up = caches.get_while(epoch, &|| false);
        assert!(matches!(given_up, Err(CacheError::Cancelled)), "{given_up:?}");
        assert!(caches.get_ready(epoch).is_none());
        // Nor is it waited for while somebody else builds it.
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
