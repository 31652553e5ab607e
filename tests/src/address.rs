//! Addresses for programs that cannot choose a free port themselves.

use std::net::{SocketAddr, TcpListener};

/// An address of this machine where nobody listens.
///
/// # Panics
/// If the system has no free port.
pub fn free_address() -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("an address")
}
