//! Tests of the roster.

use super::*;
use crate::messages::WireFamily;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A peer with this head, alone in its network.
fn facts(peer: u8, total_difficulty: u64) -> PeerFacts {
    PeerFacts {
        has_snap: false,
        peer: PeerId(peer.into()),
        node: B512::repeat_byte(peer),
        protocol: WireFamily::Mc.protocol(63).expect("known"),
        head: B256::repeat_byte(peer),
        total_difficulty: U256::from(total_difficulty),
        address: IpAddr::from([10, 0, peer, 1]),
        is_exempt: false,
    }
}

fn open_heads(roster: &Roster, above: u64) -> Vec<OpenHead> {
    roster.open_heads(U256::from(above), ClaimOrder::Weight, seconds(0))
}

#[test]
fn the_best_claim_comes_first() {
    let mut roster = Roster::default();
    for (peer, difficulty) in [(1, 50), (2, 70), (3, 70), (4, 10)] {
        roster.join(&facts(peer, difficulty), seconds(0));
    }
    let order = |roster: &Roster, above: u64| -> Vec<u64> {
        let open = open_heads(roster, above);
        open.into_iter().map(|open| open.peer.0).collect()
    };
    assert_eq!(order(&roster, 20), [2, 3, 1]);
    assert_eq!(roster.late(PeerId(2)), None);
    assert_eq!(order(&roster, 20), [3, 2, 1]);
    roster.settle(PeerId(3), &B256::repeat_byte(3));
    assert_eq!(order(&roster, 50), [2]);
    // A lower claim changes nothing; a higher one opens a settled one again.
    roster.claim(PeerId(3), B256::repeat_byte(9), U256::from(60), seconds(5));
    assert_eq!(order(&roster, 0), [2, 1, 4]);
    roster.claim(PeerId(3), B256::repeat_byte(9), U256::from(80), seconds(5));
    let open = |peer, mark, total_difficulty, look_at| OpenHead {
        peer: PeerId(peer),
        hash: B256::repeat_byte(mark),
        total_difficulty,
        look_at: seconds(look_at),
    };
    let best = open(3, 9, Some(U256::from(80)), 5);
    assert_eq!(open_heads(&roster, 75), [best]);
    // A hint says nothing of weight. It comes last, and does not replace the claim.
    let mut hint = |mark, number, at| {
        let hash = B256::repeat_byte(mark);
        roster.hint(PeerId(3), &AnnouncedBlock { hash, number }, seconds(at));
    };
    hint(0x33, 70, 7);
    hint(0x34, 72, 8);
    // A lower block that comes late does not replace a higher one.
    hint(0x35, 71, 9);
    assert_eq!(open_heads(&roster, 75), [best, open(3, 0x34, None, 7)]);
    roster.settle(PeerId(3), &B256::repeat_byte(9));
    assert_eq!(open_heads(&roster, 75), [open(3, 0x34, None, 7)]);
    // A head that the peer does not have yet is asked for again, a few times.
    for round in 1..=MISSES_MAX {
        assert_eq!(open_heads(&roster, 75).len(), 1, "{round}");
        roster.missed(PeerId(3), &B256::repeat_byte(0x34), seconds(9), seconds(1));
    }
    assert_eq!(open_heads(&roster, 75), []);
}

#[test]
fn each_order_of_claims_has_another_first_one() {
    let mut roster = Roster::default();
    for (peer, difficulty) in [(1, 50), (2, 60), (3, 70), (4, 80), (5, 40)] {
        let is_exempt = peer == 5;
        roster.join(
            &PeerFacts {
                is_exempt,
                ..facts(peer, difficulty)
            },
            seconds(0),
        );
    }
    roster.delivered(PeerId(2));
    // Another node of the same network as peer 4 has lied.
    let liar = PeerFacts {
        address: IpAddr::from([10, 0, 4, 99]),
        ..facts(6, 90)
    };
    roster.join(&liar, seconds(0));
    roster.was_unfulfilled(PeerId(6), seconds(0));
    roster.remove(PeerId(6));
    let order = |order| -> Vec<u64> {
        let open = roster.open_heads(U256::ZERO, order, seconds(1));
        open.into_iter().map(|open| open.peer.0).collect()
    };
    assert_eq!(order(ClaimOrder::Weight), [5, 3, 2, 1, 4]);
    assert_eq!(order(ClaimOrder::Standing), [5, 2, 1, 3, 4]);
    assert_eq!(order(ClaimOrder::Age), [5, 1, 2, 3, 4]);
}

#[test]
fn whoever_fails_as_master_is_put_off_and_then_loses_its_place() {
    let mut roster = Roster::default();
    for peer in [1, 2] {
        roster.join(&facts(peer, 50), seconds(0));
        assert_eq!(
            roster.download_failed(PeerId(peer.into()), seconds(20), seconds(1)),
            None
        );
    }
    // Another claim does not bring it back sooner.
    roster.claim(PeerId(1), B256::repeat_byte(9), U256::from(90), seconds(2));
    let open = open_heads(&roster, 75);
    assert_eq!(open.first().map(|open| open.look_at), Some(seconds(20)));
    // One that has delivered is not banned.
    roster.delivered(PeerId(2));
    let bans = [1, 2].map(|peer| {
        let fault = roster.download_failed(PeerId(peer), seconds(30), seconds(21));
        fault.map(|fault| fault.banned)
    });
    assert_eq!(bans, [Some(STALL_BAN), Some(Duration::ZERO)]);
}

#[test]
fn those_who_do_not_answer_lose_their_place() {
    let mut roster = Roster::default();
    let peer = PeerId(1);
    roster.join(&facts(1, 0), seconds(0));
    for round in 0..3 {
        assert_eq!(roster.late(peer), None, "{round}");
        assert_eq!(roster.late(peer), None, "{round}");
        assert_eq!(roster.answered(peer, QuestionKind::Headers, seconds(1)), None);
    }
    let late: Vec<_> = (0..LATE_MAX).map(|_| roster.late(peer).is_some()).collect();
    assert_eq!(late, [false, false, true]);
    let slow = (0..OVERTAKEN_MAX).map(|_| roster.overtaken(peer).is_some());
    assert_eq!(slow.filter(|lost| *lost).count(), 1);
    assert_eq!(roster.get(peer).expect("a peer").batch, 1);
    assert_eq!(roster.late(PeerId(9)), None);
}

#[test]
fn those_who_are_slower_than_others_lose_their_place() {
    let slow = PeerId(1);
    // The first slow answer that costs the place, if any does.
    let loses_after = |others: &[u64], took: u64| -> Option<u32> {
        let mut roster = Roster::default();
        for peer in 1..4 {
            roster.join(&facts(peer, 0), seconds(0));
        }
        let mut answered = |peer, millis| {
            let took = Duration::from_millis(millis);
            roster.answered(peer, QuestionKind::Bodies, took).is_some()
        };
        (1..50).find(|_| {
            for (at, other) in others.iter().enumerate() {
                assert!(!answered(PeerId(2 + at as u64), *other), "a quick one");
            }
            answered(slow, took)
        })
    };
    assert_eq!(loses_after(&[100], 1900), Some(SLOW_MAX));
    assert_eq!(loses_after(&[100, 900], 3700), Some(SLOW_MAX));
    assert_eq!(loses_after(&[], 19_000), None, "nobody is quicker");
    assert_eq!(loses_after(&[1900, 1800], 1900), None, "all are alike");
    assert_eq!(loses_after(&[20], 900), None, "a distant one");
}

#[test]
fn a_slow_peer_that_has_delivered_is_not_banned() {
    let ban = |has_delivered: bool| {
        let mut roster = Roster::default();
        roster.join(&facts(1, 0), seconds(0));
        roster.join(&facts(2, 0), seconds(0));
        if has_delivered {
            roster.delivered(PeerId(1));
        }
        let mut answered =
            |peer, millis| roster.answered(PeerId(peer), QuestionKind::Bodies, Duration::from_millis(millis));
        answered(2, 50);
        let lost = (0..SLOW_MAX).find_map(|_| answered(1, 1900));
        lost.map(|fault| fault.banned)
    };
    assert_eq!(ban(false), Some(STALL_BAN));
    assert_eq!(ban(true), Some(Duration::ZERO));
}

#[test]
fn a_peer_that_has_delivered_and_then_does_not_answer_may_come_back_at_once() {
    let ban = |has_delivered: bool| {
        let mut roster = Roster::default();
        roster.join(&facts(1, 0), seconds(0));
        if has_delivered {
            roster.delivered(PeerId(1));
        }
        let lost = (0..LATE_MAX).find_map(|_| roster.late(PeerId(1)));
        lost.map(|fault| fault.banned)
    };
    assert_eq!(ban(false), Some(STALL_BAN));
    assert_eq!(ban(true), Some(Duration::ZERO));
}

#[test]
fn questions_follow_the_speed_of_answers() {
    let mut entry = RosterEntry::new(&facts(1, 0), seconds(0));
    entry.lacks = Some((7, B256::ZERO, seconds(10)));
    assert_eq!(
        [entry.lacks_from(seconds(11)), entry.lacks_from(seconds(13))],
        [7, u64::MAX]
    );
    for _ in 0..9 {
        entry.bodies_came(Duration::from_millis(10), true);
    }
    assert_eq!((entry.batch, entry.lacks), (BATCH_MAX, None));
    entry.bodies_came(seconds(1), true);
    entry.bodies_came(Duration::from_millis(10), false);
    assert_eq!(entry.batch, BATCH_MAX);
    entry.bodies_came(seconds(3), true);
    assert_eq!(entry.batch, BATCH_MAX / 2);
    let kind = QuestionKind::Headers;
    assert_eq!(entry.overtakes_after(kind), OVERTAKE_TIME);
    for (millis, expected) in [(20, 300), (200, 600), (900, 1500)] {
        *entry.times.of(kind) = Some(Duration::from_millis(millis));
        assert_eq!(entry.overtakes_after(kind), Duration::from_millis(expected));
    }
}
