//! JSON-RPC 2.0: the types on the wire, the table of methods, and the servers.
//!
//! A method is one row of a table: a name and a function ([`table::Method`]). [`dispatch::Rpc`]
//! holds the rows and the context they work on. A [`dispatch::Dispatcher`] answers the methods of
//! some modules: it turns one message into one response. [`server`] moves the bytes.
//!
//! Servers and dispatch are generic over the context. The methods of [`methods::mc`] work on a
//! [`Node`]. This package knows neither consensus rules nor storage: it asks the package `chain`.
//! [`objects`] turns the chain's types into JSON. What a method needs from the rest of the process
//! goes through [`control`]. [`openrpc`] describes all rows.
//!
//! The modules below import each other without a cycle. The package `house` checks this.

pub mod access;
mod block_cache;
mod budget;
mod caller;
pub mod control;
pub mod decode;
pub mod developer;
pub mod dispatch;
pub mod error;
pub mod facts;
mod feeds;
pub mod filters;
mod gate;
pub mod health;
mod ids;
pub mod json;
pub mod limits;
pub mod logs_filter;
mod message;
mod meters;
pub mod methods;
pub mod micro_chains;
pub mod modules;
pub mod node;
pub mod objects;
pub mod openrpc;
pub mod params;
pub mod server;
pub mod subscriptions;
pub mod table;
mod text;
mod traffic;
pub mod types;
pub mod wire_type;
mod wrong_passwords;

pub use control::{
    ControlFuture, ListenerControl, ListenerError, ListenerRequest, MinerControl, NetworkControl, Peer,
    PeerMeasures, ScsServiceControl, Subnet,
};
pub use decode::{FromParam, ParamFields};
pub use dispatch::{Dispatcher, Rpc};
pub use error::{RpcError, RpcResult};
pub use facts::{NodeFacts, SyncStatus};
pub use filters::{FilterLimits, Filters};
pub use json::{Json, JsonOf};
pub use limits::Limits;
pub use micro_chains::{MicroChains, ScsNode, ServedChain};
pub use modules::{Modules, NameStyle};
pub use node::{Node, NodeError, NodeSettings, VnodeSettings};
pub use params::{FromParams, Params};
pub use subscriptions::RpcSession;
pub use table::{InlineError, Method, ReadScope};
pub use types::{BlockRef, Count, Data, Integer, ParamError, Quantity};
