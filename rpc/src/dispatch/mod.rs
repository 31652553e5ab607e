//! From a message to its response: finds the methods, runs them where they may run, keeps the
//! limits.
//!
//! Handlers that block run on the runtime's blocking threads behind two gates: one for reads and
//! one for execution. So neither the network threads nor cheap reads wait for expensive calls. A
//! handler that panics answers its call with an internal error. The requests of a batch run in
//! order. If they take too long on the network thread, the rest of them leave it together. This
//! module knows no sockets.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::budget::MessageBudget;
use crate::client::ClientId;
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::limits::Limits;
use crate::message::{self, Message, ParsedRequest};
use crate::modules::{MODULE_RPC, MODULES, Modules, NameStyle};
use crate::openrpc;
use crate::params::Params;
use crate::subscriptions::{Notification, RpcSession, Subscriptions};
use crate::table::{
    CachedHandler, Execution, InlineError, Method, PendingReply, ReadScope, SessionHandler, SyncHandler,
    WaitingHandler,
};
use crate::traffic::TrafficMemory;

/// The version that `rpc_modules` returns for each module.
const MODULE_VERSION: &str = "1.0";

/// Parameters longer than this many bytes never run on a network thread, unless the method is
/// [`Method::inline`]. Shorter ones are some microseconds of work.
const SHORT_PARAMS_LEN_MAX: usize = 4096;

/// How long the requests of one batch may run on a network thread. After that, other connections
/// have their turn and the rest of the batch runs on blocking threads. Each request is short, but
/// there may be a thousand.
const INLINE_TIME_MAX: Duration = Duration::from_millis(2);

/// Why a table of methods cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodTableError {
    /// Two rows have the same name.
    #[error("method {0} is in the table twice")]
    DuplicateMethod(&'static str),
    /// The module of a row is unknown, so nothing could enable the row.
    #[error("method {0} is in no known module")]
    UnknownModule(&'static str),
}

/// The methods of one node, the context they work on, and the limits they share.
pub struct Rpc<C> {
    context: Arc<C>,
    methods: Vec<Method<C>>,
    limits: Limits,
    blocking: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    /// The answer of `rpc.discover`, once it was asked for.
    description: OnceLock<Json>,
    traffic: TrafficMemory,
}

impl<C: Send + Sync + 'static> Rpc<C> {
    /// Joins the methods with their context.
    ///
    /// # Errors
    /// If two methods have the same name, or a module is unknown.
    pub fn new(
        context: Arc<C>,
        mut methods: Vec<Method<C>>,
        limits: Limits,
    ) -> Result<Arc<Self>, MethodTableError> {
        methods.extend([Method::modules(), Method::discover()]);
        methods.sort_by_key(Method::name);
        for pair in methods.windows(2) {
            if pair[0].name() == pair[1].name() {
                return Err(MethodTableError::DuplicateMethod(pair[0].name()));
            }
        }
        let known = |method: &&Method<C>| method.module() == MODULE_RPC || MODULES.contains(&method.module());
        if let Some(stray) = methods.iter().find(|method| !known(method)) {
            return Err(MethodTableError::UnknownModule(stray.name()));
        }
        Ok(Arc::new(Self {
            context,
            methods,
            blocking: Arc::new(Semaphore::new(limits.blocking_calls_max)),
            heavy: Arc::new(Semaphore::new(limits.heavy_calls_max)),
            description: OnceLock::new(),
            traffic: TrafficMemory::new(limits.traffic_len_max),
            limits,
        }))
    }

    /// The rows, sorted by name.
    pub fn methods(&self) -> &[Method<C>] {
        &self.methods
    }

    /// What the methods work on.
    pub fn context(&self) -> &Arc<C> {
        &self.context
    }

    /// The description of all methods, enabled or not. It is written once.
    fn description(&self) -> RpcResult<Json> {
        let text = || Json::write(&openrpc::document(self.methods.iter().map(Method::info)));
        match self.description.get() {
            Some(description) => Ok(description.clone()),
            None => text().map(|description| self.description.get_or_init(|| description).clone()),
        }
    }

    /// A dispatcher that answers the methods of `modules`, under each of their names.
    pub fn dispatcher(self: &Arc<Self>, modules: &Modules) -> Dispatcher<C> {
        let mut rows = HashMap::new();
        let mut versions = BTreeMap::new();
        for (index, method) in self.methods.iter().enumerate() {
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
            modules: Json::write(&versions),
        }
    }
}

/// Answers messages with the methods of the enabled modules.
pub struct Dispatcher<C> {
    rpc: Arc<Rpc<C>>,
    /// By name: the index of the method in the table, and the style of the name.
    rows: HashMap<String, (usize, NameStyle)>,
    modules: RpcResult<Json>,
}

/// Where a call that may block waits for a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallGate {
    Blocking,
    Heavy,
}

/// How one request is answered.
enum CallPlan<'a, C> {
    /// With an error: it is not a valid request, or there is no such method.
    Refuse(RpcError),
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
    Session(&'static str, &'a SessionHandler<C>, Params<'a>),
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
    fn gate(&self) -> Option<CallGate> {
        match self {
            CallPlan::Gated(gate, ..) => Some(*gate),
            _ => None,
        }
    }

    /// Whether the plan takes time of the network thread.
    fn is_inline(&self) -> bool {
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

impl<C: Send + Sync + 'static> Dispatcher<C> {
    /// Answers one message. Returns `None` if the message has only notifications, which have no
    /// answer.
    pub async fn handle(&self, body: Bytes) -> Option<Vec<u8>> {
        self.handle_in(body, ClientId::Local(0), None).await
    }

    /// Answers one message of `client`. `session` is the session of its connection, if it has one.
    pub(crate) async fn handle_in(
        &self,
        body: Bytes,
        client: ClientId,
        session: Option<&RpcSession>,
    ) -> Option<Vec<u8>> {
        let mut budget = MessageBudget::new(&self.rpc.limits);
        match message::parse(&body, &self.rpc.limits) {
            Message::Broken(error) => Some(message::error_response(error)),
            Message::Single(member) => {
                let plans = [self.plan(&member, client)];
                let result = self.run(&body, &plans, session, &mut budget).await.pop();
                let result = result.unwrap_or_else(|| Err(stopping()));
                answer_id(&member).map(|id| message::response(id, &result))
            }
            Message::Batch(members) => {
                let plans = members.iter().map(|member| self.plan(member, client)).collect();
                self.run_batch(&body, &members, plans, session, &mut budget).await
            }
        }
    }

    /// What the client with these `subscriptions` is to be told now.
    ///
    /// # Errors
    /// Whatever kept their sources from reading the chain.
    pub(crate) async fn pull(&self, subscriptions: Arc<Subscriptions>) -> RpcResult<Vec<Notification>> {
        // There is no deadline, because no request waits for the notifications.
        let permit = Arc::clone(&self.rpc.blocking)
            .acquire_owned()
            .await
            .map_err(|_| stopping())?;
        let pull = move || {
            let pulled = subscriptions.pull();
            drop(permit);
            pulled
        };
        let pulled = tokio::task::spawn_blocking(pull).await;
        pulled.unwrap_or_else(|_| Err(panicked("subscription")))
    }

    /// What the methods work on.
    pub(crate) fn context(&self) -> &Arc<C> {
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

    fn plan<'a>(&'a self, member: &ParsedRequest<'a>, client: ClientId) -> CallPlan<'a, C> {
        let request = match member {
            Ok(request) => request,
            Err(rejected) => return CallPlan::Refuse(rejected.error.clone()),
        };
        let Some((index, name_style)) = self.rows.get(&*request.method) else {
            return CallPlan::Refuse(RpcError::method_not_found(&request.method));
        };
        let method = &self.rpc.methods[*index];
        let (name, json) = (method.name(), request.params);
        let params = Params::new(json.map(str::as_bytes), *name_style).of_client(client);
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
            Execution::Session(handler) => CallPlan::Session(name, handler, params),
        }
    }

    async fn run_batch(
        &self,
        body: &Bytes,
        members: &[ParsedRequest<'_>],
        mut plans: Vec<CallPlan<'_, C>>,
        session: Option<&RpcSession>,
        budget: &mut MessageBudget,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut start = 0;
        // Neighbouring requests behind the same gate run together, with one change of threads.
        let together = |left: &CallPlan<'_, C>, right: &CallPlan<'_, C>| {
            left.gate().is_some() && left.gate() == right.gate()
        };
        let mut inline_time = Duration::ZERO;
        while let Some(next) = plans[start..].chunk_by(together).next() {
            let (is_inline, start_time) = (next[0].is_inline(), Instant::now());
            let results = self.run(body, next, session, budget).await;
            for (member, result) in members[start..].iter().zip(&results) {
                let Some(id) = answer_id(member) else { continue };
                out.push(if out.is_empty() { b'[' } else { b',' });
                message::write_response(&mut out, id, result);
            }
            start += next.len();
            if is_inline {
                // The time of a call that was deferred counts too, with its wait. After a deferred
                // call the rest is likely to be deferred too, so it should change threads at once.
                inline_time += start_time.elapsed();
            }
            if inline_time >= INLINE_TIME_MAX {
                inline_time = Duration::ZERO;
                let rest = plans.split_off(start);
                plans.extend(rest.into_iter().map(CallPlan::gated));
                tokio::task::yield_now().await;
            }
        }
        if out.is_empty() {
            return None;
        }
        out.push(b']');
        Some(out)
    }

    /// Runs `plans` and returns a result for each. There are several plans only behind one gate.
    async fn run(
        &self,
        body: &Bytes,
        plans: &[CallPlan<'_, C>],
        session: Option<&RpcSession>,
        budget: &mut MessageBudget,
    ) -> Vec<RpcResult<Json>> {
        let Some(plan) = plans.first() else {
            return Vec::new();
        };
        if let Err(error) = budget.admit() {
            return vec![Err(error); plans.len()];
        }
        let context = &self.rpc.context;
        let result = match plan {
            CallPlan::Refuse(error) => Err(error.clone()),
            CallPlan::Modules(params) => params.parse().and_then(|()| self.modules.clone()),
            CallPlan::Discover(params) => params.parse().and_then(|()| self.rpc.description()),
            CallPlan::Inline(name, handler, params) => guarded(name, || handler(context, *params)),
            CallPlan::Cached(gate, name, handler, params) => {
                match guarded(name, || handler(context, *params, ReadScope::Memory)) {
                    Ok(json) => Ok(json),
                    Err(InlineError::Failed(error)) => Err(error),
                    Err(InlineError::Deferred) => {
                        let plan =
                            CallPlan::Gated(*gate, name, GatedHandler::Cached(Arc::clone(handler)), *params);
                        return self.run_gated(*gate, body, &[plan], budget).await;
                    }
                }
            }
            CallPlan::Waiting(name, handler, params) => {
                match guarded(name, || Ok(handler(Arc::clone(context), *params))) {
                    Ok(waiting) => wait(name, waiting, budget.deadline).await,
                    Err(error) => Err(error),
                }
            }
            CallPlan::Session(name, handler, params) => match session {
                Some(session) => guarded(name, || handler(context, session, *params)),
                None => Err(RpcError::refused("notifications not supported")),
            },
            CallPlan::Gated(gate, ..) => return self.run_gated(*gate, body, plans, budget).await,
        };
        vec![budget.charge(result)]
    }

    /// Runs `plans`, all behind `gate`, in order on one blocking thread.
    async fn run_gated(
        &self,
        gate: CallGate,
        body: &Bytes,
        plans: &[CallPlan<'_, C>],
        budget: &mut MessageBudget,
    ) -> Vec<RpcResult<Json>> {
        let gate = match gate {
            CallGate::Blocking => &self.rpc.blocking,
            CallGate::Heavy => &self.rpc.heavy,
        };
        let count = plans.len();
        let deadline = budget.deadline;
        let Ok(Ok(permit)) = timeout_at(deadline, Arc::clone(gate).acquire_owned()).await else {
            return vec![Err(RpcError::refused("not run: the node is busy")); count];
        };
        let tasks: Vec<_> = plans.iter().filter_map(|plan| task(body, plan)).collect();
        // Results are sent one by one, so that finished calls keep their results if a later call
        // times out. The channel never has more results than the batch has requests.
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let context = Arc::clone(&self.rpc.context);
        let mut share = budget.clone();
        tokio::task::spawn_blocking(move || {
            for (name, gated, json, name_style, client) in tasks {
                let params = Params::new(json.as_deref(), name_style).of_client(client);
                let run = || guarded(name, || gated.run(&context, params));
                let result = share.admit().and_then(|()| run());
                let result = share.charge(result);
                if sender.send((result, share.len_left)).is_err() {
                    break; // The message timed out: nobody waits any more.
                }
            }
            // The permit is released only now, because a call past its deadline still uses its
            // thread.
            drop(permit);
        });
        let mut results = Vec::with_capacity(count);
        while results.len() < count {
            match timeout_at(deadline, receiver.recv()).await {
                Ok(Some((result, len_left))) => {
                    budget.len_left = len_left;
                    results.push(result);
                }
                Ok(None) => results.resize(count, Err(stopping())),
                Err(_) => results.resize(count, Err(timed_out())),
            }
        }
        results
    }
}

/// Whether parameters may contain the tag `pending`. Escapes could spell it in other ways.
fn may_name_pending(json: Option<&str>) -> bool {
    json.is_some_and(|json| json.contains("pending") || json.contains('\\'))
}

/// A gated call that can change threads: it owns a share of the message instead of borrowing from
/// it.
type GatedTask<C> = (&'static str, GatedHandler<C>, Option<Bytes>, NameStyle, ClientId);

/// The task of a gated plan. Returns `None` for other plans.
fn task<C>(body: &Bytes, plan: &CallPlan<'_, C>) -> Option<GatedTask<C>> {
    let CallPlan::Gated(_, name, gated, params) = plan else {
        return None;
    };
    let json = params.json().map(|json| body.slice_ref(json));
    Some((name, gated.clone(), json, params.name_style(), params.client()))
}

/// The id to answer with. Returns `None` for a notification.
fn answer_id<'a>(member: &ParsedRequest<'a>) -> Option<&'a str> {
    match member {
        Ok(request) => request.id,
        Err(rejected) => Some(rejected.id),
    }
}

/// Runs a handler. A panic becomes an internal error.
fn guarded<T, E: From<RpcError>>(name: &str, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked(name).into()))
}

/// Waits for an answer until `deadline`. A panic becomes an internal error.
async fn wait(name: &str, mut waiting: PendingReply, deadline: Instant) -> RpcResult<Json> {
    let poll = std::future::poll_fn(|task| {
        catch_unwind(AssertUnwindSafe(|| waiting.as_mut().poll(task)))
            .unwrap_or_else(|_| Poll::Ready(Err(panicked(name))))
    });
    timeout_at(deadline, poll)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

fn panicked(name: &str) -> RpcError {
    tracing::error!(method = name, "a method panicked");
    RpcError::internal("internal error")
}

fn timed_out() -> RpcError {
    RpcError::refused("the request timed out")
}

fn stopping() -> RpcError {
    RpcError::refused("the node is stopping")
}

#[cfg(test)]
mod tests;
