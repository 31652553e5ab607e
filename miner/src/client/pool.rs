//! A pool over Stratum: the connection, the clock, and which share belongs to which job.
//!
//! The words are `stratum`'s business.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ethash::{B256, final_hash, meets_boundary};
use stratum::client::{Event, Job, Login, Outcome, Session, SessionError};
use stratum::{Dialect, LineBuffer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::net::{self, Connection};
use super::{AGENT, ClientError, Endpoint, Wires};
use crate::client::failover::Context;
use crate::search::{FoundSolution, NonceSpace, SearchTask};

/// Jobs whose shares may still be handed in.
const JOBS_MAX: usize = 16;
/// Bytes asked for in one read.
const READ_LEN: usize = 4096;
/// Between two looks at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An answer may take so many times the usual patience before the pool is taken for gone.
const ANSWER_PATIENCE: u32 = 3;
/// Pools want to hear of a hashrate more rarely than nodes.
const REPORT_EVERY_MIN: Duration = Duration::from_secs(30);
/// While there is no rate to tell, as at the start, it is looked for so often.
const NO_RATE_PAUSE: Duration = Duration::from_secs(5);
/// While the dialect is being found out, silence is an answer after this time.
const DIALECT_PATIENCE: Duration = Duration::from_secs(3);

/// A pool that has given work.
pub(super) struct Pool {
    context: Context,
    endpoint: Endpoint,
    stream: Connection,
    lines: LineBuffer,
    session: Session,
    /// The newest last.
    jobs: VecDeque<Job>,
    /// Shares on their way, by the id of their answer: the device, and when they were sent.
    shares: HashMap<u64, (usize, Instant)>,
    last_sent: Instant,
    last_job: Instant,
}

impl Pool {
    /// Connects, logs in and waits for the first job. Where the dialect is not known, all are
    /// tried.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        dialect: Option<Dialect>,
        context: &Context,
    ) -> Result<Self, ClientError> {
        if let Some(dialect) = dialect {
            return Self::open(endpoint, dialect, context, context.config.response_timeout).await;
        }
        let mut last = ClientError::Closed;
        for dialect in Dialect::ALL {
            let patience = context.config.response_timeout.min(DIALECT_PATIENCE);
            match Self::open(endpoint, dialect, context, patience).await {
                Err(
                    error @ (ClientError::Session(
                        SessionError::OtherDialect { .. } | SessionError::Message(_),
                    )
                    | ClientError::Closed
                    | ClientError::Lost(_)
                    | ClientError::Timeout { what: "a login", .. }),
                ) => {
                    tracing::debug!(%endpoint, "not {dialect}: {error}");
                    last = error;
                }
                other => return other,
            }
        }
        Err(ClientError::NoDialect(Box::new(last)))
    }

    async fn open(
        endpoint: &Endpoint,
        dialect: Dialect,
        context: &Context,
        login_patience: Duration,
    ) -> Result<Self, ClientError> {
        let patience = context.config.response_timeout;
        let stream = net::connect(endpoint, &context.tls, patience).await?;
        let login = Login {
            user: endpoint.user.clone(),
            worker: endpoint.worker.clone(),
            password: endpoint.password.clone().unwrap_or_else(|| "x".into()),
            agent: AGENT.into(),
            host: endpoint.host.clone(),
            port: endpoint.port,
        };
        let now = Instant::now();
        let mut pool = Self {
            context: context.clone(),
            endpoint: endpoint.clone(),
            stream,
            lines: LineBuffer::default(),
            session: Session::new(dialect, login, context.config.schedule),
            jobs: VecDeque::new(),
            shares: HashMap::new(),
            last_sent: now,
            last_job: now,
        };
        pool.wait(login_patience, "a login", |pool| pool.session.is_logged_in())
            .await?;
        pool.wait(patience, "a job", |pool| !pool.jobs.is_empty()).await?;
        Ok(pool)
    }

    /// The dialect spoken.
    pub(super) fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    /// The header of the newest job.
    pub(super) fn header_hash(&self) -> Option<B256> {
        self.jobs.back().map(|job| job.package.header_hash)
    }

    /// Listens until `holds`, for `patience` at most.
    async fn wait(
        &mut self,
        patience: Duration,
        what: &'static str,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<(), ClientError> {
        let listen = async {
            while !holds(self) {
                self.flush().await?;
                self.read().await?;
            }
            self.flush().await
        };
        let late = |_| ClientError::Timeout {
            what,
            after: patience,
        };
        timeout(patience, listen).await.map_err(late)?
    }

    /// Moves jobs and shares until the pool fails.
    pub(super) async fn run(&mut self, wires: &mut Wires) -> ClientError {
        let Err(error) = self.try_run(wires).await else {
            return ClientError::Closed;
        };
        for (_, (device, _)) in self.shares.drain() {
            self.context.ledger.unsent(device, |counts| counts.lost += 1);
        }
        error
    }

    async fn try_run(&mut self, wires: &mut Wires) -> Result<(), ClientError> {
        let every = self
            .context
            .config
            .report_every
            .map(|every| every.max(REPORT_EVERY_MIN));
        let mut reports = interval(every.unwrap_or(REPORT_EVERY_MIN));
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.give(wires);
        loop {
            let jobs_before = self.last_job;
            tokio::select! {
                read = self.read() => read?,
                found = wires.found.recv() => match found {
                    Some(found) => self.hand_in(&found)?,
                    // The engine has ended, and with it the reason to be here.
                    None => std::future::pending().await,
                },
                _ = reports.tick(), if every.is_some() => {
                    match wires.rate() {
                        // The pool would show it until the next report.
                        0 => reports.reset_after(NO_RATE_PAUSE),
                        rate => self.session.report_hashrate(rate, &self.context.config.rig),
                    }
                }
                _ = looks.tick() => self.look_at_clock()?,
            }
            if self.last_job != jobs_before {
                self.give(wires);
            }
            self.flush().await?;
        }
    }

    /// Gives the engine the newest job.
    fn give(&self, wires: &Wires) {
        let Some(job) = self.jobs.back() else { return };
        let task = SearchTask {
            work: job.package.clone(),
            nonces: NonceSpace::new(job.extranonce.prefix(), job.extranonce.bits()),
            repeat: true,
        };
        self.context.ledger.searching(Some(&task));
        wires.give(Some(task));
    }

    /// Reads once and takes in what came. Nothing is lost when it is dropped half-way.
    async fn read(&mut self) -> Result<(), ClientError> {
        let mut buffer = [0; READ_LEN];
        let len = self.stream.read(&mut buffer).await.map_err(ClientError::Lost)?;
        if len == 0 {
            return Err(ClientError::Closed);
        }
        self.lines.push(&buffer[..len]);
        while let Some(line) = self.lines.next_line()? {
            for event in self.session.receive(line)? {
                take_event(
                    event,
                    &self.endpoint,
                    &self.context,
                    &mut self.jobs,
                    &mut self.shares,
                    &mut self.last_job,
                )?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), ClientError> {
        let output = self.session.take_output();
        if output.is_empty() {
            return Ok(());
        }
        let after = self.context.config.response_timeout;
        let late = |_| ClientError::Timeout {
            what: "the pool took no bytes",
            after,
        };
        let write = async {
            self.stream.write_all(&output).await?;
            self.stream.flush().await
        };
        timeout(after, write)
            .await
            .map_err(late)?
            .map_err(ClientError::Lost)?;
        self.last_sent = Instant::now();
        Ok(())
    }

    fn hand_in(&mut self, found: &FoundSolution) -> Result<(), ClientError> {
        let solution = &found.solution;
        let reached = final_hash(&solution.header_hash, solution.pow_nonce, &solution.mix_hash);
        let fits = |job: &&Job| {
            job.package.header_hash == solution.header_hash
                && job.extranonce.holds(solution.pow_nonce)
                && meets_boundary(&reached, &job.package.boundary)
        };
        let Some(job) = self.jobs.iter().rev().find(fits) else {
            tracing::debug!(header_hash = %solution.header_hash, "solution stale: its job is over");
            self.context
                .ledger
                .unsent(found.device, |counts| counts.stale += 1);
            return Ok(());
        };
        let id = self.session.submit(job, solution)?;
        self.shares.insert(id, (found.device, Instant::now()));
        Ok(())
    }

    fn look_at_clock(&mut self) -> Result<(), ClientError> {
        let config = &self.context.config;
        if self.last_job.elapsed() > config.work_timeout {
            return Err(ClientError::NoNewWork {
                header_hash: self.header_hash().unwrap_or_default(),
                after: config.work_timeout,
            });
        }
        let after = config.response_timeout * ANSWER_PATIENCE;
        if self.shares.values().any(|(_, sent)| sent.elapsed() > after) {
            return Err(ClientError::Timeout {
                what: "an answer to a share",
                after,
            });
        }
        if let Some(silence_max) = self.session.silence_max()
            && self.last_sent.elapsed() > silence_max / 2
        {
            self.session.keep_alive();
        }
        Ok(())
    }

    /// Takes a share while the connection is being left: it goes out with the goodbye.
    pub(super) fn hand_in_last(&mut self, found: &FoundSolution) {
        if self.hand_in(found).is_err() {
            self.context
                .ledger
                .unsent(found.device, |counts| counts.lost += 1);
        }
    }

    /// Waits for the answers that are due, for `patience` at most, and closes the connection.
    pub(super) async fn finish(mut self, patience: Duration) {
        let answers = async {
            self.flush().await?;
            while !self.shares.is_empty() {
                self.read().await?;
            }
            Ok::<_, ClientError>(())
        };
        // What has no answer then is counted by `close`.
        let _ = timeout(patience, answers).await;
        self.close().await;
    }

    /// Says goodbye, if the pool takes it at once.
    pub(super) async fn close(mut self) {
        for (_, (device, _)) in self.shares.drain() {
            self.context.ledger.unsent(device, |counts| counts.lost += 1);
        }
        self.session.say_bye();
        let end = async {
            let output = self.session.take_output();
            self.stream.write_all(&output).await?;
            self.stream.shutdown().await
        };
        // Whether it is heard makes no difference.
        let _ = timeout(LOOK_EVERY, end).await;
    }
}

fn take_event(
    event: Event,
    endpoint: &Endpoint,
    context: &Context,
    jobs: &mut VecDeque<Job>,
    shares: &mut HashMap<u64, (usize, Instant)>,
    last_job: &mut Instant,
) -> Result<(), ClientError> {
    match event {
        Event::LoggedIn => {}
        Event::Note(words) => tracing::info!(%endpoint, "{words}"),
        Event::Job(job) => {
            let header_hash = job.package.header_hash;
            // eth-proxy's jobs have no other name than their header.
            let id = Some(job.id.as_str()).filter(|id| !id.is_empty());
            tracing::info!(job = id, %header_hash, epoch = job.package.epoch.index, clean = job.clean, "new job");
            if job.clean {
                jobs.clear();
            }
            jobs.push_back(job);
            if jobs.len() > JOBS_MAX {
                jobs.pop_front();
            }
            *last_job = Instant::now();
        }
        Event::Answer { id, outcome } => {
            if let Some((device, sent)) = shares.remove(&id) {
                note_answer(context, device, sent, &outcome);
            }
        }
        Event::Bye => return Err(ClientError::Bye),
        Event::Reconnect { host, port, wait } => {
            return Err(ClientError::Moved {
                host: host.unwrap_or_else(|| endpoint.host.clone()),
                port: port.unwrap_or(endpoint.port),
                wait,
            });
        }
    }
    Ok(())
}

fn note_answer(context: &Context, device: usize, sent: Instant, outcome: &Outcome) {
    let took = sent.elapsed();
    let milliseconds = took.as_millis() as u64;
    let ledger = &context.ledger;
    match outcome {
        Outcome::Accepted => {
            tracing::info!(device, milliseconds, stale = false, "solution accepted");
            ledger.answered(device, took, |counts| counts.accepted += 1);
        }
        Outcome::AcceptedStale => {
            tracing::info!(device, milliseconds, stale = true, "solution accepted");
            ledger.answered(device, took, |counts| counts.stale += 1);
        }
        Outcome::Stale(reason) => {
            tracing::warn!(device, milliseconds, "solution stale: {reason}");
            ledger.answered(device, took, |counts| counts.stale += 1);
        }
        Outcome::Rejected(reason) => {
            tracing::warn!(device, milliseconds, "solution rejected: {reason}");
            ledger.answered(device, took, |counts| counts.rejected += 1);
        }
    }
}
