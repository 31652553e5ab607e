//! The sender of messages: the client, its connection, and whether it still waits.
//!
//! This module knows no sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon::ClientId;
use futures_util::future::BoxFuture;

use crate::access::Grant;
use crate::traffic::{ClientMemory, TrafficMemory};

/// Knows whether the client of a connection has hung up.
pub(crate) trait HangUp: Send + Sync {
    /// Waits until the client has hung up.
    fn wait(&self) -> BoxFuture<'_, ()>;
}

/// A connection, as the sender of messages.
#[derive(Clone)]
pub(crate) struct RpcCaller {
    pub(crate) client: ClientId,
    /// The number of the connection. No two connections of a process have the same.
    pub(crate) connection: u64,
    /// The client's memory.
    pub(crate) memory: ClientMemory,
    /// Tells when the client hangs up. `None` where the server drops the calls of such a client.
    pub(crate) hang_up: Option<Arc<dyn HangUp>>,
    /// The methods that the client may call, and its rate.
    pub(crate) grant: Grant,
}

impl RpcCaller {
    /// A new connection of `client` over the network.
    pub(crate) fn remote(client: ClientId, traffic: &TrafficMemory) -> Self {
        Self {
            client,
            connection: next_connection(),
            memory: traffic.client(client),
            hang_up: None,
            grant: Grant::default(),
        }
    }

    /// A new connection on the local socket.
    pub(crate) fn local(traffic: &TrafficMemory) -> Self {
        let connection = next_connection();
        let client = ClientId::Local(connection);
        Self {
            client,
            connection,
            memory: traffic.client(client),
            hang_up: None,
            grant: Grant::default(),
        }
    }

    /// The same connection, with what it was granted.
    pub(crate) fn with_grant(&self, grant: Grant) -> Self {
        Self {
            client: self.client,
            connection: self.connection,
            memory: self.memory.clone(),
            hang_up: self.hang_up.clone(),
            grant,
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
pub(crate) use tests::remote_client;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// A client over the network, for tests.
    pub(crate) fn remote_client(last: u8) -> ClientId {
        IpAddr::from([192, 0, 2, last]).into()
    }

    #[test]
    fn every_local_connection_is_a_client() {
        let traffic = TrafficMemory::new(0, 100);
        let (one, two) = (RpcCaller::local(&traffic), RpcCaller::local(&traffic));
        assert_ne!(one.client, two.client);
        let remote = || RpcCaller::remote(remote_client(1), &traffic);
        let (one, two) = (remote(), remote());
        assert_eq!(one.client, two.client);
        assert_ne!(one.connection, two.connection);
    }
}
