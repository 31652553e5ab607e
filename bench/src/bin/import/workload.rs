//! Chains to import: a genesis, keys, and blocks full of one kind of transaction.
//!
//! Everything follows from fixed seeds. Blocks are executed by the chain's own executor and
//! sealed by real Ethash at difficulty 2, so that every check of an import passes.

use std::path::Path;
use std::sync::Arc;

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::import::Importer;
use chain::rules::body::{SealCheck, transactions_root};
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

/// Accounts that send.
const SENDERS: u64 = 2000;
const CHAIN_ID: u64 = 1337;
const CONTRACT: Address = Address::repeat_byte(0xc0);

/// What the transactions do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Move an amount to one of the other accounts.
    Transfers,
    /// Move tokens to one of the other accounts.
    Token,
    /// Write ten slots of one large contract.
    Storage,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Transfers, Self::Token, Self::Storage];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Token => "ERC-20 transfers",
            Self::Storage => "storage, 10 slots each",
        }
    }

    /// Transactions a block.
    fn per_block(self) -> u64 {
        match self {
            Self::Transfers => 400,
            Self::Token => 300,
            Self::Storage => 200,
        }
    }

    /// Gas limit of a transaction; the block's is theirs together.
    fn gas(self) -> u64 {
        match self {
            Self::Transfers => 21_000,
            Self::Token => 60_000,
            Self::Storage => 95_000,
        }
    }
}

/// A chain, and a data directory that holds its block 0.
pub(crate) struct Workload {
    pub(crate) kind: Kind,
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) gas: u64,
    pub(crate) transactions: u64,
    genesis: TempDir,
}

impl Workload {
    /// Makes `count` blocks over a state of `accounts` accounts.
    pub(crate) fn make(kind: Kind, count: u64, accounts: u64, caches: &LightCaches) -> Result<Self, Failure> {
        let spec = Arc::new(spec(kind, accounts)?);
        let genesis = tempfile::tempdir()?;
        ensure_genesis(&open(genesis.path())?, &spec)?;
        let mut made = Self {
            kind,
            spec,
            blocks: Vec::new(),
            gas: 0,
            transactions: 0,
            genesis,
        };
        let scratch = made.directory()?;
        let store = open(scratch.path())?;
        let importer = Importer::new(store.clone(), made.spec.clone(), SealCheck::Off);
        for number in 0..count {
            let transactions = (0..kind.per_block())
                .map(|index| transaction(kind, number * kind.per_block() + index, accounts))
                .collect::<Result<Vec<_>, Failure>>()?;
            let block = assemble(&made.spec, &store, transactions, caches)?;
            importer.import(&block, None)?;
            made.gas += block.header.gas_used;
            made.transactions += block.transactions.len() as u64;
            made.blocks.push(block);
        }
        Ok(made)
    }

    /// A fresh data directory with block 0.
    pub(crate) fn directory(&self) -> Result<TempDir, Failure> {
        let directory = tempfile::tempdir()?;
        for entry in std::fs::read_dir(self.genesis.path())? {
            let entry = entry?;
            std::fs::copy(entry.path(), directory.path().join(entry.file_name()))?;
        }
        Ok(directory)
    }
}

/// The store in a directory, with the node's own settings.
pub(crate) fn open(directory: &Path) -> Result<Store, Failure> {
    Ok(Store::open(directory, &StoreOptions::default())?)
}

/// The sender `index`: its key.
fn key(index: u64) -> Result<SecretKey, Failure> {
    let seed = keccak256([b"sender".as_slice(), &index.to_be_bytes()].concat());
    Ok(SecretKey::from_bytes(seed.as_slice())?)
}

/// An account that only receives.
fn receiver(index: u64) -> Address {
    Address::from_word(keccak256([b"receiver".as_slice(), &index.to_be_bytes()].concat()))
}

/// Where the token keeps the balance of `owner`.
fn balance_slot(owner: Address) -> U256 {
    U256::from_be_bytes(keccak256([owner.into_word(), B256::ZERO].concat()).0)
}

fn spec(kind: Kind, accounts: u64) -> Result<ChainSpec, Failure> {
    let gas_limit = kind.gas() * kind.per_block();
    let text = format!(
        r#"{{"config": {{"chainId": {CHAIN_ID}, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0}}, "difficulty": 2, "gasLimit": {gas_limit}}}"#
    );
    let mut spec = ChainSpec::from_genesis_file("bench", &text)?.spec;
    // The file's rule would raise it from block to block.
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
    let mut hold = |owner| contract.storage.insert(balance_slot(owner), ether);
    for index in 0..SENDERS {
        let address = key(index)?.address();
        spec.genesis
            .alloc
            .insert(address, funded(ether * U256::from(1000)));
        hold(address);
    }
    for index in 0..accounts {
        let address = receiver(index);
        spec.genesis.alloc.insert(address, funded(ether));
        hold(address);
    }
    match kind {
        Kind::Transfers => return Ok(spec),
        Kind::Token => contract.code = code::token().into(),
        Kind::Storage => {
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
fn transaction(kind: Kind, index: u64, accounts: u64) -> Result<Transaction, Failure> {
    // Spread over the receivers without order, the same in every run.
    let to = receiver(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % accounts.max(1));
    let word = |value: u64| U256::from(value).to_be_bytes::<32>();
    let (to, value, input) = match kind {
        Kind::Transfers => (to, U256::from(index + 1), Vec::new()),
        Kind::Token => {
            let selector = [0xa9, 0x05, 0x9c, 0xbb];
            let input = [&selector[..], to.into_word().as_slice(), &word(index + 1)].concat();
            (CONTRACT, U256::ZERO, input)
        }
        Kind::Storage => (CONTRACT, U256::ZERO, [word(index * 16), word(10)].concat()),
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

/// Executes and seals the next block of `store`.
fn assemble(
    spec: &ChainSpec,
    store: &Store,
    transactions: Vec<Transaction>,
    caches: &LightCaches,
) -> Result<Block, Failure> {
    let view = store.snapshot()?;
    let (number, hash) = view.head()?.ok_or("no head")?;
    let above = view.header(number, &hash)?.ok_or("no header")?.header;
    let mut header = Header {
        parent_hash: hash,
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: Address::repeat_byte(0xbe),
        difficulty: U256::from(2),
        number: number + 1,
        gas_limit: above.gas_limit,
        timestamp: above.timestamp + 13,
        ..Default::default()
    };
    let mut state = BlockState::new(&view, number, above.state_root);
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
