//! Pushing messages to the SCSs that get them, and pinging all of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use primitives::Address;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::client_share::ClientShare;
use super::filter::{ScsRole, is_addressed, passes};
use super::held_calls::{HELD_AGE_MAX, HeldCall, HeldCalls};
use super::host::DirectCall;
use super::queue::PushOutcome;
use super::registry::ConnectedScs;
use super::service::{ServiceState, unix_seconds};
use crate::message::payload::encode_head;
use crate::message::{
    MessageKind, ScsId, ScsMessage, ScsMessageError, WireAddress, message_hash, timestamp_bytes,
};
use crate::proto::ScsPushMsg;

/// Messages with a longer requestid are pushed once.
const REPEATABLE_ID_LEN_MAX: usize = 20;
/// The time between two pings of the SCSs, if the head has risen.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks at transactions that wait for an SCS, and the number that is tried
/// again then.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const RETRIES_MAX: usize = 64;
/// The longest time for reading the roles for one message. The SCSs whose roles are not read by
/// then do not get it.
const ROLES_TIME_MAX: Duration = Duration::from_secs(1);

impl ServiceState {
    /// Pushes a message to the SCSs that get it. It must be compact. Returns how many get it.
    /// `author` is the client that has sent it, if one has.
    pub(super) async fn push(
        self: &Arc<Self>,
        wire: ScsPushMsg,
        author: Option<&ClientShare>,
    ) -> Result<usize, ScsMessageError> {
        let message = ScsMessage::decode(&wire)?;
        let chain = message.route()?;
        let hash = (wire.requestid.len() > REPEATABLE_ID_LEN_MAX).then(|| message_hash(&wire));
        if hash.is_some_and(|hash| self.pushed.contains(&hash)) {
            self.counters.repeated.fetch_add(1, Ordering::Relaxed);
            return Ok(0);
        }
        let receivers = self.receivers(&message, chain, author).await;
        if receivers.is_empty() {
            return Ok(0);
        }
        if hash.is_some_and(|hash| !self.pushed.insert(hash)) {
            // Somebody else has pushed the same message while its roles were read.
            self.counters.repeated.fetch_add(1, Ordering::Relaxed);
            return Ok(0);
        }
        let is_broadcast = matches!(message.kind, MessageKind::Broadcast(_));
        let mut queued = 0;
        for scs in receivers {
            match scs.queue.push(wire.clone(), is_broadcast) {
                PushOutcome::Queued => queued += 1,
                PushOutcome::Dropped | PushOutcome::Ended => {
                    self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(scs = %scs.id, "no place for a message to an SCS");
                }
            }
        }
        self.counters.queued.fetch_add(queued as u64, Ordering::Relaxed);
        Ok(queued)
    }

    /// The SCSs that get a message of the MicroChain `chain`.
    async fn receivers(
        self: &Arc<Self>,
        message: &ScsMessage,
        chain: Address,
        author: Option<&ClientShare>,
    ) -> Vec<Arc<ConnectedScs>> {
        let request_id = String::from_utf8_lossy(&message.request_id).to_ascii_lowercase();
        let is_other = |scs: &Arc<ConnectedScs>| !request_id.contains(&scs.id_text);
        if is_addressed(message.kind) {
            let receiver = message.receiver.map(|receiver| ScsId(receiver.address));
            let connected = receiver.and_then(|id| self.registry.get(&id));
            return connected.into_iter().filter(is_other).collect();
        }
        let mut others = self.registry.all();
        others.retain(is_other);
        let head = self.head();
        let unknown = |scs: &&Arc<ConnectedScs>| self.roles.get(&chain, &scs.id, head).is_none();
        let unknown: Vec<_> = others.iter().filter(unknown).map(|scs| scs.id).collect();
        if !unknown.is_empty() {
            self.read_roles(chain, unknown, head, author).await;
        }
        others.retain(|scs| {
            let role = self.roles.get(&chain, &scs.id, head).unwrap_or(ScsRole::None);
            if role != ScsRole::None {
                scs.note_role();
            }
            passes(role, message.kind)
        });
        others
    }

    /// Reads roles at the head. `author` shares the permits for calls of its address.
    async fn read_roles(
        self: &Arc<Self>,
        chain: Address,
        ids: Vec<ScsId>,
        head: u64,
        author: Option<&ClientShare>,
    ) {
        // The gates are never closed, so that a permit always comes.
        let _own = match author {
            Some(author) => author.calls.acquire().await.ok(),
            None => None,
        };
        let _permit = self.role_gate.acquire().await.ok();
        let state = Arc::clone(self);
        let read = move || {
            let start = Instant::now();
            for (index, id) in ids.iter().enumerate() {
                match state.host.role(&chain, id) {
                    Ok(answer) => state.roles.put(chain, *id, answer, head),
                    Err(error) => {
                        tracing::debug!(%chain, scs = %id, %error, "the role of an SCS is not known")
                    }
                }
                if start.elapsed() > ROLES_TIME_MAX {
                    let left = ids.len() - index - 1;
                    tracing::debug!(%chain, left, "the roles take too long to read");
                    break;
                }
            }
        };
        if tokio::task::spawn_blocking(read).await.is_err() {
            tracing::error!("the read of roles ended by a panic");
        }
    }

    /// The message that carries a transaction to the SCSs.
    fn call_message(&self, call: &DirectCall) -> ScsPushMsg {
        let chain = WireAddress::rlp(call.chain);
        ScsMessage {
            request_id: self.next_request_id(),
            timestamp: Some(unix_seconds()),
            is_request: true,
            kind: MessageKind::DirectCall { status: 0 },
            scs_id: Default::default(),
            chain: Some(chain),
            sender: Some(WireAddress::rlp(call.sender)),
            receiver: Some(chain),
            payload: call.rlp.0.clone(),
        }
        .encode()
    }

    /// Pushes a transaction, or keeps it if no connected SCS can get it.
    async fn push_or_hold(self: &Arc<Self>, next: HeldCall, held: &mut HeldCalls) {
        let (hash, chain) = (next.call.hash, next.call.chain);
        match self.push(self.call_message(&next.call), None).await {
            Ok(0) => {
                tracing::debug!(%hash, %chain, "no SCS for a transaction yet");
                self.forget(&held.hold(next, Instant::now()));
            }
            Ok(queued) => tracing::debug!(%hash, %chain, queued, "transaction pushed"),
            Err(error) => tracing::error!(%hash, %error, "a transaction cannot be pushed"),
        }
    }

    /// Forgets transactions that were not pushed, so that they may come again.
    fn forget(&self, calls: &[DirectCall]) {
        for call in calls {
            tracing::debug!(hash = %call.hash, chain = %call.chain, "no SCS came for a transaction");
            self.marked.remove(&call.hash);
        }
    }

    /// Pings each SCS that does not know the head yet, or has heard nothing of it for a while.
    fn ping_all(&self) {
        let (head, now) = (self.head(), Instant::now());
        for scs in self.registry.all() {
            let Some(head) = scs.take_ping(head, now) else {
                continue;
            };
            let ping = ScsMessage {
                request_id: self.next_request_id(),
                timestamp: None,
                is_request: true,
                kind: MessageKind::Ping { status: 0 },
                scs_id: scs.id.to_wire(),
                chain: None,
                sender: None,
                receiver: None,
                payload: encode_head(head),
            };
            scs.queue.push(ping.encode(), false);
        }
    }

    /// The answer to a handshake or a ping.
    pub(super) fn answer(&self, wire: &ScsPushMsg, payload: bytes::Bytes) -> ScsPushMsg {
        let compact = wire.compact();
        ScsPushMsg {
            timestamp: timestamp_bytes(unix_seconds()),
            requestflag: false,
            subchainid: Default::default(),
            sender: bytes::Bytes::copy_from_slice(self.beneficiary().as_slice()),
            receiver: Default::default(),
            msghash: payload,
            ..compact
        }
    }
}

/// Pings all SCSs once a second.
pub(super) async fn ping_loop(state: Arc<ServiceState>) {
    let mut interval = tokio::time::interval(PING_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        state.ping_all();
    }
}

/// Pushes transactions for MicroChains in the order in which they were taken. Those that no
/// connected SCS can get are kept, and tried again when SCSs have connected.
pub(super) async fn call_loop(state: Arc<ServiceState>, mut calls: mpsc::Receiver<DirectCall>) {
    let mut held = HeldCalls::default();
    let mut interval = tokio::time::interval(RETRY_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut registrations = 0;
    // The number of held ones that are to be tried again.
    let mut due = 0;
    loop {
        tokio::select! {
            call = calls.recv() => {
                let Some(call) = call else { return };
                let until = Instant::now() + HELD_AGE_MAX;
                state.push_or_hold(HeldCall { call, until }, &mut held).await;
            }
            _ = interval.tick() => {
                state.forget(&held.take_old(Instant::now()));
                let now = state.registry.registrations();
                if now != registrations {
                    registrations = now;
                    due = held.len();
                }
                let batch = due.min(held.len()).min(RETRIES_MAX);
                due -= batch;
                for _ in 0..batch {
                    let Some(oldest) = held.pop() else { break };
                    state.push_or_hold(oldest, &mut held).await;
                }
                due = due.min(held.len());
            }
        }
    }
}
