//! Lists of nodes that are published by DNS, signed by whoever keeps the list (EIP-1459).
//!
//! A list is a tree of TXT records: a signed root names the first entry, and each entry is named
//! by its hash. [`DnsListWalk`] says which name to ask for next and takes the answers. It knows no
//! sockets and no clock; the lookups themselves are in `service/dns.rs`.

mod entry;
mod walk;

pub use entry::{DnsEntryError, DnsListUrl};
pub use walk::{
    DNS_DEPTH_MAX, DNS_ENTRIES_MAX, DNS_ROOT_INTERVAL, DnsFound, DnsListWalk, DnsLookupError, DnsWalkError,
};

/// The key that signs the lists of Ethereum Classic and of Mordor. Source: docs/etc.md, 2.
const CLASSIC_KEY: &str = "AJE62Q4DUX4QMMXEHCSSCSC65TDHZYSMONSD64P3WULVLSF6MRQ3K";

/// The published lists of the network with this id. None are known of most networks.
pub fn dns_lists(network_id: u64) -> Vec<DnsListUrl> {
    let domain = match network_id {
        1 => "all.classic.etcdisco.net",
        7 => "all.mordor.etcdisco.net",
        _ => return Vec::new(),
    };
    format!("enrtree://{CLASSIC_KEY}@{domain}")
        .parse()
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_with_lists() {
        for (network_id, expected) in [(1, 1), (7, 1), (99, 0), (101, 0), (100, 0)] {
            let lists = dns_lists(network_id);
            assert_eq!(lists.len(), expected, "network {network_id}");
        }
        assert_eq!(dns_lists(1)[0].domain(), "all.classic.etcdisco.net");
        assert_eq!(dns_lists(7)[0].domain(), "all.mordor.etcdisco.net");
    }
}
