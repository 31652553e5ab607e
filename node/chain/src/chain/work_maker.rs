//! The work maker: a thread that gives the work manager a new unsealed block when head, pool,
//! uncle candidates or settings change.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use primitives::{B256, catch_panic};
use store::{BlockReads, StoreError, TableId, meta_key};

use super::ChainInner;
use crate::measured;
use crate::mining::build::{BuildSettings, UnsealedBlock, build};
use crate::mining::work::SealingWork;
use crate::state::StateError;
use crate::view::View;

/// The shortest time after which work is replaced because of better transactions.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(2);
/// The pause of the work maker if nobody wants work, or after a failure.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// The time between two looks for better transactions.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Everything that decides the content of an unsealed block. Equal inputs mean an equal block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BuildInputs {
    /// Hash of the head.
    pub(super) head: B256,
    /// The pool's generation.
    pub(super) generation: u64,
    /// The number of uncle candidates that have come so far.
    pub(super) uncles: u64,
    pub(super) settings: BuildSettings,
}

/// The work that was published last.
struct PublishedWork {
    inputs: BuildInputs,
    at: Instant,
}

impl ChainInner {
    /// Makes work while somebody wants it, until the chain stops.
    pub(super) fn make_work_loop(&self) {
        let mut published: Option<PublishedWork> = None;
        let mut seen = 0;
        while !self.stopping.load(Ordering::Acquire) {
            if !self.work.active() {
                self.work.publish(None);
                published = None;
                self.work.wait_demand(&mut seen, IDLE_INTERVAL);
                continue;
            }
            if self.work_pause.lock().is_some() {
                self.work.publish(None);
                published = None;
                self.work.wait_demand(&mut seen, IDLE_INTERVAL);
                continue;
            }
            if self.work_lost.swap(false, Ordering::AcqRel) {
                published = None;
            }
            if self.store_failure_pause_left().is_some() {
                // A block that is found now could not be stored. The pause is looked at often, so
                // that work comes soon after its end.
                self.work.publish(None);
                published = None;
                self.work.wait_demand(&mut seen, LOOK_INTERVAL);
                continue;
            }
            match catch_panic(|| self.renew_work_if_needed(&mut published)) {
                Ok(Ok(pause)) => self.work.wait_demand(&mut seen, pause.min(LOOK_INTERVAL)),
                Ok(Err(StateError(error))) if error.is_final() => {
                    self.fail(format!("the store cannot be read: {error}"));
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "no work can be made");
                    self.work.wait_demand(&mut seen, IDLE_INTERVAL);
                }
                Err(panic) => {
                    tracing::error!(%panic, "making work panicked");
                    self.work.wait_demand(&mut seen, IDLE_INTERVAL);
                }
            }
        }
        self.work.publish(None);
    }

    /// Publishes new work if head, pool, uncle candidates or settings call for it. Returns how
    /// long the work needs no further look.
    fn renew_work_if_needed(&self, published: &mut Option<PublishedWork>) -> Result<Duration, StateError> {
        let view = self.view()?;
        if view.require_state(view.head_number()).is_err() {
            self.work.publish(None);
            *published = None;
            return Ok(IDLE_INTERVAL);
        }
        let inputs = self.build_inputs(view.head_hash());
        if let Some(last) = published {
            let renew = last.inputs != inputs && last.at.elapsed() >= RENEW_INTERVAL;
            if last.inputs.head == inputs.head && !renew {
                return Ok(RENEW_INTERVAL);
            }
        }
        // No block may be ahead of the clock, so the next block can begin one second after the
        // head.
        let earliest = Duration::from_secs(view.head().header.timestamp + 1);
        let now = self.clock.now();
        if now < earliest {
            return Ok(earliest - now);
        }
        // A share of this work is checked as soon as it comes.
        let seals = self.work.seals();
        seals.prepare(&self.spec, view.head_number() + 1);
        let started = Instant::now();
        let block = self.build_block(&view, now.as_secs())?.block;
        let built = started.elapsed();
        // If the head has moved meanwhile, this work is stale, and the next round makes other work.
        if self.store.snapshot()?.head()?.map(|(_, hash)| hash) == Some(inputs.head)
            && self.work.publish(Some(SealingWork::new(&self.spec, block)))
        {
            measured::work_published(built);
            *published = Some(PublishedWork {
                inputs,
                at: Instant::now(),
            });
        }
        Ok(RENEW_INTERVAL)
    }

    /// The inputs of a block that would be built on `head` now.
    pub(super) fn build_inputs(&self, head: B256) -> BuildInputs {
        BuildInputs {
            head,
            generation: self.pool.generation(),
            uncles: self.uncle_candidates.lock().come,
            settings: self.settings.lock().clone(),
        }
    }

    /// Builds a block on the head of `view`.
    pub(super) fn build_block(&self, view: &View, timestamp: u64) -> Result<UnsealedBlock, StateError> {
        // No block is built on a state that is still being fetched.
        view.require_state(view.head_number())
            .map_err(|error| StoreError::corrupt(TableId::Meta, meta_key::HEAD, error))?;
        let settings = self.settings.lock().clone();
        let uncles = self.uncle_candidates.lock().headers.clone();
        build(
            &self.spec,
            view.snapshot(),
            view.head(),
            timestamp,
            &settings,
            self.pool.ready(),
            &uncles,
        )
    }
}
