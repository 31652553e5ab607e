//! A connection that gives work, to a node or to a pool.

use std::time::Duration;

use engine::ClientStats;
use ethash::B256;
use stratum::Dialect;

use super::context::ClientContext;
use super::endpoint::{MiningEndpoint, MiningProtocol};
use super::engine_link::EngineLink;
use super::error::ClientError;
use super::getwork::GetWorkClient;
use super::pool::PoolClient;

/// After the client is told to stop, it waits at most this long for the answers to its solutions.
const FINAL_ANSWERS_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection that has given work.
pub(super) enum WorkSource {
    GetWork(Box<GetWorkClient>),
    Pool(Box<PoolClient>),
}

impl WorkSource {
    /// Connects to `endpoint` and waits for its first work.
    ///
    /// `known_dialect` is used for a pool whose address names no dialect. If it is `None` too, all
    /// dialects are tried.
    pub(super) async fn connect(
        endpoint: &MiningEndpoint,
        known_dialect: Option<Dialect>,
        context: &ClientContext,
    ) -> Result<Self, ClientError> {
        match endpoint.protocol {
            MiningProtocol::GetWork => {
                let node = GetWorkClient::connect(endpoint, context).await?;
                Ok(Self::GetWork(Box::new(node)))
            }
            MiningProtocol::Stratum(dialect) => {
                let pool = PoolClient::connect(endpoint, dialect.or(known_dialect), context).await?;
                Ok(Self::Pool(Box::new(pool)))
            }
        }
    }

    /// The dialect of a pool; `None` for a node.
    pub(super) fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::GetWork(_) => None,
            Self::Pool(pool) => Some(pool.dialect()),
        }
    }

    /// Passes work to the engine and solutions back, until the connection fails.
    pub(super) async fn run(&mut self, link: &mut EngineLink) -> ClientError {
        match self {
            Self::GetWork(node) => node.run(link).await,
            Self::Pool(pool) => pool.run(link).await,
        }
    }

    /// The header hash of the newest work.
    pub(super) fn header_hash(&self) -> Option<B256> {
        match self {
            Self::GetWork(node) => Some(node.header_hash()),
            Self::Pool(pool) => pool.header_hash(),
        }
    }

    /// Submits the solutions that the engine has already found.
    ///
    /// `is_connected` says whether this connection still works. If it does not, shares for a pool
    /// are lost. Solutions for a node are still submitted, because they use a connection of their
    /// own.
    pub(super) fn submit_remaining(
        &mut self,
        link: &mut EngineLink,
        is_connected: bool,
        stats: &ClientStats,
    ) {
        while let Ok(found) = link.found.try_recv() {
            match self {
                Self::GetWork(node) => node.submit(found),
                Self::Pool(pool) if is_connected => pool.submit_before_close(&found),
                Self::Pool(_) => stats.count_unanswered(found.device, |counts| counts.lost += 1),
            }
        }
    }

    /// Closes the connection, because another endpoint is used now. A node still gets the solutions
    /// that were already passed on.
    pub(super) async fn disconnect(self) {
        if let Self::Pool(pool) = self {
            pool.close().await;
        }
    }

    /// Waits for the answers to all solutions, for at most [`FINAL_ANSWERS_TIMEOUT`], and closes
    /// the connection.
    pub(super) async fn finish(self) {
        match self {
            Self::GetWork(node) => node.finish(FINAL_ANSWERS_TIMEOUT).await,
            Self::Pool(pool) => pool.finish(FINAL_ANSWERS_TIMEOUT).await,
        }
    }
}
