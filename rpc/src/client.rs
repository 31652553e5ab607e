//! Which senders of messages count as one client.
//!
//! What the node has is shared by clients. A client of the HTTP and WebSocket servers is an address.
//! On the local channel each connection is a client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    }
}
