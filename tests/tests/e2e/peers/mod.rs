//! Nodes among nodes: real processes over loopback, an independent client, and peers that
//! misbehave.

mod devp2p;
mod floods;
mod halves;
mod hostile;
mod in_process;
mod killed_state;
mod mesh;
mod namespaces;
mod nodes;
mod operators;
mod resume;
mod subnets;
mod support;
mod ten;
mod terminal;
