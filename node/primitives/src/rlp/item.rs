//! The generic RLP tree: any value, without its meaning.
//!
//! Decoding and encoding do not recurse. They keep the open lists in a vector, so that a deeply
//! nested input cannot overflow the thread's stack.

use super::{ITEM_COUNT_MAX, ITEM_DEPTH_MAX, RlpError, check_size, split};

/// One RLP value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RlpItem {
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// A list of values.
    List(Vec<Self>),
}

/// A list that is being decoded: the items so far, and the bytes that are left.
struct OpenList<'a> {
    items: Vec<RlpItem>,
    rest: &'a [u8],
}

impl RlpItem {
    /// Decodes one value. No bytes may follow it.
    ///
    /// # Errors
    /// [`RlpError`] if `input` is not exactly one value in strict RLP, or if it exceeds
    /// [`INPUT_BYTES_MAX`](super::INPUT_BYTES_MAX), [`ITEM_DEPTH_MAX`] or [`ITEM_COUNT_MAX`].
    pub fn decode_exact(input: &[u8]) -> Result<Self, RlpError> {
        check_size(input)?;
        let first = split(input)?;
        if !first.rest.is_empty() {
            return Err(RlpError::Trailing {
                got: first.rest.len(),
            });
        }
        if !first.is_list {
            return Ok(Self::Bytes(first.payload.to_vec()));
        }
        decode_list(first.payload)
    }

    /// The RLP of the value.
    pub fn encode(&self) -> Vec<u8> {
        // Written from the last byte to the first: the length of a list is written before its
        // content, but is known only after it.
        let mut reversed = Vec::new();
        let mut steps = vec![EncodeStep::Write(self)];
        while let Some(step) = steps.pop() {
            match step {
                EncodeStep::Write(Self::Bytes(bytes)) => write_bytes(bytes, &mut reversed),
                EncodeStep::Write(Self::List(items)) => {
                    steps.push(EncodeStep::Close { from: reversed.len() });
                    steps.extend(items.iter().map(EncodeStep::Write));
                }
                EncodeStep::Close { from } => write_prefix(0xc0, reversed.len() - from, &mut reversed),
            }
        }
        reversed.reverse();
        reversed
    }
}

/// Decodes a list from its payload.
fn decode_list(payload: &[u8]) -> Result<RlpItem, RlpError> {
    let mut outer: Vec<OpenList<'_>> = Vec::new();
    let mut list = OpenList {
        items: Vec::new(),
        rest: payload,
    };
    let mut count = 1;
    loop {
        if list.rest.is_empty() {
            let done = RlpItem::List(list.items);
            match outer.pop() {
                None => return Ok(done),
                Some(parent) => list = parent,
            }
            list.items.push(done);
            continue;
        }
        count += 1;
        if count > ITEM_COUNT_MAX {
            return Err(RlpError::TooManyItems {
                bound: ITEM_COUNT_MAX,
            });
        }
        let first = split(list.rest)?;
        list.rest = first.rest;
        if first.is_list {
            if outer.len() + 2 > ITEM_DEPTH_MAX {
                return Err(RlpError::TooDeep {
                    bound: ITEM_DEPTH_MAX,
                });
            }
            outer.push(list);
            list = OpenList {
                items: Vec::new(),
                rest: first.payload,
            };
        } else {
            list.items.push(RlpItem::Bytes(first.payload.to_vec()));
        }
    }
}

/// A step of encoding that is still to be done.
enum EncodeStep<'a> {
    /// Write the value.
    Write(&'a RlpItem),
    /// Write the prefix of the list whose content begins at `from` in the reversed output.
    Close { from: usize },
}

fn write_bytes(bytes: &[u8], reversed: &mut Vec<u8>) {
    reversed.extend(bytes.iter().rev());
    if !matches!(bytes, [0x00..=0x7f]) {
        write_prefix(0x80, bytes.len(), reversed);
    }
}

/// Writes the prefix for `length` bytes, last byte first. `base` is 0x80 for bytes and 0xc0 for a
/// list.
fn write_prefix(base: u8, length: usize, reversed: &mut Vec<u8>) {
    if length <= 55 {
        reversed.push(base + length as u8);
        return;
    }
    let width = (usize::BITS - length.leading_zeros()).div_ceil(8) as u8;
    reversed.extend(&length.to_le_bytes()[..usize::from(width)]);
    reversed.push(base + 55 + width);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(item: RlpItem, encoded: &[u8]) {
        assert_eq!(item.encode(), encoded);
        assert_eq!(RlpItem::decode_exact(encoded), Ok(item));
    }

    fn bytes(text: &str) -> RlpItem {
        RlpItem::Bytes(text.as_bytes().to_vec())
    }

    /// The RLP of `depth` lists, each inside the next one.
    fn nested(depth: usize) -> Vec<u8> {
        let mut reversed = Vec::new();
        for _ in 0..depth {
            write_prefix(0xc0, reversed.len(), &mut reversed);
        }
        reversed.reverse();
        reversed
    }

    #[test]
    fn known_encodings() {
        check(bytes(""), &[0x80]);
        check(bytes("dog"), &[0x83, b'd', b'o', b'g']);
        check(RlpItem::Bytes(vec![0]), &[0]);
        check(RlpItem::Bytes(vec![0x80]), &[0x81, 0x80]);
        check(RlpItem::List(vec![]), &[0xc0]);
        check(
            RlpItem::List(vec![bytes("cat"), bytes("dog")]),
            &[0xc8, 0x83, b'c', b'a', b't', 0x83, b'd', b'o', b'g'],
        );
        let empty = || RlpItem::List(vec![]);
        let one = || RlpItem::List(vec![empty()]);
        check(
            RlpItem::List(vec![empty(), one(), RlpItem::List(vec![empty(), one()])]),
            &[0xc7, 0xc0, 0xc1, 0xc0, 0xc3, 0xc0, 0xc1, 0xc0],
        );
        let text = "Lorem ipsum dolor sit amet, consectetur adipisicing elit";
        check(bytes(text), &[&[0xb8, 0x38], text.as_bytes()].concat());
        check(
            RlpItem::List(vec![RlpItem::Bytes(vec![7; 1024])]),
            &[&[0xf9, 4, 3, 0xb9, 4, 0][..], &[7; 1024]].concat(),
        );
    }

    fn check_refused(input: &[u8], expected: RlpError) {
        assert_eq!(RlpItem::decode_exact(input), Err(expected));
    }

    #[test]
    fn refuses_inside_lists_too() {
        check_refused(&[0x80, 0x00], RlpError::Trailing { got: 1 });
        check_refused(&[0xc2, 0x81, 0x05], RlpError::PrefixedByte { got: 5 });
        check_refused(&[0xc1, 0x82], RlpError::Truncated { got: 0, expected: 2 });
        // The inner list is one byte longer than the outer list.
        check_refused(
            &[0xc3, 0xc3, 0x01, 0x02],
            RlpError::Truncated { got: 2, expected: 3 },
        );
    }

    #[test]
    fn depth_is_bounded() {
        let deepest = RlpItem::decode_exact(&nested(ITEM_DEPTH_MAX)).expect("as deep as allowed");
        assert_eq!(deepest.encode(), nested(ITEM_DEPTH_MAX));
        check_refused(
            &nested(ITEM_DEPTH_MAX + 1),
            RlpError::TooDeep {
                bound: ITEM_DEPTH_MAX,
            },
        );
        // Ten megabytes of nested lists, and ten megabytes that only look like nested lists.
        let bomb = nested(2_600_000);
        assert!(bomb.len() > 10_000_000);
        check_refused(
            &bomb,
            RlpError::TooDeep {
                bound: ITEM_DEPTH_MAX,
            },
        );
        check_refused(&vec![0xc1; 10_000_000], RlpError::Trailing { got: 9_999_998 });
        let mut framed = vec![0xfa, 0x98, 0x96, 0x80];
        framed.resize(10_000_004, 0xc1);
        check_refused(&framed, RlpError::Truncated { got: 0, expected: 1 });
    }

    #[test]
    fn size_and_count_are_bounded() {
        let mut many = vec![0xfa, 0x10, 0x00, 0x00];
        many.resize(4 + (1 << 20), 0x01);
        check_refused(
            &many,
            RlpError::TooManyItems {
                bound: ITEM_COUNT_MAX,
            },
        );
        let bound = crate::rlp::INPUT_BYTES_MAX;
        check_refused(
            &vec![0; bound + 1],
            RlpError::InputTooLong {
                got: bound + 1,
                bound,
            },
        );
    }
}
