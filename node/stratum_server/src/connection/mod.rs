//! Serves one connection of a miner, from its first byte to its end.
//!
//! The connection reads lines, sends jobs and answers, and has shares judged in parallel. It is
//! closed if the miner is idle, sends too much, sends bad messages or bad shares, or does not read.
//! Other connections are not affected.
//!
//! | subject | module |
//! |---|---|
//! | why connections end | `end` |
//! | logins, jobs and hashrates | `requests` |
//! | shares | `shares` |

mod end;
mod requests;
mod shares;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use daemon::tls::{ServerStream, TlsHandshakeError};
use daemon::{Place, TokenBucket, TokenRate};
use ethash::B256;
use serde_json::Value;
use stratum::LineBuffer;
use stratum::server::{ServerSession, ServerSettings, ShareClaim};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use crate::addresses::AddressLease;
use crate::allowance::CheckAllowance;
use crate::conduct::ShareRecord;
use crate::event_log::LoggedEvent;
use crate::extranonces::ExtranonceLease;
use crate::state::StratumState;
use crate::vardiff::Vardiff;
use end::DisconnectReason;
use shares::JudgedShare;

/// Longest time until the login, with the handshake of TLS.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time without a line before the connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time for a miner to receive what is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to send the last output when a connection ends, and to judge the last shares when
/// the server stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
/// Bad messages after which the connection is closed.
const ERRORS_MAX: u32 = 8;
/// Lines that a miner may send. A miner that sends more is cut off.
const LINES: TokenRate = TokenRate {
    burst: 400.0,
    per_second: 100.0,
};
/// Most shares of one connection that are being judged. Further lines wait until there are fewer.
const JUDGED_SHARES_MAX: usize = 16;
/// Most jobs of one connection for which shares are accepted.
const SENT_JOBS_MAX: usize = 32;
/// Size of the read buffer, in bytes.
const READ_LEN: usize = 4096;
/// Time between two checks of the difficulty.
const ADJUST_INTERVAL: Duration = Duration::from_secs(5);

/// The leases that a connection holds as long as it is open.
pub(crate) struct ConnectionLeases {
    pub(crate) extranonce: ExtranonceLease,
    pub(crate) place: Place,
    pub(crate) address: AddressLease,
}

struct WorkerConnection {
    state: Arc<StratumState>,
    stream: ServerStream<TcpStream>,
    peer: SocketAddr,
    extranonce: ExtranonceLease,
    place: Arc<Place>,
    address: AddressLease,
    session: ServerSession,
    lines: LineBuffer,
    judging: JoinSet<JudgedShare>,
    /// Further lines wait until shares have been judged.
    waiting: bool,
    /// Further lines wait until this time.
    paused_until: Option<Instant>,
    /// The id of a login with a wrong password. It is answered when the pause is over.
    late_refusal: Option<Value>,
    /// A share that may not be hashed yet. Further lines wait for it.
    waiting_share: Option<ShareClaim>,
    /// The shares of the last minutes.
    shares: ShareRecord,
    /// The hashes that the connection may cause.
    checks: CheckAllowance,
    last_accepted: Option<Instant>,
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
    lines_left: TokenBucket,
    last_line: Instant,
    /// The last time at which the miner was told why there is no work.
    told_at: Option<Instant>,
}

/// A job that the miner has received.
struct SentJob {
    number: u64,
    /// Highest final hash that a share may have.
    boundary: B256,
}

/// Serves a connection until it ends or the server stops.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    leases: ConnectionLeases,
    state: Arc<StratumState>,
    mut stopped: watch::Receiver<bool>,
) {
    // Jobs are small and should be sent without delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "the connection has ended already");
        return;
    }
    let ConnectionLeases {
        extranonce,
        place,
        address,
    } = leases;
    let place = Arc::new(place);
    let now = Instant::now();
    let shaken = tokio::select! {
        // An error means that the server was dropped, which also stops it.
        _ = stopped.wait_for(|stop| *stop) => return,
        () = place.displaced() => {
            state.counters.displaced.fetch_add(1, Ordering::Relaxed);
            return;
        }
        shaken = shake_hands(stream, &state) => shaken,
    };
    let stream = match shaken {
        Ok(stream) => stream,
        Err(reason) => {
            tracing::debug!(%peer, "a Stratum connection without TLS ended: {reason}");
            state.counters.bad_messages.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    let number = state.sessions.fetch_add(1, Ordering::Relaxed);
    let session = ServerSession::new(ServerSettings {
        agent: state.config.agent.clone(),
        silence_secs_max: IDLE_TIMEOUT.as_secs(),
        errors_max: ERRORS_MAX,
        extranonce: extranonce.extranonce(),
        session: number,
    });
    let mut connection = WorkerConnection {
        vardiff: Vardiff::new(state.config.difficulty, now),
        state,
        stream,
        peer,
        extranonce,
        place: Arc::clone(&place),
        address,
        session,
        lines: LineBuffer::default(),
        judging: JoinSet::new(),
        waiting: false,
        paused_until: None,
        late_refusal: None,
        waiting_share: None,
        shares: ShareRecord::new(now),
        checks: CheckAllowance::new(now),
        last_accepted: None,
        number,
        workers: Vec::new(),
        rates: BTreeMap::new(),
        sent_jobs: VecDeque::new(),
        wants_jobs: false,
        errors: 0,
        lines_left: TokenBucket::new(LINES, now),
        last_line: now,
        told_at: None,
    };
    let reason = tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => DisconnectReason::Stopping,
        () = place.displaced() => DisconnectReason::Displaced,
        reason = connection.run(now) => reason,
    };
    connection.close(&reason).await;
}

/// An error before the first line of a connection.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] TlsHandshakeError<TcpStream>),
    /// The handshake took too long.
    #[error("the handshake of TLS took longer than {LOGIN_TIMEOUT:?}")]
    Late,
}

/// Shakes hands with the miner, if the server speaks TLS.
async fn shake_hands(stream: TcpStream, state: &StratumState) -> Result<ServerStream<TcpStream>, OpenError> {
    let Some(tls) = &state.config.tls else {
        return Ok(ServerStream::Plain(stream));
    };
    match timeout(LOGIN_TIMEOUT, tls.accept(stream)).await {
        Ok(shaken) => Ok(shaken?),
        Err(_) => Err(OpenError::Late),
    }
}

impl WorkerConnection {
    /// Handles lines, jobs and judged shares until the connection has to end. It was `opened`
    /// before the handshake of TLS.
    async fn run(&mut self, opened: Instant) -> DisconnectReason {
        let mut jobs = self.state.jobs.subscribe();
        let mut adjustments = interval(ADJUST_INTERVAL);
        adjustments.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut buffer = vec![0; READ_LEN];
        loop {
            let (since, limit) = if self.session.is_logged_in() {
                (self.last_line, IDLE_TIMEOUT)
            } else {
                (opened, LOGIN_TIMEOUT)
            };
            let paused_until = self.paused_until;
            let handled = tokio::select! {
                changed = jobs.changed(), if self.wants_jobs => {
                    if changed.is_err() {
                        return DisconnectReason::Stopping;
                    }
                    jobs.borrow_and_update();
                    self.announce_newest(false);
                    Ok(())
                }
                read = self.stream.read(&mut buffer), if !self.waiting && paused_until.is_none() => match read {
                    Ok(0) => return DisconnectReason::Left,
                    Ok(len) => {
                        self.lines.push(&buffer[..len]);
                        self.handle_lines().await
                    }
                    Err(error) => return DisconnectReason::Failed(error),
                },
                Some(judged) = self.judging.join_next(), if !self.judging.is_empty() => {
                    match self.answer_share(judged) {
                        Ok(()) if self.waiting => self.handle_lines().await,
                        answered => answered,
                    }
                }
                () = sleep_until(paused_until.unwrap_or(opened).into()), if paused_until.is_some() => {
                    self.paused_until = None;
                    match self.refuse_late() {
                        Ok(()) => self.handle_lines().await,
                        refused => refused,
                    }
                }
                _ = adjustments.tick(), if self.wants_jobs => {
                    self.report_rates_to_chain();
                    self.review_place(Instant::now());
                    if self.vardiff.adjust(Instant::now()) {
                        self.announce_newest(true);
                    }
                    self.explain_pause();
                    Ok(())
                }
                () = sleep_until((since + limit).into()) => {
                    if !self.session.is_logged_in() || self.state.chain.work_pause().is_none() {
                        return DisconnectReason::Idle(limit);
                    }
                    // A miner without work has nothing to say.
                    self.last_line = Instant::now();
                    Ok(())
                }
            };
            let flushed = self.flush().await;
            if let Err(reason) = handled.and(flushed) {
                return reason;
            }
        }
    }

    /// Handles the lines that have arrived, until too many shares are being judged or lines have to
    /// wait.
    async fn handle_lines(&mut self) -> Result<(), DisconnectReason> {
        loop {
            while let Some(judged) = self.judging.try_join_next() {
                self.answer_share(judged)?;
            }
            self.waiting = self.judging.len() >= JUDGED_SHARES_MAX;
            if self.waiting || self.paused_until.is_some() {
                return Ok(());
            }
            if let Some(claim) = self.waiting_share.take() {
                self.judge_share(claim)?;
                self.flush().await?;
                continue;
            }
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => return Err(DisconnectReason::LineTooLong(error)),
            };
            let now = Instant::now();
            self.last_line = now;
            if self.lines_left.try_take(now).is_err() {
                return Err(DisconnectReason::Flood);
            }
            let too_many = self.address.try_line(now).err();
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
            if let Some(wait) = too_many {
                self.pause(now + wait);
            }
            // A miner that sends many lines must read the answers in between.
            self.flush().await?;
        }
    }

    /// Lets further lines wait until `end`.
    fn pause(&mut self, end: Instant) {
        self.paused_until = self.paused_until.max(Some(end));
    }

    /// Sends the waiting output.
    async fn flush(&mut self) -> Result<(), DisconnectReason> {
        let output = self.session.take_output();
        if output.is_empty() {
            return Ok(());
        }
        match timeout(WRITE_TIMEOUT, self.send(&output)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(DisconnectReason::Failed(error)),
            Err(_) => Err(DisconnectReason::NotReading),
        }
    }

    /// Sends `output`, to its last byte.
    async fn send(&mut self, output: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(output).await?;
        self.stream.flush().await
    }

    /// Closes the connection, after its last shares have been judged.
    async fn close(mut self, reason: &DisconnectReason) {
        if self.session.is_logged_in() {
            self.state.logged_in.fetch_sub(1, Ordering::Relaxed);
        }
        let output = self.session.take_output();
        // The miner may be gone already, so errors are ignored.
        let _ = timeout(CLOSE_TIMEOUT, self.send(&output)).await;
        let _ = timeout(CLOSE_TIMEOUT, self.stream.shutdown()).await;
        // Shares that arrived before the end still count and may seal a block. The extranonce stays
        // in use until they are judged.
        let last_shares = async {
            while let Some(judged) = self.judging.join_next().await {
                // The connection ends in any case.
                let _ = self.answer_share(judged);
            }
        };
        if matches!(reason, DisconnectReason::Stopping) {
            let _ = timeout(CLOSE_TIMEOUT, last_shares).await;
        } else {
            last_shares.await;
        }
        let counters = &self.state.counters;
        match reason {
            DisconnectReason::Displaced => {
                counters.displaced.fetch_add(1, Ordering::Relaxed);
            }
            DisconnectReason::MostlyBadShares | DisconnectReason::AddressBanned => {
                counters.cut_off.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        let now = Instant::now();
        for name in &self.workers {
            self.state.workers.disconnected(name, now);
            if self.state.log.allows(LoggedEvent::Disconnected) {
                tracing::info!(worker = name, peer = %self.peer, "worker disconnected: {reason}");
            }
        }
        if self.workers.is_empty() {
            tracing::debug!(peer = %self.peer, "a Stratum connection without a login ended: {reason}");
        }
        drop(self.extranonce);
    }
}
