//! The peers and what they are told: a state machine without sockets, clock and randomness of its
//! own.
//!
//! The caller admits a connection after its Hello ([`PeerHub::admit`]), hands over each message
//! ([`PeerHub::received`]) and the end ([`PeerHub::left`]), and does what the actions say. It calls
//! [`PeerHub::on_time`] at [`PeerHub::deadline`].
//!
//! | question | module |
//! |---|---|
//! | which block is new, and who gets it? | `blocks` |
//! | which blocks wait, and which of them is checked next? | `waiting` |
//! | how is an announced block fetched? | `announced` |
//! | who gets a transaction, what becomes of those of a peer? | `transactions` |
//! | how is an announced transaction fetched? | `wanted` |
//! | is a message worth decoding? | `gate` |
//! | what is passed on for application chains? | `relay` |
//! | who has a place, and who loses it? | `places` |
//!
//! Source: docs/p2p.md, 2, 3 and 6.

mod announced;
mod blocks;
mod gate;
mod peer;
mod places;
mod relay;
mod required;
#[cfg(test)]
mod tests;
mod transactions;
mod waiting;
mod wanted;

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use alloy_eip2124::{ForkFilter, ForkId};
use chain::import::BlockId;
use primitives::{B256, B512, U256};

use super::action::{PeerAction, PeerCounters};
use super::chain_access::{ChainAccess, ChainHead};
use super::interface::{PeerFacts, PeerFault, PeerId, PeerNews, PeerOrder, PeerRequest, RequestTicket};
use super::known::KnownHashes;
use super::share::HeldShares;
use crate::entropy::Entropy;
use crate::fork_id::fork_head;
use crate::messages::{PeerMessage, PeerStatus, WireFamily, WireProtocol};
use crate::moment::Moment;
use crate::requests::{AnswerKind, WaitingRequest};
use crate::rlpx::RlpxDisconnect;
use crate::status_check::check_status;

use announced::AnnouncedFetch;
pub(crate) use blocks::NEAR_BELOW;
pub(crate) use gate::APPLICATION_MESSAGES_SHARE;
pub use peer::PeerFigures;
use peer::PeerState;
pub(crate) use peer::{KNOWN_BLOCKS_MAX, KNOWN_TRANSACTIONS_MAX};
pub use required::REQUIRED_BLOCKS_MAX;
#[cfg(test)]
pub(crate) use transactions::{JUDGED_TRANSACTIONS_MIN, WORTHLESS_PAUSE};
pub(crate) use waiting::CHECKS_MAX;
use waiting::WaitingBlock;
pub use waiting::{BLOCKS_WAITING_MAX, WAITING_BYTES_MAX, WaitingUse};
use wanted::{AskedTransactions, WantedTransaction};

/// Longest time from the Hello to the peer's Status.
pub(crate) const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// A node of another chain may not come back for this long.
pub(crate) const OTHER_CHAIN_BAN: Duration = Duration::from_secs(3600);
/// A node that broke the protocol may not come back for this long.
pub(crate) const FAULT_BAN: Duration = Duration::from_secs(600);
/// Nodes that are remembered because they may not come back.
pub(crate) const BANNED_MAX: usize = 4096;
/// The late answers in a row that end a connection.
const LATE_ANSWERS_MAX: u32 = 8;
/// Answers in a row that nobody has asked for and that are only ignored.
const UNASKED_MAX: u32 = 64;

/// The facts about this node that the hub needs.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// The capability of the network.
    pub family: WireFamily,
    /// The id of the network, as Status says it.
    pub network_id: u64,
    /// The hash of block 0.
    pub genesis: B256,
    /// Judges fork ids; `None` if the family has none.
    pub forks: Option<ForkFilter>,
    /// The most peers. Static and trusted nodes do not count.
    pub peers_max: usize,
    /// The number of peers that may have come by themselves.
    pub inbound_max: usize,
}

/// A connection after its Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPeer {
    /// The node.
    pub node: B512,
    /// The address of the other side.
    pub address: IpAddr,
    /// The capability.
    pub protocol: WireProtocol,
    /// The connection has `snap/1`, too.
    pub has_snap: bool,
    /// The other side has dialled.
    pub is_inbound: bool,
    /// A static or trusted node: it counts for no limit.
    pub is_exempt: bool,
    /// If both nodes dial each other at once, both keep this connection and end the other one.
    pub is_preferred: bool,
}

/// The purpose of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestNote {
    Sync(RequestTicket),
    Header(B256),
    Body(B256),
    Transactions(AskedTransactions),
    Required(BlockId),
}

/// The peers of this node.
pub struct PeerHub {
    settings: HubSettings,
    chain: Arc<dyn ChainAccess>,
    entropy: Entropy,
    head: ChainHead,
    peers: BTreeMap<PeerId, PeerState>,
    nodes: HashMap<B512, PeerId>,
    next_peer: u64,
    /// The blocks that peers must have.
    required: Vec<BlockId>,
    /// Nodes that may not come back, and until which time.
    banned: HashMap<B512, Duration>,
    /// Blocks that are checked, imported, or wait for their parents.
    waiting: BTreeMap<B256, WaitingBlock>,
    /// The checks that run: the block, and the peer whose copy of it is checked.
    checking: Vec<(PeerId, B256)>,
    /// The peer whose block was taken for the last check.
    last_checked: PeerId,
    /// Blocks that were announced and are not here yet.
    announced: BTreeMap<B256, AnnouncedFetch>,
    told: KnownHashes,
    wanted: HashMap<B256, WantedTransaction>,
    /// The time at which entries of `wanted` that were waited for long enough are forgotten next.
    wanted_sweep: Duration,
    /// Messages and transactions of application chains that were passed on.
    relayed: KnownHashes,
    /// Bytes of messages of application chains.
    application_shares: HeldShares,
    /// The node is far behind: transactions are of no use yet.
    is_behind: bool,
    /// Only messages and transactions for application chains are carried.
    is_subnet: bool,
    counters: PeerCounters,
    actions: Vec<PeerAction>,
}

impl PeerHub {
    /// No peers yet.
    pub fn new(
        settings: HubSettings,
        chain: Arc<dyn ChainAccess>,
        head: ChainHead,
        entropy: Entropy,
    ) -> Self {
        let mut hub = Self {
            settings,
            chain,
            entropy,
            head,
            peers: BTreeMap::new(),
            nodes: HashMap::new(),
            next_peer: 1,
            required: Vec::new(),
            banned: HashMap::new(),
            waiting: BTreeMap::new(),
            checking: Vec::new(),
            last_checked: PeerId(0),
            announced: BTreeMap::new(),
            told: KnownHashes::new(KNOWN_BLOCKS_MAX),
            wanted: HashMap::new(),
            wanted_sweep: Duration::ZERO,
            relayed: KnownHashes::new(KNOWN_TRANSACTIONS_MAX),
            application_shares: HeldShares::new(APPLICATION_MESSAGES_SHARE),
            is_behind: false,
            is_subnet: false,
            counters: PeerCounters::default(),
            actions: Vec::new(),
        };
        hub.set_fork_head();
        hub
    }

    /// The counters.
    pub const fn counters(&self) -> &PeerCounters {
        &self.counters
    }

    /// The peers whose Status fits.
    pub fn peers(&self) -> impl Iterator<Item = PeerFacts> + '_ {
        let active = self.peers.iter().filter(|(_, state)| state.is_active());
        active.map(|(peer, state)| state.facts(*peer))
    }

    /// The figures of a peer. `None` if it is gone.
    pub fn figures(&self, peer: PeerId) -> Option<PeerFigures> {
        self.peers.get(&peer).map(PeerState::figures)
    }

    /// The head of this node, as peers are told.
    pub const fn head(&self) -> ChainHead {
        self.head
    }

    /// The hash of block 0.
    pub const fn genesis(&self) -> B256 {
        self.settings.genesis
    }

    /// The fork id of this node at its head; `None` if the family has none.
    pub fn fork_id(&self) -> Option<ForkId> {
        self.settings.forks.as_ref().map(ForkFilter::current)
    }

    /// Whether a node with this fork id may be of the same network.
    pub(crate) fn accepts_fork(&self, fork_id: ForkId) -> bool {
        let forks = self.settings.forks.as_ref();
        forks.is_none_or(|forks| forks.validate(fork_id).is_ok())
    }

    /// Says whether the node is far behind. It takes no transactions then.
    pub const fn set_behind(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    /// Makes this the hub of an application chain's network: it carries messages of code 31 and
    /// transactions with a sharding flag, and ignores the rest.
    pub(crate) const fn carry_application_chains_only(&mut self) {
        self.is_subnet = true;
    }

    fn own_status(&self, protocol: WireProtocol) -> PeerStatus {
        let forks = self.settings.forks.as_ref();
        PeerStatus {
            version: protocol.version(),
            network_id: self.settings.network_id,
            total_difficulty: self.head.total_difficulty,
            head: self.head.hash,
            genesis: self.settings.genesis,
            fork_id: forks.filter(|_| protocol.has_fork_id()).map(ForkFilter::current),
        }
    }

    /// The node's head is another one now.
    pub fn head_moved(&mut self, head: ChainHead, now: Moment) -> Vec<PeerAction> {
        self.head = head;
        self.set_fork_head();
        self.check_waiting(now);
        self.take_actions()
    }

    fn set_fork_head(&mut self) {
        let number = self.head.number;
        if let Some(forks) = &mut self.settings.forks {
            forks.set_head(fork_head(number));
        }
    }

    /// Takes a message of a peer.
    pub fn received(&mut self, peer: PeerId, message: PeerMessage, now: Moment) -> Vec<PeerAction> {
        let Some(state) = self.peers.get(&peer) else {
            return Vec::new();
        };
        if state.is_active() {
            self.take(peer, message, now);
        } else {
            self.take_status(peer, &message, now);
        }
        self.take_actions()
    }

    fn take_status(&mut self, peer: PeerId, message: &PeerMessage, now: Moment) {
        let Some(state) = self.peers.get(&peer) else {
            return;
        };
        let own = self.own_status(state.protocol);
        let checked = check_status(message, state.protocol, &own, self.settings.forks.as_ref());
        match checked {
            Ok(status) => {
                let (head, total_difficulty) = (status.head, status.total_difficulty);
                if let Some(state) = self.peers.get_mut(&peer) {
                    state.activate(head, total_difficulty);
                    let facts = state.facts(peer);
                    self.counters.joined += 1;
                    self.actions.push(PeerAction::News(PeerNews::Joined(facts)));
                    self.tell_newer_head(peer);
                    self.tell_pending(peer);
                    self.ask_for_required(peer, now);
                }
            }
            Err(mismatch) => self.punish(
                peer,
                &PeerFault {
                    text: mismatch.to_string(),
                    disconnect: RlpxDisconnect::Subprotocol,
                    banned: OTHER_CHAIN_BAN,
                },
                now,
            ),
        }
    }

    fn take(&mut self, peer: PeerId, message: PeerMessage, now: Moment) {
        match message {
            PeerMessage::Status(_) => self.breach(peer, "got a second Status", now),
            PeerMessage::NewBlockHashes(blocks) => self.blocks_announced(peer, &blocks, now),
            PeerMessage::Transactions(transactions) => self.transactions_came(peer, transactions),
            PeerMessage::NewBlock(block, total_difficulty) => {
                self.block_came(peer, block, total_difficulty, now);
            }
            PeerMessage::NewPooledTransactionHashes(hashes) => {
                self.transactions_announced(peer, &hashes, now);
            }
            PeerMessage::GetBlockHeaders(..)
            | PeerMessage::GetBlockBodies(..)
            | PeerMessage::GetPooledTransactions(..)
            | PeerMessage::GetNodeData(..)
            | PeerMessage::GetReceipts(..) => self.serve(peer, message),
            PeerMessage::Snap(ref snap) if !self.has_snap(peer) => {
                let text = format!("got code {} of snap, which it does not share", snap.code());
                self.breach(peer, &text, now);
            }
            PeerMessage::Snap(ref snap) if snap.is_request() => self.serve(peer, message),
            PeerMessage::BlockHeaders(..)
            | PeerMessage::BlockBodies(..)
            | PeerMessage::PooledTransactions(..)
            | PeerMessage::NodeData(..)
            | PeerMessage::Receipts(..)
            | PeerMessage::Snap(_) => self.answered(peer, message, now),
            PeerMessage::ApplicationChain(message) => {
                self.actions.push(PeerAction::Recognize { peer, message });
            }
            PeerMessage::WithoutEffect(..) => {}
        }
    }

    fn has_snap(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|state| state.has_snap)
    }

    fn serve(&mut self, peer: PeerId, request: PeerMessage) {
        self.counters.requests += 1;
        self.actions.push(PeerAction::Serve { peer, request });
    }

    fn answered(&mut self, peer: PeerId, message: PeerMessage, now: Moment) {
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        let Some(request) = state.requests.answered(&message, now.elapsed) else {
            state.unasked += 1;
            state.faults += 1;
            if state.unasked > UNASKED_MAX {
                self.breach(peer, "got answers that nobody has asked for", now);
            }
            return;
        };
        (state.unasked, state.late) = (0, 0);
        let took = now.elapsed.saturating_sub(request.sent);
        match (request.note, message) {
            (RequestNote::Sync(ticket), answer) => self.news(PeerNews::Answer {
                peer,
                ticket,
                answer,
                took,
            }),
            (RequestNote::Header(hash), PeerMessage::BlockHeaders(_, headers)) => {
                self.announced_header_came(peer, hash, headers, now);
            }
            (RequestNote::Body(hash), PeerMessage::BlockBodies(_, bodies)) => {
                self.announced_body_came(peer, hash, bodies, now);
            }
            (RequestNote::Transactions(asked), PeerMessage::PooledTransactions(_, transactions)) => {
                self.asked_transactions_came(peer, asked, transactions, now);
            }
            (RequestNote::Required(block), PeerMessage::BlockHeaders(_, headers)) => {
                self.required_header_came(peer, block, &headers, now);
            }
            // The kinds of request and answer are compared already.
            _ => {}
        }
    }

    /// Carries out what the synchronization wants.
    pub fn carry_out(&mut self, order: PeerOrder, now: Moment) -> Vec<PeerAction> {
        match order {
            PeerOrder::Ask {
                peer,
                ticket,
                request,
            } => {
                let message = |id| match request {
                    PeerRequest::Headers(headers) => PeerMessage::GetBlockHeaders(id, headers),
                    PeerRequest::Bodies(hashes) => PeerMessage::GetBlockBodies(id, hashes),
                    PeerRequest::Receipts(hashes) => PeerMessage::GetReceipts(id, hashes),
                    PeerRequest::Snap(request) => PeerMessage::Snap(request),
                };
                if !self.ask(peer, RequestNote::Sync(ticket), message, now) {
                    self.news(PeerNews::NotAsked { peer, ticket });
                }
            }
            PeerOrder::Drop { peer, fault } => self.punish(peer, &fault, now),
        }
        self.take_actions()
    }

    /// Asks a peer. `false` if the peer is gone or has too many requests.
    fn ask(
        &mut self,
        peer: PeerId,
        note: RequestNote,
        message: impl FnOnce(u64) -> PeerMessage,
        now: Moment,
    ) -> bool {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| state.is_active()) else {
            return false;
        };
        // The kind does not depend on the id, but the id is known only once the kind is noted.
        let mut message = message(0);
        let Some(kind) = AnswerKind::of_request(&message) else {
            return false;
        };
        if kind == AnswerKind::Receipts && !state.protocol.has_receipts()
            || matches!(kind, AnswerKind::Snap(_)) && !state.has_snap
        {
            return false;
        }
        let Ok(id) = state.requests.ask(kind, now.elapsed, note) else {
            return false;
        };
        message.set_request_id(id);
        self.send(peer, message);
        true
    }

    /// The time at which [`Self::on_time`] must be called. `None` if nothing waits.
    pub fn deadline(&self) -> Option<Duration> {
        let peers = self.peers.values().filter_map(PeerState::deadline);
        let blocks = self.announced.values().filter_map(AnnouncedFetch::deadline);
        let others = self.wanted_deadline().into_iter().chain(self.parents_deadline());
        peers.chain(blocks).chain(others).min()
    }

    /// Does what waits for the time.
    pub fn on_time(&mut self, now: Moment) -> Vec<PeerAction> {
        let due: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, state)| state.deadline().is_some_and(|deadline| deadline <= now.elapsed))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in due {
            self.peer_is_due(peer, now);
        }
        self.fetch_announced(now);
        self.forget_old_wanted(now);
        self.check_waiting(now);
        self.take_actions()
    }

    fn peer_is_due(&mut self, peer: PeerId, now: Moment) {
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        if !state.is_active() {
            tracing::debug!(node = %state.short_id(), "no Status in {STATUS_TIMEOUT:?}");
            self.disconnect(peer, RlpxDisconnect::Timeout, now);
            return;
        }
        let late = state.requests.late(now.elapsed);
        let count = u32::try_from(late.len()).unwrap_or(u32::MAX);
        state.late = state.late.saturating_add(count);
        state.late_answers += u64::from(count);
        self.counters.late_answers += u64::from(count);
        // Without ids the next answer could be taken for the answer to another request.
        let ends = state.late >= LATE_ANSWERS_MAX || count > 0 && !state.protocol.has_request_ids();
        for request in late {
            self.not_answered(peer, request, now);
        }
        if ends {
            self.disconnect(peer, RlpxDisconnect::Timeout, now);
        }
    }

    fn not_answered(&mut self, peer: PeerId, request: WaitingRequest<RequestNote>, now: Moment) {
        match request.note {
            RequestNote::Sync(ticket) => self.news(PeerNews::Late { peer, ticket }),
            RequestNote::Header(hash) | RequestNote::Body(hash) => self.fetch_failed(peer, hash, now),
            RequestNote::Transactions(asked) => self.transactions_not_sent(peer, &asked.hashes, now),
            RequestNote::Required(_) => self.disconnect(peer, RlpxDisconnect::Useless, now),
        }
    }

    fn send(&mut self, peer: PeerId, message: PeerMessage) {
        let to = vec![peer];
        self.actions.push(PeerAction::Send { to, message });
    }

    fn send_to_all(&mut self, to: Vec<PeerId>, message: PeerMessage) {
        if !to.is_empty() {
            self.actions.push(PeerAction::Send { to, message });
        }
    }

    fn news(&mut self, news: PeerNews) {
        self.actions.push(PeerAction::News(news));
    }

    fn take_actions(&mut self) -> Vec<PeerAction> {
        mem::take(&mut self.actions)
    }

    /// The active peers for which `choose` holds.
    fn active_peers(&self, choose: impl Fn(&PeerState) -> bool) -> Vec<PeerId> {
        let active = self.peers.iter().filter(|(_, state)| state.is_active());
        let chosen = active.filter(|(_, state)| choose(state));
        chosen.map(|(peer, _)| *peer).collect()
    }

    /// The number of peers of `count` that get something whole: the square root, and at least one.
    fn whole_share(count: usize) -> usize {
        count.isqrt().max(1)
    }

    /// The total difficulty with a block; `None` if it is not stored or cannot be read.
    fn stored_difficulty(&self, hash: &B256) -> Option<U256> {
        self.chain.total_difficulty(hash).unwrap_or_else(|error| {
            tracing::warn!(%error, "a block of a peer cannot be looked up");
            None
        })
    }
}
