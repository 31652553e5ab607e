//! Transactions of type 1, and the opcodes of Ethereum Classic's last forks.

use std::sync::Arc;
use std::time::Duration;

use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::spec::{ChainFamily, DifficultyRule, Rule, RuleTable};
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{
    ACCESS_LIST_TX_TYPE, AccessListEntry, B256, Block, LEGACY_TX_TYPE, ReceiptForm, Transaction, TxForm,
    TxRules, U256, UnsignedTransaction,
};
use store::{BlockReads, Store};

use crate::common::{Maker, Node, Plan, account, assemble, key, unsigned};
use crate::run::Run;

const CHAIN_ID: u64 = 61;

/// A chain of Ethereum's family on which Berlin begins at block 2.
fn spec() -> ChainSpec {
    ChainSpec {
        chain_id: CHAIN_ID,
        family: ChainFamily::Ethereum,
        rules: RuleTable::up_to("MuirGlacier")
            .expect("a fork")
            .with_fork("Berlin", 2),
        difficulty: DifficultyRule::Constant(2),
        failed_calls_refund_gas: false,
        system_contract: false,
        notify_scs_always_exists: false,
        ..ChainSpec::dev()
    }
}

fn listed(tx_nonce: u64) -> UnsignedTransaction {
    UnsignedTransaction {
        access_list: vec![AccessListEntry {
            address: account(3),
            slots: vec![B256::ZERO, B256::repeat_byte(1)],
        }],
        ..unsigned(tx_nonce, Some(account(3)), 5, &[1, 0])
    }
}

fn typed(tx_nonce: u64) -> Transaction {
    listed(tx_nonce).sign(&key(0), CHAIN_ID, TxForm::AccessList)
}

#[test]
fn blocks_with_typed_transactions_are_made_and_imported() {
    let mut maker = Maker::new(spec());
    let first = maker.block(maker.genesis, Plan::default());
    let transactions = vec![
        typed(0),
        listed(1).sign(&key(0), CHAIN_ID, TxForm::Ethereum),
        listed(2).sign_unprotected(&key(0)),
    ];
    let second = maker.block(first.hash(), Plan::with(transactions.clone()));
    let rlp = second.encode();
    assert_eq!(Block::decode(&rlp, TxRules::Ethereum), Ok(second.clone()));
    let node = Node::new(&Arc::new(spec()));
    node.take(&[first, second.clone()]);
    assert_eq!(node.head(), second.hash());
    let view = node.store.snapshot().expect("snapshot");
    let body = view.body(2, &second.hash(), TxRules::Ethereum).expect("read");
    assert_eq!(body.expect("a body").transactions, transactions);
    let receipts = view.receipts(2, &second.hash()).expect("read").expect("receipts");
    let types: Vec<_> = receipts.iter().map(|receipt| receipt.tx_type).collect();
    assert_eq!(types, [ACCESS_LIST_TX_TYPE, LEGACY_TX_TYPE, LEGACY_TX_TYPE]);
    assert_eq!(receipts[0].encode(ReceiptForm::Four)[0], ACCESS_LIST_TX_TYPE);
    // A listed account costs 2400 gas, and a slot 1900. The data costs 16 and 4.
    let expected = 21_000 + 16 + 4 + 2400 + 2 * 1900;
    assert_eq!(receipts[0].cumulative_gas_used, expected);
    assert_eq!(receipts[1].cumulative_gas_used, expected + 21_020);
    let positions = view.transaction_positions(&transactions[0].hash()).expect("read");
    assert_eq!((positions[0].block_number, positions[0].index), (2, 0));
    let head = chain::View::new(&node.store, Arc::new(spec())).expect("a view");
    assert_eq!(head.head_number(), 2);
}

/// The executor refuses the transaction, so the block is made of one that fits, and changed.
#[test]
fn typed_transactions_are_refused_before_their_fork() {
    let mut later = spec();
    later.rules = RuleTable::up_to("Berlin").expect("a fork");
    let maker = Maker::new(later.clone());
    let view = maker.store().snapshot().expect("snapshot");
    let genesis = view
        .header_by_hash(&maker.genesis)
        .expect("read")
        .expect("block 0");
    let block = assemble(&later, &view, &genesis.header, Plan::with(vec![typed(0)]));
    drop(view);
    let node = Node::new(&Arc::new(spec()));
    let error = node
        .import(&block)
        .expect_err("block 1 is before Berlin")
        .to_string();
    assert!(
        error.contains("got a transaction of type 0x01, expected none before EIP-2718 and EIP-2930"),
        "{error}"
    );
    assert_eq!(node.head(), maker.genesis);
}

#[test]
fn typed_transactions_are_signed_for_one_chain() {
    let mut maker = Maker::new(spec());
    let first = maker.block(maker.genesis, Plan::default());
    let other = listed(0).sign(&key(0), CHAIN_ID + 2, TxForm::AccessList);
    let good = maker.block(first.hash(), Plan::with(vec![typed(0)]));
    let mut bad = good;
    bad.transactions = vec![other];
    bad.header.transactions_root = chain::rules::body::transactions_root(&bad.transactions);
    let node = Node::new(&Arc::new(spec()));
    node.take(&[first]);
    let error = node.import(&bad).expect_err("another chain").to_string();
    assert!(error.contains("chain id: got 63, expected 61"), "{error}");
}

/// Runs a program of Ethereum Classic's last rules.
fn spiral(program: &str) -> Run {
    let mut run = Run::new(program, "");
    run.spec = ChainSpec {
        family: ChainFamily::Ethereum,
        rules: RuleTable::default().with(0, &rules_of_spiral()),
        failed_calls_refund_gas: false,
        system_contract: false,
        notify_scs_always_exists: false,
        ..run.spec
    };
    run
}

fn rules_of_spiral() -> Vec<Rule> {
    let last = ChainSpec::classic().rules_at(u64::MAX);
    Rule::ALL.into_iter().filter(|rule| last.has(*rule)).collect()
}

/// revm's bundles of London and Shanghai bring a base fee and a random value. The network took
/// neither.
#[test]
fn spiral_has_neither_base_fee_nor_random_value() {
    // BASEFEE: the transaction fails with all of its gas.
    let base_fee = spiral("48 6000 55").run();
    assert!(!base_fee.success);
    assert_eq!(base_fee.gas_used, 1_000_000);
    // 0x44 is the difficulty of the block, which `Run` sets to 512.
    let difficulty = spiral("44 6000 55").run();
    assert!(difficulty.success);
    assert_eq!(difficulty.slots[0], U256::from(512));
    // Ethereum's own rules have both.
    for (program, expected) in [("48 6000 55", 0), ("44 6000 55", 0)] {
        let mut run = spiral(program);
        run.spec.rules = RuleTable::up_to("Shanghai").expect("a fork");
        let ran = run.run();
        assert!(ran.success, "{program}");
        assert_eq!(ran.slots[0], U256::from(expected), "{program}");
    }
}

#[test]
fn what_magneto_mystique_and_spiral_brought() {
    // PUSH0 is an opcode.
    assert!(spiral("5f 5f 55").run().success);
    // The beneficiary is warm: BALANCE costs 100 gas. Another account costs 2600.
    let beneficiary = "73 bebebebebebebebebebebebebebebebebebebebe 31 00";
    let other = "73 abababababababababababababababababababab 31 00";
    assert_eq!(spiral(beneficiary).run().gas_used, 21_000 + 3 + 100);
    assert_eq!(spiral(other).run().gas_used, 21_000 + 3 + 2600);
    // A cleared slot refunds 4800, and at most a fifth of the gas comes back.
    let cleared = spiral("6000 6001 55").run();
    assert_eq!(cleared.gas_used, 21_000 + 6 + 5000 - 4800);
    // No code begins with 0xef.
    let creates = |code: &[u8], length: usize| {
        let mut run = spiral("");
        run.create = true;
        run.gas = 8_000_000;
        run.input = [code, &vec![0; length - code.len()]].concat();
        run
    };
    // PUSH1 0xef, PUSH0, MSTORE8, PUSH1 1, PUSH0, RETURN
    let reserved = [0x60, 0xef, 0x5f, 0x53, 0x60, 1, 0x5f, 0xf3];
    assert!(!creates(&reserved, 8).run().success);
    // Two words of init code cost 2 gas each.
    let (one, three) = (creates(&[0x00], 32).run(), creates(&[0x00], 96).run());
    assert_eq!(three.gas_used - one.gas_used, 2 * 2 + 64 * 4);
    assert!(creates(&[0x00], 49_152).run().success);
}

/// A running chain ends before a block whose rules it does not have. It ends again after a restart.
#[test]
fn a_chain_stops_before_rules_that_it_does_not_have() {
    let mut spec = spec();
    let mut maker = Maker::new(spec.clone());
    let blocks = maker.line(maker.genesis, 2, 1);
    spec.unsupported = Some(("olympiaBlock".to_owned(), 3));
    let spec = Arc::new(spec);
    let store = Store::in_memory().expect("a store in memory");
    let open = || {
        let config = ChainConfig {
            spec: spec.clone(),
            seals: SealCheck::Off,
            forks: chain::import::ForkLimits::default(),
            pool: PoolConfig::default(),
            beneficiary: account(0),
            extra_data: Default::default(),
            states: chain::import::StateRetention::Archive,
        };
        Chain::open(store.clone(), config).expect("the chain opens")
    };
    let wait_for_failure = |chain: &Chain| loop {
        if let Some(reason) = chain.failure() {
            return reason;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let expected = "block 3 follows the rules of `olympiaBlock`, which this program does not have";
    let chain = open();
    chain.import(blocks[0].clone()).expect("a valid block");
    assert_eq!(chain.failure(), None);
    chain.import(blocks[1].clone()).expect("a valid block");
    let reason = wait_for_failure(&chain);
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(chain.view().expect("reads work").head_number(), 2);
    chain.stop();
    drop(chain);
    let again = open();
    assert!(wait_for_failure(&again).starts_with(expected));
    again.stop();
}
