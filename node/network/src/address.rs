//! Kinds of IP addresses, and lists of address ranges (`--netrestrict`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

pub(crate) const RANGES_MAX: usize = 256;

/// An IPv4 address that is written as an IPv6 one becomes the former.
pub(crate) const fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// The address of this machine's loopback in place of an unspecified one.
pub(crate) const fn or_loopback(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    }
}

/// The form of `address` that a socket of IPv6, or of IPv4, can send to.
pub(crate) const fn for_socket(address: SocketAddr, is_v6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if is_v6 => SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), address.port()),
        _ => address,
    }
}

/// The address without the form that IPv4 addresses have on a socket of IPv6.
pub(crate) const fn canonical_socket(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(canonical(address.ip()), address.port())
}

/// Whether `ip` is of this machine or of a local network.
pub(crate) const fn is_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => {
            // fec0::/10 were the local addresses of sites before fc00::/7.
            let is_of_site = ip.segments()[0] & 0xffc0 == 0xfec0;
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local() || is_of_site
        }
    }
}

/// Whether `ip` means a host only inside of a network: it is local, or a provider shares it among
/// its customers (RFC 6598).
const fn is_inside(ip: IpAddr) -> bool {
    let is_shared = match ip.to_canonical() {
        IpAddr::V4(ip) => matches!(ip.octets(), [100, 64..=127, ..]),
        IpAddr::V6(_) => false,
    };
    is_shared || is_local(ip)
}

/// Whether a node can have this address at all. Source: the IANA registries of special-purpose
/// addresses (RFC 6890).
const fn is_usable(ip: IpAddr) -> bool {
    !match ip {
        IpAddr::V4(ip) => {
            ip.is_multicast()
                || ip.is_documentation()
                || matches!(
                    ip.octets(),
                    [0 | 240.., ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..]
                )
        }
        // ::/96, 64:ff9b::/32, 2001::/32 and 2002::/16 contain an IPv4 address, which may be local.
        IpAddr::V6(ip) => {
            ip.is_multicast()
                || match ip.segments() {
                    [0, 0, 0, 0, 0, 0, ..] => !ip.is_loopback(),
                    [0x0064, 0xff9b, ..] | [0x0100, 0, 0, ..] | [0x2001, 0x0db8, ..] | [0x2002, ..] => true,
                    // Protocol assignments: Teredo, benchmarks, ORCHID.
                    [0x2001, second, ..] => second < 0x0200,
                    _ => false,
                }
        }
    }
}

/// Whether `ip` means the same host everywhere.
pub(crate) const fn is_public(ip: IpAddr) -> bool {
    let ip = canonical(ip);
    is_usable(ip) && !is_inside(ip)
}

/// Whether to believe `sender` that a node has the address `ip`. Addresses of a local network are
/// known only inside of it, so others could make this node attack its own network.
pub(crate) const fn may_tell(sender: IpAddr, ip: IpAddr) -> bool {
    let (sender, ip) = (canonical(sender), canonical(ip));
    is_usable(ip) && (!ip.is_loopback() || sender.is_loopback()) && (!is_inside(ip) || is_inside(sender))
}

/// Bits that name the neighbourhood of an IPv4 address.
const NEIGHBOURHOOD_BITS_V4: u32 = 24;
/// Bits that name the neighbourhood of an IPv6 address: those of a site (RFC 6177).
const NEIGHBOURHOOD_BITS_V6: u32 = 48;
/// Bits that name an IPv6 host. A host usually has a whole network of this size.
const HOST_BITS_V6: u32 = 64;

const fn v6_front(ip: Ipv6Addr, bits: u32) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - bits))))
}

/// The host that `ip` is counted as: one IPv4 address, or one IPv6 network of 64 bits.
pub(crate) const fn host(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => v6_front(ip, HOST_BITS_V6),
    }
}

/// Addresses that one owner easily has together: those with the same first 24 bits (IPv4) or 48
/// bits (IPv6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Neighbourhood(IpAddr);

impl Neighbourhood {
    /// The neighbourhood of any address.
    pub(crate) const fn of(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let mask = u32::MAX << (32 - NEIGHBOURHOOD_BITS_V4);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) => v6_front(ip, NEIGHBOURHOOD_BITS_V6),
        })
    }

    /// The neighbourhood that limits count. `None` for an address of a local network, because
    /// limits of neighbours do not apply there.
    pub(crate) const fn of_stranger(ip: IpAddr) -> Option<Self> {
        if is_local(ip) { None } else { Some(Self::of(ip)) }
    }
}

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressRange {
    first: IpAddr,
    bits: u8,
}

/// A list of address ranges. Only nodes inside of them are spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRanges(Vec<AddressRange>);

/// A fault of a text that is no list of address ranges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRangeError {
    /// A part does not have the form `ADDRESS/BITS`.
    #[error("address range: got {0:?}, expected ADDRESS/BITS, such as 10.0.0.0/8")]
    Form(String),
    /// The list is too long.
    #[error("address ranges: got {got}, expected at most {RANGES_MAX}")]
    TooMany {
        /// The number of ranges.
        got: usize,
    },
}

fn prefix(ip: IpAddr, bits: u8) -> u128 {
    let (value, width) = match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let dropped = width - u32::from(bits).min(width);
    value.checked_shr(dropped).unwrap_or(0)
}

impl AddressRanges {
    /// Whether `ip` is in one of the ranges.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = canonical(ip);
        self.0.iter().any(|range| {
            range.first.is_ipv4() == ip.is_ipv4() && prefix(range.first, range.bits) == prefix(ip, range.bits)
        })
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let read = || {
            let (ip, bits) = text.split_once('/')?;
            let first: IpAddr = ip.parse().ok()?;
            let is_number = bits.bytes().all(|digit| digit.is_ascii_digit());
            let bits: u8 = bits.parse().ok().filter(|_| is_number)?;
            let width = if first.is_ipv4() { 32 } else { 128 };
            (bits <= width).then_some(Self { first, bits })
        };
        read().ok_or_else(|| AddressRangeError::Form(text.to_owned()))
    }
}

/// Reads ranges with commas between them. Spaces around them are allowed.
impl FromStr for AddressRanges {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let parts: Vec<_> = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        if parts.len() > RANGES_MAX {
            return Err(AddressRangeError::TooMany { got: parts.len() });
        }
        if parts.is_empty() {
            return Err(AddressRangeError::Form(text.to_owned()));
        }
        parts
            .into_iter()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for AddressRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, AddressRange { first, bits }) in self.0.iter().enumerate() {
            let mark = if index == 0 { "" } else { "," };
            write!(f, "{mark}{first}/{bits}")?;
        }
        Ok(())
    }
}

/// The address that a packet of discovery has in 4 or 16 bytes. No bytes are the unspecified one.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        0 => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        4 => <[u8; 4]>::try_from(bytes)
            .ok()
            .map(|bytes| Ipv4Addr::from(bytes).into()),
        16 => <[u8; 16]>::try_from(bytes)
            .ok()
            .map(|bytes| canonical(Ipv6Addr::from(bytes).into())),
        _ => None,
    }
}

/// The bytes of [`from_bytes`].
pub(crate) fn to_bytes(ip: IpAddr) -> Vec<u8> {
    match canonical(ip) {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn ranges_contain_addresses() {
        let ranges: AddressRanges = "127.0.0.0/8, 10.1.2.0/24,fe80::/10,0.0.0.7/32"
            .parse()
            .expect("ranges");
        for inside in [
            "127.0.0.1",
            "127.255.0.9",
            "10.1.2.255",
            "fe80::1",
            "::ffff:10.1.2.3",
            "0.0.0.7",
        ] {
            assert!(ranges.contains(ip(inside)), "{inside}");
        }
        for outside in ["128.0.0.1", "10.1.3.0", "2001::1", "0.0.0.8", "::ffff:10.1.3.3"] {
            assert!(!ranges.contains(ip(outside)), "{outside}");
        }
        assert_eq!(ranges.to_string(), "127.0.0.0/8,10.1.2.0/24,fe80::/10,0.0.0.7/32");
        let all: AddressRanges = "0.0.0.0/0".parse().expect("a range");
        assert!(all.contains(ip("200.1.1.1")) && !all.contains(ip("::1")));
        let all: AddressRanges = "::/0".parse().expect("a range");
        assert!(all.contains(ip("2a00::1")));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            ",",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "a/8",
            "10.0.0.0/+8",
            "10.0.0.0/8;",
        ] {
            let error = text.parse::<AddressRanges>().expect_err(text);
            assert!(error.to_string().contains("expected ADDRESS/BITS"), "{error}");
        }
        let many = vec!["10.0.0.0/8"; RANGES_MAX + 1].join(",");
        assert!(many.parse::<AddressRanges>().is_err());
    }

    #[test]
    fn local_addresses_are_told_locally() {
        for (sender, told, expected) in [
            ("52.1.1.1", "53.1.1.1", true),
            ("52.1.1.1", "10.0.0.1", false),
            ("52.1.1.1", "127.0.0.1", false),
            ("10.0.0.2", "10.0.0.1", true),
            ("10.0.0.2", "127.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "0.0.0.0", false),
            ("127.0.0.1", "255.255.255.255", false),
            ("52.1.1.1", "224.0.0.1", false),
            ("::1", "::1", true),
            ("2a00::1", "fe80::1", false),
            ("2a00::1", "fd00::1", false),
            ("2a00::1", "fec0::1", false),
            ("2a00::1", "::", false),
            ("fe80::2", "fe80::1", true),
            ("2a00::1", "2a01::1", true),
            ("2a00::1", "2001:470::1", true),
            ("52.1.1.1", "169.254.1.1", false),
            ("52.1.1.1", "192.168.1.1", false),
            ("52.1.1.1", "100.64.0.1", false),
            ("100.64.0.2", "100.64.0.1", true),
            ("10.0.0.2", "100.64.0.1", true),
            ("52.1.1.1", "100.128.0.1", true),
            ("52.1.1.1", "0.1.2.3", false),
            ("52.1.1.1", "240.0.0.1", false),
            ("52.1.1.1", "192.0.0.8", false),
            ("52.1.1.1", "192.0.2.8", false),
            ("52.1.1.1", "198.19.0.1", false),
            ("52.1.1.1", "::ffff:127.0.0.1", false),
            ("52.1.1.1", "::127.0.0.1", false),
            ("52.1.1.1", "64:ff9b::7f00:1", false),
            ("52.1.1.1", "2002:7f00:1::1", false),
            ("52.1.1.1", "2001:0:1::1", false),
            ("52.1.1.1", "2001:db8::1", false),
            ("52.1.1.1", "ff02::1", false),
        ] {
            assert_eq!(may_tell(ip(sender), ip(told)), expected, "{sender} {told}");
            if !is_inside(ip(sender)) {
                assert_eq!(is_public(ip(told)), expected, "{told}");
            }
        }
    }

    #[test]
    fn bytes_of_addresses() {
        for text in ["1.2.3.4", "2a00::1", "::"] {
            assert_eq!(from_bytes(&to_bytes(ip(text))), Some(ip(text)));
        }
        assert_eq!(from_bytes(&[]), Some(ip("0.0.0.0")));
        assert_eq!(from_bytes(&[1; 5]), None);
    }

    #[test]
    fn hosts_and_neighbourhoods() {
        let same = |one: &str, two: &str| {
            let [one, two] = [ip(one), ip(two)];
            (
                host(one) == host(two),
                Neighbourhood::of(one) == Neighbourhood::of(two),
            )
        };
        assert_eq!(same("1.2.3.4", "::ffff:1.2.3.4"), (true, true));
        assert_eq!(same("1.2.3.4", "1.2.3.200"), (false, true));
        assert_eq!(same("1.2.3.4", "1.2.4.4"), (false, false));
        assert_eq!(same("2a00:1:2:3::1", "2a00:1:2:3:ffff::2"), (true, true));
        assert_eq!(same("2a00:1:2:3::1", "2a00:1:2:4::1"), (false, true));
        assert_eq!(same("2a00:1:2:3::1", "2a00:1:3:3::1"), (false, false));
        assert_eq!(Neighbourhood::of_stranger(ip("192.168.1.1")), None);
        assert_eq!(Neighbourhood::of_stranger(ip("::1")), None);
        assert!(Neighbourhood::of_stranger(ip("100.64.0.1")).is_some());
    }
}
