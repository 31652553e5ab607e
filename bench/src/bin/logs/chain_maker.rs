//! Creates a synthetic chain: headers, two transactions a block, and receipts with logs, written as
//! the importer writes them. Nothing is executed and the roots are wrong, but queries for logs do
//! not read them.
//!
//! Contracts, events and accounts are chosen by rank: a few often and most rarely, as on real
//! chains. There are also planted logs, whose number and distances are exact.

use std::error::Error;
use std::sync::Arc;

use chain::ChainSpec;
use chain::genesis::ensure_genesis;
use primitives::{
    Address, B256, Header, Log, Receipt, ReceiptOutcome, SYSTEM_SENDER, Transaction, U256, keccak256,
};
use store::{BlockBody, BlockReads, HeaderRecord, Store, StoreError, Tables};

/// Number of contracts that write the ordinary logs.
const CONTRACTS: u64 = 5_000;
/// Number of events, which are first topics.
const EVENTS: u64 = 60;
/// Number of accounts, which are second and third topics.
const ACCOUNTS: u64 = 2_000_000;
/// Most ordinary logs in a block; the average is half of this.
const LOGS_MAX: u64 = 8;

/// Logs whose number is known: `matches` logs at equal distances in the first `blocks` blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted {
    /// The last block that can have such a log.
    pub(crate) blocks: u64,
    /// Number of logs.
    pub(crate) matches: u64,
}

impl Planted {
    pub(crate) fn new(blocks: u64, matches: u64) -> Self {
        Self {
            blocks,
            matches: matches.min(blocks),
        }
    }

    /// The contract that writes only these logs.
    pub(crate) fn address(&self) -> Address {
        Address::from_word(self.topic())
    }

    /// The second topic that only these logs have.
    pub(crate) fn topic(&self) -> B256 {
        named(
            "planted",
            self.blocks.wrapping_mul(1 << 20).wrapping_add(self.matches),
        )
    }

    const fn in_block(&self, number: u64) -> bool {
        number <= self.blocks && number.is_multiple_of(self.blocks / self.matches)
    }

    fn log(&self) -> Log {
        Log {
            address: self.address(),
            topics: vec![event(0), self.topic()],
            ..Default::default()
        }
    }
}

fn named(kind: &str, index: u64) -> B256 {
    keccak256([kind.as_bytes(), &index.to_be_bytes()].concat())
}

/// The contract of this rank.
pub(crate) fn contract(rank: u64) -> Address {
    Address::from_word(named("contract", rank))
}

/// The event of this rank.
pub(crate) fn event(rank: u64) -> B256 {
    named("event", rank)
}

/// The account of this rank, as a topic.
pub(crate) fn account(rank: u64) -> B256 {
    Address::from_word(named("account", rank)).into_word()
}

/// A pseudo-random generator with a fixed seed, so that the chain is the same in every run.
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A rank below `count`. The probability of rank r is about proportional to 1/(r+1).
    fn rank(&mut self, count: u64) -> u64 {
        let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((count as f64 + 1.0).powf(share) as u64)
            .saturating_sub(1)
            .min(count - 1)
    }
}

/// Creates the blocks of a synthetic chain.
pub(crate) struct ChainMaker {
    store: Option<Store>,
    planted: Vec<Planted>,
    commit_blocks: u64,
    random: Random,
    head: Header,
    head_hash: B256,
    total_difficulty: U256,
    logs: u64,
}

impl ChainMaker {
    /// Starts with block 0 of the development network. The store must have no other blocks.
    pub(crate) fn new(
        store: Store,
        planted: Vec<Planted>,
        commit_blocks: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let head_hash = ensure_genesis(&store, &ChainSpec::dev())?;
        let record = store
            .snapshot()?
            .header_by_hash(&head_hash)?
            .ok_or("no block 0")?;
        if store.snapshot()?.head()? != Some((0, head_hash)) {
            return Err("the folder has a chain already".into());
        }
        Ok(Self {
            store: Some(store),
            planted,
            commit_blocks: commit_blocks.max(1),
            random: Random(1),
            head: record.header,
            head_hash,
            total_difficulty: record.total_difficulty,
            logs: 0,
        })
    }

    /// Number of the head.
    pub(crate) const fn head(&self) -> u64 {
        self.head.number
    }

    /// Number of logs so far.
    pub(crate) const fn logs(&self) -> u64 {
        self.logs
    }

    /// Gives up the store, so that it can be opened again.
    pub(crate) const fn close(&mut self) -> Store {
        self.store.take().expect("the store is open")
    }

    /// Sets the store after it was opened again.
    pub(crate) fn reopen(&mut self, store: Store) {
        self.store = Some(store);
    }

    /// Creates blocks up to `number`. Their logs are added to the index only if `indexed` is true.
    pub(crate) fn extend(&mut self, number: u64, indexed: bool) -> Result<(), StoreError> {
        let store = self.store.clone().expect("the store is open");
        while self.head.number < number {
            let end = number.min(self.head.number + self.commit_blocks);
            let batch = store.batch()?;
            batch.write(|tables| {
                while self.head.number < end {
                    self.block(tables, indexed)?;
                }
                Ok::<_, StoreError>(())
            })?;
            batch.commit()?;
        }
        Ok(())
    }

    fn block(&mut self, tables: &mut Tables<'_>, indexed: bool) -> Result<(), StoreError> {
        let number = self.head.number + 1;
        let receipts = self.receipts(number);
        let transactions = vec![
            Transaction::system(2 * number),
            Transaction::system(2 * number + 1),
        ];
        let mut header = Header {
            parent_hash: self.head_hash,
            number,
            timestamp: self.head.timestamp + 10,
            gas_limit: self.head.gas_limit,
            difficulty: self.head.difficulty,
            ..Default::default()
        };
        for receipt in &receipts {
            header.logs_bloom |= receipt.logs_bloom;
        }
        let hash = header.hash();
        self.total_difficulty += header.difficulty;
        let record = HeaderRecord {
            header,
            total_difficulty: self.total_difficulty,
            executed: true,
        };
        let body = BlockBody {
            senders: vec![SYSTEM_SENDER; transactions.len()],
            transactions,
            uncles: Vec::new(),
        };
        let to_index = if indexed { receipts.as_slice() } else { &[] };
        tables.put_block(&hash, &record, &body)?;
        tables.put_receipts(number, &hash, &receipts)?;
        tables.put_canonical(number, &hash, &body.transactions, to_index)?;
        (self.head, self.head_hash) = (record.header, hash);
        Ok(())
    }

    fn receipts(&mut self, number: u64) -> Vec<Receipt> {
        let count = self.random.next() % (LOGS_MAX + 1);
        let mut logs: Vec<_> = (0..count).map(|_| self.ordinary_log()).collect();
        let planted = self.planted.iter().filter(|planted| planted.in_block(number));
        logs.extend(planted.map(Planted::log));
        self.logs += logs.len() as u64;
        let second = logs.split_off(logs.len() / 2);
        let receipt = |gas, logs| Receipt::new(ReceiptOutcome::Status(true), gas, logs);
        vec![receipt(50_000, logs), receipt(100_000, second)]
    }

    fn ordinary_log(&mut self) -> Log {
        let random = &mut self.random;
        Log {
            address: contract(random.rank(CONTRACTS)),
            topics: vec![
                event(random.rank(EVENTS)),
                account(random.rank(ACCOUNTS)),
                account(random.rank(ACCOUNTS)),
            ],
            data: vec![7; 32].into(),
        }
    }
}

/// The rules for reading the chain.
pub(crate) fn spec() -> Arc<ChainSpec> {
    Arc::new(ChainSpec::dev())
}
