//! The values that a transaction has read or changed, before it ran and, if asked for, afterwards.

use std::collections::BTreeMap;

use primitives::{Address, Bytes, EMPTY_CODE_HASH, U256};
use revm::Database;
use revm::state::{AccountInfo, EvmState};

use super::bounds::TraceBounds;
use crate::state::{BlockState, StateError};

/// Length of an account's text without code and slots, in bytes.
const ACCOUNT_BYTES: usize = 160;
/// Length of a slot's text, in bytes.
const SLOT_BYTES: usize = 140;

/// The accounts that a transaction has read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrestateTrace {
    /// All accounts that it read or changed, as they were before it.
    Before(BTreeMap<Address, AccountValues>),
    /// The changed values.
    Changes {
        /// The changed accounts that existed, as they were before, with their changed slots.
        before: BTreeMap<Address, AccountValues>,
        /// The new values of accounts that exist afterwards. Slots that are zero now are left out.
        after: BTreeMap<Address, AccountValues>,
    },
}

impl PrestateTrace {
    /// The trace of a transaction that was not executed.
    pub(super) const fn empty(changes: bool) -> Self {
        match changes {
            false => Self::Before(BTreeMap::new()),
            true => Self::Changes {
                before: BTreeMap::new(),
                after: BTreeMap::new(),
            },
        }
    }
}

/// Values of an account. What is `None` is zero or empty or, after a transaction, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountValues {
    /// The balance, in sha. Before a transaction it is always there.
    pub balance: Option<U256>,
    /// The nonce.
    pub tx_nonce: Option<u64>,
    /// The code.
    pub code: Option<Bytes>,
    /// Slots.
    pub storage: BTreeMap<U256, U256>,
}

impl AccountValues {
    fn is_empty(&self) -> bool {
        self.balance.is_none_or(|balance| balance.is_zero())
            && self.tx_nonce.is_none()
            && self.code.is_none()
            && self.storage.is_empty()
    }
}

/// Collects the accounts of `outcome`, which is not committed to `state` yet. `created` is the
/// contract that the transaction itself has created. If a bound is reached, the rest is left out.
pub(super) fn collect(
    state: &mut BlockState<'_>,
    outcome: &EvmState,
    created: Option<Address>,
    changes: bool,
    bounds: &mut TraceBounds,
) -> Result<PrestateTrace, StateError> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (address, account) in outcome {
        let info = state.basic(*address)?.unwrap_or_default();
        let code = code_of(state, &info)?;
        let (text, memory) = (
            ACCOUNT_BYTES + 2 * code.len() + SLOT_BYTES * account.storage.len(),
            size_of::<AccountValues>() + code.len() + 2 * SLOT_BYTES * account.storage.len(),
        );
        if !bounds.reserve(2 * text, 2 * memory) {
            break;
        }
        let mut values = AccountValues {
            balance: Some(info.balance),
            tx_nonce: (info.nonce > 0).then_some(info.nonce),
            code: (!code.is_empty()).then_some(code),
            storage: BTreeMap::new(),
        };
        for (slot, value) in &account.storage {
            values.storage.insert(*slot, value.original_value);
        }
        if !changes {
            if created != Some(*address) || !values.is_empty() {
                before.insert(*address, values);
            }
            continue;
        }
        values.storage.retain(|slot, before| {
            account
                .storage
                .get(slot)
                .is_some_and(|value| value.present_value != *before)
        });
        if account.is_selfdestructed() {
            // All of its storage goes. Slots that the transaction did not read are not listed.
            values.storage.retain(|_, value| !value.is_zero());
            before.insert(*address, values);
            continue;
        }
        let delta = delta_of(&info, &account.info, &values, |slot| {
            account.storage.get(slot).map(|value| value.present_value)
        });
        values.storage.retain(|_, value| !value.is_zero());
        if let Some(delta) = delta {
            if !(account.is_created() && values.is_empty()) {
                before.insert(*address, values);
            }
            after.insert(*address, delta);
        }
    }
    Ok(match changes {
        false => PrestateTrace::Before(before),
        true => PrestateTrace::Changes { before, after },
    })
}

/// The code of an account; empty if it has none.
pub(super) fn code_of(state: &mut BlockState<'_>, info: &AccountInfo) -> Result<Bytes, StateError> {
    if info.code_hash == EMPTY_CODE_HASH {
        return Ok(Bytes::new());
    }
    Ok(state.code_by_hash(info.code_hash)?.original_bytes())
}

/// The values of an account that a transaction changed; `None` if it changed none.
fn delta_of(
    before: &AccountInfo,
    after: &AccountInfo,
    changed: &AccountValues,
    present: impl Fn(&U256) -> Option<U256>,
) -> Option<AccountValues> {
    let new_code = || after.code.as_ref().map(revm::bytecode::Bytecode::original_bytes);
    let delta = AccountValues {
        balance: (before.balance != after.balance).then_some(after.balance),
        tx_nonce: (before.nonce != after.nonce).then_some(after.nonce),
        code: (before.code_hash != after.code_hash).then(new_code).flatten(),
        storage: changed
            .storage
            .keys()
            .filter_map(|slot| Some((*slot, present(slot).filter(|value| !value.is_zero())?)))
            .collect(),
    };
    let is_changed = delta != AccountValues::default() || !changed.storage.is_empty();
    is_changed.then_some(delta)
}
