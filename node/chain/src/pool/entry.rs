//! A transaction in the pool, with everything that can be computed from the transaction alone.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use primitives::{Address, B256, Transaction, U256};

/// A transaction fills one slot for every started 32 KiB of its stored form.
pub const SLOT_BYTES: usize = 32 << 10;

/// The order of eviction: lowest gas price first, at equal prices the latest arrival first.
pub(super) type EvictionKey = (U256, Reverse<u64>, B256);

/// A transaction in the pool.
#[derive(Clone, Debug)]
pub struct PooledTransaction {
    /// The transaction.
    pub transaction: Arc<Transaction>,
    /// Its hash.
    pub hash: B256,
    /// The sender.
    pub sender: Address,
    /// The number of its arrival. At equal gas prices the earlier one is mined first.
    pub order: u64,
}

/// A transaction in the pool, with derived values.
#[derive(Debug)]
pub(super) struct PoolEntry {
    pub(super) pooled: PooledTransaction,
    /// The hash that Ethereum libraries compute for it, if it has one.
    pub(super) ethereum_hash: Option<B256>,
    /// The most that the sender pays for gas and value together, in sha.
    pub(super) cost: U256,
    /// Length of the stored form in bytes.
    pub(super) bytes: usize,
    /// Whether its hash was put into the feed.
    announced: AtomicBool,
}

impl PoolEntry {
    /// Computes hashes and sizes, so that this is done before any lock is held. The order is set
    /// when the entry is inserted.
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

    pub(super) const fn slots(&self) -> usize {
        self.bytes.div_ceil(SLOT_BYTES)
    }

    pub(super) fn hashes(&self) -> impl Iterator<Item = B256> {
        std::iter::once(self.pooled.hash).chain(self.ethereum_hash)
    }

    pub(super) fn eviction_key(&self) -> EvictionKey {
        (self.price(), Reverse(self.pooled.order), self.pooled.hash)
    }

    /// Marks the transaction as announced. Returns `false` if it was marked before.
    pub(super) fn mark_announced(&self) -> bool {
        !self.announced.swap(true, Ordering::Relaxed)
    }
}
