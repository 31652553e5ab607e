//! The package from outside: connections and discovery over loopback, and hostile peers.

mod discovery;
mod hostile;
mod peers;
mod support;
