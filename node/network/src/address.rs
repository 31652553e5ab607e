//! Kinds of IP addresses, and lists of address ranges (`--netrestrict`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Most ranges in a list.
pub const RANGES_MAX: usize = 256;

/// An IPv4 address that is written as an IPv6 one becomes the former.
pub const fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// Whether `ip` is of this machine or of a local network.
pub const fn is_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// Whether a node can have this address at all.
fn is_usable(ip: IpAddr) -> bool {
    !match ip {
        IpAddr::V4(ip) => {
            ip.is_unspecified()
                || ip.is_broadcast()
                || ip.is_multicast()
                || ip.is_documentation()
                || ip.octets()[0] == 0
                || ip.octets()[0] >= 240
        }
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_multicast() || ip.segments()[..2] == [0x2001, 0x0db8],
    }
}

/// Whether to believe `sender` that a node has the address `ip`. Addresses of a local network are
/// known only inside of it, so others could make this node attack its own network.
pub fn may_tell(sender: IpAddr, ip: IpAddr) -> bool {
    let (sender, ip) = (canonical(sender), canonical(ip));
    is_usable(ip) && (!ip.is_loopback() || sender.is_loopback()) && (!is_local(ip) || is_local(sender))
}

/// The first 24 bits of `ip`: nodes with the same ones count as neighbours.
pub const fn neighbourhood(ip: IpAddr) -> [u8; 3] {
    match canonical(ip) {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            [a, b, c]
        }
        IpAddr::V6(ip) => {
            let [a, b, c, ..] = ip.octets();
            [a, b, c]
        }
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

/// Why a text is not a list of address ranges.
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
        ] {
            assert_eq!(may_tell(ip(sender), ip(told)), expected, "{sender} {told}");
        }
    }

    #[test]
    fn bytes_of_addresses() {
        for text in ["1.2.3.4", "2a00::1", "::"] {
            assert_eq!(from_bytes(&to_bytes(ip(text))), Some(ip(text)));
        }
        assert_eq!(from_bytes(&[]), Some(ip("0.0.0.0")));
        assert_eq!(from_bytes(&[1; 5]), None);
        assert_eq!(neighbourhood(ip("1.2.3.4")), neighbourhood(ip("1.2.3.200")));
        assert_ne!(neighbourhood(ip("1.2.3.4")), neighbourhood(ip("1.2.4.4")));
    }
}
