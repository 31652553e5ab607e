//! Who has how much after a block: fees, failed transactions, rewards, uncles.

use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, ReceiptOutcome, Transaction, U256};

use crate::common::{Maker, Node, Plan, account, coins, deploys, hex, sign, unsigned};

const MINER: Address = Address::repeat_byte(0xbe);
const PRICE: u64 = 1_000_000_000;

fn gas(amount: u64) -> U256 {
    U256::from(amount) * U256::from(PRICE)
}

struct Balances {
    view: View,
}

impl Balances {
    fn of(node: &Node, maker: &Maker) -> Self {
        Self {
            view: View::new(&node.store, maker.spec.clone()).expect("view"),
        }
    }

    fn at(&self, address: Address, number: u64) -> (U256, u64) {
        let account = self
            .view
            .account(&address, number)
            .expect("read")
            .unwrap_or_default();
        (account.balance, account.tx_nonce)
    }
}

#[test]
fn transfers_fees_and_failures() {
    let mut maker = Maker::new(ChainSpec::dev());
    let thrower = Transaction::created_address(&account(0), 0);
    let reverter = Transaction::created_address(&account(0), 1);
    let stranger = Address::repeat_byte(0x77);
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
            sign(1, &unsigned(0, Some(stranger), 500, &[])),
            sign(2, &unsigned(0, Some(thrower), 500, &[])),
            sign(3, &unsigned(0, Some(reverter), 500, &[])),
        ]),
    );
    let node = Node::new(&maker.spec);
    node.take(&[setup.clone(), block.clone()]);
    let balances = Balances::of(&node, &maker);
    let start = coins(1_000_000);
    assert_eq!(
        balances.at(account(1), 2),
        (start - U256::from(500) - gas(1000), 1)
    );
    assert_eq!(balances.at(stranger, 1), (U256::ZERO, 0));
    assert_eq!(balances.at(stranger, 2), (U256::from(500), 0));
    // Invalid opcode: all gas, no value; the nonce counts.
    assert_eq!(balances.at(account(2), 2), (start - gas(1_000_000), 1));
    assert_eq!(balances.at(thrower, 2), (U256::ZERO, 1));
    // Revert: the gas up to it: two stores' pushes, the store, the log, two pushes.
    let reverted = 1000 + 20_006 + 381 + 6;
    assert_eq!(balances.at(account(3), 2), (start - gas(reverted), 1));
    assert_eq!(balances.at(reverter, 2), (U256::ZERO, 1));
    for address in [thrower, reverter] {
        assert_eq!(
            balances.view.slot(&address, &U256::ZERO, 2).expect("slot"),
            U256::ZERO
        );
    }
    let id = balances.view.head_id();
    let receipts = balances.view.receipts(&id).expect("read").expect("executed");
    let outcomes: Vec<_> = receipts.iter().map(|receipt| receipt.outcome).collect();
    assert_eq!(outcomes, [true, false, false].map(ReceiptOutcome::Status));
    assert!(
        receipts.iter().all(|receipt| receipt.logs.is_empty()),
        "failures leave no logs"
    );
    let used = 1000 + 1_000_000 + reverted;
    assert_eq!(block.header.gas_used, used);
    assert_eq!(receipts[2].cumulative_gas_used, used);
    let fees = gas(setup.header.gas_used + used);
    assert_eq!(balances.at(MINER, 2), (coins(4) + fees, 0));
}

/// A side block of `parent` that pays `to`.
fn side(maker: &mut Maker, parent: B256, to: u8) -> Block {
    let plan = Plan {
        beneficiary: Address::repeat_byte(to),
        ..Plan::marked(to)
    };
    maker.block(parent, plan)
}

#[test]
fn uncles_and_who_includes_them_are_paid() {
    let mut maker = Maker::new(ChainSpec::dev());
    let genesis = maker.genesis;
    let (near, far) = (side(&mut maker, genesis, 1), side(&mut maker, genesis, 2));
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
    let balances = Balances::of(&node, &maker);
    // One generation away: 7/8 of two coins; six generations: 2/8. Each is worth 1/32 to its includer.
    assert_eq!(
        balances.at(Address::repeat_byte(1), 7).0,
        coins(2) * U256::from(7) / U256::from(8)
    );
    assert_eq!(balances.at(Address::repeat_byte(2), 6).0, U256::ZERO);
    assert_eq!(
        balances.at(Address::repeat_byte(2), 7).0,
        coins(2) * U256::from(2) / U256::from(8)
    );
    let nephew = coins(2) / U256::from(32);
    assert_eq!(balances.at(MINER, 2).0, coins(4) + nephew);
    assert_eq!(balances.at(MINER, 7).0, coins(14) + nephew * U256::from(2));
}

#[test]
fn code_that_looks_like_a_delegation_is_code() {
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
    assert_eq!(
        calls.header.gas_used, 2_000_000,
        "an invalid opcode takes all gas"
    );
    let balances = Balances::of(&node, &maker);
    assert_eq!(balances.view.code(&contracts[0], 2).expect("code"), delegation);
}
