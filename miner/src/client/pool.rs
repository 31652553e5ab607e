//! A connection to a pool over Stratum: the socket, the clock, and which share belongs to which
//! job.
//!
//! The package `stratum` knows the messages.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use daemon::tls::ClientStream;
use engine::{FoundSolution, NonceSpace, SearchTask};
use ethash::{B256, final_hash, meets_boundary};
use stratum::client::{ClientSession, ClientSessionError, Login, PoolEvent, PoolJob, ShareOutcome};
use stratum::{Dialect, LineBuffer, MessageError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::config::AGENT;
use super::context::ClientContext;
use super::endpoint::MiningEndpoint;
use super::engine_link::EngineLink;
use super::epochs::SessionEpochs;
use super::error::ClientError;
use super::net;
use super::skipped::{LogLimit, SkippedMessages};

/// The most jobs that are kept. Shares of older jobs are not sent.
const JOBS_MAX: usize = 16;
/// The most bytes of one read.
const READ_LEN: usize = 4096;
/// Time between two checks of the time limits.
const CLOCK_EVERY: Duration = Duration::from_millis(500);
/// The answer to a share may take this many times the response timeout. Then the pool is left.
const SHARE_ANSWER_FACTOR: u32 = 3;
/// The shortest time between two reports of the hashrate. Pools want fewer reports than nodes.
const REPORT_EVERY_MIN: Duration = Duration::from_secs(30);
/// While the hashrate is 0, as at the start, it is checked again after this time.
const ZERO_RATE_RETRY: Duration = Duration::from_secs(5);
/// While the dialect is being found out, a pool that is silent for this time does not speak the
/// dialect.
const DIALECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for the last message of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// The name of the answer that a login waits for.
const A_LOGIN: &str = "a login";

/// A connection to a pool that has given work.
pub(super) struct PoolClient {
    stream: ClientStream,
    lines: LineBuffer,
    session: ClientSession,
    state: PoolState,
    last_sent: Instant,
}

/// The jobs and shares of a connection.
struct PoolState {
    context: ClientContext,
    endpoint: MiningEndpoint,
    /// The newest job is last.
    jobs: VecDeque<PoolJob>,
    /// Shares without an answer, by the id of the request.
    shares: HashMap<u64, SentShare>,
    last_job: Instant,
    epochs: SessionEpochs,
    skipped: SkippedMessages,
    notes: LogLimit,
    /// Messages that were skipped while shares had no answer, and that may have been answers.
    unread_answers: usize,
}

/// A share without an answer.
#[derive(Clone, Copy)]
struct SentShare {
    device: usize,
    sent: Instant,
}

impl PoolClient {
    /// Connects, logs in and waits for the first job. If the dialect is not known, tries all of
    /// them.
    pub(super) async fn connect(
        endpoint: &MiningEndpoint,
        dialect: Option<Dialect>,
        context: &ClientContext,
    ) -> Result<Self, ClientError> {
        if let Some(dialect) = dialect {
            return Self::open(endpoint, dialect, context, context.config.response_timeout).await;
        }
        let mut last = ClientError::Closed;
        for dialect in Dialect::ALL {
            let login_timeout = context.config.response_timeout.min(DIALECT_TIMEOUT);
            match Self::open(endpoint, dialect, context, login_timeout).await {
                Err(
                    error @ (ClientError::Session(
                        ClientSessionError::OtherDialect { .. } | ClientSessionError::Message(_),
                    )
                    | ClientError::Closed
                    | ClientError::Lost(_)
                    | ClientError::OddMessages { .. }
                    | ClientError::Timeout { what: A_LOGIN, .. }),
                ) => {
                    tracing::debug!(%endpoint, "not {dialect}: {error}");
                    last = error;
                }
                other => return other,
            }
        }
        Err(ClientError::NoDialect(Box::new(last)))
    }

    /// Connects in one dialect, logs in and waits for the first job.
    async fn open(
        endpoint: &MiningEndpoint,
        dialect: Dialect,
        context: &ClientContext,
        login_timeout: Duration,
    ) -> Result<Self, ClientError> {
        let response_timeout = context.config.response_timeout;
        let stream = net::connect(endpoint, &context.tls, response_timeout).await?;
        let login = Login {
            user: endpoint.user.clone(),
            worker: endpoint.worker.clone(),
            password: endpoint.password.clone().unwrap_or_else(|| "x".into()),
            agent: AGENT.into(),
            host: endpoint.host.clone(),
            port: endpoint.port,
        };
        let now = context.now();
        let mut pool = Self {
            stream,
            lines: LineBuffer::default(),
            session: ClientSession::new(dialect, login, context.config.schedule),
            state: PoolState {
                context: context.clone(),
                endpoint: endpoint.clone(),
                jobs: VecDeque::new(),
                shares: HashMap::new(),
                last_job: now,
                epochs: context.session_epochs(),
                skipped: context.skipped_messages(endpoint),
                notes: LogLimit::default(),
                unread_answers: 0,
            },
            last_sent: now,
        };
        pool.wait_for(A_LOGIN, login_timeout, |pool| pool.session.is_logged_in())
            .await?;
        pool.wait_for("a job", response_timeout, |pool| !pool.state.jobs.is_empty())
            .await?;
        Ok(pool)
    }

    /// The dialect of this connection.
    pub(super) const fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    /// The header hash of the newest job.
    pub(super) fn header_hash(&self) -> Option<B256> {
        self.state.jobs.back().map(|job| job.package.header_hash)
    }

    /// Exchanges messages until `condition` is true, for at most `time_limit`.
    async fn wait_for(
        &mut self,
        what: &'static str,
        time_limit: Duration,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<(), ClientError> {
        let exchange = async {
            while !condition(self) {
                self.flush().await?;
                self.read().await?;
            }
            self.flush().await
        };
        let timed_out = |_| ClientError::Timeout {
            what,
            after: time_limit,
        };
        timeout(time_limit, exchange).await.map_err(timed_out)?
    }

    /// Passes jobs and shares on until the connection fails.
    pub(super) async fn run(&mut self, link: &mut EngineLink) -> ClientError {
        let Err(error) = self.exchange(link).await else {
            return ClientError::Closed;
        };
        self.state.count_lost_shares();
        error
    }

    async fn exchange(&mut self, link: &mut EngineLink) -> Result<(), ClientError> {
        let every = self
            .state
            .context
            .config
            .report_every
            .map(|every| every.max(REPORT_EVERY_MIN));
        let mut reports = interval(every.unwrap_or(REPORT_EVERY_MIN));
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut clock = interval(CLOCK_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.send_job(link);
        loop {
            let jobs_before = self.state.last_job;
            tokio::select! {
                read = self.read() => read?,
                found = link.found.recv() => match found {
                    Some(found) => self.submit(&found)?,
                    // The engine has ended. Then the whole rig ends, so there is nothing left to do
                    // here.
                    None => std::future::pending().await,
                },
                _ = reports.tick(), if every.is_some() => {
                    match link.hashrate() {
                        // The pool would show the 0 until the next report, so it is not sent.
                        0 => reports.reset_after(ZERO_RATE_RETRY),
                        rate => self.session.report_hashrate(rate, &self.state.context.config.rig),
                    }
                }
                _ = clock.tick() => self.check_clock()?,
            }
            if self.state.last_job != jobs_before {
                self.send_job(link);
            }
            self.flush().await?;
        }
    }

    /// Gives the newest job to the engine.
    fn send_job(&self, link: &EngineLink) {
        let Some(job) = self.state.jobs.back() else { return };
        let task = SearchTask {
            work: job.package.clone(),
            nonces: NonceSpace::new(job.extranonce.prefix(), job.extranonce.bits()),
            repeat: true,
        };
        self.state.context.stats.set_job(Some(&task));
        link.send_task(Some(task));
    }

    /// Reads once and handles the lines that came. No bytes are lost if this future is dropped.
    async fn read(&mut self) -> Result<(), ClientError> {
        let mut buffer = [0; READ_LEN];
        let len = self.stream.read(&mut buffer).await.map_err(ClientError::Lost)?;
        if len == 0 {
            return Err(ClientError::Closed);
        }
        self.lines.push(&buffer[..len]);
        while let Some(line) = self.lines.next_line()? {
            let events = self.session.receive(line)?;
            if !events.iter().any(is_not_json) {
                self.state.skipped.note_json();
            }
            for event in events {
                self.state.handle_event(event)?;
            }
        }
        Ok(())
    }

    /// Sends the lines of the session.
    async fn flush(&mut self) -> Result<(), ClientError> {
        let output = self.session.take_output();
        if output.is_empty() {
            return Ok(());
        }
        let after = self.state.context.config.response_timeout;
        let timed_out = |_| ClientError::Timeout {
            what: "the pool to accept bytes",
            after,
        };
        let write = async {
            self.stream.write_all(&output).await?;
            self.stream.flush().await
        };
        timeout(after, write)
            .await
            .map_err(timed_out)?
            .map_err(ClientError::Lost)?;
        self.last_sent = self.state.context.now();
        Ok(())
    }

    /// Submits a solution as a share of its job. Counts it as stale if its job is over, and as lost
    /// if it cannot be submitted.
    fn submit(&mut self, found: &FoundSolution) -> Result<(), ClientError> {
        let solution = &found.solution;
        let final_hash = final_hash(&solution.header_hash, solution.pow_nonce, &solution.mix_hash);
        let is_job_of_solution = |job: &&PoolJob| {
            job.package.header_hash == solution.header_hash
                && job.extranonce.holds(solution.pow_nonce)
                && meets_boundary(&final_hash, &job.package.boundary)
        };
        let Some(job) = self.state.jobs.iter().rev().find(is_job_of_solution) else {
            tracing::debug!(header_hash = %solution.header_hash, "solution stale: its job is over");
            self.state
                .context
                .stats
                .count_unanswered(found.device, |counts| counts.stale += 1);
            return Ok(());
        };
        let id = match self.session.submit(job, solution) {
            Ok(id) => id,
            Err(error) => {
                self.state
                    .context
                    .stats
                    .count_unanswered(found.device, |counts| counts.lost += 1);
                return Err(error.into());
            }
        };
        self.state.shares.insert(
            id,
            SentShare {
                device: found.device,
                sent: self.state.context.now(),
            },
        );
        Ok(())
    }

    /// Checks the time limits, and sends a message if the pool would end the session because of
    /// silence.
    fn check_clock(&mut self) -> Result<(), ClientError> {
        let (config, now) = (&self.state.context.config, self.state.context.now());
        if now.duration_since(self.state.last_job) > config.work_timeout {
            return Err(ClientError::NoNewWork {
                header_hash: self.header_hash().unwrap_or_default(),
                after: config.work_timeout,
            });
        }
        let after = config.response_timeout * SHARE_ANSWER_FACTOR;
        let late = self.state.shares.iter();
        let late: Vec<u64> = late
            .filter(|(_, share)| now.duration_since(share.sent) > after)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            if !self.state.give_up_share(id) {
                return Err(ClientError::Timeout {
                    what: "an answer to a share",
                    after,
                });
            }
            self.session.forget(id);
        }
        if let Some(silence_max) = self.session.silence_max()
            && now.duration_since(self.last_sent) > silence_max / 2
        {
            self.session.keep_alive();
        }
        Ok(())
    }

    /// Submits a solution just before the connection is closed. The share is sent by
    /// [`close`](Self::close) or [`finish`](Self::finish).
    pub(super) fn submit_before_close(&mut self, found: &FoundSolution) {
        // A share that cannot be submitted is counted. The connection ends anyway.
        let _ = self.submit(found);
    }

    /// Waits for the answers to all shares, for at most `time_limit`, and closes the connection.
    pub(super) async fn finish(mut self, time_limit: Duration) {
        let answers = async {
            self.flush().await?;
            while !self.state.shares.is_empty() {
                self.read().await?;
            }
            Ok::<_, ClientError>(())
        };
        // `close` counts the shares that have no answer then.
        let _ = timeout(time_limit, answers).await;
        self.close().await;
    }

    /// Closes the connection. Sends the last lines first, if that takes no longer than
    /// [`CLOSE_TIMEOUT`].
    pub(super) async fn close(mut self) {
        self.state.count_lost_shares();
        self.session.say_bye();
        let end = async {
            let output = self.session.take_output();
            self.stream.write_all(&output).await?;
            self.stream.shutdown().await
        };
        // An error makes no difference, because the connection ends anyway.
        let _ = timeout(CLOSE_TIMEOUT, end).await;
    }
}

/// Whether a line was skipped because it is not JSON.
const fn is_not_json(event: &PoolEvent) -> bool {
    let PoolEvent::Skipped { reason, .. } = event else {
        return false;
    };
    matches!(reason, MessageError::NotJson { .. })
}

impl PoolState {
    fn handle_event(&mut self, event: PoolEvent) -> Result<(), ClientError> {
        match event {
            PoolEvent::LoggedIn => {}
            PoolEvent::Note(text) => {
                if let Some(unlogged) = self.notes.admit(self.context.now()) {
                    tracing::info!(endpoint = %self.endpoint, unlogged, "{text}");
                }
            }
            PoolEvent::Job(job) => self.add_job(job)?,
            PoolEvent::Skipped { reason, is_notice } => self.skip(&reason, is_notice)?,
            PoolEvent::Answer { id, outcome } => {
                if let Some(share) = self.shares.remove(&id) {
                    self.note_answer(share, &outcome);
                    self.unread_answers = self.unread_answers.min(self.shares.len());
                }
            }
            PoolEvent::Bye => return Err(ClientError::Bye),
            PoolEvent::Reconnect { host, port, wait } => {
                return Err(ClientError::Redirected {
                    host: host.unwrap_or_else(|| self.endpoint.host.clone()),
                    port: port.unwrap_or(self.endpoint.port),
                    wait,
                });
            }
        }
        Ok(())
    }

    /// Counts a message that was skipped for `reason`.
    fn skip(&mut self, reason: &MessageError, is_notice: bool) -> Result<(), ClientError> {
        if !is_notice && self.unread_answers < self.shares.len() {
            self.unread_answers += 1;
        }
        let now = self.context.now();
        match reason {
            MessageError::NotJson { .. } => self.skipped.count_not_json(reason, now),
            MessageError::NoObject { .. } | MessageError::Value { .. } => self.skipped.count(reason, now),
        }
    }

    /// Counts share `id`, which has no answer, as unknown. Returns false if no skipped message can
    /// have been its answer.
    fn give_up_share(&mut self, id: u64) -> bool {
        if self.unread_answers == 0 {
            return false;
        }
        self.unread_answers -= 1;
        if let Some(SentShare { device, .. }) = self.shares.remove(&id) {
            tracing::warn!(device, "solution unknown: the pool's answer could not be read");
            self.context
                .stats
                .count_unanswered(device, |counts| counts.unknown += 1);
        }
        true
    }

    /// Adds and logs a new job. A clean job removes all earlier ones.
    ///
    /// # Errors
    /// If the epoch of the job is refused.
    fn add_job(&mut self, job: PoolJob) -> Result<(), ClientError> {
        self.epochs.accept(job.package.epoch, self.context.now())?;
        // A pool renews its jobs for the same block, for example when there are more transactions.
        let before = self.jobs.back().map(|before| before.package.number);
        let is_new_block = match (before, job.package.number) {
            (Some(Some(before)), Some(number)) => number != before,
            // Jobs of eth-proxy have no id, and need not have a number.
            (before, _) => job.clean || job.id.is_empty() || before.is_none(),
        };
        let id = Some(job.id.as_str()).filter(|id| !id.is_empty());
        self.context.log_work(&job.package, id, is_new_block);
        if job.clean {
            self.jobs.clear();
        }
        self.jobs.push_back(job);
        if self.jobs.len() > JOBS_MAX {
            self.jobs.pop_front();
        }
        self.last_job = self.context.now();
        Ok(())
    }

    /// Counts and logs the answer to a share.
    fn note_answer(&self, share: SentShare, outcome: &ShareOutcome) {
        let SentShare { device, sent } = share;
        let took = self.context.now().duration_since(sent);
        let milliseconds = took.as_millis() as u64;
        let stats = &self.context.stats;
        match outcome {
            ShareOutcome::Accepted => {
                tracing::info!(device, milliseconds, stale = false, "solution accepted");
                stats.count_answer(device, took, |counts| counts.accepted += 1);
            }
            ShareOutcome::AcceptedStale => {
                tracing::info!(device, milliseconds, stale = true, "solution accepted");
                stats.count_answer(device, took, |counts| counts.stale += 1);
            }
            ShareOutcome::Stale(reason) => {
                tracing::warn!(device, milliseconds, "solution stale: {reason}");
                stats.count_answer(device, took, |counts| counts.stale += 1);
            }
            ShareOutcome::Rejected(reason) => {
                tracing::warn!(device, milliseconds, "solution rejected: {reason}");
                stats.count_answer(device, took, |counts| counts.rejected += 1);
            }
            ShareOutcome::Unknown { got } => {
                tracing::warn!(
                    device,
                    milliseconds,
                    "solution unknown: got {got}, expected true or false"
                );
                stats.count_answer(device, took, |counts| counts.unknown += 1);
            }
        }
    }

    /// Counts all shares without an answer as lost.
    fn count_lost_shares(&mut self) {
        for (_, share) in self.shares.drain() {
            self.context
                .stats
                .count_unanswered(share.device, |counts| counts.lost += 1);
        }
    }
}
