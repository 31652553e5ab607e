//! The servers: each moves bytes between a transport and a [`crate::Dispatcher`].
//!
//! None of them knows what a method is. The HTTP and the WebSocket server share a TCP server
//! (`tcp.rs`, `acceptor.rs`). The WebSocket server and the local socket share the exchange of
//! messages on a connection that lasts (`duplex`). Who may connect while all places are taken is in
//! `places.rs`. What a connection is doing is in `activity.rs`, and how fast it must read in
//! `pace.rs`.

mod acceptor;
mod activity;
mod address;
mod duplex;
mod gzip;
pub mod http;
pub mod ipc;
mod metered;
mod pace;
mod places;
mod replies;
mod routes;
mod split;
pub mod stream;
mod tcp;
pub mod ws;

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::places::OpenConnection;

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

/// The tasks of a running server: accept loops to end, and connections to wait for.
struct ServerTasks {
    stop: watch::Sender<bool>,
    accept_loops: JoinSet<()>,
    open: Option<OpenConnection>,
    /// Ends when every clone of `open` is dropped.
    ended: mpsc::Receiver<Infallible>,
}

impl ServerTasks {
    fn new() -> Self {
        let (open, ended) = mpsc::channel(1);
        Self {
            stop: watch::Sender::new(false),
            accept_loops: JoinSet::new(),
            open: Some(open),
            ended,
        }
    }

    /// Starts an accept loop that serves connections by `run`.
    fn start<F>(&mut self, run: impl FnOnce(watch::Receiver<bool>, OpenConnection) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let Some(open) = &self.open {
            self.accept_loops.spawn(run(self.stop.subscribe(), open.clone()));
        }
    }

    /// Ends the accept loops and tells connections to finish. Afterwards the addresses are free.
    async fn close(&mut self) {
        self.stop.send_replace(true);
        while self.accept_loops.join_next().await.is_some() {}
    }

    /// Waits until every connection has ended. Each one ends by itself within the grace for
    /// stopping.
    async fn drain(&mut self) {
        self.open = None;
        // Nothing is ever sent. It is the end that is waited for.
        let _ = self.ended.recv().await;
    }
}

/// Resolves when the server stops or is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, which also stops the server.
    let _ = stop.wait_for(|stop| *stop).await;
}
