//! Blocks and receipts that were asked for lately, decoded: most questions are about the same few.
//!
//! A block never changes under its hash, and neither do its receipts, so what is kept here is right
//! as long as the store has it: until the head is set back, which deletes blocks and makes all be
//! forgotten. Whether a block is on the chain is asked of the chain each time. Bounded by bytes;
//! the one not asked for longest goes first.

use std::sync::{Arc, OnceLock};

use chain::import::BlockId;
use chain::view::StoredBlock;
use chain::{Chain, View};
use lru::LruCache;
use parking_lot::Mutex;
use primitives::{Address, B256, Block, Receipt, Transaction, U256};

use crate::error::{RpcResult, failure};
use crate::modules::Dialect;
use crate::objects::shown_hash;

/// Most bytes of blocks kept.
const BLOCKS_LEN_MAX: usize = 64 << 20;
/// Most bytes of receipts kept.
const RECEIPTS_LEN_MAX: usize = 64 << 20;
/// Bytes that a transaction takes up beside its input, with sender and two hashes.
const TRANSACTION_LEN: usize = 480;
/// Bytes that a header takes up.
const HEADER_LEN: usize = 640;
/// Bytes that a receipt takes up beside its logs.
const RECEIPT_LEN: usize = 360;
/// Bytes that a log takes up beside its data.
const LOG_LEN: usize = 240;

/// A stored block with what answers are made of.
#[derive(Debug)]
pub(crate) struct KnownBlock {
    /// The block.
    pub(crate) block: Block,
    /// Who sent its transactions.
    pub(crate) senders: Vec<Address>,
    /// Its hash.
    pub(crate) hash: B256,
    /// Total difficulty with it.
    pub(crate) total_difficulty: U256,
    native: OnceLock<Vec<B256>>,
    ethereum: OnceLock<Vec<B256>>,
}

impl From<StoredBlock> for KnownBlock {
    fn from(stored: StoredBlock) -> Self {
        Self {
            hash: stored.hash,
            total_difficulty: stored.record.total_difficulty,
            senders: stored.body.senders,
            block: Block {
                header: stored.record.header,
                transactions: stored.body.transactions,
                uncles: stored.body.uncles,
            },
            native: OnceLock::new(),
            ethereum: OnceLock::new(),
        }
    }
}

impl KnownBlock {
    /// The hashes of its transactions, as a dialect shows them.
    pub(crate) fn hashes(&self, dialect: Dialect) -> &[B256] {
        let kept = match dialect {
            Dialect::Native => &self.native,
            Dialect::Ethereum => &self.ethereum,
        };
        kept.get_or_init(|| {
            let shown = |transaction: &Transaction| shown_hash(transaction, dialect);
            self.block.transactions.iter().map(shown).collect()
        })
    }

    /// Number and hash.
    pub(crate) fn id(&self) -> BlockId {
        BlockId {
            number: self.block.header.number,
            hash: self.hash,
        }
    }

    /// Bytes in memory, roughly.
    fn len(&self) -> usize {
        let inputs = self
            .block
            .transactions
            .iter()
            .map(|transaction| transaction.input.len());
        HEADER_LEN * (1 + self.block.uncles.len())
            + TRANSACTION_LEN * self.block.transactions.len()
            + inputs.sum::<usize>()
    }
}

/// Bytes that receipts take up, roughly.
fn receipts_len(receipts: &[Receipt]) -> usize {
    let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
    RECEIPT_LEN * receipts.len() + logs.map(|log| LOG_LEN + log.data.len()).sum::<usize>()
}

/// The blocks and receipts kept.
#[derive(Debug)]
pub(crate) struct KnownBlocks {
    blocks: Recent<KnownBlock>,
    receipts: Recent<Vec<Receipt>>,
}

impl Default for KnownBlocks {
    fn default() -> Self {
        Self {
            blocks: Recent::new(BLOCKS_LEN_MAX),
            receipts: Recent::new(RECEIPTS_LEN_MAX),
        }
    }
}

impl KnownBlocks {
    /// The block of this hash if it is kept.
    pub(crate) fn kept(&self, hash: &B256) -> Option<Arc<KnownBlock>> {
        self.blocks.get(hash)
    }

    /// The block of this hash, canonical or not; `None` where there is none.
    pub(crate) fn by_hash(
        &self,
        chain: &Chain,
        view: &View,
        hash: &B256,
    ) -> RpcResult<Option<Arc<KnownBlock>>> {
        if let Some(known) = self.kept(hash) {
            return Ok(Some(known));
        }
        let age = self.blocks.age();
        let Some(stored) = view.block_by_hash(hash).map_err(failure)? else {
            return Ok(None);
        };
        let known = Arc::new(KnownBlock::from(stored));
        // The view may be of before it was deleted.
        if is_there(chain, hash)? {
            self.blocks.put(*hash, &known, known.len(), age);
        }
        Ok(Some(known))
    }

    /// The receipts of this block if they are kept.
    pub(crate) fn kept_receipts(&self, hash: &B256) -> Option<Arc<Vec<Receipt>>> {
        self.receipts.get(hash)
    }

    /// The receipts of a block; `None` where it was not executed.
    pub(crate) fn receipts(
        &self,
        chain: &Chain,
        view: &View,
        id: &BlockId,
    ) -> RpcResult<Option<Arc<Vec<Receipt>>>> {
        if let Some(known) = self.kept_receipts(&id.hash) {
            return Ok(Some(known));
        }
        let age = self.receipts.age();
        let Some(receipts) = view.receipts(id).map_err(failure)? else {
            return Ok(None);
        };
        let known = Arc::new(receipts);
        if is_there(chain, &id.hash)? {
            self.receipts.put(id.hash, &known, receipts_len(&known), age);
        }
        Ok(Some(known))
    }

    /// Blocks were deleted: keeps nothing.
    pub(crate) fn forget(&self) {
        self.blocks.forget();
        self.receipts.forget();
    }
}

/// Whether the store has a block now.
fn is_there(chain: &Chain, hash: &B256) -> RpcResult<bool> {
    let view = chain.view().map_err(failure)?;
    Ok(view.header_by_hash(hash).map_err(failure)?.is_some())
}

/// Values by hash, within a number of bytes.
#[derive(Debug)]
struct Recent<T> {
    len_max: usize,
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    values: LruCache<B256, (Arc<T>, usize)>,
    len: usize,
    /// How often all was forgotten.
    age: u64,
}

impl<T> Recent<T> {
    fn new(len_max: usize) -> Self {
        let inner = Inner {
            values: LruCache::unbounded(),
            len: 0,
            age: 0,
        };
        Self {
            len_max,
            inner: Mutex::new(inner),
        }
    }

    fn get(&self, hash: &B256) -> Option<Arc<T>> {
        let mut inner = self.inner.lock();
        inner.values.get(hash).map(|(value, _)| Arc::clone(value))
    }

    fn age(&self) -> u64 {
        self.inner.lock().age
    }

    fn forget(&self) {
        let mut inner = self.inner.lock();
        inner.values.clear();
        inner.len = 0;
        inner.age += 1;
    }

    /// Keeps a value that was there at this age.
    fn put(&self, hash: B256, value: &Arc<T>, len: usize, age: u64) {
        let mut inner = self.inner.lock();
        if inner.age != age {
            return;
        }
        inner.len += len;
        if let Some((_, replaced)) = inner.values.put(hash, (Arc::clone(value), len)) {
            inner.len -= replaced;
        }
        while inner.len > self.len_max
            && let Some((_, (_, len))) = inner.values.pop_lru()
        {
            inner.len -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_goes_first() {
        let recent = Recent::new(100);
        let hash = B256::with_last_byte;
        let kept = |recent: &Recent<u8>| -> Vec<u8> {
            let inner = recent.inner.lock();
            let mut all: Vec<_> = inner.values.iter().map(|(_, (value, _))| **value).collect();
            all.sort_unstable();
            all
        };
        for value in 1..=3 {
            recent.put(hash(value), &Arc::new(value), 30, 0);
        }
        assert_eq!(recent.get(&hash(1)).as_deref(), Some(&1));
        recent.put(hash(4), &Arc::new(4), 30, 0);
        assert_eq!(kept(&recent), [1, 3, 4]);
        recent.put(hash(4), &Arc::new(4), 40, 0);
        assert_eq!((kept(&recent), recent.inner.lock().len), (vec![1, 3, 4], 100));
        recent.put(hash(5), &Arc::new(5), 101, 0);
        assert_eq!(
            (kept(&recent), recent.inner.lock().len),
            (vec![], 0),
            "too long to keep"
        );
    }
}
