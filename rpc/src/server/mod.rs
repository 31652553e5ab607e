//! The servers: each moves bytes between a transport and a [`crate::Dispatcher`].
//!
//! None of them knows what a method is.

mod connection;
mod door;
mod gzip;
pub mod http;
pub mod ipc;
mod metered;
mod routes;
pub mod stream;
mod talk;
pub mod ws;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

pub use crate::access::{BadHost, BadOrigin, Cors, Hosts};
pub use crate::health::{Health, Healthy};

/// Pause after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address as asked for.
        address: String,
        /// What the system said.
        reason: io::Error,
    },
}

impl ServeError {
    fn bind(address: impl ToString) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::Bind {
            address: address.to_string(),
            reason,
        }
    }
}

/// What every running server has: listeners to end, connections to count and to wait for.
struct Running {
    stop: watch::Sender<bool>,
    listeners: JoinSet<()>,
    places: Arc<Semaphore>,
    places_max: u32,
}

/// A connection's own place; others may take it once this is dropped.
type Place = OwnedSemaphorePermit;

impl Running {
    fn new(connections_max: usize) -> Self {
        let places_max = u32::try_from(connections_max)
            .unwrap_or(u32::MAX)
            .min(Semaphore::MAX_PERMITS as u32);
        Self {
            stop: watch::Sender::new(false),
            listeners: JoinSet::new(),
            places: Arc::new(Semaphore::new(places_max as usize)),
            places_max,
        }
    }

    /// Ends the listeners: afterwards their addresses are free. Connections are told to finish.
    async fn close(&mut self) {
        self.stop.send_replace(true);
        while self.listeners.join_next().await.is_some() {}
    }

    /// Waits until every connection has ended; each ends by itself within its grace.
    async fn drain(&self) {
        // Fails only for a closed semaphore, and nothing closes it.
        let _ = self.places.acquire_many(self.places_max).await;
    }
}

/// Resolves when the server stops, or is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: the same thing.
    let _ = stop.wait_for(|stop| *stop).await;
}
