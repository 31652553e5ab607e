//! Searches for logs on random trees of blocks.
//!
//! With either plan, a search returns the logs that a walk over all receipts of the canonical chain
//! finds. The log index has the rows of a store that imported the canonical chain only.

use std::collections::HashMap;
use std::time::Duration;

use chain::import::{BlockId, Imported};
use chain::logs::{FoundLog, LogError, LogLimits, LogPlan, LogQuery};
use chain::query_limit::{CancelFlag, QueryLimit, QueryStop};
use chain::spec::GenesisAccount;
use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, Log, Transaction};
use proptest::prelude::*;
use proptest::test_runner::Config;
use store::TableId;

use crate::common::{Maker, Node, Plan, hex, rows, sign, unsigned};
use crate::scenes::{block_id, check_faults, view};

/// The contract that emits a log with `topics` topics from its input, or two equal logs if `twice`.
fn contract(topics: u8, twice: bool) -> Address {
    let mut address = [0xc0 + topics; 20];
    address[19] = u8::from(twice);
    Address::from(address)
}

fn code(topics: u8, twice: bool) -> Vec<u8> {
    let mut once = Vec::new();
    for topic in (0..topics).rev() {
        // PUSH1 offset, CALLDATALOAD
        once.extend([0x60, 32 * topic, 0x35]);
    }
    // A word of zeros as data, LOGn.
    once.extend(hex("6020 6000"));
    once.push(0xa0 + topics);
    if twice {
        [once.clone(), once].concat()
    } else {
        once
    }
}

fn spec() -> ChainSpec {
    let mut spec = ChainSpec::dev();
    for topics in 0..=4 {
        for twice in [false, true] {
            let account = GenesisAccount {
                tx_nonce: 1,
                code: code(topics, twice).into(),
                ..Default::default()
            };
            spec.genesis.alloc.insert(contract(topics, twice), account);
        }
    }
    spec
}

/// A call of a contract with these topics.
#[derive(Clone, Debug)]
struct Call {
    topics: u8,
    twice: bool,
    values: [u8; 4],
}

fn any_call() -> impl Strategy<Value = Call> {
    (0..=4u8, any::<bool>(), [0..3u8, 0..3u8, 0..3u8, 0..3u8]).prop_map(|(topics, twice, values)| Call {
        topics,
        twice,
        values,
    })
}

impl Call {
    fn transaction(&self, tx_nonce: u64) -> Transaction {
        let words = self.values.map(|value| B256::with_last_byte(value).0).concat();
        let mut plain = unsigned(tx_nonce, Some(contract(self.topics, self.twice)), 0, &words);
        plain.gas = 100_000;
        sign(0, &plain)
    }
}

#[derive(Clone, Debug)]
struct RandomBlock {
    /// The number of blocks between the parent and the newest one.
    parent: usize,
    mark: u8,
    calls: Vec<Call>,
}

fn random_block() -> impl Strategy<Value = RandomBlock> {
    let parent = prop_oneof![6 => Just(0usize), 4 => 0..8usize];
    let calls = proptest::collection::vec(any_call(), 0..4);
    (parent, any::<u8>(), calls).prop_map(|(parent, mark, calls)| RandomBlock { parent, mark, calls })
}

/// The parts of a query. The walk over the receipts has its own test for a match.
#[derive(Clone, Debug)]
struct RandomQuery {
    addresses: Vec<Address>,
    topics: Vec<Vec<B256>>,
    first: u64,
    blocks: u64,
}

fn random_query() -> impl Strategy<Value = RandomQuery> {
    let address = (0..=4u8, any::<bool>()).prop_map(|(topics, twice)| contract(topics, twice));
    // The last value is in no log.
    let topic = (0..4u8).prop_map(B256::with_last_byte);
    let position = prop_oneof![
        2 => Just(Vec::new()),
        5 => proptest::collection::vec(topic, 1..3),
    ];
    (
        proptest::collection::vec(address, 0..4),
        proptest::collection::vec(position, 0..5),
        0..20u64,
        prop_oneof![Just(u64::MAX), 0..20u64],
    )
        .prop_map(|(addresses, topics, first, blocks)| RandomQuery {
            addresses,
            topics,
            first,
            blocks,
        })
}

impl RandomQuery {
    fn matches(&self, log: &Log) -> bool {
        if !self.addresses.is_empty() && !self.addresses.contains(&log.address) {
            return false;
        }
        for (position, alternatives) in self.topics.iter().enumerate() {
            let Some(topic) = log.topics.get(position) else {
                return false;
            };
            if !alternatives.is_empty() && !alternatives.contains(topic) {
                return false;
            }
        }
        true
    }

    /// Walks over all receipts of all blocks.
    fn walk(&self, view: &View, last: u64) -> Vec<FoundLog> {
        let mut found = Vec::new();
        for number in self.first..=last.min(view.head_number()) {
            let block = view.block(number).expect("read").expect("canonical");
            let receipts = view.receipts(&block.id()).expect("read").expect("executed");
            let mut log_index = 0;
            for (transaction_index, receipt) in receipts.iter().enumerate() {
                for log in &receipt.logs {
                    if self.matches(log) {
                        found.push(FoundLog {
                            block: block.id(),
                            transaction_index,
                            transaction_hash: block.body.transactions[transaction_index].hash(),
                            log_index,
                            log: log.clone(),
                        });
                    }
                    log_index += 1;
                }
            }
        }
        found
    }

    fn check(&self, view: &View) {
        let query = LogQuery::new(self.addresses.clone(), self.topics.clone());
        let last = self.first.saturating_add(self.blocks);
        let expected = self.walk(view, last);
        for plan in [None, Some(LogPlan::Index), Some(LogPlan::Blooms)] {
            let search = view.logs_by(plan, self.first..=last, &query, LogLimits::NONE);
            let found: Result<Vec<_>, _> = search.expect("any range").collect();
            assert_eq!(found.expect("a sound store"), expected, "{plan:?} {self:?}");
        }
        if let Some(one) = expected.first() {
            let of_block = view
                .block_logs(one.block, &query)
                .expect("read")
                .expect("executed");
            let expected: Vec<_> = expected
                .iter()
                .filter(|log| log.block == one.block)
                .cloned()
                .collect();
            assert_eq!(of_block, expected);
        }
    }
}

fn check_forks(plan: &[RandomBlock], queries: &[RandomQuery]) {
    let mut maker = Maker::new(spec());
    let node = Node::new(&maker.spec);
    let mut made = vec![maker.genesis];
    let mut nonces: HashMap<B256, u64> = HashMap::from([(maker.genesis, 0)]);
    for random in plan {
        let parent = made[made.len() - 1 - random.parent.min(made.len() - 1)];
        let first = nonces[&parent];
        let transactions: Vec<_> = (first..)
            .zip(&random.calls)
            .map(|(nonce, call)| call.transaction(nonce))
            .collect();
        let after = first + transactions.len() as u64;
        let block = maker.block(
            parent,
            Plan {
                transactions,
                ..Plan::marked(random.mark)
            },
        );
        let imported = node.import(&block).expect("valid");
        if imported == Imported::Known {
            continue;
        }
        made.push(block.hash());
        nonces.insert(block.hash(), after);
        let reorganized = matches!(&imported, Imported::Head { reverted, .. } if !reverted.is_empty());
        if reorganized {
            let name = TableId::LogKeyToBlocks.name();
            let fresh = rows(&maker.fresh(node.head()));
            assert!(
                node.rows()[name] == fresh[name],
                "{name} differs from a fresh import"
            );
            let view = view(&node, &maker);
            for query in queries {
                query.check(&view);
            }
        }
    }
    let view = view(&node, &maker);
    for query in queries {
        query.check(&view);
    }
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

proptest! {
    #![proptest_config(Config { cases: 48, failure_persistence: None, ..Config::default() })]

    #[test]
    fn searches_return_the_logs_in_the_receipts(
        plan in proptest::collection::vec(random_block(), 1..24),
        queries in proptest::collection::vec(random_query(), 12),
    ) {
        check_forks(&plan, &queries);
    }
}

/// A node with two blocks with logs of the same contract, and a side block beside the second one.
fn scene() -> (Maker, Node, Vec<Block>) {
    let mut maker = Maker::new(spec());
    let call = |value| Call {
        topics: 2,
        twice: true,
        values: [value, 9, 0, 0],
    };
    let one = maker.block(maker.genesis, Plan::with(vec![call(1).transaction(0)]));
    let two = maker.block(
        one.hash(),
        Plan::with(vec![call(1).transaction(1), call(2).transaction(2)]),
    );
    let side = maker.block(one.hash(), Plan::with(vec![call(3).transaction(1)]));
    let node = Node::new(&maker.spec);
    node.take(&[one.clone(), two.clone(), side.clone()]);
    (maker, node, vec![one, two, side])
}

/// The query for logs with this first topic.
fn topic(value: u8) -> LogQuery {
    LogQuery::new(Vec::new(), vec![vec![B256::with_last_byte(value)]])
}

#[test]
fn logs_of_a_side_block_are_in_no_range() {
    let (mut maker, node, blocks) = scene();
    let counts = |view: &View| {
        [1, 2, 3].map(|value| {
            let query = topic(value);
            let search = view.logs(0..=u64::MAX, &query, LogLimits::default());
            let logs: Result<Vec<_>, _> = search.expect("any range").collect();
            logs.expect("a sound store").len()
        })
    };
    let before = view(&node, &maker);
    assert_eq!(counts(&before), [4, 2, 0]);
    let side = before.block_logs(block_id(&blocks[2]), &topic(3)).expect("read");
    assert_eq!(side, None, "the side block was not executed");
    // The side block becomes canonical, and the second block becomes a side block.
    node.take(&maker.line(blocks[2].hash(), 1, 9));
    let view = view(&node, &maker);
    assert_eq!(counts(&view), [2, 0, 2]);
    let side = view
        .block_logs(block_id(&blocks[2]), &topic(3))
        .expect("read")
        .expect("executed");
    assert_eq!(side.len(), 2);
    assert_eq!(side[1].transaction_hash, blocks[2].transactions[0].hash());
    assert_eq!((side[1].transaction_index, side[1].log_index), (0, 1));
    let second = view
        .block_logs(block_id(&blocks[1]), &topic(2))
        .expect("read")
        .expect("executed");
    assert_eq!(second[0].transaction_hash, blocks[1].transactions[1].hash());
    assert_eq!((second[0].transaction_index, second[0].log_index), (1, 2));
    let unknown = BlockId {
        number: 2,
        hash: B256::ZERO,
    };
    assert_eq!(view.block_logs(unknown, &topic(3)).expect("read"), None);
}

#[test]
fn limits_are_exact() {
    let (maker, node, _) = scene();
    let view = view(&node, &maker);
    let run = |range: std::ops::RangeInclusive<u64>, limits: LogLimits| {
        let query = topic(1);
        let search = view.logs(range, &query, limits)?;
        search
            .collect::<Result<Vec<_>, LogError>>()
            .map(|logs| logs.len())
    };
    let limits = |results_max, range_max, blocks_read_max| LogLimits {
        results_max,
        range_max,
        blocks_read_max,
    };
    // The chain has blocks 0, 1 and 2, and four logs in two of them.
    assert_eq!(run(0..=99, limits(4, 3, 2)).expect("within the limits"), 4);
    let error = run(0..=99, limits(3, 3, 2)).expect_err("a log too many");
    assert!(matches!(error, LogError::Results { max: 3 }), "{error}");
    let error = run(0..=99, limits(4, 2, 2)).expect_err("a block too many");
    assert!(matches!(error, LogError::Range { got: 3, max: 2 }), "{error}");
    let error = run(0..=99, limits(4, 3, 1)).expect_err("a read too many");
    assert!(matches!(error, LogError::BlocksRead { max: 1 }), "{error}");
    assert_eq!(run(1..=1, limits(2, 1, 1)).expect("within the limits"), 2);
    assert_eq!(run(3..=99, limits(0, 0, 0)).expect("nothing above the head"), 0);
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range has no logs")]
    let reversed = run(2..=1, limits(0, 0, 0));
    assert_eq!(reversed.expect("an empty range"), 0);
}

#[test]
fn a_search_stops_when_it_is_late_or_nobody_waits() {
    let (maker, node, _) = scene();
    let view = view(&node, &maker);
    let query = topic(1);
    let abandoned = CancelFlag::default();
    abandoned.cancel();
    let stops = [
        (
            QueryLimit::new(Duration::ZERO),
            QueryStop::Timeout(Duration::ZERO),
        ),
        (
            QueryLimit::new(Duration::MAX).cancelled_by(&abandoned),
            QueryStop::Cancelled,
        ),
    ];
    for plan in [LogPlan::Index, LogPlan::Blooms] {
        for (work, expected) in &stops {
            let search = view.logs_by(Some(plan), 0..=2, &query, LogLimits::default());
            let mut search = search.expect("any range").limited_by(work.clone());
            match search.next() {
                Some(Err(LogError::Stopped(stop))) => assert_eq!(stop, *expected, "{plan:?}"),
                other => panic!("{plan:?}: got {other:?}, expected {expected:?}"),
            }
        }
    }
}

#[test]
fn a_search_reads_block_by_block_and_ends_at_an_error() {
    let (maker, node, blocks) = scene();
    let view = view(&node, &maker);
    let query = topic(1);
    let mut search = view.logs(0..=2, &query, LogLimits::default()).expect("any range");
    assert!(
        search
            .next()
            .is_some_and(|log| log.is_ok_and(|log| log.block.number == 1))
    );
    assert_eq!(search.blocks_read(), 1, "the second block is not read yet");
    drop(search);

    let id = [2u64.to_be_bytes().as_slice(), blocks[1].hash().as_slice()].concat();
    let batch = node.store.batch().expect("batch");
    batch
        .write(|tables| tables.put(TableId::BlockToReceipts, &id, &[0xc1]))
        .expect("written");
    batch.commit().expect("committed");
    let view = crate::scenes::view(&node, &maker);
    for plan in [LogPlan::Index, LogPlan::Blooms] {
        let search = view.logs_by(Some(plan), 0..=2, &query, LogLimits::default());
        let results: Vec<_> = search.expect("any range").collect();
        assert_eq!(results.len(), 3, "two logs and the error");
        let error = results[2].as_ref().expect_err("a damaged row").to_string();
        assert!(
            error.contains("block_to_receipts row 0000000000000002"),
            "{error}"
        );
    }
}
