//! A part of a block as the blocks file keeps it: a Zstandard frame of its row and a checksum.
//!
//! The checksum is the CRC-32 of block number (8), part (1), block hash (32) and the frame. So a
//! record at a wrong place, or of another block, is not taken for the right one. It stands behind
//! the frame. All numbers are little-endian.

use primitives::B256;

use super::BlockPart;
use crate::compression::{FrameEncoder, decode_frame};
use crate::row_error::RowError;

/// Bytes of a checksum.
const CHECKSUM: usize = 4;

/// Compresses parts of blocks.
pub(super) struct PartEncoder(FrameEncoder);

impl PartEncoder {
    /// # Errors
    /// Only for lack of memory.
    pub(super) fn new() -> std::io::Result<Self> {
        FrameEncoder::new().map(Self)
    }

    /// Appends the form of a part in the file to `out`. Returns its length.
    ///
    /// # Errors
    /// Only for lack of memory.
    pub(super) fn encode(
        &mut self,
        number: u64,
        part: BlockPart,
        hash: &B256,
        row: &[u8],
        out: &mut Vec<u8>,
    ) -> std::io::Result<u64> {
        let frame = self.0.encode(row)?;
        let sum = checksum(number, part, hash, &frame);
        out.extend_from_slice(&frame);
        out.extend_from_slice(&sum.to_le_bytes());
        Ok((frame.len() + CHECKSUM) as u64)
    }
}

/// The row of a part.
pub(super) fn decode_part(
    number: u64,
    part: BlockPart,
    hash: &B256,
    bytes: &[u8],
) -> Result<Vec<u8>, RowError> {
    let Some((frame, stored)) = bytes.split_last_chunk::<CHECKSUM>() else {
        return Err(RowError::CutOff {
            got: bytes.len(),
            expected: CHECKSUM as u64,
        });
    };
    let (got, expected) = (checksum(number, part, hash, frame), u32::from_le_bytes(*stored));
    if got != expected {
        return Err(RowError::Checksum { got, expected });
    }
    decode_frame(frame)
}

fn checksum(number: u64, part: BlockPart, hash: &B256, frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&[part as u8]);
    hasher.update(hash.as_slice());
    hasher.update(frame);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(number: u64, part: BlockPart, hash: &B256, row: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = PartEncoder::new().unwrap();
        let len = encoder.encode(number, part, hash, row, &mut bytes).unwrap();
        assert_eq!(len, bytes.len() as u64);
        bytes
    }

    proptest! {
        #[test]
        fn parts_round_trip(number: u64, hash: [u8; 32], row: Vec<u8>, repeat in 1usize..50) {
            let (hash, row) = (B256::from(hash), row.repeat(repeat));
            for part in BlockPart::ALL {
                let bytes = encoded(number, part, &hash, &row);
                prop_assert_eq!(decode_part(number, part, &hash, &bytes).unwrap(), row.as_slice());
            }
        }

        #[test]
        fn a_flipped_bit_is_an_error(row: Vec<u8>, at: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = encoded(7, BlockPart::Body, &B256::ZERO, &row);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode_part(7, BlockPart::Body, &B256::ZERO, &bytes).is_err());
        }

        #[test]
        fn bad_bytes_are_errors_and_never_a_panic(bytes: Vec<u8>) {
            // With a right checksum, too.
            let mut summed = bytes.clone();
            summed.extend_from_slice(&checksum(1, BlockPart::Body, &B256::ZERO, &bytes).to_le_bytes());
            for bytes in [bytes, summed] {
                let _ = decode_part(1, BlockPart::Body, &B256::ZERO, &bytes);
            }
        }
    }

    #[test]
    fn a_part_of_another_block_is_an_error() {
        let hash = B256::repeat_byte(1);
        let bytes = encoded(7, BlockPart::Body, &hash, b"row");
        assert_eq!(decode_part(7, BlockPart::Body, &hash, &bytes).unwrap(), b"row");
        let check = |number, part, hash: B256| {
            let error = decode_part(number, part, &hash, &bytes).unwrap_err();
            assert!(matches!(error, RowError::Checksum { .. }), "{error}");
        };
        check(8, BlockPart::Body, hash);
        check(7, BlockPart::Receipts, hash);
        check(7, BlockPart::Body, B256::repeat_byte(2));
    }
}
