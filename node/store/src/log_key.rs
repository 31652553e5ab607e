//! The keys of the log index: a search term of a log filter, hashed to 8 bytes.
//!
//! Knows logs; knows nothing of the rows that are found by a key.

use primitives::{Address, B256, LOG_TOPICS_MAX, Log, Receipt, keccak256};

/// A hashed search term: the first 8 bytes of Keccak-256 of the kind (1) and the value (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogKey([u8; 8]);

impl LogKey {
    // Kinds of search terms. A topic at position n has the kind TOPICS + n.
    const ANY: u8 = 0;
    const ADDRESS: u8 = 1;
    const TOPICS: u8 = 2;

    /// The key of all blocks with a log.
    pub fn any() -> Self {
        Self::of(Self::ANY, &B256::ZERO)
    }

    /// The key of blocks with a log of this contract.
    pub fn address(address: &Address) -> Self {
        Self::of(Self::ADDRESS, &address.into_word())
    }

    /// The key of blocks with a log that has this topic at `position`, from 0.
    pub fn topic(position: usize, topic: &B256) -> Self {
        Self::of(Self::topic_kind(position), topic)
    }

    fn topic_kind(position: usize) -> u8 {
        Self::TOPICS + position.min(LOG_TOPICS_MAX) as u8
    }

    fn of(kind: u8, value: &B256) -> Self {
        let mut term = [kind; 33];
        term[1..].copy_from_slice(value.as_slice());
        let hash = keccak256(term);
        Self(std::array::from_fn(|at| hash[at]))
    }

    /// The keys of these logs, sorted, each once.
    pub fn of_logs<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Vec<Self> {
        let mut terms = Vec::new();
        for log in logs {
            terms.push((Self::ANY, B256::ZERO));
            terms.push((Self::ADDRESS, log.address.into_word()));
            let topics = log.topics.iter().take(LOG_TOPICS_MAX).enumerate();
            terms.extend(topics.map(|(position, topic)| (Self::topic_kind(position), *topic)));
        }
        // Most terms occur many times in a block. Each is hashed once.
        terms.sort_unstable();
        terms.dedup();
        let mut keys: Vec<_> = terms.iter().map(|(kind, value)| Self::of(*kind, value)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(crate) fn of_receipts(receipts: &[Receipt]) -> Vec<Self> {
        Self::of_logs(receipts.iter().flat_map(|receipt| &receipt.logs))
    }

    /// The key with these bytes.
    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The 8 bytes, with which the keys of its rows begin.
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}
