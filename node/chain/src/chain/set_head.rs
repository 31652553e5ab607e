//! Setting the head back by hand.
//!
//! Unlike a reorganization this forgets what was above the new head, so that the same blocks can
//! come again, and brings no transaction back into the pool.

use super::{Chain, Command, Inner, WriteError};
use crate::import::{BlockId, ImportError, Importer};
use crate::view::View;
use store::StoreError;

impl Chain {
    /// Makes block `number` of the chain the head again and forgets every block above it, on side
    /// branches too. Their transactions do not return to the pool. Returns what was taken back,
    /// highest first.
    ///
    /// # Errors
    /// [`WriteError`] when there is no such block or the store fails; then nothing was changed.
    pub fn set_head(&self, number: u64) -> Result<Vec<BlockId>, WriteError> {
        self.command(|reply| Command::SetHead { number, reply })
    }
}

impl Inner {
    pub(super) fn set_head(&self, importer: &Importer, number: u64) -> Result<Vec<BlockId>, WriteError> {
        let head = self.view().map_err(ImportError::from)?.head_number();
        if number > head {
            return Err(WriteError::AboveHead { got: number, head });
        }
        let reverted = importer.set_head(number)?;
        tracing::warn!(number, dropped = reverted.len(), "the head was set back");
        self.uncles.lock().clear();
        if let Err(error) = self.pool_follows_back() {
            tracing::error!(%error, "the pool could not follow the head that was set");
        }
        self.tell(reverted.clone(), Vec::new());
        Ok(reverted)
    }

    fn pool_follows_back(&self) -> Result<(), StoreError> {
        let _admission = self.admission.write();
        let senders = self.pool.senders();
        self.pool_stands(&self.view()?, senders)
    }

    fn view(&self) -> Result<View, StoreError> {
        View::new(&self.store, self.spec.clone())
    }
}
