//! The settings of the pool and their defaults. What they do is in [`limits`](super::limits) and
//! [`journal`](super::journal).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use primitives::{Address, U256};

/// Lowest gas price that is accepted from remote accounts, in sha.
pub const PRICE_FLOOR_DEFAULT: u64 = 1_000_000_000;
/// Lowest gas price that a mining node accepts from remote accounts, in sha.
pub const PRICE_FLOOR_MINING: u64 = 18_000_000_000;
/// Percent by which the gas price of a replacement must be higher.
pub const PRICE_BUMP_PERCENT_DEFAULT: u64 = 10;
/// Pending transactions that each account is guaranteed, however full the pool is.
pub const ACCOUNT_SLOTS_DEFAULT: usize = 16;
/// Pending transactions of all accounts. With more, those of the largest accounts are dropped.
pub const GLOBAL_SLOTS_DEFAULT: usize = 40_960;
/// Most queued transactions of one account.
pub const ACCOUNT_QUEUE_DEFAULT: usize = 64;
/// Most queued transactions of all accounts.
pub const GLOBAL_QUEUE_DEFAULT: usize = 1024;
/// The time that an account's queued transactions wait if none of its transactions becomes pending.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(3 * 3600);
/// The time between two rewrites of the journal.
pub const REJOURNAL_DEFAULT: Duration = Duration::from_secs(3600);
/// Name of the journal in the data directory.
pub const JOURNAL_NAME: &str = "transactions.rlp";

/// Largest transaction, in bytes of its stored form.
const TRANSACTION_BYTES_MAX: usize = 128 << 10;
/// A local account may fill one part in this many of the pool's slots.
const LOCAL_ACCOUNT_SHARE: usize = 4;

/// Says which accounts are local. The answer may change while the node runs.
#[derive(Clone)]
pub struct LocalAccounts(Arc<dyn Fn(&Address) -> bool + Send + Sync>);

impl LocalAccounts {
    /// The accounts for which `contains` is true.
    pub fn new(contains: impl Fn(&Address) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(contains))
    }

    /// Whether the account is local now.
    pub fn contains(&self, address: &Address) -> bool {
        (self.0)(address)
    }
}

impl fmt::Debug for LocalAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalAccounts").finish_non_exhaustive()
    }
}

/// Limits, prices and intervals of the pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Lowest gas price that is accepted from remote accounts, in sha.
    pub price_floor: U256,
    /// Percent by which the gas price of a replacement must be higher.
    pub price_bump_percent: u64,
    /// Pending transactions that each account is guaranteed, however full the pool is.
    pub account_slots: usize,
    /// Pending transactions of all accounts. With more, those of the largest accounts are dropped.
    pub global_slots: usize,
    /// Most queued transactions of one account.
    pub account_queue: usize,
    /// Most queued transactions of all accounts.
    pub global_queue: usize,
    /// The time that an account's queued transactions wait if none of its transactions becomes
    /// pending.
    pub lifetime: Duration,
    /// The local accounts, which have no price floor and a journal. With `None`, no account is
    /// local.
    pub locals: Option<LocalAccounts>,
    /// Path of the journal. With `None`, local transactions are lost when the process ends.
    pub journal: Option<PathBuf>,
    /// The time between two rewrites of the journal.
    pub rejournal: Duration,
    /// Largest transaction, in bytes of its stored form.
    pub transaction_bytes_max: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            price_floor: U256::from(PRICE_FLOOR_DEFAULT),
            price_bump_percent: PRICE_BUMP_PERCENT_DEFAULT,
            account_slots: ACCOUNT_SLOTS_DEFAULT,
            global_slots: GLOBAL_SLOTS_DEFAULT,
            account_queue: ACCOUNT_QUEUE_DEFAULT,
            global_queue: GLOBAL_QUEUE_DEFAULT,
            lifetime: LIFETIME_DEFAULT,
            locals: None,
            journal: None,
            rejournal: REJOURNAL_DEFAULT,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
        }
    }
}

impl PoolConfig {
    /// The most slots of [`SLOT_BYTES`](super::SLOT_BYTES) that all transactions together fill.
    pub const fn slots_max(&self) -> usize {
        self.global_slots.saturating_add(self.global_queue)
    }

    /// The most slots that the transactions of one local account fill: a quarter of the pool, but
    /// never less than the pending transactions that each account is guaranteed.
    pub(crate) fn local_account_slots_max(&self) -> usize {
        (self.slots_max() / LOCAL_ACCOUNT_SHARE).max(self.account_slots)
    }
}
