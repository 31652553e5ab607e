//! Places for connections: so many in all, and so many for each client.
//!
//! If there is no place for a new connection, one that does not use its place makes room:
//!
//! - If the client has all its places, the connection that makes room is one of the same client.
//! - If all places are taken, it is one of the client that has the most connections of this kind.
//!   So a client with many idle connections loses its own, not those of others. Only among clients
//!   with equally many of them, all their connections are counted. If all connections were counted
//!   first, a client at work would lose its few idle ones to somebody who only holds places.
//! - Among these, connections with the weakest claim come first ([`Claim`]), and among equal
//!   claims the one that has been idle longest.
//!
//! A connection with the claim [`Claim::Active`] makes room only if all places are taken and no
//! connection is idle. Then the client that has the most connections gives its newest one to a
//! client that has at least two fewer. So a few clients at work cannot keep all others out.
//!
//! The server is asked what connections do when one of them has to make room, and at no other time
//! ([`Claimant`]). So a server may note every byte that passes without a lock that all its
//! connections share.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{Claim, Claimant, ClientId, StatedClaim, percent_of};

/// The numbers of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLimits {
    /// Places in all.
    pub total: usize,
    /// Places for one client.
    pub per_client: usize,
}

impl PlaceLimits {
    /// `total` places, of which a client has at most `share_percent` percent.
    pub fn with_share(total: usize, share_percent: usize) -> Self {
        Self {
            total,
            per_client: percent_of(total, share_percent),
        }
    }
}

/// The places of one server. Clones share their state. `A` knows what a connection does.
#[derive(Debug)]
pub struct Places<A = StatedClaim>(Arc<PlacesTable<A>>);

#[derive(Debug)]
struct PlacesTable<A> {
    limits: PlaceLimits,
    taken: Mutex<TakenPlaces<A>>,
    /// The number of connections that have not ended yet, with those that made room.
    open: watch::Sender<usize>,
}

#[derive(Debug)]
struct TakenPlaces<A> {
    count: usize,
    next_id: u64,
    /// The connections of each client in the order in which they came. No client has none.
    clients: HashMap<ClientId, Vec<Arc<PlacedConnection<A>>>>,
}

/// The connection that has a place.
#[derive(Debug)]
struct PlacedConnection<A> {
    id: u64,
    claimant: A,
    displaced: Notify,
}

/// The place of one connection. Dropping it makes the place free.
#[derive(Debug)]
pub struct Place<A = StatedClaim> {
    places: Places<A>,
    client: ClientId,
    connection: Arc<PlacedConnection<A>>,
}

/// A connection that can make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IdlePlace {
    claim: Claim,
    since: Instant,
    id: u64,
}

impl<A> Clone for Places<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A> Places<A> {
    /// Places that are all free. There is at least one, and a client gets at most as many as there
    /// are.
    pub fn new(limits: PlaceLimits) -> Self {
        let total = limits.total.max(1);
        Self(Arc::new(PlacesTable {
            limits: PlaceLimits {
                total,
                per_client: limits.per_client.clamp(1, total),
            },
            taken: Mutex::new(TakenPlaces {
                count: 0,
                next_id: 0,
                clients: HashMap::new(),
            }),
            open: watch::Sender::new(0),
        }))
    }

    /// The number of places that are taken.
    pub fn taken(&self) -> usize {
        self.0.taken.lock().count
    }

    /// Waits until all connections have ended, those that made room, too.
    pub async fn all_ended(&self) {
        // An error would mean that the sender is gone, but `self` has it.
        let _ = self.0.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl<A: Claimant> Places<A> {
    /// Takes a place for a new connection of `client`. Another connection may have to make room;
    /// its [`Place::displaced`] then returns.
    ///
    /// `None` if there is no place, and no connection that can make room.
    pub fn take(&self, client: impl Into<ClientId>, claimant: A, now: Instant) -> Option<Place<A>> {
        let (client, limits) = (client.into(), &self.0.limits);
        let taken = &mut *self.0.taken.lock();
        let own = taken.clients.get(&client);
        if let Some(own) = own.filter(|own| own.len() >= limits.per_client) {
            let (_, first) = idle_of(own, now)?;
            taken.displace(client, first.id);
        } else if taken.count >= limits.total {
            let own = own.map_or(0, Vec::len);
            let (client, id) = taken.first_to_go(now).or_else(|| taken.newest_of_most(own))?;
            taken.displace(client, id);
        }
        let id = taken.next_id;
        taken.next_id += 1;
        taken.count += 1;
        let connection = Arc::new(PlacedConnection {
            id,
            claimant,
            displaced: Notify::new(),
        });
        let held = taken.clients.entry(client).or_default();
        held.push(Arc::clone(&connection));
        self.0.open.send_modify(|open| *open += 1);
        Some(Place {
            places: self.clone(),
            client,
            connection,
        })
    }
}

impl<A: Claimant> TakenPlaces<A> {
    /// The newest connection of the client that has the most, if all places are taken by
    /// connections at work. `None` if no client has at least two more than `own`.
    fn newest_of_most(&self, own: usize) -> Option<(ClientId, u64)> {
        let (client, held) = self.clients.iter().max_by_key(|(_, held)| held.len())?;
        let newest = held.last().filter(|_| held.len() >= own + 2)?;
        Some((*client, newest.id))
    }

    /// The idle connection that makes room if all places are taken. `None` if none is idle.
    fn first_to_go(&self, now: Instant) -> Option<(ClientId, u64)> {
        let crowds = self.clients.iter().filter_map(|(client, held)| {
            let (idle, first) = idle_of(held, now)?;
            Some(((Reverse(idle), Reverse(held.len()), first), *client))
        });
        let ((.., first), client) = crowds.min_by_key(|(rank, _)| *rank)?;
        Some((client, first.id))
    }
}

/// The number of these connections that can make room, and the first of them to go. `None` if no
/// connection can.
fn idle_of<A: Claimant>(held: &[Arc<PlacedConnection<A>>], now: Instant) -> Option<(usize, IdlePlace)> {
    let idle = held.iter().filter_map(|connection| {
        let (claim, since) = connection.claimant.claim(now);
        let id = connection.id;
        let place = IdlePlace { claim, since, id };
        (claim != Claim::Active).then_some((1, place))
    });
    idle.reduce(|(count, first), (_, other)| (count + 1, first.min(other)))
}

impl<A> TakenPlaces<A> {
    /// Lets a connection make room.
    fn displace(&mut self, client: ClientId, id: u64) {
        if let Some(connection) = self.release(client, id) {
            // The notice is kept until the connection looks for it.
            connection.displaced.notify_one();
        }
    }

    /// Makes a place free. `None` if the connection has lost it before.
    fn release(&mut self, client: ClientId, id: u64) -> Option<Arc<PlacedConnection<A>>> {
        let held = self.clients.get_mut(&client)?;
        let at = held.iter().position(|connection| connection.id == id)?;
        let connection = held.remove(at);
        if held.is_empty() {
            self.clients.remove(&client);
        }
        self.count -= 1;
        Some(connection)
    }
}

impl Place {
    /// Sets how good the claim of the connection is, and since when it has been idle. This has no
    /// effect if the connection has made room already.
    pub fn set(&self, claim: Claim, since: Instant) {
        self.connection.claimant.set(claim, since);
    }
}

impl<A> Place<A> {
    /// Returns when the connection has to make room for another one.
    pub async fn displaced(&self) {
        self.connection.displaced.notified().await;
    }
}

impl<A> Drop for Place<A> {
    fn drop(&mut self) {
        self.places
            .0
            .taken
            .lock()
            .release(self.client, self.connection.id);
        self.places.0.open.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// A server whose clients do one thing each second.
    struct Server {
        places: Places,
        start: Instant,
        second: std::cell::Cell<u64>,
    }

    impl Server {
        fn new(total: usize, per_client: usize) -> Self {
            Self {
                places: Places::new(PlaceLimits { total, per_client }),
                start: Instant::now(),
                second: std::cell::Cell::new(0),
            }
        }

        /// The time of what is done next.
        fn now(&self) -> Instant {
            self.second.set(self.second.get() + 1);
            self.start + Duration::from_secs(self.second.get())
        }

        /// A connection that has been idle from now on.
        fn connect(&self, client: impl Into<ClientId>) -> Option<Place> {
            let now = self.now();
            self.places.take(client, StatedClaim::new(now), now)
        }

        /// A connection with a place.
        fn admit(&self, client: impl Into<ClientId>) -> Place {
            self.connect(client).expect("a place")
        }

        fn set(&self, place: &Place, claim: Claim) {
            place.set(claim, self.now());
        }

        /// The number of taken places, and the number of clients that have them.
        fn count(&self) -> (usize, usize) {
            let taken = self.places.0.taken.lock();
            let held = taken.clients.values().map(Vec::len);
            assert_eq!(held.sum::<usize>(), taken.count);
            (taken.count, taken.clients.len())
        }
    }

    /// Whether each of these connections must make room.
    fn displaced<const N: usize>(places: [&Place; N]) -> [bool; N] {
        places.map(|place| is_ready(place.displaced()))
    }

    #[test]
    fn idle_connections_make_room_and_others_do_not() {
        let server = Server::new(3, 3);
        let [first, second, third] = [1, 1, 1].map(|last| server.admit(address(last)));
        server.set(&first, Claim::Active);
        let fourth = server.admit(address(1));
        let gone = displaced([&first, &second, &third, &fourth]);
        assert_eq!(gone, [false, true, false, false], "the one that is idle longest");
        assert_eq!(server.count(), (3, 1));
        server.set(&third, Claim::Active);
        server.set(&fourth, Claim::Active);
        assert!(server.connect(address(1)).is_none(), "none is idle");
        drop(second);
        assert_eq!(server.count(), (3, 1), "its place was given away already");
        drop(fourth);
        assert_eq!(server.count(), (2, 1));
        drop((first, third));
        assert_eq!(server.count(), (0, 0), "nothing is kept");
    }

    #[test]
    fn clients_at_work_leave_places_to_others() {
        let server = Server::new(4, 2);
        let places = [1, 1, 2, 2].map(|last| server.admit(address(last)));
        for place in &places {
            server.set(place, Claim::Active);
        }
        assert!(server.connect(address(1)).is_none(), "it has its share");
        let third = server.admit(address(3));
        server.set(&third, Claim::Active);
        let gone = displaced([&places[0], &places[1], &places[2], &places[3]]);
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 1);
        assert!(gone[1] || gone[3], "the newest of one of the largest: {gone:?}");
        let fourth = server.admit(address(4));
        server.set(&fourth, Claim::Active);
        assert_eq!(server.count(), (4, 4), "everybody has one");
        assert!(
            server.connect(address(5)).is_none(),
            "nobody has two more than none"
        );
        assert!(server.connect(address(4)).is_none());
    }

    #[test]
    fn a_client_with_all_its_places_makes_room_itself() {
        let server = Server::new(4, 2);
        let [other, first, second, third] = [9, 1, 1, 1].map(|last| server.admit(address(last)));
        assert_eq!(server.places.taken(), 3);
        let gone = displaced([&other, &first, &second, &third]);
        assert_eq!(gone, [false, true, false, false], "its own that is idle longest");
        server.set(&second, Claim::Active);
        server.set(&third, Claim::Active);
        assert!(
            server.connect(address(1)).is_none(),
            "both places of the client are in use"
        );
        assert!(server.connect(address(2)).is_some(), "others have places");
    }

    #[test]
    fn the_client_with_the_most_idle_connections_makes_room() {
        let server = Server::new(4, 4);
        let [honest, first, second, third] = [1, 2, 2, 2].map(|last| server.admit(address(last)));
        first.set(Claim::Known, server.start);
        let newcomer = server.admit(address(3));
        let gone = displaced([&honest, &first, &second, &third]);
        assert_eq!(
            gone,
            [false, false, true, false],
            "the weakest claim of the crowd"
        );
        let own = server.admit(address(2));
        let gone = displaced([&honest, &first, &third, &newcomer]);
        assert_eq!(
            gone,
            [false, false, true, false],
            "the crowd makes room for itself"
        );
        assert_eq!(server.places.taken(), 4);
        for place in [&honest, &first, &newcomer, &own] {
            server.set(place, Claim::Active);
        }
        assert!(server.connect(address(1)).is_none(), "all are in use");
    }

    #[test]
    fn a_busy_client_keeps_its_idle_connections_before_a_crowd() {
        let server = Server::new(6, 6);
        let busy = [1, 1, 1, 1].map(|last| server.admit(address(last)));
        for place in &busy[1..] {
            server.set(place, Claim::Active);
        }
        let crowd = [2, 2].map(|last| server.admit(address(last)));
        let newcomer = server.admit(address(3));
        let gone = displaced([&busy[0], &crowd[0], &crowd[1]]);
        assert_eq!(
            gone,
            [false, true, false],
            "the crowd uses nothing of what it has"
        );
        let second = server.admit(address(4));
        let gone = displaced([&busy[0], &crowd[1], &newcomer]);
        assert_eq!(
            gone,
            [true, false, false],
            "of clients with one idle connection, the one with the most in all"
        );
        let third = server.admit(address(5));
        let gone = displaced([&crowd[1], &newcomer, &second, &third]);
        assert_eq!(
            gone,
            [true, false, false, false],
            "all have one, so the one that is idle longest"
        );
    }

    #[test]
    fn every_local_connection_is_a_client() {
        let server = Server::new(2, 1);
        let [first, second, third] = [1, 2, 3].map(|number| server.admit(ClientId::Local(number)));
        assert_eq!(displaced([&first, &second, &third]), [true, false, false]);
    }

    #[test]
    fn there_is_at_least_one_place() {
        let server = Server::new(0, 0);
        let first = server.admit(address(1));
        server.set(&first, Claim::Active);
        assert!(server.connect(address(1)).is_none());
    }

    #[test]
    fn a_share_is_part_of_the_places() {
        for (total, share_percent, per_client) in [(32, 50, 16), (3, 50, 2), (10, 0, 0), (4, 500, 4)] {
            let limits = PlaceLimits::with_share(total, share_percent);
            assert_eq!(limits, PlaceLimits { total, per_client });
        }
    }

    #[test]
    fn what_a_displaced_connection_does_counts_no_more() {
        let server = Server::new(1, 1);
        let first = server.admit(address(1));
        let second = server.admit(address(2));
        server.set(&first, Claim::Active);
        drop(first);
        assert_eq!(server.places.taken(), 1);
        server.set(&second, Claim::Active);
        assert!(server.connect(address(1)).is_none());
        server.set(&second, Claim::Known);
        assert!(server.connect(address(1)).is_some(), "it is idle again");
        drop(second);
        assert_eq!(server.count(), (0, 0), "nothing is kept");
    }

    #[test]
    fn the_end_of_all_connections_can_be_waited_for() {
        let server = Server::new(1, 1);
        let displaced = server.admit(address(1));
        let last = server.admit(address(1));
        let mut ended = pin!(server.places.all_ended());
        assert!(!is_ready(ended.as_mut()), "both are open");
        drop(last);
        assert_eq!(server.places.taken(), 0);
        assert!(!is_ready(ended.as_mut()), "the one that made room is still open");
        drop(displaced);
        assert!(is_ready(ended));
        assert!(is_ready(server.places.all_ended()), "there are none");
    }
}
