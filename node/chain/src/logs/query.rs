//! What logs are asked for, and whether one is such a log (interface 2.6).
//!
//! Addresses are alternatives; so are the topics at a position; what different positions ask
//! must hold at once. A position without alternatives takes any topic, but, as on the public
//! network, there has to be one: two such positions leave out logs with a single topic.

use primitives::{Address, B256, Log, Receipt};
use store::LogKey;

use super::BloomTest;

/// Which logs are wanted. The default wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Sorted; none: of any contract.
    addresses: Vec<Address>,
    /// By position, sorted; none at a position: any topic.
    topics: Vec<Vec<B256>>,
}

/// A log within the receipts of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptLog<'a> {
    /// Its transaction's place in the block.
    pub transaction_index: usize,
    /// Its place in the block.
    pub log_index: usize,
    /// The log.
    pub log: &'a Log,
}

fn set<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

impl LogQuery {
    /// Logs of one of `addresses` whose topic at each position is one of those given there.
    /// Where nothing is given anything will do.
    pub fn new(addresses: Vec<Address>, topics: Vec<Vec<B256>>) -> Self {
        Self {
            addresses: set(addresses),
            topics: topics.into_iter().map(set).collect(),
        }
    }

    /// How many addresses and topics are named.
    pub fn values(&self) -> usize {
        self.addresses.len() + self.topics.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether `log` is wanted.
    pub fn matches(&self, log: &Log) -> bool {
        self.matches_parts(&log.address, &log.topics)
    }

    pub(super) fn matches_parts(&self, address: &Address, topics: &[B256]) -> bool {
        let fits = |(wanted, topic): (&Vec<B256>, &B256)| among(wanted, topic);
        self.topics.len() <= topics.len()
            && among(&self.addresses, address)
            && self.topics.iter().zip(topics).all(fits)
    }

    /// The wanted logs of a block, from its receipts.
    pub fn select<'a>(&'a self, receipts: &'a [Receipt]) -> impl Iterator<Item = ReceiptLog<'a>> {
        let logs = receipts
            .iter()
            .enumerate()
            .flat_map(|(index, receipt)| receipt.logs.iter().map(move |log| (index, log)));
        logs.enumerate()
            .map(|(log_index, (transaction_index, log))| ReceiptLog {
                transaction_index,
                log_index,
                log,
            })
            .filter(|placed| self.matches(placed.log))
    }

    /// The test that tells from a bloom whether there can be a wanted log.
    pub fn bloom_test(&self) -> BloomTest {
        let addresses = self.addresses.iter().map(|address| address.as_slice()).collect();
        let topics = self
            .topics
            .iter()
            .map(|set| set.iter().map(|topic| topic.as_slice()).collect());
        BloomTest::new(std::iter::once(addresses).chain(topics))
    }

    /// For each thing asked for, the keys that it lies under: a block with a wanted log lies
    /// under one key of each. Never empty.
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

/// Whether `value` is in a sorted set, of which the empty one stands for all values.
fn among<T: Ord>(set: &[T], value: &T) -> bool {
    match set {
        [] => true,
        [one] => one == value,
        _ => set.binary_search(value).is_ok(),
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

    /// The rows of interface 2.6, and what must not match beside them.
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
    fn receipts_are_counted_through() {
        let receipt = |logs| Receipt::new(ReceiptOutcome::Status(true), 0, logs);
        let receipts = [
            receipt(vec![log(&[A]), log(&[B])]),
            receipt(Vec::new()),
            receipt(vec![log(&[B]), log(&[A])]),
        ];
        let query = LogQuery::new(Vec::new(), vec![vec![A]]);
        let found: Vec<_> = query
            .select(&receipts)
            .map(|placed| (placed.transaction_index, placed.log_index))
            .collect();
        assert_eq!(found, [(0, 0), (2, 3)]);
        assert_eq!(LogQuery::default().select(&receipts).count(), 4);
    }
}
