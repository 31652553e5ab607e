//! The task of one connection: it decodes messages, hands them to the hub, and answers requests.
//!
//! Requests of a peer are worked on one after the other, on a thread for blocking work. So one peer
//! can keep at most one such thread busy, and all together a part of the processors. Requests for
//! parts of a state have threads of their own ([`super::state_threads`]). What a peer offers
//! is taken elsewhere ([`super::offers`]). While much of that waits, the connection is not read;
//! its end is noticed all the same.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::core::{Core, PeerJob, PeerReport};
use super::offers::PeerOffers;
use super::outbox::{Outbox, OutboxMessage, OutboxReader};
use super::state_threads;
use super::threads::start_task;
use super::traffic::{TrafficCells, TrafficCounters};
use crate::address::canonical_socket;
use crate::contact::NodeContact;
use crate::messages::snap::SNAP_OFFER;
use crate::messages::{PeerMessage, WireFamily, WireProtocol, codes};
use crate::peers::serve::{self, ServeLimits};
use crate::peers::{FAULT_BAN, LOOK_COST, NewPeer, PeerFault, PeerFigures, PeerId, ShareHolder};
use crate::rlpx::{InboundMessage, PeerConnection, RlpxDisconnect};

/// Requests of one peer that wait. More end the connection.
pub(crate) const PEER_JOBS_MAX: usize = 64;
/// While more bytes than this wait to be sent, no request is answered and no gossip is taken from
/// the outbox. An answer can be some times as long.
const BACKLOG_MAX: usize = 512 << 10;
/// The interval at which a connection that is not read is tested for its end.
const END_LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Takes a connection after its handshake. It ends at once if there is no place for it.
/// `dialled` is where this node has dialled; `None` if the other side has.
pub(super) fn take(
    core: &Arc<Core>,
    family: WireFamily,
    connection: PeerConnection<TcpStream>,
    dialled: Option<NodeContact>,
) -> Result<(), RlpxDisconnect> {
    let is_dialled = dialled.is_some();
    let remote = connection.peer();
    let node = remote.id;
    let index_of = |name| {
        remote
            .shared
            .iter()
            .position(|shared| shared.offered.name == name)
    };
    let capability = index_of(family.name());
    // Useless without the capability of the network.
    let snap = index_of(SNAP_OFFER.name);
    let version = capability.map(|index| remote.shared[index].offered.version);
    let protocol = version.and_then(|version| family.protocol(version));
    let addresses = (connection.stream().local_addr(), connection.stream().peer_addr());
    let (Some(protocol), (Ok(local_address), Ok(remote_address))) = (protocol, addresses) else {
        start_task(connection.disconnect(RlpxDisconnect::Useless));
        return Err(RlpxDisconnect::Useless);
    };
    let mut state = core.state.lock();
    let (is_static, is_trusted) = (state.dialer.is_static(&node), state.trusted.contains(&node));
    let is_exempt = is_static || is_trusted;
    let has_room = is_dialled || is_exempt || state.dialer.may_come_in(remote_address.ip());
    let new = NewPeer {
        node,
        address: remote_address.ip(),
        protocol,
        has_snap: snap.is_some(),
        is_inbound: !is_dialled,
        is_exempt,
        is_preferred: is_dialled == (state.dialer.own_id() < node),
    };
    let admitted = if state.is_stopping {
        Err(RlpxDisconnect::Quitting)
    } else if !has_room || core.sync.is_full() {
        Err(RlpxDisconnect::TooManyPeers)
    } else {
        state.hub.admit(new, core.now())
    };
    let (peer, actions) = match admitted {
        Ok(admitted) => admitted,
        Err(reason) => {
            start_task(connection.disconnect(reason));
            return Err(reason);
        }
    };
    let traffic = Arc::new(TrafficCells::default());
    let (outbox, inbox, ended) = Outbox::new(protocol, Arc::clone(&traffic));
    let remote_address = canonical_socket(remote_address);
    let report = PeerReport {
        node,
        contact: dialled.unwrap_or_else(|| NodeContact {
            id: node,
            ip: remote_address.ip(),
            udp: remote_address.port(),
            tcp: remote_address.port(),
        }),
        record: None,
        slot: state.free_slot(),
        since: core.now().unix.as_secs(),
        traffic: TrafficCounters::default(),
        figures: PeerFigures::default(),
        client: remote.hello.client.clone(),
        capabilities: remote
            .hello
            .capabilities
            .iter()
            .map(ToString::to_string)
            .collect(),
        local: canonical_socket(local_address),
        remote: remote_address,
        is_inbound: !is_dialled,
        is_static,
        is_trusted,
        protocol,
        head: None,
    };
    tracing::debug!(remote = %report.remote, client = report.client, %protocol, is_dialled, "connected");
    state.reports.insert(peer, report);
    state.outboxes.insert(peer, outbox);
    if !is_dialled {
        state
            .dialer
            .came_in(node, (!is_exempt).then(|| remote_address.ip()));
    }
    core.perform(&mut state, actions);
    drop(state);
    let holder = ShareHolder::of(node, remote_address.ip(), is_exempt);
    let task = PeerTask {
        core: Arc::clone(core),
        peer,
        protocol,
        capability: capability.unwrap_or_default(),
        snap,
        limits: ServeLimits::of(family),
        connection,
        traffic,
        offers: PeerOffers::new(core, peer, holder),
        holder,
        requests: VecDeque::new(),
        serving: None,
        mark: None,
        next_look: Instant::now(),
    };
    start_task(task.run(inbox, ended));
    Ok(())
}

struct PeerTask {
    core: Arc<Core>,
    peer: PeerId,
    protocol: WireProtocol,
    /// The index of the network's capability on the connection.
    capability: usize,
    /// The index of `snap/1`.
    snap: Option<usize>,
    limits: ServeLimits,
    connection: PeerConnection<TcpStream>,
    traffic: Arc<TrafficCells>,
    offers: PeerOffers,
    /// The holder of the share that its transactions use up.
    holder: ShareHolder,
    requests: VecDeque<PeerMessage>,
    serving: Option<JoinHandle<Option<PeerMessage>>>,
    /// The newest mark of the outbox, until all before it is written.
    mark: Option<u64>,
    /// The time of the next look whether the connection has ended, while it is not read.
    next_look: Instant,
}

/// An event that the task waits for.
enum TaskEvent {
    Outbox(OutboxMessage),
    Message(InboundMessage),
    /// All that waited to be sent is written.
    Written,
    Served(Option<PeerMessage>),
    OfferTaken,
    Look,
    End(RlpxDisconnect),
    Closed(String),
}

impl PeerTask {
    async fn run(mut self, mut inbox: OutboxReader, mut ended: oneshot::Receiver<RlpxDisconnect>) {
        let reason = loop {
            self.serve_next();
            if self.connection.backlog() == 0
                && let Some(position) = self.mark.take()
            {
                self.core.told.reached(position);
            }
            let has_room = self.connection.backlog() < BACKLOG_MAX;
            // The peer may wait for the answers to all that it has asked, and say nothing.
            let awaited = match (has_room, &self.mark) {
                (false, _) => Some(BACKLOG_MAX - 1),
                (true, Some(_)) => Some(0),
                (true, None) => None,
            };
            let is_paused = !self.offers.has_room();
            self.connection.pause_reading(is_paused);
            let event = tokio::select! {
                // The sender is dropped only when the peer was removed.
                end = &mut ended => TaskEvent::End(end.unwrap_or(RlpxDisconnect::Requested)),
                Some(outgoing) = inbox.next(), if has_room => TaskEvent::Outbox(outgoing),
                answer = finished(&mut self.serving) => TaskEvent::Served(answer),
                () = self.offers.taken() => TaskEvent::OfferTaken,
                () = sleep_until(self.next_look), if is_paused => TaskEvent::Look,
                message = self.connection.next_or_written(awaited) => match message {
                    Ok(Some(message)) => TaskEvent::Message(message),
                    Ok(None) => TaskEvent::Written,
                    Err(error) => TaskEvent::Closed(error.to_string()),
                },
            };
            match event {
                TaskEvent::Outbox(OutboxMessage::Message(message)) => self.send(message.code, &message.rlp),
                TaskEvent::Outbox(OutboxMessage::Mark(position)) => self.mark = Some(position),
                TaskEvent::Written => {}
                TaskEvent::Message(message) => self.received(&message),
                TaskEvent::OfferTaken => self.offers.go_on(),
                TaskEvent::Served(answer) => {
                    self.serving = None;
                    if let Some(answer) = answer {
                        let (code, rlp) = answer.encode(self.protocol);
                        self.send(code, &rlp);
                    }
                }
                TaskEvent::Look => {
                    self.next_look = Instant::now() + END_LOOK_INTERVAL;
                    if self.has_ended().await {
                        tracing::debug!(peer = self.peer.0, "a connection has ended while it was not read");
                        break None;
                    }
                }
                TaskEvent::End(reason) => break Some(reason),
                TaskEvent::Closed(error) => {
                    tracing::debug!(peer = self.peer.0, error, "a connection has ended");
                    break None;
                }
            }
        };
        let Self {
            core,
            peer,
            connection,
            offers,
            serving,
            ..
        } = self;
        leave(&core, peer);
        if let Some(serving) = serving {
            serving.abort();
        }
        offers.end(reason.is_none());
        if let Some(reason) = reason {
            connection.disconnect(reason).await;
        }
    }

    /// Whether the other side has closed the connection, even if bytes of it are not read yet.
    async fn has_ended(&self) -> bool {
        let ready = self.connection.stream().ready(Interest::READABLE);
        match timeout(Duration::ZERO, ready).await {
            Ok(Ok(ready)) => ready.is_read_closed(),
            Ok(Err(_)) => true,
            // Nothing has happened.
            Err(_) => false,
        }
    }

    fn send(&mut self, code: u64, rlp: &[u8]) {
        let (capability, own_code) = match (codes::of_snap(code), self.snap) {
            (Some(own), Some(snap)) => (snap, own),
            _ => (self.capability, code),
        };
        match self.connection.send(capability, own_code, rlp) {
            Ok(()) => {
                self.core.traffic.went(rlp.len());
                self.traffic.went(rlp.len());
            }
            Err(error) => tracing::debug!(peer = self.peer.0, code, %error, "a message is not sent"),
        }
    }

    fn received(&mut self, message: &InboundMessage) {
        let InboundMessage {
            capability,
            code,
            payload,
        } = message;
        let code = if Some(*capability) == self.snap {
            codes::SNAP + code
        } else {
            *code
        };
        self.core.traffic.came(payload.len());
        self.traffic.came(payload.len());
        if !self.core.admits(self.peer, code, payload.len()) || self.is_more_than_its_share(code) {
            self.core.traffic.was_left_out();
            return;
        }
        let jobs = match PeerMessage::decode(self.protocol, code, payload) {
            Ok(message) => {
                self.count_transactions(&message);
                self.core
                    .with_hub(|hub, now| hub.received(self.peer, message, now))
            }
            Err(error) => {
                self.core.traffic.was_bad();
                self.fault(error.to_string())
            }
        };
        for job in jobs {
            match job {
                PeerJob::Offer(offered) => self.offers.push(offered),
                PeerJob::Serve(mut request) if self.requests.len() < PEER_JOBS_MAX => {
                    self.limits.cut(&mut request);
                    self.requests.push_back(request);
                }
                PeerJob::Serve(_) => {
                    self.fault(format!("got more than {PEER_JOBS_MAX} requests that wait"));
                }
                // Such jobs follow from offers only.
                PeerJob::Submit(_) | PeerJob::Pause(_) => {}
            }
        }
    }

    /// Whether a message has transactions that nobody has asked for, of a peer that pauses or of
    /// an address that has no share of the work left. They are not decoded.
    fn is_more_than_its_share(&self, code: u64) -> bool {
        let now = self.core.now().elapsed;
        let is_more = code == codes::TRANSACTIONS
            && (self.offers.is_paused() || !self.core.bounds.wait(self.holder, now).is_zero());
        if is_more {
            tracing::debug!(
                peer = self.peer.0,
                "transactions of a peer are left out: it pauses, or its share is used up"
            );
        }
        is_more
    }

    fn count_transactions(&self, message: &PeerMessage) {
        if let PeerMessage::Transactions(transactions) | PeerMessage::PooledTransactions(_, transactions) =
            message
        {
            let cost = transactions.len() as u64 * LOOK_COST;
            self.core
                .bounds
                .use_up(self.holder, cost, self.core.now().elapsed);
        }
    }

    fn fault(&self, text: String) -> Vec<PeerJob> {
        let fault = PeerFault {
            text,
            disconnect: RlpxDisconnect::Subprotocol,
            banned: FAULT_BAN,
        };
        self.core.with_hub(|hub, now| hub.fault(self.peer, &fault, now))
    }

    /// Answers the next request if none is being answered and the peer reads its answers.
    fn serve_next(&mut self) {
        if self.serving.is_some() || self.connection.backlog() >= BACKLOG_MAX {
            return;
        }
        let Some(request) = self.requests.pop_front() else {
            return;
        };
        let request = match request {
            PeerMessage::Snap(request) => {
                let states = self.core.states.clone();
                let answer = async move { state_threads::answer(&states, request).await };
                self.serving = Some(tokio::spawn(answer));
                return;
            }
            request => request,
        };
        let (chain, limits) = (Arc::clone(&self.core.chain), self.limits);
        let answers = Arc::clone(&self.core.bounds.answers);
        self.serving = Some(tokio::spawn(async move {
            // The semaphore is never closed.
            let thread = answers.acquire_owned().await.ok()?;
            let answered = tokio::task::spawn_blocking(move || {
                let answered = serve::answer(&*chain, limits, &request);
                drop(thread);
                answered.unwrap_or_else(|error| {
                    tracing::warn!(%error, "a request of a peer is not answered");
                    None
                })
            });
            // A job that panics has no answer.
            answered.await.ok().flatten()
        }));
    }
}

/// Waits for the running job. For ever, if none is running.
async fn finished(running: &mut Option<JoinHandle<Option<PeerMessage>>>) -> Option<PeerMessage> {
    match running {
        // A job that panics has no answer.
        Some(job) => job.await.unwrap_or_default(),
        None => pending().await,
    }
}

/// Forgets a connection that has ended.
fn leave(core: &Core, peer: PeerId) {
    let mut state = core.state.lock();
    let now = core.now();
    let actions = state.hub.left(peer, now);
    core.perform(&mut state, actions);
    state.outboxes.remove(&peer);
    let Some(report) = state.reports.remove(&peer) else {
        return;
    };
    // Another connection with the node may have begun already.
    if !state.reports.values().any(|other| other.node == report.node) {
        state.dialer.left(&report.node, now.elapsed);
    }
    drop(state);
    core.dial.notify_one();
}
