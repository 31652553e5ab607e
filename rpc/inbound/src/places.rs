//! Places for connections: so many in all, and so many for each address.
//!
//! If there is no place for a new connection, one that does not use its place makes room:
//!
//! - If the address has all its places, the connection that makes room is one of the same address.
//! - If all places are taken, it is one of the address that has the most connections of this kind.
//!   So an address with many idle connections loses its own, not those of others.
//! - Among these, connections with the weakest claim come first ([`Claim`]), and among equal
//!   claims the one that has been idle longest.
//!
//! A connection with the claim [`Claim::Active`] never makes room.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ClientAddress;

/// How many places there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLimits {
    /// Places in all.
    pub total: usize,
    /// Places for one address.
    pub per_address: usize,
}

/// How good the claim of a connection to its place is. The weakest claim comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The client has only connected so far.
    New,
    /// The client has said what it wants.
    Known,
    /// The client does what the server is there for. Its connection never makes room.
    Active,
}

/// The places of one server. Clones share their state.
#[derive(Clone, Debug)]
pub struct Places {
    limits: PlaceLimits,
    state: Arc<Mutex<PlacesState>>,
}

#[derive(Debug, Default)]
struct PlacesState {
    taken: usize,
    next_id: u64,
    addresses: HashMap<ClientAddress, AddressPlaces>,
}

/// The places of one address.
#[derive(Debug, Default)]
struct AddressPlaces {
    held: HashMap<u64, HeldPlace>,
    /// Those of `held` that can make room, the first to go first.
    idle: BTreeSet<(Claim, Instant, u64)>,
}

/// A place that a connection holds.
#[derive(Debug)]
struct HeldPlace {
    claim: Claim,
    since: Instant,
    displaced: Arc<Notify>,
}

/// The place of one connection. Dropping it makes the place free.
#[derive(Debug)]
pub struct Place {
    places: Places,
    address: ClientAddress,
    id: u64,
    displaced: Arc<Notify>,
}

impl Places {
    /// Places that are all free. There is at least one, and an address gets at most as many as
    /// there are.
    pub fn new(limits: PlaceLimits) -> Self {
        let total = limits.total.max(1);
        Self {
            limits: PlaceLimits {
                total,
                per_address: limits.per_address.clamp(1, total),
            },
            state: Arc::default(),
        }
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.state.lock().taken
    }

    /// Takes a place for a new connection of `address`. Another connection may have to make room;
    /// its [`Place::displaced`] then returns.
    ///
    /// `None` if there is no place, and no connection that can make room.
    pub fn take(&self, address: ClientAddress, now: Instant) -> Option<Place> {
        let state = &mut *self.state.lock();
        let own = state.addresses.get(&address);
        if own.is_some_and(|own| own.held.len() >= self.limits.per_address) {
            state.displace_one_of(address)?;
        } else if state.taken >= self.limits.total {
            let most_idle = state.addresses.iter().max_by_key(|(_, places)| places.idle.len());
            state.displace_one_of(*most_idle?.0)?;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.taken += 1;
        let displaced = Arc::new(Notify::new());
        let held = HeldPlace {
            claim: Claim::New,
            since: now,
            displaced: Arc::clone(&displaced),
        };
        let own = state.addresses.entry(address).or_default();
        own.held.insert(id, held);
        own.idle.insert((Claim::New, now, id));
        Some(Place {
            places: self.clone(),
            address,
            id,
            displaced,
        })
    }
}

impl PlacesState {
    /// Takes the place of the first connection of `address` that can make room. `None` if there is
    /// none.
    fn displace_one_of(&mut self, address: ClientAddress) -> Option<()> {
        let (_, _, id) = *self.addresses.get(&address)?.idle.first()?;
        // The notice is kept until the connection looks for it.
        self.release(address, id)?.displaced.notify_one();
        Some(())
    }

    /// Makes a place free. `None` if the connection has lost it before.
    fn release(&mut self, address: ClientAddress, id: u64) -> Option<HeldPlace> {
        let places = self.addresses.get_mut(&address)?;
        let place = places.held.remove(&id)?;
        places.idle.remove(&(place.claim, place.since, id));
        if places.held.is_empty() {
            self.addresses.remove(&address);
        }
        self.taken -= 1;
        Some(place)
    }
}

impl Place {
    /// Sets how good the claim of the connection is, and since when it has been idle. This has no
    /// effect if the connection has made room already.
    pub fn set(&self, claim: Claim, since: Instant) {
        let state = &mut *self.places.state.lock();
        let Some(places) = state.addresses.get_mut(&self.address) else {
            return;
        };
        let Some(place) = places.held.get_mut(&self.id) else {
            return;
        };
        places.idle.remove(&(place.claim, place.since, self.id));
        (place.claim, place.since) = (claim, since);
        if claim != Claim::Active {
            places.idle.insert((claim, since, self.id));
        }
    }

    /// Returns when the connection has to make room for another one.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.state.lock().release(self.address, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    fn is_displaced(place: &Place) -> bool {
        let displaced = pin!(place.displaced());
        displaced.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn places(total: usize, per_address: usize) -> Places {
        Places::new(PlaceLimits { total, per_address })
    }

    fn address(last: u8) -> ClientAddress {
        IpAddr::from([192, 0, 2, last]).into()
    }

    /// Times in the order of their numbers.
    fn time(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn an_address_with_all_its_places_makes_room_itself() {
        let (places, start) = (places(4, 2), Instant::now());
        let other = places.take(address(9), start).expect("a place");
        let first = places.take(address(1), time(start, 1)).expect("a place");
        let second = places.take(address(1), time(start, 2)).expect("a place");
        let third = places.take(address(1), time(start, 3)).expect("room is made");
        assert_eq!(places.taken(), 3);
        assert!(is_displaced(&first), "it was idle longest");
        assert!(!is_displaced(&second) && !is_displaced(&third) && !is_displaced(&other));
        second.set(Claim::Active, start);
        third.set(Claim::Active, start);
        assert!(
            places.take(address(1), start).is_none(),
            "both places of the address are in use"
        );
        assert!(places.take(address(2), start).is_some(), "others have places");
    }

    #[test]
    fn the_address_with_the_most_idle_connections_makes_room() {
        let (places, start) = (places(4, 4), Instant::now());
        let honest = places.take(address(1), start).expect("a place");
        let crowd: Vec<_> = (1..=3)
            .map(|at| places.take(address(2), time(start, at)).expect("a place"))
            .collect();
        crowd[0].set(Claim::Known, time(start, 1));
        let newcomer = places.take(address(3), time(start, 9)).expect("room is made");
        assert!(!is_displaced(&honest), "it is idle longest, but alone");
        assert!(is_displaced(&crowd[1]), "the weakest claim of the crowd");
        let own = places.take(address(2), time(start, 10)).expect("room is made");
        assert!(is_displaced(&crowd[2]), "the crowd makes room for itself");
        assert_eq!(places.taken(), 4);
        for place in [&honest, &crowd[0], &newcomer, &own] {
            place.set(Claim::Active, start);
        }
        assert!(places.take(address(5), start).is_none(), "all are in use");
    }

    #[test]
    fn there_is_at_least_one_place() {
        let (places, start) = (places(0, 0), Instant::now());
        let first = places.take(address(1), start).expect("a place");
        first.set(Claim::Active, start);
        assert!(places.take(address(1), start).is_none());
    }

    #[test]
    fn what_a_displaced_connection_does_counts_no_more() {
        let (places, start) = (places(1, 1), Instant::now());
        let first = places.take(address(1), start).expect("a place");
        let second = places.take(address(2), start).expect("room is made");
        first.set(Claim::Active, start);
        drop(first);
        assert_eq!(places.taken(), 1);
        second.set(Claim::Active, start);
        assert!(places.take(address(1), start).is_none());
        second.set(Claim::Known, start);
        assert!(places.take(address(1), start).is_some(), "it is idle again");
        drop(second);
        assert_eq!(places.taken(), 0);
        assert!(places.state.lock().addresses.is_empty(), "nothing is kept");
    }
}
