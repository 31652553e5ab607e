//! The list of those who may use the service: ids of SCSs, addresses of machines, or both together.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use daemon::ClientAddress;

use crate::message::ScsId;

/// An entry of the list: an SCS, a machine, or an SCS on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowEntry {
    /// The SCS with this id, from anywhere.
    Id(ScsId),
    /// Everybody at this address.
    Address(IpAddr),
    /// The SCS with this id at this address only.
    IdAt(ScsId, IpAddr),
}

/// A text that is not an entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {0:?}, expected an SCS id (0x and 40 hex digits), an IP address, or ID@ADDRESS")]
pub struct BadAllowEntry(String);

impl FromStr for AllowEntry {
    type Err = BadAllowEntry;

    fn from_str(text: &str) -> Result<Self, BadAllowEntry> {
        let bad = || BadAllowEntry(text.to_owned());
        if let Some((id, address)) = text.split_once('@') {
            return match (id.parse(), address.parse()) {
                (Ok(id), Ok(address)) => Ok(Self::IdAt(id, address)),
                _ => Err(bad()),
            };
        }
        let id = text.parse().map(Self::Id);
        id.or_else(|_| text.parse().map(Self::Address)).map_err(|_| bad())
    }
}

impl fmt::Display for AllowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::IdAt(id, address) => write!(f, "{id}@{address}"),
        }
    }
}

/// The list of those who may use the service. An empty list allows everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<AllowEntry>);

impl AllowList {
    /// A list with these entries.
    pub const fn new(entries: Vec<AllowEntry>) -> Self {
        Self(entries)
    }

    /// Whether a machine may connect.
    pub(super) fn may_connect(&self, client: ClientAddress) -> bool {
        let allows = |entry: &AllowEntry| match entry {
            AllowEntry::Id(_) => true,
            AllowEntry::Address(address) | AllowEntry::IdAt(_, address) => client == (*address).into(),
        };
        self.0.is_empty() || self.0.iter().any(allows)
    }

    /// Whether an SCS on a machine may shake hands.
    pub(super) fn may_shake_hands(&self, id: &ScsId, client: ClientAddress) -> bool {
        let allows = |entry: &AllowEntry| match entry {
            AllowEntry::Id(allowed) => allowed == id,
            AllowEntry::Address(address) => client == (*address).into(),
            AllowEntry::IdAt(allowed, address) => allowed == id && client == (*address).into(),
        };
        self.0.is_empty() || self.0.iter().any(allows)
    }

    /// Whether a machine may send without having shaken hands.
    pub(super) fn may_send(&self, client: ClientAddress) -> bool {
        let allows =
            |entry: &AllowEntry| matches!(entry, AllowEntry::Address(address) if client == (*address).into());
        self.0.is_empty() || self.0.iter().any(allows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0x1111111111111111111111111111111111111111";

    fn list(entries: &[&str]) -> AllowList {
        let entries = entries.iter().map(|entry| entry.parse().expect("an entry"));
        AllowList::new(entries.collect())
    }

    #[test]
    fn entries_are_read_and_shown() {
        for text in [ID, "10.0.0.1", "2001:db8::1", &format!("{ID}@10.0.0.1")] {
            let entry: AllowEntry = text.parse().expect("an entry");
            assert_eq!(entry.to_string(), text);
        }
        for bad in ["", "0x12", "host", &format!("{ID}@"), "@10.0.0.1"] {
            assert!(bad.parse::<AllowEntry>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_allows_what_it_names() {
        let id: ScsId = ID.parse().expect("an id");
        let other: ScsId = ID.replace('1', "2").parse().expect("an id");
        let client = |text: &str| ClientAddress::from(text.parse::<IpAddr>().expect("an address"));
        let clients = ["10.0.0.1", "10.0.0.2"].map(client);
        let check = |list: &AllowList, expected: [[bool; 4]; 2]| {
            let got = clients.map(|client| {
                [
                    list.may_connect(client),
                    list.may_shake_hands(&id, client),
                    list.may_shake_hands(&other, client),
                    list.may_send(client),
                ]
            });
            assert_eq!(got, expected, "{list:?}");
        };
        check(&list(&[]), [[true; 4]; 2]);
        check(&list(&[ID]), [[true, true, false, false]; 2]);
        check(&list(&["10.0.0.1"]), [[true; 4], [false; 4]]);
        let pinned = format!("{ID}@10.0.0.1");
        check(&list(&[&pinned]), [[true, true, false, false], [false; 4]]);
    }
}
