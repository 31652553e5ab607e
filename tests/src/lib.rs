//! Helpers for end-to-end tests: they start real nodes and miners, and reach them only by sockets,
//! signals and files.
//!
//! This library knows the binaries `vnode`, `scs` and `miner`, their options and output, the
//! JSON-RPC interface, and the program `haproxy`. Of the workspace it uses only the package
//! `ethash`, to search for solutions. The tests are in `tests/vnode` and `tests/miner`; the scripts
//! for client libraries are in `clients`.
//!
//! A helper that cannot go on panics; the message says what it got and what it expected.

#![cfg(unix)]

pub mod address;
pub mod balancer;
pub mod binary;
pub mod browser;
pub mod call;
pub mod chain;
pub mod clients;
pub mod contract;
pub mod http;
pub mod injection;
pub mod ipc;
pub mod ledger;
pub mod link;
pub mod microchain;
pub mod miner;
pub mod process;
pub mod quantity;
pub mod scs;
pub mod stratum;
pub mod tls;
pub mod vnode;
pub mod wait;
pub mod work;
pub mod ws;

pub use binary::{miner_path, scs_path, vnode_path};
pub use call::{Caller, RpcCallError};
pub use miner::MinerProcess;
pub use quantity::{assert_same_members, data, quantity, to_quantity};
pub use vnode::{Launch, Vnode};
pub use wait::{note, wait_for};
