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
    let (limits, traffic) = (dispatcher.limits().clone(), dispatcher.traffic().clone());
    let service = HostGuard {
        inner: TowerToHyperService::new(warp::service(routes(dispatcher, Arc::new(options.cors.clone())))),
        hosts: Arc::new(options.hosts.clone()),
    };
    TcpServer::start(&options.host, options.port, &limits, &traffic, move |_| {
        service.clone()
    })
    .await
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
