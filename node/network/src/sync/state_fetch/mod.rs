//! Fetches the state of a recent block instead of executing all blocks before it.
//!
//! [`StateSync`] decides, on the thread of the synchronization. From the first headers on, blocks
//! are written without being executed (`receipts`), behind the headers. When the headers are here,
//! it chooses the pivot, [`PIVOT_DEPTH`] blocks below the best header, and moves it before peers
//! drop its state. A thread of its own (`thread`) checks proofs and writes rows, because that takes
//! long. When the state and the head are those of the pivot, blocks are executed from there on, and
//! no state is fetched any more.
//!
//! The progress is stored with the rows, so a start goes on where a killed process was. A short
//! chain is executed.

mod thread;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chain::import::BlockId;
use chain::{Chain, View};
use crossbeam_channel::{Sender, unbounded};
use primitives::{B256, catch_panic};
use store::{FetchedStateReads, StoreError};

use super::driver::TakeOutcome;
use super::{CHAIN_RETRY, SyncState, Synchronizer};
use crate::messages::PeerMessage;
use crate::moment::Moment;
use crate::peers::{PeerId, PeerNews, PeerOrder};
use crate::snap::client::{PIVOT_DEPTH, SnapEvent, SnapFigures, SnapPhase, SnapPivot, next_pivot};
pub(super) use thread::StateReport;
use thread::{StateFetch, StateInput};

/// Tickets from here on are those of questions for parts of states.
const TICKETS: u64 = 1 << 63;
/// A chain with fewer headers is executed.
const HEADERS_MIN: u64 = 2 * PIVOT_DEPTH;
/// The best header may be so far below the highest block that is known of.
const HEADERS_LEFT_MAX: u64 = 16;
/// A short chain is executed when no peer has had a longer one for this long.
const SHORT_CHAIN_TIME: Duration = Duration::from_secs(5);

/// The progress of a state that is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateProgress {
    /// The counts since the begin, over restarts.
    pub figures: SnapFigures,
    /// The step.
    pub phase: SnapPhase,
    /// The part of all accounts that is here, in thousandths.
    pub loaded: u32,
    /// Accounts whose tries are built, in the step of building.
    pub built: u64,
    /// The peers that may have the state.
    pub peers: usize,
    /// The number of the block whose state is fetched; 0 before it is chosen.
    pub pivot: u64,
}

/// The decision about the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateStage {
    /// All blocks are executed.
    Full,
    /// A state is to be fetched if the chain is not short.
    Waiting,
    /// A state is being fetched.
    Fetching,
}

/// The block whose state is fetched.
#[derive(Clone, Copy, Debug)]
struct PivotBlock {
    id: BlockId,
    root: B256,
}

/// Decides about the state, see the module.
pub(super) struct StateSync {
    stage: StateStage,
    inputs: Option<Sender<StateInput>>,
    /// The peers with `snap/1`.
    peers: BTreeSet<PeerId>,
    pivot: Option<PivotBlock>,
    done: Option<B256>,
    is_ending: bool,
    /// The end is not tried again before this time.
    end_again_at: Duration,
    progress: StateProgress,
    /// The time since which no peer has had more than a short chain.
    short_since: Option<Duration>,
}

impl StateSync {
    /// All blocks are executed.
    pub(super) fn full() -> Self {
        Self {
            stage: StateStage::Full,
            inputs: None,
            peers: BTreeSet::new(),
            pivot: None,
            done: None,
            is_ending: false,
            end_again_at: Duration::ZERO,
            progress: StateProgress::default(),
            short_since: None,
        }
    }

    /// A state is fetched if the head of `view` is block 0, or if one was begun.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub(super) fn wanted(view: &View) -> Result<Self, StoreError> {
        let stage = match view.snapshot().fetched_state()? {
            Some(_) => StateStage::Fetching,
            None if view.head_number() == 0 => StateStage::Waiting,
            None => StateStage::Full,
        };
        Ok(Self {
            stage,
            ..Self::full()
        })
    }

    /// The progress; `None` if no state is fetched.
    pub(super) fn progress(&self) -> Option<StateProgress> {
        (self.stage == StateStage::Fetching).then_some(self.progress)
    }

    /// Whether blocks of peers are not executed for now.
    pub(super) fn holds_blocks(&self) -> bool {
        self.stage != StateStage::Full
    }

    /// Whether miners get no work for now. They get some while no peer has more than block 0.
    pub(super) const fn holds_work(&self, progress: &SyncState) -> bool {
        match self.stage {
            StateStage::Full => false,
            StateStage::Waiting => progress.started_at.is_some() || progress.highest > progress.head,
            StateStage::Fetching => true,
        }
    }

    /// The number of peers with `snap/1`.
    pub(super) fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// Takes news of peers. Returns what is for the synchronization of blocks.
    pub(super) fn news(&mut self, news: PeerNews) -> Option<PeerNews> {
        if self.stage == StateStage::Full {
            return Some(news);
        }
        let event = match &news {
            PeerNews::Joined(facts) if facts.has_snap => {
                self.peers.insert(facts.peer);
                SnapEvent::Joined(facts.peer)
            }
            PeerNews::Left(peer) if self.peers.remove(peer) => SnapEvent::Left(*peer),
            PeerNews::Late { peer, ticket } | PeerNews::NotAsked { peer, ticket } if ticket.0 >= TICKETS => {
                let (peer, ticket) = (*peer, *ticket);
                self.tell(StateInput::Event(SnapEvent::NotAnswered { peer, ticket }));
                return None;
            }
            PeerNews::Answer { ticket, .. } if ticket.0 >= TICKETS => {
                if let PeerNews::Answer {
                    peer,
                    ticket,
                    answer: PeerMessage::Snap(answer),
                    took,
                } = news
                {
                    self.tell(StateInput::Event(SnapEvent::Answer {
                        peer,
                        ticket,
                        answer,
                        took,
                    }));
                }
                return None;
            }
            _ => return Some(news),
        };
        self.tell(StateInput::Event(event));
        Some(news)
    }

    fn tell(&self, input: StateInput) {
        if let Some(inputs) = &self.inputs {
            // The thread ends only when this is dropped.
            let _ = inputs.send(input);
        }
    }

    /// Takes news of the thread. Returns its orders to peers.
    pub(super) fn take(&mut self, now: Moment, report: StateReport) -> Vec<PeerOrder> {
        let StateReport {
            orders,
            progress,
            done,
            ended,
            refused,
        } = report;
        self.progress = progress;
        self.done = done.or(self.done);
        if refused {
            self.is_ending = false;
            self.end_again_at = now.elapsed + CHAIN_RETRY;
        }
        if ended {
            tracing::info!(
                number = self.pivot.map_or(0, |pivot| pivot.id.number),
                accounts = progress.figures.accounts,
                slots = progress.figures.slots,
                codes = progress.figures.codes,
                "the state is here; blocks are executed from now on"
            );
            *self = Self::full();
        }
        orders
    }

    /// Makes plans after something has happened. Returns whether other blocks are wanted now.
    ///
    /// # Errors
    /// [`StoreError`] if the chain cannot be read.
    pub(super) fn go_on(
        &mut self,
        now: Moment,
        (view, progress): (&View, &SyncState),
        machine: &mut Synchronizer,
        (chain, take): (&Chain, &Arc<TakeOutcome>),
    ) -> Result<bool, StoreError> {
        if self.stage == StateStage::Waiting {
            self.wait_for_length(now, view, progress, machine.peer_count());
        }
        if self.stage == StateStage::Fetching {
            if self.inputs.is_none() {
                self.start(chain, take);
            }
            self.choose_pivot(view, progress)?;
            self.end_if_done(now, view);
        }
        Ok(machine.fill_to(match (self.stage, self.pivot) {
            (StateStage::Full, _) => None,
            (StateStage::Waiting, _) => Some(0),
            (StateStage::Fetching, Some(pivot)) => Some(pivot.id.number),
            // No pivot will be lower. Headers may lead by so many blocks only.
            (StateStage::Fetching, None) => Some(progress.best_header.saturating_sub(PIVOT_DEPTH)),
        }))
    }

    fn wait_for_length(&mut self, now: Moment, view: &View, progress: &SyncState, peers: usize) {
        let is_short = progress.best_header < HEADERS_MIN && progress.highest <= progress.best_header;
        if view.head_number() > 0 {
            self.stage = StateStage::Full;
        } else if progress.best_header >= HEADERS_MIN {
            tracing::info!(
                headers = progress.best_header,
                "fetching a state begins; --syncmode full would execute all blocks"
            );
            self.stage = StateStage::Fetching;
        } else if peers > 0 && progress.best_header > 0 && is_short {
            let since = *self.short_since.get_or_insert(now.elapsed);
            if now.elapsed.saturating_sub(since) >= SHORT_CHAIN_TIME {
                tracing::info!(
                    headers = progress.best_header,
                    "the chain is short; its blocks are executed"
                );
                self.stage = StateStage::Full;
            }
        } else {
            self.short_since = None;
        }
    }

    fn start(&mut self, chain: &Chain, take: &Arc<TakeOutcome>) {
        let (inputs, received) = unbounded();
        let (chain, take) = (chain.clone(), take.clone());
        let started = std::thread::Builder::new()
            .name("sync-state".to_owned())
            .spawn(move || {
                if let Err(panic) = catch_panic(|| StateFetch::new(chain, take).run(&received)) {
                    tracing::error!(%panic, "fetching a state panicked; the next start of the node goes on");
                }
            });
        if let Err(error) = started {
            tracing::error!(%error, "no thread can be started for the state; it is tried again");
            return;
        }
        self.inputs = Some(inputs);
        for peer in &self.peers {
            self.tell(StateInput::Event(SnapEvent::Joined(*peer)));
        }
    }

    /// Chooses the pivot, or moves it.
    fn choose_pivot(&mut self, view: &View, progress: &SyncState) -> Result<(), StoreError> {
        let is_canonical = |id: &BlockId| -> Result<bool, StoreError> {
            Ok(view
                .best_chain_header(id.number)?
                .is_some_and(|header| header.hash == id.hash))
        };
        let kept = match &self.pivot {
            Some(pivot) if is_canonical(&pivot.id)? => Some(pivot.id.number),
            _ => None,
        };
        // A whole state waits for its block, however long that takes.
        let is_whole = kept.is_some() && self.pivot.is_some_and(|pivot| self.done == Some(pivot.root));
        if is_whole || self.is_ending || !has_headers(progress) {
            return Ok(());
        }
        let Some(header) = next_pivot(progress.best_header, kept)
            .map(|number| view.best_chain_header(number))
            .transpose()?
            .flatten()
        else {
            return Ok(());
        };
        let (number, root) = (header.header.number, header.header.state_root);
        let hash = header.hash;
        tracing::info!(number, %hash, "the state of this block is fetched");
        self.pivot = Some(PivotBlock {
            id: BlockId { number, hash },
            root,
        });
        // Blocks without changes have one root.
        self.done = self.done.filter(|done| *done == root);
        self.tell(StateInput::Event(SnapEvent::Pivot(SnapPivot { number, root })));
        Ok(())
    }

    /// Lets blocks be executed if state and head are those of the pivot.
    fn end_if_done(&mut self, now: Moment, view: &View) {
        if let Some(pivot) = self.pivot
            && self.done == Some(pivot.root)
            && view.head_id() == pivot.id
            && !self.is_ending
            && now.elapsed >= self.end_again_at
        {
            self.is_ending = true;
            self.tell(StateInput::End(pivot.id));
        }
    }
}

/// Whether the headers are here, but for the last few.
const fn has_headers(progress: &SyncState) -> bool {
    progress.best_header >= HEADERS_MIN && progress.highest <= progress.best_header + HEADERS_LEFT_MAX
}

#[cfg(test)]
mod tests;
