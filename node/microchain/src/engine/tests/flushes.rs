//! Flushes: proposals, votes, actions, rewards; what a flush means for the choice of chains.

use chain::import::StateRetention;
use primitives::U256;
use store::HorizonReads;

use super::super::commitment::first_commitment;
use super::base_chain::CHAIN;
use super::world::{World, call, key};
use crate::abi::CallData;
use crate::contract::{BaseCall, RETRY_BLOCKS};
use crate::event::Event;

#[test]
fn members_flush_in_turns_and_rewards_are_those_of_the_chain() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "three flushes", |world| world.base.flushes == 3);
    let number = world.base.approved.end;
    let reader = world.reader(1);
    let mut expected = [U256::ZERO; 3];
    for number in 1..=number {
        let block = reader.block(number).unwrap().unwrap();
        let place = world
            .base
            .members
            .iter()
            .position(|id| *id == block.record.header.beneficiary);
        let transactions = block.body.transactions.len() as u64;
        expected[place.unwrap()] += U256::from(500 + 3 * transactions);
    }
    for (place, expected) in expected.into_iter().enumerate() {
        let id = world.base.members[place];
        let paid = world.base.rewarded.iter().filter(|(member, _)| *member == id);
        let paid: U256 = paid.map(|(_, reward)| *reward).sum();
        assert_eq!(paid, expected, "member {place}");
    }
    let votes: Vec<_> = world
        .base
        .failed_calls
        .iter()
        .filter(|call| !call.starts_with("vote"))
        .collect();
    assert!(votes.is_empty(), "{votes:?}");
    world.agreed(0);
}

#[test]
fn a_proposer_that_is_away_gives_way_to_the_next() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a flush", |world| world.base.flushes == 1);
    // The next turn is the second member's.
    let next = (0..3)
        .find(|place| world.id(*place) == world.base.members[1])
        .unwrap();
    world.kill(next);
    world.run_until(100, "a flush by another one", |world| world.base.flushes == 2);
    assert_ne!(world.base.approved.proposed_by, world.id(next));
    world.start(next);
    world.run_until(200, "two more", |world| world.base.flushes == 4);
    world.agreed(2);
}

#[test]
fn members_that_hear_too_few_others_do_not_propose() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a flush", |world| world.base.flushes == 1);
    world.kill(1);
    world.kill(2);
    let performance = world.base.performance.clone();
    world.run_slots(60);
    assert_eq!(world.base.flushes, 1);
    assert_eq!(world.base.performance, performance, "nobody proposed in vain");
}

#[test]
fn a_lost_action_is_done_by_another_member() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a proposal", |world| world.base.current.flag == 1);
    let proposer = world.base.current.proposed_by;
    let place = (0..3).find(|place| world.id(*place) == proposer).unwrap();
    world.kill(place);
    world.run_until(60, "the flush", |world| world.base.flushes == 1);
}

#[test]
fn who_lacks_a_flushed_block_goes_to_its_chain() {
    let mut world = World::new(5, 0).with_dapp_base();
    world.run_slots(2);
    // Two members make a chain of their own, and two of three others make one that is flushed.
    for place in [3, 4] {
        world.scs[place].part = 1;
    }
    world.run_until(300, "a flush", |world| world.base.flushes == 1);
    let end = world.base.approved.end;
    let flushed = world.reader(0).block(end).unwrap().unwrap().hash;
    for scs in &mut world.scs {
        scs.part = 0;
    }
    world.run_slots(30);
    for place in 0..5 {
        assert_eq!(
            world.reader(place).block(end).unwrap().unwrap().hash,
            flushed,
            "{place}"
        );
    }
    world.agreed(0);
}

#[test]
fn a_flush_that_the_base_chain_takes_back_is_made_again() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a flush", |world| world.base.flushes == 1);
    let before = world.base.clone();
    world.run_until(300, "another flush", |world| world.base.flushes == 2);
    world.base.go_back(&before);
    world.run_until(300, "a flush again", |world| world.base.flushes == 2);
    world.agreed(1);
}

#[test]
fn flushes_go_on_after_one_of_the_first_release() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a flush", |world| world.base.flushes == 1);
    let approved = &world.base.approved;
    let block = world.reader(0).block(approved.end).unwrap().unwrap().hash;
    world.base.approved.hash = first_commitment(&CHAIN, approved, &block);
    world.run_until(300, "two more", |world| world.base.flushes == 3);
    world.agreed(1);
}

#[test]
fn a_restart_keeps_votes_and_the_chain() {
    let mut world = World::new(3, 0).with_dapp_base();
    for _ in 0..4 {
        world.run_slots(7);
        for place in 0..3 {
            world.kill(place);
            world.start(place);
        }
    }
    world.run_until(300, "two flushes", |world| world.base.flushes >= 2);
    world.agreed(1);
}

#[test]
fn no_vote_for_what_the_chain_does_not_say() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_until(300, "a proposal", |world| world.base.current.flag == 1);
    let honest = world.base.current.clone();
    let voter = (0..3)
        .find(|place| world.id(*place) != honest.proposed_by)
        .unwrap();
    let votes = |world: &mut World, change: &dyn Fn(&mut crate::contract::Proposal)| {
        // Another SCS with the same chain and no vote yet.
        let id = world.id(voter);
        let mut state = world.base.state_for(&id, Some(0)).unwrap();
        state.current = honest.clone();
        state.current.voters.truncate(1);
        change(&mut state.current);
        let engine = world.scs[voter].engine.as_mut().unwrap();
        engine.memory.votes.clear();
        engine.asked.clear();
        engine.confirmations = 0;
        let now = world.now_ms;
        let actions = engine.handle(now, Event::Contract(Box::new(state))).unwrap();
        actions
            .iter()
            .any(|action| matches!(action, crate::event::Action::Call(BaseCall::Vote { .. })))
    };
    assert!(votes(&mut world, &|_| ()));
    assert!(!votes(&mut world, &|proposal| proposal.distribution[0] += U256::from(1)));
    assert!(!votes(&mut world, &|proposal| proposal.end += 1));
    assert!(!votes(&mut world, &|proposal| proposal.start += 1));
    assert!(!votes(&mut world, &|proposal| proposal.hash.0[5] ^= 1));
    assert!(!votes(&mut world, &|proposal| proposal.bad_actors.push(1)));
    assert!(!votes(&mut world, &|proposal| proposal.starting_block += 1));
    assert!(!votes(&mut world, &|proposal| {
        proposal.users.push(proposal.proposed_by);
        proposal.tokens.push(U256::from(1));
        proposal.redemptions_left = 1;
    }));
    // Not all redemptions are uploaded yet.
    assert!(!votes(&mut world, &|proposal| proposal.redemptions_left = 1));
    assert!(votes(&mut world, &|_| ()));
}

#[test]
fn a_withdrawal_waits_for_the_round_and_one_turn() {
    for wait in [0, 9] {
        let mut world = World::with_withdrawals(0);
        let flushes = world.base.flushes;
        world.run_until(300, "a flush", |world| world.base.flushes > flushes);
        world.run_slots(wait);
        let redeem = call("redeemFromMicroChain()", CallData::default());
        world.call_dapp_base(&key(0x51), 0, U256::from(3), &redeem);
        let flushes = world.base.flushes;
        world.run_until(300, "the payment", |world| !world.base.paid.is_empty());
        // One flush at most has blocks from before the withdrawal only. No turn is missed.
        assert!(world.base.flushes <= flushes + 1, "{wait}");
        let took = world.base.block - world.base.last_flush;
        assert!(took <= world.base.numbers.first_turn_end(), "{wait}: {took}");
    }
}

#[test]
fn as_many_withdrawals_are_paid_as_the_money_allows() {
    let mut world = World::with_withdrawals(3);
    // Gas costs 10^9 sha here: the calls of a flush, and the upload and the payout of two.
    let gas = 3_000_000 + 2 * (54_000 + 135_000);
    let rewards = 1_000_000;
    world.base.total_operation = U256::from(gas * 1_000_000_000u64 + rewards);
    world.run_until(300, "two are paid", |world| world.base.paid.len() == 2);
    world.run_until(300, "the others", |world| world.base.paid.len() == 3);
    let flushes = world.base.flushes;
    world.base.total_operation = U256::from(1);
    world.run_slots(60);
    assert!(world.base.flushes <= flushes + 1, "a flush that was open may end");
}

fn is_action(call: &BaseCall) -> bool {
    matches!(call, BaseCall::Act { .. })
}

/// Runs flushes in which the proposer's action waits in the pool for longer than others wait for a
/// call.
fn with_slow_actions(is_pool_visible: bool, is_ours: bool) -> World {
    let mut world = World::with_withdrawals(3);
    world.is_pool_visible = is_pool_visible;
    world.base.binds = is_ours;
    world.delay = Box::new(|base, id, call| {
        let is_slow = is_action(call) && id == base.current.proposed_by;
        Some(if is_slow { RETRY_BLOCKS + 1 } else { 1 })
    });
    world.run_until(300, "the withdrawals are paid", |world| {
        world.base.paid.len() == 3
    });
    let flushes = world.base.flushes;
    world.run_until(300, "the end of the flush", |world| world.base.flushes > flushes);
    world
}

#[test]
fn a_slow_action_is_not_done_by_another_member_too() {
    let counts = |world: &World| (world.base.deflations, world.base.flushes);
    let (deflations, flushes) = counts(&with_slow_actions(true, false));
    assert_eq!(deflations, flushes);
    // Without a look into the pool the next member does it, too, and everybody loses.
    let (deflations, flushes) = counts(&with_slow_actions(false, false));
    assert!(deflations > flushes, "{deflations} {flushes}");
}

#[test]
fn an_action_that_comes_second_reverts_and_is_not_repeated() {
    let world = with_slow_actions(false, true);
    let base = &world.base;
    assert_eq!(base.deflations, base.flushes);
    let second = base.failed_calls.iter().filter(|call| call.starts_with("action"));
    let second = second.count() as u64;
    // At most that of the proposer, which came late.
    assert!(
        (1..=base.flushes).contains(&second),
        "{second} of {}",
        base.flushes
    );
}

#[test]
fn who_is_busy_with_something_else_holds_up_no_flush() {
    let mut world = World::with_withdrawals(3);
    // The proposer's action never comes, but something of it waits in the pool for ever.
    world.delay = Box::new(|_, _, call| (!is_action(call)).then_some(1));
    world.run_until(300, "a proposal with votes", |world| {
        world.base.current.flag == 1 && world.base.current.voters.len() > 1
    });
    let proposer = world.base.current.proposed_by;
    world.wait_for_ever(proposer);
    world.delay = Box::new(move |_, id, call| (id != proposer || !is_action(call)).then_some(1));
    let flushes = world.base.flushes;
    world.run_until(60, "the flush", |world| world.base.flushes > flushes);
    assert_eq!(world.base.deflations, world.base.flushes);
}

#[test]
fn what_cannot_be_finished_in_time_is_not_begun() {
    let mut world = World::with_withdrawals(3);
    // The votes come so late that the payouts would, too.
    let deadline = |world: &World| world.base.current.starting_block + 24;
    world.delay = Box::new(|_, _, call| (!matches!(call, BaseCall::Vote { .. })).then_some(1));
    world.run_until(300, "a proposal late in its turn", |world| {
        let current = &world.base.current;
        current.flag == 1 && !current.users.is_empty() && world.base.block + 5 >= deadline(world)
    });
    let (flushes, deflations) = (world.base.flushes, world.base.deflations);
    let members = world.base.members.len() as u64;
    world.base.current.voters = (0..members).collect();
    world.base.current.agree = world.base.members.clone();
    world.run_slots(4);
    assert_eq!((world.base.flushes, world.base.deflations), (flushes, deflations));
    // The next in turn makes the flush.
    world.delay = Box::new(|_, _, _| Some(1));
    world.run_until(300, "the withdrawals are paid", |world| {
        world.base.paid.len() == 3
    });
    world.run_until(300, "another flush", |world| world.base.flushes >= flushes + 2);
    assert_eq!(world.base.deflations, world.base.flushes);
}

#[test]
fn a_backup_in_place_of_a_dead_member_holds_up_no_flush() {
    let mut world = World::new(3, 1).with_dapp_base();
    let user = key(0x51);
    world.buy(user.address(), 1000);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    // A member is away, and the others flush without it.
    let dead = (0..3)
        .find(|place| world.id(*place) == world.base.members[2])
        .unwrap();
    world.kill(dead);
    let before = world.base.flushes;
    world.run_until(300, "a flush", |world| world.base.flushes > before);
    let before = world.base.flushes;
    // A backup is up to date, and a user withdraws. With the backup there are four members, and two
    // votes are too few.
    let backup = world.id(3);
    world.base.backups.push(backup);
    world.base.up_to_date.push(backup);
    let redeem = call("redeemFromMicroChain()", CallData::default());
    world.call_dapp_base(&user, 0, U256::from(3), &redeem);
    world.run_until(300, "a flush", |world| world.base.flushes > before);
    assert!(world.base.members.contains(&backup));
    assert!(
        world.base.paid.is_empty(),
        "the withdrawal comes with the next flush"
    );
    world.run_until(300, "another flush", |world| world.base.flushes > before + 1);
    assert_eq!(world.base.paid.len(), 1);
    assert_eq!(
        world.base.deflations, world.base.flushes,
        "no flush was begun in vain"
    );
}

#[test]
fn votes_that_never_come_cost_no_flush_but_the_turn() {
    let mut world = World::new(3, 0).with_dapp_base();
    let silent: Vec<_> = world.base.members[1..].to_vec();
    // One vote of three is missing: the flush happens.
    let one = silent[0];
    let is_vote = |call: &BaseCall| matches!(call, BaseCall::Vote { .. });
    world.delay = Box::new(move |_, id, call| (id != one || !is_vote(call)).then_some(1));
    world.run_until(300, "a flush without one vote", |world| world.base.flushes == 1);
    let first_end = world.base.approved.end;
    // Nobody's vote comes: no flush, and the chain goes on.
    world.delay = Box::new(move |_, _, call| (!is_vote(call)).then_some(1));
    let height = world.reader(0).head().unwrap().number;
    world.run_until(300, "a proposal that expires", |world| {
        world.base.performance.iter().any(|(_, left)| *left < 5)
    });
    assert_eq!(world.base.flushes, 1);
    assert!(world.reader(0).head().unwrap().number > height);
    world.agreed(1);
    // The votes come again.
    world.delay = Box::new(|_, _, _| Some(1));
    world.run_until(300, "a flush in a later turn", |world| world.base.flushes == 2);
    assert_eq!(world.base.approved.start, first_end + 1, "nothing is left out");
}

#[test]
fn an_account_without_gas_is_no_more_than_a_silent_voter() {
    let mut world = World::new(3, 0).with_dapp_base();
    let poor = world.base.members[0];
    // The VNODE refuses each of its transactions.
    world.delay = Box::new(move |_, id, _| (id != poor).then_some(1));
    world.run_until(400, "two flushes of the others", |world| world.base.flushes == 2);
    assert_ne!(world.base.approved.proposed_by, poor);
    let place = (0..3).find(|place| world.id(*place) == poor).unwrap();
    let head = world.reader(place).head().unwrap().number;
    let blocks = (head - 6..=head).filter(|number| {
        let block = world.reader(place).block(*number).unwrap().unwrap();
        block.record.header.beneficiary == poor
    });
    assert!(blocks.count() > 0, "it makes blocks all the same");
    // The SCS gets gas again, and takes its turn.
    world.delay = Box::new(|_, _, _| Some(1));
    world.run_until(600, "a flush of its own", |world| {
        world.base.approved.proposed_by == poor
    });
}

#[test]
fn members_that_keep_recent_states_only_flush_and_serve_newcomers() {
    let mut world = World::new(3, 1);
    world.kill(3);
    world.states = StateRetention::Recent { blocks: 20 };
    for place in 0..3 {
        world.kill(place);
        world.start(place);
    }
    let mut world = world.with_dapp_base();
    let user = key(0x51);
    for round in 0..8 {
        world.buy(user.address(), 1000);
        let flushes = world.base.flushes;
        world.run_until(300, "a flush", |world| world.base.flushes > flushes);
        let redeem = call("redeemFromMicroChain()", CallData::default());
        world.call_dapp_base(&user, round, U256::from(3), &redeem);
        // A restart reads the deposits since the last flush again.
        world.kill((round % 3) as usize);
        world.start((round % 3) as usize);
    }
    world.run_until(300, "withdrawals are paid", |world| world.base.paid.len() >= 7);
    let flushed = world.base.approved.start;
    for place in 0..3 {
        let view = world.reader(place).view().unwrap();
        let horizon = view.snapshot().state_horizon().unwrap().block;
        assert!(horizon > 30, "old states are gone: {horizon}");
        assert!(
            horizon < flushed,
            "{horizon}, {flushed}: the flush needs the others"
        );
        assert!(view.require_state(horizon - 1).is_err() && view.require_state(horizon).is_ok());
    }
    // Blocks are all there, so that a newcomer can execute them.
    world.start(3);
    world.run_slots(40);
    world.agreed(1);
    let (user, to) = (&user, user.address().to_vec());
    let last = world.transact(user, 8, 2, U256::from(1), to);
    world.run_slots(2);
    let by_nonce = |nonce| {
        let reader = world.reader(0);
        let found = reader.transaction_by_nonce(&user.address(), nonce).unwrap();
        found.map(|mined| mined.transaction)
    };
    assert_eq!((by_nonce(0), by_nonce(8)), (None, Some(last)));
}
