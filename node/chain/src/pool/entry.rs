//! A transaction as the pool keeps it: with all that is known of it before any account is.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use primitives::{Address, B256, Transaction, U256};

/// A transaction fills one slot for each of these many bytes begun.
pub const SLOT_BYTES: usize = 32 << 10;

/// Place in the order of eviction: cheapest first, among equals the latest arrival.
pub(super) type EvictionKey = (U256, Reverse<u64>, B256);

/// A transaction in the pool.
#[derive(Clone, Debug)]
pub struct PooledTransaction {
    /// The transaction.
    pub transaction: Arc<Transaction>,
    /// Its hash.
    pub hash: B256,
    /// Who sent it.
    pub sender: Address,
    /// Counts arrivals; among equal prices the earlier goes first.
    pub order: u64,
}

/// What the pool keeps of a transaction.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pooled: PooledTransaction,
    /// The hash that Ethereum's libraries predict.
    pub(super) ethereum_hash: Option<B256>,
    /// Gas and value together, at most.
    pub(super) cost: U256,
    /// Bytes of the stored form.
    pub(super) bytes: usize,
    /// Its hash was in the feed.
    announced: AtomicBool,
}

impl Entry {
    /// Hashes and sizes are computed here, before any lock is held; the order comes later.
    pub(super) fn new(transaction: Transaction, sender: Address) -> Self {
        let encoded = transaction.encode();
        let hash = alloy_primitives::keccak256(&encoded);
        let gas = U256::from(transaction.gas).saturating_mul(transaction.gas_price);
        Self {
            ethereum_hash: transaction.ethereum_hash(),
            cost: gas.saturating_add(transaction.value),
            bytes: encoded.len(),
            announced: AtomicBool::new(false),
            pooled: PooledTransaction {
                transaction: Arc::new(transaction),
                hash,
                sender,
                order: 0,
            },
        }
    }

    pub(super) fn transaction(&self) -> &Transaction {
        &self.pooled.transaction
    }

    pub(super) fn tx_nonce(&self) -> u64 {
        self.pooled.transaction.tx_nonce
    }

    pub(super) fn price(&self) -> U256 {
        self.pooled.transaction.gas_price
    }

    pub(super) fn slots(&self) -> usize {
        self.bytes.div_ceil(SLOT_BYTES)
    }

    pub(super) fn hashes(&self) -> impl Iterator<Item = B256> {
        std::iter::once(self.pooled.hash).chain(self.ethereum_hash)
    }

    pub(super) fn eviction_key(&self) -> EvictionKey {
        (self.price(), Reverse(self.pooled.order), self.pooled.hash)
    }

    /// Whether nobody asked this before.
    pub(super) fn announce(&self) -> bool {
        !self.announced.swap(true, Ordering::Relaxed)
    }
}
