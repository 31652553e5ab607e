//! A JSON-RPC client of one node. It calls methods and, on a persistent connection, receives
//! notifications.
//!
//! Knows JSON-RPC and its transports, but no methods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::transport::{NodeConnection, TransportError, post};
use crate::options::{ClientAccess, NodeEndpoint};

/// Longest time to wait for an answer. A node with the default limits answers or fails sooner.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most notifications that wait to be printed; further ones are dropped.
const NOTIFICATIONS_MAX: usize = 1024;

/// A call without a result.
#[derive(Debug, thiserror::Error)]
pub enum NodeCallError {
    /// The node answered with an error.
    #[error("{message} ({code})")]
    Refused {
        /// The JSON-RPC error code.
        code: i64,
        /// The message of the node.
        message: String,
        /// The member `data` of the error.
        data: Option<Value>,
    },
    /// The node cannot be reached.
    #[error("cannot reach the node at {endpoint}: {reason}")]
    Transport {
        /// The endpoint.
        endpoint: String,
        /// The fault.
        reason: TransportError,
    },
}

/// A message from the node: an answer, which has an `id`, or a notification.
#[derive(Deserialize)]
struct NodeMessage {
    id: Option<Value>,
    result: Option<Box<RawValue>>,
    error: Option<ErrorMember>,
    params: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ErrorMember {
    code: i64,
    message: String,
    data: Option<Value>,
}

/// The calls that wait for an answer, by their id.
type PendingCalls = Arc<Mutex<HashMap<u64, oneshot::Sender<NodeMessage>>>>;

/// The connection of the client to the node.
enum ClientTransport {
    /// HTTP, with one connection for each call.
    Http { uri: Uri, access: ClientAccess },
    /// One persistent connection, which a task of its own serves.
    Persistent {
        outgoing: mpsc::Sender<String>,
        pending: PendingCalls,
    },
}

/// A client of one node.
pub(super) struct NodeClient {
    endpoint: String,
    transport: ClientTransport,
    next_id: u64,
    /// The `params` of each notification.
    notifications: Option<mpsc::Receiver<Box<RawValue>>>,
}

impl NodeClient {
    /// Creates a client. Connects to the node unless the transport is HTTP.
    pub(super) async fn connect(
        endpoint: &NodeEndpoint,
        access: &ClientAccess,
    ) -> Result<Self, NodeCallError> {
        let name = endpoint.to_string();
        let (transport, notifications) = match endpoint {
            NodeEndpoint::Http(uri) => {
                let (uri, access) = (uri.clone(), access.clone());
                (ClientTransport::Http { uri, access }, None)
            }
            NodeEndpoint::Ipc(_) | NodeEndpoint::Ws(_) => {
                let connected = timeout(CONNECT_TIMEOUT, NodeConnection::connect(endpoint, access)).await;
                let connection = connected
                    .unwrap_or_else(|_| Err(TransportError::TimedOut(CONNECT_TIMEOUT)))
                    .map_err(|reason| NodeCallError::Transport {
                        endpoint: name.clone(),
                        reason,
                    })?;
                let (outgoing, messages) = mpsc::channel(1);
                let (sender, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
                let pending = PendingCalls::default();
                tokio::spawn(serve_connection(
                    connection,
                    messages,
                    Arc::clone(&pending),
                    sender,
                ));
                (
                    ClientTransport::Persistent { outgoing, pending },
                    Some(notifications),
                )
            }
        };
        Ok(Self {
            endpoint: name,
            transport,
            next_id: 1,
            notifications,
        })
    }

    /// Takes the receiver of notifications. `None` over HTTP, and from the second call on.
    pub(super) const fn take_notifications(&mut self) -> Option<mpsc::Receiver<Box<RawValue>>> {
        self.notifications.take()
    }

    /// Calls `method`. Returns the JSON text of the result.
    pub(super) async fn call(
        &mut self,
        method: &str,
        params: &[Value],
    ) -> Result<Box<RawValue>, NodeCallError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = timeout(ANSWER_TIMEOUT, self.exchange(id, request.to_string())).await;
        let answer = answer.unwrap_or(Err(TransportError::TimedOut(ANSWER_TIMEOUT)));
        let message = answer.map_err(|reason| NodeCallError::Transport {
            endpoint: self.endpoint.clone(),
            reason,
        })?;
        match (message.error, message.result) {
            (Some(error), _) => Err(NodeCallError::Refused {
                code: error.code,
                message: error.message,
                data: error.data,
            }),
            (None, Some(result)) => Ok(result),
            // A `result` of null is parsed as `None`.
            (None, None) => Ok(RawValue::NULL.to_owned()),
        }
    }

    async fn exchange(&self, id: u64, request: String) -> Result<NodeMessage, TransportError> {
        match &self.transport {
            ClientTransport::Http { uri, access } => {
                let answer = post(uri, access, request).await?;
                parse_message(&answer)
            }
            ClientTransport::Persistent { outgoing, pending } => {
                let (sender, answer) = oneshot::channel();
                lock(pending).insert(id, sender);
                // Both this and the wait fail only if the task of the connection has ended.
                let _ = outgoing.send(request).await;
                answer.await.map_err(|_| TransportError::Closed)
            }
        }
    }
}

fn lock(pending: &PendingCalls) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<NodeMessage>>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse_message(message: &[u8]) -> Result<NodeMessage, TransportError> {
    serde_json::from_slice(message).map_err(|error| TransportError::NotJsonRpc {
        reason: error.to_string(),
        got: String::from_utf8_lossy(&message[..message.len().min(200)]).into_owned(),
    })
}

/// Sends and receives the messages of one connection until it ends. Calls that are still pending
/// then fail.
async fn serve_connection(
    mut connection: NodeConnection,
    mut messages: mpsc::Receiver<String>,
    pending: PendingCalls,
    notifications: mpsc::Sender<Box<RawValue>>,
) {
    loop {
        tokio::select! {
            message = messages.recv() => {
                let Some(message) = message else { break };
                if connection.send(message).await.is_err() {
                    break;
                }
            }
            message = connection.receive() => {
                let Ok(Some(message)) = message else { break };
                let Ok(message) = parse_message(&message) else { continue };
                match message.id.as_ref().and_then(Value::as_u64) {
                    Some(id) => {
                        if let Some(sender) = lock(&pending).remove(&id) {
                            let _ = sender.send(message);
                        }
                    }
                    None => {
                        if let Some(params) = message.params {
                            let _ = notifications.try_send(params);
                        }
                    }
                }
            }
        }
    }
    messages.close();
    lock(&pending).clear();
}
