//! SCSs that join by a snapshot: two members agree, liars are refused, a kill loses nothing.

use std::cell::RefCell;
use std::rc::Rc;

use chain::import::StateRetention;
use primitives::{Address, U256};
use store::{BlockReads, FetchedStateReads, HorizonReads};

use super::world::{World, call, key};
use crate::abi::CallData;
use crate::engine::snapshot::SNAPSHOT_FROM_BLOCKS;
use crate::event::MemberMessage;
use crate::message::PeerContent;
use crate::snapshot::{SnapshotAnswer, SnapshotContent};

/// Four members, and a fifth SCS that is not running and takes no past states when it starts. The
/// last flush covers more blocks than one answer has.
fn grown() -> World {
    let mut world = World::new(4, 1);
    world.kill(4);
    let mut world = world.with_dapp_base();
    let user = key(0x51);
    world.buy(user.address(), 1000);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    for account in 0..120 {
        let to = Address::repeat_byte(account + 1);
        world.transact(&user, u64::from(account), 2, U256::from(1), to.to_vec());
    }
    world.run_until(400, "a long flush", |world| {
        world.base.approved.end > SNAPSHOT_FROM_BLOCKS + 10
    });
    // Its base blocks are deep.
    world.run_slots(4);
    world.states = StateRetention::Recent { blocks: 20 };
    world
}

/// The first block of an SCS, and whether it has block 2.
fn begin(world: &World, place: usize) -> (u64, bool) {
    let view = world.reader(place).view().unwrap();
    let first = view.snapshot().first_block().unwrap();
    (first, view.block(2).unwrap().is_some())
}

fn follows(world: &World, place: usize) -> bool {
    let head = |place| world.reader(place).head().unwrap().number;
    head(place) + 1 >= head(0)
}

/// Calls `see` with each answer about a snapshot, and its sender. It may change or drop it.
fn watch(world: &mut World, mut see: impl FnMut(usize, &mut SnapshotAnswer) -> bool + 'static) {
    world.filter = Some(Box::new(move |from, message: &mut MemberMessage| {
        let content = PeerContent::decode(message.status, &message.payload);
        let Ok(Some(PeerContent::SnapshotAnswer(mut answer))) = content else {
            return true;
        };
        let before = answer.clone();
        let goes_on = see(from, &mut answer);
        if answer != before {
            *message = PeerContent::SnapshotAnswer(answer).message(message.sender, message.receiver);
        }
        goes_on
    }));
}

/// Signs another content in the name of an SCS.
fn sign_again(from: usize, answer: &mut SnapshotAnswer) {
    let content = answer.content.clone();
    *answer = SnapshotAnswer::new(content, &super::base_chain::CHAIN, &key(from as u8 + 1));
}

#[test]
fn an_scs_joins_by_a_snapshot_and_votes() {
    let mut world = grown();
    let pages = Rc::new(RefCell::new(0));
    let seen = pages.clone();
    watch(&mut world, move |_, answer| {
        *seen.borrow_mut() += usize::from(matches!(answer.content, SnapshotContent::Page(_)));
        true
    });
    let end = world.base.approved.end;
    let id = world.id(4);
    world.base.backups.push(id);
    world.start(4);
    world.run_until(30, "the newcomer follows", |world| follows(world, 4));
    assert_eq!(begin(&world, 4), (end, false));
    let missing = world.reader(4).block(2).unwrap_err().to_string();
    assert!(
        missing.ends_with(&format!("expected block {end} or a later one")),
        "{missing}"
    );
    assert!(*pages.borrow() > 3, "{} pages", pages.borrow());
    let view = world.reader(4).view().unwrap();
    assert_eq!(view.snapshot().state_horizon().unwrap().block, end);
    assert_eq!(
        world.reader(4).balance(&Address::repeat_byte(120)).unwrap(),
        U256::from(1)
    );
    assert_eq!(world.reader(4).dapp_base().unwrap(), Some(world.dapp_base()));
    drop(view);
    world.agreed(1);
    // The newcomer becomes a member, and a flush with a withdrawal needs its vote.
    let redeem = call("redeemFromMicroChain()", CallData::default());
    world.call_dapp_base(&key(0x51), 120, U256::from(3), &redeem);
    world.run_until(300, "it is a member", |world| {
        world.base.members.contains(&world.id(4))
    });
    world.kill(0);
    world.kill(1);
    world.call_dapp_base(&key(0x51), 121, U256::from(5), &redeem);
    world.run_until(600, "the withdrawals are paid by its vote", |world| {
        let approved = &world.base.approved;
        let place = approved.members.iter().position(|member| *member == world.id(4));
        let has_voted = place.is_some_and(|place| approved.voters.contains(&(place as u64)));
        has_voted && world.base.paid.len() == 2
    });
    // And it serves who comes next, from its own begin.
    world.kill(4);
    world.start(4);
    world.run_slots(10);
    world.agreed(1);
}

#[test]
fn a_kill_at_any_page_loses_nothing() {
    let mut world = grown();
    let places = Rc::new(RefCell::new(Vec::new()));
    let seen = places.clone();
    watch(&mut world, move |_, answer| {
        if let SnapshotContent::Page(page) = &answer.content {
            seen.borrow_mut().push(page.from);
        }
        true
    });
    world.start(4);
    let mut kills = 0;
    for _ in 0..60 {
        for _ in 0..3 {
            world.step();
        }
        let is_open = {
            let view = world.scs[4].store.snapshot().unwrap();
            view.fetched_state().unwrap().is_some()
        };
        if is_open {
            assert!(
                world.reader(4).balance(&Address::ZERO).is_err(),
                "a part of a state is not read"
            );
            world.kill(4);
            world.start(4);
            kills += 1;
        }
    }
    assert!(kills > 2 && follows(&world, 4), "{kills} kills");
    assert!(!begin(&world, 4).1);
    let mut places = places.borrow().clone();
    let all = places.len();
    places.dedup();
    assert!(places.is_sorted() && all <= places.len() + kills, "{places:?}");
    world.agreed(1);
}

#[test]
fn the_snapshot_of_a_liar_is_refused() {
    let mut world = grown();
    let lies = Rc::new(RefCell::new(0));
    let told = lies.clone();
    watch(&mut world, move |from, answer| {
        // The first two members give an account more than it has.
        let SnapshotContent::Page(page) = &mut answer.content else {
            return true;
        };
        if from < 2
            && let Some(entry) = page.accounts.first_mut()
        {
            entry.account.balance += U256::from(1);
            *told.borrow_mut() += 1;
            sign_again(from, answer);
        }
        true
    });
    let end = world.base.approved.end;
    world.start(4);
    world.run_until(100, "the newcomer follows", |world| follows(world, 4));
    assert!(*lies.borrow() > 0);
    let (first, has_older) = begin(&world, 4);
    assert!(
        first >= end && !has_older,
        "the others' snapshot is taken: {first}"
    );
    world.agreed(1);
}

#[test]
fn without_two_that_agree_all_blocks_are_taken() {
    // One answers; all others say something else; the pages are all false.
    for way in 1..4 {
        let mut world = grown();
        watch(&mut world, move |from, answer| match (way, &mut answer.content) {
            (1, _) => from == 0,
            (2, SnapshotContent::Blocks(blocks)) if from > 0 => {
                // The flush does not say which block names the members.
                blocks.remove(0);
                sign_again(from, answer);
                true
            }
            (3, SnapshotContent::Page(page)) => {
                page.accounts.pop();
                sign_again(from, answer);
                true
            }
            _ => true,
        });
        world.start(4);
        world.run_until(100, "the newcomer follows", |world| follows(world, 4));
        assert_eq!(begin(&world, 4), (0, true), "way {way}");
        world.agreed(1);
    }
}

#[test]
fn old_blocks_go_and_members_go_on() {
    let mut world = World::new(3, 1);
    world.kill(3);
    world.states = StateRetention::Recent { blocks: 20 };
    world.blocks = Some(30);
    for place in 0..3 {
        world.kill(place);
        world.start(place);
    }
    let mut world = world.with_dapp_base();
    let user = key(0x51);
    let redeem = call("redeemFromMicroChain()", CallData::default());
    world.buy(user.address(), 1000);
    let mut round = 0;
    while world.base.approved.start < 100 {
        let flushes = world.base.flushes;
        world.run_until(300, "a flush", |world| world.base.flushes > flushes);
        world.call_dapp_base(&user, round, U256::from(3), &redeem);
        world.kill((round % 3) as usize);
        world.start((round % 3) as usize);
        round += 1;
    }
    let paid = round as usize - 1;
    world.run_until(300, "withdrawals are paid", |world| world.base.paid.len() >= paid);
    let reader = world.reader(0);
    let view = reader.view().unwrap();
    let first = view.snapshot().first_block().unwrap();
    let flushed = world.base.approved.start;
    assert!(first >= 64 && first < flushed, "{first}, {flushed}");
    assert!(view.snapshot().state_horizon().unwrap().block >= first);
    let kept = (1..first).filter(|number| reader.block(*number).is_ok());
    // One block may name the members and create DappBase.
    let kept = kept.count();
    assert!(
        (1..=2).contains(&kept),
        "what later blocks depend on is there: {kept}"
    );
    let missing = reader.block(first - 1).unwrap_err().to_string();
    assert!(
        missing.ends_with(&format!("expected block {first} or a later one")),
        "{missing}"
    );
    let (low, high) = (
        view.block(first).unwrap(),
        view.block(view.head_number()).unwrap(),
    );
    assert!(low.is_some() && high.is_some());
    drop(view);
    // Nobody has all blocks any more: who joins takes a snapshot.
    world.start(3);
    world.run_until(60, "the newcomer follows", |world| follows(world, 3));
    assert!(begin(&world, 3).0 > first);
    world.agreed(1);
}
