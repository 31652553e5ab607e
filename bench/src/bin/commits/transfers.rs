//! A chain of transfers among many accounts, whose blocks are made and imported one by one.
//!
//! Seals are not checked. Knows the chain and its blocks; does not measure what the disk does.

use std::sync::Arc;
use std::time::Instant;

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::import::{Imported, Importer};
use chain::rules::body::transactions_root;
use chain::rules::seal::SealCheck;
use chain::spec::{DifficultyRule, GenesisAccount};
use chain::state::BlockState;
use chain::trie::ordered_root;
use primitives::{
    Address, Block, EMPTY_UNCLES_HASH, Header, SecretKey, Transaction, TxForm, U256, UnsignedTransaction,
    keccak256,
};
use store::{BlockReads, StateReads, Store};

use crate::Failure;

/// Number of accounts that send.
const SENDERS: u64 = 2000;
const CHAIN_ID: u64 = 1337;
/// Gas of a transfer.
const GAS: u64 = 21_000;
/// Gas limit of a block.
const GAS_LIMIT: u64 = 100_000_000;

/// The chain, and how many transfers it has had.
pub(crate) struct TransferChain {
    spec: Arc<ChainSpec>,
    accounts: u64,
    keys: Vec<SecretKey>,
    transfers: u64,
}

impl TransferChain {
    /// A chain without blocks.
    pub(crate) fn begin(accounts: u64) -> Result<Self, Failure> {
        let keys = (0..SENDERS).map(key).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            spec: Arc::new(spec(&keys, accounts)?),
            accounts,
            keys,
            transfers: 0,
        })
    }

    /// The chain that `store` has.
    pub(crate) fn of_store(store: &Store, accounts: u64) -> Result<Self, Failure> {
        let mut chain = Self::begin(accounts)?;
        let view = store.snapshot()?;
        let (head, _) = view.head()?.ok_or("no head")?;
        // The senders take turns, so their nonces tell how many transfers there were.
        for key in &chain.keys {
            let version = view.account_at(&key.address(), head)?;
            chain.transfers += version.account.ok_or("no sender")?.tx_nonce;
        }
        Ok(chain)
    }

    pub(crate) fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// Imports `count` blocks with `transfers` transfers each. Returns the milliseconds that each
    /// import took, without the time for making the block.
    pub(crate) fn import_blocks(
        &mut self,
        store: &Store,
        count: u64,
        transfers: u64,
    ) -> Result<Vec<f64>, Failure> {
        let importer = Importer::new(store.clone(), self.spec.clone(), SealCheck::Off);
        (0..count)
            .map(|_| {
                let block = self.next_block(store, transfers)?;
                let started = Instant::now();
                let imported = importer.import(&block, None)?;
                let took = started.elapsed().as_secs_f64() * 1e3;
                match imported {
                    Imported::Head { .. } => Ok(took),
                    _ => Err("a block did not become the head".into()),
                }
            })
            .collect()
    }

    fn next_block(&mut self, store: &Store, transfers: u64) -> Result<Block, Failure> {
        let transactions = (self.transfers..self.transfers + transfers)
            .map(|index| self.transfer(index))
            .collect();
        self.transfers += transfers;
        assemble(&self.spec, store, transactions)
    }

    /// The transfer number `index` of the chain.
    fn transfer(&self, index: u64) -> Transaction {
        // The receivers look random but are the same in every run.
        let to = receiver(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.accounts.max(1));
        let unsigned = UnsignedTransaction {
            tx_nonce: index / SENDERS,
            gas_price: U256::from(1_000_000_000u64),
            gas: GAS,
            to: Some(to),
            value: U256::from(index + 1),
            ..Default::default()
        };
        let key = &self.keys[(index % SENDERS) as usize];
        unsigned.sign(key, CHAIN_ID, TxForm::Ethereum)
    }
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

fn spec(keys: &[SecretKey], accounts: u64) -> Result<ChainSpec, Failure> {
    let text = format!(
        r#"{{"config": {{"chainId": {CHAIN_ID}, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0}}, "difficulty": 2, "gasLimit": {GAS_LIMIT}}}"#
    );
    let mut spec = ChainSpec::from_genesis_file("bench", &text)?.spec;
    // With the rule of the file the difficulty would rise from block to block.
    spec.difficulty = DifficultyRule::Constant(2);
    let addresses = keys.iter().map(SecretKey::address);
    for address in addresses.chain((0..accounts).map(receiver)) {
        let account = GenesisAccount {
            balance: U256::from(10).pow(U256::from(21)),
            ..Default::default()
        };
        spec.genesis.alloc.insert(address, account);
    }
    Ok(spec)
}

/// Builds and executes the next block of `store`. Its seal is empty.
fn assemble(spec: &ChainSpec, store: &Store, transactions: Vec<Transaction>) -> Result<Block, Failure> {
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
            return Err("a transfer failed".into());
        }
    }
    let executed = executor.finish(&[])?;
    header.state_root = state.root()?;
    header.transactions_root = transactions_root(&transactions);
    header.receipts_root = ordered_root(executed.receipts.iter().map(|r| r.encode(spec.receipt_form())));
    header.logs_bloom = executed.logs_bloom;
    header.gas_used = executed.gas_used;
    Ok(Block {
        header,
        transactions,
        uncles: Vec::new(),
    })
}
