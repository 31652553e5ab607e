//! The run of one message: its requests in order, each where its plan says, within one budget.
//!
//! If the requests of a batch take too long on the network thread, the rest of them leave it
//! together. Requests behind a gate give their permit back when others wait and their turn is over.
//! Work stops when the message's time is over, and when nobody waits for the answer any more.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use daemon::ClientId;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tracing::{Span, field};

use super::{CallGate, CallPlan, Dispatcher, GatedHandler, panicked, stopping};
use crate::budget::MessageBudget;
use crate::caller::RpcCaller;
use crate::error::{RpcError, RpcResult};
use crate::gate::{Gate, GateError, Permit};
use crate::json::Json;
use crate::message::{AnswerWriter, NoMemory, ParsedRequest, ResponseBody};
use crate::meters::Meters;
use crate::modules::NameStyle;
use crate::params::Params;
use crate::subscriptions::MessageSubscriptions;
use crate::table::{InlineError, PendingReply, ReadScope};
use crate::text::Text;

/// The time for which the requests of one batch may run on a network thread. After that, other
/// connections have their turn and the rest of the batch runs on blocking threads. Each request is
/// short, but there may be a thousand.
pub(super) const INLINE_TIME_MAX: Duration = Duration::from_millis(2);
/// The time for which the requests of one batch may run with one permit while others wait for it.
const TURN_MAX: Duration = Duration::from_millis(50);

/// One message that is being answered.
pub(super) struct MessageRun<'m, C> {
    pub(super) dispatcher: &'m Dispatcher<C>,
    pub(super) body: &'m Bytes,
    pub(super) caller: &'m RpcCaller,
    pub(super) subscriptions: Option<&'m MessageSubscriptions>,
    pub(super) budget: Arc<MessageBudget>,
}

/// The responses to the requests of a message, in their order.
struct Responses<'m> {
    ids: std::vec::IntoIter<Option<&'m str>>,
    writer: AnswerWriter,
}

impl Responses<'_> {
    /// The response to the next request.
    fn push(&mut self, body: ResponseBody) {
        if let Some(id) = self.ids.next().flatten() {
            self.writer.push(id, body);
        }
    }
}

/// A gated call that can change threads: it owns a share of the message instead of borrowing from
/// it.
struct GatedTask<C> {
    name: &'static str,
    /// The time at which the call began to wait for a thread.
    started: std::time::Instant,
    handler: GatedHandler<C>,
    params: Option<Bytes>,
    name_style: NameStyle,
    client: ClientId,
}

impl<C: Send + Sync + 'static> MessageRun<'_, C> {
    /// Answers a message that is one request.
    pub(super) async fn single(&self, member: &ParsedRequest<'_>) -> Result<Option<Text>, NoMemory> {
        let mut responses = self.responses(std::slice::from_ref(member), false);
        let plan = match self.caller.grant.pay(1).1 {
            None => self.dispatcher.plan(member, self.caller),
            Some(error) => CallPlan::Limit(error),
        };
        self.run(&[plan], &mut responses).await;
        responses.writer.finish()
    }

    /// Answers a batch.
    pub(super) async fn batch(&self, members: &[ParsedRequest<'_>]) -> Result<Option<Text>, NoMemory> {
        let mut responses = self.responses(members, true);
        let (paid, unpaid) = self.caller.grant.pay(members.len());
        let mut plans: VecDeque<_> = members
            .iter()
            .enumerate()
            .map(|(index, member)| match &unpaid {
                Some(error) if index >= paid => CallPlan::Limit(error.clone()),
                _ => self.dispatcher.plan(member, self.caller),
            })
            .collect();
        // Neighbouring requests behind the same gate run together, with one change of threads.
        let together = |left: &CallPlan<'_, C>, right: &CallPlan<'_, C>| {
            left.gate().is_some() && left.gate() == right.gate()
        };
        let mut inline_time = Duration::ZERO;
        while let Some(next) = plans.make_contiguous().chunk_by(together).next() {
            let (count, is_inline, start_time) = (next.len(), next[0].is_inline(), Instant::now());
            self.run(next, &mut responses).await;
            plans.drain(..count);
            if is_inline {
                // The time of a call that was deferred counts too, with its wait. After a deferred
                // call the rest is likely to be deferred too, so it should change threads at once.
                inline_time += start_time.elapsed();
            }
            if inline_time >= INLINE_TIME_MAX {
                inline_time = Duration::ZERO;
                plans = plans.into_iter().map(CallPlan::gated).collect();
                tokio::task::yield_now().await;
            }
        }
        responses.writer.finish()
    }

    fn responses<'r>(&'r self, members: &[ParsedRequest<'r>], is_batch: bool) -> Responses<'r> {
        Responses {
            ids: members.iter().map(answer_id).collect::<Vec<_>>().into_iter(),
            writer: AnswerWriter::new(&self.budget, is_batch),
        }
    }

    /// The same error for the next `count` requests.
    fn push_errors(&self, responses: &mut Responses<'_>, count: usize, error: &RpcError) {
        Meters::refused("not_run", count);
        for _ in 0..count {
            responses.push(ResponseBody::new(&self.budget, Err(error.clone())));
        }
    }

    /// Runs `plans`, with a response for each. There are several plans only behind one gate.
    async fn run(&self, plans: &[CallPlan<'_, C>], responses: &mut Responses<'_>) {
        let Some(plan) = plans.first() else { return };
        if let Err(error) = self.budget.admit() {
            return self.push_errors(responses, plans.len(), &error);
        }
        let started = std::time::Instant::now();
        let (budget, context) = (&self.budget, &self.dispatcher.rpc.context);
        let result = match plan {
            CallPlan::Refuse(error) | CallPlan::Limit(error) => Err(error.clone()),
            CallPlan::Modules(params) => params
                .parse()
                .map(|()| self.dispatcher.modules(&self.caller.grant)),
            CallPlan::Discover(params) => params.parse().map(|()| self.dispatcher.rpc.description()),
            CallPlan::Inline(name, handler, params) => {
                budget.run(|| guarded(name, || handler(context, *params)))
            }
            CallPlan::Cached(gate, name, handler, params) => {
                match budget.run(|| guarded(name, || handler(context, *params, ReadScope::Memory))) {
                    Ok(json) => Ok(json),
                    Err(InlineError::Failed(error)) => Err(error),
                    Err(InlineError::Deferred) => {
                        let handler = GatedHandler::Cached(Arc::clone(handler));
                        let plan = CallPlan::Gated(*gate, name, handler, *params);
                        return self.run_gated(*gate, &[plan], responses).await;
                    }
                }
            }
            CallPlan::Waiting(name, handler, params) => {
                match budget.run(|| guarded(name, || Ok(handler(Arc::clone(context), *params)))) {
                    Ok(waiting) => self.wait(name, waiting).await,
                    Err(error) => Err(error),
                }
            }
            CallPlan::Subscribing(name, handler, params) => match self.subscriptions {
                Some(subscriptions) => {
                    budget.run(|| guarded(name, || handler(context, subscriptions, *params)))
                }
                None => Err(RpcError::refused("notifications not supported")),
            },
            CallPlan::Gated(gate, ..) => return self.run_gated(*gate, plans, responses).await,
        };
        match plan.method() {
            Some(method) => {
                let meters = &self.dispatcher.rpc.meters;
                meters.ended(method, started, result.is_err());
            }
            None if matches!(plan, CallPlan::Limit(_)) => Meters::refused("limit", 1),
            None => Meters::refused("invalid", 1),
        }
        let result = result.map_err(|error| error.in_style(plan.name_style()));
        responses.push(ResponseBody::new(budget, result));
    }

    /// Waits for an answer until the deadline. A panic becomes an internal error.
    async fn wait(&self, name: &str, mut waiting: PendingReply) -> RpcResult<Json> {
        let poll = std::future::poll_fn(|task| {
            let poll = || waiting.as_mut().poll(task);
            self.budget
                .run(|| catch_unwind(AssertUnwindSafe(poll)))
                .unwrap_or_else(|_| Poll::Ready(Err(panicked(name))))
        });
        timeout_at(self.budget.deadline, poll)
            .await
            .unwrap_or_else(|_| Err(timed_out()))
    }

    /// Runs `plans`, all behind `gate`, in order on blocking threads. Executing code for a client
    /// that has hung up is pointless, so that stops.
    async fn run_gated(&self, gate: CallGate, plans: &[CallPlan<'_, C>], responses: &mut Responses<'_>) {
        let tasks: VecDeque<_> = plans.iter().filter_map(|plan| self.task(plan)).collect();
        match gate {
            CallGate::Blocking => {
                self.run_tasks(&self.dispatcher.rpc.blocking, tasks, responses)
                    .await
            }
            CallGate::Heavy => {
                let left = responses.ids.len() - tasks.len();
                tokio::select! {
                    () = self.run_tasks(&self.dispatcher.rpc.heavy, tasks, responses) => return,
                    () = self.caller.hung_up() => {}
                }
                self.budget.cancel();
                let error = RpcError::refused("the client hung up before the answer was ready");
                let count = responses.ids.len() - left;
                self.push_errors(responses, count, &error);
            }
        }
    }

    async fn run_tasks(&self, gate: &Gate, mut tasks: VecDeque<GatedTask<C>>, responses: &mut Responses<'_>) {
        while let Some(first) = tasks.front() {
            let count = tasks.len();
            match gate.acquire(self.caller, first.name, self.budget.deadline).await {
                Ok(permit) => tasks = self.run_turn(gate, permit, tasks, responses).await,
                Err(error) => return self.push_errors(responses, count, &busy(error)),
            }
        }
    }

    /// Runs `tasks` on a blocking thread until they are done, or their turn is over. Returns those
    /// that were not run.
    async fn run_turn(
        &self,
        gate: &Gate,
        permit: Permit,
        mut tasks: VecDeque<GatedTask<C>>,
        responses: &mut Responses<'_>,
    ) -> VecDeque<GatedTask<C>> {
        let mut missing = tasks.len();
        // Results are sent one by one, so that finished calls keep their results if a later call
        // times out. Each is text already, with its memory. The channel never has more results than
        // the batch has requests.
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let rpc = Arc::clone(&self.dispatcher.rpc);
        let (budget, gate) = (Arc::clone(&self.budget), gate.clone());
        let turn_end = Instant::now() + TURN_MAX;
        let span = Span::current();
        let turn = tokio::task::spawn_blocking(move || {
            let _entered = span.enter();
            while let Some(task) = tasks.pop_front() {
                let run = || {
                    let params = Params::new(task.params.as_deref(), task.name_style).of_client(task.client);
                    guarded(task.name, || task.handler.run(&rpc.context, params))
                };
                let result = budget.admit().and_then(|()| budget.run(run));
                rpc.meters.ended(task.name, task.started, result.is_err());
                let result = result.map_err(|error| error.in_style(task.name_style));
                if sender.send(ResponseBody::new(&budget, result)).is_err() {
                    tasks.clear(); // Nobody waits any more.
                } else if !tasks.is_empty() && Instant::now() >= turn_end && gate.has_waiting() {
                    break;
                }
            }
            // The permit is given back only now. A call whose time is over stops soon, and until
            // then it uses its thread.
            drop(permit);
            tasks
        });
        loop {
            match timeout_at(self.budget.deadline, receiver.recv()).await {
                Ok(Some(body)) => {
                    missing -= 1;
                    responses.push(body);
                }
                Ok(None) => break,
                Err(_) => {
                    self.budget.cancel();
                    self.push_errors(responses, missing, &timed_out());
                    return VecDeque::new();
                }
            }
        }
        match turn.await {
            Ok(left) if left.len() == missing => left,
            // The runtime ends.
            _ => {
                self.push_errors(responses, missing, &stopping());
                VecDeque::new()
            }
        }
    }

    /// The task of a gated plan. Returns `None` for other plans.
    fn task(&self, plan: &CallPlan<'_, C>) -> Option<GatedTask<C>> {
        let CallPlan::Gated(_, name, handler, params) = plan else {
            return None;
        };
        Some(GatedTask {
            name,
            started: std::time::Instant::now(),
            handler: handler.clone(),
            params: params.json().map(|json| self.body.slice_ref(json)),
            name_style: params.name_style(),
            client: params.client(),
        })
    }
}

/// The id to answer with. Returns `None` for a notification.
const fn answer_id<'a>(member: &ParsedRequest<'a>) -> Option<&'a str> {
    match member {
        Ok(request) => request.id,
        Err(rejected) => Some(rejected.id),
    }
}

/// Runs a handler, in a span of its own. A panic becomes an internal error.
fn guarded<T, E: From<RpcError>>(name: &str, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let span = tracing::debug_span!(
        "call",
        otel.name = name,
        rpc.system = "jsonrpc",
        rpc.method = name,
        otel.status_code = field::Empty,
    );
    let run = || span.in_scope(run);
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked(name).into()));
    if result.is_err() {
        span.record("otel.status_code", "error");
    }
    result
}

fn timed_out() -> RpcError {
    RpcError::refused("the request timed out")
}

fn busy(error: GateError) -> RpcError {
    match error {
        GateError::Full | GateError::Late => RpcError::refused("not run: the node is busy"),
        GateError::ClientFull { max } => RpcError::refused(format!(
            "not run: {max} calls of this client wait already, and no more may wait"
        )),
    }
}
