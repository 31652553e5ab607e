//! The base chain: rules, state, import, transaction pool, mining work.
//!
//! | question | module |
//! |---|---|
//! | what are this network's rules? | [`spec`] |
//! | what is block 0? | [`genesis`] |
//! | is this header valid? | [`rules`] |
//! | does this body match its header? | [`rules::body`] |
//! | what does a transaction do? | [`evm`], on [`state`] |
//! | how is the state root computed? | [`trie`] |
//! | how is a block imported? | [`import`], called by the writer thread of [`chain`] |
//! | how are blocks read from a file? | [`stream`], [`era1`], [`block_files`] |
//! | which transactions wait to be mined? | [`pool`] |
//! | what do miners work on? | [`mining`] |
//! | what is stored of a height? | [`view`] |
//! | what became of a block? | [`fate`] |
//! | which bodies of the best header chain are missing? | [`header_view`] |
//! | what would a call return? | [`call`] |
//! | what proves an account of a recent block? | [`proof`] |
//! | what proves the result of a call to those who have only the header? | [`witness`] |
//! | what is in the state with this root? | [`recent`] |
//! | how does a reader follow the head? | [`path`] |
//! | what may contract developers change? | [`developer`] |
//! | what is different on an application chain? | [`application`] |
//! | which logs match? | [`logs`] |
//! | what did a transaction do, step by step? | [`trace`] |
//! | is the store sound? | [`check`] |
//! | when does a long query stop early? | [`query_limit`] |
//!
//! This package knows no JSON-RPC, no sockets and no GPUs. Only [`genesis::file`] and
//! [`genesis::record`] know JSON.

mod account_history;
pub mod application;
pub mod block_files;
pub mod call;
pub mod chain;
pub mod check;
mod clock;
pub mod developer;
pub mod era1;
pub mod evm;
pub mod fate;
pub mod fetched_state;
pub mod genesis;
pub mod header_view;
pub mod import;
pub mod logs;
mod measured;
pub mod mining;
pub mod parallel;
pub mod path;
pub mod pool;
pub mod proof;
pub mod query_limit;
pub mod recent;
pub mod rules;
pub mod spec;
pub mod state;
pub mod stream;
pub mod trace;
pub mod trie;
pub mod upgrade;
pub mod upkeep;
pub mod view;
pub mod witness;

pub use chain::{Chain, ChainConfig};
pub use clock::unix_now;
pub use spec::ChainSpec;
pub use view::View;
