//! Old blocks that are not in the store's own files: somebody else keeps them.
//!
//! The store compares a block with the archive when the block becomes old. Only if the archive has
//! the same body and the same receipts does the store keep no copy. Knows the archive as a trait;
//! what its files look like is decided above.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use primitives::{Address, B256, Receipt};

/// Bodies and receipts of blocks that the store need not keep.
pub trait BlockArchive: std::fmt::Debug + Send + Sync {
    /// The body of the block `number` with `hash`: the RLP list of its transactions and uncles.
    /// `None` if the archive does not have the number.
    ///
    /// # Errors
    /// [`ArchiveError`] if the archive cannot be read, or has another block with this number.
    fn body(&self, number: u64, hash: &B256) -> Result<Option<Vec<u8>>, ArchiveError>;

    /// As [`Self::body`], with the senders of the transactions.
    ///
    /// # Errors
    /// As [`Self::body`].
    fn body_with_senders(&self, number: u64, hash: &B256) -> Result<Option<ArchivedBody>, ArchiveError>;

    /// The receipts of the block `number` with `hash`; `None` if the archive does not have the
    /// number.
    ///
    /// # Errors
    /// As [`Self::body`].
    fn receipts(&self, number: u64, hash: &B256) -> Result<Option<Vec<Receipt>>, ArchiveError>;
}

/// The body of a block of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedBody {
    /// The senders of the transactions, in order.
    pub senders: Vec<Address>,
    /// The RLP list of transactions and uncles.
    pub rlp: Vec<u8>,
}

/// The reason why a block of an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ArchiveError {
    /// The file of the archive.
    pub path: PathBuf,
    /// The fault.
    pub reason: String,
}

/// The place of the archive of a store. It is empty until somebody fills it, because an archive
/// needs the rules of a chain, and the store says which chain it has. Clones share the place.
#[derive(Clone, Debug, Default)]
pub struct ArchiveSlot(Arc<OnceLock<Arc<dyn BlockArchive>>>);

impl ArchiveSlot {
    /// Fills the place. Returns `false` if there is an archive already.
    pub fn set(&self, archive: Arc<dyn BlockArchive>) -> bool {
        self.0.set(archive).is_ok()
    }

    pub(crate) fn get(&self) -> Option<&dyn BlockArchive> {
        self.0.get().map(|archive| &**archive)
    }
}
