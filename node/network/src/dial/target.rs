//! The address of a node that the user has named.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use primitives::Enode;

use crate::contact::NodeContact;

/// A node to dial, whose host may be a name. Each dial resolves the name anew, so a node that moves
/// is found again, and a name that does not resolve yet is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialTarget {
    /// Id, address and ports. The address is unspecified if the host is a name.
    pub contact: NodeContact,
    /// The name.
    pub name: Option<Arc<str>>,
}

impl From<NodeContact> for DialTarget {
    fn from(contact: NodeContact) -> Self {
        Self { contact, name: None }
    }
}

impl From<&Enode> for DialTarget {
    fn from(enode: &Enode) -> Self {
        if let Some(contact) = NodeContact::from_enode(enode) {
            return contact.into();
        }
        Self {
            contact: NodeContact {
                id: enode.id,
                ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                udp: enode.discovery_port,
                tcp: enode.port,
            },
            name: Some(enode.host.as_str().into()),
        }
    }
}

/// As an enode URL.
impl fmt::Display for DialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut enode = self.contact.to_enode();
        if let Some(name) = &self.name {
            enode.host = name.to_string();
        }
        enode.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        for (host, is_name) in [("10.0.0.1", false), ("[2a00::1]", false), ("node.example", true)] {
            let text = format!("enode://{}@{host}:30333?discport=30301", "6f".repeat(64));
            let enode: Enode = text.parse().expect("an enode");
            let target = DialTarget::from(&enode);
            assert_eq!(target.name.is_some(), is_name, "{host}");
            assert_eq!(target.contact.ip.is_unspecified(), is_name, "{host}");
            assert_eq!(target.to_string(), text);
        }
    }
}
