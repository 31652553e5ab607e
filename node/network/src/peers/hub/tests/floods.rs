//! Peers that send blocks which nobody has worked for, too many, too large or wrong ones. The block
//! of another peer is checked without delay.

use super::*;
use crate::peers::hub::announced::ANNOUNCEMENTS_MAX;
use crate::peers::hub::announced::FETCH_PATIENCE;
use crate::peers::hub::blocks::AHEAD_BLOCKS_MAX;
use crate::peers::hub::waiting::{PEER_WAITING_BYTES_MAX, WAITING_BYTES_MAX};

/// A block whose hash depends on `mark`, with so many transactions in its body.
pub(super) fn marked(parent: B256, number: u64, mark: u64, transactions: usize) -> Block {
    let mut block = block(number, parent);
    block.header.extra_data = mark.to_be_bytes().to_vec().into();
    block.transactions = vec![Transaction::system(1); transactions];
    block
}

/// The peers whose blocks a check is to begin with.
pub(super) fn checks(actions: &[PeerAction]) -> Vec<(PeerId, B256)> {
    let each = actions.iter().filter_map(|action| match action {
        PeerAction::Check { from, hash, .. } | PeerAction::CheckHeader { from, hash, .. } => {
            Some((*from, *hash))
        }
        _ => None,
    });
    each.collect()
}

pub(super) fn asks_for_body(actions: &[PeerAction]) -> Option<PeerId> {
    sent(actions).into_iter().find_map(|(to, message)| {
        let is_request = matches!(message, PeerMessage::GetBlockBodies(..));
        is_request.then(|| to[0])
    })
}

pub(super) fn asks_for_header(actions: &[PeerAction]) -> Option<PeerId> {
    sent(actions).into_iter().find_map(|(to, message)| {
        let is_request = matches!(message, PeerMessage::GetBlockHeaders(..));
        is_request.then(|| to[0])
    })
}

pub(super) fn wrong_body() -> BlockFault {
    BlockFault::Body("transactions root".to_owned())
}

#[test]
fn one_block_without_a_seal_costs_the_place_and_all_that_waits() {
    let mut scene = Scene::new(WireFamily::Mc);
    let (flooder, honest) = (scene.join(1, 63), scene.join(2, 63));
    let flood: Vec<_> = (0..40).map(|mark| marked(scene.genesis, 1, mark, 0)).collect();
    let mut begun = Vec::new();
    for block in &flood {
        begun.extend(checks(&scene.receive(flooder, whole(block, 200))));
    }
    assert_eq!(
        begun,
        [(flooder, flood[0].hash())],
        "one check for each peer at a time"
    );
    let child = marked(flood[0].hash(), 2, 0, 0);
    scene.receive(honest, whole(&child, 300));
    let fault = BlockFault::Header("seal".to_owned());
    let actions = scene.refused(flooder, &flood[0], fault);
    assert!(is_dropped(&actions, flooder) && !is_dropped(&actions, honest));
    assert_eq!(checks(&actions), [], "nothing else of it is checked");
    assert!(scene.hub.waiting.is_empty());
    let again = scene.new_peer(1, 63);
    assert!(scene.hub.admit(again, scene.now).is_err(), "it is banned");
}

#[test]
fn what_a_peer_has_sent_before_it_left_goes_with_the_first_wrong_seal() {
    let mut scene = Scene::new(WireFamily::Mc);
    let flooder = scene.join(1, 63);
    let flood: Vec<_> = (0..40).map(|mark| marked(scene.genesis, 1, mark, 0)).collect();
    for block in &flood {
        scene.receive(flooder, whole(block, 200));
    }
    scene.hub.left(flooder, scene.now);
    assert_eq!(scene.hub.waiting.len(), flood.len(), "one of them may be good");
    let fault = BlockFault::Header("seal".to_owned());
    let actions = scene.refused(flooder, &flood[0], fault);
    assert_eq!(checks(&actions), []);
    assert!(scene.hub.waiting.is_empty());
}

#[test]
fn peers_take_turns() {
    let mut scene = Scene::new(WireFamily::Mc);
    let flooders: Vec<_> = (1..=8).map(|mark| scene.join(mark, 63)).collect();
    let mut running = Vec::new();
    for (at, flooder) in flooders.iter().enumerate() {
        for mark in 0..10 {
            let block = marked(scene.genesis, 1, at as u64 * 100 + mark, 0);
            running.extend(checks(&scene.receive(*flooder, whole(&block, 200))));
        }
    }
    assert_eq!(running.len(), CHECKS_MAX);
    let honest = scene.join(9, 63);
    let block = marked(scene.genesis, 1, 9999, 0);
    assert_eq!(checks(&scene.receive(honest, whole(&block, 200))), []);
    // The peers that were there first have one turn each. Slow checks of one peer hold up nobody
    // else.
    let slow = running.remove(0);
    let mut turns = Vec::new();
    while turns.last().is_none_or(|(from, _)| *from != honest) {
        let (from, hash) = running.remove(0);
        let actions = scene
            .hub
            .checked(from, &hash, Err(BlockFault::NotNow("busy".to_owned())), scene.now);
        let next = checks(&actions);
        assert!(next.iter().all(|(from, _)| *from != slow.0));
        running.extend(&next);
        turns.extend(next);
    }
    assert!(turns.len() <= flooders.len(), "{turns:?}");
}

#[test]
fn whoever_has_most_makes_room() {
    let mut scene = Scene::new(WireFamily::Mc);
    let genesis = scene.genesis;
    let large = |mark: u8| {
        let mut block = block(1, genesis);
        block.header.extra_data = vec![mark; 6 << 20].into();
        block
    };
    let bytes = PackedBlock::pack(&large(0)).size();
    let mut mark = 0;
    for flooder in 1..=8 {
        let flooder = scene.join(flooder, 63);
        for _ in 0..3 {
            mark += 1;
            scene.receive(flooder, whole(&large(mark), 200));
        }
        let (all, peers) = scene.hub.waiting_use();
        assert!(all.bytes <= WAITING_BYTES_MAX, "{all:?}");
        assert!(peers.values().all(|of| of.bytes <= PEER_WAITING_BYTES_MAX));
    }
    let (all, _) = scene.hub.waiting_use();
    assert!(all.bytes + bytes > WAITING_BYTES_MAX, "it is full: {all:?}");
    let honest = scene.join(20, 63);
    let block = large(u8::MAX);
    let actions = scene.receive(honest, whole(&block, 200));
    assert!(scene.hub.waiting.contains_key(&block.hash()), "{actions:?}");
    let (all, _) = scene.hub.waiting_use();
    assert!(all.bytes <= WAITING_BYTES_MAX, "{all:?}");
}

#[test]
fn the_number_of_waiting_blocks_keeps_nobody_out() {
    let mut scene = Scene::new(WireFamily::Mc);
    let mut mark = 0;
    for flooder in 1..=6 {
        let flooder = scene.join(flooder, 63);
        for _ in 0..100 {
            mark += 1;
            scene.receive(flooder, whole(&marked(scene.genesis, 1, mark, 0), 200));
        }
    }
    assert_eq!(scene.hub.waiting.len(), BLOCKS_WAITING_MAX);
    let honest = scene.join(20, 63);
    let block = marked(scene.genesis, 1, 1_000_000, 0);
    scene.receive(honest, whole(&block, 200));
    assert!(scene.hub.waiting.contains_key(&block.hash()));
    assert_eq!(scene.hub.waiting.len(), BLOCKS_WAITING_MAX);
}

#[test]
fn a_junk_body_does_not_replace_the_right_one() {
    let mut scene = Scene::new(WireFamily::Mc);
    let (liar, honest) = (scene.join(1, 63), scene.join(2, 63));
    let right = marked(scene.genesis, 1, 1, 2);
    let junk = marked(scene.genesis, 1, 1, 5000);
    assert_eq!(junk.hash(), right.hash());
    let actions = scene.receive(liar, whole(&junk, 200));
    assert_eq!(checks(&actions), [(liar, right.hash())]);
    assert_eq!(scene.receive(honest, whole(&right, 200)), []);
    // The same body again is of no use.
    assert_eq!(scene.receive(honest, whole(&right, 200)), []);
    assert_eq!(scene.hub.waiting[&right.hash()].copies.len(), 2);
    let actions = scene.refused(liar, &junk, wrong_body());
    assert!(!is_dropped(&actions, liar) && !is_dropped(&actions, honest));
    assert_eq!(checks(&actions), [(honest, right.hash())]);
    let actions = scene.good(honest, &right);
    assert!(matches!(actions.last(), Some(PeerAction::Import { block, .. }) if **block == right));
}

#[test]
fn after_a_junk_body_those_who_announced_the_block_are_asked() {
    let mut scene = Scene::new(WireFamily::Mc);
    let (liar, honest) = (scene.join(1, 63), scene.join(2, 63));
    let right = marked(scene.genesis, 1, 1, 2);
    scene.receive(liar, whole(&marked(scene.genesis, 1, 1, 9), 200));
    let announced = AnnouncedBlock {
        hash: right.hash(),
        number: 1,
    };
    scene.receive(honest, PeerMessage::NewBlockHashes(vec![announced]));
    scene.refused(liar, &right, wrong_body());
    assert_eq!(scene.hub.deadline(), Some(scene.now.elapsed), "at once");
    assert_eq!(asks_for_header(&scene.wait(Duration::ZERO)), Some(honest));
}

#[test]
fn blocks_far_ahead_of_the_clock_are_counted() {
    let mut scene = Scene::new(WireFamily::Mc);
    let (peer, other) = (scene.join(1, 63), scene.join(2, 63));
    let ahead = || BlockFault::Ahead("timestamp".to_owned());
    for mark in 1..AHEAD_BLOCKS_MAX {
        let block = marked(scene.genesis, 1, mark.into(), 0);
        scene.receive(peer, whole(&block, 200));
        assert!(!is_dropped(&scene.refused(peer, &block, ahead()), peer));
    }
    // A block of another peer changes nothing.
    let good = marked(scene.genesis, 1, 100, 0);
    scene.receive(other, whole(&good, 200));
    scene.good(other, &good);
    let block = marked(scene.genesis, 1, 200, 0);
    scene.receive(peer, whole(&block, 200));
    assert!(is_dropped(&scene.refused(peer, &block, ahead()), peer));
    // The clock of this node may be the wrong one.
    let again = scene.new_peer(1, 63);
    assert!(scene.hub.admit(again, scene.now).is_ok());
}

#[test]
fn the_body_of_an_announced_block_is_asked_for_when_the_seal_is_right() {
    for is_sealed in [true, false] {
        let mut scene = Scene::new(WireFamily::Mc);
        let peer = scene.join(1, 63);
        let mut block = marked(scene.genesis, 1, 1, 2);
        block.header.transactions_root = B256::repeat_byte(7);
        let hash = block.hash();
        let announced = AnnouncedBlock { hash, number: 1 };
        scene.receive(peer, PeerMessage::NewBlockHashes(vec![announced]));
        scene.wait(Duration::from_secs(1));
        let header = PeerMessage::BlockHeaders(0, vec![block.header.clone()]);
        let actions = scene.receive(peer, header);
        assert!(
            matches!(&actions[..], [PeerAction::CheckHeader { .. }]),
            "{actions:?}"
        );
        let result = is_sealed
            .then_some(())
            .ok_or_else(|| BlockFault::Header("seal".to_owned()));
        let actions = scene.hub.header_checked(peer, &hash, result, scene.now);
        assert_eq!(asks_for_body(&actions), is_sealed.then_some(peer));
        assert_eq!(is_dropped(&actions, peer), !is_sealed);
        if !is_sealed {
            assert!(scene.hub.announced.is_empty() && scene.hub.waiting.is_empty());
            continue;
        }
        let body = PeerBody {
            transactions: block.transactions.clone(),
            uncles: Vec::new(),
        };
        let actions = scene.receive(peer, PeerMessage::BlockBodies(0, vec![body]));
        assert_eq!(checks(&actions), [(peer, hash)]);
        let actions = scene.good(peer, &block);
        assert!(matches!(actions.last(), Some(PeerAction::Import { .. })));
        assert!(scene.hub.announced.is_empty());
    }
}

#[test]
fn an_announcer_that_is_slow_or_lies_holds_up_no_block() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers = [1, 2, 3].map(|mark| scene.join(mark, 63));
    let block = marked(scene.genesis, 1, 1, 0);
    let hash = block.hash();
    // The second one says another number than the header has.
    for (peer, number) in peers.into_iter().zip([1, 2, 1]) {
        let announced = vec![AnnouncedBlock { hash, number }];
        scene.receive(peer, PeerMessage::NewBlockHashes(announced));
    }
    assert_eq!(
        asks_for_header(&scene.wait(Duration::from_secs(1))),
        Some(peers[0])
    );
    assert_eq!(asks_for_header(&scene.wait(FETCH_PATIENCE)), Some(peers[1]));
    let header = || PeerMessage::BlockHeaders(0, vec![block.header.clone()]);
    let actions = scene.receive(peers[1], header());
    assert!(is_dropped(&actions, peers[1]), "{actions:?}");
    assert_eq!(asks_for_header(&actions), Some(peers[2]));
    let actions = scene.receive(peers[2], header());
    assert_eq!(checks(&actions), [(peers[2], hash)]);
    assert_eq!(scene.receive(peers[0], header()), [], "it is here already");
}

#[test]
fn an_announcement_is_looked_up_once() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let blocks: Vec<_> = (0..500u64)
        .map(|mark| AnnouncedBlock {
            hash: B256::left_padding_from(&(mark + 1).to_be_bytes()),
            number: 1,
        })
        .collect();
    let lookups = || scene.chain.lookups.load(Ordering::Relaxed);
    let before = lookups();
    for _ in 0..10 {
        let message = PeerMessage::NewBlockHashes(blocks.clone());
        scene.hub.received(peer, message, scene.now);
    }
    assert_eq!(lookups() - before, ANNOUNCEMENTS_MAX, "the rest has no place");
    // Numbers that are far away are not looked up at all.
    let before = lookups();
    let far = AnnouncedBlock {
        hash: B256::repeat_byte(9),
        number: 1 << 40,
    };
    scene
        .hub
        .received(peer, PeerMessage::NewBlockHashes(vec![far]), scene.now);
    assert_eq!(lookups(), before);
}

#[test]
fn what_builds_on_a_block_that_never_comes_is_left_to_the_synchronization() {
    let mut scene = Scene::new(WireFamily::Mc);
    let (announcer, other) = (scene.join(1, 63), scene.join(2, 63));
    let mut parent = marked(scene.genesis, 1, 1, 0);
    parent.header.transactions_root = B256::repeat_byte(7);
    let hash = parent.hash();
    let announced = AnnouncedBlock { hash, number: 1 };
    scene.receive(announcer, PeerMessage::NewBlockHashes(vec![announced]));
    scene.wait(Duration::from_secs(1));
    scene.receive(announcer, PeerMessage::BlockHeaders(0, vec![parent.header]));
    scene.hub.header_checked(announcer, &hash, Ok(()), scene.now);
    let child = marked(hash, 2, 2, 0);
    assert_eq!(scene.receive(other, whole(&child, 300)), [], "it waits");
    let actions = scene.receive(announcer, PeerMessage::BlockBodies(0, Vec::new()));
    let left = actions.iter().filter_map(|action| match action {
        PeerAction::News(PeerNews::DistantAnnouncement { blocks, .. }) => Some(blocks[0].hash),
        _ => None,
    });
    assert_eq!(left.collect::<Vec<_>>(), [hash, child.hash()]);
    assert!(scene.hub.waiting.is_empty() && scene.hub.announced.is_empty());
}
