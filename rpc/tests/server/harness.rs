//! A small node with a table of methods, the servers in front of it, and requests in raw bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rpc::methods;
use rpc::server::http::{self, HttpOptions, SharedWs};
use rpc::server::ws::{self, WsOptions};
use rpc::server::{Health, Healthy, TcpServer};
use rpc::{Dispatcher, Integer, Limits, MessageSubscriptions, Method, Modules, NameStyle, Rpc, RpcResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::shared::facts::TestFacts;

/// Longer than any answer may take. A test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A call that is answered at once.
pub(crate) const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"net_version","params":[]}"#;
/// The answer to [`CALL`].
pub(crate) const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":"100"}"#;

/// A call whose answer takes a second.
pub(crate) fn slow_call(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"mc_slow"}}"#)
}

/// The answer to [`slow_call`].
pub(crate) fn slow_answer(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"slow"}}"#)
}

/// A call whose result is a text of `len` bytes.
pub(crate) fn long_call(len: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mc_long","params":[{len}]}}"#)
}

impl Healthy for TestFacts {
    fn health(&self) -> RpcResult<Health> {
        Ok(Health {
            head: 17,
            age: 3,
            peers: self.peer_count,
            syncing: false,
        })
    }
}

/// `mc_slow`.
fn slow(_: &TestFacts) -> RpcResult<&'static str> {
    std::thread::sleep(Duration::from_millis(1000));
    Ok("slow")
}

/// `admin_secret`.
const fn secret(_: &TestFacts) -> RpcResult<&'static str> {
    Ok("secret")
}

/// `mc_long`.
fn long_text(_: &TestFacts, (len,): (Integer,)) -> RpcResult<String> {
    Ok("x".repeat(len.0 as usize))
}

/// `mc_subscriptions`.
const fn has_subscriptions(_: &TestFacts, _: &MessageSubscriptions, (): (), _: NameStyle) -> RpcResult<bool> {
    Ok(true)
}

/// A dispatcher with the real rows of `chain3` and `net`, and with four test rows: a slow method, a
/// method with a long result, a method about subscriptions, and a method in a module that is off
/// by default.
pub(crate) fn dispatcher(limits: Limits, modules: &Modules) -> Arc<Dispatcher<TestFacts>> {
    let mut rows = methods::chain3::methods();
    rows.extend(methods::net::methods());
    rows.push(Method::blocking("mc_slow", [], slow));
    rows.push(Method::inline("admin_secret", [], secret));
    rows.push(Method::inline("mc_long", ["length"], long_text));
    rows.push(Method::subscribing("mc_subscriptions", [], has_subscriptions));
    let facts = TestFacts {
        is_listening: true,
        peer_count: 26,
    };
    let rpc = Rpc::new(Arc::new(facts), rows, limits).expect("valid rows");
    Arc::new(rpc.dispatcher(modules))
}

/// An HTTP server on a free port. `cors` lists the allowed browser origins.
pub(crate) async fn serve_http(limits: Limits, cors: &str) -> TcpServer {
    let options = HttpOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        cors: cors.parse().expect("origins"),
        ..HttpOptions::default()
    };
    let server = http::start(dispatcher(limits, &Modules::default()), &options);
    server.await.expect("a free port")
}

/// An HTTP server on a free port that also serves WebSockets, with the modules `ws`.
pub(crate) async fn serve_both(origins: &str, ws: &Modules) -> TcpServer {
    let options = HttpOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        ..HttpOptions::default()
    };
    let shared = SharedWs {
        dispatcher: dispatcher(Limits::default(), ws),
        origins: origins.parse().expect("origins"),
    };
    let own = dispatcher(Limits::default(), &Modules::default());
    let server = http::start_with_ws(own, &options, Some(shared));
    server.await.expect("a free port")
}

/// A WebSocket server on a free port. `origins` lists the allowed browser origins.
pub(crate) async fn serve_ws(limits: Limits, origins: &str) -> TcpServer {
    let options = WsOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        origins: origins.parse().expect("origins"),
        ..WsOptions::default()
    };
    let server = ws::start(dispatcher(limits, &Modules::default()), &options);
    server.await.expect("a free port")
}

/// Sends `request` on a new connection and returns everything the server sends until it closes.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(request).await.expect("the server reads");
    read_to_end(&mut stream).await
}

/// As [`exchange`], and compares the status of the response.
pub(crate) async fn check_status(address: SocketAddr, request: &str, status: u16) -> String {
    let response = exchange(address, request.as_bytes()).await;
    assert_eq!(split(&response).0, status, "{request}\n{response}");
    response
}

/// Everything that comes until the other side closes.
pub(crate) async fn read_to_end(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("the server closes in time")
        .expect("the connection is not reset");
    String::from_utf8(answer).expect("the answer is text")
}

/// A POST of `body` that asks the server to close the connection.
pub(crate) fn post(body: &str) -> Vec<u8> {
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A request without a body that asks the server to close the connection.
pub(crate) fn bare(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

/// Status and body of a response.
#[track_caller]
pub(crate) fn split(response: &str) -> (u16, &str) {
    let (head, body) = response
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no response: {response:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), body)
}
