//! A client of one node: calls methods, and on a connection that lasts passes on what it is told.
//!
//! Knows JSON-RPC and its transports; knows no methods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::Endpoint;
use super::transport::{Stream, TransportError, post};

/// Time for a node to answer: longer than any node with usual limits takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most notifications that wait to be shown; more are dropped.
const NOTIFICATIONS_MAX: usize = 1024;

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The node answers with an error.
    #[error("{message} ({code})")]
    Refused {
        /// JSON-RPC's code.
        code: i64,
        /// The node's words.
        message: String,
        /// What else it says.
        data: Option<Value>,
    },
    /// The node cannot be asked.
    #[error("cannot ask the node at {endpoint}: {reason}")]
    Transport {
        /// Where.
        endpoint: String,
        /// Why not.
        reason: TransportError,
    },
}

/// The members of a message from the node.
#[derive(Deserialize)]
struct Incoming {
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

/// Who waits for which answer.
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Incoming>>>>;

enum Link {
    /// A connection for each call.
    Http(Uri),
    /// One connection, of which a task reads.
    Lasting {
        outgoing: mpsc::Sender<String>,
        waiting: Waiting,
    },
}

/// A client of one node.
pub(super) struct Client {
    endpoint: String,
    link: Link,
    next_id: u64,
    /// What the node tells of its own accord.
    notifications: Option<mpsc::Receiver<Box<RawValue>>>,
}

impl Client {
    /// Connects, where the transport has connections.
    pub(super) async fn connect(endpoint: &Endpoint) -> Result<Self, CallError> {
        let name = endpoint.to_string();
        let (link, notifications) = match endpoint {
            Endpoint::Http(uri) => (Link::Http(uri.clone()), None),
            Endpoint::Ipc(_) | Endpoint::Ws(_) => {
                let connecting = timeout(CONNECT_TIMEOUT, Stream::connect(endpoint)).await;
                let stream = connecting
                    .unwrap_or_else(|_| Err(TransportError::TimedOut(CONNECT_TIMEOUT)))
                    .map_err(|reason| CallError::Transport {
                        endpoint: name.clone(),
                        reason,
                    })?;
                let (outgoing, messages) = mpsc::channel(1);
                let (told, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
                let waiting = Waiting::default();
                tokio::spawn(run(stream, messages, Arc::clone(&waiting), told));
                (Link::Lasting { outgoing, waiting }, Some(notifications))
            }
        };
        Ok(Self {
            endpoint: name,
            link,
            next_id: 1,
            notifications,
        })
    }

    /// What the node tells of its own accord; once.
    pub(super) fn take_notifications(&mut self) -> Option<mpsc::Receiver<Box<RawValue>>> {
        self.notifications.take()
    }

    /// Calls `method`; gives the text of the result.
    pub(super) async fn call(&mut self, method: &str, params: &[Value]) -> Result<Box<RawValue>, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answered = timeout(ANSWER_TIMEOUT, self.exchange(id, request.to_string())).await;
        let answered = answered.unwrap_or(Err(TransportError::TimedOut(ANSWER_TIMEOUT)));
        let incoming = answered.map_err(|reason| CallError::Transport {
            endpoint: self.endpoint.clone(),
            reason,
        })?;
        match (incoming.error, incoming.result) {
            (Some(error), _) => Err(CallError::Refused {
                code: error.code,
                message: error.message,
                data: error.data,
            }),
            (None, Some(result)) => Ok(result),
            // A result of null reads as none.
            (None, None) => Ok(RawValue::NULL.to_owned()),
        }
    }

    async fn exchange(&self, id: u64, request: String) -> Result<Incoming, TransportError> {
        match &self.link {
            Link::Http(uri) => {
                let answer = post(uri, request).await?;
                read(&answer)
            }
            Link::Lasting { outgoing, waiting } => {
                let (sender, answer) = oneshot::channel();
                lock(waiting).insert(id, sender);
                // Either fails only when the task that reads has ended.
                let _ = outgoing.send(request).await;
                answer.await.map_err(|_| TransportError::Closed)
            }
        }
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Incoming>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(message: &[u8]) -> Result<Incoming, TransportError> {
    serde_json::from_slice(message).map_err(|error| TransportError::NotJsonRpc {
        reason: error.to_string(),
        got: String::from_utf8_lossy(&message[..message.len().min(200)]).into_owned(),
    })
}

/// Moves messages of one connection until it ends; then nobody waits any more.
async fn run(
    mut stream: Stream,
    mut messages: mpsc::Receiver<String>,
    waiting: Waiting,
    told: mpsc::Sender<Box<RawValue>>,
) {
    loop {
        tokio::select! {
            message = messages.recv() => {
                let Some(message) = message else { break };
                if stream.send(message).await.is_err() {
                    break;
                }
            }
            message = stream.receive() => {
                let Ok(Some(message)) = message else { break };
                let Ok(incoming) = read(&message) else { continue };
                match incoming.id.as_ref().and_then(Value::as_u64) {
                    Some(id) => {
                        if let Some(sender) = lock(&waiting).remove(&id) {
                            let _ = sender.send(incoming);
                        }
                    }
                    None => {
                        if let Some(params) = incoming.params {
                            let _ = told.try_send(params);
                        }
                    }
                }
            }
        }
    }
    messages.close();
    lock(&waiting).clear();
}
