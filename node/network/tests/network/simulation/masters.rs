//! Attacks on the synchronization by peers whose claims are followed first: how long a node that
//! has nothing needs in spite of them, in the time of the simulation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::simulation::chain::{SimChain, spec};
use crate::simulation::liar::Lie;
use crate::simulation::world::{NEVER, ReturnFrom, World};
use crate::simulation::{SEED, SeedOnPanic, hours, seconds};

/// Blocks of the chain in the run that is most like a real one, and in the others.
const BLOCKS: u64 = 3000;
const FEWER_BLOCKS: u64 = 800;
/// The cost of two liars, and of eight, that come back again and again. Without them the newcomer
/// needs a few seconds.
const COST_OF_TWO_MAX: Duration = Duration::from_secs(4);
const COST_OF_EIGHT_MAX: Duration = Duration::from_secs(8);
/// The node that has the chain, and the one that wants it.
const GOOD: usize = 0;
const NEWCOMER: usize = 1;

/// A chain. It is made once.
fn long_chain(blocks: u64) -> Arc<SimChain> {
    static CHAINS: Mutex<BTreeMap<u64, Arc<SimChain>>> = Mutex::new(BTreeMap::new());
    let make = || {
        let mut world = World::new(spec(), SEED, 1, hours(1_000_000));
        for _ in 0..blocks {
            world.run_until(world.now + seconds(13));
            world.mine_now(GOOD);
        }
        world.shared_chain(GOOD)
    };
    let mut chains = CHAINS.lock().unwrap_or_else(PoisonError::into_inner);
    chains.entry(blocks).or_insert_with(make).clone()
}

/// A newcomer among `liars`, which are there first and come back under new keys when they have lost
/// their places, and one that has the chain.
fn world_with(liars: &[Lie], from: ReturnFrom, blocks: u64, import_time: Duration) -> World {
    let mut world = World::new(spec(), SEED, 2, hours(1_000_000));
    world.import_time = import_time;
    world.cut(|index| index);
    world.take_chain(GOOD, &long_chain(blocks));
    for lie in liars {
        world.add_liar(*lie);
    }
    world.cut(|index| usize::from(index == GOOD));
    world.let_liars_return(from);
    for liar in 2..2 + liars.len() {
        world.connect(liar, NEWCOMER);
    }
    world.run_until(world.now + Duration::from_millis(500));
    world.cut(|_| 0);
    assert!(world.connect(NEWCOMER, GOOD), "there is a place");
    world
}

/// The time that a newcomer needs for the chain. See [`world_with`].
fn takes_among(liars: &[Lie], from: ReturnFrom, blocks: u64) -> (Duration, World) {
    let mut world = world_with(liars, from, blocks, Duration::ZERO);
    let (met, goal) = (world.now, world.chain(GOOD).view().head_hash());
    while world.chain(NEWCOMER).view().head_hash() != goal {
        assert!(
            world.now < met + seconds(120),
            "{liars:?} {from:?}: {:?} {:?}",
            world.open_work(NEWCOMER),
            world.counts
        );
        world.run_until(world.now + Duration::from_millis(100));
    }
    let took = world.now - met;
    println!("{liars:?} {from:?}: {took:?}, {:?}", world.counts.liars_dropped);
    assert!(
        world.counts.honest_dropped.is_empty(),
        "{liars:?} {from:?}: {:?}",
        world.counts
    );
    (took, world)
}

/// Liars of a kind do not cost a newcomer much.
fn check_cost(lie: Lie, count: usize, from: ReturnFrom, blocks: u64) {
    let _print = SeedOnPanic(SEED);
    let (alone, _) = takes_among(&[], from, blocks);
    let (took, mut world) = takes_among(&vec![lie; count], from, blocks);
    let most = if count > 2 {
        COST_OF_EIGHT_MAX
    } else {
        COST_OF_TWO_MAX
    };
    assert!(
        took < alone + most,
        "{count} of {lie:?} {from:?}: {took:?} instead of {alone:?}"
    );
    world.run_until(world.now + seconds(60));
    let dropped: u64 = world.counts.liars_dropped.values().sum();
    assert!(dropped > 0, "{count} of {lie:?} {from:?} lose their places");
}

#[test]
fn two_that_send_headers_one_at_a_time_do_not_stop_a_synchronization() {
    check_cost(Lie::OneAtATime, 2, ReturnFrom::SameAddress, BLOCKS);
}

#[test]
fn eight_that_send_headers_one_at_a_time_do_not_stop_a_synchronization() {
    for from in [ReturnFrom::SameAddress, ReturnFrom::OtherAddresses] {
        check_cost(Lie::OneAtATime, 8, from, FEWER_BLOCKS);
    }
}

#[test]
fn whole_answers_that_take_almost_a_second_do_not_stop_a_synchronization() {
    check_cost(Lie::Tardy, 2, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
    check_cost(Lie::Tardy, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
}

#[test]
fn headers_without_seals_do_not_stop_a_synchronization() {
    check_cost(Lie::NoSeals, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
}

#[test]
fn claims_that_cannot_be_true_do_not_stop_a_synchronization() {
    check_cost(Lie::Huge, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
    check_cost(Lie::Implausible, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
}

#[test]
fn bodies_of_no_block_do_not_stop_a_synchronization() {
    check_cost(Lie::OtherBodies, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
    check_cost(Lie::LargeBodies, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
}

#[test]
fn a_long_chain_of_little_weight_does_not_stop_a_synchronization() {
    /// The long chain is followed for longer than this if nobody else is asked.
    const TIME_MAX: Duration = Duration::from_secs(12);
    let _print = SeedOnPanic(SEED);
    // The states of the long chain are wrong. That must not be what helps.
    let mut world = world_with(&[Lie::Long], ReturnFrom::SameAddress, FEWER_BLOCKS, NEVER);
    let (met, goal) = (world.now, world.chain(GOOD).view().head_hash());
    while world.chain(NEWCOMER).view().best_header().expect("read").hash != goal {
        let got = world.progress(NEWCOMER);
        assert!(world.now < met + TIME_MAX, "{got:?} {:?}", world.counts);
        world.run_until(world.now + Duration::from_millis(100));
    }
    println!("a long chain of little weight: {:?}", world.now - met);
}

#[test]
fn silent_peers_do_not_stop_a_synchronization() {
    check_cost(Lie::Silent, 8, ReturnFrom::OtherAddresses, FEWER_BLOCKS);
}
