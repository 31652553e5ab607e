//! A long branch that was mined apart and is shown hours later: MESS refuses it. Without MESS the
//! heaviest chain counts.

use crate::simulation::world::World;
use crate::simulation::{SEED, SeedOnPanic, chain, check_agreement, hours, seconds, setting, settle};

/// The node that mines apart.
const APART: usize = 4;
/// The blocks of each side, one every six minutes: four hours, so MESS wants more than 18 times the
/// work.
const BLOCKS: u64 = 40;

/// Mines a public chain on nodes 0 to 3 and a somewhat heavier one apart, and connects all.
fn met_late(has_mess: bool) -> World {
    let mut world = World::new(
        chain::spec(),
        setting("SIM_SEED", SEED),
        APART + 1,
        hours(1_000_000),
    );
    if has_mess {
        (0..APART).for_each(|index| world.use_mess(index));
    }
    world.cut(|index| usize::from(index == APART));
    for _ in 0..BLOCKS {
        world.run_until(world.now + seconds(360));
        world.mine_now(0);
        world.mine_now(APART);
    }
    for _ in 0..3 {
        world.run_until(world.now + seconds(10));
        world.mine_now(APART);
    }
    let (public, apart) = (world.chain(0).view(), world.chain(APART).view());
    assert_ne!(public.head_hash(), apart.head_hash());
    assert!(apart.head().total_difficulty > public.head().total_difficulty);
    world.cut(|_| 0);
    world.connect(0, APART);
    world.run_until(world.now + seconds(300));
    assert!(world.counts.honest_dropped.is_empty(), "{:?}", world.counts);
    world
}

#[test]
fn a_long_branch_from_apart_is_refused_with_mess() {
    let _print = SeedOnPanic(setting("SIM_SEED", SEED));
    let mut world = met_late(true);
    assert_eq!(
        (world.counts.deepest, world.heads().len()),
        (0, 2),
        "{:?}",
        world.counts
    );
    let before = world.counts.messages;
    // The public chain goes on, and the branch is not asked for again and again.
    for number in BLOCKS + 1..BLOCKS + 20 {
        world.run_until(world.now + seconds(60));
        world.mine_now(0);
        world.run_until(world.now + seconds(10));
        let head = world.chain(0).view().head_hash();
        for index in 0..APART {
            let view = world.chain(index).view();
            assert_eq!(
                (view.head_number(), view.head_hash()),
                (number, head),
                "node {index}"
            );
        }
    }
    let messages = world.counts.messages - before;
    println!("{messages} messages in 19 blocks");
    assert!(messages < 5000, "{messages}");
    // By now the public chain is the heavier one, so the others come back to it.
    settle(&mut world);
    check_agreement(&world);
    assert_eq!(world.counts.reorganized, 1, "{:?}", world.counts);
}

#[test]
fn a_long_branch_from_apart_is_taken_without_mess() {
    let _print = SeedOnPanic(setting("SIM_SEED", SEED));
    let mut world = met_late(false);
    assert_eq!(world.heads().len(), 1);
    assert!(world.counts.deepest >= BLOCKS, "{:?}", world.counts);
    settle(&mut world);
    check_agreement(&world);
}
