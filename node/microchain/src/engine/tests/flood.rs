//! Floods: calls that burn the gas of whole blocks, from many accounts that pay nothing.

use std::time::Duration;

use chain::application::{BLOCK_GAS_FILL, BlockExtra};
use primitives::{Address, Block, SecretKey, Transaction, U256, keccak256};

use super::world::{PERIOD, World, call, key, owner};
use crate::abi::CallData;
use crate::fill::{FillTime, LeftOut};
use crate::pool::{PENDING_PER_EMPTY_MAX, PENDING_PER_SENDER_MAX, POOL_TRANSACTIONS_MAX};

/// A key for each number.
fn numbered_key(number: u64) -> SecretKey {
    SecretKey::from_bytes(&keccak256(number.to_be_bytes()).0).unwrap()
}

/// Flag 1 to DappBase: `curNodeList(2^200)`. The index is out of range, so the call burns all the
/// gas of a transaction, which is as much as a block is filled with.
fn burning(world: &World) -> Vec<u8> {
    let index = U256::from(1) << 200;
    let data = call("curNodeList(uint256)", CallData::default().number(index));
    [world.dapp_base().as_slice(), &data].concat()
}

/// Sends the calls of each account with nonces from 0 on.
fn flood(world: &mut World, keys: &[SecretKey], calls: usize, input: &[u8]) {
    for nonce in 0..calls as u64 {
        for key in keys {
            world.transact(key, nonce, 1, U256::ZERO, input.to_vec());
        }
    }
}

fn is_mined(world: &World, transaction: &Transaction) -> bool {
    let reader = world.reader(0);
    reader.transaction(&transaction.hash()).unwrap().is_some()
}

/// Runs until a transaction is in a block. Returns the time in milliseconds.
fn time_to_block(world: &mut World, transaction: &Transaction, slots: u64) -> Option<u64> {
    let start = world.now_ms;
    while !is_mined(world, transaction) {
        if world.now_ms - start > slots * 1000 * PERIOD {
            return None;
        }
        world.step();
    }
    Some(world.now_ms - start)
}

/// Members, DappBase, and an account with tokens.
fn world_with_user(members: usize) -> (World, SecretKey) {
    let mut world = World::new(members, 0).with_dapp_base();
    let user = key(0x55);
    world.buy(user.address(), 1_000_000);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    (world, user)
}

/// Honest transfers and calls, one of each in each slot: each must be in a block one period later.
fn honest_ones_get_through(world: &mut World, user: &SecretKey, slots: u64) {
    honest_ones_wait(world, user, slots, 1);
}

/// As [`honest_ones_get_through`], but calls of new accounts without tokens wait so many periods.
fn honest_ones_wait(world: &mut World, user: &SecretKey, slots: u64, periods: u64) {
    let to = Address::repeat_byte(0x66);
    let asks = call("getCurNodeList()", CallData::default());
    for slot in 0..slots {
        let transfer = world.transact(user, slot, 2, U256::from(1), to.to_vec());
        let nobody = numbered_key(1_000_000 + slot);
        let asks = world.call_dapp_base(&nobody, 0, U256::ZERO, &asks);
        for (what, transaction, periods) in [
            ("a transfer", transfer, 1),
            ("a call without tokens", asks, periods),
        ] {
            let time = time_to_block(world, &transaction, 10);
            let time = time.unwrap_or_else(|| panic!("{what} of slot {slot} is in none of 10 blocks"));
            assert!(
                time <= 1000 * PERIOD * periods,
                "{what} of slot {slot}: {time} ms"
            );
        }
        world.step();
    }
}

/// Gas of the block at the head.
fn gas_of_head(world: &World) -> u64 {
    let reader = world.reader(0);
    let head = reader.head().unwrap().number;
    reader.block(head).unwrap().unwrap().record.header.gas_used
}

#[test]
fn sixteen_empty_accounts_with_calls_that_burn_blocks_delay_nobody() {
    let (mut world, user) = world_with_user(3);
    let attackers: Vec<_> = (0..16).map(numbered_key).collect();
    let input = burning(&world);
    flood(&mut world, &attackers, PENDING_PER_SENDER_MAX, &input);
    let waiting: usize = world.reader(0).pool().pending.values().map(|all| all.len()).sum();
    assert_eq!(waiting, 16 * PENDING_PER_EMPTY_MAX);
    honest_ones_get_through(&mut world, &user, 20);
    // The room that nobody else needs is still theirs.
    assert!(gas_of_head(&world) > BLOCK_GAS_FILL);
    // Members credit a deposit meanwhile.
    world.buy(user.address(), 1000);
    world.run_until(14, "a deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 2
    });
    let waiting: usize = world.reader(0).pool().pending.values().map(|all| all.len()).sum();
    assert!(waiting > 900, "the flood still lasts: {waiting}");
    world.agreed(1);
}

#[test]
fn new_empty_accounts_for_each_call_delay_nobody() {
    let (mut world, user) = world_with_user(3);
    let attackers: Vec<_> = (0..1500).map(numbered_key).collect();
    let input = burning(&world);
    flood(&mut world, &attackers, 1, &input);
    honest_ones_get_through(&mut world, &user, 20);
    world.agreed(1);
}

#[test]
fn attackers_with_tokens_cannot_fill_the_pool_and_delay_nobody() {
    let (mut world, user) = world_with_user(3);
    let attackers: Vec<_> = (0..16).map(numbered_key).collect();
    for attacker in &attackers {
        world.buy(attacker.address(), 1000);
    }
    world.run_until(30, "their deposits are credited", |world| {
        world.reader(0).enter_position().unwrap() == 17
    });
    let input = burning(&world);
    flood(&mut world, &attackers, PENDING_PER_SENDER_MAX, &input);
    let waiting: usize = world.reader(0).pool().pending.values().map(|all| all.len()).sum();
    assert_eq!(waiting, POOL_TRANSACTIONS_MAX, "the pool is full");
    honest_ones_get_through(&mut world, &user, 20);
    world.agreed(1);
}

#[test]
fn a_sender_of_many_cheap_calls_shares_blocks_with_others() {
    let (mut world, user) = world_with_user(1);
    // Each transaction uses some 3 million gas, so a block has room for some 18.
    let data = call("have(address[],address)", CallData::default());
    let input = [world.dapp_base().as_slice(), &data, &long_list(4200)].concat();
    let attackers: Vec<_> = (0..16).map(numbered_key).collect();
    flood(&mut world, &attackers, 6, &input);
    // A new account without tokens ranks with those that have used nothing yet.
    honest_ones_wait(&mut world, &user, 4, 2);
    assert!(
        !world.reader(0).pool().pending.is_empty(),
        "the flood still lasts"
    );
}

/// The arguments of `have`: a list of so many addresses, and one that is not in it.
fn long_list(len: u64) -> Vec<u8> {
    let word = |number: u64| U256::from(number).to_be_bytes::<32>();
    let head = [word(64), word(9), word(len)];
    let list = std::iter::repeat_n(word(1), len as usize);
    head.into_iter().chain(list).flatten().collect()
}

/// The block that SCS 0 would make, if it had so much time for transactions, and what was left out.
fn block_within(world: &World, time: Duration) -> (Block, LeftOut) {
    let engine = world.engine(0);
    let view = engine.ledger.view().unwrap();
    let parent = engine.ledger.parent(&view, &view.head_hash()).unwrap().unwrap();
    let extra = BlockExtra {
        list: Vec::new(),
        ..parent.extra
    };
    let ready = engine.pool.lock().ready(engine.slot());
    let at = (parent.timestamp + PERIOD, &extra);
    let time = FillTime {
        all: time,
        each: time,
    };
    let built = engine.ledger.build(&view, &parent, &engine.key, at, ready, time);
    built.unwrap()
}

#[test]
fn a_transaction_that_takes_too_long_is_left_out_and_then_dropped() {
    let (mut world, user) = world_with_user(1);
    // JUMPDEST, PUSH1 0, JUMP: an endless loop.
    let endless = world.transact(&owner(), 1, 3, U256::ZERO, vec![0x5b, 0x60, 0, 0x56]);
    let to = Address::repeat_byte(0x66);
    let transfer = world.transact(&user, 0, 2, U256::from(1), to.to_vec());
    let key = (owner().address(), 1);
    // A busy machine may begin nothing in the short time.
    let mut tries = (0..50).map(|_| block_within(&world, Duration::from_millis(20)));
    let (block, left_out) = tries
        .find(|(_, left_out)| !left_out.slow.is_empty())
        .expect("it is begun");
    assert_eq!((block.transactions, left_out.slow), (vec![transfer], vec![key]));
    // With enough time it is in the block, after the others, and has burned a block.
    let (block, left_out) = block_within(&world, Duration::from_secs(600));
    assert_eq!(block.transactions[1], endless);
    assert!(block.header.gas_used > BLOCK_GAS_FILL);
    assert_eq!(
        left_out.costly[0].0, key,
        "it was tried before, among the cheap ones"
    );
}
