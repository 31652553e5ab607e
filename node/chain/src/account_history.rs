//! The past of an account: which blocks changed it, and when it got its nonce or its code.
//!
//! A node that keeps recent states only knows the recent past only.

use primitives::Address;
use store::{StateReads, StoreError};

use crate::view::View;

/// The most changes of an account that are looked at for the block that created its code.
const CODE_CHANGES_MAX: usize = 100_000;

impl View {
    /// The first canonical block above `number` that changed the account.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn account_change_after(&self, address: &Address, number: u64) -> Result<Option<u64>, StoreError> {
        self.snapshot().account_change_after(address, number)
    }

    /// The last canonical block below `number` that changed the account.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn account_change_before(&self, address: &Address, number: u64) -> Result<Option<u64>, StoreError> {
        self.snapshot().account_change_before(address, number)
    }

    /// The canonical block after which the account's nonce was above `tx_nonce` for the first time.
    /// It is found by halves, so the nonce must never have fallen, as that of an account with a
    /// key.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn block_of_nonce(&self, address: &Address, tx_nonce: u64) -> Result<Option<u64>, StoreError> {
        let is_above = |number| -> Result<bool, StoreError> {
            let account = self.account(address, number)?;
            Ok(account.is_some_and(|account| account.tx_nonce > tx_nonce))
        };
        let (mut low, mut high) = (self.oldest_state(), self.head_number());
        if !is_above(high)? {
            return Ok(None);
        }
        if is_above(low)? {
            return Ok((low == 0).then_some(0));
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_above(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(Some(high))
    }

    /// The first canonical block after which the account had code. `None` if it has had none, or
    /// had it in the oldest state that is kept.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn block_of_code(&self, address: &Address) -> Result<Option<u64>, StoreError> {
        let mut number = self.oldest_state();
        if !self.code(address, number)?.is_empty() {
            return Ok(None);
        }
        for _ in 0..CODE_CHANGES_MAX {
            match self.account_change_after(address, number)? {
                Some(change) if !self.code(address, change)?.is_empty() => return Ok(Some(change)),
                Some(change) => number = change,
                None => break,
            }
        }
        Ok(None)
    }
}
