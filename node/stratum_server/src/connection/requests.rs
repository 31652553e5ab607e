//! Answers the requests of a miner other than shares, and sends jobs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use daemon::{Claim, SecretDigest};
use ethash::{B256, U256};
use primitives::{AddressTextError, parse_address};
use serde_json::Value;
use stratum::server::{AnnouncedJob, MinerRequest, RejectReason};
use stratum::{Dialect, boundary_of_difficulty, difficulty_of_boundary};

use super::{DisconnectReason, ERRORS_MAX, SENT_JOBS_MAX, SentJob, WorkerConnection};
use crate::addresses::GuessPenalty;
use crate::event_log::LoggedEvent;
use crate::jobs::StratumJob;

/// A wrong password is answered after so long. Further lines of the connection wait for it.
const WRONG_PASSWORD_PAUSE: Duration = Duration::from_millis(500);
/// Time between two messages to a miner about the reason for which there is no work.
const EXPLAIN_INTERVAL: Duration = Duration::from_secs(60);

impl WorkerConnection {
    /// Handles one request of the miner.
    pub(super) fn handle(&mut self, asked: MinerRequest) -> Result<(), DisconnectReason> {
        match asked {
            MinerRequest::Login {
                id,
                user,
                worker,
                password,
            } => self.log_in(&id, &user, worker.as_deref(), &password)?,
            MinerRequest::Work { id } => self.give_work(&id),
            MinerRequest::Share(claim) => self.judge_share(claim)?,
            MinerRequest::Hashrate { worker, rate } => {
                if let Some(name) = self.workers.get(worker) {
                    self.state.workers.set_reported_rate(name, rate);
                    self.rates.insert(worker, rate);
                    self.report_rate_to_chain(worker, rate);
                }
                if self.vardiff.use_reported_rate(rate, Instant::now()) && self.wants_jobs {
                    self.announce_newest(true);
                }
            }
            MinerRequest::Bye => return Err(DisconnectReason::Left),
        }
        Ok(())
    }

    fn log_in(
        &mut self,
        id: &Value,
        user: &str,
        worker: Option<&str>,
        password: &str,
    ) -> Result<(), DisconnectReason> {
        if !self.check_password(id, password)? {
            return Ok(());
        }
        let named = user.split('.').next().unwrap_or_default();
        if let Err(error @ AddressTextError::Checksum { .. }) = parse_address(named) {
            if self.state.log.allows(LoggedEvent::Connected) {
                tracing::warn!(peer = %self.peer, %error, "a worker's login is refused");
            }
            self.session.refuse(id, RejectReason::BadLogin);
            self.session.say(&error.to_string());
            return Ok(());
        }
        let was_logged_in = self.session.is_logged_in();
        let Some(index) = self.session.admit(id, user, worker) else {
            return Ok(());
        };
        if index < self.workers.len() {
            return Ok(());
        }
        let name = worker.map_or_else(|| user.to_owned(), |worker| format!("{user}.{worker}"));
        self.state.workers.connected(&name, Instant::now());
        let dialect = self.session.dialect().map(Dialect::name);
        if self.state.log.allows(LoggedEvent::Connected) {
            tracing::info!(worker = name, peer = %self.peer, dialect, "worker connected");
        }
        self.workers.push(name);
        if !was_logged_in {
            self.address.set_logged_in();
            self.place.set(Claim::Known, Instant::now());
            self.state.logged_in.fetch_add(1, Ordering::Relaxed);
            // A miner with the dialect eth-proxy asks for its first work itself.
            if self.session.dialect() != Some(Dialect::EthProxy) {
                self.wants_jobs = true;
                self.announce_newest(false);
                self.explain_pause();
            }
        }
        Ok(())
    }

    /// Whether the password of a login is right. A wrong one is answered after a pause
    /// ([`Self::refuse_late`]), so that a new connection learns no faster than an old one whether
    /// its guess is right. While the address has to wait for its wrong passwords, no password is
    /// looked at.
    fn check_password(&mut self, id: &Value, password: &str) -> Result<bool, DisconnectReason> {
        let Some(expected) = self.state.config.password.as_deref().map(SecretDigest::of) else {
            return Ok(true);
        };
        let now = Instant::now();
        if let Some(wait) = self.address.guess_wait(now) {
            self.state.counters.bad_logins.fetch_add(1, Ordering::Relaxed);
            self.session.refuse(id, RejectReason::TooMany);
            return Err(DisconnectReason::Guesses(wait));
        }
        // Digests are compared in the same time wherever they part.
        let guess = SecretDigest::of(password);
        if guess == expected {
            self.address.forget_guesses();
            return Ok(true);
        }
        let penalty = self.address.count_guess(guess, now);
        if let GuessPenalty::Ban(time) = penalty
            && self.state.log.allows(LoggedEvent::Banned)
        {
            let address = self.address.address();
            tracing::warn!(%address, "an address tried many passwords; it is banned for {time:?}");
        }
        self.state.counters.bad_logins.fetch_add(1, Ordering::Relaxed);
        self.errors += 1;
        if penalty != GuessPenalty::None || self.address.is_banned(now) {
            self.session.refuse(id, RejectReason::BadLogin);
            return Err(DisconnectReason::BadLogin);
        }
        self.late_refusal = Some(id.clone());
        self.pause(now + WRONG_PASSWORD_PAUSE);
        Ok(false)
    }

    /// Answers the login with a wrong password that has waited for the end of the pause.
    pub(super) fn refuse_late(&mut self) -> Result<(), DisconnectReason> {
        let Some(id) = self.late_refusal.take() else {
            return Ok(());
        };
        self.session.refuse(&id, RejectReason::BadLogin);
        if self.errors >= ERRORS_MAX {
            return Err(DisconnectReason::BadLogin);
        }
        Ok(())
    }

    /// Answers the request for work of the dialect eth-proxy. After it, new work is sent without a
    /// request.
    fn give_work(&mut self, id: &Value) {
        self.wants_jobs = true;
        let Some(job) = self.state.jobs.newest() else {
            self.session.refuse(id, RejectReason::NoWork);
            return;
        };
        let share_boundary = self.record_sent_job(&job);
        self.session
            .give_work(id, &session_job(&job, &share_boundary, job.clean));
    }

    /// Sends the newest job to the miner. A job that the miner already has is sent only if `again`
    /// is true, because its difficulty has changed.
    pub(super) fn announce_newest(&mut self, again: bool) {
        let Some(job) = self.state.jobs.newest() else {
            return;
        };
        if self.state.chain.work_pause().is_some() {
            // The job is from before the pause. A miner would search on it for nothing.
            return;
        }
        let known = self
            .sent_jobs
            .back()
            .is_some_and(|sent| sent.number == job.number);
        if known && !again {
            return;
        }
        let share_boundary = self.record_sent_job(&job);
        self.session
            .announce(&session_job(&job, &share_boundary, job.clean && !known));
        if !known {
            self.state.count_push(&job);
        }
    }

    /// Tells the miner at times why there is no work, if the chain has a reason.
    pub(super) fn explain_pause(&mut self) {
        let Some(reason) = self.state.chain.work_pause() else {
            self.told_at = None;
            return;
        };
        if self.told_at.is_none_or(|at| at.elapsed() >= EXPLAIN_INTERVAL) {
            self.told_at = Some(Instant::now());
            self.session.say(&format!("no work: {reason}"));
        }
    }

    /// Records that `job` is sent to the miner. Returns the share boundary to send.
    fn record_sent_job(&mut self, job: &StratumJob) -> B256 {
        let boundary = self.vardiff.boundary(&job.package.boundary);
        // EthereumStratum/1.0.0 sends a rounded difficulty, so the boundary of the miner may be
        // slightly easier.
        let rounded = boundary_of_difficulty(difficulty_of_boundary(&boundary)).unwrap_or(boundary);
        self.sent_jobs.push_back(SentJob {
            number: job.number,
            boundary: boundary.max(rounded).max(job.package.boundary),
        });
        if self.sent_jobs.len() > SENT_JOBS_MAX {
            self.sent_jobs.pop_front();
        }
        boundary
    }

    /// Reports the hashrates of the workers to the work manager, so that they are part of the
    /// node's hashrate. The work manager soon forgets a hashrate, so it is reported more often than
    /// Stratum miners send it.
    pub(super) fn report_rates_to_chain(&self) {
        for (worker, rate) in &self.rates {
            self.report_rate_to_chain(*worker, *rate);
        }
    }

    fn report_rate_to_chain(&self, worker: usize, rate: u64) {
        let mut id = [0; 32];
        id[..7].copy_from_slice(b"stratum");
        id[16..24].copy_from_slice(&self.number.to_be_bytes());
        id[24..].copy_from_slice(&(worker as u64).to_be_bytes());
        self.state
            .chain
            .work()
            .report_hashrate(U256::from(rate), B256::from(id));
    }
}

/// The job in the form that the session sends.
const fn session_job<'a>(job: &'a StratumJob, share_boundary: &'a B256, clean: bool) -> AnnouncedJob<'a> {
    AnnouncedJob {
        number: job.number,
        package: &job.package,
        share_boundary,
        clean,
    }
}
