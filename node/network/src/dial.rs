//! Whom to dial, and whom to let in.
//!
//! [`Dialer`] names the nodes to dial next; [`InboundGuard`] judges connections that come in. Both
//! take the time as a parameter and know no sockets. Source: docs/p2p.md, 1.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use primitives::B512;

use crate::address::{self, AddressRanges};
use crate::contact::NodeContact;

/// Dials at a time.
pub const DIALS_MAX: usize = 16;
/// Longest time for a TCP connection to a node.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(15);
/// A node is not dialled again sooner.
pub const REDIAL_INTERVAL: Duration = Duration::from_secs(30);
/// Longest time between two dials of a static node.
pub const STATIC_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Static nodes.
pub const STATIC_NODES_MAX: usize = 1024;
/// Nodes that discovery has found and that wait to be dialled.
pub const CANDIDATES_MAX: usize = 512;
/// Nodes that are remembered because they were dialled lately.
const RECENT_MAX: usize = 4096;
/// Handshakes of connections from outside at a time.
pub const INBOUND_HANDSHAKES_MAX: usize = 50;
/// An address outside of the local network may come once in this time.
pub const INBOUND_INTERVAL: Duration = Duration::from_secs(30);
/// Addresses that are remembered because they came lately.
pub const INBOUND_ADDRESSES_MAX: usize = 4096;
/// Of so many places one is for nodes that this one has dialled.
pub const DIAL_RATIO: usize = 3;

/// How many peers there may be, and which.
#[derive(Clone, Debug, Default)]
pub struct DialSettings {
    /// This node.
    pub id: B512,
    /// The most peers. Static and trusted ones do not count.
    pub peers_max: usize,
    /// If there are some, only nodes in these ranges are dialled.
    pub ranges: Option<AddressRanges>,
}

/// A node to dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialTask {
    /// Where it is.
    pub contact: NodeContact,
    /// It is a static node: it counts for no limit.
    pub is_static: bool,
}

#[derive(Clone, Copy, Debug)]
struct StaticNode {
    contact: NodeContact,
    failures: u32,
    next: Duration,
}

/// Why a node is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Own,
    NoPort,
    OutOfRange,
    Connected,
    Dialling,
    Recent,
}

/// Decides whom to dial.
#[derive(Debug)]
pub struct Dialer {
    settings: DialSettings,
    /// In a fixed order, so that a run can be repeated.
    static_nodes: BTreeMap<B512, StaticNode>,
    candidates: Vec<NodeContact>,
    /// Until when a node must not be dialled.
    recent: HashMap<B512, Duration>,
    dialling: BTreeMap<B512, bool>,
    /// The peers, and whether they take a place of those for dialled nodes.
    connected: BTreeMap<B512, bool>,
}

impl Dialer {
    /// A dialer without nodes.
    pub fn new(settings: DialSettings) -> Self {
        Self {
            settings,
            static_nodes: BTreeMap::new(),
            candidates: Vec::new(),
            recent: HashMap::new(),
            dialling: BTreeMap::new(),
            connected: BTreeMap::new(),
        }
    }

    /// The id of this node.
    pub const fn own_id(&self) -> B512 {
        self.settings.id
    }

    /// How many peers may be nodes that were dialled: a third, and at least one.
    pub const fn dialled_max(&self) -> usize {
        let third = self.settings.peers_max / DIAL_RATIO;
        if third == 0 && self.settings.peers_max > 0 {
            1
        } else {
            third
        }
    }

    /// Keeps a node that should always be a peer. `false` if there are too many.
    pub fn add_static(&mut self, contact: NodeContact, now: Duration) -> bool {
        if !self.static_nodes.contains_key(&contact.id) && self.static_nodes.len() >= STATIC_NODES_MAX {
            return false;
        }
        let node = StaticNode {
            contact,
            failures: 0,
            next: now,
        };
        self.static_nodes.insert(contact.id, node);
        true
    }

    /// Forgets a static node. Returns whether there was one.
    pub fn remove_static(&mut self, id: &B512) -> bool {
        self.static_nodes.remove(id).is_some()
    }

    /// Whether the node is a static one.
    pub fn is_static(&self, id: &B512) -> bool {
        self.static_nodes.contains_key(id)
    }

    /// Takes nodes that discovery has found. Those that do not fit are left out.
    pub fn add_candidates(&mut self, nodes: impl IntoIterator<Item = NodeContact>) {
        for node in nodes {
            if self.candidates.len() >= CANDIDATES_MAX {
                return;
            }
            if !self.candidates.iter().any(|known| known.id == node.id) {
                self.candidates.push(node);
            }
        }
    }

    /// Whether more nodes from discovery are needed.
    pub fn wants_candidates(&self) -> bool {
        self.candidates.is_empty() && self.free_places() > 0
    }

    /// Places for dialled nodes that are neither taken nor being dialled for.
    fn free_places(&self) -> usize {
        let taken = self.connected.values().filter(|counts| **counts).count();
        let dialling = self.dialling.values().filter(|is_static| !**is_static).count();
        self.dialled_max().saturating_sub(taken + dialling)
    }

    fn obstacle(&self, contact: &NodeContact, now: Duration) -> Option<Obstacle> {
        let id = &contact.id;
        let is_outside = |ranges: &AddressRanges| !ranges.contains(contact.ip);
        if *id == self.settings.id {
            Some(Obstacle::Own)
        } else if contact.tcp == 0 {
            Some(Obstacle::NoPort)
        } else if self.settings.ranges.as_ref().is_some_and(is_outside) {
            Some(Obstacle::OutOfRange)
        } else if self.connected.contains_key(id) {
            Some(Obstacle::Connected)
        } else if self.dialling.contains_key(id) {
            Some(Obstacle::Dialling)
        } else if self.recent.get(id).is_some_and(|until| now < *until) {
            Some(Obstacle::Recent)
        } else {
            None
        }
    }

    /// The nodes to dial now. They count as being dialled until [`Self::ended`] is called.
    pub fn next(&mut self, now: Duration) -> Vec<DialTask> {
        let mut tasks = Vec::new();
        let due: Vec<_> = self
            .static_nodes
            .values()
            .filter(|node| node.next <= now)
            .copied()
            .collect();
        for node in due {
            if self.dialling.len() >= DIALS_MAX {
                return tasks;
            }
            if self.obstacle(&node.contact, now).is_none() {
                tasks.push(self.dial(node.contact, true, now));
            }
        }
        while self.dialling.len() < DIALS_MAX && self.free_places() > 0 && !self.candidates.is_empty() {
            let contact = self.candidates.remove(0);
            if self.obstacle(&contact, now).is_none() {
                tasks.push(self.dial(contact, false, now));
            }
        }
        tasks
    }

    fn dial(&mut self, contact: NodeContact, is_static: bool, now: Duration) -> DialTask {
        if self.recent.len() >= RECENT_MAX {
            self.recent.retain(|_, until| now < *until);
        }
        if self.recent.len() < RECENT_MAX {
            self.recent.insert(contact.id, now + REDIAL_INTERVAL);
        }
        self.dialling.insert(contact.id, is_static);
        DialTask { contact, is_static }
    }

    /// When [`Self::next`] may name a static node. `None` if there is nothing to wait for.
    pub fn deadline(&self) -> Option<Duration> {
        let waiting = self.static_nodes.values();
        let waiting = waiting.filter(|node| {
            let id = &node.contact.id;
            !self.connected.contains_key(id) && !self.dialling.contains_key(id)
        });
        let time = |node: &StaticNode| {
            let recent = self.recent.get(&node.contact.id).copied().unwrap_or_default();
            node.next.max(recent)
        };
        waiting.map(time).min()
    }

    /// Notes how a dial ended. A static node that fails waits longer each time.
    pub fn ended(&mut self, id: &B512, is_connected: bool, now: Duration) {
        let Some(is_static) = self.dialling.remove(id) else {
            return;
        };
        if is_connected {
            self.connected.insert(*id, !is_static);
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

    /// Notes a peer that has dialled this node.
    pub fn came_in(&mut self, id: B512) {
        self.connected.entry(id).or_insert(false);
    }

    /// Notes that a peer is gone.
    pub fn left(&mut self, id: &B512, now: Duration) {
        self.connected.remove(id);
        if let Some(node) = self.static_nodes.get_mut(id) {
            node.next = now;
        }
    }

    /// How many peers there are.
    pub fn peers(&self) -> usize {
        self.connected.len()
    }
}

/// Why a connection from outside is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboundRefusal {
    /// Too many handshakes are going on.
    #[error("{INBOUND_HANDSHAKES_MAX} handshakes are going on")]
    TooManyHandshakes,
    /// The address came a moment ago.
    #[error("the address came less than 30 s ago")]
    TooSoon,
    /// The address is outside of the allowed ranges.
    #[error("the address is outside of the ranges of --netrestrict")]
    OutOfRange,
}

/// Judges connections that come in, before anything is read from them.
#[derive(Debug, Default)]
pub struct InboundGuard {
    ranges: Option<AddressRanges>,
    handshakes: usize,
    /// Until when an address must not come again.
    recent: HashMap<IpAddr, Duration>,
}

impl InboundGuard {
    /// A guard. If there are `ranges`, only addresses in them may come.
    pub fn new(ranges: Option<AddressRanges>) -> Self {
        Self {
            ranges,
            ..Self::default()
        }
    }

    /// Lets a connection in. [`Self::ended`] must follow when its handshake is over.
    ///
    /// # Errors
    /// [`InboundRefusal`] if the connection must be closed.
    pub fn admit(&mut self, ip: IpAddr, now: Duration) -> Result<(), InboundRefusal> {
        let ip = address::canonical(ip);
        if self.ranges.as_ref().is_some_and(|ranges| !ranges.contains(ip)) {
            return Err(InboundRefusal::OutOfRange);
        }
        if self.handshakes >= INBOUND_HANDSHAKES_MAX {
            return Err(InboundRefusal::TooManyHandshakes);
        }
        if !address::is_local(ip) {
            if self.recent.get(&ip).is_some_and(|until| now < *until) {
                return Err(InboundRefusal::TooSoon);
            }
            if self.recent.len() >= INBOUND_ADDRESSES_MAX {
                self.recent.retain(|_, until| now < *until);
            }
            if self.recent.len() >= INBOUND_ADDRESSES_MAX {
                return Err(InboundRefusal::TooSoon);
            }
            self.recent.insert(ip, now + INBOUND_INTERVAL);
        }
        self.handshakes += 1;
        Ok(())
    }

    /// Notes that a handshake is over.
    pub const fn ended(&mut self) {
        self.handshakes = self.handshakes.saturating_sub(1);
    }

    /// How many handshakes are going on.
    pub const fn handshakes(&self) -> usize {
        self.handshakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn contact(number: u16) -> NodeContact {
        let [high, low] = number.to_be_bytes();
        let mut id = B512::repeat_byte(7);
        id[..2].copy_from_slice(&[high, low]);
        NodeContact {
            id,
            ip: IpAddr::from([50, high, low, 1]),
            udp: 30303,
            tcp: 30303,
        }
    }

    fn dialer(peers_max: usize) -> Dialer {
        Dialer::new(DialSettings {
            id: contact(9999).id,
            peers_max,
            ranges: None,
        })
    }

    fn numbers(tasks: &[DialTask]) -> Vec<u16> {
        tasks
            .iter()
            .map(|task| u16::from_be_bytes([task.contact.id[0], task.contact.id[1]]))
            .collect()
    }

    #[test]
    fn a_third_of_the_places_is_for_dialled_nodes() {
        for (peers_max, expected) in [(0, 0), (1, 1), (2, 1), (25, 8), (50, 16)] {
            assert_eq!(dialer(peers_max).dialled_max(), expected);
        }
        let mut dialer = dialer(9);
        assert!(dialer.wants_candidates());
        dialer.add_candidates((0..10).map(contact));
        assert_eq!(numbers(&dialer.next(seconds(0))), [0, 1, 2]);
        assert_eq!(dialer.next(seconds(0)), []);
        dialer.ended(&contact(0).id, true, seconds(1));
        dialer.ended(&contact(1).id, false, seconds(1));
        assert_eq!(numbers(&dialer.next(seconds(1))), [3]);
        // Those that came by themselves take no such place.
        dialer.came_in(contact(4).id);
        dialer.left(&contact(0).id, seconds(2));
        assert_eq!(numbers(&dialer.next(seconds(2))), [5], "4 is a peer already");
        assert_eq!(dialer.peers(), 1);
    }

    #[test]
    fn no_more_than_sixteen_at_once() {
        let mut dialer = dialer(300);
        dialer.add_candidates((0..2000).map(contact));
        for number in 1000..1010 {
            assert!(dialer.add_static(contact(number), seconds(0)));
        }
        let tasks = dialer.next(seconds(0));
        assert_eq!(tasks.len(), DIALS_MAX);
        assert!(tasks[..10].iter().all(|task| task.is_static));
        assert!(tasks[10..].iter().all(|task| !task.is_static));
        assert!(dialer.candidates.len() < CANDIDATES_MAX);
    }

    #[test]
    fn the_same_node_waits_thirty_seconds() {
        let mut dialer = dialer(9);
        let mut dial = |second| {
            dialer.add_candidates([contact(1)]);
            let tasks = dialer.next(seconds(second));
            dialer.ended(&contact(1).id, false, seconds(second));
            tasks.len()
        };
        assert_eq!([0, 1, 29, 30, 31, 60].map(&mut dial), [1, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn static_nodes_are_tried_for_ever_but_less_often() {
        let mut dialer = dialer(0);
        dialer.add_static(contact(1), seconds(0));
        let mut times = Vec::new();
        for second in 0..1500 {
            if dialer.deadline().is_some_and(|time| time <= seconds(second)) {
                for task in dialer.next(seconds(second)) {
                    assert!(task.is_static);
                    times.push(second);
                    dialer.ended(&task.contact.id, false, seconds(second));
                }
            }
        }
        assert_eq!(times, [0, 30, 90, 210, 450, 750, 1050, 1350]);
        // Once connected it is not dialled; when it is lost, it is dialled at once.
        let task = dialer.next(seconds(2000));
        dialer.ended(&task[0].contact.id, true, seconds(2000));
        assert_eq!(dialer.deadline(), None);
        dialer.left(&contact(1).id, seconds(3000));
        assert_eq!(dialer.deadline(), Some(seconds(3000)));
        assert_eq!(dialer.next(seconds(3000)).len(), 1);
        assert!(dialer.is_static(&contact(1).id));
        assert!(dialer.remove_static(&contact(1).id));
        assert!(!dialer.remove_static(&contact(1).id));
    }

    #[test]
    fn nodes_that_cannot_be_dialled() {
        let mut dialer = Dialer::new(DialSettings {
            id: contact(1).id,
            peers_max: 30,
            ranges: Some("50.0.0.0/16".parse().expect("a range")),
        });
        let closed = NodeContact { tcp: 0, ..contact(2) };
        dialer.add_candidates([contact(1), closed, contact(3), contact(300), contact(3)]);
        assert_eq!(numbers(&dialer.next(seconds(0))), [3]);
    }

    #[test]
    fn connections_from_outside() {
        let mut guard = InboundGuard::new(Some("50.0.0.0/8,127.0.0.0/8".parse().expect("ranges")));
        let ip = |number: u8| IpAddr::from([50, 0, 0, number]);
        assert_eq!(guard.admit(ip(1), seconds(0)), Ok(()));
        assert_eq!(guard.admit(ip(1), seconds(29)), Err(InboundRefusal::TooSoon));
        assert_eq!(guard.admit(ip(1), seconds(30)), Ok(()));
        let outside = IpAddr::from([51, 0, 0, 1]);
        assert_eq!(guard.admit(outside, seconds(30)), Err(InboundRefusal::OutOfRange));
        for _ in 2..INBOUND_HANDSHAKES_MAX {
            assert_eq!(guard.admit(IpAddr::from([127, 0, 0, 1]), seconds(30)), Ok(()));
        }
        let refused = Err(InboundRefusal::TooManyHandshakes);
        assert_eq!(guard.admit(ip(2), seconds(30)), refused);
        guard.ended();
        assert_eq!(guard.admit(ip(2), seconds(30)), Ok(()));
        assert_eq!(guard.handshakes(), INBOUND_HANDSHAKES_MAX);
    }

    #[test]
    fn remembered_addresses_are_bounded() {
        let mut guard = InboundGuard::default();
        for number in 0..10_000_u32 {
            let [_, a, b, c] = number.to_be_bytes();
            if guard.admit(IpAddr::from([60, a, b, c]), seconds(0)).is_ok() {
                guard.ended();
            }
        }
        assert_eq!(guard.recent.len(), INBOUND_ADDRESSES_MAX);
        assert_eq!(guard.admit(IpAddr::from([70, 0, 0, 1]), seconds(30)), Ok(()));
    }
}
