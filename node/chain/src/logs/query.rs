//! A query for logs, and the test whether a log matches it. Source: docs/interface.md, 2.6.
//!
//! A log matches if its address is one of the query's addresses, and if at each position its topic
//! is one of the topics that the query has for that position. A position without topics matches any
//! topic, but the log must have a topic there, as on the public network. So a query with two such
//! positions does not match a log with one topic.

use primitives::{Address, B256, Log, Receipt};
use store::LogKey;

use super::BloomTest;

/// A query for logs. The default matches all logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// The contracts, sorted. Empty means any contract.
    addresses: Vec<Address>,
    /// The topics of each position, sorted. Empty means any topic.
    topics: Vec<Vec<B256>>,
}

/// A log in the receipts of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptLog<'a> {
    /// The index of the log's receipt in the block.
    pub receipt_index: usize,
    /// The index of the log in the block.
    pub log_index: usize,
    /// The log.
    pub log: &'a Log,
}

/// Sorts `values` and removes duplicates.
fn sorted_set<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

impl LogQuery {
    /// A query for logs of one of `addresses` whose topic at each position is one of `topics` at
    /// that position. An empty list matches any address or topic.
    pub fn new(addresses: Vec<Address>, topics: Vec<Vec<B256>>) -> Self {
        Self {
            addresses: sorted_set(addresses),
            topics: topics.into_iter().map(sorted_set).collect(),
        }
    }

    /// The number of addresses and topics in the query.
    pub fn values(&self) -> usize {
        self.addresses.len() + self.topics.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether `log` matches.
    pub fn matches(&self, log: &Log) -> bool {
        self.matches_parts(&log.address, &log.topics)
    }

    pub(super) fn matches_parts(&self, address: &Address, topics: &[B256]) -> bool {
        let topic_matches = |(alternatives, topic): (&Vec<B256>, &B256)| matches_one(alternatives, topic);
        self.topics.len() <= topics.len()
            && matches_one(&self.addresses, address)
            && self.topics.iter().zip(topics).all(topic_matches)
    }

    /// The matching logs among the receipts of a block.
    pub fn select<'a>(&'a self, receipts: &'a [Receipt]) -> impl Iterator<Item = ReceiptLog<'a>> {
        let logs = receipts
            .iter()
            .enumerate()
            .flat_map(|(index, receipt)| receipt.logs.iter().map(move |log| (index, log)));
        logs.enumerate()
            .map(|(log_index, (receipt_index, log))| ReceiptLog {
                receipt_index,
                log_index,
                log,
            })
            .filter(|receipt_log| self.matches(receipt_log.log))
    }

    /// The test whether a block can have a matching log, by the block's bloom.
    pub fn bloom_test(&self) -> BloomTest {
        let addresses = self.addresses.iter().map(|address| address.as_slice()).collect();
        let topics = self
            .topics
            .iter()
            .map(|set| set.iter().map(|topic| topic.as_slice()).collect());
        BloomTest::new(std::iter::once(addresses).chain(topics))
    }

    /// The sets of keys to look up in the log index. The index has a block with a matching log
    /// under at least one key of each set. The result is never empty.
    pub(super) fn keys(&self) -> Vec<Vec<LogKey>> {
        let addresses = self.addresses.iter().map(LogKey::address).collect();
        let topics = self.topics.iter().enumerate().map(|(position, set)| {
            set.iter()
                .map(|topic| LogKey::topic(position, topic))
                .collect::<Vec<_>>()
        });
        let mut keys: Vec<Vec<_>> = std::iter::once(addresses).chain(topics).collect();
        keys.retain(|alternatives| !alternatives.is_empty());
        if keys.is_empty() {
            keys.push(vec![LogKey::any()]);
        }
        keys
    }
}

/// Whether `value` is in a sorted list, or the list is empty.
fn matches_one<T: Ord>(alternatives: &[T], value: &T) -> bool {
    match alternatives {
        [] => true,
        [one] => one == value,
        _ => alternatives.binary_search(value).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use primitives::{ReceiptOutcome, logs_bloom};

    use super::*;

    const A: B256 = B256::repeat_byte(0xa);
    const B: B256 = B256::repeat_byte(0xb);
    const C: B256 = B256::repeat_byte(0xc);
    const HERE: Address = Address::repeat_byte(1);
    const THERE: Address = Address::repeat_byte(2);

    fn log(topics: &[B256]) -> Log {
        Log {
            address: HERE,
            topics: topics.to_vec(),
            ..Default::default()
        }
    }

    #[track_caller]
    fn check(addresses: &[Address], topics: &[&[B256]], log: &Log, expected: bool) {
        let topics = topics.iter().map(|set| set.to_vec()).collect();
        let query = LogQuery::new(addresses.to_vec(), topics);
        assert_eq!(query.matches(log), expected, "{query:?}");
        if expected {
            assert!(query.bloom_test().may_match(&logs_bloom([log])), "{query:?}");
        }
    }

    /// The examples of docs/interface.md, 2.6, and queries that must not match.
    #[test]
    fn topic_matrix() {
        let ab = log(&[A, B]);
        check(&[], &[], &ab, true);
        check(&[], &[&[A]], &ab, true);
        check(&[], &[&[], &[B]], &ab, true);
        check(&[], &[&[A], &[B]], &ab, true);
        check(&[], &[&[A, B], &[A, B]], &ab, true);

        check(&[], &[&[B]], &ab, false);
        check(&[], &[&[], &[A]], &ab, false);
        check(&[], &[&[B], &[A]], &ab, false);
        check(&[], &[&[A], &[C]], &ab, false);
        check(&[], &[&[A, C], &[C, B]], &ab, true);
        check(&[], &[&[], &[]], &ab, true);
        check(&[], &[&[A], &[B], &[]], &ab, false);
        check(&[], &[&[A], &[B], &[C]], &ab, false);
        check(&[], &[&[], &[], &[], &[], &[]], &log(&[A; 4]), false);
        check(&[], &[], &log(&[]), true);
        check(&[], &[&[]], &log(&[]), false);
    }

    #[test]
    fn addresses_are_alternatives() {
        let one = log(&[A]);
        check(&[HERE], &[], &one, true);
        check(&[THERE], &[], &one, false);
        check(&[THERE, HERE, THERE], &[&[A]], &one, true);
        check(&[THERE, HERE], &[&[B]], &one, false);
    }

    #[test]
    fn log_indexes_count_all_logs_of_the_block() {
        let receipt = |logs| Receipt::new(ReceiptOutcome::Status(true), 0, logs);
        let receipts = [
            receipt(vec![log(&[A]), log(&[B])]),
            receipt(Vec::new()),
            receipt(vec![log(&[B]), log(&[A])]),
        ];
        let query = LogQuery::new(Vec::new(), vec![vec![A]]);
        let found: Vec<_> = query
            .select(&receipts)
            .map(|found| (found.receipt_index, found.log_index))
            .collect();
        assert_eq!(found, [(0, 0), (2, 3)]);
        assert_eq!(LogQuery::default().select(&receipts).count(), 4);
    }
}
