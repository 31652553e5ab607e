//! Runs [`Discovery`] on a UDP socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use alloy_eip2124::ForkId;
use primitives::B512;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::packet::{PACKET_BYTES_MAX, PacketEndpoint};
use super::service::{ANSWER_TIMEOUT, Discovery, DiscoveryAction, DiscoveryEvent};
use super::table::{BUCKET_NODES_MAX, ContactKind};
use crate::address;
use crate::contact::NodeContact;
use crate::enr::NodeRecord;
use crate::moment::SystemClock;

/// Events that wait for the reader. Later ones are dropped: discovery must not wait.
pub(crate) const DISCOVERY_EVENTS_MAX: usize = 1024;
/// Requests that wait for discovery.
const REQUESTS_MAX: usize = 64;
/// Questions for records whose askers wait. Later ones have no answer.
const RECORD_QUESTIONS_MAX: usize = 64;
/// An asker waits for a record for this long: for the answer, and for this node's own tasks.
const RECORD_WAIT: Duration = ANSWER_TIMEOUT.saturating_mul(2);
/// Wait after a socket error, so that a lasting one does not use the processor.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

enum SocketRequest {
    Lookup(B512),
    Probe(NodeContact),
    SetKind(B512, SocketAddr, ContactKind),
    Announce(PacketEndpoint, Option<ForkId>),
    Record(NodeContact, oneshot::Sender<NodeRecord>),
    Brothers(B512, oneshot::Sender<Vec<NodeContact>>),
    NewlyKept(B512, oneshot::Sender<Vec<NodeContact>>),
    StoreAt(B512, Vec<NodeContact>),
    FindValuesAt(B512, Vec<NodeContact>),
}

/// Asks a running discovery. Clones are cheap. When discovery has ended, answers are empty.
#[derive(Clone, Debug)]
pub struct DiscoveryHandle(mpsc::Sender<SocketRequest>);

impl DiscoveryHandle {
    /// The record that `node` sends. `None` if it has not said that it has one, or does not send it
    /// in time.
    pub(crate) async fn record_of(&self, node: NodeContact) -> Option<NodeRecord> {
        let asked = self.ask(|reply| SocketRequest::Record(node, reply));
        timeout(RECORD_WAIT, asked).await.ok().flatten()
    }

    /// The brothers in the table that are closest to `key`, at most [`BUCKET_NODES_MAX`].
    pub(crate) async fn brothers(&self, key: B512) -> Vec<NodeContact> {
        let brothers = self.ask(|reply| SocketRequest::Brothers(key, reply)).await;
        brothers.unwrap_or_default()
    }

    /// Nodes that have stored their enode here under `key` since this was last asked.
    pub(crate) async fn newly_kept(&self, key: B512) -> Vec<NodeContact> {
        let kept = self.ask(|reply| SocketRequest::NewlyKept(key, reply)).await;
        kept.unwrap_or_default()
    }

    /// Asks `nodes` to keep this node's enode, as its socket shows it, under `key`.
    pub(crate) async fn store_at(&self, key: B512, nodes: Vec<NodeContact>) {
        self.request(SocketRequest::StoreAt(key, nodes)).await;
    }

    /// Asks `nodes` for what they keep under `key`. [`DiscoveryEvent::Values`] has the answers.
    pub(crate) async fn find_values_at(&self, key: B512, nodes: Vec<NodeContact>) {
        self.request(SocketRequest::FindValuesAt(key, nodes)).await;
    }

    /// Asks the nodes whether they are there.
    pub(crate) async fn probe_all(&self, nodes: impl IntoIterator<Item = NodeContact>) {
        for node in nodes {
            self.request(SocketRequest::Probe(node)).await;
        }
    }

    /// Begins a search for the nodes closest to `target`. [`DiscoveryEvent::LookupDone`] has the
    /// result.
    pub async fn lookup(&self, target: B512) {
        self.request(SocketRequest::Lookup(target)).await;
    }

    /// Notes what a connection from or to `address` has shown of a node.
    pub(crate) async fn set_kind(&self, id: B512, address: SocketAddr, kind: ContactKind) {
        self.request(SocketRequest::SetKind(id, address, kind)).await;
    }

    /// Changes the address or the fork id of this node.
    pub(crate) async fn announce(&self, endpoint: PacketEndpoint, fork_id: Option<ForkId>) {
        self.request(SocketRequest::Announce(endpoint, fork_id)).await;
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> SocketRequest) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.request(request(reply)).await;
        answer.await.ok()
    }

    async fn request(&self, request: SocketRequest) {
        // If discovery has ended, nobody needs the request.
        let _ = self.0.send(request).await;
    }
}

/// Discovery that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct DiscoverySocket {
    address: SocketAddr,
    record: watch::Receiver<NodeRecord>,
    handle: DiscoveryHandle,
    task: tokio::task::JoinHandle<()>,
}

impl DiscoverySocket {
    /// Starts `discovery` on `socket`. Also returns the events.
    ///
    /// # Errors
    /// An error of the system if the socket has no address.
    pub fn start(
        socket: UdpSocket,
        discovery: Discovery,
        clock: SystemClock,
    ) -> io::Result<(Self, mpsc::Receiver<DiscoveryEvent>)> {
        let address = socket.local_addr()?;
        let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
        let (events, receiver) = mpsc::channel(DISCOVERY_EVENTS_MAX);
        let (own_record, record) = watch::channel(discovery.record().clone());
        let run = SocketLoop {
            socket,
            is_v6: address.is_ipv6(),
            discovery,
            clock,
            events,
            own_record,
            record_askers: Vec::new(),
        };
        let task = tokio::spawn(run.run(inbox));
        let own = Self {
            address,
            record,
            handle: DiscoveryHandle(requests),
            task,
        };
        Ok((own, receiver))
    }

    /// The address of the socket.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The record of this node, as others get it.
    pub const fn record(&self) -> &watch::Receiver<NodeRecord> {
        &self.record
    }

    /// Asks discovery.
    pub const fn handle(&self) -> &DiscoveryHandle {
        &self.handle
    }
}

impl Drop for DiscoverySocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct SocketLoop {
    socket: UdpSocket,
    is_v6: bool,
    discovery: Discovery,
    clock: SystemClock,
    events: mpsc::Sender<DiscoveryEvent>,
    own_record: watch::Sender<NodeRecord>,
    /// The nodes whose records are awaited, and the askers.
    record_askers: Vec<(B512, oneshot::Sender<NodeRecord>)>,
}

impl SocketLoop {
    async fn run(mut self, mut inbox: mpsc::Receiver<SocketRequest>) {
        // One byte more than a packet may have, so that a longer one is recognized.
        let mut buffer = vec![0; PACKET_BYTES_MAX + 1];
        loop {
            let deadline = self.clock.instant(self.discovery.deadline());
            let wait = sleep_until(deadline.map_or_else(Instant::now, Instant::from));
            let actions = tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((count, from)) => self.receive(&buffer[..count], from),
                    Err(error) => {
                        tracing::debug!(%error, "the socket of discovery cannot receive");
                        tokio::time::sleep(ERROR_PAUSE).await;
                        Vec::new()
                    }
                },
                request = inbox.recv() => match request {
                    Some(request) => self.take(request),
                    None => return,
                },
                () = wait => self.discovery.on_time(self.clock.now()),
            };
            if self.own_record.borrow().sequence() != self.discovery.record().sequence() {
                self.own_record.send_replace(self.discovery.record().clone());
            }
            for action in actions {
                self.act(action).await;
            }
        }
    }

    fn receive(&mut self, bytes: &[u8], from: SocketAddr) -> Vec<DiscoveryAction> {
        match self.discovery.handle(self.clock.now(), from, bytes) {
            Ok(actions) => actions,
            Err(error) => {
                tracing::trace!(%from, %error, "a packet of discovery is dropped");
                Vec::new()
            }
        }
    }

    fn take(&mut self, request: SocketRequest) -> Vec<DiscoveryAction> {
        let now = self.clock.now();
        match request {
            SocketRequest::Lookup(target) => return self.discovery.lookup(target, now).1,
            SocketRequest::Probe(node) => return self.discovery.probe(node, now),
            SocketRequest::StoreAt(key, nodes) => return self.discovery.store_at(key, &nodes, now),
            SocketRequest::FindValuesAt(key, nodes) => {
                return self.discovery.find_values_at(key, &nodes, now);
            }
            SocketRequest::SetKind(id, address, kind) => {
                self.discovery.set_kind(&id, address.ip(), kind, now);
            }
            SocketRequest::Announce(endpoint, fork_id) => {
                self.discovery.announce(endpoint, fork_id);
            }
            SocketRequest::Record(node, reply) => {
                let actions = self.discovery.request_announced_record(&node, now);
                self.record_askers.retain(|(_, reply)| !reply.is_closed());
                if !actions.is_empty() && self.record_askers.len() < RECORD_QUESTIONS_MAX {
                    self.record_askers.push((node.id, reply));
                }
                return actions;
            }
            // The asker may have ended meanwhile.
            SocketRequest::Brothers(key, reply) => {
                let _ = reply.send(self.discovery.closest(&key, BUCKET_NODES_MAX, true));
            }
            SocketRequest::NewlyKept(key, reply) => {
                let _ = reply.send(self.discovery.newly_kept(&key, now));
            }
        }
        Vec::new()
    }

    /// Gives a record to those who wait for it.
    fn answer_askers(&mut self, record: &NodeRecord) {
        let is_asked = |(id, _): &mut (B512, _)| *id == record.id();
        for (_, reply) in self.record_askers.extract_if(.., is_asked) {
            // The asker may have ended meanwhile.
            let _ = reply.send(record.clone());
        }
    }

    async fn act(&mut self, action: DiscoveryAction) {
        match action {
            DiscoveryAction::Send { to, packet } => {
                let to = address::for_socket(to, self.is_v6);
                if let Err(error) = self.socket.send_to(&packet, to).await {
                    tracing::trace!(%to, %error, "a packet of discovery cannot be sent");
                }
            }
            DiscoveryAction::Tell(event) => {
                if let DiscoveryEvent::Record { record, .. } = &event {
                    self.answer_askers(record);
                }
                let _ = self.events.try_send(event);
            }
        }
    }
}
