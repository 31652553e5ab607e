//! Which block of a number is canonical.
//!
//! Both the blocks and the file of old blocks need this, so it is below them.

use primitives::B256;

use crate::source::Source;
use crate::{StoreError, TableId};

/// Hash of the canonical block `number`; `None` if there is no such block.
///
/// # Errors
/// [`StoreError`] when the read fails or the row is corrupt.
pub(crate) fn canonical_hash(
    source: &(impl Source + ?Sized),
    number: u64,
) -> Result<Option<B256>, StoreError> {
    let key = number.to_be_bytes();
    let hash = |row: &[u8]| {
        <[u8; 32]>::try_from(row).map(B256::from).map_err(|_| {
            let reason = format!("got {} bytes, expected 32", row.len());
            StoreError::corrupt(TableId::NumberToHash, &key, reason)
        })
    };
    source.with(TableId::NumberToHash, &key, hash)?.transpose()
}
