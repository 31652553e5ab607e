//! The server of application chains (SCS): its program, its side of the service, its MicroChains.

mod demo;
mod life;
mod program;
mod stubs;
