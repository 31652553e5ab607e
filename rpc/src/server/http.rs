//! JSON-RPC over HTTP/1.1: `POST` at the root, and on an SCS at the path of each MicroChain.
//!
//! The routes (`routes.rs`) are warp filters. The accept loop (`acceptor.rs`) is our own, because
//! it has to bound connections and time, report bind errors and stop. The status is 200 with a JSON
//! body, or 204 if there is nothing to answer. Where HTTP itself is refused it is 401, 403, 404,
//! 405, 408, 413, 415, 429 or 503. `GET` at the root says what this server is. `GET` at `/health`
//! says how the node is. `HEAD` at either path gives the same response without a body.
//!
//! Checks host names, and has the guards look at calls. Knows nothing else of requests and
//! connections.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use futures_util::future::Either;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::http::header::ORIGIN;
use warp::http::{Method, StatusCode};

use super::acceptor::{ConnectionContext, HttpRequest};
use super::replies::{HttpResponse, refusal};
use super::routes::routes;
use super::ws::{HandshakePolicy, HandshakeService, Handshakes, is_upgrade};
use super::{Cors, Guards, Healthy, Hosts, ServeError, TcpServer, admission};
pub use crate::control::{HOST, PORT, PORT_SCS};
use crate::dispatch::Dispatcher;
use crate::wallet_chains::WalletChains;

/// The address of the HTTP server, and the clients that it serves.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// An address or a name. `localhost` means 127.0.0.1 and, where it exists, `::1`.
    pub host: String,
    /// The port. 0 takes a free one.
    pub port: u16,
    /// Browser origins that may read answers.
    pub cors: Cors,
    /// Host names that requests may name.
    pub hosts: Hosts,
    /// TLS, tokens, and the rate of each client address. They hold for WebSockets on this port,
    /// too.
    pub guards: Guards,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            host: HOST.to_owned(),
            port: PORT,
            cors: Cors::default(),
            hosts: Hosts::default(),
            guards: Guards::default(),
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

/// Starts to listen as [`start`] does, for an SCS: see
/// [`start_scs_http`](crate::node_servers::start_scs_http).
///
/// # Errors
/// If the address cannot be found or listened on.
pub(crate) async fn start_with_chains<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
    chains: WalletChains,
) -> Result<TcpServer, ServeError> {
    let ws = SharedWs {
        dispatcher: Arc::clone(&dispatcher),
        origins: options.cors.clone(),
    };
    start_server(dispatcher, options, Some(ws), Some(Arc::new(chains))).await
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
    start_server(dispatcher, options, ws, None).await
}

async fn start_server<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
    ws: Option<SharedWs<C>>,
    chains: Option<Arc<WalletChains>>,
) -> Result<TcpServer, ServeError> {
    let (limits, traffic) = (dispatcher.limits().clone(), dispatcher.traffic().clone());
    let handshakes = ws.map(|ws| {
        let policy = HandshakePolicy {
            origins: ws.origins,
            hosts: options.hosts.clone(),
            guards: options.guards.clone(),
        };
        Handshakes::new(ws.dispatcher, policy, chains.clone())
    });
    let cors = Arc::new(options.cors.clone());
    let http = GuardedService {
        inner: TowerToHyperService::new(warp::service(routes(dispatcher, Arc::clone(&cors), chains))),
        hosts: Arc::new(options.hosts.clone()),
        guards: options.guards.clone(),
        cors,
    };
    let service = move |context: &ConnectionContext| SharedPort {
        http: http.clone(),
        ws: handshakes.as_ref().map(|handshakes| handshakes.service(context)),
    };
    let HttpOptions {
        host, port, guards, ..
    } = options;
    TcpServer::start(host, *port, &limits, &traffic, guards, service).await
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

/// Passes requests on whose `Host` is allowed, and of calls those that the guards admit. Refuses
/// others. What says how the node is, and what a browser asks before a call, needs no token.
#[derive(Clone)]
struct GuardedService<S> {
    inner: S,
    hosts: Arc<Hosts>,
    guards: Guards,
    cors: Arc<Cors>,
}

impl<S> GuardedService<S> {
    /// # Errors
    /// The answer to a request that is refused.
    fn check(&self, request: &mut HttpRequest) -> Result<(), Box<HttpResponse>> {
        if !self.hosts.allows_request(request.uri(), request.headers()) {
            return Err(Box::new(refusal(StatusCode::FORBIDDEN, "host not allowed")));
        }
        if request.method() != Method::POST {
            return Ok(());
        }
        admission::admit_request(&self.guards, request).map_err(|mut refused| {
            let origin = request
                .headers()
                .get(ORIGIN)
                .and_then(|origin| origin.to_str().ok());
            if let Some(origin) = origin.filter(|origin| self.cors.allows(origin)) {
                self.cors.mark(origin, refused.headers_mut());
            }
            refused
        })
    }
}

impl<S> Service<HttpRequest> for GuardedService<S>
where
    S: Service<HttpRequest, Response = HttpResponse, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<HttpResponse, Infallible>>>;

    fn call(&self, mut request: HttpRequest) -> Self::Future {
        match self.check(&mut request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(refused) => Either::Right(ready(Ok(*refused))),
        }
    }
}
