//! Headers whose bodies come later, in the running chain.
//!
//! The caller's thread checks headers, with all processors. The writer only stores them. What is
//! known of the best header chain is read from a view: see [`crate::header_view`].

use primitives::{B256, Header, catch_panic};

use super::early_blocks::AHEAD_SECS_MAX;
use super::writer::{WriterCommand, WriterJobs};
use super::{Chain, ChainInner, WriteError};
use crate::import::{CheckedHeaders, ImportError, ImportedHeaders};

impl Chain {
    /// Checks headers, each the parent of the next one, with their seals, and stores them without
    /// bodies. Those that are known stay as they are.
    ///
    /// A header may be as far ahead of the clock as a block.
    ///
    /// # Errors
    /// [`WriteError`] if a header is refused, or if the store fails. Headers before may be stored;
    /// the next view shows it.
    pub fn import_headers(&self, headers: Vec<Header>) -> Result<ImportedHeaders, WriteError> {
        let headers = self.check_headers(headers)?;
        self.import_checked_headers(headers)
    }

    /// Checks headers with their seals, in the caller's thread and on all processors.
    ///
    /// # Errors
    /// [`WriteError`] if a header is refused, or if the store fails.
    pub fn check_headers(&self, headers: Vec<Header>) -> Result<CheckedHeaders, WriteError> {
        let snapshot = self.inner.store.snapshot().map_err(ImportError::from)?;
        let latest = self.inner.clock.now().as_secs().saturating_add(AHEAD_SECS_MAX);
        Ok(self
            .inner
            .importer
            .check_headers(&*snapshot, headers, Some(latest))?)
    }

    /// Checks the header of a new block whose parent is stored: rules, seal, and last the clock.
    /// The header may be as far ahead of the clock as a block that waits.
    ///
    /// # Errors
    /// [`WriteError`] if the header is refused, or if the store fails.
    pub fn check_new_header(&self, hash: &B256, header: &Header) -> Result<(), WriteError> {
        let snapshot = self.inner.store.snapshot().map_err(ImportError::from)?;
        let latest = self.inner.clock.now().as_secs().saturating_add(AHEAD_SECS_MAX);
        let importer = &self.inner.importer;
        Ok(importer.check_new_header(&*snapshot, hash, header, latest)?)
    }

    /// Stores checked headers without bodies.
    ///
    /// # Errors
    /// As [`Self::import_headers`].
    pub(crate) fn import_checked_headers(
        &self,
        headers: CheckedHeaders,
    ) -> Result<ImportedHeaders, WriteError> {
        self.command(|reply| WriterCommand::ImportHeaders { headers, reply })
    }

    /// Removes a header without body and everything that builds on it, for example because nobody
    /// has its body. The best header is chosen again. Does nothing if the header has a body.
    ///
    /// # Errors
    /// [`WriteError`] if the store fails.
    pub fn forget_headers(&self, hash: B256) -> Result<(), WriteError> {
        self.command(|reply| WriterCommand::ForgetHeaders { hash, reply })
    }
}

impl ChainInner {
    /// Stores headers, or removes them. The head does not move.
    pub(super) fn write_headers<T>(
        &self,
        jobs: &WriterJobs,
        write: impl FnOnce(&WriterJobs) -> Result<T, ImportError>,
    ) -> Result<T, WriteError> {
        let result = catch_panic(|| write(jobs)).unwrap_or_else(|panic| Err(ImportError::Panicked(panic)));
        Ok(result.inspect_err(|refused| match refused.store_error() {
            None => tracing::warn!(error = %refused, "headers refused"),
            Some(error) => self.handle_store_failure(format_args!("storing headers"), error),
        })?)
    }
}
