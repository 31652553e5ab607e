//! Bounds of peers: none takes all of a shared list, brings much work, or is told of nothing.

use super::*;
use crate::messages::codes;
use crate::peers::hub::gate::ANNOUNCED_HASHES_SHARE;
use crate::peers::hub::wanted::{
    EMPTY_ANSWERS_MAX, TRANSACTION_FETCHES_MAX, WANTED_ALL_MAX, WANTED_TIME_MAX, WANTED_TRANSACTIONS_MAX,
};
use crate::peers::share::ShareRate;
use crate::peers::{JudgedTransactions, PACK_PART};

fn hashes(first: u64, count: u64) -> Vec<AnnouncedTransaction> {
    let hash = |number: u64| AnnouncedTransaction {
        hash: primitives::keccak256(number.to_be_bytes()),
        kind_and_size: None,
    };
    (first..first + count).map(hash).collect()
}

fn announce(first: u64, count: u64) -> PeerMessage {
    PeerMessage::NewPooledTransactionHashes(hashes(first, count))
}

/// The peers that are asked for transactions, with how many each.
fn asked(actions: &[PeerAction]) -> Vec<(PeerId, usize)> {
    let each = sent(actions)
        .into_iter()
        .filter_map(|(to, message)| match message {
            PeerMessage::GetPooledTransactions(_, hashes) => Some((to[0], hashes.len())),
            _ => None,
        });
    each.collect()
}

#[test]
fn the_hub_hashes_no_transaction() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let transactions = vec![transaction(1, 0), transaction(2, 1)];
    let pack = TransactionPack {
        transactions: transactions.clone(),
        asked: None,
    };
    let actions = scene.receive(peer, PeerMessage::Transactions(transactions));
    assert_eq!(actions, [PeerAction::Take { peer, pack }]);
}

#[test]
fn a_peer_of_worthless_transactions_pauses_and_then_leaves() {
    let part = PACK_PART as u32;
    let worthless = JudgedTransactions {
        worthless: part,
        ..JudgedTransactions::default()
    };
    let judge = |scene: &mut Scene, peer, judged| {
        let mut all = Vec::new();
        for _ in 0..JUDGED_TRANSACTIONS_MIN / part {
            all.extend(scene.hub.transactions_judged(peer, judged, scene.now));
        }
        all
    };
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let time = WORTHLESS_PAUSE;
    assert_eq!(
        judge(&mut scene, peer, worthless),
        [PeerAction::Pause { peer, time }]
    );
    // Good ones in between make up for it.
    let good = JudgedTransactions {
        taken: part,
        ..JudgedTransactions::default()
    };
    assert_eq!(judge(&mut scene, peer, good), []);
    assert_eq!(
        judge(&mut scene, peer, worthless),
        [PeerAction::Pause { peer, time }]
    );
    assert!(is_dropped(&judge(&mut scene, peer, worthless), peer));
    assert!(scene.hub.is_banned(&B512::repeat_byte(1), scene.now));
    // A full pool, a price floor or a lower nonce are no fault of whoever passes transactions on.
    let honest = scene.join(2, 63);
    for judged in [
        JudgedTransactions {
            refused: part,
            ..JudgedTransactions::default()
        },
        JudgedTransactions {
            passed_over: part,
            ..JudgedTransactions::default()
        },
        JudgedTransactions {
            worthless: part * 3 / 4,
            taken: part - part * 3 / 4,
            ..JudgedTransactions::default()
        },
    ] {
        for _ in 0..10 {
            assert_eq!(judge(&mut scene, honest, judged), [], "{judged:?}");
        }
    }
}

/// CVE-2026-22868: a peer could make geth check worthless things as often as it liked. Here the
/// first header without work costs its place, and so do transactions that nobody pays.
#[test]
fn cve_2026_22868_whoever_asks_for_checks_in_vain_loses_its_place() {
    let mut scene = Scene::new(WireFamily::Eth);
    let miner = scene.join(1, 66);
    let junk = block(1, scene.genesis);
    scene.receive(miner, whole(&junk, 200));
    let fault = BlockFault::Header("seal: got other work".to_owned());
    assert!(is_dropped(&scene.refused(miner, &junk, fault), miner));
    assert!(scene.hub.is_banned(&B512::repeat_byte(1), scene.now));
    let sender = scene.join(2, 66);
    let judged = JudgedTransactions {
        worthless: 1,
        ..JudgedTransactions::default()
    };
    assert!(judged.cost() > 0);
    let mut checked = 0;
    while !is_dropped(&scene.hub.transactions_judged(sender, judged, scene.now), sender) {
        checked += 1;
        assert!(checked < 2 * JUDGED_TRANSACTIONS_MIN, "{checked}");
    }
    assert!(scene.hub.is_banned(&B512::repeat_byte(2), scene.now));
}

#[test]
fn a_peer_that_is_ahead_is_not_judged() {
    let mut scene = Scene::new(WireFamily::Mc);
    let worthless = JudgedTransactions {
        worthless: PACK_PART as u32,
        ..JudgedTransactions::default()
    };
    // Their senders got money in blocks that this node does not have yet.
    let peer = scene.join(1, 63);
    let ahead = U256::from(101);
    let state = scene.hub.peers.get_mut(&peer).expect("a peer");
    assert!(state.raise_head(B256::repeat_byte(7), ahead));
    for _ in 0..4096 / PACK_PART {
        assert_eq!(scene.hub.transactions_judged(peer, worthless, scene.now), []);
    }
    // After the same blocks it is judged, and by what it sends then.
    let head = ChainHead {
        number: 1,
        hash: B256::repeat_byte(7),
        total_difficulty: ahead,
    };
    scene.hub.head_moved(head, scene.now);
    for _ in 1..JUDGED_TRANSACTIONS_MIN / PACK_PART as u32 {
        assert_eq!(scene.hub.transactions_judged(peer, worthless, scene.now), []);
    }
    let time = WORTHLESS_PAUSE;
    assert_eq!(
        scene.hub.transactions_judged(peer, worthless, scene.now),
        [PeerAction::Pause { peer, time }]
    );
}

#[test]
fn nothing_is_decoded_before_the_status() {
    let mut scene = Scene::new(WireFamily::Eth);
    let new = scene.new_peer(1, 66);
    let (peer, _) = scene.hub.admit(new, scene.now).expect("a place");
    assert_eq!(scene.hub.admits(peer, codes::STATUS, 100, scene.now), Ok(()));
    let left_out = scene.hub.admits(peer, codes::TRANSACTIONS, 100, scene.now);
    assert!(is_dropped(&left_out.expect_err("left out"), peer));
}

#[test]
fn answers_that_nobody_waits_for_are_not_decoded() {
    let mut scene = Scene::new(WireFamily::Eth);
    let peer = scene.join(1, 66);
    let answer = PeerMessage::PooledTransactions(1, Vec::new());
    for _ in 0..UNASKED_MAX {
        assert_eq!(scene.admits(peer, &answer), Err(Vec::new()));
    }
    let actions = scene.admits(peer, &answer).expect_err("left out");
    assert!(is_dropped(&actions, peer), "{actions:?}");
    let peer = scene.join(2, 66);
    scene.receive(peer, announce(0, 1));
    assert_eq!(scene.admits(peer, &answer), Ok(()), "it is waited for");
}

#[test]
fn announcements_of_a_peer_have_a_share() {
    let mut scene = Scene::new(WireFamily::Eth);
    let peer = scene.join(1, 66);
    let message = announce(0, 4096);
    let mut count = 0;
    while scene.admits(peer, &message) == Ok(()) {
        count += 4096;
    }
    let ShareRate { burst, .. } = ANNOUNCED_HASHES_SHARE;
    assert!((burst..burst + 3 * 4096).contains(&count), "{count}");
    scene.now = scene.now.after(Duration::from_secs(2));
    assert_eq!(scene.admits(peer, &message), Ok(()));
}

#[test]
fn sixteen_peers_do_not_fill_the_list_of_announced_transactions() {
    let mut scene = Scene::new(WireFamily::Eth);
    scene.hub.settings.inbound_max = 20;
    for mark in 0..16 {
        let peer = scene.join(mark + 1, 66);
        for part in 0..2 {
            scene.receive(peer, announce(u64::from(mark) * 100_000 + part * 4096, 4096));
        }
    }
    assert!(scene.hub.wanted.len() <= 16 * WANTED_TRANSACTIONS_MAX);
    let honest = scene.join(17, 66);
    let actions = scene.receive(honest, announce(5_000_000, 300));
    assert_eq!(asked(&actions), [(honest, TRANSACTION_FETCHES_MAX)]);
    // With more peers each has less.
    assert!(scene.hub.wanted.len() <= 2 * WANTED_ALL_MAX);
    assert!(scene.hub.wanted_share() < WANTED_TRANSACTIONS_MAX);
    // A peer that does not answer in time is not waited for for ever.
    let mut end = WANTED_TIME_MAX * 3;
    while !scene.hub.wanted.is_empty() {
        let step = Duration::from_secs(1);
        end = end.checked_sub(step).expect("all is forgotten in time");
        scene.wait(step);
    }
    assert_eq!(scene.hub.wanted_deadline(), None);
}

#[test]
fn many_that_announce_do_not_keep_the_one_out_that_has_it() {
    let mut scene = Scene::new(WireFamily::Eth);
    scene.hub.settings.inbound_max = 20;
    for mark in 1..=8 {
        let peer = scene.join(mark, 66);
        scene.receive(peer, announce(0, 256));
    }
    let honest = scene.join(9, 66);
    scene.receive(honest, announce(0, 256));
    let state = scene.hub.peers.get(&honest).expect("a peer");
    // The transaction takes the place of one of the eight, but not of the one that was asked.
    assert!(state.wanted.len() > 128, "{}", state.wanted.len());
}

#[test]
fn announced_transactions_that_are_not_sent_cost_the_place() {
    let mut scene = Scene::new(WireFamily::Eth);
    let peer = scene.join(1, 66);
    for id in 1..EMPTY_ANSWERS_MAX {
        scene.receive(peer, announce(u64::from(id), 1));
        let empty = PeerMessage::PooledTransactions(id.into(), Vec::new());
        assert!(!is_dropped(&scene.receive(peer, empty), peer), "{id} answers");
    }
    scene.receive(peer, announce(100, 1));
    let last = PeerMessage::PooledTransactions(EMPTY_ANSWERS_MAX.into(), Vec::new());
    assert!(is_dropped(&scene.receive(peer, last), peer));
    // A peer that sends a quarter of them, or is asked late, stays.
    let honest = scene.join(2, 66);
    let all: Vec<_> = (0..40).map(|number| transaction(number, 0)).collect();
    for (id, part) in (1..).zip(all.chunks(4)) {
        let announced = part.iter().map(|one| AnnouncedTransaction {
            hash: one.hash(),
            kind_and_size: None,
        });
        scene.receive(
            honest,
            PeerMessage::NewPooledTransactionHashes(announced.collect()),
        );
        let some = PeerMessage::PooledTransactions(id, vec![part[0].clone()]);
        assert!(!is_dropped(&scene.take(honest, some), honest));
    }
}

#[test]
fn more_transactions_than_were_asked_for_cost_the_place() {
    let mut scene = Scene::new(WireFamily::Eth);
    let peer = scene.join(1, 66);
    scene.receive(peer, announce(0, 1));
    let two = vec![transaction(1, 0), transaction(2, 0)];
    let actions = scene.receive(peer, PeerMessage::PooledTransactions(1, two));
    assert!(is_dropped(&actions, peer), "{actions:?}");
}

#[test]
fn peers_that_are_told_the_same_share_the_message() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers: Vec<_> = (1..=10).map(|mark| scene.join(mark, 63)).collect();
    let offered: Vec<_> = (0..20)
        .map(|number| HashedTransaction::from(transaction(number, 0)))
        .collect();
    let told = sent(&scene.hub.pool_has(&offered));
    let [(to, PeerMessage::Transactions(pack))] = &told[..] else {
        panic!("one message: {told:?}")
    };
    assert_eq!((to, pack.len()), (&peers, 20));
}

#[test]
fn a_full_list_of_bans_takes_new_ones() {
    let mut scene = Scene::new(WireFamily::Mc);
    let fault = PeerFault {
        text: "a test".to_owned(),
        disconnect: RlpxDisconnect::Subprotocol,
        banned: FAULT_BAN,
    };
    let node = |number: usize| B512::left_padding_from(&number.to_be_bytes());
    for number in 1..=BANNED_MAX + 1 {
        let new = NewPeer {
            node: node(number),
            ..scene.new_peer(1, 63)
        };
        let (peer, _) = scene.hub.admit(new, scene.now).expect("a place");
        scene.hub.fault(peer, &fault, scene.now);
        scene.now = scene.now.after(Duration::from_millis(1));
    }
    assert!(scene.hub.is_banned(&node(BANNED_MAX + 1), scene.now));
    assert!(
        !scene.hub.is_banned(&node(1), scene.now),
        "its ban would end first"
    );
    assert_eq!(scene.hub.banned.len(), BANNED_MAX);
}
