//! Nodes, the network between them, and the time: everything happens in the order of one queue.
//!
//! A run depends on nothing but its seed. Honest nodes run the state machines of this package: the
//! hub of peers and the synchronization. Messages take the time of their link, jobs of the chain
//! take a little time, too. When a node is killed, its store stays; a whole node ([`whole`]) is
//! opened again from what its disk has.

mod actions;
mod invariants;
mod links;
mod mining;
mod whole;

pub(crate) use invariants::{BrokenInvariant, Invariant};
pub(crate) use links::ReturnFrom;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chain::ChainSpec;
use chain::import::BlockId;
use network::WireFamily;
use network::testing::{
    BlockFault, ChainAccess, Entropy, HubSettings, ImportResult, Moment, PeerAction, PeerHub, PeerId,
    PeerMessage, SyncActions, SyncJob, SyncOutcome, Synchronizer, run_job,
};
use primitives::{B256, B512, Block};

use crate::simulation::chain::{START_SECS, SimChain};
use crate::simulation::liar::{Liar, Lie};
use crate::simulation::plan::PlannedFault;

use whole::{LinkWeather, WholeNode};

/// Connections that a node wants to have.
const WANTED_LINKS: usize = 5;
/// The interval at which a node looks for more.
const DIAL_INTERVAL: Duration = Duration::from_secs(15);
const PEERS_MAX: usize = 25;
/// With this [`World::import_time`] no import begins.
pub(crate) const NEVER: Duration = Duration::MAX;
const VERSION: u64 = 63;

/// A future event.
enum Event {
    Message(Remote, Box<PeerMessage>),
    Closed(Remote),
    /// A node has heard nothing of a peer for long.
    Silent(usize, u64, PeerId),
    HeaderChecked(usize, u64, (PeerId, B256), Result<(), BlockFault>),
    Checked(usize, u64, (PeerId, B256), Result<Box<Block>, BlockFault>),
    Imported(usize, u64, B256, ImportResult),
    Outcome(usize, u64, Box<SyncOutcome>),
    Timer(usize, u64),
    Mine(usize),
    Dial(usize),
    Start(usize),
    /// A user sends a transaction.
    Submit(usize),
    Fault(PlannedFault),
    FaultEnds(PlannedFault),
    /// A liar comes back to a node.
    Return(usize, usize),
}

/// The other end of a connection.
#[derive(Clone, Copy)]
struct Remote {
    node: usize,
    peer: PeerId,
    /// The number of the connection. A node that was started again has other connections.
    connection: u64,
    delay: Duration,
}

enum Role {
    Honest {
        chain: Arc<SimChain>,
        hub: Box<PeerHub>,
        sync: Box<Synchronizer>,
    },
    Liar {
        liar: Box<Liar>,
        next_peer: u64,
    },
}

struct Node {
    id: B512,
    address: IpAddr,
    role: Role,
    /// Rises when the node is killed, so that nothing of the old life reaches the new one.
    life: u64,
    is_up: bool,
    links: BTreeMap<PeerId, Remote>,
    /// The time at which the next timer fires.
    timer: Option<Duration>,
    mines: bool,
    whole: Option<Box<WholeNode>>,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) mined: u64,
    pub(crate) messages: u64,
    /// Blocks and headers of peers that were checked.
    pub(crate) checks: u64,
    pub(crate) kills: u64,
    pub(crate) reorganized: u64,
    pub(crate) deepest: u64,
    /// Liars that lost their place, each as often as it happened.
    pub(crate) liars_dropped: BTreeMap<String, u64>,
    /// Honest nodes that lost their place, by what they were told.
    pub(crate) honest_dropped: BTreeMap<String, u64>,
    /// In worlds of whole nodes: faults that have begun, and what came of them.
    pub(crate) faults: u64,
    pub(crate) power_losses: u64,
    pub(crate) damaged: u64,
    /// Failures of stores that nodes have met.
    pub(crate) store_failures: u64,
    /// Damaged folders in whose place nodes began with an empty one.
    pub(crate) given_up: u64,
    /// Transactions that pools have accepted, each as often as it was.
    pub(crate) accepted: u64,
}

/// See the module.
pub(crate) struct World {
    pub(crate) now: Duration,
    clock: Arc<AtomicU64>,
    spec: Arc<ChainSpec>,
    genesis: B256,
    entropy: Entropy,
    queue: BTreeMap<(Duration, u64), Event>,
    events: u64,
    nodes: Vec<Node>,
    /// Mean time between two blocks of all miners together.
    interval: Duration,
    /// The time that the import of a block takes in the synchronization.
    pub(crate) import_time: Duration,
    /// The group of each node; nodes of different groups do not reach each other.
    groups: Vec<usize>,
    liars_return: Option<ReturnFrom>,
    /// Connections so far.
    connections: u64,
    dial_interval: Duration,
    weather: Option<LinkWeather>,
    /// The blocks that whole nodes have made, and the roots of their bodies.
    made: BTreeSet<B256>,
    made_bodies: BTreeSet<(B256, B256)>,
    /// Headers of liars.
    forged: BTreeSet<B256>,
    digest: DefaultHasher,
    /// The first condition that did not hold. The world stands still then.
    pub(crate) broken: Option<BrokenInvariant>,
    pub(crate) counts: Counts,
}

impl World {
    pub(crate) fn new(spec: Arc<ChainSpec>, seed: u64, honest: usize, interval: Duration) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        let clock = Arc::new(AtomicU64::new(0));
        let genesis = SimChain::new(&spec, &clock).view().head_hash();
        let mut world = Self {
            now: Duration::ZERO,
            clock,
            spec,
            genesis,
            entropy: Entropy::from_seed(bytes),
            queue: BTreeMap::new(),
            events: 0,
            nodes: Vec::new(),
            interval,
            import_time: Duration::ZERO,
            groups: Vec::new(),
            liars_return: None,
            connections: 0,
            dial_interval: DIAL_INTERVAL,
            weather: None,
            made: BTreeSet::new(),
            made_bodies: BTreeSet::new(),
            forged: BTreeSet::new(),
            digest: DefaultHasher::new(),
            broken: None,
            counts: Counts::default(),
        };
        for _ in 0..honest {
            let chain = Arc::new(SimChain::new(&world.spec, &world.clock));
            let role = world.honest(chain);
            world.add(role, true);
        }
        world
    }

    fn honest(&mut self, chain: Arc<SimChain>) -> Role {
        let settings = HubSettings {
            family: WireFamily::Mc,
            network_id: self.spec.network_id,
            genesis: self.genesis,
            forks: None,
            peers_max: PEERS_MAX,
            inbound_max: PEERS_MAX * 2 / 3,
        };
        let head = ChainAccess::head(&*chain).expect("a head");
        let hub = PeerHub::new(settings, chain.clone(), head, self.entropy.fork());
        Role::Honest {
            chain,
            hub: Box::new(hub),
            sync: Box::new(Synchronizer::new(self.genesis)),
        }
    }

    fn add(&mut self, role: Role, mines: bool) {
        let index = self.nodes.len();
        self.nodes.push(Node {
            id: B512::from(self.entropy.bytes::<64>()),
            // Liars share one address, honest nodes have networks of their own.
            address: match &role {
                Role::Honest { .. } => [10, 0, index as u8, 1].into(),
                Role::Liar { .. } => [198, 51, 100, 1].into(),
            },
            role,
            life: 0,
            is_up: true,
            links: BTreeMap::new(),
            timer: None,
            mines,
            whole: None,
        });
        self.groups.push(0);
        let soon = self.random(self.dial_interval);
        self.after(soon, Event::Dial(index));
        if mines {
            self.schedule_block(index);
        }
    }

    /// Gives a node without blocks the chain of another world. The time goes on where that chain
    /// ends.
    pub(crate) fn take_chain(&mut self, index: usize, chain: &Arc<SimChain>) {
        let role = self.honest(chain.clone());
        self.nodes[index].role = role;
        let head = chain.view().head().header.timestamp;
        self.run_until(Duration::from_secs(head - START_SECS + 1));
    }

    /// Gives a node without blocks an empty chain with MESS.
    pub(crate) fn use_mess(&mut self, index: usize) {
        let chain = SimChain::new(&self.spec, &self.clock).with_mess();
        self.nodes[index].role = self.honest(Arc::new(chain));
    }

    /// The chain of a node, for other worlds.
    pub(crate) fn shared_chain(&self, index: usize) -> Arc<SimChain> {
        match &self.nodes[index].role {
            Role::Honest { chain, .. } => chain.clone(),
            Role::Liar { .. } => panic!("a liar has no chain"),
        }
    }

    /// Adds a liar that knows the chain of node 0.
    pub(crate) fn add_liar(&mut self, lie: Lie) {
        let Role::Honest { chain, .. } = &self.nodes[0].role else {
            return;
        };
        let liar = Box::new(Liar::new(lie, chain.clone()));
        self.add(Role::Liar { liar, next_peer: 1 }, false);
    }

    pub(crate) fn remove_liars(&mut self) {
        for index in 0..self.nodes.len() {
            if matches!(self.nodes[index].role, Role::Liar { .. }) {
                self.kill(index, None);
            }
        }
    }

    pub(crate) fn chain(&self, index: usize) -> &SimChain {
        match &self.nodes[index].role {
            Role::Honest { chain, .. } => chain,
            Role::Liar { .. } => panic!("a liar has no chain"),
        }
    }

    pub(crate) fn honest_nodes(&self) -> Vec<usize> {
        let is_honest = |index: &usize| matches!(self.nodes[*index].role, Role::Honest { .. });
        (0..self.nodes.len()).filter(is_honest).collect()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.entropy.below(bound)
    }

    fn random(&mut self, most: Duration) -> Duration {
        let micros = self.entropy.below(most.as_micros() as usize + 1);
        Duration::from_micros(micros as u64)
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.events += 1;
        self.queue.insert((self.now + delay, self.events), event);
    }

    fn moment(&self) -> Moment {
        Moment {
            elapsed: self.now,
            unix: Duration::from_secs(START_SECS) + self.now,
        }
    }

    /// Runs until a time.
    pub(crate) fn run_until(&mut self, end: Duration) {
        while self.broken.is_none()
            && let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.clock.store(at.as_secs(), Ordering::Relaxed);
            self.note_in_digest(&(at, std::mem::discriminant(&event)));
            self.happen(event);
            self.look_after_event();
        }
        if self.broken.is_some() {
            return;
        }
        self.now = end;
        self.clock.store(end.as_secs(), Ordering::Relaxed);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Message(to, message) => self.message(to, *message),
            Event::Closed(to) => {
                if self.is_open(&to) {
                    self.nodes[to.node].links.remove(&to.peer);
                    self.with_hub(to.node, |hub, now| hub.left(to.peer, now));
                }
            }
            Event::Silent(to, life, peer) if self.nodes[to].life == life => {
                self.with_hub(to, |hub, now| hub.left(peer, now));
            }
            Event::HeaderChecked(to, life, (from, hash), result) if self.nodes[to].life == life => {
                self.with_hub(to, |hub, now| hub.header_checked(from, &hash, result, now));
            }
            Event::Checked(to, life, (from, hash), result) if self.nodes[to].life == life => {
                self.with_hub(to, |hub, now| hub.checked(from, &hash, result, now));
            }
            Event::Imported(to, life, hash, result) if self.nodes[to].life == life => {
                self.with_hub(to, |hub, now| hub.imported(&hash, &result, now));
                self.head_moved(to);
            }
            Event::Outcome(to, life, outcome) if self.nodes[to].life == life => {
                self.with_sync(to, |sync, view, now| sync.job_done(now, view, *outcome));
                self.head_moved(to);
            }
            Event::Timer(to, life) if self.nodes[to].life == life => self.on_time(to),
            Event::Mine(index) => self.mine(index),
            Event::Dial(index) => self.dial(index),
            Event::Return(liar, to) => self.come_back(liar, to),
            Event::Submit(index) => self.submit(index),
            Event::Fault(fault) => self.fault_begins(fault),
            Event::FaultEnds(fault) => self.fault_ends(fault),
            Event::Start(index) if self.nodes[index].whole.is_some() => self.start_whole(index),
            Event::Start(index) => {
                if let Role::Honest { chain, .. } = &self.nodes[index].role {
                    let chain = chain.clone();
                    self.nodes[index].role = self.honest(chain);
                }
                self.nodes[index].is_up = true;
            }
            Event::HeaderChecked(..)
            | Event::Checked(..)
            | Event::Imported(..)
            | Event::Outcome(..)
            | Event::Silent(..)
            | Event::Timer(..) => {}
        }
    }

    /// Whether the receiver still has this connection.
    fn is_open(&self, to: &Remote) -> bool {
        let link = self.nodes[to.node].links.get(&to.peer);
        link.is_some_and(|link| link.connection == to.connection)
    }

    fn message(&mut self, to: Remote, message: PeerMessage) {
        if !self.is_open(&to) {
            return;
        }
        let Remote { node: to, peer, .. } = to;
        let Some(remote) = self.nodes[to].links.get(&peer).copied() else {
            return;
        };
        self.counts.messages += 1;
        let answered = match &self.nodes[to].role {
            Role::Honest { .. } => {
                return self.with_hub(to, |hub, now| hub.received(peer, message, now));
            }
            Role::Liar { liar, .. } => liar
                .can_read()
                .then(|| liar.answers(&message))
                .flatten()
                .map(|answer| (answer, liar.thinks(&message))),
        };
        if let Some((answer, thinks)) = answered {
            let event = Event::Message(remote, Box::new(answer));
            self.after(remote.delay + thinks, event);
        }
    }

    fn with_hub(&mut self, index: usize, act: impl FnOnce(&mut PeerHub, Moment) -> Vec<PeerAction>) {
        let now = self.moment();
        let actions = match &mut self.nodes[index].role {
            Role::Honest { hub, .. } => act(hub, now),
            Role::Liar { .. } => return,
        };
        self.carry_out(index, actions);
        self.set_timer(index);
    }

    fn with_sync(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Synchronizer, &chain::View, Moment) -> SyncActions,
    ) {
        let now = self.moment();
        let Role::Honest { chain, hub, sync } = &mut self.nodes[index].role else {
            return;
        };
        let Some(view) = chain.look() else { return };
        let SyncActions { orders, jobs } = act(sync, &view, now);
        hub.set_behind(sync.progress().far_behind);
        let mut actions = Vec::new();
        for order in orders {
            actions.extend(hub.carry_out(order, now));
        }
        for job in jobs {
            self.run_job(index, job);
        }
        self.carry_out(index, actions);
        self.set_timer(index);
    }

    /// The work is done at once, and its outcome is told later. So a node that is killed meanwhile
    /// does not hear of what it has stored.
    fn run_job(&mut self, index: usize, job: SyncJob) {
        let Role::Honest { chain, .. } = &self.nodes[index].role else {
            return;
        };
        let blocks = match &job {
            SyncJob::Blocks(blocks) => blocks.len() as u32,
            _ => 0,
        };
        if blocks > 0 && self.import_time == NEVER {
            return;
        }
        let outcome = run_job(&**chain, job);
        let life = self.nodes[index].life;
        let base = Duration::from_millis(5) + self.random(Duration::from_millis(45));
        let took = base + self.import_time * blocks;
        self.after(took, Event::Outcome(index, life, Box::new(outcome)));
    }

    /// Tells hub and synchronization of the head, if it has moved.
    fn head_moved(&mut self, index: usize) {
        let Role::Honest { chain, hub, .. } = &mut self.nodes[index].role else {
            return;
        };
        let (old, Ok(head)) = (hub.head(), ChainAccess::head(&**chain)) else {
            return;
        };
        let Some(view) = chain.look().filter(|_| old != head) else {
            return;
        };
        let Some(canonical) = chain.noted(view.canonical_hash(old.number)) else {
            return;
        };
        if canonical != Some(old.hash) {
            let from = BlockId {
                number: old.number,
                hash: old.hash,
            };
            let Some(path) = chain.noted(view.path_to_head(from, None, usize::MAX)) else {
                return;
            };
            let depth = path.reverted.len() as u64;
            self.counts.reorganized += 1;
            self.counts.deepest = self.counts.deepest.max(depth);
        }
        // A head that came by the synchronization is told, too: others may not have it.
        let has_told = hub.has_told(&head.hash);
        let Some(block) = chain.noted(view.block_by_hash(&head.hash)) else {
            return;
        };
        self.check_head(index, &view.head_id());
        self.with_hub(index, |hub, now| hub.head_moved(head, now));
        if let Some(block) = block.filter(|_| !has_told) {
            let block = Block {
                header: block.record.header.clone(),
                transactions: block.body.transactions.clone(),
                uncles: block.body.uncles,
            };
            self.with_hub(index, |hub, _| hub.announce(&block, head.total_difficulty));
        }
        self.with_hub(index, |hub, _| hub.announce_head());
        self.with_sync(index, |sync, view, now| sync.on_time(now, view));
        if self.nodes[index].whole.is_some() {
            self.tell_pool(index);
        }
    }

    fn on_time(&mut self, index: usize) {
        let now = self.now;
        if self.nodes[index].timer != Some(now) {
            return;
        }
        self.nodes[index].timer = None;
        let Role::Honest { hub, sync, .. } = &self.nodes[index].role else {
            return;
        };
        let is_due = |deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
        let (hub_due, sync_due) = (is_due(hub.deadline()), is_due(sync.deadline()));
        if hub_due {
            self.with_hub(index, PeerHub::on_time);
        }
        if sync_due {
            self.with_sync(index, |sync, view, now| sync.on_time(now, view));
        }
        self.set_timer(index);
    }

    fn set_timer(&mut self, index: usize) {
        let Role::Honest { hub, sync, .. } = &self.nodes[index].role else {
            return;
        };
        let deadline = [hub.deadline(), sync.deadline()].into_iter().flatten().min();
        let Some(deadline) = deadline else { return };
        // Never at the same moment, so that time goes on.
        let at = deadline.max(self.now + Duration::from_millis(1));
        let node = &mut self.nodes[index];
        if node.timer.is_some_and(|timer| timer <= at) {
            return;
        }
        node.timer = Some(at);
        let life = node.life;
        self.after(at - self.now, Event::Timer(index, life));
    }

    /// The heads of the honest nodes.
    pub(crate) fn heads(&self) -> BTreeSet<B256> {
        let nodes = self.honest_nodes().into_iter();
        nodes.map(|index| self.chain(index).view().head_hash()).collect()
    }

    /// The reason why the synchronization of a node has not ended, if it has not.
    pub(crate) fn open_work(&self, index: usize) -> Option<String> {
        let Role::Honest { sync, .. } = &self.nodes[index].role else {
            return None;
        };
        let progress = sync.progress();
        (progress.missing > 0 || progress.started_at.is_some()).then(|| format!("{progress:?}"))
    }

    /// The progress of a node's synchronization, as the node sees it.
    pub(crate) fn progress(&self, index: usize) -> network::SyncState {
        match &self.nodes[index].role {
            Role::Honest { sync, .. } => sync.progress(),
            Role::Liar { .. } => panic!("a liar has no chain"),
        }
    }
}
