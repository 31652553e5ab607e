//! The memory of all messages: requests while they are read and answered, answers while they are
//! made and sent, and the values that answers are made of.
//!
//! Each request and each response has a bound of its own. The bound here holds for all connections
//! together, so that a thousand clients cannot each fill their own bound. Memory is reserved before
//! it is filled, in coarse steps, and released when what it holds was sent or dropped. If too
//! little is left, the request is refused at once. If it waited, it would hold the memory that it
//! has.
//!
//! The room is a [`Quota`]: one client address may have a share of what no other has, and a part is
//! left for the local socket, so that the operator is served whatever others do.
//!
//! | what is in memory | reserved by | bound |
//! |---|---|---|
//! | a request while it is read | `server/metered.rs`, in pieces of 64 KiB | this room; the first piece is free: 64 KiB × connections |
//! | a request while it is answered | HTTP: what was reserved while it was read; else `server/duplex`, whole | this room |
//! | the result of a call while it is written | [`crate::text`], in steps of up to 64 KiB | this room |
//! | the answer to a message, a batch too | [`crate::text`]: long results are moved, not copied | this room |
//! | an answer that waits to be sent | its pieces; each is released when it was sent | this room |
//! | an answer while it is compressed | `server/gzip.rs`, piece by piece; plain pieces are released meanwhile | this room |
//! | a WebSocket frame or a line on the local socket | the piece that it is made from, plus one copy of 64 KiB; short messages and control frames that wait beside it | 81 KiB × connections |
//! | headers of HTTP answers | not at all: hyper reads no request before the last answer is sent | 1 KiB × connections |
//! | notifications that are made or wait to be sent | [`crate::dispatch::Dispatcher::pull`], before they are made | this room; one result of up to 16 KiB × connections |
//! | the logs of a new block | not at all: all followers share them | `CACHE_LEN_MAX` and a block (`feeds/logs.rs`) |
//! | `rpc.discover`, `rpc_modules` | not at all: all answers share one text | once |
//! | the values of a trace | `chain::query_limit::QueryMemory`, in steps of 1 MiB | this room |
//! | the accounts and slots of `debug_dumpBlock`, the transactions of `txpool_content`, the nodes of `mc_getProof`, the typed data of `mc_signTypedData` | [`crate::budget::reserve_values`] | this room |
//! | the logs of a block that is searched | not at all | a block × calls that run |
//! | an error | as a result; that memory is missing can always be said, in a short text | this room; 1 KiB × requests of a batch × messages |
//! | texts of less than [`FREE_LEN`] | not at all | 1 KiB × messages that are answered |

use daemon::{ClientId, Quota, QuotaPermit};

/// A text that takes no more than this many bytes is not counted.
pub(crate) const FREE_LEN: usize = 1024;

/// The room for the memory of all connections.
#[derive(Clone, Debug)]
pub(crate) struct TrafficMemory(Quota);

/// The memory that one client may use.
#[derive(Clone, Debug)]
pub(crate) struct ClientMemory {
    room: Quota,
    client: ClientId,
}

/// Reserved memory of a client. It is released when the reservation is dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation(Option<QuotaPermit>);

impl TrafficMemory {
    /// A room of `len_max` bytes. One client over the network has at most `share_percent` of what
    /// no other client has.
    pub(crate) fn new(len_max: usize, share_percent: usize) -> Self {
        Self(Quota::new(len_max, share_percent))
    }

    /// The memory of `client`. All connections of an address share it.
    pub(crate) fn client(&self, client: ClientId) -> ClientMemory {
        ClientMemory {
            room: self.0.clone(),
            client,
        }
    }

    /// Bytes that are reserved now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.0.used()
    }
}

impl ClientMemory {
    /// Adds `len` bytes to `reservation`, which is empty or of this client. Returns whether that
    /// much was left.
    pub(crate) fn reserve(&self, reservation: &mut MemoryReservation, len: usize) -> bool {
        if len == 0 {
            return true;
        }
        let taken = match &mut reservation.0 {
            Some(permit) => permit.grow(len),
            empty => self
                .room
                .take(self.client, len)
                .map(|permit| *empty = Some(permit)),
        };
        taken.is_ok()
    }
}

impl MemoryReservation {
    /// Releases all but `len` bytes.
    pub(crate) fn shrink(&mut self, len: usize) {
        if let Some(permit) = &mut self.0 {
            permit.shrink(len);
        }
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
            (0, 175),
            "the connections of an address share, and another address has half of the rest"
        );
        let mut second = MemoryReservation::default();
        assert!(two.reserve(&mut second, 175));
        assert_eq!((free(&three), free(&local[0]), free(&local[1])), (88, 275, 275));
        let mut third = MemoryReservation::default();
        assert!(local[0].reserve(&mut third, 60));
        assert_eq!(free(&local[1]), 215);
        drop(first);
        assert_eq!((free(&three), free(&local[1])), (263, 565));
    }

    #[test]
    fn a_reservation_outlives_its_connection() {
        let traffic = TrafficMemory::new(800, 50);
        let one = traffic.client(remote(1));
        let mut reservation = MemoryReservation::default();
        assert!(one.reserve(&mut reservation, 10));
        drop(one);
        assert_eq!(free(&traffic.client(remote(1))), 340);
        drop(reservation);
        assert_eq!((traffic.used(), free(&traffic.client(remote(1)))), (0, 350));
    }
}
