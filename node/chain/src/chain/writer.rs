//! The writer thread: takes blocks in one at a time, sets the head, and outlives what fails.
//!
//! A panic while a block is imported refuses that block: nothing of it was committed. A store
//! that has no space, or damaged rows, refuses blocks until that is over, and says so each
//! time. What makes later imports untrustworthy ends the chain instead, with a reason that
//! [`super::Chain::failure`] tells: a medium that fails, or memory that may not have followed
//! the store. Knows imports and their errors; what follows a new head is the parent module's.

use std::fmt::Arguments;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use primitives::Block;
use store::StoreError;

use super::{BlockOrigin, Command, Inner, unix_now};
use crate::import::{BlockId, ImportError, Imported};

/// After a failure of the store no work is made for this long: its block could not be kept.
pub(super) const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// Imports a block at a time of the clock, in unix seconds.
type TakeBlock = dyn Fn(&Block, u64) -> Result<Imported, ImportError> + Send;
/// Makes the canonical block of a number the head; gives what was taken back.
type SetHead = dyn Fn(u64) -> Result<Vec<BlockId>, ImportError> + Send;

/// What the writer does with a block.
pub(super) struct Jobs {
    /// Imports it.
    pub(super) take: Box<TakeBlock>,
    /// Makes memory follow what the import did to the store.
    pub(super) follow: fn(&Inner, &Block, &Imported) -> Result<(), StoreError>,
    /// Sets the head back.
    pub(super) set_head: Box<SetHead>,
}

impl Inner {
    /// Does what comes by `commands` until nobody sends any more, or nothing can be written.
    pub(super) fn write_loop(&self, jobs: &Jobs, commands: &Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            // Whoever asked may have gone; what was done is done all the same.
            match command {
                Command::Import { block, origin, reply } => {
                    let result = self.take(jobs, &block, origin);
                    let _ = reply.send(result.map_err(Into::into));
                }
                Command::SetHead { number, reply } => {
                    let _ = reply.send(self.set_head(jobs, number));
                }
            }
            if self.failure.lock().is_some() {
                // Commands that nobody takes any more go with the channel, and the channel with
                // its last sender: whoever waits for an answer learns of the end.
                self.commands.lock().take();
                return;
            }
        }
    }

    fn take(&self, jobs: &Jobs, block: &Block, origin: BlockOrigin) -> Result<Imported, ImportError> {
        self.catch_up_first();
        let started = Instant::now();
        let (number, hash) = (block.header.number, block.hash());
        let result = contained(|| (jobs.take)(block, unix_now().as_secs()));
        let result = result.unwrap_or_else(|words| Err(ImportError::Panicked(words)));
        match &result {
            Ok(imported) => {
                *self.trouble.lock() = None;
                log_block(block, origin, imported, started.elapsed());
                let followed = contained(|| (jobs.follow)(self, block, imported));
                if !self.has_followed(format_args!("following block {number} ({hash})"), followed) {
                    self.doubt(None);
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
                    self.note_trouble(format_args!("storing block {number}"), error);
                    self.doubt(None);
                }
            },
        }
        result
    }

    /// Follows what has happened to the head since it was last followed: a commit that failed
    /// after its last write has moved it all the same, and what follows it may have failed.
    pub(super) fn catch_up_first(&self) {
        let followed = contained(|| self.catch_up());
        self.has_followed(format_args!("following the head"), followed);
    }

    /// Whether what follows the head has; says what was the matter where not.
    pub(super) fn has_followed(
        &self,
        what: Arguments<'_>,
        followed: Result<Result<(), StoreError>, String>,
    ) -> bool {
        match followed {
            Ok(Ok(())) => return true,
            Ok(Err(error)) if error.is_final() => self.fail(format!("{what} failed: {error}")),
            Ok(Err(error)) => tracing::error!(%error, "{what} failed; that is done before the next block"),
            Err(words) => self.fail(format!("{what} panicked: {words}")),
        }
        false
    }

    /// Notes that the store has failed at `what`.
    pub(super) fn note_trouble(&self, what: Arguments<'_>, error: &StoreError) {
        if error.is_final() {
            return self.fail(format!("{what} failed: {error}"));
        }
        tracing::error!(%error, "{what} failed; the next block will be tried");
        *self.trouble.lock() = Some(Instant::now());
    }

    /// How long no work should be made yet.
    pub(super) fn trouble_left(&self) -> Option<Duration> {
        let since = (*self.trouble.lock())?;
        TROUBLE_PAUSE
            .checked_sub(since.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// Ends importing and the making of work, for a reason.
    pub(super) fn fail(&self, reason: String) {
        tracing::error!(reason, "no more blocks can be taken");
        self.failure.lock().get_or_insert(reason);
        self.stopping.store(true, std::sync::atomic::Ordering::Release);
        self.desk.wake();
    }
}

/// Runs a job; gives the words of a panic in it.
pub(super) fn contained<T>(job: impl FnOnce() -> T) -> Result<T, String> {
    // What a panic leaves half done lies in a transaction that is not committed, or its job
    // ends the chain.
    catch_unwind(AssertUnwindSafe(job)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("no reason given").replace('\n', " ")
    })
}

fn log_block(block: &Block, origin: BlockOrigin, imported: &Imported, took: Duration) {
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use primitives::{Address, Bytes, Header, U256};
    use store::Store;

    use super::*;
    use crate::chain::{Chain, ChainConfig, WriteError};
    use crate::pool::PoolConfig;
    use crate::rules::body::SealCheck;
    use crate::spec::ChainSpec;

    fn open(jobs: Jobs) -> Chain {
        let config = ChainConfig {
            spec: Arc::new(ChainSpec::dev()),
            seals: SealCheck::Off,
            pool: PoolConfig::default(),
            beneficiary: Address::repeat_byte(1),
            extra_data: Bytes::new(),
        };
        Chain::start(Store::in_memory().unwrap(), config, jobs).unwrap()
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
        let taken = Arc::new(AtomicU64::new(0));
        let count = taken.clone();
        let take = move |block: &Block, _now| {
            if block.header.number == 2 {
                panic!("as asked");
            }
            count.fetch_add(1, Ordering::AcqRel);
            Ok(Imported::Known)
        };
        let chain = open(Jobs {
            take: Box::new(take),
            follow: |_, _, _| Ok(()),
            set_head: Box::new(|_| panic!("as asked")),
        });
        chain.import(block(1)).unwrap();
        let refused = chain.import(block(2)).unwrap_err();
        assert!(
            matches!(&refused, WriteError::Import(ImportError::Panicked(words)) if words == "as asked"),
            "{refused}"
        );
        assert_eq!(chain.failure(), None);
        let refused = chain.set_head(0).unwrap_err();
        assert!(
            matches!(&refused, WriteError::Import(ImportError::Panicked(words)) if words == "as asked"),
            "{refused}"
        );
        assert_eq!(chain.failure(), None);
        chain.import(block(3)).unwrap();
        assert_eq!(taken.load(Ordering::Acquire), 2);
    }

    #[test]
    fn a_panic_after_a_block_got_in_ends_the_chain_with_a_reason() {
        let jobs = Jobs {
            take: Box::new(|_, _| Ok(Imported::Side)),
            follow: |_, _, _| panic!("as asked"),
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
}
