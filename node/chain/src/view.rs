//! Reading the chain: one snapshot with its head, so that all reads of a request see the same
//! chain.
//!
//! This module knows blocks, transactions and state at any height. It knows no JSON.

use std::sync::Arc;

use primitives::{Address, B256, Receipt, U256};
use store::{
    AccountKey, AccountRecord, BlockBody, BlockReads, HeadBlock, HeaderRecord, NoticeReads, PastNodeReads,
    ScsNotice, Snapshot, StateReads, Store, StoreError, TableId, TransactionPosition, slot_hash,
};

use crate::import::BlockId;
use crate::spec::ChainSpec;
use crate::state::StateNotKept;
use crate::trie::PastNodeIndex;

/// A stored block, canonical or not.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    /// The block's hash.
    pub hash: B256,
    /// Header, total difficulty, and whether the block was executed.
    pub record: HeaderRecord,
    /// Transactions with their senders, and uncles.
    pub body: BlockBody,
}

/// The chain at one moment. Later changes do not affect it.
#[derive(Debug)]
pub struct View {
    snapshot: Arc<Snapshot>,
    spec: Arc<ChainSpec>,
    head: HeadBlock,
    /// The oldest block whose state is kept.
    oldest_state: u64,
}

impl View {
    /// A view of the chain as it is now.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or has no head.
    pub fn new(store: &Store, spec: Arc<ChainSpec>) -> Result<Self, StoreError> {
        Self::of(store.snapshot()?, spec)
    }

    /// A view of the chain as `snapshot` has it.
    pub(crate) fn of(snapshot: Arc<Snapshot>, spec: Arc<ChainSpec>) -> Result<Self, StoreError> {
        let missing = || StoreError::corrupt(TableId::Meta, store::meta_key::HEAD, "no head block");
        let head = snapshot.head_block()?.ok_or_else(missing)?;
        let oldest_state = snapshot.oldest_state()?;
        Ok(Self {
            snapshot,
            spec,
            head,
            oldest_state,
        })
    }

    /// Readers of a past state call this first: the other reads do not notice that a state is not
    /// kept.
    ///
    /// # Errors
    /// [`StateNotKept`] if the state after block `number` is not kept any more.
    pub const fn require_state(&self, number: u64) -> Result<(), StateNotKept> {
        if number < self.oldest_state {
            return Err(StateNotKept {
                got: number,
                expected: self.oldest_state,
            });
        }
        Ok(())
    }

    /// The oldest block whose state is kept.
    pub const fn oldest_state(&self) -> u64 {
        self.oldest_state
    }

    /// Says which trie nodes of the state after block `number` differ from those of the head.
    /// `None` if that state or its nodes are not kept.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn past_nodes(&self, number: u64) -> Result<Option<PastNodeIndex>, StoreError> {
        if number < self.oldest_state {
            return Ok(None);
        }
        PastNodeIndex::new(self.snapshot(), self.head_number(), number)
    }

    /// The oldest block whose state can be read with its tries.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn oldest_tries(&self) -> Result<u64, StoreError> {
        let head = self.head_number();
        let range = self.snapshot.past_nodes_range()?;
        let first = range.filter(|(_, last)| *last == head).map(|(first, _)| first);
        let oldest = first.map_or(head, |first| first.saturating_sub(1));
        Ok(oldest.max(self.oldest_state))
    }

    /// The chain's spec.
    pub const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// The snapshot that is read.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The header of the head block, with its total difficulty.
    pub fn head(&self) -> &HeaderRecord {
        &self.head.record
    }

    /// The number of the head block.
    pub fn head_number(&self) -> u64 {
        self.head.record.header.number
    }

    /// The hash of the head block.
    pub const fn head_hash(&self) -> B256 {
        self.head.hash
    }

    /// The number and hash of the head block.
    pub fn head_id(&self) -> BlockId {
        BlockId {
            number: self.head_number(),
            hash: self.head.hash,
        }
    }

    /// The hash of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn canonical_hash(&self, number: u64) -> Result<Option<B256>, StoreError> {
        self.snapshot.canonical_hash(number)
    }

    /// The hash and header of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn header(&self, number: u64) -> Result<Option<(B256, HeaderRecord)>, StoreError> {
        match self.canonical_hash(number)? {
            Some(hash) => Ok(self.snapshot.header(number, &hash)?.map(|record| (hash, record))),
            None => Ok(None),
        }
    }

    /// The header of the block `hash`, canonical or not.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn header_by_hash(&self, hash: &B256) -> Result<Option<HeaderRecord>, StoreError> {
        self.snapshot.header_by_hash(hash)
    }

    /// The canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn block(&self, number: u64) -> Result<Option<StoredBlock>, StoreError> {
        match self.header(number)? {
            Some((hash, record)) => self.with_body(hash, record),
            None => Ok(None),
        }
    }

    /// The block `hash`, canonical or not.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn block_by_hash(&self, hash: &B256) -> Result<Option<StoredBlock>, StoreError> {
        match self.header_by_hash(hash)? {
            Some(record) => self.with_body(*hash, record),
            None => Ok(None),
        }
    }

    fn with_body(&self, hash: B256, record: HeaderRecord) -> Result<Option<StoredBlock>, StoreError> {
        let body = self
            .snapshot
            .body(record.header.number, &hash, self.spec.tx_rules())?;
        Ok(body.map(|body| StoredBlock { hash, record, body }))
    }

    /// The receipts of a block; `None` if it was not executed.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn receipts(&self, id: &BlockId) -> Result<Option<Vec<Receipt>>, StoreError> {
        self.snapshot.receipts(id.number, &id.hash)
    }

    /// The notices that the transactions of a canonical block sent to application chains, in order;
    /// `None` if the block is not canonical.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn notices(&self, id: &BlockId) -> Result<Option<Vec<ScsNotice>>, StoreError> {
        if self.canonical_hash(id.number)? != Some(id.hash) {
            return Ok(None);
        }
        self.snapshot.notices(id.number, &id.hash).map(Some)
    }

    /// The places where the transaction `hash` may be: hashes of canonical blocks, and indexes in
    /// them.
    ///
    /// At most one of these places has it, which [`StoredBlock::has_transaction`] tells. `hash` is
    /// the transaction's own hash or its Ethereum hash.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn transaction_positions(&self, hash: &B256) -> Result<Vec<(B256, usize)>, StoreError> {
        let positions = self.snapshot.transaction_positions(hash)?;
        let with_hash = |TransactionPosition { block_number, index }| {
            let block = self.canonical_hash(block_number)?.ok_or_else(|| {
                let reason = format!("there is no canonical block {block_number}");
                StoreError::corrupt(TableId::TransactionToPosition, hash.as_slice(), reason)
            })?;
            Ok((block, index as usize))
        };
        positions.into_iter().map(with_hash).collect()
    }

    /// The canonical block with the transaction `hash`, and the transaction's index in it. `hash`
    /// is the transaction's own hash or its Ethereum hash.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn transaction(&self, hash: &B256) -> Result<Option<(StoredBlock, usize)>, StoreError> {
        for (block_hash, index) in self.transaction_positions(hash)? {
            match self.block_by_hash(&block_hash)? {
                Some(block) if block.has_transaction(index, hash) => return Ok(Some((block, index))),
                Some(block) if index < block.body.transactions.len() => {}
                _ => {
                    return Err(StoreError::corrupt(
                        TableId::TransactionToPosition,
                        hash.as_slice(),
                        format!("there is no transaction {index} in block {block_hash}"),
                    ));
                }
            }
        }
        Ok(None)
    }

    /// The account after block `number`; `None` if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn account(&self, address: &Address, number: u64) -> Result<Option<AccountRecord>, StoreError> {
        Ok(self.snapshot.account_at(address, number)?.account)
    }

    /// The value of a storage slot after block `number`.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn slot(&self, address: &Address, slot: &U256, number: u64) -> Result<U256, StoreError> {
        let key = AccountKey::of(address);
        let version = self.snapshot.account_by_key(&key, number)?;
        if version.account.is_none() {
            return Ok(U256::ZERO);
        }
        let slot = key.storage(version.incarnation).slot(slot_hash(slot));
        self.snapshot.slot_by_key(address, &slot, number)
    }

    /// The code with this hash.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or has no such code.
    pub fn code_by_hash(&self, code_hash: &B256) -> Result<Vec<u8>, StoreError> {
        self.snapshot.code(code_hash)
    }

    /// The code of an account after block `number`; empty if it has none.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn code(&self, address: &Address, number: u64) -> Result<Vec<u8>, StoreError> {
        match self.account(address, number)? {
            Some(account) => self.snapshot.code(&account.code_hash),
            None => Ok(Vec::new()),
        }
    }
}

impl StoredBlock {
    /// Whether the transaction with this index has this hash or Ethereum hash.
    pub fn has_transaction(&self, index: usize, hash: &B256) -> bool {
        self.body.transactions.get(index).is_some_and(|transaction| {
            transaction.hash() == *hash || transaction.ethereum_hash().as_ref() == Some(hash)
        })
    }

    /// The block's number and hash.
    pub const fn id(&self) -> BlockId {
        BlockId {
            number: self.record.header.number,
            hash: self.hash,
        }
    }
}
