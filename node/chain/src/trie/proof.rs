//! The proof of one key: the nodes from the root down to the key's value, or to where its path
//! ends.
//!
//! A node shorter than 32 bytes is part of its parent and has no place of its own in the proof.
//! Source: Ethereum Yellow Paper, appendix D; EIP-1186.

use primitives::{B256, EMPTY_ROOT};
use store::StoreError;

use super::node::{NodeKind, NodeLink, nibbles};
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
    let mut link = match root {
        EMPTY_ROOT => NodeLink::Empty,
        root => NodeLink::Stored(root),
    };
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
        link = match node.kind {
            NodeKind::Extension(extension) if key[depth..].starts_with(&extension.key) => {
                depth += extension.key.len();
                extension.child
            }
            NodeKind::Branch(mut branch) => match key.get(depth) {
                Some(nibble) => {
                    depth += 1;
                    std::mem::take(&mut branch.children[usize::from(*nibble)])
                }
                None => NodeLink::Empty,
            },
            NodeKind::Leaf(_) | NodeKind::Extension(_) => NodeLink::Empty,
        };
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
                let proof: Vec<_> = proof.into_iter().map(Bytes::from).collect();
                let value = entries.get(&key).cloned();
                verify_proof(root, Nibbles::unpack(key), value, &proof).expect("a proof");
            }
        }
    }
}
