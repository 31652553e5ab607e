//! The memory of a run of blocks: what blocks have only read ends a run, too, and so does what
//! would be read again if a later block were invalid.

use std::collections::VecDeque;
use std::sync::Arc;

use primitives::{Address, Block, U256};

use crate::common::{Maker, Node, Plan, easy_spec, hex, sign, unsigned};

const READER: Address = Address::repeat_byte(0x77);
/// The bound of a run.
const RUN_BYTES: usize = 80 << 20;

/// A chain whose block 2 reads 240,000 slots and writes none.
fn chain() -> (Maker, Vec<Block>) {
    let mut spec = easy_spec();
    spec.genesis.gas_limit = 200_000_000;
    // Reads one slot after the other while there is gas.
    let code = hex("6000 5b 80 54 50 6001 01 61 1388 5a 11 6002 57 00");
    let contract = chain::spec::GenesisAccount {
        code: code.into(),
        ..Default::default()
    };
    spec.genesis.alloc.insert(READER, contract);
    let mut maker = Maker::new(spec);
    let mut tip = maker.genesis;
    let mut blocks = Vec::new();
    for (nonce, gas) in [(0, 50_000), (1, 60_000_000), (2, 50_000), (3, 50_000)] {
        let mut call = unsigned(nonce, Some(READER), 0, &[]);
        call.gas = gas;
        call.gas_price = U256::from(1_000_000_000u64);
        let block = maker.block(tip, Plan::with(vec![sign(0, &call)]));
        tip = block.hash();
        blocks.push(block);
    }
    (maker, blocks)
}

#[test]
fn a_run_ends_after_a_block_that_has_read_much() {
    let (maker, blocks) = chain();
    let node = Node::new(&maker.spec);
    let importer = node.importer.clone().with_batch_bytes(RUN_BYTES);
    let view = node.store.snapshot().expect("snapshot");
    let prepare = |block: &Block| {
        Arc::new(
            node.importer
                .prepare(&view, block.clone(), Some(block.header.number - 1)),
        )
    };
    let mut waiting: VecDeque<_> = blocks.iter().map(prepare).collect();
    drop(view);
    let mut run = || {
        let run = importer.import_run(None, &mut || waiting.pop_front());
        let run = run.expect("the store works");
        (run.blocks, run.cost)
    };
    let (count, cost) = run();
    assert_eq!(count, 2, "the block that reads much is the last");
    assert!(cost.memory_bytes > RUN_BYTES, "{}", cost.memory_bytes);
    let (count, cost) = run();
    assert_eq!(count, 2, "a commit gives the memory back");
    assert!(cost.memory_bytes < RUN_BYTES / 50, "{}", cost.memory_bytes);
    assert_eq!(node.head(), blocks[3].hash());
}

#[test]
fn a_run_ends_when_its_blocks_would_take_much_memory() {
    let mut spec = easy_spec();
    spec.genesis.gas_limit = 200_000_000;
    let mut maker = Maker::new(spec);
    let mut tip = maker.genesis;
    let blocks = (0..8).map(|nonce| {
        let mut data = unsigned(nonce, Some(READER), 0, &[1; 200 << 10]);
        data.gas = 20_000_000;
        let block = maker.block(tip, Plan::with(vec![sign(0, &data)]));
        tip = block.hash();
        block
    });
    let blocks: Vec<_> = blocks.collect();
    let node = Node::new(&maker.spec);
    let importer = node.importer.clone().with_batch_bytes(1 << 20);
    let view = node.store.snapshot().expect("snapshot");
    let mut waiting: VecDeque<_> = blocks
        .iter()
        .map(|block| {
            let parent = Some(block.header.number - 1);
            Arc::new(node.importer.prepare(&view, block.clone(), parent))
        })
        .collect();
    drop(view);
    let run = importer.import_run(None, &mut || waiting.pop_front());
    // Five blocks of 200 KiB and some bytes more are less than 1 MiB, six are more.
    assert_eq!(run.expect("the store works").blocks, 6);
}
