//! From a request's path to the function that answers it.

use std::sync::Arc;

use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};

use super::answers::{HeldBody, counted_answer};
use super::server::{ConnectionState, OpenCall};
use super::service::ServiceState;
use super::streams;
use crate::proto::ServiceReply;
use crate::wire::metered::{MeteredBody, StreamMeter};
use crate::wire::{
    ACCOUNT_INFO, BASE_HEADERS, CHAIN_INFO, DOWNLOAD_BLOCK, REMOTE_CALL, SCB_PUBLIC_CALL, SCS_PUSH,
    StreamHandler, UPLOAD_BLOCK, UnaryHandler, WITNESS, codec,
};

/// A request with what its answer needs.
struct Call {
    state: Arc<ServiceState>,
    connection: Arc<ConnectionState>,
    open: OpenCall,
    meter: StreamMeter,
    request: http::Request<MeteredBody<Incoming>>,
}

/// Answers a request. Errors are in the answer, too, as gRPC has it.
pub(super) async fn route(
    state: Arc<ServiceState>,
    connection: Arc<ConnectionState>,
    request: http::Request<Incoming>,
) -> http::Response<Body> {
    let open = match OpenCall::begin(&connection) {
        Ok(open) => open,
        Err(status) => return status.into_http(),
    };
    let permit = match state.received.take(connection.client.address.into(), 0) {
        Ok(permit) => permit,
        Err(error) => return Status::resource_exhausted(error.to_string()).into_http(),
    };
    let meter = StreamMeter::new(permit);
    let path = request.uri().path().to_owned();
    let request = request.map(|body| MeteredBody::new(body, meter.clone()));
    let call = Call {
        state,
        connection,
        open,
        meter,
        request,
    };
    match path.as_str() {
        SCS_PUSH => call.stream().await,
        ACCOUNT_INFO => call.unary(ServiceState::account_info).await,
        CHAIN_INFO => call.unary(ServiceState::chain_info).await,
        REMOTE_CALL => call.unary(ServiceState::remote_call).await,
        SCB_PUBLIC_CALL => call.unary(ServiceState::public_call).await,
        BASE_HEADERS => call.unary(ServiceState::base_headers).await,
        WITNESS => call.unary(ServiceState::witness).await,
        UPLOAD_BLOCK => call.unary(ServiceState::upload_block).await,
        DOWNLOAD_BLOCK => {
            let meter = call.meter.clone();
            call.unary(move |state, _, request| state.download_block(meter.clone(), request))
                .await
        }
        other => {
            Status::unimplemented(format!("method: got {other}, expected one of moac.Vnode")).into_http()
        }
    }
}

impl Call {
    async fn stream(self) -> http::Response<Body> {
        let Self {
            state,
            connection,
            open,
            meter,
            request,
        } = self;
        let max = state.config.limits.message_len_max;
        let queue = match streams::new_queue(&state, &connection) {
            Ok(queue) => queue,
            Err(status) => return status.into_http(),
        };
        let mut given = Some((state, connection, open, meter, Arc::clone(&queue)));
        let handler = StreamHandler(move |request: Request<_>| {
            // tonic calls a handler once.
            let given = given.take();
            async move {
                let (state, connection, open, meter, queue) =
                    given.ok_or_else(|| Status::internal("a stream was opened twice"))?;
                streams::open(state, connection, open, meter, queue, request)
            }
        });
        let response = Grpc::new(codec())
            .max_decoding_message_size(max)
            .max_encoding_message_size(max)
            .streaming(handler, request)
            .await;
        let hold = move |part| queue.part(part);
        response.map(|inner| Body::new(HeldBody { inner, hold }))
    }

    async fn unary<Req, F, R>(self, answer: F) -> http::Response<Body>
    where
        Req: Message + Default + 'static,
        F: Fn(Arc<ServiceState>, Arc<ConnectionState>, Req) -> R,
        R: Future<Output = Result<ServiceReply, Status>>,
    {
        let Self {
            state,
            connection,
            open,
            meter,
            request,
        } = self;
        let max = state.config.limits.message_len_max;
        let handler = UnaryHandler(|request: Request<Req>| {
            let (state, connection) = (Arc::clone(&state), Arc::clone(&connection));
            let serving = state.check_serving();
            let answered = answer(state, connection, request.into_inner());
            let meter = meter.clone();
            async move {
                serving?;
                let reply = answered.await?;
                meter.count_answer(reply.encoded_len())?;
                Ok(Response::new(reply))
            }
        });
        let response = Grpc::new(codec())
            .max_decoding_message_size(max)
            .max_encoding_message_size(max)
            .unary(handler, request)
            .await;
        response.map(|body| counted_answer(body, connection, meter, open))
    }
}
