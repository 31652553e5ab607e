//! From the function of a method, with its own types, to the form in which its row keeps it.
//!
//! A function takes the context and a tuple of parameters. Some functions take more: whether they
//! may read the store, by which name they were called, by which client, or the connection.
//! [`IntoHandler`] lists the arguments that are possible. Its implementations parse the parameters,
//! call the function and write its result as JSON.

use std::pin::Pin;
use std::sync::Arc;

use daemon::ClientId;

use crate::error::{RpcError, RpcResult};
use crate::json::{Json, MethodResult};
use crate::modules::NameStyle;
use crate::params::{FromParams, Params};
use crate::subscriptions::MessageSubscriptions;

/// A handler that answers on the thread it is called on.
pub(crate) type SyncHandler<C> = Arc<dyn Fn(&C, Params<'_>) -> RpcResult<Json> + Send + Sync>;
/// A handler that answers from memory if it can, and otherwise returns [`InlineError::Deferred`].
pub(crate) type CachedHandler<C> =
    Arc<dyn Fn(&C, Params<'_>, ReadScope) -> Result<Json, InlineError> + Send + Sync>;
/// A handler whose answer comes later. It reads its parameters before it waits.
pub(crate) type WaitingHandler<C> = Arc<dyn Fn(Arc<C>, Params<'_>) -> PendingReply + Send + Sync>;
/// A handler that needs the connection it is called through.
pub(crate) type SubscribingHandler<C> =
    Arc<dyn Fn(&C, &MessageSubscriptions, Params<'_>) -> RpcResult<Json> + Send + Sync>;
/// An answer that comes later.
pub(crate) type PendingReply = Pin<Box<dyn Future<Output = RpcResult<Json>> + Send>>;

/// The data that a call may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// Memory, and what a few rows of the store tell: the call runs on a network thread.
    Memory,
    /// Everything: the call runs on a blocking thread.
    Store,
}

/// The reason why a call that was tried on a network thread has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InlineError {
    /// The answer is an error.
    Failed(RpcError),
    /// The call needs more than [`ReadScope::Memory`] allows, and must run on a blocking thread.
    Deferred,
}

impl From<RpcError> for InlineError {
    fn from(error: RpcError) -> Self {
        Self::Failed(error)
    }
}

impl From<InlineError> for RpcError {
    fn from(error: InlineError) -> Self {
        match error {
            InlineError::Failed(error) => error,
            InlineError::Deferred => Self::internal("a method was deferred although it may read the store"),
        }
    }
}

/// A function that can be the function of a row.
///
/// `H` is the form in which the row keeps the function. `Shape` is a function type that names the
/// arguments after the context, and the result. It keeps the implementations apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the function of this row",
    note = "it takes the context and a tuple of parameters, `(A,)` for a single one; each is `FromParam`",
    note = "it returns `RpcResult<R>`, for some rows `Result<R, InlineError>`; `R` is `Serialize + Described`",
    note = "the implementations in `rpc/src/table/handler.rs` list all possible forms"
)]
pub trait IntoHandler<H, Shape> {
    /// The tuple of parameters.
    type Params: FromParams;
    type Result: MethodResult;

    /// The function with parsing before it and writing after it.
    fn into_handler(self) -> H;
}

/// `fn(&C) -> RpcResult<R>`: a method without parameters.
impl<C, R, F> IntoHandler<SyncHandler<C>, fn() -> R> for F
where
    F: Fn(&C) -> RpcResult<R> + Send + Sync + 'static,
    R: MethodResult,
{
    type Params = ();
    type Result = R;

    fn into_handler(self) -> SyncHandler<C> {
        Arc::new(move |context, params| {
            params.parse::<()>()?;
            self(context)?.into_json()
        })
    }
}

/// `fn(&C, params) -> RpcResult<R>`.
impl<C, P, R, F> IntoHandler<SyncHandler<C>, fn(P) -> R> for F
where
    F: Fn(&C, P) -> RpcResult<R> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> SyncHandler<C> {
        Arc::new(move |context, params| self(context, params.parse()?)?.into_json())
    }
}

/// `fn(&C, params, name style) -> RpcResult<R>`.
impl<C, P, R, F> IntoHandler<SyncHandler<C>, fn(P, NameStyle) -> R> for F
where
    F: Fn(&C, P, NameStyle) -> RpcResult<R> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> SyncHandler<C> {
        Arc::new(move |context, params| self(context, params.parse()?, params.name_style())?.into_json())
    }
}

/// `fn(&C, params, client) -> RpcResult<R>`.
impl<C, P, R, F> IntoHandler<SyncHandler<C>, fn(P, ClientId) -> R> for F
where
    F: Fn(&C, P, ClientId) -> RpcResult<R> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> SyncHandler<C> {
        Arc::new(move |context, params| self(context, params.parse()?, params.client())?.into_json())
    }
}

/// `fn(&C, params, scope) -> Result<R, InlineError>`.
impl<C, P, R, F> IntoHandler<CachedHandler<C>, fn(P, ReadScope) -> R> for F
where
    F: Fn(&C, P, ReadScope) -> Result<R, InlineError> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> CachedHandler<C> {
        Arc::new(move |context, params, scope| Ok(self(context, params.parse()?, scope)?.into_json()?))
    }
}

/// `fn(&C, params, scope, name style) -> Result<R, InlineError>`.
impl<C, P, R, F> IntoHandler<CachedHandler<C>, fn(P, ReadScope, NameStyle) -> R> for F
where
    F: Fn(&C, P, ReadScope, NameStyle) -> Result<R, InlineError> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> CachedHandler<C> {
        Arc::new(move |context, params, scope| {
            Ok(self(context, params.parse()?, scope, params.name_style())?.into_json()?)
        })
    }
}

/// `async fn(Arc<C>, params) -> RpcResult<R>`.
impl<C, P, R, F, A> IntoHandler<WaitingHandler<C>, fn(P, A) -> R> for F
where
    F: Fn(Arc<C>, P) -> A + Send + Sync + 'static,
    A: Future<Output = RpcResult<R>> + Send + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> WaitingHandler<C> {
        Arc::new(move |context, params| match params.parse() {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(params) => {
                let answer = self(context, params);
                Box::pin(async move { answer.await?.into_json() })
            }
        })
    }
}

/// `async fn(Arc<C>, params, name style) -> RpcResult<R>`.
impl<C, P, R, F, A> IntoHandler<WaitingHandler<C>, fn(P, NameStyle, A) -> R> for F
where
    F: Fn(Arc<C>, P, NameStyle) -> A + Send + Sync + 'static,
    A: Future<Output = RpcResult<R>> + Send + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> WaitingHandler<C> {
        Arc::new(move |context, params| match params.parse() {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(parsed) => {
                let answer = self(context, parsed, params.name_style());
                Box::pin(async move { answer.await?.into_json() })
            }
        })
    }
}

/// `fn(&C, &MessageSubscriptions, params, name style) -> RpcResult<R>`.
impl<C, P, R, F> IntoHandler<SubscribingHandler<C>, fn(P, NameStyle) -> R> for F
where
    F: Fn(&C, &MessageSubscriptions, P, NameStyle) -> RpcResult<R> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> SubscribingHandler<C> {
        Arc::new(move |context, subscriptions, params| {
            self(context, subscriptions, params.parse()?, params.name_style())?.into_json()
        })
    }
}

/// `fn(&C, &MessageSubscriptions, params, name style, client) -> RpcResult<R>`.
impl<C, P, R, F> IntoHandler<SubscribingHandler<C>, fn(P, NameStyle, ClientId) -> R> for F
where
    F: Fn(&C, &MessageSubscriptions, P, NameStyle, ClientId) -> RpcResult<R> + Send + Sync + 'static,
    P: FromParams,
    R: MethodResult,
{
    type Params = P;
    type Result = R;

    fn into_handler(self) -> SubscribingHandler<C> {
        Arc::new(move |context, subscriptions, params| {
            let (name_style, client) = (params.name_style(), params.client());
            self(context, subscriptions, params.parse()?, name_style, client)?.into_json()
        })
    }
}
