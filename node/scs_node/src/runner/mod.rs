//! Follows chain bases and feeds the engines of MicroChains.
//!
//! One task owns all that is known. It hears the VNODE, the engines and the answers of its own
//! reads, and waits for none of them: reads, broadcasts and transactions have tasks of their own.
//!
//! | question | module |
//! |---|---|
//! | which chain bases are followed, and when are they read? | `follow` |
//! | which MicroChains are served, and how many? | `grounds` |
//! | what does an SCS do with what it has read? | `join` |
//! | how do calls and messages leave? | `send` |

mod follow;
mod grounds;
mod join;
mod send;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::import::StateRetention;
use microchain::{EngineError, Event};
use primitives::{Address, B256, SecretKey, U256};
use scs_service::ScsId;
use scs_service::client::{ClientTls, ScsClient, ScsClientConfig};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::account::BaseAccount;
use crate::admission::{JoinRules, PoolReading};
use crate::base::{BaseError, BaseReader};
use crate::folders::{FolderError, Folders};
use crate::proven::{BaseCheckError, BaseChecks, BaseRefusals, ProvenBase};
use crate::refresh::KeptReading;
use crate::served::ServedChains;
use crate::source::VnodeSource;
use crate::wallet::SubmittedTransaction;
use crate::watch::watch_balances;
use crate::worker::{EngineActions, EngineHandle, EngineTurns};
use join::JoinPlan;
use send::{BroadcastOutbox, CallOrder, OUTBOX_MAX, WaitingBroadcasts, send_broadcasts, send_calls};

/// Most chain bases that are followed without an engine.
const FOLLOWED_MAX: usize = 1024;
/// Results of reads, actions of engines, and transactions of clients that wait.
const INBOX_MAX: usize = 1024;

/// The settings of an SCS.
#[derive(Clone, Debug)]
pub struct ScsNodeConfig {
    /// The VNODE: `host:port`.
    pub vnode: String,
    /// The certificate of the VNODE, if it serves over TLS.
    pub tls: Option<ClientTls>,
    /// The chain id of the base chain.
    pub chain_id: u64,
    /// The key of the SCS. Its address is the id.
    pub key: SecretKey,
    /// The data directory.
    pub directory: PathBuf,
    /// Seconds between two blocks of a MicroChain.
    pub period_secs: u64,
    /// The base blocks that must follow a proposal before this SCS votes for it, at most
    /// [`CONFIRMATIONS_MAX`](crate::CONFIRMATIONS_MAX).
    pub confirmations: u64,
    /// The address that gets the rewards; zero for the SCS itself.
    pub beneficiary: Address,
    /// The MicroChains that the SCS joins, as far as their contracts decide it.
    pub join: JoinRules,
    /// The SCS joins no MicroChain that locks a larger bond, in sha.
    pub bond_max: U256,
    /// The SCS joins no MicroChain that pays less for a block, in sha.
    pub reward_min: U256,
    /// The most MicroChains that the SCS serves.
    pub capability: usize,
    /// MicroChains that the SCS serves although it has not registered with them: it is their
    /// monitor.
    pub chains: BTreeSet<Address>,
    /// The longest pause before a lost connection is made again.
    pub reconnect_max: Duration,
    /// The past states of MicroChains that are kept.
    pub states: StateRetention,
    /// The number of newest blocks of a MicroChain that are kept; `None` for all.
    pub blocks: Option<u64>,
    /// The checks of what the VNODE tells of the base chain; `None` if it is believed.
    pub checks: Option<BaseChecks>,
}

/// The reason why an SCS cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ScsRunnerError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The base chain cannot be checked.
    #[error(transparent)]
    Checks(#[from] BaseCheckError),
    /// A MicroChain cannot be opened.
    #[error("MicroChain {chain}: {error}")]
    Engine {
        /// The MicroChain.
        chain: Address,
        /// The error.
        error: EngineStartError,
    },
}

/// The reason why the engine of a MicroChain does not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineStartError {
    /// The folder of the MicroChain cannot be made.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The store of the MicroChain cannot be opened.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A running SCS. When it is dropped, it stops.
#[derive(Debug)]
pub struct ScsRunner {
    served: Arc<ServedChains>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for ScsRunner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl ScsRunner {
    /// Opens the MicroChains of the data directory, and connects in the background. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// [`ScsRunnerError`] if the data directory or a MicroChain in it cannot be opened.
    pub fn start(config: ScsNodeConfig) -> Result<Self, ScsRunnerError> {
        let id = ScsId(config.key.address());
        let mut client_config = ScsClientConfig::new(config.vnode.clone(), id, config.chain_id);
        client_config.tls = config.tls.clone();
        client_config.key = Some(config.key.clone());
        client_config.reconnect_max = config.reconnect_max;
        client_config.handshake.capability = config.capability as u64;
        let (client, events) = ScsClient::start(client_config);
        let (runner, inboxes) = Runner::on_folders(config, &client)?;
        let (key, chain_id) = (runner.config.key.clone(), runner.config.chain_id);
        let account = BaseAccount::new(client.clone(), key, chain_id, runner.folders.clone());
        let served = Arc::clone(&runner.served);
        let tasks = vec![
            tokio::spawn(send_calls(account, inboxes.call_orders)),
            tokio::spawn(send_broadcasts(client.clone(), inboxes.broadcasts)),
            tokio::spawn(runner.run(
                events,
                inboxes.letters,
                inboxes.engine_actions,
                inboxes.submissions,
            )),
            tokio::spawn(watch_balances(client, Arc::clone(&served), id.0)),
        ];
        Ok(Self { served, tasks })
    }

    /// The chains as clients see them.
    pub fn served(&self) -> Arc<ServedChains> {
        Arc::clone(&self.served)
    }
}

/// The state of a chain base, as far as it is known.
#[derive(Debug, Default)]
struct Followed {
    engine: Option<EngineHandle>,
    reading: ReadState,
    /// The last reading. Without it, everything is read.
    kept: Option<Box<KeptReading>>,
    /// Whether this SCS has no work in the MicroChain: it has ended, or the SCS has no role.
    is_over: bool,
    /// Whether the connection is new since everything was read.
    must_read_all: bool,
    /// Events that came before the first read.
    held: Vec<Event>,
    /// The bytes of those events.
    held_bytes: usize,
    /// The base block at which the SCS tries to join next, and the pause after that.
    join_at: u64,
    join_pause: u64,
    /// The code and the pool of the chain base, and the base block since which it has them.
    terms: Option<(B256, Address, u64)>,
    /// The bond in the pool when the SCS registered last.
    joined_with: Option<U256>,
    /// Whether a read that failed is to be repeated after a pause.
    reads_again: bool,
    /// The last failure of a read that was logged.
    told: Option<String>,
    /// The last reason that was logged why this SCS does not join or serve.
    refused: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReadState {
    #[default]
    Idle,
    Running,
    /// Something has changed since the read began.
    RunningAndStale,
}

/// A message of a task to the runner.
enum Letter {
    /// A chain base was read.
    Read(Address, Result<Box<KeptReading>, BaseError>),
    /// A read that failed is to be repeated.
    ReadAgain(Address),
    /// The pool of a chain base was read.
    Pool(JoinPlan, Result<PoolReading, BaseError>),
}

/// The receiving ends of what a [`Runner`], its engines and its clients send.
struct Inboxes {
    letters: mpsc::Receiver<Letter>,
    engine_actions: mpsc::Receiver<EngineActions>,
    submissions: mpsc::Receiver<SubmittedTransaction>,
    call_orders: mpsc::Receiver<CallOrder>,
    broadcasts: WaitingBroadcasts,
}

/// The state of an SCS. One task owns it.
struct Runner {
    id: Address,
    reader: BaseReader,
    config: ScsNodeConfig,
    folders: Folders,
    served: Arc<ServedChains>,
    followed: BTreeMap<Address, Followed>,
    /// Chain bases that were followed in vain, and when that ended.
    unfollowed: HashMap<Address, Instant>,
    /// The chain base of a stranger that was read last.
    last_stranger: Address,
    /// The chain bases with which this SCS has registered, oldest first.
    registered: Vec<Address>,
    /// Chain bases of strangers that were told in the log.
    strangers_told: BTreeSet<Address>,
    /// The number of the base block that the VNODE has told last.
    head: u64,
    via: Address,
    inbox: mpsc::Sender<Letter>,
    turns: EngineTurns,
    actions: mpsc::Sender<EngineActions>,
    calls: mpsc::Sender<CallOrder>,
    broadcasts: BroadcastOutbox,
}

impl Runner {
    /// Opens the MicroChains of the data directory.
    fn on_folders(config: ScsNodeConfig, client: &ScsClient) -> Result<(Self, Inboxes), ScsRunnerError> {
        let id = config.key.address();
        let folders = Folders::open(&config.directory)?;
        let found = folders.chains(config.period_secs)?;
        let followed = folders.followed()?;
        let registered = folders.registered()?;
        let (inbox, letters) = mpsc::channel(INBOX_MAX);
        let (actions, engine_actions) = mpsc::channel(INBOX_MAX);
        let (submitted, submissions) = mpsc::channel(INBOX_MAX);
        let (calls, call_orders) = mpsc::channel(OUTBOX_MAX);
        let (sent, broadcasts) = BroadcastOutbox::new();
        let refusals = Arc::new(BaseRefusals::default());
        let proven = config
            .checks
            .clone()
            .map(|checks| ProvenBase::new(client.clone(), checks, folders.clone(), Arc::clone(&refusals)));
        let source = VnodeSource {
            client: client.clone(),
            proven: proven.transpose()?,
        };
        let reader = BaseReader::new(source, id);
        let served = Arc::new(ServedChains::new(
            id,
            config.chain_id,
            folders.root(),
            reader.clone(),
            refusals,
            submitted,
        ));
        let mut runner = Self {
            id,
            reader,
            config,
            folders,
            served,
            followed: BTreeMap::new(),
            unfollowed: HashMap::new(),
            last_stranger: Address::ZERO,
            registered,
            strangers_told: BTreeSet::new(),
            head: 0,
            via: Address::ZERO,
            inbox,
            turns: EngineTurns::new(),
            actions,
            calls,
            broadcasts: sent,
        };
        runner.open_folders(found.setups)?;
        let named = runner.config.chains.iter().chain(&runner.config.join.listed);
        let named: Vec<Address> = named.chain(&found.unfinished).copied().collect();
        for chain in named.into_iter().chain(followed).take(FOLLOWED_MAX) {
            runner.followed.entry(chain).or_default();
        }
        let inboxes = Inboxes {
            letters,
            engine_actions,
            submissions,
            call_orders,
            broadcasts,
        };
        Ok((runner, inboxes))
    }
}
