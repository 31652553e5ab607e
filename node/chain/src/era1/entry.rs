//! The entries of an Era1 file, and the compression of their data.

use std::io::{Read, Write};

use super::Era1Error;
use crate::stream::BLOCK_BYTES_MAX;

/// Bytes before the data of an entry.
pub(super) const HEADER_BYTES: u64 = 8;
/// The longest data of an entry. Data that cannot be compressed grows by less than this.
const DATA_BYTES_MAX: u64 = BLOCK_BYTES_MAX as u64 * 9 / 8;
/// Bytes that are read at once, so that memory is taken for bytes that exist.
const READ_BYTES: u64 = 1 << 16;

/// The types of entries that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryType {
    Version,
    Header,
    Body,
    Receipts,
    TotalDifficulty,
    Accumulator,
    Index,
}

impl EntryType {
    const ALL: [(Self, u16, &'static str); 7] = [
        (Self::Version, 0x3265, "version"),
        (Self::Header, 3, "header"),
        (Self::Body, 4, "body"),
        (Self::Receipts, 5, "receipts"),
        (Self::TotalDifficulty, 6, "total difficulty"),
        (Self::Accumulator, 7, "accumulator"),
        (Self::Index, 0x3266, "index"),
    ];

    const fn row(self) -> (Self, u16, &'static str) {
        Self::ALL[self as usize]
    }

    /// The type in words.
    pub(super) const fn name(self) -> &'static str {
        self.row().2
    }

    fn of(code: u16) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(_, known, _)| *known == code);
        known.map(|(entry, ..)| entry)
    }
}

/// The type of the next entry and the length of its data; `None` at the end of the input. A type
/// that is not known is `None`.
pub(super) fn read_header(input: &mut impl Read) -> Result<Option<(Option<EntryType>, u64)>, Era1Error> {
    let bytes = read_up_to(input, HEADER_BYTES)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let Ok([one, two, length @ .., three, four]) = <[u8; 8]>::try_from(&bytes[..]) else {
        return Err(Era1Error::Cut {
            what: "the beginning of an entry",
            got: bytes.len() as u64,
            expected: HEADER_BYTES,
        });
    };
    match u16::from_le_bytes([three, four]) {
        0 => {}
        got => return Err(Era1Error::Reserved { got }),
    }
    let entry = EntryType::of(u16::from_le_bytes([one, two]));
    Ok(Some((entry, u32::from_le_bytes(length).into())))
}

/// Reads the data of an entry.
pub(super) fn read_data(input: &mut impl Read, entry: EntryType, length: u64) -> Result<Vec<u8>, Era1Error> {
    let what = entry.name();
    if length > DATA_BYTES_MAX {
        return Err(Era1Error::Length {
            what,
            got: length,
            expected: format!("at most {DATA_BYTES_MAX}"),
        });
    }
    let data = read_up_to(input, length)?;
    match data.len() as u64 {
        got if got == length => Ok(data),
        got => Err(Era1Error::Cut {
            what,
            got,
            expected: length,
        }),
    }
}

/// Skips the data of an entry of another type.
pub(super) fn skip_data(input: &mut impl Read, length: u64) -> Result<(), Era1Error> {
    match std::io::copy(&mut input.take(length), &mut std::io::sink())? {
        got if got == length => Ok(()),
        got => Err(Era1Error::Cut {
            what: "an entry of another type",
            got,
            expected: length,
        }),
    }
}

fn read_up_to(input: &mut impl Read, length: u64) -> Result<Vec<u8>, Era1Error> {
    let mut bytes = Vec::with_capacity(length.min(READ_BYTES) as usize);
    input.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The 32 bytes of an entry that has so many.
pub(super) fn fixed(entry: EntryType, data: &[u8]) -> Result<[u8; 32], Era1Error> {
    data.try_into().map_err(|_| Era1Error::Length {
        what: entry.name(),
        got: data.len() as u64,
        expected: "32".to_owned(),
    })
}

/// The content of compressed data. The frames have checksums, which are compared.
pub(super) fn decompress(entry: EntryType, data: &[u8]) -> Result<Vec<u8>, Era1Error> {
    let what = entry.name();
    let mut content = Vec::with_capacity(data.len());
    snap::read::FrameDecoder::new(data)
        .take(BLOCK_BYTES_MAX as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|error| Era1Error::Snappy { what, error })?;
    if content.len() > BLOCK_BYTES_MAX {
        return Err(Era1Error::Length {
            what,
            got: content.len() as u64,
            expected: format!("at most {BLOCK_BYTES_MAX}"),
        });
    }
    Ok(content)
}

/// Appends an entry to `out`.
pub(super) fn push_entry(out: &mut Vec<u8>, entry: EntryType, data: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(data.len()).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
    out.extend_from_slice(&entry.row().1.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(data);
    Ok(())
}

/// Appends an entry with compressed `content` to `out`.
pub(super) fn push_compressed(out: &mut Vec<u8>, entry: EntryType, content: &[u8]) -> std::io::Result<()> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::with_capacity(content.len() / 2));
    encoder.write_all(content)?;
    let data = encoder.into_inner().map_err(|failed| failed.into_error());
    push_entry(out, entry, &data?)
}
