//! Discovery without its socket: packets and the time come in, packets to send and what was found
//! come out.
//!
//! The caller hands each packet to [`Discovery::handle`] and calls [`Discovery::on_time`] at
//! [`Discovery::deadline`]. Source: docs/p2p.md, 4; ethereum/devp2p, `discv4.md`.

mod inbound;
mod searches;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use alloy_eip2124::ForkId;
use primitives::{B256, B512, Enode, SecretKey, keccak256};

use super::bonds::BondBook;
use super::budget::{SecondBudget, SecondLimits};
use super::lookup::NodeLookup;
use super::packet::{
    DiscoveryDialect, DiscoveryPacket, PACKET_LIFETIME, PacketEndpoint, PacketError, PacketTail,
};
use super::table::{BUCKET_NODES_MAX, ContactKind, NodeTable};
use super::told_address::ToldAddresses;
use super::values::ValueStore;
use crate::address::{self, AddressRanges};
use crate::contact::NodeContact;
use crate::enr::{NodeClaims, NodeRecord};
use crate::entropy::Entropy;
use crate::moment::Moment;

/// An answer may take this long.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Answers that are awaited at a time.
pub(crate) const PENDING_ANSWERS_MAX: usize = 1024;
/// Searches at a time.
pub(crate) const LOOKUPS_MAX: usize = 8;
/// Packets of which the signature is checked in a second. An address may be forged, so a host has
/// much more than it needs: else a few forged packets would silence it.
pub(crate) const PACKETS_IN_SECOND: SecondLimits = SecondLimits {
    total: 4000,
    neighbourhood: 2000,
    host: 1000,
};
/// PINGs of unproven addresses that are answered in a second.
pub(crate) const UNPROVEN_PINGS_IN_SECOND: SecondLimits = SecondLimits {
    total: 200,
    neighbourhood: 50,
    host: 20,
};
/// A node of the table that answers after this time has lasted: it may be remembered over restarts.
pub(crate) const LASTING_AGE: Duration = Duration::from_secs(300);
/// Requests in a row that a node may leave without an answer.
pub(crate) const FAILURES_MAX: u32 = 5;
/// A node of kind unknown stays in the table of the public network's dialect for this long.
pub(crate) const UNKNOWN_LIFETIME: Duration = Duration::from_secs(120);
/// Time between two searches for new nodes.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The same while the table has no node.
pub(crate) const EMPTY_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// Longest time between two checks whether a node of the table still answers.
pub(crate) const REVALIDATION_INTERVAL: Duration = Duration::from_secs(10);
/// The lowest UDP port of a node, less one.
const RESERVED_PORTS: u16 = 1024;
/// Searches for random targets in a refresh, after the one for this node.
const RANDOM_TARGETS: usize = 3;
/// Bootnodes and seeds that are asked first.
pub(crate) const SEEDS_MAX: usize = 64;

/// The settings of a node that takes part.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    /// The networks whose discovery is spoken.
    pub dialect: DiscoveryDialect,
    /// Address and ports of this node. Unspecified if the address is not known.
    pub endpoint: PacketEndpoint,
    /// Nodes to begin with, at most `SEEDS_MAX`.
    pub seeds: Vec<NodeContact>,
    /// If there are some, only nodes in these ranges exist for this node.
    pub ranges: Option<AddressRanges>,
    /// Only brothers are answered. Networks of application chains are strict.
    pub is_strict: bool,
    /// The fork id in this node's record.
    pub fork_id: Option<ForkId>,
    /// Whether the node's record says that it gives parts of states.
    pub has_snap: bool,
    /// The number of this node's first record. It must rise from start to start.
    pub record_sequence: u64,
    /// Whether the record says the address that others see, while that of the endpoint is not
    /// known.
    pub learns_address: bool,
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryAction {
    /// Send a packet.
    Send {
        /// The receiver.
        to: SocketAddr,
        /// The bytes.
        packet: Vec<u8>,
    },
    /// Tell of an event.
    Tell(DiscoveryEvent),
}

/// An event of discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryEvent {
    /// A node has proven its address.
    Verified(NodeContact),
    /// A node has answered again, at least `LASTING_AGE` after it came into the table.
    Lasting(NodeContact),
    /// A search is done.
    LookupDone {
        /// The number of the search.
        lookup: u64,
        /// The closest nodes that answered.
        nodes: Vec<NodeContact>,
    },
    /// A node has sent its record. The address in it may be anybody's.
    Record {
        /// The record.
        record: Box<NodeRecord>,
        /// The address that the node has proven.
        from: IpAddr,
    },
    /// A node has sent what it keeps under a key.
    Values {
        /// The key.
        key: B512,
        /// The enodes.
        nodes: Vec<Enode>,
    },
}

#[derive(Clone, Debug)]
enum Awaited {
    Pong {
        hash: B256,
        to: SocketAddr,
        contact: NodeContact,
        /// The node leaves the table if it does not answer.
        is_check: bool,
    },
    /// A search waits for the bond.
    Bond {
        lookup: u64,
        contact: NodeContact,
    },
    /// A search waits for the node's own PING: before, the node would not answer.
    TheirPing {
        lookup: u64,
        contact: NodeContact,
    },
    Neighbors {
        lookup: u64,
        received: usize,
    },
    Record {
        hash: B256,
    },
    Values {
        key: B512,
    },
}

impl Awaited {
    /// The address that was asked.
    const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Pong { contact, .. } | Self::Bond { contact, .. } | Self::TheirPing { contact, .. } => {
                Some(contact.ip)
            }
            Self::Neighbors { .. } | Self::Record { .. } | Self::Values { .. } => None,
        }
    }
}

#[derive(Clone, Debug)]
struct PendingAnswer {
    id: B512,
    deadline: Duration,
    awaited: Awaited,
}

/// Discovery of one network.
#[derive(Debug)]
pub struct Discovery {
    key: SecretKey,
    id: B512,
    settings: DiscoverySettings,
    record: NodeRecord,
    /// The content of the record.
    claims: NodeClaims,
    told_addresses: ToldAddresses,
    table: NodeTable,
    bonds: BondBook,
    values: ValueStore,
    pending: Vec<PendingAnswer>,
    lookups: BTreeMap<u64, NodeLookup>,
    next_lookup: u64,
    /// Targets that the running refresh has left.
    refresh_targets: VecDeque<B512>,
    refresh_lookup: Option<u64>,
    next_refresh: Duration,
    next_check: Duration,
    packet_budget: SecondBudget,
    ping_budget: SecondBudget,
    entropy: Entropy,
    actions: Vec<DiscoveryAction>,
}

impl Discovery {
    /// Begins. Call [`Self::on_time`] at once.
    pub fn new(key: SecretKey, settings: DiscoverySettings, now: Moment, entropy: Entropy) -> Self {
        let id = key.public_key();
        let claims = own_claims(&settings, None);
        let record = NodeRecord::sign(&key, settings.record_sequence, &claims);
        Self {
            id,
            record,
            claims,
            told_addresses: ToldAddresses::default(),
            table: NodeTable::new(keccak256(id)),
            bonds: BondBook::default(),
            values: ValueStore::default(),
            pending: Vec::new(),
            lookups: BTreeMap::new(),
            next_lookup: 0,
            refresh_targets: VecDeque::new(),
            refresh_lookup: None,
            next_refresh: now.elapsed,
            next_check: now.elapsed + REVALIDATION_INTERVAL,
            packet_budget: SecondBudget::new(PACKETS_IN_SECOND),
            ping_budget: SecondBudget::new(UNPROVEN_PINGS_IN_SECOND),
            entropy,
            actions: Vec::new(),
            key,
            settings,
        }
    }

    /// The record of this node.
    pub const fn record(&self) -> &NodeRecord {
        &self.record
    }

    /// The number of nodes in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the table has no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes of the table with their kinds.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeContact, ContactKind)> {
        self.table.entries().map(|entry| (entry.contact, entry.kind))
    }

    /// The at most `count` nodes closest to `target`. With `brothers_only` other kinds do not
    /// count.
    pub fn closest(&self, target: &B512, count: usize, brothers_only: bool) -> Vec<NodeContact> {
        let is_wanted = |kind| !brothers_only || kind == ContactKind::Brother;
        self.table
            .closest(&keccak256(target), count, |entry| is_wanted(entry.kind))
    }

    /// The time at which [`Self::on_time`] must be called.
    pub fn deadline(&self) -> Duration {
        let answers = self.pending.iter().map(|pending| pending.deadline);
        answers
            .chain([self.next_refresh, self.next_check])
            .min()
            .unwrap_or_default()
    }

    /// Changes the address or the fork id of this node.
    pub fn announce(&mut self, endpoint: PacketEndpoint, fork_id: Option<ForkId>) {
        self.settings.endpoint = endpoint;
        self.settings.fork_id = fork_id;
        self.renew_record();
    }

    /// Signs the next record if its content has changed.
    fn renew_record(&mut self) {
        let claims = own_claims(&self.settings, self.told_addresses.agreed());
        if claims != self.claims {
            let next = self.record.sequence().saturating_add(1);
            self.record = NodeRecord::sign(&self.key, next, &claims);
            self.claims = claims;
        }
    }

    /// Notes what a connection has shown of a node. Its kind can only rise.
    pub(crate) fn set_kind(&mut self, id: &B512, ip: IpAddr, kind: ContactKind, now: Moment) {
        self.bonds.touch(*id, address::canonical(ip), now.elapsed);
        self.raise(id, kind);
    }

    /// Begins a search for the nodes closest to `target`. `None` if too many searches are running.
    pub fn lookup(&mut self, target: B512, now: Moment) -> (Option<u64>, Vec<DiscoveryAction>) {
        let lookup = self.start_lookup(target);
        self.advance(now);
        (lookup, self.take_actions())
    }

    /// Asks `nodes` to keep this node's enode under `key`.
    pub(crate) fn store_at(&mut self, key: B512, nodes: &[NodeContact], now: Moment) -> Vec<DiscoveryAction> {
        let from = self.settings.endpoint;
        for node in nodes.iter().take(BUCKET_NODES_MAX) {
            self.send(node.udp_address(), &DiscoveryPacket::Store { key, from }, now);
        }
        self.take_actions()
    }

    /// Asks `nodes` for what they keep under `key`.
    pub(crate) fn find_values_at(
        &mut self,
        key: B512,
        nodes: &[NodeContact],
        now: Moment,
    ) -> Vec<DiscoveryAction> {
        for node in nodes.iter().take(BUCKET_NODES_MAX) {
            if self.await_answer(node.id, Awaited::Values { key }, now.elapsed) {
                self.send(node.udp_address(), &DiscoveryPacket::FindValue { key }, now);
            }
        }
        self.take_actions()
    }

    /// Nodes that have stored their enode here under `key` since they were last returned, at most
    /// as many as in an answer.
    pub(crate) fn newly_kept(&mut self, key: &B512, now: Moment) -> Vec<NodeContact> {
        self.values.take_new(key, now.elapsed)
    }

    /// Asks a node for its record if it has said that it has one. No actions: it is not asked.
    pub(crate) fn request_announced_record(
        &mut self,
        node: &NodeContact,
        now: Moment,
    ) -> Vec<DiscoveryAction> {
        let state = self.bonds.get(&node.id);
        if state.is_some_and(|state| state.announced_sequence != 0) {
            self.ask_for_record(node.id, node.udp_address(), now);
        }
        self.take_actions()
    }

    /// Asks a node whether it is there. It comes into the table if it answers.
    pub(crate) fn probe(&mut self, node: NodeContact, now: Moment) -> Vec<DiscoveryAction> {
        self.ping(node, false, now);
        self.take_actions()
    }

    fn tell(&mut self, event: DiscoveryEvent) {
        self.actions.push(DiscoveryAction::Tell(event));
    }

    pub(super) fn take_actions(&mut self) -> Vec<DiscoveryAction> {
        mem::take(&mut self.actions)
    }

    /// Takes a packet that came from `from`.
    ///
    /// # Errors
    /// [`PacketError`] if it is dropped because of its form. Packets that are dropped for other
    /// reasons have no actions.
    pub fn handle(
        &mut self,
        now: Moment,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Result<Vec<DiscoveryAction>, PacketError> {
        let from = SocketAddr::new(address::canonical(from.ip()), from.port());
        let is_outside = self
            .settings
            .ranges
            .as_ref()
            .is_some_and(|ranges| !ranges.contains(from.ip()));
        if is_outside || !self.packet_budget.take(from.ip(), now.elapsed) {
            return Ok(Vec::new());
        }
        let read = DiscoveryPacket::open(bytes, self.settings.dialect)?;
        // Others read the time as a signed number, so the highest values are long ago.
        let seconds = |expiry: u64| u64::try_from(expiry.cast_signed()).unwrap_or(0);
        let is_expired = read
            .expiry
            .is_some_and(|expiry| seconds(expiry) < now.unix.as_secs());
        let is_alien = self.bonds.kind(&read.id) == ContactKind::Alien;
        if !is_expired && !is_alien && read.id != self.id {
            self.take(read, from, now);
            self.advance(now);
        }
        Ok(self.take_actions())
    }

    const fn own_tail(&self) -> PacketTail {
        match self.settings.dialect {
            DiscoveryDialect::Ethereum => PacketTail {
                record_sequence: Some(self.record.sequence()),
                network_id: None,
            },
            DiscoveryDialect::Public { network_id } => PacketTail {
                record_sequence: None,
                network_id: Some(network_id),
            },
        }
    }

    /// Signs and sends a packet. Returns its hash.
    fn send(&mut self, to: SocketAddr, packet: &DiscoveryPacket, now: Moment) -> B256 {
        let expiry = (now.unix + PACKET_LIFETIME).as_secs();
        let (packet, hash) = packet.seal(&self.key, self.settings.dialect, expiry);
        self.actions.push(DiscoveryAction::Send { to, packet });
        hash
    }

    /// Sends a PING, unless the answer to one is awaited.
    fn ping(&mut self, contact: NodeContact, is_check: bool, now: Moment) {
        let is_pong = |pending: &PendingAnswer| {
            pending.id == contact.id && matches!(pending.awaited, Awaited::Pong { .. })
        };
        let is_full = self.pending.len() >= PENDING_ANSWERS_MAX;
        if is_full || contact.id == self.id || self.pending.iter().any(is_pong) {
            return;
        }
        let to = contact.udp_address();
        let ping = DiscoveryPacket::Ping {
            from: self.settings.endpoint,
            to: PacketEndpoint::new(contact.ip, contact.udp, 0),
            tail: self.own_tail(),
        };
        let hash = self.send(to, &ping, now);
        let awaited = Awaited::Pong {
            hash,
            to,
            contact,
            is_check,
        };
        self.await_answer(contact.id, awaited, now.elapsed);
    }

    fn ask_for_nodes(&mut self, lookup: u64, contact: NodeContact, now: Moment) {
        let Some(target) = self.lookups.get(&lookup).map(|search| search.target) else {
            return;
        };
        if !self.await_answer(
            contact.id,
            Awaited::Neighbors { lookup, received: 0 },
            now.elapsed,
        ) {
            return self.end_query(lookup, &contact.id, false);
        }
        let find = DiscoveryPacket::FindNode {
            target,
            brothers_only: self.settings.is_strict,
        };
        self.send(contact.udp_address(), &find, now);
    }

    pub(super) fn ask_for_record(&mut self, id: B512, to: SocketAddr, now: Moment) {
        if self.settings.dialect == DiscoveryDialect::Ethereum && self.pending.len() < PENDING_ANSWERS_MAX {
            let hash = self.send(to, &DiscoveryPacket::EnrRequest, now);
            self.await_answer(id, Awaited::Record { hash }, now.elapsed);
        }
    }

    /// Ends what has taken too long, checks nodes of the table, and searches for new ones.
    pub fn on_time(&mut self, now: Moment) -> Vec<DiscoveryAction> {
        let is_late = |pending: &mut PendingAnswer| pending.deadline <= now.elapsed;
        let late: Vec<_> = self.pending.extract_if(.., is_late).collect();
        for pending in late {
            self.expire(pending, now);
        }
        if self.next_check <= now.elapsed {
            let wait = self.entropy.below(REVALIDATION_INTERVAL.as_millis() as usize);
            self.next_check = now.elapsed + Duration::from_millis(1 + wait as u64);
            self.check_table(now);
        }
        if self.next_refresh <= now.elapsed {
            self.refresh(now);
        }
        self.advance(now);
        self.take_actions()
    }

    fn expire(&mut self, pending: PendingAnswer, now: Moment) {
        let id = pending.id;
        match pending.awaited {
            Awaited::Pong { is_check: true, .. } => self.table.remove(&id, &mut self.entropy),
            Awaited::Bond { lookup, .. } => self.end_query(lookup, &id, false),
            // The other node may know this one from before.
            Awaited::TheirPing { lookup, contact } => self.ask_for_nodes(lookup, contact, now),
            Awaited::Neighbors { lookup, received } => self.end_query(lookup, &id, received > 0),
            Awaited::Pong { .. } | Awaited::Record { .. } | Awaited::Values { .. } => {}
        }
    }

    fn check_table(&mut self, now: Moment) {
        self.values.expire(now.elapsed);
        if matches!(self.settings.dialect, DiscoveryDialect::Public { .. }) {
            let is_old = |added: Duration| now.elapsed >= added + UNKNOWN_LIFETIME;
            let old = self.table.entries();
            let old = old.filter(|entry| entry.kind == ContactKind::Unknown && is_old(entry.added));
            let old: Vec<_> = old.map(|entry| entry.contact.id).collect();
            for id in old {
                self.table.remove(&id, &mut self.entropy);
            }
        }
        if let Some(contact) = self.table.to_revalidate(&mut self.entropy) {
            self.ping(contact, true, now);
        }
    }

    fn refresh(&mut self, now: Moment) {
        let interval = if self.is_empty() {
            EMPTY_REFRESH_INTERVAL
        } else {
            REFRESH_INTERVAL
        };
        self.next_refresh = now.elapsed + interval;
        if self.refresh_lookup.is_some() {
            return;
        }
        let mut targets = VecDeque::new();
        for _ in 0..RANDOM_TARGETS {
            targets.push_back(B512::from(self.entropy.bytes()));
        }
        self.refresh_targets = targets;
        self.refresh_lookup = self.start_lookup(self.id);
    }
}

/// The content of this node's record. `told` is the address that others see.
fn own_claims(settings: &DiscoverySettings, told: Option<IpAddr>) -> NodeClaims {
    let PacketEndpoint { ip, udp, tcp } = settings.endpoint;
    NodeClaims {
        ip: if ip.is_unspecified() {
            told.filter(|_| settings.learns_address)
        } else {
            Some(ip)
        },
        tcp,
        udp,
        fork_id: settings.fork_id,
        has_snap: settings.has_snap,
    }
}
