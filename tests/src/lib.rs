//! Starts real nodes and speaks to them as strangers do: over sockets, signals and files.
//!
//! Knows the binaries of node and miner, their command lines and words, and the interface
//! document; links none of their packages but `ethash`, with which the outside miner of the
//! tests searches. The tests are in `tests/vnode` and `tests/miner`, the clients of other people
//! in `clients`.
//!
//! A harness for tests: what cannot go on panics, with what was got and what was expected.

#![cfg(unix)]

pub mod binary;
pub mod call;
pub mod chain;
pub mod clients;
pub mod contract;
pub mod http;
pub mod ipc;
pub mod ledger;
pub mod miner;
pub mod process;
pub mod quantity;
pub mod rig;
pub mod wait;
pub mod ws;

pub use binary::{miner_path, vnode_path};
pub use call::{CallError, Caller};
pub use process::{Launch, Vnode};
pub use quantity::{data, quantity, to_quantity};
pub use rig::Rig;
pub use wait::{note, wait_for};
