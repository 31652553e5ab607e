//! Random tries, random ranges, and every way in which a range can lie.

use std::collections::BTreeMap;

use primitives::U256;
use proptest::prelude::*;

use super::super::tests::StoredNodes;
use super::super::{NoNodes, Trie, sorted_root};
use super::*;

const PREFIX: [u8; 1] = [9];
type Entries = BTreeMap<B256, Vec<u8>>;

/// A trie with these entries.
struct Whole {
    entries: Entries,
    root: B256,
    nodes: StoredNodes,
}

/// A range as a server sends it.
#[derive(Clone, Debug)]
struct Answer {
    origin: B256,
    keys: Vec<B256>,
    values: Vec<Vec<u8>>,
    proof: Vec<Vec<u8>>,
}

impl Whole {
    fn of(entries: Entries) -> Self {
        let mut trie = Trie::new(PREFIX.to_vec(), EMPTY_ROOT);
        let mut nodes = StoredNodes::default();
        for (key, value) in &entries {
            trie.insert(&NoNodes, key.as_slice(), value).expect("in memory");
            nodes.set(&PREFIX, key.as_slice(), value);
        }
        let (root, rows) = trie.take_rows();
        nodes.apply(rows);
        Self { entries, root, nodes }
    }

    fn range(&self, origin: B256, count: usize) -> Answer {
        let found: Vec<_> = self.entries.range(origin..).take(count).collect();
        let keys: Vec<B256> = found.iter().map(|(key, _)| **key).collect();
        let values = found.iter().map(|(_, value)| (*value).clone()).collect();
        let proof = prove_range(&self.nodes, &PREFIX, self.root, &origin, keys.last());
        Answer {
            origin,
            keys,
            values,
            proof: proof.expect("all nodes are there"),
        }
    }

    fn has_right_of(&self, key: &B256) -> bool {
        self.entries.range(*key..).any(|(other, _)| other > key)
    }

    fn verify(&self, answer: &Answer) -> Result<bool, RangeProofError> {
        verify_range(
            self.root,
            answer.origin,
            &answer.keys,
            &answer.values,
            &answer.proof,
        )
    }
}

/// Keys that share long paths, and keys that do not.
fn keys() -> impl Strategy<Value = B256> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(B256::from),
        (0_u8..3, 0_u8..4, 0_usize..32).prop_map(|(first, other, at)| {
            let mut key = B256::repeat_byte(first * 0x55);
            key[at] = other;
            key
        }),
    ]
}

fn entries(most: usize) -> impl Strategy<Value = Entries> {
    proptest::collection::btree_map(keys(), proptest::collection::vec(1_u8.., 1..50), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn true_ranges_are_proven(entries in entries(60), origin in keys(), at in any::<prop::sample::Index>(), count in 1_usize..40) {
        let whole = Whole::of(entries);
        let known: Vec<_> = whole.entries.keys().copied().collect();
        let mut origins = vec![origin, B256::ZERO, B256::repeat_byte(0xff)];
        if !known.is_empty() {
            origins.push(known[at.index(known.len())]);
        }
        for origin in origins {
            let answer = whole.range(origin, count);
            if answer.proof.is_empty() {
                prop_assert_eq!(whole.root, EMPTY_ROOT);
            }
            let more = whole.verify(&answer).expect("a true range");
            let expected = answer.keys.last().is_some_and(|last| whole.has_right_of(last));
            prop_assert_eq!(more, expected, "{:?}", answer.keys.len());
        }
        // The whole range, with and without a proof.
        let mut all = whole.range(B256::ZERO, usize::MAX);
        prop_assert!(!whole.verify(&all).expect("the whole trie"));
        all.proof.clear();
        prop_assert!(!whole.verify(&all).expect("the whole trie"));
    }

    /// No change of an answer passes, but for one that is a true range again.
    #[test]
    fn no_lie_passes(entries in entries(40), others in entries(40), origin in keys(), count in 1_usize..20, at in any::<prop::sample::Index>()) {
        let (whole, other) = (Whole::of(entries), Whole::of(others));
        let answer = whole.range(origin, count);
        let mut lies: Vec<(&str, Answer)> = Vec::new();
        let mut lie = |name, change: &dyn Fn(&mut Answer)| {
            let mut changed = answer.clone();
            change(&mut changed);
            lies.push((name, changed));
        };
        let length = answer.keys.len();
        if length > 0 {
            let at = at.index(length);
            lie("value", &|lie| lie.values[at][0] ^= 1);
            lie("empty value", &|lie| lie.values[at].clear());
            lie("longer value", &|lie| lie.values[at].push(7));
            for gone in [0, at, length - 1] {
                lie("dropped", &|lie| {
                    lie.keys.remove(gone);
                    lie.values.remove(gone);
                });
            }
            lie("key", &|lie| lie.keys[at][31] ^= 1);
            lie("duplicate", &|lie| {
                lie.keys.insert(at, lie.keys[at]);
                lie.values.insert(at, lie.values[at].clone());
            });
            lie("all dropped", &|lie| {
                lie.keys.clear();
                lie.values.clear();
            });
            if answer.keys[0] < B256::repeat_byte(0xff) {
                let above = B256::from(U256::from_be_bytes(answer.keys[0].0) + U256::from(1));
                lie("below the origin", &|lie| lie.origin = above);
            }
        }
        if length > 1 {
            lie("order", &|lie| lie.keys.swap(0, 1));
            lie("order of values", &|lie| lie.values.swap(0, length - 1));
        }
        let new = { let mut new = origin; new[31] ^= 0x80; new };
        lie("added", &|lie| {
            let at = lie.keys.partition_point(|key| *key < new);
            lie.keys.insert(at, new);
            lie.values.insert(at, vec![7]);
        });
        for node in 0..answer.proof.len() {
            lie("node missing", &|lie| { lie.proof.remove(node); });
            lie("node changed", &|lie| { let last = lie.proof[node].len() - 1; lie.proof[node][last] ^= 1; });
        }
        lie("extra node", &|lie| lie.proof.push(vec![0xc2, 0x20, 7]));
        lie("no proof", &|lie| lie.proof.clear());
        if other.root != whole.root {
            lie("another root's", &|lie| lie.proof = other.range(origin, count).proof);
            let error = other.verify(&answer);
            prop_assert!(error.is_err() || answer.proof.is_empty() && answer.keys.is_empty() && other.root == EMPTY_ROOT);
        }
        for (name, lie) in lies {
            if lie.keys.len() == lie.keys.iter().filter(|key| whole.entries.contains_key(*key)).count()
                && is_true(&whole, &lie)
            {
                continue;
            }
            prop_assert!(whole.verify(&lie).is_err(), "{name}: {lie:?} of {:?}", whole.entries);
        }
    }
}

/// Whether an answer is true all the same: exactly the entries of its range, with its proof.
fn is_true(whole: &Whole, answer: &Answer) -> bool {
    let is_whole = answer.keys.len() == whole.entries.len() && answer.proof.is_empty();
    let again = whole.range(answer.origin, answer.keys.len());
    let has_entries = again.keys == answer.keys && again.values == answer.values;
    let is_end = !answer.keys.is_empty() || whole.entries.range(answer.origin..).next().is_none();
    has_entries && is_end && (is_whole || again.proof == answer.proof)
}

#[test]
fn ends_of_a_range() {
    let entries: Entries = (1_u8..=9)
        .map(|key| (B256::repeat_byte(key * 0x10), vec![key; 40]))
        .collect();
    let whole = Whole::of(entries);
    // Nothing right of the last entry, and a proof of that.
    let none = whole.range(B256::repeat_byte(0x91), 5);
    assert!(none.keys.is_empty() && !none.proof.is_empty());
    assert!(!whole.verify(&none).expect("an empty range"));
    // The same answer for a lower origin hides an entry.
    let hidden = Answer {
        origin: B256::repeat_byte(0x88),
        proof: whole.range(B256::repeat_byte(0x88), 0).proof,
        ..none
    };
    let error = whole.verify(&hidden).expect_err("an entry is to the right");
    assert!(matches!(error, RangeProofError::Entries { .. }), "{error}");
    // The right end is the last key, whatever was asked for.
    let two = whole.range(B256::repeat_byte(0x11), 2);
    assert_eq!(two.keys, [B256::repeat_byte(0x20), B256::repeat_byte(0x30)]);
    assert!(whole.verify(&two).expect("a range"));
    // An entry that is wrong is named by its place.
    let mut wrong = whole.range(B256::ZERO, 4);
    wrong.values[1][3] = 0;
    let error = whole.verify(&wrong).expect_err("a wrong value").to_string();
    assert!(error.contains("path 2"), "{error}");
    let error = verify_range(whole.root, B256::ZERO, &[], &[], &vec![vec![7]; 131]);
    assert!(matches!(error, Err(RangeProofError::TooManyNodes { got: 131 })));
}

#[test]
fn the_built_trie_is_that_of_db_check() {
    let entries: Vec<(B256, Vec<u8>)> = (0_u64..500)
        .map(|key| (keccak256(key.to_be_bytes()), vec![1; (key % 40) as usize + 1]))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .collect();
    let expected = sorted_root(entries.iter().cloned());
    let (keys, values): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    let got = verify_range::<Vec<u8>>(expected, B256::ZERO, &keys, &values, &[]);
    assert!(!got.expect("the whole trie"));
}
