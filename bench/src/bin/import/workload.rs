//! Chains to import: block 0, and blocks with one kind of transaction.
//!
//! The blocks are executed by the executor of the node and sealed with Ethash
//! at difficulty 2, so that they pass all checks of an import.

use std::path::Path;
use std::sync::Arc;

use bench::{CHAIN_ID, Failure, SENDERS, chain_spec, next_block, receiver, receiver_of, sender_key};
use chain::ChainSpec;
use chain::genesis::ensure_genesis;
use chain::import::Importer;
use chain::rules::seal::SealCheck;
use chain::spec::GenesisAccount;
use ethash::LightCaches;
use primitives::{
    Address, B256, Block, Bytes, Header, Transaction, TxForm, U256, UnsignedTransaction, keccak256,
};
use store::{Store, StoreOptions};
use tempfile::TempDir;

use crate::code;

const CONTRACT: Address = Address::repeat_byte(0xc0);

/// The effect of the transactions of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkloadKind {
    /// Transfer an amount to another account.
    Transfers,
    /// Transfer tokens to another account.
    Token,
    /// Write ten slots of one large contract.
    Storage,
    /// One transfer to another account: nearly empty blocks, and many of them.
    Sparse,
}

impl WorkloadKind {
    pub(crate) const ALL: [Self; 4] = [Self::Transfers, Self::Token, Self::Storage, Self::Sparse];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Token => "ERC-20 transfers",
            Self::Storage => "storage, 10 slots each",
            Self::Sparse => "one transfer a block",
        }
    }

    /// Number of transactions in a block.
    const fn per_block(self) -> u64 {
        match self {
            Self::Transfers => 400,
            Self::Token => 300,
            Self::Storage => 200,
            Self::Sparse => 1,
        }
    }

    /// Number of blocks, for as many full blocks.
    const fn blocks(self, full: u64) -> u64 {
        match self {
            Self::Sparse => full * 200,
            _ => full,
        }
    }

    /// Gas limit of a transaction. The limit of a block is the sum over its transactions.
    const fn gas(self) -> u64 {
        match self {
            Self::Transfers => 21_000,
            // The rules allow no lower limit of a block.
            Self::Sparse => 100_000,
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
    /// Creates `count` full blocks, or more if they are nearly empty, over a state of `accounts`
    /// accounts.
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
        for number in 0..kind.blocks(count) {
            let transactions = (0..kind.per_block())
                .map(|index| transaction(kind, number * kind.per_block() + index, accounts))
                .collect::<Result<Vec<_>, Failure>>()?;
            let mut block = next_block(&workload.spec, &store, transactions)?;
            seal(&workload.spec, &mut block.header, caches)?;
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

/// The slot in which the token stores the balance of `owner`.
fn balance_slot(owner: Address) -> U256 {
    U256::from_be_bytes(keccak256([owner.into_word(), B256::ZERO].concat()).0)
}

fn spec(kind: WorkloadKind, accounts: u64) -> Result<ChainSpec, Failure> {
    let gas_limit = kind.gas() * kind.per_block();
    let mut spec = chain_spec(gas_limit)?;
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
        let address = sender_key(index)?.address();
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
        WorkloadKind::Transfers | WorkloadKind::Sparse => return Ok(spec),
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
    let to = receiver_of(index, accounts);
    let word = |value: u64| U256::from(value).to_be_bytes::<32>();
    let (to, value, input) = match kind {
        WorkloadKind::Transfers | WorkloadKind::Sparse => (to, U256::from(index + 1), Vec::new()),
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
    Ok(unsigned.sign(&sender_key(index % SENDERS)?, CHAIN_ID, TxForm::Ethereum))
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
