//! The nodes that the dialer names, and the times at which it does.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn contact(number: u16) -> NodeContact {
    let [high, low] = number.to_be_bytes();
    let mut id = B512::repeat_byte(7);
    id[..2].copy_from_slice(&[high, low]);
    NodeContact {
        id,
        ip: IpAddr::from([50, high, low, 1]),
        udp: 30303,
        tcp: 30303,
    }
}

/// A node of a neighbourhood that has many.
fn neighbour(number: u16) -> NodeContact {
    NodeContact {
        ip: IpAddr::from([60, 0, 0, number as u8]),
        ..contact(number)
    }
}

fn dialer(peers_max: usize) -> Dialer {
    let settings = DialSettings {
        id: contact(9999).id,
        peers_max,
        dials_max: DIALS_MAX,
        ranges: None,
    };
    Dialer::new(settings, Entropy::from_seed([1; 32]))
}

fn numbers(tasks: &[DialTask]) -> BTreeSet<u16> {
    let number = |task: &DialTask| u16::from_be_bytes([task.target.contact.id[0], task.target.contact.id[1]]);
    tasks.iter().map(number).collect()
}

#[test]
fn a_third_of_the_places_is_for_dialled_nodes() {
    for (peers_max, expected) in [(0, 0), (1, 1), (2, 1), (25, 8), (50, 16)] {
        assert_eq!(dialer(peers_max).dialled_max(), expected);
    }
    let mut dialer = dialer(9);
    assert!(dialer.wants_candidates());
    dialer.add_candidates((0..10).map(contact));
    let first = numbers(&dialer.next(seconds(0)));
    assert_eq!(first.len(), 3);
    assert_eq!(dialer.next(seconds(0)), []);
    let ids: Vec<_> = first.iter().map(|number| contact(*number).id).collect();
    dialer.ended(&ids[0], true, seconds(1));
    assert_eq!(dialer.dialled(&ids[0]).map(|contact| contact.id), Some(ids[0]));
    dialer.ended(&ids[1], false, seconds(1));
    assert_eq!(dialer.dialled(&ids[1]), None);
    assert_eq!(dialer.next(seconds(1)).len(), 1);
    // Nodes that came by themselves take no such place, and are not dialled.
    for number in 0..10 {
        dialer.came_in(contact(number).id, Some(contact(number).ip));
    }
    dialer.left(&ids[0], seconds(2));
    assert_eq!(dialer.next(seconds(2)), [], "all are peers already");
    assert!(dialer.wants_candidates());
    assert_eq!(dialer.connected.len(), 9);
}

#[test]
fn no_more_than_sixteen_at_once() {
    let mut dialer = dialer(300);
    dialer.add_candidates((0..2000).map(contact));
    for number in 3000..3010 {
        assert!(dialer.add_static(contact(number), seconds(0)));
    }
    let tasks = dialer.next(seconds(0));
    assert_eq!(tasks.len(), DIALS_MAX);
    assert!(tasks[..10].iter().all(|task| task.is_static));
    assert!(tasks[10..].iter().all(|task| !task.is_static));
}

#[test]
fn pending_dials_are_an_option() {
    let mut dialer = dialer(300);
    dialer.settings.dials_max = 2;
    dialer.add_candidates((0..9).map(contact));
    assert!(dialer.add_static(contact(20), seconds(0)));
    let tasks = dialer.next(seconds(0));
    assert_eq!(tasks.len(), 2);
    assert!(numbers(&tasks).contains(&20));
    dialer.ended(&tasks[1].target.contact.id, false, seconds(1));
    assert_eq!(dialer.next(seconds(1)).len(), 1);
}

#[test]
fn the_same_node_waits_thirty_seconds() {
    let mut dialer = dialer(9);
    let mut dial = |second| {
        dialer.add_candidates([contact(1)]);
        let tasks = dialer.next(seconds(second));
        dialer.ended(&contact(1).id, false, seconds(second));
        tasks.len()
    };
    assert_eq!([0, 1, 29, 30, 31, 60].map(&mut dial), [1, 0, 0, 1, 0, 1]);
}

#[test]
fn static_nodes_are_tried_for_ever_but_less_often() {
    // A node with a name is one whose name has not been resolved.
    let named = format!("enode://{}@node.invalid:30303", "6f".repeat(64));
    let named: primitives::Enode = named.parse().expect("an enode");
    for target in [DialTarget::from(contact(1)), DialTarget::from(&named)] {
        let id = target.contact.id;
        let mut dialer = dialer(0);
        dialer.settings.ranges = Some("50.0.0.0/8".parse().expect("a range"));
        dialer.add_static(target.clone(), seconds(0));
        let mut times = Vec::new();
        for second in 0..1500 {
            for task in dialer.next(seconds(second)) {
                assert!(task.is_static);
                assert_eq!(task.target, target);
                assert_eq!(task.failures as usize, times.len());
                times.push(second);
                dialer.ended(&id, false, seconds(second));
            }
        }
        assert_eq!(times, [0, 30, 90, 210, 450, 750, 1050, 1350]);
        // Once connected it is not dialled; when it is lost, it is dialled at once.
        assert_eq!(dialer.next(seconds(2000)).len(), 1);
        dialer.ended(&id, true, seconds(2000));
        assert_eq!(dialer.next(seconds(2999)), []);
        dialer.left(&id, seconds(3000));
        assert_eq!(dialer.next(seconds(3000)).len(), 1);
        assert!(dialer.is_static(&id));
        assert!(dialer.remove_static(&id));
        assert!(!dialer.remove_static(&id));
    }
}

#[test]
fn nodes_that_cannot_be_dialled() {
    let settings = DialSettings {
        id: contact(1).id,
        peers_max: 30,
        dials_max: DIALS_MAX,
        ranges: Some("50.0.0.0/16".parse().expect("a range")),
    };
    let mut dialer = Dialer::new(settings, Entropy::from_seed([1; 32]));
    let closed = NodeContact { tcp: 0, ..contact(2) };
    dialer.add_candidates([contact(1), closed, contact(3), contact(300), contact(3)]);
    assert_eq!(numbers(&dialer.next(seconds(0))), BTreeSet::from([3]));
}

#[test]
fn a_neighbourhood_gets_a_share_of_the_dialled_places() {
    let mut dialer = dialer(25);
    let share = dialer.dialled_neighbours_max();
    assert_eq!((dialer.dialled_max(), share), (8, 2));
    // An attacker with one address offers node after node; each becomes a peer at once.
    for number in 1000..2100 {
        dialer.add_candidates([neighbour(number)]);
        for task in dialer.next(seconds(0)) {
            dialer.ended(&task.target.contact.id, true, seconds(0));
        }
    }
    assert_eq!(dialer.connected.len(), share);
    assert!(dialer.wants_candidates(), "the other places are still looked for");
    // A node from elsewhere is dialled at once, whoever else waits.
    dialer.add_candidates((3000..3100).map(neighbour));
    dialer.add_candidates([contact(1)]);
    assert_eq!(numbers(&dialer.next(seconds(1))), BTreeSet::from([1]));
    // The neighbours of a peer that leaves may come again.
    let gone = dialer.connected.keys().next().copied().expect("a peer");
    dialer.left(&gone, seconds(2));
    dialer.add_candidates((3000..3100).map(neighbour));
    assert_eq!(dialer.next(seconds(2)).len(), 1);
    // Static nodes are exempt.
    for number in 4000..4010 {
        dialer.add_static(neighbour(number), seconds(3));
    }
    assert_eq!(dialer.next(seconds(3)).len(), 10);
}

#[test]
fn a_neighbourhood_gets_a_share_of_the_inbound_places() {
    let mut dialer = dialer(25);
    let share = dialer.inbound_neighbours_max();
    assert_eq!(share, 4);
    let mut come_in = |node: NodeContact| {
        let is_let_in = dialer.may_come_in(node.ip);
        if is_let_in {
            dialer.came_in(node.id, Some(node.ip));
        }
        is_let_in
    };
    let let_in = (0..17).filter(|number| come_in(neighbour(*number))).count();
    assert_eq!(let_in, share);
    assert!(come_in(contact(100)), "a node from elsewhere");
    let local = |number| NodeContact {
        ip: IpAddr::from([192, 168, 0, 1]),
        ..contact(number)
    };
    assert!((200..220).all(|number| come_in(local(number))));
    // Trusted nodes do not count.
    dialer.left(&neighbour(0).id, seconds(1));
    dialer.came_in(neighbour(50).id, None);
    assert!(dialer.may_come_in(neighbour(51).ip));
}

proptest! {
    #[test]
    fn shares_hold_whatever_happens(
        peers_max in 0..60_usize,
        steps in proptest::collection::vec((0..4_u8, any::<u16>(), 0..6_u8), 1..400)
    ) {
        let mut dialer = dialer(peers_max);
        for (second, (kind, number, network)) in steps.into_iter().enumerate() {
            let now = seconds(second as u64);
            let node = NodeContact { ip: IpAddr::from([60, 0, network, number as u8]), ..contact(number) };
            match kind {
                0 => dialer.add_candidates([node]),
                1 => {
                    for task in dialer.next(now) {
                        dialer.ended(&task.target.contact.id, number % 3 != 0, now);
                    }
                }
                2 => {
                    let first = dialer.connected.keys().next().copied();
                    if let Some(id) = first {
 dialer.left(&id, now);
 }
                }
                _ => {
                    dialer.next(now);
                }
            }
            let mut counts = BTreeMap::<_, usize>::new();
            for contact in dialer.dialled_contacts() {
                *counts.entry(Neighbourhood::of(contact.ip)).or_default() += 1;
            }
            let share = dialer.dialled_neighbours_max();
            prop_assert!(counts.values().all(|count| *count <= share), "{counts:?}");
            prop_assert!(counts.values().sum::<usize>() <= dialer.dialled_max());
        }
    }
}
