//! The transport of calls and streams: the paths of the services, and what tonic needs to serve and
//! to make calls over connections of our own.
//!
//! A generator would write the same from a service definition.

pub(crate) mod metered;
mod sender;

use std::future::Future;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::server::{StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

pub(crate) use sender::RequestSender;

/// The method of `moac.Vnode` with two streams.
pub(crate) const SCS_PUSH: &str = "/moac.Vnode/ScsPush";
/// Reads an account.
pub(crate) const ACCOUNT_INFO: &str = "/moac.Vnode/AccountInfo";
/// Reads storage of a contract.
pub(crate) const CHAIN_INFO: &str = "/moac.Vnode/ChainInfo";
/// Sends a transaction.
pub(crate) const REMOTE_CALL: &str = "/moac.Vnode/RemoteCall";
/// Calls a contract.
pub(crate) const SCB_PUBLIC_CALL: &str = "/moac.Vnode/ScbPublicCall";
/// Reads headers of the base chain. Only programs of this project know it.
pub(crate) const BASE_HEADERS: &str = "/moac.Vnode/BaseHeaders";
/// Proves a part of the base chain's state. Only programs of this project know it.
pub(crate) const WITNESS: &str = "/moac.Vnode/Witness";
/// Leaves a block for others.
pub(crate) const UPLOAD_BLOCK: &str = "/moac.Vnode/UploadBlock";
/// Fetches a block that another SCS has left.
pub(crate) const DOWNLOAD_BLOCK: &str = "/moac.Vnode/DownloadBlock";
/// The only method of `moac.SCS`, which an SCS serves. No published program calls it.
pub(crate) const SYNC: &str = "/moac.SCS/Sync";

/// The header with which a client of ours says that it proves its id. Published programs ignore it.
pub(crate) const CAN_PROVE_HEADER: &str = "scs-can-prove";
/// The header with which a VNODE of ours answers: the challenge, 64 hex digits.
pub(crate) const CHALLENGE_HEADER: &str = "scs-challenge";

/// Default for the most bytes of a message, in both directions: that of gRPC's libraries.
pub(crate) const MESSAGE_LEN_MAX: usize = 4 << 20;

/// The codec of a call that sends `T` and receives `U`.
pub(crate) fn codec<T, U>() -> ProstCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    ProstCodec::default()
}

/// The path of a method for a call.
pub(crate) const fn path(method: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(method)
}

/// A function that answers a unary call.
pub(crate) struct UnaryHandler<F>(pub(crate) F);

impl<F, R, Req, Rep> UnaryService<Req> for UnaryHandler<F>
where
    F: FnMut(Request<Req>) -> R,
    R: Future<Output = Result<Response<Rep>, Status>>,
{
    type Response = Rep;
    type Future = R;

    fn call(&mut self, request: Request<Req>) -> R {
        (self.0)(request)
    }
}

/// A function that answers a stream with a stream.
pub(crate) struct StreamHandler<F>(pub(crate) F);

impl<F, R, S, Req, Rep> StreamingService<Req> for StreamHandler<F>
where
    F: FnMut(Request<Streaming<Req>>) -> R,
    R: Future<Output = Result<Response<S>, Status>>,
    S: tokio_stream::Stream<Item = Result<Rep, Status>>,
{
    type Response = Rep;
    type ResponseStream = S;
    type Future = R;

    fn call(&mut self, request: Request<Streaming<Req>>) -> R {
        (self.0)(request)
    }
}
