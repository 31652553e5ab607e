//! An HTTP server for status and metrics, for dashboards and watchdogs. It is read-only. A
//! [`StatusSource`] provides the contents.
//!
//! | path | content |
//! |---|---|
//! | `/`, `/status` | the status as JSON |
//! | `/metrics` | metrics for Prometheus |
//! | `/health` | 200 if all is well, otherwise 503 |

mod metrics;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

pub use metrics::{MetricFamily, MetricsPage, label};

/// The most connections at once. Others wait to be accepted.
const CONNECTIONS_MAX: usize = 32;
/// Time limit for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a connection may last.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(120);
/// Pause after a failed accept, for example when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Provides what the status server serves.
pub trait StatusSource: Send + Sync + 'static {
    /// The whole status as JSON.
    fn json(&self) -> Value;
    /// The metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
    /// Whether the observed program is healthy, with a short description.
    fn health(&self) -> (bool, &'static str);
}

/// A running status server. Dropping it ends the server and its connections.
#[derive(Debug)]
pub struct StatusServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl StatusServer {
    /// The address of the server. The port is the real one, also if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts a status server at `address`.
///
/// # Errors
/// If the server cannot listen at that address.
pub async fn serve(address: SocketAddr, source: Arc<dyn StatusSource>) -> io::Result<StatusServer> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, source));
    Ok(StatusServer { address, task })
}

async fn accept(listener: TcpListener, source: Arc<dyn StatusSource>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // This fails only if the semaphore is closed, and nothing closes it.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = Arc::clone(&source);
                connections.spawn(async move {
                    // An error ends only this connection.
                    let _ = timeout(CONNECTION_LIFETIME, serve_connection(stream, source)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("the status server cannot accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, source: Arc<dyn StatusSource>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &*source);
        async move { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(method: &Method, path: &str, source: &dyn StatusSource) -> Response<Full<Bytes>> {
    let StatusPage {
        code,
        content_type,
        body,
    } = page(method, path, source);
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    if code == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    }
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    response
}

/// The content of an answer.
struct StatusPage {
    code: StatusCode,
    content_type: &'static str,
    body: String,
}

fn page(method: &Method, path: &str, source: &dyn StatusSource) -> StatusPage {
    const TEXT: &str = "text/plain; charset=utf-8";
    if method != Method::GET && method != Method::HEAD {
        return StatusPage {
            code: StatusCode::METHOD_NOT_ALLOWED,
            content_type: TEXT,
            body: "GET and HEAD only\n".into(),
        };
    }
    let (code, content_type, body) = match path {
        "/" | "/status" => (StatusCode::OK, "application/json", format!("{}\n", source.json())),
        "/metrics" => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            source.metrics(),
        ),
        "/health" => {
            let (healthy, description) = source.health();
            let code = if healthy {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            (code, TEXT, format!("{description}\n"))
        }
        _ => (
            StatusCode::NOT_FOUND,
            TEXT,
            "paths: /status /metrics /health\n".into(),
        ),
    };
    StatusPage {
        code,
        content_type,
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that is not healthy.
    struct Unhealthy;

    impl StatusSource for Unhealthy {
        fn json(&self) -> Value {
            Value::Null
        }

        fn metrics(&self) -> String {
            "a 1\n".into()
        }

        fn health(&self) -> (bool, &'static str) {
            (false, "unhealthy")
        }
    }

    #[test]
    fn every_request_gets_the_right_status_code() {
        for (method, path, code) in [
            (Method::GET, "/status", 200),
            (Method::HEAD, "/", 200),
            (Method::GET, "/metrics", 200),
            (Method::GET, "/health", 503),
            (Method::GET, "/nothing", 404),
            (Method::POST, "/status", 405),
        ] {
            let answer = answer(&method, path, &Unhealthy);
            assert_eq!(answer.status().as_u16(), code, "{method} {path}");
            let allowed = answer.headers().get(header::ALLOW);
            assert_eq!(allowed.is_some(), code == 405, "{method} {path}");
        }
    }
}
