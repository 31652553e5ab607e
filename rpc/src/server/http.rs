//! JSON-RPC over HTTP/1.1: `POST` at the root.
//!
//! The routes (`routes.rs`) are warp filters; the accept loop (`door.rs`) is our own, because it has
//! to bound connections and time, report bind errors and stop. Answers are 200 with a JSON body
//! (204 if there is nothing to answer) except where HTTP itself is refused: 403, 404, 405, 408, 413,
//! 415, 503. `GET` at the root says what this is, at `/health` how the node is; `HEAD` there is the
//! same without a body.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::Either;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::Reply;
use warp::http::StatusCode;

use super::door::{Door, Request, Response, bind};
use super::routes::{refusal, routes};
use super::{Cors, Healthy, Hosts, Running, ServeError};
pub use crate::control::{HOST, PORT};
use crate::dispatch::Dispatcher;

/// Default listening port of the application-chain node.
pub const PORT_SCS: u16 = 8548;

/// Where and for whom to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// An address or a name; `localhost` means 127.0.0.1 and, where there is one, ::1.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Browser origins that may read answers.
    pub cors: Cors,
    /// Names under which the server may be spoken to.
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

/// A running HTTP server. Dropping it closes it without waiting.
pub struct HttpServer {
    addresses: Vec<SocketAddr>,
    running: Running,
}

impl HttpServer {
    /// The addresses it listens on, with their real ports; at least one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops listening: afterwards the port is free. Requests under way get their grace, but this
    /// does not wait for it, so a method may close the server that it was called through.
    pub async fn close(&mut self) {
        self.running.close().await;
    }

    /// Closes and waits until the last connection has ended, at most the grace for stopping.
    pub async fn stop(mut self) {
        self.running.close().await;
        self.running.drain().await;
    }
}

/// Starts to listen and to answer with `dispatcher`.
///
/// # Errors
/// If the address cannot be found or listened on.
pub async fn start<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
) -> Result<HttpServer, ServeError> {
    let listeners = bind(&options.host, options.port).await?;
    let mut running = Running::new(dispatcher.limits().connections_max);
    let door = Door::new(dispatcher.limits(), &running);
    let service = Guarded {
        inner: TowerToHyperService::new(warp::service(routes(dispatcher, Arc::new(options.cors.clone())))),
        hosts: Arc::new(options.hosts.clone()),
    };
    let mut addresses = Vec::new();
    for (listener, address) in listeners {
        addresses.push(address);
        let service = service.clone();
        let accept = door.clone().accept(listener, move |_| service.clone());
        running.listeners.spawn(accept);
    }
    Ok(HttpServer { addresses, running })
}

/// Lets requests through that speak to this server by one of its names.
#[derive(Clone)]
struct Guarded<S> {
    inner: S,
    hosts: Arc<Hosts>,
}

impl<S> Service<Request> for Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response, Infallible>>>;

    fn call(&self, request: Request) -> Self::Future {
        if self.hosts.allows_request(request.uri(), request.headers()) {
            return Either::Left(self.inner.call(request));
        }
        let refused = refusal(StatusCode::FORBIDDEN, "host not allowed").into_response();
        Either::Right(ready(Ok(refused)))
    }
}
