//! Making valid blocks on any parent, and comparing stores row by row.
//!
//! Blocks are executed by the chain's executor, on a store of their own. Headers, roots and bodies
//! are put together here, not by the chain's block builder.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::import::{ImportError, Imported, Importer};
use chain::rules::seal::SealCheck;
use chain::spec::{DEV_ACCOUNTS, DifficultyRule, Rule};
use chain::state::BlockState;
use chain::trie::ordered_root;
use primitives::{
    Address, B256, Block, Bytes, Header, SecretKey, Transaction, TxForm, U256, UnsignedTransaction,
    uncles_hash,
};
use store::{AncientReads, BlockReads, Source, StateReads, StateTrieId, Store, TableId};

/// One native token in sha.
pub(crate) fn coins(count: u64) -> U256 {
    U256::from(count) * U256::from(10u64).pow(U256::from(18u64))
}

/// The dev network with a difficulty of 2, for tests that search for seals.
pub(crate) fn easy_spec() -> ChainSpec {
    ChainSpec {
        difficulty: DifficultyRule::Constant(2),
        ..ChainSpec::dev()
    }
}

/// Key of the dev account `index`.
pub(crate) fn key(index: usize) -> SecretKey {
    SecretKey::from_hex(DEV_ACCOUNTS[index].1).expect("dev keys are keys")
}

/// Address of the dev account `index`.
pub(crate) const fn account(index: usize) -> Address {
    DEV_ACCOUNTS[index].0
}

/// An unsigned transaction of low cost, with enough gas for most tests.
pub(crate) fn unsigned(tx_nonce: u64, to: Option<Address>, value: u64, input: &[u8]) -> UnsignedTransaction {
    UnsignedTransaction {
        tx_nonce,
        gas_price: U256::from(1_000_000_000u64),
        gas: 1_000_000,
        to,
        value: U256::from(value),
        input: Bytes::copy_from_slice(input),
        ..Default::default()
    }
}

/// Signs for the dev network in the native form.
pub(crate) fn sign(from: usize, unsigned: &UnsignedTransaction) -> Transaction {
    unsigned.sign(&key(from), 100, TxForm::Native)
}

/// The content of a block to be made. The other parts of the block are computed from its parent.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) beneficiary: Address,
    /// Seconds after the parent.
    pub(crate) seconds: u64,
    pub(crate) extra: Bytes,
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) uncles: Vec<Header>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            beneficiary: Address::repeat_byte(0xbe),
            seconds: 1,
            extra: Bytes::new(),
            transactions: Vec::new(),
            uncles: Vec::new(),
        }
    }
}

impl Plan {
    /// A block that differs from its siblings by this mark.
    pub(crate) fn marked(mark: u8) -> Self {
        Self {
            extra: vec![mark].into(),
            ..Self::default()
        }
    }

    pub(crate) fn with(transactions: Vec<Transaction>) -> Self {
        Self {
            transactions,
            ..Self::default()
        }
    }
}

/// Makes blocks. It has all blocks made so far, and a store with the branch that is built on.
pub(crate) struct Maker {
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) genesis: B256,
    pub(crate) blocks: HashMap<B256, Block>,
    store: Store,
    tip: B256,
}

impl Maker {
    pub(crate) fn new(spec: ChainSpec) -> Self {
        let store = Store::in_memory().expect("a store in memory");
        let genesis = ensure_genesis(&store, &spec).expect("genesis");
        Self {
            spec: Arc::new(spec),
            genesis,
            blocks: HashMap::new(),
            store,
            tip: genesis,
        }
    }

    /// The blocks from block 1 to `tip`.
    pub(crate) fn path(&self, tip: B256) -> Vec<&Block> {
        let mut path = Vec::new();
        let mut hash = tip;
        while let Some(block) = self.blocks.get(&hash) {
            path.push(block);
            hash = block.header.parent_hash;
        }
        assert_eq!(hash, self.genesis, "the branch begins at block 0");
        path.reverse();
        path
    }

    /// The store. It has imported the branch of the newest block, and nothing else.
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// A new store that has imported the branch that ends in `tip`, and nothing else.
    pub(crate) fn fresh(&self, tip: B256) -> Store {
        let store = Store::in_memory().expect("a store in memory");
        ensure_genesis(&store, &self.spec).expect("genesis");
        let importer = Importer::new(store.clone(), self.spec.clone(), SealCheck::Off);
        for block in self.path(tip) {
            let imported = importer.import(block, None).expect("a block made here is valid");
            assert!(matches!(imported, Imported::Head { .. }));
        }
        store
    }

    /// Makes a valid block on `parent`. The transactions of the plan must be valid there.
    pub(crate) fn block(&mut self, parent: B256, plan: Plan) -> Block {
        if self.tip != parent {
            self.store = self.fresh(parent);
            self.tip = parent;
        }
        let view = self.store.snapshot().expect("snapshot");
        let parent_header = view
            .header_by_hash(&parent)
            .expect("read")
            .expect("parent")
            .header;
        let block = assemble(&self.spec, &view, &parent_header, plan);
        drop(view);
        let importer = Importer::new(self.store.clone(), self.spec.clone(), SealCheck::Off);
        importer.import(&block, None).expect("a block made here is valid");
        self.tip = block.hash();
        self.blocks.insert(self.tip, block.clone());
        block
    }

    /// Makes `count` blocks, the first on `parent` and each other one on the one before. Another
    /// `mark` gives other blocks.
    pub(crate) fn line(&mut self, parent: B256, count: usize, mark: u8) -> Vec<Block> {
        self.slow_line(parent, count, mark, Plan::marked(mark).seconds)
    }

    /// As [`Self::line`], with so many seconds from block to block.
    pub(crate) fn slow_line(&mut self, parent: B256, count: usize, mark: u8, seconds: u64) -> Vec<Block> {
        let mut tip = parent;
        (0..count)
            .map(|_| {
                let plan = Plan {
                    seconds,
                    ..Plan::marked(mark)
                };
                let block = self.block(tip, plan);
                tip = block.hash();
                block
            })
            .collect()
    }
}

/// Makes the block of `plan` on `parent`, which is the head of `view`.
pub(crate) fn assemble(spec: &ChainSpec, view: &store::Snapshot, parent: &Header, mut plan: Plan) -> Block {
    let difficulty = match spec.difficulty {
        DifficultyRule::Constant(difficulty) => U256::from(difficulty),
        _ => chain::rules::difficulty::next_difficulty(spec, parent, parent.timestamp + plan.seconds),
    };
    if spec.system_contract {
        // Its nonce is the number of blocks before: each has one system transaction.
        plan.transactions.insert(0, Transaction::system(parent.number));
    }
    let mut header = Header {
        parent_hash: parent.hash(),
        uncles_hash: uncles_hash(&plan.uncles),
        beneficiary: plan.beneficiary,
        difficulty,
        number: parent.number + 1,
        gas_limit: parent.gas_limit,
        timestamp: parent.timestamp + plan.seconds,
        extra_data: plan.extra,
        ..Default::default()
    };
    let mut state = BlockState::new(view, parent.number, parent.state_root);
    let mut executor = Executor::new(spec, &header, &mut state);
    executor.system_transaction().expect("the store works");
    for transaction in plan.transactions.iter().filter(|one| !one.is_system()) {
        let low_s = spec.rules_at(header.number).has(Rule::Eip2);
        let sender = transaction.recover_sender(low_s).expect("signed");
        executor
            .transaction(transaction, sender)
            .expect("the plan is valid");
    }
    let executed = executor.finish(&plan.uncles).expect("finish");
    header.state_root = state.root().expect("root");
    header.transactions_root = ordered_root(plan.transactions.iter().map(Transaction::encode));
    header.receipts_root = ordered_root(executed.receipts.iter().map(|r| r.encode(spec.receipt_form())));
    header.logs_bloom = executed.logs_bloom;
    header.gas_used = executed.gas_used;
    Block {
        header,
        transactions: plan.transactions,
        uncles: plan.uncles,
    }
}

/// The store under test, with its importer.
pub(crate) struct Node {
    pub(crate) store: Store,
    pub(crate) importer: Importer,
}

impl Node {
    pub(crate) fn new(spec: &Arc<ChainSpec>) -> Self {
        Self::with_seals(spec, SealCheck::Off)
    }

    pub(crate) fn with_seals(spec: &Arc<ChainSpec>, seals: SealCheck) -> Self {
        let store = Store::in_memory().expect("a store in memory");
        ensure_genesis(&store, spec).expect("genesis");
        let importer = Importer::new(store.clone(), spec.clone(), seals);
        Self { store, importer }
    }

    pub(crate) fn import(&self, block: &Block) -> Result<Imported, ImportError> {
        self.importer.import(block, None)
    }

    /// Imports blocks, all of which must be valid.
    pub(crate) fn take(&self, blocks: &[Block]) {
        for block in blocks {
            self.import(block).expect("valid block");
        }
    }

    pub(crate) fn head(&self) -> B256 {
        let head = self.store.snapshot().expect("snapshot").head().expect("read");
        head.expect("a head").1
    }

    pub(crate) fn rows(&self) -> Rows {
        rows(&self.store)
    }
}

/// Every row of every table, by table name. Blocks that are in the blocks file are there as if they
/// had rows. The trie nodes of destroyed storages are left out, because they go at some time.
pub(crate) type Rows = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

pub(crate) fn rows(store: &Store) -> Rows {
    let mut rows = stored_rows(store);
    let snapshot = store.snapshot().expect("snapshot");
    rows.insert(TableId::NumberToAncient.name(), BTreeMap::new());
    for number in 0..snapshot.ancient_count().expect("read") {
        let hash = snapshot.canonical_hash(number).expect("read").expect("canonical");
        let key = [&number.to_be_bytes()[..], hash.as_slice()].concat();
        let moved = snapshot.ancient_rows(number, &hash).expect("read");
        assert_eq!(moved.len(), 2, "the rows of block {number}");
        for (table, row) in moved {
            let before = rows
                .get_mut(table.name())
                .expect("a table")
                .insert(key.clone(), row);
            assert_eq!(before, None, "block {number} has a row in {} too", table.name());
        }
    }
    rows.insert(TableId::DeadStorage.name(), BTreeMap::new());
    // Their number depends on the blocks that have moved. Checks of the store compare them.
    rows.insert(TableId::BlockToPastNodes.name(), BTreeMap::new());
    let head = snapshot.head().expect("read").map_or(0, |(number, _)| number);
    let nodes = rows.get_mut(TableId::PathToTrieNode.name()).expect("a table");
    nodes.retain(|path, _| {
        let Some((StateTrieId::Storage(owner), _)) = StateTrieId::split(path) else {
            return true;
        };
        let version = snapshot.account_by_key(&owner.account, head).expect("read");
        owner.incarnation == version.incarnation
    });
    rows
}

/// Every row of every table, as it is stored.
pub(crate) fn stored_rows(store: &Store) -> Rows {
    let snapshot = store.snapshot().expect("snapshot");
    let table = |table: TableId| {
        let mut rows = BTreeMap::new();
        snapshot
            .scan(table, &[], |key, value| {
                rows.insert(key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            })
            .expect("scan");
        (table.name(), rows)
    };
    TableId::ALL.into_iter().map(table).collect()
}

/// Init code that creates a contract with `code`, which has at most 255 bytes.
pub(crate) fn deploys(code: &[u8]) -> Vec<u8> {
    let length = u8::try_from(code.len()).expect("short code");
    // PUSH1 length, DUP1, PUSH1 11, PUSH1 0, CODECOPY, PUSH1 0, RETURN
    let mut init = vec![0x60, length, 0x80, 0x60, 11, 0x60, 0, 0x39, 0x60, 0, 0xf3];
    init.extend_from_slice(code);
    init
}

/// Decodes hex, which may contain spaces.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| char::from(byte).to_digit(16).expect("hex digit") as u8)
        .collect();
    assert!(digits.len().is_multiple_of(2), "hex comes in pairs: {text}");
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// The rules that begin with the public network's fork Fuxi.
pub(crate) const FUXI: [Rule; 5] = [
    Rule::Eip145,
    Rule::Eip1344,
    Rule::SelfBalance,
    Rule::Subroutines,
    Rule::FlatCreate2,
];

/// Makes rules begin at another block, or never.
pub(crate) fn begin(spec: &mut ChainSpec, rules: &[Rule], first: Option<u64>) {
    for rule in rules {
        spec.rules.set(*rule, first);
    }
}
