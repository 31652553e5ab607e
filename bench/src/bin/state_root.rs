//! Measures the cost of a state root, which depends on the number of changed keys and not on the
//! size of the state.
//!
//! States of several sizes are in a real store: plain accounts, and one contract with as many slots
//! as there are accounts. Each block changes some accounts and some slots. The trie is either read
//! again for each block (`cold`) or kept in memory between blocks, as the importer does (`kept`).
//! For comparison, `HashBuilder` of alloy-trie computes the same root from all leaves.
//! `bench/README.md` explains the figures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use alloy_trie::{HashBuilder, Nibbles};
use bench::Failure;
use chain::ChainSpec;
use chain::genesis::ensure_genesis;
use chain::spec::GenesisAccount;
use chain::trie::{StateTrie, TrieStats};
use clap::Parser;
use primitives::{Address, B256, Encodable, U256, keccak256};
use store::{
    AccountKey, AccountRecord, AccountVersion, AccountWrite, BlockReads, SlotWrite, StateReads, Store,
    StoreOptions, WriteBatch,
};

/// An account after a block.
fn write(address: Address, account: AccountRecord, slots: Vec<SlotWrite>) -> AccountWrite {
    AccountWrite {
        address,
        key: AccountKey::of(&address),
        version: AccountVersion {
            account: Some(account),
            incarnation: 0,
        },
        slots,
    }
}

/// The contract with many slots.
const CONTRACT: Address = Address::repeat_byte(0xc0);
/// Largest state whose root is also computed from its leaves; larger ones take long and show
/// nothing new.
const REBUILT_MAX: u64 = 100_000;

/// State root benchmark.
#[derive(Debug, Parser)]
struct Options {
    /// Numbers of accounts in the state, and of slots of the contract.
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,1000000")]
    sizes: Vec<u64>,
    /// Numbers of accounts, and of slots, that a block changes.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    changes: Vec<u64>,
    /// Number of blocks of each kind; the median is printed.
    #[arg(long, default_value_t = 15)]
    blocks: u64,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    println!(
        "{:>9} {:>8} {:>5} | {:>7} {:>7} {:>7} | {:>9} {:>9} {:>9} | {:>8}",
        "state", "changed", "trie", "read", "hashed", "written", "root us", "write us", "us/key", "ratio"
    );
    for size in &options.sizes {
        let mut state = BenchState::make(*size)?;
        let rebuilt = (*size <= REBUILT_MAX).then(|| state.rebuild());
        for changed in options.changes.iter().filter(|changed| **changed <= *size) {
            for kept in [false, true] {
                state.measure(*changed, kept, options.blocks, rebuilt)?;
            }
        }
        if let Some(rebuilt) = rebuilt {
            println!("{size:>9} rebuilt from its leaves: {:.0} us", micros(rebuilt));
        }
    }
    Ok(())
}

fn account(index: u64) -> Address {
    Address::from_word(keccak256(index.to_be_bytes()))
}

/// A state in a store, with the values that are needed to change it and to check the result.
struct BenchState {
    store: Store,
    _directory: tempfile::TempDir,
    size: u64,
    /// The number of the last block.
    number: u64,
    root: B256,
    balances: Vec<U256>,
    slots: Vec<U256>,
    contract: AccountRecord,
    /// State of the pseudo-random generator that chooses what a block changes.
    next: u64,
}

/// The cost of one block.
struct BlockCost {
    work: TrieStats,
    root: Duration,
    write: Duration,
}

impl BenchState {
    fn make(size: u64) -> Result<Self, Failure> {
        let mut spec = ChainSpec::dev();
        let balances = vec![U256::from(1_000_000_007u64); usize::try_from(size)?];
        spec.genesis.alloc = (0..size)
            .zip(&balances)
            .map(|(index, balance)| {
                let plain = GenesisAccount {
                    balance: *balance,
                    ..Default::default()
                };
                (account(index), plain)
            })
            .collect();
        let slots = vec![U256::from(7); balances.len()];
        let contract = GenesisAccount {
            tx_nonce: 1,
            storage: (0..size)
                .map(U256::from)
                .zip(slots.clone())
                .collect::<BTreeMap<_, _>>(),
            ..Default::default()
        };
        spec.genesis.alloc.insert(CONTRACT, contract);
        let directory = tempfile::tempdir()?;
        let store = Store::open(directory.path(), &StoreOptions::default())?;
        let hash = ensure_genesis(&store, &spec)?;
        let view = store.snapshot()?;
        let root = view.header(0, &hash)?.ok_or("no block 0")?.header.state_root;
        let contract = view.account_at(&CONTRACT, 0)?.account.ok_or("no contract")?;
        Ok(Self {
            store,
            _directory: directory,
            size,
            number: 0,
            root,
            balances,
            slots,
            contract,
            next: 0,
        })
    }

    /// Changes `count` accounts and as many slots in each of `blocks` blocks, and prints the
    /// median.
    fn measure(
        &mut self,
        count: u64,
        kept: bool,
        blocks: u64,
        rebuilt: Option<Duration>,
    ) -> Result<(), Failure> {
        let mut trie = StateTrie::new(self.root);
        if kept {
            // The first block does not count, because nothing is in memory yet.
            self.block(&mut trie, count)?;
        }
        let mut costs = Vec::new();
        for _ in 0..blocks.max(1) {
            if !kept {
                trie = StateTrie::new(self.root);
            }
            costs.push(self.block(&mut trie, count)?);
        }
        if self.size <= REBUILT_MAX && self.root != self.root_of_leaves() {
            return Err("the root differs from the root of the leaves".into());
        }
        costs.sort_unstable_by_key(|block| block.root + block.write);
        let BlockCost { work, root, write } = &costs[costs.len() / 2];
        println!(
            "{:>9} {:>8} {:>5} | {:>7} {:>7} {:>7} | {:>9.0} {:>9.0} {:>9.2} | {:>8}",
            self.size,
            2 * count,
            if kept { "kept" } else { "cold" },
            work.read,
            work.hashed,
            work.written,
            micros(*root),
            micros(*write),
            micros(*root + *write) / (2 * count) as f64,
            rebuilt.map_or_else(String::new, |rebuilt| format!(
                "{:.4}",
                micros(*root) / micros(rebuilt)
            ))
        );
        Ok(())
    }

    /// Runs one block: changes `count` accounts and as many slots, computes the root and writes the
    /// nodes.
    fn block(&mut self, trie: &mut StateTrie, count: u64) -> Result<BlockCost, Failure> {
        let mut accounts = BTreeMap::new();
        let mut slots = BTreeMap::new();
        for _ in 0..count {
            let (account, slot) = (self.pick(), self.pick());
            self.balances[account] += U256::ONE;
            self.slots[slot] += U256::ONE;
            accounts.insert(account, self.balances[account]);
            slots.insert(slot, self.slots[slot]);
        }
        self.number += 1;
        let batch: WriteBatch = self.store.batch()?;
        let block = batch.write(|tables| {
            let started = Instant::now();
            let slots: Vec<_> = slots
                .iter()
                .map(|(slot, value)| SlotWrite::new(U256::from(*slot), *value))
                .collect();
            let contract = AccountKey::of(&CONTRACT);
            let owner = contract.storage(0);
            let changed = slots.iter().map(|slot| (slot.hash, slot.value));
            trie.set_slots(&*tables, owner, self.contract.storage_root, changed)?;
            trie.hash_storages();
            if let Some(root) = trie.storage_root(owner) {
                self.contract.storage_root = root;
            }
            let plain = accounts.iter().map(|(index, balance)| {
                let record = AccountRecord {
                    balance: *balance,
                    ..Default::default()
                };
                write(account(*index as u64), record, Vec::new())
            });
            let writes: Vec<_> = plain.chain([write(CONTRACT, self.contract, slots)]).collect();
            let changed: Vec<_> = writes
                .iter()
                .map(|write| (write.key, write.version.account))
                .collect();
            trie.set_accounts(&*tables, &changed)?;
            self.root = trie.root();
            let root = started.elapsed();
            trie.write_to(tables)?;
            let write = started.elapsed() - root;
            // The leaves of the trie. What they take is measured by `commits`.
            tables.put_state(self.number, &writes)?;
            Ok::<_, store::StoreError>(BlockCost {
                work: trie.take_stats(),
                root,
                write,
            })
        })?;
        batch.commit()?;
        Ok(block)
    }

    /// The next pseudo-random index; the indices are the same in every run.
    const fn pick(&mut self) -> usize {
        self.next = self
            .next
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.next >> 16) % self.size) as usize
    }

    /// Time to compute the root from all leaves, which are sorted already.
    fn rebuild(&self) -> Duration {
        let (accounts, slots) = self.leaves();
        let started = Instant::now();
        std::hint::black_box(root_of(&slots));
        std::hint::black_box(root_of(&accounts));
        started.elapsed()
    }

    fn root_of_leaves(&self) -> B256 {
        root_of(&self.leaves().0)
    }

    /// Keys and values of the account trie and of the storage trie of the contract.
    fn leaves(&self) -> (Leaves, Leaves) {
        let plain = self.balances.iter().enumerate().map(|(index, balance)| {
            let record = AccountRecord {
                balance: *balance,
                ..Default::default()
            };
            (keccak256(account(index as u64)), rlp(&record))
        });
        let contract = (keccak256(CONTRACT), rlp(&self.contract));
        let slots = self.slots.iter().enumerate().map(|(slot, value)| {
            let key = keccak256(U256::from(slot).to_be_bytes::<32>());
            let mut rlp = Vec::new();
            value.encode(&mut rlp);
            (key, rlp)
        });
        (plain.chain([contract]).collect(), slots.collect())
    }
}

/// The leaves of a trie, sorted by key.
type Leaves = BTreeMap<B256, Vec<u8>>;

fn root_of(leaves: &Leaves) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in leaves {
        builder.add_leaf(Nibbles::unpack(key), value);
    }
    builder.root()
}

/// The RLP of an account in the trie.
fn rlp(account: &AccountRecord) -> Vec<u8> {
    let fields: [&dyn Encodable; 4] = [
        &account.tx_nonce,
        &account.balance,
        &account.storage_root,
        &account.code_hash,
    ];
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<_, dyn Encodable>(&fields, &mut rlp);
    rlp
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
