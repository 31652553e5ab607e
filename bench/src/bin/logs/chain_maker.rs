//! Makes up a chain: headers, two transactions a block, receipts with logs, all written as the
//! importer writes them. Nothing is executed and no root is right; readers of logs see neither.
//!
//! Contracts, events and accounts are drawn by rank, a few often and most hardly ever, as on
//! living chains. Beside them are planted logs, whose number and distances are exact.

use std::error::Error;
use std::sync::Arc;

use chain::ChainSpec;
use chain::genesis::ensure_genesis;
use primitives::{
    Address, B256, Header, Log, Receipt, ReceiptOutcome, SYSTEM_SENDER, Transaction, U256, keccak256,
};
use store::{BlockBody, BlockReads, HeaderRecord, Store, StoreError, Tables};

/// Contracts that write the usual logs.
const CONTRACTS: u64 = 5_000;
/// Events: first topics.
const EVENTS: u64 = 60;
/// Accounts: second and third topics.
const ACCOUNTS: u64 = 2_000_000;
/// Most usual logs in a block; half as many on average.
const LOGS_MAX: u64 = 8;

/// Logs whose number is known: one in every `distance` blocks up to a chain length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted {
    /// Up to this block.
    pub(crate) blocks: u64,
    /// So many.
    pub(crate) matches: u64,
}

impl Planted {
    pub(crate) fn new(blocks: u64, matches: u64) -> Self {
        Self {
            blocks,
            matches: matches.min(blocks),
        }
    }

    /// Its own contract.
    pub(crate) fn address(&self) -> Address {
        Address::from_word(self.topic())
    }

    /// Its own second topic.
    pub(crate) fn topic(&self) -> B256 {
        named(
            "planted",
            self.blocks.wrapping_mul(1 << 20).wrapping_add(self.matches),
        )
    }

    fn in_block(&self, number: u64) -> bool {
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

/// The account of this rank, as a topic has it.
pub(crate) fn account(rank: u64) -> B256 {
    Address::from_word(named("account", rank)).into_word()
}

/// A small generator: the chain is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A rank below `count`, rank r about as often as 1/(r+1).
    fn rank(&mut self, count: u64) -> u64 {
        let share = (self.roll() >> 11) as f64 / (1u64 << 53) as f64;
        ((count as f64 + 1.0).powf(share) as u64)
            .saturating_sub(1)
            .min(count - 1)
    }
}

/// The chain as far as it is made.
pub(crate) struct ChainMaker {
    store: Option<Store>,
    planted: Vec<Planted>,
    commit_blocks: u64,
    dice: Dice,
    head: Header,
    head_hash: B256,
    total_difficulty: U256,
    logs: u64,
}

impl ChainMaker {
    /// Begins on block 0 of the dev network.
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
            return Err("the folder holds a chain already".into());
        }
        Ok(Self {
            store: Some(store),
            planted,
            commit_blocks: commit_blocks.max(1),
            dice: Dice(1),
            head: record.header,
            head_hash,
            total_difficulty: record.total_difficulty,
            logs: 0,
        })
    }

    /// The head's number.
    pub(crate) fn head(&self) -> u64 {
        self.head.number
    }

    /// Logs written.
    pub(crate) fn logs(&self) -> u64 {
        self.logs
    }

    /// Lets go of the store.
    pub(crate) fn close(&mut self) -> Store {
        self.store.take().expect("closed once, then opened again")
    }

    /// Takes the store again.
    pub(crate) fn reopen(&mut self, store: Store) {
        self.store = Some(store);
    }

    /// Makes blocks up to `number`; without `indexed` their logs are left out of the index.
    pub(crate) fn extend(&mut self, number: u64, indexed: bool) -> Result<(), StoreError> {
        let store = self.store.clone().expect("open while blocks are made");
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
        let count = self.dice.roll() % (LOGS_MAX + 1);
        let mut logs: Vec<_> = (0..count).map(|_| self.usual_log()).collect();
        let planted = self.planted.iter().filter(|planted| planted.in_block(number));
        logs.extend(planted.map(Planted::log));
        self.logs += logs.len() as u64;
        let second = logs.split_off(logs.len() / 2);
        let receipt = |gas, logs| Receipt::new(ReceiptOutcome::Status(true), gas, logs);
        vec![receipt(50_000, logs), receipt(100_000, second)]
    }

    fn usual_log(&mut self) -> Log {
        let dice = &mut self.dice;
        Log {
            address: contract(dice.rank(CONTRACTS)),
            topics: vec![
                event(dice.rank(EVENTS)),
                account(dice.rank(ACCOUNTS)),
                account(dice.rank(ACCOUNTS)),
            ],
            data: vec![7; 32].into(),
        }
    }
}

/// The rules under which the chain is read.
pub(crate) fn spec() -> Arc<ChainSpec> {
    Arc::new(ChainSpec::dev())
}
