//! What the methods of a base-chain node work on.
//!
//! Knows who answers which question; answers none itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use chain::Chain;
use chain::logs::LogLimits;
use keystore::AccountBook;
use parking_lot::Mutex;
use primitives::{Address, B256, U256};

use crate::block_cache::BlockCache;
use crate::control::{ListenerControl, MinerControl, NetworkControl};
use crate::error::{RpcError, RpcResult, failure};
use crate::facts::{NodeFacts, SyncStatus};
use crate::feeds::Feeds;
use crate::filters::{FilterLimits, Filters};
use crate::health::{Health, Healthy};
use crate::limits::RESPONSE_LEN_MAX;

/// What was settled when the node was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// The node's database directory.
    pub data_directory: PathBuf,
    /// The pending block tells its number, where the interface has null.
    pub pending_number: bool,
    /// What a query for logs may cost.
    pub log_limits: LogLimits,
    /// Most bytes of an answer.
    pub response_len_max: usize,
    /// What `vnodeconfig.json` says.
    pub vnode: VnodeSettings,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            data_directory: PathBuf::new(),
            pending_number: false,
            log_limits: LogLimits::default(),
            response_len_max: RESPONSE_LEN_MAX,
            vnode: VnodeSettings::default(),
        }
    }
}

/// How this node serves application chains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VnodeSettings {
    /// Who is paid for relaying, and so whom `via` must name.
    pub beneficial_address: Option<Address>,
    /// Whether servers of application chains are served.
    pub scs_service: bool,
    /// The port of that service.
    pub service_port: u16,
    /// Whether it is announced to the public.
    pub show_to_public: bool,
    /// Under which address users reach this node.
    pub ip: String,
}

/// The context of the methods. What it holds is shared: clones of the chain and of the book are
/// the same chain and book.
pub struct Node {
    /// The chain, its pool and its work desk.
    pub chain: Chain,
    /// The accounts that this node can sign for.
    pub accounts: AccountBook,
    /// Version, network, peers.
    pub facts: Arc<dyn NodeFacts + Send + Sync>,
    /// The searchers of this process.
    pub miner: Arc<dyn MinerControl>,
    /// What was settled at the start.
    pub settings: NodeSettings,
    /// The HTTP listener, where it can be opened and closed.
    pub(crate) listener: Option<Arc<dyn ListenerControl>>,
    /// The peer-to-peer network, where there is one.
    pub(crate) network: Option<Arc<dyn NetworkControl>>,
    /// What clients poll for.
    pub filters: Filters,
    /// What filters and subscriptions follow.
    pub(crate) feeds: Arc<Feeds>,
    /// What was asked for lately.
    pub(crate) blocks: Arc<BlockCache>,
    /// The suggested price, with the head block it was computed for.
    pub(crate) gas_price: Mutex<Option<(B256, U256)>>,
    /// Held from the choice of a nonce until its transaction is in the pool, so that no two
    /// transactions sent at the same time get the same one.
    pub(crate) sending: Mutex<()>,
}

/// Why a node's context cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No thread for those who follow the chain.
    #[error("cannot start a thread that follows the chain: {0}")]
    Thread(#[from] std::io::Error),
}

impl Node {
    /// Joins the parts, and begins to follow the chain.
    ///
    /// # Errors
    /// [`NodeError`] when no thread can be started for that.
    pub fn new(
        chain: Chain,
        accounts: AccountBook,
        facts: Box<dyn NodeFacts + Send + Sync>,
        miner: Arc<dyn MinerControl>,
    ) -> Result<Self, NodeError> {
        let facts: Arc<dyn NodeFacts + Send + Sync> = facts.into();
        let blocks = Arc::new(BlockCache::default());
        let feeds = Feeds::start(chain.clone(), Arc::clone(&facts), Arc::clone(&blocks))?;
        Ok(Self {
            chain,
            accounts,
            facts,
            miner,
            settings: NodeSettings::default(),
            listener: None,
            network: None,
            filters: Filters::new(Arc::clone(&feeds), FilterLimits::default()),
            feeds,
            blocks,
            gas_price: Mutex::default(),
            sending: Mutex::default(),
        })
    }

    /// Takes other bounds for filters; there must be no filters yet.
    pub fn with_filter_limits(mut self, limits: FilterLimits) -> Self {
        self.filters = Filters::new(Arc::clone(&self.feeds), limits);
        self
    }

    /// The node with these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: NodeSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The node with a listener that methods can open and close.
    #[must_use]
    pub fn with_listener(mut self, listener: Arc<dyn ListenerControl>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The node with a peer-to-peer network.
    #[must_use]
    pub fn with_network(mut self, network: Arc<dyn NetworkControl>) -> Self {
        self.network = Some(network);
        self
    }

    /// The peer-to-peer network.
    pub(crate) fn network(&self) -> RpcResult<&dyn NetworkControl> {
        let none = || RpcError::refused("this node has no peer-to-peer network");
        self.network.as_deref().ok_or_else(none)
    }

    /// Who is paid for blocks made here.
    pub(crate) fn beneficiary(&self) -> RpcResult<Address> {
        let beneficiary = self.chain.settings().beneficiary;
        if beneficiary.is_zero() {
            return Err(RpcError::refused(
                "moacbase missing: want --moacbase ADDRESS, or miner_setMoacbase",
            ));
        }
        Ok(beneficiary)
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

impl Healthy for Node {
    fn health(&self) -> RpcResult<Health> {
        let view = self.view()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Health {
            head: view.head_number(),
            age: now.as_secs().saturating_sub(view.head().header.timestamp),
            peers: self.peer_count(),
            syncing: self.sync_status().is_some(),
        })
    }
}
