//! Blocks with right seals that are invalid or have wrong bodies. Honest peers that pass them on
//! keep their places, and the right block still comes.

use chain::chain::WriteError;
use chain::import::ImportError;

use super::floods::{asks_for_body, asks_for_header, checks, marked, wrong_body};
use super::*;
use crate::peers::chain_access::header_fault;
use crate::peers::hub::announced::ANNOUNCEMENTS_MAX;
use crate::peers::hub::blocks::WRONG_BODIES_MAX;

/// A block with transactions, and a copy of it with a wrong body.
fn right_and_junk(scene: &Scene, mark: u64) -> (Block, Block) {
    let mut right = marked(scene.genesis, 1, mark, 2);
    right.header.transactions_root = B256::repeat_byte(7);
    let mut junk = right.clone();
    junk.transactions.truncate(1);
    (right, junk)
}

fn announcement(block: &Block) -> PeerMessage {
    let (hash, number) = (block.hash(), block.header.number);
    PeerMessage::NewBlockHashes(vec![AnnouncedBlock { hash, number }])
}

fn header_of(block: &Block) -> PeerMessage {
    PeerMessage::BlockHeaders(0, vec![block.header.clone()])
}

fn body_of(block: &Block) -> PeerMessage {
    let body = PeerBody {
        transactions: block.transactions.clone(),
        uncles: block.uncles.clone(),
    };
    PeerMessage::BlockBodies(0, vec![body])
}

/// A liar, and an honest peer that has announced a block and was asked for its header.
fn asked_scene() -> (Scene, PeerId, PeerId, Block, Block) {
    let mut scene = Scene::new(WireFamily::Mc);
    let (liar, honest) = (scene.join(1, 63), scene.join(2, 63));
    let (right, junk) = right_and_junk(&scene, 1);
    scene.receive(honest, announcement(&right));
    let asked = scene.wait(Duration::from_secs(1));
    assert_eq!(asks_for_header(&asked), Some(honest));
    (scene, liar, honest, right, junk)
}

/// The honest peer is asked once more, and its block is imported.
fn comes_after_all(scene: &mut Scene, honest: PeerId, right: &Block) {
    assert_eq!(asks_for_header(&scene.wait(Duration::ZERO)), Some(honest));
    let actions = scene.receive(honest, header_of(right));
    assert_eq!(checks(&actions), [(honest, right.hash())]);
    header_is_here(scene, honest, right);
}

/// The header of the right block is checked, and its body comes.
fn header_is_here(scene: &mut Scene, honest: PeerId, right: &Block) {
    let actions = scene.hub.header_checked(honest, &right.hash(), Ok(()), scene.now);
    assert_eq!(asks_for_body(&actions), Some(honest));
    let actions = scene.receive(honest, body_of(right));
    assert_eq!(checks(&actions), [(honest, right.hash())]);
    let actions = scene.good(honest, right);
    assert!(matches!(actions.last(), Some(PeerAction::Import { block, .. }) if **block == *right));
    assert!(scene.hub.announced.is_empty());
    assert_eq!(scene.hub.peers[&honest].announcements, 0);
}

#[test]
fn a_block_that_is_known_to_be_invalid_costs_nobody_a_place() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers = [1, 2, 3].map(|mark| scene.join(mark, 63));
    let block = marked(scene.genesis, 1, 1, 2);
    scene.receive(peers[0], whole(&block, 200));
    scene.good(peers[0], &block);
    let invalid = ImportResult::Invalid("state root".to_owned());
    scene.hub.imported(&block.hash(), &invalid, scene.now);
    // The others pass it on before they execute it, too: one the whole block, one its header.
    let reason: Arc<str> = "state root".into();
    let error = WriteError::Import(ImportError::KnownInvalid { reason });
    let actions = scene.receive(peers[1], whole(&block, 200));
    assert_eq!(checks(&actions), [(peers[1], block.hash())]);
    let actions = scene.refused(peers[1], &block, header_fault(&error));
    assert_eq!(actions, [], "nor is the synchronization told");
    let (other, _) = right_and_junk(&scene, 2);
    scene.receive(peers[2], announcement(&other));
    scene.wait(Duration::from_secs(1));
    scene.receive(peers[2], header_of(&other));
    let known = Err(header_fault(&error));
    let actions = scene
        .hub
        .header_checked(peers[2], &other.hash(), known, scene.now);
    assert_eq!(actions, []);
    assert!(scene.hub.waiting.is_empty() && scene.hub.announced.is_empty());
    assert_eq!(scene.hub.peers().count(), peers.len());
}

#[test]
fn only_the_fourth_wrong_body_in_a_row_costs_the_place() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let mut mark = 0;
    let mut wrong = |scene: &mut Scene| {
        mark += 1;
        let (_, junk) = right_and_junk(scene, mark);
        scene.receive(peer, whole(&junk, 200));
        scene.refused(peer, &junk, wrong_body())
    };
    for _ in 1..WRONG_BODIES_MAX {
        assert_eq!(wrong(&mut scene), []);
    }
    assert!(scene.hub.waiting.is_empty());
    // A good block makes up for them.
    let good = marked(scene.genesis, 1, 100, 0);
    scene.receive(peer, whole(&good, 200));
    scene.good(peer, &good);
    for _ in 1..WRONG_BODIES_MAX {
        assert_eq!(wrong(&mut scene), []);
    }
    assert!(is_dropped(&wrong(&mut scene), peer));
    // The peer may be an old node that passes blocks on before it looks at their bodies.
    let again = scene.new_peer(1, 63);
    assert!(scene.hub.admit(again, scene.now).is_ok());
}

#[test]
fn a_wrong_body_does_not_use_up_a_header_that_came_meanwhile() {
    let (mut scene, liar, honest, right, junk) = asked_scene();
    scene.receive(liar, whole(&junk, 200));
    assert_eq!(scene.receive(honest, header_of(&right)), [], "a copy is here");
    scene.refused(liar, &junk, wrong_body());
    comes_after_all(&mut scene, honest, &right);
}

#[test]
fn a_wrong_body_does_not_use_up_a_header_that_comes_later() {
    let (mut scene, liar, honest, right, junk) = asked_scene();
    scene.receive(liar, whole(&junk, 200));
    scene.refused(liar, &junk, wrong_body());
    let actions = scene.receive(honest, header_of(&right));
    assert_eq!(checks(&actions), [(honest, right.hash())]);
    header_is_here(&mut scene, honest, &right);
}

#[test]
fn a_wrong_body_does_not_use_up_a_header_that_gave_way() {
    let (mut scene, liar, honest, right, junk) = asked_scene();
    let actions = scene.receive(honest, header_of(&right));
    assert_eq!(checks(&actions), [(honest, right.hash())]);
    scene.receive(liar, whole(&junk, 200));
    let actions = scene.hub.header_checked(honest, &right.hash(), Ok(()), scene.now);
    assert_eq!(checks(&actions), [(liar, right.hash())]);
    scene.refused(liar, &junk, wrong_body());
    comes_after_all(&mut scene, honest, &right);
}

#[test]
fn a_wrong_body_does_not_use_up_the_right_one() {
    for comes_first in [true, false] {
        let (mut scene, liar, honest, right, junk) = asked_scene();
        scene.receive(honest, header_of(&right));
        let actions = scene.hub.header_checked(honest, &right.hash(), Ok(()), scene.now);
        assert_eq!(asks_for_body(&actions), Some(honest));
        scene.receive(liar, whole(&junk, 200));
        if comes_first {
            scene.receive(honest, body_of(&right));
        }
        scene.refused(liar, &junk, wrong_body());
        if !comes_first {
            scene.receive(honest, body_of(&right));
        }
        comes_after_all(&mut scene, honest, &right);
    }
}

#[test]
fn after_a_wrong_body_the_synchronization_hears_of_who_has_the_block() {
    let mut scene = Scene::new(WireFamily::Mc);
    let (liar, honest) = (scene.join(1, 63), scene.join(2, 63));
    let (right, junk) = right_and_junk(&scene, 1);
    scene.receive(liar, whole(&junk, 200));
    // The honest peer has announced so much that it is not asked for this block.
    let state = scene.hub.peers.get_mut(&honest).expect("a peer");
    state.announcements = ANNOUNCEMENTS_MAX;
    scene.receive(honest, announcement(&right));
    let (hash, number) = (right.hash(), 1);
    let blocks = vec![AnnouncedBlock { hash, number }];
    let news = PeerNews::DistantAnnouncement { peer: honest, blocks };
    let actions = scene.refused(liar, &junk, wrong_body());
    assert_eq!(actions, [PeerAction::News(news)]);
}

#[test]
fn announcements_without_a_place_are_not_looked_up() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let state = scene.hub.peers.get_mut(&peer).expect("a peer");
    state.announcements = ANNOUNCEMENTS_MAX;
    let lookups = || scene.chain.lookups.load(Ordering::Relaxed);
    let before = lookups();
    let far = AnnouncedBlock {
        hash: B256::repeat_byte(9),
        number: 1 << 40,
    };
    let near = (1..=500u64).map(|mark| AnnouncedBlock {
        hash: B256::left_padding_from(&mark.to_be_bytes()),
        number: 1,
    });
    let message = PeerMessage::NewBlockHashes(near.chain([far]).collect());
    let actions = scene.hub.received(peer, message, scene.now);
    assert_eq!(lookups(), before);
    // The synchronization still hears of what is far away.
    let blocks = vec![far];
    let news = PeerNews::DistantAnnouncement { peer, blocks };
    assert_eq!(actions, [PeerAction::News(news)]);
}
