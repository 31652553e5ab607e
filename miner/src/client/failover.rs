//! Which endpoint gives the work: the first in order that can be reached.
//!
//! One that fails is left alone for a while that doubles with each failure. While another one gives
//! the work, the preferred ones are tried again in the background, and taken back once they have
//! logged this miner in and given work: the change costs no pause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::B256;
use stratum::Dialect;
use tokio::sync::watch;
use tokio::time::sleep_until;
use tokio_rustls::rustls;

use super::getwork::GetWork;
use super::pool::Pool;
use super::{ClientConfig, ClientError, Endpoint, Ledger, Protocol, TlsError, Wires};

/// A connection that lasted so long has shown that the endpoint is well again.
const WELL_AFTER: Duration = Duration::from_secs(30);
/// What is still to be said when the client is told to stop is said within this time.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Redirections in a row that are followed before the endpoint's own address is taken again.
const MOVES_MAX: u32 = 3;

/// What every session needs.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) config: Arc<ClientConfig>,
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) ledger: Arc<Ledger>,
}

/// Why a client has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was told to.
    Stopped,
    /// No endpoint could be reached for as long as was allowed.
    NoConnection {
        /// How long that was.
        after: Duration,
        /// What went wrong last.
        last: String,
    },
}

/// A connection that has given work.
enum Session {
    GetWork(Box<GetWork>),
    Pool(Box<Pool>),
}

impl Session {
    async fn run(&mut self, wires: &mut Wires) -> ClientError {
        match self {
            Self::GetWork(node) => node.run(wires).await,
            Self::Pool(pool) => pool.run(wires).await,
        }
    }

    /// The header of the newest work.
    fn header_hash(&self) -> Option<B256> {
        match self {
            Self::GetWork(node) => Some(node.header_hash()),
            Self::Pool(pool) => pool.header_hash(),
        }
    }

    /// Takes what was found for its work and is still on the way here. `works` says whether the
    /// connection does: a node is asked over others, a share for a broken one is lost.
    fn take_rest(&mut self, wires: &mut Wires, works: bool, ledger: &Ledger) {
        while let Ok(found) = wires.found.try_recv() {
            match self {
                Self::GetWork(node) => node.hand_in(found),
                Self::Pool(pool) if works => pool.hand_in_last(&found),
                Self::Pool(_) => ledger.unsent(found.device, |counts| counts.lost += 1),
            }
        }
    }

    /// Leaves for another endpoint. Solutions on their way to a node go on.
    async fn leave(self) {
        if let Self::Pool(pool) = self {
            pool.close().await;
        }
    }

    /// Waits at most [`LAST_WORDS`] for answers that are due, and ends.
    async fn finish(self) {
        match self {
            Self::GetWork(node) => node.finish(LAST_WORDS).await,
            Self::Pool(pool) => pool.finish(LAST_WORDS).await,
        }
    }
}

/// Why a session is over.
enum Over {
    Told,
    Failed(ClientError),
    Better(usize, Session),
}

/// What is remembered of an endpoint.
#[derive(Clone, Debug)]
struct Standing {
    /// As it is tried next: its own address, or where it has sent this miner.
    endpoint: Endpoint,
    moves: u32,
    failures: u32,
    next_try: Instant,
    /// What it was found to speak.
    dialect: Option<Dialect>,
    /// The header that it gave until it was left for that.
    stuck_at: Option<B256>,
}

struct Failover {
    context: Context,
    standings: Vec<Standing>,
    last_error: String,
}

/// Brings work to the engine behind `wires` and solutions back, until `stop` turns true or there
/// has been no connection for too long.
///
/// # Errors
/// When the settings for TLS cannot be used.
pub async fn run(
    config: ClientConfig,
    mut wires: Wires,
    ledger: Arc<Ledger>,
    mut stop: watch::Receiver<bool>,
) -> Result<Ending, TlsError> {
    let tls = config.tls.build()?;
    let now = Instant::now();
    let standing = |endpoint: &Endpoint| Standing {
        endpoint: endpoint.clone(),
        moves: 0,
        failures: 0,
        next_try: now,
        dialect: None,
        stuck_at: None,
    };
    let mut failover = Failover {
        standings: config.endpoints.iter().map(standing).collect(),
        context: Context {
            config: Arc::new(config),
            tls,
            ledger,
        },
        last_error: "no endpoint".to_owned(),
    };
    Ok(failover.serve(&mut wires, &mut stop).await)
}

/// Returns once `stop` is true, or whoever could make it so is gone, which is the same thing.
async fn told(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

impl Failover {
    async fn serve(&mut self, wires: &mut Wires, stop: &mut watch::Receiver<bool>) -> Ending {
        let mut before: Option<Session> = None;
        loop {
            let connected = tokio::select! {
                connected = self.connect_any(wires, &mut before) => connected,
                () = told(stop) => Err(Ending::Stopped),
            };
            let before = &mut before;
            let (mut index, mut session) = match connected {
                Ok(connected) => connected,
                Err(ending) => {
                    if let Some(before) = before.take() {
                        before.finish().await;
                    }
                    return ending;
                }
            };
            *before = None;
            let ledger = Arc::clone(&self.context.ledger);
            loop {
                self.connected(index);
                let since = Instant::now();
                let over = tokio::select! {
                    error = session.run(wires) => Over::Failed(error),
                    (better, new) = self.find_better(index) => Over::Better(better, new),
                    () = told(stop) => Over::Told,
                };
                match over {
                    Over::Told => {
                        wires.give(None);
                        session.take_rest(wires, true, &ledger);
                        session.finish().await;
                        ledger.disconnected();
                        return Ending::Stopped;
                    }
                    Over::Better(better, new) => {
                        tracing::info!(
                            from = %self.standings[index].endpoint,
                            to = %self.standings[better].endpoint,
                            "a preferred endpoint is back"
                        );
                        session.take_rest(wires, true, &ledger);
                        std::mem::replace(&mut session, new).leave().await;
                        index = better;
                    }
                    Over::Failed(error) => {
                        session.take_rest(wires, false, &ledger);
                        self.note_end(index, &error, since.elapsed());
                        break;
                    }
                }
            }
            ledger.disconnected();
            *before = Some(session);
        }
    }

    /// The first session that can be had. While one is tried the engine goes on with the last work,
    /// as a connection is often back at once; when it is not, the engine pauses. What it finds
    /// meanwhile goes to `before`, whose work it was.
    async fn connect_any(
        &mut self,
        wires: &mut Wires,
        before: &mut Option<Session>,
    ) -> Result<(usize, Session), Ending> {
        let since = Instant::now();
        let mut paused = false;
        let ledger = Arc::clone(&self.context.ledger);
        loop {
            let now = Instant::now();
            let due = (0..self.standings.len()).find(|&index| self.standings[index].next_try <= now);
            let mut connected = None;
            if let Some(index) = due {
                connected = self.try_connect(index).await.map(|session| (index, session));
            }
            if connected.is_none() && !paused {
                paused = true;
                wires.give(None);
                ledger.searching(None);
            }
            if let Some(before) = before {
                before.take_rest(wires, false, &ledger);
            }
            if let Some(connected) = connected {
                return Ok(connected);
            }
            if let Some(after) = self.context.config.max_wait
                && since.elapsed() >= after
            {
                return Err(Ending::NoConnection {
                    after,
                    last: self.last_error.clone(),
                });
            }
            let next = self.standings.iter().map(|standing| standing.next_try).min();
            let deadline = self.context.config.max_wait.map(|wait| since + wait);
            if let Some(until) = next.into_iter().chain(deadline).min() {
                sleep_until(until.into()).await;
            }
        }
    }

    /// Waits until an endpoint before `index` gives work again: other work, where it was left for
    /// giving the same for too long.
    async fn find_better(&mut self, index: usize) -> (usize, Session) {
        loop {
            let Some(next) = self.standings[..index]
                .iter()
                .map(|standing| standing.next_try)
                .min()
            else {
                return std::future::pending().await;
            };
            sleep_until(next.into()).await;
            let now = Instant::now();
            for better in 0..index {
                if self.standings[better].next_try > now {
                    continue;
                }
                let Some(session) = self.try_connect(better).await else {
                    continue;
                };
                match session.header_hash() {
                    Some(header_hash) if self.standings[better].stuck_at == Some(header_hash) => {
                        session.leave().await;
                        let after = self.context.config.work_timeout;
                        let error = ClientError::NoNewWork { header_hash, after };
                        self.note_end(better, &error, Duration::ZERO);
                    }
                    _ => return (better, session),
                }
            }
        }
    }

    async fn try_connect(&mut self, index: usize) -> Option<Session> {
        let standing = &self.standings[index];
        let connected = match standing.endpoint.protocol {
            Protocol::GetWork => GetWork::connect(&standing.endpoint, &self.context)
                .await
                .map(|node| Session::GetWork(Box::new(node))),
            Protocol::Stratum(dialect) => {
                let dialect = dialect.or(standing.dialect);
                let pool = Pool::connect(&standing.endpoint, dialect, &self.context).await;
                if let Ok(pool) = &pool {
                    self.standings[index].dialect = Some(pool.dialect());
                }
                pool.map(|pool| Session::Pool(Box::new(pool)))
            }
        };
        match connected {
            Ok(session) => Some(session),
            Err(error) => {
                // A pool may change its mind about dialects too.
                self.standings[index].dialect = None;
                self.note_end(index, &error, Duration::ZERO);
                None
            }
        }
    }

    fn connected(&mut self, index: usize) {
        let standing = &mut self.standings[index];
        standing.stuck_at = None;
        self.context.ledger.connected(index);
        let dialect = standing.dialect.map(Dialect::name);
        tracing::info!(endpoint = %standing.endpoint, dialect, "connected");
    }

    /// Takes note of why `index` gives no work, which it did for the time `worked`, and decides
    /// when and where it is tried again.
    fn note_end(&mut self, index: usize, error: &ClientError, worked: Duration) {
        let config = &self.context.config;
        let own = &config.endpoints[index];
        let standing = &mut self.standings[index];
        self.last_error = format!("{}: {error}", standing.endpoint);
        if let ClientError::Moved { host, port, wait } = error {
            if is_same_site(host, &own.host) && standing.moves < MOVES_MAX {
                standing.moves += 1;
                standing.endpoint.host.clone_from(host);
                standing.endpoint.port = *port;
                standing.next_try = Instant::now() + *wait;
                tracing::info!(endpoint = %own, "the pool asks to reconnect to {host}:{port} in {} s", wait.as_secs());
                return;
            }
            tracing::warn!(endpoint = %own, "not followed: the pool asks to reconnect to {host}:{port}, another's or one too many");
        }
        standing.endpoint = own.clone();
        standing.moves = 0;
        let mut wait = Duration::ZERO;
        if let ClientError::NoNewWork { header_hash, .. } = error {
            standing.stuck_at = Some(*header_hash);
        } else if worked > WELL_AFTER {
            standing.failures = 0;
        }
        // A connection that broke after having worked is often back at once; who was silent is not
        // asked again so soon.
        let is_worth_a_try = worked > WELL_AFTER
            && matches!(
                error,
                ClientError::Lost(_) | ClientError::Closed | ClientError::Bye
            );
        if !is_worth_a_try {
            let doubled = 1_u32.checked_shl(standing.failures).unwrap_or(u32::MAX);
            wait = config
                .first_back_off
                .saturating_mul(doubled)
                .min(config.last_back_off);
            standing.failures = standing.failures.saturating_add(1);
        }
        standing.next_try = Instant::now() + wait;
        tracing::warn!(endpoint = %own, "no work: {error}; tried again in {wait:?}");
        self.context.ledger.failed(index, error.to_string());
    }
}

/// Whether a pool may send its miners from `own` to `host`: to itself, or to another name of its
/// site. Anybody on the way of a plain connection could send a miner anywhere.
fn is_same_site(host: &str, own: &str) -> bool {
    let site = |name: &str| {
        let mut labels = name.rsplitn(3, '.');
        match (labels.next(), labels.next()) {
            (Some(top), Some(name)) => Some(format!("{name}.{top}").to_ascii_lowercase()),
            _ => None,
        }
    };
    let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
    host.eq_ignore_ascii_case(own)
        || (!is_address(host) && !is_address(own) && site(host).is_some() && site(host) == site(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_send_miners_within_their_own_site_only() {
        assert!(is_same_site("eu.pool.example", "us.pool.example"));
        assert!(is_same_site("POOL.example", "eu.pool.example"));
        assert!(is_same_site("127.0.0.1", "127.0.0.1"));
        assert!(is_same_site("localhost", "localhost"));
        for (host, own) in [
            ("evil.example", "pool.example"),
            ("localhost", "pool.example"),
            ("10.0.0.1", "10.2.0.1"),
            ("", "pool.example"),
        ] {
            assert!(!is_same_site(host, own), "{host} {own}");
        }
    }
}
