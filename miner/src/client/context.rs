//! What every connection of a client needs.

use std::sync::Arc;

use tokio_rustls::rustls;

use super::config::ClientConfig;
use super::stats::ClientStats;

/// What every connection of a client needs.
#[derive(Clone)]
pub(super) struct ClientContext {
    pub(super) config: Arc<ClientConfig>,
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) stats: Arc<ClientStats>,
}
