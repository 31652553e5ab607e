//! The package from outside: connections and discovery over loopback, hostile peers, an independent
//! implementation, and a simulation of many nodes.

use features as _;

mod attacks;
mod devp2p;
mod discovery;
#[path = "../../../store/tests/store/disk.rs"]
#[expect(dead_code, reason = "the tests of the store use more of it")]
mod disk;
mod dns;
mod dns_server;
mod hostile;
mod operators;
mod peers;
#[path = "../../../store/tests/store/power_loss.rs"]
#[expect(dead_code, reason = "the tests of the store use more of it")]
mod power_loss;
mod service_node;
mod simulation;
mod support;
