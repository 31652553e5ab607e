//! Long lists of withdrawals, small ones, and what a VNODE tells of its chain.

use chain::View;
use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::query_limit::QueryLimit;
use primitives::{Address, U256};

use super::base_chain::BaseNumbers;
use super::world::{World, call, key};
use crate::abi::CallData;
use crate::branch::{BRANCH_CODE, read_branch};
use crate::dapp_base::DappBaseCalls;

fn redeem() -> Vec<u8> {
    call("redeemFromMicroChain()", CallData::default()).to_vec()
}

/// A world in which a user has 1,000,000 tokens.
fn with_a_rich_user() -> World {
    let mut world = World::new(3, 0).with_dapp_base();
    world.buy(key(0x51).address(), 1_000_000);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    world
}

#[test]
fn withdrawals_of_nothing_are_no_withdrawals() {
    let mut world = World::new(3, 0);
    world.setup.withdrawal_min = U256::from(10);
    for place in 0..3 {
        world.start(place);
    }
    let mut world = world.with_dapp_base();
    let user = key(0x51);
    world.buy(user.address(), 1000);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    for (nonce, value) in [0, 9, 10, 11].into_iter().enumerate() {
        world.call_dapp_base(&user, nonce as u64, U256::from(value), &redeem());
    }
    world.run_slots(4);
    let reader = world.reader(0);
    assert_eq!(reader.nonce(&user.address()).unwrap(), 4);
    let listed: Vec<U256> = reader
        .withdrawals(None, 0, u64::MAX)
        .unwrap()
        .0
        .iter()
        .map(|one| one.tokens)
        .collect();
    assert_eq!(listed, [10, 11].map(U256::from));
    assert_eq!(reader.balance(&user.address()).unwrap(), U256::from(1000 - 21));
    world.run_until(300, "all is paid", |world| world.base.paid.len() == 2);
}

#[test]
fn pages_of_withdrawals_are_what_the_contract_says() {
    let mut world = with_a_rich_user();
    let users = [key(0x51), key(0x52)];
    world.transact(&users[0], 0, 2, U256::from(1000), users[1].address().to_vec());
    world.run_slots(4);
    for (first, user) in [(1, &users[0]), (0, &users[1])] {
        for nonce in first..first + 12 {
            world.call_dapp_base(user, nonce, U256::from(1 + nonce), &redeem());
        }
    }
    world.run_slots(4);
    let reader = world.reader(0);
    let view = reader.view().unwrap();
    let head = view.head_number();
    let calls = DappBaseCalls::new(&view, world.dapp_base());
    let asked = |user: Option<&Address>, from| calls.asked_withdrawals(user, from, head).unwrap();
    let all = asked(None, 0);
    assert_eq!(all.len(), 24);
    for from in [0, 1, 23, 24] {
        for max in [0, 1, 24, u64::MAX] {
            let (newest, count) = calls.newest_withdrawals(None, from, max, head).unwrap();
            assert_eq!(count, 24 - from);
            let first = 24 - usize::try_from(max.min(count)).unwrap();
            assert_eq!(newest, all[first..]);
        }
        let page = calls.withdrawal_page(from, 5, head).unwrap();
        assert_eq!(
            page,
            all[from as usize..].iter().take(5).copied().collect::<Vec<_>>()
        );
    }
    for user in users.map(|user| user.address()) {
        let (of_user, own) = (Some(&user), asked(Some(&user), 3));
        let (newest, count) = calls.newest_withdrawals(of_user, 3, 4, head).unwrap();
        assert_eq!((&newest[..], count), (&own[own.len() - 4..], own.len() as u64));
    }
    assert!(calls.withdrawal_page(30, 5, head).unwrap().is_empty());
    assert!(
        calls
            .withdrawal_page(u64::MAX, usize::MAX, head)
            .unwrap()
            .is_empty()
    );
    // Before any withdrawal, and before DappBase.
    assert!(calls.withdrawal_page(0, 5, 2).unwrap().is_empty());
    assert!(calls.withdrawal_page(0, 5, 0).unwrap().is_empty());
}

#[test]
fn a_vnode_tells_gas_limit_and_hashes_by_running_code() {
    let mut world = World::new(1, 0);
    world.run_slots(3);
    let tell = |world: &World| {
        let view: View = world.reader(0).view().unwrap();
        let request = CallRequest {
            input: BRANCH_CODE.to_vec().into(),
            ..Default::default()
        };
        let at = StateAt::Block(view.head_number());
        match view.call(at, &request, QueryLimit::new(TIMEOUT_DEFAULT)).unwrap() {
            CallOutcome::Revert { output, .. } => (read_branch(&output).unwrap(), view),
            other => panic!("{other:?}"),
        }
    };
    let (few, _) = tell(&world);
    assert_eq!(few.hashes.len() as u64, few.number + 1);
    world.run_slots(70);
    let (branch, view) = tell(&world);
    assert_eq!(branch.gas_limit, view.head().header.gas_limit);
    assert_eq!((branch.number + 1, branch.hashes.len()), (view.head_number(), 64));
    for number in [branch.number, branch.number - 1, branch.number - 63] {
        assert_eq!(
            branch.hash_at(number),
            view.canonical_hash(number).unwrap(),
            "{number}"
        );
    }
    assert_eq!(branch.hash_at(branch.number + 1), None);
    assert_eq!(branch.hash_at(branch.number - 64), None);
}

/// Lets users withdraw more than two flushes can pay, with the numbers of the public network and
/// base blocks of this gas limit. Returns the withdrawals of a flush, and the base blocks from one
/// flush to the next.
fn full_flushes(gas_limit: u64) -> (u64, u64) {
    let mut world = World::new(3, 0);
    world.base.numbers = BaseNumbers::public(gas_limit);
    world.confirmations = crate::event::CONFIRMATIONS_DEFAULT;
    for place in 0..3 {
        world.start(place);
    }
    let mut world = world.with_dapp_base();
    let users = [0x51, 0x52, 0x53].map(key);
    for user in &users {
        world.buy(user.address(), 1000);
    }
    world.run_until(60, "the deposits are credited", |world| {
        world.reader(0).enter_position().unwrap() == 3
    });
    for user in &users {
        for nonce in 0..500 {
            world.call_dapp_base(user, nonce, U256::from(1), &redeem());
        }
        world.run_slots(2);
    }
    let listed = world.reader(0).withdrawals(None, 0, 3).unwrap().1;
    assert_eq!(listed, 1500);
    let mut ends = Vec::new();
    while ends.len() < 3 {
        let flushes = world.base.flushes;
        world.run_until(400, "a flush", |world| world.base.flushes > flushes);
        ends.push((world.base.last_flush, world.base.paid.len() as u64));
    }
    assert_eq!(
        world.base.deflations, world.base.flushes,
        "each flush is carried out once"
    );
    let [_, before, after] = ends[..] else {
        panic!("{ends:?}")
    };
    println!("gas limit {gas_limit}: {ends:?}");
    (after.1 - before.1, after.0 - before.0)
}

#[test]
fn ten_thousand_withdrawals_are_a_matter_of_hours() {
    for (gas_limit, least) in [(9_000_000, 370), (18_000_000, 500)] {
        let (paid, blocks) = full_flushes(gas_limit);
        let hours = 10_000 * blocks * 10 / paid / 3600;
        println!("{gas_limit}: {paid} withdrawals in {blocks} base blocks, 10,000 in {hours} hours");
        assert!(paid >= least && hours <= 6, "{gas_limit}: {paid} in {blocks}");
    }
}
