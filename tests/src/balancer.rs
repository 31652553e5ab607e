//! A balancer before three nodes: the program `haproxy` with `packaging/haproxy/haproxy.cfg`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use crate::address::free_address;
use crate::binary::workspace;
use crate::call::Caller;
use crate::http;
use crate::process::ChildProcess;
use crate::wait::{note, wait_for};

/// The names of the servers in the configuration.
const SERVERS: [&str; 3] = ["one", "two", "three"];

/// A running balancer. Killed when dropped.
#[derive(Debug)]
pub struct Balancer {
    /// Prints its log if the test fails.
    _process: ChildProcess,
    address: SocketAddr,
    statistics: SocketAddr,
}

impl Balancer {
    /// Starts a balancer before these nodes, and waits until it listens. If the program is missing,
    /// prints this and returns `None`.
    ///
    /// # Panics
    /// If the program is missing and `REQUIRE_CLIENTS` is set, or if the configuration is refused.
    pub fn start(nodes: [SocketAddr; 3]) -> Option<Self> {
        let (address, statistics) = (free_address(), free_address());
        let mut command = Command::new("haproxy");
        if let Err(error) = Command::new("haproxy").arg("-v").output() {
            let required = std::env::var_os("REQUIRE_CLIENTS").is_some();
            assert!(!required, "haproxy: {error} (Debian: haproxy)");
            note(&format!("skipped, haproxy: {error} (Debian: haproxy)"));
            return None;
        }
        command
            .arg("-db")
            .arg("-f")
            .arg(workspace().join("packaging/haproxy/haproxy.cfg"))
            .env("VNODE_LISTEN", address.to_string())
            .env("VNODE_STATISTICS", statistics.to_string())
            .env("VNODE_ONE", nodes[0].to_string())
            .env("VNODE_TWO", nodes[1].to_string())
            .env("VNODE_THREE", nodes[2].to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = ChildProcess::start(command, "haproxy".to_owned());
        wait_for("the balancer", || {
            if let Some(status) = process.exit_status() {
                panic!("haproxy ended with {status}: {}", process.stderr());
            }
            http::get(statistics, "/;csv").ok()
        });
        Some(Self {
            _process: process,
            address,
            statistics,
        })
    }

    /// The address for clients.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a client, of this machine's loopback.
    pub const fn source(client: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 0, 1, client))
    }

    /// A client with an address of its own.
    pub const fn client(&self, client: u8) -> Caller {
        Caller::from_source(Self::source(client), self.address)
    }

    /// Which of the three servers are in, as `backend` sees it: `ready` or `alive`.
    ///
    /// # Panics
    /// If the statistics do not name them.
    pub fn servers_in(&self, backend: &str) -> [bool; 3] {
        let answer = http::get(self.statistics, "/;csv").expect("the statistics are served");
        let mut lines = answer.body.lines();
        let titles = lines.next().unwrap_or_default().trim_start_matches("# ");
        let status = titles.split(',').position(|title| title == "status");
        let status = status.unwrap_or_else(|| panic!("no status in {titles}"));
        let states: BTreeMap<&str, bool> = lines
            .filter_map(|line| {
                let fields: Vec<_> = line.split(',').collect();
                let is_up = fields.get(status)?.starts_with("UP");
                (fields[0] == backend).then_some((fields[1], is_up))
            })
            .collect();
        let is_in = |name: &str| {
            *states
                .get(name)
                .unwrap_or_else(|| panic!("no {name} in {states:?}"))
        };
        SERVERS.map(is_in)
    }
}
