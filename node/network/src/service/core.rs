//! The state that the tasks of the service share: the hub, the outboxes of the connections, whom to
//! dial.
//!
//! The parts are behind one lock, which is held for short computations only. Messages are put into
//! the outboxes under the lock, so that they go out in the order in which the hub wanted them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use primitives::{B256, B512, Block, Header, Transaction};
use tokio::sync::{Notify, mpsc};

use super::NetworkSettings;
use super::bounds::SharedBounds;
use super::offers::Offered;
use super::outbox::{EncodedMessage, Outbox, Put};
use super::records::NodeRecords;
use super::state_threads::{self, StateRequest};
use super::syncing::SyncInbox;
use super::told::ToldTransactions;
use super::traffic::{TrafficCells, TrafficCounters};
use crate::contact::NodeContact;
use crate::dial::Dialer;
use crate::enr::NodeRecord;
use crate::entropy::Entropy;
use crate::messages::{ApplicationChainMessage, PackedBlock, PeerMessage, WireFamily, WireProtocol};
use crate::moment::{Moment, SystemClock};
use crate::peers::{
    BLOCKS_WAITING_MAX, BlockFault, CHECKS_MAX, ChainAccess, HashedTransaction, ImportResult, PeerAction,
    PeerCounters, PeerFigures, PeerHub, PeerId, PeerNews,
};
use crate::rlpx::RlpxDisconnect;
use crate::sync::SyncShared;

/// Nodes that discovery must still be told of. More are left out.
const AGREED_MAX: usize = 64;

/// A peer as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The node.
    pub node: B512,
    /// The contact that was dialled. For a node that has dialled by itself: the address that its
    /// connection comes from.
    pub contact: NodeContact,
    /// The text of its record, if it is known.
    pub record: Option<String>,
    /// The place among the connections: the lowest number that was free when it came.
    pub slot: usize,
    /// The time at which it came, in seconds since 1970.
    pub since: u64,
    /// The traffic of the connection.
    pub traffic: TrafficCounters,
    /// The figures that were measured.
    pub figures: PeerFigures,
    /// The client name in its Hello.
    pub client: String,
    /// The capabilities in its Hello, such as `mc/63`.
    pub capabilities: Vec<String>,
    /// The address of this side of the connection.
    pub local: SocketAddr,
    /// The other side's address.
    pub remote: SocketAddr,
    /// The other side has dialled.
    pub is_inbound: bool,
    /// The node is static.
    pub is_static: bool,
    /// The node is trusted.
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
    CheckHeader(PeerId, B256, Arc<Header>),
    Check(PeerId, B256, Arc<PackedBlock>),
    Import(B256, Box<Block>),
}

/// A job for the task of a connection, or for the taker of its offers.
pub(super) enum PeerJob {
    Serve(PeerMessage),
    /// To be taken without the lock.
    Offer(Offered),
    /// For the pool.
    Submit(Vec<HashedTransaction>),
    /// A time in which nothing is offered to the pool.
    Pause(Duration),
}

pub(super) struct CoreState {
    pub(super) hub: PeerHub,
    pub(super) dialer: Dialer,
    pub(super) trusted: BTreeSet<B512>,
    pub(super) outboxes: BTreeMap<PeerId, Outbox>,
    pub(super) reports: BTreeMap<PeerId, PeerReport>,
    /// The records of nodes, whether they are peers or not.
    pub(super) records: NodeRecords,
    /// No connections are taken any more.
    pub(super) is_stopping: bool,
}

impl CoreState {
    /// Whether a node's record says that it is of another network.
    pub(super) fn is_foreign(&self, node: &B512) -> bool {
        let fork_id = self.records.fork_id(node);
        fork_id.is_some_and(|fork_id| !self.hub.accepts_fork(fork_id))
    }

    /// The lowest number that no connection has.
    pub(super) fn free_slot(&self) -> usize {
        let taken: BTreeSet<_> = self.reports.values().map(|report| report.slot).collect();
        (0..)
            .zip(&taken)
            .take_while(|(slot, taken)| slot == *taken)
            .count()
    }
}

/// The state that all tasks share.
pub(super) struct Core {
    pub(super) state: Mutex<CoreState>,
    pub(super) chain: Arc<dyn ChainAccess>,
    pub(super) clock: SystemClock,
    /// Blocks to check and blocks to import. The checks have [`CHECKS_MAX`] threads, the imports
    /// have one.
    pub(super) checks: Sender<ChainJob>,
    pub(super) imports: Sender<ChainJob>,
    /// Requests for parts of a state.
    pub(super) states: Sender<StateRequest>,
    /// The hub's deadline may be sooner.
    pub(super) timer: Notify,
    /// There may be somebody to dial.
    pub(super) dial: Notify,
    /// Networks of application chains share it with the chain's network.
    pub(super) application_chains: Arc<OnceLock<Arc<dyn ApplicationChains>>>,
    /// The network is that of an application chain.
    pub(super) is_subnet: bool,
    /// A state may be asked of peers.
    fetches_state: bool,
    /// The time at which something for an application chain was passed on last.
    last_carried: Mutex<Instant>,
    /// Packs of transactions that are being offered to the pool.
    pub(super) submissions: AtomicUsize,
    /// The position in the pool that peers have been told of.
    pub(super) told: ToldTransactions,
    pub(super) bounds: Arc<SharedBounds>,
    pub(super) traffic: TrafficCells,
    pub(super) sync: SyncInbox,
    pub(super) sync_status: Arc<SyncShared>,
    /// The head has moved and peers were not told, because many blocks were missing.
    pub(super) has_untold_head: AtomicBool,
    /// Nodes whose Status fitted, and their addresses, for discovery.
    pub(super) agreed: mpsc::Sender<(B512, SocketAddr)>,
}

/// The queues that the threads and tasks of a [`Core`] wait for.
pub(super) struct CoreInboxes {
    pub(super) checks: Receiver<ChainJob>,
    pub(super) imports: Receiver<ChainJob>,
    pub(super) states: Receiver<StateRequest>,
    pub(super) agreed: mpsc::Receiver<(B512, SocketAddr)>,
}

pub(super) struct CoreParts {
    pub(super) hub: PeerHub,
    pub(super) dialer: Dialer,
    pub(super) trusted: BTreeSet<B512>,
    pub(super) chain: Arc<dyn ChainAccess>,
    pub(super) sync: SyncInbox,
    pub(super) sync_status: Arc<SyncShared>,
    pub(super) application_chains: Arc<OnceLock<Arc<dyn ApplicationChains>>>,
    pub(super) is_subnet: bool,
    pub(super) fetches_state: bool,
    pub(super) bounds: Arc<SharedBounds>,
}

impl Core {
    pub(super) fn new(parts: CoreParts) -> (Arc<Self>, CoreInboxes) {
        let (checks, checks_inbox) = bounded(CHECKS_MAX);
        let (imports, imports_inbox) = bounded(BLOCKS_WAITING_MAX);
        let (states, states_inbox) = state_threads::queue();
        let (agreed, agreed_inbox) = mpsc::channel(AGREED_MAX);
        let core = Self {
            state: Mutex::new(CoreState {
                hub: parts.hub,
                dialer: parts.dialer,
                trusted: parts.trusted,
                outboxes: BTreeMap::new(),
                reports: BTreeMap::new(),
                records: NodeRecords::default(),
                is_stopping: false,
            }),
            chain: parts.chain,
            clock: SystemClock::start(),
            checks,
            imports,
            states,
            timer: Notify::new(),
            dial: Notify::new(),
            application_chains: parts.application_chains,
            is_subnet: parts.is_subnet,
            fetches_state: parts.fetches_state,
            last_carried: Mutex::new(Instant::now()),
            submissions: AtomicUsize::new(0),
            told: ToldTransactions::default(),
            bounds: parts.bounds,
            traffic: TrafficCells::default(),
            sync: parts.sync,
            sync_status: parts.sync_status,
            has_untold_head: AtomicBool::new(false),
            agreed,
        };
        let inboxes = CoreInboxes {
            checks: checks_inbox,
            imports: imports_inbox,
            states: states_inbox,
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
        let dialer = settings.dialer(entropy);
        let hub = settings.hub(&dialer, genesis, None);
        let mut hub = PeerHub::new(hub, Arc::clone(&self.chain), head, entropy.fork());
        hub.carry_application_chains_only();
        Self::new(CoreParts {
            hub,
            dialer,
            trusted: BTreeSet::new(),
            chain: Arc::clone(&self.chain),
            sync: SyncInbox::default(),
            sync_status: Arc::default(),
            application_chains: Arc::clone(&self.application_chains),
            is_subnet: true,
            fetches_state: false,
            bounds: Arc::clone(&self.bounds),
        })
    }

    /// The peers whose Status fits.
    pub(super) fn peers(&self) -> Vec<PeerReport> {
        let state = self.state.lock();
        let peers = state.hub.peers().filter_map(|facts| {
            let report = state.reports.get(&facts.peer)?.clone();
            let outbox = state.outboxes.get(&facts.peer);
            Some(PeerReport {
                record: state.records.text(&report.node),
                traffic: outbox.map(|outbox| outbox.traffic.read()).unwrap_or_default(),
                figures: state.hub.figures(facts.peer).unwrap_or_default(),
                head: Some((facts.head, facts.total_difficulty)),
                is_static: state.dialer.is_static(&report.node),
                is_trusted: state.trusted.contains(&report.node),
                ..report
            })
        });
        peers.collect()
    }

    /// Keeps the record of a node. Returns whether the node may be of this network.
    pub(super) fn note_record(&self, record: &NodeRecord) -> bool {
        let mut state = self.state.lock();
        state.records.put(record);
        !state.is_foreign(&record.id())
    }

    /// Whether parts of states are given to peers, and asked of them.
    pub(super) fn offers_snap(&self, family: WireFamily) -> bool {
        family == WireFamily::Eth && !self.is_subnet && (self.fetches_state || self.chain.snap().is_some())
    }

    /// Notes that something for an application chain is passed on.
    pub(super) fn carries(&self) {
        *self.last_carried.lock() = Instant::now();
    }

    /// The time at which something for an application chain was passed on last.
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

    pub(super) fn perform(&self, state: &mut CoreState, actions: Vec<PeerAction>) -> Vec<PeerJob> {
        let mut jobs = Vec::new();
        let mut left = VecDeque::from(actions);
        while let Some(action) = left.pop_front() {
            match action {
                PeerAction::Send { to, message } => {
                    for (peer, reason) in self.send(state, &to, &message) {
                        left.extend(state.hub.drop_peer(peer, reason, self.now()));
                    }
                }
                PeerAction::Disconnect { peer, reason } => {
                    if let Some(outbox) = state.outboxes.remove(&peer) {
                        outbox.end(reason);
                    }
                }
                PeerAction::Serve { request, .. } => jobs.push(PeerJob::Serve(request)),
                PeerAction::Take { pack, .. } => jobs.push(PeerJob::Offer(Offered::Pack(pack))),
                PeerAction::Recognize { message, .. } => {
                    jobs.push(PeerJob::Offer(Offered::Message(message)));
                }
                PeerAction::Submit { transactions, .. } => jobs.push(PeerJob::Submit(transactions)),
                PeerAction::Pause { time, .. } => jobs.push(PeerJob::Pause(time)),
                PeerAction::CheckHeader { from, hash, header } => {
                    let job = ChainJob::CheckHeader(from, hash, header);
                    if let Err(reason) = try_job(&self.checks, job) {
                        let result = Err(BlockFault::NotNow(reason.to_string()));
                        left.extend(state.hub.header_checked(from, &hash, result, self.now()));
                    }
                }
                PeerAction::Check { from, hash, block } => {
                    let made = Duration::from_secs(block.header().timestamp);
                    let age = self.now().unix.saturating_sub(made);
                    metrics::histogram!("vnode_block_arrival_seconds").record(age);
                    if let Err(reason) = try_job(&self.checks, ChainJob::Check(from, hash, block)) {
                        let result = Err(BlockFault::NotNow(reason.to_string()));
                        left.extend(state.hub.checked(from, &hash, result, self.now()));
                    }
                }
                PeerAction::Import { hash, block } => {
                    if let Err(reason) = try_job(&self.imports, ChainJob::Import(hash, block)) {
                        let result = ImportResult::Failed(reason.to_string());
                        left.extend(state.hub.imported(&hash, &result, self.now()));
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

    /// Whether a message of a peer is worth decoding. `bytes` is its length.
    pub(super) fn admits(&self, peer: PeerId, code: u64, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let Err(actions) = state.hub.admits(peer, code, bytes, self.now()) else {
            return true;
        };
        self.perform(&mut state, actions);
        false
    }

    /// Puts a message into outboxes. Returns the peers that must be dropped, and why.
    fn send(
        &self,
        state: &mut CoreState,
        to: &[PeerId],
        message: &PeerMessage,
    ) -> Vec<(PeerId, RlpxDisconnect)> {
        // Encoded once for each version.
        let mut encoded: BTreeMap<WireProtocol, Arc<EncodedMessage>> = BTreeMap::new();
        let (budget, now) = (&self.bounds.outboxes, self.now().elapsed);
        let mut failed = Vec::new();
        for peer in to {
            let Some(outbox) = state.outboxes.get_mut(peer) else {
                continue;
            };
            let outgoing = encoded
                .entry(outbox.protocol)
                .or_insert_with(|| EncodedMessage::new(message, outbox.protocol, budget));
            match outbox.put(outgoing, budget, now) {
                // A request that is not sent would never be answered.
                Put::Full if outgoing.is_needed() => failed.push((*peer, RlpxDisconnect::NetworkError)),
                Put::Taken | Put::Full => {}
                Put::FullForLong => failed.push((*peer, RlpxDisconnect::Timeout)),
            }
        }
        failed
    }

    /// Notes that transactions of a peer are offered to the pool, until the result is dropped.
    pub(super) fn begin_submission(self: &Arc<Self>) -> RunningSubmission {
        self.submissions.fetch_add(1, Ordering::AcqRel);
        RunningSubmission(Arc::clone(self))
    }

    /// Puts a mark behind the messages to peers: they were told of the pool up to `position`.
    pub(super) fn mark_told(&self, position: u64) {
        let state = self.state.lock();
        for facts in state.hub.peers() {
            if let Some(outbox) = state.outboxes.get(&facts.peer) {
                outbox.mark(position);
            }
        }
    }

    /// The counters of the hub and of the connections.
    pub(super) fn counters(&self) -> (PeerCounters, TrafficCounters) {
        (self.state.lock().hub.counters().clone(), self.traffic.read())
    }
}

/// See [`Core::begin_submission`].
pub(super) struct RunningSubmission(Arc<Core>);

impl Drop for RunningSubmission {
    fn drop(&mut self) {
        self.0.submissions.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The reason why the threads do not take a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum JobRefusal {
    #[error("too many blocks wait")]
    Full,
    #[error("the node is stopping")]
    Stopping,
}

fn try_job(jobs: &Sender<ChainJob>, job: ChainJob) -> Result<(), JobRefusal> {
    jobs.try_send(job).map_err(|error| match error {
        TrySendError::Full(_) => JobRefusal::Full,
        TrySendError::Disconnected(_) => JobRefusal::Stopping,
    })
}
