//! A chain like the main network: its chain id, a system contract, forks at small heights.
//!
//! The spec comes from a genesis file, as in the node. Blocks are built by the tests' own maker and
//! by the chain's builder, and imported by the chain's importer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::ChainSpec;
use chain::chain::{Chain, ChainConfig};
use chain::evm::execute::TransactionError;
use chain::import::{ImportError, Imported};
use chain::pool::PoolConfig;
use chain::rules::HeaderError;
use chain::rules::body::{BodyError, SenderError, transactions_root};
use chain::rules::seal::SealCheck;
use chain::spec::DEV_ACCOUNTS;
use primitives::{Address, Block, ReceiptOutcome, SYSTEM_CONTRACT, SYSTEM_SENDER, Transaction, TxForm, U256};

use crate::common::{Maker, Node, Plan, account, coins, key, unsigned};
use crate::scenes::{assert_sound, import_as_stream, view};

const MINER: Address = Address::repeat_byte(0xbe);
/// Receives 1 sha from the system contract in each block.
const PAID: Address = Address::repeat_byte(0xaf);

/// The code of the system contract. It counts its calls in slot 0, and writes its caller to slot 1,
/// the gas price to slot 2 and the size of its input to slot 3. It lets 0x0c transfer 1 sha to
/// [`PAID`], and logs the block's number.
fn system_code() -> String {
    let paid = primitives::hex::encode(PAID);
    let code = format!(
        "6000 54 6001 01 6000 55 33 6001 55 3a 6002 55 36 6003 55
         30 6004 52 73{paid} 6024 52 6001 6044 52 6000 6000 6064 6000 6000 600c 5a f1 50
         43 6000 52 6020 6000 a0"
    );
    code.split_whitespace().collect()
}

fn genesis_file() -> String {
    let mut alloc = serde_json::Map::new();
    for (address, _) in DEV_ACCOUNTS {
        alloc.insert(
            address.to_string(),
            serde_json::json!({"balance": coins(1000).to_string()}),
        );
    }
    let system =
        serde_json::json!({"balance": coins(10).to_string(), "code": format!("0x{}", system_code())});
    alloc.insert(SYSTEM_CONTRACT.to_string(), system);
    serde_json::json!({
        "config": {"chainId": 99, "panguBlock": 0, "nuwaBlock": 2, "fuxiBlock": 3, "enableClassicTx": 4,
            "enableFuxiPrecompiled": 5, "diffBombDefuseBlock": 0, "removeEmptyAccount": true, "ethash": {}},
        "nonce": "0x42", "difficulty": "0x20000", "gasLimit": "0x895440", "alloc": alloc,
    })
    .to_string()
}

fn spec() -> ChainSpec {
    let file = ChainSpec::from_genesis_file("like-main", &genesis_file()).expect("a file");
    assert_eq!(file.ignored_keys, [""; 0]);
    file.spec
}

fn transfer(from: usize, nonce: u64, form: TxForm) -> Transaction {
    unsigned(nonce, Some(Address::repeat_byte(0x77)), 5, &[]).sign(&key(from), 99, form)
}

/// Blocks with a transfer each. The first one also has a creation that fails.
fn line(maker: &mut Maker, count: u64) -> Vec<Block> {
    let mut tip = maker.genesis;
    (0..count)
        .map(|nonce| {
            let mut transactions = vec![transfer(0, nonce, TxForm::Native)];
            if nonce == 0 {
                transactions.push(unsigned(0, None, 0, &[0xfe]).sign(&key(1), 99, TxForm::Native));
            }
            let block = maker.block(tip, Plan::with(transactions));
            tip = block.hash();
            block
        })
        .collect()
}

#[test]
fn every_block_begins_with_the_system_transaction() {
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, 6);
    let node = Node::new(&maker.spec);
    node.take(&blocks);
    let view = view(&node, &maker);
    for block in &blocks {
        let number = block.header.number;
        let system = &block.transactions[0];
        assert_eq!(
            (system.tx_nonce, system.gas, system.syscnt),
            (number - 1, 0, 0x65)
        );
        assert_eq!(system.to, Some(SYSTEM_CONTRACT));
        let stored = view.block(number).expect("read").expect("a block");
        assert_eq!(stored.body.senders[..2], [SYSTEM_SENDER, account(0)]);
        let receipts = view.receipts(&stored.id()).expect("read").expect("executed");
        // The system transaction uses no gas, and its log is the contract's.
        assert_eq!(
            (receipts[0].outcome, receipts[0].cumulative_gas_used),
            (ReceiptOutcome::Status(true), 0)
        );
        assert_eq!(receipts[0].logs[0].address, SYSTEM_CONTRACT);
        assert_eq!(U256::from_be_slice(&receipts[0].logs[0].data), U256::from(number));
        assert_eq!(receipts[1].cumulative_gas_used, 1000);
        assert_eq!(
            view.transaction(&system.hash()).expect("read").expect("found").1,
            0
        );

        let slot = |slot: u64| {
            view.slot(&SYSTEM_CONTRACT, &U256::from(slot), number)
                .expect("slot")
        };
        assert_eq!(slot(0), U256::from(number), "one call per block");
        assert_eq!(slot(1), U256::from_be_slice(SYSTEM_SENDER.as_slice()));
        assert_eq!(slot(3), U256::from(4));
        let at = |address: Address| view.account(&address, number).expect("read").unwrap_or_default();
        assert_eq!(
            (at(SYSTEM_SENDER).tx_nonce, at(SYSTEM_SENDER).balance),
            (number, U256::ZERO)
        );
        assert_eq!(at(PAID).balance, U256::from(number));
        assert_eq!(at(SYSTEM_CONTRACT).balance, coins(10) - U256::from(number));
        // The miner has the rewards and the fees of the other transactions.
        let used: u64 = blocks[..number as usize]
            .iter()
            .map(|block| block.header.gas_used)
            .sum();
        assert_eq!(
            at(MINER).balance,
            coins(2 * number) + U256::from(used) * U256::from(1_000_000_000u64)
        );
    }
    // A failed creation burns its gas, also on chains that refund failed calls.
    assert_eq!(blocks[0].header.gas_used, 1000 + 1_000_000);
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn wrong_system_transactions_are_rejected() {
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, 3);
    let node = Node::new(&maker.spec);
    node.take(&blocks[..2]);
    let import_changed = |change: &dyn Fn(&mut Vec<Transaction>)| {
        let mut block = blocks[2].clone();
        change(&mut block.transactions);
        block.header.transactions_root = transactions_root(&block.transactions);
        let before = node.rows();
        let error = node.import(&block).expect_err("an invalid block");
        assert!(before == node.rows());
        error
    };
    let body = |error: &ImportError, expected: fn(&BodyError) -> bool| match error {
        ImportError::Body(error) => assert!(expected(error), "{error}"),
        other => panic!("{other}"),
    };
    let missing = |error: &BodyError| matches!(error, BodyError::NoSystemTransaction);
    let not_first = |error: &BodyError| {
        matches!(
            error,
            BodyError::Sender {
                index: 1,
                error: SenderError::System
            }
        )
    };
    body(&import_changed(&|all| all.clear()), missing);
    body(&import_changed(&|all| drop(all.remove(0))), missing);
    body(&import_changed(&|all| all.swap(0, 1)), missing);
    body(
        &import_changed(&|all| all.insert(1, Transaction::system(3))),
        not_first,
    );
    // The nonce of the system's account decides which system transaction is the right one.
    let wrong: [&dyn Fn(&mut Transaction); 3] = [
        &|system| *system = Transaction::system(1),
        &|system| *system = Transaction::system(3),
        &|system| *system = Transaction::system(u64::MAX),
    ];
    for change in wrong {
        let error = import_changed(&|all| change(&mut all[0]));
        let ImportError::Transaction { index: 0, error, .. } = &error else {
            panic!("{error}")
        };
        assert!(
            matches!(error, TransactionError::WrongSystem { expected, .. } if *expected == Transaction::system(2).hash()),
            "{error}"
        );
    }
    // A signed transaction with the system's flag.
    let mut flagged = unsigned(3, Some(SYSTEM_CONTRACT), 0, &[]);
    flagged.syscnt = 0x65;
    let flagged = flagged.sign(&key(0), 99, TxForm::Native);
    let error = import_changed(&|all| all[1] = flagged.clone());
    assert!(
        matches!(
            error,
            ImportError::Transaction {
                index: 1,
                error: TransactionError::System,
                ..
            }
        ),
        "{error}"
    );
    node.import(&blocks[2]).expect("the unchanged block is valid");
}

#[test]
fn reorganized_and_streamed_chains_have_the_same_rows() {
    let mut maker = Maker::new(spec());
    let a = line(&mut maker, 5);
    let mut tip = a[1].hash();
    let mut b = Vec::new();
    for nonce in 0..4 {
        let mut plan = Plan::marked(2);
        plan.transactions = vec![transfer(3, nonce, TxForm::Native)];
        let block = maker.block(tip, plan);
        tip = block.hash();
        b.push(block);
    }
    let node = Node::new(&maker.spec);
    node.take(&a);
    node.take(&b[..3]);
    assert_eq!(
        node.head(),
        a[4].hash(),
        "at equal total difficulty the first block stays the head"
    );
    assert!(matches!(
        node.import(&b[3]).expect("heavier"),
        Imported::Head { .. }
    ));
    let view = view(&node, &maker);
    let slot = |number| view.slot(&SYSTEM_CONTRACT, &U256::ZERO, number).expect("slot");
    assert_eq!((slot(2), slot(6)), (U256::from(2), U256::from(6)));
    assert_sound(&node.store, &maker.spec);

    let canonical: Vec<Block> = a[..2].iter().chain(&b).cloned().collect();
    let stream = import_as_stream(&maker.spec, &canonical);
    let single = Node::new(&maker.spec);
    single.take(&canonical);
    assert!(stream.rows() == single.rows());
    let state = [
        "account",
        "storage",
        "state_history",
        "path_to_trie_node",
        "number_to_hash",
    ];
    for table in state {
        assert!(single.rows()[table] == node.rows()[table], "{table}");
    }
}

#[test]
fn the_block_builder_adds_the_system_transaction() {
    let maker = Maker::new(spec());
    let node = Node::new(&maker.spec);
    let config = ChainConfig {
        spec: maker.spec.clone(),
        seals: SealCheck::Off,
        pool: PoolConfig::default(),
        beneficiary: MINER,
        extra_data: Default::default(),
    };
    let chain = Chain::open(node.store.clone(), config).expect("the chain opens");
    for number in 1..=2 {
        chain
            .submit_transaction(transfer(0, number - 1, TxForm::Native))
            .expect("pooled");
        let draft = chain.pending(&chain.view().expect("view")).expect("a draft");
        let block = draft.block.clone();
        assert_eq!(block.transactions[0], Transaction::system(number - 1));
        assert_eq!((block.transactions.len(), draft.senders[0]), (2, SYSTEM_SENDER));
        // The limit grows by less than 1/1024 per block towards 18,000,000.
        assert!(block.header.gas_limit > 9_000_000);
        // The second block's timestamp may be ahead of the clock. Its import must wait.
        while SystemTime::now() < UNIX_EPOCH + Duration::from_secs(block.header.timestamp) {
            std::thread::sleep(Duration::from_millis(10));
        }
        chain.import(block).expect("a built block is valid");
    }
    chain.stop();
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn forks_begin_at_their_blocks() {
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, 4);
    let node = Node::new(&maker.spec);
    node.take(&blocks[..2]);
    // A transaction of 9 fields is invalid in block 3 and valid in block 4.
    let mut early = blocks[2].clone();
    early.transactions[1] = transfer(0, 2, TxForm::Classic);
    early.header.transactions_root = transactions_root(&early.transactions);
    let error = node.import(&early).expect_err("too early");
    assert!(
        matches!(
            error,
            ImportError::Transaction {
                error: TransactionError::ClassicDisabled,
                ..
            }
        ),
        "{error}"
    );
    let classic = maker.block(
        blocks[2].hash(),
        Plan::with(vec![transfer(0, 3, TxForm::Classic)]),
    );
    node.take(&[blocks[2].clone(), classic]);
}

#[test]
fn public_networks_have_a_higher_minimum_gas_limit() {
    let mut maker = Maker::new(spec());
    let block = line(&mut maker, 1).remove(0);
    let with_limit = |spec: &ChainSpec, limit: u64| {
        let mut block = block.clone();
        block.header.gas_limit = limit;
        Node::new(&spec.clone().into())
            .import(&block)
            .expect_err("at least the state root is wrong")
    };
    let step = 9_000_000 / 1024;
    let too_low = with_limit(&maker.spec, 8_999_999);
    assert!(
        matches!(
            too_low,
            ImportError::Header(HeaderError::GasLimit {
                got: 8_999_999,
                low: 9_000_000,
                high
            }) if high == 9_000_000 + step - 1
        ),
        "{too_low}"
    );
    let too_high = with_limit(&maker.spec, 9_000_000 + step);
    assert!(
        matches!(too_high, ImportError::Header(HeaderError::GasLimit { .. })),
        "{too_high}"
    );
    // Another network of the family has Ethereum's minimum, and the same steps.
    let text = genesis_file().replace("\"chainId\":99", "\"chainId\":4711");
    let other = ChainSpec::from_genesis_file("other", &text).expect("a file").spec;
    assert!(!other.failed_calls_refund_gas && other.system_contract);
    for (limit, allowed) in [(9_000_000 - step, false), (9_000_000 - step + 1, true)] {
        let error = with_limit(&other, limit);
        let by_limit = matches!(error, ImportError::Header(HeaderError::GasLimit { .. }));
        assert_eq!(by_limit, !allowed, "{limit}: {error}");
    }
}
