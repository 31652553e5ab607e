//! Trie nodes: what they are and how they are written.
//!
//! Source: Ethereum Yellow Paper, appendix D. Knows bytes and hashes; knows neither where
//! nodes lie nor how a trie changes.

use std::cell::OnceCell;

use alloy_rlp::{Encodable, Header};
use primitives::{B256, keccak256};

/// A key or a part of one, a nibble a byte.
pub(super) type Nibbles = Vec<u8>;

/// The nibbles of a byte key, high nibble first.
pub(super) fn nibbles(key: &[u8]) -> Nibbles {
    key.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect()
}

/// How a parent refers to a node: by hash, or by the node itself where that is under 32 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Hash(B256),
    Inline(Vec<u8>),
}

/// A place in the trie where a node may hang.
///
/// What a parent must know of a node lies here and not behind a pointer, so that encoding a
/// branch and looking for changes read its links and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) enum Link {
    #[default]
    Empty,
    /// A node that lies in the store and was not needed yet.
    Stored(B256),
    Node(Node),
}

impl Link {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

/// A node in memory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Emptied by every change below or at the node, filled when the trie is sealed.
    pub(super) reference: OnceCell<Reference>,
    /// The store does not have the node as it is.
    pub(super) unsaved: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Leaf(Box<Leaf>),
    Extension(Box<Extension>),
    Branch(Box<Branch>),
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) key: Nibbles,
    pub(super) value: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Extension {
    pub(super) key: Nibbles,
    pub(super) child: Link,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    pub(super) children: [Link; 16],
    pub(super) value: Option<Vec<u8>>,
}

impl Node {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            reference: OnceCell::new(),
            unsaved: true,
        }
    }

    pub(super) fn leaf(key: Nibbles, value: Vec<u8>) -> Self {
        Self::new(Kind::Leaf(Box::new(Leaf { key, value })))
    }

    pub(super) fn extension(key: Nibbles, child: Link) -> Self {
        Self::new(Kind::Extension(Box::new(Extension { key, child })))
    }

    pub(super) fn branch(branch: Box<Branch>) -> Self {
        Self::new(Kind::Branch(branch))
    }

    pub(super) fn touch(&mut self) {
        self.reference = OnceCell::new();
        self.unsaved = true;
    }

    /// Appends the node's RLP. Children must have their references.
    pub(super) fn encode_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match &self.kind {
            Kind::Leaf(leaf) => {
                push_hex_prefix(&leaf.key, true, out);
                leaf.value.as_slice().encode(out);
            }
            Kind::Extension(extension) => {
                push_hex_prefix(&extension.key, false, out);
                encode_link(&extension.child, out);
            }
            Kind::Branch(branch) => {
                for child in &branch.children {
                    encode_link(child, out);
                }
                branch.value.as_deref().unwrap_or_default().encode(out);
            }
        }
        wrap_list(start, out);
    }

    /// A node from the store. `reference` is how its parent names it.
    pub(super) fn decode(rlp: &[u8], reference: Reference) -> Result<Self, String> {
        let error = |error: alloy_rlp::Error| error.to_string();
        let mut rest = rlp;
        let mut payload = Header::decode_bytes(&mut rest, true).map_err(error)?;
        if !rest.is_empty() {
            return Err("bytes after the node".to_owned());
        }
        let mut items = [Item::default(); 17];
        let mut count = 0;
        while !payload.is_empty() {
            let Some(item) = items.get_mut(count) else {
                return Err("node of more than 17 items".to_owned());
            };
            let before = payload;
            let header = Header::decode(&mut payload).map_err(error)?;
            let (content, after) = payload
                .split_at_checked(header.payload_length)
                .ok_or("item ends early")?;
            payload = after;
            *item = Item {
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
                let mut branch = Box::<Branch>::default();
                for (link, item) in branch.children.iter_mut().zip(children) {
                    *link = item.link()?;
                }
                let value = value.string()?;
                branch.value = (!value.is_empty()).then(|| value.to_vec());
                Self::branch(branch)
            }
            other => return Err(format!("node of {} items, want 2 or 17", other.len())),
        };
        node.reference = OnceCell::from(reference);
        node.unsaved = false;
        Ok(node)
    }
}

#[derive(Clone, Copy, Default)]
struct Item<'a> {
    list: bool,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Item<'a> {
    fn string(&self) -> Result<&'a [u8], String> {
        if self.list {
            Err("list in place of a string".to_owned())
        } else {
            Ok(self.content)
        }
    }

    fn link(&self) -> Result<Link, String> {
        if self.list {
            let node = Node::decode(self.whole, Reference::Inline(self.whole.to_vec()))?;
            return Ok(Link::Node(node));
        }
        match self.content.len() {
            0 => Ok(Link::Empty),
            32 => Ok(Link::Stored(B256::from_slice(self.content))),
            length => Err(format!("child reference of {length} bytes")),
        }
    }
}

fn encode_link(link: &Link, out: &mut Vec<u8>) {
    match link {
        Link::Empty => out.push(alloy_rlp::EMPTY_STRING_CODE),
        Link::Stored(hash) => encode_hash(hash, out),
        Link::Node(node) => match node.reference.get().expect("children are sealed first") {
            Reference::Hash(hash) => encode_hash(hash, out),
            Reference::Inline(rlp) => out.extend_from_slice(rlp),
        },
    }
}

fn encode_hash(hash: &B256, out: &mut Vec<u8>) {
    out.push(alloy_rlp::EMPTY_STRING_CODE + 32);
    out.extend_from_slice(hash.as_slice());
}

/// The reference of a node with this RLP.
pub(super) fn reference_of(rlp: &[u8]) -> Reference {
    if rlp.len() < 32 {
        Reference::Inline(rlp.to_vec())
    } else {
        Reference::Hash(keccak256(rlp))
    }
}

/// Makes what `out` holds from `start` on the payload of an RLP list.
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

/// Appends the RLP of a key's hex prefix form.
pub(super) fn push_hex_prefix(key: &[u8], leaf: bool, out: &mut Vec<u8>) {
    let bytes = key.len() / 2 + 1;
    if bytes > 1 {
        // A single byte is its own RLP: it is at most 0x3f.
        let header = Header {
            list: false,
            payload_length: bytes,
        };
        header.encode(out);
    }
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

fn from_hex_prefix(bytes: &[u8]) -> Result<(Nibbles, bool), String> {
    let (first, rest) = bytes.split_first().ok_or("empty hex prefix")?;
    if first & 0xc0 != 0 || (first & 0x10 == 0 && first & 0xf != 0) {
        return Err(format!("hex prefix {first:#04x}"));
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

    #[test]
    fn bad_nodes_are_errors() {
        let reference = Reference::Inline(Vec::new());
        for bad in [
            &[][..],
            &[0xc0],
            &[0x80],
            &[0xc1, 0x80],
            &[0xc2, 0x80, 0x80],
            &[0xf8],
            &[0xc3, 0x20, 1, 2],
        ] {
            assert!(Node::decode(bad, reference.clone()).is_err(), "{bad:?}");
        }
    }
}
