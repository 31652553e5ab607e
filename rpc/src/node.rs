//! The context of the methods of a base-chain node: everything they need to answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chain::Chain;
use chain::call::{CALL_GAS_DEFAULT, TIMEOUT_DEFAULT};
use chain::logs::LogLimits;
use chain::pool::{PoolContent, PooledTransaction};
use chain::spec::TRANSACTION_GAS;
use chain::state::StateError;
use history::AddressIndex;
use keystore::AccountManager;
use parking_lot::Mutex;
use primitives::{Address, B256, U256};

use crate::application::{ApplicationPool, NoSearch, WalletFacts};
use crate::backups::Backups;
use crate::block_cache::BlockCache;
use crate::budget::reserve_values;
use crate::control::{ListenerControl, MinerControl, NetworkControl, ScsServiceControl};
use crate::developer::{Developer, DeveloperError};
use crate::error::{RpcError, RpcResult, failure};
use crate::facts::{NodeFacts, SyncStatus};
use crate::feeds::Feeds;
use crate::filters::{FilterLimits, Filters};
use crate::health::{Health, Healthy};
use crate::limits::{FEE_MAX_DEFAULT, LOGS_TIMEOUT, RESPONSE_LEN_MAX, TRACE_TIMEOUT_MAX};
use crate::long_calls::LongCalls;
use crate::modules::NameStyle;
use crate::types::BlockRef;
use crate::wrong_passwords::WrongPasswords;

/// Bytes of a transaction in the maps of a pool's content, without the transaction itself, which is
/// shared with the pool.
const POOL_ENTRY_LEN: usize = 200;

/// Settings that do not change while the node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// The node's database directory.
    pub data_directory: PathBuf,
    /// Memory for pages of the database. Answered blocks and their receipts are kept in proportion.
    pub cache_bytes: usize,
    /// Whether the pending block is shown with its number. `None`: under Ethereum's names, as geth
    /// does; in the interface the number is null.
    pub pending_number: Option<bool>,
    /// The bounds of a query for logs.
    pub log_limits: LogLimits,
    /// Whether accounts are unlocked even while other machines can reach a listener.
    pub insecure_unlock: bool,
    /// The most sha that the gas of a transaction may cost which this node signs.
    pub fee_caps: FeeCaps,
    /// The longest time that the sender of a transaction waits until a peer was sent it. Zero: it
    /// does not wait.
    pub send_wait: Duration,
    /// The most gas of a call. A call that asks for more, or names none, gets this much.
    pub call_gas_max: u64,
    /// The longest time that a call, or all runs of an estimate, may take.
    pub call_timeout: Duration,
    /// The longest time that a search for logs may take.
    pub logs_timeout: Duration,
    /// The longest time that a trace may take, whatever time its caller asks for.
    pub trace_timeout_max: Duration,
    /// The most bytes of an answer.
    pub response_len_max: usize,
    /// The settings from `vnodeconfig.json`.
    pub vnode: VnodeSettings,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            data_directory: PathBuf::new(),
            cache_bytes: 256 << 20,
            pending_number: None,
            log_limits: LogLimits::default(),
            insecure_unlock: false,
            fee_caps: FeeCaps::default(),
            send_wait: Duration::ZERO,
            call_gas_max: CALL_GAS_DEFAULT,
            call_timeout: TIMEOUT_DEFAULT,
            logs_timeout: LOGS_TIMEOUT,
            trace_timeout_max: TRACE_TIMEOUT_MAX,
            response_len_max: RESPONSE_LEN_MAX,
            vnode: VnodeSettings::default(),
        }
    }
}

/// The most sha that the gas of a transaction may cost which this node signs, by the names under
/// which it is asked to. `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeCaps {
    /// Under the `mc_` names.
    pub native: Option<U256>,
    /// Under Ethereum's names, and for `personal_sendTransaction`.
    pub ethereum: Option<U256>,
}

impl FeeCaps {
    /// The same cap under all names; zero is no limit.
    pub fn all(max: U256) -> Self {
        let cap = Some(max).filter(|max| !max.is_zero());
        Self {
            native: cap,
            ethereum: cap,
        }
    }

    /// The cap under names of this style.
    pub(crate) const fn of(self, name_style: NameStyle) -> Option<U256> {
        match name_style {
            NameStyle::Native => self.native,
            NameStyle::Ethereum => self.ethereum,
        }
    }
}

/// A coin under Ethereum's names, and no limit under those of the interface, which has none.
impl Default for FeeCaps {
    fn default() -> Self {
        Self {
            native: None,
            ethereum: Some(FEE_MAX_DEFAULT),
        }
    }
}

/// The service of this node for application chains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VnodeSettings {
    /// The address that is paid for relaying. A transaction for an application chain names it in
    /// `via`.
    pub beneficial_address: Option<Address>,
    /// The port of the service, if it ran.
    pub service_port: u16,
    /// Whether the service is announced to the public.
    pub show_to_public: bool,
    /// The address under which users reach this node.
    pub ip: String,
}

/// The context of the methods of a base-chain node. A clone of its chain is the same chain, and a
/// clone of its account manager is the same account manager.
pub struct Node {
    /// The chain, its pool and its work manager.
    pub chain: Chain,
    /// The accounts that this node can sign for.
    pub accounts: AccountManager,
    /// Client version, network id, peers.
    pub facts: Arc<dyn NodeFacts + Send + Sync>,
    /// The search for seals in this process.
    pub miner: Arc<dyn MinerControl>,
    /// The settings of the node.
    pub settings: NodeSettings,
    /// The HTTP listener, if methods can open and close it.
    pub(crate) listener: Option<Arc<dyn ListenerControl>>,
    /// The WebSocket listener, if methods can open and close it.
    pub(crate) ws_listener: Option<Arc<dyn ListenerControl>>,
    /// The clients that tried wrong passwords.
    pub(crate) wrong_passwords: WrongPasswords,
    /// The peer-to-peer network, if the node has one.
    pub(crate) network: Option<Arc<dyn NetworkControl>>,
    /// The service for the servers of application chains, if it runs.
    pub(crate) scs_service: Option<Arc<dyn ScsServiceControl>>,
    /// The pool of an application chain; `None` on a base chain, whose chain has its pool.
    pub(crate) application: Option<Arc<dyn ApplicationPool>>,
    /// The switches of contract developers, on the development network.
    pub(crate) developer: Option<Developer>,
    /// The filters that clients poll.
    pub filters: Filters,
    /// The feeds that filters and subscriptions follow.
    pub(crate) feeds: Arc<Feeds>,
    /// The blocks and receipts that were used recently.
    pub(crate) blocks: Arc<BlockCache>,
    /// The calls that are not tried on the thread of a connection.
    pub(crate) long_calls: LongCalls,
    /// The suggested gas price, with the hash of the head block that it was computed for.
    pub(crate) gas_price: Mutex<Option<(B256, U256)>>,
    /// This lock is held from the choice of a nonce until its transaction is in the pool, so that
    /// no two transactions get the same nonce.
    pub(crate) sending: Mutex<()>,
    /// The index by address, if the node builds one.
    pub(crate) address_index: Option<Arc<AddressIndex>>,
    /// The backup that is being made, or the last one.
    pub(crate) backups: Arc<Backups>,
}

/// The reason why the context cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The thread that follows the chain cannot be started.
    #[error("cannot start the thread that follows the chain: {0}")]
    Thread(#[from] std::io::Error),
}

impl Node {
    /// Joins the parts, and starts a thread that follows the chain.
    ///
    /// # Errors
    /// [`NodeError::Thread`] if that thread cannot be started.
    pub fn new(
        chain: Chain,
        accounts: AccountManager,
        facts: Box<dyn NodeFacts + Send + Sync>,
        miner: Arc<dyn MinerControl>,
    ) -> Result<Self, NodeError> {
        Self::with_pool(chain, None, accounts, facts, miner)
    }

    fn with_pool(
        chain: Chain,
        application: Option<Arc<dyn ApplicationPool>>,
        accounts: AccountManager,
        facts: Box<dyn NodeFacts + Send + Sync>,
        miner: Arc<dyn MinerControl>,
    ) -> Result<Self, NodeError> {
        let facts: Arc<dyn NodeFacts + Send + Sync> = facts.into();
        let blocks = Arc::new(BlockCache::default());
        let feeds = Feeds::start(
            chain.clone(),
            application.clone(),
            Arc::clone(&facts),
            Arc::clone(&blocks),
        )?;
        let developer = chain
            .spec()
            .developer
            .then(|| Developer::new(chain.clone(), false));
        Ok(Self {
            chain,
            developer,
            accounts,
            facts,
            miner,
            settings: NodeSettings::default(),
            listener: None,
            ws_listener: None,
            wrong_passwords: WrongPasswords::default(),
            network: None,
            scs_service: None,
            application,
            filters: Filters::new(Arc::clone(&feeds), FilterLimits::default()),
            feeds,
            blocks,
            long_calls: LongCalls::default(),
            gas_price: Mutex::default(),
            sending: Mutex::default(),
            address_index: None,
            backups: Arc::default(),
        })
    }

    /// A node for the methods of wallets on a MicroChain. `chain` is a follower of its chain
    /// ([`Chain::follower`]). It signs for nobody.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn of_application(
        chain: Chain,
        pool: Arc<dyn ApplicationPool>,
        client_version: String,
    ) -> Result<Self, NodeError> {
        let facts = WalletFacts {
            client_version,
            chain_id: chain.chain_id(),
        };
        let follower = chain.clone();
        let (accounts, miner) = (AccountManager::new(), Arc::new(NoSearch));
        let mut node = Self::with_pool(chain, Some(pool), accounts, Box::new(facts), miner)?;
        node.settings.call_gas_max = TRANSACTION_GAS;
        node.feeds.add_chore(Box::new(move || {
            if let Err(error) = follower.look_at_head() {
                tracing::debug!(%error, "the head of a MicroChain cannot be read");
            }
            true
        }));
        Ok(node)
    }

    /// The node with other bounds for filters. Existing filters are lost.
    #[must_use]
    pub fn with_filter_limits(mut self, limits: FilterLimits) -> Self {
        self.filters = Filters::new(Arc::clone(&self.feeds), limits);
        self
    }

    /// The node with these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: NodeSettings) -> Self {
        self.blocks.bound(settings.cache_bytes);
        self.settings = settings;
        self
    }

    /// The node of a development network whose transactions each get a block at once.
    #[must_use]
    pub fn with_automine(self) -> Self {
        if let Some(developer) = &self.developer {
            developer.set_automine(true);
        }
        self
    }

    /// The node of a development network that makes a block each time the interval has passed; zero
    /// makes none.
    ///
    /// # Errors
    /// [`DeveloperError`] if no thread can be started.
    pub fn with_block_interval(self, interval: Duration) -> Result<Self, DeveloperError> {
        if let Some(developer) = &self.developer {
            developer.set_interval(interval)?;
        }
        Ok(self)
    }

    /// The node of a development network whose chain does not end with the old block 0: such a
    /// chain gets an empty block. Tests of contracts take the head's time for the present one.
    ///
    /// # Errors
    /// [`DeveloperError`] if the block is not made.
    pub fn with_present_head(self) -> Result<Self, DeveloperError> {
        if let Some(developer) = &self.developer {
            developer.set_present_head();
            if self.chain.view().map_err(StateError)?.head_number() == 0 {
                developer.mine(None)?;
            }
        }
        Ok(self)
    }

    /// The node with an HTTP listener that methods can open and close.
    #[must_use]
    pub fn with_listener(mut self, listener: Arc<dyn ListenerControl>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The node with a WebSocket listener that methods can open and close.
    #[must_use]
    pub fn with_ws_listener(mut self, listener: Arc<dyn ListenerControl>) -> Self {
        self.ws_listener = Some(listener);
        self
    }

    /// The node with a peer-to-peer network.
    #[must_use]
    pub fn with_network(mut self, network: Arc<dyn NetworkControl>) -> Self {
        self.network = Some(network);
        self
    }

    /// The node with an index by address, which somebody builds.
    #[must_use]
    pub fn with_address_index(mut self, index: Arc<AddressIndex>) -> Self {
        self.address_index = Some(index);
        self
    }

    /// The node with a service for the servers of application chains.
    #[must_use]
    pub fn with_scs_service(mut self, service: Arc<dyn ScsServiceControl>) -> Self {
        self.scs_service = Some(service);
        self
    }

    /// The peer-to-peer network.
    ///
    /// # Errors
    /// −32000 if the node has none.
    pub(crate) fn network(&self) -> RpcResult<&dyn NetworkControl> {
        let missing = || RpcError::refused("this node has no peer-to-peer network");
        self.network.as_deref().ok_or_else(missing)
    }

    /// The address that is paid for the blocks of this node.
    ///
    /// # Errors
    /// −32000 if none is set.
    pub(crate) fn beneficiary(&self) -> RpcResult<Address> {
        let beneficiary = self.chain.settings().beneficiary;
        if beneficiary.is_zero() {
            return Err(RpcError::refused(
                "moacbase missing: expected --moacbase ADDRESS, or miner_setMoacbase",
            ));
        }
        Ok(beneficiary)
    }

    /// All transactions of the pool.
    ///
    /// # Errors
    /// −32000 if too little memory is left for the maps.
    pub(crate) fn pool_content(&self) -> RpcResult<PoolContent> {
        if let Some(application) = &self.application {
            return Ok(application.content());
        }
        let pool = self.chain.pool();
        let (pending, queued) = pool.counts();
        reserve_values(POOL_ENTRY_LEN * (pending + queued))?;
        Ok(pool.content())
    }

    /// A transaction of the pool, by either of its hashes.
    pub(crate) fn pooled(&self, hash: &B256) -> Option<PooledTransaction> {
        match &self.application {
            Some(application) => application.get(hash),
            None => self.chain.pool().get(hash),
        }
    }

    /// The block that a request means by `at`. An application chain has no pending block: there,
    /// the highest block is meant.
    pub(crate) fn meant(&self, at: BlockRef) -> BlockRef {
        match at {
            BlockRef::Pending if self.application.is_some() => BlockRef::Latest,
            at => at,
        }
    }

    /// A view of the chain as it is now. A request takes one view and reads everything from it.
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

    fn fork_hash(&self, genesis: B256, block: u64) -> Option<[u8; 4]> {
        self.facts.fork_hash(genesis, block)
    }

    fn sync_status(&self) -> Option<SyncStatus> {
        self.facts.sync_status()
    }
}

impl Healthy for Node {
    fn health(&self) -> RpcResult<Health> {
        let view = self.view()?;
        Ok(Health {
            head: view.head_number(),
            age: chain::unix_now()
                .as_secs()
                .saturating_sub(view.head().header.timestamp),
            peers: self.peer_count(),
            syncing: self.sync_status().is_some(),
        })
    }
}
