//! The attack on discovery: many nodes of one address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use network::testing::{
    DiscoveryDialect, DiscoveryPacket, Entropy, PACKET_BYTES_MAX, PacketEndpoint, PacketTail,
};
use primitives::SecretKey;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::scene::AttackTarget;
use super::{AttackDone, HonestTimes};
use crate::Failure;

/// Nodes of one address.
const NODES: usize = 1100;
/// Time between two PINGs of a node.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Seconds for which a packet is valid.
const EXPIRY_SECS: u64 = 20;
/// Longest time until an honest node is dialled.
const DIALLED_MAX: Duration = Duration::from_secs(6);

/// A node that only speaks discovery.
struct PlayedContact {
    socket: UdpSocket,
    key: SecretKey,
    own: PacketEndpoint,
    target: PacketEndpoint,
    network_id: u64,
}

impl PlayedContact {
    async fn new(ip: IpAddr, tcp: u16, target: &AttackTarget, key: SecretKey) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((ip, 0)).await?;
        socket.connect(target.contact.udp_address()).await?;
        Ok(Self {
            own: PacketEndpoint::new(ip, socket.local_addr()?.port(), tcp),
            target: PacketEndpoint::new(target.contact.ip, target.contact.udp, target.contact.tcp),
            network_id: target.network_id,
            socket,
            key,
        })
    }

    async fn send(&self, packet: &DiscoveryPacket) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let (bytes, _) = packet.seal(&self.key, self.dialect(), now + EXPIRY_SECS);
        self.socket.send(&bytes).await?;
        Ok(())
    }

    const fn dialect(&self) -> DiscoveryDialect {
        DiscoveryDialect::Public {
            network_id: self.network_id,
        }
    }

    const fn tail(&self) -> PacketTail {
        PacketTail {
            record_sequence: None,
            network_id: Some(self.network_id),
        }
    }

    /// Sends PINGs, and answers those of the node, until `end`. Returns how many were sent.
    async fn live(&self, end: Instant) -> Result<u64, Failure> {
        let mut count = 0;
        let mut buffer = [0; PACKET_BYTES_MAX];
        while Instant::now() < end {
            self.send(&DiscoveryPacket::Ping {
                from: self.own,
                to: self.target,
                tail: self.tail(),
            })
            .await?;
            count += 1;
            let answer = async {
                loop {
                    let len = self.socket.recv(&mut buffer).await?;
                    let Ok(read) = DiscoveryPacket::open(&buffer[..len], self.dialect()) else {
                        continue;
                    };
                    if let DiscoveryPacket::Ping { .. } = read.packet {
                        self.send(&DiscoveryPacket::Pong {
                            to: self.target,
                            ping_hash: read.hash,
                            tail: self.tail(),
                        })
                        .await?;
                    }
                }
            };
            let left = end.saturating_duration_since(Instant::now());
            let _: Result<Result<(), Failure>, _> = timeout(left.min(PING_INTERVAL), answer).await;
        }
        Ok(count)
    }
}

/// Takes connections and says nothing, until it is dropped. Returns where.
async fn listen(ip: IpAddr) -> Result<(TcpListener, u16), Failure> {
    let listener = TcpListener::bind(SocketAddr::new(ip, 0)).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Sends PINGs of many nodes from one address. An honest node comes a second later.
pub(super) async fn send_pings_of_many(target: &AttackTarget, end: Instant) -> Result<AttackDone, Failure> {
    let ip = target.sources.attacker(0);
    let (listener, port) = listen(ip).await?;
    let mut attackers = JoinSet::new();
    let mut entropy = Entropy::from_system()?;
    for _ in 0..NODES {
        let contact = Arc::new(PlayedContact::new(ip, port, target, entropy.secret_key()).await?);
        attackers.spawn(async move { contact.live(end).await.unwrap_or_default() });
    }
    // Nobody answers the handshakes of the node.
    let holding = tokio::spawn(async move {
        let mut held = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.spawn(async move {
                sleep_until(end.into()).await;
                drop(stream);
            });
        }
    });
    sleep(Duration::from_secs(1)).await;
    let ip = target.sources.honest();
    let (listener, port) = listen(ip).await?;
    let honest = PlayedContact::new(ip, port, target, entropy.secret_key()).await?;
    let begun = Instant::now();
    let dialled = tokio::select! {
        accepted = listener.accept() => accepted.is_ok().then(|| begun.elapsed()),
        _ = honest.live(end) => None,
    };
    sleep_until(end.into()).await;
    holding.abort();
    Ok(AttackDone {
        count: attackers.join_all().await.iter().sum(),
        judged: None,
        honest: Some(HonestTimes {
            what: "the time until an honest node was dialled",
            missing: u64::from(dialled.is_none()),
            times: dialled.into_iter().collect(),
            median_max: DIALLED_MAX,
        }),
    })
}
