//! The base chain: rules, state, import, transaction pool, mining work.
//!
//! | question | module |
//! |---|---|
//! | What are the rules of this network? | [`spec`] |
//! | What is its block 0? | [`genesis`] |
//! | Is this header valid? | [`rules`] |
//! | Does this body match its header? | [`rules::body`] |
//! | What does a transaction do? | [`evm`] on [`state`] |
//! | How is a block imported? | [`import`], called by the writer thread of [`chain`] |
//! | Which transactions wait to be mined? | [`pool`] |
//! | What do miners work on? | [`mining`] |
//! | What did the chain look like at a height? | [`view`], [`call`] |
//! | How does a reader follow the head? | [`path`] |
//! | Which logs match a query? | [`logs`] |
//! | What did a transaction do, step by step? | [`trace`] |
//! | Is the stored chain undamaged? | [`check`] |
//!
//! This package knows no sockets and no GPUs.

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
