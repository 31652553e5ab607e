//! The places for connections of one server.
//!
//! A client address has at most its share of the places. When a new connection finds none, the
//! connection that is idle longest makes room: one of the same client if that has its share
//! already, otherwise one of the client with the most connections. Connections that the node works
//! for are never ended. This module knows no sockets.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::activity::Activity;
use crate::client::ClientId;

/// The places of one server. Clones are the same places.
#[derive(Clone)]
pub(super) struct ConnectionPlaces(Arc<PlacesTable>);

struct PlacesTable {
    max: usize,
    client_max: usize,
    taken: Mutex<TakenPlaces>,
}

#[derive(Default)]
struct TakenPlaces {
    /// By the number of the place.
    connections: HashMap<u64, PlacedConnection>,
    counts: HashMap<ClientId, usize>,
    next: u64,
}

/// A connection that has a place.
struct PlacedConnection {
    client: ClientId,
    activity: Activity,
    evicted: Arc<Notify>,
}

/// The place of a connection. Dropping it frees the place.
pub(super) struct ConnectionPlace {
    places: ConnectionPlaces,
    number: u64,
    evicted: Arc<Notify>,
    /// The server waits at its end until all of these are dropped.
    _open: OpenConnection,
}

/// Says that a connection is open, until it is dropped.
pub(super) type OpenConnection = mpsc::Sender<Infallible>;

impl ConnectionPlaces {
    /// `max` places, of which a client has at most `share_percent`.
    pub(super) fn new(max: usize, share_percent: usize) -> Self {
        Self(Arc::new(PlacesTable {
            max,
            client_max: (max * share_percent.min(100) / 100).max(1),
            taken: Mutex::default(),
        }))
    }

    /// A place for a connection of `client`. Returns `None` if there is none and no connection is
    /// idle.
    pub(super) fn take(
        &self,
        client: ClientId,
        activity: &Activity,
        open: &OpenConnection,
    ) -> Option<ConnectionPlace> {
        let mut taken = self.0.taken.lock();
        let of_client = taken.counts.get(&client).copied().unwrap_or_default();
        if of_client >= self.0.client_max {
            taken.evict(|connection| connection.client == client)?;
        } else if taken.connections.len() >= self.0.max {
            taken.evict(|_| true)?;
        }
        let number = taken.next;
        taken.next += 1;
        let evicted = Arc::new(Notify::new());
        let connection = PlacedConnection {
            client,
            activity: activity.clone(),
            evicted: Arc::clone(&evicted),
        };
        taken.connections.insert(number, connection);
        *taken.counts.entry(client).or_default() += 1;
        Some(ConnectionPlace {
            places: self.clone(),
            number,
            evicted,
            _open: open.clone(),
        })
    }
}

impl TakenPlaces {
    /// Ends the connection that is idle longest, among those that `may_go` and whose clients have
    /// the most connections. Returns `None` if none is idle.
    fn evict(&mut self, may_go: impl Fn(&PlacedConnection) -> bool) -> Option<()> {
        let now = Instant::now();
        let idle = self.connections.iter().filter_map(|(number, connection)| {
            let since = may_go(connection).then(|| connection.activity.idle_since(now))??;
            let count = self.counts.get(&connection.client).copied().unwrap_or_default();
            Some((std::cmp::Reverse(count), since, *number))
        });
        let (.., number) = idle.min()?;
        if let Some(connection) = self.remove(number) {
            tracing::debug!(client = ?connection.client, "an idle connection makes room for another");
            connection.evicted.notify_one();
        }
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<PlacedConnection> {
        let connection = self.connections.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&connection.client) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&connection.client);
            }
        }
        Some(connection)
    }
}

impl ConnectionPlace {
    /// Waits until the connection must make room for another.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.0.taken.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::limits::Limits;

    fn client(last: u8) -> ClientId {
        ClientId::Address(last.into())
    }

    /// Takes places for test connections.
    struct Server {
        places: ConnectionPlaces,
        open: OpenConnection,
        ended: mpsc::Receiver<Infallible>,
    }

    /// A connection with its place.
    struct Connection {
        place: ConnectionPlace,
        activity: Activity,
    }

    impl Server {
        fn new(max: usize, share_percent: usize) -> Self {
            let (open, ended) = mpsc::channel(1);
            Self {
                places: ConnectionPlaces::new(max, share_percent),
                open,
                ended,
            }
        }

        /// A connection that idles from now on, later than all before it.
        async fn connect(&self, last: u8) -> Option<Connection> {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let activity = Activity::new(&Limits::default());
            let place = self.places.take(client(last), &activity, &self.open)?;
            Some(Connection { place, activity })
        }

        fn count(&self) -> (usize, usize) {
            let taken = self.places.0.taken.lock();
            assert_eq!(taken.counts.values().sum::<usize>(), taken.connections.len());
            (taken.connections.len(), taken.counts.len())
        }
    }

    impl Connection {
        fn must_go(&self) -> bool {
            self.place.evicted().now_or_never().is_some()
        }
    }

    #[tokio::test]
    async fn idle_connections_make_room_and_others_do_not() {
        let server = Server::new(3, 100);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(server.connect(1).await.expect("a place"));
        }
        let working = all[0].activity.works();
        let fourth = server.connect(1).await.expect("a place");
        let gone: Vec<_> = all.iter().map(Connection::must_go).collect();
        assert_eq!(gone, [false, true, false], "the one that is idle longest");
        assert_eq!(server.count(), (3, 1));
        let also_working = [all[2].activity.works(), fourth.activity.works()];
        assert!(server.connect(1).await.is_none(), "none is idle");
        drop(all.remove(1));
        assert_eq!(server.count(), (3, 1), "its place was given away already");
        drop((working, also_working));
        drop(fourth);
        assert_eq!(server.count(), (2, 1));
        drop(all);
        assert_eq!(server.count(), (0, 0));
    }

    #[tokio::test]
    async fn a_client_has_its_share_and_the_largest_makes_room() {
        let server = Server::new(4, 50);
        let first = [server.connect(1).await, server.connect(1).await].map(|place| place.expect("a place"));
        let working = first.each_ref().map(|connection| connection.activity.works());
        assert!(
            server.connect(1).await.is_none(),
            "it has its share, and none is idle"
        );
        let second = server.connect(2).await.expect("another client's share");
        let third = server.connect(3).await.expect("a third one's");
        drop(working);
        let fourth = server.connect(4).await.expect("room is made");
        let gone = [&first[0], &first[1], &second, &third, &fourth].map(Connection::must_go);
        assert_eq!(gone, [true, false, false, false, false], "the largest client's");
        let _more = server.connect(1).await.expect("back within its share");
        assert_eq!(server.count(), (4, 4));
        assert!(
            first[1].must_go(),
            "all have one, so the one that is idle longest"
        );
    }

    #[tokio::test]
    async fn the_end_of_all_connections_can_be_waited_for() {
        let server = Server::new(1, 100);
        let evicted = server.connect(1).await.expect("a place");
        let last = server.connect(1).await.expect("a place");
        let Server {
            places,
            open,
            mut ended,
        } = server;
        drop((places, open));
        drop(last);
        assert!(
            ended.recv().now_or_never().is_none(),
            "the evicted one is still there"
        );
        drop(evicted);
        assert_eq!(ended.recv().await, None);
    }
}
