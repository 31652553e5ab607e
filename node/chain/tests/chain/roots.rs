//! State roots in the middle of a block, and what stays in memory between blocks.
//!
//! Before Byzantium a receipt carries the state root after its transaction. Each is compared
//! with the root of the accounts and slots as they are there, by another implementation. And
//! whoever imports, with all in memory or nothing, block by block or in runs, leaves the same rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;

use alloy_trie::{HashBuilder, Nibbles};
use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::import::Importer;
use chain::import::bulk::import_stream;
use chain::rules::body::SealCheck;
use chain::spec::{DifficultyRule, GenesisAccount};
use chain::state::BlockState;
use primitives::{
    Address, B256, Block, EMPTY_CODE_HASH, EMPTY_ROOT, ReceiptOutcome, Transaction, U256, keccak256,
};
use proptest::prelude::*;
use proptest::test_runner::Config;
use revm::Database;
use store::Snapshot;

use crate::common::{Maker, Node, Plan, account, hex, key, rows, unsigned};
use crate::random_forks::assert_as_fresh;

/// Slots that worms may write.
const SLOTS: u8 = 4;
/// Creations of each of two senders whose contracts are called.
const WORMS: u64 = 3;

/// Homestead's rules: roots in receipts, and empty accounts that stay.
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

/// A contract that writes what it is told (slot, value), and destroys itself without data. Its
/// creation writes slot 1.
fn worm_init() -> Vec<u8> {
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

/// Contract `index` of the sender `from`, made or not.
fn worm(from: usize, index: u64) -> Address {
    Transaction::created_address(&account(from), index)
}

#[derive(Clone, Debug)]
enum Act {
    Create,
    Write { worm: (usize, u64), slot: u8, value: u8 },
    Destroy { worm: (usize, u64) },
    Pay { to: (usize, u64), value: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let worm = || (0..2usize, 0..WORMS);
    prop_oneof![
        3 => Just(Act::Create),
        6 => (worm(), 0..SLOTS, 0..3u8).prop_map(|(worm, slot, value)| Act::Write { worm, slot, value }),
        3 => worm().prop_map(|worm| Act::Destroy { worm }),
        1 => (worm(), 0..2u64).prop_map(|(to, value)| Act::Pay { to, value }),
    ]
}

/// Signs acts, each with its sender.
fn transactions(acts: &[(usize, Act)], nonces: &mut HashMap<usize, u64>) -> Vec<Transaction> {
    let one = |(from, act): &(usize, Act)| {
        let nonce = nonces.entry(*from).or_default();
        let mut plain = match act {
            Act::Create => unsigned(*nonce, None, 0, &worm_init()),
            Act::Write {
                worm: at,
                slot,
                value,
            } => {
                let data = [B256::with_last_byte(*slot), B256::with_last_byte(*value)].concat();
                unsigned(*nonce, Some(worm(at.0, at.1)), 0, &data)
            }
            Act::Destroy { worm: at } => unsigned(*nonce, Some(worm(at.0, at.1)), 0, &[]),
            Act::Pay { to, value } => unsigned(*nonce, Some(worm(to.0, to.1)), *value, &[0]),
        };
        *nonce += 1;
        plain.gas = 300_000;
        plain.sign_unprotected(&key(*from))
    };
    acts.iter().map(one).collect()
}

/// The root of all accounts there can be, as `state` has them now.
fn rebuilt(state: &mut BlockState<'_, std::sync::Arc<Snapshot>>) -> B256 {
    let root = |leaves: BTreeMap<B256, Vec<u8>>| {
        let mut builder = HashBuilder::default();
        for (key, value) in &leaves {
            builder.add_leaf(Nibbles::unpack(key), value);
        }
        builder.root()
    };
    let created = (0..2).flat_map(|from| (0..60).map(move |index| worm(from, index)));
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

/// Executes the beginnings of a block's transactions and compares the last root of each.
fn check_roots(maker: &Maker, block: &Block) {
    let parent = maker.fresh(block.header.parent_hash);
    let view = parent.snapshot().expect("snapshot");
    let above = maker.blocks.get(&block.header.parent_hash);
    let root = above.map_or_else(
        || {
            chain::genesis::genesis_header(&maker.spec)
                .expect("block 0")
                .state_root
        },
        |above| above.header.state_root,
    );
    for count in 1..=block.transactions.len() {
        let mut state = BlockState::new(&view, block.header.number - 1, root);
        let mut executor = Executor::new(&maker.spec, &block.header, &mut state);
        for transaction in &block.transactions[..count] {
            let sender = transaction.recover_sender(true).expect("signed");
            executor.transaction(transaction, sender).expect("valid");
        }
        // Ends the block without a reward; the beneficiary is there all the same.
        let executed = executor.finish_unpaid().expect("finish");
        let said = &executed.receipts[count - 1].outcome;
        let expected = ReceiptOutcome::Root(rebuilt(&mut state));
        assert_eq!(*said, expected, "after {count} transactions");
    }
}

fn check(plan: &[Vec<(usize, Act)>]) {
    let mut maker = Maker::new(spec());
    let mut nonces = HashMap::new();
    let mut after_first = None;
    let mut blocks: Vec<Block> = Vec::new();
    for acts in plan {
        let parent = blocks.last().map_or(maker.genesis, Block::hash);
        let block = maker.block(parent, Plan::with(transactions(acts, &mut nonces)));
        check_roots(&maker, &block);
        blocks.push(block);
        after_first.get_or_insert_with(|| nonces.clone());
    }
    let kept = Node::new(&maker.spec);
    let cold = Node::new(&maker.spec);
    for block in &blocks {
        kept.import(block).expect("valid");
        let forgetful = Importer::new(cold.store.clone(), maker.spec.clone(), SealCheck::Off);
        forgetful.import(block, None).expect("valid");
    }
    let run = Node::new(&maker.spec);
    let bytes: Vec<u8> = blocks.iter().flat_map(Block::encode).collect();
    let input = Box::new(std::io::Cursor::new(bytes));
    import_stream(&run.importer, input, &AtomicBool::new(false), |_| ()).expect("valid");
    let expected = cold.rows();
    assert!(kept.rows() == expected, "with the last state in memory");
    assert!(run.rows() == expected, "in a run");
    // Another branch from the first block on finds everything as that left it.
    let mut nonces = after_first.unwrap_or_default();
    let mut tip = blocks[0].hash();
    for number in 0..blocks.len() {
        let acts = [1, 2].map(|slot| {
            let write = Act::Write {
                worm: (0, 0),
                slot,
                value: 3 + number as u8,
            };
            (0, write)
        });
        let block = maker.block(tip, Plan::with(transactions(&acts, &mut nonces)));
        tip = block.hash();
        for node in [&kept, &run] {
            node.take(std::slice::from_ref(&block));
        }
    }
    for node in [&kept, &run] {
        assert_eq!(node.head(), tip);
        assert_as_fresh(&node.rows(), &rows(&maker.fresh(tip)));
    }
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]

    #[test]
    fn roots_within_a_block_are_those_of_its_state(
        plan in proptest::collection::vec(
            proptest::collection::vec((0..2usize, act()), 0..8),
            1..5,
        )
    ) {
        check(&plan);
    }
}

#[test]
fn storage_that_comes_and_goes_within_a_block() {
    let from = |acts: &[Act]| acts.iter().map(|act| (0, act.clone())).collect::<Vec<_>>();
    let at = (0, 0);
    let write = |slot, value| Act::Write {
        worm: at,
        slot,
        value,
    };
    let pay = || Act::Pay { to: at, value: 1 };
    let destroy = || Act::Destroy { worm: at };
    check(&[
        // Made, written, gone and paid, all in one block.
        from(&[Act::Create, write(2, 2), destroy(), pay(), write(3, 1)]),
        from(&[pay()]),
    ]);
    check(&[
        from(&[Act::Create, write(2, 2)]),
        // Roots with changes that the end of the contract takes back.
        from(&[write(2, 3), write(3, 1), write(1, 0), destroy(), pay()]),
        from(&[pay(), write(1, 1)]),
    ]);
    check(&[
        from(&[Act::Create, write(2, 2), write(2, 0), write(2, 2)]),
        from(&[write(2, 0), write(2, 2)]),
        from(&[write(2, 0), write(1, 0)]),
    ]);
}
