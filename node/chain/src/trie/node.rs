//! Trie nodes and their RLP encoding.
//!
//! The row of a branch or an extension is its RLP; that of a branch has two more bytes, big-endian,
//! which say which of its children are leaves. Leaves have no rows: they are the rows of accounts
//! and slots. Source: Ethereum Yellow Paper, appendix D. This module knows neither where nodes are
//! stored nor how a trie changes.

use std::cell::OnceCell;

use alloy_rlp::{Encodable, Header};
use primitives::{B256, keccak256};
use store::{StoreError, TableId};

use super::children::Children;

/// The reason why a stored trie node cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrieNodeError {
    #[error("no node: expected hash {expected}")]
    Missing { expected: B256 },
    #[error("node hash: got {got}, expected {expected}")]
    Hash { got: B256, expected: B256 },
    #[error(transparent)]
    Rlp(#[from] alloy_rlp::Error),
    #[error("bytes after the node: got {got}, expected {expected}")]
    Trailing { got: usize, expected: usize },
    #[error("bits of the children that are leaves: got {got:#06x}, and child {child} has no hash")]
    LeafBits { got: u16, child: u8 },
    #[error("no leaf: expected hash {expected}")]
    NoLeaf { expected: B256 },
    #[error("path: got no path of a trie of the state")]
    Path,
    #[error("node items: got {got} or more, expected 2 or 17")]
    Items { got: usize },
    #[error("item: got a list, expected a string")]
    List,
    #[error("child reference: got {got} bytes, expected 0 or 32")]
    Reference { got: usize },
    #[error("node inside another: got {got} bytes, expected at most {INLINE_BYTES_MAX}")]
    Inline { got: usize },
    #[error("hex prefix: got no bytes, expected one or more")]
    EmptyHexPrefix,
    #[error("hex prefix: got {got:#04x}, expected 0x00, 0x1_, 0x20 or 0x3_")]
    HexPrefix { got: u8 },
}

impl TrieNodeError {
    /// The error for the row of a trie node.
    pub(super) fn in_row(self, row: &[u8]) -> StoreError {
        StoreError::corrupt(TableId::PathToTrieNode, row, self)
    }
}

/// A key or a part of a key, one nibble per byte.
pub(super) type Nibbles = Vec<u8>;

/// The nibbles of a byte key, high nibble first.
pub(super) fn nibbles(key: &[u8]) -> Nibbles {
    key.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect()
}

/// The reference of a parent to a node: its hash, or its RLP if that is shorter than 32 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeReference {
    Hash(B256),
    Inline(InlineNode),
}

impl NodeReference {
    /// The reference to a node with this RLP.
    pub(super) fn of(rlp: &[u8]) -> Self {
        Self::with(rlp, || keccak256(rlp))
    }

    /// The reference to a node with this RLP. `hash` is its hash, which a short node does not need.
    pub(super) fn with(rlp: &[u8], hash: impl FnOnce() -> B256) -> Self {
        InlineNode::new(rlp).map_or_else(|_| Self::Hash(hash()), Self::Inline)
    }
}

/// The most bytes of a node that is embedded in its parent. A longer one has a hash.
const INLINE_BYTES_MAX: usize = 31;

/// The RLP of a node that is embedded in its parent. Has the size of a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InlineNode {
    length: u8,
    bytes: [u8; INLINE_BYTES_MAX],
}

impl InlineNode {
    /// # Errors
    /// [`TrieNodeError::Inline`] if the RLP is too long.
    pub(super) fn new(rlp: &[u8]) -> Result<Self, TrieNodeError> {
        let got = rlp.len();
        let mut bytes = [0; INLINE_BYTES_MAX];
        let part = bytes.get_mut(..got).ok_or(TrieNodeError::Inline { got })?;
        part.copy_from_slice(rlp);
        Ok(Self {
            length: got as u8,
            bytes,
        })
    }

    pub(super) fn rlp(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A child of a node, or the root of a trie.
///
/// The link contains what the parent needs to know of the child, without a pointer. So encoding a
/// branch and searching for changed nodes read the branch's memory only.
#[derive(Clone, Debug, Default)]
pub(super) enum NodeLink {
    #[default]
    Empty,
    /// A node in the store that was not loaded yet, by its hash: a branch or an extension, or the
    /// root.
    Stored(B256),
    /// A leaf that was not loaded yet, by its hash. It is made of the row of an account or a slot.
    StoredLeaf(B256),
    Loaded(TrieNode),
}

/// A batch of many blocks has hundreds of thousands of links in memory.
const _: () = assert!(size_of::<NodeLink>() == 48);

impl NodeLink {
    pub(super) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

/// A node in memory.
#[derive(Clone, Debug)]
pub(super) struct TrieNode {
    pub(super) kind: Box<NodeKind>,
    /// Empty after a change of the node or below it, until references are computed.
    pub(super) reference: OnceCell<NodeReference>,
    /// The store does not have the node in its current form.
    pub(super) unsaved: bool,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Leaf(Leaf),
    Extension(Box<Extension>),
    Branch(Branch),
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) key: Nibbles,
    pub(super) value: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Extension {
    pub(super) key: Nibbles,
    pub(super) child: NodeLink,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    pub(super) children: Children,
    pub(super) value: Option<Vec<u8>>,
}

impl TrieNode {
    fn new(kind: NodeKind) -> Self {
        Self {
            kind: Box::new(kind),
            reference: OnceCell::new(),
            unsaved: true,
        }
    }

    pub(super) fn leaf(key: Nibbles, value: Vec<u8>) -> Self {
        Self::new(NodeKind::Leaf(Leaf { key, value }))
    }

    pub(super) fn extension(key: Nibbles, child: NodeLink) -> Self {
        Self::new(NodeKind::Extension(Box::new(Extension { key, child })))
    }

    pub(super) fn branch(branch: Branch) -> Self {
        Self::new(NodeKind::Branch(branch))
    }

    /// Memory of the node with the links to its children, in bytes, roughly. Neither the children
    /// count nor the link to the node.
    pub(super) fn memory_bytes(&self) -> usize {
        let content = match &*self.kind {
            NodeKind::Leaf(leaf) => leaf.key.len() + leaf.value.len(),
            NodeKind::Extension(extension) => extension.key.len() + size_of::<Extension>(),
            NodeKind::Branch(branch) => {
                branch.children.len() * size_of::<NodeLink>() + branch.value.as_ref().map_or(0, Vec::len)
            }
        };
        size_of::<NodeKind>() + content
    }

    /// Marks the node as changed.
    pub(super) const fn touch(&mut self) {
        self.reference = OnceCell::new();
        self.unsaved = true;
    }

    /// Appends the node's RLP. The children's references must have been computed.
    pub(super) fn encode_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match &*self.kind {
            NodeKind::Leaf(leaf) => {
                push_hex_prefix(&leaf.key, true, out);
                leaf.value.as_slice().encode(out);
            }
            NodeKind::Extension(extension) => {
                push_hex_prefix(&extension.key, false, out);
                encode_link(&extension.child, out);
            }
            NodeKind::Branch(branch) => {
                for (_, child) in branch.children.all() {
                    match child {
                        Some(child) => encode_link(child, out),
                        None => out.push(alloy_rlp::EMPTY_STRING_CODE),
                    }
                }
                branch.value.as_deref().unwrap_or_default().encode(out);
            }
        }
        wrap_list(start, out);
    }

    /// Which children of a branch are leaves that have a hash: bit N for child N. Other nodes have
    /// none. The children's references must have been computed.
    pub(super) fn leaf_bits(&self) -> Option<u16> {
        let NodeKind::Branch(branch) = &*self.kind else {
            return None;
        };
        let is_leaf = |link: &NodeLink| match link {
            NodeLink::Empty | NodeLink::Stored(_) => false,
            NodeLink::StoredLeaf(_) => true,
            NodeLink::Loaded(node) => node.is_hashed() && matches!(*node.kind, NodeKind::Leaf(_)),
        };
        let children = branch.children.iter();
        Some(children.fold(0, |bits, (at, link)| bits | u16::from(is_leaf(link)) << at))
    }

    /// Whether the parent has the node by its hash. The reference must have been computed.
    pub(super) fn is_hashed(&self) -> bool {
        matches!(self.reference.get(), Some(NodeReference::Hash(_)))
    }

    /// Decodes the row of a node that must have this hash.
    ///
    /// # Errors
    /// [`TrieNodeError`] if the row is not that of a node, or the node has another hash.
    pub(super) fn from_row(row: &[u8], expected: B256) -> Result<Self, TrieNodeError> {
        let mut after = row;
        Header::decode_bytes(&mut after, true)?;
        let got = keccak256(&row[..row.len() - after.len()]);
        if got != expected {
            return Err(TrieNodeError::Hash { got, expected });
        }
        Self::decode(row, NodeReference::Hash(expected))
    }

    /// A leaf that must have this hash.
    ///
    /// # Errors
    /// [`TrieNodeError`] if it has another one.
    pub(super) fn stored_leaf(key: Nibbles, value: Vec<u8>, expected: B256) -> Result<Self, TrieNodeError> {
        let mut node = Self::leaf(key, value);
        let mut rlp = Vec::with_capacity(128);
        node.encode_to(&mut rlp);
        let got = keccak256(rlp);
        if got != expected {
            return Err(TrieNodeError::Hash { got, expected });
        }
        node.reference = OnceCell::from(NodeReference::Hash(expected));
        node.unsaved = false;
        Ok(node)
    }

    /// Decodes a node from its row. `reference` is the reference that its parent has.
    ///
    /// # Errors
    /// [`TrieNodeError`] if the row is not that of a node.
    pub(super) fn decode(row: &[u8], reference: NodeReference) -> Result<Self, TrieNodeError> {
        let mut after = row;
        Header::decode_bytes(&mut after, true)?;
        let (rlp, after) = row.split_at(row.len() - after.len());
        let mut node = Self::decode_rlp(rlp, reference)?;
        let NodeKind::Branch(branch) = &mut *node.kind else {
            let got = after.len();
            return if got == 0 {
                Ok(node)
            } else {
                Err(TrieNodeError::Trailing { got, expected: 0 })
            };
        };
        let bits = <[u8; LEAF_BITS_BYTES]>::try_from(after).map_err(|_| TrieNodeError::Trailing {
            got: after.len(),
            expected: LEAF_BITS_BYTES,
        })?;
        let got = u16::from_be_bytes(bits);
        for child in (0..16).filter(|child| got & (1 << child) != 0) {
            let Some(&mut NodeLink::Stored(hash)) = branch.children.get_mut(child) else {
                return Err(TrieNodeError::LeafBits { got, child });
            };
            branch.children.set(child, NodeLink::StoredLeaf(hash));
        }
        Ok(node)
    }

    /// Decodes the RLP of a node, without knowing which children are leaves.
    ///
    /// # Errors
    /// [`TrieNodeError`] if it is not that of a node.
    pub(super) fn decode_rlp(rlp: &[u8], reference: NodeReference) -> Result<Self, TrieNodeError> {
        let mut rest = rlp;
        let mut payload = Header::decode_bytes(&mut rest, true)?;
        if !rest.is_empty() {
            return Err(TrieNodeError::Trailing {
                got: rest.len(),
                expected: 0,
            });
        }
        let mut items = [NodeItem::default(); 17];
        let mut count = 0;
        while !payload.is_empty() {
            let Some(item) = items.get_mut(count) else {
                return Err(TrieNodeError::Items { got: count + 1 });
            };
            let before = payload;
            let header = Header::decode(&mut payload)?;
            let (content, after) = payload
                .split_at_checked(header.payload_length)
                .ok_or(alloy_rlp::Error::InputTooShort)?;
            payload = after;
            *item = NodeItem {
                list: header.list,
                content,
                whole: &before[..before.len() - after.len()],
            };
            count += 1;
        }
        let mut node = match &items[..count] {
            [path, target] => {
                let (key, leaf) = from_hex_prefix(path.string()?)?;
                if leaf {
                    Self::leaf(key, target.string()?.to_vec())
                } else {
                    Self::extension(key, target.link()?)
                }
            }
            [children @ .., value] if children.len() == 16 => {
                let count = children.iter().filter(|child| child.is_there()).count();
                let mut links = Children::with_capacity(count);
                for (nibble, item) in (0..).zip(children) {
                    links.set(nibble, item.link()?);
                }
                let value = value.string()?;
                Self::branch(Branch {
                    children: links,
                    value: (!value.is_empty()).then(|| value.to_vec()),
                })
            }
            other => return Err(TrieNodeError::Items { got: other.len() }),
        };
        node.reference = OnceCell::from(reference);
        node.unsaved = false;
        Ok(node)
    }
}

/// An RLP item of an encoded node.
#[derive(Clone, Copy, Default)]
struct NodeItem<'a> {
    list: bool,
    /// The item without its RLP header.
    content: &'a [u8],
    /// The item with its RLP header.
    whole: &'a [u8],
}

impl<'a> NodeItem<'a> {
    const fn string(&self) -> Result<&'a [u8], TrieNodeError> {
        if self.list {
            Err(TrieNodeError::List)
        } else {
            Ok(self.content)
        }
    }

    /// Whether there is a child: anything but an empty string.
    const fn is_there(&self) -> bool {
        self.list || !self.content.is_empty()
    }

    fn link(&self) -> Result<NodeLink, TrieNodeError> {
        if self.list {
            let reference = NodeReference::Inline(InlineNode::new(self.whole)?);
            let node = TrieNode::decode_rlp(self.whole, reference)?;
            return Ok(NodeLink::Loaded(node));
        }
        match self.content.len() {
            0 => Ok(NodeLink::Empty),
            32 => Ok(NodeLink::Stored(B256::from_slice(self.content))),
            got => Err(TrieNodeError::Reference { got }),
        }
    }
}

fn encode_link(link: &NodeLink, out: &mut Vec<u8>) {
    match link {
        NodeLink::Empty => out.push(alloy_rlp::EMPTY_STRING_CODE),
        NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => encode_hash(hash, out),
        NodeLink::Loaded(node) => match node
            .reference
            .get()
            .expect("children's references are computed first")
        {
            NodeReference::Hash(hash) => encode_hash(hash, out),
            NodeReference::Inline(node) => out.extend_from_slice(node.rlp()),
        },
    }
}

fn encode_hash(hash: &B256, out: &mut Vec<u8>) {
    out.push(alloy_rlp::EMPTY_STRING_CODE + 32);
    out.extend_from_slice(hash.as_slice());
}

/// Bytes behind the RLP of a branch in its row.
const LEAF_BITS_BYTES: usize = 2;

/// Ends the row of a branch: see [`TrieNode::leaf_bits`].
pub(super) fn push_leaf_bits(bits: u16, row: &mut Vec<u8>) {
    row.extend_from_slice(&bits.to_be_bytes());
}

/// Turns the bytes of `out` from `start` on into the payload of an RLP list, by inserting the
/// list's header before them.
pub(super) fn wrap_list(start: usize, out: &mut Vec<u8>) {
    let header = Header {
        list: true,
        payload_length: out.len() - start,
    };
    let (end, length) = (out.len(), header.length());
    out.resize(end + length, 0);
    out.copy_within(start..end, start + length);
    header.encode(&mut &mut out[start..start + length]);
}

/// Appends the RLP of a key in hex-prefix encoding.
pub(super) fn push_hex_prefix(key: &[u8], leaf: bool, out: &mut Vec<u8>) {
    let bytes = key.len() / 2 + 1;
    if bytes > 1 {
        // A single byte is at most 0x3f here, so it needs no RLP header.
        let header = Header {
            list: false,
            payload_length: bytes,
        };
        header.encode(out);
    }
    extend_with_hex_prefix(key, leaf, out);
}

/// Appends a key in hex-prefix encoding.
pub(super) fn extend_with_hex_prefix(key: &[u8], leaf: bool, out: &mut Vec<u8>) {
    let flag = if leaf { 0x20 } else { 0 };
    let pairs = if key.len() % 2 == 1 {
        out.push(flag | 0x10 | key[0]);
        &key[1..]
    } else {
        out.push(flag);
        key
    };
    out.extend(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
}

/// Decodes a key in hex-prefix encoding. Returns its nibbles and whether it belongs to a leaf.
fn from_hex_prefix(bytes: &[u8]) -> Result<(Nibbles, bool), TrieNodeError> {
    let (first, rest) = bytes.split_first().ok_or(TrieNodeError::EmptyHexPrefix)?;
    if first & 0xc0 != 0 || (first & 0x10 == 0 && first & 0xf != 0) {
        return Err(TrieNodeError::HexPrefix { got: *first });
    }
    let odd = (first & 0x10 != 0).then_some(first & 0xf);
    let key = odd
        .into_iter()
        .chain(rest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]))
        .collect();
    Ok((key, first & 0x20 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_prefix_round_trips() {
        for (key, leaf) in [
            (vec![], true),
            (vec![1], true),
            (vec![1, 2], false),
            (vec![0, 15, 3], false),
            (vec![9; 64], true),
            (vec![9; 127], false),
        ] {
            let mut rlp = Vec::new();
            push_hex_prefix(&key, leaf, &mut rlp);
            let bytes = Header::decode_bytes(&mut rlp.as_slice(), false).unwrap();
            assert_eq!(from_hex_prefix(bytes).unwrap(), (key, leaf));
        }
    }

    /// An extension with a leaf of this length inside, and the length of that leaf's RLP.
    fn extension_around_leaf(value: usize) -> (Vec<u8>, usize) {
        let leaf = TrieNode::leaf(Vec::new(), vec![7; value]);
        let mut inner = Vec::new();
        leaf.encode_to(&mut inner);
        let mut rlp = Vec::new();
        push_hex_prefix(&[1], false, &mut rlp);
        rlp.extend_from_slice(&inner);
        wrap_list(0, &mut rlp);
        (rlp, inner.len())
    }

    #[test]
    fn a_node_inside_another_has_at_most_31_bytes() {
        let decoded = |value| {
            let (rlp, inside) = extension_around_leaf(value);
            (TrieNode::decode_rlp(&rlp, NodeReference::of(&rlp)), inside)
        };
        let (node, inside) = decoded(28);
        assert_eq!(inside, INLINE_BYTES_MAX);
        let mut again = Vec::new();
        node.unwrap().encode_to(&mut again);
        assert_eq!(again, extension_around_leaf(28).0);
        let (node, inside) = decoded(29);
        assert_eq!(inside, INLINE_BYTES_MAX + 1);
        let refused = node.unwrap_err().to_string();
        assert_eq!(refused, "node inside another: got 32 bytes, expected at most 31");
    }

    #[test]
    fn bad_nodes_are_errors() {
        let reference = NodeReference::Inline(InlineNode::default());
        for bad in [
            &[][..],
            &[0xc0],
            &[0x80],
            &[0xc1, 0x80],
            &[0xc2, 0x80, 0x80],
            &[0xf8],
            &[0xc3, 0x20, 1, 2],
        ] {
            assert!(TrieNode::decode(bad, reference.clone()).is_err(), "{bad:?}");
        }
    }
}
