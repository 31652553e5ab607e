//! Every call into redb goes through a [`CallMonitor`].
//!
//! The monitor turns redb's errors, redb's panics and damaged pages into [`StoreError`]s. It also
//! remembers whether redb refuses further work: all work after a failed read or write of the file,
//! all writes after a failed commit. Knows the path for error messages; keeps no file open.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::StoreError;
use crate::guard::guarded;

/// Watches the calls into one database.
pub(crate) struct CallMonitor {
    /// The path of the database, for error messages.
    pub(crate) path: PathBuf,
    /// Whether redb may refuse work until the database is opened again.
    broken: AtomicBool,
}

impl CallMonitor {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            broken: AtomicBool::new(false),
        }
    }

    /// Runs `work`, a call into redb.
    ///
    /// # Errors
    /// [`StoreError`] when `work` returns an error, panics or reads a damaged page.
    pub(crate) fn run<T, E: Into<redb::Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, StoreError> {
        match guarded(work) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(error.into())),
            Err(failure) => Err(StoreError::call_failed(&self.path, failure)),
        }
    }

    /// Runs `work`, a call into redb that begins or ends a write transaction.
    ///
    /// If the call fails for any reason, a damaged page or a panic included, redb may have lost
    /// track of which pages are free. Then it refuses every later write transaction. So the
    /// database counts as broken.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn run_transaction<T, E: Into<redb::Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, StoreError> {
        self.run(work).inspect_err(|_| self.set_broken(true))
    }

    #[cold]
    fn failed(&self, error: redb::Error) -> StoreError {
        use redb::Error::{Io, LockPoisoned, PreviousIo};
        if matches!(error, Io(_) | PreviousIo | LockPoisoned(_)) {
            self.set_broken(true);
        }
        StoreError::database(&self.path, error)
    }

    /// Whether the database must be opened again before it can be used.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::Release);
    }
}
