//! Notices of contracts: when they are pushed, to whom, and what happens at a reorganization.

use primitives::{Address, B256};
use scs_service::vnode::ScsRole;
use scs_service::{MessageKind, ScsMessage, WireAddress};

use crate::common::{CHAIN, Setup, TestStream, id, node_id};

/// Contract and number of the sort.
type Notice = (Address, i32);

async fn notice(stream: &mut TestStream) -> (ScsMessage, Notice) {
    let message = stream.message().await;
    let MessageKind::Control(status) = message.kind else {
        panic!("{message:?}");
    };
    let chain = message.chain.expect("a chain").address;
    (message, (chain, status.number()))
}

#[tokio::test]
async fn a_notice_comes_with_the_next_block() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    setup.set_role(CHAIN, id(2), ScsRole::Selectable);
    let mut consensus = setup.scs(id(1)).await;
    let mut selectable = setup.scs(id(2)).await;
    setup.add_block(10, &[(CHAIN, 2), (CHAIN, 9), (CHAIN, 0)]);
    assert!(consensus.is_quiet().await, "no block is above it");
    setup.add_block(20, &[]);
    let (message, got) = notice(&mut consensus).await;
    assert_eq!(got, (CHAIN, 2));
    assert_eq!(message.request_id, node_id(), "the plain id of the node");
    assert_eq!(message.chain, Some(WireAddress::raw(CHAIN)));
    assert_eq!(message.receiver, message.chain);
    assert_eq!(message.payload[..], B256::with_last_byte(10)[..]);
    assert!(message.is_request && message.sender.is_none() && message.scs_id.is_empty());
    assert_eq!(notice(&mut consensus).await.1, (CHAIN, 9));
    assert_eq!(notice(&mut selectable).await.1, (CHAIN, 9));
    assert_eq!(notice(&mut selectable).await.1, (CHAIN, 0));
    setup.add_block(30, &[]);
    assert!(
        consensus.is_quiet().await && selectable.is_quiet().await,
        "each comes once"
    );
}

#[tokio::test]
async fn a_notice_that_changes_roles_makes_them_read_again() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let mut scs = setup.scs(id(1)).await;
    setup.add_block(10, &[(CHAIN, 8)]);
    setup.add_block(20, &[]);
    assert_eq!(notice(&mut scs).await.1, (CHAIN, 8));
    assert_eq!(setup.host.0.lock().role_reads, 1);
    setup.set_role(CHAIN, id(1), ScsRole::None);
    setup.add_block(30, &[(CHAIN, 9), (CHAIN, 1), (CHAIN, 8)]);
    setup.add_block(40, &[]);
    assert_eq!(
        notice(&mut scs).await.1,
        (CHAIN, 9),
        "the first is judged by the old role"
    );
    assert!(scs.is_quiet().await, "it has no role any more");
    assert_eq!(setup.host.0.lock().role_reads, 2);
}

#[tokio::test]
async fn a_reorganization_repeats_notices_with_a_counter() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let mut scs = setup.scs(id(1)).await;
    setup.add_block(10, &[(CHAIN, 2)]);
    setup.add_block(20, &[(CHAIN, 3)]);
    assert_eq!(notice(&mut scs).await.1, (CHAIN, 2));
    // Both blocks are taken back. The first transaction is in another block now.
    {
        let state = &mut *setup.host.0.lock();
        let mut moved = state.blocks[1].clone();
        moved.hash = B256::repeat_byte(11);
        state.blocks.truncate(1);
        state.blocks.push(moved);
    }
    setup.add_block(21, &[(CHAIN, 4)]);
    setup.add_block(31, &[]);
    let (again, got) = notice(&mut scs).await;
    assert_eq!(got, (CHAIN, 2));
    let request_id = String::from_utf8(again.request_id.to_vec()).expect("text");
    assert!(request_id.starts_with(&format!("{}-", node_id())), "{request_id}");
    assert_eq!(
        notice(&mut scs).await.1,
        (CHAIN, 4),
        "the notice of the block that is gone never comes"
    );
    assert!(scs.is_quiet().await);
}

#[tokio::test]
async fn several_notices_of_a_transaction_come_once_each() {
    let setup = Setup::start().await;
    let other = Address::repeat_byte(0xc1);
    for chain in [CHAIN, other] {
        setup.set_role(chain, id(1), ScsRole::Consensus);
    }
    let mut scs = setup.scs(id(1)).await;
    setup.add_block(10, &[(CHAIN, 8), (CHAIN, 9), (CHAIN, 9), (other, 9)]);
    for notice in &mut setup.host.0.lock().blocks[1].notices {
        notice.transaction = B256::repeat_byte(7);
    }
    setup.add_block(20, &[]);
    let mut got = Vec::new();
    for _ in 0..3 {
        got.push(notice(&mut scs).await.1);
    }
    assert_eq!(got, [(CHAIN, 8), (CHAIN, 9), (other, 9)]);
    assert!(scs.is_quiet().await);
}

#[tokio::test]
async fn a_service_that_starts_later_repeats_no_old_notices() {
    use std::sync::Arc;

    use scs_service::vnode::{ScsServer, ServiceConfig};

    let old = Setup::start().await;
    old.set_role(CHAIN, id(1), ScsRole::Consensus);
    old.add_block(10, &[(CHAIN, 2)]);
    old.add_block(20, &[(CHAIN, 3)]);
    let config = ServiceConfig {
        node_id: node_id(),
        ..ServiceConfig::default()
    };
    let heads = old.heads.subscribe();
    let server = ScsServer::start("127.0.0.1:0", None, config, Arc::clone(&old.host) as _, heads).await;
    let new = Setup {
        host: Arc::clone(&old.host),
        heads: old.heads.clone(),
        server: server.expect("a free port"),
    };
    let mut scs = new.scs(id(1)).await;
    new.heads.send_replace(2);
    assert!(scs.is_quiet().await, "the head has not moved");
    new.add_block(30, &[(CHAIN, 4)]);
    assert_eq!(
        notice(&mut scs).await.1,
        (CHAIN, 3),
        "that of the head comes with the next block"
    );
    assert!(scs.is_quiet().await);
}
