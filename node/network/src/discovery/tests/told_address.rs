//! The address in the record of a node that does not know where it is.

use super::strangers::send;
use super::*;
use crate::discovery::told_address::{TELLERS_MIN, TOLD_LIFETIME};

const HERE: [u8; 4] = [52, 1, 2, 3];
const ELSEWHERE: [u8; 4] = [53, 1, 2, 3];

/// A node that listens at `ip`.
fn listening(ip: [u8; 4], learns_address: bool) -> Discovery {
    let settings = DiscoverySettings {
        endpoint: PacketEndpoint::new(ip.into(), 30303, 30303),
        learns_address,
        ..settings(0, ETHEREUM, &[])
    };
    start(0, settings, Duration::ZERO)
}

/// The player with this number, at `ip`, proves its address and sees the node at `seen`.
fn meet(node: &mut Discovery, number: u16, ip: IpAddr, seen: [u8; 4], now: Duration) {
    let from = NodeContact {
        ip,
        ..contact(number)
    };
    let actions = send(node, &from, &key(number), &ping(&from, None), ETHEREUM, now);
    for action in actions {
        let DiscoveryAction::Send { packet, .. } = action else {
            continue;
        };
        let read = DiscoveryPacket::open(&packet, ETHEREUM).expect("a good packet");
        if matches!(read.packet, DiscoveryPacket::Ping { .. }) {
            let pong = DiscoveryPacket::Pong {
                to: PacketEndpoint::new(seen.into(), 30303, 0),
                ping_hash: read.hash,
                tail: PacketTail::default(),
            };
            send(node, &from, &key(number), &pong, ETHEREUM, now);
        }
    }
}

/// Players of as many neighbourhoods, from this number on.
fn meet_many(node: &mut Discovery, first: u16, count: usize, seen: [u8; 4], now: Duration) {
    for number in (first..).take(count) {
        meet(node, number, contact(number).ip, seen, now);
    }
}

fn told(node: &Discovery) -> Option<IpAddr> {
    node.record().claims().ip
}

#[test]
fn a_node_says_the_address_on_which_others_agree() {
    let mut now = Duration::from_secs(1);
    let mut node = listening([0, 0, 0, 0], true);
    assert_eq!(told(&node), None);
    // Players of one neighbourhood count as one.
    for number in 1..TELLERS_MIN as u16 {
        meet(&mut node, number, [60, 0, 0, number as u8].into(), HERE, now);
    }
    meet_many(&mut node, 100, TELLERS_MIN - 2, HERE, now);
    assert_eq!((told(&node), node.record().sequence()), (None, 1));
    meet_many(&mut node, 200, 1, HERE, now);
    assert_eq!((told(&node), node.record().sequence()), (Some(HERE.into()), 2));
    assert_eq!(node.record().claims().udp, 30303);
    // As many others are not enough, but those of before do not count for ever.
    meet_many(&mut node, 300, TELLERS_MIN, ELSEWHERE, now);
    assert_eq!(told(&node), Some(HERE.into()));
    now += TOLD_LIFETIME;
    meet_many(&mut node, 400, TELLERS_MIN - 1, ELSEWHERE, now);
    assert_eq!(told(&node), Some(HERE.into()));
    meet_many(&mut node, 500, 1, ELSEWHERE, now);
    assert_eq!(told(&node), Some(ELSEWHERE.into()));
    // The router, or the user, knows better.
    let known = PacketEndpoint::new([54, 1, 2, 3].into(), 30303, 30303);
    node.announce(known, None);
    meet_many(&mut node, 600, TELLERS_MIN, ELSEWHERE, now);
    assert_eq!((told(&node), node.record().sequence()), (Some(known.ip), 4));
}

#[test]
fn a_flood_of_words_does_not_keep_later_ones_out() {
    let now = Duration::from_secs(1);
    let mut node = listening([0, 0, 0, 0], true);
    meet_many(&mut node, 1, 400, ELSEWHERE, now);
    assert_eq!(told(&node), Some(ELSEWHERE.into()));
    let later = now + TOLD_LIFETIME / 2;
    meet_many(&mut node, 401, 200, HERE, later);
    assert_eq!(told(&node), Some(HERE.into()));
}

#[test]
fn a_node_that_is_reached_by_ipv6_sees_no_address_of_ipv4() {
    let now = Duration::from_secs(1);
    let mut node = listening([0, 0, 0, 0], true);
    for number in 1..=2 * TELLERS_MIN as u16 {
        let ip = [0x2a00, number, 0, 0, 0, 0, 0, 1];
        meet(&mut node, number, ip.into(), HERE, now);
    }
    assert_eq!(told(&node), None);
}

#[test]
fn others_are_believed_only_where_the_address_is_not_known() {
    let now = Duration::from_secs(1);
    for (listens, learns_address, seen, expected) in [
        ([0, 0, 0, 0], true, HERE, Some(HERE)),
        ([0, 0, 0, 0], false, HERE, None),
        ([0, 0, 0, 0], true, [192, 168, 0, 7], None),
        ([127, 0, 0, 1], true, HERE, Some([127, 0, 0, 1])),
        (ELSEWHERE, true, HERE, Some(ELSEWHERE)),
    ] {
        let mut node = listening(listens, learns_address);
        meet_many(&mut node, 1, TELLERS_MIN, seen, now);
        assert_eq!(told(&node), expected.map(IpAddr::from), "{listens:?} {seen:?}");
    }
}
