//! Judges connections that come in, before anything is read from them.
//!
//! A connection that has not ended its handshake is half-open. If there is no place for one more,
//! the oldest half-open one makes way: that of the same neighbourhood if the neighbourhood has its
//! share, else that of the neighbourhood that has the most. So a flood ends its own connections,
//! and a node from elsewhere gets the time of a handshake.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::address::{self, AddressRanges, Neighbourhood};

/// Handshakes of connections from outside at a time.
pub const INBOUND_HANDSHAKES_MAX: usize = 50;
/// Handshakes of one neighbourhood.
pub(crate) const HANDSHAKE_NEIGHBOURS_MAX: usize = 10;
/// If there may be fewer handshakes, a neighbourhood has one of so many.
const HANDSHAKE_NEIGHBOURS_RATIO: usize = 5;
/// A host outside of the local network may come once in this time.
pub(crate) const INBOUND_INTERVAL: Duration = Duration::from_secs(30);
/// Hosts of one neighbourhood that may come in this time.
pub(crate) const INBOUND_NEIGHBOURS_MAX: usize = 16;
/// Hosts that are remembered because they came lately. The one that came first is forgotten.
pub(crate) const INBOUND_HOSTS_MAX: usize = 4096;

/// The reason why a connection from outside is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboundRefusal {
    /// Too many connections wait for the node after their handshakes.
    #[error("{0} connections wait for a place")]
    TooManyWaiting(usize),
    /// The host came a moment ago.
    #[error("the host came less than 30 s ago")]
    TooSoon,
    /// Neighbours of the host came a moment ago.
    #[error("{INBOUND_NEIGHBOURS_MAX} hosts of the neighbourhood came less than 30 s ago")]
    TooManyNeighbours,
    /// The address is outside of the allowed ranges.
    #[error("the address is outside of the ranges of --netrestrict")]
    OutOfRange,
}

/// A connection that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundAdmission {
    /// The number of the connection. Numbers rise.
    pub number: u64,
    /// The number of the half-open connection that makes way for it and must be closed.
    pub closed: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct GuardedConnection {
    neighbourhood: Neighbourhood,
    is_half_open: bool,
}

/// Judges connections that come in.
#[derive(Debug)]
pub struct InboundGuard {
    ranges: Option<AddressRanges>,
    handshakes_max: usize,
    /// By their numbers, so the oldest is first.
    connections: BTreeMap<u64, GuardedConnection>,
    next: u64,
    recent: RecentHosts,
}

impl Default for InboundGuard {
    fn default() -> Self {
        Self::new(None, INBOUND_HANDSHAKES_MAX)
    }
}

impl InboundGuard {
    /// A guard for at most `handshakes_max` handshakes at a time. If there are `ranges`, only
    /// addresses in them may come.
    pub fn new(ranges: Option<AddressRanges>, handshakes_max: usize) -> Self {
        Self {
            ranges,
            handshakes_max,
            connections: BTreeMap::new(),
            next: 0,
            recent: RecentHosts::default(),
        }
    }

    /// The number of handshakes that may be of one neighbourhood.
    fn neighbours_max(&self) -> usize {
        HANDSHAKE_NEIGHBOURS_MAX
            .min(self.handshakes_max / HANDSHAKE_NEIGHBOURS_RATIO)
            .max(1)
    }

    /// Lets a connection in. [`Self::ended`] must follow when the node has taken it, or when its
    /// handshake has failed.
    ///
    /// # Errors
    /// [`InboundRefusal`] if the connection must be closed.
    pub fn admit(&mut self, ip: IpAddr, now: Duration) -> Result<InboundAdmission, InboundRefusal> {
        let ip = address::canonical(ip);
        if self.ranges.as_ref().is_some_and(|ranges| !ranges.contains(ip)) {
            return Err(InboundRefusal::OutOfRange);
        }
        let stranger = Neighbourhood::of_stranger(ip);
        if let Some(neighbourhood) = stranger {
            self.recent.check(ip, neighbourhood, now)?;
        }
        let closed = self.make_room(stranger)?;
        if let Some(neighbourhood) = stranger {
            self.recent.note(ip, neighbourhood, now);
        }
        let number = self.next;
        self.next += 1;
        self.connections.insert(
            number,
            GuardedConnection {
                neighbourhood: Neighbourhood::of(ip),
                is_half_open: true,
            },
        );
        Ok(InboundAdmission { number, closed })
    }

    /// Makes room for one more connection. Returns the number of the one that must be closed.
    fn make_room(&mut self, stranger: Option<Neighbourhood>) -> Result<Option<u64>, InboundRefusal> {
        let count = |own| {
            let all = self.connections.values();
            all.filter(|connection| connection.neighbourhood == own).count()
        };
        let crowded = match stranger.filter(|own| count(*own) >= self.neighbours_max()) {
            Some(own) => Some(own),
            None if self.connections.len() < self.handshakes_max => return Ok(None),
            None => self.most_crowded(),
        };
        let mut oldest_first = self.connections.iter();
        let first = oldest_first
            .find(|(_, connection)| connection.is_half_open && Some(connection.neighbourhood) == crowded);
        let first = first.map(|(number, _)| *number);
        let number = first.ok_or(InboundRefusal::TooManyWaiting(self.handshakes_max))?;
        self.connections.remove(&number);
        Ok(Some(number))
    }

    /// The neighbourhood that has the most half-open connections.
    fn most_crowded(&self) -> Option<Neighbourhood> {
        let mut counts: HashMap<Neighbourhood, usize> = HashMap::new();
        for connection in self
            .connections
            .values()
            .filter(|connection| connection.is_half_open)
        {
            *counts.entry(connection.neighbourhood).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(own, count)| (*count, *own));
        most.map(|(own, _)| own)
    }

    /// Notes that the handshake of a connection is good: it does not make way any more.
    pub(crate) fn settled(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_half_open = false;
        }
    }

    /// Notes that the node has taken a connection, or that its handshake has failed.
    pub fn ended(&mut self, number: u64) {
        self.connections.remove(&number);
    }

    /// The number of connections that have a place.
    pub fn handshakes(&self) -> usize {
        self.connections.len()
    }
}

/// The hosts that came lately.
#[derive(Debug, Default)]
struct RecentHosts {
    /// The one that came first is first.
    order: VecDeque<(Duration, IpAddr)>,
    /// Hosts of each neighbourhood.
    hosts: HashMap<Neighbourhood, Vec<IpAddr>>,
}

impl RecentHosts {
    fn check(&mut self, ip: IpAddr, own: Neighbourhood, now: Duration) -> Result<(), InboundRefusal> {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
        let neighbours = self.hosts.get(&own).map_or(&[][..], |hosts| hosts);
        if neighbours.contains(&address::host(ip)) {
            return Err(InboundRefusal::TooSoon);
        }
        if neighbours.len() >= INBOUND_NEIGHBOURS_MAX {
            return Err(InboundRefusal::TooManyNeighbours);
        }
        Ok(())
    }

    fn note(&mut self, ip: IpAddr, own: Neighbourhood, now: Duration) {
        if self.order.len() >= INBOUND_HOSTS_MAX {
            self.forget_first();
        }
        let host = address::host(ip);
        self.order.push_back((now + INBOUND_INTERVAL, host));
        self.hosts.entry(own).or_default().push(host);
    }

    fn forget_first(&mut self) {
        let Some((_, host)) = self.order.pop_front() else {
            return;
        };
        let own = Neighbourhood::of(host);
        if let Some(hosts) = self.hosts.get_mut(&own) {
            hosts.retain(|known| *known != host);
            if hosts.is_empty() {
                self.hosts.remove(&own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn admit(guard: &mut InboundGuard, ip: impl Into<IpAddr>, second: u64) -> Result<(), InboundRefusal> {
        guard.admit(ip.into(), seconds(second)).map(|_| ())
    }

    #[test]
    fn connections_from_outside() {
        let mut guard = InboundGuard::new(
            Some("50.0.0.0/8,127.0.0.0/8".parse().expect("ranges")),
            INBOUND_HANDSHAKES_MAX,
        );
        assert_eq!(admit(&mut guard, [50, 0, 0, 1], 0), Ok(()));
        assert_eq!(admit(&mut guard, [50, 0, 0, 1], 29), Err(InboundRefusal::TooSoon));
        assert_eq!(admit(&mut guard, [50, 0, 0, 1], 30), Ok(()));
        assert_eq!(
            admit(&mut guard, [51, 0, 0, 1], 30),
            Err(InboundRefusal::OutOfRange)
        );
        for _ in 2..INBOUND_HANDSHAKES_MAX {
            assert_eq!(admit(&mut guard, [127, 0, 0, 1], 30), Ok(()));
        }
        assert_eq!(guard.handshakes(), INBOUND_HANDSHAKES_MAX);
        // One more: the oldest of the neighbourhood with the most makes way.
        let admission = guard.admit([50, 0, 1, 1].into(), seconds(30));
        assert_eq!(admission.map(|admission| admission.closed), Ok(Some(2)));
        assert_eq!(guard.handshakes(), INBOUND_HANDSHAKES_MAX);
        // Connections whose handshake is good do not make way.
        for number in 0..1000 {
            guard.settled(number);
        }
        let refused = Err(InboundRefusal::TooManyWaiting(INBOUND_HANDSHAKES_MAX));
        assert_eq!(admit(&mut guard, [50, 0, 2, 1], 30), refused);
        guard.ended(5);
        assert_eq!(
            admit(&mut guard, [50, 0, 2, 1], 30),
            Ok(()),
            "a refused host may come again"
        );
    }

    #[test]
    fn pending_handshakes_are_an_option() {
        let mut guard = InboundGuard::new(None, 1);
        let mut admit = |ip: [u8; 4]| guard.admit(ip.into(), seconds(0)).map(|new| new.closed);
        assert_eq!(admit([127, 0, 0, 1]), Ok(None));
        assert_eq!(admit([50, 0, 0, 1]), Ok(Some(0)));
        guard.settled(1);
        let refused = guard.admit([51, 0, 0, 1].into(), seconds(0));
        assert_eq!(refused, Err(InboundRefusal::TooManyWaiting(1)));
    }

    #[test]
    fn a_neighbourhood_closes_its_own_connections() {
        let mut guard = InboundGuard::default();
        let honest = guard.admit([60, 0, 0, 1].into(), seconds(0)).expect("room");
        for number in 0..INBOUND_NEIGHBOURS_MAX as u8 {
            let admission = guard.admit([50, 0, 0, number].into(), seconds(0)).expect("room");
            let closed = number.checked_sub(HANDSHAKE_NEIGHBOURS_MAX as u8);
            assert_eq!(
                admission.closed,
                closed.map(|at| honest.number + 1 + u64::from(at))
            );
        }
        assert_eq!(guard.handshakes(), 1 + HANDSHAKE_NEIGHBOURS_MAX);
        for number in 100..=255 {
            let refused = Err(InboundRefusal::TooManyNeighbours);
            assert_eq!(admit(&mut guard, [50, 0, 0, number], 29), refused);
        }
        assert_eq!(admit(&mut guard, [50, 0, 0, 200], 30), Ok(()));
    }

    #[test]
    fn an_ipv6_network_is_one_host() {
        let mut guard = InboundGuard::default();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(admit(&mut guard, ip("2a00:1:2:3::1"), 0), Ok(()));
        assert_eq!(
            admit(&mut guard, ip("2a00:1:2:3:9::1"), 0),
            Err(InboundRefusal::TooSoon)
        );
        let mut refused = 0;
        for number in 0..5000 {
            let result = admit(&mut guard, ip(&format!("2a00:1:2:{number:x}::1")), 1);
            refused += usize::from(result.is_err());
        }
        assert_eq!(refused, 5000 + 1 - INBOUND_NEIGHBOURS_MAX);
        assert_eq!(admit(&mut guard, ip("2a01:1:2:3::1"), 1), Ok(()), "another site");
    }

    #[test]
    fn remembered_hosts_are_bounded_and_lock_nobody_out() {
        let mut guard = InboundGuard::default();
        for number in 0..10_000_u32 {
            let [_, a, b, c] = number.to_be_bytes();
            let admission = guard.admit([60 + a, b, c, 1].into(), seconds(0));
            guard.ended(admission.expect("another neighbourhood").number);
        }
        assert_eq!(guard.recent.order.len(), INBOUND_HOSTS_MAX);
        assert_eq!(guard.recent.hosts.len(), INBOUND_HOSTS_MAX);
        assert_eq!(admit(&mut guard, [70, 0, 0, 1], 0), Ok(()));
        assert_eq!(admit(&mut guard, [70, 0, 0, 2], 30), Ok(()));
        assert_eq!(guard.recent.order.len(), 1, "the others may come again");
    }

    proptest! {
        #[test]
        fn a_flood_never_closes_the_connection_of_another(
            flood in proptest::collection::vec((0..3_u8, any::<u8>(), any::<bool>()), 1..1000)
        ) {
            // The flood comes from loopback, where only the places limit it, and from a
            // neighbourhood.
            let mut guard = InboundGuard::default();
            let honest = guard.admit([60, 0, 0, 1].into(), seconds(0)).expect("room");
            for (number, (kind, host, is_over)) in flood.into_iter().enumerate() {
                let ip = match kind {
                    0 => [127, 0, 0, host],
                    1 => [127, 0, 1, host],
                    _ => [50, 0, 0, host],
                };
                let admission = guard.admit(ip.into(), Duration::from_millis(number as u64));
                prop_assert!(guard.handshakes() <= INBOUND_HANDSHAKES_MAX);
                let Ok(admission) = admission else { continue };
                prop_assert_ne!(admission.closed, Some(honest.number));
                if is_over {
                    guard.ended(admission.number);
                }
                let neighbourhood = Neighbourhood::of(IpAddr::from([50, 0, 0, 1]));
                let crowd = guard.connections.values();
                let crowd = crowd.filter(|connection| connection.neighbourhood == neighbourhood);
                prop_assert!(crowd.count() <= HANDSHAKE_NEIGHBOURS_MAX);
            }
        }
    }
}
