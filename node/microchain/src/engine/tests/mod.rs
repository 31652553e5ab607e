//! Engines on a bus, with a chain base in memory and a clock of their own.

mod base_chain;
mod blocks;
mod faults;
mod flushes;
mod money;
mod world;
