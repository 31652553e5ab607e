//! Discovery as part of the service: it feeds the dialer and remembers the nodes that it has seen.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use primitives::B512;
use tokio::sync::{mpsc, watch};

use super::core::Core;
use crate::discovery::{ContactKind, DiscoveryEvent, DiscoverySocket, PacketEndpoint};
use crate::entropy::Entropy;
use crate::nat::{NatStatus, TransportProtocol};
use crate::node_files::SeenNodes;

/// How often is looked whether the dialer needs nodes.
const NEED_INTERVAL: Duration = Duration::from_secs(3);
/// How often the seen nodes are written.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// What the loop of discovery needs.
pub(super) struct FindingLoop {
    pub(super) core: Arc<Core>,
    pub(super) socket: DiscoverySocket,
    /// `None` if nodes are not remembered.
    pub(super) seen: Option<SeenNodes>,
    pub(super) endpoint: PacketEndpoint,
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
                    self.socket.set_kind(id, address, ContactKind::Uncle).await;
                }
                _ = need.tick() => self.look(None).await,
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
            DiscoveryEvent::Verified(node) => {
                if let Some(seen) = &mut self.seen {
                    seen.saw(node, self.core.now().unix);
                }
                vec![node]
            }
            DiscoveryEvent::LookupDone { nodes, .. } => nodes,
            DiscoveryEvent::Record(record) => record.contact().into_iter().collect(),
            // They are dialled once they have proven their addresses.
            DiscoveryEvent::Values { nodes, .. } => return self.socket.values().probe_all(&nodes).await,
        };
        self.core.state.lock().dialer.add_candidates(nodes);
        self.core.dial.notify_one();
    }

    /// Searches for nodes if the dialer needs some.
    async fn look(&mut self, target: Option<B512>) {
        let is_needed = self.core.state.lock().dialer.wants_candidates();
        if is_needed {
            let target = target.unwrap_or_else(|| B512::from(self.entropy.bytes::<64>()));
            self.socket.lookup(target).await;
        }
    }

    /// Tells other nodes the outside address and ports.
    async fn announce(&self, status: &NatStatus) {
        let outside = |protocol, port: u16| {
            let mapped = status.ports.iter();
            let mut mapped = mapped.filter(|(request, _)| request.protocol == protocol);
            mapped.next().map_or(port, |(_, outside)| *outside)
        };
        let endpoint = PacketEndpoint {
            ip: status.external_ip.unwrap_or(self.endpoint.ip),
            udp: outside(TransportProtocol::Udp, self.endpoint.udp),
            tcp: outside(TransportProtocol::Tcp, self.endpoint.tcp),
        };
        let fork_id = self.core.state.lock().hub.fork_id();
        self.socket.announce(endpoint, fork_id).await;
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

/// The endpoint of a node that listens on `port` and does not know its address.
pub(super) const fn endpoint(ip: IpAddr, port: u16) -> PacketEndpoint {
    PacketEndpoint {
        ip,
        udp: port,
        tcp: port,
    }
}
