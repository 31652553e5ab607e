//! Old blocks in the blocks file: however they got there, everything reads as before, and the head
//! can be set back to any of them.

use std::collections::HashMap;

use chain::View;
use chain::import::OldBlocks;
use chain::logs::{LogLimits, LogQuery};
use primitives::Block;
use store::{AncientReads, TableId};

use crate::common::{Maker, Node, Plan, Rows, rows, stored_rows};
use crate::random_forks::{Act, spec, transactions};
use crate::scenes::{check_faults, import_as_stream_into, view};

/// The newest five blocks stay rows; four blocks move at once.
const EARLY: OldBlocks = OldBlocks { depth: 5, step: 4 };

/// Blocks of the chain.
const BLOCKS: u64 = 30;

/// A chain whose blocks have transactions, logs and receipts.
fn chain() -> (Maker, Vec<Block>) {
    let mut maker = Maker::new(spec());
    let mut nonces = HashMap::new();
    let mut tip = maker.genesis;
    let blocks = (1..=BLOCKS).map(|number| {
        let slot = number as u8 % 7;
        let acts = [
            (0, Act::Hatch { salt: slot }),
            (
                0,
                Act::Write {
                    salt: slot,
                    slot,
                    value: 3,
                },
            ),
            (
                1,
                Act::Transfer {
                    to: 40 + slot,
                    value: number,
                },
            ),
            (2, Act::Destroy { salt: slot, value: 1 }),
        ];
        let acts = &acts[..1 + number as usize % 4];
        let block = maker.block(tip, Plan::with(transactions(acts, &mut nonces)));
        tip = block.hash();
        block
    });
    let blocks = blocks.collect();
    (maker, blocks)
}

fn node(maker: &Maker) -> Node {
    let mut node = Node::new(&maker.spec);
    node.importer = node.importer.moving(EARLY);
    node
}

/// The number of blocks in the file.
fn ancient(node: &Node) -> u64 {
    node.store
        .snapshot()
        .expect("snapshot")
        .ancient_count()
        .expect("read")
}

/// Everything that a view shows of its blocks.
fn shown(view: &View) -> Vec<String> {
    let mut shown = Vec::new();
    for number in 0..=view.head_number() {
        let block = view.block(number).expect("read").expect("stored");
        shown.push(format!("{:?}", view.receipts(&block.id()).expect("read")));
        for transaction in &block.body.transactions {
            let found = view.transaction(&transaction.hash()).expect("read");
            shown.push(format!("{:?}", found.expect("found").1));
        }
        shown.push(format!("{block:?}"));
    }
    let query = LogQuery::new(Vec::new(), Vec::new());
    let search = view
        .logs(0..=view.head_number(), &query, LogLimits::NONE)
        .expect("a search");
    shown.extend(search.map(|log| format!("{:?}", log.expect("read"))));
    shown
}

#[test]
fn blocks_move_alike_one_by_one_and_in_runs_and_read_as_before() {
    let (maker, blocks) = chain();
    let plain = Node::new(&maker.spec);
    plain.take(&blocks);
    let single = node(&maker);
    single.take(&blocks);
    let stream = node(&maker);
    import_as_stream_into(&stream, &blocks);
    let expected = shown(&view(&plain, &maker));
    for node in [&single, &stream] {
        // Block 25 is five blocks below the head; a move ends with block 23.
        assert_eq!(ancient(node), 24);
        assert_eq!(check_faults(&node.store, &maker.spec, true).1, []);
        assert!(rows(&node.store) == rows(&plain.store));
        assert!(shown(&view(node, &maker)) == expected);
        let bodies = stored_rows(&node.store)[TableId::BlockToBody.name()].len();
        assert_eq!(bodies as u64, BLOCKS + 1 - 24);
    }
    assert_eq!(ancient(&plain), 0);
}

#[test]
fn a_view_reads_its_blocks_while_they_move_and_come_back() {
    let (maker, blocks) = chain();
    let node = node(&maker);
    node.take(&blocks[..20]);
    let early = view(&node, &maker);
    let before = shown(&early);
    node.take(&blocks[20..]);
    assert!(shown(&early) == before);
    let late = view(&node, &maker);
    let whole = shown(&late);
    node.importer.set_head(3).expect("a canonical block");
    assert!(shown(&early) == before && shown(&late) == whole);
    node.take(&blocks[3..]);
    assert!(shown(&early) == before && shown(&late) == whole);
    assert!(shown(&view(&node, &maker)) == whole);
}

#[test]
fn the_head_is_set_back_to_any_old_block() {
    let (maker, blocks) = chain();
    let node = node(&maker);
    // Code stays when its block goes.
    let state = || {
        let mut rows = node.rows();
        rows.remove(TableId::HashToCode.name());
        rows
    };
    let mut states: Vec<Rows> = vec![state()];
    for block in &blocks {
        node.take(std::slice::from_ref(block));
        states.push(state());
    }
    for number in (0..BLOCKS).rev() {
        node.importer.set_head(number).expect("a canonical block");
        assert!(state() == states[number as usize], "head set to {number}");
        assert_eq!(ancient(&node), 24.min(number + 1));
        assert_eq!(check_faults(&node.store, &maker.spec, true).1, []);
    }
    node.take(&blocks);
    assert!(state() == states[BLOCKS as usize]);
    assert_eq!(check_faults(&node.store, &maker.spec, true).1, []);
}
