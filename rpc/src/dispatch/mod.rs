//! From a message to its response: finds the methods, runs them where they may run, keeps the
//! limits.
//!
//! Handlers that block run on the runtime's blocking threads behind two gates: one for reads and
//! one for execution. So neither the network threads nor cheap reads wait for expensive calls. A
//! handler that panics answers its call with an internal error. This module knows no sockets.
//!
//! This file finds the rows and plans where they run. `run.rs` runs them, and `gate.rs`
//! decides whose turn it is.

mod run;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::thread;

use bytes::Bytes;
use daemon::ClientId;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tracing::Instrument;

use self::run::MessageRun;
use crate::access::Grant;
use crate::budget::MessageBudget;
use crate::caller::RpcCaller;
use crate::error::{RpcError, RpcResult};
use crate::gate::Gate;
use crate::health::{Health, Healthy};
use crate::json::Json;
use crate::limits::Limits;
use crate::message::{self, Message, NoMemory, ParsedRequest};
use crate::meters::Meters;
use crate::modules::{MODULE_RPC, MODULES, Modules, NameStyle};
use crate::openrpc;
use crate::params::Params;
use crate::subscriptions::{
    MessageSubscriptions, ONE_RESULT, PULL_LEN_MAX, PULL_RESERVED, PulledNotifications, Subscriptions,
};
use crate::table::{
    CachedHandler, Execution, Method, ReadScope, SubscribingHandler, SyncHandler, WaitingHandler,
};
use crate::text::{COPY_LEN_MAX, Text};
use crate::traffic::{ClientMemory, FREE_LEN, MemoryReservation, TrafficMemory};

/// Pulls of subscriptions that run at the same time, for each processor. More would not be quicker.
/// Each pull has a thread, and the allocator keeps freed memory for each thread.
const PULLS_OF_PROCESSOR: usize = 2;

/// The version that `rpc_modules` returns for each module.
const MODULE_VERSION: &str = "1.0";

/// Parameters longer than this many bytes never run on a network thread, unless the method is
/// [`Method::inline`]. Shorter ones are some microseconds of work.
const SHORT_PARAMS_LEN_MAX: usize = 4096;

/// The reason why a table of methods cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodTableError {
    /// Two rows have the same name.
    #[error("method {0} is in the table twice")]
    DuplicateMethod(&'static str),
    /// The module of a row is unknown, so nothing could enable the row.
    #[error("method {0} is in no known module")]
    UnknownModule(&'static str),
}

/// The rows of a node, sorted by name. Clones share them.
pub(crate) struct MethodTable<C>(Arc<Vec<Method<C>>>);

impl<C> Clone for MethodTable<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> MethodTable<C> {
    /// The table of `methods` and of those of each listener.
    ///
    /// # Errors
    /// If two methods have the same name, or a module is unknown.
    pub(crate) fn new(mut methods: Vec<Method<C>>) -> Result<Self, MethodTableError> {
        methods.extend([Method::modules(), Method::discover()]);
        methods.sort_by_key(Method::name);
        for pair in methods.windows(2) {
            if pair[0].name() == pair[1].name() {
                return Err(MethodTableError::DuplicateMethod(pair[0].name()));
            }
        }
        let known = |method: &&Method<C>| method.module() == MODULE_RPC || MODULES.contains(&method.module());
        match methods.iter().find(|method| !known(method)) {
            Some(stray) => Err(MethodTableError::UnknownModule(stray.name())),
            None => Ok(Self(Arc::new(methods))),
        }
    }
}

/// The methods of one node, the context they work on, and the limits they share.
pub struct Rpc<C> {
    context: Arc<C>,
    methods: MethodTable<C>,
    limits: Limits,
    meters: Meters,
    blocking: Gate,
    heavy: Gate,
    /// A permit for each pull of subscriptions that may run at the same time.
    pulls: Arc<Semaphore>,
    /// The answer of `rpc.discover`, once it was asked for.
    description: OnceLock<Bytes>,
    traffic: TrafficMemory,
}

impl<C: Send + Sync + 'static> Rpc<C> {
    /// Joins the methods with their context.
    ///
    /// # Errors
    /// If two methods have the same name, or a module is unknown.
    pub fn new(
        context: Arc<C>,
        methods: Vec<Method<C>>,
        limits: Limits,
    ) -> Result<Arc<Self>, MethodTableError> {
        let methods = MethodTable::new(methods)?;
        let share = limits.client_share_percent;
        let gate = |permits| Gate::new(permits, limits.waiting_calls_max, share);
        Ok(Arc::new(Self {
            context,
            meters: Meters::new(methods.0.iter().map(Method::name)),
            methods,
            blocking: gate(limits.blocking_calls_max),
            heavy: gate(limits.heavy_calls_max),
            pulls: Arc::new(Semaphore::new(pulls_max(&limits))),
            description: OnceLock::new(),
            traffic: TrafficMemory::new(limits.traffic_len_max, share),
            limits,
        }))
    }

    /// Joins the methods of another context with it. All calls share the limits, the turns and the
    /// memory of `other`.
    pub(crate) fn beside<D>(other: &Rpc<D>, context: Arc<C>, methods: &MethodTable<C>) -> Arc<Self> {
        Arc::new(Self {
            context,
            meters: Meters::new(methods.0.iter().map(Method::name)),
            methods: methods.clone(),
            blocking: other.blocking.clone(),
            heavy: other.heavy.clone(),
            pulls: Arc::clone(&other.pulls),
            description: OnceLock::new(),
            traffic: other.traffic.clone(),
            limits: other.limits.clone(),
        })
    }

    /// The rows, sorted by name.
    pub fn methods(&self) -> &[Method<C>] {
        &self.methods.0
    }

    /// The context of the methods.
    pub const fn context(&self) -> &Arc<C> {
        &self.context
    }

    /// The description of all methods, enabled or not. It is written once, and shared by all
    /// answers.
    fn description(&self) -> Json {
        Json::shared(self.description.get_or_init(|| {
            let document = openrpc::document(self.methods.0.iter().map(Method::info));
            document.to_string().into()
        }))
    }

    /// A dispatcher that answers the methods of `modules`, under each of their names.
    pub fn dispatcher(self: &Arc<Self>, modules: &Modules) -> Dispatcher<C> {
        let mut rows = HashMap::new();
        let mut versions = BTreeMap::new();
        for (index, method) in self.methods.0.iter().enumerate() {
            if !modules.contains(method.module()) {
                continue;
            }
            versions.insert(method.module(), MODULE_VERSION);
            rows.insert(method.name().to_owned(), (index, NameStyle::Native));
            rows.extend(
                method
                    .info()
                    .alias()
                    .map(|alias| (alias, (index, NameStyle::Ethereum))),
            );
        }
        Dispatcher {
            rpc: Arc::clone(self),
            rows,
            modules: serde_json::json!(versions).to_string().into(),
        }
    }
}

/// Answers messages with the methods of the enabled modules.
pub struct Dispatcher<C> {
    rpc: Arc<Rpc<C>>,
    /// By name: the index of the method in the table, and the style of the name.
    rows: HashMap<String, (usize, NameStyle)>,
    /// The answer of `rpc_modules`.
    modules: Bytes,
}

/// A pull of the subscriptions, with the memory of its notifications.
pub(crate) type PullResult = RpcResult<(PulledNotifications, MemoryReservation)>;

/// A dispatcher, whatever its methods work on: all that a server has to know of it. So the servers
/// are compiled once. The futures are on the heap, because the stack of a network thread already
/// has those of the routes.
pub(crate) trait Answering: Send + Sync {
    /// The limits that every server keeps.
    fn limits(&self) -> &Limits;

    /// The memory for requests and responses that all servers share.
    fn traffic(&self) -> &TrafficMemory;

    /// The state of the node.
    ///
    /// # Errors
    /// If the chain cannot be read.
    fn health(&self) -> RpcResult<Health>;

    /// Answers one message, see [`Dispatcher::answer`].
    fn answer_boxed<'a>(
        &'a self,
        body: Bytes,
        caller: &'a RpcCaller,
        subscriptions: Option<&'a MessageSubscriptions>,
    ) -> BoxFuture<'a, Result<Option<Text>, NoMemory>>;

    /// Pulls notifications, see [`Dispatcher::pull`].
    fn pull_boxed(
        &self,
        subscriptions: Arc<Subscriptions>,
        memory: ClientMemory,
    ) -> BoxFuture<'_, PullResult>;
}

impl<C: Healthy + Send + Sync + 'static> Answering for Dispatcher<C> {
    fn limits(&self) -> &Limits {
        Self::limits(self)
    }

    fn traffic(&self) -> &TrafficMemory {
        Self::traffic(self)
    }

    fn health(&self) -> RpcResult<Health> {
        self.rpc.context.health()
    }

    fn answer_boxed<'a>(
        &'a self,
        body: Bytes,
        caller: &'a RpcCaller,
        subscriptions: Option<&'a MessageSubscriptions>,
    ) -> BoxFuture<'a, Result<Option<Text>, NoMemory>> {
        Box::pin(self.answer(body, caller, subscriptions))
    }

    fn pull_boxed(
        &self,
        subscriptions: Arc<Subscriptions>,
        memory: ClientMemory,
    ) -> BoxFuture<'_, PullResult> {
        Box::pin(self.pull(subscriptions, memory))
    }
}

/// The gate at which a call that may block waits for a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallGate {
    Blocking,
    Heavy,
}

/// The way in which one request is answered.
enum CallPlan<'a, C> {
    /// With an error: it is not a valid request, or there is no such method.
    Refuse(RpcError),
    /// With an error: the client calls too often.
    Limit(RpcError),
    /// `rpc_modules`.
    Modules(Params<'a>),
    /// `rpc.discover`.
    Discover(Params<'a>),
    /// Run the handler on this thread.
    Inline(&'static str, &'a SyncHandler<C>, Params<'a>),
    /// Try the handler on this thread. If it is deferred, run it on a blocking thread.
    Cached(CallGate, &'static str, &'a CachedHandler<C>, Params<'a>),
    /// Run the handler on a blocking thread.
    Gated(CallGate, &'static str, GatedHandler<C>, Params<'a>),
    /// Start the handler on this thread and wait for its answer.
    Waiting(&'static str, &'a WaitingHandler<C>, Params<'a>),
    /// Run the handler on this thread, with the connection.
    Subscribing(&'static str, &'a SubscribingHandler<C>, Params<'a>),
}

/// A handler that runs on a blocking thread.
enum GatedHandler<C> {
    Plain(SyncHandler<C>),
    Cached(CachedHandler<C>),
}

// Written by hand because the derived implementation would require `C: Clone`.
impl<C> Clone for GatedHandler<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Plain(handler) => Self::Plain(Arc::clone(handler)),
            Self::Cached(handler) => Self::Cached(Arc::clone(handler)),
        }
    }
}

impl<C> GatedHandler<C> {
    fn run(&self, context: &C, params: Params<'_>) -> RpcResult<Json> {
        match self {
            Self::Plain(handler) => handler(context, params),
            Self::Cached(handler) => handler(context, params, ReadScope::Store).map_err(Into::into),
        }
    }
}

impl<C> CallPlan<'_, C> {
    const fn gate(&self) -> Option<CallGate> {
        match self {
            CallPlan::Gated(gate, ..) => Some(*gate),
            _ => None,
        }
    }

    /// The method that runs; `None` if the request is refused.
    const fn method(&self) -> Option<&'static str> {
        match self {
            CallPlan::Refuse(_) | CallPlan::Limit(_) => None,
            CallPlan::Modules(_) => Some("rpc_modules"),
            CallPlan::Discover(_) => Some("rpc.discover"),
            CallPlan::Inline(name, ..)
            | CallPlan::Cached(_, name, ..)
            | CallPlan::Gated(_, name, ..)
            | CallPlan::Waiting(name, ..)
            | CallPlan::Subscribing(name, ..) => Some(name),
        }
    }

    /// The style of the name that the method was called by.
    const fn name_style(&self) -> NameStyle {
        match self {
            CallPlan::Refuse(_) | CallPlan::Limit(_) => NameStyle::Native,
            CallPlan::Modules(params)
            | CallPlan::Discover(params)
            | CallPlan::Inline(.., params)
            | CallPlan::Cached(.., params)
            | CallPlan::Gated(.., params)
            | CallPlan::Waiting(.., params)
            | CallPlan::Subscribing(.., params) => params.name_style(),
        }
    }

    /// Whether the plan takes time of the network thread.
    const fn is_inline(&self) -> bool {
        !matches!(self, CallPlan::Gated(..) | CallPlan::Waiting(..))
    }

    /// The same plan on a blocking thread, if the handler can run there.
    fn gated(self) -> Self {
        match self {
            CallPlan::Inline(name, handler, params) => CallPlan::Gated(
                CallGate::Blocking,
                name,
                GatedHandler::Plain(Arc::clone(handler)),
                params,
            ),
            CallPlan::Cached(gate, name, handler, params) => {
                CallPlan::Gated(gate, name, GatedHandler::Cached(Arc::clone(handler)), params)
            }
            other => other,
        }
    }
}

/// The number of pulls of subscriptions that run at the same time: some for each processor, and at
/// most half of the calls that may block.
fn pulls_max(limits: &Limits) -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    limits
        .blocking_calls_max
        .div_ceil(2)
        .min(PULLS_OF_PROCESSOR * processors)
}

impl<C: Send + Sync + 'static> Dispatcher<C> {
    /// Answers one message as the local socket does. Returns `None` if the message has only
    /// notifications, which have no answer.
    pub async fn handle(&self, body: Bytes) -> Option<Vec<u8>> {
        self.handle_of(body, RpcCaller::local(&self.rpc.traffic)).await
    }

    /// Answers one message of `client`, which has come over another server than those of this
    /// package. It has the client's share of memory and turns. Returns `None` if the message has
    /// only notifications. If the future is dropped, the work on the message stops.
    pub async fn handle_remote(&self, body: Bytes, client: ClientId) -> Option<Vec<u8>> {
        self.handle_of(body, RpcCaller::remote(client, &self.rpc.traffic))
            .await
    }

    async fn handle_of(&self, body: Bytes, caller: RpcCaller) -> Option<Vec<u8>> {
        match self.answer(body, &caller, None).await {
            Ok(answer) => answer.map(|text| text.to_vec()),
            Err(NoMemory) => Some(message::error_response(&RpcError::no_memory()).to_vec()),
        }
    }

    /// Answers one message of `caller`. `subscriptions` are those of its connection, if the
    /// connection can have any. If the future is dropped, the work on the message stops.
    ///
    /// # Errors
    /// [`NoMemory`] if too little memory is left even for an answer of errors.
    async fn answer(
        &self,
        body: Bytes,
        caller: &RpcCaller,
        subscriptions: Option<&MessageSubscriptions>,
    ) -> Result<Option<Text>, NoMemory> {
        let run = MessageRun {
            dispatcher: self,
            body: &body,
            caller,
            subscriptions,
            budget: MessageBudget::new(&self.rpc.limits, caller.memory.clone()),
        };
        let _cancel = run.budget.cancel_on_drop();
        match message::parse(&body, &self.rpc.limits) {
            Message::Broken(error) => {
                let error = caller.grant.pay(1).1.unwrap_or(error);
                Ok(Some(message::error_response(&error)))
            }
            Message::Single(member) => {
                let span = tracing::debug_span!("request", bytes = body.len());
                run.single(&member).instrument(span).await
            }
            Message::Batch(members) => {
                let span = tracing::debug_span!("batch", bytes = body.len(), calls = members.len());
                run.batch(&members).instrument(span).await
            }
        }
    }

    /// The notifications for the client with these `subscriptions` now, with the `memory` of the
    /// client that it takes. If too little is left for a pull, it is one result.
    ///
    /// # Errors
    /// The error that kept their sources from reading the chain.
    async fn pull(&self, subscriptions: Arc<Subscriptions>, memory: ClientMemory) -> PullResult {
        // No deadline holds, because no request waits for the notifications.
        let permit = Arc::clone(&self.rpc.pulls)
            .acquire_owned()
            .await
            .map_err(|_| stopping())?;
        let mut reservation = MemoryReservation::default();
        let (len_max, free_len) = match memory.reserve(&mut reservation, PULL_RESERVED) {
            true => (PULL_LEN_MAX, FREE_LEN),
            // A result of this length is always sent, or subscriptions would end without memory.
            false => (ONE_RESULT, COPY_LEN_MAX),
        };
        let budget = MessageBudget::with_free_len(self.limits(), memory, free_len);
        let pull = move || {
            let pulled = budget.run(|| subscriptions.pull(len_max));
            drop(permit);
            pulled.map(|pulled| {
                reservation.shrink(pulled.len);
                (pulled, reservation)
            })
        };
        let pulled = tokio::task::spawn_blocking(pull).await;
        pulled.unwrap_or_else(|_| Err(panicked("subscription")))
    }

    /// The context of the methods.
    pub fn context(&self) -> &Arc<C> {
        &self.rpc.context
    }

    /// The memory for requests and responses that all servers of these methods share.
    pub(crate) fn traffic(&self) -> &TrafficMemory {
        &self.rpc.traffic
    }

    /// The limits that every server of these methods keeps.
    pub fn limits(&self) -> &Limits {
        &self.rpc.limits
    }

    /// The answer of `rpc_modules` for a caller: the modules of which it may call a method.
    fn modules(&self, grant: &Grant) -> Json {
        if !grant.is_limited() {
            return Json::shared(&self.modules);
        }
        let methods = self.rows.values().map(|(index, _)| &self.rpc.methods.0[*index]);
        let versions: BTreeMap<_, _> = methods
            .filter(|method| grant.permits(method.module(), method.name()))
            .map(|method| (method.module(), MODULE_VERSION))
            .collect();
        Json::shared(&serde_json::json!(versions).to_string().into())
    }

    fn plan<'a>(&'a self, member: &ParsedRequest<'a>, caller: &RpcCaller) -> CallPlan<'a, C> {
        let request = match member {
            Ok(request) => request,
            Err(rejected) => return CallPlan::Refuse(rejected.error.clone()),
        };
        let Some((index, name_style)) = self.rows.get(&*request.method) else {
            return CallPlan::Refuse(RpcError::method_not_found(&request.method));
        };
        let method = &self.rpc.methods.0[*index];
        let (name, json) = (method.name(), request.params);
        if !caller.grant.permits(method.module(), name) {
            return CallPlan::Refuse(RpcError::method_not_found(&request.method));
        }
        let params = Params::new(json.map(str::as_bytes), *name_style).of_client(caller.client);
        let is_short = json.is_none_or(|json| json.len() <= SHORT_PARAMS_LEN_MAX);
        match method.execution() {
            Execution::Modules => CallPlan::Modules(params),
            Execution::Discover => CallPlan::Discover(params),
            Execution::Inline(handler) => CallPlan::Inline(name, handler, params),
            Execution::Sized(handler) if is_short => CallPlan::Inline(name, handler, params),
            Execution::Reading(handler) if is_short && !may_name_pending(json) => {
                CallPlan::Inline(name, handler, params)
            }
            Execution::Cached(handler) if is_short => {
                CallPlan::Cached(CallGate::Blocking, name, handler, params)
            }
            Execution::Cached(handler) => CallPlan::Gated(
                CallGate::Blocking,
                name,
                GatedHandler::Cached(Arc::clone(handler)),
                params,
            ),
            Execution::Brief(handler) if is_short => CallPlan::Cached(CallGate::Heavy, name, handler, params),
            Execution::Brief(handler) => CallPlan::Gated(
                CallGate::Heavy,
                name,
                GatedHandler::Cached(Arc::clone(handler)),
                params,
            ),
            Execution::Sized(handler) | Execution::Reading(handler) | Execution::Blocking(handler) => {
                CallPlan::Gated(
                    CallGate::Blocking,
                    name,
                    GatedHandler::Plain(Arc::clone(handler)),
                    params,
                )
            }
            Execution::Heavy(handler) => CallPlan::Gated(
                CallGate::Heavy,
                name,
                GatedHandler::Plain(Arc::clone(handler)),
                params,
            ),
            Execution::Waiting(handler) => CallPlan::Waiting(name, handler, params),
            Execution::Subscribing(handler) => CallPlan::Subscribing(name, handler, params),
        }
    }
}

/// Whether parameters may contain the tag `pending`. Escapes could spell it in other ways.
fn may_name_pending(json: Option<&str>) -> bool {
    json.is_some_and(|json| json.contains("pending") || json.contains('\\'))
}

fn panicked(name: &str) -> RpcError {
    tracing::error!(method = name, "a method panicked");
    RpcError::internal("internal error")
}

fn stopping() -> RpcError {
    RpcError::refused("the node is stopping")
}

#[cfg(test)]
mod tests;
