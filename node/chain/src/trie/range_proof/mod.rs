//! Checks a range of a trie's entries against the trie's root, and proves such ranges.
//!
//! A range begins at an origin, and ends at its last entry, or at the end of the trie if it has no
//! entry. Its proof has the nodes on the paths of both ends. [`verify_range`] goes down from the
//! root: a node on one of the two paths is taken from the proof, by the hash that its parent has
//! for it. Whatever lies between the paths is built from the entries, and its hash is compared with
//! the one in the proof. So nothing is believed that the root does not say.
//! Source: ethereum/devp2p, `caps/snap.md`; Ethereum Yellow Paper, appendix D.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use primitives::{B256, EMPTY_ROOT, keccak256};
use store::StoreError;

use super::node::{Branch, Nibbles, NodeKind, NodeLink, NodeReference, TrieNode, TrieNodeError, nibbles};
use super::{NodeSource, proof::trie_proof, references};

/// Length of a key in nibbles.
const KEY_NIBBLES: usize = 64;
/// The most nodes that the proof of a range can have: two paths.
pub const RANGE_PROOF_NODES_MAX: usize = 2 * (KEY_NIBBLES + 1);

/// The reason why a range is not a part of the trie with a root.
#[derive(Debug, thiserror::Error)]
pub enum RangeProofError {
    /// The keys do not rise.
    #[error("key {index} of the range: got {got} after {before}, expected ascending keys")]
    Order {
        /// The index of the key.
        index: usize,
        /// The key.
        got: B256,
        /// The key before it.
        before: B256,
    },
    /// A key is below the origin.
    #[error("first key of the range: got {got}, expected at least {origin}")]
    BelowOrigin {
        /// The key.
        got: B256,
        /// The origin.
        origin: B256,
    },
    /// A value is empty.
    #[error("value of key {0}: got no bytes, expected some")]
    EmptyValue(B256),
    /// The entries without a proof are not the whole trie.
    #[error("root of all entries: got {got}, expected {expected}")]
    Root {
        /// The root of the entries.
        got: B256,
        /// The root of the trie.
        expected: B256,
    },
    /// A node on the path of an end of the range is not in the proof.
    #[error("the proof has no node {0}")]
    MissingNode(B256),
    /// The proof has more nodes than two paths can have.
    #[error("nodes of the proof: got {got}, expected at most {RANGE_PROOF_NODES_MAX}")]
    TooManyNodes {
        /// The number of nodes.
        got: usize,
    },
    /// Nodes of the proof are on no path of the range.
    #[error("nodes of the proof that are of no use: got {got}, expected none")]
    ExtraNodes {
        /// The number of nodes.
        got: usize,
    },
    /// A node of the proof has another form.
    #[error("node of the proof: {0}")]
    Node(String),
    /// The entries below a path are not those of the trie.
    #[error("the entries at path {path} are not those of the trie")]
    Entries {
        /// The nibbles of the path.
        path: String,
    },
}

impl From<TrieNodeError> for RangeProofError {
    fn from(error: TrieNodeError) -> Self {
        Self::Node(error.to_string())
    }
}

/// The nodes that prove a range from `origin` to the entry `last`, each once: those on the two
/// paths. Without `last` they prove what is right of `origin`: nothing.
///
/// # Errors
/// [`StoreError`] when a node on the paths is missing, altered or unreadable.
pub fn prove_range(
    source: &impl NodeSource,
    prefix: &[u8],
    root: B256,
    origin: &B256,
    last: Option<&B256>,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut proof = trie_proof(source, prefix, root, origin.as_slice())?;
    if let Some(last) = last {
        let right = trie_proof(source, prefix, root, last.as_slice())?;
        // The paths part once and do not meet again.
        let shared = proof.iter().zip(&right).take_while(|(a, b)| a == b).count();
        proof.extend(right.into_iter().skip(shared));
    }
    Ok(proof)
}

/// Checks that the trie with this root has exactly these entries from `origin` to the last of them,
/// or nothing from `origin` on if there are none. Returns whether the trie has more entries to the
/// right.
///
/// Without a proof, the entries must be the whole trie. The values are those of the leaves.
///
/// # Errors
/// [`RangeProofError`] if the range is not proven.
pub fn verify_range<K: AsRef<[u8]>>(
    root: B256,
    origin: B256,
    keys: &[B256],
    values: &[Vec<u8>],
    proof: &[K],
) -> Result<bool, RangeProofError> {
    assert_eq!(keys.len(), values.len(), "each key has a value");
    check_order(origin, keys)?;
    if let Some(at) = values.iter().position(Vec::is_empty) {
        return Err(RangeProofError::EmptyValue(keys[at]));
    }
    if proof.is_empty() {
        let mut link = build(keys, values, 0);
        references::compute_links([&link].into_iter());
        let got = root_of(&mut link);
        if got != root {
            return Err(RangeProofError::Root { got, expected: root });
        }
        return Ok(false);
    }
    if proof.len() > RANGE_PROOF_NODES_MAX {
        return Err(RangeProofError::TooManyNodes { got: proof.len() });
    }
    let nodes = proof
        .iter()
        .map(|rlp| (keccak256(rlp.as_ref()), (rlp.as_ref(), false)));
    let mut verifier = RangeVerifier {
        origin: nibbles(origin.as_slice()),
        last: keys.last().map(|last| nibbles(last.as_slice())),
        nodes: nodes.collect(),
        built: Vec::new(),
        has_more: false,
    };
    let link = if root == EMPTY_ROOT {
        NodeLink::Empty
    } else {
        NodeLink::Stored(root)
    };
    let place = RangePlace {
        path: Vec::new(),
        is_left: true,
        is_right: verifier.last.is_some(),
    };
    verifier.check(&link, place, keys, values)?;
    verifier.finish()
}

fn check_order(origin: B256, keys: &[B256]) -> Result<(), RangeProofError> {
    if let Some(first) = keys.first().filter(|first| **first < origin) {
        return Err(RangeProofError::BelowOrigin { got: *first, origin });
    }
    let fall = keys.windows(2).position(|pair| pair[0] >= pair[1]);
    fall.map_or(Ok(()), |at| {
        Err(RangeProofError::Order {
            index: at + 1,
            got: keys[at + 1],
            before: keys[at],
        })
    })
}

/// A place in the trie, and whether it is on the way to the ends of the range.
struct RangePlace {
    path: Nibbles,
    /// The path is the begin of the origin.
    is_left: bool,
    /// The path is the begin of the last key.
    is_right: bool,
}

impl RangePlace {
    fn wrong_entries(&self) -> RangeProofError {
        let digit = |nibble: &u8| char::from_digit(u32::from(*nibble), 16).unwrap_or('?');
        RangeProofError::Entries {
            path: self.path.iter().map(digit).collect(),
        }
    }
}

struct RangeVerifier<'a> {
    origin: Nibbles,
    /// The last key. `None` if there are no entries: the range has no right end.
    last: Option<Nibbles>,
    /// The nodes of the proof by their hashes, and whether a path has led to them.
    nodes: HashMap<B256, (&'a [u8], bool)>,
    /// Subtrees between the paths that were built from the entries; the reference that the proof
    /// has for them; and where they are. They are hashed together at the end.
    built: Vec<(NodeLink, NodeReference, RangePlace)>,
    has_more: bool,
}

impl RangeVerifier<'_> {
    /// Checks the node that `link` refers to. The entries are those below the place.
    fn check(
        &mut self,
        link: &NodeLink,
        place: RangePlace,
        keys: &[B256],
        values: &[Vec<u8>],
    ) -> Result<(), RangeProofError> {
        if link.is_empty() {
            return if keys.is_empty() {
                Ok(())
            } else {
                Err(place.wrong_entries())
            };
        }
        if !place.is_left && !place.is_right {
            return self.check_between(link, place, keys, values);
        }
        match link {
            NodeLink::Empty => Ok(()),
            NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => {
                let node = self.nodes.get_mut(hash);
                let (rlp, is_used) = node.ok_or(RangeProofError::MissingNode(*hash))?;
                *is_used = true;
                let node = TrieNode::decode_rlp(rlp, NodeReference::Hash(*hash))?;
                self.check_node(&node, place, keys, values)
            }
            NodeLink::Loaded(node) => self.check_node(node, place, keys, values),
        }
    }

    /// Checks a subtree between the two paths, all of whose entries must be there.
    fn check_between(
        &mut self,
        link: &NodeLink,
        place: RangePlace,
        keys: &[B256],
        values: &[Vec<u8>],
    ) -> Result<(), RangeProofError> {
        if keys.is_empty() {
            return Err(place.wrong_entries());
        }
        let expected = match link {
            NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => NodeReference::Hash(*hash),
            NodeLink::Loaded(node) => node.reference.get().expect("a decoded node has it").clone(),
            NodeLink::Empty => return Err(place.wrong_entries()),
        };
        self.built
            .push((build(keys, values, place.path.len()), expected, place));
        Ok(())
    }

    fn check_node(
        &mut self,
        node: &TrieNode,
        place: RangePlace,
        keys: &[B256],
        values: &[Vec<u8>],
    ) -> Result<(), RangeProofError> {
        let depth = place.path.len();
        match &*node.kind {
            NodeKind::Leaf(leaf) => {
                if depth + leaf.key.len() != KEY_NIBBLES {
                    return Err(place.wrong_entries());
                }
                match (keys, values) {
                    ([key], [value]) if nibbles(key.as_slice())[depth..] == leaf.key[..] => {
                        if *value == leaf.value {
                            Ok(())
                        } else {
                            Err(place.wrong_entries())
                        }
                    }
                    ([], []) => self.check_outside(&leaf.key, place),
                    _ => Err(place.wrong_entries()),
                }
            }
            NodeKind::Extension(extension) => {
                let length = extension.key.len();
                if depth + length >= KEY_NIBBLES {
                    return Err(place.wrong_entries());
                }
                let order = |end: &Nibbles| extension.key[..].cmp(&end[depth..depth + length]);
                let left = order(&self.origin);
                let right = self.last.as_ref().map(order);
                let is_outside_left = place.is_left && left.is_lt();
                let is_outside_right = place.is_right && right.is_some_and(|right| right.is_gt());
                if is_outside_left || is_outside_right {
                    if !keys.is_empty() {
                        return Err(place.wrong_entries());
                    }
                    self.has_more |= is_outside_right;
                    return Ok(());
                }
                let is_below = |key: &B256| nibbles(key.as_slice())[depth..].starts_with(&extension.key);
                if !(keys.first().is_none_or(is_below) && keys.last().is_none_or(is_below)) {
                    return Err(place.wrong_entries());
                }
                let below = RangePlace {
                    is_left: place.is_left && left.is_eq(),
                    is_right: place.is_right && right.is_some_and(|right| right.is_eq()),
                    path: [&place.path[..], &extension.key].concat(),
                };
                self.check(&extension.child, below, keys, values)
            }
            NodeKind::Branch(branch) => self.check_branch(branch, &place, keys, values),
        }
    }

    fn check_branch(
        &mut self,
        branch: &Branch,
        place: &RangePlace,
        mut keys: &[B256],
        mut values: &[Vec<u8>],
    ) -> Result<(), RangeProofError> {
        let depth = place.path.len();
        // All keys have the same length, so no branch has a value.
        if depth >= KEY_NIBBLES || branch.value.is_some() {
            return Err(place.wrong_entries());
        }
        let low = if place.is_left { self.origin[depth] } else { 0 };
        let high = match &self.last {
            Some(last) if place.is_right => last[depth],
            _ => 15,
        };
        for (nibble, child) in branch.children.all() {
            let count = keys.partition_point(|key| nibble_at(key, depth) <= nibble);
            let (own_keys, later_keys) = keys.split_at(count);
            let (own_values, later_values) = values.split_at(count);
            (keys, values) = (later_keys, later_values);
            let below = RangePlace {
                path: [&place.path[..], &[nibble]].concat(),
                is_left: place.is_left && nibble == low,
                is_right: place.is_right && nibble == high,
            };
            if (low..=high).contains(&nibble) {
                self.check(child.unwrap_or(&NodeLink::Empty), below, own_keys, own_values)?;
            } else if !own_keys.is_empty() {
                return Err(below.wrong_entries());
            } else {
                self.has_more |= nibble > high && child.is_some();
            }
        }
        Ok(())
    }

    /// Checks that a leaf without an entry is outside of the range.
    fn check_outside(&mut self, key: &[u8], place: RangePlace) -> Result<(), RangeProofError> {
        let depth = place.path.len();
        if place.is_left && *key < self.origin[depth..] {
            return Ok(());
        }
        if place.is_right && self.last.as_ref().is_some_and(|last| *key > last[depth..]) {
            self.has_more = true;
            return Ok(());
        }
        Err(place.wrong_entries())
    }

    fn finish(self) -> Result<bool, RangeProofError> {
        references::compute_links(self.built.iter().map(|(link, ..)| link));
        for (link, expected, place) in &self.built {
            let NodeLink::Loaded(node) = link else {
                return Err(place.wrong_entries());
            };
            if node.reference.get() != Some(expected) {
                return Err(place.wrong_entries());
            }
        }
        let got = self.nodes.values().filter(|(_, is_used)| !is_used).count();
        if got > 0 {
            return Err(RangeProofError::ExtraNodes { got });
        }
        Ok(self.has_more)
    }
}

fn nibble_at(key: &B256, at: usize) -> u8 {
    let byte = key[at / 2];
    if at.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0xf
    }
}

/// The subtree of these entries, whose keys ascend and are equal up to nibble `depth`. Its
/// references are not computed.
fn build(keys: &[B256], values: &[Vec<u8>], depth: usize) -> NodeLink {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return NodeLink::Empty;
    };
    let path = |to: usize| (depth..to).map(|at| nibble_at(first, at)).collect::<Nibbles>();
    if keys.len() == 1 {
        return NodeLink::Loaded(TrieNode::leaf(path(KEY_NIBBLES), values[0].clone()));
    }
    // The keys are sorted, so a path that the first and the last share is common to all.
    let fork = (depth..KEY_NIBBLES)
        .find(|at| nibble_at(first, *at) != nibble_at(last, *at))
        .unwrap_or(KEY_NIBBLES - 1);
    let mut branch = Branch::default();
    let (mut keys, mut values) = (keys, values);
    for nibble in 0..16 {
        let count = keys.partition_point(|key| nibble_at(key, fork) <= nibble);
        let child = build(&keys[..count], &values[..count], fork + 1);
        branch.children.set(nibble, child);
        (keys, values) = (&keys[count..], &values[count..]);
    }
    let branch = NodeLink::Loaded(TrieNode::branch(branch));
    if fork == depth {
        return branch;
    }
    NodeLink::Loaded(TrieNode::extension(path(fork), branch))
}

/// The root hash of a trie whose references are computed.
fn root_of(link: &mut NodeLink) -> B256 {
    match link {
        NodeLink::Empty => EMPTY_ROOT,
        NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => *hash,
        NodeLink::Loaded(node) => match node.reference.get().expect("references are computed before") {
            NodeReference::Hash(hash) => *hash,
            NodeReference::Inline(node) => keccak256(node.rlp()),
        },
    }
}
