//! Which addresses are one client.

use std::net::{IpAddr, Ipv4Addr};

use crate::client::ClientId;

/// The client that connects from `ip`. All addresses of this machine's loopback are one client. So
/// are the addresses of one IPv6 network of 64 bits, because whoever has one of them has all.
pub(super) fn client_at(ip: IpAddr) -> ClientId {
    let number = |ip: Ipv4Addr| u128::from(ip.to_ipv6_mapped());
    ClientId::Address(match ip.to_canonical() {
        ip if ip.is_loopback() => number(Ipv4Addr::LOCALHOST),
        IpAddr::V4(ip) => number(ip),
        IpAddr::V6(ip) => u128::from(ip) & !u128::from(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_address() {
        let at = |ip: &str| client_at(ip.parse().expect("an address"));
        assert_eq!(at("127.0.0.1"), at("::1"));
        assert_eq!(at("127.0.0.1"), at("127.9.9.9"));
        assert_eq!(at("10.0.0.1"), at("::ffff:10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    }
}
