//! Peers on another chain than the required blocks lose their places.

use chain::import::BlockId;

use super::*;
use crate::messages::HeadersStart;

/// A peer that has been asked for block 7, the id of the request, and the block that it must have.
fn asked() -> (Scene, PeerId, u64, Header) {
    let mut scene = Scene::new(WireFamily::Eth);
    let right = header(7, B256::repeat_byte(6));
    let required = BlockId {
        number: 7,
        hash: right.hash(),
    };
    scene.hub.require_blocks(&[required]);
    let new = scene.new_peer(1, 66);
    let (peer, _) = scene.hub.admit(new, scene.now).expect("a place");
    let status = PeerMessage::Status(scene.status(66));
    let actions = scene.receive(peer, status);
    let asked = sent(&actions).into_iter().find_map(|(_, message)| match message {
        PeerMessage::GetBlockHeaders(id, request) => Some((id, request)),
        _ => None,
    });
    let (id, request) = asked.expect("the header is asked for");
    assert!(matches!(request.start, HeadersStart::Number(7)) && request.amount == 1);
    (scene, peer, id, right)
}

#[test]
fn a_peer_with_the_required_block_or_none_stays() {
    for has_block in [true, false] {
        let (mut scene, peer, id, right) = asked();
        let headers = if has_block { vec![right] } else { Vec::new() };
        let actions = scene.receive(peer, PeerMessage::BlockHeaders(id, headers));
        assert!(actions.is_empty());
        assert_eq!(scene.hub.peers().count(), 1);
    }
}

#[test]
fn a_peer_with_another_block_is_dropped_and_may_not_come_back() {
    let wrong = [header(7, B256::repeat_byte(5)), header(8, B256::repeat_byte(6))];
    for header in wrong {
        let (mut scene, peer, id, _) = asked();
        let actions = scene.receive(peer, PeerMessage::BlockHeaders(id, vec![header]));
        assert!(is_dropped(&actions, peer));
        let again = scene.new_peer(1, 66);
        assert!(scene.hub.admit(again, scene.now).is_err());
    }
}

#[test]
fn a_peer_that_does_not_answer_is_dropped() {
    let (mut scene, peer, ..) = asked();
    let actions = scene.wait(crate::requests::REQUEST_TIMEOUT_MAX);
    assert!(is_dropped(&actions, peer));
}
