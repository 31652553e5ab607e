//! Which block of a number is canonical.
//!
//! Both the blocks and the file of old blocks need this, so it is below them.

use primitives::B256;

use crate::codec::fixed_hash;
use crate::source::{Source, read_row};
use crate::{StoreError, TableId};

/// Hash of the canonical block `number`; `None` if there is no such block.
///
/// # Errors
/// [`StoreError`] when the read fails or the row is corrupt.
pub(crate) fn canonical_hash(source: &impl Source, number: u64) -> Result<Option<B256>, StoreError> {
    read_row(source, TableId::NumberToHash, &number.to_be_bytes(), fixed_hash)
}
