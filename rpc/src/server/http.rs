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

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::filters::BoxedFilter;
use warp::http::header::ORIGIN;
use warp::http::{Method, StatusCode};

use super::acceptor::{ConnectionContext, HttpRequest, HttpResponseFuture, HttpService};
use super::replies::{HttpResponse, refusal};
use super::routes::routes;
use super::ws::{HandshakePolicy, Handshakes, is_upgrade};
use super::{Cors, Guards, Healthy, Hosts, ServeError, TcpServer, admission};
pub use crate::control::{HOST, PORT, PORT_SCS};
use crate::dispatch::{Answering, Dispatcher};
use crate::micro_chains::ScsNode;
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
pub fn start<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    start_with_ws(dispatcher, options, None)
}

/// Starts to listen as [`start`] does, for an SCS: see
/// [`start_scs_http`](crate::node_servers::start_scs_http).
///
/// # Errors
/// If the address cannot be found or listened on.
pub(crate) fn start_with_chains(
    dispatcher: Arc<Dispatcher<ScsNode>>,
    options: &HttpOptions,
    chains: WalletChains,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    let ws = SharedWs {
        dispatcher: Arc::clone(&dispatcher),
        origins: options.cors.clone(),
    };
    let chains = Some(Arc::new(chains));
    let ws = Some(ws.handshakes(options, chains.clone()));
    start_server(dispatcher, options, ws, chains)
}

/// WebSockets on the port of the HTTP server.
pub struct SharedWs<C> {
    /// Answers their messages.
    pub dispatcher: Arc<Dispatcher<C>>,
    /// Browser origins that may connect.
    pub origins: Cors,
}

impl<C: Healthy + Send + Sync + 'static> SharedWs<C> {
    fn handshakes(self, options: &HttpOptions, chains: Option<Arc<WalletChains>>) -> Handshakes {
        let policy = HandshakePolicy {
            origins: self.origins,
            hosts: options.hosts.clone(),
            guards: options.guards.clone(),
        };
        Handshakes::new(self.dispatcher, policy, chains)
    }
}

/// Starts to listen as [`start`] does. With `ws` a request that asks for a WebSocket gets one.
///
/// # Errors
/// If the address cannot be found or listened on.
pub fn start_with_ws<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
    ws: Option<SharedWs<C>>,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    let ws = ws.map(|ws| ws.handshakes(options, None));
    start_server(dispatcher, options, ws, None)
}

fn start_server<'a>(
    dispatcher: Arc<dyn Answering>,
    options: &'a HttpOptions,
    handshakes: Option<Handshakes>,
    chains: Option<Arc<WalletChains>>,
) -> BoxFuture<'a, Result<TcpServer, ServeError>> {
    let (limits, traffic) = (dispatcher.limits().clone(), dispatcher.traffic().clone());
    let cors = Arc::new(options.cors.clone());
    let http = Arc::new(GuardedRoutes {
        routes: answer_by(routes(dispatcher, Arc::clone(&cors), chains)),
        hosts: options.hosts.clone(),
        guards: options.guards.clone(),
        cors,
    });
    let services = move |context: &ConnectionContext| -> HttpService {
        let http = Arc::clone(&http);
        let ws = handshakes.as_ref().map(|handshakes| handshakes.service(context));
        Box::new(move |request| match &ws {
            Some(ws) if is_upgrade(&request) => ws(request),
            _ => http.answer(request),
        })
    };
    let HttpOptions {
        host, port, guards, ..
    } = options;
    Box::pin(
        async move { TcpServer::start(host, *port, &limits, &traffic, guards, Arc::new(services)).await },
    )
}

/// Makes one function of the routes, which hides their type.
fn answer_by(routes: BoxedFilter<(HttpResponse,)>) -> Routes {
    let service = TowerToHyperService::new(warp::service(routes));
    Box::new(move |request| {
        let answer = service.call(request);
        answer.unwrap_or_else(|never| match never {}).boxed()
    })
}

/// The routes as one function.
type Routes = Box<dyn Fn(HttpRequest) -> HttpResponseFuture + Send + Sync>;

/// Passes requests on whose `Host` is allowed, and of calls those that the guards admit. Refuses
/// others. What says how the node is, and what a browser asks before a call, needs no token.
struct GuardedRoutes {
    routes: Routes,
    hosts: Hosts,
    guards: Guards,
    cors: Arc<Cors>,
}

impl GuardedRoutes {
    fn answer(&self, mut request: HttpRequest) -> HttpResponseFuture {
        match self.check(&mut request) {
            Ok(()) => (self.routes)(request),
            Err(refused) => ready(*refused).boxed(),
        }
    }

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
