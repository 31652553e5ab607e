//! An HTTP server for status and metrics, for dashboards and watchdogs. It is read-only. A
//! [`StatusSource`] provides the contents.
//!
//! | path | content |
//! |---|---|
//! | `/`, `/status` | the status as JSON |
//! | `/metrics` | metrics for Prometheus |
//! | `/health` | 200 if all is well, otherwise 503 |

mod connections;
mod metrics;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Response, StatusCode, header};
use inbound::Hosts;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use metrics::{MetricFamily, MetricsPage, label};

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
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts a status server at `address`. Requests must name one of `hosts`.
///
/// # Errors
/// If the server cannot listen at that address.
pub async fn serve(
    address: SocketAddr,
    hosts: Hosts,
    source: Arc<dyn StatusSource>,
) -> io::Result<StatusServer> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(connections::accept(listener, hosts, source));
    Ok(StatusServer { address, task })
}

/// The content type of plain text.
const TEXT: &str = "text/plain; charset=utf-8";

/// The answer to a request.
fn answer(method: &Method, path: &str, source: &dyn StatusSource) -> Response<Full<Bytes>> {
    response(page(method, path, source))
}

/// The answer to a request that names a host that is not allowed.
fn host_refusal() -> Response<Full<Bytes>> {
    response(StatusPage {
        code: StatusCode::FORBIDDEN,
        content_type: TEXT,
        body: "host not allowed\n".into(),
    })
}

fn response(page: StatusPage) -> Response<Full<Bytes>> {
    let StatusPage {
        code,
        content_type,
        body,
    } = page;
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
