//! State roots after each transaction, and the state cached between blocks.
//!
//! Before Byzantium a receipt has the state root after its transaction. Each is compared with a
//! root that another implementation computes from the accounts and slots. Imports with a warm and
//! with a cold cache, block by block and in runs, must lead to the same rows.

use std::collections::{BTreeMap, HashMap};

use alloy_trie::{HashBuilder, Nibbles};
use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::import::Importer;
use chain::rules::seal::SealCheck;
use chain::spec::{DifficultyRule, GenesisAccount};
use chain::state::BlockState;
use primitives::{
    Address, B256, Block, EMPTY_CODE_HASH, EMPTY_ROOT, ReceiptOutcome, Transaction, U256, keccak256,
};
use proptest::prelude::*;
use proptest::test_runner::Config;
use revm::Database;

use crate::common::{Maker, Node, Plan, account, hex, key, rows, unsigned};
use crate::random_forks::assert_as_fresh;
use crate::scenes::import_as_stream;

/// The contracts write slots below this one.
const SLOTS: u8 = 4;
/// For each of the two senders, so many of its contracts are called.
const CONTRACTS: u64 = 3;

/// Homestead's rules: receipts have state roots, and empty accounts are not removed.
fn spec() -> ChainSpec {
    let text = r#"{"config": {"chainId": 100, "homesteadBlock": 0}, "difficulty": 2, "gasLimit": 9000000}"#;
    let mut spec = ChainSpec::from_genesis_file("homestead", text)
        .expect("a file")
        .spec;
    spec.difficulty = DifficultyRule::Constant(2);
    let funded = GenesisAccount {
        balance: U256::from(10).pow(U256::from(24)),
        ..Default::default()
    };
    spec.genesis.alloc = [0, 1].map(|index| (account(index), funded.clone())).into();
    spec
}

/// Code that creates a contract. The contract writes a slot (input: slot, value), and destroys
/// itself if called without input. Its creation writes slot 1.
fn init_code() -> Vec<u8> {
    // CALLDATASIZE, jump to 6 if any; else CALLER, SELFDESTRUCT. At 6: SSTORE(word 0, word 1).
    let runtime = hex("36 6006 57 33 ff 5b 6020 35 6000 35 55 00");
    let mut init = hex("6005 6001 55");
    init.extend([
        0x60,
        runtime.len() as u8,
        0x80,
        0x60,
        16,
        0x60,
        0,
        0x39,
        0x60,
        0,
        0xf3,
    ]);
    init.extend(runtime);
    init
}

/// A contract: its sender, and the nonce of the creation, which may not have happened.
#[derive(Clone, Copy, Debug)]
struct Contract {
    sender: usize,
    nonce: u64,
}

impl Contract {
    fn address(self) -> Address {
        Transaction::created_address(&account(self.sender), self.nonce)
    }
}

/// The effect of a transaction.
#[derive(Clone, Debug)]
enum Action {
    Create,
    Write { to: Contract, slot: u8, value: u8 },
    Destroy { to: Contract },
    Pay { to: Contract, value: u64 },
}

fn any_action() -> impl Strategy<Value = Action> {
    let contract = || (0..2usize, 0..CONTRACTS).prop_map(|(sender, nonce)| Contract { sender, nonce });
    prop_oneof![
        3 => Just(Action::Create),
        6 => (contract(), 0..SLOTS, 0..3u8).prop_map(|(to, slot, value)| Action::Write { to, slot, value }),
        3 => contract().prop_map(|to| Action::Destroy { to }),
        1 => (contract(), 0..2u64).prop_map(|(to, value)| Action::Pay { to, value }),
    ]
}

/// Signs actions, each given with its sender.
fn transactions(actions: &[(usize, Action)], nonces: &mut HashMap<usize, u64>) -> Vec<Transaction> {
    let transaction = |(from, action): &(usize, Action)| {
        let nonce = nonces.entry(*from).or_default();
        let mut plain = match action {
            Action::Create => unsigned(*nonce, None, 0, &init_code()),
            Action::Write { to, slot, value } => {
                let data = [B256::with_last_byte(*slot), B256::with_last_byte(*value)].concat();
                unsigned(*nonce, Some(to.address()), 0, &data)
            }
            Action::Destroy { to } => unsigned(*nonce, Some(to.address()), 0, &[]),
            Action::Pay { to, value } => unsigned(*nonce, Some(to.address()), *value, &[0]),
        };
        *nonce += 1;
        plain.gas = 300_000;
        plain.sign_unprotected(&key(*from))
    };
    actions.iter().map(transaction).collect()
}

/// Computes the state root from all accounts that can exist in `state`.
fn recomputed_root(state: &mut BlockState<'_>) -> B256 {
    let root = |leaves: BTreeMap<B256, Vec<u8>>| {
        let mut builder = HashBuilder::default();
        for (key, value) in &leaves {
            builder.add_leaf(Nibbles::unpack(key), value);
        }
        builder.root()
    };
    let created = (0..2).flat_map(|sender| (0..60).map(move |nonce| Contract { sender, nonce }.address()));
    let addresses = created.chain([account(0), account(1), Address::repeat_byte(0xbe)]);
    let mut accounts = BTreeMap::new();
    for address in addresses {
        let Some(info) = state.basic(address).expect("account") else {
            continue;
        };
        let mut storage = BTreeMap::new();
        for slot in 0..SLOTS {
            let value = state.storage(address, U256::from(slot)).expect("slot");
            if !value.is_zero() {
                storage.insert(keccak256(B256::with_last_byte(slot)), alloy_rlp::encode(value));
            }
        }
        assert!(storage.is_empty() || info.code_hash != EMPTY_CODE_HASH);
        let storage_root = if storage.is_empty() {
            EMPTY_ROOT
        } else {
            root(storage)
        };
        let fields: [&dyn alloy_rlp::Encodable; 4] =
            [&info.nonce, &info.balance, &storage_root, &info.code_hash];
        let mut rlp = Vec::new();
        alloy_rlp::encode_list::<_, dyn alloy_rlp::Encodable>(&fields, &mut rlp);
        accounts.insert(keccak256(address), rlp);
    }
    root(accounts)
}

/// Executes the first transaction of a block, then the first two, and so on, and compares the root
/// in the last receipt each time.
fn check_roots(maker: &Maker, block: &Block) {
    let parent = maker.fresh(block.header.parent_hash);
    let view = parent.snapshot().expect("snapshot");
    let parent_block = maker.blocks.get(&block.header.parent_hash);
    let root = parent_block.map_or_else(
        || chain::genesis::genesis_header(&maker.spec).state_root,
        |parent| parent.header.state_root,
    );
    for count in 1..=block.transactions.len() {
        let mut state = BlockState::new(&*view, block.header.number - 1, root);
        let mut executor = Executor::new(&maker.spec, &block.header, &mut state);
        for transaction in &block.transactions[..count] {
            let sender = transaction.recover_sender(true).expect("signed");
            executor.transaction(transaction, sender).expect("valid");
        }
        // Ends the block without a reward. The beneficiary's account exists nevertheless.
        let executed = executor.finish_unpaid().expect("finish");
        let got = &executed.receipts[count - 1].outcome;
        let expected = ReceiptOutcome::Root(recomputed_root(&mut state));
        assert_eq!(*got, expected, "after {count} transactions");
    }
}

fn check(plan: &[Vec<(usize, Action)>]) {
    let mut maker = Maker::new(spec());
    let mut nonces = HashMap::new();
    let mut after_first = None;
    let mut blocks: Vec<Block> = Vec::new();
    for actions in plan {
        let parent = blocks.last().map_or(maker.genesis, Block::hash);
        let block = maker.block(parent, Plan::with(transactions(actions, &mut nonces)));
        check_roots(&maker, &block);
        blocks.push(block);
        after_first.get_or_insert_with(|| nonces.clone());
    }
    let warm = Node::new(&maker.spec);
    let cold = Node::new(&maker.spec);
    for block in &blocks {
        warm.import(block).expect("valid");
        let new_importer = Importer::new(cold.store.clone(), maker.spec.clone(), SealCheck::Off);
        new_importer.import(block, None).expect("valid");
    }
    let run = import_as_stream(&maker.spec, &blocks);
    let expected = cold.rows();
    assert!(warm.rows() == expected, "with a warm cache");
    assert!(run.rows() == expected, "in a run");
    // Another branch from the first block on becomes the heavier one.
    let mut nonces = after_first.unwrap_or_default();
    let mut tip = blocks[0].hash();
    for number in 0..blocks.len() {
        let actions = [1, 2].map(|slot| {
            let write = Action::Write {
                to: Contract { sender: 0, nonce: 0 },
                slot,
                value: 3 + number as u8,
            };
            (0, write)
        });
        let block = maker.block(tip, Plan::with(transactions(&actions, &mut nonces)));
        tip = block.hash();
        for node in [&warm, &run] {
            node.take(std::slice::from_ref(&block));
        }
    }
    for node in [&warm, &run] {
        assert_eq!(node.head(), tip);
        assert_as_fresh(&node.rows(), &rows(&maker.fresh(tip)));
    }
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]

    #[test]
    fn roots_in_receipts_match_the_state(
        plan in proptest::collection::vec(
            proptest::collection::vec((0..2usize, any_action()), 0..8),
            1..5,
        )
    ) {
        check(&plan);
    }
}

#[test]
fn storage_created_and_removed_within_a_block() {
    let from = |actions: &[Action]| {
        actions
            .iter()
            .map(|action| (0, action.clone()))
            .collect::<Vec<_>>()
    };
    let to = Contract { sender: 0, nonce: 0 };
    let write = |slot, value| Action::Write { to, slot, value };
    let pay = || Action::Pay { to, value: 1 };
    let destroy = || Action::Destroy { to };
    check(&[
        // The contract is created, written, destroyed and paid in one block.
        from(&[Action::Create, write(2, 2), destroy(), pay(), write(3, 1)]),
        from(&[pay()]),
    ]);
    check(&[
        from(&[Action::Create, write(2, 2)]),
        // The roots of the writes are computed before the destruction undoes them.
        from(&[write(2, 3), write(3, 1), write(1, 0), destroy(), pay()]),
        from(&[pay(), write(1, 1)]),
    ]);
    check(&[
        from(&[Action::Create, write(2, 2), write(2, 0), write(2, 2)]),
        from(&[write(2, 0), write(2, 2)]),
        from(&[write(2, 0), write(1, 0)]),
    ]);
}
