//! The contact of a node: its id, address and ports.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use primitives::{B256, B512, Enode, keccak256};

use crate::address;

/// A node and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeContact {
    /// The public key.
    pub id: B512,
    /// The address.
    pub ip: IpAddr,
    /// Port of discovery.
    pub udp: u16,
    /// Port for connections; 0 if it is not known.
    pub tcp: u16,
}

impl NodeContact {
    /// The contact in an enode URL. `None` if its host is a name and not an address.
    pub fn from_enode(enode: &Enode) -> Option<Self> {
        let host = enode.host.trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            id: enode.id,
            ip: address::canonical(host.parse().ok()?),
            udp: enode.discovery_port,
            tcp: enode.port,
        })
    }

    /// The enode URL.
    pub fn to_enode(&self) -> Enode {
        let host = match self.ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        Enode {
            id: self.id,
            host,
            port: self.tcp,
            discovery_port: self.udp,
            query: Vec::new(),
        }
    }

    /// The address that its packets come from.
    pub const fn udp_address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.udp)
    }

    /// The address at which it listens.
    pub const fn tcp_address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.tcp)
    }

    /// The hash of the id, by which distances are measured.
    pub fn hash(&self) -> B256 {
        keccak256(self.id)
    }
}

impl fmt::Display for NodeContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_enode().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enodes_and_contacts() {
        for rest in [
            "10.3.58.6:30333",
            "10.3.58.6:30333?discport=30301",
            "[2a00::1]:30333",
        ] {
            let text = format!("enode://{}@{rest}", "6f".repeat(64));
            let enode: Enode = text.parse().expect("an enode");
            let contact = NodeContact::from_enode(&enode).expect("an address");
            assert_eq!(contact.to_string(), text);
        }
        let name: Enode = format!("enode://{}@node.example:1", "6f".repeat(64))
            .parse()
            .expect("an enode");
        assert_eq!(NodeContact::from_enode(&name), None);
    }
}
