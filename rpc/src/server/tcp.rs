//! A server on TCP: what the HTTP and the WebSocket server have in common.
//!
//! This file finds the addresses and starts the accept loops; `acceptor.rs` runs them. It does not
//! know which protocol the connections speak.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;

use super::acceptor::{Acceptor, HttpServices};
use super::http::HOST;
use super::{Guards, ServeError, ServerTasks};
use crate::limits::Limits;
use crate::traffic::TrafficMemory;

/// A running server on TCP. Dropping it closes it without waiting.
pub struct TcpServer {
    addresses: Vec<SocketAddr>,
    tasks: ServerTasks,
}

impl TcpServer {
    /// Listens on `host` and `port`, and serves each connection with what `services` makes for it.
    /// Of `guards` this is the TLS; the rest is for the service.
    pub(super) async fn start(
        host: &str,
        port: u16,
        limits: &Limits,
        traffic: &TrafficMemory,
        guards: &Guards,
        services: HttpServices,
    ) -> Result<Self, ServeError> {
        let listeners = bind(host, port).await?;
        let acceptor = Acceptor::new(limits, traffic, guards.tls.clone());
        let mut tasks = ServerTasks::new(acceptor.all_places());
        let mut addresses = Vec::new();
        for (listener, address) in listeners {
            addresses.push(address);
            let (acceptor, services) = (acceptor.clone(), Arc::clone(&services));
            tasks.start(|stop| acceptor.run(listener, stop, services));
        }
        Ok(Self { addresses, tasks })
    }

    /// The addresses it listens on, with their real ports. There is at least one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops listening. Afterwards the port is free.
    ///
    /// Running requests get the grace for stopping. This function does not wait for them, so a
    /// method may close the server that it was called through.
    pub async fn close(&mut self) {
        self.tasks.close().await;
    }

    /// Stops listening and waits until the last connection has ended, at most the grace for
    /// stopping.
    pub async fn stop(mut self) {
        self.tasks.close().await;
        self.tasks.drain().await;
    }
}

/// The listeners for `host`: 127.0.0.1 and, where it exists, `::1` for `localhost`; otherwise one.
async fn bind(host: &str, port: u16) -> Result<Vec<(TcpListener, SocketAddr)>, ServeError> {
    if !host.eq_ignore_ascii_case(HOST) {
        let bound = bind_first(host, port)
            .await
            .map_err(ServeError::bind(format_args!("{host}:{port}")))?;
        return Ok(vec![bound]);
    }
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let first = bind_one(first).await.map_err(ServeError::bind(first))?;
    let second = SocketAddr::from((Ipv6Addr::LOCALHOST, first.1.port()));
    let second = bind_one(second)
        .await
        .inspect_err(|error| tracing::debug!(%error, "not listening on ::1"))
        .ok();
    Ok(std::iter::once(first).chain(second).collect())
}

/// Listens on the first address of `host` where that is possible.
async fn bind_first(host: &str, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return bind_one((ip, port).into()).await;
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        match bind_one(address).await {
            Ok(bound) => return Ok(bound),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn bind_one(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
