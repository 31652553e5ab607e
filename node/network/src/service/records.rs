//! The node records that were heard of, for users and for the choice of whom to dial; and this
//! node's own.

use std::collections::{HashMap, VecDeque};

use alloy_eip2124::ForkId;
use parking_lot::Mutex;
use primitives::{B512, SecretKey};
use tokio::sync::watch;

use crate::enr::{NodeClaims, NodeRecord};

/// Records of other nodes that are remembered. Each takes a text of at most 405 bytes.
pub(crate) const RECORDS_MAX: usize = 1024;

/// The part of a record that is remembered. A text takes less memory than a record with many keys.
#[derive(Clone, Debug)]
struct HeardRecord {
    text: String,
    sequence: u64,
    fork_id: Option<ForkId>,
}

/// The records of other nodes. The oldest goes if there are too many.
#[derive(Debug, Default)]
pub(super) struct NodeRecords {
    heard: HashMap<B512, HeardRecord>,
    order: VecDeque<B512>,
}

impl NodeRecords {
    /// Keeps a record, unless a newer one of the node is here.
    pub(super) fn put(&mut self, record: &NodeRecord) {
        let id = record.id();
        let known = self.heard.get(&id);
        if known.is_some_and(|known| known.sequence > record.sequence()) {
            return;
        }
        if known.is_none() {
            if self.heard.len() >= RECORDS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.heard.remove(&oldest);
            }
            self.order.push_back(id);
        }
        let heard = HeardRecord {
            text: record.to_string(),
            sequence: record.sequence(),
            fork_id: record.claims().fork_id,
        };
        self.heard.insert(id, heard);
    }

    /// Whether the record of a node is here.
    pub(super) fn has(&self, id: &B512) -> bool {
        self.heard.contains_key(id)
    }

    pub(super) fn text(&self, id: &B512) -> Option<String> {
        self.heard.get(id).map(|heard| heard.text.clone())
    }

    pub(super) fn fork_id(&self, id: &B512) -> Option<ForkId> {
        self.heard.get(id)?.fork_id
    }
}

/// The record of this node, as users see it.
pub(super) enum OwnRecord {
    /// Discovery tells it to others.
    Told(watch::Receiver<NodeRecord>),
    /// There is no discovery. The record is signed when somebody asks for it.
    Untold(Box<UntoldRecord>),
}

/// The record of a node without discovery.
pub(super) struct UntoldRecord {
    key: SecretKey,
    last: Mutex<(NodeClaims, NodeRecord)>,
}

impl OwnRecord {
    /// The record of a node without discovery. `sequence` is the number of the first one.
    pub(super) fn untold(key: SecretKey, sequence: u64) -> Self {
        let claims = NodeClaims::default();
        let record = NodeRecord::sign(&key, sequence, &claims);
        Self::Untold(Box::new(UntoldRecord {
            key,
            last: Mutex::new((claims, record)),
        }))
    }

    /// The record now. Without discovery it says `claims`, and has the next number if they differ
    /// from the last ones.
    pub(super) fn current(&self, claims: impl FnOnce() -> NodeClaims) -> NodeRecord {
        match self {
            Self::Told(record) => record.borrow().clone(),
            Self::Untold(own) => {
                let claims = claims();
                let mut last = own.last.lock();
                if last.0 != claims {
                    let next = last.1.sequence().saturating_add(1);
                    *last = (claims, NodeRecord::sign(&own.key, next, &claims));
                }
                last.1.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy_eip2124::ForkHash;

    use super::*;
    use crate::enr::RECORD_BYTES_MAX;

    fn key(number: u32) -> SecretKey {
        let mut bytes = [1; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        SecretKey::from_bytes(&bytes).expect("a key")
    }

    fn claims(next: u64) -> NodeClaims {
        NodeClaims {
            ip: Some([50, 0, 0, 1].into()),
            tcp: 30303,
            udp: 30303,
            fork_id: Some(ForkId {
                hash: ForkHash([1, 2, 3, 4]),
                next,
            }),
            has_snap: false,
        }
    }

    #[test]
    fn the_newest_record_of_a_node_is_kept() {
        let mut records = NodeRecords::default();
        let record = |sequence, next| NodeRecord::sign(&key(1), sequence, &claims(next));
        let id = key(1).public_key();
        let next = |records: &NodeRecords| records.fork_id(&id).map(|fork_id| fork_id.next);
        assert!(!records.has(&id));
        assert_eq!(next(&records), None);
        for (sequence, told, expected) in [(5, 50, 50), (4, 40, 50), (5, 51, 51), (6, 60, 60)] {
            records.put(&record(sequence, told));
            assert_eq!(next(&records), Some(expected), "{sequence}");
        }
        assert_eq!(records.text(&id), Some(record(6, 60).to_string()));
        assert_eq!(records.order.len(), 1);
    }

    #[test]
    fn records_of_strangers_are_bounded() {
        let mut records = NodeRecords::default();
        for number in 0..=RECORDS_MAX as u32 {
            records.put(&NodeRecord::sign(&key(number), 1, &claims(0)));
        }
        assert_eq!(
            (records.heard.len(), records.order.len()),
            (RECORDS_MAX, RECORDS_MAX)
        );
        assert!(!records.has(&key(0).public_key()), "the oldest is gone");
        let longest = records.heard.values().map(|heard| heard.text.len()).max();
        assert!(longest.is_some_and(|length| length <= RECORD_BYTES_MAX * 4 / 3 + 5));
    }

    #[test]
    fn a_record_without_discovery_changes_with_its_claims() {
        let own = OwnRecord::untold(key(7), 10);
        let first = own.current(|| claims(0));
        assert_eq!((first.sequence(), first.claims()), (11, claims(0)));
        assert_eq!(own.current(|| claims(0)), first);
        assert_eq!(own.current(|| claims(9)).sequence(), 12);
    }
}
