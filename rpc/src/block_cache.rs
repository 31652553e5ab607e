//! A cache of decoded blocks and receipts. Most requests are about the same few blocks.
//!
//! A block never changes under its hash, and neither do its receipts. So a cached value is right as
//! long as the store has the block. Only setting the head back deletes blocks, and it clears this
//! cache. The cache does not know which blocks are canonical: that is read from the chain each
//! time. Its size is bounded in bytes, in proportion to the cache of the database. The least
//! recently used value goes first.

use std::sync::{Arc, OnceLock};

use chain::import::BlockId;
use chain::view::StoredBlock;
use chain::{Chain, View};
use lru::LruCache;
use parking_lot::Mutex;
use primitives::{Address, B256, Block, Receipt, Transaction, U256};

use crate::error::{RpcError, RpcResult, failure};
use crate::modules::NameStyle;
use crate::objects::shown_hash;

/// Most bytes of cached blocks, and of cached receipts.
const BLOCKS_LEN_MAX: usize = 64 << 20;
/// Parts of the memory for pages of the database: blocks, and receipts, have one of them more.
const PAGES_PER_BLOCKS: usize = 4;
/// The bytes of blocks for one byte of their fees.
const BLOCKS_PER_FEES: usize = 4;
/// Bytes of a transaction in memory without its input, but with its sender and two hashes.
const TRANSACTION_LEN: usize = 480;
/// Bytes of a header in memory.
const HEADER_LEN: usize = 640;
/// Bytes of a receipt in memory without its logs.
const RECEIPT_LEN: usize = 360;
/// Bytes of a log in memory without its data.
const LOG_LEN: usize = 240;

/// A stored block with everything that answers are made of.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    pub(crate) block: Block,
    /// The senders of its transactions, in order.
    pub(crate) senders: Vec<Address>,
    /// The hash of the block.
    pub(crate) hash: B256,
    /// The total difficulty of the chain up to and with this block.
    pub(crate) total_difficulty: U256,
    native_hashes: OnceLock<Vec<B256>>,
    ethereum_hashes: OnceLock<Vec<B256>>,
}

impl From<StoredBlock> for CachedBlock {
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
            native_hashes: OnceLock::new(),
            ethereum_hashes: OnceLock::new(),
        }
    }
}

impl CachedBlock {
    /// Whether the transaction with this index has this hash or Ethereum hash.
    pub(crate) fn has_transaction(&self, index: usize, hash: &B256) -> bool {
        self.hashes(NameStyle::Native).get(index) == Some(hash)
            || self.hashes(NameStyle::Ethereum).get(index) == Some(hash)
    }

    /// The hashes of its transactions, as callers of this name style see them.
    pub(crate) fn hashes(&self, name_style: NameStyle) -> &[B256] {
        let hashes = match name_style {
            NameStyle::Native => &self.native_hashes,
            NameStyle::Ethereum => &self.ethereum_hashes,
        };
        hashes.get_or_init(|| {
            let shown = |transaction: &Transaction| shown_hash(transaction, name_style);
            self.block.transactions.iter().map(shown).collect()
        })
    }

    /// Number and hash.
    pub(crate) const fn id(&self) -> BlockId {
        BlockId {
            number: self.block.header.number,
            hash: self.hash,
        }
    }

    /// Bytes in memory, estimated.
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

/// Bytes of `receipts` in memory, estimated.
fn receipts_len(receipts: &[Receipt]) -> usize {
    let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
    RECEIPT_LEN * receipts.len() + logs.map(|log| LOG_LEN + log.data.len()).sum::<usize>()
}

/// The gas of a block, and what was paid for it.
#[derive(Debug)]
pub(crate) struct BlockFees {
    /// The used part of the gas limit.
    pub(crate) used_ratio: f64,
    pub(crate) gas_used: u64,
    /// The prices of the transactions in ascending order, each with the gas of all up to it.
    pub(crate) prices: Vec<(U256, u64)>,
}

/// The cached blocks, receipts and fees.
#[derive(Debug)]
pub(crate) struct BlockCache {
    fees: BoundedCache<BlockFees>,
    blocks: BoundedCache<CachedBlock>,
    receipts: BoundedCache<Vec<Receipt>>,
}

impl Default for BlockCache {
    fn default() -> Self {
        Self {
            fees: BoundedCache::new(BLOCKS_LEN_MAX / BLOCKS_PER_FEES),
            blocks: BoundedCache::new(BLOCKS_LEN_MAX),
            receipts: BoundedCache::new(BLOCKS_LEN_MAX),
        }
    }
}

impl BlockCache {
    /// Bounds the cache for a node whose database has so many bytes for pages.
    pub(crate) fn bound(&self, pages_len: usize) {
        let len_max = BLOCKS_LEN_MAX.min(pages_len / PAGES_PER_BLOCKS);
        self.fees.bound(len_max / BLOCKS_PER_FEES);
        self.blocks.bound(len_max);
        self.receipts.bound(len_max);
    }

    /// The block of this hash if it is cached.
    pub(crate) fn cached(&self, hash: &B256) -> Option<Arc<CachedBlock>> {
        self.blocks.get(hash)
    }

    /// The block of this hash, canonical or not, from the cache or the store. Returns `None` if
    /// there is no such block.
    pub(crate) fn by_hash(
        &self,
        chain: &Chain,
        view: &View,
        hash: &B256,
    ) -> RpcResult<Option<Arc<CachedBlock>>> {
        if let Some(cached) = self.cached(hash) {
            return Ok(Some(cached));
        }
        let generation = self.blocks.generation();
        let Some(stored) = view.block_by_hash(hash).map_err(failure)? else {
            return Ok(None);
        };
        let block = Arc::new(CachedBlock::from(stored));
        // `view` may be older than the deletion of the block.
        if is_stored(chain, hash)? {
            self.blocks.put(*hash, &block, block.len(), generation);
        }
        Ok(Some(block))
    }

    /// The receipts of this block if they are cached.
    pub(crate) fn cached_receipts(&self, hash: &B256) -> Option<Arc<Vec<Receipt>>> {
        self.receipts.get(hash)
    }

    /// The receipts of a block, from the cache or the store. Returns `None` if the block was not
    /// executed.
    pub(crate) fn receipts(
        &self,
        chain: &Chain,
        view: &View,
        id: &BlockId,
    ) -> RpcResult<Option<Arc<Vec<Receipt>>>> {
        if let Some(cached) = self.cached_receipts(&id.hash) {
            return Ok(Some(cached));
        }
        let generation = self.receipts.generation();
        let Some(receipts) = view.receipts(id).map_err(failure)? else {
            return Ok(None);
        };
        let receipts = Arc::new(receipts);
        if is_stored(chain, &id.hash)? {
            self.receipts
                .put(id.hash, &receipts, receipts_len(&receipts), generation);
        }
        Ok(Some(receipts))
    }

    /// The fees of the block `hash`, from the cache or from `read`.
    pub(crate) fn fees<E: From<RpcError>>(
        &self,
        chain: &Chain,
        hash: &B256,
        read: impl FnOnce() -> Result<BlockFees, E>,
    ) -> Result<Arc<BlockFees>, E> {
        if let Some(cached) = self.fees.get(hash) {
            return Ok(cached);
        }
        let generation = self.fees.generation();
        let fees = Arc::new(read()?);
        if is_stored(chain, hash)? {
            let len = size_of::<BlockFees>() + size_of_val(&fees.prices[..]);
            self.fees.put(*hash, &fees, len, generation);
        }
        Ok(fees)
    }

    /// Removes everything. To be called after blocks were deleted.
    pub(crate) fn clear(&self) {
        self.fees.clear();
        self.blocks.clear();
        self.receipts.clear();
    }
}

/// Whether the store has a block now.
fn is_stored(chain: &Chain, hash: &B256) -> RpcResult<bool> {
    let view = chain.view().map_err(failure)?;
    Ok(view.header_by_hash(hash).map_err(failure)?.is_some())
}

/// Values by hash, up to a number of bytes.
#[derive(Debug)]
struct BoundedCache<T> {
    state: Mutex<BoundedCacheState<T>>,
}

#[derive(Debug)]
struct BoundedCacheState<T> {
    values: LruCache<B256, (Arc<T>, usize)>,
    len: usize,
    len_max: usize,
    /// The number of times that the cache was cleared.
    generation: u64,
}

impl<T> BoundedCache<T> {
    fn new(len_max: usize) -> Self {
        let state = BoundedCacheState {
            values: LruCache::unbounded(),
            len: 0,
            len_max,
            generation: 0,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    fn bound(&self, len_max: usize) {
        let mut state = self.state.lock();
        state.len_max = len_max;
        state.shrink();
    }

    fn get(&self, hash: &B256) -> Option<Arc<T>> {
        let mut state = self.state.lock();
        state.values.get(hash).map(|(value, _)| Arc::clone(value))
    }

    fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    fn clear(&self) {
        let mut state = self.state.lock();
        state.values.clear();
        state.len = 0;
        state.generation += 1;
    }

    /// Caches a value of `len` bytes that was read in this generation. Does nothing if the cache
    /// was cleared since.
    fn put(&self, hash: B256, value: &Arc<T>, len: usize, generation: u64) {
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        state.len += len;
        if let Some((_, replaced)) = state.values.put(hash, (Arc::clone(value), len)) {
            state.len -= replaced;
        }
        state.shrink();
    }
}

impl<T> BoundedCacheState<T> {
    /// Removes what was not used for the longest time until the rest is within the bound.
    fn shrink(&mut self) {
        while self.len > self.len_max
            && let Some((_, (_, len))) = self.values.pop_lru()
        {
            self.len -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_value_goes_first() {
        let cache = BoundedCache::new(100);
        let hash = B256::with_last_byte;
        let values = |cache: &BoundedCache<u8>| -> Vec<u8> {
            let state = cache.state.lock();
            let mut all: Vec<_> = state.values.iter().map(|(_, (value, _))| **value).collect();
            all.sort_unstable();
            all
        };
        for value in 1..=3 {
            cache.put(hash(value), &Arc::new(value), 30, 0);
        }
        assert_eq!(cache.get(&hash(1)).as_deref(), Some(&1));
        cache.put(hash(4), &Arc::new(4), 30, 0);
        assert_eq!(values(&cache), [1, 3, 4]);
        cache.put(hash(4), &Arc::new(4), 40, 0);
        assert_eq!((values(&cache), cache.state.lock().len), (vec![1, 3, 4], 100));
        cache.bound(60);
        assert_eq!((values(&cache), cache.state.lock().len), (vec![4], 40));
        cache.put(hash(5), &Arc::new(5), 101, 0);
        assert_eq!(
            (values(&cache), cache.state.lock().len),
            (vec![], 0),
            "a value longer than the bound"
        );
    }
}
