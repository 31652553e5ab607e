//! The backup that a node makes of its chain while it runs: one at a time, on a thread of its own.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chain::View;
use chain::upkeep::{BackupError, CopyProgress, back_up};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use crate::wire_type::{Described, WireType};

/// The last backup of a node, if there was one.
#[derive(Default)]
pub(crate) struct Backups(Mutex<Option<watch::Sender<BackupStatus>>>);

/// A backup, as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackupStatus {
    folder: String,
    state: BackupState,
    head: u64,
    rows: u64,
    rows_total: u64,
    bytes: u64,
    error: Option<String>,
}

/// The progress of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum BackupState {
    Running,
    Stopping,
    Done,
    Failed,
}

impl Described for BackupStatus {
    const TYPE: WireType = WireType::Named("Backup");
}

impl BackupStatus {
    const fn advance(&mut self, progress: CopyProgress) {
        self.rows = progress.rows;
        self.rows_total = progress.rows_total;
        self.bytes = progress.bytes;
    }

    fn end(&mut self, result: Result<CopyProgress, BackupError>) {
        self.state = BackupState::Done;
        match result {
            Ok(progress) => self.advance(progress),
            Err(error) => {
                self.state = BackupState::Failed;
                self.error = Some(error.to_string());
            }
        }
    }

    const fn is_over(&self) -> bool {
        matches!(self.state, BackupState::Done | BackupState::Failed)
    }
}

/// The reason why no backup starts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupStartError {
    #[error("a backup is being made into {0}: admin_backupStatus says how far it is")]
    Running(String),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Backups {
    /// Starts a backup of what `view` shows into `folder`.
    pub(crate) fn start(&self, view: View, folder: PathBuf) -> Result<(), BackupStartError> {
        let mut current = self.0.lock();
        if let Some(running) = current.as_ref().filter(|backup| !backup.borrow().is_over()) {
            return Err(BackupStartError::Running(running.borrow().folder.clone()));
        }
        let status = watch::Sender::new(BackupStatus {
            folder: folder.display().to_string(),
            state: BackupState::Running,
            head: view.head_number(),
            rows: 0,
            rows_total: 0,
            bytes: 0,
            error: None,
        });
        let told = status.clone();
        std::thread::Builder::new()
            .name("backup".to_owned())
            .spawn(move || {
                let result = back_up(view.snapshot(), &folder, &mut |progress| {
                    told.send_modify(|status| status.advance(progress));
                    match told.borrow().state {
                        BackupState::Running => ControlFlow::Continue(()),
                        _ => ControlFlow::Break(()),
                    }
                });
                match &result {
                    Ok(done) => tracing::info!(folder = %folder.display(), bytes = done.bytes, "backup made"),
                    Err(error) => tracing::warn!(folder = %folder.display(), %error, "no backup was made"),
                }
                told.send_modify(|status| status.end(result));
            })?;
        *current = Some(status);
        Ok(())
    }

    /// The running backup or the last one; `None` if there was none.
    pub(crate) fn status(&self) -> Option<BackupStatus> {
        self.0.lock().as_ref().map(|backup| backup.borrow().clone())
    }

    /// Waits until the backup is over, at most for this time.
    pub(crate) async fn wait(self: &Arc<Self>, most: Duration) {
        let receiver = self.0.lock().as_ref().map(watch::Sender::subscribe);
        if let Some(mut receiver) = receiver {
            let _ = tokio::time::timeout(most, receiver.wait_for(BackupStatus::is_over)).await;
        }
    }

    /// Ends the running backup. Returns whether there was one.
    pub(crate) fn stop(&self) -> bool {
        let current = self.0.lock();
        current.as_ref().is_some_and(|backup| {
            backup.send_if_modified(|status| {
                let runs = status.state == BackupState::Running;
                if runs {
                    status.state = BackupState::Stopping;
                }
                runs
            })
        })
    }
}
