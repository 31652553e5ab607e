//! A chain of transfers among many accounts, whose blocks are made and imported one by one.
//!
//! Seals are not checked. Knows the chain and its blocks; does not measure what the disk does.

use std::sync::Arc;
use std::time::Instant;

use bench::{CHAIN_ID, Failure, SENDERS, chain_spec, next_block, receiver, receiver_of, sender_key};
use chain::ChainSpec;
use chain::import::{Imported, Importer};
use chain::rules::seal::SealCheck;
use chain::spec::GenesisAccount;
use primitives::{Block, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use store::{BlockReads, StateReads, Store};

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
        let keys = (0..SENDERS).map(sender_key).collect::<Result<Vec<_>, _>>()?;
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
        next_block(&self.spec, store, transactions)
    }

    /// The transfer number `index` of the chain.
    fn transfer(&self, index: u64) -> Transaction {
        let unsigned = UnsignedTransaction {
            tx_nonce: index / SENDERS,
            gas_price: U256::from(1_000_000_000u64),
            gas: GAS,
            to: Some(receiver_of(index, self.accounts)),
            value: U256::from(index + 1),
            ..Default::default()
        };
        let key = &self.keys[(index % SENDERS) as usize];
        unsigned.sign(key, CHAIN_ID, TxForm::Ethereum)
    }
}

fn spec(keys: &[SecretKey], accounts: u64) -> Result<ChainSpec, Failure> {
    let mut spec = chain_spec(GAS_LIMIT)?;
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
