//! What the methods of a base-chain node work on.
//!
//! Knows who answers which question; answers none itself.

use std::sync::Arc;

use chain::Chain;
use chain::logs::LogLimits;
use keystore::AccountBook;
use parking_lot::Mutex;
use primitives::{B256, U256};

use crate::error::{RpcError, RpcResult};
use crate::methods::{NodeFacts, SyncStatus};

/// The searchers within the node's own process.
pub trait MinerControl: Send + Sync {
    /// Hashes per second of this process alone.
    fn hashrate(&self) -> f64;
}

/// The context of the methods. What it holds is shared: clones of the chain and of the book are
/// the same chain and book.
pub struct Node {
    /// The chain, its pool and its work desk.
    pub chain: Chain,
    /// The accounts that this node can sign for.
    pub accounts: AccountBook,
    /// Version, network, peers.
    pub facts: Box<dyn NodeFacts + Send + Sync>,
    /// The searchers of this process.
    pub miner: Arc<dyn MinerControl>,
    /// What a query for logs may cost.
    pub(crate) log_limits: LogLimits,
    /// The suggested price, with the head block it was computed for.
    pub(crate) gas_price: Mutex<Option<(B256, U256)>>,
    /// Held from the choice of a nonce until its transaction is in the pool, so that no two
    /// transactions sent at the same time get the same one.
    pub(crate) sending: Mutex<()>,
}

impl Node {
    /// Joins the parts.
    pub fn new(
        chain: Chain,
        accounts: AccountBook,
        facts: Box<dyn NodeFacts + Send + Sync>,
        miner: Arc<dyn MinerControl>,
    ) -> Self {
        Self {
            chain,
            accounts,
            facts,
            miner,
            log_limits: LogLimits::default(),
            gas_price: Mutex::default(),
            sending: Mutex::default(),
        }
    }

    /// The same node with these bounds for queries for logs.
    #[must_use]
    pub fn with_log_limits(self, log_limits: LogLimits) -> Self {
        Self { log_limits, ..self }
    }

    /// The chain as it is now: what one request reads.
    pub(crate) fn view(&self) -> RpcResult<chain::View> {
        self.chain.view().map_err(failure)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("chain", &self.chain)
            .field("accounts", &self.accounts)
            .finish_non_exhaustive()
    }
}

impl NodeFacts for Node {
    fn client_version(&self) -> &str {
        self.facts.client_version()
    }

    fn network_id(&self) -> u64 {
        self.facts.network_id()
    }

    fn is_listening(&self) -> bool {
        self.facts.is_listening()
    }

    fn peer_count(&self) -> u64 {
        self.facts.peer_count()
    }

    fn sync_status(&self) -> Option<SyncStatus> {
        self.facts.sync_status()
    }
}

/// A fault of the node, not of the request: the log has the details, the caller the gist.
pub(crate) fn failure(error: impl std::fmt::Display) -> RpcError {
    tracing::error!(%error, "a request met a failure of the node");
    RpcError::internal("the node could not read its chain data")
}
