//! The routes of the HTTP server, as warp filters: which requests are taken, and how their bodies
//! are read.
//!
//! Content type, origin and length are judged here; names are the business of [`super::http`],
//! connections and their time of `door.rs`.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::time::timeout;
use warp::http::header::{ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use warp::http::{Method, Response, StatusCode};
use warp::{Filter, Stream};

use super::gzip::{self, Gzip};
use super::{Cors, Healthy};
use crate::dispatch::Dispatcher;
use crate::traffic::{Room, Traffic};

/// What a visitor with a browser sees.
const GREETING: &str = "This is a JSON-RPC 2.0 endpoint: send POST with Content-Type: application/json.\n";
/// What can be done at the root.
const ROOT_METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS, Method::POST];
/// What can be done at `/health`.
const HEALTH_METHODS: &[Method] = &[Method::GET, Method::HEAD];
/// An oversized body is read on up to this many times its limit, because a client still sending
/// when the connection closes would never see the answer.
const DISCARD_FACTOR: usize = 4;
/// A body's room in memory is taken in pieces of this many bytes; the first is free.
const BODY_PIECE_LEN: usize = 64 * 1024;

/// The routes: `POST` calls, `GET` greets or says how the node is, `HEAD` does so without the body,
/// `OPTIONS` tells a browser what it may do.
pub(super) fn routes<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    cors: Arc<Cors>,
) -> impl Filter<Extract = (impl warp::Reply,), Error = warp::Rejection> + Clone + Send + Sync + 'static {
    let origin = || warp::header::optional::<String>("origin");
    let guard = Arc::clone(&cors);
    let patient = Arc::clone(&dispatcher);
    let gzip = Arc::new(Gzip::new());
    let post = warp::path::end()
        .and(warp::post())
        .and(origin())
        .and(warp::header::optional::<String>("content-type"))
        .and(warp::header::optional::<u64>("content-length"))
        .and(warp::header::optional::<String>("accept-encoding"))
        .and(warp::body::stream())
        .then(
            move |origin: Option<String>,
                  content_type: Option<String>,
                  length,
                  accepted: Option<String>,
                  body| {
                let (dispatcher, cors) = (Arc::clone(&dispatcher), Arc::clone(&guard));
                let gzip = Arc::clone(&gzip);
                async move {
                    let foreign = origin
                        .as_deref()
                        .is_some_and(|origin| cors.is_enabled() && !cors.allows(origin));
                    let mut response = if foreign {
                        refusal(StatusCode::FORBIDDEN, "origin not allowed")
                    } else if !content_type.as_deref().is_some_and(is_json) {
                        refusal(
                            StatusCode::UNSUPPORTED_MEDIA_TYPE,
                            "want Content-Type: application/json",
                        )
                    } else {
                        let is_accepted = accepted.as_deref().is_some_and(gzip::is_accepted);
                        let gzip = is_accepted.then_some(&*gzip);
                        call(&dispatcher, length, gzip, body).await
                    };
                    if let Some(origin) = origin.filter(|origin| cors.allows(origin)) {
                        cors.mark(&origin, response.headers_mut());
                    }
                    response
                }
            },
        );
    // The transport leaves the body of the answer to a `HEAD` out.
    let read = || warp::get().or(warp::head()).unify();
    let get = warp::path::end()
        .and(read())
        .map(|| text(StatusCode::OK, GREETING.to_owned()));
    let health = warp::path("health")
        .and(warp::path::end())
        .and(read())
        .map(move || health(&**patient.context()));
    let options = warp::path::end()
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
    let other = warp::path::end().and(not_allowed(ROOT_METHODS));
    let other_health = warp::path("health")
        .and(warp::path::end())
        .and(not_allowed(HEALTH_METHODS));
    let known = post.or(get).unify().or(options).unify().or(health).unify();
    known.or(other).unify().or(other_health).unify()
}

/// Refuses every method but these, which it names.
fn not_allowed(
    methods: &'static [Method],
) -> impl Filter<Extract = (Response<Bytes>,), Error = warp::Rejection> + Clone + Send + Sync + 'static {
    warp::method().and_then(move |method: Method| {
        ready(match methods.contains(&method) {
            true => Err(warp::reject()),
            false => {
                let allowed: Vec<_> = methods.iter().map(Method::as_str).collect();
                let allowed = allowed.join(", ");
                let reason = format!("method {method} not allowed, want one of {allowed}");
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

/// How the node is; 503 where it cannot even read its chain.
fn health(node: &impl Healthy) -> Response<Bytes> {
    let (status, body) = match node.health() {
        Ok(health) => (StatusCode::OK, health.to_json()),
        Err(error) => (
            StatusCode::SERVICE_UNAVAILABLE,
            serde_json::json!({ "error": error.message() }).to_string(),
        ),
    };
    let mut response = json(body.into());
    *response.status_mut() = status;
    response
}

/// Reads the body and answers it, compressed where there is a `gzip` and it is worth it.
async fn call<C, B>(
    dispatcher: &Dispatcher<C>,
    length: Option<u64>,
    gzip: Option<&Gzip>,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Response<Bytes>
where
    C: Send + Sync + 'static,
    B: Buf,
{
    let limits = dispatcher.limits();
    let max = limits.body_len_max;
    let discard_max = max.saturating_mul(DISCARD_FACTOR);
    // Reading such a body to its end would help nobody; a client that asked first is told at once.
    let is_hopeless = length.is_some_and(|length| length > discard_max as u64);
    let read = if is_hopeless {
        Ok(Err(BodyError::TooLong))
    } else {
        timeout(
            limits.body_timeout,
            read_body(body, max, discard_max, dispatcher.traffic()),
        )
        .await
    };
    match read {
        Ok(Ok((body, room))) => {
            let answer = dispatcher.handle(body).await;
            drop(room);
            match answer {
                Some(answer) => answered(dispatcher.traffic(), answer, gzip).await,
                None => empty(),
            }
        }
        Ok(Err(BodyError::NoRoom)) => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many long requests at the same time",
        ),
        Ok(Err(BodyError::TooLong)) => refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("the request body is longer than {max} bytes"),
        ),
        Ok(Err(BodyError::Broken(error))) => {
            tracing::debug!(%error, "a request body ended early");
            refusal(StatusCode::BAD_REQUEST, "the request body cannot be read")
        }
        Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "the request body took too long"),
    }
}

/// The response with this answer, which holds its room from here until it is sent: as it is at
/// first, since that is how it waits to be compressed.
async fn answered(traffic: &Traffic, answer: Vec<u8>, gzip: Option<&Gzip>) -> Response<Bytes> {
    let Some(answer) = traffic.hold(answer) else {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many long responses at the same time",
        );
    };
    let (answer, zipped) = match gzip {
        Some(gzip) => gzip.compress(answer).await,
        None => (answer, false),
    };
    let mut response = json(answer.into());
    if zipped {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}

enum BodyError {
    TooLong,
    NoRoom,
    Broken(warp::Error),
}

/// Collects a body of at most `max` bytes, however it is sent, with the room it takes up. A longer
/// one is thrown away up to `discard_max` bytes.
async fn read_body<B: Buf>(
    body: impl Stream<Item = Result<B, warp::Error>>,
    max: usize,
    discard_max: usize,
    traffic: &Traffic,
) -> Result<(Bytes, Room), BodyError> {
    let mut body = pin!(body);
    let mut room = Room::default();
    let mut room_len = BODY_PIECE_LEN;
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    let mut len = 0_usize;
    while let Some(chunk) = std::future::poll_fn(|task| body.as_mut().poll_next(task)).await {
        let mut chunk = chunk.map_err(BodyError::Broken)?;
        len += chunk.remaining();
        if len > discard_max {
            return Err(BodyError::TooLong);
        }
        if len > max {
            (first, whole, room) = (Bytes::new(), Vec::new(), Room::default());
            continue;
        }
        while room_len < len {
            if !traffic.take(&mut room, BODY_PIECE_LEN) {
                return Err(BodyError::NoRoom);
            }
            room_len += BODY_PIECE_LEN;
        }
        // Most bodies come in one piece, which needs no copy.
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
        len if len > max => Err(BodyError::TooLong),
        _ if whole.is_empty() => Ok((first, room)),
        _ => Ok((whole.into(), room)),
    }
}

fn empty() -> Response<Bytes> {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn json(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// A plain-text answer after which the connection ends, because the request may be unread.
pub(super) fn refusal(status: StatusCode, reason: &str) -> Response<Bytes> {
    let mut response = text(status, format!("{reason}\n"));
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
