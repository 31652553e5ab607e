//! Addresses for programs that cannot choose a free port themselves.

use std::net::{SocketAddr, TcpListener};

/// Whether this machine has IPv6, at least its loopback address. A test that needs it and does not
/// find it says so.
pub fn has_ipv6() -> bool {
    let is_there = TcpListener::bind("[::1]:0").is_ok();
    if !is_there {
        eprintln!("skipped: this machine has no IPv6");
    }
    is_there
}

/// An address of this machine where nobody listens.
///
/// # Panics
/// If the system has no free port.
pub fn free_address() -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("an address")
}
