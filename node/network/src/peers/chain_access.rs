//! The chain, as the handling of peers sees it.
//!
//! [`ChainAccess`] is implemented for [`Chain`] here. A simulation implements it for its own nodes.
//! All functions but [`ChainAccess::head`] and [`ChainAccess::total_difficulty`] may read much, so
//! they belong on threads for blocking work.

use std::sync::Arc;

use chain::Chain;
use chain::chain::{SubmitError, WriteError};
use chain::import::{BlockId, ImportError, Imported};
use chain::pool::PoolError;
use chain::rules::HeaderError;
use chain::rules::body::{BodyError, check_encoded_roots};
use chain::view::StoredBlock;
use primitives::{
    B256, Block, Bytes, DecodeError, EMPTY_CODE_HASH, Header, Receipt, Transaction, TxRules, U256, keccak256,
};
use store::{StateReads, StoreError};

use super::offered::{HashedTransaction, TransactionVerdict};
use super::snap_serve::SnapSource;
use crate::messages::{PackedBlock, PeerBody, PeerMessageError};

/// The head of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// The number of the block.
    pub number: u64,
    /// The hash of the block.
    pub hash: B256,
    /// The total difficulty with it.
    pub total_difficulty: U256,
}

/// The reason why the chain gave no answer. The text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chain cannot be read: {0}")]
pub struct ChainAccessError(pub String);

impl From<StoreError> for ChainAccessError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// The reason why a block of a peer is not imported. Some are the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockFault {
    /// The header breaks a rule, or its seal is wrong. Nobody has worked for it.
    Header(String),
    /// The header is good, but the body that came with it is not the header's.
    Body(String),
    /// Header and seal are good, but the block is further ahead of the clock than blocks may wait.
    Ahead(String),
    /// The block, or its parent, was executed here before and found invalid. Whoever passes it on
    /// may not have executed it, so nobody is to blame for an announcement.
    KnownInvalid(String),
    /// The block cannot be checked now, for a reason that says nothing about it.
    NotNow(String),
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportResult {
    /// The block is stored.
    Good,
    /// No fault was found, but the block is ahead of the clock. The chain keeps it until its time
    /// has come.
    Later,
    /// The block is invalid. Whoever made it has broken the rules.
    Invalid(String),
    /// The block cannot be imported now, for a reason that says nothing about it.
    Failed(String),
}

/// The chain as peers need it. Methods give [`ChainAccessError`] if the chain cannot be read.
pub trait ChainAccess: Send + Sync {
    /// The head.
    fn head(&self) -> Result<ChainHead, ChainAccessError>;

    /// The total difficulty with a block; `None` if it is not stored. It need not be canonical.
    fn total_difficulty(&self, hash: &B256) -> Result<Option<U256>, ChainAccessError>;

    /// A reader of one moment of the chain.
    fn reader(&self) -> Result<Box<dyn ChainReader>, ChainAccessError>;

    /// Says which forms transactions may have.
    fn tx_rules(&self) -> TxRules;

    /// Checks the header of a block whose parent is stored: the rules first, then the seal, the
    /// clock last.
    ///
    /// # Errors
    /// [`BlockFault`], but never [`BlockFault::Body`].
    fn check_header(&self, hash: &B256, header: &Header) -> Result<(), BlockFault>;

    /// Checks a block whose parent is stored, without executing it: the header and the seal, then
    /// that the body is the header's. The body is decoded after that.
    ///
    /// # Errors
    /// [`BlockFault`] with the first fault.
    fn check(&self, block: &PackedBlock) -> Result<Box<Block>, BlockFault> {
        self.check_header(&block.hash(), block.header())?;
        open_body(block, self.tx_rules()).map_err(|error| BlockFault::Body(error.to_string()))
    }

    /// Imports a block.
    fn import(&self, block: Block) -> ImportResult;

    /// The transaction with this hash, if it waits in the pool.
    fn pooled(&self, hash: &B256) -> Option<Transaction>;

    /// Hashes of transactions that could be in the next block, at most `most`.
    fn pending(&self, most: usize) -> Vec<B256>;

    /// Offers a transaction of a peer to the pool.
    fn submit(&self, offered: HashedTransaction) -> TransactionVerdict;

    /// The states that are given to peers by `snap/1`. `None` if that is not offered.
    fn snap(&self) -> Option<Arc<dyn SnapSource>> {
        None
    }
}

/// One moment of a chain, for the answers to peers. Methods give [`ChainAccessError`] if the chain
/// cannot be read.
pub trait ChainReader {
    /// The hash of the canonical block `number`; `None` above the head.
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, ChainAccessError>;

    /// The header with this hash, canonical or not.
    fn header(&self, hash: &B256) -> Result<Option<Header>, ChainAccessError>;

    /// The body of the block with this hash.
    fn body(&self, hash: &B256) -> Result<Option<PeerBody>, ChainAccessError>;

    /// The receipts of the block with this hash; `None` if it was not executed.
    fn receipts(&self, hash: &B256) -> Result<Option<Vec<Receipt>>, ChainAccessError>;

    /// The code with this hash.
    fn code(&self, hash: &B256) -> Result<Option<Bytes>, ChainAccessError>;
}

impl ChainAccess for Chain {
    fn head(&self) -> Result<ChainHead, ChainAccessError> {
        let view = self.view()?;
        Ok(ChainHead {
            number: view.head_number(),
            hash: view.head_hash(),
            total_difficulty: view.head().total_difficulty,
        })
    }

    fn total_difficulty(&self, hash: &B256) -> Result<Option<U256>, ChainAccessError> {
        let record = self.view()?.header_by_hash(hash)?;
        Ok(record.map(|record| record.total_difficulty))
    }

    fn reader(&self) -> Result<Box<dyn ChainReader>, ChainAccessError> {
        Ok(Box::new(self.view()?))
    }

    fn tx_rules(&self) -> TxRules {
        self.spec().tx_rules()
    }

    fn check_header(&self, hash: &B256, header: &Header) -> Result<(), BlockFault> {
        self.check_new_header(hash, header)
            .map_err(|error| header_fault(&error))
    }

    fn import(&self, block: Block) -> ImportResult {
        match Self::import(self, block) {
            Ok(Imported::Known | Imported::Side | Imported::Head { .. }) => ImportResult::Good,
            Ok(Imported::Later) => ImportResult::Later,
            Err(error) => refused(&error),
        }
    }

    fn pooled(&self, hash: &B256) -> Option<Transaction> {
        let pooled = self.pool().get(hash)?;
        Some((*pooled.transaction).clone())
    }

    fn pending(&self, most: usize) -> Vec<B256> {
        let mut ready = self.pool().ready();
        let mut hashes = Vec::new();
        while hashes.len() < most
            && let Some(pooled) = ready.best()
        {
            hashes.push(pooled.transaction.hash());
            ready.mark_included(pooled.sender);
        }
        hashes
    }

    fn submit(&self, offered: HashedTransaction) -> TransactionVerdict {
        let HashedTransaction { hash, transaction } = offered;
        match self.check_without_sender(&transaction, &hash) {
            Ok(()) => {}
            Err(PoolError::Known(_) | PoolError::Underpriced { .. } | PoolError::BlockGas { .. }) => {
                return TransactionVerdict::PassedOver;
            }
            Err(error) => return TransactionVerdict::Worthless(error.to_string()),
        }
        match self.submit_transaction(transaction) {
            Ok(_) => TransactionVerdict::Taken,
            Err(SubmitError::Pool(PoolError::Known(_))) => TransactionVerdict::PassedOver,
            Err(error @ (SubmitError::Sender(_) | SubmitError::Pool(PoolError::Funds { .. }))) => {
                TransactionVerdict::Worthless(error.to_string())
            }
            Err(error) => TransactionVerdict::Refused(error.to_string()),
        }
    }

    fn snap(&self) -> Option<Arc<dyn SnapSource>> {
        Some(Arc::new(self.clone()))
    }
}

/// Decodes a block whose header is good. The roots come first, so that only a body that somebody
/// has worked for is decoded.
fn open_body(block: &PackedBlock, rules: TxRules) -> Result<Box<Block>, WrongBody> {
    check_encoded_roots(
        block.header(),
        block.uncles_hash()?,
        block.encoded_transactions()?,
    )?;
    Ok(Box::new(block.unpack(rules)?))
}

/// The reason why a body is not that of its header.
#[derive(Debug, thiserror::Error)]
enum WrongBody {
    /// The body is no list of transactions and uncles.
    #[error(transparent)]
    Rlp(#[from] DecodeError),
    /// The transactions or uncles cannot be decoded.
    #[error(transparent)]
    Message(#[from] PeerMessageError),
    /// The header names another body.
    #[error(transparent)]
    Roots(#[from] BodyError),
}

/// The fault of a header that the chain refuses.
pub(super) fn header_fault(error: &WriteError) -> BlockFault {
    match error {
        WriteError::Import(ImportError::Header(HeaderError::Future { .. })) => {
            BlockFault::Ahead(error.to_string())
        }
        WriteError::Import(ImportError::KnownInvalid { .. }) => BlockFault::KnownInvalid(error.to_string()),
        WriteError::Import(import) if import.is_invalid_block() => BlockFault::Header(error.to_string()),
        _ => BlockFault::NotNow(error.to_string()),
    }
}

fn refused(error: &WriteError) -> ImportResult {
    match error {
        WriteError::Import(import) if import.is_invalid_block() => ImportResult::Invalid(error.to_string()),
        _ => ImportResult::Failed(error.to_string()),
    }
}

impl ChainReader for chain::View {
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, ChainAccessError> {
        Ok(Self::canonical_hash(self, number)?)
    }

    fn header(&self, hash: &B256) -> Result<Option<Header>, ChainAccessError> {
        Ok(self.header_by_hash(hash)?.map(|record| record.header))
    }

    fn body(&self, hash: &B256) -> Result<Option<PeerBody>, ChainAccessError> {
        let block = self.block_by_hash(hash)?;
        Ok(block.map(|StoredBlock { body, .. }| PeerBody {
            transactions: body.transactions,
            uncles: body.uncles,
        }))
    }

    fn receipts(&self, hash: &B256) -> Result<Option<Vec<Receipt>>, ChainAccessError> {
        let Some(record) = self.header_by_hash(hash)? else {
            return Ok(None);
        };
        let id = BlockId {
            number: record.header.number,
            hash: *hash,
        };
        Ok(Self::receipts(self, &id)?)
    }

    fn code(&self, hash: &B256) -> Result<Option<Bytes>, ChainAccessError> {
        if *hash == EMPTY_CODE_HASH {
            return Ok(Some(Bytes::new()));
        }
        // A missing row and a damaged one are the same to a peer.
        let code = self.snapshot().code(hash).ok();
        Ok(code.filter(|code| keccak256(code) == *hash).map(Bytes::from))
    }
}
