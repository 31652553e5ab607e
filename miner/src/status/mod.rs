//! Status and metrics over HTTP, for dashboards and watchdogs. Read only; what they say is the
//! caller's business.
//!
//! | path | what |
//! |---|---|
//! | `/`, `/status` | the status as JSON |
//! | `/metrics` | figures for Prometheus |
//! | `/health` | 200 while all is well, else 503 |

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

pub use metrics::{Family, Page, label};

/// Most connections at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 32;
/// Time for a request's header.
const HEADER_PATIENCE: Duration = Duration::from_secs(5);
/// Longest life of a connection.
const CONNECTION_LIFE: Duration = Duration::from_secs(120);
/// Pause after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served.
pub trait Status: Send + Sync + 'static {
    /// Everything there is to know.
    fn json(&self) -> Value;
    /// The figures, in Prometheus' text format.
    fn metrics(&self) -> String;
    /// Whether what is watched does its work, with a word for it.
    fn health(&self) -> (bool, &'static str);
}

/// A status that is served. Dropping it ends that, connections too.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    /// Where it is served, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `status` at `address`.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(address: SocketAddr, status: Arc<dyn Status>) -> io::Result<Served> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, status));
    Ok(Served { address, task })
}

async fn accept(listener: TcpListener, status: Arc<dyn Status>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut talks = JoinSet::new();
    loop {
        // Fails only for a closed semaphore, and nothing closes it.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        while talks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = Arc::clone(&status);
                talks.spawn(async move {
                    // What goes wrong on one connection is nobody else's business.
                    let _ = timeout(CONNECTION_LIFE, talk(stream, status)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("the status takes no connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn talk(stream: TcpStream, status: Arc<dyn Status>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &*status);
        async move { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(method: &Method, path: &str, status: &dyn Status) -> Response<Full<Bytes>> {
    let (code, kind, body) = page(method, path, status);
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    if code == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    }
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    response
}

fn page(method: &Method, path: &str, status: &dyn Status) -> (StatusCode, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    if method != Method::GET && method != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET and HEAD only\n".into());
    }
    match path {
        "/" | "/status" => (StatusCode::OK, "application/json", format!("{}\n", status.json())),
        "/metrics" => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            status.metrics(),
        ),
        "/health" => {
            let (well, word) = status.health();
            let code = if well {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            (code, TEXT, format!("{word}\n"))
        }
        _ => (
            StatusCode::NOT_FOUND,
            TEXT,
            "paths: /status /metrics /health\n".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ill;

    impl Status for Ill {
        fn json(&self) -> Value {
            Value::Null
        }

        fn metrics(&self) -> String {
            "a 1\n".into()
        }

        fn health(&self) -> (bool, &'static str) {
            (false, "ill")
        }
    }

    #[test]
    fn every_request_is_answered_with_what_would_have_been_right() {
        for (method, path, code) in [
            (Method::GET, "/status", 200),
            (Method::HEAD, "/", 200),
            (Method::GET, "/metrics", 200),
            (Method::GET, "/health", 503),
            (Method::GET, "/nothing", 404),
            (Method::POST, "/status", 405),
        ] {
            let answer = answer(&method, path, &Ill);
            assert_eq!(answer.status().as_u16(), code, "{method} {path}");
            let allowed = answer.headers().get(header::ALLOW);
            assert_eq!(allowed.is_some(), code == 405, "{method} {path}");
        }
    }
}
