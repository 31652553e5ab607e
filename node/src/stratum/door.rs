//! The door: lets connections in, as many as there are places, and gives each its own part of all nonces.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use stratum::Extranonce;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Shared, connection};

/// Pause after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of an extranonce.
const EXTRANONCE_BYTES: u32 = 2;

/// Which extranonces are taken.
#[derive(Debug)]
pub(super) struct Extranonces {
    state: Mutex<(u16, HashSet<u16>)>,
    max: usize,
}

impl Extranonces {
    /// As many as there are connections, and no more than there are numbers.
    pub(super) fn new(connections_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            max: connections_max.clamp(1, usize::from(u16::MAX)),
        }
    }

    /// One that nobody has; `None` when there is no place.
    pub(super) fn take(&self, shared: &Arc<Shared>) -> Option<Place> {
        let number = self.take_number()?;
        Some(Place {
            number,
            shared: Arc::clone(shared),
        })
    }

    fn take_number(&self) -> Option<u16> {
        let (next, taken) = &mut *self.state.lock();
        if taken.len() >= self.max {
            return None;
        }
        // Given back numbers rest as long as they can: a miner that has lost its connection may search on.
        while taken.contains(next) {
            *next = next.wrapping_add(1);
        }
        let number = *next;
        taken.insert(number);
        *next = next.wrapping_add(1);
        Some(number)
    }

    fn give_back(&self, number: u16) {
        self.state.lock().1.remove(&number);
    }
}

/// A connection's place and its part of all nonces, both free again once this is dropped.
pub(super) struct Place {
    number: u16,
    shared: Arc<Shared>,
}

impl Place {
    pub(super) fn extranonce(&self) -> Extranonce {
        Extranonce::new(self.number.into(), EXTRANONCE_BYTES)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.extranonces.give_back(self.number);
        self.shared.counts.connections_now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes connections until the server stops, then waits for their end.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // An error means that the server is gone: the same thing.
            _ = stopped.wait_for(|stop| *stop) => break,
            // Lets go of those that have ended.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => let_in(&mut connections, stream, peer, &shared, &stopped),
            Err(error) => {
                tracing::warn!(%error, "Stratum cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

fn let_in(
    connections: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    stopped: &watch::Receiver<bool>,
) {
    let counts = &shared.counts;
    let Some(place) = shared.extranonces.take(shared) else {
        counts.turned_away.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%peer, "too many Stratum connections, one is closed");
        return;
    };
    counts.connections.fetch_add(1, Ordering::Relaxed);
    counts.connections_now.fetch_add(1, Ordering::Relaxed);
    connections.spawn(connection::serve(
        stream,
        peer,
        place,
        Arc::clone(shared),
        stopped.clone(),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extranonces_are_one_each_and_rest_when_given_back() {
        let extranonces = Extranonces::new(3);
        let taken: Vec<_> = std::iter::from_fn(|| extranonces.take_number()).collect();
        assert_eq!(taken, [0, 1, 2]);
        extranonces.give_back(1);
        assert_eq!(extranonces.take_number(), Some(3));
        assert_eq!(extranonces.take_number(), None);
        let all = Extranonces::new(usize::MAX);
        let count = std::iter::from_fn(|| all.take_number()).count();
        assert_eq!(
            count,
            usize::from(u16::MAX),
            "one number stays free, so that a search for one ends"
        );
    }
}
