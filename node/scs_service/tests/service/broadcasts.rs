//! The receivers of each broadcast and of each transaction.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use primitives::Address;
use scs_service::message::{OWN_STATUS_FIRST, message_hash};
use scs_service::vnode::{DirectCallError, RoleAnswer, ScsRole};
use scs_service::{MessageKind, ScsMessage, WireAddress};

use crate::common::{CHAIN, Setup, TestStream, call, id, message, node_id, wait_until};

const ROLES: [ScsRole; 5] = [
    ScsRole::None,
    ScsRole::Consensus,
    ScsRole::Monitor,
    ScsRole::Backup,
    ScsRole::Selectable,
];

/// An SCS of each role, and one whose contract fails.
async fn all_roles(setup: &Setup) -> Vec<TestStream> {
    let mut streams = Vec::new();
    for (index, role) in ROLES.into_iter().enumerate() {
        let id = id(1 + index as u8);
        setup.set_role(CHAIN, id, role);
        streams.push(setup.scs(id).await);
    }
    let locked = id(6);
    let roles = &mut setup.host.0.lock().roles;
    roles.insert((CHAIN, locked), RoleAnswer::CallFailed);
    streams
}

/// Sends a broadcast, and then one that each SCS gets. Returns which SCSs got the first one.
async fn receivers(sender: &TestStream, streams: &mut [TestStream], broadcast: ScsMessage) -> Vec<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(1_000_000);
    sender.send(broadcast.encode()).await;
    let mut got = Vec::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // A request for blocks goes to the SCS that it names, whatever its role.
        let end = ScsMessage {
            receiver: Some(WireAddress::raw(Address::repeat_byte(1 + index as u8))),
            ..message(2, 1, id(99), number)
        };
        sender.send(end.encode()).await;
        let first = stream.message().await;
        if first == end {
            continue;
        }
        assert_eq!(first, broadcast, "it is passed on unchanged");
        got.push(index);
        assert_eq!(stream.message().await, end);
    }
    got
}

#[tokio::test]
async fn broadcasts_go_to_roles() {
    let setup = Setup::start().await;
    let mut streams = all_roles(&setup).await;
    streams.push(setup.scs(id(6)).await);
    let sender = setup.connect().await.stream().await;
    for (number, (status, expected)) in [
        (0, vec![1, 2, 3]),
        (3, vec![1]),
        (4, vec![1]),
        (5, vec![1]),
        (6, vec![1, 2, 3]),
        (7, vec![1, 2, 3]),
        (OWN_STATUS_FIRST, vec![1, 2, 3]),
    ]
    .into_iter()
    .enumerate()
    {
        let broadcast = message(2, status, id(99), number);
        assert_eq!(
            receivers(&sender, &mut streams, broadcast).await,
            expected,
            "{status}"
        );
    }
    // An SCS that a message was written by does not get it.
    let own = message(2, 0, id(2), 100);
    assert_eq!(receivers(&sender, &mut streams, own).await, [2, 3]);
    // Other MicroChains have other roles.
    let elsewhere = ScsMessage {
        chain: Some(WireAddress::raw(Address::repeat_byte(0xee))),
        ..message(2, 0, id(99), 101)
    };
    assert_eq!(receivers(&sender, &mut streams, elsewhere).await, [0; 0]);
    // Answers to transactions and notices, and kinds that nobody knows, are read and ignored.
    for kind in [1, 3, 6] {
        let ignored = message(kind, 2, id(99), 200);
        assert_eq!(receivers(&sender, &mut streams, ignored).await, [0; 0], "{kind}");
    }
}

#[tokio::test]
async fn a_message_is_pushed_once() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let mut scs = setup.scs(id(1)).await;
    let sender = setup.connect().await.stream().await;
    let long = message(2, 0, id(9), 1);
    for _ in 0..3 {
        sender.send(long.encode()).await;
    }
    // A short requestid is not remembered.
    let short = ScsMessage {
        request_id: Bytes::from_static(b"twenty bytes at most"),
        ..message(2, 0, id(9), 2)
    };
    sender.send(short.encode()).await;
    sender.send(short.encode()).await;
    assert_eq!(scs.message().await, long);
    assert_eq!(scs.message().await, short);
    assert_eq!(scs.message().await, short);
    assert!(scs.is_quiet().await);
    assert_eq!(setup.service().counters().repeated, 2);
    // Every message was offered to the peers.
    let relayed = setup.host.0.lock().relayed.clone();
    assert_eq!(relayed.len(), 5);
    assert_eq!(relayed[0], (long.encode(), message_hash(&long.encode())));
    // A message that a peer passes on is not sent back to peers.
    let from_peer = message(2, 0, id(9), 3);
    let pushed = setup.service().push_from_peer(&from_peer.encode()).await;
    assert_eq!(pushed, Ok(1));
    assert_eq!(setup.service().push_from_peer(&from_peer.encode()).await, Ok(0));
    assert_eq!(scs.message().await, from_peer);
    // A peer cannot speak for this node or for contracts.
    for kind in [1, 3, 4, 5, 9] {
        let forged = message(kind, 9, id(9), 4).encode();
        let refused = setup
            .service()
            .push_from_peer(&forged)
            .await
            .expect_err("refused");
        assert_eq!(
            refused.to_string(),
            format!("type: got {kind}, expected 2, a broadcast")
        );
    }
    assert_eq!(setup.host.0.lock().relayed.len(), 5);
}

#[tokio::test]
async fn a_message_without_receivers_may_come_again() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let early = message(2, 0, id(9), 1).encode();
    assert_eq!(setup.service().push_from_peer(&early).await, Ok(0));
    let mut scs = setup.scs(id(1)).await;
    assert_eq!(setup.service().push_from_peer(&early).await, Ok(1));
    assert_eq!(scs.message().await.payload, Bytes::from_static(b"content 1"));
}

#[tokio::test]
async fn roles_are_read_again_after_twenty_blocks() {
    let setup = Setup::start().await;
    let mut scs = setup.scs(id(1)).await;
    let push = async |number| {
        let pushed = setup
            .service()
            .push_from_peer(&message(2, 0, id(9), number).encode())
            .await;
        (pushed, setup.host.0.lock().role_reads)
    };
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    assert_eq!(push(1).await, (Ok(1), 1));
    assert_eq!(scs.message().await.payload, Bytes::from_static(b"content 1"));
    setup.set_role(CHAIN, id(1), ScsRole::None);
    setup.heads.send_replace(19);
    assert_eq!(push(2).await, (Ok(1), 1), "the role of a member is remembered");
    assert_eq!(scs.message().await.payload, Bytes::from_static(b"content 2"));
    setup.heads.send_replace(20);
    assert_eq!(push(3).await, (Ok(0), 2));
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    setup.heads.send_replace(21);
    assert_eq!(push(4).await, (Ok(1), 3), "any other role is read at each head");
    assert_eq!(scs.message().await.payload, Bytes::from_static(b"content 4"));
    let failing = (CHAIN, id(2));
    setup.host.0.lock().roles.insert(failing, RoleAnswer::CallFailed);
    let _locked = setup.scs(id(2)).await;
    assert_eq!(push(5).await, (Ok(1), 4));
    setup.set_role(CHAIN, id(2), ScsRole::Consensus);
    setup.heads.send_replace(1000);
    assert_eq!(
        push(6).await,
        (Ok(1), 5),
        "a contract that failed is not asked again"
    );
}

#[tokio::test]
async fn transactions_go_to_those_who_make_blocks() {
    let setup = Setup::start().await;
    let mut streams = all_roles(&setup).await;
    for number in 0..10 {
        let call = call(format!("transaction {number}").as_bytes());
        assert_eq!(setup.service().submit(call.clone()), Ok(call.hash));
        assert_eq!(setup.service().submit(call), Err(DirectCallError::Known));
    }
    assert_eq!(DirectCallError::Known.to_string(), "Marked transactions");
    for number in 0..10 {
        let message = streams[1].message().await;
        let expected = call(format!("transaction {number}").as_bytes());
        assert_eq!(message.kind, MessageKind::DirectCall { status: 0 });
        assert_eq!(message.payload, expected.rlp.0, "they come in order");
        assert_eq!(message.sender, Some(WireAddress::rlp(expected.sender)));
        assert_eq!(message.chain, Some(WireAddress::rlp(CHAIN)));
        assert_eq!(message.receiver, message.chain);
        assert!(message.scs_id.is_empty() && message.encode().status.is_empty());
        let request_id = String::from_utf8(message.request_id.to_vec()).expect("text");
        assert!(request_id.starts_with(&format!("{}-", node_id())), "{request_id}");
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        assert!(stream.is_quiet().await, "{index}");
    }
    wait_until("the peers", || setup.host.0.lock().relayed_calls.len() == 10).await;
}

#[tokio::test]
async fn a_transaction_waits_for_those_who_make_blocks() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    setup.set_role(CHAIN, id(2), ScsRole::Monitor);
    let mut monitor = setup.scs(id(2)).await;
    let early = [call(b"first"), call(b"second")];
    for call in &early {
        assert_eq!(setup.service().submit(call.clone()), Ok(call.hash));
        assert_eq!(setup.service().submit(call.clone()), Err(DirectCallError::Known));
    }
    let mut maker = setup.scs(id(1)).await;
    for call in &early {
        assert_eq!(maker.message().await.payload, call.rlp.0, "they come in order");
    }
    assert!(
        maker.is_quiet().await && monitor.is_quiet().await,
        "each comes once"
    );
    // The transaction is not pushed again to an SCS that comes later.
    drop(maker);
    let mut again = setup.scs(id(1)).await;
    assert!(again.is_quiet().await);
}
