//! The running chain while its state is fetched from peers: blocks are written without being
//! executed, until the state of the head is here.

use primitives::catch_panic;
use store::{FetchedStateReads, StoreError};

use super::follow::Doubt;
use super::many::ImportedMany;
use super::writer::{WriterCommand, WriterJobs};
use super::{Chain, ChainInner, WriteError};
use crate::fetched_state::FetchedState;
use crate::import::{BlockId, FilledBlock, ImportError};
use crate::measured;

impl Chain {
    /// Whether a state is being fetched. Then no state can be read, and no block is executed.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn fetches_state(&self) -> Result<bool, StoreError> {
        Ok(self.inner.store.snapshot()?.fetched_state()?.is_some())
    }

    /// Begins to fetch a state, or goes on with it. Returns the progress that was stored last. The
    /// head must be block 0 at the begin.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or has a state.
    pub fn fetch_state(&self) -> Result<(FetchedState, Vec<u8>), StoreError> {
        FetchedState::begin(&self.inner.store)
    }

    /// Writes blocks without executing them, each the parent of the next one, while a state is
    /// fetched. It ends with the first block that is refused.
    ///
    /// # Errors
    /// [`WriteError`] if the chain has ended. Whether a block is refused is in the result.
    pub fn fill(&self, blocks: Vec<FilledBlock>) -> Result<ImportedMany, WriteError> {
        self.command(|reply| WriterCommand::Fill { blocks, reply })
    }

    /// The fetched state is that of the head `id`: from now on it is read, and blocks are executed.
    ///
    /// # Errors
    /// [`WriteError`] if the store fails, or the state is not that of the head.
    pub fn end_fetched_state(&self, id: BlockId) -> Result<(), WriteError> {
        self.command(|reply| WriterCommand::EndFetchedState { id, reply })
    }
}

impl ChainInner {
    pub(super) fn fill(&self, jobs: &WriterJobs, blocks: &[FilledBlock]) -> ImportedMany {
        let now = (jobs.clock)();
        let filled = catch_panic(|| jobs.importer.fill(blocks, Some(now)))
            .unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        match filled {
            Ok((stored, refused)) => {
                measured::blocks_came("filled", stored);
                ImportedMany { stored, refused }
            }
            Err(error) => {
                if let Some(error) = error.store_error() {
                    self.handle_store_failure(format_args!("storing blocks"), error);
                }
                ImportedMany {
                    stored: 0,
                    refused: Some(error),
                }
            }
        }
    }

    pub(super) fn end_fetched_state(&self, jobs: &WriterJobs, id: &BlockId) -> Result<(), WriteError> {
        let ended = catch_panic(|| jobs.importer.end_fetched_state(id))
            .unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        ended.inspect_err(|error| match error.store_error() {
            Some(error) => self.handle_store_failure(format_args!("ending the fetched state"), error),
            None => tracing::error!(%error, number = id.number, "the fetched state is not that of the head"),
        })?;
        let followed = catch_panic(|| self.follow_fetched_state());
        if !self.check_followed_or_fail(format_args!("following the fetched state"), followed) {
            self.put_in_doubt(Doubt::SetBackTo(id.number));
        }
        Ok(())
    }
}
