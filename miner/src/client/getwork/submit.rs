//! Submits solutions and hashrates to a node, one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::FoundSolution;
use engine::units::short_hash;
use ethash::B256;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::share_check::{NEW_WORK_TIMEOUT, ShareCheck};
use crate::client::context::ClientContext;
use crate::client::error::{ClientError, printable};
use crate::client::http::NodeHttpClient;

/// A solution is not submitted again after this time. Nodes forget work a little later.
const SOLUTION_LIFETIME: Duration = Duration::from_secs(60);
/// Time before a solution is submitted again.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// A request to a node beside the polls.
pub(super) enum Submission {
    Solution {
        found: FoundSolution,
        /// Whether the solution's work was over when it was found.
        stale: bool,
    },
    /// In hashes per second.
    Hashrate(u64),
}

/// Submits solutions and hashrates, one after the other.
pub(super) struct Submitter {
    pub(super) http: NodeHttpClient,
    pub(super) method_prefix: &'static str,
    pub(super) context: ClientContext,
    /// Notified when a solution was accepted.
    pub(super) accepted: Arc<Notify>,
    pub(super) shares: Arc<Mutex<ShareCheck>>,
    /// The header hash of the newest work.
    pub(super) newest: watch::Receiver<B256>,
}

impl Submitter {
    /// Submits what comes from `queue`, until its sender is dropped.
    ///
    /// Once `given_up` is true, submissions are counted as lost.
    pub(super) async fn run(
        mut self,
        mut queue: mpsc::Receiver<Submission>,
        mut given_up: watch::Receiver<bool>,
    ) {
        while let Some(submission) = queue.recv().await {
            let device = match &submission {
                Submission::Solution { found, .. } => Some(found.device),
                Submission::Hashrate(_) => None,
            };
            let stats = Arc::clone(&self.context.stats);
            let given_up = async {
                // If the sender is gone, nobody can give up: submissions go on.
                if given_up.wait_for(|given_up| *given_up).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = self.send(submission) => {}
                () = given_up => if let Some(device) = device {
                    stats.count_unanswered(device, |counts| counts.lost += 1);
                },
            }
        }
    }

    async fn send(&mut self, submission: Submission) {
        match submission {
            Submission::Solution { found, stale } => self.submit(&found, stale).await,
            Submission::Hashrate(rate) => self.report_hashrate(rate).await,
        }
    }

    /// Submits a solution until the node answers, and counts and logs the answer.
    async fn submit(&mut self, found: &FoundSolution, stale: bool) {
        let (sent, solution) = (Instant::now(), &found.solution);
        let params = json!([
            format!("{:#018x}", solution.pow_nonce),
            solution.header_hash.to_string(),
            solution.mix_hash.to_string(),
        ]);
        let method = format!("{}_submitWork", self.method_prefix);
        let answer = loop {
            match self.http.call(&method, &params).await {
                Err(error @ (ClientError::Refused { .. } | ClientError::Answer { .. })) => break Err(error),
                Err(error) if sent.elapsed() > SOLUTION_LIFETIME => {
                    tracing::warn!(hash = short_hash(&solution.header_hash), "solution lost: {error}");
                    self.context
                        .stats
                        .count_unanswered(found.device, |counts| counts.lost += 1);
                    return;
                }
                Err(error) => {
                    tracing::warn!(
                        hash = short_hash(&solution.header_hash),
                        "solution not submitted, will try again: {error}"
                    );
                    sleep(RETRY_EVERY).await;
                }
                Ok(answer) => break Ok(answer),
            }
        };
        let took = sent.elapsed();
        let milliseconds = took.as_millis() as u64;
        let header_hash = solution.header_hash;
        let hash = short_hash(&header_hash);
        let nonce = format!("{:#018x}", solution.pow_nonce);
        let stats = &self.context.stats;
        match answer {
            Ok(Value::Bool(true)) => {
                tracing::info!(hash, nonce, milliseconds, stale, "solution accepted");
                stats.count_answer(found.device, took, |counts| {
                    if stale {
                        counts.stale += 1;
                    } else {
                        counts.accepted += 1;
                    }
                });
                self.shares.lock().note_accepted(header_hash, Instant::now());
                self.accepted.notify_one();
            }
            refusal @ (Ok(Value::Bool(_)) | Err(ClientError::Refused { .. })) => {
                let reason = match refusal {
                    Ok(_) => "the node answers false".to_owned(),
                    Err(error) => error.to_string(),
                };
                let (stats, device) = (Arc::clone(stats), found.device);
                let mut newest = self.newest.clone();
                let stale = self.shares.lock().note_refused(header_hash) || stale;
                // Nodes do not give the reason of a refusal. If new work comes soon, the solution
                // was too late: for example, another rig of the same node was faster. The refusal
                // often comes before the new work.
                tokio::spawn(async move {
                    let new_work = newest.wait_for(|newest| *newest != header_hash);
                    if stale || matches!(timeout(NEW_WORK_TIMEOUT, new_work).await, Ok(Ok(_))) {
                        tracing::warn!(hash, nonce, milliseconds, "solution stale: {reason}");
                        stats.count_answer(device, took, |counts| counts.stale += 1);
                    } else {
                        tracing::warn!(hash, nonce, milliseconds, "solution rejected: {reason}");
                        stats.count_answer(device, took, |counts| counts.rejected += 1);
                    }
                });
            }
            unclear => {
                let got = match unclear {
                    Ok(answer) => format!(
                        "got {}, expected true or false",
                        printable(&answer.to_string(), 80)
                    ),
                    Err(error) => error.to_string(),
                };
                tracing::warn!(hash, nonce, milliseconds, "solution unknown: {got}");
                stats.count_answer(found.device, took, |counts| counts.unknown += 1);
            }
        }
    }

    async fn report_hashrate(&mut self, rate: u64) {
        let params = json!([format!("{rate:#x}"), self.context.config.rig.to_string()]);
        let method = format!("{}_submitHashrate", self.method_prefix);
        if let Err(error) = self.http.call(&method, &params).await {
            tracing::debug!("the node does not accept the hashrate: {error}");
        }
    }
}
