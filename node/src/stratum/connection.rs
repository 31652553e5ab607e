//! One miner's connection, from its first byte to its end.
//!
//! Lines come in, jobs and answers go out; shares are judged meanwhile. Silence, floods, nonsense and a miner
//! that takes no bytes end the connection and nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ethash::{B256, U256};
use serde_json::Value;
use stratum::server::{Asked, Claim, Job as ToldJob, JobName, Refusal, Session, Settings};
use stratum::{Dialect, LineBuffer, LineError, boundary_of_difficulty, difficulty_of_boundary};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use super::Shared;
use super::board::Job;
use super::door::Place;
use super::judge::{Share, Verdict};
use super::vardiff::Vardiff;
use super::workers::Credit;

/// Time for the login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Time without a line after which a miner is taken for gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for a miner to take in what it is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the last words when a connection ends, and for its last shares when the server stops.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(200);
/// Bad messages after which a connection ends.
const ERRORS_MAX: u32 = 8;
/// Lines that may come at once, and how many a second in the long run.
const LINES_BURST: f64 = 400.0;
const LINES_PER_SECOND: f64 = 100.0;
/// Shares of one miner that may be judged or wait for it. Its further lines wait until there are fewer.
const JUDGED_MAX: usize = 16;
/// Jobs that a miner was told and whose shares it may hand in.
const TOLD_MAX: usize = 32;
/// Bytes asked for in one read.
const READ_LEN: usize = 4096;
/// Between two looks at the difficulty.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The miner hung up, or said so.
    Left,
    Stopping,
    Failed(io::Error),
    LineTooLong(LineError),
    Silent(Duration),
    Deaf,
    Flood,
    Errors,
    BadLogin,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("it left"),
            Self::Stopping => f.write_str("the server stops"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::LineTooLong(error) => write!(f, "it sent {error}"),
            Self::Silent(time) => write!(f, "it said nothing for {time:?}"),
            Self::Deaf => write!(f, "it took no bytes for {WRITE_TIMEOUT:?}"),
            Self::Flood => write!(f, "it sent more than {LINES_PER_SECOND} lines a second"),
            Self::Errors => write!(f, "it sent {ERRORS_MAX} bad messages"),
            Self::BadLogin => f.write_str("its login is not taken"),
        }
    }
}

/// A judged share, with what its answer needs.
struct Judged {
    id: Value,
    worker: usize,
    difficulty: f64,
    verdict: Verdict,
}

struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    place: Place,
    session: Session,
    lines: LineBuffer,
    judging: JoinSet<Judged>,
    /// Whether lines wait for shares to be judged.
    waiting: bool,
    vardiff: Vardiff,
    /// Counts connections.
    number: u64,
    /// Names of the workers, in the order of their logins.
    workers: Vec<String>,
    /// The speeds that they have told, by their places, in hashes per second.
    rates: BTreeMap<usize, u64>,
    /// Jobs that the miner was told, and its share boundary of each; the newest last.
    told: VecDeque<(u64, B256)>,
    /// Whether it wants to be told of jobs.
    wants_jobs: bool,
    errors: u32,
    lines_left: f64,
    last_line: Instant,
}

/// Serves a miner until it leaves or the server stops.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    place: Place,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    // Jobs are small, and each is worth sending at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "no connection any more");
        return;
    }
    let now = Instant::now();
    let number = shared.sessions.fetch_add(1, Ordering::Relaxed);
    let session = Session::new(Settings {
        agent: shared.config.agent.clone(),
        silence_secs_max: IDLE_TIMEOUT.as_secs(),
        errors_max: ERRORS_MAX,
        extranonce: place.extranonce(),
        session: number,
    });
    let mut connection = Connection {
        vardiff: Vardiff::new(shared.config.difficulty, now),
        shared,
        stream,
        peer,
        place,
        session,
        lines: LineBuffer::default(),
        judging: JoinSet::new(),
        waiting: false,
        number,
        workers: Vec::new(),
        rates: BTreeMap::new(),
        told: VecDeque::new(),
        wants_jobs: false,
        errors: 0,
        lines_left: LINES_BURST,
        last_line: now,
    };
    let end = tokio::select! {
        // An error means that the server is gone: the same thing.
        _ = stopped.wait_for(|stop| *stop) => End::Stopping,
        end = connection.talk() => end,
    };
    connection.leave(&end).await;
}

impl Connection {
    async fn talk(&mut self) -> End {
        let mut jobs = self.shared.board.subscribe();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let opened = Instant::now();
        let mut buffer = vec![0; READ_LEN];
        loop {
            let patience = if self.session.is_logged_in() {
                IDLE_TIMEOUT
            } else {
                LOGIN_TIMEOUT
            };
            let since = if self.session.is_logged_in() {
                self.last_line
            } else {
                opened
            };
            let handled = tokio::select! {
                changed = jobs.changed(), if self.wants_jobs => {
                    if changed.is_err() {
                        return End::Stopping;
                    }
                    jobs.borrow_and_update();
                    self.announce_newest(false);
                    Ok(())
                }
                read = self.stream.read(&mut buffer), if !self.waiting => match read {
                    Ok(0) => return End::Left,
                    Ok(len) => {
                        self.lines.push(&buffer[..len]);
                        self.take_lines().await
                    }
                    Err(error) => return End::Failed(error),
                },
                Some(judged) = self.judging.join_next(), if !self.judging.is_empty() => {
                    self.answer(judged);
                    if self.waiting {
                        self.take_lines().await
                    } else {
                        Ok(())
                    }
                }
                _ = looks.tick(), if self.wants_jobs => {
                    self.pass_on_rates();
                    if self.vardiff.look(Instant::now()) {
                        self.announce_newest(true);
                    }
                    Ok(())
                }
                () = sleep_until((since + patience).into()) => return End::Silent(patience),
            };
            let flushed = self.flush().await;
            if let Err(end) = handled.and(flushed) {
                return end;
            }
        }
    }

    /// Takes the lines that have come, as long as their shares find a place.
    async fn take_lines(&mut self) -> Result<(), End> {
        loop {
            while let Some(judged) = self.judging.try_join_next() {
                self.answer(judged);
            }
            self.waiting = self.judging.len() >= JUDGED_MAX;
            if self.waiting {
                return Ok(());
            }
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => return Err(End::LineTooLong(error)),
            };
            let now = Instant::now();
            let refill = now.saturating_duration_since(self.last_line).as_secs_f64() * LINES_PER_SECOND;
            self.lines_left = (self.lines_left + refill).min(LINES_BURST) - 1.0;
            self.last_line = now;
            if self.lines_left < 0.0 {
                return Err(End::Flood);
            }
            match self.session.receive(line) {
                Ok(None) => {}
                Ok(Some(asked)) => self.take(asked)?,
                Err(error) => {
                    tracing::debug!(peer = %self.peer, %error, "a bad Stratum message");
                    self.shared.counts.bad_messages.fetch_add(1, Ordering::Relaxed);
                    self.errors += 1;
                    if self.errors >= ERRORS_MAX {
                        let _ = self.flush().await;
                        return Err(End::Errors);
                    }
                }
            }
            // Whoever sends much at once is answered in between, and must take the answers.
            self.flush().await?;
        }
    }

    fn take(&mut self, asked: Asked) -> Result<(), End> {
        match asked {
            Asked::Login {
                id,
                user,
                worker,
                password,
            } => self.log_in(&id, &user, worker.as_deref(), &password)?,
            Asked::Work { id } => self.give_work(&id),
            Asked::Share(claim) => self.take_share(claim),
            Asked::Hashrate { worker, rate } => {
                if let Some(name) = self.workers.get(worker) {
                    self.shared.workers.report(name, rate);
                    self.rates.insert(worker, rate);
                    self.pass_on_rates();
                }
                if self.vardiff.note_rate(rate, Instant::now()) && self.wants_jobs {
                    self.announce_newest(true);
                }
            }
            Asked::Bye => return Err(End::Left),
        }
        Ok(())
    }

    fn log_in(&mut self, id: &Value, user: &str, worker: Option<&str>, password: &str) -> Result<(), End> {
        let wanted = self.shared.config.password.as_deref();
        if wanted.is_some_and(|wanted| wanted != password) {
            self.shared.counts.bad_logins.fetch_add(1, Ordering::Relaxed);
            self.session.refuse(id, Refusal::BadLogin);
            self.errors += 1;
            return if self.errors >= ERRORS_MAX {
                Err(End::BadLogin)
            } else {
                Ok(())
            };
        }
        let was_in = self.session.is_logged_in();
        let Some(place) = self.session.admit(id, user, worker) else {
            return Ok(());
        };
        if place < self.workers.len() {
            return Ok(());
        }
        let name = worker.map_or_else(|| user.to_owned(), |worker| format!("{user}.{worker}"));
        self.shared.workers.came(&name, Instant::now());
        let dialect = self.session.dialect().map(Dialect::name);
        tracing::info!(worker = name, peer = %self.peer, dialect, "worker connected");
        self.workers.push(name);
        if !was_in {
            self.shared.logged_in.fetch_add(1, Ordering::Relaxed);
            // eth-proxy asks for its first work itself.
            if self.session.dialect() != Some(Dialect::EthProxy) {
                self.wants_jobs = true;
                self.announce_newest(false);
            }
        }
        Ok(())
    }

    /// Answers eth-proxy's question for work, after which it is told of new work unasked.
    fn give_work(&mut self, id: &Value) {
        self.wants_jobs = true;
        let Some(job) = self.shared.board.newest() else {
            self.session.refuse(id, Refusal::NoWork);
            return;
        };
        let share_boundary = self.tell(&job);
        self.session
            .give_work(id, &told_job(&job, &share_boundary, job.clean));
    }

    /// Tells the miner of the newest job. `again`: of the one it has too, because its difficulty has changed.
    fn announce_newest(&mut self, again: bool) {
        let Some(job) = self.shared.board.newest() else {
            return;
        };
        let known = self.told.back().is_some_and(|(number, _)| *number == job.number);
        if known && !again {
            return;
        }
        let share_boundary = self.tell(&job);
        self.session
            .announce(&told_job(&job, &share_boundary, job.clean && !known));
        if !known {
            self.shared.pushed(&job);
        }
    }

    /// Remembers that the miner is told of `job`, and with which boundary.
    fn tell(&mut self, job: &Job) -> B256 {
        let boundary = self.vardiff.boundary(&job.package.boundary);
        // EthereumStratum/1.0.0 carries a rounded number: the miner's boundary may be a hair easier.
        let rounded = boundary_of_difficulty(difficulty_of_boundary(&boundary)).unwrap_or(boundary);
        self.told
            .push_back((job.number, boundary.max(rounded).max(job.package.boundary)));
        if self.told.len() > TOLD_MAX {
            self.told.pop_front();
        }
        boundary
    }

    fn take_share(&mut self, claim: Claim) {
        let Claim {
            id,
            job,
            pow_nonce,
            mix_hash,
            worker,
        } = claim;
        let board = &self.shared.board;
        let job = match job {
            JobName::Number(number) => number.and_then(|number| board.by_number(number)),
            JobName::Header(header_hash) => board.by_header(&header_hash),
        };
        // The easiest boundary that this miner was given for the job: shares found before a change count.
        let boundary = job.as_ref().and_then(|job| {
            let told = self.told.iter().filter(|(number, _)| *number == job.number);
            told.map(|(_, boundary)| *boundary).max()
        });
        let (Some(job), Some(boundary)) = (job, boundary) else {
            self.refuse_share(&id, worker, Refusal::UnknownJob);
            return;
        };
        let share = Share {
            pow_nonce,
            mix_hash,
            boundary,
        };
        let shared = Arc::clone(&self.shared);
        self.judging.spawn(async move {
            // Fails only for a closed semaphore, and nothing closes it. The place is kept until the judge is done,
            // whoever still waits for the verdict.
            let place = Arc::clone(&shared.judges).acquire_owned().await;
            let verdict = tokio::task::spawn_blocking(move || {
                let _place = place;
                shared.judge(&job, &share)
            })
            .await;
            Judged {
                id,
                worker,
                difficulty: hashes_of(&boundary),
                verdict: verdict.unwrap_or(Verdict::Refused(Refusal::Internal)),
            }
        });
    }

    /// Tells the desk how fast this miner is, by its own word, so that the node's hashrate has it. The desk soon
    /// forgets what it is not told again, while Stratum miners speak twice a minute.
    fn pass_on_rates(&self) {
        for (worker, rate) in &self.rates {
            let mut id = [0; 32];
            id[..7].copy_from_slice(b"stratum");
            id[16..24].copy_from_slice(&self.number.to_be_bytes());
            id[24..].copy_from_slice(&(*worker as u64).to_be_bytes());
            self.shared
                .chain
                .work()
                .report_hashrate(U256::from(*rate), B256::from(id));
        }
    }

    fn refuse_share(&mut self, id: &Value, worker: usize, refusal: Refusal) {
        self.session.refuse(id, refusal);
        let credit = match refusal {
            Refusal::Stale | Refusal::UnknownJob => Credit::Stale,
            _ => Credit::Rejected,
        };
        self.credit(worker, credit, 0.0);
    }

    fn answer(&mut self, judged: Result<Judged, JoinError>) {
        // A judge that panicked has no verdict; the log has its words.
        let Ok(Judged {
            id,
            worker,
            difficulty,
            verdict,
        }) = judged
        else {
            return;
        };
        match verdict {
            Verdict::Share | Verdict::Block => {
                self.vardiff.note_share();
                self.session.accept(&id);
                let credit = if verdict == Verdict::Block {
                    Credit::Block
                } else {
                    Credit::Accepted
                };
                self.credit(worker, credit, difficulty);
                if self.vardiff.look(Instant::now()) {
                    self.announce_newest(true);
                }
            }
            Verdict::LateBlock => {
                self.session.accept_stale(&id);
                self.credit(worker, Credit::Stale, difficulty);
            }
            Verdict::Refused(refusal) => self.refuse_share(&id, worker, refusal),
        }
    }

    fn credit(&self, worker: usize, credit: Credit, difficulty: f64) {
        let Some(name) = self.workers.get(worker) else {
            return;
        };
        self.shared
            .workers
            .credit(name, credit, difficulty, Instant::now());
        if credit == Credit::Block {
            tracing::info!(worker = name, "a worker's share sealed a block");
        }
    }

    async fn flush(&mut self) -> Result<(), End> {
        let output = self.session.take_output();
        if output.is_empty() {
            return Ok(());
        }
        match timeout(WRITE_TIMEOUT, self.stream.write_all(&output)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(End::Failed(error)),
            Err(_) => Err(End::Deaf),
        }
    }

    async fn leave(mut self, end: &End) {
        if self.session.is_logged_in() {
            self.shared.logged_in.fetch_sub(1, Ordering::Relaxed);
        }
        let output = self.session.take_output();
        // Whether it is heard makes no difference.
        let _ = timeout(FAREWELL_TIMEOUT, self.stream.write_all(&output)).await;
        let _ = timeout(FAREWELL_TIMEOUT, self.stream.shutdown()).await;
        // Shares that came before the end count, and may seal a block. Until they are judged the place is taken.
        let rest = async {
            while let Some(judged) = self.judging.join_next().await {
                self.answer(judged);
            }
        };
        if matches!(end, End::Stopping) {
            let _ = timeout(FAREWELL_TIMEOUT, rest).await;
        } else {
            rest.await;
        }
        let now = Instant::now();
        for name in &self.workers {
            self.shared.workers.went(name, now);
            tracing::info!(worker = name, peer = %self.peer, "worker disconnected: {end}");
        }
        if self.workers.is_empty() {
            tracing::debug!(peer = %self.peer, "a Stratum connection without a login ended: {end}");
        }
        drop(self.place);
    }
}

fn told_job<'a>(job: &'a Job, share_boundary: &'a B256, clean: bool) -> ToldJob<'a> {
    ToldJob {
        number: job.number,
        package: &job.package,
        share_boundary,
        clean,
    }
}

/// How many hashes meet `boundary` once on average.
fn hashes_of(boundary: &B256) -> f64 {
    f64::from(U256::MAX) / f64::from(U256::from_be_bytes(boundary.0).max(U256::ONE))
}
