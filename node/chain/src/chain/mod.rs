//! The running chain: one writer thread, one work maker, any number of readers.
//!
//! The writer owns import and takes blocks by channel; the maker keeps the work desk
//! supplied; a keeper looks after the pool; everyone else reads snapshots. Handles are cheap
//! to clone; when the last one is dropped the threads end.

mod bad_blocks;
mod follow;
mod pool_keeper;
mod set_head;
mod writer;

pub use bad_blocks::BadBlock;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ethash::Solution;
use parking_lot::{Mutex, RwLock};
use primitives::{Address, B256, Block, Bytes, Header, Transaction};
use store::{BlockReads, Store, StoreError};

use crate::genesis::{GenesisError, ensure_genesis};
use crate::import::{BlockId, ImportError, Imported, Importer};
use crate::mining::build::{BuildSettings, Draft, build};
use crate::mining::desk::{SolutionError, Work, WorkDesk};
use crate::pool::{NextBlock, Origin, PoolConfig, PoolError, Standing, TxPool};
use crate::rules::body::{SealCheck, SenderError, sender};
use crate::rules::next_gas_limit;
use crate::spec::{ChainSpec, GAS_TARGET_DEFAULT};
use crate::state::StateError;
use crate::view::View;
use bad_blocks::BadBlocks;
use follow::{Followed, Uncles};
use writer::{Jobs, contained};

/// Work is renewed for better transactions at most this often.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(2);
/// Blocks that may wait for the writer.
const COMMANDS_MAX: usize = 256;

/// A change of the head.
#[derive(Clone, Debug)]
pub struct HeadEvent {
    /// Blocks that are canonical no more, highest first.
    pub reverted: Vec<BlockId>,
    /// Blocks that became canonical, lowest first; the last is the head. None where the head was
    /// only set back.
    pub applied: Vec<BlockId>,
}

/// Where a block came from; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrigin {
    /// A solution taken at the work desk.
    Sealed,
    /// Given by someone who has it.
    Imported,
}

/// Why the chain cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store holds another chain, or fails.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a transaction was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// It has no sender on this chain.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// The pool refuses it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a block or solution did not get in.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The solution is not accepted.
    #[error(transparent)]
    Solution(#[from] SolutionError),
    /// The block is refused.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The head cannot be set to a block above it.
    #[error("block {got} is above the head block {head}")]
    AboveHead {
        /// The number asked for.
        got: u64,
        /// The head's.
        head: u64,
    },
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
    /// No block can be taken any more.
    #[error("no more blocks can be taken: {0}")]
    Failed(String),
}

/// How to run a chain.
#[derive(Clone, Debug)]
pub struct ChainConfig {
    /// The rules.
    pub spec: Arc<ChainSpec>,
    /// How seals are checked.
    pub seals: SealCheck,
    /// Limits of the pool.
    pub pool: PoolConfig,
    /// Who is paid for blocks made here.
    pub beneficiary: Address,
    /// Extra data of blocks made here.
    pub extra_data: Bytes,
}

/// What the writer is to do, and who waits for the answer.
enum Command {
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

/// What a block was built for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BuiltFor {
    head: B256,
    /// The pool's.
    generation: u64,
    /// How many possible uncles had come by then.
    uncles: u64,
    settings: BuildSettings,
}

struct Inner {
    store: Store,
    spec: Arc<ChainSpec>,
    pool: TxPool,
    desk: WorkDesk,
    settings: Mutex<BuildSettings>,
    commands: Mutex<Option<Sender<Command>>>,
    subscribers: Mutex<Vec<Sender<Arc<HeadEvent>>>>,
    /// Recent side blocks.
    uncles: Mutex<Uncles>,
    /// Refused lately, for those who ask.
    bad_blocks: BadBlocks,
    /// The pending block with the head and pool it was built for.
    pending: Mutex<Option<(BuiltFor, Arc<Draft>)>>,
    /// Held by whoever brings a transaction from reading its sender's standing until it is
    /// in the pool, and alone by the pool's following a head: no standing gets in outdated.
    admission: RwLock<()>,
    /// Dropped to end the keeper.
    keeping: Mutex<Option<Sender<Infallible>>>,
    /// The present work was solved, but its block got refused: there must be other work.
    refused: AtomicBool,
    stopping: AtomicBool,
    /// The heads that pool and subscribers have followed.
    followed: Mutex<Followed>,
    /// When the store last failed, unless a block has got in since.
    trouble: Mutex<Option<Instant>>,
    /// Why no block can be taken any more.
    failure: Mutex<Option<String>>,
}

/// A handle of the running chain.
#[derive(Clone)]
pub struct Chain {
    inner: Arc<Inner>,
    /// Ends the threads when the last handle goes.
    _threads: Arc<Threads>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("spec", &self.inner.spec.name)
            .finish_non_exhaustive()
    }
}

struct Threads {
    inner: Arc<Inner>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.commands.lock().take();
        self.inner.keeping.lock().take();
        self.inner.desk.wake();
        for thread in self.running.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the chain ended by a panic");
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The clock, in unix seconds.
fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Chain {
    /// Opens the chain in `store`, writing block 0 where the store is empty, and starts its threads.
    ///
    /// # Errors
    /// [`OpenError`] when the store holds another chain or fails.
    pub fn open(store: Store, config: ChainConfig) -> Result<Self, OpenError> {
        let importer = Importer::new(store.clone(), config.spec.clone(), config.seals.clone());
        let taker = importer.clone();
        let jobs = Jobs {
            take: Box::new(move |block, now| taker.import(block, Some(now))),
            follow: Inner::follow,
            set_head: Box::new(move |number| importer.set_head(number)),
        };
        Self::start(store, config, jobs)
    }

    /// Opens the chain in `store`, whose writer has these jobs.
    fn start(store: Store, config: ChainConfig, jobs: Jobs) -> Result<Self, OpenError> {
        ensure_genesis(&store, &config.spec)?;
        let view = View::new(&store, config.spec.clone())?;
        let settings = BuildSettings {
            beneficiary: config.beneficiary,
            extra_data: config.extra_data,
            gas_target: GAS_TARGET_DEFAULT,
        };
        let next = next_block(&config.spec, &view.head().header, &settings);
        let (sender, commands) = bounded(COMMANDS_MAX);
        let (keeping, kept) = bounded(0);
        let inner = Arc::new(Inner {
            pool: TxPool::new(config.spec.clone(), config.pool, next),
            desk: WorkDesk::new(config.spec.clone(), config.seals.clone()),
            settings: Mutex::new(settings),
            commands: Mutex::new(Some(sender)),
            subscribers: Mutex::default(),
            uncles: Mutex::default(),
            bad_blocks: BadBlocks::default(),
            pending: Mutex::default(),
            admission: RwLock::default(),
            keeping: Mutex::new(Some(keeping)),
            refused: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            followed: Mutex::new(Followed::new(view.head_id())),
            trouble: Mutex::default(),
            failure: Mutex::default(),
            spec: config.spec,
            store,
        });
        let threads = Arc::new(Threads {
            inner: inner.clone(),
            running: Mutex::default(),
        });
        let submit = |transaction| inner.submit(transaction, Origin::Local);
        pool_keeper::restore(&inner.pool, inner.spec.tx_rules(), submit);
        let writer = {
            let inner = inner.clone();
            std::thread::Builder::new()
                .name("chain-writer".to_owned())
                .spawn(move || inner.write_loop(&jobs, &commands))?
        };
        threads.running.lock().push(writer);
        let maker = {
            let inner = inner.clone();
            std::thread::Builder::new()
                .name("work-maker".to_owned())
                .spawn(move || inner.make_loop())?
        };
        threads.running.lock().push(maker);
        let keeper = {
            let inner = inner.clone();
            std::thread::Builder::new()
                .name("pool-keeper".to_owned())
                .spawn(move || pool_keeper::keep(&inner.pool, &kept))?
        };
        threads.running.lock().push(keeper);
        Ok(Self {
            inner,
            _threads: threads,
        })
    }

    /// Ends the threads after the block in hand. Later imports fail, reads go on.
    pub fn stop(&self) {
        self._threads.stop();
    }

    /// Why no block can be taken any more; `None` while they can. Reads go on.
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
    /// [`StoreError`] when the store fails.
    pub fn view(&self) -> Result<View, StoreError> {
        View::new(&self.inner.store, self.inner.spec.clone())
    }

    /// The transaction pool.
    pub fn pool(&self) -> &TxPool {
        &self.inner.pool
    }

    /// The work desk.
    pub fn desk(&self) -> &WorkDesk {
        &self.inner.desk
    }

    /// What this node chooses about blocks it makes.
    pub fn settings(&self) -> BuildSettings {
        self.inner.settings.lock().clone()
    }

    /// Changes what this node chooses about blocks it makes; the next work has it.
    pub fn change_settings(&self, change: impl FnOnce(&mut BuildSettings)) {
        change(&mut self.inner.settings.lock());
    }

    /// Changes of the head from now on.
    pub fn subscribe(&self) -> Receiver<Arc<HeadEvent>> {
        let (sender, receiver) = unbounded();
        self.inner.subscribers.lock().push(sender);
        receiver
    }

    /// Takes a transaction into the pool.
    ///
    /// # Errors
    /// [`SubmitError`] saying why not.
    pub fn submit_transaction(&self, transaction: Transaction, origin: Origin) -> Result<B256, SubmitError> {
        self.inner.submit(transaction, origin)
    }

    /// Takes a solution; on success its block has been imported.
    ///
    /// # Errors
    /// [`WriteError`] when it is not accepted or, after that, its block is refused.
    pub fn submit_solution(&self, solution: &Solution) -> Result<Imported, WriteError> {
        let block = self.inner.desk.accept(solution)?;
        let result = self.send(block, BlockOrigin::Sealed);
        if result.is_err() {
            self.inner.refused.store(true, Ordering::Release);
            self.inner.desk.wake();
        }
        result
    }

    /// Imports a block.
    ///
    /// # Errors
    /// [`WriteError`] when it is refused.
    pub fn import(&self, block: Block) -> Result<Imported, WriteError> {
        self.send(block, BlockOrigin::Imported)
    }

    fn send(&self, block: Block, origin: BlockOrigin) -> Result<Imported, WriteError> {
        let block = Box::new(block);
        self.command(|reply| Command::Import { block, origin, reply })
    }

    /// Has the writer do something and waits for it.
    fn command<T>(
        &self,
        command: impl FnOnce(Sender<Result<T, WriteError>>) -> Command,
    ) -> Result<T, WriteError> {
        let (reply, answer) = bounded(1);
        let ended = || self.failure().map_or(WriteError::Stopping, WriteError::Failed);
        let commands = self.inner.commands.lock().clone().ok_or_else(ended)?;
        commands.send(command(reply)).map_err(|_| ended())?;
        drop(commands);
        answer.recv().map_err(|_| ended())?
    }

    /// The pending block over the head of `view`: built from the pool, and kept until head
    /// or pool change.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn pending(&self, view: &View) -> Result<Arc<Draft>, StateError> {
        let key = self.inner.built_for(view.head_hash());
        if let Some((built_for, draft)) = &*self.inner.pending.lock()
            && *built_for == key
        {
            return Ok(draft.clone());
        }
        let timestamp = unix_now().as_secs().max(view.head().header.timestamp + 1);
        let draft = Arc::new(self.inner.draft(view, timestamp)?);
        *self.inner.pending.lock() = Some((key, draft.clone()));
        Ok(draft)
    }
}

/// What the pool must know of the block after `head`.
fn next_block(spec: &ChainSpec, head: &Header, settings: &BuildSettings) -> NextBlock {
    let gas_limit = next_gas_limit(spec, head.gas_limit, settings.gas_target);
    NextBlock {
        number: head.number + 1,
        gas_limit,
    }
}

fn standing(view: &View, address: &Address) -> Result<Standing, StoreError> {
    let account = view.account(address, view.head_number())?.unwrap_or_default();
    Ok(Standing {
        tx_nonce: account.tx_nonce,
        balance: account.balance,
    })
}

impl Inner {
    fn submit(&self, transaction: Transaction, origin: Origin) -> Result<B256, SubmitError> {
        let hash = transaction.hash();
        if self.pool.contains(&hash) {
            // Before the sender is recovered, which costs more than all the rest.
            return Err(PoolError::Known(hash).into());
        }
        let sender = sender(&self.spec, self.pool.next_number(), &transaction)?;
        let _admission = self.admission.read();
        let view = View::new(&self.store, self.spec.clone())?;
        let standing = standing(&view, &sender)?;
        Ok(self.pool.add(transaction, sender, standing, origin)?)
    }

    fn draft(&self, view: &View, timestamp: u64) -> Result<Draft, StateError> {
        let settings = self.settings.lock().clone();
        let uncles = self.uncles.lock().headers.clone();
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

    /// Keeps the desk supplied while somebody wants work.
    fn make_loop(&self) {
        /// How long to wait where nothing is to be done.
        const IDLE: Duration = Duration::from_millis(500);
        /// How often to look for better transactions.
        const LOOK: Duration = Duration::from_millis(250);
        let mut made: Option<(BuiltFor, Instant)> = None;
        let mut seen = 0;
        while !self.stopping.load(Ordering::Acquire) {
            if !self.desk.active() {
                self.desk.publish(None);
                made = None;
                self.desk.wait_demand(&mut seen, IDLE);
                continue;
            }
            if self.refused.swap(false, Ordering::AcqRel) {
                made = None;
            }
            if self.trouble_left().is_some() {
                // A block found now could not be kept. Asked often, so as to end in time.
                self.desk.publish(None);
                made = None;
                self.desk.wait_demand(&mut seen, LOOK);
                continue;
            }
            match contained(|| self.make(&mut made)) {
                Ok(Ok(pause)) => self.desk.wait_demand(&mut seen, pause.min(LOOK)),
                Ok(Err(StateError(error))) if error.is_final() => {
                    self.fail(format!("the store cannot be read: {error}"));
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "no work can be made");
                    self.desk.wait_demand(&mut seen, IDLE);
                }
                Err(words) => {
                    tracing::error!(words, "making work panicked");
                    self.desk.wait_demand(&mut seen, IDLE);
                }
            }
        }
        self.desk.publish(None);
    }

    fn built_for(&self, head: B256) -> BuiltFor {
        BuiltFor {
            head,
            generation: self.pool.generation(),
            uncles: self.uncles.lock().come,
            settings: self.settings.lock().clone(),
        }
    }

    /// Makes work where head, pool, uncles or settings call for it; says how long that holds.
    fn make(&self, made: &mut Option<(BuiltFor, Instant)>) -> Result<Duration, StateError> {
        let view = View::new(&self.store, self.spec.clone())?;
        let built_for = self.built_for(view.head_hash());
        if let Some((before, at)) = made {
            let renew = *before != built_for && at.elapsed() >= RENEW_INTERVAL;
            if before.head == built_for.head && !renew {
                return Ok(RENEW_INTERVAL);
            }
        }
        // No block may be ahead of the clock: the next one can be begun a second after the head.
        let earliest = Duration::from_secs(view.head().header.timestamp + 1);
        let now = unix_now();
        if now < earliest {
            return Ok(earliest - now);
        }
        let draft = self.draft(&view, now.as_secs())?;
        // The head may have moved meanwhile; then this work is stale and the next round makes another.
        if self.store.snapshot()?.head()?.map(|(_, hash)| hash) == Some(built_for.head)
            && self.desk.publish(Some(Work::new(&self.spec, Arc::new(draft))))
        {
            *made = Some((built_for, Instant::now()));
        }
        Ok(RENEW_INTERVAL)
    }
}
