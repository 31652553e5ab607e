//! The parts of an encoded node and the values of leaves, for those who walk a trie that is not
//! theirs, node by node.

use alloy_rlp::{Encodable, Header};
use primitives::rlp::RlpReader;
use primitives::{B256, DecodeError, U256, keccak256};
use store::{AccountRecord, StoreError};

use super::node::{
    InlineNode, NodeKind, NodeLink, NodeReference, TrieNode, TrieNodeError, extend_with_hex_prefix,
    push_leaf_bits,
};
use super::{NodeSource, encode_account};

/// A part of a node: what is at a path below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePart {
    /// The nibbles from the node to the part.
    pub path: Vec<u8>,
    /// The child or the value there.
    pub content: PartContent,
}

/// The content of a [`NodePart`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartContent {
    /// A child with this hash.
    Child(B256),
    /// A value. The path of the part leads to the end of its key.
    Value(Vec<u8>),
}

/// The reason why bytes are not a trie node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trie node: {0}")]
pub struct NodeFormError(String);

/// The children and values of an encoded node, in order of their paths. Nodes that are embedded in
/// it are taken apart, too. Whatever of the node's paths has no part is empty.
///
/// # Errors
/// [`NodeFormError`] if the RLP is not that of a node.
pub fn node_parts(rlp: &[u8]) -> Result<Vec<NodePart>, NodeFormError> {
    let reference = NodeReference::Hash(keccak256(rlp));
    let node = TrieNode::decode_rlp(rlp, reference).map_err(|error| NodeFormError(error.to_string()))?;
    let mut parts = Vec::new();
    collect(&node, &mut Vec::new(), &mut parts);
    Ok(parts)
}

fn collect(node: &TrieNode, path: &mut Vec<u8>, parts: &mut Vec<NodePart>) {
    let value = |path: &[u8], value: &[u8]| NodePart {
        path: path.to_vec(),
        content: PartContent::Value(value.to_vec()),
    };
    match &*node.kind {
        NodeKind::Leaf(leaf) => parts.push(value(&[&path[..], &leaf.key].concat(), &leaf.value)),
        NodeKind::Extension(extension) => collect_link(&extension.child, &extension.key, path, parts),
        NodeKind::Branch(branch) => {
            parts.extend(branch.value.iter().map(|bytes| value(path, bytes)));
            for (nibble, child) in branch.children.iter() {
                collect_link(child, &[nibble], path, parts);
            }
        }
    }
}

fn collect_link(link: &NodeLink, key: &[u8], path: &mut Vec<u8>, parts: &mut Vec<NodePart>) {
    let length = path.len();
    path.extend_from_slice(key);
    match link {
        NodeLink::Empty => {}
        NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => parts.push(NodePart {
            path: path.clone(),
            content: PartContent::Child(*hash),
        }),
        NodeLink::Loaded(node) => collect(node, path, parts),
    }
    path.truncate(length);
}

/// The row of a node with this RLP, for a [`NodeSource`](super::NodeSource) that has leaves as
/// nodes, too.
pub fn row_of_node(rlp: Vec<u8>) -> Vec<u8> {
    let mut row = rlp;
    let reference = NodeReference::Inline(InlineNode::default());
    let is_branch =
        TrieNode::decode_rlp(&row, reference).is_ok_and(|node| matches!(*node.kind, NodeKind::Branch(_)));
    if is_branch {
        push_leaf_bits(0, &mut row);
    }
    row
}

/// The RLP of the node at `path` of the trie whose rows begin with `prefix`. `None` if there is no
/// node, or if it is embedded in its parent. Its hash is not compared.
///
/// # Errors
/// [`StoreError`] when the store fails or a row is corrupt.
pub fn node_at(source: &impl NodeSource, prefix: &[u8], path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let row = [prefix, path].concat();
    if let Some(mut stored) = source.node(&row)? {
        let mut rest = stored.as_slice();
        let rlp = Header::decode_bytes(&mut rest, true).map(|_| stored.len() - rest.len());
        stored.truncate(rlp.map_err(|error| TrieNodeError::from(error).in_row(&row))?);
        return Ok(Some(stored));
    }
    // A leaf has no row. It is the root, or its parent is a branch, which says so.
    if let Some((nibble, above)) = path.split_last() {
        let above = [prefix, above].concat();
        let Some(parent) = source.node(&above)? else {
            return Ok(None);
        };
        let parent = TrieNode::decode(&parent, NodeReference::Inline(InlineNode::default()));
        let NodeKind::Branch(branch) = *parent.map_err(|error| error.in_row(&above))?.kind else {
            return Ok(None);
        };
        if !matches!(branch.children.get(*nibble), Some(NodeLink::StoredLeaf(_))) {
            return Ok(None);
        }
    }
    let leaf = source.leaf(&row)?;
    Ok(leaf.map(|leaf| {
        let mut rlp = Vec::new();
        TrieNode::leaf(leaf.key, leaf.value).encode_to(&mut rlp);
        rlp
    }))
}

/// The path to a branch or an extension in hex-prefix encoding. `nibbles` has one per byte.
pub fn hex_prefix(nibbles: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(nibbles.len() / 2 + 1);
    extend_with_hex_prefix(nibbles, false, &mut path);
    path
}

/// The value of an account's leaf in the state trie.
pub fn account_value(account: &AccountRecord) -> Vec<u8> {
    encode_account(account)
}

/// Reads the value of an account's leaf.
///
/// # Errors
/// [`DecodeError`] if the value has another form.
pub fn read_account_value(value: &[u8]) -> Result<AccountRecord, DecodeError> {
    let mut fields = RlpReader::open(value, "account")?;
    fields.expect_count("account", 4, "4")?;
    Ok(AccountRecord {
        tx_nonce: fields.u64("account.nonce")?,
        balance: fields.u256("account.balance")?,
        storage_root: fields.fixed("account.storageRoot")?,
        code_hash: fields.fixed("account.codeHash")?,
    })
}

/// The value of a slot's leaf in a storage trie.
pub fn slot_value(value: &U256) -> Vec<u8> {
    let mut out = Vec::with_capacity(33);
    value.encode(&mut out);
    out
}

/// Reads the value of a slot's leaf.
///
/// # Errors
/// [`DecodeError`] if the value has another form.
pub fn read_slot_value(value: &[u8]) -> Result<U256, DecodeError> {
    let mut reader = RlpReader::over(value);
    reader.expect_count("slot", 1, "1")?;
    reader.u256("slot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trie::{NoNodes, Trie};

    #[test]
    fn the_parts_of_a_node_cover_its_entries() {
        // One branch whose children at 1 are embedded, and a child of its own at 2.
        let mut trie = Trie::in_memory();
        let mut put = |key: [u8; 3], value: &[u8]| trie.insert(&NoNodes, &key, value).expect("in memory");
        put([0x11, 0x11, 0x11], &[5]);
        put([0x11, 0x11, 0x12], &[6]);
        put([0x11, 0x12, 0x33], &[7; 50]);
        let (_, rows) = trie.take_rows();
        let root = rows[0].1.as_ref().expect("the root");
        let parts = node_parts(root).expect("a node");
        // An extension of five nibbles leads to a branch of its own.
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert_eq!(parts[0].path, [1, 1, 1]);
        let PartContent::Child(hash) = &parts[0].content else {
            panic!("{parts:?}")
        };
        let (branch, _leaf_bits) = rows[1]
            .1
            .as_ref()
            .expect("the branch")
            .split_last_chunk::<2>()
            .expect("bytes");
        assert_eq!(keccak256(branch), *hash);
        let parts = node_parts(branch).expect("a node");
        let paths: Vec<_> = parts.iter().map(|part| part.path.clone()).collect();
        assert_eq!(paths, [vec![1, 1, 1], vec![1, 1, 2], vec![2]]);
        assert_eq!(parts[1].content, PartContent::Value(vec![6]));
        assert!(matches!(parts[2].content, PartContent::Child(_)));
        assert!(node_parts(&[0xc1, 0x80]).is_err());
    }

    #[test]
    fn paths_have_the_form_of_branches() {
        assert_eq!(hex_prefix(&[]), [0]);
        assert_eq!(hex_prefix(&[0xa]), [0x1a]);
        assert_eq!(hex_prefix(&[1, 2, 3, 4]), [0, 0x12, 0x34]);
    }

    #[test]
    fn values_round_trip() {
        let account = AccountRecord {
            tx_nonce: 7,
            balance: U256::MAX,
            ..AccountRecord::default()
        };
        assert_eq!(read_account_value(&account_value(&account)), Ok(account));
        for value in [U256::from(1), U256::from(128), U256::MAX] {
            assert_eq!(read_slot_value(&slot_value(&value)), Ok(value));
        }
        assert!(read_account_value(&[0xc0]).is_err());
        assert!(read_slot_value(&[1, 1]).is_err());
        assert!(read_slot_value(&[]).is_err());
    }
}
