//! The state that every connection to one endpoint needs.

use std::sync::Arc;
use std::time::Instant;

use daemon::tls::TlsClient;
use engine::units::{large_text, short_hash};
use engine::{ClientStats, difficulty};
use ethash::WorkPackage;

use super::config::ClientConfig;
use super::endpoint::MiningEndpoint;
use super::epochs::{EpochCheck, EpochHistory, SessionEpochs};
use super::skipped::SkippedMessages;

/// The state that every connection to one endpoint needs.
#[derive(Clone)]
pub(super) struct ClientContext {
    pub(super) config: Arc<ClientConfig>,
    pub(super) tls: TlsClient,
    pub(super) stats: Arc<ClientStats>,
    /// The index of the endpoint.
    pub(super) index: usize,
    /// The epochs that the endpoint has named.
    pub(super) epochs: Arc<EpochHistory>,
    pub(super) check_epoch: Arc<EpochCheck>,
}

impl ClientContext {
    /// The time by the client's clock.
    pub(super) fn now(&self) -> Instant {
        self.config.clock.now()
    }

    /// Begins to count the skipped messages of a session with this endpoint. `endpoint` is its
    /// present address.
    pub(super) fn skipped_messages(&self, endpoint: &MiningEndpoint) -> SkippedMessages {
        SkippedMessages::new(self.index, endpoint.to_string(), Arc::clone(&self.stats))
    }

    /// Logs work: one line for each block, and all of it at level debug. `is_new_block` tells that
    /// the work before was for another block.
    pub(super) fn log_work(&self, work: &WorkPackage, job: Option<&str>, is_new_block: bool) {
        let WorkPackage {
            header_hash,
            number,
            epoch,
            boundary,
            ..
        } = work;
        if is_new_block {
            let (hash, difficulty) = (short_hash(header_hash), large_text(difficulty(boundary).into()));
            tracing::info!(block = number, difficulty, epoch = epoch.index, hash, "new job");
        }
        tracing::debug!(job, %header_hash, "work");
    }

    /// Begins to check the epochs of a session with this endpoint.
    pub(super) fn session_epochs(&self) -> SessionEpochs {
        SessionEpochs::new(Arc::clone(&self.epochs), Arc::clone(&self.check_epoch))
    }
}
