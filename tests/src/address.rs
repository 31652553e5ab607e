//! Addresses for programs that cannot choose a free port themselves.

use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Whether this machine has IPv6, at least its loopback address. A test that needs it and does not
/// find it says so.
pub fn has_ipv6() -> bool {
    let is_there = TcpListener::bind("[::1]:0").is_ok();
    if !is_there {
        eprintln!("skipped: this machine has no IPv6");
    }
    is_there
}

/// The ports that [`free_port`] gives. Linux gives a port of 32,768 to 60,999 to whoever connects
/// or asks for any port. One of those can be taken while a program that had it starts again.
const PORTS: Range<u16> = 12_000..22_000;

/// A port of this machine that nobody listens on. A test process gives each port once.
///
/// # Panics
/// If none is free.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Other test processes begin elsewhere.
    let first = std::process::id().wrapping_mul(977);
    let port = |_| {
        let given = u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
        let place = first.wrapping_add(given) % count;
        PORTS.start + u16::try_from(place).expect("below the number of ports")
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..count).map(port).find(is_free).expect("a free port")
}

/// An address of this machine where nobody listens: see [`free_port`].
///
/// # Panics
/// If no port is free.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}
