//! JSON-RPC 2.0: the wire types, the table of methods, and the servers that carry them.
//!
//! A method is one row of a table ([`table::Method`]). [`dispatch::Rpc`] holds the rows and the
//! context they work on; a [`dispatch::Dispatcher`] is a view of it with some modules enabled, and
//! turns one message into one response. [`server`] moves the bytes.
//!
//! Transports and dispatch are generic over the context; the methods of [`methods::mc`] work on a
//! [`Node`]. This package knows neither consensus rules nor storage: it asks the package `chain`,
//! and what it shows is shaped in [`objects`]. What the rest of the process does for a method is
//! asked through [`control`]. [`openrpc`] describes all rows.

pub mod access;
mod block_cache;
mod budget;
pub mod control;
pub mod decode;
pub mod dispatch;
pub mod error;
pub mod facts;
mod feeds;
pub mod filters;
pub mod health;
mod ids;
pub mod json;
pub mod limits;
pub mod logs_filter;
mod message;
pub mod methods;
pub mod modules;
pub mod node;
pub mod objects;
pub mod openrpc;
pub mod params;
pub mod server;
pub mod subscriptions;
pub mod table;
mod traffic;
pub mod types;
pub mod wire_type;

pub use control::{
    Later, ListenerControl, ListenerError, ListenerRequest, MinerControl, NetworkControl, Peer, Subnet,
};
pub use decode::{Fields, FromParam};
pub use dispatch::{Dispatcher, Rpc};
pub use error::{RpcError, RpcResult};
pub use facts::NodeFacts;
pub use filters::{FilterLimits, Filters};
pub use json::{Json, JsonOf};
pub use limits::Limits;
pub use modules::{Dialect, Modules};
pub use node::{Node, NodeError, NodeSettings, VnodeSettings};
pub use params::{FromParams, Params};
pub use subscriptions::Session;
pub use table::{InlineError, Method, ReadScope};
pub use types::{BlockRef, Count, Data, DecodeError, Integer, Quantity};
