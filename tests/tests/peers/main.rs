//! Nodes among nodes: real processes over loopback, an independent client, and peers that
//! misbehave.

mod devp2p;
mod hostile;
mod nodes;
mod support;
