//! Setting the head back by hand.
//!
//! Unlike a reorganization this forgets what was above the new head, so that the same blocks can
//! come again, and brings no transaction back into the pool.

use super::writer::{Jobs, contained};
use super::{Chain, Command, Inner, WriteError};
use crate::import::{BlockId, ImportError};

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
    /// Sets the head, with whatever follows it.
    pub(super) fn set_head(&self, jobs: &Jobs, number: u64) -> Result<Vec<BlockId>, WriteError> {
        self.catch_up_first();
        let head = self.view().map_err(ImportError::from)?.head_number();
        if number > head {
            return Err(WriteError::AboveHead { got: number, head });
        }
        let result =
            contained(|| (jobs.set_head)(number)).unwrap_or_else(|words| Err(ImportError::Panicked(words)));
        let reverted = result.inspect_err(|refused| match refused.store_error() {
            None => tracing::error!(number, error = %refused, "the head was not set"),
            Some(error) => {
                self.note_trouble(format_args!("setting the head to {number}"), error);
                self.doubt(Some(number));
            }
        })?;
        tracing::warn!(number, dropped = reverted.len(), "the head was set back");
        let followed = contained(|| self.follow_back(number, reverted.clone()));
        if !self.has_followed(format_args!("following the head set to {number}"), followed) {
            self.doubt(Some(number));
        }
        Ok(reverted)
    }
}
