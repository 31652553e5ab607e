//! Runs [`Discovery`] on a UDP socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use alloy_eip2124::ForkId;
use primitives::{B512, Enode};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::packet::{PACKET_BYTES_MAX, PacketEndpoint};
use super::service::{ANSWER_TIMEOUT, Discovery, DiscoveryAction};
use super::table::{BUCKET_NODES_MAX, ContactKind};
use crate::address;
use crate::contact::NodeContact;
use crate::enr::NodeRecord;
use crate::moment::SystemClock;

/// Events that wait for the reader. Later ones are dropped: discovery must not wait.
pub const DISCOVERY_EVENTS_MAX: usize = 1024;
/// Requests that wait for discovery.
const REQUESTS_MAX: usize = 64;
/// Questions for records whose askers wait. Later ones have no answer.
const RECORD_QUESTIONS_MAX: usize = 64;
/// How long an asker waits for a record: for the answer, and for this node's own tasks.
const RECORD_WAIT: Duration = ANSWER_TIMEOUT.saturating_mul(2);
/// Wait after a socket error, so that a lasting one does not use the processor.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// What discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryEvent {
    /// A node has proven its address.
    Verified(NodeContact),
    /// A node has answered again after it was in the table for a while.
    Lasting(NodeContact),
    /// A search is done.
    LookupDone {
        /// Its number.
        lookup: u64,
        /// The closest nodes that answered.
        nodes: Vec<NodeContact>,
    },
    /// A node has sent its record. The address in it may be anybody's.
    Record {
        /// The record.
        record: Box<NodeRecord>,
        /// The address that the node has proven.
        from: IpAddr,
    },
    /// A node has sent what it keeps under a key.
    Values {
        /// The key.
        key: B512,
        /// The enodes.
        nodes: Vec<Enode>,
    },
}

enum SocketRequest {
    Lookup(B512),
    Probe(NodeContact),
    SetKind(B512, SocketAddr, ContactKind),
    Announce(PacketEndpoint, Option<ForkId>),
    Record(NodeContact, oneshot::Sender<NodeRecord>),
    Brothers(B512, oneshot::Sender<Vec<NodeContact>>),
    Kept(B512, oneshot::Sender<Vec<Enode>>),
    StoreAt(B512, Vec<NodeContact>),
    FindValuesAt(B512, Vec<NodeContact>),
}

/// Asks a running discovery for what concerns keys and values. Clones are cheap. When discovery has
/// ended, answers are empty.
#[derive(Clone, Debug)]
pub struct DiscoveryValues(mpsc::Sender<SocketRequest>);

impl DiscoveryValues {
    /// The brothers in the table that are closest to `key`, at most [`BUCKET_NODES_MAX`].
    pub async fn brothers(&self, key: B512) -> Vec<NodeContact> {
        let (reply, answer) = oneshot::channel();
        self.request(SocketRequest::Brothers(key, reply)).await;
        answer.await.unwrap_or_default()
    }

    /// The enodes that this node keeps under `key` for others.
    pub async fn kept(&self, key: B512) -> Vec<Enode> {
        let (reply, answer) = oneshot::channel();
        self.request(SocketRequest::Kept(key, reply)).await;
        answer.await.unwrap_or_default()
    }

    /// Asks `nodes` to keep this node's enode, as its socket shows it, under `key`.
    pub async fn store_at(&self, key: B512, nodes: Vec<NodeContact>) {
        self.request(SocketRequest::StoreAt(key, nodes)).await;
    }

    /// Asks `nodes` for what they keep under `key`. [`DiscoveryEvent::Values`] has the answers.
    pub async fn find_values_at(&self, key: B512, nodes: Vec<NodeContact>) {
        self.request(SocketRequest::FindValuesAt(key, nodes)).await;
    }

    /// Asks the nodes whether they are there. Those without an address are left out.
    pub async fn probe_all(&self, nodes: &[Enode]) {
        for node in nodes.iter().filter_map(NodeContact::from_enode) {
            self.request(SocketRequest::Probe(node)).await;
        }
    }

    /// Begins a search for the nodes closest to `key`.
    pub async fn lookup(&self, key: B512) {
        self.request(SocketRequest::Lookup(key)).await;
    }

    async fn request(&self, request: SocketRequest) {
        // If discovery has ended, nobody needs the request.
        let _ = self.0.send(request).await;
    }
}

/// Asks a running discovery for the records of nodes. Clones are cheap.
#[derive(Clone, Debug)]
pub struct DiscoveryRecords(mpsc::Sender<SocketRequest>);

impl DiscoveryRecords {
    /// The record that `node` sends. `None` if it has not said that it has one, or does not send it
    /// in time.
    pub async fn of(&self, node: NodeContact) -> Option<NodeRecord> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.0.send(SocketRequest::Record(node, reply)).await.ok()?;
            answer.await.ok()
        };
        timeout(RECORD_WAIT, asked).await.ok().flatten()
    }
}

/// Discovery that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct DiscoverySocket {
    address: SocketAddr,
    record: watch::Receiver<NodeRecord>,
    requests: mpsc::Sender<SocketRequest>,
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
            requests,
            task,
        };
        Ok((own, receiver))
    }

    /// The address of the socket.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// This node's record, as others get it.
    pub const fn record(&self) -> &watch::Receiver<NodeRecord> {
        &self.record
    }

    /// Asks for the records of nodes.
    pub fn records(&self) -> DiscoveryRecords {
        DiscoveryRecords(self.requests.clone())
    }

    /// Asks for what concerns keys and values.
    pub fn values(&self) -> DiscoveryValues {
        DiscoveryValues(self.requests.clone())
    }

    /// Begins a search. [`DiscoveryEvent::LookupDone`] has the result.
    pub async fn lookup(&self, target: B512) {
        self.request(SocketRequest::Lookup(target)).await;
    }

    /// Asks a node whether it is there.
    pub async fn probe(&self, node: NodeContact) {
        self.request(SocketRequest::Probe(node)).await;
    }

    /// Notes what a connection from or to `address` has shown of a node.
    pub async fn set_kind(&self, id: B512, address: SocketAddr, kind: ContactKind) {
        self.request(SocketRequest::SetKind(id, address, kind)).await;
    }

    /// Changes the address or the fork id of this node.
    pub async fn announce(&self, endpoint: PacketEndpoint, fork_id: Option<ForkId>) {
        self.request(SocketRequest::Announce(endpoint, fork_id)).await;
    }

    async fn request(&self, request: SocketRequest) {
        // If the task has ended, nobody needs the request.
        let _ = self.requests.send(request).await;
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
    /// Who waits for the records of which nodes.
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
                self.own_record.send_replace(self.discovery.record().clone());
            }
            SocketRequest::Record(node, reply) => {
                let actions = self.discovery.request_announced_record(&node, now);
                self.record_askers.retain(|(_, reply)| !reply.is_closed());
                if !actions.is_empty() && self.record_askers.len() < RECORD_QUESTIONS_MAX {
                    self.record_askers.push((node.id, reply));
                }
                return actions;
            }
            // Whoever has asked may have ended meanwhile.
            SocketRequest::Brothers(key, reply) => {
                let _ = reply.send(self.discovery.closest(&key, BUCKET_NODES_MAX, true));
            }
            SocketRequest::Kept(key, reply) => {
                let _ = reply.send(self.discovery.kept(&key, now));
            }
        }
        Vec::new()
    }

    /// Gives a record to those who wait for it.
    fn answer_askers(&mut self, record: &NodeRecord) {
        let is_asked = |(id, _): &mut (B512, _)| *id == record.id();
        for (_, reply) in self.record_askers.extract_if(.., is_asked) {
            // Whoever has asked may have ended meanwhile.
            let _ = reply.send(record.clone());
        }
    }

    async fn act(&mut self, action: DiscoveryAction) {
        let event = match action {
            DiscoveryAction::Send { to, packet } => {
                let to = address::for_socket(to, self.is_v6);
                if let Err(error) = self.socket.send_to(&packet, to).await {
                    tracing::trace!(%to, %error, "a packet of discovery cannot be sent");
                }
                return;
            }
            DiscoveryAction::Verified(node) => DiscoveryEvent::Verified(node),
            DiscoveryAction::Lasting(node) => DiscoveryEvent::Lasting(node),
            DiscoveryAction::LookupDone { lookup, nodes } => DiscoveryEvent::LookupDone { lookup, nodes },
            DiscoveryAction::Record { record, from } => {
                self.answer_askers(&record);
                DiscoveryEvent::Record { record, from }
            }
            DiscoveryAction::Values { key, nodes } => DiscoveryEvent::Values { key, nodes },
        };
        let _ = self.events.try_send(event);
    }
}
