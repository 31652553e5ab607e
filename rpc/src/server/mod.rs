//! The servers: each moves bytes between a transport and a [`crate::Dispatcher`].
//!
//! None of them knows what a method is. The HTTP and the WebSocket server share a TCP server
//! (`tcp.rs`, `acceptor.rs`). The WebSocket server and the local socket share the exchange of
//! messages on a connection that lasts (`duplex`).

mod acceptor;
mod activity;
mod duplex;
mod gzip;
pub mod http;
pub mod ipc;
mod metered;
mod routes;
pub mod stream;
mod tcp;
pub mod ws;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

pub use tcp::TcpServer;

pub use crate::access::{BadHost, BadOrigin, Cors, Hosts};
pub use crate::health::{Health, Healthy};

/// Pause after an accept that failed, for example because no file descriptor was free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address as the caller gave it.
        address: String,
        /// The error of the operating system.
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

/// The tasks of a running server: accept loops to end, and connections to count and to wait for.
struct ServerTasks {
    stop: watch::Sender<bool>,
    accept_loops: JoinSet<()>,
    /// A permit for each connection that may be open.
    slots: Arc<Semaphore>,
    slots_max: u32,
}

/// A connection's slot. Dropping it frees the slot for another connection.
type ConnectionSlot = OwnedSemaphorePermit;

impl ServerTasks {
    fn new(connections_max: usize) -> Self {
        let slots_max = u32::try_from(connections_max)
            .unwrap_or(u32::MAX)
            .min(Semaphore::MAX_PERMITS as u32);
        Self {
            stop: watch::Sender::new(false),
            accept_loops: JoinSet::new(),
            slots: Arc::new(Semaphore::new(slots_max as usize)),
            slots_max,
        }
    }

    /// Ends the accept loops and tells connections to finish. Afterwards the addresses are free.
    async fn close(&mut self) {
        self.stop.send_replace(true);
        while self.accept_loops.join_next().await.is_some() {}
    }

    /// Waits until every connection has ended. Each one ends by itself within the grace for
    /// stopping.
    async fn drain(&self) {
        // Fails only for a closed semaphore, and nothing closes it.
        let _ = self.slots.acquire_many(self.slots_max).await;
    }
}

/// Resolves when the server stops or is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, which also stops the server.
    let _ = stop.wait_for(|stop| *stop).await;
}
