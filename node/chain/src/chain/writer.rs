//! The writer thread: imports blocks one at a time, sets the head back, and survives failures.
//!
//! | failure | what happens |
//! |---|---|
//! | a panic during an import | the block is refused; nothing of it was committed |
//! | no space on the medium, damaged rows | the block is refused; the next block is tried |
//! | a failure that [`StoreError::is_final`] | the chain ends |
//! | a panic after a block was imported | the chain ends: memory may not match the store |
//!
//! After a failure of the store, the writer tries again what was left undone: sealed blocks
//! (module `unstored`), and following the head (module `follow`).
//!
//! When the chain ends, [`super::Chain::failure`] has the reason.

use std::fmt::Arguments;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use primitives::{Block, catch_panic};
use store::StoreError;

use super::follow::Doubt;
use super::unstored::UnstoredBlocks;
use super::{BlockOrigin, ChainInner, WriteError};
use crate::clock::unix_now;
use crate::import::{BlockId, ImportError, Imported};

/// After a failure of the store no work is made for this long, because a sealed block could not be
/// stored. Then the writer tries again what was left undone, and work is made again, without
/// knowing whether there is space.
pub(super) const STORE_FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// What the writer is to do, and where it sends the result.
pub(super) enum WriterCommand {
    Import {
        block: Box<Block>,
        origin: BlockOrigin,
        reply: Sender<Result<Imported, WriteError>>,
    },
    SetHead {
        number: u64,
        reply: Sender<Result<Vec<BlockId>, WriteError>>,
    },
}

/// Imports a block at the given time of the clock, in unix seconds.
type ImportBlock = dyn Fn(&Block, u64) -> Result<Imported, ImportError> + Send;
/// Makes the canonical block with the given number the head. Returns the blocks that are no longer
/// canonical.
type SetHead = dyn Fn(u64) -> Result<Vec<BlockId>, ImportError> + Send;

/// How the writer does its work. Tests replace parts of it.
pub(super) struct WriterJobs {
    /// In a node: [`Importer::import`](crate::import::Importer::import). See
    /// [`super::Chain::open`].
    pub(super) import: Box<ImportBlock>,
    /// Makes memory follow what an import did to the store. In a node:
    /// [`ChainInner::follow_import`].
    pub(super) follow: fn(&ChainInner, &Block, &Imported) -> Result<(), StoreError>,
    /// In a node: [`Importer::set_head`](crate::import::Importer::set_head).
    pub(super) set_head: Box<SetHead>,
}

impl ChainInner {
    /// Executes commands until all senders are gone or the chain has failed. After a failure of the
    /// store it also tries again what was left undone, at the latest after [`STORE_FAILURE_PAUSE`].
    pub(super) fn write_loop(&self, jobs: &WriterJobs, commands: &Receiver<WriterCommand>) {
        let mut unstored = UnstoredBlocks::default();
        let mut retry_at: Option<Instant> = None;
        loop {
            let command = match retry_at {
                // Asked for here, because the channel would give waiting commands first.
                Some(at) if at <= Instant::now() => Err(RecvTimeoutError::Timeout),
                Some(at) => commands.recv_deadline(at),
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let is_last = matches!(command, Err(RecvTimeoutError::Disconnected));
            // The work maker may have ended the chain meanwhile.
            if !self.has_failed() {
                self.catch_up_if_in_doubt();
            }
            if !self.has_failed() {
                match command {
                    Ok(command) => self.execute(jobs, command, &mut unstored),
                    Err(_) => {
                        retry_at = None;
                        self.retry_unstored(jobs, &mut unstored);
                    }
                }
            }
            if self.has_failed() {
                // No more commands are taken. Those that wait are dropped when this thread ends,
                // so whoever waits for a reply learns of the end.
                self.commands.lock().take();
                return unstored.log_lost("the chain has ended");
            }
            if is_last {
                return unstored.log_lost("the node stops");
            }
            let is_undone = !unstored.is_empty() || self.is_in_doubt();
            retry_at = is_undone.then(|| retry_at.unwrap_or_else(|| Instant::now() + STORE_FAILURE_PAUSE));
        }
    }

    /// Executes a command. A sealed block that cannot be stored is added to `unstored`.
    fn execute(&self, jobs: &WriterJobs, command: WriterCommand, unstored: &mut UnstoredBlocks) {
        // A reply that nobody waits for any more is dropped; the work was done all the same.
        match command {
            WriterCommand::Import { block, origin, reply } => {
                let result = self.import_and_follow(jobs, &block, origin);
                if origin == BlockOrigin::Sealed
                    && let Some(error) = store_failure(&result)
                {
                    unstored.keep(block, error);
                }
                let _ = reply.send(result.map_err(Into::into));
            }
            WriterCommand::SetHead { number, reply } => {
                let _ = reply.send(self.set_head_and_follow(jobs, number));
            }
        }
    }

    /// Imports the sealed blocks that could not be stored. Those that fail again stay in
    /// `unstored`.
    fn retry_unstored(&self, jobs: &WriterJobs, unstored: &mut UnstoredBlocks) {
        for kept in unstored.take() {
            let result = self.import_and_follow(jobs, &kept.block, BlockOrigin::Sealed);
            if let Some(error) = store_failure(&result) {
                unstored.keep_again(kept, error);
            }
        }
    }

    fn import_and_follow(
        &self,
        jobs: &WriterJobs,
        block: &Block,
        origin: BlockOrigin,
    ) -> Result<Imported, ImportError> {
        let started = Instant::now();
        let (number, hash) = (block.header.number, block.hash());
        let result = catch_panic(|| (jobs.import)(block, unix_now().as_secs()));
        let result = result.unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        match &result {
            Ok(imported) => {
                if *imported != Imported::Known {
                    // A block was written, so there is space again.
                    *self.store_failed_at.lock() = None;
                }
                log_import(block, origin, imported, started.elapsed());
                let followed = catch_panic(|| (jobs.follow)(self, block, imported));
                if !self.check_followed_or_fail(format_args!("following block {number} ({hash})"), followed) {
                    self.put_in_doubt(Doubt::Block(&block.header));
                }
            }
            Err(error @ ImportError::Panicked(_)) => {
                tracing::error!(number, %hash, %error, "block refused");
            }
            Err(refused) => match refused.store_error() {
                None => {
                    tracing::warn!(number, %hash, error = %refused, "block refused");
                    if refused.is_invalid_block() {
                        self.bad_blocks.remember(block, hash, refused);
                    }
                }
                Some(error) => {
                    self.handle_store_failure(format_args!("storing block {number}"), error);
                    self.put_in_doubt(Doubt::Block(&block.header));
                }
            },
        }
        result
    }

    /// Lets pool and subscribers follow the head if they may be behind it: a commit can move the
    /// head and still report an error, and an earlier attempt to follow may have failed.
    fn catch_up_if_in_doubt(&self) {
        let followed = catch_panic(|| self.catch_up());
        self.check_followed_or_fail(format_args!("following the head"), followed);
    }

    /// Whether `followed` is a success. If not, logs the error. A final error or a panic ends the
    /// chain.
    pub(super) fn check_followed_or_fail(
        &self,
        what: Arguments<'_>,
        followed: Result<Result<(), StoreError>, String>,
    ) -> bool {
        match followed {
            Ok(Ok(())) => return true,
            Ok(Err(error)) if error.is_final() => self.fail(format!("{what} failed: {error}")),
            Ok(Err(error)) => tracing::error!(%error, "{what} failed; it is tried again soon"),
            Err(panic) => self.fail(format!("{what} panicked: {panic}")),
        }
        false
    }

    /// Begins the pause after a failure of the store at `what`. A final error ends the chain.
    pub(super) fn handle_store_failure(&self, what: Arguments<'_>, error: &StoreError) {
        if error.is_final() {
            return self.fail(format!("{what} failed: {error}"));
        }
        tracing::error!(%error, "{what} failed; the next block will be tried");
        *self.store_failed_at.lock() = Some(Instant::now());
    }

    /// How much longer no work should be made; `None` if work can be made.
    pub(super) fn store_failure_pause_left(&self) -> Option<Duration> {
        let failed_at = (*self.store_failed_at.lock())?;
        STORE_FAILURE_PAUSE
            .checked_sub(failed_at.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// Ends importing and the making of work. The first reason is kept.
    pub(super) fn fail(&self, reason: String) {
        tracing::error!(reason, "no more blocks can be taken");
        self.failure.lock().get_or_insert(reason);
        self.stopping.store(true, Ordering::Release);
        self.work.wake();
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }
}

/// The store's error, if the import failed because of the store.
fn store_failure(result: &Result<Imported, ImportError>) -> Option<&StoreError> {
    result.as_ref().err()?.store_error()
}

fn log_import(block: &Block, origin: BlockOrigin, imported: &Imported, took: Duration) {
    let header = &block.header;
    let (number, hash) = (header.number, block.hash());
    let (txs, gas, miner) = (block.transactions.len(), header.gas_used, header.beneficiary);
    let took_ms = took.as_secs_f64() * 1000.0;
    let what = match (origin, imported) {
        (_, Imported::Known) => return,
        (BlockOrigin::Sealed, Imported::Side) => "sealed a side block",
        (BlockOrigin::Sealed, Imported::Head { .. }) => "sealed a block",
        (BlockOrigin::Imported, Imported::Side) => "imported a side block",
        (BlockOrigin::Imported, Imported::Head { .. }) => "imported a block",
    };
    tracing::info!(number, %hash, txs, gas, %miner, took_ms = format!("{took_ms:.1}"), "{what}");
    if let Imported::Head { reverted, applied } = imported
        && !reverted.is_empty()
    {
        let (dropped, added) = (reverted.len(), applied.len());
        tracing::warn!(dropped, added, "reorganization");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use ethash::Solution;
    use primitives::{Address, B256, Bytes, Header, U256};
    use store::Store;

    use super::*;
    use crate::chain::{Chain, ChainConfig, WriteError};
    use crate::import::Importer;
    use crate::mining::work::SolutionError;
    use crate::pool::PoolConfig;
    use crate::rules::seal::SealCheck;
    use crate::spec::ChainSpec;

    fn open(jobs: WriterJobs) -> Chain {
        open_on(Store::in_memory().unwrap(), jobs)
    }

    fn open_on(store: Store, jobs: WriterJobs) -> Chain {
        let config = ChainConfig {
            spec: Arc::new(ChainSpec::dev()),
            seals: SealCheck::Off,
            pool: PoolConfig::default(),
            beneficiary: Address::repeat_byte(1),
            extra_data: Bytes::new(),
            states: crate::import::StateRetention::Archive,
        };
        Chain::start(store, config, jobs).unwrap()
    }

    fn no_space() -> ImportError {
        ImportError::Store(StoreError::Full {
            path: "of the test".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        })
    }

    /// A chain whose imports find no space while the flag is set, and a solution of its work.
    fn full_chain() -> (Chain, Arc<AtomicBool>, Solution) {
        let store = Store::in_memory().unwrap();
        let importer = Importer::new(store.clone(), Arc::new(ChainSpec::dev()), SealCheck::Off);
        let is_full = Arc::new(AtomicBool::new(true));
        let full = is_full.clone();
        let chain = open_on(
            store,
            WriterJobs {
                import: Box::new(move |block, _| match full.load(Ordering::Acquire) {
                    true => Err(no_space()),
                    false => importer.import(block, None),
                }),
                follow: ChainInner::follow_import,
                set_head: Box::new(|_| Ok(Vec::new())),
            },
        );
        let package = wait_for(|| chain.work().current());
        let solution = Solution {
            header_hash: package.header_hash,
            pow_nonce: 7,
            mix_hash: B256::ZERO,
        };
        (chain, is_full, solution)
    }

    fn wait_for<T>(mut get: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(value) = get() {
                return value;
            }
            assert!(started.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn block(number: u64) -> Block {
        let header = Header {
            number,
            difficulty: U256::from(512),
            ..Default::default()
        };
        Block {
            header,
            ..Default::default()
        }
    }

    #[test]
    fn a_panic_while_something_is_written_refuses_that_alone() {
        let imports = Arc::new(AtomicU64::new(0));
        let count = imports.clone();
        let import = move |block: &Block, _now| {
            assert!(block.header.number != 2, "of the test");
            count.fetch_add(1, Ordering::AcqRel);
            Ok(Imported::Known)
        };
        let chain = open(WriterJobs {
            import: Box::new(import),
            follow: |_, _, _| Ok(()),
            set_head: Box::new(|_| panic!("of the test")),
        });
        chain.import(block(1)).unwrap();
        let refused = chain.import(block(2)).unwrap_err();
        assert!(
            matches!(&refused, WriteError::Import(ImportError::Panicked(message)) if message == "of the test"),
            "{refused}"
        );
        assert_eq!(chain.failure(), None);
        let refused = chain.set_head(0).unwrap_err();
        assert!(
            matches!(&refused, WriteError::Import(ImportError::Panicked(message)) if message == "of the test"),
            "{refused}"
        );
        assert_eq!(chain.failure(), None);
        chain.import(block(3)).unwrap();
        assert_eq!(imports.load(Ordering::Acquire), 2);
    }

    #[test]
    fn a_panic_after_a_block_got_in_ends_the_chain_with_a_reason() {
        let jobs = WriterJobs {
            import: Box::new(|_, _| Ok(Imported::Side)),
            follow: |_, _, _| panic!("of the test"),
            set_head: Box::new(|_| Ok(Vec::new())),
        };
        let chain = open(jobs);
        let first = chain.import(block(1));
        assert!(first.is_ok(), "the block is in: {first:?}");
        let started = Instant::now();
        while chain.failure().is_none() {
            assert!(started.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        let reason = chain.failure().unwrap();
        assert!(reason.contains("following block 1"), "{reason}");
        let late = chain.import(block(2)).unwrap_err();
        assert!(matches!(late, WriteError::Failed(_)), "{late}");
        assert_eq!(chain.view().unwrap().head_number(), 0);
    }

    #[test]
    fn a_sealed_block_that_found_no_space_is_stored_later() {
        let (chain, is_full, solution) = full_chain();
        let heads = chain.subscribe();
        let no_space_for = |solution: &Solution| match chain.submit_solution(solution) {
            Err(WriteError::Import(error)) => error.store_error().is_some_and(StoreError::wants_space),
            other => panic!("{other:?}"),
        };
        assert!(no_space_for(&solution));
        assert!(no_space_for(&solution), "the same solution may come again");
        let other = Solution {
            pow_nonce: 8,
            ..solution
        };
        let refused = chain.submit_solution(&other).unwrap_err();
        assert!(
            matches!(refused, WriteError::Solution(SolutionError::Solved(_))),
            "{refused}"
        );
        is_full.store(false, Ordering::Release);
        let event = heads.recv_timeout(Duration::from_secs(60)).unwrap();
        let head = chain.view().unwrap().head().header.clone();
        assert_eq!(event.applied.last().unwrap().hash, head.hash());
        assert_eq!(
            (head.header_hash(), head.pow_nonce),
            (solution.header_hash, solution.pow_nonce)
        );
        // Whoever got an error learns now that the block is there.
        assert_eq!(chain.submit_solution(&solution).unwrap(), Imported::Known);
        let again = chain.submit_solution(&solution).unwrap_err();
        assert!(
            matches!(again, WriteError::Solution(SolutionError::Solved(_))),
            "{again}"
        );
        assert_eq!(chain.failure(), None);
    }

    #[test]
    fn a_sealed_block_that_found_no_space_is_tried_again_when_the_chain_stops() {
        let (chain, is_full, solution) = full_chain();
        chain.submit_solution(&solution).unwrap_err();
        is_full.store(false, Ordering::Release);
        chain.stop();
        assert_eq!(
            chain.view().unwrap().head().header.header_hash(),
            solution.header_hash
        );
    }

    #[test]
    fn a_block_that_was_stored_before_does_not_end_the_pause() {
        let import = |block: &Block, _now| match block.header.number {
            1 => Err(no_space()),
            2 => Ok(Imported::Known),
            _ => Ok(Imported::Side),
        };
        let chain = open(WriterJobs {
            import: Box::new(import),
            follow: |_, _, _| Ok(()),
            set_head: Box::new(|_| Ok(Vec::new())),
        });
        let pauses = || chain.inner.store_failed_at.lock().is_some();
        chain.import(block(1)).unwrap_err();
        assert!(pauses());
        chain.import(block(2)).unwrap();
        assert!(pauses());
        chain.import(block(3)).unwrap();
        assert!(!pauses());
    }

    #[test]
    fn no_block_is_imported_after_another_thread_has_ended_the_chain() {
        let imports = Arc::new(AtomicU64::new(0));
        let count = imports.clone();
        let chain = open(WriterJobs {
            import: Box::new(move |_, _| {
                count.fetch_add(1, Ordering::AcqRel);
                Ok(Imported::Side)
            }),
            follow: |_, _, _| Ok(()),
            set_head: Box::new(|_| Ok(Vec::new())),
        });
        chain.inner.fail("of the test".to_owned());
        for number in 1..=2 {
            let late = chain.import(block(number)).unwrap_err();
            assert!(
                matches!(&late, WriteError::Failed(reason) if reason == "of the test"),
                "{late}"
            );
        }
        assert_eq!(imports.load(Ordering::Acquire), 0);
    }
}
