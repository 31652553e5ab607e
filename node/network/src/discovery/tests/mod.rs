//! Networks of nodes in one process, with a simulated clock: they find each other, and strangers
//! get little.

mod strangers;
mod told_address;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use primitives::{B512, SecretKey};

use super::*;
use crate::contact::NodeContact;
use crate::discovery::packet::PACKET_LIFETIME;
use crate::discovery::service::{ANSWER_TIMEOUT, REVALIDATION_INTERVAL, UNKNOWN_LIFETIME};
use crate::discovery::table::BUCKET_NODES_MAX;
use crate::entropy::Entropy;
use crate::moment::Moment;

const ETHEREUM: DiscoveryDialect = DiscoveryDialect::Ethereum;
const PUBLIC: DiscoveryDialect = DiscoveryDialect::Public { network_id: 99 };

fn key(number: u16) -> SecretKey {
    let mut bytes = [1; 32];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_bytes(&bytes).expect("in range")
}

fn contact(number: u16) -> NodeContact {
    let [high, low] = number.to_be_bytes();
    NodeContact {
        id: key(number).public_key(),
        ip: IpAddr::from([50, high, low, 1]),
        udp: 30303,
        tcp: 30303,
    }
}

fn settings(number: u16, dialect: DiscoveryDialect, seeds: &[NodeContact]) -> DiscoverySettings {
    let NodeContact { ip, udp, tcp, .. } = contact(number);
    DiscoverySettings {
        dialect,
        endpoint: PacketEndpoint::new(ip, udp, tcp),
        seeds: seeds.to_vec(),
        ranges: None,
        is_strict: false,
        fork_id: None,
        has_snap: false,
        record_sequence: 1,
        learns_address: false,
    }
}

fn moment(elapsed: Duration) -> Moment {
    Moment {
        elapsed,
        unix: Duration::from_secs(1_700_000_000) + elapsed,
    }
}

fn start(number: u16, settings: DiscoverySettings, now: Duration) -> Discovery {
    let entropy = Entropy::from_seed([number as u8; 32]);
    Discovery::new(key(number), settings, moment(now), entropy)
}

struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    packet: Vec<u8>,
}

/// A network: packets arrive after 20 ms.
#[derive(Default)]
struct Simulation {
    nodes: BTreeMap<SocketAddr, Discovery>,
    flights: VecDeque<(Duration, Flight)>,
    found: BTreeMap<SocketAddr, Vec<DiscoveryAction>>,
    now: Duration,
}

impl Simulation {
    fn add(&mut self, number: u16, settings: DiscoverySettings) {
        let discovery = start(number, settings, self.now);
        self.nodes.insert(contact(number).udp_address(), discovery);
    }

    fn node(&mut self, number: u16) -> &mut Discovery {
        self.nodes
            .get_mut(&contact(number).udp_address())
            .expect("in the network")
    }

    fn act(&mut self, from: SocketAddr, actions: Vec<DiscoveryAction>) {
        for action in actions {
            match action {
                DiscoveryAction::Send { to, packet } => {
                    assert!(packet.len() <= PACKET_BYTES_MAX);
                    let arrival = self.now + Duration::from_millis(20);
                    self.flights.push_back((arrival, Flight { from, to, packet }));
                }
                found => self.found.entry(from).or_default().push(found),
            }
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let timers = self.nodes.values().map(Discovery::deadline);
            let arrivals = self.flights.front().map(|(arrival, _)| *arrival);
            let next = timers.chain(arrivals).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let now = moment(self.now);
            while self
                .flights
                .front()
                .is_some_and(|(arrival, _)| *arrival <= self.now)
            {
                let Some((_, flight)) = self.flights.pop_front() else {
                    break;
                };
                if let Some(node) = self.nodes.get_mut(&flight.to) {
                    let actions = node
                        .handle(now, flight.from, &flight.packet)
                        .expect("a good packet");
                    self.act(flight.to, actions);
                }
            }
            let due = self.nodes.iter().filter(|(_, node)| node.deadline() <= self.now);
            let due: Vec<_> = due.map(|(address, _)| *address).collect();
            for address in due {
                let actions = self.nodes.get_mut(&address).map(|node| node.on_time(now));
                self.act(address, actions.unwrap_or_default());
            }
        }
    }

    fn lookup(&mut self, number: u16, target: B512) -> Vec<NodeContact> {
        let now = moment(self.now);
        let (lookup, actions) = self.node(number).lookup(target, now);
        let from = contact(number).udp_address();
        self.act(from, actions);
        self.run(Duration::from_secs(20));
        let found = self.found.remove(&from).unwrap_or_default();
        let done = found.into_iter().find_map(|action| match action {
            DiscoveryAction::Tell(DiscoveryEvent::LookupDone { lookup: done, nodes })
                if Some(done) == lookup =>
            {
                Some(nodes)
            }
            _ => None,
        });
        done.expect("the search ends")
    }
}

#[test]
fn nodes_find_each_other_from_one_bootnode() {
    for dialect in [ETHEREUM, PUBLIC] {
        let mut network = Simulation::default();
        network.add(0, settings(0, dialect, &[]));
        for number in 1..40 {
            network.add(number, settings(number, dialect, &[contact(0)]));
            network.run(Duration::from_secs(1));
        }
        network.run(Duration::from_secs(20));
        let sizes: Vec<_> = network.nodes.values().map(Discovery::len).collect();
        assert!(sizes.iter().all(|size| *size >= 16), "{dialect:?} {sizes:?}");
        let target = contact(33).id;
        let found = network.lookup(7, target);
        assert!(found.contains(&contact(33)), "{dialect:?}");
        let mut all: Vec<_> = (0..40).filter(|number| *number != 7).map(contact).collect();
        all.sort_by_key(|node| node.hash() ^ primitives::keccak256(target));
        let right = found.iter().filter(|node| all[..16].contains(node)).count();
        assert!(right >= 14, "{right} of the 16 closest");
        // Nodes that vanish leave the tables.
        for number in 25..40 {
            network.nodes.remove(&contact(number).udp_address());
        }
        network.run(Duration::from_secs(400));
        let gone: Vec<_> = (25..40).map(contact).collect();
        let left: usize = network
            .nodes
            .values()
            .map(|node| node.nodes().filter(|(known, _)| gone.contains(known)).count())
            .sum();
        let all: usize = network.nodes.values().map(Discovery::len).sum();
        assert!(
            left * 10 < all,
            "{left} of {all} entries are of nodes that are gone"
        );
    }
}

#[test]
fn records_are_asked_for() {
    let mut network = Simulation::default();
    network.add(0, settings(0, ETHEREUM, &[]));
    network.add(1, settings(1, ETHEREUM, &[contact(0)]));
    network.run(Duration::from_secs(5));
    let found = network
        .found
        .remove(&contact(1).udp_address())
        .expect("something");
    let record = found.iter().find_map(|action| match action {
        DiscoveryAction::Tell(DiscoveryEvent::Record { record, .. }) => Some(record.clone()),
        _ => None,
    });
    assert_eq!(record.and_then(|record| record.contact()), Some(contact(0)));
    assert!(found.contains(&DiscoveryAction::Tell(DiscoveryEvent::Verified(contact(0)))));
    // A new address is announced by the next number.
    let old = network.node(0).record().sequence();
    let endpoint = PacketEndpoint::new(contact(0).ip, 30303, 7);
    network.node(0).announce(endpoint, None);
    network.node(0).announce(endpoint, None);
    assert_eq!(network.node(0).record().sequence(), old + 1);
}

/// Sends a packet to a node and returns what it sends at once.
fn ask(
    node: &mut Discovery,
    from: &NodeContact,
    key: &SecretKey,
    packet: &DiscoveryPacket,
    dialect: DiscoveryDialect,
    now: Duration,
) -> Vec<DiscoveryPacket> {
    let now = moment(now);
    let expiry = (now.unix + PACKET_LIFETIME).as_secs();
    let (bytes, _) = packet.seal(key, dialect, expiry);
    let actions = node
        .handle(now, from.udp_address(), &bytes)
        .expect("a good packet");
    let sent = actions.into_iter().filter_map(|action| match action {
        DiscoveryAction::Send { to, packet } => {
            assert_eq!(to, from.udp_address());
            Some(
                DiscoveryPacket::open(&packet, dialect)
                    .expect("a good packet")
                    .packet,
            )
        }
        _ => None,
    });
    sent.collect()
}

fn ping(from: &NodeContact, network_id: Option<u64>) -> DiscoveryPacket {
    let endpoint = PacketEndpoint::new(from.ip, from.udp, from.tcp);
    let tail = PacketTail {
        record_sequence: Some(1),
        network_id,
    };
    DiscoveryPacket::Ping {
        from: endpoint,
        to: endpoint,
        tail,
    }
}

/// Makes a bond between node 1, which is played here, and `node`.
fn bond(node: &mut Discovery, number: u16, dialect: DiscoveryDialect, network_id: u64, now: Duration) {
    let from = contact(number);
    let now_moment = moment(now);
    let expiry = (now_moment.unix + PACKET_LIFETIME).as_secs();
    let (bytes, _) = ping(&from, Some(network_id)).seal(&key(number), dialect, expiry);
    let actions = node
        .handle(now_moment, from.udp_address(), &bytes)
        .expect("a good packet");
    for action in actions {
        let DiscoveryAction::Send { packet, .. } = action else {
            continue;
        };
        let read = DiscoveryPacket::open(&packet, dialect).expect("a good packet");
        if let DiscoveryPacket::Ping { from: sender, .. } = read.packet {
            let pong = DiscoveryPacket::Pong {
                to: sender,
                ping_hash: read.hash,
                tail: PacketTail {
                    record_sequence: None,
                    network_id: Some(network_id),
                },
            };
            ask(node, &from, &key(number), &pong, dialect, now);
        }
    }
}

#[test]
fn strangers_get_a_pong_and_nothing_larger() {
    for dialect in [ETHEREUM, PUBLIC] {
        let now = Duration::from_secs(1);
        let mut node = start(0, settings(0, dialect, &[]), now);
        for number in 2..40 {
            bond(&mut node, number, dialect, 99, now);
        }
        assert!(node.len() >= 16);
        let stranger = contact(1);
        let find = DiscoveryPacket::FindNode {
            target: contact(5).id,
            brothers_only: false,
        };
        let requests = match dialect {
            DiscoveryDialect::Ethereum => vec![find.clone(), DiscoveryPacket::EnrRequest],
            DiscoveryDialect::Public { .. } => vec![
                find.clone(),
                DiscoveryPacket::FindValue { key: contact(5).id },
                DiscoveryPacket::Store {
                    key: contact(5).id,
                    from: PacketEndpoint::new(stranger.ip, 1, 1),
                },
            ],
        };
        for request in &requests {
            assert_eq!(ask(&mut node, &stranger, &key(1), request, dialect, now), []);
        }
        // A PING is answered by a PONG, and by a PING that asks for the proof.
        let request = ping(&stranger, Some(99));
        let answers = ask(&mut node, &stranger, &key(1), &request, dialect, now);
        assert!(
            matches!(
                answers[..],
                [DiscoveryPacket::Pong { .. }, DiscoveryPacket::Ping { .. }]
            ),
            "{answers:?}"
        );
        assert_eq!(
            ask(&mut node, &stranger, &key(1), &find, dialect, now),
            [],
            "no proof yet"
        );
        // The proof counts at the address where it was given.
        bond(&mut node, 1, dialect, 99, now + ANSWER_TIMEOUT);
        node.on_time(moment(now + 2 * ANSWER_TIMEOUT));
        bond(&mut node, 1, dialect, 99, now + 2 * ANSWER_TIMEOUT);
        let answers = ask(
            &mut node,
            &stranger,
            &key(1),
            &find,
            dialect,
            now + 2 * ANSWER_TIMEOUT,
        );
        let told: usize = answers
            .iter()
            .map(|packet| match packet {
                DiscoveryPacket::Neighbors { nodes } => nodes.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(told, BUCKET_NODES_MAX);
        let moved = NodeContact {
            ip: IpAddr::from([60, 1, 1, 1]),
            ..stranger
        };
        assert_eq!(
            ask(
                &mut node,
                &moved,
                &key(1),
                &find,
                dialect,
                now + 2 * ANSWER_TIMEOUT
            ),
            []
        );
    }
}

#[test]
fn a_flood_of_strangers_is_answered_in_part() {
    let now = Duration::from_secs(1);
    let mut node = start(0, settings(0, ETHEREUM, &[]), now);
    let (mut received, mut sent) = (0, 0);
    for number in 1..1000 {
        let from = contact(number);
        let (bytes, _) = ping(&from, None).seal(&key(number), ETHEREUM, u64::MAX);
        received += bytes.len();
        let actions = node
            .handle(moment(now), from.udp_address(), &bytes)
            .expect("good");
        sent += actions
            .iter()
            .map(|action| match action {
                DiscoveryAction::Send { packet, .. } => packet.len(),
                _ => 0,
            })
            .sum::<usize>();
    }
    assert!(sent < received, "sent {sent}, received {received}");
    let later = now + Duration::from_secs(1);
    let answers = ask(
        &mut node,
        &contact(1),
        &key(1),
        &ping(&contact(1), None),
        ETHEREUM,
        later,
    );
    assert!(!answers.is_empty(), "the next second");
}

#[test]
fn expired_wrong_and_own_packets_do_nothing() {
    let now = moment(Duration::from_secs(1));
    let mut node = start(0, settings(0, ETHEREUM, &[]), now.elapsed);
    let from = contact(1);
    let mut send = |key: &SecretKey, expiry: u64| {
        let (bytes, _) = ping(&from, None).seal(key, ETHEREUM, expiry);
        node.handle(now, from.udp_address(), &bytes)
    };
    assert_eq!(send(&key(1), now.unix.as_secs() - 1), Ok(Vec::new()));
    assert_eq!(send(&key(0), now.unix.as_secs() + 1), Ok(Vec::new()));
    assert_eq!(
        send(&key(1), now.unix.as_secs()).map(|actions| actions.len()),
        Ok(2)
    );
    // A PONG that nobody asked for is no proof.
    let pong = DiscoveryPacket::Pong {
        to: PacketEndpoint::new(from.ip, 1, 1),
        ping_hash: primitives::B256::ZERO,
        tail: PacketTail::default(),
    };
    assert_eq!(ask(&mut node, &from, &key(1), &pong, ETHEREUM, now.elapsed), []);
    assert!(node.is_empty());
    // Nodes outside of the ranges do not exist.
    let narrow = DiscoverySettings {
        ranges: Some("127.0.0.0/8".parse().expect("a range")),
        ..settings(0, ETHEREUM, &[])
    };
    let mut node = start(0, narrow, now.elapsed);
    assert_eq!(
        ask(
            &mut node,
            &from,
            &key(1),
            &ping(&from, None),
            ETHEREUM,
            now.elapsed
        ),
        []
    );
}

#[test]
fn kinds_of_the_public_network() {
    let now = Duration::from_secs(1);
    let mut node = start(0, settings(0, PUBLIC, &[]), now);
    bond(&mut node, 1, PUBLIC, 99, now);
    bond(&mut node, 2, PUBLIC, 101, now);
    let kinds: Vec<_> = node.nodes().collect();
    assert_eq!(kinds, [(contact(1), ContactKind::Brother)]);
    // Packets of a node of another network are ignored from now on.
    let again = ping(&contact(2), Some(99));
    assert_eq!(ask(&mut node, &contact(2), &key(2), &again, PUBLIC, now), []);
    // A node that does not say its network is unknown. It is not told to others.
    let request = ping(&contact(3), None);
    let answers = ask(&mut node, &contact(3), &key(3), &request, PUBLIC, now);
    assert_eq!(answers.len(), 2);
    node.set_kind(&contact(3).id, contact(3).ip, ContactKind::Uncle, moment(now));
    node.set_kind(&contact(1).id, contact(1).ip, ContactKind::Alien, moment(now));
    assert_eq!(node.nodes().count(), 1, "a kind does not fall");
    let find = DiscoveryPacket::FindNode {
        target: contact(9).id,
        brothers_only: true,
    };
    let answers = ask(&mut node, &contact(1), &key(1), &find, PUBLIC, now);
    let nodes = vec![contact(1)];
    assert_eq!(answers, [DiscoveryPacket::Neighbors { nodes }]);
    // Without anyone to tell, nothing is sent.
    let mut lonely = start(0, settings(0, PUBLIC, &[]), now);
    bond(&mut lonely, 1, PUBLIC, 0, now);
    assert_eq!(lonely.nodes().next(), Some((contact(1), ContactKind::Unknown)));
    assert_eq!(ask(&mut lonely, &contact(1), &key(1), &find, PUBLIC, now), []);
    // An unknown node leaves the table.
    let mut later = now;
    while later < now + UNKNOWN_LIFETIME + REVALIDATION_INTERVAL {
        later = lonely.deadline().max(later + Duration::from_millis(1));
        lonely.on_time(moment(later));
    }
    assert!(lonely.is_empty());
    // A strict node answers brothers only.
    let strict = DiscoverySettings {
        is_strict: true,
        ..settings(0, PUBLIC, &[])
    };
    let mut strict = start(0, strict, now);
    assert_eq!(
        ask(
            &mut strict,
            &contact(3),
            &key(3),
            &ping(&contact(3), None),
            PUBLIC,
            now
        ),
        []
    );
    assert_eq!(
        ask(
            &mut strict,
            &contact(4),
            &key(4),
            &ping(&contact(4), Some(99)),
            PUBLIC,
            now
        )
        .len(),
        2
    );
}

#[test]
fn values_are_kept_and_found() {
    let mut network = Simulation::default();
    network.add(0, settings(0, PUBLIC, &[]));
    for number in 1..4 {
        network.add(number, settings(number, PUBLIC, &[contact(0)]));
    }
    network.run(Duration::from_secs(30));
    let subnet = B512::repeat_byte(0x30);
    for number in 1..3 {
        let now = moment(network.now);
        let node = network.node(number);
        let nodes = node.closest(&subnet, 16, true);
        assert!(!nodes.is_empty());
        let actions = node.store_at(subnet, &nodes, now);
        network.act(contact(number).udp_address(), actions);
    }
    network.run(Duration::from_secs(1));
    network.found.clear();
    let now = moment(network.now);
    let actions = network.node(3).find_values_at(subnet, &[contact(0)], now);
    network.act(contact(3).udp_address(), actions);
    network.run(Duration::from_secs(1));
    let found = network
        .found
        .remove(&contact(3).udp_address())
        .expect("an answer");
    let [DiscoveryAction::Tell(DiscoveryEvent::Values { key, nodes })] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(*key, subnet);
    let mut ids: Vec<_> = nodes.iter().filter_map(NodeContact::from_enode).collect();
    ids.sort_by_key(|node| node.ip);
    assert_eq!(ids, [contact(1), contact(2)]);
}

#[test]
fn a_record_is_asked_for_if_the_node_says_that_it_has_one() {
    for (dialect, expected) in [(ETHEREUM, 1), (PUBLIC, 0)] {
        let mut simulation = Simulation::default();
        simulation.add(1, settings(1, dialect, &[]));
        simulation.add(2, settings(2, dialect, &[contact(1)]));
        let now = moment(simulation.now);
        let actions = simulation.node(2).request_announced_record(&contact(1), now);
        assert_eq!(actions, [], "nothing is known of the node");
        simulation.run(Duration::from_secs(2));
        let now = moment(simulation.now);
        let actions = simulation.node(2).request_announced_record(&contact(1), now);
        assert_eq!(actions.len(), expected, "{dialect:?}");
    }
}
