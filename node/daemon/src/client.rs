//! The owner of a connection. Clients share what a server has.

use std::net::IpAddr;

use crate::ClientAddress;

/// A client, as far as a server can tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientId {
    /// Everybody at an address.
    Address(ClientAddress),
    /// One connection on the local socket, by its number.
    Local(u64),
}

impl ClientId {
    /// Whether the client comes over the network. A client at a loopback address does, too.
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::Address(_))
    }
}

impl From<ClientAddress> for ClientId {
    fn from(address: ClientAddress) -> Self {
        Self::Address(address)
    }
}

impl From<IpAddr> for ClientId {
    fn from(ip: IpAddr) -> Self {
        Self::Address(ip.into())
    }
}
