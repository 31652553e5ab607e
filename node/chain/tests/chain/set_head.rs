//! Setting the head back: afterwards the store is as if it never had a block above the new head,
//! and the chain's memory follows.

use std::sync::atomic::AtomicBool;

use chain::chain::WriteError;
use chain::check::{CheckEvent, check_store};
use chain::import::Imported;
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Block, Transaction};
use store::{Store, TableId};

use crate::common::{Maker, Node, Plan, Rows, account, deploys, hex, sign, unsigned};

/// Block 1 makes a contract that logs, sends a notice to application chains and writes a slot.
/// Blocks 2 to 4 call it. The second list has a side block for each of blocks 1 to 3.
fn scene(maker: &mut Maker) -> (Vec<Block>, Vec<Block>) {
    let code = hex("6000 6000 a0 6000 6000 6000 6000 6000 600d 61ffff f1 50 43 43 55");
    let to = Transaction::created_address(&account(0), 0);
    let create = sign(0, &unsigned(0, None, 0, &deploys(&code)));
    let mut main = vec![maker.block(maker.genesis, Plan::with(vec![create]))];
    for nonce in 1..4 {
        let call = sign(0, &unsigned(nonce, Some(to), 0, &[]));
        let parent = main.last().expect("a block").hash();
        main.push(maker.block(parent, Plan::with(vec![call])));
    }
    let side = |parent: &Block| (parent.hash(), Plan::marked(7));
    let plans: Vec<_> = main[..3].iter().map(side).collect();
    let sides = plans
        .into_iter()
        .map(|(parent, plan)| maker.block(parent, plan))
        .collect();
    (main, sides)
}

/// All rows except the code of contracts. Code is stored by its hash and may stay.
fn without_code(mut rows: Rows) -> Rows {
    rows.remove(TableId::HashToCode.name());
    rows
}

fn faults(maker: &Maker, store: &Store) -> Vec<String> {
    let mut faults = Vec::new();
    check_store(store, &maker.spec, true, &AtomicBool::new(false), &mut |event| {
        if let CheckEvent::Fault(fault) = event {
            faults.push(fault.to_string());
        }
    })
    .expect("checked");
    faults
}

#[test]
fn the_store_has_no_trace_of_blocks_above_the_new_head() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (main, sides) = scene(&mut maker);
    for number in (0..=4).rev() {
        let node = Node::new(&maker.spec);
        node.take(&main);
        node.take(&sides);
        let all_rows = node.rows();
        let reverted = node.importer.set_head(number).expect("set");
        let expected: Vec<_> = main[number as usize..].iter().rev().map(Block::hash).collect();
        assert_eq!(reverted.iter().map(|id| id.hash).collect::<Vec<_>>(), expected);

        let fresh = Node::new(&maker.spec);
        fresh.take(&main[..number as usize]);
        fresh.take(&sides[..(number as usize).saturating_sub(1)]);
        assert!(
            without_code(node.rows()) == without_code(fresh.rows()),
            "block {number}"
        );
        assert_eq!(faults(&maker, &node.store), [""; 0], "block {number}");
        // The same blocks can be imported again, although the state of another head is in memory.
        node.take(&main);
        node.take(&sides);
        assert!(node.rows() == all_rows, "block {number} and on");
    }
}

#[test]
fn pool_and_subscribers_follow() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (main, sides) = scene(&mut maker);
    let config = ChainConfig {
        spec: maker.spec.clone(),
        seals: SealCheck::Off,
        forks: chain::import::ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: account(9),
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
    };
    let chain = Chain::open(Store::in_memory().expect("a store"), config).expect("a chain");
    for block in main.iter().chain(&sides) {
        chain.import(block.clone()).expect("a good block");
    }
    let waiting = sign(0, &unsigned(4, Some(account(1)), 1, &[]));
    chain.submit_transaction(waiting).expect("good");
    assert_eq!(chain.pool().counts(), (1, 0));
    let events = chain.subscribe();

    let above = chain.set_head(5).expect_err("there is none");
    assert!(
        matches!(above, WriteError::AboveHead { got: 5, head: 4 }),
        "{above}"
    );
    let reverted = chain.set_head(2).expect("set");
    let event = events.try_recv().expect("subscribers get an event");
    assert_eq!((&event.reverted, event.applied.len()), (&reverted, 0));
    assert_eq!(chain.view().expect("a view").head_hash(), main[1].hash());
    assert_eq!(
        chain.pool().counts(),
        (0, 1),
        "two nonces are missing because their transactions do not return"
    );

    let again = chain.import(main[2].clone()).expect("a good block");
    assert!(matches!(again, Imported::Head { reverted, .. } if reverted.is_empty()));
    chain.import(main[3].clone()).expect("a good block");
    assert_eq!(chain.pool().counts(), (1, 0));
    assert_eq!(chain.failure(), None);
    drop(chain);
}
