//! The sockets of the API: lines in, lines out.
//!
//! A browser can be made to send requests to this machine. Whatever looks like HTTP is refused and
//! ends the connection, so that no page on the web speaks to the API.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::{Claim, Place, PlaceLimits, Places, StatedClaim, accept};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::session::ApiSession;
use super::{ApiConfig, ApiSource};

/// The most connections at once, in all and of one client.
const PLACES: PlaceLimits = PlaceLimits {
    total: 32,
    per_client: 16,
};
/// The most bytes of a request.
const LINE_LEN_MAX: u64 = 8192;
/// A connection that is silent for this time is closed.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Time limit for sending an answer.
const SEND_MAX: Duration = Duration::from_secs(5);
/// The wait before the answer to a wrong password.
const WRONG_PASSWORD_WAIT: Duration = Duration::from_secs(1);
/// The answer to HTTP.
const NO_HTTP: &str = "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
                       This port speaks JSON-RPC over TCP. --dashboard and --status serve pages.\n";

/// A running server. Dropping it ends the server and its connections.
#[derive(Debug)]
pub(crate) struct ApiServer {
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl ApiServer {
    /// The address of the server, with the real port.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Starts the API.
///
/// # Errors
/// If the server cannot listen at the address.
pub(crate) async fn serve(config: ApiConfig, source: Arc<dyn ApiSource>) -> io::Result<ApiServer> {
    let listener = TcpListener::bind(config.address.socket).await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        let places = Places::new(PLACES);
        let config = Arc::new(config);
        let admit = |(stream, peer): (TcpStream, SocketAddr)| {
            let now = Instant::now();
            let place = places.take(peer.ip(), StatedClaim::new(now), now)?;
            let (config, source) = (Arc::clone(&config), Arc::clone(&source));
            Some(async move {
                tokio::select! {
                    // An error ends only this connection.
                    _ = answer_lines(stream, &place, &config, &*source) => {}
                    () = place.displaced() => {}
                }
            })
        };
        drop(accept(listener, "the API", stopped, admit).await);
    });
    Ok(ApiServer { address, _stop: stop })
}

/// Answers the lines of a connection until it ends.
async fn answer_lines(
    mut stream: TcpStream,
    place: &Place,
    config: &ApiConfig,
    source: &dyn ApiSource,
) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let mut session = ApiSession::new(config);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut read).take(LINE_LEN_MAX);
        let read_line = limited.read_until(b'\n', &mut line);
        timeout(IDLE_MAX, read_line).await.map_err(io::Error::from)??;
        if line.last() != Some(&b'\n') && (line.is_empty() || line.len() as u64 == LINE_LEN_MAX) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if is_http(text) {
            timeout(SEND_MAX, write.write_all(NO_HTTP.as_bytes()))
                .await
                .map_err(io::Error::from)??;
            return write.shutdown().await;
        }
        if text.is_empty() {
            continue;
        }
        place.set(Claim::Known, Instant::now());
        let answer = session.answer(text, source);
        if answer.wrong_password {
            tracing::warn!("a client of the API gave a wrong password");
            sleep(WRONG_PASSWORD_WAIT).await;
        }
        let line = answer.text + "\n";
        timeout(SEND_MAX, write.write_all(line.as_bytes()))
            .await
            .map_err(io::Error::from)??;
    }
}

/// Whether a line is the first one of an HTTP request.
fn is_http(line: &str) -> bool {
    line.rsplit_once(' ')
        .is_some_and(|(_, version)| version.starts_with("HTTP/"))
}

#[cfg(test)]
mod tests {
    use engine::monitor::RigReport;
    use engine::testing::sample_report;

    use super::*;

    struct Rig;

    impl ApiSource for Rig {
        fn report(&self) -> RigReport {
            sample_report()
        }

        fn heat_limits(&self) -> Option<(f64, f64)> {
            None
        }

        fn restart(&self) {}

        fn pause(&self, _: usize, _: bool) -> bool {
            false
        }
    }

    /// Sends bytes and returns all that comes back.
    async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(bytes).await.expect("it reads");
        stream.shutdown().await.expect("it is open");
        let mut answer = String::new();
        // A server that closes before it has read all may reset the connection.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    #[tokio::test]
    async fn lines_are_answered_and_pages_of_the_web_are_not() {
        let config = ApiConfig {
            address: "127.0.0.1:0".parse().expect("an address"),
            password: None,
        };
        let server = serve(config, Arc::new(Rig)).await.expect("a port is free");
        let ping = r#"{"id":0,"jsonrpc":"2.0","method":"miner_ping"}"#;
        let pong = "{\"id\":0,\"jsonrpc\":\"2.0\",\"result\":\"pong\"}\n";
        let two = exchange(server.address(), format!("{ping}\r\n\n{ping}\n").as_bytes()).await;
        assert_eq!(two, pong.repeat(2));
        let without_end = exchange(server.address(), ping.as_bytes()).await;
        assert_eq!(without_end, pong, "the last line needs no end");
        let page = format!("POST / HTTP/1.1\r\nHost: x\r\n\r\n{ping}\n");
        let page = exchange(server.address(), page.as_bytes()).await;
        assert!(
            page.starts_with("HTTP/1.1 405") && !page.contains("pong"),
            "{page}"
        );
        let long = exchange(server.address(), &[b'x'; 10_000]).await;
        assert_eq!(long, "");
    }
}
