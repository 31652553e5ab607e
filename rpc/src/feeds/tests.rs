//! Followers of a real chain in memory, against the plainest of models: a stack of blocks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::import::BlockId;
use chain::mining::build::build;
use chain::pool::{Origin, PoolConfig};
use chain::rules::body::SealCheck;
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Address, Block, Bytes, SecretKey, TxForm, U256, UnsignedTransaction};
use store::Store;

use super::cursor::Cursor;
use super::journal::HeadJournal;
use super::logs::LogCache;
use super::{Feeds, Step};
use crate::decode::FromParam;
use crate::facts::NodeFacts;
use crate::logs_filter::LogCriteria;
use crate::modules::Dialect;

struct Facts;

impl NodeFacts for Facts {
    fn client_version(&self) -> &str {
        ""
    }

    fn network_id(&self) -> u64 {
        0
    }

    fn is_listening(&self) -> bool {
        false
    }

    fn peer_count(&self) -> u64 {
        0
    }
}

fn open() -> Chain {
    let config = ChainConfig {
        spec: Arc::new(ChainSpec::dev()),
        seals: SealCheck::Off,
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(7),
        extra_data: Bytes::new(),
    };
    Chain::open(Store::in_memory().expect("a store in memory"), config).expect("a new chain")
}

fn head(chain: &Chain) -> BlockId {
    chain.view().expect("a view").head_id()
}

/// An empty block on the head; `tag` tells it from others there.
fn next_block(chain: &Chain, tag: u64) -> Block {
    let view = chain.view().expect("a view");
    let mut settings = chain.settings();
    settings.extra_data = tag.to_be_bytes().to_vec().into();
    let timestamp = view.head().header.timestamp.max(1_000_000) + 1;
    let ready = chain.pool().ready();
    let draft = build(
        chain.spec(),
        view.snapshot(),
        view.head(),
        timestamp,
        &settings,
        ready,
        &[],
    );
    draft.expect("a block").block
}

/// Imports an empty block on the head.
fn extend(chain: &Chain, tag: u64) -> BlockId {
    let block = next_block(chain, tag);
    chain.import(block).expect("a good block");
    head(chain)
}

/// Branches that leave the first one at these heights, each of `len` blocks above that: made on
/// chains of their own, as blocks are built on heads alone.
fn branches(forks: &[usize], len: usize) -> Vec<VecDeque<Block>> {
    let mut branches: Vec<VecDeque<Block>> = Vec::new();
    for (which, fork) in forks.iter().enumerate() {
        let chain = open();
        for block in branches.first().into_iter().flatten().take(*fork) {
            chain.import(block.clone()).expect("a good block");
        }
        let blocks = (0..len).map(|at| {
            let block = next_block(&chain, (which * 1000 + at) as u64);
            chain.import(block.clone()).expect("a good block");
            block
        });
        branches.push(blocks.collect());
    }
    branches
}

/// What a follower believes the chain to be, down to where it began.
struct Model(Vec<BlockId>);

impl Model {
    fn follow(&mut self, chain: &Chain, steps: &[Step]) {
        let view = chain.view().expect("a view");
        for step in steps {
            match step {
                Step::Removed(id) => assert_eq!(self.0.pop(), Some(*id), "only the top is removed"),
                Step::Applied(id) => {
                    let header = super::cursor::header(&view, id).expect("a header");
                    if let Some(top) = self.0.last() {
                        assert_eq!(
                            header.expect("a header").parent_hash,
                            top.hash,
                            "only on the top is applied"
                        );
                    }
                    self.0.push(*id);
                }
            }
        }
    }
}

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn followers_end_at_the_head_by_either_way() {
    let mut reorganizations = 0;
    for seed in 1..=3 {
        let mut random = Random(seed * 0x9e37_79b9_7f4a_7c15);
        let chain = open();
        let events = chain.subscribe();
        let journal = HeadJournal::new();
        let genesis = head(&chain);
        let mut branches = branches(&[0, 2, 5], 60);
        // By the journal, by the chain alone, and by the journal but stopping anywhere.
        let start = || Cursor::now(&journal, || Ok(chain.view().expect("a view"))).expect("a cursor");
        let mut followers: Vec<_> = (0..3).map(|_| (start(), Model(vec![genesis]))).collect();
        while branches.iter().any(|branch| !branch.is_empty()) {
            // Several blocks of one branch at a time, so that branches overtake each other.
            let which = random.below(3) as usize;
            for _ in 0..=random.below(8) {
                import_next(&chain, &mut branches[which]);
            }
            while let Ok(event) = events.try_recv() {
                reorganizations += usize::from(!event.reverted.is_empty());
                journal.push(event);
            }
            for (which, (cursor, model)) in followers.iter_mut().enumerate() {
                if random.below(4) > 0 {
                    continue;
                }
                let view = chain.view().expect("a view");
                let way = match which {
                    1 => cursor.walk(journal.next(), &view),
                    _ => cursor.way(&journal, journal.next(), &view),
                };
                let way = way.expect("a way");
                let taken = match which {
                    2 => random.below(way.steps.len() as u64 + 1) as usize,
                    _ => way.steps.len(),
                };
                model.follow(&chain, &way.steps[..taken]);
                *cursor = way.stopped(taken, &view).expect("a place");
                if which < 2 {
                    assert_eq!(model.0.last(), Some(&head(&chain)), "seed {seed}");
                    assert!(cursor.is_current(&journal));
                }
            }
        }
        for (cursor, model) in &mut followers {
            while !cursor.is_current(&journal) {
                let view = chain.view().expect("a view");
                let way = cursor.way(&journal, journal.next(), &view).expect("a way");
                model.follow(&chain, &way.steps);
                *cursor = way.end;
            }
            assert_eq!(model.0.last(), Some(&head(&chain)), "seed {seed}");
        }
    }
    assert!(reorganizations >= 10, "{reorganizations}");
}

/// Imports the next block of a branch, if its parent is there already.
fn import_next(chain: &Chain, branch: &mut VecDeque<Block>) {
    let Some(block) = branch.front() else { return };
    let view = chain.view().expect("a view");
    if view
        .header_by_hash(&block.header.parent_hash)
        .expect("a read")
        .is_some()
    {
        chain
            .import(branch.pop_front().expect("the front"))
            .expect("a good block");
    }
}

#[test]
fn what_is_long_comes_in_parts() {
    let chain = open();
    let genesis = head(&chain);
    let journal = HeadJournal::new();
    let cursor = Cursor::now(&journal, || Ok(chain.view().expect("a view"))).expect("a cursor");
    let mut last = genesis;
    for tag in 0..1100 {
        last = extend(&chain, tag);
    }
    // Nothing is in the journal, as if it had been dropped: the way is the chain's.
    let mut model = Model(vec![genesis]);
    let view = chain.view().expect("a view");
    let way = cursor.walk(journal.next(), &view).expect("a way");
    assert_eq!(way.steps.len(), 1024);
    assert!(!way.end.is_current(&journal));
    model.follow(&chain, &way.steps);
    let way = way.end.way(&journal, journal.next(), &view).expect("a way");
    assert_eq!(way.steps.len(), 76);
    assert!(way.end.is_current(&journal));
    model.follow(&chain, &way.steps);
    assert_eq!(model.0.last(), Some(&last));
}

#[test]
fn a_cursor_ahead_of_the_journal_sees_nothing_twice() {
    let chain = open();
    let events = chain.subscribe();
    let journal = HeadJournal::new();
    extend(&chain, 1);
    // The head has moved, and the journal does not know yet.
    let cursor = Cursor::now(&journal, || Ok(chain.view().expect("a view"))).expect("a cursor");
    journal.push(events.recv().expect("an event"));
    let view = chain.view().expect("a view");
    let way = cursor.way(&journal, journal.next(), &view).expect("a way");
    assert!(way.steps.is_empty() && way.end.is_current(&journal), "{way:?}");
    let second = extend(&chain, 2);
    journal.push(events.recv().expect("an event"));
    let view = chain.view().expect("a view");
    let way = cursor.way(&journal, journal.next(), &view).expect("a way");
    assert_eq!(way.steps, [Step::Applied(second)]);
}

#[test]
fn a_block_that_was_deleted_and_came_back_has_its_logs() {
    let chain = open();
    let logging = UnsignedTransaction {
        gas_price: U256::from(20_000_000_000_u64),
        gas: 100_000,
        // A constructor that logs once, and creates nothing.
        input: Bytes::from_static(&[0x60, 0, 0x60, 0, 0xa0, 0]),
        ..Default::default()
    };
    let key = SecretKey::from_hex(chain::spec::DEV_ACCOUNTS[0].1).expect("a key");
    let logging = logging.sign(&key, chain.spec().chain_id, TxForm::Native);
    chain
        .submit_transaction(logging, Origin::Local)
        .expect("a good transaction");
    let block = next_block(&chain, 1);
    chain.import(block.clone()).expect("a good block");
    let id = head(&chain);

    let cache = LogCache::default();
    let all = LogCriteria::from_json("{}").expect("criteria");
    let count = || {
        let mut count = 0;
        let logs = cache.get(&chain.view().expect("a view"), &id).expect("a read");
        let taken = logs.write(&all, false, Dialect::Native, &mut |_| {
            count += 1;
            Ok(())
        });
        taken.expect("nothing fails");
        count
    };
    chain.set_head(0).expect("a lower head");
    assert_eq!(count(), 0, "deleted");
    chain.import(block).expect("a good block");
    assert_eq!(count(), 1);
    chain.set_head(0).expect("a lower head");
    assert_eq!(count(), 1, "in memory yet");
}

#[test]
fn the_thread_ends_with_the_feeds() {
    let chain = open();
    let feeds = Feeds::start(chain.clone(), Arc::new(Facts), Arc::default()).expect("a thread");
    let cursor = feeds.cursor().expect("a cursor");
    extend(&chain, 1);
    let begun = Instant::now();
    while feeds.is_current(&cursor) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the feeds learn of a block"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let weak = Arc::downgrade(&feeds);
    drop(feeds);
    while weak.strong_count() > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "nobody holds the feeds"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
