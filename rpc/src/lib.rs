//! JSON-RPC 2.0: the types on the wire, the table of methods, and the servers.
//!
//! A method is one row of a table: a name and a function ([`Method`]). [`Rpc`]
//! holds the rows and the context they work on. A [`Dispatcher`] answers the methods of
//! some modules: it turns one message into one response. [`server`] moves the bytes.
//!
//! Dispatch is generic over the context. The servers are not: they know a dispatcher by the trait
//! `Answering`. The methods of [`methods::mc`] work on a
//! [`Node`]. This package knows neither consensus rules nor storage: it asks the package `chain`.
//! [`objects`] turns the chain's types into JSON. What a method needs from the rest of the process
//! goes through `control`. [`openrpc`] describes all rows.
//!
//! The modules below import each other without a cycle. The package `house` checks this.

pub mod access;
mod application;
mod backups;
mod block_cache;
mod budget;
mod caller;
mod control;
mod database_stats;
mod decode;
pub mod developer;
mod dispatch;
mod error;
mod ethereum_texts;
mod facts;
mod feeds;
pub mod filters;
mod gate;
pub mod health;
mod ids;
mod indexed;
mod json;
pub mod limits;
pub mod logs_filter;
mod long_calls;
pub mod memory;
mod message;
mod meters;
pub mod methods;
pub mod micro_chains;
pub mod modules;
mod node;
pub mod node_servers;
pub mod objects;
pub mod openrpc;
mod params;
pub mod server;
mod subscriptions;
mod table;
#[cfg(test)]
mod test_node;
mod text;
mod traffic;
pub mod types;
mod wallet_chains;
mod wire_type;
mod wrong_passwords;

pub use application::ApplicationPool;
pub use control::{
    ControlError, ControlFuture, ListenerControl, ListenerError, ListenerRequest, MinerControl,
    NetworkControl, Peer, PeerMeasures, ScsServiceControl, Subnet,
};
pub use database_stats::{DatabaseStats, HeadName, TableSize};
pub use decode::{FromParam, ParamFields};
pub use dispatch::{Dispatcher, Rpc};
pub use error::{RpcError, RpcResult};
pub use facts::{NodeFacts, SyncStatus, SyncedState};
pub use filters::FilterLimits;
pub use limits::Limits;
pub use micro_chains::{MicroChains, ScsNode, ServedChain};
pub use modules::{Modules, NameStyle};
pub use node::{FeeCaps, Node, NodeError, NodeSettings, VnodeSettings};
pub use params::Params;
pub use subscriptions::MessageSubscriptions;
pub use table::Method;
pub use types::{BlockRef, Data, Integer, Quantity};
pub use wallet_chains::WalletChains;
