//! The connections of a status server: places, host names and time limits.
//!
//! A connection that waits for its next request makes room for a new one, so that no number of
//! open connections keeps others out. A connection lasts a short time, however slowly its client
//! sends and reads.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::PageSource;
use crate::{Claim, ClientId, Hosts, Place, PlaceLimits, Places, StatedClaim, accept};

/// The most connections at once, in all and of one client.
const PLACES: PlaceLimits = PlaceLimits {
    total: 32,
    per_client: 16,
};
/// Time limit for the header of a request. It runs between two requests, too.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a connection takes requests.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(15);
/// The longest time for the last answer after that.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The state that all connections share.
struct StatusService {
    hosts: Hosts,
    pages: Arc<dyn PageSource>,
}

/// Accepts connections until `stop` becomes true or its sender is dropped, then ends all of them.
pub(super) async fn run(
    listener: TcpListener,
    hosts: Hosts,
    pages: Arc<dyn PageSource>,
    stop: watch::Receiver<bool>,
) {
    let service = Arc::new(StatusService { hosts, pages });
    let places = Places::new(PLACES);
    let admit = |(stream, peer): (TcpStream, SocketAddr)| {
        let now = Instant::now();
        // No connection here is ever `Claim::Active`, so another one makes room.
        let place = places.take(peer.ip(), StatedClaim::new(now), now)?;
        Some(serve(stream, peer.ip().into(), place, Arc::clone(&service)))
    };
    drop(accept(listener, "the status server", stop, admit).await);
}

/// Serves a connection until it ends, its time is over, or it has to make room.
async fn serve(stream: TcpStream, client: ClientId, place: Place, shared: Arc<StatusService>) {
    let (place, shared) = (&place, &shared);
    let service = service_fn(move |request: Request<Incoming>| async move {
        place.set(Claim::Known, Instant::now());
        let answer = if shared.hosts.allows_request(request.uri(), request.headers()) {
            super::answer(request.method(), request.uri().path(), client, &*shared.pages).await
        } else {
            super::host_refusal()
        };
        Ok::<_, Infallible>(answer)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // An error ends only this connection.
        _ = connection.as_mut() => return,
        () = place.displaced() => return,
        () = sleep(CONNECTION_LIFETIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = timeout(LAST_ANSWER_TIMEOUT, connection) => {}
        () = place.displaced() => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::status::{self, StatusServer, StatusSource};

    struct Nothing;

    impl StatusSource for Nothing {
        fn json(&self) -> Value {
            Value::Null
        }

        fn metrics(&self) -> String {
            String::new()
        }

        fn health(&self) -> (bool, &'static str) {
            (true, "well")
        }
    }

    async fn server() -> StatusServer {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        status::serve(any_port, Hosts::default(), Arc::new(Nothing))
            .await
            .expect("a port is free")
    }

    async fn connect(server: &StatusServer) -> TcpStream {
        let connected = TcpStream::connect(server.address()).await;
        connected.expect("the server listens")
    }

    /// Sends a request with these header lines on a new connection. Returns the whole answer.
    async fn get(server: &StatusServer, lines: &str) -> String {
        let mut stream = connect(server).await;
        let request = format!("GET /health HTTP/1.1\r\nconnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn requests_name_an_allowed_host() {
        let server = server().await;
        for (lines, code) in [
            ("host: localhost:3333\r\n", "200"),
            ("host: 192.0.2.1\r\n", "200"),
            ("", "200"),
            ("host: rebound.example\r\n", "403"),
            ("host: localhost\r\nhost: localhost\r\n", "403"),
        ] {
            let answer = get(&server, lines).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {code} ")),
                "{lines}: {answer}"
            );
        }
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_makes_room() {
        let server = server().await;
        let opened = Instant::now();
        let mut idle = Vec::new();
        for _ in 0..PLACES.per_client {
            let mut stream = connect(&server).await;
            stream.write_all(b"GET /hea").await.expect("it reads");
            idle.push(stream);
        }
        let answer = get(&server, "host: localhost\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let (first, others) = idle.split_first_mut().expect("some are idle");
        let mut byte = [0];
        let end = first.read(&mut byte).await;
        assert!(matches!(end, Ok(0) | Err(_)), "got {end:?}, expected the end");
        assert!(opened.elapsed() < HEADER_TIMEOUT, "its time was over");
        for other in others {
            let error = other.try_read(&mut byte).expect_err("it is open");
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        }
    }
}
