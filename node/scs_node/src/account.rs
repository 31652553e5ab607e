//! The account of an SCS on the base chain: nonces, prices, and what is not in a block yet.
//!
//! The service of a VNODE gives no receipts. A transaction is known to be in a block when the
//! account's nonce at the head has passed it. Whether its call had an effect is seen in the state
//! of the contract: the engine asks for a call again if it had none.

use std::collections::BTreeMap;

use microchain::BaseCall;
use microchain::contract::RETRY_BLOCKS;
use primitives::{Address, Bytes, SecretKey, TxForm, U256, UnsignedTransaction};
use scs_service::client::{ScsClient, ScsClientError};

use crate::base::{GAS_PRICE_FIRST, GAS_PRICE_MAX};

/// Transactions that are not in a block. If there are more, calls wait.
const WAITING_MAX: usize = 256;

/// The purpose of a transaction. Equal ones are not sent twice at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The SCS joins.
    Join,
    /// The engine of the chain has asked for it.
    Engine(BaseCall),
}

/// A call to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outlay {
    /// The chain base.
    pub chain: Address,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// The calldata.
    pub data: Bytes,
    /// The gas limit.
    pub gas: u64,
}

/// The reason why a call is not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutlayError {
    /// Too many transactions wait.
    #[error("got {0} transactions that are not in a block, expected at most {WAITING_MAX}")]
    TooManyWaiting(usize),
    /// The VNODE refuses the transaction, or does not answer.
    #[error(transparent)]
    Client(#[from] ScsClientError),
}

/// A transaction that is not in a block, as far as is known.
#[derive(Debug)]
struct Waiting {
    outlay: Outlay,
    gas_price: u64,
    /// The base block at which it was sent last.
    sent_at: u64,
}

/// The account. One task works with it.
#[derive(Debug)]
pub(crate) struct BaseAccount {
    client: ScsClient,
    key: SecretKey,
    address: Address,
    chain_id: u64,
    /// By nonce.
    waiting: BTreeMap<u64, Waiting>,
}

impl BaseAccount {
    /// The account of `key` on the base chain with this chain id.
    pub(crate) fn new(client: ScsClient, key: SecretKey, chain_id: u64) -> Self {
        Self {
            client,
            address: key.address(),
            key,
            chain_id,
            waiting: BTreeMap::new(),
        }
    }

    /// Sends a call, unless an equal one is on its way. `head` is the number of the base block that
    /// was told last.
    ///
    /// # Errors
    /// [`OutlayError`] if the VNODE refuses the transaction or does not answer.
    pub(crate) async fn send(&mut self, outlay: Outlay, head: u64) -> Result<(), OutlayError> {
        self.drop_mined().await?;
        let equal = |one: &Waiting| one.outlay.chain == outlay.chain && one.outlay.purpose == outlay.purpose;
        if self.waiting.values().any(equal) {
            return Ok(());
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(OutlayError::TooManyWaiting(self.waiting.len()));
        }
        let told = self.client.account_info(self.address).await?.tx_nonce;
        let own = self.waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        let tx_nonce = told.max(own);
        let waiting = Waiting {
            outlay,
            gas_price: GAS_PRICE_FIRST,
            sent_at: head,
        };
        self.submit(tx_nonce, &waiting).await?;
        tracing::debug!(chain = %waiting.outlay.chain, tx_nonce, "a transaction was sent to the base chain");
        self.waiting.insert(tx_nonce, waiting);
        Ok(())
    }

    /// Looks after the transactions that are not in a block: those that wait too long are sent
    /// again at a higher price, as far as a chain base takes it. With `is_new_connection` all are
    /// sent again, because a VNODE that was started again may have lost them.
    pub(crate) async fn tend(&mut self, head: u64, is_new_connection: bool) {
        if self.waiting.is_empty() {
            return;
        }
        if let Err(error) = self.drop_mined().await {
            tracing::debug!(%error, "the nonce of the account cannot be read");
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        for (tx_nonce, one) in &mut waiting {
            let is_late = head >= one.sent_at.saturating_add(RETRY_BLOCKS);
            if !is_late && !is_new_connection {
                continue;
            }
            if is_late {
                one.gas_price = raised(one.gas_price);
                one.sent_at = head;
            }
            if let Err(error) = self.submit(*tx_nonce, one).await {
                // A pool refuses what it has. That is no fault.
                tracing::debug!(tx_nonce, %error, "a transaction was not taken again");
            }
        }
        self.waiting = waiting;
    }

    /// Forgets the transactions that are in blocks.
    async fn drop_mined(&mut self) -> Result<(), ScsClientError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let account = self.client.chain_info(self.address, Vec::new()).await?;
        let next = account.map_or(0, |account| account.tx_nonce);
        self.waiting = self.waiting.split_off(&next);
        Ok(())
    }

    async fn submit(&self, tx_nonce: u64, waiting: &Waiting) -> Result<(), ScsClientError> {
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(waiting.gas_price),
            gas: waiting.outlay.gas,
            to: Some(waiting.outlay.chain),
            input: waiting.outlay.data.clone(),
            ..UnsignedTransaction::default()
        };
        let signed = unsigned.sign(&self.key, self.chain_id, TxForm::Native);
        self.client.remote_call(signed.encode_raw().into()).await
    }
}

/// A price 10% higher, but not above what a chain base takes.
fn raised(gas_price: u64) -> u64 {
    (gas_price + gas_price.div_ceil(10)).min(GAS_PRICE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_rise_as_far_as_a_chain_base_takes_them() {
        assert_eq!(raised(GAS_PRICE_FIRST), 19_800_000_000);
        assert_eq!(raised(19_800_000_000), GAS_PRICE_MAX);
        assert_eq!(raised(GAS_PRICE_MAX), GAS_PRICE_MAX);
    }
}
