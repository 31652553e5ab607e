//! The changes of a transaction, value by value.
//!
//! An account that exists only before or only after the transaction has all its values in the list.
//! Of an account that exists before and after, each value is the same or has changed.

use std::collections::BTreeMap;

use primitives::{Address, Bytes, U256};
use revm::Database;
use revm::state::{Account, AccountInfo, EvmState};

use super::bounds::TraceBounds;
use super::prestate::code_of;
use crate::state::{BlockState, StateError};

/// Length of an account's text without code and slots, in bytes.
const ACCOUNT_BYTES: usize = 260;
/// Length of a slot's text, in bytes.
const SLOT_BYTES: usize = 240;

/// The accounts that a transaction changed.
pub type StateDiff = BTreeMap<Address, AccountDiff>;

/// The change of a value by a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueDiff<T> {
    /// No change.
    Same,
    /// The account did not exist before.
    Added(T),
    /// The account does not exist afterwards.
    Removed(T),
    /// The account exists before and after.
    Changed {
        /// The value before.
        from: T,
        /// The value after.
        to: T,
    },
}

impl<T> ValueDiff<T> {
    /// The same change of what `show` makes of the values.
    pub fn map<'a, U>(&'a self, show: impl Fn(&'a T) -> U) -> ValueDiff<U> {
        match self {
            Self::Same => ValueDiff::Same,
            Self::Added(value) => ValueDiff::Added(show(value)),
            Self::Removed(value) => ValueDiff::Removed(show(value)),
            Self::Changed { from, to } => ValueDiff::Changed {
                from: show(from),
                to: show(to),
            },
        }
    }
}

impl<T: PartialEq> ValueDiff<T> {
    fn of(from: T, to: T) -> Self {
        if from == to {
            Self::Same
        } else {
            Self::Changed { from, to }
        }
    }

    const fn is_same(&self) -> bool {
        matches!(self, Self::Same)
    }
}

/// The changes of an account by a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountDiff {
    /// The balance, in sha.
    pub balance: ValueDiff<U256>,
    /// The nonce.
    pub tx_nonce: ValueDiff<u64>,
    /// The code.
    pub code: ValueDiff<Bytes>,
    /// The changed slots. Of an account that was added, those that are not zero; of one that was
    /// removed, those that the transaction read and that were not zero.
    pub storage: BTreeMap<U256, ValueDiff<U256>>,
}

/// Collects what `outcome` changes in `state`; `outcome` is not committed yet. If a bound is
/// reached, the rest is left out.
pub(super) fn collect(
    state: &mut BlockState<'_>,
    outcome: &EvmState,
    bounds: &mut TraceBounds,
) -> Result<StateDiff, StateError> {
    let mut diff = StateDiff::new();
    for (address, account) in outcome.iter().filter(|(_, account)| account.is_touched()) {
        let before = match state.basic(*address)? {
            Some(info) => Some((code_of(state, &info)?, info)),
            None => None,
        };
        let is_gone = account.is_selfdestructed() || state.removes_empty() && account.info.is_empty();
        let after = (!is_gone).then_some(&account.info);
        let code_len = before.as_ref().map_or(0, |(code, _)| code.len())
            + after.map_or(0, |info| info.code.as_ref().map_or(0, |code| code.len()));
        let text = ACCOUNT_BYTES + 2 * code_len + SLOT_BYTES * account.storage.len();
        if !bounds.reserve(
            text,
            size_of::<AccountDiff>() + code_len + SLOT_BYTES * account.storage.len(),
        ) {
            break;
        }
        let account_diff = match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(added(state, account, after)?),
            (Some((code, before)), None) => Some(removed(account, code, &before)),
            (Some((code, before)), Some(after)) => changed(state, account, (code, &before), after)?,
        };
        if let Some(account_diff) = account_diff {
            diff.insert(*address, account_diff);
        }
    }
    Ok(diff)
}

fn added(
    state: &mut BlockState<'_>,
    account: &Account,
    after: &AccountInfo,
) -> Result<AccountDiff, StateError> {
    let slots = account.storage.iter();
    Ok(AccountDiff {
        balance: ValueDiff::Added(after.balance),
        tx_nonce: ValueDiff::Added(after.nonce),
        code: ValueDiff::Added(new_code(state, after)?),
        storage: slots
            .filter(|(_, value)| !value.present_value.is_zero())
            .map(|(slot, value)| (*slot, ValueDiff::Added(value.present_value)))
            .collect(),
    })
}

fn removed(account: &Account, code: Bytes, before: &AccountInfo) -> AccountDiff {
    let slots = account.storage.iter();
    AccountDiff {
        balance: ValueDiff::Removed(before.balance),
        tx_nonce: ValueDiff::Removed(before.nonce),
        code: ValueDiff::Removed(code),
        storage: slots
            .filter(|(_, value)| !value.original_value.is_zero())
            .map(|(slot, value)| (*slot, ValueDiff::Removed(value.original_value)))
            .collect(),
    }
}

/// `None` if the values are the same.
fn changed(
    state: &mut BlockState<'_>,
    account: &Account,
    (code, before): (Bytes, &AccountInfo),
    after: &AccountInfo,
) -> Result<Option<AccountDiff>, StateError> {
    let diff = AccountDiff {
        balance: ValueDiff::of(before.balance, after.balance),
        tx_nonce: ValueDiff::of(before.nonce, after.nonce),
        code: if before.code_hash == after.code_hash {
            ValueDiff::Same
        } else {
            ValueDiff::of(code, new_code(state, after)?)
        },
        storage: account
            .storage
            .iter()
            .filter(|(_, value)| value.is_changed())
            .map(|(slot, value)| (*slot, ValueDiff::of(value.original_value, value.present_value)))
            .collect(),
    };
    let is_same = diff.balance.is_same() && diff.tx_nonce.is_same() && diff.code.is_same();
    Ok((!is_same || !diff.storage.is_empty()).then_some(diff))
}

/// The code of an account after the run.
fn new_code(state: &mut BlockState<'_>, after: &AccountInfo) -> Result<Bytes, StateError> {
    match &after.code {
        Some(code) => Ok(code.original_bytes()),
        None => code_of(state, after),
    }
}
