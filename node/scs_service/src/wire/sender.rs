//! The sending half of a client's HTTP/2 connection, as tonic wants it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tonic::body::Body;

/// Sends the calls of a connection. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct RequestSender(pub(crate) SendRequest<Body>);

impl tower_service::Service<http::Request<Body>> for RequestSender {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
