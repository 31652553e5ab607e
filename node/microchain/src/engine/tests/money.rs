//! Tokens of both worlds add up: deposits, withdrawals, and long random runs.

use primitives::{Address, SecretKey, U256};

use super::world::{World, call, key};
use crate::abi::CallData;
use crate::contract::Deposit;
use crate::dapp_base::DappBaseCalls;

fn redeem() -> Vec<u8> {
    call("redeemFromMicroChain()", CallData::default()).to_vec()
}

/// Compares what the chain base and the MicroChain of one SCS say.
fn add_up(world: &World, place: usize) {
    let reader = world.reader(place);
    let view = reader.view().unwrap();
    let head = view.head_number();
    let calls = DappBaseCalls::new(&view, world.dapp_base());
    let credited = calls.enter_position(head).unwrap() as usize;
    assert!(
        credited <= world.base.deposits.len(),
        "more is credited than bought"
    );
    let sum = |all: &[Deposit]| all.iter().map(|one| one.tokens).sum::<U256>();
    let bought = sum(&world.base.deposits[..credited]);
    let withdrawals = calls.withdrawals(None, 0, head).unwrap();
    let withdrawn: U256 = withdrawals.iter().map(|one| one.tokens).sum();
    let vault = reader.balance(&world.dapp_base()).unwrap();
    assert_eq!(vault, world.setup.supply - bought + withdrawn, "the vault");
    // The first withdrawals were paid out, each once.
    let paid: Vec<_> = withdrawals.iter().map(|one| (one.user, one.tokens)).collect();
    assert!(
        paid.starts_with(&world.base.paid),
        "{:?} {paid:?}",
        world.base.paid
    );
    assert_eq!(world.base.redeem_position as usize, world.base.paid.len());
}

#[test]
fn deposits_and_withdrawals_reach_the_other_world() {
    let mut world = World::new(3, 0).with_dapp_base();
    let users = [key(0x51), key(0x52)];
    for user in &users {
        world.buy(user.address(), 1000);
    }
    world.run_until(60, "deposits are credited", |world| {
        world.reader(0).enter_position().unwrap() == 2
    });
    assert_eq!(
        world.reader(0).credited(&users[1].address()).unwrap()[0].tokens,
        U256::from(1000)
    );
    world.run_slots(4);
    add_up(&world, 0);
    // More than one payout takes.
    for nonce in 0..30 {
        world.call_dapp_base(&users[0], nonce, U256::from(3), &redeem());
    }
    world.run_until(300, "all is paid out", |world| world.base.paid.len() == 30);
    for place in 0..3 {
        add_up(&world, place);
    }
    world.run_until(300, "another flush", |world| world.base.flushes >= 2);
    assert_eq!(world.base.paid.len(), 30, "nothing is paid twice");
    assert_eq!(
        world
            .reader(0)
            .withdrawals(Some(&users[0].address()), 0)
            .unwrap()
            .len(),
        30
    );
}

#[test]
fn a_contract_cannot_withdraw_and_strangers_cannot_vote() {
    let mut world = World::new(3, 0).with_dapp_base();
    let thief = key(0x66);
    let take_over = crate::dapp_base::update_node_list(&[thief.address()]);
    let mint = crate::dapp_base::post_flush(
        0,
        &[Deposit {
            user: thief.address(),
            tokens: U256::from(1_000_000),
            bought: 1,
        }],
    );
    world.call_dapp_base(&thief, 0, U256::ZERO, &take_over);
    world.call_dapp_base(&thief, 1, U256::ZERO, &mint);
    world.run_slots(8);
    let reader = world.reader(0);
    assert_eq!(reader.nonce(&thief.address()).unwrap(), 2);
    assert_eq!(reader.balance(&thief.address()).unwrap(), U256::ZERO);
    assert_eq!(reader.enter_position().unwrap(), 0);
    add_up(&world, 0);
}

#[test]
fn a_deposit_that_the_base_chain_takes_back_stops_flushes_until_it_is_bought_again() {
    let mut world = World::new(3, 0).with_dapp_base();
    let user = key(0x51).address();
    world.buy(user, 500);
    world.run_until(60, "the deposit is credited", |world| {
        world.reader(0).enter_position().unwrap() == 1
    });
    let flushes = world.base.flushes;
    let taken_back = world.base.deposits.split_off(0);
    world.run_slots(80);
    assert!(world.base.flushes <= flushes + 1, "a flush that was open may end");
    let stopped = world.base.flushes;
    assert!(world.base.performance.iter().all(|(_, left)| *left > 0));
    world.base.deposits = taken_back;
    // The turns are over; the owner begins a new round.
    world.base.last_flush = world.base.block;
    world.run_until(300, "a flush", |world| world.base.flushes > stopped);
    add_up(&world, 0);
}

#[test]
fn a_deposit_of_another_amount_than_bought_stops_flushes() {
    let mut world = World::new(3, 0).with_dapp_base();
    let users = [0x51, 0x52, 0x51].map(|byte| key(byte).address());
    for user in users {
        world.buy(user, 500);
    }
    // The base chain says something else as soon as the deposits are credited.
    world.run_until(60, "the deposits are credited", |world| {
        world.reader(0).enter_position().unwrap() == 3
    });
    let flushes = world.base.flushes;
    let bought = world.base.deposits.clone();
    world.base.deposits[2].tokens += U256::from(1);
    world.run_slots(80);
    assert_eq!(world.base.flushes, flushes, "nobody votes for it");
    world.base.deposits = bought;
    world.base.last_flush = world.base.block;
    world.run_until(300, "a flush", |world| world.base.flushes > flushes);
    add_up(&world, 0);
}

#[test]
fn votes_of_a_liar_for_other_deposits_hold_up_no_flush() {
    let mut world = World::new(3, 0).with_dapp_base();
    let (user, thief) = (key(0x51).address(), key(0x66).address());
    let liar = 2;
    let liar_key = world.scs[liar].key.clone();
    world.kill(liar);
    world.buy(user, 500);
    let lie = crate::dapp_base::post_flush(
        0,
        &[Deposit {
            user: thief,
            tokens: U256::from(1_000_000),
            bought: 1,
        }],
    );
    // A vote of the liar is in every block, so also in the one that credits the deposit.
    let first = world.reader(0).nonce(&liar_key.address()).unwrap();
    for nonce in first..first + 60 {
        if world.reader(0).enter_position().unwrap() == 1 {
            break;
        }
        world.call_dapp_base(&liar_key, nonce, U256::ZERO, &lie);
        world.run_slots(1);
    }
    assert_eq!(world.reader(0).enter_position().unwrap(), 1);
    assert_eq!(world.reader(0).balance(&thief).unwrap(), U256::ZERO);
    assert_eq!(world.reader(0).balance(&user).unwrap(), U256::from(500));
    let flushes = world.base.flushes;
    world.run_until(300, "a flush", |world| world.base.flushes > flushes);
    add_up(&world, 0);
}

/// A small generator of random numbers with a seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Base blocks that a reorganization of a random run takes back at most.
const REORGANIZED_MAX: u64 = 10;

fn random_run(seed: u64, members: usize, slots: u64) {
    let mut random = RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::new(members, 0).with_dapp_base();
    let users: Vec<SecretKey> = (0x50..0x54).map(key).collect();
    let mut lossy = RandomNumbers(seed | 1);
    world.filter = Some(Box::new(move |_, _| lossy.below(10) > 0));
    let mut earlier = world.base.clone();
    for slot in 0..slots {
        match random.below(12) {
            // The base chain takes its last blocks back. Purchases come again in the new branch,
            // calls of SCSs do not.
            0 if world.base.block - earlier.block <= REORGANIZED_MAX => {
                let deposits = std::mem::take(&mut world.base.deposits);
                let block = world.base.block + 1;
                world.base = earlier.clone();
                (world.base.deposits, world.base.block) = (deposits, block);
            }
            _ if slot % 4 == 0 => earlier = world.base.clone(),
            _ => {}
        }
        let user = &users[random.below(4) as usize];
        match random.below(8) {
            0 => world.buy(user.address(), 1 + random.below(1000)),
            1 | 2 => {
                let nonce = next_nonce(&world, &user.address());
                let value = U256::from(random.below(300));
                let to = users[random.below(4) as usize].address();
                world.transact(user, nonce, 2, value, to.to_vec());
            }
            3 => {
                let nonce = next_nonce(&world, &user.address());
                world.call_dapp_base(user, nonce, U256::from(random.below(200)), &redeem());
            }
            4 => world.kill(random.below(members as u64) as usize),
            _ => {
                let place = random.below(members as u64) as usize;
                if world.scs[place].engine.is_none() {
                    world.start(place);
                }
            }
        }
        world.base_takes_calls = random.below(10) > 0;
        world.run_slots(1);
        for place in 0..members {
            if world.scs[place].engine.is_some() {
                check_supply(&world, place, &users);
            }
        }
    }
    // In the end all is well again.
    world.filter = None;
    world.base_takes_calls = true;
    for place in 0..members {
        if world.scs[place].engine.is_none() {
            world.start(place);
        }
    }
    if world.base.members.len() < 2 {
        return;
    }
    let flushes = world.base.flushes;
    world.base.last_flush = world.base.block;
    world.run_until(400, &format!("seed {seed}: a flush after the storm"), |world| {
        world.base.flushes > flushes + 1
    });
    world.run_slots(12);
    world.agreed(1);
    for place in 0..members {
        add_up(&world, place);
    }
}

fn next_nonce(world: &World, user: &Address) -> u64 {
    let running = (0..world.scs.len()).find(|place| world.scs[*place].engine.is_some());
    running.map_or(0, |place| {
        let reader = world.reader(place);
        let pending = reader.pool().pending.get(user).map_or(0, |all| all.len() as u64);
        reader.nonce(user).unwrap() + pending
    })
}

/// All tokens are somewhere: with the users, or in the vault.
fn check_supply(world: &World, place: usize, users: &[SecretKey]) {
    let reader = world.reader(place);
    let view = reader.view().unwrap();
    let head = view.head_number();
    let balance = |address: &Address| {
        let account = view.account(address, head).unwrap();
        account.map_or(U256::ZERO, |account| account.balance)
    };
    let all = users.iter().map(|user| balance(&user.address()));
    let outside: U256 = all.sum();
    let total = outside + balance(&world.dapp_base()) + balance(&world.setup.owner);
    assert_eq!(total, world.setup.supply, "SCS {place}, block {head}");
}

#[test]
fn tokens_add_up_over_random_runs() {
    let seeds = std::env::var("MICROCHAIN_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds: u64 = seeds.unwrap_or(4);
    for seed in 1..=seeds {
        println!("seed {seed}");
        random_run(seed, 3 + 2 * (seed as usize % 2), 120);
    }
}
