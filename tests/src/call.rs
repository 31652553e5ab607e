//! JSON-RPC calls over HTTP. Each response is checked.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::http::TestHttpClient;

/// The reason why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcCallError {
    /// The node cannot be reached, or its answer is not JSON-RPC.
    Transport(String),
    /// The node answered with an error.
    Refused {
        /// The JSON-RPC error code.
        code: i64,
        /// The message of the node.
        message: String,
    },
}

impl std::fmt::Display for RpcCallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transport(reason) => f.write_str(reason),
            Self::Refused { code, message } => write!(f, "{message} ({code})"),
        }
    }
}

/// A JSON-RPC client of one HTTP endpoint. Threads that share it call one after another.
#[derive(Debug)]
pub struct Caller {
    http: Mutex<TestHttpClient>,
    id: AtomicU64,
}

impl Caller {
    /// Creates a caller of the node at `address`.
    pub const fn new(address: SocketAddr) -> Self {
        Self {
            http: Mutex::new(TestHttpClient::new(address)),
            id: AtomicU64::new(1),
        }
    }

    /// Creates a caller of the node at `address` that connects from the address `source` of this
    /// machine.
    pub const fn from_source(source: IpAddr, address: SocketAddr) -> Self {
        Self {
            http: Mutex::new(TestHttpClient::from_source(source, address)),
            id: AtomicU64::new(1),
        }
    }

    /// Calls `method`.
    ///
    /// # Errors
    /// [`RpcCallError`] if the node cannot be reached or answers with an error.
    pub fn try_rpc(&self, method: &str, params: Value) -> Result<Value, RpcCallError> {
        let id = self.id.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let failed = |reason: String| RpcCallError::Transport(format!("{request}: {reason}"));
        // If a thread panicked with the lock, at worst the next request on the connection fails.
        let mut http = self
            .http
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let answer = http.post(&request).map_err(|error| failed(error.to_string()))?;
        drop(http);
        if answer.status != 200 {
            return Err(failed(format!(
                "got status {} and {:?}, expected 200",
                answer.status, answer.body
            )));
        }
        read_response(&answer.body, &json!(id)).map_err(|error| match error {
            RpcCallError::Transport(reason) => failed(reason),
            refused => refused,
        })
    }

    /// Calls `method` and returns its result.
    ///
    /// # Panics
    /// If the node answers with an error or cannot be reached.
    #[track_caller]
    pub fn rpc(&self, method: &str, params: Value) -> Value {
        match self.try_rpc(method, params.clone()) {
            Ok(result) => result,
            Err(error) => panic!("{method} {params}: {error}"),
        }
    }

    /// Calls `method`, expects the error code `expected` and returns the message.
    ///
    /// # Panics
    /// If the call has another outcome.
    #[track_caller]
    pub fn refused(&self, method: &str, params: Value, expected: i64) -> String {
        match self.try_rpc(method, params.clone()) {
            Err(RpcCallError::Refused { code, message }) if code == expected => message,
            other => panic!("{method} {params}: got {other:?}, expected error {expected}"),
        }
    }
}

/// Parses the response to the request `id`, which must have either a result or an error.
///
/// # Errors
/// [`RpcCallError`] for an error of the node, and if `text` is not a response to that request.
pub fn read_response(text: &str, id: &Value) -> Result<Value, RpcCallError> {
    let malformed = || RpcCallError::Transport(format!("got {text}, expected a response to {id}"));
    let response: Value = serde_json::from_str(text).map_err(|_| malformed())?;
    if response["jsonrpc"] != "2.0" || response["id"] != *id {
        return Err(malformed());
    }
    match (response.get("result"), response.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (None, Some(error)) => match (error["code"].as_i64(), error["message"].as_str()) {
            (Some(code), Some(message)) => Err(RpcCallError::Refused {
                code,
                message: message.to_owned(),
            }),
            _ => Err(malformed()),
        },
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_results_or_errors() {
        let read = |text| read_response(text, &json!(1));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"result":null}"#), Ok(Value::Null));
        let refused = RpcCallError::Refused {
            code: -32000,
            message: "no".to_owned(),
        };
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}"#),
            Err(refused)
        );
        for bad in [
            "",
            r#"{"jsonrpc":"2.0","id":2,"result":1}"#,
            r#"{"id":1,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
        ] {
            assert!(matches!(read(bad), Err(RpcCallError::Transport(_))), "{bad}");
        }
    }
}
