//! Starts the servers of a base-chain node.
//!
//! The servers are generic, and code that is generic is compiled where it is used. So it is used
//! here, where all is optimised, and not in the package that puts the node together.

use std::path::Path;
use std::sync::Arc;

use crate::dispatch::Dispatcher;
use crate::node::Node;
use crate::server::http::{self, HttpOptions, SharedWs};
use crate::server::ipc::{self, IpcServer};
use crate::server::ws::{self, WsOptions};
use crate::server::{ServeError, TcpServer};

/// Starts an HTTP server, see [`http::start_with_ws`].
///
/// # Errors
/// If the address cannot be found or listened on.
pub async fn start_http(
    dispatcher: Arc<Dispatcher<Node>>,
    options: &HttpOptions,
    ws: Option<SharedWs<Node>>,
) -> Result<TcpServer, ServeError> {
    http::start_with_ws(dispatcher, options, ws).await
}

/// Starts a WebSocket server, see [`ws::start`].
///
/// # Errors
/// If the address cannot be found or listened on.
pub async fn start_ws(
    dispatcher: Arc<Dispatcher<Node>>,
    options: &WsOptions,
) -> Result<TcpServer, ServeError> {
    ws::start(dispatcher, options).await
}

/// Starts the server of the local socket, see [`ipc::start`].
///
/// # Errors
/// If the path is in use, if it is not a socket, or if the socket cannot be made.
pub fn start_ipc(dispatcher: Arc<Dispatcher<Node>>, path: &Path) -> Result<IpcServer, ServeError> {
    ipc::start(dispatcher, path)
}
