//! What can be chosen about the pool, with its defaults.
//!
//! Knows names and numbers; what they do is in [`limits`](super::limits) and
//! [`journal`](super::journal).

use std::path::PathBuf;
use std::time::Duration;

use primitives::U256;

/// Cheapest gas price taken from others, in sha.
pub const PRICE_FLOOR_DEFAULT: u64 = 1_000_000_000;
/// Cheapest gas price taken from others by a node that mines, in sha.
pub const PRICE_FLOOR_MINING: u64 = 18_000_000_000;
/// By how many percent a replacement must be dearer.
pub const PRICE_BUMP_PERCENT_DEFAULT: u64 = 10;
/// Pending transactions that every account may have, however full the pool is.
pub const ACCOUNT_SLOTS_DEFAULT: usize = 16;
/// Pending transactions from which on the largest accounts are cut.
pub const GLOBAL_SLOTS_DEFAULT: usize = 40_960;
/// Queued transactions of one account.
pub const ACCOUNT_QUEUE_DEFAULT: usize = 64;
/// Queued transactions of all accounts.
pub const GLOBAL_QUEUE_DEFAULT: usize = 1024;
/// How long an account's queued transactions wait without one of them becoming pending.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(3 * 3600);
/// How often the journal is written anew.
pub const REJOURNAL_DEFAULT: Duration = Duration::from_secs(3600);
/// Name of the journal in the data directory.
pub const JOURNAL_NAME: &str = "transactions.rlp";

/// Largest transaction, in bytes of its stored form.
const TRANSACTION_BYTES_MAX: usize = 128 << 10;

/// Limits, prices and habits of the pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Cheapest gas price taken from others, in sha.
    pub price_floor: U256,
    /// By how many percent a replacement must be dearer.
    pub price_bump_percent: u64,
    /// Pending transactions that every account may have, however full the pool is.
    pub account_slots: usize,
    /// Pending transactions from which on the largest accounts are cut.
    pub global_slots: usize,
    /// Queued transactions of one account.
    pub account_queue: usize,
    /// Queued transactions of all accounts.
    pub global_queue: usize,
    /// How long an account's queued transactions wait without one of them becoming pending.
    pub lifetime: Duration,
    /// Whether local transactions have privileges: no limits, no price floor, the journal.
    pub locals: bool,
    /// Where local transactions are written down; `None`: they end with the process.
    pub journal: Option<PathBuf>,
    /// How often the journal is written anew.
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
            locals: true,
            journal: None,
            rejournal: REJOURNAL_DEFAULT,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
        }
    }
}

impl PoolConfig {
    /// Slots of [`SLOT_BYTES`](super::SLOT_BYTES) that all transactions together may fill.
    pub fn slots_max(&self) -> usize {
        self.global_slots.saturating_add(self.global_queue)
    }
}
