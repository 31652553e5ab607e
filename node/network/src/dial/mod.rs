//! Chooses whom to dial and whom to let in.
//!
//! [`Dialer`] names the nodes to dial next; [`InboundGuard`] judges connections that come in. Both
//! take the time as a parameter and know no sockets. Nodes of one neighbourhood get a share of
//! everything, so that nobody takes all places with a few addresses. Addresses of the local network
//! are exempt. Source: docs/p2p.md, 1.

mod candidates;
mod inbound;
mod target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use primitives::B512;

use self::candidates::DialCandidates;
use crate::address::{AddressRanges, Neighbourhood};
use crate::contact::NodeContact;
use crate::entropy::Entropy;

pub use inbound::InboundRefusal;
pub use inbound::{INBOUND_HANDSHAKES_MAX, InboundGuard};
pub use target::DialTarget;

/// Dials at a time.
pub(crate) const DIALS_MAX: usize = 16;
/// Longest time for a TCP connection to a node.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_secs(15);
/// A node is not dialled again sooner.
pub(crate) const REDIAL_INTERVAL: Duration = Duration::from_secs(30);
/// Longest time between two dials of a static node.
pub(crate) const STATIC_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Static nodes.
pub(crate) const STATIC_NODES_MAX: usize = 1024;
/// Nodes that are remembered because they were dialled lately.
const RECENT_MAX: usize = 4096;
/// One of this many places is for a node that this one has dialled.
pub(crate) const DIAL_RATIO: usize = 3;
/// One of this many places of a kind is for each neighbourhood.
pub(crate) const NEIGHBOURS_RATIO: usize = 4;
/// Nodes of one neighbourhood that may always be peers at a time after they have dialled this one.
const INBOUND_NEIGHBOURS_MIN: usize = 2;

/// The number of peers that there may be, and their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct DialSettings {
    /// The id of this node.
    pub id: B512,
    /// The most peers. Static and trusted ones do not count.
    pub peers_max: usize,
    /// The most dials at a time. There are never more than [`DIALS_MAX`].
    pub dials_max: usize,
    /// If there are some, only nodes in these ranges are dialled.
    pub ranges: Option<AddressRanges>,
}

/// A node to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialTask {
    /// The address of the node.
    pub target: DialTarget,
    /// The node is static: it counts for no limit.
    pub is_static: bool,
    /// Dials of a static node that failed in a row before this one.
    pub failures: u32,
}

#[derive(Clone, Debug)]
struct StaticNode {
    target: DialTarget,
    failures: u32,
    next: Duration,
}

/// The place of a peer.
#[derive(Clone, Copy, Debug)]
enum PeerPlace {
    /// A place for a node that this one has dialled.
    Dialled(NodeContact),
    /// A place for a node that has dialled this one.
    CameIn(IpAddr),
    /// No place is taken: the node is static or trusted.
    Exempt,
}

/// The reason why a node is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Own,
    NoPort,
    OutOfRange,
    Connected,
    Dialling,
    Recent,
    Neighbours,
}

/// Decides whom to dial.
#[derive(Debug)]
pub(crate) struct Dialer {
    settings: DialSettings,
    /// In a fixed order, so that a run can be repeated.
    static_nodes: BTreeMap<B512, StaticNode>,
    candidates: DialCandidates,
    /// The time until which a node must not be dialled.
    recent: HashMap<B512, Duration>,
    dialling: BTreeMap<B512, DialTask>,
    connected: BTreeMap<B512, PeerPlace>,
    entropy: Entropy,
}

impl Dialer {
    /// A dialer without nodes.
    pub(crate) fn new(settings: DialSettings, entropy: Entropy) -> Self {
        Self {
            settings,
            static_nodes: BTreeMap::new(),
            candidates: DialCandidates::default(),
            recent: HashMap::new(),
            dialling: BTreeMap::new(),
            connected: BTreeMap::new(),
            entropy,
        }
    }

    /// The id of this node.
    pub(crate) const fn own_id(&self) -> B512 {
        self.settings.id
    }

    /// The number of peers that may be nodes that were dialled: a third, and at least one.
    pub(crate) const fn dialled_max(&self) -> usize {
        let third = self.settings.peers_max / DIAL_RATIO;
        if third == 0 && self.settings.peers_max > 0 {
            1
        } else {
            third
        }
    }

    /// The number of dials that there may be at a time.
    fn dials_max(&self) -> usize {
        self.settings.dials_max.min(DIALS_MAX)
    }

    /// The number of dialled nodes that may be of one neighbourhood.
    pub(crate) fn dialled_neighbours_max(&self) -> usize {
        (self.dialled_max() / NEIGHBOURS_RATIO).max(1)
    }

    /// The number of nodes of one neighbourhood that may have dialled this node.
    pub(crate) fn inbound_neighbours_max(&self) -> usize {
        let places = self.settings.peers_max - self.dialled_max();
        (places / NEIGHBOURS_RATIO).max(INBOUND_NEIGHBOURS_MIN)
    }

    /// Keeps a node that should always be a peer. `false` if there are too many.
    pub(crate) fn add_static(&mut self, target: impl Into<DialTarget>, now: Duration) -> bool {
        let target = target.into();
        let id = target.contact.id;
        if !self.static_nodes.contains_key(&id) && self.static_nodes.len() >= STATIC_NODES_MAX {
            return false;
        }
        let node = StaticNode {
            target,
            failures: 0,
            next: now,
        };
        self.static_nodes.insert(id, node);
        true
    }

    /// Forgets a static node. Returns whether there was one.
    pub(crate) fn remove_static(&mut self, id: &B512) -> bool {
        self.static_nodes.remove(id).is_some()
    }

    /// Whether the node is a static one.
    pub(crate) fn is_static(&self, id: &B512) -> bool {
        self.static_nodes.contains_key(id)
    }

    /// Takes nodes that discovery has found. Each neighbourhood has a few places in the list. If
    /// there is no place, a node replaces another one at random.
    pub(crate) fn add_candidates(&mut self, nodes: impl IntoIterator<Item = NodeContact>) {
        for node in nodes {
            self.candidates.add(node, &mut self.entropy);
        }
    }

    /// Whether more nodes from discovery are needed.
    pub(crate) fn wants_candidates(&self) -> bool {
        self.candidates.is_empty() && self.free_places() > 0
    }

    /// Places for dialled nodes that are neither taken nor being dialled for.
    fn free_places(&self) -> usize {
        self.dialled_max().saturating_sub(self.dialled_contacts().count())
    }

    /// The nodes that have or may get one of the places for dialled nodes.
    fn dialled_contacts(&self) -> impl Iterator<Item = &NodeContact> {
        let taken = self.connected.values().filter_map(|place| match place {
            PeerPlace::Dialled(contact) => Some(contact),
            PeerPlace::CameIn(_) | PeerPlace::Exempt => None,
        });
        let dialling = self.dialling.values().filter(|task| !task.is_static);
        taken.chain(dialling.map(|task| &task.target.contact))
    }

    /// Returns the contact of a node that has or may get one of the places for dialled nodes.
    pub(crate) fn dialled(&self, id: &B512) -> Option<NodeContact> {
        self.dialled_contacts().find(|contact| contact.id == *id).copied()
    }

    /// Whether a node at `ip` that has dialled this one may be a peer, as far as its neighbours are
    /// concerned.
    pub(crate) fn may_come_in(&self, ip: IpAddr) -> bool {
        let came_in = self.connected.values().filter_map(|place| match place {
            PeerPlace::CameIn(ip) => Some(*ip),
            PeerPlace::Dialled(_) | PeerPlace::Exempt => None,
        });
        has_room_for(ip, came_in, self.inbound_neighbours_max())
    }

    /// Whether the ranges of the settings contain `ip`.
    pub(crate) fn is_in_range(&self, ip: IpAddr) -> bool {
        let ranges = self.settings.ranges.as_ref();
        ranges.is_none_or(|ranges| ranges.contains(ip))
    }

    fn obstacle(&self, target: &DialTarget, now: Duration) -> Option<Obstacle> {
        let NodeContact { id, ip, tcp, .. } = target.contact;
        if id == self.settings.id {
            Some(Obstacle::Own)
        } else if tcp == 0 {
            Some(Obstacle::NoPort)
        } else if target.name.is_none() && !self.is_in_range(ip) {
            Some(Obstacle::OutOfRange)
        } else if self.connected.contains_key(&id) {
            Some(Obstacle::Connected)
        } else if self.dialling.contains_key(&id) {
            Some(Obstacle::Dialling)
        } else if self.recent.get(&id).is_some_and(|until| now < *until) {
            Some(Obstacle::Recent)
        } else {
            None
        }
    }

    /// The same for a node that discovery has found.
    fn candidate_obstacle(&self, target: &DialTarget, now: Duration) -> Option<Obstacle> {
        let ip = target.contact.ip;
        let dialled = self.dialled_contacts().map(|contact| contact.ip);
        let has_room = has_room_for(ip, dialled, self.dialled_neighbours_max());
        self.obstacle(target, now)
            .or_else(|| (!has_room).then_some(Obstacle::Neighbours))
    }

    /// The nodes to dial now. They count as being dialled until [`Self::ended`] is called.
    pub(crate) fn next(&mut self, now: Duration) -> Vec<DialTask> {
        let mut tasks = Vec::new();
        let due: Vec<_> = self
            .static_nodes
            .values()
            .filter(|node| node.next <= now)
            .cloned()
            .collect();
        for node in due {
            if self.dialling.len() >= self.dials_max() {
                return tasks;
            }
            if self.obstacle(&node.target, now).is_none() {
                tasks.push(self.dial(node.target, true, node.failures, now));
            }
        }
        while self.dialling.len() < self.dials_max() && self.free_places() > 0 {
            let Some(contact) = self.candidates.take(&mut self.entropy) else {
                break;
            };
            let target = DialTarget::from(contact);
            if self.candidate_obstacle(&target, now).is_none() {
                tasks.push(self.dial(target, false, 0, now));
            }
        }
        tasks
    }

    fn dial(&mut self, target: DialTarget, is_static: bool, failures: u32, now: Duration) -> DialTask {
        let id = target.contact.id;
        if self.recent.len() >= RECENT_MAX {
            self.recent.retain(|_, until| now < *until);
        }
        if self.recent.len() < RECENT_MAX {
            self.recent.insert(id, now + REDIAL_INTERVAL);
        }
        let task = DialTask {
            target,
            is_static,
            failures,
        };
        self.dialling.insert(id, task.clone());
        task
    }

    /// Notes how a dial ended. A static node that fails waits longer each time.
    pub(crate) fn ended(&mut self, id: &B512, is_connected: bool, now: Duration) {
        let Some(task) = self.dialling.remove(id) else {
            return;
        };
        if is_connected {
            let place = match task.is_static {
                true => PeerPlace::Exempt,
                false => PeerPlace::Dialled(task.target.contact),
            };
            self.connected.insert(*id, place);
        }
        if let Some(node) = self.static_nodes.get_mut(id) {
            node.failures = if is_connected {
                0
            } else {
                node.failures.saturating_add(1)
            };
            let doubled = REDIAL_INTERVAL.saturating_mul(1 << node.failures.saturating_sub(1).min(8));
            node.next = now + doubled.min(STATIC_BACKOFF_MAX);
        }
    }

    /// Notes a peer that has dialled this node. `ip` is `None` if it is a static or a trusted node.
    pub(crate) fn came_in(&mut self, id: B512, ip: Option<IpAddr>) {
        let place = ip.map_or(PeerPlace::Exempt, PeerPlace::CameIn);
        self.connected.entry(id).or_insert(place);
    }

    /// Notes that a peer is gone.
    pub(crate) fn left(&mut self, id: &B512, now: Duration) {
        self.connected.remove(id);
        if let Some(node) = self.static_nodes.get_mut(id) {
            node.next = now;
        }
    }
}

/// Whether fewer than `most` of the `others` are neighbours of `ip`. Always in a local network.
fn has_room_for(ip: IpAddr, others: impl Iterator<Item = IpAddr>, most: usize) -> bool {
    let Some(own) = Neighbourhood::of_stranger(ip) else {
        return true;
    };
    others.filter(|other| Neighbourhood::of(*other) == own).count() < most
}
