//! The package from outside: connections and discovery over loopback, hostile peers, an independent
//! implementation, and a simulation of many nodes.

mod attacks;
mod devp2p;
mod discovery;
mod dns;
mod dns_server;
mod hostile;
mod operators;
mod peers;
mod service_node;
mod simulation;
mod support;
