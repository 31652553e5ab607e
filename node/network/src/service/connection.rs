//! The task of one connection: it decodes messages, hands them to the hub, and answers requests.
//!
//! Requests and transactions of a peer are worked on one after the other, on a thread for blocking
//! work. So one peer can keep at most one such thread busy.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use primitives::Transaction;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::core::{Core, OUTBOX_MESSAGES_MAX, Outbox, OutboxMessage, PeerJob, PeerReport};
use crate::messages::{PeerMessage, WireFamily, WireProtocol};
use crate::peers::serve::{self, ServeLimits};
use crate::peers::{FAULT_BAN, NewPeer, PeerFault, PeerId};
use crate::rlpx::{InboundMessage, PeerConnection, RlpxDisconnect};

/// Requests and packs of transactions of one peer that wait. More requests end the connection;
/// more transactions are dropped.
pub const PEER_JOBS_MAX: usize = 64;
/// While more bytes than this wait to be sent, no request is answered and no gossip is taken from
/// the outbox.
const BACKLOG_MAX: usize = 2 << 20;
/// The index of the only capability. A node offers versions of one capability.
const CAPABILITY: usize = 0;

/// Takes a connection after its handshake. It ends at once if there is no place for it.
/// `is_dialled` says that this node has dialled.
pub(super) fn take(
    core: &Arc<Core>,
    family: WireFamily,
    connection: PeerConnection<TcpStream>,
    is_dialled: bool,
) -> Result<(), RlpxDisconnect> {
    let remote = connection.peer();
    let node = remote.id;
    let version = remote.shared.get(CAPABILITY).map(|shared| shared.offered.version);
    let protocol = version.and_then(|version| family.protocol(version));
    let addresses = (connection.stream().local_addr(), connection.stream().peer_addr());
    let (Some(protocol), (Ok(local_address), Ok(remote_address))) = (protocol, addresses) else {
        tokio::spawn(connection.disconnect(RlpxDisconnect::Useless));
        return Err(RlpxDisconnect::Useless);
    };
    let mut state = core.state.lock();
    let (is_static, is_trusted) = (state.dialer.is_static(&node), state.trusted.contains(&node));
    let new = NewPeer {
        node,
        protocol,
        is_inbound: !is_dialled,
        is_exempt: is_static || is_trusted,
        is_preferred: is_dialled == (state.dialer.own_id() < node),
    };
    let admitted = if state.is_stopping {
        Err(RlpxDisconnect::Quitting)
    } else {
        state.hub.admit(new, core.now())
    };
    let (peer, actions) = match admitted {
        Ok(admitted) => admitted,
        Err(reason) => {
            tokio::spawn(connection.disconnect(reason));
            return Err(reason);
        }
    };
    let (messages, inbox) = mpsc::channel(OUTBOX_MESSAGES_MAX);
    let (end, ended) = oneshot::channel();
    let report = PeerReport {
        node,
        client: remote.hello.client.clone(),
        capabilities: remote
            .hello
            .capabilities
            .iter()
            .map(ToString::to_string)
            .collect(),
        local: local_address,
        remote: remote_address,
        is_inbound: !is_dialled,
        is_static,
        is_trusted,
        protocol,
        head: None,
    };
    tracing::debug!(remote = %report.remote, client = report.client, %protocol, is_dialled, "connected");
    state.reports.insert(peer, report);
    state.outboxes.insert(
        peer,
        Outbox {
            protocol,
            messages,
            end: Some(end),
        },
    );
    if !is_dialled {
        state.dialer.came_in(node);
    }
    core.perform(&mut state, actions);
    drop(state);
    let task = PeerTask {
        core: Arc::clone(core),
        peer,
        protocol,
        limits: ServeLimits::of(family),
        connection,
        jobs: VecDeque::new(),
        running: None,
        mark: None,
    };
    tokio::spawn(task.run(inbox, ended));
    Ok(())
}

struct PeerTask {
    core: Arc<Core>,
    peer: PeerId,
    protocol: WireProtocol,
    limits: ServeLimits,
    connection: PeerConnection<TcpStream>,
    jobs: VecDeque<PeerJob>,
    running: Option<JoinHandle<Option<PeerMessage>>>,
    /// The newest mark of the outbox, until all before it is written.
    mark: Option<u64>,
}

/// What the task waits for.
enum TaskEvent {
    Outbox(OutboxMessage),
    Message(InboundMessage),
    /// All that waited to be sent is written.
    Written,
    JobDone(Option<PeerMessage>),
    End(RlpxDisconnect),
    Closed(String),
}

impl PeerTask {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<OutboxMessage>,
        mut ended: oneshot::Receiver<RlpxDisconnect>,
    ) {
        let reason = loop {
            self.start_job();
            if self.connection.backlog() == 0
                && let Some(position) = self.mark.take()
            {
                self.core.told.reached(position);
            }
            let is_marked = self.mark.is_some();
            let has_room = self.connection.backlog() < BACKLOG_MAX;
            let event = tokio::select! {
                // The sender is dropped only when the peer was removed.
                end = &mut ended => TaskEvent::End(end.unwrap_or(RlpxDisconnect::Requested)),
                Some(outgoing) = inbox.recv(), if has_room => TaskEvent::Outbox(outgoing),
                answer = finished(&mut self.running) => TaskEvent::JobDone(answer),
                message = self.connection.next_or_written(is_marked) => match message {
                    Ok(Some(message)) => TaskEvent::Message(message),
                    Ok(None) => TaskEvent::Written,
                    Err(error) => TaskEvent::Closed(error.to_string()),
                },
            };
            match event {
                TaskEvent::Outbox(OutboxMessage::Message(code, rlp)) => self.send(code, &rlp),
                TaskEvent::Outbox(OutboxMessage::Mark(position)) => self.mark = Some(position),
                TaskEvent::Written => {}
                TaskEvent::Message(message) => self.received(&message),
                TaskEvent::JobDone(answer) => {
                    self.running = None;
                    if let Some(answer) = answer {
                        let (code, rlp) = answer.encode(self.protocol);
                        self.send(code, &rlp);
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
            jobs,
            ..
        } = self;
        leave(&core, peer);
        // What the peer has sent before its end counts: it may be the only one that had it.
        submit_left(&core, jobs);
        if let Some(reason) = reason {
            connection.disconnect(reason).await;
        }
    }

    fn send(&mut self, code: u64, rlp: &[u8]) {
        match self.connection.send(CAPABILITY, code, rlp) {
            Ok(()) => self.core.traffic.went(rlp.len()),
            Err(error) => tracing::debug!(peer = self.peer.0, code, %error, "a message is not sent"),
        }
    }

    fn received(&mut self, message: &InboundMessage) {
        self.core.traffic.came(message.payload.len());
        let decoded = PeerMessage::decode(self.protocol, message.code, &message.payload);
        let jobs = match decoded {
            Ok(message) => self
                .core
                .with_hub(|hub, now| hub.received(self.peer, message, now)),
            Err(error) => {
                self.core.traffic.was_bad();
                self.fault(error.to_string())
            }
        };
        for job in jobs {
            match job {
                job if self.jobs.len() < PEER_JOBS_MAX => self.jobs.push_back(job),
                PeerJob::Submit(_) => {}
                PeerJob::Serve(_) => {
                    self.fault(format!("got more than {PEER_JOBS_MAX} requests that wait"));
                }
            }
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

    /// Starts the next job if none is running and the peer reads its answers.
    fn start_job(&mut self) {
        if self.running.is_some() || self.connection.backlog() >= BACKLOG_MAX {
            return;
        }
        let Some(job) = self.jobs.pop_front() else { return };
        let (core, limits) = (Arc::clone(&self.core), self.limits);
        let chain = Arc::clone(&self.core.chain);
        self.running = Some(tokio::task::spawn_blocking(move || match job {
            PeerJob::Serve(request) => serve::answer(&*chain, limits, &request).unwrap_or_else(|error| {
                tracing::warn!(%error, "a request of a peer is not answered");
                None
            }),
            PeerJob::Submit(transactions) => {
                submit(&core, transactions);
                None
            }
        }));
    }
}

/// Offers transactions of a peer to the pool.
fn submit(core: &Core, transactions: Vec<Transaction>) {
    let _counted = core.begin_submission();
    for transaction in transactions {
        if let Err(reason) = core.chain.submit(transaction) {
            tracing::trace!(reason, "a transaction of a peer is not taken");
        }
    }
}

/// Offers the transactions of a connection that has ended to the pool.
fn submit_left(core: &Arc<Core>, jobs: VecDeque<PeerJob>) {
    let packs = jobs.into_iter().filter_map(|job| match job {
        PeerJob::Submit(transactions) => Some(transactions),
        PeerJob::Serve(_) => None,
    });
    let transactions: Vec<_> = packs.flatten().collect();
    if !transactions.is_empty() {
        let core = Arc::clone(core);
        tokio::task::spawn_blocking(move || submit(&core, transactions));
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
