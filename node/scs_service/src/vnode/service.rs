//! The service: what its parts share, and what the rest of the node asks of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use daemon::Quota;
use futures_util::future::BoxFuture;
use primitives::{Address, B256};
use tokio::sync::{Semaphore, mpsc, watch};

use super::allow::AllowList;
use super::client_share::ClientShares;
use super::host::{DirectCall, ScsHost};
use super::limits::{CALLS_WAITING_MAX, SEEN_MAX, ServiceLimits};
use super::registry::ScsRegistry;
use super::roles::RoleCache;
use super::seen::SeenHashes;
use super::uploads::Uploads;
use crate::message::{MessageKind, ScsMessage, ScsMessageError};
use crate::proto::ScsPushMsg;

/// The part of the memory for messages that one address may have, in percent.
const CLIENT_SHARE_PERCENT: usize = 50;

/// The settings of the service.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfig {
    /// The node's id: its public key as 128 hex digits. Messages of this node begin with it.
    pub node_id: String,
    /// The address that is paid for relaying.
    pub beneficiary: Option<Address>,
    /// The list of those who may use the service.
    pub allow: AllowList,
    /// The limits of each client and of all clients.
    pub limits: ServiceLimits,
}

/// The reason why a transaction for a MicroChain is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectCallError {
    /// The transaction was taken before. The text is that of the published node.
    #[error("Marked transactions")]
    Known,
    /// Too many transactions wait to be pushed.
    #[error("transactions for application chains that wait: got one more than {0}, expected at most {0}")]
    Busy(usize),
    /// The service has ended.
    #[error("the service for servers of application chains has ended")]
    Ended,
}

/// The counters of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounters {
    /// SCSs that are connected now.
    pub connected: u64,
    /// Messages that were queued, counted for each SCS.
    pub queued: u64,
    /// Messages that found no place in a queue, counted for each SCS.
    pub dropped: u64,
    /// Broadcasts that had been pushed before.
    pub repeated: u64,
}

/// The service. Clones are the same.
#[derive(Clone)]
pub struct ScsService(pub(super) Arc<ServiceState>);

/// The state that the parts of the service share.
pub(super) struct ServiceState {
    pub(super) host: Arc<dyn ScsHost>,
    pub(super) config: ServiceConfig,
    /// The number of the head.
    pub(super) heads: watch::Receiver<u64>,
    pub(super) registry: Arc<ScsRegistry>,
    pub(super) roles: RoleCache,
    /// Messages that were pushed.
    pub(super) pushed: SeenHashes,
    /// Transactions for MicroChains that were taken.
    pub(super) marked: SeenHashes,
    waiting_calls: mpsc::Sender<DirectCall>,
    pub(super) uploads: Uploads,
    pub(super) shares: ClientShares,
    /// Memory for messages that are being received.
    pub(super) received: Quota,
    /// Memory for messages that wait to be sent.
    pub(super) queued: Quota,
    /// Permits for calls.
    pub(super) call_gate: Arc<Semaphore>,
    /// Permits for reading roles.
    pub(super) role_gate: Semaphore,
    request_counter: AtomicU64,
    pub(super) counters: CounterCells,
}

/// The cells behind [`ServiceCounters`].
#[derive(Debug, Default)]
pub(super) struct CounterCells {
    pub(super) queued: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) repeated: AtomicU64,
}

impl ServiceState {
    /// The state of a new service, and the transactions that it takes, to be pushed.
    pub(super) fn new(
        host: Arc<dyn ScsHost>,
        config: ServiceConfig,
        heads: watch::Receiver<u64>,
    ) -> (Arc<Self>, mpsc::Receiver<DirectCall>) {
        let limits = &config.limits;
        let (waiting_calls, calls) = mpsc::channel(CALLS_WAITING_MAX);
        let calls_max = limits.calls_max.max(1);
        let state = Self {
            registry: Arc::new(ScsRegistry::new(limits.ids_max, limits.address_ids_max)),
            roles: RoleCache::new(),
            pushed: SeenHashes::new(SEEN_MAX),
            marked: SeenHashes::new(SEEN_MAX),
            waiting_calls,
            uploads: Uploads::new(limits),
            shares: ClientShares::default(),
            received: Quota::new(limits.received_len_max, CLIENT_SHARE_PERCENT),
            queued: Quota::new(limits.queued_bytes_max, CLIENT_SHARE_PERCENT),
            call_gate: Arc::new(Semaphore::new(calls_max)),
            role_gate: Semaphore::new(calls_max),
            request_counter: AtomicU64::new(0),
            counters: CounterCells::default(),
            host,
            config,
            heads,
        };
        (Arc::new(state), calls)
    }

    /// The number of the head.
    pub(super) fn head(&self) -> u64 {
        *self.heads.borrow()
    }

    /// The requestid of the next message of this node: its id and a counter.
    pub(super) fn next_request_id(&self) -> Bytes {
        let counter = self.request_counter.fetch_add(1, Ordering::Relaxed);
        Bytes::from(format!("{}-{counter}", self.config.node_id))
    }

    /// The address that is paid for relaying, or the zero address.
    pub(super) fn beneficiary(&self) -> Address {
        self.config.beneficiary.unwrap_or_default()
    }

    /// Takes a transaction for a MicroChain, to be pushed in its turn.
    pub(super) fn take_call(&self, call: DirectCall) -> Result<B256, DirectCallError> {
        if self.marked.contains(&call.hash) {
            return Err(DirectCallError::Known);
        }
        let permit = self.waiting_calls.try_reserve().map_err(|error| match error {
            mpsc::error::TrySendError::Full(()) => DirectCallError::Busy(CALLS_WAITING_MAX),
            mpsc::error::TrySendError::Closed(()) => DirectCallError::Ended,
        })?;
        if !self.marked.insert(call.hash) {
            return Err(DirectCallError::Known);
        }
        let hash = call.hash;
        self.host.relay_call(&call);
        permit.send(call);
        Ok(hash)
    }
}

impl ScsService {
    /// Takes a transaction for a MicroChain: pushes it to the SCSs that make its blocks, and passes
    /// it on to the peers of this node. Returns its hash. For transactions of clients and of peers.
    ///
    /// # Errors
    /// [`DirectCallError`] if it was taken before, or too many wait.
    pub fn submit(&self, call: DirectCall) -> Result<B256, DirectCallError> {
        self.0.take_call(call)
    }

    /// Pushes a broadcast that a peer has passed on to the SCSs of this node. Returns how many get
    /// it.
    ///
    /// # Errors
    /// [`ScsMessageError`] if the message is malformed, or no broadcast: nothing else may come from
    /// a peer.
    pub fn push_from_peer<'a>(
        &'a self,
        message: &'a ScsPushMsg,
    ) -> BoxFuture<'a, Result<usize, ScsMessageError>> {
        Box::pin(async move {
            let kind = ScsMessage::decode(message)?.kind;
            if !matches!(kind, MessageKind::Broadcast(_)) {
                return Err(ScsMessageError::NotBroadcast {
                    got: kind.numbers().0,
                });
            }
            self.0.push(message.compact(), None).await
        })
    }

    /// The counters of the service.
    pub fn counters(&self) -> ServiceCounters {
        let cells = &self.0.counters;
        ServiceCounters {
            connected: self.0.registry.len() as u64,
            queued: cells.queued.load(Ordering::Relaxed),
            dropped: cells.dropped.load(Ordering::Relaxed),
            repeated: cells.repeated.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for ScsService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScsService")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// The time in seconds, as messages have it.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
