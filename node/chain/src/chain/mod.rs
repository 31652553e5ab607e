//! The running chain: one writer thread, a work maker, any number of readers.
//!
//! | thread | does | module |
//! |---|---|---|
//! | writer | imports blocks and headers | `writer`, `many`, `headers` |
//! | writer | sets the head back | `set_head` |
//! | anybody | makes a block on demand, on the development network | `make_block` |
//! | writer | keeps blocks that could not be stored, or are early | `unstored`, `early_blocks` |
//! | writer, afterwards | lets pool and subscribers follow the head | `follow` |
//! | work maker | builds unsealed blocks for the work manager | `work_maker` |
//! | pool maintenance | expires queued transactions, rewrites the journal | `pool_maintenance` |
//! | none | a handle of a chain that others write | `follower` |
//!
//! Blocks and orders reach the writer through a channel. Everyone else reads snapshots and waits
//! for no one. Handles of the chain are cheap to clone. When the last one is dropped, the threads
//! end.

mod bad_blocks;
mod early_blocks;
mod error;
mod fetch;
mod follow;
mod follower;
mod headers;
mod make_block;
mod many;
mod pending;
mod pool_maintenance;
mod set_head;
mod subscribers;
mod unstored;
mod work_maker;
mod writer;

pub use bad_blocks::BadBlock;
pub use early_blocks::{AHEAD_SECS_MAX, TooManyEarlyBlocks};
pub use error::{ChainOpenError, SubmitError, WriteError};
pub use make_block::{BlockOrder, MakeBlockError};
pub use many::ImportedMany;
pub use subscribers::HEAD_EVENTS_MAX;
pub use work_maker::RENEW_INTERVAL;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use ethash::Solution;
use parking_lot::{Mutex, RwLock};
use primitives::{Address, B256, Block, Bytes, Header, Transaction};
use store::{HeaderReads, Store, StoreError};

use crate::clock::{ChainClock, unix_now};
use crate::genesis::ensure_genesis;
use crate::import::{BlockId, ForkLimits, Imported, Importer, StateRetention};
use crate::measured;
use crate::mining::build::{BuildSettings, UnsealedBlock};
use crate::mining::pause::WorkPause;
use crate::mining::work::{SolutionError, WorkManager};
use crate::pool::{NextBlock, PoolConfig, PoolError, SenderState, TxPool};
use crate::recent::{RecentState, RecentStates};
use crate::rules::body::sender;
use crate::rules::seal::SealCheck;
use crate::spec::{ChainSpec, GAS_TARGET_DEFAULT};
use crate::state::StateError;
use crate::view::View;
use bad_blocks::BadBlockList;
use follow::{FollowState, UncleCandidates};
use pending::PendingBlock;
use subscribers::HeadSubscribers;
use writer::{WriterCommand, WriterJobs};

/// The most commands that wait for the writer.
const COMMANDS_MAX: usize = 256;
/// The most sealed blocks that wait for a reader of [`Chain::subscribe_sealed_sides`].
pub const SEALED_SIDES_MAX: usize = 16;
/// The most blocks that [`Chain::sealed_blocks`] remembers.
const SEALED_BLOCKS_MAX: usize = 256;

/// A change of the head.
#[derive(Clone, Debug)]
pub struct HeadEvent {
    /// Blocks that are no longer canonical, highest first.
    pub reverted: Vec<BlockId>,
    /// Blocks that became canonical, lowest first; the last one is the head. Empty if the head
    /// was set back.
    pub applied: Vec<BlockId>,
}

/// The origin of a block, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrigin {
    /// Made here: the work manager accepted a solution.
    Sealed,
    /// Given by someone who has it: a peer.
    Imported,
}

/// The settings of a chain.
#[derive(Clone, Debug)]
pub struct ChainConfig {
    /// The rules.
    pub spec: Arc<ChainSpec>,
    /// The mode in which seals are checked.
    pub seals: SealCheck,
    /// Limits of what is kept beside the canonical chain.
    pub forks: ForkLimits,
    /// Limits of the pool.
    pub pool: PoolConfig,
    /// The account that gets the rewards of blocks made here.
    pub beneficiary: Address,
    /// Extra data of blocks made here.
    pub extra_data: Bytes,
    /// Which past states are kept.
    pub states: StateRetention,
}

/// The part that handles and threads of a chain share.
struct ChainInner {
    store: Store,
    /// Serves what needs no writer: checks of headers, and the snapshot for readers.
    importer: Importer,
    spec: Arc<ChainSpec>,
    pool: TxPool,
    work: WorkManager,
    settings: Mutex<BuildSettings>,
    clock: ChainClock,
    /// Held while a block is made that somebody has asked for.
    making_block: Mutex<()>,
    /// The channel to the writer; `None` once the writer has ended.
    commands: Mutex<Option<Sender<WriterCommand>>>,
    subscribers: HeadSubscribers,
    /// The channels of sealed blocks that did not become the head.
    sealed_sides: Mutex<Vec<Sender<BlockId>>>,
    /// The last blocks that were sealed here, the newest last.
    sealed_blocks: Mutex<VecDeque<BlockId>>,
    uncle_candidates: Mutex<UncleCandidates>,
    bad_blocks: BadBlockList,
    pending: PendingBlock,
    recent_states: RecentStates,
    /// Keeps outdated sender states out of the pool. Whoever submits a transaction holds it shared
    /// from reading the sender's state until the transaction is in the pool. The pool holds it
    /// alone while it follows a new head.
    admission: RwLock<()>,
    /// Dropping the sender ends the pool's maintenance.
    pool_maintenance: Mutex<Option<Sender<Infallible>>>,
    /// The work that was published last is gone, and other work must be made: the work was
    /// withdrawn, or it was solved and its block was refused.
    work_lost: AtomicBool,
    /// The reason why no work is made, if there is one.
    work_pause: Mutex<Option<WorkPause>>,
    stopping: AtomicBool,
    /// Which head pool and subscribers have followed.
    follow_state: Mutex<FollowState>,
    /// The time at which the store last failed; `None` once a block was written after that.
    store_failed_at: Mutex<Option<Instant>>,
    /// The reason why no block can be taken any more; `None` while blocks can be taken.
    failure: Mutex<Option<String>>,
}

/// The channels from handles of a chain to its threads; none for threads that it does not have.
#[derive(Default)]
struct HandleChannels {
    commands: Option<Sender<WriterCommand>>,
    pool_maintenance: Option<Sender<Infallible>>,
}

/// A handle of the running chain.
#[derive(Clone)]
pub struct Chain {
    inner: Arc<ChainInner>,
    /// Ends the threads when the last handle is dropped.
    threads: Arc<ChainThreads>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("spec", &self.inner.spec.name)
            .finish_non_exhaustive()
    }
}

/// The chain's threads. Dropping it ends them and waits for them.
struct ChainThreads {
    inner: Arc<ChainInner>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl ChainThreads {
    fn new(inner: Arc<ChainInner>) -> Self {
        Self {
            inner,
            running: Mutex::default(),
        }
    }

    fn start(&self, name: &str, job: impl FnOnce(&ChainInner) + Send + 'static) -> std::io::Result<()> {
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || job(&inner))?;
        self.running.lock().push(thread);
        Ok(())
    }

    fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.commands.lock().take();
        self.inner.pool_maintenance.lock().take();
        self.inner.work.wake();
        for thread in self.running.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the chain ended by a panic");
            }
        }
    }
}

impl Drop for ChainThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Chain {
    /// Opens the chain in `store` and starts its threads. Writes block 0 if the store is empty.
    ///
    /// # Errors
    /// [`ChainOpenError`] if the store holds another chain or fails.
    pub fn open(store: Store, config: ChainConfig) -> Result<Self, ChainOpenError> {
        let importer = Importer::new(store.clone(), config.spec.clone(), config.seals.clone());
        let importer = importer.with_limits(config.forks.clone()).keeping(config.states);
        let jobs = WriterJobs::of(&importer);
        Self::start(store, config, jobs)
    }

    /// Opens the chain in `store` with a writer that does these jobs.
    fn start(store: Store, config: ChainConfig, jobs: WriterJobs) -> Result<Self, ChainOpenError> {
        ensure_genesis(&store, &config.spec)?;
        let open_reorganization = store.snapshot()?.open_reorganization()?;
        jobs.importer.finish_open_reorganization()?;
        let (sender, commands) = bounded(COMMANDS_MAX);
        let (pool_maintenance, stop_maintenance) = bounded(0);
        let channels = HandleChannels {
            commands: Some(sender),
            pool_maintenance: Some(pool_maintenance),
        };
        let inner = ChainInner::open(store, config, &jobs, channels)?;
        let threads = Arc::new(ChainThreads::new(inner.clone()));
        pool_maintenance::restore_journal(
            &inner.pool,
            inner.spec.tx_rules(),
            |transaction| inner.sender_of(transaction),
            |transaction, sender| inner.admit(transaction, sender),
        );
        if let Some(open) = open_reorganization {
            let (number, hash) = open.old_head;
            if let Err(error) = inner.follow_earlier_reorganization(BlockId { number, hash }) {
                tracing::error!(%error, number, %hash, "the transactions of the branch with this head do not return to the pool");
            }
        }
        threads.start("chain-writer", move |inner| inner.write_loop(&jobs, &commands))?;
        threads.start("work-maker", ChainInner::make_work_loop)?;
        threads.start("pool-maintain", move |inner| {
            pool_maintenance::maintain(&inner.pool, &stop_maintenance);
        })?;
        Ok(Self { inner, threads })
    }

    /// Ends the threads once the writer has finished its current command. Later imports fail;
    /// reads still work.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// The reason why no block can be taken any more; `None` while blocks can be taken. Reads work
    /// in both cases.
    pub fn failure(&self) -> Option<String> {
        self.inner.failure.lock().clone()
    }

    /// The rules.
    pub fn spec(&self) -> &Arc<ChainSpec> {
        &self.inner.spec
    }

    /// The chain as it is now.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn view(&self) -> Result<View, StoreError> {
        self.inner.view()
    }

    /// The state with this root, if it is that of one of the last
    /// [`KEPT_TRIES`](crate::import::KEPT_TRIES) canonical blocks and not of block 0.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn recent_state(&self, root: &B256) -> Result<Option<RecentState>, StoreError> {
        self.inner.recent_states.find(self.view()?, root)
    }

    /// The id in signatures of transactions in the next block; on an application chain that of
    /// wallets.
    pub fn chain_id(&self) -> u64 {
        self.inner.spec.wallet_chain_id(self.inner.pool.next_number())
    }

    /// The transaction pool.
    pub fn pool(&self) -> &TxPool {
        &self.inner.pool
    }

    /// Hands out mining work and takes solutions.
    pub fn work(&self) -> &WorkManager {
        &self.inner.work
    }

    /// Stops the making of work for a reason, or resumes it. While it is stopped, miners get none.
    /// Work that was handed out before can still be solved.
    pub fn pause_work(&self, reason: Option<WorkPause>) {
        let before = std::mem::replace(&mut *self.inner.work_pause.lock(), reason);
        if before.is_some() != reason.is_some() {
            self.inner.work.wake();
        }
    }

    /// The reason why no work is made, other than a failure of the store; `None` if it is made for
    /// those who want it.
    pub fn work_pause(&self) -> Option<WorkPause> {
        *self.inner.work_pause.lock()
    }

    /// The choices of this node for the blocks that it makes.
    pub fn settings(&self) -> BuildSettings {
        self.inner.settings.lock().clone()
    }

    /// Changes what this node chooses for the blocks that it makes, from the next work on.
    pub fn change_settings(&self, change: impl FnOnce(&mut BuildSettings)) {
        change(&mut self.inner.settings.lock());
    }

    /// A channel that carries every change of the head from now on. It ends if more than
    /// [`HEAD_EVENTS_MAX`] events wait in it.
    pub fn subscribe(&self) -> Receiver<Arc<HeadEvent>> {
        self.inner.subscribers.subscribe()
    }

    /// A channel that carries every block that was sealed here from now on and did not become the
    /// head. Others can pay for it as an uncle if they hear of it. It holds
    /// [`SEALED_SIDES_MAX`] blocks, and more are not told.
    pub fn subscribe_sealed_sides(&self) -> Receiver<BlockId> {
        let (sender, receiver) = bounded(SEALED_SIDES_MAX);
        self.inner.sealed_sides.lock().push(sender);
        receiver
    }

    /// The last blocks that were sealed here since the start, at most 256, the newest last. Not all
    /// of them need be canonical.
    pub fn sealed_blocks(&self) -> Vec<BlockId> {
        self.inner.sealed_blocks.lock().iter().copied().collect()
    }

    /// Takes a transaction into the pool. Returns its hash.
    ///
    /// # Errors
    /// [`SubmitError`] if the transaction is refused.
    pub fn submit_transaction(&self, transaction: Transaction) -> Result<B256, SubmitError> {
        let sender = self.inner.sender_of(&transaction);
        let result = sender.and_then(|sender| self.inner.admit(transaction, sender));
        measured::transaction_offered(result.is_ok());
        result
    }

    /// Checks a transaction as far as that is possible without its sender, see
    /// [`TxPool::check_without_sender`]. One that is refused counts as one that was offered.
    ///
    /// # Errors
    /// [`PoolError`] if [`Self::submit_transaction`] would refuse the transaction.
    pub fn check_without_sender(&self, transaction: &Transaction, hash: &B256) -> Result<(), PoolError> {
        let result = self.pool().check_without_sender(transaction, hash);
        if result.is_err() {
            measured::transaction_offered(false);
        }
        result
    }

    /// Takes a solution and imports the block that it seals.
    ///
    /// If the store fails, the writer keeps the sealed block and tries again to store it. The same
    /// solution may be submitted again then. If the block is stored by that time, the result is
    /// [`Imported::Known`].
    ///
    /// # Errors
    /// [`WriteError`] if the solution is not accepted, or the sealed block is refused.
    pub fn submit_solution(&self, solution: &Solution) -> Result<Imported, WriteError> {
        let accepted = self.inner.work.accept(solution);
        measured::solution(match &accepted {
            Ok(_) => "accepted",
            Err(SolutionError::UnknownWork(_)) => "unknown",
            Err(SolutionError::Solved(_)) => "solved",
            Err(SolutionError::Seal(_)) => "invalid",
        });
        let block = accepted?;
        let result = self.import_from(block, BlockOrigin::Sealed);
        if let Err(error) = &result {
            if matches!(error, WriteError::Import(refused) if !refused.is_invalid_block()) {
                self.inner.work.accept_again(solution);
            }
            self.inner.work_lost.store(true, Ordering::Release);
            self.inner.work.wake();
        }
        result
    }

    /// Imports a block of someone else, such as a new block of a peer.
    ///
    /// A block that is at most [`AHEAD_SECS_MAX`] ahead of the clock waits ([`Imported::Later`])
    /// and is imported when its time has come.
    ///
    /// # Errors
    /// [`WriteError`] if the block is refused. After an error of the store the block may be stored
    /// all the same; the next view shows it.
    pub fn import(&self, block: Block) -> Result<Imported, WriteError> {
        self.import_from(block, BlockOrigin::Imported)
    }

    fn import_from(&self, block: Block, origin: BlockOrigin) -> Result<Imported, WriteError> {
        let block = Box::new(block);
        self.command(|reply| WriterCommand::Import { block, origin, reply })
    }

    /// Sends a command to the writer and waits for the reply.
    fn command<T>(
        &self,
        command: impl FnOnce(Sender<Result<T, WriteError>>) -> WriterCommand,
    ) -> Result<T, WriteError> {
        let (reply, answer) = bounded(1);
        let ended = || self.failure().map_or(WriteError::Stopping, WriteError::Failed);
        let commands = self.inner.commands.lock().clone().ok_or_else(ended)?;
        commands.send(command(reply)).map_err(|_| ended())?;
        // Dropped, so that the channel can end while this waits.
        drop(commands);
        answer.recv().map_err(|_| ended())?
    }

    /// The pending block on the head of `view`. It is built from the pool and kept until head,
    /// pool, uncle candidates or settings change. If others ask at the same time, it may be built
    /// from what is there a moment later.
    ///
    /// # Errors
    /// [`StateError`] if the store fails.
    pub fn pending(&self, view: &View) -> Result<Arc<UnsealedBlock>, StateError> {
        let build = || {
            let timestamp = self.now().as_secs().max(view.head().header.timestamp + 1);
            self.inner.build_block(view, timestamp)
        };
        self.inner
            .pending
            .get(|| self.inner.build_inputs(view.head_hash()), build)
    }
}

/// The facts that the pool must know about the block after `head`.
fn next_block(spec: &ChainSpec, head: &Header, settings: &BuildSettings) -> NextBlock {
    let gas_limit = settings.next_gas_limit(spec, head.gas_limit);
    NextBlock {
        number: head.number + 1,
        gas_limit,
    }
}

/// The state of the account `address` at the head of `view`.
fn sender_state(view: &View, address: &Address) -> Result<SenderState, StoreError> {
    let account = view.account(address, view.head_number())?.unwrap_or_default();
    Ok(SenderState {
        tx_nonce: account.tx_nonce,
        balance: account.balance,
    })
}

impl ChainInner {
    /// The shared part of the chain in `store`, which has block 0.
    fn open(
        store: Store,
        config: ChainConfig,
        jobs: &WriterJobs,
        channels: HandleChannels,
    ) -> Result<Arc<Self>, StoreError> {
        let view = View::new(&store, config.spec.clone())?;
        let settings = BuildSettings {
            beneficiary: config.beneficiary,
            extra_data: config.extra_data,
            gas_target: GAS_TARGET_DEFAULT,
            gas_limit: None,
        };
        let next = next_block(&config.spec, &view.head().header, &settings);
        let (clock, head_time) = (jobs.chain_clock.clone(), view.head().header.timestamp);
        if config.spec.developer && head_time > unix_now().as_secs() {
            // The clock was moved when the head was made.
            clock.set_now(head_time);
        }
        Ok(Arc::new(Self {
            pool: TxPool::new(config.spec.clone(), config.pool, next),
            work: WorkManager::new(config.spec.clone(), config.seals),
            settings: Mutex::new(settings),
            clock,
            making_block: Mutex::default(),
            commands: Mutex::new(channels.commands),
            subscribers: HeadSubscribers::default(),
            sealed_sides: Mutex::default(),
            sealed_blocks: Mutex::default(),
            uncle_candidates: Mutex::default(),
            bad_blocks: BadBlockList::default(),
            pending: PendingBlock::default(),
            recent_states: RecentStates::default(),
            admission: RwLock::default(),
            pool_maintenance: Mutex::new(channels.pool_maintenance),
            work_lost: AtomicBool::new(false),
            work_pause: Mutex::default(),
            stopping: AtomicBool::new(false),
            follow_state: Mutex::new(FollowState::new(view.head_id())),
            store_failed_at: Mutex::default(),
            failure: Mutex::default(),
            spec: config.spec,
            importer: jobs.importer.clone(),
            store,
        }))
    }

    /// The chain as it is now.
    fn view(&self) -> Result<View, StoreError> {
        let snapshot = self.importer.reader_hold().snapshot(&self.store)?;
        View::of(snapshot, self.spec.clone())
    }

    /// The sender of a transaction that the pool does not have.
    fn sender_of(&self, transaction: &Transaction) -> Result<Address, SubmitError> {
        let hash = transaction.hash();
        if self.pool.contains(&hash) {
            // Comes first, because recovering the sender costs more than everything else.
            return Err(PoolError::Known(hash).into());
        }
        Ok(sender(&self.spec, self.pool.next_number(), transaction)?)
    }

    /// Takes a transaction of `sender` into the pool.
    fn admit(&self, transaction: Transaction, sender: Address) -> Result<B256, SubmitError> {
        let _admission = self.admission.read();
        let view = self.view()?;
        view.require_state(view.head_number())?;
        let state = sender_state(&view, &sender)?;
        Ok(self.pool.add(transaction, sender, state)?)
    }
}
