//! The address that the connections of a client are counted by, and whether an address is that of
//! this machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an IPv6 address that name a network. Hosts choose the other bits as they like.
const NETWORK_BITS: u32 = 64;

/// A source of connections: one IPv4 address, or one IPv6 network of 64 bits.
///
/// An IPv6 host usually has a whole such network, so single addresses would say nothing. An IPv4
/// address that is written as an IPv6 address is the same as the IPv4 address. All loopback
/// addresses are one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            address if address.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << (128 - NETWORK_BITS));
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        })
    }
}

/// As `192.0.2.1` or `2001:db8::/64`.
impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/{NETWORK_BITS}"),
        }
    }
}

/// Whether only this machine reaches `host`: an address, in brackets or not, or a name.
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = |ip: IpAddr| ip.is_loopback();
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientAddress {
        address.parse::<IpAddr>().expect("an address").into()
    }

    #[test]
    fn hosts_of_an_ipv6_network_are_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1:2:3"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("2001:db8:0:1::1").to_string(), "2001:db8:0:1::/64");
    }

    #[test]
    fn loopback_is_one_client() {
        assert_eq!(client("127.0.0.1"), client("127.9.9.9"));
        assert_eq!(client("127.0.0.1"), client("::1"));
    }

    #[test]
    fn an_ipv4_address_is_one_client_in_both_notations() {
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1").to_string(), "192.0.2.1");
    }
}
