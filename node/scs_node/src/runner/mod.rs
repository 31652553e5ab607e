//! Follows chain bases and feeds the engines of MicroChains.
//!
//! One task owns all that is known. It hears the VNODE, the engines and the answers of its own
//! reads, and waits for none of them: reads, broadcasts and transactions have tasks of their own.
//!
//! | question | module |
//! |---|---|
//! | which chain bases are followed, and when are they read? | `follow` |
//! | what does an SCS do with what it has read? | `join` |
//! | how do calls and messages leave? | `send` |

mod follow;
mod join;
mod send;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use microchain::{EngineError, Event};
use primitives::{Address, SecretKey, U256};
use scs_service::client::{ClientTls, ScsClient, ScsClientConfig};
use scs_service::{ScsId, ScsMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::account::BaseAccount;
use crate::base::{BaseError, BaseReader};
use crate::folders::{FolderError, Folders};
use crate::refresh::KeptReading;
use crate::served::ServedChains;
use crate::worker::{EngineActions, EngineHandle};
use send::{CallOrder, OUTBOX_MAX, send_broadcasts, send_calls};

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
    /// The address that gets the rewards; zero for the SCS itself.
    pub beneficiary: Address,
    /// The SCS joins no MicroChain that locks a larger bond, in sha.
    pub bond_max: U256,
    /// The SCS joins no MicroChain that pays less for a block, in sha.
    pub reward_min: U256,
    /// The most MicroChains that the SCS serves.
    pub capability: usize,
    /// The longest pause before a lost connection is made again.
    pub reconnect_max: Duration,
}

/// The reason why an SCS cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ScsRunnerError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
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
    /// The engine has no thread.
    #[error(transparent)]
    Thread(std::io::Error),
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
        let id = config.key.address();
        let folders = Folders::open(&config.directory)?;
        let setups = folders.chains(config.period_secs)?;
        let followed = folders.followed()?;
        let mut client_config = ScsClientConfig::new(config.vnode.clone(), ScsId(id), config.chain_id);
        client_config.tls = config.tls.clone();
        client_config.reconnect_max = config.reconnect_max;
        client_config.handshake.capability = config.capability as u64;
        let (client, events) = ScsClient::start(client_config);
        let (inbox, letters) = mpsc::channel(INBOX_MAX);
        let (actions, engine_actions) = mpsc::channel(INBOX_MAX);
        let (submitted, submissions) = mpsc::channel(INBOX_MAX);
        let (calls, call_orders) = mpsc::channel(OUTBOX_MAX);
        let (broadcasts, unsent_broadcasts) = mpsc::channel(OUTBOX_MAX);
        let account = BaseAccount::new(client.clone(), config.key.clone(), config.chain_id);
        let reader = BaseReader::new(client.clone(), id);
        let served = Arc::new(ServedChains::new(
            id,
            config.chain_id,
            folders.root(),
            reader.clone(),
            submitted,
        ));
        let mut runner = Runner {
            id,
            reader,
            config,
            folders,
            served: Arc::clone(&served),
            followed: BTreeMap::new(),
            head: 0,
            via: Address::ZERO,
            inbox,
            actions,
            calls,
            broadcasts,
        };
        for setup in setups {
            let chain = setup.address;
            let engine = runner
                .open_engine(setup)
                .map_err(|error| ScsRunnerError::Engine { chain, error })?;
            let followed = Followed {
                engine: Some(engine),
                ..Followed::default()
            };
            runner.followed.insert(chain, followed);
        }
        for chain in followed.into_iter().take(FOLLOWED_MAX) {
            runner.followed.entry(chain).or_default();
        }
        let tasks = vec![
            tokio::spawn(runner.run(events, letters, engine_actions, submissions)),
            tokio::spawn(send_calls(account, call_orders)),
            tokio::spawn(send_broadcasts(client, unsent_broadcasts)),
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
    /// Whether the connection is new since everything was read.
    must_read_all: bool,
    /// Events that came before the first read.
    held: Vec<Event>,
    /// The bytes of those events.
    held_bytes: usize,
    /// The base block at which the SCS tries to join next, and the pause after that.
    join_at: u64,
    join_pause: u64,
    /// The last failure that was logged.
    told: Option<String>,
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
}

/// The state of an SCS. One task owns it.
struct Runner {
    id: Address,
    reader: BaseReader,
    config: ScsNodeConfig,
    folders: Folders,
    served: Arc<ServedChains>,
    followed: BTreeMap<Address, Followed>,
    /// The number of the base block that the VNODE has told last.
    head: u64,
    via: Address,
    inbox: mpsc::Sender<Letter>,
    actions: mpsc::Sender<EngineActions>,
    calls: mpsc::Sender<CallOrder>,
    broadcasts: mpsc::Sender<ScsMessage>,
}
