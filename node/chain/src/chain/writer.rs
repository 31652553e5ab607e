//! The writer thread: imports blocks one at a time, sets the head back, and survives failures.
//!
//! | failure | what happens |
//! |---|---|
//! | a panic during an import | the block is refused; nothing of it was committed |
//! | no space on the medium, damaged rows | the block is refused; the next block is tried |
//! | the medium fails for good | the chain ends |
//! | a panic after a block was imported | the chain ends: memory may not match the store |
//!
//! When the chain ends, [`super::Chain::failure`] has the reason. Letting pool and subscribers
//! follow a new head is the task of module `follow`.

use std::fmt::Arguments;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use primitives::{Block, catch_panic};
use store::StoreError;

use super::{BlockOrigin, ChainInner, WriteError};
use crate::clock::unix_now;
use crate::import::{BlockId, ImportError, Imported};

/// After a failure of the store no work is made for this long, because a sealed block could not be
/// stored.
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
    pub(super) import: Box<ImportBlock>,
    /// Makes memory follow what an import did to the store.
    pub(super) follow: fn(&ChainInner, &Block, &Imported) -> Result<(), StoreError>,
    pub(super) set_head: Box<SetHead>,
}

impl ChainInner {
    /// Executes commands until all senders are gone or the chain has failed.
    pub(super) fn write_loop(&self, jobs: &WriterJobs, commands: &Receiver<WriterCommand>) {
        while let Ok(command) = commands.recv() {
            // A reply that nobody waits for any more is dropped; the work was done all the same.
            match command {
                WriterCommand::Import { block, origin, reply } => {
                    let result = self.import(jobs, &block, origin);
                    let _ = reply.send(result.map_err(Into::into));
                }
                WriterCommand::SetHead { number, reply } => {
                    let _ = reply.send(self.set_head(jobs, number));
                }
            }
            if self.failure.lock().is_some() {
                // The channel ends with its last sender, and with it all commands that wait. So
                // whoever waits for a reply learns of the end.
                self.commands.lock().take();
                return;
            }
        }
    }

    fn import(&self, jobs: &WriterJobs, block: &Block, origin: BlockOrigin) -> Result<Imported, ImportError> {
        self.catch_up_if_in_doubt();
        let started = Instant::now();
        let (number, hash) = (block.header.number, block.hash());
        let result = catch_panic(|| (jobs.import)(block, unix_now().as_secs()));
        let result = result.unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        match &result {
            Ok(imported) => {
                *self.store_failed_at.lock() = None;
                log_import(block, origin, imported, started.elapsed());
                let followed = catch_panic(|| (jobs.follow)(self, block, imported));
                if !self.has_followed(format_args!("following block {number} ({hash})"), followed) {
                    self.put_in_doubt(None);
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
                    self.note_store_failure(format_args!("storing block {number}"), error);
                    self.put_in_doubt(None);
                }
            },
        }
        result
    }

    /// Lets pool and subscribers follow the head if they may be behind it: a commit can move the
    /// head and still report an error, and an earlier attempt to follow may have failed.
    pub(super) fn catch_up_if_in_doubt(&self) {
        let followed = catch_panic(|| self.catch_up());
        self.has_followed(format_args!("following the head"), followed);
    }

    /// Whether `followed` is a success. If not, logs the error. A final error or a panic ends the
    /// chain.
    pub(super) fn has_followed(
        &self,
        what: Arguments<'_>,
        followed: Result<Result<(), StoreError>, String>,
    ) -> bool {
        match followed {
            Ok(Ok(())) => return true,
            Ok(Err(error)) if error.is_final() => self.fail(format!("{what} failed: {error}")),
            Ok(Err(error)) => tracing::error!(%error, "{what} failed; tried again before the next block"),
            Err(panic) => self.fail(format!("{what} panicked: {panic}")),
        }
        false
    }

    /// Notes that the store has failed at `what`. A final error ends the chain.
    pub(super) fn note_store_failure(&self, what: Arguments<'_>, error: &StoreError) {
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use primitives::{Address, Bytes, Header, U256};
    use store::Store;

    use super::*;
    use crate::chain::{Chain, ChainConfig, WriteError};
    use crate::pool::PoolConfig;
    use crate::rules::body::SealCheck;
    use crate::spec::ChainSpec;

    fn open(jobs: WriterJobs) -> Chain {
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
        let imports = Arc::new(AtomicU64::new(0));
        let count = imports.clone();
        let import = move |block: &Block, _now| {
            if block.header.number == 2 {
                panic!("of the test");
            }
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
}
