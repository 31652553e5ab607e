//! The addresses of attackers, witnesses and nodes on this machine.
//!
//! Some bounds hold for each address and do not hold for local ones. So a program that may do it
//! moves into a network of its own, whose loopback has addresses as in the Internet. No packet
//! leaves it. Elsewhere all addresses are those of loopback.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// The range of the addresses in a network of its own.
const PUBLIC: [u8; 2] = [45, 33];
/// Networks of attackers, and addresses in each.
const NETWORKS: u32 = 200;
const HOSTS: u32 = 250;

/// The addresses of attackers, witnesses and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttackSources {
    /// Whether the addresses look like those of the Internet.
    pub is_public: bool,
}

impl AttackSources {
    /// All on loopback.
    pub const LOCAL: Self = Self { is_public: false };

    /// Moves the calling thread, and the threads and processes that it starts from now on, into a
    /// network of its own, if that is allowed.
    pub fn new() -> Self {
        if Command::new("ip").arg("-V").output().is_err() {
            return Self::LOCAL;
        }
        // SAFETY: the call changes the network of the calling thread, and touches no memory.
        let is_moved = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        if !is_moved {
            return Self::LOCAL;
        }
        let [a, b] = PUBLIC;
        let ip = |arguments: &str| {
            let run = Command::new("ip").args(arguments.split_whitespace()).status();
            run.is_ok_and(|status| status.success())
        };
        // Loopback is needed in any case: a new network begins without it.
        let has_loopback = ip("link set lo up");
        assert!(has_loopback, "the program `ip` cannot switch loopback on");
        Self {
            is_public: ip(&format!("addr add {a}.{b}.0.1/16 dev lo")),
        }
    }

    const fn address(self, network: u8, host: u8) -> IpAddr {
        let [a, b] = if self.is_public { PUBLIC } else { [127, 0] };
        IpAddr::V4(Ipv4Addr::new(a, b, network, host))
    }

    /// The node that is attacked.
    pub const fn node(self) -> IpAddr {
        self.address(0, 1)
    }

    /// The honest node.
    pub const fn honest(self) -> IpAddr {
        self.address(1, 1)
    }

    /// A witness that has come `visit` times before. A node lets an address in again only after a
    /// while, so each visit has another one.
    pub const fn witness(self, visit: u32) -> IpAddr {
        self.address(2, 1 + (visit % HOSTS) as u8)
    }

    /// The attacker `index`, for `index` below 200 each in another network of 24 bits.
    pub const fn attacker(self, index: u32) -> IpAddr {
        let network = 10 + index % NETWORKS;
        let host = 1 + index / NETWORKS % HOSTS;
        self.address(network as u8, host as u8)
    }
}

impl Default for AttackSources {
    fn default() -> Self {
        Self::new()
    }
}
