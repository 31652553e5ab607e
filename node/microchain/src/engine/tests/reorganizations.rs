//! The base chain takes back deposits that were credited. The MicroChain follows it, and goes on.

use primitives::U256;

use super::base_chain::BaseNumbers;
use super::invariants::{audit, user};
use super::world::{World, call, key};
use crate::abi::CallData;
use crate::contract::ContractState;
use crate::engine::depths::{DEPOSIT_DEPTH, DepositMarks};
use crate::message::STATE;

fn redeem() -> Vec<u8> {
    call("redeemFromMicroChain()", CallData::default()).to_vec()
}

fn balance(world: &World, place: usize, byte: u8) -> U256 {
    world.reader(place).balance(&user(byte)).unwrap()
}

/// Waits until all deposits are credited everywhere.
fn credited(world: &mut World, deposits: u64) {
    world.run_until(80, "the deposits are credited", |world| {
        let mut places = (0..world.scs.len()).filter(|place| world.scs[*place].engine.is_some());
        places.all(|place| world.reader(place).enter_position().unwrap() == deposits)
    });
}

/// The thief buys tokens, gives most of them to a friend, and the friend withdraws some.
fn steal(world: &mut World) {
    let before = world.base.deposits.len() as u64;
    world.buy(user(0x66), 400);
    credited(world, before + 1);
    world.transact(&key(0x66), 0, 2, U256::from(300), user(0x67).to_vec());
    world.run_slots(2);
    world.call_dapp_base(&key(0x67), 0, U256::from(100), &redeem());
    world.run_slots(2);
    assert_eq!(balance(world, 0, 0x67), U256::from(200));
}

/// After a deposit was taken back: an honest one is credited and paid out, the thief has nothing.
fn goes_on(world: &mut World, honest: &[usize]) {
    let flushes = world.base.flushes;
    let deposits = world.base.deposits.len() as u64;
    world.buy(user(0x51), 500);
    world.run_until(120, "the honest deposit", |world| {
        let mut honest = honest.iter();
        honest.all(|place| world.reader(*place).enter_position().unwrap() == deposits + 1)
    });
    world.run_until(300, "a flush", |world| world.base.flushes > flushes);
    world.call_dapp_base(&key(0x51), 0, U256::from(500), &redeem());
    world.run_until(400, "the honest withdrawal", |world| {
        world.base.paid.contains(&(user(0x51), U256::from(500)))
    });
    for place in honest {
        assert_eq!(balance(world, *place, 0x66), U256::ZERO);
        assert_eq!(balance(world, *place, 0x67), U256::ZERO);
        audit(world, *place);
    }
    assert!(world.base.paid.iter().all(|(payee, _)| *payee != user(0x67)));
}

#[test]
fn another_deposit_at_the_place_of_a_lost_one_is_credited_and_flushes_go_on() {
    let mut world = World::new(3, 0).with_dapp_base();
    let bought = world.base.block;
    steal(&mut world);
    let blocks = world.base.block - bought + 1;
    assert!(blocks > DEPOSIT_DEPTH);
    world.take_back(blocks as usize, false);
    assert!(world.base.deposits.is_empty());
    goes_on(&mut world, &[0, 1, 2]);
}

#[test]
fn a_deposit_is_credited_when_it_is_deep_and_not_before() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_slots(3);
    let bought = world.base.block;
    world.buy(user(0x51), 500);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    let depth = world.base.block - bought;
    // A vote is possible every 6 blocks of 10 s, and a base block comes every 5 s.
    assert!((DEPOSIT_DEPTH..=DEPOSIT_DEPTH + 20).contains(&depth), "{depth}");
    // A reorganization that is not so deep takes nothing back.
    let before = world.reader(0).head().unwrap();
    world.take_back(DEPOSIT_DEPTH as usize, false);
    assert_eq!(world.base.deposits.len(), 1);
    assert_eq!(world.reader(0).head().unwrap(), before);
}

#[test]
fn a_deposit_that_comes_again_is_credited_once() {
    let mut world = World::new(3, 0).with_dapp_base();
    let bought = world.base.block;
    steal(&mut world);
    let deposits = world.base.deposits.clone();
    world.take_back((world.base.block - bought + 1) as usize, false);
    world.run_slots(2);
    assert_eq!(world.reader(0).enter_position().unwrap(), 0);
    // The purchase is in a block again, behind another one.
    world.buy(user(0x51), 500);
    world.change_base(|base| base.deposits.extend(deposits));
    credited(&mut world, 2);
    world.run_slots(6);
    // The acts of its user are done again.
    assert_eq!(balance(&world, 0, 0x66), U256::from(100));
    assert_eq!(balance(&world, 0, 0x67), U256::from(200));
    world.run_until(300, "the withdrawal is paid", |world| world.base.paid.len() == 1);
    (0..3).for_each(|place| audit(&world, place));
}

#[test]
fn a_deposit_of_another_amount_than_bought_is_credited_anew() {
    let mut world = World::new(3, 0).with_dapp_base();
    let flushes = world.base.flushes;
    for byte in [0x51, 0x52, 0x51] {
        world.buy(user(byte), 500);
    }
    credited(&mut world, 3);
    world.change_base(|base| base.deposits[2].tokens += U256::from(1));
    assert_eq!(
        balance(&world, 0, 0x51),
        U256::ZERO,
        "the three were credited together"
    );
    credited(&mut world, 3);
    assert_eq!(balance(&world, 0, 0x51), U256::from(1001));
    world.run_until(300, "a flush", |world| world.base.flushes > flushes + 1);
    (0..3).for_each(|place| audit(&world, place));
}

#[test]
fn reorganizations_of_one_to_a_hundred_blocks_stop_nothing() {
    for blocks in [1, 2, 6, 11, 12, 13, 18, 25, 35, 50, 75, 100] {
        let mut world = World::new(3, 0).with_dapp_base();
        world.run_slots(40);
        steal(&mut world);
        world.run_slots(blocks % 7);
        let head = world.base.block;
        world.take_back(blocks as usize, false);
        assert!(world.base.block > head);
        // The turns may be over; the owner begins a new round.
        world.change_base(|base| base.last_flush = base.block);
        // All but the deposit may be there again at once.
        world.run_slots(3);
        if world.base.deposits.is_empty() {
            goes_on(&mut world, &[0, 1, 2]);
        } else {
            world.run_until(400, "the withdrawal is paid", |world| world.base.paid.len() == 1);
            (0..3).for_each(|place| audit(&world, place));
        }
    }
}

/// Somebody mines a private branch without the deposit, with all calls of SCSs that were in the
/// lost blocks, in their order: the proposal, the votes, the action.
#[test]
fn the_old_calls_of_members_make_no_flush_on_a_branch_without_the_deposit() {
    let mut world = World::new(3, 0).with_dapp_base();
    let bought = world.base.block;
    steal(&mut world);
    let flushes = world.base.flushes;
    world.run_until(300, "the thief's friend is paid", |world| {
        world.base.paid == [(user(0x67), U256::from(100))] && world.base.flushes > flushes
    });
    world.take_back((world.base.block - bought + 1) as usize, true);
    assert!(world.base.paid.is_empty() && world.base.deposits.is_empty());
    assert!(world.base.failed_calls.contains(&"proposal: another branch"));
    goes_on(&mut world, &[0, 1, 2]);
}

#[test]
fn members_that_do_not_see_a_reorganization_hold_up_nobody() {
    for (members, liars) in [(3, 1), (5, 1), (5, 2)] {
        let mut world = World::new(members, 0).with_dapp_base();
        let bought = world.base.block;
        steal(&mut world);
        // Their VNODE still says that the deposit is there: they keep its block, put the old votes
        // into blocks again, and propose flushes with it.
        let lost = world.base.deposits.clone();
        for place in members - liars..members {
            let lost = lost.clone();
            let lie = move |state: &mut ContractState| {
                if let Some(deposits) = state.deposits.as_mut().filter(|list| list.from == 0) {
                    deposits.entries.splice(..0, lost.clone());
                }
            };
            world.lies.insert(place, Box::new(lie));
        }
        world.take_back((world.base.block - bought + 1) as usize, false);
        let honest: Vec<usize> = (0..members - liars).collect();
        goes_on(&mut world, &honest);
    }
}

#[test]
fn a_member_that_was_away_during_a_reorganization_follows_it() {
    let mut world = World::new(3, 0).with_dapp_base();
    let bought = world.base.block;
    steal(&mut world);
    world.kill(2);
    world.take_back((world.base.block - bought + 1) as usize, false);
    world.run_slots(2);
    world.start(2);
    goes_on(&mut world, &[0, 1, 2]);
}

/// The begin of the first turn, and the place that has it.
fn first_turn(world: &World) -> (u64, u64) {
    let turns = (0..3).map(|place| (world.base.turn(place), place));
    turns.min().expect("three turns")
}

/// Base blocks of the turns in which all members are started again.
const LONG_TURN: u64 = 80;

/// A deposit that is bought in the first turn after a flush, and credited in it. No member has
/// heard the others, so nobody has proposed. All members are started again after that. Returns the
/// begin of the turn, and the number of the block with the credit.
fn restarted_after_a_credit() -> (World, u64, u64) {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a flush", |world| world.base.flushes == 1);
    world.filter = Some(Box::new(|_, message| message.status != STATE));
    world.base.numbers = BaseNumbers::with_turns_of(LONG_TURN);
    // The states that were heard before are too old when the turn begins.
    world.change_base(|base| base.last_flush = base.block + 20);
    let turn = first_turn(&world).0;
    world.run_until(60, "the turn", |world| world.base.block == turn);
    world.buy(user(0x51), 500);
    credited(&mut world, 1);
    let reader = world.reader(0);
    let head = reader.head().unwrap().number;
    let view = reader.view().unwrap();
    let calls = crate::dapp_base::DappBaseCalls::new(&view, world.dapp_base());
    let mut numbers = (1..=head).rev();
    let before = numbers.find(|number| calls.enter_position(*number).unwrap() == 0);
    let number = before.expect("a block before it") + 1;
    drop(view);
    // So old that a flush could cover it.
    world.run_slots(3);
    for place in 0..3 {
        world.kill(place);
        world.start(place);
    }
    world.run_slots(1);
    let (block, current) = (world.base.block, &world.base.current);
    assert!(
        !current.exists() && block < turn + 52,
        "{block} {turn} {current:?}"
    );
    (world, turn, number)
}

#[test]
fn after_a_restart_no_flush_covers_a_credit_that_may_be_newer_than_its_turn() {
    let (mut world, turn, number) = restarted_after_a_credit();
    world.filter = None;
    let flushes = world.base.flushes;
    while world.base.block < turn + LONG_TURN {
        world.step();
        let (current, approved) = (&world.base.current, &world.base.approved);
        assert!(current.end < number && approved.end < number);
        if world.base.flushes > flushes {
            break;
        }
    }
    assert_eq!(world.base.flushes, flushes + 1, "a flush of the blocks before it");
    world.run_until(300, "the credit is under a flush", |world| {
        world.base.approved.end >= number
    });
    (0..3).for_each(|place| audit(&world, place));
}

#[test]
fn after_a_restart_nobody_votes_for_a_credit_that_may_be_newer_than_the_turn() {
    let (mut world, turn, number) = restarted_after_a_credit();
    let voter = first_turn(&world).1;
    let proposer = world.base.members[voter as usize];
    let place = (0..3).find(|place| world.id(*place) == proposer).unwrap();
    // The proposer takes the deposit for an old one.
    let engine = world.scs[place].engine.as_mut().unwrap();
    let deposits = engine.contract.as_ref().unwrap().deposits.clone().unwrap();
    engine.watch.marks = DepositMarks::default();
    engine.watch.marks.take(0, None, &deposits);
    world.filter = None;
    world.run_until(20, "a proposal", |world| world.base.current.exists());
    assert!(world.base.current.end >= number);
    let hash = world.base.current.hash;
    world.run_slots(8);
    assert!(world.base.block < turn + LONG_TURN);
    let current = &world.base.current;
    assert_eq!(
        (current.hash, &current.voters[..]),
        (hash, &[voter][..]),
        "nobody votes"
    );
}
