//! The writer thread: imports blocks one at a time, sets the head back, and survives failures.
//!
//! | failure | what happens |
//! |---|---|
//! | a panic during an import | the block is refused; only whole parts of a reorganization remain |
//! | no space on the medium, damaged rows | the block is not stored; a sealed one is kept; the next block is tried |
//! | a failure that [`StoreError::is_final`] | the chain ends |
//! | a panic after a block was imported | the chain ends: memory may not match the store |
//!
//! After a failure of the store, the writer tries again what was left undone: sealed blocks
//! (module `unstored`), a reorganization that was cut short, and following the head (module
//! `follow`).
//!
//! After the end of the chain, [`super::Chain::failure`] has the reason.

#[cfg(test)]
mod tests;

use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use primitives::{B256, Block, PanicMessage, catch_panic};
use store::{BlockReads, StoreError};

use super::early_blocks::{AHEAD_SECS_MAX, EarlyBlocks};
use super::follow::Doubt;
use super::many::ImportedMany;
use super::unstored::UnstoredBlocks;
use super::{BlockOrigin, ChainInner, SEALED_BLOCKS_MAX, WriteError};
use crate::clock::ChainClock;
use crate::import::{
    BlockId, CheckedHeaders, FilledBlock, ImportError, Imported, ImportedHeaders, Importer, PreparedBlock,
};
use crate::measured;

/// After a failure of the store no work is made for this long, because a block that is found now
/// could not be stored. Then the writer tries again what was left undone, and work is made again,
/// without knowing whether there is space.
pub(super) const STORE_FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// The time between two looks at the clock while blocks wait for their time. The clock can be set,
/// so it is not enough to wait for as long as a block is ahead.
const EARLY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// An order to the writer, and the channel for the result.
pub(super) enum WriterCommand {
    Import {
        block: Box<Block>,
        origin: BlockOrigin,
        reply: Sender<Result<Imported, WriteError>>,
    },
    ImportMany {
        blocks: Vec<Arc<PreparedBlock>>,
        reply: Sender<Result<ImportedMany, WriteError>>,
    },
    ImportHeaders {
        headers: CheckedHeaders,
        reply: Sender<Result<ImportedHeaders, WriteError>>,
    },
    ForgetHeaders {
        hash: B256,
        reply: Sender<Result<(), WriteError>>,
    },
    SetHead {
        number: u64,
        reply: Sender<Result<Vec<BlockId>, WriteError>>,
    },
    Fill {
        blocks: Vec<FilledBlock>,
        reply: Sender<Result<ImportedMany, WriteError>>,
    },
    EndFetchedState {
        id: BlockId,
        reply: Sender<Result<(), WriteError>>,
    },
}

/// Imports a block at the given time of the clock, in unix seconds.
type ImportBlock = dyn Fn(&Block, u64) -> Result<Imported, ImportError> + Send;
/// Makes the canonical block with the given number the head. Returns the blocks that are no longer
/// canonical.
type SetHead = dyn Fn(u64) -> Result<Vec<BlockId>, ImportError> + Send;

/// The functions of the writer. Tests replace some of them.
pub(super) struct WriterJobs {
    /// In a node: [`Importer::import`](crate::import::Importer::import). See
    /// [`super::Chain::open`].
    pub(super) import: Box<ImportBlock>,
    /// Makes memory follow what an import did to the store. In a node:
    /// [`ChainInner::follow_import`].
    pub(super) follow: fn(&ChainInner, &Block, &Imported) -> Result<(), StoreError>,
    /// In a node: [`Importer::set_head`](crate::import::Importer::set_head).
    pub(super) set_head: Box<SetHead>,
    /// The clock, in unix seconds.
    pub(super) clock: Box<dyn Fn() -> u64 + Send>,
    /// The clock that the chain reads, too.
    pub(super) chain_clock: ChainClock,
    /// For everything else.
    pub(super) importer: Importer,
}

impl WriterJobs {
    /// The jobs of a node.
    pub(super) fn of(importer: &Importer) -> Self {
        let (blocks, heads) = (importer.clone(), importer.clone());
        let chain_clock = ChainClock::default();
        let clock = chain_clock.clone();
        Self {
            import: Box::new(move |block, now| blocks.import(block, Some(now))),
            follow: ChainInner::follow_import,
            set_head: Box::new(move |number| heads.set_head(number)),
            clock: Box::new(move || clock.now().as_secs()),
            chain_clock,
            importer: importer.clone(),
        }
    }
}

/// Blocks that the writer keeps.
#[derive(Default)]
struct KeptBlocks {
    unstored: UnstoredBlocks,
    early: EarlyBlocks,
}

impl ChainInner {
    /// Executes commands until all senders are gone or the chain has failed. After a failure of the
    /// store it also tries again what was left undone, at the latest after [`STORE_FAILURE_PAUSE`].
    pub(super) fn write_loop(&self, jobs: &WriterJobs, commands: &Receiver<WriterCommand>) {
        let mut kept = KeptBlocks::default();
        let mut retry_at: Option<Instant> = None;
        // After a long import, or with a store that was made before they were kept.
        if let Err(error) = jobs.importer.make_past_nodes() {
            tracing::warn!(%error, "the tries of recent states are not kept");
        }
        loop {
            self.stop_before_unknown_rules();
            let check_at = (!kept.early.is_empty()).then(|| Instant::now() + EARLY_CHECK_INTERVAL);
            let command = match [retry_at, check_at].into_iter().flatten().min() {
                // Asked for here, because the channel would give waiting commands first.
                Some(at) if at <= Instant::now() => Err(RecvTimeoutError::Timeout),
                Some(at) => commands.recv_deadline(at),
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let is_last = matches!(command, Err(RecvTimeoutError::Disconnected));
            // The work maker may have ended the chain meanwhile.
            if !self.has_failed() {
                self.catch_up_if_in_doubt(jobs);
            }
            while !self.has_failed()
                && let Some(due) = kept.early.take_due((jobs.clock)())
            {
                // The log has the result. Whoever gave the block was told that it waits.
                let _ = self.import_and_keep(jobs, due.block, due.origin, &mut kept.unstored);
            }
            if !self.has_failed() {
                match command {
                    Ok(command) => self.execute(jobs, command, &mut kept),
                    Err(_) if is_last || retry_at.is_some_and(|at| at <= Instant::now()) => {
                        retry_at = None;
                        self.retry_unstored(jobs, &mut kept.unstored);
                    }
                    Err(_) => {}
                }
            }
            if self.has_failed() {
                // No more commands are taken. Those that wait are dropped when this thread ends,
                // so whoever waits for a reply learns of the end.
                self.commands.lock().take();
                return kept.unstored.log_lost("the chain has ended");
            }
            if is_last {
                return kept.unstored.log_lost("the node stops");
            }
            let is_undone = !kept.unstored.is_empty() || self.is_in_doubt();
            retry_at = is_undone.then(|| retry_at.unwrap_or_else(|| Instant::now() + STORE_FAILURE_PAUSE));
        }
    }

    /// Executes a command. A sealed block that cannot be stored, and a block that is early, is
    /// added to `kept`.
    fn execute(&self, jobs: &WriterJobs, command: WriterCommand, kept: &mut KeptBlocks) {
        // A reply that nobody waits for any more is dropped; the work was done all the same.
        match command {
            WriterCommand::Import { block, origin, reply } => {
                let result = if block.header.timestamp > (jobs.clock)() {
                    self.keep_early(jobs, block, origin, &mut kept.early)
                } else {
                    self.import_and_keep(jobs, block, origin, &mut kept.unstored)
                };
                let _ = reply.send(result);
            }
            WriterCommand::ImportMany { blocks, reply } => {
                let _ = reply.send(Ok(self.import_many(jobs, &blocks)));
            }
            WriterCommand::ImportHeaders { headers, reply } => {
                let _ = reply.send(self.write_headers(jobs, |jobs| jobs.importer.import_headers(&headers)));
            }
            WriterCommand::ForgetHeaders { hash, reply } => {
                let _ = reply.send(self.write_headers(jobs, |jobs| jobs.importer.forget_headers(&hash)));
            }
            WriterCommand::SetHead { number, reply } => {
                let _ = reply.send(self.set_head_and_follow(jobs, number));
            }
            WriterCommand::Fill { blocks, reply } => {
                let _ = reply.send(Ok(self.fill(jobs, &blocks)));
            }
            WriterCommand::EndFetchedState { id, reply } => {
                let _ = reply.send(self.end_fetched_state(jobs, &id));
            }
        }
    }

    /// Imports a block. A sealed block that cannot be stored is added to `unstored`.
    fn import_and_keep(
        &self,
        jobs: &WriterJobs,
        block: Box<Block>,
        origin: BlockOrigin,
        unstored: &mut UnstoredBlocks,
    ) -> Result<Imported, WriteError> {
        let result = self.import_and_follow(jobs, &block, origin);
        if origin == BlockOrigin::Sealed
            && let Some(error) = store_failure(&result)
        {
            unstored.keep(block, error);
        }
        Ok(result?)
    }

    /// Checks the header of a block that is ahead of the clock, and keeps the block until its time
    /// has come.
    fn keep_early(
        &self,
        jobs: &WriterJobs,
        block: Box<Block>,
        origin: BlockOrigin,
        early: &mut EarlyBlocks,
    ) -> Result<Imported, WriteError> {
        let latest = (jobs.clock)().saturating_add(AHEAD_SECS_MAX);
        let waiting = early.header(&block.header.parent_hash);
        let check = || jobs.importer.check_early(&block, waiting, latest);
        let checked = catch_panic(check).unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        let (number, hash) = (block.header.number, block.hash());
        let is_known = checked.inspect_err(|refused| match refused.store_error() {
            None => tracing::warn!(number, %hash, error = %refused, "block refused"),
            Some(error) => self.handle_store_failure(format_args!("reading for block {number}"), error),
        })?;
        if is_known {
            return Ok(Imported::Known);
        }
        early.keep(block, origin)?;
        tracing::debug!(number, %hash, "a block is ahead of the clock and waits");
        Ok(Imported::Later)
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

    pub(super) fn import_and_follow(
        &self,
        jobs: &WriterJobs,
        block: &Block,
        origin: BlockOrigin,
    ) -> Result<Imported, ImportError> {
        let started = Instant::now();
        let (number, hash) = (block.header.number, block.hash());
        let transactions = block.transactions.len();
        let span = tracing::debug_span!("block", number, %hash, transactions, ?origin);
        let _entered = span.enter();
        let result = catch_panic(|| (jobs.import)(block, (jobs.clock)()));
        let result = result.unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        count_import(result.as_ref());
        match &result {
            Ok(imported) => {
                if origin == BlockOrigin::Sealed {
                    self.note_sealed(BlockId { number, hash }, imported);
                }
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
                self.put_in_doubt(Doubt::Block(&block.header));
            }
            Err(refused) => match refused.store_error() {
                None => {
                    tracing::warn!(number, %hash, error = %refused, "block refused");
                    if refused.is_invalid_block() {
                        self.bad_blocks.remember(block, hash, refused);
                    }
                    // The valid part of the branch may have become the head.
                    if self.has_head_moved() {
                        self.put_in_doubt(Doubt::Head);
                    }
                }
                Some(error) => {
                    self.handle_store_failure(format_args!("storing block {number}"), error);
                    // Only a part of a reorganization may be stored. If the pool stayed at the old
                    // head until the next attempt, nonces would be given twice.
                    if !self.has_failed() && self.has_head_moved() {
                        let followed = catch_panic(|| self.follow_other_writer());
                        self.check_followed_or_fail(format_args!("following the head"), followed);
                    }
                    self.put_in_doubt(Doubt::Block(&block.header));
                }
            },
        }
        result
    }

    /// Remembers a sealed block that is stored. If it did not become the head, tells those who
    /// spread it as an uncle.
    fn note_sealed(&self, id: BlockId, imported: &Imported) {
        let mut sealed = self.sealed_blocks.lock();
        if !sealed.contains(&id) {
            if sealed.len() == SEALED_BLOCKS_MAX {
                sealed.pop_front();
            }
            sealed.push_back(id);
        }
        drop(sealed);
        if *imported == Imported::Side {
            let mut subscribers = self.sealed_sides.lock();
            subscribers.retain(|to| !matches!(to.try_send(id), Err(TrySendError::Disconnected(_))));
        }
    }

    /// Lets pool and subscribers follow the head if they may be behind it: a commit can move the
    /// head and still report an error, and an earlier attempt to follow may have failed. A
    /// reorganization that was cut short goes on before.
    fn catch_up_if_in_doubt(&self, jobs: &WriterJobs) {
        if !self.is_in_doubt() {
            return;
        }
        let finished = catch_panic(|| jobs.importer.finish_open_reorganization());
        let finished = finished.unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        if let Err(error) = &finished {
            match error.store_error() {
                Some(error) => {
                    self.handle_store_failure(format_args!("going on with a reorganization"), error)
                }
                None => tracing::error!(%error, "a reorganization that was cut short does not go on"),
            }
        }
        if self.has_failed() {
            return;
        }
        let followed = catch_panic(|| self.catch_up());
        self.check_followed_or_fail(format_args!("following the head"), followed);
        // The head is one between two parts. Whoever goes on does not tell of the others.
        if finished.is_err() {
            self.put_in_doubt(Doubt::Head);
        }
    }

    /// Whether `followed` is a success. If not, logs the error. A final error or a panic ends the
    /// chain.
    pub(super) fn check_followed_or_fail(
        &self,
        what: Arguments<'_>,
        followed: Result<Result<(), StoreError>, PanicMessage>,
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
        tracing::error!(%error, "{what} failed; the node goes on, and a sealed block is kept");
        *self.store_failed_at.lock() = Some(Instant::now());
    }

    /// The rest of the time in which no work should be made; `None` if work can be made.
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

    /// Ends the chain if the block after the head follows rules that this program does not have.
    /// Nothing could be built or judged from there on.
    fn stop_before_unknown_rules(&self) {
        if self.spec.unsupported.is_none() || self.has_failed() {
            return;
        }
        // A store that fails is noticed by the next command.
        let head = self.store.snapshot().and_then(|snapshot| snapshot.head());
        let Ok(Some((head, _))) = head else { return };
        let next = head.saturating_add(1);
        if let Some(rules) = self.spec.unsupported_fork(next) {
            self.fail(format!(
                "block {next} follows the rules of `{rules}`, which this program does not have: \
                 a newer version is needed to go on"
            ));
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }
}

/// The store's error, if the import failed because of the store.
fn store_failure(result: &Result<Imported, ImportError>) -> Option<&StoreError> {
    result.as_ref().err()?.store_error()
}

/// Tells whoever records metrics what became of a block.
fn count_import(result: Result<&Imported, &ImportError>) {
    let (what, count) = match result {
        Ok(Imported::Head { reverted, applied }) => {
            if !reverted.is_empty() {
                measured::reorganized(reverted.len());
            }
            ("head", applied.len())
        }
        Ok(Imported::Side) => ("side", 1),
        Ok(Imported::Known) => ("known", 1),
        Ok(Imported::Later) => ("later", 1),
        Err(error) if error.is_invalid_block() => ("invalid", 1),
        Err(_) => ("refused", 1),
    };
    measured::blocks_came(what, count);
}

fn log_import(block: &Block, origin: BlockOrigin, imported: &Imported, took: Duration) {
    let header = &block.header;
    let (number, hash) = (header.number, block.hash());
    let (txs, gas, miner) = (block.transactions.len(), header.gas_used, header.beneficiary);
    let took_ms = took.as_secs_f64() * 1000.0;
    let what = match (origin, imported) {
        (_, Imported::Known | Imported::Later) => return,
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
