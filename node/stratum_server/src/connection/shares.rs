//! Takes the shares of a connection: has them judged, answers and counts them, and draws the
//! consequences from bad ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::Claim;
use ethash::{B256, U256};
use serde_json::Value;
use stratum::server::{JobId, RejectReason, ShareClaim};
use tokio::task::JoinError;

use super::{DisconnectReason, WorkerConnection};
use crate::allowance::CheckPayment;
use crate::conduct::{ShareQuality, Treatment};
use crate::event_log::LoggedEvent;
use crate::jobs::StratumJob;
use crate::shares::{ShareToJudge, ShareVerdict, quality_of_refused, refusal_without_hash};
use crate::workers::WorkerShareResult;

/// Pause after each bad share of a connection of whose shares most are bad.
const BAD_SHARE_PAUSE: Duration = Duration::from_millis(500);
/// Time after its last accepted share during which a connection does not make room for others.
const ACTIVE_TIME: Duration = Duration::from_secs(600);

/// A judged share, with everything that its answer needs.
pub(super) struct JudgedShare {
    id: Value,
    worker: usize,
    /// The header hash of the job.
    header_hash: B256,
    difficulty: f64,
    verdict: ShareVerdict,
    payment: CheckPayment,
}

impl WorkerConnection {
    /// Starts to judge a share; [`Self::answer_share`] answers it later. A share that may not be
    /// hashed yet is kept, and no line is read until it may.
    pub(super) fn judge_share(&mut self, claim: ShareClaim) -> Result<(), DisconnectReason> {
        let now = Instant::now();
        if self.is_banned(now) {
            return Err(DisconnectReason::AddressBanned);
        }
        let Some((job, boundary)) = self.job_of_share(&claim.job) else {
            let refusal = RejectReason::UnknownJob;
            self.refuse_share(&claim.id, claim.worker, refusal);
            return match claim.job {
                // The server has forgotten the job. That says nothing about the miner.
                JobId::Number(Some(number)) if self.state.jobs.was_issued(number) => Ok(()),
                _ => self.count_conduct(quality_of_refused(refusal)),
            };
        };
        let share = ShareToJudge {
            pow_nonce: claim.pow_nonce,
            mix_hash: claim.mix_hash,
            boundary,
        };
        if let Some(refusal) = refusal_without_hash(&job, &share) {
            self.refuse_share(&claim.id, claim.worker, refusal);
            return self.count_conduct(quality_of_refused(refusal));
        }
        let payment = match self.checks.take(&self.address, now) {
            Ok(payment) => payment,
            Err(wait) => {
                self.waiting_share = Some(claim);
                self.pause(now + wait);
                return Ok(());
            }
        };
        let state = Arc::clone(&self.state);
        let judges = match payment {
            CheckPayment::Earned => &state.judges,
            CheckPayment::Unearned => &state.unearned_judges,
        };
        let judges = Arc::clone(judges);
        let age = state.jobs.age(&job);
        let header_hash = job.package.header_hash;
        let ShareClaim { id, worker, .. } = claim;
        self.judging.spawn(async move {
            // Acquiring fails only for a closed semaphore, and it is never closed. The permit is
            // held until the share is judged, even if nobody waits for the verdict any more.
            let permit = judges.acquire_owned().await;
            let verdict = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                state.judge_share(&job, age, &share)
            })
            .await;
            JudgedShare {
                id,
                worker,
                header_hash,
                difficulty: hashes_of(&boundary),
                verdict: verdict.unwrap_or(ShareVerdict::Refused(RejectReason::Internal)),
                payment,
            }
        });
        Ok(())
    }

    /// The job that a share names, and the highest final hash that its shares may have. `None` if
    /// the miner has not received such a job.
    fn job_of_share(&self, id: &JobId) -> Option<(Arc<StratumJob>, B256)> {
        let jobs = &self.state.jobs;
        let job = match id {
            JobId::Number(number) => jobs.by_number((*number)?),
            JobId::Header(header_hash) => jobs.by_header(header_hash),
        }?;
        // The easiest boundary that was sent for the job: shares found before a change of the
        // difficulty count, too.
        let sent = self.sent_jobs.iter().filter(|sent| sent.number == job.number);
        let boundary = sent.map(|sent| sent.boundary).max()?;
        Some((job, boundary))
    }

    /// Refuses a share and counts it in the statistics.
    fn refuse_share(&mut self, id: &Value, worker: usize, refusal: RejectReason) {
        self.session.refuse(id, refusal);
        let result = match refusal {
            RejectReason::Stale | RejectReason::UnknownJob => WorkerShareResult::Stale,
            _ => WorkerShareResult::Rejected,
        };
        self.count_share(worker, result, 0.0);
    }

    /// Answers a judged share and counts it.
    ///
    /// # Errors
    /// If the connection has to end because of its shares.
    pub(super) fn answer_share(
        &mut self,
        judged: Result<JudgedShare, JoinError>,
    ) -> Result<(), DisconnectReason> {
        // An error means that the task panicked; the panic is in the log.
        let Ok(JudgedShare {
            id,
            worker,
            header_hash,
            difficulty,
            verdict,
            payment,
        }) = judged
        else {
            return Ok(());
        };
        let quality = match verdict {
            ShareVerdict::Accepted | ShareVerdict::Block | ShareVerdict::StaleBlock => {
                Some(ShareQuality::Work)
            }
            ShareVerdict::Refused(refusal) => quality_of_refused(refusal),
        };
        if quality == Some(ShareQuality::Work) {
            self.checks.earn(payment, &self.address);
            if self.waiting_share.is_some() {
                self.paused_until = Some(Instant::now());
            }
        }
        match verdict {
            ShareVerdict::Accepted | ShareVerdict::Block => {
                let now = Instant::now();
                self.last_accepted = Some(now);
                self.place.set(Claim::Active, now);
                self.vardiff.count_share();
                self.session.accept(&id);
                let result = if verdict == ShareVerdict::Block {
                    WorkerShareResult::Block
                } else {
                    WorkerShareResult::Accepted
                };
                self.count_share(worker, result, difficulty);
                if verdict == ShareVerdict::Block {
                    self.note_block(worker, header_hash);
                }
                if self.vardiff.adjust(now) {
                    self.announce_newest(true);
                }
            }
            ShareVerdict::StaleBlock => {
                self.session.accept_stale(&id);
                self.count_share(worker, WorkerShareResult::Stale, difficulty);
            }
            ShareVerdict::Refused(refusal) => self.refuse_share(&id, worker, refusal),
        }
        self.count_conduct(quality)
    }

    /// Counts a share for the treatment of the connection and of its address. `None`: the share
    /// says nothing about the miner.
    fn count_conduct(&mut self, quality: Option<ShareQuality>) -> Result<(), DisconnectReason> {
        let Some(quality) = quality else {
            return Ok(());
        };
        let now = Instant::now();
        self.shares.count(quality, now);
        if let Some(ban) = self.address.count_share(quality, now)
            && self.state.log.allows(LoggedEvent::Banned)
        {
            tracing::warn!(
                address = %ban.address,
                bad = ban.shares.bad,
                work = ban.shares.work,
                "most shares of an address were bad; it is banned for {:?}",
                ban.time
            );
        }
        if quality == ShareQuality::Work {
            return Ok(());
        }
        match self.shares.counts(now).treatment() {
            Treatment::Normal => Ok(()),
            Treatment::Slow => {
                self.pause(now + BAD_SHARE_PAUSE);
                Ok(())
            }
            Treatment::CutOff => Err(DisconnectReason::MostlyBadShares),
        }
    }

    /// Whether the connection has to end because its address is banned.
    fn is_banned(&mut self, now: Instant) -> bool {
        self.shares.counts(now).ends_with_ban() && self.address.is_banned(now)
    }

    /// Lets the connection make room for others again if it has had no accepted share for long.
    pub(super) fn review_place(&self, now: Instant) {
        if let Some(at) = self.last_accepted
            && now.saturating_duration_since(at) > ACTIVE_TIME
        {
            self.place.set(Claim::Known, at);
        }
    }

    /// Counts a share in the statistics of the worker.
    fn count_share(&self, worker: usize, result: WorkerShareResult, difficulty: f64) {
        let Some(name) = self.workers.get(worker) else {
            return;
        };
        self.state
            .workers
            .count_share(name, result, difficulty, Instant::now());
    }

    /// Notes that a share of the worker has sealed the block with this header hash.
    fn note_block(&self, worker: usize, header_hash: B256) {
        if let Some(name) = self.workers.get(worker) {
            self.state.finders.note(header_hash, name.clone());
            tracing::info!(worker = name, "a share of a worker sealed a block");
        }
    }
}

/// The difficulty of `boundary`: how many hashes it takes on average to meet it.
fn hashes_of(boundary: &B256) -> f64 {
    f64::from(U256::MAX) / f64::from(U256::from_be_bytes(boundary.0).max(U256::ONE))
}
