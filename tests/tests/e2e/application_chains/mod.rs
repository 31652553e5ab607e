//! The server of application chains (SCS): its program, its side of the service, its MicroChains.

mod demo;
mod liar;
mod life;
mod lying_member;
mod member_faults;
mod program;
mod proven;
mod reorganization;
mod restart;
mod side_by_side;
mod stage;
mod stubs;
mod thief;
mod tls;
mod token_chain;
