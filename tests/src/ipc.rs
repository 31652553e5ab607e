//! JSON-RPC calls over the local socket, with a new connection for each call.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::call::{RpcCallError, read_response};
use crate::wait::SOCKET_PATIENCE;

/// Longest time for one answer.
const TIMEOUT: Duration = SOCKET_PATIENCE;

/// Calls `method` over the socket at `path`.
///
/// # Errors
/// [`RpcCallError`] if the node cannot be reached or answers with an error.
pub fn try_rpc(path: &Path, method: &str, params: Value) -> Result<Value, RpcCallError> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let exchange = || -> std::io::Result<String> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.write_all(request.as_bytes())?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line)?;
        Ok(line)
    };
    let answer = exchange().map_err(|error| RpcCallError::Transport(format!("{request}: {error}")))?;
    read_response(answer.trim_end(), &json!(1))
}

/// Calls `method` and returns its result.
///
/// # Panics
/// If the node answers with an error or cannot be reached.
#[track_caller]
pub fn rpc(path: &Path, method: &str, params: Value) -> Value {
    match try_rpc(path, method, params.clone()) {
        Ok(result) => result,
        Err(error) => panic!("{method} {params}: {error}"),
    }
}
