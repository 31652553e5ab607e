//! JSON-RPC over HTTP/1.1: `POST` at the root.
//!
//! The routes (`routes.rs`) are warp filters. The accept loop (`acceptor.rs`) is our own, because
//! it has to bound connections and time, report bind errors and stop. The status is 200 with a JSON
//! body, or 204 if there is nothing to answer. Where HTTP itself is refused it is 403, 404, 405,
//! 408, 413, 415 or 503. `GET` at the root says what this server is. `GET` at `/health` says how
//! the node is. `HEAD` at either path gives the same response without a body.
//!
//! Checks host names, and knows nothing else of requests and connections.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use futures_util::future::Either;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::Reply;
use warp::http::StatusCode;

use super::acceptor::HttpRequest;
use super::replies::{HttpResponse, refusal};
use super::routes::routes;
use super::ws::{HandshakeService, Handshakes, is_upgrade};
use super::{Cors, Healthy, Hosts, ServeError, TcpServer};
pub use crate::control::{HOST, PORT, PORT_SCS};
use crate::dispatch::Dispatcher;

/// Where the HTTP server listens, and which clients it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// An address or a name. `localhost` means 127.0.0.1 and, where it exists, `::1`.
    pub host: String,
    /// The port. 0 takes a free one.
    pub port: u16,
    /// Browser origins that may read answers.
    pub cors: Cors,
    /// Host names that requests may name.
    pub hosts: Hosts,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            host: HOST.to_owned(),
            port: PORT,
            cors: Cors::default(),
            hosts: Hosts::default(),
        }
    }
}

/// Starts to listen and to answer with `dispatcher`.
///
/// # Errors
/// If the address cannot be found or listened on.
pub async fn start<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
) -> Result<TcpServer, ServeError> {
    start_with_ws(dispatcher, options, None).await
}

/// WebSockets on the port of the HTTP server.
pub struct SharedWs<C> {
    /// Answers their messages.
    pub dispatcher: Arc<Dispatcher<C>>,
    /// Browser origins that may connect.
    pub origins: Cors,
}

/// Starts to listen as [`start`] does. With `ws` a request that asks for a WebSocket gets one.
///
/// # Errors
/// If the address cannot be found or listened on.
pub async fn start_with_ws<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
    ws: Option<SharedWs<C>>,
) -> Result<TcpServer, ServeError> {
    let (limits, traffic) = (dispatcher.limits().clone(), dispatcher.traffic().clone());
    let handshakes = ws.map(|ws| Handshakes::new(ws.dispatcher, ws.origins, options.hosts.clone()));
    let http = HostGuard {
        inner: TowerToHyperService::new(warp::service(routes(dispatcher, Arc::new(options.cors.clone())))),
        hosts: Arc::new(options.hosts.clone()),
    };
    TcpServer::start(&options.host, options.port, &limits, &traffic, move |context| {
        SharedPort {
            http: http.clone(),
            ws: handshakes.as_ref().map(|handshakes| handshakes.service(context)),
        }
    })
    .await
}

/// Passes requests for WebSockets on to `ws`, if there is one, and all others to `http`.
struct SharedPort<S, C> {
    http: S,
    ws: Option<HandshakeService<C>>,
}

impl<S, C: Send + Sync + 'static> Service<HttpRequest> for SharedPort<S, C>
where
    S: Service<HttpRequest, Response = HttpResponse, Error = Infallible>,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<HttpResponse, Infallible>>>;

    fn call(&self, request: HttpRequest) -> Self::Future {
        match &self.ws {
            Some(ws) if is_upgrade(&request) => Either::Right(ws.call(request)),
            _ => Either::Left(self.http.call(request)),
        }
    }
}

/// Passes requests on whose `Host` is allowed, and refuses others.
#[derive(Clone)]
struct HostGuard<S> {
    inner: S,
    hosts: Arc<Hosts>,
}

impl<S> Service<HttpRequest> for HostGuard<S>
where
    S: Service<HttpRequest, Response = HttpResponse, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<HttpResponse, Infallible>>>;

    fn call(&self, request: HttpRequest) -> Self::Future {
        if self.hosts.allows_request(request.uri(), request.headers()) {
            return Either::Left(self.inner.call(request));
        }
        let refused = refusal(StatusCode::FORBIDDEN, "host not allowed").into_response();
        Either::Right(ready(Ok(refused)))
    }
}
