//! The servers: each moves bytes between a transport and a [`crate::Dispatcher`].
//!
//! No server knows what a method is. The HTTP and the WebSocket server share a TCP server. The
//! WebSocket server and the local socket share the exchange of messages on a connection that lasts.
//! Places for connections are in the package `inbound`, host names and origins in `access`.
//!
//! | subject | module |
//! |---|---|
//! | **the three servers** | |
//! | JSON-RPC over HTTP; its settings | `http` |
//! | JSON-RPC over WebSockets; its settings and its handshake | `ws` |
//! | JSON-RPC on the local socket: unix socket, named pipe | `ipc` |
//! | **connections over TCP** | |
//! | listening addresses, start and stop | `tcp` |
//! | accepting connections, and HTTP/1.1 on each of them | `acceptor` |
//! | whether a client has hung up | `split` |
//! | requests of clients without a right token, or too many of them | `admission` |
//! | **what a connection may do** | |
//! | what it does, whether it may make room, when its time is over | `activity` |
//! | how fast its client must read | `pace` |
//! | memory for what it sends | `metered` |
//! | **messages** | |
//! | HTTP requests: which are accepted, how bodies are read | `routes` |
//! | plain-text answers | `replies` |
//! | compressed answers | `gzip` |
//! | messages in both directions on a connection that lasts | `duplex` |
//! | JSON values in a stream of bytes | `stream` |
//!
//! This file has what all servers share: their tasks, and how they stop.

mod acceptor;
mod activity;
mod admission;
mod duplex;
mod gzip;
pub mod http;
pub mod ipc;
mod metered;
mod pace;
mod replies;
mod routes;
mod split;
pub mod stream;
mod tcp;
pub mod ws;

use std::io;

use daemon::Places;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::activity::Activity;

pub use tcp::TcpServer;

pub use crate::access::{BadHost, BadOrigin, Cors, Guards, Hosts};
pub use crate::health::{Health, Healthy};

/// The reason why a server cannot start.
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
    /// The places of all connections.
    places: Vec<Places<Activity>>,
}

impl ServerTasks {
    /// No tasks yet. The connections will have these places.
    fn new(places: Vec<Places<Activity>>) -> Self {
        Self {
            stop: watch::Sender::new(false),
            accept_loops: JoinSet::new(),
            places,
        }
    }

    /// Starts an accept loop that serves connections by `run`.
    fn start<F>(&mut self, run: impl FnOnce(watch::Receiver<bool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.accept_loops.spawn(run(self.stop.subscribe()));
    }

    /// Ends the accept loops and tells connections to finish. Afterwards the addresses are free.
    async fn close(&mut self) {
        self.stop.send_replace(true);
        while self.accept_loops.join_next().await.is_some() {}
    }

    /// Waits until every connection has ended. Each one ends by itself within the grace for
    /// stopping. After [`Self::close`] no new ones come.
    async fn drain(&self) {
        for places in &self.places {
            places.all_ended().await;
        }
    }
}
