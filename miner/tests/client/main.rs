//! The client against scripted nodes and pools. The test plays the engine, but for `blocked`, which
//! runs the program.

mod blocked;
mod day;
mod getwork;
mod harness;
mod node;
mod pool;
mod stratum;
mod tls;
