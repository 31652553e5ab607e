//! Discovery as part of the service: it feeds the dialer and remembers the nodes that it has seen.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use alloy_eip2124::ForkId;
use primitives::B512;
use tokio::sync::{mpsc, watch};

use super::core::Core;
use crate::contact::NodeContact;
use crate::discovery::{ContactKind, DiscoveryEvent, DiscoverySocket, PacketEndpoint};
use crate::enr::NodeRecord;
use crate::entropy::Entropy;
use crate::nat::{NatStatus, TransportProtocol};
use crate::node_files::SeenNodes;

/// The interval at which the need of the dialer for nodes is looked at.
const NEED_INTERVAL: Duration = Duration::from_secs(3);
/// The seen nodes are written at this interval.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// The parts that the loop of discovery needs.
pub(super) struct FindingLoop {
    pub(super) core: Arc<Core>,
    pub(super) socket: DiscoverySocket,
    /// `None` if nodes are not remembered.
    pub(super) seen: Option<SeenNodes>,
    pub(super) endpoint: PacketEndpoint,
    /// The fork id in this node's record.
    pub(super) fork_id: Option<ForkId>,
    pub(super) entropy: Entropy,
}

impl FindingLoop {
    /// Runs until `stop` says so. Then the seen nodes are written.
    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<DiscoveryEvent>,
        mut agreed: mpsc::Receiver<(B512, SocketAddr)>,
        mut nat: watch::Receiver<NatStatus>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut need = tokio::time::interval(NEED_INTERVAL);
        let mut save = tokio::time::interval(SAVE_INTERVAL);
        save.tick().await;
        let mut has_nat = true;
        loop {
            tokio::select! {
                Some(event) = events.recv() => self.take(event).await,
                Some((id, address)) = agreed.recv() => {
                    self.remember_dialled(&id);
                    self.socket.handle().set_kind(id, address, ContactKind::Uncle).await;
                }
                _ = need.tick() => {
                    self.look(None).await;
                    if self.core.state.lock().hub.fork_id() != self.fork_id {
                        let status = nat.borrow().clone();
                        self.announce(&status).await;
                    }
                }
                _ = save.tick() => self.save(),
                changed = nat.changed(), if has_nat => match changed {
                    Ok(()) => {
                        let status = nat.borrow_and_update().clone();
                        self.announce(&status).await;
                    }
                    Err(_) => has_nat = false,
                },
                _ = stop.changed() => break,
            }
        }
        self.save();
    }

    async fn take(&mut self, event: DiscoveryEvent) {
        let nodes = match event {
            DiscoveryEvent::Verified(node) => vec![node],
            DiscoveryEvent::Lasting(node) => return self.remember(node),
            DiscoveryEvent::LookupDone { nodes, .. } => nodes,
            DiscoveryEvent::Record { record, from } => {
                if !self.core.note_record(&record) {
                    return;
                }
                contact_at(&record, from).into_iter().collect()
            }
            // The nodes are dialled once they have proven their addresses.
            DiscoveryEvent::Values { nodes, .. } => {
                let contacts: Vec<_> = nodes.iter().filter_map(NodeContact::from_enode).collect();
                return self.socket.handle().probe_all(contacts).await;
            }
        };
        self.core.state.lock().dialer.add_candidates(nodes);
        self.core.dial.notify_one();
    }

    /// Remembers a node over restarts. Anybody can prove an address, so only nodes that have lasted
    /// or that have agreed to our Status are remembered.
    fn remember(&mut self, node: NodeContact) {
        if let Some(seen) = &mut self.seen {
            seen.saw(node, self.core.now().unix);
        }
    }

    /// Remembers a node that has agreed to our Status, if discovery has found it.
    fn remember_dialled(&mut self, id: &B512) {
        let dialled = self.core.state.lock().dialer.dialled(id);
        if let Some(node) = dialled {
            self.remember(node);
        }
    }

    /// Searches for nodes if the dialer needs some.
    async fn look(&mut self, target: Option<B512>) {
        let is_needed = self.core.state.lock().dialer.wants_candidates();
        if is_needed {
            let target = target.unwrap_or_else(|| B512::from(self.entropy.bytes::<64>()));
            self.socket.handle().lookup(target).await;
        }
    }

    /// Tells other nodes the outside address and ports.
    async fn announce(&mut self, status: &NatStatus) {
        let endpoint = PacketEndpoint {
            ip: status.external_ip.unwrap_or(self.endpoint.ip),
            udp: status.outside_port(TransportProtocol::Udp, self.endpoint.udp),
            tcp: status.outside_port(TransportProtocol::Tcp, self.endpoint.tcp),
        };
        self.fork_id = self.core.state.lock().hub.fork_id();
        self.socket.handle().announce(endpoint, self.fork_id).await;
    }

    fn save(&mut self) {
        let now = self.core.now().unix;
        if let Some(seen) = &mut self.seen
            && let Err(error) = seen.save(now)
        {
            tracing::warn!(%error, "the nodes that were seen cannot be written");
        }
    }
}

/// Returns the contact at which to dial a node that has sent its record from the address `from`.
/// `None` if the record names another address: the node has not proven that it is there.
fn contact_at(record: &NodeRecord, from: IpAddr) -> Option<NodeContact> {
    record.contact().filter(|contact| contact.ip == from)
}

#[cfg(test)]
mod tests {
    use primitives::SecretKey;

    use super::*;
    use crate::enr::NodeClaims;

    #[test]
    fn a_record_makes_this_node_connect_to_its_sender_only() {
        let key = SecretKey::from_bytes(&[7; 32]).expect("a key");
        let from = IpAddr::from([50, 0, 0, 1]);
        for ip in [[50, 0, 0, 1], [127, 0, 0, 1], [192, 168, 0, 1], [51, 0, 0, 1]] {
            let claims = NodeClaims {
                ip: Some(ip.into()),
                tcp: 30303,
                udp: 30303,
                fork_id: None,
                has_snap: false,
            };
            let record = NodeRecord::sign(&key, 1, &claims);
            let dialled = contact_at(&record, from);
            assert_eq!(dialled.is_some(), from == IpAddr::from(ip), "{ip:?}");
        }
    }
}
