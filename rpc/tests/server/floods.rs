//! Clients that ask without reading, and that send much without a message in it: the servers stop
//! reading them, so nothing piles up, and others go on.

use std::net::SocketAddr;
use std::time::Duration;

use rpc::Limits;
use rpc::server::TcpServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::server::clients::WsClient;
use crate::server::harness::{ANSWER, CALL, PATIENCE, exchange, post, read_to_end, serve_http, serve_ws};

/// More than all buffers of the system between a client and a server hold, in both directions.
const FLOOD_LEN: usize = 32 << 20;
/// A write that takes this long waits for the server to read.
const STALL: Duration = Duration::from_secs(2);
/// The key of a handshake; any will do.
const HANDSHAKE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A connection whose client has room for little that it does not read.
async fn connect(to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.set_send_buffer_size(64 << 10).expect("a small buffer");
    socket.connect(to).await.expect("the server listens")
}

/// Sends `piece` again and again and reads nothing. The server must stop reading, or hang up, long
/// before [`FLOOD_LEN`].
async fn flood(stream: &mut TcpStream, piece: &[u8]) {
    let chunk = piece.repeat((64 << 10) / piece.len());
    let mut sent = 0;
    while matches!(timeout(STALL, stream.write_all(&chunk)).await, Ok(Ok(()))) {
        sent += chunk.len();
        assert!(
            sent < FLOOD_LEN,
            "the server has read {sent} bytes without an answer read"
        );
    }
}

async fn goes_on(server: TcpServer, answer: impl AsyncFnOnce(SocketAddr) -> String) {
    let answer = answer(server.addresses()[0]).await;
    assert!(answer.ends_with(ANSWER), "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_whose_answers_are_not_read() {
    let server = serve_ws(Limits::default(), "").await;
    let mut stream = connect(server.addresses()[0]).await;
    stream.write_all(HANDSHAKE.as_bytes()).await.expect("sent");
    let mut ping = vec![0x89, 0x80 | 125, 0, 0, 0, 0];
    ping.resize(ping.len() + 125, b'x');
    flood(&mut stream, &ping).await;
    goes_on(server, async |to| WsClient::connect(to).await.ask(CALL).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unasked_pongs_have_a_rate() {
    let server = serve_ws(Limits::default(), "").await;
    let mut stream = connect(server.addresses()[0]).await;
    stream.write_all(HANDSHAKE.as_bytes()).await.expect("sent");
    flood(&mut stream, &[0x8a, 0x80, 0, 0, 0, 0]).await;
    goes_on(server, async |to| WsClient::connect(to).await.ask(CALL).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_requests_whose_answers_are_not_read() {
    let notification = r#"{"jsonrpc":"2.0","method":"net_version","params":[]}"#;
    let expect = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{notification}",
        notification.len()
    );
    for request in ["HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n", expect.as_str()] {
        let server = serve_http(Limits::default(), "").await;
        let mut stream = connect(server.addresses()[0]).await;
        flood(&mut stream, request.as_bytes()).await;
        goes_on(server, async |to| exchange(to, &post(CALL)).await).await;
    }
}

#[tokio::test]
async fn requests_that_are_read_late_are_all_answered() {
    let server = serve_http(Limits::default(), "").await;
    let mut stream = connect(server.addresses()[0]).await;
    let head = "HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let requests = format!("{}{last}", head.repeat(1000));
    stream.write_all(requests.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answers = read_to_end(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1001);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_without_content_are_no_message() {
    let limits = Limits {
        body_len_max: 1000,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let mut stream = connect(server.addresses()[0]).await;
    stream.write_all(HANDSHAKE.as_bytes()).await.expect("sent");
    let (mut reader, mut writer) = stream.into_split();
    let flood = tokio::spawn(async move {
        // A message that begins, and then has a hundred thousand parts without a byte.
        let begin = writer.write_all(&[0x01, 0x81, 0, 0, 0, 0, b'[']).await;
        let parts = [0x00, 0x80, 0, 0, 0, 0].repeat(100_000);
        begin.and(writer.write_all(&parts).await)
    });
    // A close frame with the code 1009: the message is too long.
    let close_frame = [0x88_u8, 37, 0x03, 0xf1];
    let mut received = Vec::new();
    let read = async {
        while !received
            .windows(close_frame.len())
            .any(|bytes| bytes == close_frame)
        {
            let len = reader
                .read_buf(&mut received)
                .await
                .expect("no end before the close frame");
            assert!(len > 0, "the connection ended without a close frame");
        }
    };
    timeout(PATIENCE, read).await.expect("a close frame in time");
    flood.abort();
    goes_on(server, async |to| WsClient::connect(to).await.ask(CALL).await).await;
}
