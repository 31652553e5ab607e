//! Tokens of both worlds add up: deposits, withdrawals, and long random runs.

use primitives::{Address, SecretKey, U256};

use super::invariants::audit;
use super::world::{World, call, key};
use crate::abi::CallData;
use crate::contract::{ContractState, Deposit};

fn redeem() -> Vec<u8> {
    call("redeemFromMicroChain()", CallData::default()).to_vec()
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
    audit(&world, 0);
    // More than one payout takes.
    for nonce in 0..30 {
        world.call_dapp_base(&users[0], nonce, U256::from(3), &redeem());
    }
    world.run_until(300, "all is paid out", |world| world.base.paid.len() == 30);
    for place in 0..3 {
        audit(&world, place);
    }
    world.run_until(300, "another flush", |world| world.base.flushes >= 2);
    assert_eq!(world.base.paid.len(), 30, "nothing is paid twice");
    assert_eq!(
        world
            .reader(0)
            .withdrawals(Some(&users[0].address()), 0, 1)
            .unwrap()
            .1,
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
    audit(&world, 0);
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
    audit(&world, 0);
}

#[test]
fn an_scs_starts_although_no_vnode_answers_with_all_deposits() {
    let mut world = World::new(3, 1).with_dapp_base();
    world.kill(3);
    for _ in 0..6 {
        world.buy(key(0x51).address(), 100);
    }
    world.run_until(400, "a flush covers the deposits", |world| {
        world.engine(0).deposits_from() == Some(6)
    });
    world.base.answered_max = 5;
    for place in 0..3 {
        world.kill(place);
        world.start(place);
        assert_eq!(world.engine(place).deposits_from(), Some(6), "{place}");
    }
    // A newcomer has no block of the flush yet.
    world.start(3);
    assert_eq!(world.engine(3).deposits_from(), None);
    world.buy(key(0x52).address(), 100);
    world.run_until(80, "one more is credited", |world| {
        (0..4).all(|place| world.reader(place).enter_position().unwrap() == 7)
    });
    let flushes = world.base.flushes;
    world.run_until(300, "a flush", |world| world.base.flushes > flushes);
    (0..4).for_each(|place| audit(&world, place));
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
const REORGANIZED_MAX: u64 = 100;

/// The storm of one run: its seed, the members, and how many of them have a VNODE that lies.
#[derive(Clone, Copy, Debug)]
struct Storm {
    seed: u64,
    members: usize,
    liars: usize,
}

impl Storm {
    /// 1 of 3, 1 of 5, 2 of 5 or none of the members lie.
    fn of(seed: u64) -> Self {
        let (members, liars) = [(5, 0), (3, 1), (5, 2), (3, 0), (5, 1)][(seed % 5) as usize];
        Self { seed, members, liars }
    }

    fn honest(self) -> std::ops::Range<usize> {
        0..self.members - self.liars
    }

    /// The VNODEs of liars invent a deposit of a thief, before all others or behind them, and keep
    /// those that are taken back.
    fn lies(self, world: &mut World) {
        let invented = Deposit {
            user: key(0x66).address(),
            tokens: U256::from(1_000_000),
            bought: 1,
        };
        let (first, last) = match self.seed % 2 {
            0 => (vec![invented], vec![]),
            _ => (vec![], vec![invented]),
        };
        for place in self.honest().end..self.members {
            let (mut seen, last) = (first.clone(), last.clone());
            let lie = move |state: &mut ContractState| {
                let Some(deposits) = &mut state.deposits else {
                    return;
                };
                let from = deposits.from as usize;
                let new = seen.len().saturating_sub(from);
                if from <= seen.len() {
                    seen.extend(deposits.entries.iter().skip(new));
                }
                let told = seen.get(from..).unwrap_or_default();
                deposits.entries = [told, &last].concat();
            };
            world.lies.insert(place, Box::new(lie));
        }
    }
}

fn random_run(storm: Storm, slots: u64) -> u64 {
    let Storm { seed, members, .. } = storm;
    let mut random = RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::new(members, 0).with_dapp_base();
    let users: Vec<SecretKey> = (0x50..0x54).map(key).collect();
    let (mut lossy, mut doubled) = (RandomNumbers(seed | 1), RandomNumbers(seed | 2));
    world.filter = Some(Box::new(move |_, _| lossy.below(10) > 0));
    world.doubles = Box::new(move || doubled.below(10) == 0);
    storm.lies(&mut world);
    for _ in 0..slots {
        // The base chain takes its last blocks back, most often a few. Neither purchases nor calls
        // of SCSs come again.
        if random.below(12) == 0 {
            let most = if random.below(4) == 0 { REORGANIZED_MAX } else { 10 };
            world.take_back(1 + random.below(most) as usize, false);
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
        for place in storm.honest() {
            if world.scs[place].engine.is_some() {
                check_supply(&world, place, &users);
                audit(&world, place);
            }
        }
    }
    // In the end all is well again, but for the lies.
    world.filter = None;
    world.doubles = Box::new(|| false);
    world.base_takes_calls = true;
    for place in 0..members {
        if world.scs[place].engine.is_none() {
            world.start(place);
        }
    }
    if world.base.members.len() < 2 {
        return world.checks;
    }
    let flushes = world.base.flushes;
    world.change_base(|base| base.last_flush = base.block);
    world.run_until(400, &format!("{storm:?}: a flush after it"), |world| {
        world.base.flushes > flushes + 1
    });
    world.run_slots(12);
    if storm.liars == 0 {
        world.agreed(1);
    }
    for place in storm.honest() {
        audit(&world, place);
    }
    world.checks
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

/// A number in the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `MICROCHAIN_SEEDS=N` tries N seeds, from `MICROCHAIN_SEED` on.
#[test]
fn tokens_add_up_over_random_runs() {
    let first = variable("MICROCHAIN_SEED").unwrap_or(1);
    let seeds = variable("MICROCHAIN_SEEDS").unwrap_or(4);
    let mut checks = 0;
    for seed in first..first + seeds {
        let storm = Storm::of(seed);
        println!("{storm:?}");
        checks += random_run(storm, 120);
    }
    println!("the invariants held in {checks} states");
    assert!(checks > 100 * seeds, "{checks} states were checked");
}
