//! The transaction pool: what waits to be mined.
//!
//! A transaction is *pending* when every nonce before it, from the account's own on, waits
//! too; otherwise it is *queued*. Knows accounts' nonces and balances as they were handed
//! to it with the last head; reads no store and recovers no signatures.

mod ready;

pub use ready::ReadyTransactions;

use crate::evm::intrinsic_gas;
use crate::spec::{ChainSpec, RulesAt};
use parking_lot::Mutex;
use primitives::{Address, B256, Transaction, TxForm, U256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits and prices of the pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Cheapest gas price taken from others, in sha.
    pub price_floor: U256,
    /// By how many percent a replacement must be dearer.
    pub price_bump_percent: u64,
    /// Most transactions in the pool.
    pub transactions_max: usize,
    /// Most queued transactions of one account.
    pub account_queue_max: usize,
    /// Largest transaction, in bytes of its stored form.
    pub transaction_bytes_max: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            price_floor: U256::from(1_000_000_000u64),
            price_bump_percent: 10,
            transactions_max: 40_960 + 1024,
            account_queue_max: 64,
            transaction_bytes_max: 128 << 10,
        }
    }
}

/// Who brought a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This node's own accounts and its RPC: exempt from the price floor and from eviction.
    Local,
    /// Anyone else.
    Remote,
}

/// Why the pool refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum PoolError {
    /// In the pool already.
    #[error("known transaction: {0:x}")]
    Known(B256),
    /// Too large.
    #[error("oversized data: {got} bytes, at most {max} are allowed")]
    Oversized { got: usize, max: usize },
    /// The nonce is used already.
    #[error("nonce too low: got {got}, want at least {expected}")]
    NonceTooLow { got: u64, expected: u64 },
    /// Cheaper than the floor, or than everything in a full pool.
    #[error("transaction underpriced: got {got}, want at least {expected}")]
    Underpriced { got: U256, expected: U256 },
    /// Not enough dearer than the transaction it would replace.
    #[error("replacement transaction underpriced: got {got}, want at least {expected}")]
    ReplacementUnderpriced { got: U256, expected: U256 },
    /// The sender cannot pay.
    #[error("insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}")]
    Funds { balance: U256, cost: U256 },
    /// Less gas than the data alone costs.
    #[error("intrinsic gasRemaining too low: got {got}, want {expected}")]
    IntrinsicGas { got: u64, expected: u64 },
    /// More gas than a block has.
    #[error("exceeds block gasRemaining limit: got {got}, want at most {limit}")]
    BlockGas { got: u64, limit: u64 },
    /// Too many transactions of this account wait for a missing nonce.
    #[error(
        "{got} transactions of this account are queued, at most {max} are allowed: nonce {missing} is missing"
    )]
    AccountQueue { got: usize, max: usize, missing: u64 },
    /// 9-field transactions are not taken yet.
    #[error("Classic tx is not currently enabled")]
    ClassicDisabled,
    /// A form that this chain's blocks never have.
    #[error("{0:?} transactions do not belong to this chain at this height")]
    Form(TxForm),
    /// Only for application chains.
    #[error("shardingFlag {0} belongs to an application chain, not into the base chain's pool")]
    ShardingFlag(u64),
    /// Nobody may send one.
    #[error("invalid sender: system transactions are made by blocks alone")]
    System,
}

/// A transaction in the pool.
#[derive(Clone, Debug)]
pub struct PooledTransaction {
    /// The transaction.
    pub transaction: Arc<Transaction>,
    /// Its hash.
    pub hash: B256,
    /// Who sent it.
    pub sender: Address,
    /// Who brought it.
    pub origin: Origin,
    /// Counts arrivals; among equal prices the earlier goes first.
    pub order: u64,
}

/// An account's standing at the head block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The account's nonce.
    pub tx_nonce: u64,
    /// The account's balance.
    pub balance: U256,
}

/// What holds for transactions of the next block.
#[derive(Clone, Copy, Debug)]
pub struct NextBlock {
    /// Its number.
    pub number: u64,
    /// Its gas limit.
    pub gas_limit: u64,
}

/// Pending and queued transactions by account and nonce.
#[derive(Clone, Debug, Default)]
pub struct PoolContent {
    /// Can be mined now.
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
    /// Wait for a missing nonce.
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
}

/// The pool. Shared by reference; every call is short.
#[derive(Debug)]
pub struct TxPool {
    spec: Arc<ChainSpec>,
    config: PoolConfig,
    inner: Mutex<Inner>,
    generation: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    next: NextBlock,
    accounts: HashMap<Address, Account>,
    by_hash: HashMap<B256, (Address, u64)>,
    /// Transactions of others, cheapest and latest first: who leaves a full pool.
    evictable: BTreeSet<(U256, std::cmp::Reverse<u64>, B256)>,
    arrivals: u64,
    count: usize,
}

#[derive(Debug, Default)]
struct Account {
    standing: Standing,
    transactions: BTreeMap<u64, PooledTransaction>,
}

impl Account {
    /// The first nonce from the account's own on that is not waiting.
    fn next_nonce(&self) -> u64 {
        let waiting = self
            .transactions
            .range(self.standing.tx_nonce..)
            .map(|(nonce, _)| *nonce);
        let contiguous = waiting
            .zip(self.standing.tx_nonce..)
            .take_while(|(a, b)| a == b)
            .count();
        self.standing.tx_nonce + contiguous as u64
    }
}

impl Inner {
    fn remove(&mut self, sender: Address, tx_nonce: u64) -> Option<PooledTransaction> {
        let account = self.accounts.get_mut(&sender)?;
        let removed = account.transactions.remove(&tx_nonce)?;
        self.count -= 1;
        if account.transactions.is_empty() {
            self.accounts.remove(&sender);
        }
        for hash in hashes(&removed) {
            self.by_hash.remove(&hash);
        }
        self.evictable.remove(&eviction_key(&removed));
        Some(removed)
    }
}

fn hashes(pooled: &PooledTransaction) -> impl Iterator<Item = B256> {
    std::iter::once(pooled.hash).chain(pooled.transaction.ethereum_hash())
}

fn eviction_key(pooled: &PooledTransaction) -> (U256, std::cmp::Reverse<u64>, B256) {
    (
        pooled.transaction.gas_price,
        std::cmp::Reverse(pooled.order),
        pooled.hash,
    )
}

/// Gas and value together at most.
fn cost(transaction: &Transaction) -> U256 {
    let gas = U256::from(transaction.gas).saturating_mul(transaction.gas_price);
    gas.saturating_add(transaction.value)
}

impl TxPool {
    /// An empty pool.
    pub fn new(spec: Arc<ChainSpec>, config: PoolConfig, next: NextBlock) -> Self {
        let inner = Inner {
            next,
            accounts: HashMap::new(),
            by_hash: HashMap::new(),
            evictable: BTreeSet::new(),
            arrivals: 0,
            count: 0,
        };
        Self {
            spec,
            config,
            inner: Mutex::new(inner),
            generation: AtomicU64::new(0),
        }
    }

    /// Counts changes: equal numbers mean an equal pool.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes a transaction in. `standing` is the sender's at the head block.
    ///
    /// # Errors
    /// [`PoolError`] saying why not; then the pool is unchanged.
    pub fn add(
        &self,
        transaction: Transaction,
        sender: Address,
        standing: Standing,
        origin: Origin,
    ) -> Result<B256, PoolError> {
        let hash = transaction.hash();
        let mut inner = self.inner.lock();
        if inner.by_hash.contains_key(&hash) {
            return Err(PoolError::Known(hash));
        }
        self.check(&transaction, standing, origin, inner.next)?;
        let tx_nonce = transaction.tx_nonce;
        let bump = U256::from(100 + self.config.price_bump_percent);
        let mut replaces = false;
        if let Some(account) = inner.accounts.get(&sender) {
            if let Some(old) = account.transactions.get(&tx_nonce) {
                replaces = true;
                let expected = (old.transaction.gas_price.saturating_mul(bump)).div_ceil(U256::from(100));
                let expected = expected.max(old.transaction.gas_price + U256::from(1));
                if transaction.gas_price < expected {
                    return Err(PoolError::ReplacementUnderpriced {
                        got: transaction.gas_price,
                        expected,
                    });
                }
            }
            let missing = account.next_nonce();
            let got = account.transactions.range(missing..).count();
            if !replaces && tx_nonce > missing && got >= self.config.account_queue_max {
                return Err(PoolError::AccountQueue {
                    got,
                    max: self.config.account_queue_max,
                    missing,
                });
            }
        }
        inner.arrivals += 1;
        let order = inner.arrivals;
        let pooled = PooledTransaction {
            transaction: Arc::new(transaction),
            hash,
            sender,
            origin,
            order,
        };
        if !replaces {
            self.make_room(&mut inner, &pooled)?;
        }
        inner.remove(sender, tx_nonce);
        for hash in hashes(&pooled) {
            inner.by_hash.insert(hash, (sender, tx_nonce));
        }
        if origin == Origin::Remote {
            inner.evictable.insert(eviction_key(&pooled));
        }
        let account = inner.accounts.entry(sender).or_default();
        account.standing = standing;
        account.transactions.insert(tx_nonce, pooled);
        inner.count += 1;
        drop(inner);
        self.changed();
        Ok(hash)
    }

    /// Evicts the cheapest of others' transactions from a full pool.
    fn make_room(&self, inner: &mut Inner, newcomer: &PooledTransaction) -> Result<(), PoolError> {
        if inner.count < self.config.transactions_max {
            return Ok(());
        }
        let got = newcomer.transaction.gas_price;
        let Some((price, _, hash)) = inner.evictable.first().copied() else {
            return Err(PoolError::Underpriced {
                got,
                expected: U256::MAX,
            });
        };
        if newcomer.origin == Origin::Remote && got <= price {
            return Err(PoolError::Underpriced {
                got,
                expected: price + U256::from(1),
            });
        }
        if let Some((sender, tx_nonce)) = inner.by_hash.get(&hash).copied() {
            inner.remove(sender, tx_nonce);
        }
        Ok(())
    }

    fn check(
        &self,
        transaction: &Transaction,
        standing: Standing,
        origin: Origin,
        next: NextBlock,
    ) -> Result<(), PoolError> {
        let rules = self.spec.at(next.number);
        match (transaction.form, rules) {
            (TxForm::System, _) => return Err(PoolError::System),
            (TxForm::Native, RulesAt::Moac { .. }) => {}
            (
                TxForm::Classic,
                RulesAt::Moac {
                    classic_transactions, ..
                },
            ) => {
                if !classic_transactions {
                    return Err(PoolError::ClassicDisabled);
                }
            }
            (TxForm::Ethereum, RulesAt::Ethereum { protected, .. })
                if protected || !transaction.is_protected() => {}
            (form, _) => return Err(PoolError::Form(form)),
        }
        if transaction.syscnt != 0 {
            return Err(PoolError::System);
        }
        if transaction.sharding_flag != 0 {
            return Err(PoolError::ShardingFlag(transaction.sharding_flag));
        }
        let (got, max) = (transaction.encode().len(), self.config.transaction_bytes_max);
        if got > max {
            return Err(PoolError::Oversized { got, max });
        }
        if transaction.gas > next.gas_limit {
            return Err(PoolError::BlockGas {
                got: transaction.gas,
                limit: next.gas_limit,
            });
        }
        if origin == Origin::Remote && transaction.gas_price < self.config.price_floor {
            let expected = self.config.price_floor;
            return Err(PoolError::Underpriced {
                got: transaction.gas_price,
                expected,
            });
        }
        if transaction.tx_nonce < standing.tx_nonce {
            return Err(PoolError::NonceTooLow {
                got: transaction.tx_nonce,
                expected: standing.tx_nonce,
            });
        }
        let cost = cost(transaction);
        if standing.balance < cost {
            return Err(PoolError::Funds {
                balance: standing.balance,
                cost,
            });
        }
        let expected = intrinsic_gas(rules, &transaction.input, transaction.to.is_none());
        if transaction.gas < expected {
            return Err(PoolError::IntrinsicGas {
                got: transaction.gas,
                expected,
            });
        }
        Ok(())
    }

    /// The accounts with transactions in the pool.
    pub fn senders(&self) -> Vec<Address> {
        self.inner.lock().accounts.keys().copied().collect()
    }

    /// Follows a new head: accounts' standings, and what no longer can be mined leaves.
    pub fn follow_head(&self, next: NextBlock, standings: impl IntoIterator<Item = (Address, Standing)>) {
        let mut inner = self.inner.lock();
        inner.next = next;
        for (address, standing) in standings {
            let Some(account) = inner.accounts.get_mut(&address) else {
                continue;
            };
            account.standing = standing;
            let gone: Vec<u64> = account
                .transactions
                .iter()
                .filter(|(tx_nonce, pooled)| {
                    **tx_nonce < standing.tx_nonce
                        || cost(&pooled.transaction) > standing.balance
                        || pooled.transaction.gas > next.gas_limit
                })
                .map(|(tx_nonce, _)| *tx_nonce)
                .collect();
            for tx_nonce in gone {
                inner.remove(address, tx_nonce);
            }
        }
        drop(inner);
        self.changed();
    }

    /// A waiting transaction by its hash, or by its Ethereum hash.
    pub fn get(&self, hash: &B256) -> Option<PooledTransaction> {
        let inner = self.inner.lock();
        let (sender, tx_nonce) = inner.by_hash.get(hash)?;
        inner.accounts.get(sender)?.transactions.get(tx_nonce).cloned()
    }

    /// The nonce an account's next transaction should have, pending ones counted;
    /// `None` where none waits.
    pub fn next_nonce(&self, address: &Address) -> Option<u64> {
        self.inner.lock().accounts.get(address).map(Account::next_nonce)
    }

    /// How many transactions are pending, and how many queued.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        let mut counts = (0, 0);
        for account in inner.accounts.values() {
            let pending = (account.next_nonce() - account.standing.tx_nonce) as usize;
            counts.0 += pending;
            counts.1 += account.transactions.len() - pending;
        }
        counts
    }

    /// The hashes of the pending transactions, in no order.
    pub fn pending_hashes(&self) -> Vec<B256> {
        let inner = self.inner.lock();
        let pending = inner.accounts.values().flat_map(|account| {
            let range = account.standing.tx_nonce..account.next_nonce();
            account.transactions.range(range).map(|(_, pooled)| pooled.hash)
        });
        pending.collect()
    }

    /// Everything in the pool.
    pub fn content(&self) -> PoolContent {
        let inner = self.inner.lock();
        let mut content = PoolContent::default();
        for (address, account) in &inner.accounts {
            let next = account.next_nonce();
            for (tx_nonce, pooled) in &account.transactions {
                let part = if *tx_nonce < next {
                    &mut content.pending
                } else {
                    &mut content.queued
                };
                part.entry(*address)
                    .or_default()
                    .insert(*tx_nonce, pooled.transaction.clone());
            }
        }
        content
    }

    /// The pending transactions, for a block builder.
    pub fn ready(&self) -> ReadyTransactions {
        let inner = self.inner.lock();
        let pending = inner.accounts.iter().map(|(address, account)| {
            let range = account.standing.tx_nonce..account.next_nonce();
            (
                *address,
                account
                    .transactions
                    .range(range)
                    .map(|(_, pooled)| pooled.clone())
                    .collect(),
            )
        });
        ReadyTransactions::new(pending)
    }
}

#[cfg(test)]
mod tests;
