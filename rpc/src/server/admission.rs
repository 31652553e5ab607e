//! Asks the guards of a listener about a request, and answers those that are not admitted: 401
//! without a right token, 429 if the client calls too often or has too many connections.
//!
//! Knows headers and statuses. What is granted to whom is for [`crate::access`].

use std::sync::Arc;

use warp::http::header::{HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use warp::http::{Request, StatusCode};

use super::Guards;
use super::acceptor::RequestSource;
use super::replies::{HttpResponse, text};
use crate::access::AccessRefusal;
use crate::meters::Meters;

/// The challenge to a client without a token (RFC 6750, 3).
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"JSON-RPC\"");
/// The same for a client whose token is refused.
const CHALLENGE_REFUSED: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"JSON-RPC\", error=\"invalid_token\"");

/// The client of a request with these headers, with its grant.
///
/// # Errors
/// The answer to a request that is not admitted.
pub(super) fn admit(
    guards: &Guards,
    source: &Arc<RequestSource>,
    headers: &HeaderMap,
) -> Result<Arc<RequestSource>, Box<HttpResponse>> {
    if !guards.check_requests() {
        return Ok(Arc::clone(source));
    }
    let client = source.caller.client;
    match guards.admit(headers, client, &source.token_place) {
        Ok(grant) => Ok(Arc::new(source.with_grant(grant))),
        Err(refused) => {
            tracing::debug!(?client, "a request is not admitted: {refused}");
            Err(Box::new(response(&refused)))
        }
    }
}

/// The same, with the source that the acceptor has put into the request.
///
/// # Errors
/// The answer to a request that is not admitted.
pub(super) fn admit_request<B>(guards: &Guards, request: &mut Request<B>) -> Result<(), Box<HttpResponse>> {
    let source = request.extensions().get::<Arc<RequestSource>>().cloned();
    let Some(source) = source.filter(|_| guards.check_requests()) else {
        return Ok(());
    };
    let source = admit(guards, &source, request.headers())?;
    request.extensions_mut().insert(source);
    Ok(())
}

/// The connection stays open: closing it would cost more than the next request.
fn response(refused: &AccessRefusal) -> HttpResponse {
    let (status, meter, header) = match refused {
        AccessRefusal::Unauthorized(_) if refused.is_wrong_token() => (
            StatusCode::UNAUTHORIZED,
            "token",
            (WWW_AUTHENTICATE, CHALLENGE_REFUSED),
        ),
        AccessRefusal::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "token", (WWW_AUTHENTICATE, CHALLENGE)),
        AccessRefusal::Rate { wait } => {
            let wait_secs = wait.as_secs_f64().ceil().max(1.0) as u64;
            (
                StatusCode::TOO_MANY_REQUESTS,
                "limit",
                (RETRY_AFTER, wait_secs.into()),
            )
        }
        AccessRefusal::Connections(_) => (
            StatusCode::TOO_MANY_REQUESTS,
            "limit",
            (RETRY_AFTER, 1_u64.into()),
        ),
    };
    Meters::refused(meter, 1);
    let mut response = text(status, format!("{refused}\n"));
    response.headers_mut().insert(header.0, header.1);
    response
}
