//! A small HTTP server that is read-only. It serves status and metrics of a [`StatusSource`], for
//! watchdogs and Prometheus, or whatever pages a [`PageSource`] has, such as the dashboard.
//!
//! The paths of a [`StatusSource`]:
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

use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Response, StatusCode, header};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::{ClientId, Hosts};

pub use metrics::metrics_page;

/// Provides what the status server serves.
pub trait StatusSource: Send + Sync + 'static {
    /// The whole status as JSON.
    fn json(&self) -> Value;
    /// The metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
    /// Whether the observed program is healthy, with a short description.
    fn health(&self) -> (bool, &'static str);
}

/// A page that is being made.
pub type PageFuture<'a> = BoxFuture<'a, StatusPage>;

/// Provides the pages of a server by their paths.
pub trait PageSource: Send + Sync + 'static {
    /// The page at `path` for `client`. Every path has a page: an unknown one has
    /// [`StatusPage::not_found`].
    fn page<'a>(&'a self, path: &'a str, client: ClientId) -> PageFuture<'a>;
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPage {
    code: StatusCode,
    content_type: &'static str,
    body: Bytes,
}

impl StatusPage {
    /// A page with status 200. `content_type` is the value of the header.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            code: StatusCode::OK,
            content_type,
            body: body.into(),
        }
    }

    /// The same page with another status code.
    #[must_use]
    pub const fn with_code(mut self, code: StatusCode) -> Self {
        self.code = code;
        self
    }

    /// A page of plain text.
    pub fn text(code: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(TEXT, text).with_code(code)
    }

    /// A value as JSON.
    pub fn json(value: &Value) -> Self {
        Self::new(JSON, format!("{value}\n"))
    }

    /// Says which paths there are.
    pub fn not_found(paths: &'static str) -> Self {
        Self::text(StatusCode::NOT_FOUND, paths)
    }

    /// The status code.
    pub const fn code(&self) -> StatusCode {
        self.code
    }

    /// The body.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }
}

/// A running server. Dropping it ends the server and its connections.
#[derive(Debug)]
pub struct StatusServer {
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl StatusServer {
    /// The address of the server. The port is the real one, also if port 0 was requested.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Starts a status server at `address`. Requests must name one of `hosts`.
///
/// # Errors
/// If the server cannot listen at that address.
pub fn serve(
    address: SocketAddr,
    hosts: Hosts,
    source: Arc<dyn StatusSource>,
) -> BoxFuture<'static, io::Result<StatusServer>> {
    serve_pages(address, hosts, Arc::new(StatusPages(source)))
}

/// Starts a server of `pages` at `address`. Requests must name one of `hosts`.
///
/// # Errors
/// If the server cannot listen at that address.
pub fn serve_pages(
    address: SocketAddr,
    hosts: Hosts,
    pages: Arc<dyn PageSource>,
) -> BoxFuture<'static, io::Result<StatusServer>> {
    Box::pin(async move {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(connections::run(listener, hosts, pages, stopped));
        Ok(StatusServer { address, _stop: stop })
    })
}

/// The content type of plain text.
const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of JSON.
const JSON: &str = "application/json";
/// Headers of every answer: a page runs only the scripts of this server, nobody may show it in a
/// frame, and nothing is kept.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// The answer to a request.
async fn answer(
    method: &Method,
    path: &str,
    client: ClientId,
    pages: &dyn PageSource,
) -> Response<Full<Bytes>> {
    if method == Method::GET || method == Method::HEAD {
        return response(pages.page(path, client).await);
    }
    let mut refusal = response(StatusPage::text(
        StatusCode::METHOD_NOT_ALLOWED,
        "GET and HEAD only\n",
    ));
    let allowed = header::HeaderValue::from_static("GET, HEAD");
    refusal.headers_mut().insert(header::ALLOW, allowed);
    refusal
}

/// The answer to a request that names a host that is not allowed.
fn host_refusal() -> Response<Full<Bytes>> {
    response(StatusPage::text(StatusCode::FORBIDDEN, "host not allowed\n"))
}

fn response(page: StatusPage) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(page.body));
    *response.status_mut() = page.code;
    let headers = response.headers_mut();
    let content_type = header::HeaderValue::from_static(page.content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    for (name, value) in HEADERS {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// The pages of a [`StatusSource`].
struct StatusPages(Arc<dyn StatusSource>);

impl PageSource for StatusPages {
    fn page<'a>(&'a self, path: &'a str, _: ClientId) -> PageFuture<'a> {
        let page = status_page(path, &*self.0);
        Box::pin(std::future::ready(page))
    }
}

/// The page of `source` at `path`.
pub fn status_page(path: &str, source: &dyn StatusSource) -> StatusPage {
    match path {
        "/" | "/status" => StatusPage::json(&source.json()),
        "/metrics" => StatusPage::new("text/plain; version=0.0.4; charset=utf-8", source.metrics()),
        "/health" => {
            let (healthy, description) = source.health();
            let code = if healthy {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            StatusPage::text(code, format!("{description}\n"))
        }
        _ => StatusPage::not_found("paths: /status /metrics /health\n"),
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

    #[tokio::test]
    async fn every_request_gets_the_right_status_code() {
        let client = std::net::IpAddr::from([192, 0, 2, 1]).into();
        let pages = StatusPages(Arc::new(Unhealthy));
        for (method, path, code) in [
            (Method::GET, "/status", 200),
            (Method::HEAD, "/", 200),
            (Method::GET, "/metrics", 200),
            (Method::GET, "/health", 503),
            (Method::GET, "/nothing", 404),
            (Method::POST, "/status", 405),
        ] {
            let answer = answer(&method, path, client, &pages).await;
            assert_eq!(answer.status().as_u16(), code, "{method} {path}");
            let headers = answer.headers();
            assert_eq!(
                headers.contains_key(header::ALLOW),
                code == 405,
                "{method} {path}"
            );
            for (name, value) in &HEADERS {
                assert_eq!(headers[name], *value, "{method} {path}");
            }
        }
    }
}
