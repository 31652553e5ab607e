//! Setting the head back by hand.
//!
//! Setting the head differs from a reorganization in two ways. The blocks above the new head are
//! deleted, so that the same blocks can be imported again. And their transactions do not return to
//! the pool.

use primitives::catch_panic;

use super::follow::Doubt;
use super::writer::{WriterCommand, WriterJobs};
use super::{Chain, ChainInner, WriteError};
use crate::import::{BlockId, ImportError};

impl Chain {
    /// Makes the canonical block `number` the head again and deletes every block above it, side
    /// blocks too. Returns the blocks that are no longer canonical, highest first.
    ///
    /// # Errors
    /// [`WriteError`] if there is no such block or the store fails. After an error of the store the
    /// head may be set back all the same; the next view shows it.
    pub fn set_head(&self, number: u64) -> Result<Vec<BlockId>, WriteError> {
        self.command(|reply| WriterCommand::SetHead { number, reply })
    }
}

impl ChainInner {
    /// Sets the head back; then pool and subscribers follow.
    pub(super) fn set_head_and_follow(
        &self,
        jobs: &WriterJobs,
        number: u64,
    ) -> Result<Vec<BlockId>, WriteError> {
        let head = self.view().map_err(ImportError::from)?.head_number();
        if number > head {
            return Err(WriteError::AboveHead { got: number, head });
        }
        let result =
            catch_panic(|| (jobs.set_head)(number)).unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        let reverted = result.inspect_err(|refused| match refused.store_error() {
            None => tracing::error!(number, error = %refused, "the head was not set back"),
            Some(error) => {
                self.handle_store_failure(format_args!("setting the head to {number}"), error);
                self.put_in_doubt(Doubt::SetBackTo(number));
            }
        })?;
        tracing::warn!(number, dropped = reverted.len(), "the head was set back");
        let followed = catch_panic(|| self.follow_set_head(number, reverted.clone()));
        if !self.check_followed_or_fail(format_args!("following the head set to {number}"), followed) {
            self.put_in_doubt(Doubt::SetBackTo(number));
        }
        Ok(reverted)
    }
}
