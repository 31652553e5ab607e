//! Strangers with many nodes at one address, and nodes that tell of addresses that are not theirs.

use super::*;
use crate::dial::{DIALS_MAX, DialSettings, Dialer};
use crate::discovery::packet::PACKET_LIFETIME;
use crate::discovery::service::{
    LASTING_AGE, PACKETS_IN_SECOND, REVALIDATION_INTERVAL, UNPROVEN_PINGS_IN_SECOND,
};
use crate::discovery::table::TABLE_NEIGHBOURS_MAX;
use crate::enr::{NodeClaims, NodeRecord};

/// A node of the attacker, who has one address.
fn crowd(number: u16) -> NodeContact {
    NodeContact {
        ip: IpAddr::from([60, 0, 0, 1]),
        ..contact(number)
    }
}

/// Lets the player of `from` send `packet`. Returns all that the node does.
pub(super) fn send(
    node: &mut Discovery,
    from: &NodeContact,
    key: &SecretKey,
    packet: &DiscoveryPacket,
    dialect: DiscoveryDialect,
    now: Duration,
) -> Vec<DiscoveryAction> {
    let expiry = (moment(now).unix + PACKET_LIFETIME).as_secs();
    let (bytes, _) = packet.seal(key, dialect, expiry);
    let actions = node.handle(moment(now), from.udp_address(), &bytes);
    actions.expect("a good packet")
}

/// Answers the PINGs among the actions. Returns what follows.
fn answer_pings(
    node: &mut Discovery,
    from: &NodeContact,
    key: &SecretKey,
    actions: &[DiscoveryAction],
    now: Duration,
) -> Vec<DiscoveryAction> {
    let mut followed = Vec::new();
    for action in actions {
        let DiscoveryAction::Send { packet, .. } = action else {
            continue;
        };
        let read = DiscoveryPacket::open(packet, ETHEREUM).expect("a good packet");
        if matches!(read.packet, DiscoveryPacket::Ping { .. }) {
            let pong = DiscoveryPacket::Pong {
                to: PacketEndpoint::new(from.ip, from.udp, 0),
                ping_hash: read.hash,
                tail: PacketTail::default(),
            };
            followed.extend(send(node, from, key, &pong, ETHEREUM, now));
        }
    }
    followed
}

#[test]
fn one_address_gets_a_share_of_answers_and_dials() {
    let mut node = start(0, settings(0, ETHEREUM, &[]), Duration::ZERO);
    let mut dialer = Dialer::new(
        DialSettings {
            id: contact(0).id,
            peers_max: 25,
            dials_max: DIALS_MAX,
            ranges: None,
        },
        Entropy::from_seed([1; 32]),
    );
    // The player of `from` proves its address. Returns the nodes that are dialled then.
    let mut prove = |from: NodeContact, number: u16, now: Duration| {
        let actions = send(&mut node, &from, &key(number), &ping(&from, None), ETHEREUM, now);
        let followed = answer_pings(&mut node, &from, &key(number), &actions, now);
        let proven = followed.into_iter().filter_map(|action| match action {
            DiscoveryAction::Tell(DiscoveryEvent::Verified(contact)) => Some(contact),
            _ => None,
        });
        dialer.add_candidates(proven);
        let tasks = dialer.next(now);
        for task in &tasks {
            dialer.ended(&task.target.contact.id, true, now);
        }
        (!actions.is_empty(), tasks.len())
    };
    // 1,100 nodes of one address in 1.4 s, each of which answers and becomes a peer if it is
    // dialled.
    let (mut answered, mut dialled) = (0, 0);
    for number in 1000..2100 {
        let now = Duration::from_micros(1300 * u64::from(number - 1000));
        let (is_answered, dials) = prove(crowd(number), number, now);
        answered += usize::from(is_answered);
        dialled += dials;
    }
    assert_eq!(
        answered,
        2 * UNPROVEN_PINGS_IN_SECOND.host as usize,
        "in two seconds"
    );
    assert_eq!(dialled, 2, "a quarter of the 8 places");
    let other = prove(contact(1), 1, Duration::from_millis(1430));
    assert_eq!(other, (true, 1), "another node is answered and dialled at once");
    let entries = node.nodes().filter(|(node, _)| node.ip == crowd(0).ip);
    assert!(entries.count() <= TABLE_NEIGHBOURS_MAX);
}

#[test]
fn a_flood_of_one_host_costs_few_signatures() {
    let now = Duration::from_secs(1);
    let mut node = start(0, settings(0, ETHEREUM, &[]), now);
    // A packet whose signature is wrong, so that only its cost counts.
    let (mut packet, _) = ping(&contact(1), None).seal(&key(1), ETHEREUM, u64::MAX);
    packet[40] ^= 1;
    let hash = primitives::keccak256(&packet[32..]);
    packet[..32].copy_from_slice(hash.as_slice());
    let mut checked = |from: NodeContact| {
        let result = node.handle(moment(now), from.udp_address(), &packet);
        // A packet that is not looked at has no actions.
        result != Ok(Vec::new())
    };
    let flood = (0..5000).filter(|_| checked(crowd(1)));
    assert_eq!(flood.count(), PACKETS_IN_SECOND.host as usize);
    assert!(checked(contact(1)), "a packet of another host");
}

#[test]
fn whoever_was_asked_is_answered_in_a_flood() {
    let now = Duration::from_secs(1);
    let mut node = start(0, settings(0, ETHEREUM, &[]), now);
    node.probe(contact(1), moment(now));
    for number in 1000..1400 {
        // Forged addresses, each from a network of its own.
        send(
            &mut node,
            &contact(number),
            &key(7),
            &ping(&contact(number), None),
            ETHEREUM,
            now,
        );
    }
    let mut is_answered = |number: u16| {
        let from = contact(number);
        let actions = send(&mut node, &from, &key(number), &ping(&from, None), ETHEREUM, now);
        !actions.is_empty()
    };
    assert!(!is_answered(2), "the flood has used this second");
    assert!(is_answered(1));
}

#[test]
fn a_record_cannot_name_the_address_of_another() {
    let now = Duration::from_secs(1);
    let (own, elsewhere) = (contact(1), contact(2));
    let at = |ip: IpAddr| NodeContact { ip, ..own };
    let lan = |last| at(IpAddr::from([192, 168, 0, last]));
    // The sender of the record, the address in it, and whether it is asked.
    for (from, named, is_asked) in [
        (own, own, false),
        (own, at(elsewhere.ip), true),
        (own, lan(7), false),
        (own, at(IpAddr::from([127, 0, 0, 1])), false),
        (own, at(IpAddr::from([169, 254, 0, 1])), false),
        (own, at(IpAddr::from([224, 0, 0, 1])), false),
        (lan(6), lan(7), true),
        (lan(6), at(IpAddr::from([127, 0, 0, 1])), false),
    ] {
        let mut node = start(0, settings(0, ETHEREUM, &[]), now);
        node.ask_for_record(from.id, from.udp_address(), moment(now));
        let request = node.take_actions();
        let [DiscoveryAction::Send { packet, .. }] = &request[..] else {
            panic!("a request: {request:?}")
        };
        let request_hash = DiscoveryPacket::open(packet, ETHEREUM)
            .expect("a good packet")
            .hash;
        let claims = NodeClaims {
            ip: Some(named.ip),
            tcp: named.tcp,
            udp: named.udp,
            fork_id: None,
            has_snap: false,
        };
        let record = NodeRecord::sign(&key(1), 1, &claims);
        let response = DiscoveryPacket::EnrResponse {
            request_hash,
            record: record.encode().into(),
        };
        let actions = send(&mut node, &from, &key(1), &response, ETHEREUM, now);
        let told = DiscoveryAction::Tell(DiscoveryEvent::Record {
            record: Box::new(record),
            from: from.ip,
        });
        assert!(actions.contains(&told), "{from} {named}");
        let asked = actions.iter().filter_map(|action| match action {
            DiscoveryAction::Send { to, .. } => Some(*to),
            _ => None,
        });
        let asked: Vec<_> = asked.collect();
        let expected: Vec<_> = is_asked.then(|| named.udp_address()).into_iter().collect();
        assert_eq!(asked, expected, "{from} {named}");
        // Once the node has answered there, it is known to be there.
        let followed = answer_pings(&mut node, &named, &key(1), &actions, now);
        assert_eq!(
            followed.contains(&DiscoveryAction::Tell(DiscoveryEvent::Verified(named))),
            is_asked,
            "{from} {named}"
        );
    }
}

#[test]
fn values_cannot_name_local_addresses() {
    let now = Duration::from_secs(1);
    let key_of_values = B512::repeat_byte(3);
    let value = |ip: [u8; 4]| {
        NodeContact {
            ip: ip.into(),
            ..contact(2)
        }
        .to_enode()
        .to_string()
    };
    let named = format!("enode://{}@node.example:30333", "6f".repeat(64));
    let texts = [
        value([127, 0, 0, 1]),
        value([10, 0, 0, 1]),
        named,
        value([51, 0, 0, 1]),
        String::new(),
    ];
    let answer = DiscoveryPacket::FindValueReply {
        key: key_of_values,
        value: texts.join(",").into_bytes().into(),
    };
    let told = |from: NodeContact| {
        let mut node = start(0, settings(0, PUBLIC, &[]), now);
        node.find_values_at(key_of_values, &[from], moment(now));
        let actions = send(&mut node, &from, &key(1), &answer, PUBLIC, now);
        let [DiscoveryAction::Tell(DiscoveryEvent::Values { nodes, .. })] = &actions[..] else {
            panic!("{actions:?}")
        };
        nodes.len()
    };
    assert_eq!(told(contact(1)), 1);
    let local = NodeContact {
        ip: IpAddr::from([10, 0, 0, 2]),
        ..contact(1)
    };
    assert_eq!(told(local), 2);
}

#[test]
fn nodes_that_last_are_named() {
    let mut network = Simulation::default();
    network.add(0, settings(0, ETHEREUM, &[]));
    network.add(1, settings(1, ETHEREUM, &[contact(0)]));
    let lasting = |network: &Simulation| {
        let found = network.found.get(&contact(1).udp_address());
        found.is_some_and(|found| found.contains(&DiscoveryAction::Tell(DiscoveryEvent::Lasting(contact(0)))))
    };
    network.run(LASTING_AGE);
    assert!(!lasting(&network), "the node is too young");
    network.run(3 * REVALIDATION_INTERVAL);
    assert!(lasting(&network));
}
