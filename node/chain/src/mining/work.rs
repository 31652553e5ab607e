//! The work manager: the one place that hands out mining work and takes solutions.
//!
//! All miners use it: those in this process, getWork clients and Stratum clients. Work changes with
//! the head and, every few seconds at most, because of better transactions.
//!
//! Work that was handed out stays valid for [`WORK_LIFETIME`] after it was replaced. This holds on
//! a stale parent too, where its solution gives a side block. Each work is solved at most once. If
//! the sealed block could not be stored, the same solution is accepted again.
//!
//! Of each work only the block is kept. What its execution gave is not: the import executes every
//! block. This module knows blocks without seals, and seals. What becomes of a sealed block is
//! decided by the import.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ethash::{Solution, WorkPackage};
use parking_lot::{Condvar, Mutex};
use primitives::{B256, Block, U256};

use crate::mining::reports::HashrateReports;
pub use crate::mining::reports::{HASHRATE_REPORT_LIFETIME, HASHRATE_REPORTERS_MAX};
use crate::rules::seal::{SealCheck, SealCheckError};
use crate::spec::ChainSpec;

/// The time for which work stays valid after it was replaced.
pub const WORK_LIFETIME: Duration = Duration::from_secs(84);
/// The time for which work is made after a request for it, if no mining was started here.
pub const DEMAND_LIFETIME: Duration = Duration::from_secs(60);
/// The most pieces of work that are remembered. The oldest are forgotten first.
pub(crate) const ISSUED_WORK_MAX: usize = 1024;
/// The most bytes of blocks that are remembered, without the newest one. The oldest are forgotten
/// first.
pub(crate) const ISSUED_BLOCK_BYTES_MAX: usize = 64 << 20;

/// The most changes of the work that wait for a miner. Only the newest one matters.
pub const WORK_CHANGES_MAX: usize = 64;

/// A piece of work: a block without its seal, and what a miner needs to know of it.
#[derive(Clone, Debug)]
pub struct SealingWork {
    /// The block to be sealed. Its mix hash and its nonce are zero.
    pub block: Block,
    /// The part that the miner gets.
    pub package: WorkPackage,
}

impl SealingWork {
    /// The work of sealing `block`.
    pub fn new(spec: &ChainSpec, block: Block) -> Self {
        let header = &block.header;
        let package = WorkPackage {
            header_hash: header.header_hash(),
            seed_hash: spec.schedule.seed_hash(header.number),
            boundary: ethash::boundary(&header.difficulty),
            number: Some(header.number),
            epoch: spec.schedule.epoch(header.number),
        };
        Self { block, package }
    }

    /// Memory that the block takes, in bytes, at most. Blocks that have a transaction in common
    /// share its input; here the input counts for each of them.
    pub fn block_bytes(&self) -> usize {
        let Block {
            header,
            transactions,
            uncles,
        } = &self.block;
        let inputs: usize = transactions
            .iter()
            .map(|transaction| transaction.input.len())
            .sum();
        size_of::<Self>()
            + header.extra_data.len()
            + size_of_val(transactions.as_slice())
            + size_of_val(uncles.as_slice())
            + inputs
    }

    /// The block with the seal of `solution`, which was not checked.
    fn seal(&self, solution: &Solution) -> Block {
        let mut block = self.block.clone();
        block.header.pow_nonce = solution.pow_nonce;
        block.header.mix_hash = solution.mix_hash;
        block
    }
}

/// The reason why a solution is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SolutionError {
    /// The work was never handed out, or its lifetime is over.
    #[error("no such work: {0}")]
    UnknownWork(B256),
    /// The work was solved before.
    #[error("work {0} is solved already")]
    Solved(B256),
    /// The seal is wrong, or could not be checked.
    #[error(transparent)]
    Seal(#[from] SealCheckError),
}

/// Work that was handed out.
#[derive(Debug)]
struct IssuedWork {
    work: Arc<SealingWork>,
    /// See [`SealingWork::block_bytes`].
    block_bytes: usize,
    /// The last time at which it was the current work.
    current_at: Instant,
    solved: WorkSolved,
}

/// Whether work was solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkSolved {
    No,
    Yes,
    /// The block of this solution could not be imported although it may be valid. The same
    /// solution is accepted again.
    OpenFor(Solution),
}

impl WorkSolved {
    /// Whether `solution` may be accepted.
    fn is_open_for(&self, solution: &Solution) -> bool {
        match self {
            Self::No => true,
            Self::Yes => false,
            Self::OpenFor(failed) => failed == solution,
        }
    }
}

/// The sending end of a miner's channel.
#[derive(Debug)]
struct WorkSubscriber {
    sender: Sender<Option<WorkPackage>>,
    /// The channel was full when the work changed last.
    is_behind: bool,
}

/// The state that changes while miners come and go.
#[derive(Debug, Default)]
struct WorkState {
    current: Option<Arc<SealingWork>>,
    /// Work that was handed out, by header hash.
    issued: HashMap<B256, IssuedWork>,
    subscribers: Vec<WorkSubscriber>,
    /// Whether mining was started here.
    mining: bool,
    /// The time of the last request for work.
    requested_at: Option<Instant>,
    /// Counts the events that the maker of work must look at. It waits for the count to change, so
    /// it misses no event that happens while it is busy.
    signals: u64,
}

/// Hands out work and takes solutions. It is shared by reference.
#[derive(Debug)]
pub struct WorkManager {
    spec: Arc<ChainSpec>,
    seals: SealCheck,
    state: Mutex<WorkState>,
    demand: Condvar,
    reports: Mutex<HashrateReports>,
}

impl WorkManager {
    /// Makes a manager without work. Solutions are checked by `seals`.
    pub fn new(spec: Arc<ChainSpec>, seals: SealCheck) -> Self {
        Self {
            spec,
            seals,
            state: Mutex::default(),
            demand: Condvar::new(),
            reports: Mutex::default(),
        }
    }

    /// The mode in which seals are checked here.
    pub(crate) const fn seals(&self) -> &SealCheck {
        &self.seals
    }

    /// Whether somebody wants work: mining was started here, or work was requested lately.
    pub fn active(&self) -> bool {
        self.state.lock().is_active()
    }

    /// Starts or stops mining. While it is started, work is made without requests.
    pub fn set_mining(&self, mining: bool) {
        self.state.lock().mining = mining;
        self.wake();
    }

    /// Whether mining was started.
    pub fn mining(&self) -> bool {
        self.state.lock().mining
    }

    /// Waits until there is a signal after the first `seen` ones, but no longer than `timeout`.
    /// Then `seen` is the number of signals so far. Subscribers that are behind get the current
    /// work first, if their channels have space again.
    pub(crate) fn wait_demand(&self, seen: &mut u64, timeout: Duration) {
        let mut state = self.state.lock();
        state.notify(|subscriber| subscriber.is_behind);
        self.demand
            .wait_while_for(&mut state, |state| state.signals == *seen, timeout);
        *seen = state.signals;
    }

    /// Gives a signal: ends the current [`Self::wait_demand`], or the next one if nobody waits.
    pub(crate) fn wake(&self) {
        self.state.lock().signals += 1;
        self.demand.notify_all();
    }

    /// The current work; `None` if there is none. The request keeps the manager active for
    /// [`DEMAND_LIFETIME`].
    pub fn current(&self) -> Option<WorkPackage> {
        let mut state = self.state.lock();
        let was_active = state.is_active();
        state.requested_at = Some(Instant::now());
        if !was_active {
            state.signals += 1;
            self.demand.notify_all();
        }
        state.current_package()
    }

    /// A channel that carries the current work and then every change of it. `None` means that
    /// miners should stop until there is other work. A miner that leaves [`WORK_CHANGES_MAX`]
    /// changes unread misses the next ones, and gets the current work once it has read.
    pub fn subscribe(&self) -> Receiver<Option<WorkPackage>> {
        let (sender, receiver) = bounded(WORK_CHANGES_MAX);
        let mut state = self.state.lock();
        let _ = sender.try_send(state.current_package());
        state.subscribers.push(WorkSubscriber {
            sender,
            is_behind: false,
        });
        receiver
    }

    /// Makes `work` the current work; with `None` there is none. Returns `false` if this work was
    /// solved already. Then nothing changes.
    pub(crate) fn publish(&self, work: Option<SealingWork>) -> bool {
        let mut state = self.state.lock();
        let work = work.map(Arc::new);
        let now = Instant::now();
        state.refresh_current(now);
        if let Some(work) = &work
            && !state.issue(work, now)
        {
            return false;
        }
        let same = match (&state.current, &work) {
            (None, None) => true,
            (Some(old), Some(new)) => old.package.header_hash == new.package.header_hash,
            _ => false,
        };
        state.current = work;
        if !same {
            state.notify(|_| true);
        }
        true
    }

    /// The header that is sealed by work that was handed out, with mix hash and nonce of zero.
    pub fn unsealed_header(&self, header_hash: &B256) -> Option<primitives::Header> {
        let state = self.state.lock();
        let issued = state.issued.get(header_hash)?;
        Some(issued.work.block.header.clone())
    }

    /// Takes a solution: checks the seal and returns the sealed block.
    ///
    /// If the solved work is the current one, all other miners are told at once to stop.
    ///
    /// # Errors
    /// [`SolutionError`] if the work is unknown or solved, or the seal is wrong. Then nothing
    /// changes.
    pub(crate) fn accept(&self, solution: &Solution) -> Result<Block, SolutionError> {
        let hash = solution.header_hash;
        let work = self.open_work(solution)?;
        let sealed = work.seal(solution);
        self.seals.check_seal(&self.spec, &sealed.header)?;
        let mut state = self.state.lock();
        match state.issued.get_mut(&hash) {
            Some(issued) if issued.solved.is_open_for(solution) => issued.solved = WorkSolved::Yes,
            Some(_) => return Err(SolutionError::Solved(hash)),
            None => return Err(SolutionError::UnknownWork(hash)),
        }
        if state
            .current
            .as_ref()
            .is_some_and(|work| work.package.header_hash == hash)
        {
            state.current = None;
            state.notify(|_| true);
        }
        Ok(sealed)
    }

    /// Accepts `solution`, which was accepted before, once more: its block could not be imported
    /// although it may be valid. Other solutions of the same work stay refused.
    pub(crate) fn accept_again(&self, solution: &Solution) {
        if let Some(issued) = self.state.lock().issued.get_mut(&solution.header_hash) {
            issued.solved = WorkSolved::OpenFor(*solution);
        }
    }

    /// The valid work that `solution` may solve.
    fn open_work(&self, solution: &Solution) -> Result<Arc<SealingWork>, SolutionError> {
        let header_hash = &solution.header_hash;
        let mut state = self.state.lock();
        state.refresh_current(Instant::now());
        match state.issued.get(header_hash) {
            Some(old) if old.current_at.elapsed() >= WORK_LIFETIME => {
                Err(SolutionError::UnknownWork(*header_hash))
            }
            Some(old) if !old.solved.is_open_for(solution) => Err(SolutionError::Solved(*header_hash)),
            Some(old) => Ok(old.work.clone()),
            None => Err(SolutionError::UnknownWork(*header_hash)),
        }
    }

    /// Remembers the hashrate that the miner `id` has reported, in hashes per second.
    pub fn report_hashrate(&self, rate: U256, id: B256) {
        self.reports.lock().report(rate, id, Instant::now());
    }

    /// The sum of the reported hashrates, in hashes per second.
    pub fn reported_hashrate(&self) -> U256 {
        self.reports.lock().sum(Instant::now())
    }
}

impl WorkState {
    fn is_active(&self) -> bool {
        self.mining || self.requested_at.is_some_and(|at| at.elapsed() < DEMAND_LIFETIME)
    }

    fn current_package(&self) -> Option<WorkPackage> {
        self.current.as_ref().map(|work| work.package.clone())
    }

    /// Starts the lifetime of the current work anew: it counts from the moment when the work is
    /// replaced.
    fn refresh_current(&mut self, now: Instant) {
        if let Some(current) = &self.current
            && let Some(issued) = self.issued.get_mut(&current.package.header_hash)
        {
            issued.current_at = now;
        }
    }

    /// Remembers work that is handed out, and forgets work that is too old or too much. Returns
    /// `false` if the work was solved already.
    fn issue(&mut self, work: &Arc<SealingWork>, now: Instant) -> bool {
        let header_hash = work.package.header_hash;
        let known = self.issued.get(&header_hash);
        if known.is_some_and(|issued| issued.solved != WorkSolved::No) {
            return false;
        }
        self.issued
            .retain(|_, old| now.duration_since(old.current_at) < WORK_LIFETIME);
        while self.issued.len() >= ISSUED_WORK_MAX || self.issued_bytes() > ISSUED_BLOCK_BYTES_MAX {
            let oldest = self.issued.iter().min_by_key(|(_, old)| old.current_at);
            let Some(hash) = oldest.map(|(hash, _)| *hash) else {
                break;
            };
            self.issued.remove(&hash);
        }
        self.issued.entry(header_hash).or_insert_with(|| IssuedWork {
            work: work.clone(),
            block_bytes: work.block_bytes(),
            current_at: now,
            solved: WorkSolved::No,
        });
        true
    }

    /// Memory of the blocks that are remembered, in bytes, at most.
    fn issued_bytes(&self) -> usize {
        self.issued.values().map(|issued| issued.block_bytes).sum()
    }

    /// Sends the current work to the subscribers that `wants` names.
    fn notify(&mut self, wants: fn(&WorkSubscriber) -> bool) {
        let package = self.current_package();
        self.subscribers.retain_mut(|subscriber| {
            if !wants(subscriber) {
                return true;
            }
            let sent = subscriber.sender.try_send(package.clone());
            subscriber.is_behind = matches!(sent, Err(TrySendError::Full(_)));
            sent.is_ok() || subscriber.is_behind
        });
    }
}

#[cfg(test)]
mod tests {
    use primitives::Transaction;

    use super::*;

    fn work(spec: &ChainSpec, mark: u8) -> SealingWork {
        let mut block = Block::default();
        block.header.extra_data = vec![mark].into();
        block.header.difficulty = U256::from(2);
        SealingWork::new(spec, block)
    }

    #[test]
    fn the_bytes_of_remembered_blocks_are_bounded() {
        let spec = Arc::new(ChainSpec::dev());
        let manager = WorkManager::new(spec.clone(), SealCheck::Off);
        let large = |mark: u8| {
            let mut block = work(&spec, mark).block;
            let mut transaction = Transaction::system(0);
            transaction.input = vec![mark; ISSUED_BLOCK_BYTES_MAX / 4].into();
            block.transactions.push(transaction);
            SealingWork::new(&spec, block)
        };
        let works: Vec<_> = (0..7).map(large).collect();
        for (count, work) in works.iter().enumerate() {
            manager.publish(Some(work.clone()));
            let state = manager.state.lock();
            assert_eq!(state.issued.len(), 4.min(count + 1), "of {}", count + 1);
            let older = state.issued_bytes() - work.block_bytes();
            assert!(older <= ISSUED_BLOCK_BYTES_MAX, "{older} bytes");
            assert!(state.issued.contains_key(&work.package.header_hash));
        }
        // A single block above the bound is handed out.
        let mut huge = works[0].block.clone();
        huge.transactions[0].input = vec![1; ISSUED_BLOCK_BYTES_MAX + 1].into();
        let huge = SealingWork::new(&spec, huge);
        manager.publish(Some(huge.clone()));
        let solution = Solution {
            header_hash: huge.package.header_hash,
            pow_nonce: 0,
            mix_hash: B256::ZERO,
        };
        assert!(manager.open_work(&solution).is_ok());
        manager.publish(Some(works[1].clone()));
        assert_eq!(manager.state.lock().issued.len(), 1);
    }

    #[test]
    fn a_miner_that_is_behind_gets_the_current_work_once_it_has_read() {
        let spec = Arc::new(ChainSpec::dev());
        let manager = WorkManager::new(spec.clone(), SealCheck::Off);
        let miner = manager.subscribe();
        let works: Vec<_> = (0..=WORK_CHANGES_MAX as u8)
            .map(|mark| work(&spec, mark))
            .collect();
        for work in &works {
            manager.publish(Some(work.clone()));
        }
        assert_eq!(miner.try_iter().count(), WORK_CHANGES_MAX);
        let mut seen = 0;
        manager.wait_demand(&mut seen, Duration::ZERO);
        let newest = works.last().map(|work| work.package.header_hash);
        let got = miner.try_recv().expect("the current work");
        assert_eq!(got.map(|package| package.header_hash), newest);
        manager.wait_demand(&mut seen, Duration::ZERO);
        assert!(miner.is_empty());
    }

    #[test]
    fn work_is_valid_while_current_and_for_84_seconds_longer() {
        let spec = Arc::new(ChainSpec::dev());
        let manager = WorkManager::new(spec.clone(), SealCheck::Off);
        let [first, second] = [1, 2].map(|mark| work(&spec, mark));
        let solution = |work: &SealingWork| Solution {
            header_hash: work.package.header_hash,
            pow_nonce: 0,
            mix_hash: B256::ZERO,
        };
        let age = |seconds| {
            for old in manager.state.lock().issued.values_mut() {
                old.current_at -= Duration::from_secs(seconds);
            }
        };
        manager.publish(Some(first.clone()));
        age(1000);
        assert!(
            manager.open_work(&solution(&first)).is_ok(),
            "it is the current work"
        );
        age(1000);
        manager.publish(Some(second.clone()));
        age(83);
        assert!(manager.open_work(&solution(&first)).is_ok());
        age(2);
        let late = manager.accept(&solution(&first));
        assert!(matches!(late, Err(SolutionError::UnknownWork(_))), "{late:?}");
        manager.accept(&solution(&second)).unwrap();
        // Solved work never becomes the current work again.
        assert!(!manager.publish(Some(second.clone())));
        assert_eq!(manager.current(), None);
        let again = manager.accept(&solution(&second));
        assert!(matches!(again, Err(SolutionError::Solved(_))), "{again:?}");
    }

    #[test]
    fn a_solution_whose_block_could_not_be_imported_is_accepted_again_and_no_other_one() {
        let spec = Arc::new(ChainSpec::dev());
        let manager = WorkManager::new(spec.clone(), SealCheck::Off);
        let work = work(&spec, 1);
        let solution = |pow_nonce| Solution {
            header_hash: work.package.header_hash,
            pow_nonce,
            mix_hash: B256::ZERO,
        };
        manager.publish(Some(work.clone()));
        let block = manager.accept(&solution(7)).unwrap();
        manager.accept_again(&solution(7));
        assert!(!manager.publish(Some(work.clone())), "it is not handed out again");
        let other = manager.accept(&solution(8));
        assert!(matches!(other, Err(SolutionError::Solved(_))), "{other:?}");
        assert_eq!(manager.accept(&solution(7)).unwrap().hash(), block.hash());
        let third = manager.accept(&solution(7));
        assert!(matches!(third, Err(SolutionError::Solved(_))), "{third:?}");
    }
}
