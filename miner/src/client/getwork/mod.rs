//! A node over getWork: polls for work, submits solutions and reports hashrates.
//!
//! Polls and submissions use two connections, so that neither waits for the other. A solution
//! outlives the session with the node: it is submitted again until the node has answered, or until
//! the node would no longer accept it.

mod no_work;
mod poll;
mod share_check;
mod submit;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{FoundSolution, SearchTask};
use ethash::{B256, WorkPackage};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::context::ClientContext;
use super::endpoint::MiningEndpoint;
use super::engine_link::EngineLink;
use super::epochs::SessionEpochs;
use super::error::ClientError;
use super::http::NodeHttpClient;
use super::skipped::SkippedMessages;
use no_work::NoWorkPeriod;
use poll::Poller;
use share_check::ShareCheck;
use submit::{Submission, Submitter};
use work::read_work;

/// The most solutions and reports that may wait to be sent.
const SUBMISSIONS_MAX: usize = 256;
/// The JSON-RPC error code for a method that does not exist.
const METHOD_NOT_FOUND: i64 = -32_601;
/// The prefixes of the method names, the more common one first.
const METHOD_PREFIXES: [&str; 2] = ["eth", "mc"];

/// A connection to a node that has given work.
pub(super) struct GetWorkClient {
    context: ClientContext,
    endpoint: MiningEndpoint,
    http: Option<NodeHttpClient>,
    method_prefix: &'static str,
    current: WorkPackage,
    epochs: SessionEpochs,
    skipped: SkippedMessages,
    /// The header hash of `current`, for the submitter.
    newest: watch::Sender<B256>,
    submissions: mpsc::Sender<Submission>,
    /// Notified when a solution was accepted, because then there is new work.
    accepted: Arc<Notify>,
    /// Tells whether further solutions of a header are useful.
    shares: Arc<Mutex<ShareCheck>>,
    submitter: JoinHandle<()>,
    /// Set to true when nothing may be submitted any more.
    give_up: watch::Sender<bool>,
}

/// A task that is aborted when this handle is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GetWorkClient {
    /// Asks `endpoint` for work until it has some, or until it has had none for too long.
    pub(in crate::client) async fn connect(
        endpoint: &MiningEndpoint,
        context: &ClientContext,
    ) -> Result<Self, ClientError> {
        let http_client = || {
            NodeHttpClient::new(
                endpoint.clone(),
                context.tls.clone(),
                context.config.response_timeout,
            )
        };
        let mut http = http_client();
        let (method_prefix, current) = first_work(&mut http, endpoint, context).await?;
        let mut epochs = context.session_epochs();
        epochs.accept(current.epoch, Instant::now())?;
        let (newest, newest_in) = watch::channel(current.header_hash);
        let (submissions, queue) = mpsc::channel(SUBMISSIONS_MAX);
        let accepted = Arc::new(Notify::new());
        let shares = Arc::<Mutex<ShareCheck>>::default();
        let submitter = Submitter {
            http: http_client(),
            method_prefix,
            context: context.clone(),
            accepted: Arc::clone(&accepted),
            shares: Arc::clone(&shares),
            newest: newest_in,
        };
        let (give_up, given_up) = watch::channel(false);
        let submitter = tokio::spawn(submitter.run(queue, given_up));
        Ok(Self {
            context: context.clone(),
            endpoint: endpoint.clone(),
            http: Some(http),
            method_prefix,
            current,
            epochs,
            skipped: context.skipped_messages(endpoint),
            newest,
            submissions,
            accepted,
            shares,
            submitter,
            give_up,
        })
    }

    /// The header hash of the current work.
    pub(in crate::client) const fn header_hash(&self) -> B256 {
        self.current.header_hash
    }

    /// Waits until all submissions are answered. After `time_limit` the others are counted as lost.
    pub(in crate::client) async fn finish(mut self, time_limit: Duration) {
        drop(self.submissions);
        if timeout(time_limit, &mut self.submitter).await.is_err() {
            self.give_up.send_replace(true);
            // An error means that the submitter has panicked. Then there is nothing left to count.
            let _ = self.submitter.await;
        }
    }

    /// Passes work and solutions on until the node fails.
    pub(in crate::client) async fn run(&mut self, link: &mut EngineLink) -> ClientError {
        let Some(http) = self.http.take() else {
            return ClientError::Closed;
        };
        self.context.log_work(&self.current, None, true);
        self.send_work(link);
        let (polls_out, mut polls) = mpsc::channel(1);
        let poller = Poller {
            http,
            method: format!("{}_getWork", self.method_prefix),
            context: self.context.clone(),
            accepted: Arc::clone(&self.accepted),
            shares: Arc::clone(&self.shares),
        };
        let _poller = AbortOnDrop(tokio::spawn(poller.run(polls_out)));
        let every = self.context.config.report_every;
        let mut reports = interval(
            every
                .unwrap_or(Duration::from_secs(3600))
                .max(Duration::from_millis(1)),
        );
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_new = Instant::now();
        let mut no_work: Option<NoWorkPeriod> = None;
        loop {
            tokio::select! {
                poll = polls.recv() => match poll {
                    None => return ClientError::Closed,
                    Some(Ok(work)) => {
                        no_work = None;
                        if work != self.current {
                            last_new = Instant::now();
                            if let Err(error) = self.epochs.accept(work.epoch, last_new) {
                                return error;
                            }
                            let is_new_block = work.number.is_none() || work.number != self.current.number;
                            self.current = work;
                            self.newest.send_replace(self.current.header_hash);
                            self.context.log_work(&self.current, None, is_new_block);
                        }
                        // The engine ignores work that it already has, but needs it again after a
                        // pause.
                        self.send_work(link);
                    }
                    Some(Err(error @ ClientError::Refused { .. })) => {
                        self.context.stats.set_job(None);
                        link.send_task(None);
                        let no_work = no_work.get_or_insert_with(|| NoWorkPeriod::of(&self.endpoint));
                        if no_work.is_too_long(&error) {
                            return error;
                        }
                    }
                    // The search goes on while a few answers make no sense.
                    Some(Err(error @ ClientError::Answer { .. })) => {
                        if let Err(too_many) = self.skipped.count(&error, Instant::now()) {
                            return too_many;
                        }
                        let no_work = no_work.get_or_insert_with(|| NoWorkPeriod::of(&self.endpoint));
                        if no_work.is_too_long(&error) {
                            return error;
                        }
                    }
                    Some(Err(error)) => return error,
                },
                found = link.found.recv() => match found {
                    Some(found) => self.submit(found),
                    // The engine has ended. Then the whole rig ends, so there is nothing left to do
                    // here.
                    None => std::future::pending().await,
                },
                _ = reports.tick(), if every.is_some() => {
                    // If the queue is full, this report is dropped. The next one follows soon.
                    let _ = self.submissions.try_send(Submission::Hashrate(link.hashrate()));
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

    /// Gives the current work to the engine.
    fn send_work(&self, link: &EngineLink) {
        let task = SearchTask {
            repeat: self.shares.lock().pays_shares(),
            ..SearchTask::from(self.current.clone())
        };
        self.context.stats.set_job(Some(&task));
        link.send_task(Some(task));
    }

    /// Queues a solution for submission. It is submitted even if this session ends.
    pub(in crate::client) fn submit(&self, found: FoundSolution) {
        let stale = found.solution.header_hash != self.current.header_hash;
        if self
            .submissions
            .try_send(Submission::Solution { found, stale })
            .is_err()
        {
            tracing::warn!("solution lost: {SUBMISSIONS_MAX} others wait to be submitted");
            self.context
                .stats
                .count_unanswered(found.device, |counts| counts.lost += 1);
        }
    }
}

/// Asks for the first work. Returns it with the prefix of the node's method names.
async fn first_work(
    http: &mut NodeHttpClient,
    endpoint: &MiningEndpoint,
    context: &ClientContext,
) -> Result<(&'static str, WorkPackage), ClientError> {
    let mut no_work = NoWorkPeriod::of(endpoint);
    let mut prefixes = METHOD_PREFIXES.iter().copied().cycle();
    let (mut prefix, mut unknown) = (METHOD_PREFIXES[0], 0);
    prefixes.next();
    loop {
        let error = match http.call(&format!("{prefix}_getWork"), &json!([])).await {
            Ok(work) => return Ok((prefix, read_work(&work, context.config.schedule)?)),
            Err(error @ ClientError::Refused { .. }) => error,
            Err(error) => return Err(error),
        };
        let is_unknown = matches!(error, ClientError::Refused { code, .. } if code == METHOD_NOT_FOUND);
        unknown += usize::from(is_unknown);
        if unknown >= METHOD_PREFIXES.len() || no_work.is_too_long(&error) {
            return Err(error);
        }
        if is_unknown {
            prefix = prefixes.next().unwrap_or(prefix);
        } else {
            sleep(context.config.recheck).await;
        }
    }
}
