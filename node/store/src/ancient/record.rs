//! The compressed form of a block: three frames.
//!
//! | frame | content |
//! |---|---|
//! | header | the row of `block_to_header` |
//! | content | length of the body's row (LEB128), the rows of `block_to_body` and `block_to_receipts` |
//! | changes | the row of `block_to_changes` |
//!
//! A frame is a CRC-32 of the rest (4, little-endian) and a zstd frame that carries the length of
//! its content. The frame of the changes is compressed with the content of the second frame as its
//! dictionary: most addresses in it stand there, too.
//!
//! Knows bytes only.

use zstd::bulk::{Compressor, Decompressor};

use crate::codec::{push_number, read_number};

/// Level of compression. Signatures and addresses are random bytes, so more gains nothing.
const LEVEL: i32 = 3;
/// Bytes of the checksum before a frame.
const CHECKSUM_BYTES: usize = 4;
/// The most bytes that a frame may hold. A frame that says more is damaged.
const CONTENT_BYTES_MAX: usize = 1 << 30;

/// The rows of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockRows {
    pub(crate) header: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) receipts: Vec<u8>,
    pub(crate) changes: Vec<u8>,
}

/// The compressed rows of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockFrames {
    pub(crate) header: Vec<u8>,
    pub(crate) content: Vec<u8>,
    pub(crate) changes: Vec<u8>,
}

/// The decompressed second frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    bytes: Vec<u8>,
    body: std::ops::Range<usize>,
}

impl Content {
    fn new(body: &[u8], receipts: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(body.len() + receipts.len() + 5);
        push_number(&mut bytes, body.len() as u64);
        let start = bytes.len();
        bytes.extend_from_slice(body);
        let end = bytes.len();
        bytes.extend_from_slice(receipts);
        Self {
            bytes,
            body: start..end,
        }
    }

    /// Decompresses the frame.
    ///
    /// # Errors
    /// A text that says what is wrong with the frame.
    pub(crate) fn read(frame: &[u8]) -> Result<Self, String> {
        let bytes = decompress(frame, &[])?;
        let mut rest = bytes.as_slice();
        let len = read_number(&mut rest)?;
        let start = bytes.len() - rest.len();
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        match end.filter(|end| *end <= bytes.len()) {
            Some(end) => Ok(Self {
                body: start..end,
                bytes,
            }),
            None => Err(format!("length of the body: got {len}, expected at most {}", rest.len())),
        }
    }

    /// The row of the body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body.clone()]
    }

    /// The row of the receipts.
    pub(crate) fn receipts(&self) -> &[u8] {
        &self.bytes[self.body.end..]
    }
}

impl BlockRows {
    /// Compresses the rows.
    ///
    /// # Errors
    /// A text if the library refuses, which it does only when there is no memory.
    pub(crate) fn compress(&self) -> Result<BlockFrames, String> {
        let content = Content::new(&self.body, &self.receipts);
        Ok(BlockFrames {
            header: compress(&self.header, &[])?,
            content: compress(&content.bytes, &[])?,
            changes: compress(&self.changes, &content.bytes)?,
        })
    }
}

/// Decompresses the frame of the header.
///
/// # Errors
/// A text that says what is wrong with the frame.
pub(crate) fn read_header(frame: &[u8]) -> Result<Vec<u8>, String> {
    decompress(frame, &[])
}

/// Decompresses the frame of the changes. `content` is that of the same block.
///
/// # Errors
/// A text that says what is wrong with the frame.
pub(crate) fn read_changes(frame: &[u8], content: &Content) -> Result<Vec<u8>, String> {
    decompress(frame, &content.bytes)
}

fn compress(bytes: &[u8], dictionary: &[u8]) -> Result<Vec<u8>, String> {
    let compressed = Compressor::with_dictionary(LEVEL, dictionary)
        .and_then(|mut compressor| compressor.compress(bytes))
        .map_err(|error| format!("cannot compress {} bytes: {error}", bytes.len()))?;
    let mut frame = crc32fast::hash(&compressed).to_le_bytes().to_vec();
    frame.extend_from_slice(&compressed);
    Ok(frame)
}

fn decompress(frame: &[u8], dictionary: &[u8]) -> Result<Vec<u8>, String> {
    let (sum, compressed) = frame
        .split_at_checked(CHECKSUM_BYTES)
        .ok_or_else(|| format!("frame: got {} bytes, expected more", frame.len()))?;
    let expected = crc32fast::hash(compressed).to_le_bytes();
    if sum != expected {
        return Err(format!("checksum of a frame: got {sum:02x?}, expected {expected:02x?}"));
    }
    let len = zstd::zstd_safe::get_frame_content_size(compressed)
        .ok()
        .flatten()
        .and_then(|len| usize::try_from(len).ok())
        .filter(|len| *len <= CONTENT_BYTES_MAX)
        .ok_or("frame: it does not say how long its content is, or too much")?;
    Decompressor::with_dictionary(dictionary)
        .and_then(|mut decompressor| decompressor.decompress(compressed, len))
        .map_err(|error| format!("frame: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_round_trip(header: Vec<u8>, body: Vec<u8>, receipts: Vec<u8>, changes: Vec<u8>) {
            let rows = BlockRows { header, body, receipts, changes };
            let frames = rows.compress().unwrap();
            prop_assert_eq!(read_header(&frames.header).unwrap(), rows.header);
            let content = Content::read(&frames.content).unwrap();
            prop_assert_eq!(content.body(), rows.body);
            prop_assert_eq!(content.receipts(), rows.receipts);
            prop_assert_eq!(read_changes(&frames.changes, &content).unwrap(), rows.changes);
        }

        #[test]
        fn bad_frames_are_errors_and_never_a_panic(frame: Vec<u8>) {
            prop_assert!(read_header(&frame).is_err());
            let mut with_sum = crc32fast::hash(&frame).to_le_bytes().to_vec();
            with_sum.extend_from_slice(&frame);
            let _ = read_header(&with_sum);
            let _ = Content::read(&with_sum);
        }
    }

    #[test]
    fn every_flipped_bit_is_an_error() {
        let frame = compress(b"a header, a header, a header", &[]).unwrap();
        for at in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(read_header(&flipped).is_err(), "bit {at}");
        }
    }

    #[test]
    fn changes_find_their_addresses_in_the_body() {
        let addresses: Vec<u8> = (0..100u32).flat_map(|at| crc32fast::hash(&at.to_le_bytes()).to_le_bytes().repeat(5)).collect();
        let rows = BlockRows {
            body: addresses.clone(),
            changes: addresses.chunks(20).rev().flatten().copied().collect(),
            ..BlockRows::default()
        };
        let frames = rows.compress().unwrap();
        assert!(frames.changes.len() * 2 < compress(&rows.changes, &[]).unwrap().len() + 400, "{}", frames.changes.len());
    }
}
