//! Transactions of ordinary wallets (docs/microchain-design.md, 5.1), and who may sign at all.

use chain::call::{CallOutcome, CallRequest, TIMEOUT_DEFAULT};
use chain::developer::impersonate;
use chain::trace::{CallOptions, Trace, TraceRequest, Tracer};
use primitives::{Address, Bytes, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};

use super::world::{World, call, creation_code, key, owner};
use crate::abi::CallData;
use crate::dapp_base::{CreditVote, post_flush};
use crate::event::Event;
use crate::message::relayed;
use crate::reader::succeeded;

/// A wallet's transaction, signed for `chain_id`.
fn signed_for(chain_id: u64, key: &SecretKey, unsigned: &UnsignedTransaction) -> Transaction {
    unsigned.sign(key, chain_id, TxForm::Classic)
}

fn wallet_chain_id(world: &World) -> u64 {
    let view = world.reader(0).view().unwrap();
    view.spec().wallet_chain_id(1)
}

fn unsigned(nonce: u64, to: Option<Address>, value: u64, input: Bytes) -> UnsignedTransaction {
    UnsignedTransaction {
        tx_nonce: nonce,
        to,
        value: U256::from(value),
        input,
        gas: 3_000_000,
        gas_price: U256::from(7),
        ..Default::default()
    }
}

/// Gives a wallet's transaction to the first SCS only, as a client does.
fn send(world: &mut World, transaction: &Transaction) {
    world.give(0, Event::Transaction(Box::new(transaction.clone())));
    world.deliver();
}

/// Whether a transaction succeeded, and the gas that it used; `None` if no block of `place` has it.
fn outcome(world: &World, place: usize, transaction: &Transaction) -> Option<(bool, u64)> {
    let reader = world.reader(place);
    let mined = reader.transaction(&transaction.hash()).unwrap()?;
    let found = reader.receipt_of(mined).unwrap()?;
    Some((succeeded(&found.receipt), found.gas_used))
}

/// A user with 1,000 units, in a world of so many members.
fn with_user(members: usize) -> (World, SecretKey) {
    let mut world = World::new(members, 0).with_dapp_base();
    let user = key(0x55);
    world.buy(user.address(), 1000);
    world.run_until(40, "the deposit is credited", |world| {
        !world.reader(0).balance(&user.address()).unwrap().is_zero()
    });
    (world, user)
}

#[test]
fn nobody_sends_in_the_name_of_another() {
    let (mut world, user) = with_user(3);
    let thief = Address::repeat_byte(0x99);
    let flagged = UnsignedTransaction {
        tx_nonce: 0,
        to: Some(world.setup.address),
        value: U256::from(900),
        input: thief.to_vec().into(),
        sharding_flag: 2,
        ..Default::default()
    };
    let forged = impersonate(&flagged, user.address(), world.setup.chain_id, TxForm::Native);
    // Anybody who reaches a VNODE's service port can send such a message.
    let message = relayed(&[forged.into()]).message(thief, None);
    for place in 0..3 {
        world.give(place, Event::Message(message.clone()));
    }
    world.run_slots(6);
    let reader = world.reader(0);
    assert_eq!(reader.balance(&thief).unwrap(), U256::ZERO);
    assert_eq!(reader.balance(&user.address()).unwrap(), U256::from(1000));
}

#[test]
fn a_wallet_transfers_calls_and_creates_and_other_members_have_it() {
    let (mut world, user) = with_user(3);
    let id = wallet_chain_id(&world);
    let to = Address::repeat_byte(0x66);
    let transfer = signed_for(id, &user, &unsigned(0, Some(to), 400, Bytes::new()));
    send(&mut world, &transfer);
    world.run_slots(4);
    for place in 0..3 {
        assert_eq!(world.reader(place).balance(&to).unwrap(), U256::from(400));
        // The price of the transaction is not paid.
        let left = world.reader(place).balance(&user.address()).unwrap();
        assert_eq!(left, U256::from(600));
    }
    assert_eq!(outcome(&world, 1, &transfer), Some((true, 1000)));
    // A wallet looks for its transaction by the hash that it has computed.
    let by_wallet = transfer.ethereum_hash().unwrap();
    let found = world.reader(2).transaction(&by_wallet).unwrap().unwrap();
    assert_eq!((found.transaction, found.sender), (transfer, user.address()));

    // The owner creates a Dapp and registers it; both through a wallet.
    let counter = Transaction::created_address(&owner().address(), 1);
    let create = signed_for(
        id,
        &owner(),
        &unsigned(1, None, 0, creation_code("Counter").into()),
    );
    let arguments = CallData::default().address(counter).address(counter).bytes(b"[]");
    let register = call("registerDapp(address,address,string)", arguments);
    let register = signed_for(id, &owner(), &unsigned(2, Some(world.dapp_base()), 0, register));
    let count = call("count(uint256)", CallData::default().small(5));
    let early = signed_for(id, &user, &unsigned(1, Some(counter), 0, count.clone()));
    send(&mut world, &create);
    world.run_slots(3);
    send(&mut world, &early);
    world.run_slots(3);
    send(&mut world, &register);
    world.run_slots(3);
    let later = signed_for(id, &user, &unsigned(2, Some(counter), 0, count));
    send(&mut world, &later);
    world.run_slots(3);
    let success = |transaction| outcome(&world, 1, transaction).map(|(success, _)| success);
    assert_eq!(success(&create), Some(true));
    assert_eq!(success(&early), Some(false), "the Dapp was not registered yet");
    assert_eq!(success(&register), Some(true));
    assert_eq!(success(&later), Some(true));
    let total = CallRequest {
        to: Some(counter),
        input: call("total()", CallData::default()),
        ..Default::default()
    };
    match world.reader(1).call(&total).unwrap() {
        CallOutcome::Success { output, .. } => assert_eq!(U256::from_be_slice(&output), U256::from(5)),
        other => panic!("{other:?}"),
    }
    // A trace runs the same as the block did.
    let reader = world.reader(1);
    let traced = |transaction: &Transaction| {
        let mined = reader.transaction(&transaction.hash()).unwrap().unwrap();
        let block = reader.block(mined.block.number).unwrap().unwrap();
        let request = TraceRequest::new(Tracer::Calls(CallOptions::default()), TIMEOUT_DEFAULT);
        let view = reader.view().unwrap();
        match view
            .trace_transaction(&block, mined.index as usize, &request)
            .unwrap()
        {
            Trace::Calls(top) => (top.to, top.gas_used),
            other => panic!("{other:?}"),
        }
    };
    let gas_of = |transaction| outcome(&world, 1, transaction).unwrap().1;
    assert_eq!(traced(&later), (Some(counter), gas_of(&later)));
    assert_eq!(traced(&create), (Some(counter), gas_of(&create)));
    // Others may not create contracts before the owner allows it.
    let foreign = signed_for(id, &user, &unsigned(3, None, 0, creation_code("Counter").into()));
    send(&mut world, &foreign);
    world.run_slots(3);
    assert_eq!(outcome(&world, 1, &foreign), Some((false, 1000)));
    world.agreed(1);
}

#[test]
fn a_wallet_signs_for_this_chain_and_its_gas_limit_holds() {
    let (mut world, user) = with_user(2);
    let id = wallet_chain_id(&world);
    let to = Address::repeat_byte(0x66);
    let plain = unsigned(0, Some(to), 10, Bytes::new());
    // The id of the base chain, that of another MicroChain, and none.
    for foreign in [world.setup.chain_id, id + 1] {
        let foreign = signed_for(foreign, &user, &plain);
        send(&mut world, &foreign);
    }
    let flagged = UnsignedTransaction {
        to: Some(world.setup.address),
        input: to.to_vec().into(),
        sharding_flag: 2,
        ..plain.clone()
    };
    let own_id = flagged.sign(&user, id, TxForm::Native);
    world.give(0, Event::Transaction(Box::new(own_id)));
    // The signature covers neither the flag nor the proxy.
    let mut changed = signed_for(id, &user, &plain);
    changed.via = Some(to);
    send(&mut world, &changed);
    let starved = UnsignedTransaction { gas: 999, ..plain };
    send(&mut world, &signed_for(id, &user, &starved));
    assert!(world.reader(0).pool().pending.is_empty());
    // A limit that covers the input only lets the code fail.
    let data = call("redeemFromMicroChain()", CallData::default());
    let short = UnsignedTransaction {
        gas: 1500,
        ..unsigned(0, Some(world.dapp_base()), 10, data)
    };
    let short = signed_for(id, &user, &short);
    send(&mut world, &short);
    world.run_slots(4);
    assert_eq!(outcome(&world, 0, &short), Some((false, 1500)));
    assert_eq!(
        world.reader(0).balance(&user.address()).unwrap(),
        U256::from(1000)
    );
}

#[test]
fn a_vote_for_deposits_is_seen_in_whatever_form_it_is_signed() {
    let dapp_base = Address::repeat_byte(0xdb);
    let vote = post_flush(3, &[]);
    let wallets = signed_for(1 << 50, &key(1), &unsigned(0, Some(dapp_base), 0, vote));
    let seen = CreditVote::of(&wallets, &dapp_base).expect("a vote");
    assert_eq!((seen.position, seen.entries.len()), (3, 0));
}
