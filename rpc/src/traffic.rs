//! The memory of all messages: requests while they are read and answered, answers while they are
//! made and sent, and the values that answers are made of.
//!
//! Each request and each response has a bound of its own. The bound here holds for all connections
//! together, so that a thousand clients cannot each fill their own bound. Memory is reserved before
//! it is filled, in coarse steps, and released when what it holds was sent or dropped. If too
//! little is left, the request is refused at once. If it waited, it would hold the memory that it
//! has.
//!
//! The room has three parts. One client address has at most its share. All clients over the network
//! have at most [`REMOTE_PART`] of the whole. The rest is left for the local socket, so that the
//! operator is served whatever others do.
//!
//! | what is in memory | reserved by | bound |
//! |---|---|---|
//! | a request while it is read | `server/metered.rs`, in pieces of 64 KiB | this room; the first piece is free: 64 KiB × connections |
//! | a request while it is answered | HTTP: what was reserved while it was read; else `server/duplex`, whole | this room |
//! | the result of a call while it is written | [`crate::text`], in steps of up to 64 KiB | this room |
//! | the answer to a message, a batch too | [`crate::text`]: long results are moved, not copied | this room |
//! | an answer that waits to be sent | its pieces; each is released when it was sent | this room |
//! | an answer while it is compressed | `server/gzip.rs`, piece by piece; plain pieces are released meanwhile | this room |
//! | a WebSocket frame or a line on the local socket | the piece that it is made from, plus one copy of 64 KiB | 64 KiB × connections |
//! | notifications that wait to be sent | `server/duplex` | this room; 1 MiB and a block × pulls that run |
//! | `rpc.discover`, `rpc_modules` | not at all: all answers share one text | once |
//! | the values of a trace | `chain::work::WorkMemory`, in steps of 1 MiB | this room |
//! | the accounts and slots of `debug_dumpBlock`, the transactions of `txpool_content` | [`crate::budget::reserve_values`] | this room |
//! | the logs of a block that is searched | not at all | a block × calls that run |
//! | an error | as a result; that memory is missing can always be said, in a short text | this room; 1 KiB × requests of a batch × messages |
//! | texts of less than [`FREE_LEN`] | not at all | 1 KiB × messages that are answered |

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use inbound::ClientId;
use parking_lot::Mutex;

/// A text that takes no more than this many bytes is not counted.
pub(crate) const FREE_LEN: usize = 1024;
/// The part of the room for clients over the network, in eighths. The rest is left for the local
/// channel.
const REMOTE_PART: usize = 7;

/// The room for the memory of all connections.
#[derive(Clone, Debug)]
pub(crate) struct TrafficMemory(Arc<Room>);

#[derive(Debug)]
struct Room {
    len_max: usize,
    remote_max: usize,
    client_max: usize,
    used: AtomicUsize,
    remote_used: AtomicUsize,
    /// The clients over the network that have a connection.
    clients: Mutex<HashMap<ClientId, Weak<ClientRoom>>>,
}

/// The memory that one client may use.
#[derive(Clone, Debug)]
pub(crate) struct ClientMemory(Arc<ClientRoom>);

#[derive(Debug)]
struct ClientRoom {
    room: Arc<Room>,
    client: ClientId,
    used: AtomicUsize,
}

/// Reserved memory of a client. It is released when the reservation is dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation {
    client: Option<ClientMemory>,
    len: usize,
}

impl TrafficMemory {
    /// A room of `len_max` bytes. One client over the network has at most `share_percent` of what
    /// all of them have together.
    pub(crate) fn new(len_max: usize, share_percent: usize) -> Self {
        let remote_max = len_max / 8 * REMOTE_PART;
        Self(Arc::new(Room {
            len_max,
            remote_max,
            client_max: remote_max / 100 * share_percent.min(100),
            used: AtomicUsize::new(0),
            remote_used: AtomicUsize::new(0),
            clients: Mutex::default(),
        }))
    }

    /// The memory of `client`. All connections of an address share it.
    pub(crate) fn client(&self, client: ClientId) -> ClientMemory {
        let new = || {
            Arc::new(ClientRoom {
                room: Arc::clone(&self.0),
                client,
                used: AtomicUsize::new(0),
            })
        };
        if matches!(client, ClientId::Local(_)) {
            return ClientMemory(new());
        }
        let mut clients = self.0.clients.lock();
        let known = clients.entry(client).or_default();
        ClientMemory(known.upgrade().unwrap_or_else(|| {
            let fresh = new();
            *known = Arc::downgrade(&fresh);
            fresh
        }))
    }

    /// Bytes that are reserved now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }
}

impl Drop for ClientRoom {
    fn drop(&mut self) {
        if matches!(self.client, ClientId::Local(_)) {
            return;
        }
        let mut clients = self.room.clients.lock();
        // The client may have come back meanwhile, with a new entry.
        if clients
            .get(&self.client)
            .is_some_and(|known| known.strong_count() == 0)
        {
            clients.remove(&self.client);
        }
    }
}

impl ClientMemory {
    /// Adds `len` bytes to `reservation`, which is empty or of this client. Returns whether that
    /// much was left.
    pub(crate) fn reserve(&self, reservation: &mut MemoryReservation, len: usize) -> bool {
        if len == 0 {
            return true;
        }
        if !self.0.take(len) {
            return false;
        }
        reservation.client.get_or_insert_with(|| self.clone());
        reservation.len += len;
        true
    }
}

impl ClientRoom {
    fn take(&self, len: usize) -> bool {
        let room = &self.room;
        if !add(&room.used, len, room.len_max) {
            return false;
        }
        if matches!(self.client, ClientId::Local(_)) {
            return true;
        }
        if add(&room.remote_used, len, room.remote_max) {
            if add(&self.used, len, room.client_max) {
                return true;
            }
            room.remote_used.fetch_sub(len, Relaxed);
        }
        room.used.fetch_sub(len, Relaxed);
        false
    }

    fn give_back(&self, len: usize) {
        if !matches!(self.client, ClientId::Local(_)) {
            self.used.fetch_sub(len, Relaxed);
            self.room.remote_used.fetch_sub(len, Relaxed);
        }
        self.room.used.fetch_sub(len, Relaxed);
    }
}

/// Adds `len` to `counter` unless the sum would exceed `max`. Returns whether it did.
fn add(counter: &AtomicUsize, len: usize, max: usize) -> bool {
    let sum = |used: usize| used.checked_add(len).filter(|sum| *sum <= max);
    counter.fetch_update(Relaxed, Relaxed, sum).is_ok()
}

impl MemoryReservation {
    /// Releases all but `len` bytes.
    pub(crate) fn shrink(&mut self, len: usize) {
        if let Some(client) = &self.client
            && len < self.len
        {
            client.0.give_back(self.len - len);
            self.len = len;
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::remote_client as remote;

    /// The most bytes that `client` can reserve now.
    fn free(client: &ClientMemory) -> usize {
        let fits = |len: &usize| client.reserve(&mut MemoryReservation::default(), *len);
        (0..=2000).rev().find(fits).unwrap_or_default()
    }

    #[test]
    fn memory_is_released() {
        let traffic = TrafficMemory::new(800, 100);
        let client = traffic.client(remote(1));
        let mut reservation = MemoryReservation::default();
        assert!(client.reserve(&mut reservation, 300) && client.reserve(&mut reservation, 200));
        assert_eq!((free(&client), traffic.used()), (200, 500));
        assert!(!client.reserve(&mut reservation, 201));
        assert_eq!(traffic.used(), 500, "a refusal leaves nothing behind");
        reservation.shrink(900);
        assert_eq!(traffic.used(), 500);
        reservation.shrink(100);
        assert_eq!((free(&client), traffic.used()), (600, 100));
        drop(reservation);
        assert_eq!((free(&client), traffic.used()), (700, 0));
        assert!(!client.reserve(&mut MemoryReservation::default(), usize::MAX));
    }

    #[test]
    fn a_client_has_its_share_and_the_local_channel_a_reserve() {
        let traffic = TrafficMemory::new(800, 50);
        let (one, two, three) = (remote(1), remote(2), remote(3));
        let [one, again, two, three] = [one, one, two, three].map(|client| traffic.client(client));
        let local = [1, 2].map(|connection| traffic.client(ClientId::Local(connection)));
        assert_eq!((free(&one), free(&local[0])), (350, 800));
        let mut first = MemoryReservation::default();
        assert!(one.reserve(&mut first, 350));
        assert_eq!(
            (free(&again), free(&two)),
            (0, 350),
            "the connections of an address share, and another address has its own"
        );
        let mut second = MemoryReservation::default();
        assert!(two.reserve(&mut second, 350));
        assert_eq!((free(&three), free(&local[0]), free(&local[1])), (0, 100, 100));
        let mut third = MemoryReservation::default();
        assert!(local[0].reserve(&mut third, 60));
        assert_eq!(free(&local[1]), 40);
        drop(first);
        assert_eq!((free(&three), free(&local[1])), (350, 390));
    }

    #[test]
    fn clients_that_left_are_forgotten() {
        let traffic = TrafficMemory::new(800, 50);
        let known = || traffic.0.clients.lock().len();
        let one = traffic.client(remote(1));
        let two = traffic.client(remote(2));
        let mut reservation = MemoryReservation::default();
        assert!(one.reserve(&mut reservation, 10));
        drop((one, two));
        assert_eq!(known(), 1, "the reservation keeps its client");
        assert_eq!(free(&traffic.client(remote(1))), 340);
        drop(reservation);
        assert_eq!((known(), free(&traffic.client(remote(1)))), (0, 350));
    }
}
