//! Follows chain bases and feeds the engines of MicroChains.
//!
//! One task owns all that is known. It hears the VNODE, the engines and the answers of its own
//! reads, and waits for none of them: reads, broadcasts and transactions have tasks of their own.
//!
//! A chain base is followed from the first message that names it. It is read at each head, each
//! notice and each connection. What was read decides: an SCS that may register does, by the
//! operator's rules; one that is a member, a monitor or a backup has an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use microchain::contract::ContractRole;
use microchain::event::CACHE_BYTES_DEFAULT;
use microchain::{Action, EngineOptions, Event, MemberEngine, MemberMessage, MicroChainSetup};
use primitives::{Address, SecretKey, Transaction, TxRules, U256, hex};
use scs_service::client::{ClientTls, ScsClient, ScsClientConfig, ScsEvent};
use scs_service::message::BroadcastStatus;
use scs_service::{MessageKind, ScsId, ScsMessage, WireAddress};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::account::{BaseAccount, Outlay, Purpose};
use crate::base::{BaseError, BaseReader, BaseReading, gas_of, join_call};
use crate::folders::{FolderError, Folders};
use crate::served::{ServedChains, SubmittedTransaction};
use crate::worker::{EngineActions, EngineHandle, event_len};

/// Most chain bases that are followed without an engine.
const FOLLOWED_MAX: usize = 1024;
/// Results of reads, actions of engines, and transactions of clients that wait.
const INBOX_MAX: usize = 1024;
/// Broadcasts and calls that wait to be sent.
const OUTBOX_MAX: usize = 1024;
/// Events of a chain that is read for the first time.
const HELD_MAX: usize = 1024;
/// Bytes of those events.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Base blocks until an SCS tries again to join. They double each time.
const JOIN_PAUSE_BLOCKS: u64 = 6;
/// The longest pause before it tries again.
const JOIN_PAUSE_BLOCKS_MAX: u64 = 600;
/// Gas of a call by which an SCS joins.
const JOIN_GAS: u64 = 600_000;
/// Pause before a read that failed is repeated, if no head comes before.
const READ_PAUSE: Duration = Duration::from_secs(5);
/// `registerFlag` of a chain base that takes members.
const TAKES_MEMBERS: u64 = 1;
/// `registerFlag` of a chain base that takes backups.
const TAKES_BACKUPS: u64 = 2;

/// How an SCS runs.
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
    /// Who gets the rewards; zero for the SCS itself.
    pub beneficiary: Address,
    /// The SCS joins no MicroChain that locks a larger bond, in sha.
    pub bond_max: U256,
    /// The SCS joins no MicroChain that pays less for a block, in sha.
    pub reward_min: U256,
    /// How many MicroChains the SCS serves at most.
    pub capability: usize,
    /// The longest pause before a lost connection is made again.
    pub reconnect_max: Duration,
}

/// Why an SCS cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ScsRunnerError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A MicroChain cannot be opened.
    #[error("MicroChain {chain}: {reason}")]
    Engine {
        /// The MicroChain.
        chain: Address,
        /// Why.
        reason: String,
    },
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
        let (client, heard) = ScsClient::start(client_config);
        let (inbox, letters) = mpsc::channel(INBOX_MAX);
        let (actions, acted) = mpsc::channel(INBOX_MAX);
        let (submitted, submissions) = mpsc::channel(INBOX_MAX);
        let (calls, calling) = mpsc::channel(OUTBOX_MAX);
        let (broadcasts, sending) = mpsc::channel(OUTBOX_MAX);
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
                .map_err(|reason| ScsRunnerError::Engine { chain, reason })?;
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
            tokio::spawn(runner.run(heard, letters, acted, submissions)),
            tokio::spawn(send_calls(account, calling)),
            tokio::spawn(send_broadcasts(client, sending)),
        ];
        Ok(Self { served, tasks })
    }

    /// What clients see.
    pub fn served(&self) -> Arc<ServedChains> {
        Arc::clone(&self.served)
    }
}

/// What is known of a chain base.
#[derive(Debug, Default)]
struct Followed {
    engine: Option<EngineHandle>,
    reading: ReadState,
    /// Events that came before the first read.
    held: Vec<Event>,
    /// The bytes of those events.
    held_bytes: usize,
    /// When the SCS tries to join next, as a base block, and the pause after that.
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

/// What a task of the runner has to say.
enum Letter {
    /// A chain base was read.
    Read(Address, Box<Result<BaseReading, BaseError>>),
    /// A read that failed is to be repeated.
    ReadAgain(Address),
}

/// Work for the task that sends transactions.
enum CallOrder {
    Send(Box<Outlay>, u64),
    Tend { head: u64, is_new_connection: bool },
}

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

impl Runner {
    async fn run(
        mut self,
        mut heard: mpsc::Receiver<ScsEvent>,
        mut letters: mpsc::Receiver<Letter>,
        mut acted: mpsc::Receiver<EngineActions>,
        mut submissions: mpsc::Receiver<SubmittedTransaction>,
    ) {
        loop {
            tokio::select! {
                Some(event) = heard.recv() => self.hear(event),
                Some(letter) = letters.recv() => self.open(letter),
                Some(actions) = acted.recv() => self.act(actions),
                Some(submitted) = submissions.recv() => {
                    self.give(submitted.chain, Event::Transaction(Box::new(submitted.transaction)));
                }
                else => return,
            }
        }
    }

    fn hear(&mut self, event: ScsEvent) {
        match event {
            ScsEvent::Connected { beneficiary } => {
                tracing::info!(vnode = %self.config.vnode, "connected");
                self.via = beneficiary;
                self.served.set_connected(true);
                self.tend(true);
                let chains: Vec<_> = self.followed.keys().copied().collect();
                for chain in chains {
                    self.read(chain);
                    if self.followed.get(&chain).is_some_and(|one| one.engine.is_some()) {
                        self.give(chain, Event::Connected);
                    }
                }
            }
            ScsEvent::Disconnected { reason } => {
                tracing::warn!(vnode = %self.config.vnode, %reason, "not connected");
                self.served.set_connected(false);
            }
            ScsEvent::Head(head) => {
                self.head = head;
                self.served.set_base_head(head);
                self.tend(false);
                let chains: Vec<_> = self.followed.keys().copied().collect();
                for chain in chains {
                    self.read(chain);
                }
            }
            ScsEvent::Notice { chain, status, .. } => {
                tracing::debug!(%chain, status = status.number(), "notice");
                self.follow(chain);
                self.read(chain);
            }
            ScsEvent::DirectCall {
                chain, transaction, ..
            } => self.take_transaction(chain, &transaction),
            ScsEvent::Broadcast(message) => self.take_broadcast(message),
            ScsEvent::Ignored { reason } => tracing::debug!(%reason, "a message was ignored"),
        }
    }

    fn tend(&self, is_new_connection: bool) {
        let head = self.head;
        // If the task is that far behind, the next head comes in time.
        let _ = self.calls.try_send(CallOrder::Tend {
            head,
            is_new_connection,
        });
    }

    /// Follows a chain base from now on. Returns whether it does.
    fn follow(&mut self, chain: Address) -> bool {
        if self.followed.contains_key(&chain) {
            return true;
        }
        let without_engine = self.followed.values().filter(|one| one.engine.is_none());
        if without_engine.count() >= FOLLOWED_MAX {
            tracing::warn!(%chain, "not followed: got {FOLLOWED_MAX} chain bases, expected fewer");
            return false;
        }
        self.followed.insert(chain, Followed::default());
        self.keep_followed();
        self.read(chain);
        true
    }

    fn keep_followed(&self) {
        let without_engine = self.followed.iter().filter(|(_, one)| one.engine.is_none());
        let chains: BTreeSet<_> = without_engine.map(|(chain, _)| *chain).collect();
        if let Err(error) = self.folders.keep_followed(&chains) {
            tracing::error!(%error, "the list of chain bases was not written");
        }
    }

    /// Gives an event to the engine of a chain, or holds it until it is known whether there is one.
    fn give(&mut self, chain: Address, event: Event) {
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        if let Some(engine) = &followed.engine {
            if !engine.give(event) {
                tracing::warn!(%chain, "an event was dropped: the MicroChain is too far behind");
            }
            return;
        }
        let len = event_len(&event);
        if followed.held.len() < HELD_MAX && followed.held_bytes + len <= HELD_BYTES_MAX {
            followed.held_bytes += len;
            followed.held.push(event);
        }
    }

    fn take_transaction(&mut self, chain: Address, rlp: &[u8]) {
        let transaction = match Transaction::decode_raw(rlp, TxRules::Moac) {
            Ok(transaction) if transaction.to == Some(chain) => transaction,
            Ok(transaction) => {
                tracing::debug!(%chain, to = ?transaction.to, "a transaction for another chain was ignored");
                return;
            }
            Err(error) => {
                tracing::debug!(%chain, %error, "a transaction was ignored");
                return;
            }
        };
        if self.follow(chain) {
            self.give(chain, Event::Transaction(Box::new(transaction)));
        }
    }

    fn take_broadcast(&mut self, message: ScsMessage) {
        let MessageKind::Broadcast(status) = message.kind else {
            return;
        };
        let (Some(chain), Some(sender)) = (message.chain, message.sender) else {
            return;
        };
        if sender.address == self.id || !self.follow(chain.address) {
            return;
        }
        let message = MemberMessage {
            status: status.number(),
            sender: sender.address,
            receiver: message.receiver.map(|receiver| receiver.address),
            payload: message.payload.into(),
        };
        self.give(chain.address, Event::Message(message));
    }

    /// Reads a chain base in a task of its own. The result comes as a letter.
    fn read(&mut self, chain: Address) {
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        if followed.reading != ReadState::Idle {
            followed.reading = ReadState::RunningAndStale;
            return;
        }
        // The first head comes within a second of the connection.
        if !self.served.is_connected() || self.head == 0 {
            return;
        }
        followed.reading = ReadState::Running;
        let from = followed.engine.as_ref().map_or(0, EngineHandle::deposits_from);
        let (reader, inbox, head, via) = (self.reader.clone(), self.inbox.clone(), self.head, self.via);
        tokio::spawn(async move {
            let read = reader.read(chain, head, from, via).await;
            let _ = inbox.send(Letter::Read(chain, Box::new(read))).await;
        });
    }

    fn open(&mut self, letter: Letter) {
        let (chain, read) = match letter {
            Letter::Read(chain, read) => (chain, *read),
            Letter::ReadAgain(chain) => return self.read(chain),
        };
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        let is_stale = followed.reading == ReadState::RunningAndStale;
        followed.reading = ReadState::Idle;
        match read {
            Ok(reading) => {
                followed.told = None;
                self.use_reading(chain, reading);
            }
            Err(error) => self.read_failed(chain, &error),
        }
        if is_stale {
            self.read(chain);
        }
    }

    fn read_failed(&mut self, chain: Address, error: &BaseError) {
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        let is_transport = matches!(error, BaseError::Client(_));
        if !is_transport && followed.engine.is_none() {
            tracing::info!(%chain, %error, "not followed: the contract is no chain base");
            self.followed.remove(&chain);
            self.keep_followed();
            return;
        }
        let reason = error.to_string();
        if followed.told.as_ref() != Some(&reason) {
            tracing::warn!(%chain, %reason, "the chain base cannot be read now");
            followed.told = Some(reason);
        }
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(READ_PAUSE).await;
            let _ = inbox.send(Letter::ReadAgain(chain)).await;
        });
    }

    /// Does what the state of a chain base calls for.
    fn use_reading(&mut self, chain: Address, reading: BaseReading) {
        let has_engine = self.followed.get(&chain).is_some_and(|one| one.engine.is_some());
        let role = reading.state.role;
        match role {
            ContractRole::Member | ContractRole::Monitor | ContractRole::Backup if !has_engine => {
                self.start_engine(chain, &reading);
            }
            ContractRole::Selectable => self.join(chain, &reading),
            ContractRole::None if !has_engine && reading.state.registration == 0 => {
                // Nothing can come of it before another notice.
                self.followed.remove(&chain);
                self.keep_followed();
                return;
            }
            _ => {}
        }
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        followed.held_bytes = 0;
        if followed.engine.is_some() {
            self.served.set_reading(chain, &reading);
            let held = std::mem::take(&mut followed.held);
            self.give(chain, Event::Contract(Box::new(reading.state)));
            for event in held {
                self.give(chain, event);
            }
        } else {
            followed.held.clear();
        }
    }

    fn start_engine(&mut self, chain: Address, reading: &BaseReading) {
        let setup = MicroChainSetup {
            address: chain,
            owner: reading.owner,
            supply: reading.supply,
            period_secs: self.config.period_secs,
            chain_id: self.config.chain_id,
        };
        match self.open_engine(setup) {
            Ok(engine) => {
                tracing::info!(%chain, role = ?reading.state.role, "a MicroChain is served");
                if let Some(followed) = self.followed.get_mut(&chain) {
                    followed.engine = Some(engine);
                }
                self.keep_followed();
            }
            Err(reason) => tracing::error!(%chain, %reason, "the MicroChain cannot be opened"),
        }
    }

    fn open_engine(&self, setup: MicroChainSetup) -> Result<EngineHandle, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let chain = setup.address;
        let options = EngineOptions {
            directory: self.folders.make(&setup).map_err(|error| text(&error))?,
            key: self.config.key.clone(),
            cache_bytes: CACHE_BYTES_DEFAULT,
        };
        let engine = MemberEngine::open(setup, &options).map_err(|error| text(&error))?;
        let handle = EngineHandle::start(engine, self.actions.clone()).map_err(|error| text(&error))?;
        self.served.add(chain, handle.reader().clone());
        Ok(handle)
    }

    /// Registers with a chain base, if the operator's rules allow it.
    fn join(&mut self, chain: Address, reading: &BaseReading) {
        let state = &reading.state;
        let is_backup = match state.registration {
            TAKES_MEMBERS => false,
            TAKES_BACKUPS => true,
            _ => return,
        };
        let engines = self.followed.values().filter(|one| one.engine.is_some()).count();
        let refusal = if reading.penalty_bond > self.config.bond_max {
            let (got, max) = (reading.penalty_bond, self.config.bond_max);
            Some(format!("bond: got {got} sha, expected at most {max} (BondLimit)"))
        } else if state.rewards.block < self.config.reward_min {
            let (got, min) = (state.rewards.block, self.config.reward_min);
            Some(format!(
                "reward for a block: got {got} sha, expected at least {min} (ReWardMin)"
            ))
        } else if engines >= self.config.capability {
            let max = self.config.capability;
            Some(format!(
                "MicroChains: got {engines}, expected fewer than {max} (Capability)"
            ))
        } else {
            None
        };
        let head = self.head;
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        if refusal.is_some() {
            if followed.told != refusal {
                tracing::info!(%chain, reason = refusal.as_deref().unwrap_or_default(), "not joined");
                followed.told = refusal;
            }
            return;
        }
        if head < followed.join_at {
            return;
        }
        followed.join_pause = (followed.join_pause * 2).clamp(JOIN_PAUSE_BLOCKS, JOIN_PAUSE_BLOCKS_MAX);
        followed.join_at = head + followed.join_pause;
        let digest = Sha256::digest([self.id.as_slice(), chain.as_slice()].concat());
        let signature = self.config.key.sign(&primitives::B256::from_slice(&digest));
        let v = signature.recovery_id.wrapping_add(27);
        let data = join_call(is_backup, self.config.beneficiary, v, signature.r, signature.s);
        tracing::info!(%chain, is_backup, "registering");
        self.send_call(Outlay {
            chain,
            purpose: Purpose::Join,
            data,
            gas: JOIN_GAS,
        });
    }

    fn send_call(&self, outlay: Outlay) {
        if self
            .calls
            .try_send(CallOrder::Send(Box::new(outlay), self.head))
            .is_err()
        {
            tracing::warn!("a call was dropped: got {OUTBOX_MAX} that wait, expected fewer");
        }
    }

    fn act(&self, actions: EngineActions) {
        let chain = actions.chain;
        for action in actions.actions {
            match action {
                Action::Send(message) => self.broadcast(chain, message),
                Action::Call(call) => {
                    let members = self.served.member_count(&chain);
                    tracing::info!(%chain, call = call_name(&call), "a call of the MicroChain");
                    self.send_call(Outlay {
                        chain,
                        data: call.data(),
                        gas: gas_of(&call, members),
                        purpose: Purpose::Engine(call),
                    });
                }
            }
        }
    }

    fn broadcast(&self, chain: Address, message: MemberMessage) {
        let id = ScsId(self.id);
        let mut random = [0; 8];
        if let Err(error) = getrandom::fill(&mut random) {
            tracing::error!(%error, "no random number for a message");
            return;
        }
        let message = ScsMessage {
            request_id: format!("{id}-{}", hex::encode(random)).into(),
            timestamp: Some(chain::unix_now().as_secs()),
            is_request: true,
            kind: MessageKind::Broadcast(BroadcastStatus::new(message.status)),
            scs_id: id.to_wire(),
            chain: Some(WireAddress::rlp(chain)),
            sender: Some(WireAddress::raw(self.id)),
            receiver: message.receiver.map(WireAddress::raw),
            payload: message.payload.0,
        };
        if self.broadcasts.try_send(message).is_err() {
            tracing::debug!(%chain, "a broadcast was dropped: too many wait");
        }
    }
}

/// The name of a call for the log.
const fn call_name(call: &microchain::BaseCall) -> &'static str {
    use microchain::BaseCall as Call;
    match call {
        Call::CreateProposal { .. } => "createProposal",
        Call::UploadRedemptions { .. } => "UploadRedeemData",
        Call::Vote { .. } => "voteOnProposal",
        Call::Act { .. } => "requestProposalAction",
        Call::Redeem { .. } => "requestEnterAndRedeemAction",
        Call::BackupUpToDate { .. } => "BackupUpToDate",
    }
}

/// Sends transactions one after the other.
async fn send_calls(mut account: BaseAccount, mut orders: mpsc::Receiver<CallOrder>) {
    while let Some(order) = orders.recv().await {
        match order {
            CallOrder::Send(outlay, head) => {
                let (chain, purpose) = (outlay.chain, outlay.purpose.clone());
                if let Err(error) = account.send(*outlay, head).await {
                    let what = match &purpose {
                        Purpose::Join => "registration",
                        Purpose::Engine(call) => call_name(call),
                    };
                    tracing::warn!(%chain, what, %error, "the VNODE did not take a transaction");
                }
            }
            CallOrder::Tend {
                head,
                is_new_connection,
            } => account.tend(head, is_new_connection).await,
        }
    }
}

/// Sends broadcasts one after the other. What cannot be sent is lost, as on the network.
async fn send_broadcasts(client: ScsClient, mut messages: mpsc::Receiver<ScsMessage>) {
    while let Some(message) = messages.recv().await {
        if let Err(error) = client.broadcast(&message).await {
            tracing::debug!(%error, "a broadcast was not sent");
        }
    }
}
