//! The proof of one key: the nodes from the root down to the key's value, or to where its path
//! ends.
//!
//! A node shorter than 32 bytes is part of its parent and has no place of its own in the proof.
//! Source: Ethereum Yellow Paper, appendix D; EIP-1186.

use std::collections::HashMap;

use primitives::{B256, EMPTY_ROOT, keccak256};
use store::StoreError;

use super::node::{NodeKind, NodeLink, NodeReference, TrieNode, TrieNodeError, nibbles};
use super::{NodeSource, load_node};

/// The RLP of each node on the path of `key`, the root first. Empty for an empty trie.
///
/// # Errors
/// [`StoreError`] when a node on the path is missing, altered or unreadable.
pub(crate) fn trie_proof(
    source: &impl NodeSource,
    prefix: &[u8],
    root: B256,
    key: &[u8],
) -> Result<Vec<Vec<u8>>, StoreError> {
    let key = nibbles(key);
    let mut proof = Vec::new();
    let mut depth = 0;
    let mut link = root_link(root);
    loop {
        let node = match link {
            NodeLink::Empty => return Ok(proof),
            NodeLink::Stored(_) | NodeLink::StoredLeaf(_) => {
                let row = [prefix, &key[..depth]].concat();
                let node = load_node(source, &row, &link, depth == 0)?;
                let mut rlp = Vec::new();
                node.encode_to(&mut rlp);
                proof.push(rlp);
                node
            }
            NodeLink::Loaded(node) => node,
        };
        link = link_below(*node.kind, &key, &mut depth);
    }
}

/// The link to the root of a trie.
const fn root_link(root: B256) -> NodeLink {
    match root {
        EMPTY_ROOT => NodeLink::Empty,
        root => NodeLink::Stored(root),
    }
}

/// The link on the path of `key` below a node, to which `depth` nibbles of it lead. `depth` then
/// leads to the next node. Empty if the trie has nothing below for the key.
fn link_below(node: NodeKind, key: &[u8], depth: &mut usize) -> NodeLink {
    match node {
        NodeKind::Extension(extension) if key[*depth..].starts_with(&extension.key) => {
            *depth += extension.key.len();
            extension.child
        }
        NodeKind::Branch(mut branch) => match key.get(*depth) {
            Some(nibble) => {
                *depth += 1;
                branch.children.take(*nibble)
            }
            None => NodeLink::Empty,
        },
        NodeKind::Leaf(_) | NodeKind::Extension(_) => NodeLink::Empty,
    }
}

/// The reason why nodes do not prove what a trie has for a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyProofError {
    /// A node on the path of the key is not among them.
    #[error("the proof has no node {0}")]
    MissingNode(B256),
    /// A node has another form.
    #[error("node {hash} of the proof: {reason}")]
    Node {
        /// The hash of the node.
        hash: B256,
        /// The fault.
        reason: String,
    },
}

/// Nodes of tries by their hashes. Whatever they say is proven by the root that leads to them.
#[derive(Clone, Debug, Default)]
pub struct ProofNodes<'a>(HashMap<B256, &'a [u8]>);

impl<'a> ProofNodes<'a> {
    /// The nodes with these encodings, in any order.
    pub fn new(nodes: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(nodes.into_iter().map(|rlp| (keccak256(rlp), rlp)).collect())
    }

    /// The value that the trie with this root has for `key`; `None` if it has none.
    ///
    /// # Errors
    /// [`KeyProofError`] if the nodes do not tell.
    pub fn value(&self, root: B256, key: &B256) -> Result<Option<Vec<u8>>, KeyProofError> {
        let key = nibbles(key.as_slice());
        let mut depth = 0;
        let mut link = root_link(root);
        loop {
            let node = match link {
                NodeLink::Empty => return Ok(None),
                NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => {
                    let rlp = self.0.get(&hash).ok_or(KeyProofError::MissingNode(hash))?;
                    let node = TrieNode::decode_rlp(rlp, NodeReference::Hash(hash));
                    node.map_err(|error: TrieNodeError| KeyProofError::Node {
                        hash,
                        reason: error.to_string(),
                    })?
                }
                NodeLink::Loaded(node) => node,
            };
            if let NodeKind::Leaf(leaf) = *node.kind {
                return Ok((leaf.key[..] == key[depth..]).then_some(leaf.value));
            }
            link = link_below(*node.kind, &key, &mut depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy_trie::Nibbles;
    use alloy_trie::proof::verify_proof;
    use primitives::Bytes;
    use proptest::prelude::*;

    use super::super::tests::StoredNodes;
    use super::super::{NoNodes, Trie};
    use super::*;

    #[test]
    fn an_empty_trie_has_an_empty_proof() {
        let proof = trie_proof(&NoNodes, &[], EMPTY_ROOT, &[1; 32]).expect("no rows are needed");
        assert!(proof.is_empty());
    }

    #[test]
    fn an_altered_or_missing_node_is_an_error() {
        let mut rows = StoredNodes::default();
        let mut trie = Trie::new(vec![9], EMPTY_ROOT);
        for key in 0_u8..40 {
            trie.insert(&NoNodes, &[key; 32], &[7; 40]).expect("in memory");
            rows.set(&[9], &[key; 32], &[7; 40]);
        }
        let (root, changes) = trie.take_rows();
        rows.apply(changes);
        assert!(
            trie_proof(&rows, &[9], root, &[3; 32])
                .expect("all rows are there")
                .len()
                > 1
        );
        let row = rows.rows.get_mut([9].as_slice()).expect("the root");
        row[5] ^= 1;
        let error = trie_proof(&rows, &[9], root, &[3; 32]).expect_err("altered");
        assert!(error.to_string().contains("node hash: got"), "{error}");
        rows.rows.get_mut([9].as_slice()).expect("the root")[5] ^= 1;
        let below = rows
            .rows
            .keys()
            .find(|path| path.len() > 1)
            .expect("a branch")
            .clone();
        rows.rows.remove(&below);
        let below = below[1];
        let error = trie_proof(&rows, &[9], root, &[below << 4 | below; 32]).expect_err("missing");
        assert!(error.to_string().contains("no node"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Another implementation accepts the proofs, of keys that are there and of others.
        #[test]
        fn proofs_prove(
            entries in proptest::collection::btree_map(any::<[u8; 32]>(), proptest::collection::vec(1_u8.., 1..60), 0..40),
            alike in proptest::collection::vec((0_usize..40, 0_usize..32, any::<u8>()), 0..20),
        ) {
            let mut rows = StoredNodes::default();
            let mut trie = Trie::new(vec![0xff], EMPTY_ROOT);
            for (key, value) in &entries {
                trie.insert(&NoNodes, key, value).expect("in memory");
                rows.set(&[0xff], key, value);
            }
            let (root, changes) = trie.take_rows();
            rows.apply(changes);
            let mut keys: Vec<[u8; 32]> = entries.keys().copied().collect();
            let present = keys.len();
            for (index, byte, value) in alike {
                if present > 0 {
                    let mut key = keys[index % present];
                    key[byte] = value;
                    keys.push(key);
                }
            }
            for key in keys {
                let proof = trie_proof(&rows, &[0xff], root, &key).expect("all rows are there");
                let own = ProofNodes::new(proof.iter().map(Vec::as_slice));
                prop_assert_eq!(&own.value(root, &key.into()).expect("a proof"), &entries.get(&key).cloned());
                if let Some((_, rest)) = proof.split_last() {
                    let less = ProofNodes::new(rest.iter().map(Vec::as_slice));
                    prop_assert!(less.value(root, &key.into()).is_err());
                }
                let proof: Vec<_> = proof.into_iter().map(Bytes::from).collect();
                let value = entries.get(&key).cloned();
                verify_proof(root, Nibbles::unpack(key), value, &proof).expect("a proof");
            }
        }
    }
}
