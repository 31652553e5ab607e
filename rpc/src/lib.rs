//! JSON-RPC 2.0: the wire types, the table of methods, and the servers that carry them.
//!
//! A method is one row of a table ([`table::Method`]). [`dispatch::Rpc`] holds the rows and the
//! context they work on; a [`dispatch::Dispatcher`] is a view of it with some modules enabled, and
//! turns one message into one response. [`server::http`] and [`server::ipc`] move the bytes.
//!
//! Transports and dispatch are generic over the context; the methods of [`methods::mc`] work on a
//! [`Node`]. This package knows neither consensus rules nor storage: it asks the package `chain`,
//! and what it shows is shaped in [`objects`].

mod budget;
pub mod decode;
pub mod dispatch;
pub mod error;
pub mod limits;
pub mod logs_filter;
mod message;
pub mod methods;
pub mod node;
pub mod objects;
pub mod params;
pub mod server;
pub mod table;
pub mod types;

pub use decode::{Fields, FromParam};
pub use dispatch::{Dispatcher, Rpc};
pub use error::{RpcError, RpcResult};
pub use limits::Limits;
pub use node::{MinerControl, Node};
pub use params::{Dialect, FromParams, Params};
pub use table::{Json, Method, Modules, reply};
pub use types::{BlockRef, Data, DecodeError, Integer, Quantity};
