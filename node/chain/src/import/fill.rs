//! Writing blocks that are not executed: those below the block whose state is fetched.
//!
//! Header, seal and body follow the rules, and the receipts have the root, the gas and the bloom of
//! the header. What such a block did to the state is not known, so there are no changes to take
//! back: a filled block goes as it came.

use std::sync::Arc;

use primitives::{Bloom, Receipt, logs_bloom};
use store::{BlockReads, FetchedStage, FetchedStateReads, FetchedStateRecord, StoreError, Tables};

use super::block::{CandidateBlock, CheckedBlock, CurrentHead, read_body, read_header};
use super::{BlockId, ImportError, Importer, PreparedBlock};
use crate::fetched_state::state_root;
use crate::trie::ordered_root;

/// A block that is written without being executed, with its receipts.
#[derive(Clone, Debug)]
pub struct FilledBlock {
    /// The block.
    pub prepared: Arc<PreparedBlock>,
    /// The receipts of its transactions, in order.
    pub receipts: Arc<Vec<Receipt>>,
}

impl Importer {
    /// Makes blocks canonical without executing them, with one commit. Each is the parent of the
    /// next one, and the first a child of a canonical block. Canonical blocks above that one go.
    /// Returns how many were written, and why the one after those is refused.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails, or fetches no state.
    pub fn fill(
        &self,
        blocks: &[FilledBlock],
        now: Option<u64>,
    ) -> Result<(usize, Option<ImportError>), ImportError> {
        let batch = self.store.batch()?;
        let (done, refused) = batch.write_in_order(|tables| {
            if tables.fetched_state()?.is_none() {
                return Err(ImportError::NotFetched);
            }
            let from = tables.head()?.map_or(0, |(number, _)| number);
            let mut done = 0;
            let mut refused = None;
            for block in blocks {
                match self.fill_block(tables, block, now) {
                    Ok(()) => done += 1,
                    Err(error) if error.store_error().is_some() => return Err(error),
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            self.head_moved(tables, from)?;
            self.move_old_blocks(tables, done as u64)?;
            Ok::<_, ImportError>((done, refused))
        })?;
        let last = blocks[..done].last().map(|block| block.prepared.hash);
        self.commit(batch, |view| {
            Ok(last.is_none() || view.head()?.map(|(_, hash)| hash) == last)
        })?;
        Ok((done, refused))
    }

    fn fill_block(
        &self,
        tables: &mut Tables<'_>,
        filled: &FilledBlock,
        now: Option<u64>,
    ) -> Result<(), ImportError> {
        let candidate = CandidateBlock::from(&*filled.prepared);
        let header = &candidate.block.header;
        let parent = BlockId {
            number: header.number.saturating_sub(1),
            hash: header.parent_hash,
        };
        if tables.canonical_hash(header.number)? == Some(candidate.hash) {
            return Ok(());
        }
        if tables.canonical_hash(parent.number)? != Some(parent.hash) {
            return Err(ImportError::UnknownParent(parent.hash));
        }
        self.refuse_known_invalid(&candidate.hash)?;
        let parent_record = read_header(tables, parent.number, &parent.hash)?;
        self.check_header_rules(header, &parent_record.header, now)?;
        let mut block = self.check_seal_and_body(&*tables, &parent_record, &candidate)?;
        self.check_receipts(&block, &filled.receipts)?;
        self.unfill_above(tables, &parent)?;
        block.record.executed = true;
        block.is_stored = tables.block_number(&block.hash)?.is_some();
        let (number, hash) = (block.record.header.number, &block.hash);
        block.put(tables)?;
        tables.put_receipts(number, hash, &filled.receipts)?;
        tables.put_canonical(number, hash, &block.body.transactions, &filled.receipts)?;
        Ok(())
    }

    /// Compares receipts with the header of their block.
    fn check_receipts(&self, block: &CheckedBlock, receipts: &[Receipt]) -> Result<(), ImportError> {
        let header = &block.record.header;
        let gas_used = receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used);
        if gas_used != header.gas_used {
            return Err(ImportError::GasUsed {
                got: gas_used,
                expected: header.gas_used,
            });
        }
        let form = self.spec.receipt_form();
        let root = ordered_root(receipts.iter().map(|receipt| receipt.encode(form)));
        if root != header.receipts_root {
            return Err(ImportError::ReceiptsRoot {
                got: root,
                expected: header.receipts_root,
            });
        }
        let bloom = logs_bloom(receipts.iter().flat_map(|receipt| &receipt.logs));
        if bloom != header.logs_bloom {
            let bits = |bloom: &Bloom| bloom.iter().map(|byte| byte.count_ones()).sum();
            return Err(ImportError::Bloom {
                got_bits: bits(&bloom),
                expected_bits: bits(&header.logs_bloom),
            });
        }
        Ok(())
    }

    /// Makes the canonical block `id` the head. The blocks above it go, with what builds on them.
    fn unfill_above(&self, tables: &mut Tables<'_>, id: &BlockId) -> Result<(), StoreError> {
        let mut lowest = None;
        loop {
            let head = CurrentHead::read(tables)?;
            if head.record.header.number <= id.number {
                break;
            }
            let body = read_body(tables, &self.spec, &head.id())?;
            tables.delete_canonical(&head.record.header, &body.transactions)?;
            lowest = Some(head.hash);
        }
        lowest.map_or(Ok(()), |hash| self.discard(tables, &hash).map(drop))
    }

    /// The fetched state is that of the head `id`: from now on blocks are executed.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails, the head is another block, or the fetched rows do not
    /// have the state root of its header.
    pub fn end_fetched_state(&self, id: &BlockId) -> Result<(), ImportError> {
        let view = self.store.snapshot()?;
        let head = CurrentHead::read(&*view)?;
        let stage = view
            .fetched_state()?
            .map(|FetchedStateRecord { stage, .. }| stage);
        if head.id() != *id || stage != Some(FetchedStage::Tries) {
            return Err(ImportError::NotFetched);
        }
        let expected = head.record.header.state_root;
        let got = state_root(&view)?;
        if got != expected {
            return Err(ImportError::StateRoot { got, expected });
        }
        drop(view);
        self.head_state.take();
        let batch = self.store.batch()?;
        batch.write(|tables| tables.end_fetched_state(id.number))?;
        self.commit(batch, |view| Ok(view.fetched_state()?.is_none()))?;
        Ok(())
    }
}
