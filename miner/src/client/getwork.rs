//! A node over getWork: polled for work, handed solutions and hashrates.
//!
//! Polling and handing in go over connections of their own, so that neither waits for the other. A
//! solution outlives its session: it is tried again until the node has answered or would not take
//! it any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{B256, Schedule, WorkPackage};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::error::printable;
use super::http::HttpClient;
use super::{ClientError, Endpoint, Wires};
use crate::client::failover::Context;
use crate::search::{FoundSolution, SearchTask};

/// How long a node may say that it has no work.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);
/// How long a solution is tried to be handed in: nodes forget work a little later.
const SOLUTION_LIFE: Duration = Duration::from_secs(60);
/// How long a refusal waits for its cause: that work is over is often learnt by the solution's
/// refusal first.
const CAUSE_PATIENCE: Duration = Duration::from_millis(1500);
/// A node without work for so long is worth a line of the log.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// Between two such tries.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// Solutions and reports that may wait for their way out.
const OUTGOING_MAX: usize = 256;
/// JSON-RPC's code for a method that does not exist.
const NO_SUCH_METHOD: i64 = -32_601;
/// The prefixes of the methods, the commoner first.
const PREFIXES: [&str; 2] = ["eth", "mc"];

/// A node that has given work.
pub(super) struct GetWork {
    context: Context,
    endpoint: Endpoint,
    http: Option<HttpClient>,
    prefix: &'static str,
    current: WorkPackage,
    /// The header of `current`, for whoever waits for its end.
    newest: watch::Sender<B256>,
    outgoing: mpsc::Sender<Outgoing>,
    /// Told when a solution was taken: there is new work.
    solved: Arc<Notify>,
    submitter: JoinHandle<()>,
    /// Set when nothing is to be tried again.
    give_up: watch::Sender<bool>,
}

/// What is sent to a node beside the questions for work.
enum Outgoing {
    Solution { found: FoundSolution, stale: bool },
    Rate(u64),
}

/// A task that ends with its owner.
struct Owned(JoinHandle<()>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GetWork {
    /// Asks `endpoint` for work, until it has some or patience ends.
    pub(super) async fn connect(endpoint: &Endpoint, context: &Context) -> Result<Self, ClientError> {
        let caller = || {
            HttpClient::new(
                endpoint.clone(),
                Arc::clone(&context.tls),
                context.config.response_timeout,
            )
        };
        let mut http = caller();
        let (prefix, current) = first_work(&mut http, endpoint, context).await?;
        let (newest, newest_in) = watch::channel(current.header_hash);
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        let solved = Arc::new(Notify::new());
        let sender = Submitter {
            http: caller(),
            prefix,
            context: context.clone(),
            solved: Arc::clone(&solved),
            newest: newest_in,
        };
        let (give_up, given_up) = watch::channel(false);
        let submitter = tokio::spawn(sender.run(queue, given_up));
        Ok(Self {
            context: context.clone(),
            endpoint: endpoint.clone(),
            http: Some(http),
            prefix,
            current,
            newest,
            outgoing,
            solved,
            submitter,
            give_up,
        })
    }

    /// The header of the present work.
    pub(super) fn header_hash(&self) -> B256 {
        self.current.header_hash
    }

    /// Ends once all that is handed in is answered, or after `patience`, when it is lost.
    pub(super) async fn finish(mut self, patience: Duration) {
        drop(self.outgoing);
        if timeout(patience, &mut self.submitter).await.is_err() {
            self.give_up.send_replace(true);
            // Were it to fail there would be nothing left to count.
            let _ = self.submitter.await;
        }
    }

    /// Moves work and solutions until the node fails.
    pub(super) async fn run(&mut self, wires: &mut Wires) -> ClientError {
        let Some(http) = self.http.take() else {
            return ClientError::Closed;
        };
        self.tell();
        self.give(wires, self.current.clone());
        let (polls_out, mut polls) = mpsc::channel(1);
        let poller = Poller {
            http,
            method: format!("{}_getWork", self.prefix),
            context: self.context.clone(),
            solved: Arc::clone(&self.solved),
        };
        let _poller = Owned(tokio::spawn(poller.run(polls_out)));
        let every = self.context.config.report_every;
        let mut reports = interval(
            every
                .unwrap_or(Duration::from_secs(3600))
                .max(Duration::from_millis(1)),
        );
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_new = Instant::now();
        let mut refusals: Option<Refusals> = None;
        loop {
            tokio::select! {
                poll = polls.recv() => match poll {
                    None => return ClientError::Closed,
                    Some(Ok(work)) => {
                        refusals = None;
                        if work != self.current {
                            last_new = Instant::now();
                            self.current = work;
                            self.newest.send_replace(self.current.header_hash);
                            self.tell();
                        }
                        // The engine knows what it has; after a pause it is new again.
                        self.give(wires, self.current.clone());
                    }
                    Some(Err(error @ ClientError::Refused { .. })) => {
                        wires.give(None);
                        self.context.ledger.searching(None);
                        let refusals = refusals.get_or_insert_with(|| Refusals::of(&self.endpoint));
                        if refusals.are_too_long(&error) {
                            return error;
                        }
                    }
                    Some(Err(error)) => return error,
                },
                found = wires.found.recv() => match found {
                    Some(found) => self.hand_in(found),
                    // The engine has ended, and with it the reason to be here.
                    None => std::future::pending().await,
                },
                _ = reports.tick(), if every.is_some() => {
                    // A report that finds no place is no loss: the next one is near.
                    let _ = self.outgoing.try_send(Outgoing::Rate(wires.rate()));
                }
            }
            let after = self.context.config.work_timeout;
            if last_new.elapsed() > after {
                return ClientError::NoNewWork {
                    header_hash: self.current.header_hash,
                    after,
                };
            }
        }
    }

    /// A line of the log about the present work.
    fn tell(&self) {
        let WorkPackage {
            header_hash,
            number,
            epoch,
            ..
        } = &self.current;
        tracing::info!(%header_hash, epoch = epoch.index, number, "new job");
    }

    fn give(&self, wires: &Wires, work: WorkPackage) {
        let task = SearchTask::from(work);
        self.context.ledger.searching(Some(&task));
        wires.give(Some(task));
    }

    /// Puts a solution on its way, which outlives this session.
    pub(super) fn hand_in(&self, found: FoundSolution) {
        let stale = found.solution.header_hash != self.current.header_hash;
        if self
            .outgoing
            .try_send(Outgoing::Solution { found, stale })
            .is_err()
        {
            tracing::warn!("solution lost: {OUTGOING_MAX} others wait to be handed in");
            self.context
                .ledger
                .unsent(found.device, |counts| counts.lost += 1);
        }
    }
}

/// A node that says again and again that it has no work.
struct Refusals {
    endpoint: String,
    since: Instant,
    told: bool,
}

impl Refusals {
    fn of(endpoint: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            since: Instant::now(),
            told: false,
        }
    }

    /// Whether it is time to leave. The log hears of it once, and not of the moment between two
    /// blocks.
    fn are_too_long(&mut self, error: &ClientError) -> bool {
        let time = self.since.elapsed();
        if time >= TELL_AFTER && !self.told {
            self.told = true;
            tracing::info!(endpoint = %self.endpoint, "waiting for work: {error}");
        }
        time > REFUSAL_PATIENCE
    }
}

/// The first work of a node, and the prefix of its methods.
async fn first_work(
    http: &mut HttpClient,
    endpoint: &Endpoint,
    context: &Context,
) -> Result<(&'static str, WorkPackage), ClientError> {
    let mut refusals = Refusals::of(endpoint);
    let mut prefixes = PREFIXES.iter().copied().cycle();
    let (mut prefix, mut unknown) = (PREFIXES[0], 0);
    prefixes.next();
    loop {
        let error = match http.call(&format!("{prefix}_getWork"), &json!([])).await {
            Ok(work) => return Ok((prefix, read_work(&work, context.config.schedule)?)),
            Err(error @ ClientError::Refused { .. }) => error,
            Err(error) => return Err(error),
        };
        let is_unknown = matches!(error, ClientError::Refused { code, .. } if code == NO_SUCH_METHOD);
        unknown += usize::from(is_unknown);
        if unknown >= PREFIXES.len() || refusals.are_too_long(&error) {
            return Err(error);
        }
        if is_unknown {
            prefix = prefixes.next().unwrap_or(prefix);
        } else {
            sleep(context.config.recheck).await;
        }
    }
}

/// Asks for work again and again.
struct Poller {
    http: HttpClient,
    method: String,
    context: Context,
    solved: Arc<Notify>,
}

impl Poller {
    async fn run(mut self, polls: mpsc::Sender<Result<WorkPackage, ClientError>>) {
        loop {
            tokio::select! {
                () = sleep(self.context.config.recheck) => {}
                () = self.solved.notified() => {}
            }
            let answer = self.http.call(&self.method, &json!([])).await;
            let work = answer.and_then(|work| read_work(&work, self.context.config.schedule));
            if polls.send(work).await.is_err() {
                return;
            }
        }
    }
}

/// Hands in what is to be handed in, one after the other.
struct Submitter {
    http: HttpClient,
    prefix: &'static str,
    context: Context,
    solved: Arc<Notify>,
    newest: watch::Receiver<B256>,
}

impl Submitter {
    async fn run(mut self, mut queue: mpsc::Receiver<Outgoing>, mut given_up: watch::Receiver<bool>) {
        while let Some(outgoing) = queue.recv().await {
            let device = match &outgoing {
                Outgoing::Solution { found, .. } => Some(found.device),
                Outgoing::Rate(_) => None,
            };
            let ledger = Arc::clone(&self.context.ledger);
            let given_up = async {
                // Without anybody to say so it goes on.
                if given_up.wait_for(|given_up| *given_up).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = self.send(outgoing) => {}
                () = given_up => if let Some(device) = device {
                    ledger.unsent(device, |counts| counts.lost += 1);
                },
            }
        }
    }

    async fn send(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Solution { found, stale } => self.hand_in(&found, stale).await,
            Outgoing::Rate(rate) => self.report(rate).await,
        }
    }

    async fn hand_in(&mut self, found: &FoundSolution, stale: bool) {
        let (sent, solution) = (Instant::now(), &found.solution);
        let params = json!([
            format!("{:#018x}", solution.pow_nonce),
            solution.header_hash.to_string(),
            solution.mix_hash.to_string(),
        ]);
        let method = format!("{}_submitWork", self.prefix);
        let answer = loop {
            match self.http.call(&method, &params).await {
                Err(error @ (ClientError::Refused { .. } | ClientError::Answer { .. })) => break Err(error),
                Err(error) if sent.elapsed() > SOLUTION_LIFE => {
                    tracing::warn!(header_hash = %solution.header_hash, "solution lost: {error}");
                    self.context
                        .ledger
                        .unsent(found.device, |counts| counts.lost += 1);
                    return;
                }
                Err(error) => {
                    tracing::warn!(header_hash = %solution.header_hash, "solution not handed in, tried again: {error}");
                    sleep(RETRY_EVERY).await;
                }
                Ok(answer) => break Ok(answer),
            }
        };
        let took = sent.elapsed();
        let milliseconds = took.as_millis() as u64;
        let header_hash = solution.header_hash;
        let nonce = format!("{:#018x}", solution.pow_nonce);
        let ledger = &self.context.ledger;
        match answer {
            Ok(Value::Bool(true)) => {
                tracing::info!(%header_hash, nonce, milliseconds, stale, "solution accepted");
                ledger.answered(found.device, took, |counts| {
                    if stale {
                        counts.stale += 1;
                    } else {
                        counts.accepted += 1;
                    }
                });
                self.solved.notify_one();
            }
            refusal => {
                let reason = match refusal {
                    Ok(answer) => format!("the node answers {}", printable(&answer.to_string(), 80)),
                    Err(error) => error.to_string(),
                };
                let (ledger, device) = (Arc::clone(ledger), found.device);
                let mut newest = self.newest.clone();
                // Nodes do not say why. A solution whose work turns out to be over was late, as
                // when another rig of the same node was faster.
                tokio::spawn(async move {
                    let over = timeout(CAUSE_PATIENCE, newest.wait_for(|newest| *newest != header_hash));
                    if stale || matches!(over.await, Ok(Ok(_))) {
                        tracing::warn!(%header_hash, nonce, milliseconds, "solution stale: {reason}");
                        ledger.answered(device, took, |counts| counts.stale += 1);
                    } else {
                        tracing::warn!(%header_hash, nonce, milliseconds, "solution rejected: {reason}");
                        ledger.answered(device, took, |counts| counts.rejected += 1);
                    }
                });
            }
        }
    }

    async fn report(&mut self, rate: u64) {
        let params = json!([format!("{rate:#x}"), self.context.config.rig.to_string()]);
        let method = format!("{}_submitHashrate", self.prefix);
        if let Err(error) = self.http.call(&method, &params).await {
            tracing::debug!("the hashrate is not taken: {error}");
        }
    }
}

/// Work as getWork gives it: header hash, seed hash, boundary and, from some nodes, the block's
/// number.
fn read_work(work: &Value, schedule: Schedule) -> Result<WorkPackage, ClientError> {
    let hash = |index: usize, what: &'static str| {
        let value = &work[index];
        let text = value.as_str().filter(|text| text.len() == 66);
        let hash = text.and_then(|text| text.parse::<B256>().ok());
        hash.ok_or_else(|| ClientError::answer(what, value, "0x and 64 hexadecimal digits"))
    };
    if !work.is_array() {
        return Err(ClientError::answer("work", work, "a list of three or four"));
    }
    let seed_hash = hash(1, "seed hash")?;
    let epoch = schedule
        .find_epoch(&seed_hash)
        .ok_or_else(|| ClientError::answer("seed hash", &seed_hash, "the seed hash of an epoch"))?;
    let boundary = hash(2, "boundary")?;
    if boundary.is_zero() {
        return Err(ClientError::answer(
            "boundary",
            &boundary,
            "one that a hash can meet",
        ));
    }
    let number = work[3].as_str().and_then(|text| text.strip_prefix("0x"));
    let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    Ok(WorkPackage {
        header_hash: hash(0, "header hash")?,
        seed_hash,
        boundary,
        // One that contradicts the seed would have the wrong cache prepared.
        number: number.filter(|number| schedule.epoch(*number) == epoch),
        epoch,
    })
}

#[cfg(test)]
mod tests {
    use ethash::Epoch;

    use super::*;

    #[test]
    fn work_has_three_parts_or_four() {
        let [header, boundary] = [1, 2].map(|byte| B256::repeat_byte(byte).to_string());
        let seed = Epoch::ethash(2).seed_hash().to_string();
        let read = |work: Value| read_work(&work, Schedule::Ethash);
        let three = read(json!([header, seed, boundary])).expect("three parts");
        assert_eq!((three.epoch, three.number), (Epoch::ethash(2), None));
        let four = read(json!([header, seed, boundary, "0xea61"])).expect("four parts");
        assert_eq!(four.number, Some(60_001));
        let contradiction = read(json!([header, seed, boundary, "0x1"])).expect("four parts");
        assert_eq!(contradiction.number, None);
        for bad in [
            json!(null),
            json!([]),
            json!([header, seed]),
            json!([header, header, boundary]),
            json!([header, seed, "0x12"]),
            json!([header, seed, 5]),
            json!([header, seed, B256::ZERO.to_string()]),
            json!({"0": header}),
        ] {
            assert!(
                matches!(read(bad.clone()), Err(ClientError::Answer { .. })),
                "{bad}"
            );
        }
    }
}
