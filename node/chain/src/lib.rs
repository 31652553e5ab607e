//! The base chain: rules, state, import, pool, work desk.
//!
//! | question | module |
//! |---|---|
//! | what are this network's rules? | [`spec`] |
//! | is this header allowed? | [`rules`] |
//! | is this body what the header says? | [`rules::body`] |
//! | what does a transaction do? | [`evm`] over [`state`] |
//! | how does a block get in? | [`import`], driven by the writer of [`chain`] |
//! | what waits to be mined? | [`pool`], [`mining`] |
//! | what does the chain say at a height? | [`view`], [`call`] |
//! | which logs are there? | [`logs`] |
//! | what did a transaction do, step by step? | [`trace`] |
//!
//! Knows no JSON, no sockets, no GPUs.

pub mod call;
pub mod chain;
pub mod check;
mod clock;
pub mod evm;
pub mod genesis;
pub mod import;
pub mod logs;
pub mod mining;
mod parallel;
pub mod path;
pub mod pool;
pub mod rules;
pub mod spec;
pub mod state;
pub mod stream;
pub mod trace;
pub mod trie;
pub mod view;

pub use chain::{Chain, ChainConfig};
pub use clock::unix_now;
pub use spec::ChainSpec;
pub use view::View;
