//! JSON-RPC calls to one node over HTTP/1.1, on a connection that stays open.
//!
//! Does not know the methods; `getwork` does.

use std::time::Duration;

use base64::Engine as _;
use daemon::tls::TlsClient;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::config::AGENT;
use super::endpoint::MiningEndpoint;
use super::error::{ClientError, printable};
use super::net;

/// Length in bytes of the longest accepted answer. Work has a few hundred bytes.
const BODY_LEN_MAX: usize = 64 * 1024;

/// Calls the methods of one node.
pub(super) struct NodeHttpClient {
    endpoint: MiningEndpoint,
    tls: TlsClient,
    response_timeout: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
    id: u64,
}

impl NodeHttpClient {
    pub(super) const fn new(endpoint: MiningEndpoint, tls: TlsClient, response_timeout: Duration) -> Self {
        Self {
            endpoint,
            tls,
            response_timeout,
            connection: None,
            id: 0,
        }
    }

    /// Calls `method` and returns the result of the response.
    ///
    /// If the connection has been closed since the last call, it is opened again, once.
    pub(super) async fn call(&mut self, method: &str, params: &Value) -> Result<Value, ClientError> {
        self.id += 1;
        let id = self.id;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let was_open = self.connection.is_some();
        let body = match self.post(body.clone()).await {
            // A node may close an idle connection just when it is used again.
            Err(ClientError::Http(_)) if was_open => self.post(body).await,
            result => result,
        };
        read_response(method, &body?)
    }

    /// Sends a request and returns the body of the answer.
    async fn post(&mut self, body: String) -> Result<Bytes, ClientError> {
        let after = self.response_timeout;
        let timed_out = |what| move |_| ClientError::Timeout { what, after };
        let open = self
            .connection
            .take()
            .filter(|connection| !connection.is_closed());
        let mut connection = match open {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let request = self.request(body)?;
        let exchange = async {
            connection.ready().await?;
            connection.send_request(request).await
        };
        let response = timeout(after, exchange)
            .await
            .map_err(timed_out("an answer"))?
            .map_err(|error| ClientError::Http(error.to_string()))?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(ClientError::Status { got: status.as_u16() });
        }
        let body = Limited::new(response.into_body(), BODY_LEN_MAX);
        let body = timeout(after, body.collect())
            .await
            .map_err(timed_out("the end of an answer"))?
            .map_err(|error| ClientError::Http(error.to_string()))?;
        self.connection = Some(connection);
        Ok(body.to_bytes())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let stream = net::connect(&self.endpoint, &self.tls, self.response_timeout).await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ClientError::Http(error.to_string()))?;
        // The task ends when the sender is dropped. An error appears in the next request.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, body: String) -> Result<Request<Full<Bytes>>, ClientError> {
        let MiningEndpoint {
            user, password, port, ..
        } = &self.endpoint;
        let host = format!("{}:{port}", self.endpoint.bracketed_host());
        let mut request = Request::post(&self.endpoint.path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, AGENT);
        if !user.is_empty() {
            let login = format!("{user}:{}", password.as_deref().unwrap_or_default());
            let login = base64::engine::general_purpose::STANDARD.encode(login);
            request = request.header(header::AUTHORIZATION, format!("Basic {login}"));
        }
        request
            .body(Full::from(body))
            .map_err(|error| ClientError::Http(error.to_string()))
    }
}

/// Reads the result of a JSON-RPC response to `method`, or its error.
fn read_response(method: &str, body: &[u8]) -> Result<Value, ClientError> {
    let malformed = || {
        ClientError::answer(
            "response",
            &String::from_utf8_lossy(body),
            "a JSON-RPC response with a result or an error",
        )
    };
    let Ok(Value::Object(mut response)) = serde_json::from_slice(body) else {
        return Err(malformed());
    };
    match (response.remove("error"), response.remove("result")) {
        (Some(error), _) if !error.is_null() => Err(ClientError::Refused {
            method: method.to_owned(),
            code: error["code"].as_i64().unwrap_or_default(),
            message: printable(error["message"].as_str().unwrap_or("no reason given"), 200),
        }),
        (_, Some(result)) => Ok(result),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of a node are read on a thread with an eighth of the usual stack. 127 levels are the
    /// most that `serde_json` follows.
    #[test]
    fn nested_answers_need_little_stack() {
        let read_all = || {
            for depth in [100, 124, 200, 1_000_000] {
                let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
                let result = read_response("m", format!(r#"{{"result":{nested}}}"#).as_bytes());
                assert_eq!(result.is_ok(), depth < 127, "{depth} levels");
                assert!(read_response("m", format!(r#"{{"error":{nested}}}"#).as_bytes()).is_err());
            }
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread
            .spawn(read_all)
            .expect("a thread")
            .join()
            .expect("no panic");
    }

    #[test]
    fn answers_are_results_or_errors() {
        let read = |body: &str| read_response("m", body.as_bytes());
        assert_eq!(
            read(r#"{"id":1,"result":[1],"error":null}"#).ok(),
            Some(json!([1]))
        );
        assert_eq!(read(r#"{"result":null}"#).ok(), Some(Value::Null));
        let refused = read(r#"{"error":{"code":-32601,"message":"no"}}"#).expect_err("an error");
        assert_eq!(refused.to_string(), "m: no (-32601)");
        for bad in ["", "[]", "{}", "<html>", r#"{"error":null}"#] {
            assert!(matches!(read(bad), Err(ClientError::Answer { .. })), "{bad}");
        }
    }
}
