//! Chains to import: block 0, keys, and blocks with one kind of transaction.
//!
//! All seeds are fixed. The blocks are executed by the executor of the node and sealed with Ethash
//! at difficulty 2, so that they pass all checks of an import.

use std::path::Path;
use std::sync::Arc;

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::import::Importer;
use chain::rules::body::transactions_root;
use chain::rules::seal::SealCheck;
use chain::spec::{DifficultyRule, GenesisAccount};
use chain::state::BlockState;
use chain::trie::ordered_root;
use ethash::LightCaches;
use primitives::{
    Address, B256, Block, Bytes, EMPTY_UNCLES_HASH, Header, SecretKey, Transaction, TxForm, U256,
    UnsignedTransaction, keccak256,
};
use store::{BlockReads, Store, StoreOptions};
use tempfile::TempDir;

use crate::Failure;
use crate::code;

/// Number of accounts that send transactions.
const SENDERS: u64 = 2000;
const CHAIN_ID: u64 = 1337;
const CONTRACT: Address = Address::repeat_byte(0xc0);

/// What the transactions of a workload do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkloadKind {
    /// Transfer an amount to another account.
    Transfers,
    /// Transfer tokens to another account.
    Token,
    /// Write ten slots of one large contract.
    Storage,
}

impl WorkloadKind {
    pub(crate) const ALL: [Self; 3] = [Self::Transfers, Self::Token, Self::Storage];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Token => "ERC-20 transfers",
            Self::Storage => "storage, 10 slots each",
        }
    }

    /// Number of transactions in a block.
    const fn per_block(self) -> u64 {
        match self {
            Self::Transfers => 400,
            Self::Token => 300,
            Self::Storage => 200,
        }
    }

    /// Gas limit of a transaction. The limit of a block is the sum over its transactions.
    const fn gas(self) -> u64 {
        match self {
            Self::Transfers => 21_000,
            Self::Token => 60_000,
            Self::Storage => 95_000,
        }
    }
}

/// A chain, and a data directory with its block 0.
pub(crate) struct Workload {
    pub(crate) kind: WorkloadKind,
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) gas: u64,
    pub(crate) transactions: u64,
    genesis: TempDir,
}

impl Workload {
    /// Creates `count` blocks over a state of `accounts` accounts.
    pub(crate) fn make(
        kind: WorkloadKind,
        count: u64,
        accounts: u64,
        caches: &LightCaches,
    ) -> Result<Self, Failure> {
        let spec = Arc::new(spec(kind, accounts)?);
        let genesis = tempfile::tempdir()?;
        ensure_genesis(&open(genesis.path())?, &spec)?;
        let mut workload = Self {
            kind,
            spec,
            blocks: Vec::new(),
            gas: 0,
            transactions: 0,
            genesis,
        };
        let scratch = workload.directory()?;
        let store = open(scratch.path())?;
        let importer = Importer::new(store.clone(), workload.spec.clone(), SealCheck::Off);
        for number in 0..count {
            let transactions = (0..kind.per_block())
                .map(|index| transaction(kind, number * kind.per_block() + index, accounts))
                .collect::<Result<Vec<_>, Failure>>()?;
            let block = assemble(&workload.spec, &store, transactions, caches)?;
            importer.import(&block, None)?;
            workload.gas += block.header.gas_used;
            workload.transactions += block.transactions.len() as u64;
            workload.blocks.push(block);
        }
        Ok(workload)
    }

    /// A new data directory with block 0.
    pub(crate) fn directory(&self) -> Result<TempDir, Failure> {
        let directory = tempfile::tempdir()?;
        for entry in std::fs::read_dir(self.genesis.path())? {
            let entry = entry?;
            std::fs::copy(entry.path(), directory.path().join(entry.file_name()))?;
        }
        Ok(directory)
    }
}

/// Opens the store in a directory, with the settings of the node.
pub(crate) fn open(directory: &Path) -> Result<Store, Failure> {
    Ok(Store::open(directory, &StoreOptions::default())?)
}

/// The key of the sender `index`.
fn key(index: u64) -> Result<SecretKey, Failure> {
    let seed = keccak256([b"sender".as_slice(), &index.to_be_bytes()].concat());
    Ok(SecretKey::from_bytes(seed.as_slice())?)
}

/// An account that only receives.
fn receiver(index: u64) -> Address {
    Address::from_word(keccak256([b"receiver".as_slice(), &index.to_be_bytes()].concat()))
}

/// The slot in which the token stores the balance of `owner`.
fn balance_slot(owner: Address) -> U256 {
    U256::from_be_bytes(keccak256([owner.into_word(), B256::ZERO].concat()).0)
}

fn spec(kind: WorkloadKind, accounts: u64) -> Result<ChainSpec, Failure> {
    let gas_limit = kind.gas() * kind.per_block();
    let text = format!(
        r#"{{"config": {{"chainId": {CHAIN_ID}, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0}}, "difficulty": 2, "gasLimit": {gas_limit}}}"#
    );
    let mut spec = ChainSpec::from_genesis_file("bench", &text)?.spec;
    // With the rule of the file the difficulty would rise from block to block.
    spec.difficulty = DifficultyRule::Constant(2);
    let ether = U256::from(10).pow(U256::from(18));
    let funded = |balance| GenesisAccount {
        balance,
        ..Default::default()
    };
    let mut contract = GenesisAccount {
        tx_nonce: 1,
        ..Default::default()
    };
    let mut add_holder = |owner| contract.storage.insert(balance_slot(owner), ether);
    for index in 0..SENDERS {
        let address = key(index)?.address();
        spec.genesis
            .alloc
            .insert(address, funded(ether * U256::from(1000)));
        add_holder(address);
    }
    for index in 0..accounts {
        let address = receiver(index);
        spec.genesis.alloc.insert(address, funded(ether));
        add_holder(address);
    }
    match kind {
        WorkloadKind::Transfers => return Ok(spec),
        WorkloadKind::Token => contract.code = code::token().into(),
        WorkloadKind::Storage => {
            contract.code = code::counters().into();
            contract.storage = (0..code::COUNTER_SLOTS)
                .map(|slot| (U256::from(slot), U256::ONE))
                .collect();
        }
    }
    spec.genesis.alloc.insert(CONTRACT, contract);
    Ok(spec)
}

/// The transaction `index` of the chain.
fn transaction(kind: WorkloadKind, index: u64, accounts: u64) -> Result<Transaction, Failure> {
    // The receivers look random but are the same in every run.
    let to = receiver(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % accounts.max(1));
    let word = |value: u64| U256::from(value).to_be_bytes::<32>();
    let (to, value, input) = match kind {
        WorkloadKind::Transfers => (to, U256::from(index + 1), Vec::new()),
        WorkloadKind::Token => {
            let selector = [0xa9, 0x05, 0x9c, 0xbb];
            let input = [&selector[..], to.into_word().as_slice(), &word(index + 1)].concat();
            (CONTRACT, U256::ZERO, input)
        }
        WorkloadKind::Storage => (CONTRACT, U256::ZERO, [word(index * 16), word(10)].concat()),
    };
    let unsigned = UnsignedTransaction {
        tx_nonce: index / SENDERS,
        gas_price: U256::from(1_000_000_000u64),
        gas: kind.gas(),
        to: Some(to),
        value,
        input: Bytes::from(input),
        ..Default::default()
    };
    Ok(unsigned.sign(&key(index % SENDERS)?, CHAIN_ID, TxForm::Ethereum))
}

/// Builds, executes and seals the next block of `store`.
fn assemble(
    spec: &ChainSpec,
    store: &Store,
    transactions: Vec<Transaction>,
    caches: &LightCaches,
) -> Result<Block, Failure> {
    let view = store.snapshot()?;
    let (number, hash) = view.head()?.ok_or("no head")?;
    let parent = view.header(number, &hash)?.ok_or("no header")?.header;
    let mut header = Header {
        parent_hash: hash,
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: Address::repeat_byte(0xbe),
        difficulty: U256::from(2),
        number: number + 1,
        gas_limit: parent.gas_limit,
        timestamp: parent.timestamp + 13,
        ..Default::default()
    };
    let mut state = BlockState::new(&view, number, parent.state_root);
    let mut executor = Executor::new(spec, &header, &mut state);
    for transaction in &transactions {
        let outcome = executor.transaction(transaction, transaction.recover_sender(true)?)?;
        if !outcome.success {
            return Err("a transaction of the workload failed".into());
        }
    }
    let executed = executor.finish(&[])?;
    header.state_root = state.root()?;
    header.transactions_root = transactions_root(&transactions);
    header.receipts_root = ordered_root(executed.receipts.iter().map(|r| r.encode(spec.receipt_form())));
    header.logs_bloom = executed.logs_bloom;
    header.gas_used = executed.gas_used;
    seal(spec, &mut header, caches)?;
    Ok(Block {
        header,
        transactions,
        uncles: Vec::new(),
    })
}

/// Searches for the nonce of the seal.
fn seal(spec: &ChainSpec, header: &mut Header, caches: &LightCaches) -> Result<(), Failure> {
    let cache = caches.get(spec.schedule.epoch(header.number))?;
    let (hash, boundary) = (header.header_hash(), ethash::boundary(&header.difficulty));
    loop {
        let pow = cache.hash(&hash, header.pow_nonce);
        if pow.final_hash <= boundary {
            header.mix_hash = pow.mix_hash;
            return Ok(());
        }
        header.pow_nonce += 1;
    }
}
