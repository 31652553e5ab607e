//! The state that every connection to one endpoint needs.

use std::sync::Arc;

use daemon::tls::TlsClient;
use engine::ClientStats;

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
    /// Begins to count the skipped messages of a session with this endpoint. `endpoint` is its
    /// present address.
    pub(super) fn skipped_messages(&self, endpoint: &MiningEndpoint) -> SkippedMessages {
        SkippedMessages::new(self.index, endpoint.to_string(), Arc::clone(&self.stats))
    }

    /// Begins to check the epochs of a session with this endpoint.
    pub(super) fn session_epochs(&self) -> SessionEpochs {
        SessionEpochs::new(Arc::clone(&self.epochs), Arc::clone(&self.check_epoch))
    }
}
