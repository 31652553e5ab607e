//! Accepts Stratum connections: those of addresses that are not banned, while there are places.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use inbound::{ClientAddress, StatedClaim};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::connection::{self, ConnectionLeases};
use super::event_log::LoggedEvent;
use super::state::StratumState;

/// Pause after a failed accept, for example if there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the server stops, then waits until all connections have ended.
pub(super) async fn accept_connections(
    listener: TcpListener,
    state: Arc<StratumState>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // An error means that the server was dropped, which also stops it.
            _ = stopped.wait_for(|stop| *stop) => break,
            // Removes connections that have ended.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => start_connection(&mut connections, stream, peer, &state, &stopped),
            Err(error) => {
                if state.log.allows(LoggedEvent::AcceptFailed) {
                    tracing::warn!(%error, "Stratum cannot accept a connection");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Starts to serve a connection. Closes it if its address is banned or there is no place.
fn start_connection(
    connections: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
    state: &Arc<StratumState>,
    stopped: &watch::Receiver<bool>,
) {
    let (client, now) = (ClientAddress::from(peer.ip()), Instant::now());
    let Some(address) = state.addresses.enter(client, now) else {
        state.counters.ban_refusals.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let place = state.places.take(client, StatedClaim::new(now), now);
    let leases = place.and_then(|place| {
        Some(ConnectionLeases {
            extranonce: state.extranonces.take()?,
            place,
            address,
        })
    });
    let Some(leases) = leases else {
        state.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        if state.log.allows(LoggedEvent::TurnedAway) {
            tracing::warn!(%peer, "too many Stratum connections, this one is closed");
        }
        return;
    };
    state.counters.connections.fetch_add(1, Ordering::Relaxed);
    connections.spawn(connection::serve(
        stream,
        peer,
        leases,
        Arc::clone(state),
        stopped.clone(),
    ));
}
