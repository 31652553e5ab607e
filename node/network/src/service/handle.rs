//! Answers the questions of others about the running network.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::{Address, B512, Transaction};
use tokio::sync::watch;

use super::NetworkSettings;
use super::called_subnets::CalledSubnets;
use super::core::{ApplicationChains, Core, PeerReport};
use super::records::OwnRecord;
use super::subnets::{RunningSubnets, SubnetPlan, SubnetReport, chain_of};
use super::tasks::NetworkTasks;
use super::traffic::TrafficCounters;
use crate::address::or_loopback;
use crate::dial::DialTarget;
use crate::enr::{NodeClaims, NodeRecord};
use crate::messages::{ApplicationChainMessage, WireFamily};
use crate::nat::{NatStatus, TransportProtocol};
use crate::peers::PeerCounters;
use crate::rlpx::RlpxDisconnect;
use crate::sync::{FAR_BEHIND_BLOCKS, SyncState};

/// A handle of the running network. Clones are cheap. It does not keep the network running.
#[derive(Clone)]
pub struct NetworkHandle {
    core: Arc<Core>,
    id: B512,
    address: SocketAddr,
    discovery_port: u16,
    record: Arc<OwnRecord>,
    nat: watch::Receiver<NatStatus>,
    family: WireFamily,
    subnets: Arc<SubnetHandle>,
}

pub(super) struct SubnetHandle {
    pub(super) plans: watch::Sender<Vec<SubnetPlan>>,
    pub(super) subnets: Arc<RunningSubnets>,
    /// Chains for which servers of this node have spoken.
    pub(super) called: Arc<Mutex<CalledSubnets>>,
}

impl fmt::Debug for NetworkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkHandle")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl NetworkHandle {
    pub(super) fn new(
        core: Arc<Core>,
        settings: &NetworkSettings,
        tasks: &NetworkTasks,
        subnets: SubnetHandle,
    ) -> Self {
        Self {
            core,
            id: settings.key.public_key(),
            address: tasks.address(),
            discovery_port: tasks.discovery_port(),
            record: Arc::clone(tasks.record()),
            nat: tasks.nat().clone(),
            family: settings.family,
            subnets: Arc::new(subnets),
        }
    }

    /// The node's id.
    pub const fn id(&self) -> B512 {
        self.id
    }

    /// The address at which the node listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of discovery; 0 if there is none.
    pub const fn discovery_port(&self) -> u16 {
        self.discovery_port
    }

    /// The record of this node: the one that discovery tells others, if there is discovery.
    pub fn record(&self) -> NodeRecord {
        self.record.current(|| {
            let nat = self.nat.borrow();
            NodeClaims {
                ip: Some(nat.external_ip.unwrap_or_else(|| or_loopback(self.address.ip()))),
                tcp: nat.outside_port(TransportProtocol::Tcp, self.address.port()),
                udp: 0,
                fork_id: self.core.state.lock().hub.fork_id(),
                has_snap: self.core.offers_snap(self.family),
            }
        })
    }

    /// The outside address, if the router or an option tells it.
    pub fn external_ip(&self) -> Option<IpAddr> {
        self.nat.borrow().external_ip
    }

    /// The peers whose Status fits, without those of subnets.
    pub fn peers(&self) -> Vec<PeerReport> {
        self.core.peers()
    }

    /// The number of peers.
    pub fn peer_count(&self) -> usize {
        self.core.state.lock().hub.peers().count()
    }

    /// The block at which the running synchronization began, and the highest block that is known
    /// of. `None` if there is nothing to catch up with.
    pub fn sync_status(&self) -> Option<(u64, u64)> {
        self.core.sync_status.status()
    }

    /// The progress of the synchronization.
    pub fn sync_progress(&self) -> SyncState {
        self.core.sync_status.progress()
    }

    /// Whether so many blocks are missing that work is not handed out.
    pub fn is_far_behind(&self) -> bool {
        self.core.sync_status.missing() > FAR_BEHIND_BLOCKS
    }

    /// The counters of peers and of connections.
    pub fn counters(&self) -> (PeerCounters, TrafficCounters) {
        self.core.counters()
    }

    /// Waits until a peer was sent what the pool has before `position` of its feed and the peer did
    /// not know, for at most `limit`. The system sends it even if this process ends then. Returns
    /// whether it was sent.
    pub fn wait_until_told(&self, position: u64, limit: Duration) -> bool {
        self.core.told.wait(position, limit)
    }

    /// Keeps a node among those that should always be peers. `false` if there are too many.
    pub fn add_static(&self, target: impl Into<DialTarget>) -> bool {
        let target = target.into();
        let mut state = self.core.state.lock();
        let now = self.core.now();
        state.hub.forgive(&target.contact.id);
        let is_added = state.dialer.add_static(target, now.elapsed);
        drop(state);
        self.core.dial.notify_one();
        is_added
    }

    /// Forgets a static node, and ends the connection with it.
    pub fn remove_static(&self, node: &B512) {
        let mut state = self.core.state.lock();
        state.dialer.remove_static(node);
        let peer = state.hub.peers().find(|facts| facts.node == *node);
        if let Some(facts) = peer {
            let reason = RlpxDisconnect::Requested;
            let actions = state.hub.drop_peer(facts.peer, reason, self.core.now());
            self.core.perform(&mut state, actions);
        }
    }

    /// Lets a node in even if all places are taken.
    pub fn add_trusted(&self, node: B512) {
        let mut state = self.core.state.lock();
        state.hub.forgive(&node);
        state.trusted.insert(node);
    }

    /// The node needs a place again.
    pub fn remove_trusted(&self, node: &B512) {
        self.core.state.lock().trusted.remove(node);
    }

    /// Says who takes what is for the servers of application chains. Only the first call counts.
    pub fn connect_application_chains(&self, target: Arc<dyn ApplicationChains>) {
        if self.core.application_chains.set(target).is_err() {
            tracing::error!("the servers of application chains are connected already");
        }
    }

    /// Passes a message of an application chain's server on to peers: those of the chain's subnet
    /// if there is one, else those of this network. If the chain's contract asks for a subnet, the
    /// node joins it soon.
    pub fn relay_message(&self, message: &ApplicationChainMessage) {
        let chain = chain_of(&message.subchain_id);
        if let Some(address) = chain.filter(|_| self.has_subnets()) {
            self.subnets.called.lock().spoke(address, Instant::now());
        }
        let core = self.carrier(chain);
        let key = message.key();
        core.with_hub(|hub, _| hub.relay_message(key, message));
    }

    /// Passes a transaction with a sharding flag on to peers: those of the subnet of the
    /// application chain that it is for if there is one, else those of this network.
    pub fn relay_transaction(&self, transaction: &Transaction) {
        let core = self.carrier(transaction.to);
        let hash = transaction.hash();
        core.with_hub(|hub, _| hub.relay_transaction(hash, transaction));
    }

    /// The network that carries what is for an application chain.
    fn carrier(&self, chain: Option<Address>) -> Arc<Core> {
        let head = self.core.state.lock().hub.head().number;
        chain
            .and_then(|address| self.subnets.subnets.carrier(&address, head))
            .inspect(|carrier| carrier.carries())
            .unwrap_or_else(|| Arc::clone(&self.core))
    }

    /// Whether this network can have subnets.
    pub const fn has_subnets(&self) -> bool {
        matches!(self.family, WireFamily::Mc)
    }

    /// Says of which subnets the node is to be part. They replace those that were named before.
    pub fn set_subnets(&self, plans: Vec<SubnetPlan>) {
        if self.has_subnets() {
            self.subnets.plans.send_replace(plans);
        }
    }

    /// The subnets of which the node is part now.
    pub fn subnets(&self) -> Vec<SubnetReport> {
        self.subnets.subnets.reports()
    }
}
