//! Starts the servers of a base-chain node, and that of an SCS.
//!
//! A dispatcher is generic, and such code is compiled where it is used. So it is used here, and no
//! other package compiles it again.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use daemon::ClientId;
use futures_util::future::BoxFuture;

use crate::dispatch::Dispatcher;
use crate::micro_chains::ScsNode;
use crate::node::Node;
use crate::server::http::{self, HttpOptions, SharedWs};
use crate::server::ipc::{self, IpcServer};
use crate::server::ws::{self, WsOptions};
use crate::server::{ServeError, TcpServer};
use crate::wallet_chains::WalletChains;

/// Starts an HTTP server, see [`http::start_with_ws`].
///
/// # Errors
/// If the address cannot be found or listened on.
pub fn start_http(
    dispatcher: Arc<Dispatcher<Node>>,
    options: &HttpOptions,
    ws: Option<SharedWs<Node>>,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    http::start_with_ws(dispatcher, options, ws)
}

/// Starts a WebSocket server, see [`ws::start`].
///
/// # Errors
/// If the address cannot be found or listened on.
pub fn start_ws(
    dispatcher: Arc<Dispatcher<Node>>,
    options: &WsOptions,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    ws::start(dispatcher, options)
}

/// Starts the server of the local socket, see [`ipc::start`].
///
/// # Errors
/// If the path is in use, if it is not a socket, or if the socket cannot be made.
pub fn start_ipc(dispatcher: Arc<Dispatcher<Node>>, path: &Path) -> Result<IpcServer, ServeError> {
    ipc::start(dispatcher, path)
}

/// Starts an HTTP server of an SCS. Calls at the path of a MicroChain, over HTTP and WebSockets,
/// are answered by the methods of wallets.
///
/// # Errors
/// If the address cannot be found or listened on.
pub fn start_scs_http(
    dispatcher: Arc<Dispatcher<ScsNode>>,
    options: &HttpOptions,
    chains: WalletChains,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    http::start_with_chains(dispatcher, options, chains)
}

/// Answers a message that has come over another server, see [`Dispatcher::handle_remote`].
pub fn answer(
    dispatcher: &Dispatcher<Node>,
    message: Bytes,
    client: ClientId,
) -> BoxFuture<'_, Option<Vec<u8>>> {
    Box::pin(dispatcher.handle_remote(message, client))
}
