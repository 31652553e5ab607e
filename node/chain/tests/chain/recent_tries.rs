//! The tries of the last states: proofs after any of the last 128 blocks, through reorganizations,
//! long imports and damage.

use alloy_trie::Nibbles;
use alloy_trie::proof::verify_proof;
use chain::View;
use chain::import::{Imported, KEPT_TRIES, OldBlocks};
use chain::trie::account_value;
use primitives::{Address, B256, Block, Bytes, EMPTY_ROOT, U256, keccak256};
use proptest::prelude::*;
use proptest::test_runner::Config;
use store::{AccountRecord, PastNodeReads, Store, TableId};

use crate::common::{Maker, Node, account, stored_rows};
use crate::headers::headers;
use crate::import_runs::prepare;
use crate::random_forks::{RandomBlock, RandomTree, WORM_SLOTS, random_block, spec, worm};
use crate::scenes::{assert_sound, check_faults, view};

/// The accounts that the blocks of the tests change, and some that do not exist.
fn addresses() -> Vec<Address> {
    let plain = (0..5).map(account);
    let small = (0..6).map(Address::with_last_byte);
    plain.chain(small).chain((0..3).map(worm)).collect()
}

/// Proves all accounts, and slots of those with a storage, after block `number`, and lets another
/// implementation check the proofs.
fn assert_proven(view: &View, number: u64) {
    let (_, record) = view.header(number).expect("read").expect("canonical");
    let slots: Vec<U256> = WORM_SLOTS.map(U256::from).collect();
    for address in addresses() {
        let is_worm = (0..3).any(|salt| worm(salt) == address);
        let slots = if is_worm { slots.as_slice() } else { &[] };
        let proof = view.proof(number, &address, slots).expect("read");
        let proof = proof.unwrap_or_else(|| panic!("no tries of block {number}"));
        let bytes = |nodes: &[Vec<u8>]| nodes.iter().cloned().map(Bytes::from).collect::<Vec<_>>();
        let exists = view.account(&address, number).expect("read").is_some();
        let value = exists.then(|| {
            account_value(&AccountRecord {
                tx_nonce: proof.tx_nonce,
                balance: proof.balance,
                storage_root: proof.storage_root,
                code_hash: proof.code_hash,
            })
        });
        let key = Nibbles::unpack(keccak256(address));
        verify_proof(record.header.state_root, key, value, &bytes(&proof.nodes))
            .unwrap_or_else(|error| panic!("{address} after block {number}: {error}"));
        for slot in &proof.slots {
            assert_eq!(slot.value, view.slot(&address, &slot.slot, number).expect("read"));
            if proof.storage_root == EMPTY_ROOT {
                assert!(slot.nodes.is_empty() && slot.value.is_zero());
                continue;
            }
            let key = Nibbles::unpack(keccak256(B256::from(slot.slot)));
            let value = (!slot.value.is_zero()).then(|| alloy_rlp::encode(slot.value));
            verify_proof(proof.storage_root, key, value, &bytes(&slot.nodes))
                .unwrap_or_else(|error| panic!("slot {} of {address} after {number}: {error}", slot.slot));
        }
    }
}

/// Asserts that exactly the blocks from `oldest` on have proofs.
#[track_caller]
fn assert_window(node: &Node, maker: &Maker, oldest: u64) -> View {
    let view = view(node, maker);
    assert_eq!(view.oldest_tries().expect("read"), oldest);
    if let Some(below) = oldest.checked_sub(1) {
        assert_eq!(view.proof(below, &account(0), &[]).expect("read"), None);
    }
    view
}

fn forks(plan: Vec<RandomBlock>, old_blocks: OldBlocks) {
    let mut maker = Maker::new(spec());
    let mut node = Node::new(&maker.spec);
    node.importer = node.importer.moving(old_blocks);
    let mut tree = RandomTree::new(maker.genesis);
    for random in plan {
        let (block, after) = tree.make(&mut maker, &random);
        if !matches!(node.import(&block), Ok(Imported::Side | Imported::Head { .. })) {
            continue;
        }
        tree.add(&block, after);
    }
    let view = view(&node, &maker);
    let oldest = view.oldest_tries().expect("read");
    if old_blocks == OldBlocks::default() {
        assert_eq!(oldest, 0, "fewer than {KEPT_TRIES} blocks");
    }
    for number in oldest..=view.head_number() {
        assert_proven(&view, number);
    }
    assert_sound(&node.store, &maker.spec);
    // Made from the head downwards they are the same.
    let rows = || stored_rows(&node.store)[TableId::BlockToPastNodes.name()].clone();
    let before = rows();
    let batch = node.store.batch().expect("batch");
    let deleted = batch.write(|tables| match tables.past_nodes_range()? {
        Some((first, last)) => tables.delete_past_nodes(first, last),
        None => Ok(()),
    });
    deleted.and_then(|()| batch.commit()).expect("deleted");
    node.importer.make_past_nodes().expect("made");
    assert_eq!(rows(), before);
}

proptest! {
    #![proptest_config(Config { cases: 8, failure_persistence: None, ..Config::default() })]

    #[test]
    fn each_recent_state_is_proven_after_reorganizations(
        plan in proptest::collection::vec(random_block(), 1..28),
        depth in prop_oneof![Just(256_u64), 2..6_u64],
    ) {
        let step = if depth == 256 { 64 } else { 2 };
        forks(plan, OldBlocks { depth, step });
    }
}

#[test]
fn the_window_is_128_states_and_older_ones_are_refused() {
    let mut maker = Maker::new(spec());
    let blocks = maker.line(maker.genesis, 140, 1);
    let node = Node::new(&maker.spec);
    node.take(&blocks[..127]);
    assert_window(&node, &maker, 0);
    node.take(&blocks[127..]);
    let view = assert_window(&node, &maker, 140 + 1 - KEPT_TRIES);
    assert_proven(&view, 140 + 1 - KEPT_TRIES);
    let range = view.snapshot().past_nodes_range().expect("read");
    assert_eq!(range, Some((140 + 2 - KEPT_TRIES, 140)));
    // Blocks that were taken back have no nodes before them any more.
    node.importer.set_head(120).expect("set");
    let view = assert_window(&node, &maker, 140 + 1 - KEPT_TRIES);
    assert_proven(&view, 119);
    // The next commit goes on where the others are missing.
    node.take(&blocks[120..121]);
    assert_window(&node, &maker, 0);
    assert_sound(&node.store, &maker.spec);
}

/// Imports blocks in one commit.
fn import_run(node: &Node, blocks: &[Block]) {
    let mut waiting = prepare(node, blocks);
    let run = node.importer.import_run(None, &mut || waiting.pop_front());
    assert_eq!(run.expect("the store works").blocks, blocks.len());
}

#[test]
fn a_long_import_makes_none_and_they_are_made_later() {
    let mut maker = Maker::new(spec());
    let blocks = maker.line(maker.genesis, 90, 1);
    let node = Node::new(&maker.spec);
    import_run(&node, &blocks[..80]);
    assert_window(&node, &maker, 80);
    // A commit makes 32 of them.
    node.take(&blocks[80..81]);
    assert_window(&node, &maker, 81 - 32);
    node.take(&blocks[81..82]);
    // One of the 32 is that of the new block.
    assert_window(&node, &maker, 81 - 32 - 31);
    node.importer.make_past_nodes().expect("made");
    let view = assert_window(&node, &maker, 0);
    assert_proven(&view, 0);
    assert_proven(&view, 37);
    // Commits of single blocks make the same.
    let single = Node::new(&maker.spec);
    single.take(&blocks[..82]);
    let table = TableId::BlockToPastNodes.name();
    assert_eq!(stored_rows(&node.store)[table], stored_rows(&single.store)[table]);
    // A short run makes those of its own blocks.
    import_run(&node, &blocks[82..]);
    assert_window(&node, &maker, 0);
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn a_full_batch_is_a_part_of_a_long_import() {
    let mut maker = Maker::new(spec());
    let blocks = maker.line(maker.genesis, 90, 1);
    let mut node = Node::new(&maker.spec);
    let (mut done, mut batch_bytes) = (0, 1);
    let count = loop {
        node.importer = node.importer.with_batch_bytes(batch_bytes);
        let mut waiting = prepare(&node, &blocks[done..]);
        let run = node.importer.import_run(None, &mut || waiting.pop_front());
        let count = run.expect("the store works").blocks;
        done += count;
        if count > 1 {
            break count;
        }
        // A batch of one block may be that of the newest block.
        assert_window(&node, &maker, 0);
        batch_bytes *= 2;
    };
    assert!(
        (2..=32).contains(&count) && done < blocks.len(),
        "{count}, {done}"
    );
    assert_window(&node, &maker, done as u64);
    node.take(&blocks[done..=done]);
    assert_window(&node, &maker, (done as u64).saturating_sub(31));
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn blocks_far_below_the_best_header_have_none() {
    let mut maker = Maker::new(spec());
    let blocks = maker.line(maker.genesis, 170, 1);
    let node = Node::new(&maker.spec);
    node.take(&blocks[..2]);
    assert_window(&node, &maker, 0);
    node.import_headers(headers(&blocks[2..])).expect("valid");
    // The stored ones are soon too old.
    node.take(&blocks[2..3]);
    assert_window(&node, &maker, 3);
    import_run(&node, &blocks[3..30]);
    assert_window(&node, &maker, 30);
    let oldest = 170 + 1 - KEPT_TRIES;
    node.take(&blocks[30..43]);
    assert_window(&node, &maker, oldest);
    import_run(&node, &blocks[43..60]);
    let view = assert_window(&node, &maker, oldest);
    assert_proven(&view, oldest);
    assert_sound(&node.store, &maker.spec);
    node.take(&blocks[60..]);
    assert_window(&node, &maker, oldest);
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn damage_is_found_and_nothing_below_it_is_proven() {
    let mut maker = Maker::new(spec());
    let blocks = maker.line(maker.genesis, 6, 1);
    let damaged = |row: Option<&dyn Fn(Vec<u8>) -> Vec<u8>>| {
        let node = Node::new(&maker.spec);
        node.take(&blocks);
        let key = 4_u64.to_be_bytes();
        let rows = stored_rows(&node.store);
        let before = rows[TableId::BlockToPastNodes.name()][key.as_slice()].clone();
        put(&node.store, &key, row.map(|change| change(before)));
        let (_, faults) = check_faults(&node.store, &maker.spec, false);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].to_string().contains("block_to_past_nodes"),
            "{}",
            faults[0]
        );
        let view = view(&node, &maker);
        assert_proven(&view, 5);
        assert_proven(&view, 4);
        assert!(!matches!(view.proof(3, &account(0), &[]), Ok(Some(_))));
    };
    damaged(None);
    damaged(Some(&|row| row[..row.len() - 1].to_vec()));
    damaged(Some(&|mut row| {
        // A byte of a hash in the root.
        row[40] ^= 1;
        row
    }));
}

fn put(store: &Store, key: &[u8], row: Option<Vec<u8>>) {
    let batch = store.batch().expect("batch");
    let written = batch.write(|tables| match &row {
        Some(row) => tables.put(TableId::BlockToPastNodes, key, row),
        None => tables.delete(TableId::BlockToPastNodes, key),
    });
    written.expect("written");
    batch.commit().expect("committed");
}

#[test]
fn an_invalid_block_leaves_the_tries_as_they_were() {
    let mut maker = Maker::new(spec());
    let blocks = maker.line(maker.genesis, 3, 1);
    let node = Node::new(&maker.spec);
    node.take(&blocks[..2]);
    let before = stored_rows(&node.store);
    let mut wrong: Block = blocks[2].clone();
    wrong.header.state_root = B256::repeat_byte(7);
    node.import(&wrong).expect_err("another root");
    let table = TableId::BlockToPastNodes.name();
    assert_eq!(stored_rows(&node.store)[table], before[table]);
    let view = assert_window(&node, &maker, 0);
    assert_proven(&view, 1);
}
