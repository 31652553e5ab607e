//! Values that replace those of an account before code runs on a state.
//!
//! A call may be asked on a state that differs from the stored one. This module changes the state
//! in memory. It knows neither calls nor where the values come from.

use std::collections::BTreeMap;

use primitives::{Address, B256, Bytes, EMPTY_ROOT, U256, keccak256};
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use super::{BlockState, StateError};

/// New values of an account. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOverride {
    /// The nonce.
    pub tx_nonce: Option<u64>,
    /// The balance, in sha.
    pub balance: Option<U256>,
    /// The code.
    pub code: Option<Bytes>,
    /// The storage.
    pub storage: StorageOverride,
}

/// New values of an account's storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageOverride {
    /// The storage stays as it is.
    #[default]
    Keep,
    /// The given slots get these values. All others stay as they are.
    Change(Vec<(U256, U256)>),
    /// The given slots get these values. All others are zero.
    Replace(Vec<(U256, U256)>),
}

/// Hashes of blocks by number, in place of those of the stored chain.
#[derive(Clone, Debug)]
pub(super) struct GivenAncestors {
    hashes: BTreeMap<u64, B256>,
    /// The first block that was asked for and is not there.
    missing: Option<u64>,
}

impl GivenAncestors {
    /// The hash of a block; zero if it is not there, which is noted.
    pub(super) fn hash(&mut self, number: u64) -> B256 {
        let hash = self.hashes.get(&number).copied();
        if hash.is_none() {
            self.missing.get_or_insert(number);
        }
        hash.unwrap_or_default()
    }
}

impl BlockState<'_> {
    /// Gives code that asks for the hashes of blocks these, and no others.
    pub(crate) fn override_ancestors(&mut self, hashes: BTreeMap<u64, B256>) {
        let missing = None;
        self.ancestors = Some(GivenAncestors { hashes, missing });
    }

    /// The number of a block whose hash code asked for and [`Self::override_ancestors`] lacks.
    pub(crate) fn missing_ancestor(&self) -> Option<u64> {
        self.ancestors.as_ref().and_then(|ancestors| ancestors.missing)
    }

    /// Gives an account new values. An account that does not exist is created.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub(crate) fn override_account(
        &mut self,
        address: Address,
        change: &AccountOverride,
    ) -> Result<(), StateError> {
        let cached = self.changing(address)?;
        let had_storage = cached
            .before
            .account
            .is_some_and(|account| account.storage_root != EMPTY_ROOT);
        let info = cached.now.get_or_insert_with(AccountInfo::default);
        if let Some(tx_nonce) = change.tx_nonce {
            info.nonce = tx_nonce;
        }
        if let Some(balance) = change.balance {
            info.balance = balance;
        }
        if let Some(code) = &change.code {
            info.code_hash = keccak256(code);
            info.code = None;
            if !code.is_empty() {
                let code_hash = info.code_hash;
                self.new_code
                    .insert(code_hash, Bytecode::new_legacy(code.clone()));
            }
        }
        let slots = match &change.storage {
            StorageOverride::Keep => return Ok(()),
            StorageOverride::Change(slots) => slots,
            StorageOverride::Replace(slots) => {
                self.empty_storage(address, had_storage);
                slots
            }
        };
        for (slot, value) in slots {
            self.set_slot(address, *slot, *value)?;
        }
        Ok(())
    }
}
