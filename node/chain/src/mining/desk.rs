//! The work desk: the one place that hands out work and takes solutions.
//!
//! In-process searchers, getWork clients and every other miner come here. Work changes with
//! the head and, at most every few seconds, with better transactions. Handed-out work stays
//! valid for [`WORK_VALID`], on a stale parent too, where it makes a side block; each work is
//! accepted once. Knows drafts and seals; what a solution is good for is decided by import.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{Solution, WorkPackage};
use parking_lot::{Condvar, Mutex};
use primitives::{B256, Block, U256};

use crate::mining::build::Draft;
use crate::rules::body::{SealCheck, SealCheckError};
use crate::spec::ChainSpec;

/// How long handed-out work is good for.
pub const WORK_VALID: Duration = Duration::from_secs(84);
/// A client's getWork keeps the desk making work for this long, without any mining here.
pub const DEMAND: Duration = Duration::from_secs(60);
/// A reported hashrate counts for this long.
pub const REPORT_VALID: Duration = Duration::from_secs(10);
/// Most reporters of a hashrate that are remembered.
pub const REPORTERS_MAX: usize = 10_000;
/// Most handed-out works that are remembered; the oldest go first.
pub const WORKS_MAX: usize = 1024;

/// A piece of work: a draft, and what a miner needs of it.
#[derive(Clone, Debug)]
pub struct Work {
    /// The block to be sealed.
    pub draft: Arc<Draft>,
    /// What the miner gets.
    pub package: WorkPackage,
}

impl Work {
    /// The work of sealing `draft`.
    pub fn new(spec: &ChainSpec, draft: Arc<Draft>) -> Self {
        let header = &draft.block.header;
        let package = WorkPackage {
            header_hash: header.header_hash(),
            seed_hash: spec.schedule.seed_hash(header.number),
            boundary: ethash::boundary(&header.difficulty),
            number: Some(header.number),
            epoch: spec.schedule.epoch(header.number),
        };
        Self { draft, package }
    }

    fn sealed(&self, solution: &Solution) -> Block {
        let mut block = self.draft.block.clone();
        block.header.pow_nonce = solution.pow_nonce;
        block.header.mix_hash = solution.mix_hash;
        block
    }
}

/// Why a solution is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SolutionError {
    /// Never handed out, or too long ago.
    #[error("no such work: {0}")]
    UnknownWork(B256),
    /// Solved before.
    #[error("work {0} is solved already")]
    Solved(B256),
    /// The seal is wrong.
    #[error(transparent)]
    Seal(#[from] SealCheckError),
}

#[derive(Debug)]
struct HandedOut {
    work: Arc<Work>,
    at: Instant,
    solved: bool,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Work>>,
    handed_out: HashMap<B256, HandedOut>,
    subscribers: Vec<crossbeam_channel::Sender<Option<WorkPackage>>>,
    mining: bool,
    asked: Option<Instant>,
    /// Counts what the maker of work should look at, so that it misses none while it is busy.
    signals: u64,
    reports: HashMap<B256, (U256, Instant)>,
}

/// The desk. Shared by reference.
#[derive(Debug)]
pub struct WorkDesk {
    spec: Arc<ChainSpec>,
    seals: SealCheck,
    state: Mutex<State>,
    demand: Condvar,
}

impl WorkDesk {
    /// A desk without work. Seals are checked by `seals`.
    pub fn new(spec: Arc<ChainSpec>, seals: SealCheck) -> Self {
        Self {
            spec,
            seals,
            state: Mutex::default(),
            demand: Condvar::new(),
        }
    }

    /// How seals are checked here.
    pub(crate) fn seals(&self) -> &SealCheck {
        &self.seals
    }

    /// Whether anyone wants work.
    pub fn active(&self) -> bool {
        let state = self.state.lock();
        state.mining || state.asked.is_some_and(|at| at.elapsed() < DEMAND)
    }

    /// Starts or stops mining: the making of work for whoever searches here.
    pub fn set_mining(&self, mining: bool) {
        self.state.lock().mining = mining;
        self.wake();
    }

    /// Whether mining was started.
    pub fn mining(&self) -> bool {
        self.state.lock().mining
    }

    /// Waits until there is a signal after those in `seen`, or for `timeout`.
    pub(crate) fn wait_demand(&self, seen: &mut u64, timeout: Duration) {
        let mut state = self.state.lock();
        self.demand
            .wait_while_for(&mut state, |state| state.signals == *seen, timeout);
        *seen = state.signals;
    }

    /// Ends waits at once, or the next one where nobody waits.
    pub(crate) fn wake(&self) {
        self.state.lock().signals += 1;
        self.demand.notify_all();
    }

    /// The present work; `None` while there is none. Asking keeps the desk at it for a while.
    pub fn work(&self) -> Option<WorkPackage> {
        let mut state = self.state.lock();
        let was_active = state.mining || state.asked.is_some_and(|at| at.elapsed() < DEMAND);
        state.asked = Some(Instant::now());
        if !was_active {
            state.signals += 1;
            self.demand.notify_all();
        }
        state.current.as_ref().map(|work| work.package.clone())
    }

    /// A channel that carries every change of work, beginning with the present one.
    /// `None` means: stop searching until there is more.
    pub fn subscribe(&self) -> crossbeam_channel::Receiver<Option<WorkPackage>> {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut state = self.state.lock();
        let _ = sender.send(state.current.as_ref().map(|work| work.package.clone()));
        state.subscribers.push(sender);
        receiver
    }

    /// Puts out new work, or none. False where that work is solved already; then nothing changes.
    pub(crate) fn publish(&self, work: Option<Work>) -> bool {
        let mut state = self.state.lock();
        let work = work.map(Arc::new);
        let now = Instant::now();
        state.keep_current(now);
        if let Some(work) = &work {
            let before = state.handed_out.get(&work.package.header_hash);
            if before.is_some_and(|before| before.solved) {
                return false;
            }
            state
                .handed_out
                .retain(|_, old| now.duration_since(old.at) < WORK_VALID);
            while state.handed_out.len() >= WORKS_MAX {
                let oldest = state
                    .handed_out
                    .iter()
                    .min_by_key(|(_, old)| old.at)
                    .map(|(hash, _)| *hash);
                oldest.map(|hash| state.handed_out.remove(&hash));
            }
            let handed_out = HandedOut {
                work: work.clone(),
                at: now,
                solved: false,
            };
            state
                .handed_out
                .entry(work.package.header_hash)
                .or_insert(handed_out);
        }
        let same = match (&state.current, &work) {
            (None, None) => true,
            (Some(old), Some(new)) => old.package.header_hash == new.package.header_hash,
            _ => false,
        };
        state.current = work;
        if !same {
            state.notify();
        }
        true
    }

    /// Takes a solution: checks the seal and gives the sealed block, once per work.
    ///
    /// Accepting the present work's solution ends the search of everyone else at once.
    ///
    /// # Errors
    /// [`SolutionError`] when the work is unknown or solved, or the seal is wrong; then
    /// nothing changes.
    pub(crate) fn accept(&self, solution: &Solution) -> Result<Block, SolutionError> {
        let hash = solution.header_hash;
        let work = self.unsolved(&hash)?;
        let sealed = work.sealed(solution);
        self.seals.check(&self.spec, &sealed.header)?;
        let mut state = self.state.lock();
        match state.handed_out.get_mut(&hash) {
            Some(handed_out) if !handed_out.solved => handed_out.solved = true,
            Some(_) => return Err(SolutionError::Solved(hash)),
            None => return Err(SolutionError::UnknownWork(hash)),
        }
        if state
            .current
            .as_ref()
            .is_some_and(|work| work.package.header_hash == hash)
        {
            state.current = None;
            state.notify();
        }
        Ok(sealed)
    }

    fn unsolved(&self, hash: &B256) -> Result<Arc<Work>, SolutionError> {
        let mut state = self.state.lock();
        state.keep_current(Instant::now());
        match state.handed_out.get(hash) {
            Some(old) if old.at.elapsed() >= WORK_VALID => Err(SolutionError::UnknownWork(*hash)),
            Some(old) if old.solved => Err(SolutionError::Solved(*hash)),
            Some(old) => Ok(old.work.clone()),
            None => Err(SolutionError::UnknownWork(*hash)),
        }
    }

    /// Notes a miner's own word on its hashrate.
    pub fn report_hashrate(&self, rate: U256, id: B256) {
        let mut state = self.state.lock();
        state.reports.retain(|_, (_, at)| at.elapsed() < REPORT_VALID);
        if state.reports.len() < REPORTERS_MAX || state.reports.contains_key(&id) {
            state.reports.insert(id, (rate, Instant::now()));
        }
    }

    /// Sum of the reported hashrates, in hashes per second.
    pub fn reported_hashrate(&self) -> U256 {
        let mut state = self.state.lock();
        state.reports.retain(|_, (_, at)| at.elapsed() < REPORT_VALID);
        state
            .reports
            .values()
            .fold(U256::ZERO, |sum, (rate, _)| sum.saturating_add(*rate))
    }
}

impl State {
    /// The present work is handed out as long as it is the present one.
    fn keep_current(&mut self, now: Instant) {
        if let Some(current) = &self.current
            && let Some(handed_out) = self.handed_out.get_mut(&current.package.header_hash)
        {
            handed_out.at = now;
        }
    }

    fn notify(&mut self) {
        let package = self.current.as_ref().map(|work| work.package.clone());
        self.subscribers
            .retain(|subscriber| subscriber.send(package.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::execute::Executed;

    fn work(spec: &ChainSpec, mark: u8) -> Work {
        let mut block = Block::default();
        block.header.extra_data = vec![mark].into();
        block.header.difficulty = U256::from(2);
        let draft = Draft {
            block,
            senders: Vec::new(),
            executed: Executed {
                gas_used: 0,
                logs_bloom: Default::default(),
                receipts: Vec::new(),
                notices: Vec::new(),
            },
            total_difficulty: U256::ZERO,
            overlay: Default::default(),
        };
        Work::new(spec, Arc::new(draft))
    }

    #[test]
    fn work_is_good_while_present_and_84_seconds_longer() {
        let spec = Arc::new(ChainSpec::dev());
        let desk = WorkDesk::new(spec.clone(), SealCheck::Off);
        let [first, second] = [1, 2].map(|mark| work(&spec, mark));
        let solution = |work: &Work| Solution {
            header_hash: work.package.header_hash,
            pow_nonce: 0,
            mix_hash: B256::ZERO,
        };
        let age = |seconds| {
            for old in desk.state.lock().handed_out.values_mut() {
                old.at -= Duration::from_secs(seconds);
            }
        };
        desk.publish(Some(first.clone()));
        age(1000);
        assert!(
            desk.unsolved(&first.package.header_hash).is_ok(),
            "it is the present work"
        );
        age(1000);
        desk.publish(Some(second.clone()));
        age(83);
        assert!(desk.unsolved(&first.package.header_hash).is_ok());
        age(2);
        let late = desk.accept(&solution(&first));
        assert!(matches!(late, Err(SolutionError::UnknownWork(_))), "{late:?}");
        desk.accept(&solution(&second)).unwrap();
        // Solved work never becomes the present work again.
        assert!(!desk.publish(Some(second.clone())));
        assert_eq!(desk.work(), None);
        let again = desk.accept(&solution(&second));
        assert!(matches!(again, Err(SolutionError::Solved(_))), "{again:?}");
    }
}
