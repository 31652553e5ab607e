//! Three nodes behind `haproxy` with `packaging/haproxy/haproxy.cfg`, as
//! docs/guides/several-nodes.md describes it: clients that stay on their nodes, a node that is
//! killed under load, and a node whose head is behind.
//!
//! Each client has an address of its own in 127.0.0.0/8, so this needs Linux.

mod behind;
mod killed;
mod nodes;
