//! Accepts Stratum connections: those of addresses that are not banned, while there are places.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use daemon::{ClientAddress, StatedClaim, accept, all_ended};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::connection::{self, ConnectionLeases};
use crate::event_log::LoggedEvent;
use crate::state::StratumState;

/// Accepts connections until the server stops, then waits until all connections have ended.
pub(crate) async fn accept_connections(
    listener: TcpListener,
    state: Arc<StratumState>,
    stop: watch::Receiver<bool>,
) {
    let admit = |(stream, peer)| {
        let leases = leases(peer, &state)?;
        Some(connection::serve(
            stream,
            peer,
            leases,
            Arc::clone(&state),
            stop.clone(),
        ))
    };
    all_ended(accept(listener, "Stratum", stop.clone(), admit).await).await;
}

/// Leases what a connection needs. `None` if its address is banned or there is no place.
fn leases(peer: SocketAddr, state: &StratumState) -> Option<ConnectionLeases> {
    let (client, now) = (ClientAddress::from(peer.ip()), Instant::now());
    let Some(address) = state.addresses.enter(client, now) else {
        state.counters.ban_refusals.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    let place = state.places.take(client, StatedClaim::new(now), now);
    let leases = place.and_then(|place| {
        Some(ConnectionLeases {
            extranonce: state.extranonces.take()?,
            place,
            address,
        })
    });
    if leases.is_some() {
        state.counters.connections.fetch_add(1, Ordering::Relaxed);
    } else {
        state.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        if state.log.allows(LoggedEvent::TurnedAway) {
            tracing::warn!(%peer, "too many Stratum connections, this one is closed");
        }
    }
    leases
}
