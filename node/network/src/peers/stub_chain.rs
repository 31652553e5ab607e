//! The chain of the unit tests: total difficulties, a pool, and one verdict on transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use primitives::{B256, Block, Header, Transaction, TxRules, U256};

use super::{
    BlockFault, ChainAccess, ChainAccessError, ChainHead, ChainReader, HashedTransaction, ImportResult,
    TransactionVerdict,
};

/// A chain of which only total difficulties and the pool are known.
pub(crate) struct StubChain {
    /// The total difficulties of the stored blocks.
    pub(crate) blocks: Mutex<BTreeMap<B256, U256>>,
    pub(crate) pool: Mutex<Vec<Transaction>>,
    /// The number of total difficulties that were asked for.
    pub(crate) lookups: AtomicUsize,
    verdict: TransactionVerdict,
    submitted: AtomicUsize,
    is_held: Mutex<bool>,
    released: Condvar,
}

impl StubChain {
    /// A chain without blocks. It has this verdict on each transaction.
    pub(crate) fn new(verdict: TransactionVerdict) -> Arc<Self> {
        Arc::new(Self {
            blocks: Mutex::default(),
            pool: Mutex::default(),
            lookups: AtomicUsize::new(0),
            verdict,
            submitted: AtomicUsize::new(0),
            is_held: Mutex::new(false),
            released: Condvar::new(),
        })
    }

    /// The number of transactions that were judged.
    pub(crate) fn submitted(&self) -> usize {
        self.submitted.load(Ordering::Acquire)
    }

    /// Lets transactions wait until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> HeldChain {
        *self.is_held.lock() = true;
        HeldChain(Arc::clone(self))
    }
}

/// A chain that lets transactions wait.
pub(crate) struct HeldChain(Arc<StubChain>);

impl Drop for HeldChain {
    fn drop(&mut self) {
        *self.0.is_held.lock() = false;
        self.0.released.notify_all();
    }
}

impl ChainAccess for StubChain {
    fn head(&self) -> Result<ChainHead, ChainAccessError> {
        Err(ChainAccessError("not asked".to_owned()))
    }

    fn total_difficulty(&self, hash: &B256) -> Result<Option<U256>, ChainAccessError> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        Ok(self.blocks.lock().get(hash).copied())
    }

    fn reader(&self) -> Result<Box<dyn ChainReader>, ChainAccessError> {
        Err(ChainAccessError("not asked".to_owned()))
    }

    fn tx_rules(&self) -> TxRules {
        TxRules::Moac
    }

    fn check_header(&self, _: &B256, _: &Header) -> Result<(), BlockFault> {
        Ok(())
    }

    fn import(&self, _: Block) -> ImportResult {
        ImportResult::Good
    }

    fn pooled(&self, hash: &B256) -> Option<Transaction> {
        let pool = self.pool.lock();
        pool.iter()
            .find(|transaction| transaction.hash() == *hash)
            .cloned()
    }

    fn pending(&self, most: usize) -> Vec<B256> {
        self.pool
            .lock()
            .iter()
            .take(most)
            .map(Transaction::hash)
            .collect()
    }

    fn submit(&self, _: HashedTransaction) -> TransactionVerdict {
        let mut is_held = self.is_held.lock();
        while *is_held {
            self.released.wait(&mut is_held);
        }
        self.submitted.fetch_add(1, Ordering::AcqRel);
        self.verdict.clone()
    }
}
