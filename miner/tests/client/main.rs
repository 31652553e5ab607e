//! The client against scripted nodes and pools, with the test in the engine's place.

mod getwork;
mod harness;
mod node;
mod pool;
mod stratum;
mod tls;
