//! The values that other nodes have asked this one to keep: under a key the enode URLs of the nodes
//! that asked.
//!
//! Only the public network's dialect has this. Nodes of an application chain find each other by it.
//! Source: docs/p2p.md, 4 and 5.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use primitives::{B512, hex};

use crate::address::{self, Neighbourhood};
use crate::contact::NodeContact;
use crate::entropy::Entropy;

/// Enodes under one key.
pub(crate) const VALUES_OF_KEY_MAX: usize = 16;
/// Keys in all.
pub(crate) const KEYS_MAX: usize = 1024;
/// Enodes of one neighbourhood under one key.
pub(crate) const VALUES_OF_KEY_NEIGHBOURS_MAX: usize = 4;
/// Enodes of one neighbourhood in all.
pub(crate) const VALUE_NEIGHBOURS_MAX: usize = 128;
/// An enode is kept for this long.
pub(crate) const VALUE_LIFETIME: Duration = Duration::from_secs(300);
/// Enodes in one answer.
pub(crate) const VALUES_IN_ANSWER: usize = 5;

#[derive(Debug)]
struct StoredValue {
    id: B512,
    from: SocketAddr,
    expires: Duration,
    /// Whether it came after [`ValueStore::take_new`] was last asked for it.
    is_new: bool,
}

#[derive(Debug, Default)]
pub(super) struct ValueStore {
    keys: HashMap<B512, Vec<StoredValue>>,
}

impl ValueStore {
    /// Keeps the enode of `id` at `from` under `key`. A new one replaces the oldest if the key, or
    /// the share of its neighbourhood in the key, is full. Returns whether it is kept.
    pub(super) fn put(&mut self, key: B512, id: B512, from: SocketAddr, now: Duration) -> bool {
        let own = Neighbourhood::of_stranger(from.ip());
        let is_neighbour = |value: &StoredValue| own == Some(Neighbourhood::of(value.from.ip()));
        let all = self.keys.values().flatten();
        let others = all.filter(|value| is_neighbour(value) && value.id != id && value.expires > now);
        if others.count() >= VALUE_NEIGHBOURS_MAX {
            return false;
        }
        if !self.keys.contains_key(&key) && self.keys.len() >= KEYS_MAX {
            self.expire(now);
            if self.keys.len() >= KEYS_MAX {
                return false;
            }
        }
        let values = self.keys.entry(key).or_default();
        values.retain(|value| value.id != id && value.expires > now);
        let first_neighbour = values.iter().position(is_neighbour);
        let neighbours = values.iter().filter(|value| is_neighbour(value)).count();
        if let Some(first) = first_neighbour.filter(|_| neighbours >= VALUES_OF_KEY_NEIGHBOURS_MAX) {
            values.remove(first);
        } else if values.len() >= VALUES_OF_KEY_MAX {
            values.remove(0);
        }
        values.push(StoredValue {
            id,
            from,
            expires: now + VALUE_LIFETIME,
            is_new: true,
        });
        true
    }

    /// At most [`VALUES_IN_ANSWER`] of the enodes under `key` that may be told to `asker`, chosen
    /// at random, each followed by a comma.
    pub(super) fn get(&self, key: &B512, asker: IpAddr, now: Duration, entropy: &mut Entropy) -> String {
        let stored = self.keys.get(key).map_or(&[][..], |values| values);
        let is_told = |value: &&StoredValue| value.expires > now && address::may_tell(asker, value.from.ip());
        let mut valid: Vec<_> = stored.iter().filter(is_told).collect();
        entropy.shuffle(&mut valid);
        let enode = |value: &&StoredValue| format!("enode://{}@{},", hex::encode(value.id), value.from);
        valid.iter().take(VALUES_IN_ANSWER).map(enode).collect()
    }

    /// At most [`VALUES_IN_ANSWER`] nodes that have stored their enode under `key`, or stored it
    /// again, since they were last returned.
    pub(super) fn take_new(&mut self, key: &B512, now: Duration) -> Vec<NodeContact> {
        let stored = self.keys.get_mut(key).into_iter().flatten();
        let new = stored.filter(|value| value.is_new && value.expires > now);
        let take = |value: &mut StoredValue| {
            value.is_new = false;
            let (ip, port) = (value.from.ip(), value.from.port());
            NodeContact {
                id: value.id,
                ip,
                udp: port,
                tcp: port,
            }
        };
        new.take(VALUES_IN_ANSWER).map(take).collect()
    }

    pub(super) fn expire(&mut self, now: Duration) {
        self.keys.retain(|_, values| {
            values.retain(|value| value.expires > now);
            !values.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> B512 {
        let mut id = B512::ZERO;
        id[..2].copy_from_slice(&number.to_be_bytes());
        id
    }

    fn from(number: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], number))
    }

    #[test]
    fn values_are_bounded_and_expire() {
        let mut store = ValueStore::default();
        let mut entropy = Entropy::from_seed([1; 32]);
        let key = B512::repeat_byte(9);
        for number in 0..20 {
            assert!(store.put(key, id(number), from(number), Duration::from_secs(number.into())));
        }
        assert_eq!(store.keys[&key].len(), VALUES_OF_KEY_MAX);
        let now = Duration::from_secs(20);
        let answer = store.get(&key, from(0).ip(), now, &mut entropy);
        assert_eq!(answer.matches("enode://").count(), VALUES_IN_ANSWER);
        assert!(answer.ends_with(','));
        assert!(answer.len() < 1000, "it must fit into a packet: {}", answer.len());
        // The same node counts once.
        store.put(key, id(19), from(7), now);
        assert_eq!(store.keys[&key].len(), VALUES_OF_KEY_MAX);
        let end = now + VALUE_LIFETIME;
        assert_eq!(store.get(&key, from(0).ip(), end, &mut entropy), "");
        store.expire(end);
        assert!(store.keys.is_empty());
        assert_eq!(store.get(&B512::ZERO, from(0).ip(), now, &mut entropy), "");
    }

    #[test]
    fn each_node_that_stores_is_new_once() {
        let mut store = ValueStore::default();
        let key = B512::repeat_byte(9);
        let take = |store: &mut ValueStore| {
            let taken = store.take_new(&key, Duration::from_secs(1));
            taken.iter().map(|node| (node.id, node.udp)).collect::<Vec<_>>()
        };
        assert_eq!(take(&mut store), []);
        for number in 0..7 {
            // Neighbours would take each other's places.
            let from = SocketAddr::from(([10, 1 + number as u8, 0, 1], number));
            assert!(store.put(key, id(number), from, Duration::ZERO));
        }
        assert_eq!(
            take(&mut store),
            [0, 1, 2, 3, 4].map(|number| (id(number), number))
        );
        assert_eq!(take(&mut store), [5, 6].map(|number| (id(number), number)));
        assert_eq!(take(&mut store), []);
        // A node that was started again has another port, or the same one.
        for port in [30, 30] {
            let from = SocketAddr::from(([10, 4, 0, 1], port));
            assert!(store.put(key, id(3), from, Duration::ZERO));
            assert_eq!(take(&mut store), [(id(3), port)]);
        }
        store.put(key, id(8), from(8), Duration::ZERO);
        assert!(store.take_new(&key, VALUE_LIFETIME).is_empty());
    }

    #[test]
    fn keys_are_bounded() {
        let mut store = ValueStore::default();
        for number in 0..KEYS_MAX as u16 {
            assert!(store.put(id(number), id(1), from(1), Duration::ZERO));
        }
        assert!(!store.put(B512::repeat_byte(9), id(1), from(1), Duration::ZERO));
        assert!(store.put(id(5), id(2), from(1), Duration::ZERO), "a known key");
        assert!(
            store.put(B512::repeat_byte(9), id(1), from(1), VALUE_LIFETIME),
            "the others expired"
        );
    }

    #[test]
    fn a_neighbourhood_has_a_share() {
        let mut store = ValueStore::default();
        let stranger = |host: u16| SocketAddr::from(([50, 0, 0, host as u8], 30333));
        let key = B512::repeat_byte(9);
        store.put(
            key,
            id(1),
            SocketAddr::from(([51, 0, 0, 1], 30333)),
            Duration::ZERO,
        );
        for number in 2..200 {
            assert!(store.put(key, id(number), stranger(number), Duration::ZERO));
        }
        assert_eq!(store.keys[&key].len(), 1 + VALUES_OF_KEY_NEIGHBOURS_MAX);
        assert_eq!(store.keys[&key][0].id, id(1), "others keep their enodes");
        let kept = |store: &mut ValueStore, number| {
            store.put(id(number), id(number), stranger(number), Duration::ZERO)
        };
        let count = (1000..3000).filter(|number| kept(&mut store, *number)).count();
        assert_eq!(count, VALUE_NEIGHBOURS_MAX - VALUES_OF_KEY_NEIGHBOURS_MAX);
        assert!(
            store.put(id(5000), id(1), from(1), Duration::ZERO),
            "others have room"
        );
        // Local addresses are not told outside.
        let mut entropy = Entropy::from_seed([1; 32]);
        let mut told = |asker: [u8; 4]| store.get(&id(5000), asker.into(), Duration::ZERO, &mut entropy);
        assert_eq!(told([51, 0, 0, 1]), "");
        assert_ne!(told([10, 0, 0, 9]), "");
    }
}
