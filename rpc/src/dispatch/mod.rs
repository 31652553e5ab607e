//! From a message to its response: finds the rows, runs them where they may run, keeps the limits.
//!
//! Handlers that block run on the runtime's blocking threads behind two gates, one for reads and
//! one for execution, so that neither the network threads nor cheap reads wait for expensive calls.
//! A handler that panics is an internal error of its call. Members of a batch run in order, and
//! leave the network thread together once they have taken up its time. Knows nothing of sockets.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::budget::Budget;
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::limits::Limits;
use crate::message::{self, Member, Message};
use crate::modules::{Dialect, MODULE_RPC, MODULES, Modules};
use crate::openrpc;
use crate::params::Params;
use crate::subscriptions::{Notification, Session, Subscriptions};
use crate::table::{
    CachedHandler, Execution, InlineError, Method, PendingReply, ReadScope, SessionHandler, SyncHandler,
    WaitingHandler,
};
use crate::traffic::Traffic;

/// The version `rpc_modules` gives for each module.
const MODULE_VERSION: &str = "1.0";

/// Parameters up to this length are worked on by a network thread where a method is
/// [`Method::sized`]: some microseconds of work.
const SHORT_PARAMS_LEN_MAX: usize = 4096;

/// How long members of one batch run on a network thread before other connections have their turn,
/// and the members that are left run elsewhere: each is short, but there may be a thousand.
const INLINE_TIME_MAX: Duration = Duration::from_millis(2);

/// Why a table of methods cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Two rows have the same name.
    #[error("method {0} is in the table twice")]
    Twice(&'static str),
    /// A row is in no known module, so nothing could enable it.
    #[error("method {0} is in no known module")]
    Module(&'static str),
}

/// The methods of one node, the context they work on, and the gates they share.
pub struct Rpc<C> {
    context: Arc<C>,
    methods: Vec<Method<C>>,
    limits: Limits,
    blocking: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    /// What `rpc.discover` answers, once it was asked.
    description: OnceLock<Json>,
    traffic: Traffic,
}

impl<C: Send + Sync + 'static> Rpc<C> {
    /// Joins the rows with their context.
    ///
    /// # Errors
    /// If a name is there twice or belongs to no known module.
    pub fn new(
        context: Arc<C>,
        mut methods: Vec<Method<C>>,
        limits: Limits,
    ) -> Result<Arc<Self>, TableError> {
        methods.extend([Method::modules(), Method::discover()]);
        methods.sort_by_key(Method::name);
        for pair in methods.windows(2) {
            if pair[0].name() == pair[1].name() {
                return Err(TableError::Twice(pair[0].name()));
            }
        }
        let known = |method: &&Method<C>| method.module() == MODULE_RPC || MODULES.contains(&method.module());
        if let Some(stray) = methods.iter().find(|method| !known(method)) {
            return Err(TableError::Module(stray.name()));
        }
        Ok(Arc::new(Self {
            context,
            methods,
            blocking: Arc::new(Semaphore::new(limits.blocking_calls_max)),
            heavy: Arc::new(Semaphore::new(limits.heavy_calls_max)),
            description: OnceLock::new(),
            traffic: Traffic::new(limits.traffic_len_max),
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

    /// The description of all methods: made once, of all that there are, enabled or not.
    fn description(&self) -> RpcResult<Json> {
        let text = || Json::write(&openrpc::document(self.methods.iter().map(Method::info)));
        match self.description.get() {
            Some(known) => Ok(known.clone()),
            None => text().map(|made| self.description.get_or_init(|| made).clone()),
        }
    }

    /// A view with only `modules` enabled, under every name they answer to.
    pub fn dispatcher(self: &Arc<Self>, modules: &Modules) -> Dispatcher<C> {
        let mut rows = HashMap::new();
        let mut versions = BTreeMap::new();
        for (index, method) in self.methods.iter().enumerate() {
            if !modules.contains(method.module()) {
                continue;
            }
            versions.insert(method.module(), MODULE_VERSION);
            rows.insert(method.name().to_owned(), (index, Dialect::Native));
            rows.extend(
                method
                    .info()
                    .alias()
                    .map(|alias| (alias, (index, Dialect::Ethereum))),
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
    /// By name: the position of the method in the table, and what the name says about the caller.
    rows: HashMap<String, (usize, Dialect)>,
    modules: RpcResult<Json>,
}

/// Where a call that may block waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Blocking,
    Heavy,
}

/// What to do about one request.
enum Plan<'a, C> {
    /// No call: not a request, no such method.
    Refuse(RpcError),
    /// `rpc_modules`.
    Modules(Params<'a>),
    /// `rpc.discover`.
    Discover(Params<'a>),
    /// Run it here.
    Inline(&'static str, &'a SyncHandler<C>, Params<'a>),
    /// Run it here, and where that is not enough on a blocking thread.
    Cached(Gate, &'static str, &'a CachedHandler<C>, Params<'a>),
    /// Run it on a blocking thread.
    Gated(Gate, &'static str, Gated<C>, Params<'a>),
    /// Start it here and wait.
    Waiting(&'static str, &'a WaitingHandler<C>, Params<'a>),
    /// Run it here, with the connection.
    Session(&'static str, &'a SessionHandler<C>, Params<'a>),
}

/// What runs on a blocking thread.
enum Gated<C> {
    Plain(SyncHandler<C>),
    Cached(CachedHandler<C>),
}

// Written out because the derived forms would ask the same of `C`, of which there is no value here.
impl<C> Clone for Gated<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Plain(handler) => Self::Plain(Arc::clone(handler)),
            Self::Cached(handler) => Self::Cached(Arc::clone(handler)),
        }
    }
}

impl<C> Gated<C> {
    fn run(&self, context: &C, params: Params<'_>) -> RpcResult<Json> {
        match self {
            Self::Plain(handler) => handler(context, params),
            Self::Cached(handler) => handler(context, params, ReadScope::Store).map_err(Into::into),
        }
    }
}

impl<C> Plan<'_, C> {
    fn gate(&self) -> Option<Gate> {
        match self {
            Plan::Gated(gate, ..) => Some(*gate),
            _ => None,
        }
    }

    /// Whether running it may take time of the network thread.
    fn is_inline(&self) -> bool {
        !matches!(self, Plan::Gated(..) | Plan::Waiting(..))
    }

    /// The same off the network thread, where it can run elsewhere.
    fn gated(self) -> Self {
        match self {
            Plan::Inline(name, handler, params) => {
                Plan::Gated(Gate::Blocking, name, Gated::Plain(Arc::clone(handler)), params)
            }
            Plan::Cached(gate, name, handler, params) => {
                Plan::Gated(gate, name, Gated::Cached(Arc::clone(handler)), params)
            }
            other => other,
        }
    }
}

impl<C: Send + Sync + 'static> Dispatcher<C> {
    /// Answers one message. `None` if it asks for no answer: it held only notifications.
    pub async fn handle(&self, body: Bytes) -> Option<Vec<u8>> {
        self.handle_in(body, None).await
    }

    /// Answers one message that came through `session`, which it may subscribe to something.
    pub(crate) async fn handle_in(&self, body: Bytes, session: Option<&Session>) -> Option<Vec<u8>> {
        let mut budget = Budget::new(&self.rpc.limits);
        match message::parse(&body, &self.rpc.limits) {
            Message::Broken(error) => Some(message::error_response(error)),
            Message::Single(member) => {
                let plans = [self.plan(&member)];
                let result = self.run(&body, &plans, session, &mut budget).await.pop();
                let result = result.unwrap_or_else(|| Err(stopping()));
                answer_id(&member).map(|id| message::response(id, &result))
            }
            Message::Batch(members) => self.run_batch(&body, &members, session, &mut budget).await,
        }
    }

    /// What the client with these `subscriptions` is to be told now.
    ///
    /// # Errors
    /// Whatever kept their sources from reading the chain.
    pub(crate) async fn pull(&self, subscriptions: Arc<Subscriptions>) -> RpcResult<Vec<Notification>> {
        // Waits for its turn without a deadline: nobody asked, and the chain stays readable.
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

    /// The room for requests and responses in memory that all servers of these methods share.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.rpc.traffic
    }

    /// The bounds that every server of these methods keeps.
    pub fn limits(&self) -> &Limits {
        &self.rpc.limits
    }

    fn plan<'a>(&'a self, member: &Member<'a>) -> Plan<'a, C> {
        let request = match member {
            Ok(request) => request,
            Err(rejected) => return Plan::Refuse(rejected.error.clone()),
        };
        let Some((index, dialect)) = self.rows.get(&*request.method) else {
            return Plan::Refuse(RpcError::method_not_found(&request.method));
        };
        let method = &self.rpc.methods[*index];
        let (name, json) = (method.name(), request.params);
        let params = Params::new(json.map(str::as_bytes), *dialect);
        let is_short = json.is_none_or(|json| json.len() <= SHORT_PARAMS_LEN_MAX);
        match method.execution() {
            Execution::Modules => Plan::Modules(params),
            Execution::Discover => Plan::Discover(params),
            Execution::Inline(handler) => Plan::Inline(name, handler, params),
            Execution::Sized(handler) if is_short => Plan::Inline(name, handler, params),
            Execution::Reading(handler) if is_short && !may_name_pending(json) => {
                Plan::Inline(name, handler, params)
            }
            Execution::Cached(handler) if is_short => Plan::Cached(Gate::Blocking, name, handler, params),
            Execution::Cached(handler) => {
                Plan::Gated(Gate::Blocking, name, Gated::Cached(Arc::clone(handler)), params)
            }
            Execution::Brief(handler) if is_short => Plan::Cached(Gate::Heavy, name, handler, params),
            Execution::Brief(handler) => {
                Plan::Gated(Gate::Heavy, name, Gated::Cached(Arc::clone(handler)), params)
            }
            Execution::Sized(handler) | Execution::Reading(handler) | Execution::Blocking(handler) => {
                Plan::Gated(Gate::Blocking, name, Gated::Plain(Arc::clone(handler)), params)
            }
            Execution::Heavy(handler) => {
                Plan::Gated(Gate::Heavy, name, Gated::Plain(Arc::clone(handler)), params)
            }
            Execution::Waiting(handler) => Plan::Waiting(name, handler, params),
            Execution::Session(handler) => Plan::Session(name, handler, params),
        }
    }

    async fn run_batch(
        &self,
        body: &Bytes,
        members: &[Member<'_>],
        session: Option<&Session>,
        budget: &mut Budget,
    ) -> Option<Vec<u8>> {
        let mut plans: Vec<_> = members.iter().map(|member| self.plan(member)).collect();
        let mut out = Vec::new();
        let mut start = 0;
        // Neighbours behind the same gate go through it together: one change of thread for all.
        let together =
            |left: &Plan<'_, C>, right: &Plan<'_, C>| left.gate().is_some() && left.gate() == right.gate();
        let mut inline_time = Duration::ZERO;
        while let Some(next) = plans[start..].chunk_by(together).next() {
            let (is_inline, begun) = (next[0].is_inline(), Instant::now());
            let results = self.run(body, next, session, budget).await;
            for (member, result) in members[start..].iter().zip(&results) {
                let Some(id) = answer_id(member) else { continue };
                out.push(if out.is_empty() { b'[' } else { b',' });
                message::write_response(&mut out, id, result);
            }
            start += next.len();
            if is_inline {
                // With the wait of one that had to go elsewhere after all: where those before it
                // had to, one change of thread for the rest is the better way too.
                inline_time += begun.elapsed();
            }
            if inline_time >= INLINE_TIME_MAX {
                inline_time = Duration::ZERO;
                let rest = plans.split_off(start);
                plans.extend(rest.into_iter().map(Plan::gated));
                tokio::task::yield_now().await;
            }
        }
        if out.is_empty() {
            return None;
        }
        out.push(b']');
        Some(out)
    }

    /// Runs `plans`, of which there are several only behind one gate; gives one result for each.
    async fn run(
        &self,
        body: &Bytes,
        plans: &[Plan<'_, C>],
        session: Option<&Session>,
        budget: &mut Budget,
    ) -> Vec<RpcResult<Json>> {
        let Some(plan) = plans.first() else {
            return Vec::new();
        };
        if let Err(error) = budget.admit() {
            return vec![Err(error); plans.len()];
        }
        let context = &self.rpc.context;
        let result = match plan {
            Plan::Refuse(error) => Err(error.clone()),
            Plan::Modules(params) => params.parse().and_then(|()| self.modules.clone()),
            Plan::Discover(params) => params.parse().and_then(|()| self.rpc.description()),
            Plan::Inline(name, handler, params) => guarded(name, || handler(context, *params)),
            Plan::Cached(gate, name, handler, params) => {
                match guarded(name, || handler(context, *params, ReadScope::Memory)) {
                    Ok(json) => Ok(json),
                    Err(InlineError::Failed(error)) => Err(error),
                    Err(InlineError::Deferred) => {
                        let plan = Plan::Gated(*gate, name, Gated::Cached(Arc::clone(handler)), *params);
                        return self.run_gated(*gate, body, &[plan], budget).await;
                    }
                }
            }
            Plan::Waiting(name, handler, params) => {
                match guarded(name, || Ok(handler(Arc::clone(context), *params))) {
                    Ok(waiting) => wait(name, waiting, budget.deadline).await,
                    Err(error) => Err(error),
                }
            }
            Plan::Session(name, handler, params) => match session {
                Some(session) => guarded(name, || handler(context, session, *params)),
                None => Err(RpcError::refused("notifications not supported")),
            },
            Plan::Gated(gate, ..) => return self.run_gated(*gate, body, plans, budget).await,
        };
        vec![budget.charge(result)]
    }

    /// Runs `plans`, all behind `gate`, in order on one blocking thread.
    async fn run_gated(
        &self,
        gate: Gate,
        body: &Bytes,
        plans: &[Plan<'_, C>],
        budget: &mut Budget,
    ) -> Vec<RpcResult<Json>> {
        let gate = match gate {
            Gate::Blocking => &self.rpc.blocking,
            Gate::Heavy => &self.rpc.heavy,
        };
        let count = plans.len();
        let deadline = budget.deadline;
        let Ok(Ok(permit)) = timeout_at(deadline, Arc::clone(gate).acquire_owned()).await else {
            return vec![Err(RpcError::refused("not run: the node is busy")); count];
        };
        let tasks: Vec<_> = plans.iter().filter_map(|plan| task(body, plan)).collect();
        // Results come one by one, so those that are ready survive a time-out of the one after
        // them. The channel holds no more than the batch has members.
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let context = Arc::clone(&self.rpc.context);
        let mut share = budget.clone();
        tokio::task::spawn_blocking(move || {
            for (name, gated, json, dialect) in tasks {
                let run = || {
                    guarded(name, || {
                        gated.run(&context, Params::new(json.as_deref(), dialect))
                    })
                };
                let result = share.admit().and_then(|()| run());
                let result = share.charge(result);
                if sender.send((result, share.room)).is_err() {
                    break; // Nobody waits any more.
                }
            }
            // Released only now: a call past its deadline still uses its thread.
            drop(permit);
        });
        let mut results = Vec::with_capacity(count);
        while results.len() < count {
            match timeout_at(deadline, receiver.recv()).await {
                Ok(Some((result, room))) => {
                    budget.room = room;
                    results.push(result);
                }
                Ok(None) => results.resize(count, Err(stopping())),
                Err(_) => results.resize(count, Err(timed_out())),
            }
        }
        results
    }
}

/// Whether parameters may hold the tag `pending`. An escape could spell it in other ways.
fn may_name_pending(json: Option<&str>) -> bool {
    json.is_some_and(|json| json.contains("pending") || json.contains('\\'))
}

/// A gated call with a share of the body instead of a borrow, so that it can change threads.
type Task<C> = (&'static str, Gated<C>, Option<Bytes>, Dialect);

/// The task of a gated plan.
fn task<C>(body: &Bytes, plan: &Plan<'_, C>) -> Option<Task<C>> {
    let Plan::Gated(_, name, gated, params) = plan else {
        return None;
    };
    let json = params.json().map(|json| body.slice_ref(json));
    Some((name, gated.clone(), json, params.dialect()))
}

/// The id to answer with; `None` for a notification.
fn answer_id<'a>(member: &Member<'a>) -> Option<&'a str> {
    match member {
        Ok(request) => request.id,
        Err(rejected) => Some(rejected.id),
    }
}

/// Runs a handler; a panic in it is an internal error.
fn guarded<T, E: From<RpcError>>(name: &str, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked(name).into()))
}

/// Waits for an answer until `deadline`; a panic in it is an internal error.
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
