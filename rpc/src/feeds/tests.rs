//! Followers of a real chain in memory, compared with a simple model: a stack of blocks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::Chain;
use chain::import::BlockId;
use primitives::{Block, Bytes, SecretKey, TxForm, U256, UnsignedTransaction};

use super::cursor::HeadCursor;
use super::journal::HeadJournal;
use super::logs::LogCache;
use super::{BlockChange, Feeds};
use crate::decode::FromParam;
use crate::logs_filter::LogCriteria;
use crate::modules::NameStyle;
use crate::test_node::{LoneNode, next_block, open_chain};

fn head(chain: &Chain) -> BlockId {
    chain.view().expect("a view").head_id()
}

/// Imports an empty block on the head.
fn extend(chain: &Chain, tag: u64) -> BlockId {
    let block = next_block(chain, &tag.to_be_bytes());
    chain.import(block).expect("a good block");
    head(chain)
}

/// Branches of `len` blocks each, which leave the first branch at these heights. Each is made on a
/// chain of its own, because blocks are built on heads only.
fn branches(forks: &[usize], len: usize) -> Vec<VecDeque<Block>> {
    let mut branches: Vec<VecDeque<Block>> = Vec::new();
    for (branch, fork) in forks.iter().enumerate() {
        let chain = open_chain();
        for block in branches.first().into_iter().flatten().take(*fork) {
            chain.import(block.clone()).expect("a good block");
        }
        let blocks = (0..len).map(|index| {
            let block = next_block(&chain, &(branch * 1000 + index).to_be_bytes());
            chain.import(block.clone()).expect("a good block");
            block
        });
        branches.push(blocks.collect());
    }
    branches
}

/// The canonical chain as a follower knows it, down to the block where it began.
struct Model(Vec<BlockId>);

impl Model {
    fn follow(&mut self, chain: &Chain, changes: &[BlockChange]) {
        let view = chain.view().expect("a view");
        for change in changes {
            match change {
                BlockChange::Removed(id) => assert_eq!(self.0.pop(), Some(*id), "only the head is removed"),
                BlockChange::Applied(id) => {
                    let header = super::cursor::header(&view, id).expect("a header");
                    if let Some(head) = self.0.last() {
                        assert_eq!(
                            header.expect("a header").parent_hash,
                            head.hash,
                            "a new block follows the head"
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
fn followers_reach_the_head_by_journal_and_by_chain() {
    let mut reorganizations = 0;
    for seed in 1..=3 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let chain = open_chain();
        let events = chain.subscribe();
        let journal = HeadJournal::new();
        let genesis = head(&chain);
        let mut branches = branches(&[0, 2, 5], 60);
        // One uses the journal, one only the chain, one the journal but stops after any change.
        let start = || HeadCursor::now(&journal, || Ok(chain.view().expect("a view"))).expect("a cursor");
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
                let unseen = match which {
                    1 => cursor.walk(journal.next(), &view),
                    _ => cursor.changes(&journal, journal.next(), &view),
                };
                let unseen = unseen.expect("a read");
                let taken = match which {
                    2 => random.below(unseen.changes.len() as u64 + 1) as usize,
                    _ => unseen.changes.len(),
                };
                model.follow(&chain, &unseen.changes[..taken]);
                *cursor = unseen.cursor_after(taken, &view).expect("a read");
                if which < 2 {
                    assert_eq!(model.0.last(), Some(&head(&chain)), "seed {seed}");
                    assert!(cursor.is_current(&journal));
                }
            }
        }
        for (cursor, model) in &mut followers {
            while !cursor.is_current(&journal) {
                let view = chain.view().expect("a view");
                let unseen = cursor.changes(&journal, journal.next(), &view).expect("a read");
                model.follow(&chain, &unseen.changes);
                *cursor = unseen.end;
            }
            assert_eq!(model.0.last(), Some(&head(&chain)), "seed {seed}");
        }
    }
    assert!(reorganizations >= 10, "{reorganizations}");
}

/// Imports the next block of a branch if its parent is imported already.
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
fn many_changes_come_in_parts() {
    let chain = open_chain();
    let genesis = head(&chain);
    let journal = HeadJournal::new();
    let cursor = HeadCursor::now(&journal, || Ok(chain.view().expect("a view"))).expect("a cursor");
    let mut last = genesis;
    for tag in 0..1100 {
        last = extend(&chain, tag);
    }
    // The journal is empty, as if its events had been dropped, so the chain is read.
    let mut model = Model(vec![genesis]);
    let view = chain.view().expect("a view");
    let unseen = cursor.walk(journal.next(), &view).expect("a read");
    assert_eq!(unseen.changes.len(), 1024);
    assert!(!unseen.end.is_current(&journal));
    model.follow(&chain, &unseen.changes);
    let unseen = unseen
        .end
        .changes(&journal, journal.next(), &view)
        .expect("a read");
    assert_eq!(unseen.changes.len(), 76);
    assert!(unseen.end.is_current(&journal));
    model.follow(&chain, &unseen.changes);
    assert_eq!(model.0.last(), Some(&last));
}

#[test]
fn a_cursor_ahead_of_the_journal_sees_nothing_twice() {
    let chain = open_chain();
    let events = chain.subscribe();
    let journal = HeadJournal::new();
    extend(&chain, 1);
    // The head has moved, but the journal does not have the event yet.
    let cursor = HeadCursor::now(&journal, || Ok(chain.view().expect("a view"))).expect("a cursor");
    journal.push(events.recv().expect("an event"));
    let view = chain.view().expect("a view");
    let unseen = cursor.changes(&journal, journal.next(), &view).expect("a read");
    assert!(
        unseen.changes.is_empty() && unseen.end.is_current(&journal),
        "{unseen:?}"
    );
    let second = extend(&chain, 2);
    journal.push(events.recv().expect("an event"));
    let view = chain.view().expect("a view");
    let unseen = cursor.changes(&journal, journal.next(), &view).expect("a read");
    assert_eq!(unseen.changes, [BlockChange::Applied(second)]);
}

#[test]
fn a_block_that_was_deleted_and_came_back_has_its_logs() {
    let chain = open_chain();
    let logging = UnsignedTransaction {
        gas_price: U256::from(20_000_000_000_u64),
        gas: 100_000,
        // A constructor that logs once, and creates nothing.
        input: Bytes::from_static(&[0x60, 0, 0x60, 0, 0xa0, 0]),
        ..Default::default()
    };
    let key = SecretKey::from_hex(chain::spec::DEV_ACCOUNTS[0].1).expect("a key");
    let logging = logging.sign(&key, chain.spec().chain_id, TxForm::Native);
    chain.submit_transaction(logging).expect("a good transaction");
    let block = next_block(&chain, &[1]);
    chain.import(block.clone()).expect("a good block");
    let id = head(&chain);

    let cache = LogCache::default();
    let all = LogCriteria::from_json("{}").expect("criteria");
    let count = || {
        let mut count = 0;
        let logs = cache.get(&chain.view().expect("a view"), &id).expect("a read");
        let written = logs.write(&all, false, NameStyle::Native, 0, &mut |_| {
            count += 1;
            Ok(true)
        });
        assert_eq!(written.expect("nothing fails"), None);
        count
    };
    chain.set_head(0).expect("a lower head");
    assert_eq!(count(), 0, "deleted");
    chain.import(block).expect("a good block");
    assert_eq!(count(), 1);
    chain.set_head(0).expect("a lower head");
    assert_eq!(count(), 1, "still in the cache");
}

/// The logs of a block, taken part by part, are those that are taken at once, in both directions.
#[test]
fn logs_are_taken_in_parts() {
    let chain = open_chain();
    let key = SecretKey::from_hex(chain::spec::DEV_ACCOUNTS[0].1).expect("a key");
    for tx_nonce in 0..3 {
        let logging = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(20_000_000_000_u64),
            gas: 100_000,
            // A constructor that logs three times, with 0, 1 and 2 bytes, and creates nothing.
            input: Bytes::from_static(&[
                0x60, 0, 0x60, 0, 0xa0, 0x60, 1, 0x60, 0, 0xa0, 0x60, 2, 0x60, 0, 0xa0, 0,
            ]),
            ..Default::default()
        };
        let logging = logging.sign(&key, chain.spec().chain_id, TxForm::Native);
        chain.submit_transaction(logging).expect("a good transaction");
    }
    extend(&chain, 1);
    let (id, view) = (head(&chain), chain.view().expect("a view"));
    let logs = LogCache::default().get(&view, &id).expect("a read");
    let all = LogCriteria::from_json("{}").expect("criteria");
    let taken = |removed, part_len: usize| {
        let (mut taken, mut from, mut parts) = (Vec::new(), Some(0), 0);
        while let Some(passed) = from {
            let mut left = part_len;
            from = logs
                .write(&all, removed, NameStyle::Native, passed, &mut |log| {
                    let takes = left > 0;
                    left = left.saturating_sub(1);
                    if takes {
                        taken.push(serde_json::to_string(log).expect("JSON"));
                    }
                    Ok(takes)
                })
                .expect("nothing fails");
            parts += 1;
        }
        (taken, parts)
    };
    for removed in [false, true] {
        let (whole, parts) = taken(removed, usize::MAX);
        assert_eq!((whole.len(), parts), (9, 1));
        assert!(whole[0].contains(if removed {
            "\"logIndex\":\"0x8\""
        } else {
            "\"logIndex\":\"0x0\""
        }));
        for part_len in 1..9 {
            assert_eq!(
                taken(removed, part_len),
                (whole.clone(), 9_usize.div_ceil(part_len))
            );
        }
    }
}

#[test]
fn the_thread_ends_with_the_feeds() {
    let chain = open_chain();
    let feeds = Feeds::start(chain.clone(), None, Arc::new(LoneNode), Arc::default()).expect("a thread");
    let cursor = feeds.cursor().expect("a cursor");
    extend(&chain, 1);
    let begun = Instant::now();
    while feeds.is_current(&cursor) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the feeds get the event"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let weak = Arc::downgrade(&feeds);
    drop(feeds);
    while weak.strong_count() > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the thread releases the feeds"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
