//! Blocks that would be lost if nobody came back to them.

use super::*;

/// The hashes that peers are told of, with how many peers are told.
fn told_hashes(actions: &[PeerAction]) -> Vec<(usize, B256)> {
    let each = sent(actions)
        .into_iter()
        .filter_map(|(to, message)| match message {
            PeerMessage::NewBlockHashes(blocks) => Some((to.len(), blocks[0].hash)),
            _ => None,
        });
    each.collect()
}

/// The blocks that the synchronization is told of, without their weights.
fn hints(actions: &[PeerAction]) -> Vec<B256> {
    let each = actions.iter().filter_map(|action| match action {
        PeerAction::News(PeerNews::DistantAnnouncement { blocks, .. }) => Some(blocks[0].hash),
        _ => None,
    });
    each.collect()
}

impl Scene {
    fn head_of(block: &Block, total_difficulty: u64) -> ChainHead {
        ChainHead {
            number: block.header.number,
            hash: block.hash(),
            total_difficulty: U256::from(total_difficulty),
        }
    }

    fn receive_block(&mut self, peer: PeerId, block: &Block, total_difficulty: u64) -> Vec<PeerAction> {
        self.receive(peer, whole(block, total_difficulty))
    }
}

#[test]
fn a_peer_that_joins_while_the_head_moves_is_told_of_it() {
    let mut scene = Scene::new(WireFamily::Mc);
    let block = block(1, scene.genesis);
    scene.store(&block, 200);
    // Between the two Status the head moves.
    let (early, _) = scene
        .hub
        .admit(scene.new_peer(1, 63), scene.now)
        .expect("a place");
    let status = PeerMessage::Status(scene.status(63));
    assert!(
        sent(&scene.hub.announce(&block, U256::from(200))).is_empty(),
        "nobody is there"
    );
    scene.hub.head_moved(Scene::head_of(&block, 200), scene.now);
    let actions = scene.receive(early, status.clone());
    assert_eq!(told_hashes(&actions), [(1, block.hash())]);
    // Another joins after the others were told, and before the head has moved.
    let child = super::block(2, block.hash());
    scene.store(&child, 300);
    scene.hub.announce(&child, U256::from(300));
    let (late, _) = scene
        .hub
        .admit(scene.new_peer(2, 63), scene.now)
        .expect("a place");
    assert_eq!(told_hashes(&scene.receive(late, status)), []);
    scene.hub.head_moved(Scene::head_of(&child, 300), scene.now);
    assert_eq!(told_hashes(&scene.hub.announce_head()), [(1, child.hash())]);
    assert_eq!(told_hashes(&scene.hub.announce_head()), [], "each is told once");
}

#[test]
fn a_block_that_is_not_imported_is_left_to_the_synchronization() {
    let failed = ImportResult::Failed("the disk is full".to_owned());
    for fails_at_check in [true, false] {
        let mut scene = Scene::new(WireFamily::Mc);
        let peer = scene.join(1, 63);
        let parent = block(1, scene.genesis);
        let child = block(2, parent.hash());
        scene.receive_block(peer, &parent, 200);
        scene.receive_block(peer, &child, 300);
        let actions = if fails_at_check {
            scene.refused(peer, &parent, BlockFault::NotNow("the disk is full".to_owned()))
        } else {
            scene.good(peer, &parent);
            scene.hub.imported(&parent.hash(), &failed, scene.now)
        };
        assert_eq!(hints(&actions), [parent.hash(), child.hash()]);
        // Wrong blocks are not looked for again.
        let mut scene = Scene::new(WireFamily::Mc);
        let peer = scene.join(1, 63);
        scene.receive_block(peer, &parent, 200);
        scene.good(peer, &parent);
        let invalid = ImportResult::Invalid("state root".to_owned());
        let actions = scene.hub.imported(&parent.hash(), &invalid, scene.now);
        assert!(hints(&actions).is_empty(), "{actions:?}");
    }
}

#[test]
fn a_block_for_which_there_is_no_space_is_left_to_the_synchronization() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let is_distant = |action: &PeerAction| matches!(action, PeerAction::News(PeerNews::DistantBlock { .. }));
    let mut left = 0;
    for mark in 0..BLOCKS_WAITING_MAX {
        let mut block = block(1, scene.genesis);
        block.header.extra_data = (mark as u64).to_be_bytes().to_vec().into();
        let actions = scene.receive_block(peer, &block, 200);
        left += usize::from(actions.iter().any(is_distant));
    }
    assert!(left > 0 && left < BLOCKS_WAITING_MAX, "{left}");
}

#[test]
fn a_block_ahead_of_the_clock_is_told_when_it_becomes_the_head() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers = [1, 2, 3].map(|mark| scene.join(mark, 63));
    let block = block(1, scene.genesis);
    scene.receive_block(peers[0], &block, 200);
    let checked = scene.good(peers[0], &block);
    assert!(
        matches!(&sent(&checked)[..], [(to, PeerMessage::NewBlock(..))] if to.len() == 1),
        "{checked:?}"
    );
    let imported = scene.hub.imported(&block.hash(), &ImportResult::Later, scene.now);
    assert_eq!(imported, [], "whoever asked for it would get nothing");
    scene.store(&block, 200);
    scene.hub.head_moved(Scene::head_of(&block, 200), scene.now);
    assert!(!scene.hub.has_told(&block.hash()));
    let announced = scene.hub.announce(&block, U256::from(200));
    let last = sent(&announced);
    assert!(
        matches!(&last[..], [(to, PeerMessage::NewBlock(..))] if to.len() == 1),
        "the third peer gets it: {announced:?}"
    );
}
