//! Runs of blocks: whatever the blocks do and however they are divided into runs, the rows are
//! those of single imports. A run ends before a block with a wrong state root, although the root
//! is compared after the next blocks have begun.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use chain::import::{ImportError, OldBlocks, PreparedBlock};
use primitives::Block;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::common::{Maker, Node, Plan, rows};
use crate::random_forks::{Act, RandomBlock, random_block, spec, transactions};
use crate::scenes::check_faults;

/// A chain of blocks with these acts, from block 1 on.
fn chain(plan: &[RandomBlock]) -> (Maker, Vec<Block>) {
    let mut maker = Maker::new(spec());
    let (mut nonces, mut tip) = (HashMap::new(), maker.genesis);
    let blocks = plan.iter().map(|random| {
        let block = maker.block(tip, Plan::with(transactions(&random.acts, &mut nonces)));
        tip = block.hash();
        block
    });
    let blocks = blocks.collect();
    (maker, blocks)
}

pub(crate) fn prepare(node: &Node, blocks: &[Block]) -> VecDeque<Arc<PreparedBlock>> {
    let view = node.store.snapshot().expect("snapshot");
    let one = |block: &Block| {
        let parent = block.header.number - 1;
        Arc::new(node.importer.prepare(&view, block.clone(), Some(parent)))
    };
    blocks.iter().map(one).collect()
}

/// Imports the blocks in runs of the given lengths, which repeat. Returns how many were imported
/// when a run took none.
fn import(node: &Node, blocks: &[Block], lengths: &[usize]) -> usize {
    let mut lengths = lengths.iter().cycle();
    let mut done = 0;
    while done < blocks.len() {
        let length = *lengths.next().expect("there is a length");
        let end = blocks.len().min(done + length);
        let mut waiting = prepare(node, &blocks[done..end]);
        match run(node, &mut waiting, &blocks[done..end]) {
            0 => break,
            count => done += count,
        }
    }
    done
}

/// Imports a run of the blocks that wait, which are `blocks`. Returns how many were imported. The
/// others are given back, or still wait.
fn run(node: &Node, waiting: &mut VecDeque<Arc<PreparedBlock>>, blocks: &[Block]) -> usize {
    let run = node.importer.import_run(None, &mut || waiting.pop_front());
    let run = run.expect("the store works");
    let left = run.rest.iter().chain(&*waiting).map(|block| block.hash);
    assert!(left.eq(blocks[run.blocks..].iter().map(Block::hash)));
    let transactions = blocks[..run.blocks]
        .iter()
        .map(|block| block.transactions.len() as u64);
    assert_eq!(run.transactions, transactions.sum::<u64>());
    run.blocks
}

/// Changes the state root of block `index`, and the parent hashes of the blocks after it.
fn with_wrong_root(blocks: &[Block], index: usize) -> Vec<Block> {
    let mut blocks = blocks.to_vec();
    blocks[index].header.state_root.0[3] ^= 1;
    for next in index + 1..blocks.len() {
        blocks[next].header.parent_hash = blocks[next - 1].hash();
    }
    blocks
}

/// Compares all rows and names the first one that differs.
#[track_caller]
fn assert_same_rows(node: &Node, single: &Node) {
    let (got, expected) = (node.rows(), single.rows());
    for (table, rows) in &got {
        let other = &expected[table];
        let keys: BTreeSet<_> = rows.keys().chain(other.keys()).collect();
        let differs = keys.into_iter().find(|key| rows.get(*key) != other.get(*key));
        if let Some(key) = differs {
            let (got, expected) = (rows.get(key), other.get(key));
            panic!("row {key:02x?} of {table}: got {got:02x?}, expected {expected:02x?}");
        }
    }
}

fn check(plan: &[RandomBlock], lengths: &[usize], wrong: usize) {
    let (maker, blocks) = chain(plan);
    let single = Node::new(&maker.spec);
    single.take(&blocks);
    let node = Node::new(&maker.spec);
    assert_eq!(import(&node, &blocks, lengths), blocks.len());
    assert_same_rows(&node, &single);

    let wrong = wrong % blocks.len();
    let node = Node::new(&maker.spec);
    let altered = with_wrong_root(&blocks, wrong);
    let mut done = 0;
    // A run may end some blocks before the wrong one. The next one takes them.
    loop {
        match import(&node, &altered[done..], lengths) {
            0 => break,
            count => done += count,
        }
    }
    // A block that ended a run, though it is right, is imported alone.
    while done < wrong {
        node.take(&altered[done..=done]);
        done += 1;
    }
    assert_eq!(done, wrong, "no block from the wrong one on was imported");
    let refused = node.import(&altered[wrong]);
    let expected = altered[wrong].header.state_root;
    let is_root = |error: &ImportError| matches!(error, ImportError::StateRoot { expected: root, .. } if *root == expected);
    assert!(refused.as_ref().is_err_and(is_root), "{refused:?}");
    let single = Node::new(&maker.spec);
    single.take(&blocks[..wrong]);
    assert_same_rows(&node, &single);
}

proptest! {
    #![proptest_config(Config { cases: 48, failure_persistence: None, ..Config::default() })]

    #[test]
    fn runs_write_the_rows_of_single_imports(
        plan in proptest::collection::vec(random_block(), 1..24),
        lengths in proptest::collection::vec(1..12usize, 1..4),
        wrong in any::<usize>(),
    ) {
        check(&plan, &lengths, wrong);
    }
}

/// In one run a contract is destroyed, created again and written to, in blocks of their own: each
/// begins while the storage roots of the blocks before are perhaps not known.
#[test]
fn a_run_destroys_and_creates_a_contract_in_each_block() {
    let on = |acts: &[Act]| RandomBlock {
        parent: 0,
        mark: 0,
        acts: acts.iter().map(|act| (0, act.clone())).collect(),
    };
    let hatch = || Act::Hatch { salt: 0 };
    let destroy = || Act::Destroy { salt: 0, value: 0 };
    let write = |slot, value| Act::Write { salt: 0, slot, value };
    let plan = [
        on(&[hatch(), write(1, 1)]),
        on(&[write(1, 2), write(2, 1)]),
        on(&[hatch()]),
        on(&[write(1, 0), write(2, 0)]),
        on(&[hatch(), destroy()]),
        on(&[hatch()]),
        on(&[hatch(), write(3, 3)]),
        on(&[destroy()]),
        on(&[write(3, 4)]),
        on(&[hatch(), write(3, 3)]),
        on(&[write(3, 0)]),
        on(&[destroy(), hatch(), write(1, 1)]),
    ];
    for wrong in 0..plan.len() {
        check(&plan, &[plan.len()], wrong);
    }
}

fn transfers(count: usize) -> (Maker, Vec<Block>) {
    let transfer = RandomBlock {
        parent: 0,
        mark: 0,
        acts: vec![(0, Act::Transfer { to: 9, value: 1 })],
    };
    chain(&vec![transfer; count])
}

#[test]
fn a_wrong_root_in_a_long_run_is_found() {
    let (maker, blocks) = transfers(40);
    let altered = with_wrong_root(&blocks, 20);
    let node = Node::new(&maker.spec);
    let mut waiting = prepare(&node, &altered);
    assert_eq!(run(&node, &mut waiting, &altered), 20);
    assert!(
        waiting.len() > 10,
        "few blocks are taken after the wrong one: {}",
        waiting.len()
    );
    assert_eq!(node.head(), blocks[19].hash());
}

/// A run lets its blocks go while it goes on. After a wrong root they are read back, most of them
/// from the file that they had moved to in the same transaction.
#[test]
fn a_run_takes_its_blocks_back_from_the_file_of_old_blocks() {
    let (maker, blocks) = transfers(300);
    let altered = with_wrong_root(&blocks, 280);
    let mut node = Node::new(&maker.spec);
    node.importer = node.importer.moving(OldBlocks { depth: 5, step: 4 });
    let mut waiting = prepare(&node, &altered);
    let given: Vec<_> = waiting.iter().map(Arc::downgrade).collect();
    let mut most_in_memory = 0;
    let run = node.importer.import_run(None, &mut || {
        let taken = &given[..given.len() - waiting.len()];
        let in_memory = taken.iter().filter(|block| block.strong_count() > 0).count();
        most_in_memory = most_in_memory.max(in_memory);
        waiting.pop_front()
    });
    let run = run.expect("the store works");
    assert_eq!(run.blocks, 280);
    assert!(most_in_memory <= 6, "{most_in_memory} blocks were in memory");
    let left = run.rest.iter().chain(&waiting).map(|block| block.hash);
    assert!(left.eq(altered[280..].iter().map(Block::hash)));
    assert_eq!(node.head(), blocks[279].hash());
    let single = Node::new(&maker.spec);
    single.take(&blocks[..280]);
    assert!(rows(&node.store) == rows(&single.store));
    assert_eq!(check_faults(&node.store, &maker.spec, true).1, []);
}
