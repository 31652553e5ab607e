//! Balances and nonces after a block: fees, failed transactions, rewards, uncles.

use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, ReceiptOutcome, Transaction, U256};

use crate::common::{Maker, Node, Plan, account, coins, deploys, hex, sign, unsigned};
use crate::scenes::view;

const MINER: Address = Address::repeat_byte(0xbe);
const PRICE: u64 = 1_000_000_000;

/// The fee for this much gas.
fn fee(gas: u64) -> U256 {
    U256::from(gas) * U256::from(PRICE)
}

/// The balance and nonce of an account after block `number`.
fn balance_and_nonce(view: &View, address: Address, number: u64) -> (U256, u64) {
    let account = view.account(&address, number).expect("read").unwrap_or_default();
    (account.balance, account.tx_nonce)
}

#[test]
fn transfers_fees_and_failures() {
    let mut maker = Maker::new(ChainSpec::dev());
    let invalid = Transaction::created_address(&account(0), 0);
    let reverting = Transaction::created_address(&account(0), 1);
    let new_account = Address::repeat_byte(0x77);
    let setup = maker.block(
        maker.genesis,
        Plan::with(vec![
            sign(
                0,
                &unsigned(0, None, 0, &deploys(&hex("6001 6000 55 6000 6000 a0 fe"))),
            ),
            sign(
                0,
                &unsigned(
                    1,
                    None,
                    0,
                    &deploys(&hex("6001 6000 55 6000 6000 a0 6000 6000 fd")),
                ),
            ),
        ]),
    );
    let block = maker.block(
        setup.hash(),
        Plan::with(vec![
            sign(1, &unsigned(0, Some(new_account), 500, &[])),
            sign(2, &unsigned(0, Some(invalid), 500, &[])),
            sign(3, &unsigned(0, Some(reverting), 500, &[])),
        ]),
    );
    let node = Node::new(&maker.spec);
    node.take(&[setup.clone(), block.clone()]);
    let view = view(&node, &maker);
    let at = |address, number| balance_and_nonce(&view, address, number);
    let start = coins(1_000_000);
    assert_eq!(at(account(1), 2), (start - U256::from(500) - fee(1000), 1));
    assert_eq!(at(new_account, 1), (U256::ZERO, 0));
    assert_eq!(at(new_account, 2), (U256::from(500), 0));
    // So does an invalid opcode, which is not charged itself. The value is not transferred, but the
    // nonce grows.
    let failed = 1000 + 20_006 + 381;
    assert_eq!(at(account(2), 2), (start - fee(failed), 1));
    assert_eq!(at(invalid, 2), (U256::ZERO, 1));
    // A revert costs the gas up to it: SSTORE, LOG0 and the pushes.
    let reverted = 1000 + 20_006 + 381 + 6;
    assert_eq!(at(account(3), 2), (start - fee(reverted), 1));
    assert_eq!(at(reverting, 2), (U256::ZERO, 1));
    for address in [invalid, reverting] {
        assert_eq!(view.slot(&address, &U256::ZERO, 2).expect("slot"), U256::ZERO);
    }
    let receipts = view.receipts(&view.head_id()).expect("read").expect("executed");
    let outcomes: Vec<_> = receipts.iter().map(|receipt| receipt.outcome).collect();
    assert_eq!(outcomes, [true, false, false].map(ReceiptOutcome::Status));
    assert!(
        receipts.iter().all(|receipt| receipt.logs.is_empty()),
        "failed transactions have no logs"
    );
    let used = 1000 + failed + reverted;
    assert_eq!(block.header.gas_used, used);
    assert_eq!(receipts[2].cumulative_gas_used, used);
    let fees = fee(setup.header.gas_used + used);
    assert_eq!(at(MINER, 2), (coins(4) + fees, 0));
}

/// A block on `parent` whose miner has the address with all bytes `to`.
fn side_block(maker: &mut Maker, parent: B256, to: u8) -> Block {
    let plan = Plan {
        beneficiary: Address::repeat_byte(to),
        ..Plan::marked(to)
    };
    maker.block(parent, plan)
}

#[test]
fn uncles_and_the_miners_that_include_them_are_rewarded() {
    let mut maker = Maker::new(ChainSpec::dev());
    let genesis = maker.genesis;
    let (near, far) = (
        side_block(&mut maker, genesis, 1),
        side_block(&mut maker, genesis, 2),
    );
    let first = maker.line(genesis, 1, 9);
    let mut with_near = Plan::marked(9);
    with_near.uncles = vec![near.header];
    let second = maker.block(first[0].hash(), with_near);
    let mut line = maker.line(second.hash(), 4, 9);
    let mut with_far = Plan::marked(9);
    with_far.uncles = vec![far.header];
    line.push(maker.block(line[3].hash(), with_far));
    let node = Node::new(&maker.spec);
    node.take(&first);
    node.take(&[second]);
    node.take(&line);
    let view = view(&node, &maker);
    let balance = |address, number| balance_and_nonce(&view, address, number).0;
    // The uncle's miner gets 7/8 of the block reward at distance 1, and 2/8 at distance 6. The
    // miner that includes an uncle gets 1/32.
    assert_eq!(
        balance(Address::repeat_byte(1), 7),
        coins(2) * U256::from(7) / U256::from(8)
    );
    assert_eq!(balance(Address::repeat_byte(2), 6), U256::ZERO);
    assert_eq!(
        balance(Address::repeat_byte(2), 7),
        coins(2) * U256::from(2) / U256::from(8)
    );
    let nephew = coins(2) / U256::from(32);
    assert_eq!(balance(MINER, 2), coins(4) + nephew);
    assert_eq!(balance(MINER, 7), coins(14) + nephew * U256::from(2));
}

#[test]
fn code_that_begins_with_0xef01_is_not_a_delegation() {
    let mut maker = Maker::new(ChainSpec::dev());
    let delegation = [hex("ef0100"), account(5).to_vec()].concat();
    let contracts = [0, 1].map(|nonce| Transaction::created_address(&account(0), nonce));
    let setup = maker.block(
        maker.genesis,
        Plan::with(vec![
            sign(0, &unsigned(0, None, 0, &deploys(&delegation))),
            sign(0, &unsigned(1, None, 0, &deploys(&hex("ef01")))),
        ]),
    );
    let calls = maker.block(
        setup.hash(),
        Plan::with(
            contracts
                .iter()
                .zip(2..)
                .map(|(to, nonce)| sign(0, &unsigned(nonce, Some(*to), 0, &[])))
                .collect(),
        ),
    );
    let node = Node::new(&maker.spec);
    node.take(&[setup, calls.clone()]);
    assert_eq!(calls.header.gas_used, 2000, "an invalid opcode is not charged");
    let view = view(&node, &maker);
    assert_eq!(view.code(&contracts[0], 2).expect("code"), delegation);
}
