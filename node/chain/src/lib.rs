//! The base chain.
//!
//! Knows rules, state, the pool and the work desk; knows no JSON, no sockets, no GPUs.

pub mod evm;
pub mod execute;
pub mod rules;
pub mod spec;
pub mod state;
pub mod trie;
