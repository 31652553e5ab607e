//! What the socket tests share: a small node, its table, and clients that speak bytes.

pub(crate) mod transports;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rpc::methods;
use rpc::server::http::{self, HttpOptions, HttpServer};
use rpc::server::{Health, Healthy};
use rpc::{Dispatcher, Integer, Limits, Method, Modules, NodeFacts, Rpc, RpcResult, reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any answer may take; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A node with nothing behind it.
pub(crate) struct Facts;

impl NodeFacts for Facts {
    fn client_version(&self) -> &str {
        "Test/v1.2.3/linux-x86_64/rustc1.95"
    }

    fn network_id(&self) -> u64 {
        100
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn peer_count(&self) -> u64 {
        26
    }
}

impl Healthy for Facts {
    fn health(&self) -> RpcResult<Health> {
        Ok(Health {
            head: 17,
            age: 3,
            peers: self.peer_count(),
            syncing: false,
        })
    }
}

/// A dispatcher over the real rows and two that take time.
pub(crate) fn dispatcher(limits: Limits, modules: &Modules) -> Arc<Dispatcher<Facts>> {
    let mut rows = methods::chain3::methods();
    rows.extend(methods::net::methods());
    rows.push(Method::blocking("mc_slow", |_, params| {
        std::thread::sleep(Duration::from_millis(1000));
        reply(params.parse().map(|()| "slow"))
    }));
    rows.push(Method::inline("admin_secret", |_, params| {
        reply(params.parse().map(|()| "secret"))
    }));
    rows.push(Method::inline("mc_long", |_, params| {
        reply(
            params
                .parse::<(Integer,)>()
                .map(|(len,)| "x".repeat(len.0 as usize)),
        )
    }));
    rows.push(Method::session("mc_session", |_, _, params| {
        reply(params.parse().map(|()| true))
    }));
    let rpc = Rpc::new(Arc::new(Facts), rows, limits).expect("the table is sound");
    Arc::new(rpc.dispatcher(modules))
}

/// An HTTP server on a free port.
pub(crate) async fn serve(limits: Limits, cors: &str) -> HttpServer {
    let options = HttpOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        cors: cors.parse().expect("origins"),
        ..HttpOptions::default()
    };
    http::start(dispatcher(limits, &Modules::default()), &options)
        .await
        .expect("a free port")
}

/// Sends `request` on a new connection and gives everything that comes back until it closes.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(request).await.expect("the server reads");
    read_to_end(&mut stream).await
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

/// `body` as a POST after which the connection closes.
pub(crate) fn post(body: &str) -> Vec<u8> {
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
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
