//! Peers that send blocks which nobody has worked for, while an honest block comes.

use std::sync::Arc;
use std::time::Duration;

use chain::rules::difficulty::next_difficulty;
use network::testing::{BlockFault, ChainAccess, PackedBlock, PeerMessage};
use primitives::{Block, Transaction, U256};

use crate::simulation::chain::{seal, spec};
use crate::simulation::liar::Lie;
use crate::simulation::world::World;
use crate::simulation::{SEED, SeedOnPanic, hours, seconds};

/// Peers that flood, beside an honest one.
const FLOODERS: u64 = 6;
/// Blocks that each of them sends at once.
const BLOCKS: u64 = 60;
/// The longest time that a block takes over a link, and as much as it may wait besides.
const TOOK_MAX: Duration = Duration::from_millis(250);

#[test]
fn blocks_without_a_seal_hold_up_no_honest_block() {
    let _print = SeedOnPanic(SEED);
    let mut world = World::new(spec(), SEED, 2, hours(1_000_000));
    world.connect(1, 0);
    for _ in 0..20 {
        world.run_until(world.now + seconds(13));
        world.mine_now(0);
    }
    for at in 0..FLOODERS {
        world.add_liar(Lie::Slow);
        let flooder = world.honest_nodes().len() + at as usize;
        world.cut(|_| 0);
        assert!(world.connect(flooder, 1));
    }
    world.run_until(world.now + seconds(5));
    let sealed = world.chain(1).make_block(1);
    for at in 0..FLOODERS {
        let unsealed = |mark: u64| {
            let mut block = sealed.clone();
            block.header.pow_nonce ^= 1 + at * BLOCKS + mark;
            PeerMessage::NewBlock(Arc::new(PackedBlock::pack(&block)), U256::MAX)
        };
        let flood: Vec<_> = (0..BLOCKS).map(unsealed).collect();
        let flooder = world.honest_nodes().len() + at as usize;
        world.send_all(flooder, &flood);
    }
    let (begun, checks) = (world.now, world.counts.checks);
    world.mine_now(0);
    let goal = world.chain(0).view().head_hash();
    while world.chain(1).view().head_hash() != goal {
        assert!(world.now < begun + TOOK_MAX, "the block is held up");
        world.run_until(world.now + Duration::from_millis(1));
    }
    println!("the block is head after {:?}", world.now - begun);
    world.run_until(world.now + seconds(2));
    // One block of each flooder, and the good one.
    assert!(world.counts.checks - checks <= FLOODERS + 1, "{:?}", world.counts);
    assert_eq!(
        world.counts.liars_dropped.values().sum::<u64>(),
        FLOODERS,
        "{:?}",
        world.counts
    );
    assert!(world.counts.honest_dropped.is_empty(), "{:?}", world.counts);
}

#[test]
fn a_block_is_checked_in_the_order_of_cost() {
    let world = World::new(spec(), SEED, 1, hours(1_000_000));
    let chain = world.chain(0);
    let good = chain.make_block(0);
    let checked = chain.check(&PackedBlock::pack(&good));
    assert_eq!(checked, Ok(Box::new(good.clone())));
    // The body of all others is wrong, too.
    let fault = |change: &dyn Fn(&mut Block)| {
        let mut block = good.clone();
        block.transactions = vec![Transaction::system(7); 5];
        change(&mut block);
        chain.check(&PackedBlock::pack(&block)).expect_err("a fault")
    };
    let is_header = |fault: BlockFault, word: &str| {
        let BlockFault::Header(text) = &fault else {
            panic!("{fault:?}");
        };
        assert!(text.contains(word), "{text}");
    };
    is_header(
        fault(&|block| block.header.difficulty += U256::from(1)),
        "difficulty",
    );
    is_header(fault(&|block| block.header.pow_nonce ^= 1), "no seal");
    let parent = chain.view().head().header.clone();
    let ahead = |block: &mut Block| {
        block.header.timestamp += 1000;
        block.header.difficulty = next_difficulty(&chain.spec, &parent, block.header.timestamp);
    };
    is_header(fault(&ahead), "no seal");
    let ahead = fault(&|block| {
        ahead(block);
        seal(&mut block.header);
    });
    assert!(matches!(ahead, BlockFault::Ahead(_)), "{ahead:?}");
    let body = fault(&|_| ());
    assert!(matches!(body, BlockFault::Body(_)), "{body:?}");
}
