//! A chain like the main network: its chain id, a system contract, forks at small heights.
//!
//! The spec comes from a genesis file, as in the node. Blocks are built by the tests' own maker and
//! by the chain's builder, and imported by the chain's importer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::ChainSpec;
use chain::chain::{Chain, ChainConfig};
use chain::import::{ImportError, Imported};
use chain::logs::LogQuery;
use chain::pool::PoolConfig;
use chain::rules::HeaderError;
use chain::rules::body::{BodyError, SenderError, transactions_root};
use chain::rules::seal::SealCheck;
use chain::spec::{ChainIdChange, DEV_ACCOUNTS};
use chain::trace::{CallOptions, TIMEOUT_DEFAULT, TraceRequest, Tracer};
use primitives::{
    Address, B256, Block, ReceiptOutcome, SYSTEM_CONTRACT, SYSTEM_SENDER, Transaction, TxForm, TxRules, U256,
};

use crate::common::{Maker, Node, Plan, account, assemble, coins, key, unsigned};
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

type Change<'a> = &'a dyn Fn(&mut Vec<Transaction>);

/// A block's other forms: the same transactions are executed, whatever system transactions the
/// block contains.
#[test]
fn the_system_transactions_of_a_block_are_replaced() {
    let mut maker = Maker::new(spec());
    let blocks = line(&mut maker, 3);
    let node = Node::new(&maker.spec);
    node.take(&blocks[..2]);
    let plain = node.rows();
    // A signed transaction with a flag is a system transaction, too.
    let mut flagged = unsigned(7, None, 9, &[1, 2]);
    flagged.syscnt = 3;
    let flagged = flagged.sign(&key(5), 99, TxForm::Native);
    let changes: [Change<'_>; 7] = [
        &|all| drop(all.remove(0)),
        &|all| all.swap(0, 1),
        &|all| all.insert(1, Transaction::system(3)),
        &|all| all.push(Transaction::system(2)),
        &|all| all[0] = Transaction::system(u64::MAX),
        &|all| all[0] = flagged.clone(),
        &|all| all.insert(0, flagged.clone()),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut block = blocks[2].clone();
        change(&mut block.transactions);
        block.header.transactions_root = transactions_root(&block.transactions);
        // As from a file: what is imported is what can be encoded.
        let block = Block::decode(&block.encode(), TxRules::Moac).expect("decodes");
        let node = Node::new(&maker.spec);
        node.take(&blocks[..2]);
        assert!(node.rows() == plain, "the same chain");
        node.import(&block)
            .unwrap_or_else(|error| panic!("{index}: {error}"));
        let view = view(&node, &maker);
        let stored = view.block(3).expect("read").expect("a block");
        assert_eq!(stored.body.transactions, block.transactions, "{index}");
        let receipts = view.receipts(&stored.id()).expect("read").expect("executed");
        // The receipts are those of the transactions that were executed.
        let logs = |index: usize| receipts[index].logs.len();
        assert_eq!((receipts.len(), logs(0), logs(1)), (2, 1, 0), "{index}");
        assert_eq!(receipts[1].cumulative_gas_used, 1000, "{index}");
        assert_sound(&node.store, &maker.spec);
        // Every transaction that was executed can be traced, and the log is found.
        let request = TraceRequest::new(Tracer::Calls(CallOptions::default()), TIMEOUT_DEFAULT);
        let traced = view.trace_block(&stored, &request).expect("traced");
        assert_eq!(traced.len(), block.transactions.len(), "{index}");
        let query = LogQuery::default();
        let found = view
            .block_logs(stored.id(), &query)
            .expect("read")
            .expect("executed");
        assert_eq!(found.len(), 1, "{index}");
        // The chain goes on, and can be taken back.
        let snapshot = node.store.snapshot().expect("snapshot");
        let tip = assemble(&maker.spec, &snapshot, &block.header, Plan::default());
        node.import(&tip).expect("a child");
        assert_sound(&node.store, &maker.spec);
    }
}

#[test]
fn a_wrong_sender_is_still_refused() {
    let mut maker = Maker::new(spec());
    let mut block = line(&mut maker, 1).remove(0);
    block.transactions[1] = transfer(0, 0, TxForm::Native);
    block.transactions[1].r += U256::from(1);
    block.transactions[1].v = U256::from(35 + 2 * 98);
    block.header.transactions_root = transactions_root(&block.transactions);
    let error = Node::new(&maker.spec).import(&block).expect_err("another chain");
    assert!(
        matches!(
            error,
            ImportError::Body(BodyError::Sender {
                index: 1,
                error: SenderError::ChainId { .. }
            })
        ),
        "{error}"
    );
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
        "account_by_hash",
        "storage_by_hash",
        "state_history_by_hash",
        "path_to_branch",
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
        forks: chain::import::ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: MINER,
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
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
fn classic_transactions_are_valid_in_blocks_before_their_fork() {
    // The fork is at block 4. Only pools refuse such a transaction before.
    let mut maker = Maker::new(spec());
    let mut tip = maker.genesis;
    let mut blocks = Vec::new();
    for nonce in 0..2 {
        let mut transaction = transfer(0, nonce, TxForm::Classic);
        if nonce == 1 {
            // The signature does not cover the fields that only native transactions have.
            (transaction.sharding_flag, transaction.via) = (2, Some(MINER));
        }
        let block = maker.block(tip, Plan::with(vec![transaction]));
        tip = block.hash();
        blocks.push(Block::decode(&block.encode(), TxRules::Moac).expect("decodes"));
    }
    let node = Node::new(&maker.spec);
    node.take(&blocks);
    assert_sound(&node.store, &maker.spec);
}

/// The slot in which the public node keeps the sharding flag of the transaction that created a
/// contract: a text, right-aligned.
const fn sharding_slot() -> U256 {
    U256::from_be_slice(b"__shardingFlag")
}

#[test]
fn a_creation_leaves_its_sharding_flag_in_the_contract() {
    let mut maker = Maker::new(spec());
    let create = |nonce: u64, flag: u64, init: &[u8]| {
        let mut plain = unsigned(nonce, None, 0, init);
        plain.sharding_flag = flag;
        plain.sign(&key(0), 99, TxForm::Native)
    };
    let pay = |nonce: u64, to: Address| unsigned(nonce, Some(to), 5, &[]).sign(&key(1), 99, TxForm::Native);
    let created = |nonce| Transaction::created_address(&account(0), nonce);
    // PUSH1 7, PUSH14 the slot's text, SSTORE; then a contract with the code 00.
    let text = primitives::hex::encode(b"__shardingFlag");
    let writes = crate::common::hex(&format!("6007 6d{text} 55 6001 6000 f3"));
    let fails = [0xfe];
    let block = maker.block(
        maker.genesis,
        Plan::with(vec![
            create(0, 3, &writes),
            // A flag of 0 takes away what the constructor has written.
            create(1, 0, &writes),
            // The creation fails, and the account is paid by the next transaction.
            create(2, 2, &fails),
            pay(0, created(2)),
            // An account that is paid one transaction too late.
            create(3, 2, &fails),
            pay(1, MINER),
            pay(2, created(3)),
            // An account that exists before.
            pay(3, created(4)),
            create(4, 1, &fails),
            // A call leaves nothing.
            create(5, 1, &[]),
        ]),
    );
    // The last creation of a block fails, and the reward pays the account.
    let mut plan = Plan::with(vec![create(6, 9, &fails)]);
    plan.beneficiary = created(6);
    let last = maker.block(block.hash(), plan);
    let node = Node::new(&maker.spec);
    node.take(&[block, last]);
    let view = view(&node, &maker);
    let flag = |nonce: u64| view.slot(&created(nonce), &sharding_slot(), 2).expect("slot");
    let flags = [3u64, 0, 2, 0, 1, 1, 9].map(U256::from);
    for (nonce, expected) in (0..).zip(flags) {
        assert_eq!(flag(nonce), expected, "{nonce}");
    }
    // A block that is run again for a trace leaves the same marks.
    let stored = view.block(1).expect("read").expect("block 1");
    let count = stored.body.transactions.len();
    for (nonce, expected) in (0..6).zip(flags) {
        let range = view
            .storage_range(&stored, count, &created(nonce), B256::ZERO, 10, TIMEOUT_DEFAULT)
            .expect("a replay");
        let marks: Vec<_> = range.entries.iter().map(|entry| entry.value).collect();
        let expected: Vec<_> = Some(expected)
            .filter(|flag| !flag.is_zero())
            .into_iter()
            .collect();
        assert_eq!(marks, expected, "{nonce}");
    }
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn the_chain_id_changes_with_the_height() {
    let mut spec = spec();
    spec.chain_id_changes = vec![ChainIdChange {
        first_block: 4,
        chain_id: 1099,
    }];
    let mut maker = Maker::new(spec);
    let plain = |nonce| unsigned(nonce, Some(MINER), 5, &[]);
    // A constructor that logs the chain id. CHAINID is valid from block 3 on.
    let logs_id = crate::common::hex("46 6000 52 6020 6000 a0");
    let mut tip = maker.genesis;
    let mut blocks = Vec::new();
    for number in 1..=4 {
        let chain_id = if number < 4 { 99 } else { 1099 };
        let id_log = unsigned(number - 1, None, 0, &logs_id).sign(&key(1), chain_id, TxForm::Native);
        let transfer = plain(number - 1).sign(&key(0), chain_id, TxForm::Classic);
        let block = maker.block(tip, Plan::with(vec![transfer, id_log]));
        tip = block.hash();
        blocks.push(block);
    }
    let node = Node::new(&maker.spec);
    node.take(&blocks[..2]);
    // Each id is refused on the other side of the change.
    let refused = |block: &Block, chain_id: u64| {
        let mut block = block.clone();
        let nonce = block.transactions[1].tx_nonce;
        block.transactions[1] = plain(nonce).sign(&key(0), chain_id, TxForm::Native);
        block.header.transactions_root = transactions_root(&block.transactions);
        let error = node.import(&block).expect_err("another chain id");
        let expected = SenderError::ChainId {
            got: Some(chain_id),
            expected: maker.spec.chain_id_at(block.header.number),
        };
        assert!(error.to_string().contains(&expected.to_string()), "{error}");
    };
    refused(&blocks[2], 1099);
    node.take(&blocks[2..3]);
    refused(&blocks[3], 99);
    node.take(&blocks[3..]);
    let view = view(&node, &maker);
    for (number, id) in [(3, 99), (4, 1099)] {
        let block = view.block(number).expect("read").expect("a block");
        let receipts = view.receipts(&block.id()).expect("read").expect("executed");
        assert_eq!(U256::from_be_slice(&receipts[2].logs[0].data), U256::from(id));
    }
    assert_sound(&node.store, &maker.spec);
}

#[test]
fn the_pool_drops_transactions_when_the_chain_id_changes() {
    let mut spec = spec();
    spec.chain_id_changes = vec![ChainIdChange {
        first_block: 3,
        chain_id: 1099,
    }];
    let mut maker = Maker::new(spec);
    let node = Node::new(&maker.spec);
    let config = ChainConfig {
        spec: maker.spec.clone(),
        seals: SealCheck::Off,
        forks: chain::import::ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: MINER,
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
    };
    let chain = Chain::open(node.store, config).expect("the chain opens");
    let early = transfer(0, 0, TxForm::Native);
    let late = unsigned(0, Some(MINER), 5, &[]).sign(&key(0), 1099, TxForm::Native);
    assert_eq!(chain.chain_id(), 99);
    chain.submit_transaction(late.clone()).expect_err("too early");
    chain.submit_transaction(early.clone()).expect("pooled");
    for block in maker.line(maker.genesis, 2, 0) {
        chain.import(block).expect("a valid block");
    }
    assert_eq!(chain.chain_id(), 1099);
    assert!(chain.pool().get(&early.hash()).is_none());
    chain.submit_transaction(early).expect_err("too late");
    chain.submit_transaction(late).expect("pooled");
    chain.stop();
}

#[test]
fn a_gas_limit_may_fall_to_5000() {
    let mut maker = Maker::new(spec());
    let block = line(&mut maker, 1).remove(0);
    let with_limit = |spec: &ChainSpec, limit: u64| {
        let mut block = block.clone();
        block.header.gas_limit = limit;
        Node::new(&spec.clone().into()).import(&block).err()
    };
    let step = 9_000_000 / 1024;
    for (limit, allowed) in [
        (9_000_000 - step, false),
        (9_000_000 - step + 1, true),
        (9_000_000 + step - 1, true),
        (9_000_000 + step, false),
    ] {
        let error = with_limit(&maker.spec, limit);
        let by_limit = matches!(error, Some(ImportError::Header(HeaderError::GasLimit { .. })));
        assert_eq!((by_limit, error.is_some()), (!allowed, !allowed), "{limit}");
    }
}
