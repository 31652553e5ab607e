//! The package from outside: connections and discovery over loopback, and hostile peers.

mod discovery;
mod dns;
mod dns_server;
mod hostile;
mod operators;
mod peers;
mod service_node;
mod support;
