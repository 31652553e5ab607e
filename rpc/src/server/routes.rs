//! The routes of the HTTP server, as warp filters: which requests are accepted, and how their
//! bodies are read.
//!
//! Content type, origin and length are checked here. Host names are checked in [`super::http`], and
//! the number and time of connections in `acceptor.rs`. What a body says is for the dispatcher
//! ([`Answering`]).

use std::convert::Infallible;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::stream;
use tokio::time::timeout;
use warp::filters::BoxedFilter;
use warp::http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, VARY};
use warp::http::{Method, Response, StatusCode};
use warp::path::FullPath;
use warp::{Filter, Reply, Stream};

use super::Cors;
use super::acceptor::RequestSource;
use super::gzip::{self, Gzip};
use super::metered::ReadReservation;
use super::replies::{HttpResponse, refusal, text};
use crate::caller::RpcCaller;
use crate::dispatch::Answering;
use crate::error::RpcError;
use crate::message::NoMemory;
use crate::text::Text;
use crate::traffic::{ClientMemory, MemoryReservation};
use crate::wallet_chains::WalletChains;

/// The response to a browser that opens the root.
const GREETING: &str = "This is a JSON-RPC 2.0 endpoint: send POST with Content-Type: application/json.\n";
const ROOT_METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS, Method::POST];
/// The response to a call of a MicroChain that this SCS does not serve.
pub(super) const NO_CHAIN: &str =
    "no such MicroChain: expected /chain/ADDRESS of one of scs_getMicroChainList";
/// The methods at `/health` and `/ready`.
const HEALTH_METHODS: &[Method] = &[Method::GET, Method::HEAD];
/// A body over the limit is still read, up to this many times the limit, and thrown away. A client
/// that is still sending when the connection closes would never see the answer.
const DISCARD_FACTOR: usize = 4;

/// The routes. `POST` carries calls, at the root and at the paths of `chains`. `GET` returns a
/// greeting or the state of the node, and `HEAD` the same without the body. `OPTIONS` tells a
/// browser what it may send.
pub(super) fn routes(
    dispatcher: Arc<dyn Answering>,
    cors: Arc<Cors>,
    chains: Option<Arc<WalletChains>>,
) -> BoxedFilter<(HttpResponse,)> {
    let origin = || warp::header::optional::<String>("origin");
    let health_dispatcher = Arc::clone(&dispatcher);
    let ready_dispatcher = Arc::clone(&dispatcher);
    let gzip = Arc::new(Gzip::new(dispatcher.limits()));
    let has_chains = chains.is_some();
    let is_endpoint =
        move |path: &str| path == "/" || (has_chains && WalletChains::address_in(path).is_some());
    let find = move |path: &str| -> Option<Arc<dyn Answering>> {
        if path == "/" {
            return Some(Arc::clone(&dispatcher));
        }
        Some(chains.as_ref()?.dispatcher(WalletChains::address_in(path)?)? as _)
    };
    let post = calls(at_path(is_endpoint), find, (Arc::clone(&cors), gzip));
    // The paths at which calls are answered.
    let endpoint = move || at_path(is_endpoint).map(|_| ()).untuple_one();
    // hyper leaves out the body of the answer to a `HEAD`.
    let read = || warp::get().or(warp::head()).unify();
    let get = endpoint()
        .and(read())
        .map(|| text(StatusCode::OK, GREETING.to_owned()));
    let health = warp::path("health")
        .and(warp::path::end())
        .and(read())
        .map(move || health(&*health_dispatcher));
    let ready = warp::path("ready")
        .and(warp::path::end())
        .and(read())
        .map(move || readiness(&*ready_dispatcher));
    let options =
        endpoint()
            .and(warp::options())
            .and(origin())
            .map(
                move |origin: Option<String>| match origin.filter(|origin| cors.allows(origin)) {
                    Some(origin) => {
                        let mut response = empty();
                        cors.mark(&origin, response.headers_mut());
                        Cors::mark_preflight(response.headers_mut());
                        response
                    }
                    None => refusal(StatusCode::FORBIDDEN, "origin not allowed"),
                },
            );
    let other = endpoint().and(not_allowed(ROOT_METHODS));
    let other_health = warp::path("health")
        .or(warp::path("ready"))
        .unify()
        .and(warp::path::end())
        .and(not_allowed(HEALTH_METHODS));
    // In boxes the types of the routes are short, which saves the compiler time. A call passes only
    // the outer one.
    let others = [
        options.boxed(),
        health.boxed(),
        ready.boxed(),
        other.boxed(),
        other_health.boxed(),
    ];
    let others = others
        .into_iter()
        .fold(get.boxed(), |routes, route| routes.or(route).unify().boxed());
    post.or(others).unify().boxed()
}

/// The path of a request, if `is_served`.
fn at_path(
    is_served: impl Fn(&str) -> bool + Clone + Send + Sync + 'static,
) -> impl Filter<Extract = (FullPath,), Error = warp::Rejection> + Clone + Send + Sync + 'static {
    warp::path::full().and_then(move |path: FullPath| {
        ready(match is_served(path.as_str()) {
            true => Ok(path),
            false => Err(warp::reject::not_found()),
        })
    })
}

/// Answers calls with the dispatcher that `find` returns for the path. If there is none, there is
/// no such MicroChain.
fn calls(
    path: impl Filter<Extract = (FullPath,), Error = warp::Rejection> + Clone + Send + Sync + 'static,
    find: impl Fn(&str) -> Option<Arc<dyn Answering>> + Clone + Send + Sync + 'static,
    (cors, gzip): (Arc<Cors>, Arc<Gzip>),
) -> impl Filter<Extract = (HttpResponse,), Error = warp::Rejection> + Clone + Send + Sync + 'static {
    path.and(warp::post())
        .and(warp::header::optional::<String>("origin"))
        .and(warp::header::optional::<String>("content-type"))
        .and(warp::header::optional::<u64>("content-length"))
        .and(warp::header::optional::<String>("accept-encoding"))
        .and(warp::ext::get::<Arc<RequestSource>>())
        .and(warp::body::stream())
        .then(
            move |path: FullPath,
                  origin: Option<String>,
                  content_type: Option<String>,
                  length,
                  accepted: Option<String>,
                  source: Arc<RequestSource>,
                  body| {
                let (cors, gzip, find) = (Arc::clone(&cors), Arc::clone(&gzip), find.clone());
                async move {
                    let foreign = origin
                        .as_deref()
                        .is_some_and(|origin| cors.is_enabled() && !cors.allows(origin));
                    let mut response = if foreign {
                        refusal(StatusCode::FORBIDDEN, "origin not allowed")
                    } else if !content_type.as_deref().is_some_and(is_json) {
                        refusal(
                            StatusCode::UNSUPPORTED_MEDIA_TYPE,
                            "expected Content-Type: application/json",
                        )
                    } else if let Some(dispatcher) = find(path.as_str()) {
                        let is_accepted = accepted.as_deref().is_some_and(gzip::is_accepted);
                        let gzip = is_accepted.then_some(&*gzip);
                        call(&*dispatcher, &source, length, gzip, body).await
                    } else {
                        refusal(StatusCode::NOT_FOUND, NO_CHAIN)
                    };
                    if let Some(origin) = origin.filter(|origin| cors.allows(origin)) {
                        cors.mark(&origin, response.headers_mut());
                    }
                    response
                }
            },
        )
}

/// Refuses every method that is not in `methods`, and lists the allowed ones.
fn not_allowed(
    methods: &'static [Method],
) -> impl Filter<Extract = (HttpResponse,), Error = warp::Rejection> + Clone + Send + Sync + 'static {
    warp::method().and_then(move |method: Method| {
        ready(match methods.contains(&method) {
            true => Err(warp::reject()),
            false => {
                let allowed: Vec<_> = methods.iter().map(Method::as_str).collect();
                let allowed = allowed.join(", ");
                let reason = format!("method not allowed: got {method}, expected one of {allowed}");
                let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &reason);
                if let Ok(allowed) = HeaderValue::from_str(&allowed) {
                    response.headers_mut().insert(ALLOW, allowed);
                }
                Ok(response)
            }
        })
    })
}

/// Whether a content type is `application/json`, with or without parameters.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The state of the node, with status 503 if its chain cannot be read.
fn health(node: &dyn Answering) -> HttpResponse {
    match node.health() {
        Ok(health) => state(true, health.to_json()),
        Err(error) => unreadable(&error),
    }
}

/// Whether the node should get requests, with status 503 if it should not.
fn readiness(node: &dyn Answering) -> HttpResponse {
    match node.health() {
        Ok(health) => {
            let readiness = health.readiness(node.limits().ready_age_max);
            state(readiness.ready, readiness.to_json())
        }
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &RpcError) -> HttpResponse {
    state(false, serde_json::json!({ "error": error.message() }).to_string())
}

fn state(is_good: bool, body: String) -> HttpResponse {
    let mut response = json(body);
    if !is_good {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Reads the body and answers it. The answer is compressed if `gzip` is given and it is worth it.
async fn call<B: Buf>(
    dispatcher: &dyn Answering,
    source: &RequestSource,
    length: Option<u64>,
    gzip: Option<&Gzip>,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> HttpResponse {
    let limits = dispatcher.limits();
    let max = limits.body_len_max;
    let discard_max = max.saturating_mul(DISCARD_FACTOR);
    // A declared length above `discard_max` is refused unread. A client that asks first
    // (`Expect: 100-continue`) then does not send the body at all.
    let is_far_too_long = length.is_some_and(|length| length > discard_max as u64);
    let body = if is_far_too_long {
        Ok(Err(RequestBodyError::TooLong))
    } else {
        timeout(
            limits.body_timeout,
            read_body(body, max, discard_max, &source.caller.memory),
        )
        .await
    };
    match body {
        Ok(Ok((body, reservation))) => {
            let _works = source.activity.works();
            let answer = dispatcher.answer_boxed(body, &source.caller, None).await;
            drop(reservation);
            match answer {
                Ok(Some(answer)) => answer_response(answer, gzip, &source.caller).await,
                Ok(None) => empty(),
                Err(NoMemory) => no_memory(),
            }
        }
        Ok(Err(RequestBodyError::NoMemory)) => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many long requests at the same time",
        ),
        Ok(Err(RequestBodyError::TooLong)) => refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("the request body is longer than {max} bytes"),
        ),
        Ok(Err(RequestBodyError::Broken(error))) => {
            tracing::debug!(%error, "a request body ended early");
            refusal(StatusCode::BAD_REQUEST, "the request body cannot be read")
        }
        Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "the request body took too long"),
    }
}

/// The response with this answer. Its memory is released piece by piece as it is sent.
async fn answer_response(answer: Text, gzip: Option<&Gzip>, caller: &RpcCaller) -> HttpResponse {
    let compressed = match gzip {
        Some(gzip) => gzip.compress(answer, caller).await,
        None => Ok((answer, false)),
    };
    let Ok((answer, zipped)) = compressed else {
        return no_memory();
    };
    let len = answer.len();
    let mut pieces = answer.into_pieces();
    let mut response = match pieces.len() {
        0 | 1 => Response::new(pieces.pop_front().unwrap_or_default()).into_response(),
        _ => {
            let pieces = pieces.into_iter().map(Ok::<_, Infallible>);
            let mut response = warp::reply::stream(stream::iter(pieces)).into_response();
            response.headers_mut().insert(CONTENT_LENGTH, len.into());
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if zipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}

fn no_memory() -> HttpResponse {
    refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many long responses at the same time",
    )
}

/// The reason why the body of a request cannot be read.
enum RequestBodyError {
    /// The body is longer than allowed.
    TooLong,
    /// Too little memory is left, as other messages have reserved it.
    NoMemory,
    /// The connection failed.
    Broken(warp::Error),
}

/// Collects a body of at most `max` bytes, in one piece or in chunks, with the memory reserved for
/// it. A longer body is read up to `discard_max` bytes and thrown away.
async fn read_body<B: Buf>(
    body: impl Stream<Item = Result<B, warp::Error>>,
    max: usize,
    discard_max: usize,
    memory: &ClientMemory,
) -> Result<(Bytes, MemoryReservation), RequestBodyError> {
    let mut body = pin!(body);
    let mut reservation = ReadReservation::new(memory.clone());
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    let mut len = 0_usize;
    while let Some(chunk) = std::future::poll_fn(|task| body.as_mut().poll_next(task)).await {
        let mut chunk = chunk.map_err(RequestBodyError::Broken)?;
        len += chunk.remaining();
        if len > discard_max {
            return Err(RequestBodyError::TooLong);
        }
        if len > max {
            (first, whole) = (Bytes::new(), Vec::new());
            reservation.reset();
            continue;
        }
        if !reservation.add(chunk.remaining()) {
            return Err(RequestBodyError::NoMemory);
        }
        // Most bodies come in one chunk, which needs no copy.
        let chunk = chunk.copy_to_bytes(chunk.remaining());
        if first.is_empty() {
            first = chunk;
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&chunk);
        }
    }
    match len {
        len if len > max => Err(RequestBodyError::TooLong),
        _ if whole.is_empty() => Ok((first, reservation.into_memory())),
        _ => Ok((whole.into(), reservation.into_memory())),
    }
}

fn empty() -> HttpResponse {
    let mut response = HttpResponse::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn json(body: String) -> HttpResponse {
    let mut response = Response::new(body).into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
