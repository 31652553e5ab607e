//! Messages and transactions for application chains.

use super::*;
use crate::messages::{APPLICATION_MESSAGE_BYTES_MAX, codes};
use crate::peers::hub::gate::APPLICATION_MESSAGE_COST_MIN;
use crate::peers::share::ShareRate;

#[test]
fn what_is_for_application_chains_is_passed_on_once() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers: Vec<_> = (1..=3).map(|mark| scene.join(mark, 63)).collect();
    let message = ApplicationChainMessage {
        request_id: vec![1].into(),
        ..ApplicationChainMessage::default()
    };
    let came = PeerMessage::ApplicationChain(Box::new(message.clone()));
    let actions = scene.take(peers[0], came.clone());
    assert!(matches!(&sent(&actions)[..], [(to, _)] if *to == peers[1..]));
    assert!(matches!(actions.last(), Some(PeerAction::ApplicationChain(_))));
    assert!(scene.take(peers[1], came).is_empty());
    assert!(scene.hub.relay_message(message.key(), &message).is_empty());
    let flagged = transaction(1, 1);
    let actions = scene.take(peers[0], PeerMessage::Transactions(vec![flagged.clone()]));
    assert!(
        matches!(&actions[..], [PeerAction::ForApplicationChain(_)]),
        "{actions:?}"
    );
    let told = sent(&scene.hub.relay_transaction(flagged.hash(), &flagged));
    assert!(
        matches!(&told[..], [(to, PeerMessage::Transactions(_))] if *to == peers[1..]),
        "{told:?}"
    );
    assert!(scene.hub.relay_transaction(flagged.hash(), &flagged).is_empty());
}

#[test]
fn a_subnet_carries_nothing_but_what_is_for_its_chain() {
    let mut scene = Scene::new(WireFamily::Mc);
    scene.hub.carry_application_chains_only();
    // The pool is not told of.
    scene.chain.pool.lock().push(transaction(1, 0));
    let peers: Vec<_> = (1..=2).map(|mark| scene.join(mark, 63)).collect();
    let child = block(1, scene.genesis);
    let announced = AnnouncedBlock {
        hash: child.hash(),
        number: 1,
    };
    let request = HeadersRequest {
        start: HeadersStart::Number(0),
        amount: 1,
        skip: 0,
        reverse: false,
    };
    for ignored in [
        whole(&child, 200),
        PeerMessage::NewBlockHashes(vec![announced]),
        PeerMessage::GetBlockHeaders(1, request),
    ] {
        assert_eq!(scene.admits(peers[0], &ignored), Err(Vec::new()), "{ignored:?}");
    }
    let ordinary = PeerMessage::Transactions(vec![transaction(2, 0)]);
    assert_eq!(scene.take(peers[0], ordinary), []);
    assert!(
        scene.wait(Duration::from_secs(1)).is_empty(),
        "nothing is asked for"
    );
    let message = PeerMessage::ApplicationChain(Box::default());
    let actions = scene.take(peers[0], message);
    assert!(
        matches!(&sent(&actions)[..], [(to, _)] if *to == peers[1..]),
        "{actions:?}"
    );
    let flagged = PeerMessage::Transactions(vec![transaction(3, 1), transaction(4, 0)]);
    let actions = scene.take(peers[0], flagged);
    assert!(
        matches!(&actions[..], [PeerAction::ForApplicationChain(_)]),
        "{actions:?}"
    );
}

#[test]
fn long_messages_and_floods_are_left_out_before_they_are_decoded() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers = [scene.join(1, 63), scene.join(2, 63)];
    let mut admits = |peer, bytes, now| scene.hub.admits(peer, codes::APPLICATION_CHAIN, bytes, now);
    let start = Moment::default();
    assert_eq!(
        admits(peers[0], APPLICATION_MESSAGE_BYTES_MAX + 1, start),
        Err(Vec::new()),
        "an honest node may have passed it on, so nobody loses a place"
    );
    let mut bytes = 0;
    while admits(peers[0], 1 << 20, start) == Ok(()) {
        bytes += 1 << 20;
    }
    let ShareRate { burst, per_second } = APPLICATION_MESSAGES_SHARE;
    assert!((burst..=burst + (2 << 20)).contains(&bytes), "{bytes}");
    assert_eq!(admits(peers[1], 1 << 20, start), Ok(()), "each peer has a share");
    // Then so many come as grow back.
    let mut later = 0;
    for second in 1..=60 {
        let now = start.after(Duration::from_secs(second));
        while admits(peers[0], 1 << 18, now) == Ok(()) {
            later += 1 << 18;
        }
    }
    assert!((58 * per_second..=62 * per_second).contains(&later), "{later}");
}

#[test]
fn short_messages_are_bounded_in_number() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let shortest = PeerMessage::ApplicationChain(Box::default());
    let mut count = 0;
    while scene.admits(peer, &shortest) == Ok(()) {
        count += 1;
        assert!(count <= 4097, "too many at once");
    }
    assert_eq!(
        count,
        APPLICATION_MESSAGES_SHARE.burst / APPLICATION_MESSAGE_COST_MIN + 1
    );
    scene.now = scene.now.after(Duration::from_secs(10));
    let mut later = 0;
    while scene.admits(peer, &shortest) == Ok(()) {
        later += 1;
    }
    assert!((2550..=2570).contains(&later), "{later}");
}

#[test]
fn a_new_key_brings_no_new_share_of_messages() {
    let mut scene = Scene::new(WireFamily::Mc);
    let start = Moment::default();
    let mut join = |mark: u8, is_exempt: bool| {
        let new = NewPeer {
            address: IpAddr::from([198, 51, 100, 1]),
            is_exempt,
            ..scene.new_peer(mark, 63)
        };
        let (peer, _) = scene.hub.admit(new, start).expect("a place");
        scene.receive(peer, PeerMessage::Status(scene.status(63)));
        peer
    };
    let (flooder, stranger, exempt) = (join(1, false), join(2, false), join(3, true));
    let mut admits = |peer| {
        scene
            .hub
            .admits(peer, codes::APPLICATION_CHAIN, 1 << 20, start)
            .is_ok()
    };
    while admits(flooder) {}
    assert!(!admits(stranger), "it has the share of its address");
    assert!(admits(exempt), "it has a share of its own");
}
