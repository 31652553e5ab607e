//! Answers of the servers that are plain text.
//!
//! Knows neither requests nor JSON-RPC: the caller gives status and text.

use warp::Reply;
use warp::http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use warp::http::{Response, StatusCode};

/// A response as it goes to the network.
pub(super) type HttpResponse = warp::reply::Response;

/// A plain-text answer.
pub(super) fn text(status: StatusCode, text: String) -> HttpResponse {
    let mut response = Response::new(text).into_response();
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// A plain-text answer that closes the connection, because part of the request may be unread.
pub(super) fn refusal(status: StatusCode, reason: &str) -> HttpResponse {
    let mut response = text(status, format!("{reason}\n"));
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
