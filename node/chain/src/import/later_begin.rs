//! Chains that begin at a later block than block 0: the state of that block was fetched, or older
//! blocks were removed. For application chains, where every block has the difficulty 1.

use primitives::{Block, U256};
use store::{BlockBody, BlockReads, FetchedStage, FetchedStateReads, HeaderRecord, StoreError};

use super::block::CurrentHead;
use super::{BlockId, ImportError, Importer};
use crate::fetched_state::state_root;
use crate::rules::body::check_body;

impl Importer {
    /// Makes the last of `blocks` the head, without the blocks below it: the fetched state is that
    /// after it. The others, which come first and ascend, are stored because later blocks refer to
    /// them. Only their bodies are compared with their headers; they have no receipts here.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails, the head is not block 0, a body is not that of its
    /// header, or the fetched rows do not have the state root of the last header.
    pub fn begin_later(&self, blocks: &[Block]) -> Result<(), ImportError> {
        let view = self.store.snapshot()?;
        let stage = view.fetched_state()?.map(|record| record.stage);
        let head = CurrentHead::read(&*view)?.id();
        let Some(last) = blocks.last() else {
            return Err(ImportError::NotFetched);
        };
        if stage != Some(FetchedStage::Tries) || head.number != 0 {
            return Err(ImportError::NotFetched);
        }
        let (got, expected) = (state_root(&view)?, last.header.state_root);
        if got != expected {
            return Err(ImportError::StateRoot { got, expected });
        }
        let mut checked = Vec::with_capacity(blocks.len());
        for block in blocks {
            let senders = check_body(&self.spec, &self.seals, &*view, block)?;
            let record = HeaderRecord {
                header: block.header.clone(),
                total_difficulty: U256::from(block.header.number),
                executed: false,
            };
            checked.push((block.hash(), record, BlockBody::new(block.clone(), senders)));
        }
        drop(view);
        self.head_state.take();
        let id = BlockId {
            number: last.header.number,
            hash: last.hash(),
        };
        let batch = self.store.batch()?;
        batch.write(|tables| {
            for (hash, record, body) in &checked {
                tables.put_block(hash, record, body)?;
                tables.put_canonical(record.header.number, hash, &body.transactions, &[])?;
            }
            tables.put_first_block(id.number)?;
            tables.end_fetched_state(id.number)
        })?;
        self.commit(batch, |view| Ok(view.fetched_state()?.is_none()))?;
        Ok(())
    }

    /// Removes blocks above block 0 and below `target`, but for those in `keep`: the oldest first,
    /// at most `most`. Past states that need them must be gone.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. What was removed before stays removed.
    pub fn drop_blocks(&self, target: u64, keep: &[u64], most: usize) -> Result<(), StoreError> {
        let view = self.store.snapshot()?;
        let oldest = view.next_block(view.first_block()?.max(1))?;
        if oldest.is_none_or(|oldest| oldest >= target) {
            return Ok(());
        }
        drop(view);
        let batch = self.store.batch()?;
        batch.write(|tables| tables.delete_old_blocks(target, keep, most, self.spec.tx_rules()))?;
        batch.commit()
    }
}
