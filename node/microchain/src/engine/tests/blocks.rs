//! Blocks: one member alone, several that agree, silent ones, forks, catching up, restarts.

use chain::call::{CallOutcome, CallRequest};
use primitives::{Address, ReceiptOutcome, Transaction, U256};

use super::world::{PERIOD, World, call, creation_code, key, owner};
use crate::abi::CallData;
use crate::contract::BaseCall;
use crate::event::Event;
use crate::reader::succeeded;

fn count(world: &World, place: usize, counter: Address) -> U256 {
    let request = CallRequest {
        to: Some(counter),
        input: call("total()", CallData::default()),
        ..Default::default()
    };
    match world.reader(place).call(&request).unwrap() {
        CallOutcome::Success { output, .. } => U256::from_be_slice(&output),
        other => panic!("{other:?}"),
    }
}

/// Creates and registers the Dapp Counter; the owner has used nonce 0 so far.
fn with_counter(world: &mut World) -> Address {
    let counter = Transaction::created_address(&world.setup.owner, 1);
    world.transact(&owner(), 1, 3, U256::ZERO, creation_code("Counter"));
    let register = call(
        "registerDapp(address,address,string)",
        CallData::default()
            .address(counter)
            .address(world.setup.owner)
            .bytes(b"[]"),
    );
    world.call_dapp_base(&owner(), 2, U256::ZERO, &register);
    counter
}

fn counted(counter: Address, step: u64) -> Vec<u8> {
    let data = call("count(uint256)", CallData::default().small(step));
    [counter.as_slice(), &data].concat()
}

#[test]
fn one_member_makes_blocks_and_runs_a_dapp() {
    let mut world = World::new(1, 0).with_dapp_base();
    let reader = world.reader(0);
    assert_eq!(reader.dapp_base().unwrap(), Some(world.dapp_base()));
    assert_eq!(reader.balance(&world.dapp_base()).unwrap(), world.setup.supply);
    let counter = with_counter(&mut world);
    // The contract is a Dapp only once it is registered, in the order of the block.
    let user = key(0x55);
    let early = world.transact(&user, 0, 1, U256::ZERO, counted(counter, 5));
    assert_eq!(reader.pool().pending[&user.address()].len(), 1);
    world.run_slots(2);
    let again = world.transact(&user, 1, 1, U256::ZERO, counted(counter, 7));
    let stranger = world.transact(&user, 2, 1, U256::ZERO, counted(Address::repeat_byte(9), 7));
    let create = world.transact(&user, 3, 3, U256::ZERO, creation_code("Counter"));
    world.transact(&user, 5, 1, U256::ZERO, counted(counter, 1));
    assert_eq!(reader.pool().queued[&user.address()].len(), 1);
    world.run_slots(2);
    assert_eq!(count(&world, 0, counter), U256::from(12));
    let receipt = |transaction: &Transaction| {
        let mined = reader.transaction(&transaction.hash()).unwrap().expect("mined");
        reader.receipt_of(mined).unwrap().unwrap()
    };
    assert!(succeeded(&receipt(&early).receipt));
    assert_eq!(receipt(&again).receipt.logs.len(), 1);
    // The ceiling of a block in `bench/README.md` follows from the gas of a call.
    assert_eq!(receipt(&again).gas_used, 14_051);
    assert!(!succeeded(&receipt(&stranger).receipt) && !succeeded(&receipt(&create).receipt));
    assert_eq!(receipt(&create).contract, None);
    assert_eq!(reader.nonce(&user.address()).unwrap(), 4);
    let by_nonce = reader.transaction_by_nonce(&user.address(), 1).unwrap().unwrap();
    assert_eq!(by_nonce.transaction, again);
    assert!(reader.transaction_by_nonce(&user.address(), 4).unwrap().is_none());
    let created = reader
        .transaction_by_nonce(&world.setup.owner, 1)
        .unwrap()
        .unwrap();
    assert_eq!(
        reader.receipt_of(created).unwrap().unwrap().contract,
        Some(counter)
    );
    let dapps = reader.dapps().unwrap();
    assert_eq!((dapps.len(), dapps[0].address, dapps[0].state), (1, counter, 1));
    assert_eq!(dapps[0].abi, "[]");
    // Every slot has its block.
    let head = reader.head().unwrap().number;
    let times: Vec<u64> = (1..=head)
        .map(|number| reader.block(number).unwrap().unwrap().record.header.timestamp)
        .collect();
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] == PERIOD),
        "{times:?}"
    );
}

/// Creation code of a contract that passes what it gets on to `to`, and fails if that fails.
fn router(to: Address) -> Vec<u8> {
    // CALLDATACOPY all to 0; CALL with it; jump over the REVERT if it was right.
    let before = [
        0x36, 0x60, 0, 0x60, 0, 0x37, 0x60, 0, 0x60, 0, 0x36, 0x60, 0, 0x60, 0, 0x73,
    ];
    let after = [0x5a, 0xf1, 0x60, 46, 0x57, 0x60, 0, 0x60, 0, 0xfd, 0x5b, 0x00];
    let code = [&before[..], to.as_slice(), &after].concat();
    assert_eq!(code[46], 0x5b);
    let copy = [
        0x60,
        code.len() as u8,
        0x80,
        0x60,
        11,
        0x60,
        0,
        0x39,
        0x60,
        0,
        0xf3,
    ];
    [&copy[..], &code].concat()
}

#[test]
fn a_contract_of_a_user_is_called_once_it_is_registered_or_by_a_registered_one() {
    let all_may_deploy = CallData::default().bytes(b"token").small(1).encode();
    let code = [creation_code("DappBase"), all_may_deploy].concat();
    let mut world = World::new(1, 0).with_dapp_base_of(code);
    let user = key(0x55);
    let counter = Transaction::created_address(&user.address(), 0);
    let create = world.transact(&user, 0, 3, U256::ZERO, creation_code("Counter"));
    let route = Transaction::created_address(&user.address(), 1);
    world.transact(&user, 1, 3, U256::ZERO, router(counter));
    let direct = world.transact(&user, 2, 1, U256::ZERO, counted(counter, 5));
    world.run_slots(2);
    let outcome = |world: &World, transaction: &Transaction| {
        let reader = world.reader(0);
        let mined = reader.transaction(&transaction.hash()).unwrap().expect("mined");
        let receipt = reader.receipt_of(mined).unwrap().unwrap();
        (succeeded(&receipt.receipt), receipt.gas_used)
    };
    assert!(outcome(&world, &create).0);
    assert_eq!(outcome(&world, &direct), (false, 1000));
    let register = |contract: Address| {
        let arguments = CallData::default()
            .address(contract)
            .address(contract)
            .bytes(b"[]");
        call("registerDapp(address,address,string)", arguments)
    };
    world.call_dapp_base(&owner(), 1, U256::ZERO, &register(route));
    world.run_slots(2);
    let routed = world.transact(&user, 3, 1, U256::ZERO, counted(route, 6));
    world.run_slots(2);
    assert!(outcome(&world, &routed).0);
    assert_eq!(count(&world, 0, counter), U256::from(6));
    world.call_dapp_base(&owner(), 2, U256::ZERO, &register(counter));
    world.run_slots(2);
    world.transact(&user, 4, 1, U256::ZERO, counted(counter, 7));
    world.run_slots(2);
    assert_eq!(count(&world, 0, counter), U256::from(13));
}

#[test]
fn tokens_move_by_flag_2_and_not_twice() {
    let mut world = World::new(1, 0).with_dapp_base();
    let user = key(0x55);
    world.buy(user.address(), 1000);
    world.run_until(40, "the deposit is credited", |world| {
        !world.reader(0).balance(&user.address()).unwrap().is_zero()
    });
    let to = Address::repeat_byte(0x66);
    world.transact(&user, 0, 2, U256::from(400), to.to_vec());
    world.transact(&user, 1, 2, U256::from(700), to.to_vec());
    world.run_slots(3);
    let reader = world.reader(0);
    assert_eq!(reader.balance(&to).unwrap(), U256::from(400));
    assert_eq!(reader.balance(&user.address()).unwrap(), U256::from(600));
    // A transaction that nobody can pay waits.
    assert_eq!(reader.pool().pending[&user.address()].len(), 1);
}

#[test]
fn a_transfer_to_dapp_base_fails_before_a_restart_and_after() {
    let mut world = World::new(3, 0).with_dapp_base();
    let (user, dapp_base) = (key(0x55), world.dapp_base());
    let others = Address::repeat_byte(0x66);
    let outcome = |world: &World, nonce| {
        let reader = world.reader(0);
        let mined = reader.transaction_by_nonce(&user.address(), nonce).unwrap();
        let receipt = reader.receipt_of(mined.expect("in a block")).unwrap();
        crate::reader::succeeded(&receipt.expect("in a block").receipt)
    };
    // DappBase has no function for a call without data.
    for nonce in [0, 2] {
        world.transact(&user, nonce, 2, U256::ZERO, dapp_base.to_vec());
        world.transact(&user, nonce + 1, 2, U256::ZERO, others.to_vec());
        world.run_slots(6);
        assert_eq!(
            [nonce, nonce + 1].map(|nonce| outcome(&world, nonce)),
            [false, true]
        );
        for place in 0..3 {
            world.kill(place);
            world.start(place);
        }
    }
}

#[test]
fn three_members_agree_and_a_silent_one_is_skipped() {
    let mut world = World::new(3, 0).with_dapp_base();
    let counter = with_counter(&mut world);
    world.run_slots(4);
    let before = world.agreed(0);
    world.kill(1);
    world.run_slots(9);
    assert_eq!(world.agreed(0), before + 6, "two of three slots have blocks");
    let user = key(0x55);
    for nonce in 0..20 {
        world.transact(&user, nonce, 1, U256::ZERO, counted(counter, 1));
    }
    world.run_slots(3);
    // Back again, it gets what it has missed and takes its turns.
    world.start(1);
    world.run_slots(9);
    let number = world.agreed(0);
    assert_eq!(count(&world, 1, counter), U256::from(20));
    let producers: Vec<Address> = (number - 2..=number)
        .map(|number| {
            world
                .reader(0)
                .block(number)
                .unwrap()
                .unwrap()
                .record
                .header
                .beneficiary
        })
        .collect();
    for place in 0..3 {
        assert!(producers.contains(&world.id(place)), "{producers:?}");
    }
}

#[test]
fn a_split_network_becomes_one_chain_again() {
    let mut world = World::new(5, 0).with_dapp_base();
    let counter = with_counter(&mut world);
    world.run_slots(3);
    for place in [3, 4] {
        world.scs[place].part = 1;
    }
    let user = key(0x55);
    for place in 0..5 {
        let nonce = u64::from(place >= 3);
        let transaction = world.signed(&user, 0, 1, U256::ZERO, counted(counter, 1 + 10 * nonce));
        world.give(place, Event::Transaction(Box::new(transaction)));
    }
    world.run_slots(10);
    let heads: Vec<u64> = (0..5)
        .map(|place| world.reader(place).head().unwrap().number)
        .collect();
    assert!(heads[0] > heads[4], "{heads:?}");
    assert_eq!(count(&world, 4, counter), U256::from(11));
    for scs in &mut world.scs {
        scs.part = 0;
    }
    world.run_slots(8);
    world.agreed(0);
    assert_eq!(count(&world, 4, counter), U256::from(1), "the longer chain won");
}

#[test]
fn a_newcomer_gets_the_whole_chain() {
    let mut world = World::new(3, 1);
    world.kill(3);
    let mut world = world.with_dapp_base();
    with_counter(&mut world);
    // More than one answer has.
    world.run_slots(300);
    world.start(3);
    world.run_slots(12);
    let head = world.reader(0).head().unwrap().number;
    assert!(head > 300, "{head}");
    world.agreed(0);
    // As a backup it says so, and joins at the next flush.
    world.base.backups.push(world.id(3));
    world.run_until(400, "the backup has joined", |world| {
        world.base.members.len() == 4
    });
    world.run_slots(40);
    let number = world.agreed(0);
    let makes_blocks = (number - 8..=number).any(|number| {
        let block = world.reader(0).block(number).unwrap().unwrap();
        block.record.header.beneficiary == world.id(3)
    });
    assert!(makes_blocks);
}

#[test]
fn no_slot_is_signed_twice_after_a_crash() {
    let mut world = World::new(1, 0);
    world.run_slots(5);
    let head = world.reader(0).head().unwrap();
    // The block of this slot is made. Whatever the clock does, no second one is.
    world.kill(0);
    world.start(0);
    for _ in 0..5 {
        world.give(0, Event::Tick);
    }
    assert_eq!(world.reader(0).head().unwrap(), head);
    world.now_ms -= 3 * 1000 * PERIOD;
    for _ in 0..8 {
        world.step();
    }
    assert_eq!(world.reader(0).head().unwrap(), head);
    world.now_ms += 5 * 1000 * PERIOD;
    world.run_slots(30);
    assert!(world.reader(0).head().unwrap().number > head.number);
}

#[test]
fn new_members_are_recorded_by_the_chain() {
    let mut world = World::new(3, 1).with_dapp_base();
    world.run_slots(3);
    let new = world.id(3);
    world.base.members.push(new);
    world.base.performance.push((new, 5));
    world.run_slots(30);
    let number = world.agreed(0);
    let reader = world.reader(0);
    let lists = (1..=number).filter(|number| {
        let header = reader.block(*number).unwrap().unwrap().record.header;
        let extra = chain::application::BlockExtra::decode(&header.extra_data).unwrap();
        !extra.list.is_empty()
    });
    assert_eq!(lists.count(), 2, "block 1, and one with the new member");
    let view = reader.view().unwrap();
    let calls = crate::dapp_base::DappBaseCalls::new(&view, world.dapp_base());
    let mut list = calls.node_list(view.head_number()).unwrap();
    list.sort_unstable();
    let mut expected = world.base.members.clone();
    expected.sort_unstable();
    assert_eq!(list, expected, "DappBase has the new member, too");
    assert!(matches!(BaseCall::BackupUpToDate { place: 0 }.data().len(), 36));
}

#[test]
fn a_registration_that_is_taken_back_is_recorded_as_such() {
    let mut world = World::new(3, 1).with_dapp_base();
    let before = world.base.clone();
    let new = world.id(3);
    world.base.members.push(new);
    world.base.performance.push((new, 5));
    let recorded = |world: &World| {
        let reader = world.reader(0);
        let head = reader.head().unwrap().number;
        let lists = (1..=head).rev().find_map(|number| {
            let header = reader.block(number).unwrap().unwrap().record.header;
            let extra = chain::application::BlockExtra::decode(&header.extra_data).unwrap();
            (!extra.list.is_empty()).then_some(extra.list)
        });
        lists.expect("block 1 has a list").len()
    };
    world.run_until(20, "the list with the new member", |world| recorded(world) == 4);
    // The base chain takes the registration back.
    let block = world.base.block;
    world.base = before;
    world.base.block = block + 1;
    world.run_until(40, "the list without it", |world| recorded(world) == 3);
    let number = world.agreed(1);
    world.run_slots(9);
    assert!(world.agreed(1) >= number + 8, "all slots are those of the three");
    // The member registers again.
    world.base.members.push(new);
    world.base.performance.push((new, 5));
    world.run_until(40, "the list with it again", |world| recorded(world) == 4);
    world.run_slots(8);
    world.agreed(1);
}

/// Creation code of a contract whose every call ends with so many zero bytes: by RETURN (0xf3), or
/// by REVERT (0xfd).
fn ends_with(zeros: u32, instruction: u8) -> Vec<u8> {
    let [_, high, middle, low] = zeros.to_be_bytes();
    let runtime = [0x62, high, middle, low, 0x60, 0, instruction];
    // PUSH7 runtime, MSTORE at 0, RETURN of its seven bytes.
    [&[0x66][..], &runtime, &[0x60, 0, 0x52, 0x60, 7, 0x60, 25, 0xf3]].concat()
}

#[test]
fn receipts_have_what_calls_returned_within_bounds() {
    let mut world = World::new(3, 0).with_dapp_base();
    let codes = [
        ends_with(256, 0xf3),
        ends_with(700_000, 0xf3),
        ends_with(40, 0xfd),
    ];
    let mut nonce = 1;
    let mut contracts = Vec::new();
    for code in &codes {
        let created = world.transact(&owner(), nonce, 3, U256::ZERO, code.clone());
        contracts.push((created, Transaction::created_address(&owner().address(), nonce)));
        nonce += 1;
    }
    world.run_slots(4);
    let mut calls = Vec::new();
    for contract in [0, 1, 1, 0, 2] {
        let receiver = contracts[contract].1.to_vec();
        calls.push(world.transact(&owner(), nonce, 2, U256::ZERO, receiver));
        nonce += 1;
    }
    world.run_slots(4);
    for place in 0..3 {
        let reader = world.reader(place);
        let receipt = |transaction: &Transaction| {
            let mined = reader
                .transaction(&transaction.hash())
                .unwrap()
                .expect("it is mined");
            reader.receipt_of(mined).unwrap().expect("it is canonical")
        };
        for ((created, _), code) in contracts.iter().zip(&codes) {
            assert_eq!(receipt(created).receipt.output[..], code[1..8], "the code");
        }
        let found: Vec<_> = calls.iter().map(receipt).collect();
        let first = found[0].mined.block;
        assert!(
            found.iter().all(|one| one.mined.block == first),
            "one block has all"
        );
        let lengths: Vec<_> = found.iter().map(|one| one.receipt.output.len()).collect();
        // The second long one does not fit. Short ones always do.
        assert_eq!(lengths, [256, 700_000, 0, 256, 40]);
        let failed: Vec<_> = found.iter().map(|one| one.receipt.outcome).collect();
        assert_eq!(failed[3..], [true, false].map(ReceiptOutcome::Status));
    }
}
