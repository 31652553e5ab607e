//! The base chain: rules, state, import, pool, work desk.
//!
//! | question | module |
//! |---|---|
//! | what are this network's rules? | [`spec`] |
//! | is this header allowed? | [`rules`] |
//! | is this body what the header says? | [`body`] |
//! | what does a transaction do? | [`execute`] on [`evm`] and [`precompiles`] over [`state`] |
//! | how does a block get in? | [`import`], driven by the writer of [`chain`] |
//! | what waits to be mined? | [`pool`], [`build`], [`desk`] |
//! | what does the chain say at a height? | [`view`], [`call`] |
//! | which logs are there? | [`logs`] |
//! | what did a transaction do, step by step? | [`trace`] |
//!
//! Knows no JSON, no sockets, no GPUs.

mod bad;
pub mod body;
pub mod build;
pub mod bulk;
pub mod call;
pub mod chain;
pub mod check;
mod deadline;
pub mod desk;
pub mod difficulty;
pub mod evm;
pub mod execute;
pub mod flat;
pub mod genesis;
mod handler;
pub mod import;
mod keeper;
pub mod logs;
pub mod pool;
pub mod precompiles;
mod quick;
pub mod record;
mod refund;
pub mod rules;
pub mod spec;
pub mod state;
pub mod stream;
pub mod trace;
pub mod trie;
pub mod view;

pub use chain::{Chain, ChainConfig};
pub use spec::ChainSpec;
pub use view::View;
