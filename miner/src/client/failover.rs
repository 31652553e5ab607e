//! Chooses the endpoint that gives the work: the first in order of preference that can be reached.
//!
//! A failed endpoint is not tried again for a time, which doubles with each failure. While a less
//! preferred endpoint gives the work, the preferred ones are tried again in the background. One of
//! them takes over once it has accepted the login and given work, so the change causes no pause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::tls::TlsError;
use engine::ClientStats;
use ethash::B256;
use stratum::Dialect;
use tokio::sync::watch;

use super::config::ClientConfig;
use super::context::ClientContext;
use super::endpoint::MiningEndpoint;
use super::engine_link::EngineLink;
use super::epochs::{EpochCheck, EpochHistory};
use super::error::ClientError;
use super::site::is_same_site;
use super::work_source::WorkSource;

/// An endpoint whose connection has lasted longer than this is considered healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
/// The most requests of a pool to reconnect that are followed one after the other. Then the
/// endpoint's own address is used again.
const REDIRECTS_MAX: u32 = 3;

/// The reasons why a client has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// The client was told to stop.
    Stopped,
    /// No endpoint could be reached for [`ClientConfig::max_wait`].
    NoConnection {
        /// The limit.
        after: Duration,
        /// The last error.
        last: String,
    },
}

/// The reasons why a work source is no longer used.
enum SourceEnd {
    StopRequested,
    Failed(ClientError),
    /// The preferred endpoint with this index gives work again.
    Replaced(usize, WorkSource),
}

/// A source that is no longer used. It takes the solutions of its last work until another source is
/// connected.
struct LeftSource {
    source: WorkSource,
    /// Whether its connection still works.
    is_connected: bool,
}

/// The end of the use of connected endpoints.
enum ServeEnd {
    StopRequested,
    /// The source has failed.
    Failed(LeftSource),
}

/// The state of an endpoint, as the client knows it.
struct EndpointState {
    context: ClientContext,
    /// The address for the next try: the endpoint's own, or where the pool has sent this miner.
    endpoint: MiningEndpoint,
    /// Requests of the pool to reconnect that were followed in a row.
    redirects: u32,
    /// Failures in a row.
    failures: u32,
    next_try: Instant,
    /// The dialect that the pool was found to speak.
    dialect: Option<Dialect>,
    /// Set if the endpoint was left because it gave no new work: the header hash of its work.
    stuck_at: Option<B256>,
}

struct Failover {
    config: Arc<ClientConfig>,
    stats: Arc<ClientStats>,
    endpoints: Vec<EndpointState>,
    last_error: String,
}

/// Brings work to the engine behind `link` and solutions back.
///
/// Ends when `stop` becomes true, or when there was no connection for [`ClientConfig::max_wait`].
///
/// # Errors
/// [`TlsError`] if the settings for TLS cannot be used.
pub async fn run(
    config: ClientConfig,
    mut link: EngineLink,
    stats: Arc<ClientStats>,
    mut stop: watch::Receiver<bool>,
) -> Result<ClientEnd, TlsError> {
    let mut failover = Failover::new(config, &link.check_epoch, stats)?;
    Ok(failover.run(&mut link, &mut stop).await)
}

/// Returns when `stop` is true, or when its sender is gone, which means the same.
async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

impl Failover {
    fn new(
        config: ClientConfig,
        check_epoch: &Arc<EpochCheck>,
        stats: Arc<ClientStats>,
    ) -> Result<Self, TlsError> {
        let tls = config.tls.client()?;
        let config = Arc::new(config);
        let now = config.clock.now();
        let state = |(index, endpoint): (usize, &MiningEndpoint)| EndpointState {
            context: ClientContext {
                config: Arc::clone(&config),
                tls: tls.clone(),
                stats: Arc::clone(&stats),
                index,
                epochs: Arc::<EpochHistory>::default(),
                check_epoch: Arc::clone(check_epoch),
            },
            endpoint: endpoint.clone(),
            redirects: 0,
            failures: 0,
            next_try: now,
            dialect: None,
            stuck_at: None,
        };
        Ok(Self {
            endpoints: config.endpoints.iter().enumerate().map(state).collect(),
            config: Arc::clone(&config),
            stats,
            last_error: "no endpoint".to_owned(),
        })
    }

    async fn run(&mut self, link: &mut EngineLink, stop: &mut watch::Receiver<bool>) -> ClientEnd {
        let mut previous: Option<LeftSource> = None;
        loop {
            let connected = tokio::select! {
                connected = self.connect_any(link, &mut previous) => connected,
                () = stop_requested(stop) => Err(ClientEnd::Stopped),
            };
            let (index, source) = match connected {
                Ok(connected) => connected,
                Err(end) => {
                    if let Some(LeftSource {
                        mut source,
                        is_connected,
                    }) = previous.take()
                    {
                        source.submit_remaining(link, is_connected, &self.stats);
                        source.finish().await;
                    }
                    return end;
                }
            };
            // Its work is no longer current. Solutions that it already has are still submitted.
            if let Some(LeftSource { source, is_connected }) = previous.take()
                && is_connected
            {
                source.disconnect().await;
            }
            let end = self.serve(index, source, link, stop).await;
            self.stats.set_disconnected();
            match end {
                ServeEnd::StopRequested => return ClientEnd::Stopped,
                ServeEnd::Failed(left) => previous = Some(left),
            }
        }
    }

    /// Uses the connected endpoint `index` until it fails or the client is told to stop. Changes to
    /// a preferred endpoint when one gives work again.
    async fn serve(
        &mut self,
        mut index: usize,
        mut source: WorkSource,
        link: &mut EngineLink,
        stop: &mut watch::Receiver<bool>,
    ) -> ServeEnd {
        let stats = Arc::clone(&self.stats);
        let reconnect = Arc::clone(&link.reconnect);
        loop {
            self.note_connected(index);
            let since = self.config.clock.now();
            let end = tokio::select! {
                error = source.run(link) => SourceEnd::Failed(error),
                (preferred, new) = self.connect_preferred(index) => SourceEnd::Replaced(preferred, new),
                () = reconnect.notified() => SourceEnd::Failed(ClientError::Fruitless),
                () = stop_requested(stop) => SourceEnd::StopRequested,
            };
            match end {
                SourceEnd::StopRequested => {
                    link.send_task(None);
                    source.submit_remaining(link, true, &stats);
                    source.finish().await;
                    return ServeEnd::StopRequested;
                }
                SourceEnd::Replaced(preferred, new) => {
                    tracing::info!(
                        from = %self.endpoints[index].endpoint,
                        to = %self.endpoints[preferred].endpoint,
                        "a preferred endpoint is back"
                    );
                    source.submit_remaining(link, true, &stats);
                    std::mem::replace(&mut source, new).disconnect().await;
                    index = preferred;
                }
                SourceEnd::Failed(error) => {
                    // A pool that gives no new work still takes shares of its last work.
                    let is_connected = matches!(error, ClientError::NoNewWork { .. });
                    source.submit_remaining(link, is_connected, &stats);
                    let worked = self.config.clock.now().duration_since(since);
                    self.note_failure(index, &error, worked);
                    return ServeEnd::Failed(LeftSource { source, is_connected });
                }
            }
        }
    }

    /// Connects to the first endpoint that gives work.
    ///
    /// During the first try the engine continues with its last work, because a connection is often
    /// back at once. If that try fails, the engine pauses. Solutions that it finds meanwhile go to
    /// `previous`, the source of that work.
    async fn connect_any(
        &mut self,
        link: &mut EngineLink,
        previous: &mut Option<LeftSource>,
    ) -> Result<(usize, WorkSource), ClientEnd> {
        let clock = self.config.clock.clone();
        let since = clock.now();
        let mut paused = false;
        let stats = Arc::clone(&self.stats);
        loop {
            let now = clock.now();
            let due = (0..self.endpoints.len()).filter(|&index| self.endpoints[index].next_try <= now);
            // An endpoint that was left because it gave no new work comes after all others.
            let due = due.min_by_key(|&index| self.endpoints[index].stuck_at.is_some());
            let connected = match due {
                Some(index) => self.try_connect(index).await.map(|source| (index, source)),
                None => None,
            };
            if connected.is_none() && !paused {
                paused = true;
                stats.set_job(None);
                link.send_task(None);
            }
            if let Some(LeftSource { source, is_connected }) = previous {
                source.submit_remaining(link, *is_connected, &stats);
            }
            if let Some(connected) = connected {
                return Ok(connected);
            }
            if let Some(after) = self.config.max_wait
                && clock.now().duration_since(since) >= after
            {
                return Err(ClientEnd::NoConnection {
                    after,
                    last: self.last_error.clone(),
                });
            }
            let next_try = self.endpoints.iter().map(|state| state.next_try).min();
            let deadline = self.config.max_wait.map(|wait| since + wait);
            if let Some(until) = next_try.into_iter().chain(deadline).min() {
                clock.sleep_until(until).await;
            }
        }
    }

    /// Waits until an endpoint that is preferred to `index` gives work again.
    ///
    /// An endpoint that was left because its work did not change must now give other work.
    async fn connect_preferred(&mut self, index: usize) -> (usize, WorkSource) {
        loop {
            let Some(next_try) = self.endpoints[..index].iter().map(|state| state.next_try).min() else {
                return std::future::pending().await;
            };
            self.config.clock.sleep_until(next_try).await;
            let now = self.config.clock.now();
            for preferred in 0..index {
                if self.endpoints[preferred].next_try > now {
                    continue;
                }
                let Some(source) = self.try_connect(preferred).await else {
                    continue;
                };
                match source.header_hash() {
                    Some(header_hash) if self.endpoints[preferred].stuck_at == Some(header_hash) => {
                        source.disconnect().await;
                        let after = self.config.work_timeout;
                        let error = ClientError::NoNewWork { header_hash, after };
                        self.note_failure(preferred, &error, Duration::ZERO);
                    }
                    _ => return (preferred, source),
                }
            }
        }
    }

    /// Tries to connect to endpoint `index`. Notes the failure if that does not succeed.
    async fn try_connect(&mut self, index: usize) -> Option<WorkSource> {
        let state = &self.endpoints[index];
        match WorkSource::connect(&state.endpoint, state.dialect, &state.context).await {
            Ok(source) => {
                self.endpoints[index].dialect = source.dialect();
                Some(source)
            }
            Err(error) => {
                // The pool may have changed its dialect.
                self.endpoints[index].dialect = None;
                self.note_failure(index, &error, Duration::ZERO);
                None
            }
        }
    }

    fn note_connected(&mut self, index: usize) {
        let state = &mut self.endpoints[index];
        state.stuck_at = None;
        self.stats.set_connected(index);
        let dialect = state.dialect.map(Dialect::name);
        tracing::info!(endpoint = %state.endpoint, dialect, "connected");
    }

    /// Notes why endpoint `index` gives no work, after it has worked for the time `worked`, and
    /// decides when and at which address it is tried again.
    fn note_failure(&mut self, index: usize, error: &ClientError, worked: Duration) {
        let config = &self.config;
        let own = &config.endpoints[index];
        let state = &mut self.endpoints[index];
        self.last_error = format!("{}: {error}", state.endpoint);
        if worked > HEALTHY_AFTER {
            state.redirects = 0;
        }
        if let ClientError::Redirected { host, port, wait } = error {
            if is_same_site(host, &own.host) && state.redirects < REDIRECTS_MAX {
                state.redirects += 1;
                state.endpoint.host.clone_from(host);
                state.endpoint.port = *port;
                state.next_try = config.clock.now() + *wait;
                tracing::info!(endpoint = %own, "the pool asks to reconnect to {host}:{port} in {} s", wait.as_secs());
                return;
            }
            tracing::warn!(
                endpoint = %own,
                "ignored: the pool asks to reconnect to {host}:{port}, which does not belong to the same registered \
                 domain, or is one redirection too many"
            );
        }
        state.endpoint = own.clone();
        state.redirects = 0;
        let is_healthy = match error {
            // Each session that ends so has lasted as long as the work timeout.
            ClientError::NoNewWork { after, .. } => worked > *after + HEALTHY_AFTER,
            _ => worked > HEALTHY_AFTER,
        };
        if is_healthy {
            state.failures = 0;
        }
        let retry_at_once = match error {
            // A healthy connection that breaks is often back at once. After a timeout the endpoint
            // gets more time.
            ClientError::Lost(_)
            | ClientError::Closed
            | ClientError::Bye
            | ClientError::Fruitless
            // A pool may have changed to another chain. The next session begins with it.
            | ClientError::EpochTooFar { .. } => is_healthy,
            // The chain may be slow. Only a new session shows whether the endpoint is stuck.
            ClientError::NoNewWork { header_hash, .. } => state.stuck_at.replace(*header_hash).is_none(),
            _ => false,
        };
        let mut wait = Duration::ZERO;
        if !retry_at_once {
            let factor = 1_u32.checked_shl(state.failures).unwrap_or(u32::MAX);
            wait = config
                .first_back_off
                .saturating_mul(factor)
                .min(config.last_back_off);
            state.failures = state.failures.saturating_add(1);
        }
        state.next_try = config.clock.now() + wait;
        tracing::warn!(endpoint = %own, "no work: {error}; tried again in {wait:?}");
        self.stats.count_failure(index, error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_BACK_OFF: Duration = Duration::from_secs(1000);

    fn failover() -> Failover {
        let url = "http://a";
        let config = ClientConfig {
            first_back_off: FIRST_BACK_OFF,
            last_back_off: FIRST_BACK_OFF * 1000,
            ..ClientConfig::new(vec![url.parse().expect("a good URL")])
        };
        let check_epoch: Arc<EpochCheck> = Arc::new(|_| Ok(()));
        let stats = Arc::new(ClientStats::new([url.to_owned()]));
        Failover::new(config, &check_epoch, stats).expect("good settings")
    }

    /// The back-off after `error` has ended a session that gave work for `worked` seconds, as a
    /// multiple of the first one.
    fn back_off(failover: &mut Failover, error: &ClientError, worked: u64) -> u64 {
        let before = failover.config.clock.now();
        failover.note_failure(0, error, Duration::from_secs(worked));
        let wait = failover.endpoints[0].next_try.duration_since(before);
        wait.as_secs() / FIRST_BACK_OFF.as_secs()
    }

    #[test]
    fn an_endpoint_without_new_work_is_tried_at_once_and_then_more_rarely() {
        let mut failover = failover();
        let no_new_work = ClientError::NoNewWork {
            header_hash: B256::ZERO,
            after: Duration::from_secs(180),
        };
        failover.endpoints[0].failures = 5;
        // Its work has changed after a minute.
        assert_eq!(back_off(&mut failover, &no_new_work, 241), 0);
        // New sessions begin with the same work.
        assert_eq!(back_off(&mut failover, &no_new_work, 0), 1);
        assert_eq!(back_off(&mut failover, &no_new_work, 0), 2);
        failover.note_connected(0);
        // Its work has not changed at all.
        assert_eq!(back_off(&mut failover, &no_new_work, 180), 0);
        assert_eq!(back_off(&mut failover, &no_new_work, 0), 4);
    }

    #[test]
    fn only_a_healthy_connection_is_tried_at_once() {
        let mut failover = failover();
        assert_eq!(back_off(&mut failover, &ClientError::Closed, 29), 1);
        assert_eq!(back_off(&mut failover, &ClientError::Closed, 0), 2);
        assert_eq!(back_off(&mut failover, &ClientError::Closed, 31), 0);
        assert_eq!(back_off(&mut failover, &ClientError::Fruitless, 0), 1);
    }
}
