//! Who sends messages: the client, its connection, and whether it still waits.
//!
//! The node's room is shared by clients. A client of the HTTP and WebSocket servers is an address.
//! On the local channel each connection is a client. This module knows no sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::future::BoxFuture;

use crate::traffic::{ClientMemory, TrafficMemory};

/// A client, as far as the node can tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientId {
    /// The clients at an address. An IPv6 address stands for its network of 64 bits, since whoever
    /// has one address of it has all of them.
    Address(IpAddr),
    /// One connection on the local channel, by its number.
    Local(u64),
}

impl ClientId {
    /// The client that connects from `ip`. All addresses of this machine's loopback are one.
    pub(crate) fn at(ip: IpAddr) -> Self {
        Self::Address(match ip.to_canonical() {
            ip if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) => {
                let network = u128::from(ip) & !u128::from(u64::MAX);
                Ipv6Addr::from(network).into()
            }
            ip => ip,
        })
    }
}

/// Knows whether the client of a connection has hung up.
pub(crate) trait HangUp: Send + Sync {
    /// Waits until the client has hung up.
    fn wait(&self) -> BoxFuture<'_, ()>;
}

/// A connection, as the sender of messages.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The client.
    pub(crate) client: ClientId,
    /// The number of the connection. No two connections of a process have the same.
    pub(crate) connection: u64,
    /// The client's memory.
    pub(crate) memory: ClientMemory,
    /// Tells when the client hangs up. `None` where the server drops the calls of such a client.
    pub(crate) hang_up: Option<Arc<dyn HangUp>>,
}

impl Caller {
    /// A new connection of the client at `ip`.
    pub(crate) fn remote(ip: IpAddr, traffic: &TrafficMemory) -> Self {
        let client = ClientId::at(ip);
        Self {
            client,
            connection: next_connection(),
            memory: traffic.client(client),
            hang_up: None,
        }
    }

    /// A new connection on the local channel.
    pub(crate) fn local(traffic: &TrafficMemory) -> Self {
        let connection = next_connection();
        let client = ClientId::Local(connection);
        Self {
            client,
            connection,
            memory: traffic.client(client),
            hang_up: None,
        }
    }

    /// The same connection, with a way to know when its client hangs up.
    pub(crate) fn with_hang_up(mut self, hang_up: Arc<dyn HangUp>) -> Self {
        self.hang_up = Some(hang_up);
        self
    }

    /// Waits until the client has hung up. Waits for ever if the connection does not tell.
    pub(crate) async fn hung_up(&self) {
        match &self.hang_up {
            Some(hang_up) => hang_up.wait().await,
            None => std::future::pending().await,
        }
    }
}

fn next_connection() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_address() {
        let at = |ip: &str| ClientId::at(ip.parse().expect("an address"));
        assert_eq!(at("127.0.0.1"), at("::1"));
        assert_eq!(at("127.0.0.1"), at("127.9.9.9"));
        assert_eq!(at("10.0.0.1"), at("::ffff:10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        let traffic = TrafficMemory::new(0, 100);
        assert_ne!(Caller::local(&traffic).client, Caller::local(&traffic).client);
    }
}
