//! What the tasks of the service share: the hub, the outboxes of the connections, whom to dial.
//!
//! All of it is behind one lock, which is held for short computations only. Messages are put into
//! the outboxes under the lock, so that they go out in the order in which the hub wanted them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use primitives::{B256, B512, Block, Transaction};
use tokio::sync::{Notify, mpsc, oneshot};

use super::NetworkSettings;
use super::syncing::SyncInbox;
use super::told::ToldTransactions;
use super::traffic::{TrafficCells, TrafficCounters};
use crate::dial::Dialer;
use crate::entropy::Entropy;
use crate::messages::{ApplicationChainMessage, PeerMessage, WireProtocol};
use crate::moment::{Moment, SystemClock};
use crate::peers::{
    BLOCKS_WAITING_MAX, ChainAccess, ImportResult, PeerAction, PeerCounters, PeerHub, PeerId, PeerNews,
};
use crate::requests::AnswerKind;
use crate::rlpx::RlpxDisconnect;
use crate::sync::SyncShared;

/// Messages that wait for the task of a connection. Gossip beyond that is not sent.
pub const OUTBOX_MESSAGES_MAX: usize = 512;

/// Nodes that discovery must still be told of. More are left out.
const AGREED_MAX: usize = 64;

/// What goes to the task of a connection.
#[derive(Clone)]
pub(super) enum OutboxMessage {
    /// A message for the peer: its code and its RLP.
    Message(u64, Arc<[u8]>),
    /// The messages before it tell the peer of the pool up to this position.
    Mark(u64),
}

/// Where messages for a peer go.
pub(super) struct Outbox {
    pub(super) protocol: WireProtocol,
    pub(super) messages: mpsc::Sender<OutboxMessage>,
    /// Ends the connection.
    pub(super) end: Option<oneshot::Sender<RlpxDisconnect>>,
}

/// A peer as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The node.
    pub node: B512,
    /// The client name in its Hello.
    pub client: String,
    /// The capabilities in its Hello, such as `mc/63`.
    pub capabilities: Vec<String>,
    /// This side's address of the connection.
    pub local: SocketAddr,
    /// The other side's address.
    pub remote: SocketAddr,
    /// The other side has dialled.
    pub is_inbound: bool,
    /// It is a static node.
    pub is_static: bool,
    /// It is a trusted node.
    pub is_trusted: bool,
    /// The capability of the connection.
    pub protocol: WireProtocol,
    /// The head and its total difficulty, once the Status fits.
    pub head: Option<(B256, primitives::U256)>,
}

/// Takes what is for the servers of application chains. Called on network threads: it must not
/// wait.
pub trait ApplicationChains: Send + Sync {
    /// A message of a server that a peer has sent. Peers got it already.
    fn message(&self, message: &ApplicationChainMessage);

    /// A transaction with a sharding flag that a peer has sent. Its signature is not checked. If it
    /// is good, [`super::NetworkHandle::relay_transaction`] passes it on.
    fn transaction(&self, transaction: &Transaction);
}

/// Work on the chain for the threads of the service.
pub(super) enum ChainJob {
    Check(B256, Box<Block>),
    Import(B256, Box<Block>),
}

/// What the task of a connection does by itself.
pub(super) enum PeerJob {
    Serve(PeerMessage),
    Submit(Vec<Transaction>),
}

pub(super) struct CoreState {
    pub(super) hub: PeerHub,
    pub(super) dialer: Dialer,
    pub(super) trusted: BTreeSet<B512>,
    pub(super) outboxes: BTreeMap<PeerId, Outbox>,
    pub(super) reports: BTreeMap<PeerId, PeerReport>,
    /// No connections are taken any more.
    pub(super) is_stopping: bool,
}

/// What all tasks share.
pub(super) struct Core {
    pub(super) state: Mutex<CoreState>,
    pub(super) chain: Arc<dyn ChainAccess>,
    pub(super) clock: SystemClock,
    /// Blocks to check and blocks to import, each for a thread of its own.
    pub(super) checks: Sender<ChainJob>,
    pub(super) imports: Sender<ChainJob>,
    /// The hub's deadline may be sooner.
    pub(super) timer: Notify,
    /// There may be somebody to dial.
    pub(super) dial: Notify,
    /// Networks of application chains share it with the chain's network.
    pub(super) application_chains: Arc<OnceLock<Arc<dyn ApplicationChains>>>,
    /// This is the network of an application chain.
    pub(super) is_subnet: bool,
    /// When something for an application chain was passed on last.
    last_carried: Mutex<Instant>,
    /// Packs of transactions that are being offered to the pool.
    pub(super) submissions: AtomicUsize,
    /// How far peers have been told of the pool.
    pub(super) told: ToldTransactions,
    pub(super) traffic: TrafficCells,
    /// The thread of the synchronization.
    pub(super) sync: SyncInbox,
    /// How far it is.
    pub(super) sync_status: Arc<SyncShared>,
    /// Nodes whose Status fitted, and their addresses, for discovery.
    pub(super) agreed: mpsc::Sender<(B512, SocketAddr)>,
}

/// What the threads and tasks of a [`Core`] wait for.
pub(super) struct CoreInboxes {
    pub(super) checks: Receiver<ChainJob>,
    pub(super) imports: Receiver<ChainJob>,
    pub(super) agreed: mpsc::Receiver<(B512, SocketAddr)>,
}

/// What a [`Core`] is made of.
pub(super) struct CoreParts {
    pub(super) hub: PeerHub,
    pub(super) dialer: Dialer,
    pub(super) trusted: BTreeSet<B512>,
    pub(super) chain: Arc<dyn ChainAccess>,
    pub(super) sync: SyncInbox,
    pub(super) sync_status: Arc<SyncShared>,
    pub(super) application_chains: Arc<OnceLock<Arc<dyn ApplicationChains>>>,
    pub(super) is_subnet: bool,
}

impl Core {
    pub(super) fn new(parts: CoreParts) -> (Arc<Self>, CoreInboxes) {
        let (checks, checks_inbox) = bounded(BLOCKS_WAITING_MAX);
        let (imports, imports_inbox) = bounded(BLOCKS_WAITING_MAX);
        let (agreed, agreed_inbox) = mpsc::channel(AGREED_MAX);
        let core = Self {
            state: Mutex::new(CoreState {
                hub: parts.hub,
                dialer: parts.dialer,
                trusted: parts.trusted,
                outboxes: BTreeMap::new(),
                reports: BTreeMap::new(),
                is_stopping: false,
            }),
            chain: parts.chain,
            clock: SystemClock::start(),
            checks,
            imports,
            timer: Notify::new(),
            dial: Notify::new(),
            application_chains: parts.application_chains,
            is_subnet: parts.is_subnet,
            last_carried: Mutex::new(Instant::now()),
            submissions: AtomicUsize::new(0),
            told: ToldTransactions::default(),
            traffic: TrafficCells::default(),
            sync: parts.sync,
            sync_status: parts.sync_status,
            agreed,
        };
        let inboxes = CoreInboxes {
            checks: checks_inbox,
            imports: imports_inbox,
            agreed: agreed_inbox,
        };
        (Arc::new(core), inboxes)
    }

    /// The core of the network of an application chain, which shares chain and servers with this.
    pub(super) fn for_subnet(
        &self,
        settings: &NetworkSettings,
        entropy: &mut Entropy,
    ) -> (Arc<Self>, CoreInboxes) {
        let (genesis, head) = {
            let state = self.state.lock();
            (state.hub.genesis(), state.hub.head())
        };
        let dialer = settings.dialer();
        let hub = settings.hub(&dialer, genesis, None);
        let mut hub = PeerHub::new(hub, Arc::clone(&self.chain), head, entropy.fork());
        hub.carry_application_chains_only();
        Self::new(CoreParts {
            hub,
            dialer,
            trusted: BTreeSet::new(),
            chain: Arc::clone(&self.chain),
            // Nobody synchronizes over it.
            sync: SyncInbox::new().0,
            sync_status: Arc::default(),
            application_chains: Arc::clone(&self.application_chains),
            is_subnet: true,
        })
    }

    /// The peers whose Status fits.
    pub(super) fn peers(&self) -> Vec<PeerReport> {
        let state = self.state.lock();
        let peers = state.hub.peers().filter_map(|facts| {
            let report = state.reports.get(&facts.peer)?.clone();
            Some(PeerReport {
                head: Some((facts.head, facts.total_difficulty)),
                is_static: state.dialer.is_static(&report.node),
                is_trusted: state.trusted.contains(&report.node),
                ..report
            })
        });
        peers.collect()
    }

    /// Notes that something for an application chain is passed on.
    pub(super) fn carries(&self) {
        *self.last_carried.lock() = Instant::now();
    }

    /// When something for an application chain was passed on last.
    pub(super) fn last_carried(&self) -> Instant {
        *self.last_carried.lock()
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Lets the hub do something and carries out what follows. Returns what the task of the
    /// connection has to do.
    pub(super) fn with_hub(
        &self,
        step: impl FnOnce(&mut PeerHub, Moment) -> Vec<PeerAction>,
    ) -> Vec<PeerJob> {
        let mut state = self.state.lock();
        let actions = step(&mut state.hub, self.now());
        self.perform(&mut state, actions)
    }

    /// Carries out actions of the hub.
    pub(super) fn perform(&self, state: &mut CoreState, actions: Vec<PeerAction>) -> Vec<PeerJob> {
        let mut jobs = Vec::new();
        let mut left = VecDeque::from(actions);
        while let Some(action) = left.pop_front() {
            match action {
                PeerAction::Send { to, message } => {
                    for peer in send(state, &to, &message) {
                        // A request that is not sent would never be answered.
                        let reason = RlpxDisconnect::NetworkError;
                        left.extend(state.hub.drop_peer(peer, reason, self.now()));
                    }
                }
                PeerAction::Disconnect { peer, reason } => {
                    let outbox = state.outboxes.remove(&peer);
                    if let Some(end) = outbox.and_then(|outbox| outbox.end) {
                        // If the task has ended, so has the connection.
                        let _ = end.send(reason);
                    }
                }
                PeerAction::Serve { request, .. } => jobs.push(PeerJob::Serve(request)),
                PeerAction::Submit { transactions, .. } => jobs.push(PeerJob::Submit(transactions)),
                PeerAction::Check { hash, block } => {
                    let made = Duration::from_secs(block.header.timestamp);
                    let age = self.now().unix.saturating_sub(made);
                    metrics::histogram!("vnode_block_arrival_seconds").record(age);
                    if let Some(reason) = try_job(&self.checks, ChainJob::Check(hash, block)) {
                        left.extend(state.hub.checked(&hash, &reason, self.now()));
                    }
                }
                PeerAction::Import { hash, block } => {
                    if let Some(reason) = try_job(&self.imports, ChainJob::Import(hash, block)) {
                        left.extend(state.hub.imported(&hash, &reason, self.now()));
                    }
                }
                PeerAction::News(news) => {
                    if let PeerNews::Joined(facts) = &news
                        && let Some(report) = state.reports.get(&facts.peer)
                    {
                        tracing::info!(
                            node = %report.remote,
                            client = report.client,
                            protocol = %report.protocol,
                            total_difficulty = %facts.total_difficulty,
                            is_subnet = self.is_subnet,
                            "a peer has joined"
                        );
                        // If the queue is full, discovery learns it from a later connection.
                        let _ = self.agreed.try_send((report.node, report.remote));
                    }
                    self.sync.news(news);
                }
                PeerAction::ApplicationChain(message) => {
                    self.carries();
                    if let Some(target) = self.application_chains.get() {
                        target.message(&message);
                    }
                }
                PeerAction::ForApplicationChain(transaction) => {
                    self.carries();
                    if let Some(target) = self.application_chains.get() {
                        target.transaction(&transaction);
                    }
                }
            }
        }
        self.timer.notify_one();
        jobs
    }

    /// Notes that transactions of a peer are offered to the pool, until the result is dropped.
    pub(super) fn begin_submission(&self) -> RunningSubmission<'_> {
        self.submissions.fetch_add(1, Ordering::AcqRel);
        RunningSubmission(self)
    }

    /// Puts a mark behind the messages to peers: they were told of the pool up to `position`.
    pub(super) fn mark_told(&self, position: u64) {
        let state = self.state.lock();
        for facts in state.hub.peers() {
            if let Some(outbox) = state.outboxes.get(&facts.peer) {
                // If there is no room, the mark of another peer counts, or the next mark.
                let _ = outbox.messages.try_send(OutboxMessage::Mark(position));
            }
        }
    }

    /// The counters of the hub and of the connections.
    pub(super) fn counters(&self) -> (PeerCounters, TrafficCounters) {
        (self.state.lock().hub.counters().clone(), self.traffic.read())
    }
}

/// See [`Core::begin_submission`].
pub(super) struct RunningSubmission<'a>(&'a Core);

impl Drop for RunningSubmission<'_> {
    fn drop(&mut self) {
        self.0.submissions.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Hands a job to its thread. Returns why it was not taken.
fn try_job(jobs: &Sender<ChainJob>, job: ChainJob) -> Option<ImportResult> {
    let reason = match jobs.try_send(job) {
        Ok(()) => return None,
        Err(TrySendError::Full(_)) => "too many blocks wait",
        Err(TrySendError::Disconnected(_)) => "the node is stopping",
    };
    Some(ImportResult::Failed(reason.to_owned()))
}

/// Puts a message into outboxes. Returns the peers that must be dropped because they did not get
/// it.
fn send(state: &CoreState, to: &[PeerId], message: &PeerMessage) -> Vec<PeerId> {
    // Encoded once for each version.
    let mut encoded: BTreeMap<WireProtocol, OutboxMessage> = BTreeMap::new();
    let is_needed = AnswerKind::of_request(message).is_some() || matches!(message, PeerMessage::Status(_));
    let mut failed = Vec::new();
    for peer in to {
        let Some(outbox) = state.outboxes.get(peer) else {
            continue;
        };
        let outgoing = encoded.entry(outbox.protocol).or_insert_with(|| {
            let (code, rlp) = message.encode(outbox.protocol);
            OutboxMessage::Message(code, rlp.into())
        });
        if outbox.messages.try_send(outgoing.clone()).is_err() && is_needed {
            failed.push(*peer);
        }
    }
    failed
}
