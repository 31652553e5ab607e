//! A member that shows its list on one branch of the base chain, and pays itself on another one.

use primitives::{Address, U256};

use super::base_chain::BaseChain;
use super::world::World;
use crate::contract::BaseCall;

fn is_vote(call: &BaseCall) -> bool {
    matches!(call, BaseCall::Vote { .. })
}

/// The base chain as it was before the redemptions were uploaded.
fn until_the_upload(world: &mut World) -> BaseChain {
    let is_open = |world: &World| world.base.current.flag == 1 && world.base.current.redemptions_left == 1;
    world.run_until(300, "a proposal with a withdrawal", is_open);
    assert!(world.base.current.users.is_empty());
    world.base.clone()
}

/// The proposer pays itself all on a branch that begins at `earlier`, with these votes. Returns the
/// amount that it gets.
fn private_branch(earlier: BaseChain, votes: &[(Address, BaseCall)]) -> U256 {
    let mut branch = earlier;
    let (thief, hash) = (branch.current.proposed_by, branch.current.hash);
    let place = branch.current.voters[0];
    let all = U256::from(1000);
    branch.block += 1;
    let upload = BaseCall::UploadRedemptions {
        users: vec![thief],
        tokens: vec![all],
    };
    branch.carry_out(thief, &upload);
    for (voter, vote) in votes {
        branch.carry_out(*voter, vote);
    }
    branch.block += 1;
    branch.carry_out(thief, &BaseCall::Act { place, hash });
    for left in [1, 0] {
        branch.carry_out(thief, &BaseCall::Redeem { hash, left });
    }
    let paid = branch.paid.iter().filter(|(user, _)| *user == thief);
    paid.map(|(_, tokens)| *tokens).sum()
}

/// The votes of all members for the proposal in progress at `base`.
fn all_votes(base: &BaseChain) -> Vec<(Address, BaseCall)> {
    let hash = base.current.hash;
    let members = base.members.iter().zip(0u64..);
    let vote = |(member, place): (&Address, u64)| {
        let redeem = true;
        (*member, BaseCall::Vote { place, hash, redeem })
    };
    members.map(vote).collect()
}

#[test]
fn votes_for_one_list_do_not_pay_another() {
    let mut world = World::with_withdrawals(1);
    let earlier = until_the_upload(&mut world);
    world.run_until(30, "votes", |world| world.base.current.voters.len() == 3);
    let votes = all_votes(&earlier);
    let mut published = earlier.clone();
    published.binds = false;
    assert_eq!(
        private_branch(published, &votes),
        U256::from(1000),
        "the published contract pays"
    );
    assert_eq!(private_branch(earlier, &votes), U256::ZERO, "ours does not");
}

#[test]
fn nobody_votes_before_the_upload_is_deep() {
    for tells_branch in [true, false] {
        let mut world = World::with_withdrawals(1);
        world.base.tells_branch = tells_branch;
        until_the_upload(&mut world);
        world.run_until(30, "the upload", |world| !world.base.current.users.is_empty());
        let uploaded = world.base.block;
        world.run_until(30, "a vote", |world| world.base.current.voters.len() > 1);
        // A vote is in the block after the one at which it was sent.
        assert_eq!(world.base.block, uploaded + world.confirmations + 1);
        world.run_until(30, "the flush", |world| world.base.paid.len() == 1);
    }
}

#[test]
fn an_upload_on_another_branch_is_counted_anew() {
    let mut world = World::with_withdrawals(1);
    let earlier = until_the_upload(&mut world);
    let wait_for_upload = |world: &mut World| {
        world.run_until(30, "the upload", |world| !world.base.current.users.is_empty());
    };
    wait_for_upload(&mut world);
    let first = world.base.block;
    // The branch with the upload is replaced by one that has the same upload later.
    let uploaded = world.base.current.clone();
    while world.base.block < first + 2 {
        world.step();
    }
    let before = world.base.block;
    world.base.go_back(&earlier);
    world.base.current = uploaded;
    world.base.block = before;
    world.run_until(30, "a vote", |world| world.base.current.voters.len() > 1);
    assert!(
        world.base.block > before + world.confirmations,
        "{} {before}",
        world.base.block
    );
}

#[test]
fn votes_of_a_branch_that_is_gone_are_withdrawn() {
    for restarts in [false, true] {
        withdraws_votes(restarts);
    }
}

/// The votes wait in the pool of the base chain, and the members are started again or not.
fn withdraws_votes(restarts: bool) {
    let mut world = World::with_withdrawals(1);
    // The published contract, on which nothing but this helps.
    world.base.binds = false;
    let earlier = until_the_upload(&mut world);
    let thief = earlier.current.proposed_by;
    let thief_place = (0..3).find(|place| world.id(*place) == thief).unwrap();
    // Votes wait in the pool for long. The base chain goes to the branch with the other list.
    world.delay = Box::new(|_, _, call| Some(if is_vote(call) { 8 } else { 1 }));
    world.run_until(30, "the upload", |world| !world.base.current.users.is_empty());
    let uploaded = world.base.block;
    while world.base.block <= uploaded + world.confirmations + 1 {
        world.step();
    }
    assert!(world.withdrawn.is_empty());
    world.kill(thief_place);
    for place in (0..3).filter(|place| restarts && *place != thief_place) {
        world.kill(place);
        world.start(place);
    }
    world.base.go_back(&earlier);
    world.base.block = uploaded + world.confirmations + 3;
    let all = U256::from(1000);
    let upload = BaseCall::UploadRedemptions {
        users: vec![thief],
        tokens: vec![all],
    };
    world.base.carry_out(thief, &upload);
    let (place, hash) = (earlier.current.voters[0], earlier.current.hash);
    for _ in 0..20 {
        world.step();
        world.base.carry_out(thief, &BaseCall::Act { place, hash });
    }
    let withdrawn: Vec<Address> = world.withdrawn.iter().map(|(id, _)| *id).collect();
    assert_eq!(withdrawn.len(), 2, "{withdrawn:?}");
    assert!(!withdrawn.contains(&thief) && world.withdrawn.iter().all(|(_, call)| is_vote(call)));
    assert_eq!(
        world.base.current.voters,
        [place],
        "no vote has come to the other list"
    );
    assert!(world.base.paid.is_empty());
}

#[test]
fn a_stored_vote_is_not_sent_again_for_another_list() {
    let mut world = World::with_withdrawals(1);
    world.base.binds = false;
    // No vote gets into a block, so each is sent again and again.
    world.delay = Box::new(|_, _, call| (!is_vote(call)).then_some(1));
    until_the_upload(&mut world);
    world.run_until(30, "the upload", |world| !world.base.current.users.is_empty());
    let thief = world.base.current.proposed_by;
    let thief_place = (0..3).find(|place| world.id(*place) == thief).unwrap();
    let voter = (thief_place + 1) % 3;
    world.run_slots(5);
    let stored = world
        .engine(voter)
        .memory
        .vote_of(world.base.current.starting_block)
        .copied();
    assert_eq!(stored.unwrap().hash, world.base.current.hash);
    // The list is another one now, and so deep that a vote would be due.
    world.kill(thief_place);
    world.base.current.users = vec![thief];
    world.base.current.tokens = vec![U256::from(1000)];
    world.delay = Box::new(|_, _, _| Some(1));
    world.run_slots(4);
    assert_eq!(world.base.current.voters.len(), 1);
    // Even with enough votes nobody carries it out.
    let members = world.base.members.clone();
    world.base.current.voters = (0..members.len() as u64).collect();
    world.base.current.agree = members;
    world.run_slots(4);
    world.base.current.distribute_flag = 1;
    world.run_slots(4);
    assert!(world.base.paid.is_empty(), "{:?}", world.base.paid);
}
