//! A store that keeps recent states answers like one that keeps all, and refuses what it has not.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;

use chain::View;
use chain::call::{EvmCallError, StateAt};
use chain::import::{ImportError, Imported, OldBlocks, StateRetention};
use primitives::{Address, B256, U256};
use proptest::prelude::*;
use proptest::test_runner::Config;
use store::{AccountKey, HorizonReads, Snapshot, Source, StateReads, Store, StoreError, TableId};

use crate::common::{Maker, Node, Plan, account, rows};
use crate::random_forks::{Act, RandomBlock, RandomTree, random_block, spec, transactions};
use crate::scenes::{check_faults, import_as_stream_into, view};

/// The number of states that are kept in these tests.
const RECENT: u64 = 6;

/// Accounts with their slots.
type State = BTreeMap<Address, (String, BTreeMap<U256, U256>)>;

fn state_at(snapshot: &Snapshot, number: u64) -> State {
    let mut state = State::new();
    let walked = snapshot.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), number, |found| {
        let mut slots = BTreeMap::new();
        snapshot.walk_slots::<StoreError>(&found.storage(), &B256::ZERO, number, |slot| {
            slots.insert(slot.slot.expect("executed here"), slot.value);
            Ok(())
        })?;
        let address = found.address.expect("executed here");
        state.insert(address, (format!("{found:?}"), slots));
        Ok(())
    });
    walked.expect("a readable state");
    state
}

fn recent_node(maker: &Maker) -> Node {
    let mut node = Node::new(&maker.spec);
    // Blocks move before their states go, and after that.
    node.importer = node
        .importer
        .moving(OldBlocks { depth: 4, step: 3 })
        .keeping(StateRetention::Recent { blocks: RECENT });
    node
}

fn horizon(store: &Store) -> u64 {
    store
        .snapshot()
        .expect("snapshot")
        .state_horizon()
        .expect("read")
        .block
}

/// Compares every state that `recent` keeps with that of `archive`.
fn assert_as_archive(recent: &Node, archive: &Node, maker: &Maker) {
    let (view, all) = (view(recent, maker), view(archive, maker));
    assert_eq!(view.head_hash(), all.head_hash());
    let horizon = horizon(&recent.store);
    for number in horizon..=view.head_number() {
        view.require_state(number).expect("a state that is kept");
        assert!(
            state_at(view.snapshot(), number) == state_at(all.snapshot(), number),
            "state of block {number}, horizon {horizon}"
        );
    }
    assert_refused_below(&view, horizon);
}

fn assert_refused_below(view: &View, horizon: u64) {
    for number in horizon.saturating_sub(3)..horizon {
        let error = view
            .sender_state(StateAt::Block(number), &account(0))
            .expect_err("it is gone");
        assert!(matches!(error, EvmCallError::NotKept(_)), "{error:?}");
        let expected = format!(
            "state of block {number} is not kept: got block {number}, expected block {horizon} or later (--state recent, --syncmode snap)"
        );
        assert_eq!(error.to_string(), expected);
    }
}

fn twins(plan: Vec<RandomBlock>) {
    let mut maker = Maker::new(spec());
    let archive = Node::new(&maker.spec);
    let recent = recent_node(&maker);
    let mut tree = RandomTree::new(maker.genesis);
    for random in plan {
        let (block, after) = tree.make(&mut maker, &random);
        let before = horizon(&recent.store);
        match recent.import(&block) {
            Ok(Imported::Known) => continue,
            Ok(_) => {}
            Err(ImportError::StateNotKept(error)) => {
                // The branch would take back blocks up to one whose state is gone.
                assert!(error.got < error.expected && error.expected == before);
                continue;
            }
            // The branch of the parent has ended, or was refused.
            Err(ImportError::UnknownParent(hash)) if hash == block.header.parent_hash => continue,
            Err(error) => panic!("{error}"),
        }
        archive.import(&block).expect("valid");
        tree.add(&block, after);
        assert_as_archive(&recent, &archive, &maker);
        let head = view(&recent, &maker).head_number();
        let expected = before.max(head.saturating_sub(RECENT));
        assert!(horizon(&recent.store) >= before && horizon(&recent.store) <= expected);
    }
    assert_eq!(check_faults(&recent.store, &maker.spec, true).1, []);
}

proptest! {
    #![proptest_config(Config { cases: 32, failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_state_that_is_kept_is_that_of_an_archive(plan in proptest::collection::vec(random_block(), 1..34)) {
        twins(plan);
    }
}

/// A line of blocks in which an account gets transfers, and contracts live and die.
fn line(maker: &mut Maker, count: u64) -> Vec<primitives::Block> {
    let mut nonces = HashMap::new();
    let mut tip = maker.genesis;
    (1..=count)
        .map(|number| {
            let salt = (number / 7 % 3) as u8;
            let slot = (number % 5) as u8;
            let acts = match number % 7 {
                1 => vec![(0, Act::Hatch { salt })],
                5 => vec![(0, Act::Destroy { salt, value: 1 })],
                _ => vec![(
                    0,
                    Act::Write {
                        salt,
                        slot,
                        value: (number % 3) as u8,
                    },
                )],
            };
            let block = maker.block(tip, Plan::with(transactions(&acts, &mut nonces)));
            tip = block.hash();
            block
        })
        .collect()
}

fn count(store: &Store, table: TableId) -> u64 {
    store.snapshot().expect("snapshot").stats().expect("stats")[table as usize].rows
}

#[test]
fn what_only_old_states_need_is_removed() {
    const BLOCKS: u64 = 150;
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, BLOCKS);
    let (archive, recent) = (Node::new(&maker.spec), recent_node(&maker));
    archive.take(&blocks);
    recent.take(&blocks);
    assert_as_archive(&recent, &archive, &maker);
    // A run of many blocks leaves the same.
    let stream = recent_node(&maker);
    import_as_stream_into(&stream, &blocks);
    assert_as_archive(&stream, &archive, &maker);
    assert_eq!(horizon(&stream.store), BLOCKS - RECENT);
    assert!(rows(&stream.store) == rows(&recent.store));
    let nodes = |node: &Node| count(&node.store, TableId::PathToTrieNode);
    assert_eq!(nodes(&stream), nodes(&recent));
    assert_eq!(check_faults(&stream.store, &maker.spec, true).1, []);
    assert_eq!(horizon(&recent.store), BLOCKS - RECENT);
    assert_eq!(count(&recent.store, TableId::BlockToChanges), RECENT);
    // The row of the account with a change in each block had older changes.
    assert!(count(&archive.store, TableId::StateHistory) > 0);
    assert_eq!(count(&recent.store, TableId::StateHistory), 0);
    // Each destroyed contract leaves slots and trie nodes in an archive.
    assert!(count(&archive.store, TableId::Storage) > 40);
    let slots = count(&recent.store, TableId::Storage);
    assert!(slots < 20, "{slots} slots");
    assert!(count(&recent.store, TableId::PathToTrieNode) < count(&archive.store, TableId::PathToTrieNode));
    assert_eq!(check_faults(&recent.store, &maker.spec, true).1, []);
}

#[test]
fn an_archive_is_pruned_at_once_or_by_and_by_and_becomes_an_archive_again() {
    const BLOCKS: u64 = 120;
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, BLOCKS + 40);
    let node = |count: u64| {
        let node = Node::new(&maker.spec);
        node.take(&blocks[..count as usize]);
        node
    };
    let (archive, at_once, in_parts) = (node(BLOCKS + 40), node(BLOCKS), node(BLOCKS));
    let keeping = StateRetention::Recent { blocks: RECENT };
    let mut reports = Vec::new();
    let pruner = at_once.importer.clone().keeping(keeping);
    assert!(
        pruner
            .prune(&AtomicBool::new(false), |now| reports.push(now))
            .expect("pruned")
    );
    assert_eq!(
        reports.last().map(|last| (last.done, last.total)),
        Some((BLOCKS - RECENT + 1, BLOCKS - RECENT + 1))
    );
    // One account or slot, and one row of a dead storage, in each batch.
    for _ in 0..10_000 {
        let batch = in_parts.store.batch().expect("a batch");
        let is_done = batch.write(|tables| {
            let pruned = tables.prune_states(BLOCKS - RECENT, 1)?;
            Ok::<_, StoreError>(tables.sweep_dead_storages(1)? && pruned)
        });
        batch.commit().expect("committed");
        let horizon = horizon(&in_parts.store);
        assert_refused_below(&view(&in_parts, &maker), horizon);
        if is_done.expect("written") {
            break;
        }
    }
    assert!(rows(&at_once.store) == rows(&in_parts.store));
    for node in [&at_once, &in_parts] {
        assert_eq!(horizon(&node.store), BLOCKS - RECENT);
        assert_eq!(check_faults(&node.store, &maker.spec, true).1, []);
    }
    // From now on all states are kept.
    at_once.take(&blocks[BLOCKS as usize..]);
    assert_eq!(horizon(&at_once.store), BLOCKS - RECENT);
    assert_as_archive(&at_once, &archive, &maker);
    assert_eq!(check_faults(&at_once.store, &maker.spec, true).1, []);
    // With an option that keeps recent states, they go by and by.
    let mut again = in_parts;
    again.importer = again.importer.keeping(keeping);
    again.take(&blocks[BLOCKS as usize..]);
    assert_eq!(horizon(&again.store), BLOCKS + 40 - RECENT);
    assert_as_archive(&again, &archive, &maker);
}

#[test]
fn the_head_cannot_be_set_below_the_horizon() {
    const BLOCKS: u64 = 60;
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, BLOCKS);
    let recent = recent_node(&maker);
    recent.take(&blocks);
    let oldest = BLOCKS - RECENT;
    let before = rows(&recent.store);
    let error = recent
        .importer
        .set_head(oldest - 1)
        .expect_err("the state is gone");
    assert!(matches!(error, ImportError::StateNotKept(_)), "{error}");
    assert!(
        !error.is_invalid_block()
            && error
                .to_string()
                .contains(&format!("expected block {oldest} or later"))
    );
    assert!(rows(&recent.store) == before);
    recent.importer.set_head(oldest).expect("the oldest state");
    assert_eq!(check_faults(&recent.store, &maker.spec, true).1, []);
    recent.take(&blocks[oldest as usize..]);
    assert!(rows(&recent.store)["account_by_hash"] == before["account_by_hash"]);
    assert_eq!(check_faults(&recent.store, &maker.spec, true).1, []);
    // A heavier branch from below is refused; its blocks before the last are side blocks.
    let parent = blocks[oldest as usize - 2].hash();
    let branch = maker.line(parent, RECENT as usize + 2, 9);
    let (last, sides) = branch.split_last().expect("blocks");
    for block in sides {
        assert!(
            matches!(recent.import(block), Ok(Imported::Side)),
            "block {}",
            block.header.number
        );
    }
    let error = recent.import(last).expect_err("it is too deep");
    assert!(matches!(error, ImportError::StateNotKept(_)), "{error}");
    assert_eq!(recent.head(), blocks.last().expect("blocks").hash());
}

#[test]
fn the_rows_of_a_pruned_store_are_read_alone() {
    // Nothing of the removed states is left under other keys.
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, 80);
    let recent = recent_node(&maker);
    recent.take(&blocks);
    let snapshot = recent.store.snapshot().expect("snapshot");
    let oldest = horizon(&recent.store);
    let mut lowest = None;
    snapshot
        .scan(TableId::BlockToChanges, &[], |key, _| {
            lowest = Some(key.to_vec());
            std::ops::ControlFlow::Break(())
        })
        .expect("read");
    assert_eq!(lowest, Some((oldest + 1).to_be_bytes().to_vec()));
}
