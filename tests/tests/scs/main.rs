//! The server of application chains (SCS): its program, its side of the service, its MicroChains.

mod demo;
mod life;
mod program;
mod restart;
mod stage;
mod stubs;
mod tls;
mod token_chain;
mod two_vnodes;
