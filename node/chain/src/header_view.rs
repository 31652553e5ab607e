//! The best header chain as a snapshot has it: the best header, headers by number, and the blocks
//! whose bodies are missing.
//!
//! This part serves those who fetch blocks from others. The best header chain is the canonical
//! chain up to the head, or leaves it somewhere and is heavier. Its blocks are stored from the
//! bottom up, so those without bodies are the upper part.

use primitives::{B256, Header, U256};
use store::{BareHeader, BlockReads, HeaderReads, StoreError};

use crate::import::{BlockId, best_header_id};
use crate::view::View;

/// A header of a stored block, or one without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHeader {
    /// The hash.
    pub hash: B256,
    /// The header.
    pub header: Header,
    /// Sum of the difficulties of block 0 to this header.
    pub total_difficulty: U256,
    /// Whether the block is stored.
    pub has_body: bool,
}

impl View {
    /// The header `hash`, of a stored block or without a body.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn known_header(&self, hash: &B256) -> Result<Option<KnownHeader>, StoreError> {
        let with = |header, total_difficulty, has_body| KnownHeader {
            hash: *hash,
            header,
            total_difficulty,
            has_body,
        };
        if let Some(record) = self.header_by_hash(hash)? {
            return Ok(Some(with(record.header, record.total_difficulty, true)));
        }
        let bare = self.snapshot().bare_header(hash)?;
        Ok(bare.map(
            |BareHeader {
                 header,
                 total_difficulty,
             }| with(header, total_difficulty, false),
        ))
    }

    /// Number and hash of the header with the most total difficulty: the head, or a better header.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn best_header(&self) -> Result<BlockId, StoreError> {
        best_header_id(self.snapshot())
    }

    /// The header `number` of the best header chain; `None` above the best header.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn best_chain_header(&self, number: u64) -> Result<Option<KnownHeader>, StoreError> {
        match self.snapshot().best_hash(number)? {
            Some(hash) => self.known_header(&hash),
            None => Ok(None),
        }
    }

    /// The blocks of the best header chain that are not stored, lowest first, at most `most`. The
    /// parent of the first one is stored.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn missing_bodies(&self, most: usize) -> Result<Vec<BlockId>, StoreError> {
        let snapshot = self.snapshot();
        let Some((best, _)) = snapshot.best_header()? else {
            return Ok(Vec::new());
        };
        let lowest = snapshot.best_hashes_beside_chain(0, 1)?;
        let Some((mut low, _)) = lowest.first().copied() else {
            return Ok(Vec::new());
        };
        // All below `low` are stored, and none from `high` on is.
        let mut high = best.saturating_add(1);
        while low < high {
            let middle = low + (high - low) / 2;
            let hash = snapshot.best_hash_beside_chain(middle)?;
            let number = hash.map(|hash| snapshot.block_number(&hash)).transpose()?;
            match number.flatten() {
                Some(_) => low = middle + 1,
                None => high = middle,
            }
        }
        let missing = snapshot.best_hashes_beside_chain(low, most)?;
        Ok(missing
            .into_iter()
            .map(|(number, hash)| BlockId { number, hash })
            .collect())
    }
}
