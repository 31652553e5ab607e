//! Zstandard frames, and rows that are compressed if that makes them shorter.
//!
//! A packed row begins with a byte: 0 before the row as it is, 1 before a frame of the row. Knows
//! bytes only. Bad bytes give an error, never a panic.

use std::borrow::Cow;
use std::io;

use zstd::bulk::Compressor;

use crate::row_error::RowError;

/// The level of compression. Higher levels are slower and gain less than 1 % on blocks.
const LEVEL: i32 = 3;
/// The longest content of a frame, in bytes.
pub(crate) const CONTENT_BYTES_MAX: usize = 1 << 30;
/// Shorter rows are not compressed.
const PACKED_BYTES_MIN: usize = 512;

const PLAIN: u8 = 0;
const FRAME: u8 = 1;

/// Compresses contents into frames.
pub(crate) struct FrameEncoder(Compressor<'static>);

impl FrameEncoder {
    /// # Errors
    /// Only for lack of memory.
    pub(crate) fn new() -> io::Result<Self> {
        Compressor::new(LEVEL).map(Self)
    }

    /// The frame of `content`.
    ///
    /// # Errors
    /// Only for lack of memory.
    pub(crate) fn encode(&mut self, content: &[u8]) -> io::Result<Vec<u8>> {
        self.0.compress(content)
    }
}

/// The content of a frame.
pub(crate) fn decode_frame(frame: &[u8]) -> Result<Vec<u8>, RowError> {
    let len = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    let bounded = len
        .and_then(|len| usize::try_from(len).ok())
        .filter(|len| *len <= CONTENT_BYTES_MAX)
        .ok_or(RowError::FrameLength {
            got: len,
            bound: CONTENT_BYTES_MAX,
        })?;
    zstd::bulk::decompress(frame, bounded).map_err(RowError::Frame)
}

/// Packs a row, compressed if that makes it shorter.
pub(crate) fn pack(row: &[u8]) -> Vec<u8> {
    let frame = (PACKED_BYTES_MIN..=CONTENT_BYTES_MAX)
        .contains(&row.len())
        .then(|| {
            FrameEncoder::new()
                .and_then(|mut encoder| encoder.encode(row))
                .ok()
        })
        .flatten()
        .filter(|frame| frame.len() < row.len());
    match frame {
        // A row may have many MiB, so no second buffer is made.
        Some(mut frame) => {
            frame.insert(0, FRAME);
            frame
        }
        None => [&[PLAIN], row].concat(),
    }
}

/// The row that was packed.
pub(crate) fn unpack(packed: &[u8]) -> Result<Cow<'_, [u8]>, RowError> {
    match packed.split_first() {
        Some((&PLAIN, row)) => Ok(Cow::Borrowed(row)),
        Some((&FRAME, frame)) => decode_frame(frame).map(Cow::Owned),
        Some((form, _)) => Err(RowError::Value {
            field: "form of the row",
            got: (*form).into(),
            expected: "0 or 1",
        }),
        None => Err(RowError::CutOff { got: 0, expected: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_round_trip(row: Vec<u8>, repeat in 1usize..40) {
            let row = row.repeat(repeat);
            let packed = pack(&row);
            prop_assert!(packed.len() <= row.len() + 1);
            let unpacked = unpack(&packed).unwrap();
            prop_assert_eq!(&*unpacked, row.as_slice());
        }

        #[test]
        fn bad_bytes_are_errors_and_never_a_panic(bytes: Vec<u8>) {
            for form in [PLAIN, FRAME, 2] {
                let packed = [&[form], bytes.as_slice()].concat();
                prop_assert!(unpack(&packed).is_ok() || form != PLAIN);
            }
        }
    }

    #[test]
    fn long_rows_that_repeat_are_compressed() {
        let row = vec![7; 10_000];
        let packed = pack(&row);
        assert!(packed.len() < 100 && packed[0] == FRAME);
        let truncated = &packed[..packed.len() - 1];
        assert!(
            unpack(truncated)
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
        assert!(unpack(&[]).is_err());
        assert_eq!(pack(b"short"), b"\0short");
    }
}
