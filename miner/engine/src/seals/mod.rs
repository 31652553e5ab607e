//! Seals of many headers on a graphics card.
//!
//! While headers come in bulk, a card makes the dataset of their epoch and computes the mix hashes
//! of all seals of a part in one dispatch. It is asked as an [`ethash::MixDevice`], by whoever
//! checks seals. Nobody waits for a dataset: until it is there, and whenever the card does not
//! answer, the processor checks. A card that fails, has too little memory, or gives a wrong mix
//! hash is not asked again.
//!
//! [`plan`] decides which dataset is worth its time. This module knows light caches and seeds, and
//! neither headers nor chains.

mod choice;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ethash::{B256, GotExpected, LightCache, MixDevice};
use parking_lot::Mutex;

use self::plan::{SEALS_BEFORE_AUTO, SealPlan};
use crate::gpu::{GpuError, GpuOptions, GpuSearcher, list_adapters};

pub use self::choice::{SealDevice, SealDeviceParseError};

/// Fewer seals at once are left to the processor.
const SEEDS_MIN: usize = 8;
/// A card that was not asked for this long gives its memory back.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A graphics card for seals, or what will become one. Opens the card when it is first worth it.
pub struct SealCard {
    shared: Arc<SharedCard>,
    /// The thread that makes datasets, once one was worth it.
    loader: Mutex<Option<Loader>>,
}

struct Loader {
    requests: Sender<Arc<LightCache>>,
    thread: JoinHandle<()>,
}

/// The counts of a [`SealCard`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealCounts {
    /// Seals of which the card has computed the mix hash.
    pub by_card: u64,
    /// Seals that came in bulk and were left to the processor.
    pub by_processor: u64,
    /// Failures after which the card was not asked again: 0 or 1.
    pub failures: u64,
}

struct SharedCard {
    device: SealDevice,
    options: GpuOptions,
    idle_max: Duration,
    /// Locked while a dataset is made and while the card computes.
    card: Mutex<CardState>,
    plan: Mutex<SealPlan>,
    ended: AtomicBool,
    by_card: AtomicU64,
    failures: AtomicU64,
}

enum CardState {
    /// Not opened, or freed.
    Closed,
    Open(Box<GpuSearcher>),
    /// Not to be asked: it has failed, or there is none.
    GivenUp,
}

impl SealCard {
    /// The card that `device` names; `None` if that is the processor. Opens nothing.
    ///
    /// # Errors
    /// [`GpuError::NoAdapter`] if a card is named by its number and there is none.
    pub fn new(device: SealDevice, options: GpuOptions) -> Result<Option<Self>, GpuError> {
        match device {
            SealDevice::Cpu => return Ok(None),
            SealDevice::Auto => {}
            SealDevice::Gpu(wanted) => {
                let found = list_adapters().len();
                if wanted >= found {
                    return Err(GpuError::NoAdapter { wanted, found });
                }
            }
        }
        Ok(Some(Self::with_idle(device, options, IDLE_MAX)))
    }

    fn with_idle(device: SealDevice, options: GpuOptions, idle_max: Duration) -> Self {
        let first_after = match device {
            SealDevice::Auto => SEALS_BEFORE_AUTO,
            _ => 0,
        };
        let shared = SharedCard {
            device,
            options,
            idle_max,
            card: Mutex::new(CardState::Closed),
            plan: Mutex::new(SealPlan::new(first_after)),
            ended: AtomicBool::new(false),
            by_card: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            loader: Mutex::new(None),
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> SealCounts {
        SealCounts {
            by_card: self.shared.by_card.load(Ordering::Relaxed),
            by_processor: self.shared.plan.lock().by_processor(),
            failures: self.shared.failures.load(Ordering::Relaxed),
        }
    }

    /// Closes the card. Ends a dataset that is being made. From now on the processor checks.
    pub fn close(&self) {
        self.shared.ended.store(true, Ordering::Release);
        if let Some(Loader { requests, thread }) = self.loader.lock().take() {
            drop(requests);
            if thread.join().is_err() {
                tracing::error!("the thread of the card for seals has panicked");
            }
        }
        *self.shared.card.lock() = CardState::GivenUp;
    }

    /// Has the dataset of `cache` made, by a thread of its own.
    fn request(&self, cache: &Arc<LightCache>) {
        let mut loader = self.loader.lock();
        if self.shared.ended.load(Ordering::Acquire) {
            return;
        }
        if loader.is_none() {
            let (sender, requests) = bounded(1);
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name("seal-card".to_owned())
                .spawn(move || shared.run(&requests));
            match started {
                Ok(thread) => {
                    *loader = Some(Loader {
                        requests: sender,
                        thread,
                    });
                }
                Err(error) => self.shared.give_up(&error),
            }
        }
        if let Some(loader) = &*loader {
            // A full channel means that a request waits.
            let _ = loader.requests.try_send(Arc::clone(cache));
        }
    }
}

impl MixDevice for SealCard {
    fn mix_hashes(&self, cache: &Arc<LightCache>, left: u64, seeds: &[[u64; 8]]) -> Option<Vec<B256>> {
        if seeds.len() < SEEDS_MIN {
            return None;
        }
        let mut card = self.shared.card.try_lock()?;
        match &mut *card {
            CardState::GivenUp => return None,
            CardState::Open(searcher) if holds(searcher, cache) => {
                match guarded(|| searcher.mix_hashes(seeds)) {
                    Ok(Ok(mixes)) => {
                        self.shared.plan.lock().record_use();
                        self.shared
                            .by_card
                            .fetch_add(seeds.len() as u64, Ordering::Relaxed);
                        return Some(mixes);
                    }
                    Ok(Err(error)) => {
                        drop(card);
                        self.shared.give_up(&error);
                        return None;
                    }
                    Err(panic) => {
                        drop(card);
                        self.shared.give_up(&panic);
                        return None;
                    }
                }
            }
            CardState::Closed | CardState::Open(_) => {}
        }
        drop(card);
        if self.shared.plan.lock().is_worth(left) {
            self.request(cache);
        }
        None
    }

    fn processor_took(&self, count: usize, time: Duration) {
        if count >= SEEDS_MIN {
            self.shared.plan.lock().record_processor(count as u64, time);
        }
    }

    fn distrust(&self, mix_hash: GotExpected<B256>) {
        self.shared
            .give_up(&format_args!("it gave a wrong mix hash: {mix_hash}"));
    }
}

impl fmt::Debug for SealCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealCard")
            .field("device", &self.shared.device)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Drop for SealCard {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedCard {
    /// Makes datasets until nobody can request any more. Frees a card that is not used.
    fn run(&self, requests: &Receiver<Arc<LightCache>>) {
        loop {
            match requests.recv_timeout(self.idle_max) {
                Ok(cache) => {
                    if let Err(panic) = guarded(|| self.load(&cache)) {
                        self.give_up(&panic);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.free_if_idle(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn load(&self, cache: &Arc<LightCache>) {
        let mut card = self.card.lock();
        let opened = match &mut *card {
            CardState::GivenUp => return,
            CardState::Open(searcher) if holds(searcher, cache) => return,
            CardState::Open(_) => None,
            CardState::Closed => Some(self.open()),
        };
        match opened {
            None => {}
            Some(Ok(Some(searcher))) => *card = CardState::Open(Box::new(searcher)),
            Some(Ok(None)) => {
                tracing::debug!("no hardware graphics card: the processor checks all seals");
                *card = CardState::GivenUp;
            }
            Some(Err(error)) => {
                drop(card);
                return self.give_up(&error);
            }
        }
        let CardState::Open(searcher) = &mut *card else {
            return;
        };
        let start = Instant::now();
        let loaded = searcher.set_epoch(cache, &mut |_| {
            if self.ended.load(Ordering::Acquire) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match loaded {
            Ok(()) => {
                let took = start.elapsed();
                self.plan.lock().record_load(took);
                tracing::info!(
                    card = searcher.adapter().name,
                    dataset_mib = cache.dataset_bytes() >> 20,
                    seconds = took.as_secs_f64(),
                    "a graphics card checks the seals of this epoch"
                );
            }
            Err(GpuError::Cancelled { .. }) => {}
            Err(error) => {
                drop(card);
                self.give_up(&error);
            }
        }
    }

    /// Opens the card. `None` if it is chosen automatically and there is no hardware card.
    fn open(&self) -> Result<Option<GpuSearcher>, GpuError> {
        if let SealDevice::Gpu(index) = self.device {
            return GpuSearcher::new(index, self.options.clone()).map(Some);
        }
        let hardware = list_adapters().into_iter().find(|adapter| !adapter.software);
        hardware
            .map(|adapter| GpuSearcher::find(&adapter, self.options.clone()))
            .transpose()
    }

    fn free_if_idle(&self) {
        let mut card = self.card.lock();
        if matches!(&*card, CardState::Open(_)) && self.plan.lock().is_idle(self.idle_max) {
            *card = CardState::Closed;
        }
    }

    /// Closes the card for good, and says so once.
    fn give_up(&self, reason: &dyn fmt::Display) {
        let mut card = self.card.lock();
        if !matches!(*card, CardState::GivenUp) {
            *card = CardState::GivenUp;
            self.failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%reason, "the graphics card checks no more seals: the processor checks all");
        }
    }
}

/// A panic of the driver or of wgpu.
#[derive(Debug, thiserror::Error)]
#[error("its driver panicked")]
struct DriverPanic;

/// Runs what a driver may end with a panic.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, DriverPanic> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| DriverPanic)
}

/// Whether the dataset on the card is that of `cache`.
fn holds(searcher: &GpuSearcher, cache: &Arc<LightCache>) -> bool {
    searcher.cache().is_some_and(|held| {
        Arc::ptr_eq(held, cache)
            || (held.seed_hash() == cache.seed_hash()
                && held.rows() == cache.rows()
                && held.dataset_items() == cache.dataset_items())
    })
}
