//! The service from outside: a VNODE's side on a node in memory, the client of this package, and
//! clients that speak the messages themselves.

mod broadcasts;
mod calls;
mod client;
mod common;
mod handshakes;
mod hostile;
mod notices;
