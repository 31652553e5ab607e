//! Serves one connection of a miner, from its first byte to its end.
//!
//! The connection reads lines, sends jobs and answers, and has shares judged in parallel. It is
//! closed if the miner is idle, sends too much, sends bad messages or does not read. Other
//! connections are not affected.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ethash::{B256, U256};
use serde_json::Value;
use stratum::server::{
    AnnouncedJob, JobId, MinerRequest, RejectReason, ServerSession, ServerSettings, ShareClaim,
};
use stratum::{Dialect, LineBuffer, LineTooLong, boundary_of_difficulty, difficulty_of_boundary};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use super::extranonces::ExtranonceLease;
use super::jobs::StratumJob;
use super::shares::{ShareToJudge, ShareVerdict};
use super::state::StratumState;
use super::vardiff::Vardiff;
use super::workers::WorkerShareResult;

/// Longest time until the login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time without a line before the connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time for a miner to receive what is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to send the last output when a connection ends, and to judge the last shares when
/// the server stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
/// Bad messages after which the connection is closed.
const ERRORS_MAX: u32 = 8;
/// Most lines that may arrive at once.
const LINES_BURST: f64 = 400.0;
/// Most lines per second in the long run.
const LINES_PER_SECOND: f64 = 100.0;
/// Most shares of one connection that are being judged. Further lines wait until there are fewer.
const JUDGED_SHARES_MAX: usize = 16;
/// Most jobs of one connection for which shares are accepted.
const SENT_JOBS_MAX: usize = 32;
/// Size of the read buffer, in bytes.
const READ_LEN: usize = 4096;
/// Time between two checks of the difficulty.
const ADJUST_INTERVAL: Duration = Duration::from_secs(5);

/// Why a connection ends.
#[derive(Debug)]
enum DisconnectReason {
    /// The miner closed the connection or said that it leaves.
    Left,
    Stopping,
    Failed(io::Error),
    LineTooLong(LineTooLong),
    Idle(Duration),
    NotReading,
    Flood,
    BadMessages,
    BadLogin,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("the miner left"),
            Self::Stopping => f.write_str("the server stops"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::LineTooLong(error) => write!(f, "the miner sent {error}"),
            Self::Idle(time) => write!(f, "the miner sent nothing for {time:?}"),
            Self::NotReading => write!(f, "the miner read nothing for {WRITE_TIMEOUT:?}"),
            Self::Flood => write!(f, "the miner sent more than {LINES_PER_SECOND} lines a second"),
            Self::BadMessages => write!(f, "the miner sent {ERRORS_MAX} bad messages"),
            Self::BadLogin => f.write_str("the login has a wrong password"),
        }
    }
}

/// A judged share, with everything that its answer needs.
struct JudgedShare {
    id: Value,
    worker: usize,
    difficulty: f64,
    verdict: ShareVerdict,
}

struct WorkerConnection {
    state: Arc<StratumState>,
    stream: TcpStream,
    peer: SocketAddr,
    lease: ExtranonceLease,
    session: ServerSession,
    lines: LineBuffer,
    judging: JoinSet<JudgedShare>,
    /// Further lines wait until shares have been judged.
    waiting: bool,
    vardiff: Vardiff,
    /// Number of this connection, counted from the start of the server.
    number: u64,
    /// Names of the workers, in the order of their logins.
    workers: Vec<String>,
    /// The hashrates that the workers report, in hashes per second, by index in `workers`.
    rates: BTreeMap<usize, u64>,
    /// The jobs that the miner has received, the newest last.
    sent_jobs: VecDeque<SentJob>,
    /// Whether new jobs are sent to the miner.
    wants_jobs: bool,
    errors: u32,
    lines_left: f64,
    last_line: Instant,
}

/// A job that the miner has received.
struct SentJob {
    number: u64,
    /// Highest final hash that a share may have.
    boundary: B256,
}

/// Serves a connection until it ends or the server stops.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    lease: ExtranonceLease,
    state: Arc<StratumState>,
    mut stopped: watch::Receiver<bool>,
) {
    // Jobs are small and should be sent without delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "the connection has ended already");
        return;
    }
    let now = Instant::now();
    let number = state.sessions.fetch_add(1, Ordering::Relaxed);
    let session = ServerSession::new(ServerSettings {
        agent: state.config.agent.clone(),
        silence_secs_max: IDLE_TIMEOUT.as_secs(),
        errors_max: ERRORS_MAX,
        extranonce: lease.extranonce(),
        session: number,
    });
    let mut connection = WorkerConnection {
        vardiff: Vardiff::new(state.config.difficulty, now),
        state,
        stream,
        peer,
        lease,
        session,
        lines: LineBuffer::default(),
        judging: JoinSet::new(),
        waiting: false,
        number,
        workers: Vec::new(),
        rates: BTreeMap::new(),
        sent_jobs: VecDeque::new(),
        wants_jobs: false,
        errors: 0,
        lines_left: LINES_BURST,
        last_line: now,
    };
    let reason = tokio::select! {
        // An error means that the server was dropped, which also stops it.
        _ = stopped.wait_for(|stop| *stop) => DisconnectReason::Stopping,
        reason = connection.run() => reason,
    };
    connection.close(&reason).await;
}

impl WorkerConnection {
    /// Handles lines, jobs and judged shares until the connection has to end.
    async fn run(&mut self) -> DisconnectReason {
        let mut jobs = self.state.jobs.subscribe();
        let mut adjustments = interval(ADJUST_INTERVAL);
        adjustments.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let opened = Instant::now();
        let mut buffer = vec![0; READ_LEN];
        loop {
            let (since, limit) = if self.session.is_logged_in() {
                (self.last_line, IDLE_TIMEOUT)
            } else {
                (opened, LOGIN_TIMEOUT)
            };
            let handled = tokio::select! {
                changed = jobs.changed(), if self.wants_jobs => {
                    if changed.is_err() {
                        return DisconnectReason::Stopping;
                    }
                    jobs.borrow_and_update();
                    self.announce_newest(false);
                    Ok(())
                }
                read = self.stream.read(&mut buffer), if !self.waiting => match read {
                    Ok(0) => return DisconnectReason::Left,
                    Ok(len) => {
                        self.lines.push(&buffer[..len]);
                        self.handle_lines().await
                    }
                    Err(error) => return DisconnectReason::Failed(error),
                },
                Some(judged) = self.judging.join_next(), if !self.judging.is_empty() => {
                    self.answer_share(judged);
                    if self.waiting {
                        self.handle_lines().await
                    } else {
                        Ok(())
                    }
                }
                _ = adjustments.tick(), if self.wants_jobs => {
                    self.report_rates_to_chain();
                    if self.vardiff.adjust(Instant::now()) {
                        self.announce_newest(true);
                    }
                    Ok(())
                }
                () = sleep_until((since + limit).into()) => return DisconnectReason::Idle(limit),
            };
            let flushed = self.flush().await;
            if let Err(reason) = handled.and(flushed) {
                return reason;
            }
        }
    }

    /// Handles the lines that have arrived, until too many shares are being judged.
    async fn handle_lines(&mut self) -> Result<(), DisconnectReason> {
        loop {
            while let Some(judged) = self.judging.try_join_next() {
                self.answer_share(judged);
            }
            self.waiting = self.judging.len() >= JUDGED_SHARES_MAX;
            if self.waiting {
                return Ok(());
            }
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => return Err(DisconnectReason::LineTooLong(error)),
            };
            let now = Instant::now();
            let refill = now.saturating_duration_since(self.last_line).as_secs_f64() * LINES_PER_SECOND;
            self.lines_left = (self.lines_left + refill).min(LINES_BURST) - 1.0;
            self.last_line = now;
            if self.lines_left < 0.0 {
                return Err(DisconnectReason::Flood);
            }
            match self.session.receive(line) {
                Ok(None) => {}
                Ok(Some(asked)) => self.handle(asked)?,
                Err(error) => {
                    tracing::debug!(peer = %self.peer, %error, "bad Stratum message");
                    self.state.counters.bad_messages.fetch_add(1, Ordering::Relaxed);
                    self.errors += 1;
                    if self.errors >= ERRORS_MAX {
                        let _ = self.flush().await;
                        return Err(DisconnectReason::BadMessages);
                    }
                }
            }
            // A miner that sends many lines must read the answers in between.
            self.flush().await?;
        }
    }

    /// Handles one request of the miner.
    fn handle(&mut self, asked: MinerRequest) -> Result<(), DisconnectReason> {
        match asked {
            MinerRequest::Login {
                id,
                user,
                worker,
                password,
            } => self.log_in(&id, &user, worker.as_deref(), &password)?,
            MinerRequest::Work { id } => self.give_work(&id),
            MinerRequest::Share(claim) => self.judge_share(claim),
            MinerRequest::Hashrate { worker, rate } => {
                if let Some(name) = self.workers.get(worker) {
                    self.state.workers.set_reported_rate(name, rate);
                    self.rates.insert(worker, rate);
                    self.report_rates_to_chain();
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
        let expected = self.state.config.password.as_deref();
        if expected.is_some_and(|expected| expected != password) {
            self.state.counters.bad_logins.fetch_add(1, Ordering::Relaxed);
            self.session.refuse(id, RejectReason::BadLogin);
            self.errors += 1;
            return if self.errors >= ERRORS_MAX {
                Err(DisconnectReason::BadLogin)
            } else {
                Ok(())
            };
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
        tracing::info!(worker = name, peer = %self.peer, dialect, "worker connected");
        self.workers.push(name);
        if !was_logged_in {
            self.state.logged_in.fetch_add(1, Ordering::Relaxed);
            // A miner with the dialect eth-proxy asks for its first work itself.
            if self.session.dialect() != Some(Dialect::EthProxy) {
                self.wants_jobs = true;
                self.announce_newest(false);
            }
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
    fn announce_newest(&mut self, again: bool) {
        let Some(job) = self.state.jobs.newest() else {
            return;
        };
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

    /// Starts to judge a share; [`Self::answer_share`] answers it later.
    fn judge_share(&mut self, claim: ShareClaim) {
        let ShareClaim {
            id,
            job,
            pow_nonce,
            mix_hash,
            worker,
        } = claim;
        let jobs = &self.state.jobs;
        let job = match job {
            JobId::Number(number) => number.and_then(|number| jobs.by_number(number)),
            JobId::Header(header_hash) => jobs.by_header(&header_hash),
        };
        // The easiest boundary that was sent for the job: shares found before a change of the
        // difficulty count, too.
        let boundary = job.as_ref().and_then(|job| {
            let sent = self.sent_jobs.iter().filter(|sent| sent.number == job.number);
            sent.map(|sent| sent.boundary).max()
        });
        let (Some(job), Some(boundary)) = (job, boundary) else {
            self.refuse_share(&id, worker, RejectReason::UnknownJob);
            return;
        };
        let share = ShareToJudge {
            pow_nonce,
            mix_hash,
            boundary,
        };
        let state = Arc::clone(&self.state);
        self.judging.spawn(async move {
            // This fails only for a closed semaphore, and the semaphore is never closed. The permit
            // is held until the share is judged, even if nobody waits for the verdict any more.
            let permit = Arc::clone(&state.judges).acquire_owned().await;
            let verdict = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                state.judge_share(&job, &share)
            })
            .await;
            JudgedShare {
                id,
                worker,
                difficulty: hashes_of(&boundary),
                verdict: verdict.unwrap_or(ShareVerdict::Refused(RejectReason::Internal)),
            }
        });
    }

    /// Reports the hashrates of the workers to the work manager, so that they are part of the
    /// node's hashrate. The work manager soon forgets a hashrate, so it is reported more often than
    /// Stratum miners send it.
    fn report_rates_to_chain(&self) {
        for (worker, rate) in &self.rates {
            let mut id = [0; 32];
            id[..7].copy_from_slice(b"stratum");
            id[16..24].copy_from_slice(&self.number.to_be_bytes());
            id[24..].copy_from_slice(&(*worker as u64).to_be_bytes());
            self.state
                .chain
                .work()
                .report_hashrate(U256::from(*rate), B256::from(id));
        }
    }

    fn refuse_share(&mut self, id: &Value, worker: usize, refusal: RejectReason) {
        self.session.refuse(id, refusal);
        let result = match refusal {
            RejectReason::Stale | RejectReason::UnknownJob => WorkerShareResult::Stale,
            _ => WorkerShareResult::Rejected,
        };
        self.count_share(worker, result, 0.0);
    }

    /// Answers a judged share and counts it.
    fn answer_share(&mut self, judged: Result<JudgedShare, JoinError>) {
        // An error means that the task panicked; the panic is in the log.
        let Ok(JudgedShare {
            id,
            worker,
            difficulty,
            verdict,
        }) = judged
        else {
            return;
        };
        match verdict {
            ShareVerdict::Accepted | ShareVerdict::Block => {
                self.vardiff.count_share();
                self.session.accept(&id);
                let result = if verdict == ShareVerdict::Block {
                    WorkerShareResult::Block
                } else {
                    WorkerShareResult::Accepted
                };
                self.count_share(worker, result, difficulty);
                if self.vardiff.adjust(Instant::now()) {
                    self.announce_newest(true);
                }
            }
            ShareVerdict::StaleBlock => {
                self.session.accept_stale(&id);
                self.count_share(worker, WorkerShareResult::Stale, difficulty);
            }
            ShareVerdict::Refused(refusal) => self.refuse_share(&id, worker, refusal),
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
        if result == WorkerShareResult::Block {
            tracing::info!(worker = name, "a share of a worker sealed a block");
        }
    }

    /// Sends the waiting output.
    async fn flush(&mut self) -> Result<(), DisconnectReason> {
        let output = self.session.take_output();
        if output.is_empty() {
            return Ok(());
        }
        match timeout(WRITE_TIMEOUT, self.stream.write_all(&output)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(DisconnectReason::Failed(error)),
            Err(_) => Err(DisconnectReason::NotReading),
        }
    }

    /// Closes the connection, after its last shares have been judged.
    async fn close(mut self, reason: &DisconnectReason) {
        if self.session.is_logged_in() {
            self.state.logged_in.fetch_sub(1, Ordering::Relaxed);
        }
        let output = self.session.take_output();
        // The miner may be gone already, so errors are ignored.
        let _ = timeout(CLOSE_TIMEOUT, self.stream.write_all(&output)).await;
        let _ = timeout(CLOSE_TIMEOUT, self.stream.shutdown()).await;
        // Shares that arrived before the end still count and may seal a block. The extranonce stays
        // in use until they are judged.
        let last_shares = async {
            while let Some(judged) = self.judging.join_next().await {
                self.answer_share(judged);
            }
        };
        if matches!(reason, DisconnectReason::Stopping) {
            let _ = timeout(CLOSE_TIMEOUT, last_shares).await;
        } else {
            last_shares.await;
        }
        let now = Instant::now();
        for name in &self.workers {
            self.state.workers.disconnected(name, now);
            tracing::info!(worker = name, peer = %self.peer, "worker disconnected: {reason}");
        }
        if self.workers.is_empty() {
            tracing::debug!(peer = %self.peer, "a Stratum connection without a login ended: {reason}");
        }
        drop(self.lease);
    }
}

/// The job in the form that the session sends.
fn session_job<'a>(job: &'a StratumJob, share_boundary: &'a B256, clean: bool) -> AnnouncedJob<'a> {
    AnnouncedJob {
        number: job.number,
        package: &job.package,
        share_boundary,
        clean,
    }
}

/// The difficulty of `boundary`: how many hashes it takes on average to meet it.
fn hashes_of(boundary: &B256) -> f64 {
    f64::from(U256::MAX) / f64::from(U256::from_be_bytes(boundary.0).max(U256::ONE))
}
