//! The means of contract developers on a node of the development network: blocks at once or at
//! intervals, the time of the next block, snapshots, and accounts without keys.
//!
//! Blocks and accounts are changed by the package `chain`. This module remembers what was asked
//! for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chain::chain::{BlockOrder, MakeBlockError, WriteError};
use chain::developer::DeveloperChange;
use chain::import::BlockId;
use chain::spec::DEV_ACCOUNTS;
use chain::state::StateError;
use chain::{Chain, View};
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use primitives::Address;

use crate::error::{RpcError, failure};

/// The most snapshots that are kept. The oldest ones are dropped.
const SNAPSHOTS_MAX: usize = 10_000;
/// The most accounts without keys.
const IMPERSONATED_MAX: usize = 10_000;

/// The id of the development network that Gnosis Chain has, too.
const SHARED_CHAIN_ID: u64 = 100;
/// The most senders that are warned of.
const WARNED_MAX: usize = 100;

/// The state of the developer's switches. Clones share it.
#[derive(Clone)]
pub struct Developer {
    chain: Chain,
    state: Arc<Mutex<DeveloperState>>,
}

#[derive(Default)]
struct DeveloperState {
    /// Each transaction gets a block as soon as it is in the pool.
    automine: bool,
    /// The timestamp of the next block.
    next_timestamp: Option<u64>,
    /// By number, in rising order.
    snapshots: Vec<(u64, ChainMark)>,
    next_snapshot: u64,
    impersonated: BTreeSet<Address>,
    /// Every account may send without a key.
    impersonates_all: bool,
    /// The senders that were warned of [`SHARED_CHAIN_ID`].
    warned: BTreeSet<Address>,
    /// The chain begins with a block of the present time.
    has_present_head: bool,
    /// Dropping the sender ends the thread that makes blocks at intervals.
    interval: Option<Sender<()>>,
}

/// The state of the chain to which a snapshot leads back.
#[derive(Clone, Copy)]
struct ChainMark {
    head: BlockId,
    clock_ahead: i64,
}

/// The reason why a block was not made, or the chain was not set back.
#[derive(Debug, thiserror::Error)]
pub enum DeveloperError {
    /// The block was not made.
    #[error(transparent)]
    Block(#[from] MakeBlockError),
    /// The chain was not set back.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The chain cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// There are too many accounts without keys.
    #[error("accounts without keys: got more than {IMPERSONATED_MAX}")]
    TooManyAccounts,
    /// No thread for blocks at intervals can be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl DeveloperError {
    /// The error for the caller.
    pub(crate) fn into_rpc(self) -> RpcError {
        match self {
            Self::State(error) | Self::Block(MakeBlockError::State(error)) => failure(error),
            Self::Block(MakeBlockError::Write(WriteError::Import(error)))
            | Self::Write(WriteError::Import(error))
                if error.store_error().is_some() =>
            {
                failure(error)
            }
            error => RpcError::refused_by(error),
        }
    }
}

impl Developer {
    /// Nothing is switched on yet but, perhaps, blocks at once.
    pub(crate) fn new(chain: Chain, automine: bool) -> Self {
        let state = DeveloperState {
            automine,
            next_snapshot: 1,
            ..DeveloperState::default()
        };
        Self {
            chain,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Whether each transaction gets a block at once.
    pub(crate) fn automine(&self) -> bool {
        self.state.lock().automine
    }

    /// Switches blocks at once on or off.
    pub(crate) fn set_automine(&self, automine: bool) {
        self.state.lock().automine = automine;
    }

    /// Makes a block from the pool. `timestamp` overrides the time that was set for the next block.
    ///
    /// # Errors
    /// [`DeveloperError::Block`] if it is not made.
    pub fn mine(&self, timestamp: Option<u64>) -> Result<BlockId, DeveloperError> {
        self.make(BlockOrder {
            timestamp,
            ..BlockOrder::default()
        })
    }

    /// Changes an account, in a block of its own.
    ///
    /// # Errors
    /// [`DeveloperError::Block`] if it is not made.
    pub fn change(&self, change: DeveloperChange) -> Result<BlockId, DeveloperError> {
        self.make(BlockOrder {
            change: Some(change),
            ..BlockOrder::default()
        })
    }

    /// Sets the gas limit from the next block on, which is made at once.
    ///
    /// # Errors
    /// [`DeveloperError::Block`] if it is not made.
    pub(crate) fn set_gas_limit(&self, gas_limit: u64) -> Result<BlockId, DeveloperError> {
        self.make(BlockOrder {
            gas_limit: Some(gas_limit),
            ..BlockOrder::default()
        })
    }

    fn view(&self) -> Result<View, DeveloperError> {
        Ok(self.chain.view().map_err(StateError)?)
    }

    fn make(&self, order: BlockOrder) -> Result<BlockId, DeveloperError> {
        // The time that was set is for the next block with transactions.
        let timestamp = match (order.timestamp, &order.change, order.gas_limit) {
            (None, None, None) => self.state.lock().next_timestamp.take(),
            (timestamp, _, _) => timestamp,
        };
        Ok(self.chain.make_block(BlockOrder { timestamp, ..order })?)
    }

    /// Makes a block if blocks at once are switched on. Called after a transaction was put into the
    /// pool.
    ///
    /// # Errors
    /// [`DeveloperError::Block`] if it is not made.
    pub(crate) fn mine_at_once(&self) -> Result<(), DeveloperError> {
        if self.automine() {
            self.mine(None)?;
        }
        Ok(())
    }

    /// Moves the clock. Returns the seconds by which it is ahead of the system's clock.
    pub(crate) fn increase_time(&self, seconds: u64) -> i64 {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let ahead = self.chain.clock_ahead().saturating_add(seconds);
        self.chain.set_clock_ahead(ahead);
        ahead
    }

    /// Sets the timestamp of the next block.
    ///
    /// # Errors
    /// [`DeveloperError::Block`] if it is not above that of the head.
    pub(crate) fn set_next_timestamp(&self, timestamp: u64) -> Result<(), DeveloperError> {
        let head = self.view()?.head().header.timestamp;
        if timestamp <= head {
            let got = timestamp;
            return Err(MakeBlockError::Timestamp { got, head }.into());
        }
        self.state.lock().next_timestamp = Some(timestamp);
        Ok(())
    }

    /// Remembers where the chain is. Returns the number to go back by.
    ///
    /// # Errors
    /// [`DeveloperError::State`] if the chain cannot be read.
    pub fn snapshot(&self) -> Result<u64, DeveloperError> {
        let mark = ChainMark {
            head: self.view()?.head_id(),
            clock_ahead: self.chain.clock_ahead(),
        };
        let mut state = self.state.lock();
        let id = state.next_snapshot;
        state.next_snapshot += 1;
        state.snapshots.push((id, mark));
        if state.snapshots.len() > SNAPSHOTS_MAX {
            state.snapshots.remove(0);
        }
        Ok(id)
    }

    /// Goes back to a snapshot. It and all later ones are gone afterwards. Transactions in the pool
    /// stay there. Returns `false` if there
    /// is no such snapshot, or its block is not canonical any more.
    ///
    /// # Errors
    /// [`DeveloperError`] if the chain is not set back.
    pub fn revert(&self, id: u64) -> Result<bool, DeveloperError> {
        let mark = {
            let mut state = self.state.lock();
            let Some(place) = state.snapshots.iter().position(|(own, _)| *own == id) else {
                return Ok(false);
            };
            let mark = state.snapshots[place].1;
            state.snapshots.truncate(place);
            state.next_timestamp = None;
            mark
        };
        let canonical = self
            .view()?
            .canonical_hash(mark.head.number)
            .map_err(StateError)?;
        if canonical != Some(mark.head.hash) {
            return Ok(false);
        }
        self.chain.set_head(mark.head.number)?;
        self.chain.set_clock_ahead(mark.clock_ahead);
        Ok(true)
    }

    /// Goes back to block 0, with an empty pool and the system's clock. Snapshots, accounts without
    /// keys and the time of the next block are forgotten, and blocks at once stay as they are.
    ///
    /// # Errors
    /// [`DeveloperError`] if the chain is not set back.
    pub(crate) fn reset(&self) -> Result<(), DeveloperError> {
        self.set_interval(Duration::ZERO)?;
        let has_present_head = {
            let mut state = self.state.lock();
            state.next_timestamp = None;
            state.snapshots.clear();
            state.impersonated.clear();
            state.impersonates_all = false;
            state.has_present_head
        };
        self.chain.pool().clear();
        self.chain.change_settings(|settings| settings.gas_limit = None);
        self.chain.set_head(0)?;
        self.chain.set_clock_ahead(0);
        if has_present_head {
            self.mine(None)?;
        }
        Ok(())
    }

    /// Remembers that the chain begins with a block of the present time.
    pub(crate) fn set_present_head(&self) {
        self.state.lock().has_present_head = true;
    }

    /// Whether an account may send without a key.
    pub(crate) fn impersonates(&self, address: &Address) -> bool {
        let state = self.state.lock();
        state.impersonates_all || state.impersonated.contains(address)
    }

    /// The accounts that were named to send without a key, sorted.
    pub(crate) fn impersonated(&self) -> Vec<Address> {
        self.state.lock().impersonated.iter().copied().collect()
    }

    /// Warns if `sender` signs for a chain id that another chain has, too, with a key that somebody
    /// may use there. Called for each transaction that was taken into the pool.
    pub(crate) fn warn_of_replays(&self, sender: Address) {
        let chain_id = self.chain.chain_id();
        let is_known = self.impersonates(&sender) || DEV_ACCOUNTS.iter().any(|(known, _)| *known == sender);
        if chain_id != SHARED_CHAIN_ID || is_known {
            return;
        }
        let mut state = self.state.lock();
        if state.warned.len() < WARNED_MAX && state.warned.insert(sender) {
            tracing::warn!(
                sender = %format_args!("{sender:#x}"),
                "a transaction is signed for chain id {chain_id}, which Gnosis Chain has, too: if this account has \
                 coins there, anybody can send the transaction there. --dev.chainid N gives a new chain another id"
            );
        }
    }

    /// Lets an account send without a key, or no longer.
    ///
    /// # Errors
    /// [`DeveloperError::TooManyAccounts`] if too many may.
    pub(crate) fn set_impersonated(&self, address: Address, on: bool) -> Result<(), DeveloperError> {
        let mut state = self.state.lock();
        if !on {
            state.impersonated.remove(&address);
            return Ok(());
        }
        if state.impersonated.len() >= IMPERSONATED_MAX {
            return Err(DeveloperError::TooManyAccounts);
        }
        state.impersonated.insert(address);
        Ok(())
    }

    /// Lets every account send without a key, or no longer.
    pub(crate) fn set_impersonates_all(&self, on: bool) {
        self.state.lock().impersonates_all = on;
    }

    /// Makes a block each time the interval has passed; zero makes none any more.
    ///
    /// # Errors
    /// [`DeveloperError::Thread`] if no thread can be started.
    pub(crate) fn set_interval(&self, interval: Duration) -> Result<(), DeveloperError> {
        // The thread before ends when its sender is dropped.
        self.state.lock().interval = None;
        if interval.is_zero() {
            return Ok(());
        }
        let (sender, stop) = bounded(0);
        // The thread has the chain, but not what holds its sender.
        let chain = self.chain.clone();
        let state = Arc::downgrade(&self.state);
        std::thread::Builder::new()
            .name("block-interval".to_owned())
            .spawn(move || {
                while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    let Some(state) = state.upgrade() else { return };
                    let developer = Self {
                        chain: chain.clone(),
                        state,
                    };
                    if let Err(error) = developer.mine(None) {
                        tracing::warn!(%error, "no block was made at the interval");
                    }
                }
            })?;
        self.state.lock().interval = Some(sender);
        Ok(())
    }
}

impl std::fmt::Debug for Developer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Developer").finish_non_exhaustive()
    }
}
