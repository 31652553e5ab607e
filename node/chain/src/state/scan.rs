//! The whole state at a height, if it is small.
//!
//! [`StateReads::walk_accounts`] and [`StateReads::walk_slots`] go over a state of any size.

use std::cell::Cell;

use primitives::B256;
use store::{AccountKey, StateReads, StoreError};
pub use store::{WalkedAccount, WalkedSlot};

/// Visits the accounts that exist after block `number`, each with its slots that are not zero,
/// in the order of their keys.
///
/// The walk stops after `rows_max` accounts and slots together. Returns `false` if the state has
/// more; then not all accounts were visited.
///
/// # Errors
/// [`StoreError`] when a row cannot be read.
pub fn small_state(
    source: &impl StateReads,
    number: u64,
    rows_max: usize,
    mut visit: impl FnMut(WalkedAccount, Vec<WalkedSlot>),
) -> Result<bool, StoreError> {
    let left = Cell::new(rows_max);
    let take = || {
        left.set(left.get().checked_sub(1).ok_or(SmallStateStop::Full)?);
        Ok::<_, SmallStateStop>(())
    };
    let walked = source.walk_accounts(&AccountKey(B256::ZERO), number, |account| {
        take()?;
        let mut all = Vec::new();
        source.walk_slots(&account.storage(), &B256::ZERO, number, |slot| {
            all.push(slot);
            take()
        })?;
        visit(account, all);
        Ok(())
    });
    match walked {
        Ok(()) => Ok(true),
        Err(SmallStateStop::Full) => Ok(false),
        Err(SmallStateStop::Store(error)) => Err(error),
    }
}

/// The reason why [`small_state`] stopped before the end.
enum SmallStateStop {
    /// The state has more rows than the limit.
    Full,
    Store(StoreError),
}

impl From<StoreError> for SmallStateStop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
