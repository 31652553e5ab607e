//! The table of nodes (Kademlia): those that have answered, ordered by their distance from this
//! node.
//!
//! Each bucket has at most 16 nodes. Others wait in its list of replacements. Few nodes may be of
//! one neighbourhood, so that nobody fills the table from one network. Source: docs/p2p.md, 4;
//! ethereum/devp2p, `discv4.md`.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use primitives::{B256, B512};

use crate::address::Neighbourhood;
use crate::contact::NodeContact;
use crate::entropy::Entropy;

/// Nodes in a bucket, and in an answer.
pub(crate) const BUCKET_NODES_MAX: usize = 16;
/// Nodes that wait for a place in a bucket.
pub(crate) const REPLACEMENTS_MAX: usize = 10;
/// Nodes of one neighbourhood in a bucket.
pub(crate) const BUCKET_NEIGHBOURS_MAX: usize = 2;
/// Nodes of one neighbourhood in the table.
pub(crate) const TABLE_NEIGHBOURS_MAX: usize = 10;
/// Buckets. All nodes at a distance below 2^240 share the first one.
const BUCKETS: usize = 17;

/// A kind of node. The order is that of docs/p2p.md, 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContactKind {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The node is of another network.
    Alien,
    /// The node agreed to our Status over a connection.
    Uncle,
    /// The node has sent our network's id.
    Brother,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TableEntry {
    pub(super) contact: NodeContact,
    pub(super) hash: B256,
    pub(super) kind: ContactKind,
    pub(super) added: Duration,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The node that answered last is first.
    entries: Vec<TableEntry>,
    replacements: VecDeque<TableEntry>,
}

/// The nodes that have answered.
#[derive(Debug)]
pub(super) struct NodeTable {
    own: B256,
    buckets: Vec<Bucket>,
}

/// The distance of two hashes: the number of bits after their common front.
fn distance(one: &B256, two: &B256) -> usize {
    let common = (*one ^ *two).iter().position(|byte| *byte != 0);
    let Some(index) = common else { return 0 };
    let byte = one[index] ^ two[index];
    (32 - index) * 8 - byte.leading_zeros() as usize
}

impl NodeTable {
    pub(super) fn new(own: B256) -> Self {
        let mut buckets = Vec::new();
        buckets.resize_with(BUCKETS, Bucket::default);
        Self { own, buckets }
    }

    fn index(&self, hash: &B256) -> usize {
        distance(&self.own, hash).saturating_sub(256 - BUCKETS + 1)
    }

    /// Whether one more node at `ip` may come into the bucket, and into the table.
    fn has_room_for(&self, ip: IpAddr, index: usize) -> bool {
        let Some(own) = Neighbourhood::of_stranger(ip) else {
            return true;
        };
        let count = |bucket: &Bucket| {
            let all = bucket.entries.iter().chain(&bucket.replacements);
            all.filter(|entry| Neighbourhood::of(entry.contact.ip) == own)
                .count()
        };
        count(&self.buckets[index]) < BUCKET_NEIGHBOURS_MAX
            && self.buckets.iter().map(count).sum::<usize>() < TABLE_NEIGHBOURS_MAX
    }

    /// Takes a node that has answered. Returns whether the table has it now.
    pub(super) fn add(&mut self, contact: NodeContact, kind: ContactKind, now: Duration) -> bool {
        let hash = contact.hash();
        if hash == self.own {
            return false;
        }
        let index = self.index(&hash);
        let known = self.buckets[index]
            .entries
            .iter()
            .position(|entry| entry.hash == hash);
        if let Some(at) = known {
            let mut entry = self.buckets[index].entries.remove(at);
            let has_moved = entry.contact.ip != contact.ip;
            if has_moved && !self.has_room_for(contact.ip, index) {
                return false;
            }
            if has_moved {
                entry.added = now;
            }
            entry.contact = contact;
            entry.kind = kind;
            self.buckets[index].entries.insert(0, entry);
            return true;
        }
        self.buckets[index]
            .replacements
            .retain(|entry| entry.hash != hash);
        if !self.has_room_for(contact.ip, index) {
            return false;
        }
        let entry = TableEntry {
            contact,
            hash,
            kind,
            added: now,
        };
        let bucket = &mut self.buckets[index];
        if bucket.entries.len() < BUCKET_NODES_MAX {
            bucket.entries.insert(0, entry);
            return true;
        }
        bucket.replacements.push_front(entry);
        bucket.replacements.truncate(REPLACEMENTS_MAX);
        false
    }

    /// Removes a node. A random one of those that wait takes its place.
    pub(super) fn remove(&mut self, id: &B512, entropy: &mut Entropy) {
        let hash = primitives::keccak256(id);
        let index = self.index(&hash);
        let bucket = &mut self.buckets[index];
        bucket.replacements.retain(|entry| entry.hash != hash);
        let before = bucket.entries.len();
        bucket.entries.retain(|entry| entry.hash != hash);
        if bucket.entries.len() < before && !bucket.replacements.is_empty() {
            let at = entropy.below(bucket.replacements.len());
            bucket.entries.extend(bucket.replacements.remove(at));
        }
    }

    /// Notes what a node is.
    pub(super) fn set_kind(&mut self, id: &B512, kind: ContactKind) {
        let hash = primitives::keccak256(id);
        let index = self.index(&hash);
        let bucket = &mut self.buckets[index];
        for entry in bucket.entries.iter_mut().chain(&mut bucket.replacements) {
            if entry.hash == hash {
                entry.kind = kind;
            }
        }
    }

    /// Returns the contact of a node of the table, and since when the table has it there.
    pub(super) fn get(&self, id: &B512) -> Option<&TableEntry> {
        let hash = primitives::keccak256(id);
        let bucket = &self.buckets[self.index(&hash)];
        bucket.entries.iter().find(|entry| entry.hash == hash)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &TableEntry> {
        self.buckets.iter().flat_map(|bucket| &bucket.entries)
    }

    pub(super) fn len(&self) -> usize {
        self.entries().count()
    }

    /// The `count` nodes closest to `target` that `is_wanted` chooses.
    pub(super) fn closest(
        &self,
        target: &B256,
        count: usize,
        is_wanted: impl Fn(&TableEntry) -> bool,
    ) -> Vec<NodeContact> {
        let mut wanted: Vec<_> = self.entries().filter(|entry| is_wanted(entry)).collect();
        wanted.sort_by_key(|entry| entry.hash ^ *target);
        wanted.iter().take(count).map(|entry| entry.contact).collect()
    }

    /// The node of a random bucket that has not answered for the longest time.
    pub(super) fn to_revalidate(&self, entropy: &mut Entropy) -> Option<NodeContact> {
        let filled: Vec<_> = self
            .buckets
            .iter()
            .filter_map(|bucket| bucket.entries.last())
            .collect();
        if filled.is_empty() {
            return None;
        }
        Some(filled[entropy.below(filled.len())].contact)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contact(number: u32, ip: [u8; 4]) -> NodeContact {
        let mut id = B512::ZERO;
        id[..4].copy_from_slice(&number.to_be_bytes());
        NodeContact {
            id,
            ip: IpAddr::from(ip),
            udp: 30303,
            tcp: 30303,
        }
    }

    fn table() -> NodeTable {
        NodeTable::new(contact(0, [1, 1, 1, 1]).hash())
    }

    fn spread(number: u32) -> NodeContact {
        let [_, a, b, c] = number.to_be_bytes();
        contact(number, [20 + a, b, c, 1])
    }

    #[test]
    fn distances() {
        let hash = |first: u8, last: u8| {
            let mut hash = B256::ZERO;
            hash[0] = first;
            hash[31] = last;
            hash
        };
        assert_eq!(distance(&hash(0, 0), &hash(0, 0)), 0);
        assert_eq!(distance(&hash(0, 0), &hash(0, 1)), 1);
        assert_eq!(distance(&hash(0, 0x80), &hash(0, 0)), 8);
        assert_eq!(distance(&hash(0x80, 0), &hash(0, 0)), 256);
        assert_eq!(distance(&hash(0x01, 0), &hash(0, 0)), 249);
    }

    proptest! {
        #[test]
        fn bounds_hold_whoever_comes(numbers in proptest::collection::vec((1..5000_u32, 0..4_u8, any::<bool>()), 1..600)) {
            let mut table = table();
            let mut entropy = Entropy::from_seed([1; 32]);
            for (number, network, remove) in numbers {
                let contact = contact(number, [50, 1, network, number as u8]);
                if remove {
                    table.remove(&contact.id, &mut entropy);
                } else {
                    table.add(contact, ContactKind::Unknown, Duration::ZERO);
                }
            }
            let mut all = std::collections::BTreeMap::<_, usize>::new();
            for bucket in &table.buckets {
                prop_assert!(bucket.entries.len() <= BUCKET_NODES_MAX);
                prop_assert!(bucket.replacements.len() <= REPLACEMENTS_MAX);
                let mut here = std::collections::BTreeMap::<_, usize>::new();
                for entry in bucket.entries.iter().chain(&bucket.replacements) {
                    *here.entry(Neighbourhood::of(entry.contact.ip)).or_default() += 1;
                    *all.entry(Neighbourhood::of(entry.contact.ip)).or_default() += 1;
                }
                prop_assert!(here.values().all(|count| *count <= BUCKET_NEIGHBOURS_MAX));
            }
            prop_assert!(all.values().all(|count| *count <= TABLE_NEIGHBOURS_MAX));
        }

        #[test]
        fn the_closest_are_the_closest(target: [u8; 32]) {
            let mut table = table();
            for number in 1..200 {
                table.add(spread(number), ContactKind::Unknown, Duration::ZERO);
            }
            let target = B256::from(target);
            let closest = table.closest(&target, 16, |_| true);
            let mut all: Vec<_> = table.entries().map(|entry| entry.contact).collect();
            all.sort_by_key(|contact| contact.hash() ^ target);
            prop_assert_eq!(&closest[..], &all[..16]);
        }
    }

    #[test]
    fn a_full_bucket_keeps_those_that_answer() {
        let mut table = table();
        let mut entropy = Entropy::from_seed([1; 32]);
        let far: Vec<_> = (1..200)
            .map(spread)
            .filter(|contact| table.index(&contact.hash()) == BUCKETS - 1)
            .take(20)
            .collect();
        for contact in &far {
            let is_in = table.add(*contact, ContactKind::Unknown, Duration::ZERO);
            assert_eq!(is_in, table.entries().any(|entry| entry.contact == *contact));
        }
        assert_eq!(table.len(), BUCKET_NODES_MAX);
        assert!(!table.add(far[19], ContactKind::Unknown, Duration::ZERO));
        // One that answers moves to the front and is not asked next.
        let last = table.to_revalidate(&mut entropy).expect("a node");
        assert_eq!(last, far[0]);
        assert!(table.add(last, ContactKind::Unknown, Duration::from_secs(9)));
        let added = |table: &NodeTable| table.get(&last.id).map(|entry| entry.added);
        assert_eq!(added(&table), Some(Duration::ZERO));
        let moved = NodeContact {
            ip: IpAddr::from([90, 1, 1, 1]),
            ..last
        };
        assert!(table.add(moved, ContactKind::Unknown, Duration::from_secs(9)));
        assert_eq!(added(&table), Some(Duration::from_secs(9)), "its age begins anew");
        let last = moved;
        assert_ne!(table.to_revalidate(&mut entropy), Some(last));
        table.remove(&far[3].id, &mut entropy);
        assert_eq!(table.len(), BUCKET_NODES_MAX, "a replacement came");
        assert!(table.entries().all(|entry| entry.contact != far[3]));
    }

    #[test]
    fn local_nodes_are_not_limited() {
        let mut table = table();
        for number in 1..100 {
            table.add(
                contact(number, [127, 0, 0, 1]),
                ContactKind::Unknown,
                Duration::ZERO,
            );
        }
        assert!(table.len() > TABLE_NEIGHBOURS_MAX, "{}", table.len());
        assert!(
            !table.add(contact(0, [1, 1, 1, 1]), ContactKind::Unknown, Duration::ZERO),
            "itself"
        );
    }
}
