//! A block on its way into the store: the types for its parts, and reading it back from its rows.
//!
//! ```text
//! import:     Block ──unchecked─┐
//!                               ├► CandidateBlock ─check_block► CheckedBlock ─apply_block► rows
//! import_run: PreparedBlock ────┘
//! ```
//!
//! Knows blocks and rows; checks nothing but that rows belong to the hash they lie under.

use primitives::{Address, B256, Block, Transaction, uncles_hash};
use store::{BlockBody, BlockReads, HeaderRecord, StoreError, TableId, Tables, meta_key};

use super::{BlockId, ImportError};
use crate::rules::body::{senders, transactions_root};
use crate::spec::ChainSpec;

/// Memory of a header, or of a transaction beside its data, in bytes, roughly.
const PART_BYTES: usize = 800;

/// A block, and which of its parts were checked before its turn to be imported came.
///
/// Made by [`Importer::prepare`](super::Importer::prepare).
#[derive(Clone, Debug)]
pub struct PreparedBlock {
    /// The block.
    pub block: Block,
    /// Its hash.
    pub hash: B256,
    /// Whether the seal was checked and is right.
    pub(super) seal_is_right: bool,
    /// The sender of each transaction, if the body was checked and is right.
    pub(super) senders: Option<Vec<Address>>,
}

impl PreparedBlock {
    /// Whether the body was checked and is right. `false` also if it could not be checked without
    /// the block's parent.
    pub const fn body_is_right(&self) -> bool {
        self.senders.is_some()
    }

    /// Memory that the block takes, in bytes, roughly.
    pub(super) fn memory_bytes(&self) -> usize {
        let (transactions, uncles) = (&self.block.transactions, &self.block.uncles);
        let encoded: usize = transactions.iter().map(Transaction::encoded_length).sum();
        encoded + (1 + transactions.len() + uncles.len()) * PART_BYTES
    }
}

impl From<CheckedBlock> for PreparedBlock {
    fn from(checked: CheckedBlock) -> Self {
        let (header, body) = (checked.record.header, checked.body);
        Self {
            block: Block {
                header,
                transactions: body.transactions,
                uncles: body.uncles,
            },
            hash: checked.hash,
            seal_is_right: true,
            senders: Some(body.senders),
        }
    }
}

/// A block to be checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct CandidateBlock<'a> {
    pub(super) block: &'a Block,
    pub(super) hash: B256,
    /// Whether the seal was checked already and is right.
    pub(super) seal_is_right: bool,
    /// The sender of each transaction, if the body was checked already and is right.
    pub(super) senders: Option<&'a [Address]>,
}

impl<'a> CandidateBlock<'a> {
    /// A block of which nothing was checked.
    pub(super) fn unchecked(block: &'a Block) -> Self {
        Self {
            block,
            hash: block.hash(),
            seal_is_right: false,
            senders: None,
        }
    }
}

impl<'a> From<&'a PreparedBlock> for CandidateBlock<'a> {
    fn from(prepared: &'a PreparedBlock) -> Self {
        Self {
            block: &prepared.block,
            hash: prepared.hash,
            seal_is_right: prepared.seal_is_right,
            senders: prepared.senders.as_deref(),
        }
    }
}

/// A block whose header, seal and body follow the rules, in the parts that execution and the
/// store need.
#[derive(Debug)]
pub(super) struct CheckedBlock {
    pub(super) hash: B256,
    /// The header, its total difficulty, and whether the block was executed.
    pub(super) record: HeaderRecord,
    /// Transactions, their senders, and uncles.
    pub(super) body: BlockBody,
    /// Whether the store has the block's header and body already.
    pub(super) is_stored: bool,
}

impl CheckedBlock {
    /// Reads a side block that was checked when it was stored.
    pub(super) fn read(tables: &Tables<'_>, spec: &ChainSpec, id: &BlockId) -> Result<Self, StoreError> {
        Ok(Self {
            hash: id.hash,
            record: read_header(tables, id.number, &id.hash)?,
            body: read_body(tables, spec, id)?,
            is_stored: true,
        })
    }

    /// `error`, or that of a damaged row: a stored block that turns out invalid may have another
    /// body in its row than it had when it was checked.
    pub(super) fn blame(&self, spec: &ChainSpec, error: ImportError) -> ImportError {
        if !error.proves_invalid() {
            return error;
        }
        let (header, body) = (&self.record.header, &self.body);
        let is_sound = transactions_root(&body.transactions) == header.transactions_root
            && uncles_hash(&body.uncles) == header.uncles_hash
            && senders(spec, header.number, &body.transactions).is_ok_and(|found| found == body.senders);
        if is_sound {
            return error;
        }
        let reason = "transactions, uncles or senders are not those of the header";
        StoreError::corrupt(TableId::BlockToBody, self.hash.as_slice(), reason).into()
    }

    /// Writes header and body, or the header only if the store has both.
    pub(super) fn put(&self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        if self.is_stored {
            tables.put_header(&self.hash, &self.record)
        } else {
            tables.put_block(&self.hash, &self.record, &self.body)
        }
    }

    /// Number and hash.
    pub(super) const fn id(&self) -> BlockId {
        BlockId {
            number: self.record.header.number,
            hash: self.hash,
        }
    }
}

/// The head block, as a snapshot or the open tables have it.
pub(super) struct CurrentHead {
    pub(super) hash: B256,
    pub(super) record: HeaderRecord,
}

impl CurrentHead {
    pub(super) fn read(source: &impl BlockReads) -> Result<Self, StoreError> {
        let (number, hash) = required_row(source.head()?, TableId::Meta, meta_key::HEAD)?;
        let record = read_header(source, number, &hash)?;
        Ok(Self { hash, record })
    }

    /// Number and hash.
    pub(super) const fn id(&self) -> BlockId {
        BlockId {
            number: self.record.header.number,
            hash: self.hash,
        }
    }
}

/// The row, or an error if the store lacks it although another row refers to it.
pub(super) fn required_row<T>(row: Option<T>, table: TableId, key: &[u8]) -> Result<T, StoreError> {
    row.ok_or_else(|| StoreError::corrupt(table, key, "no such row"))
}

/// Reads a header that must be there and compares it with the hash it is stored under.
pub(super) fn read_header(
    source: &impl BlockReads,
    number: u64,
    hash: &B256,
) -> Result<HeaderRecord, StoreError> {
    let (table, key) = (TableId::BlockToHeader, hash.as_slice());
    let record = required_row(source.header(number, hash)?, table, key)?;
    let got = record.header.hash();
    if got != *hash || record.header.number != number {
        let reason = format!(
            "header: got block {} ({got}), expected block {number} ({hash})",
            record.header.number
        );
        return Err(StoreError::corrupt(table, key, reason));
    }
    Ok(record)
}

/// Reads a body that must be there.
pub(super) fn read_body(
    source: &impl BlockReads,
    spec: &ChainSpec,
    id: &BlockId,
) -> Result<BlockBody, StoreError> {
    let body = source.body(id.number, &id.hash, spec.tx_rules())?;
    required_row(body, TableId::BlockToBody, id.hash.as_slice())
}
