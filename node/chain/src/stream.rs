//! Block streams: RLP blocks one after the other, in a file or from a pipe.
//!
//! One block at a time is read and held in memory. Memory is taken for bytes that were read, not
//! for the length that a block claims to have. This module finds the blocks and decodes their
//! headers; whether a block is valid is decided in [`crate::import`].

use std::io::Read;

use primitives::rlp::{INPUT_BYTES_MAX, RlpReader};
use primitives::{B256, Block, Bytes, DecodeError, Header, TxRules, U256, keccak256};

/// The largest block that is read, in bytes.
pub const BLOCK_BYTES_MAX: usize = INPUT_BYTES_MAX;

/// The reason why a stream cannot be read any further. `offset` is the start of the block with the
/// error.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the place, the value got and the value expected, as the texts say"
)]
pub enum BlockStreamError {
    /// The system reports an error.
    #[error("cannot read at byte {offset}: {source}")]
    Read { offset: u64, source: std::io::Error },
    /// There is a byte that begins no list.
    #[error("byte {offset}: got {got:#04x}, expected the beginning of a block (an RLP list)")]
    NoList { offset: u64, got: u8 },
    /// The length of the list is not in its shortest form.
    #[error("byte {offset}: the length of the block is not in its shortest form")]
    Length { offset: u64 },
    /// The block is longer than is allowed.
    #[error("byte {offset}: block too long: got {got} bytes, expected at most {max}")]
    TooLong { offset: u64, got: u64, max: usize },
    /// The stream ends within a block.
    #[error("byte {offset}: the stream ends within a block: got {got} bytes, expected {expected}")]
    Truncated { offset: u64, got: u64, expected: u64 },
    /// The list does not begin with a header.
    #[error("byte {offset}: {error}")]
    NoBlock { offset: u64, error: DecodeError },
    /// A source of another form has a fault.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
}

/// Gives blocks one after the other.
pub trait BlockSource: Send {
    /// The next block; `None` after the last one. After an error no more can be read.
    ///
    /// # Errors
    /// [`BlockStreamError`] if there is no block at this place.
    fn next_block(&mut self) -> Result<Option<RawBlock>, BlockStreamError>;

    /// The number of bytes that were read so far.
    fn offset(&self) -> u64;

    /// Whether the next block, or a part of it, is here. Otherwise it may take long to come.
    fn has_more(&mut self) -> bool;
}

impl<R: Read + Send> BlockSource for BlockStream<std::io::BufReader<R>> {
    fn next_block(&mut self) -> Result<Option<RawBlock>, BlockStreamError> {
        self.read_block()
    }

    fn offset(&self) -> u64 {
        self.lists.offset
    }

    fn has_more(&mut self) -> bool {
        !self.lists.input.buffer().is_empty()
    }
}

/// A block in its encoded form, with its decoded header.
#[derive(Clone, Debug)]
pub struct RawBlock {
    /// The offset of the block in the stream.
    pub offset: u64,
    /// The block's hash.
    pub hash: B256,
    /// The block's header.
    pub header: Header,
    /// The RLP of the whole block.
    pub rlp: Vec<u8>,
    /// The compressed receipts and the total difficulty that an Era1 file has for the block.
    pub published: Option<(Bytes, U256)>,
}

impl RawBlock {
    /// Decodes the block. `rules` say which transaction forms it may contain.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is invalid.
    pub fn decode(&self, rules: TxRules) -> Result<Block, DecodeError> {
        Block::decode(&self.rlp, rules)
    }
}

/// Reads the blocks of a stream.
#[derive(Debug)]
pub struct BlockStream<R> {
    lists: RlpListStream<R>,
}

impl<R: Read> BlockStream<R> {
    /// Makes a stream of the bytes of `input`. It is read in small pieces, so it should be
    /// buffered.
    pub const fn new(input: R) -> Self {
        Self {
            lists: RlpListStream::new(input),
        }
    }

    /// Reads the next block. Returns `None` at the end of the stream. After an error the stream
    /// cannot be read any further.
    ///
    /// # Errors
    /// [`BlockStreamError`] if there is no block at this place.
    pub fn read_block(&mut self) -> Result<Option<RawBlock>, BlockStreamError> {
        let offset = self.lists.offset;
        let Some(rlp) = self.lists.next_list(BLOCK_BYTES_MAX)? else {
            return Ok(None);
        };
        let header = RlpReader::open(&rlp, "block").and_then(|mut parts| {
            let rlp = parts.raw("block.header")?;
            Ok((keccak256(rlp), Header::decode(rlp)?))
        });
        let (hash, header) = header.map_err(|error| BlockStreamError::NoBlock { offset, error })?;
        Ok(Some(RawBlock {
            offset,
            hash,
            header,
            rlp,
            published: None,
        }))
    }
}

/// Reads RLP lists one after the other, whatever they contain.
#[derive(Debug)]
pub(crate) struct RlpListStream<R> {
    input: R,
    offset: u64,
}

impl<R: Read> RlpListStream<R> {
    /// Makes a stream of the bytes of `input`. It is read in small pieces, so it should be
    /// buffered.
    pub(crate) const fn new(input: R) -> Self {
        Self { input, offset: 0 }
    }

    /// Reads the next list, with its prefix, of at most `max` bytes. Returns `None` at the end of
    /// the stream. After an error the stream cannot be read any further.
    pub(crate) fn next_list(&mut self, max: usize) -> Result<Option<Vec<u8>>, BlockStreamError> {
        let offset = self.offset;
        let mut rlp = Vec::new();
        self.take(&mut rlp, 1)?;
        let Some(&prefix) = rlp.first() else {
            return Ok(None);
        };
        let payload = match prefix {
            0xc0..=0xf7 => u64::from(prefix - 0xc0),
            0xf8.. => self.long_length(&mut rlp, usize::from(prefix - 0xf7), offset)?,
            got => return Err(BlockStreamError::NoList { offset, got }),
        };
        let expected = (rlp.len() as u64).saturating_add(payload);
        if expected > max as u64 {
            return Err(BlockStreamError::TooLong {
                offset,
                got: expected,
                max,
            });
        }
        self.take(&mut rlp, payload)?;
        expect_length(&rlp, offset, expected)?;
        Ok(Some(rlp))
    }

    /// Reads the length that follows the prefix in `bytes` bytes.
    fn long_length(&mut self, rlp: &mut Vec<u8>, bytes: usize, offset: u64) -> Result<u64, BlockStreamError> {
        /// Lengths up to this one are part of the prefix byte.
        const SHORT_MAX: u64 = 55;
        self.take(rlp, bytes as u64)?;
        expect_length(rlp, offset, 1 + bytes as u64)?;
        let digits = &rlp[1..];
        let length = digits
            .iter()
            .fold(0u64, |length, byte| length << 8 | u64::from(*byte));
        if digits[0] == 0 || length <= SHORT_MAX {
            return Err(BlockStreamError::Length { offset });
        }
        Ok(length)
    }

    /// Appends the next `count` bytes, or all that are left if these are fewer.
    fn take(&mut self, rlp: &mut Vec<u8>, count: u64) -> Result<(), BlockStreamError> {
        let before = rlp.len();
        let read = self.input.by_ref().take(count).read_to_end(rlp);
        self.offset += (rlp.len() - before) as u64;
        read.map_err(|source| BlockStreamError::Read {
            offset: self.offset,
            source,
        })?;
        Ok(())
    }
}

/// Checks that all bytes of a list were read.
const fn expect_length(rlp: &[u8], offset: u64, expected: u64) -> Result<(), BlockStreamError> {
    let got = rlp.len() as u64;
    if got == expected {
        return Ok(());
    }
    Err(BlockStreamError::Truncated {
        offset,
        got,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use primitives::Transaction;
    use proptest::prelude::*;

    use super::*;

    fn blocks() -> Vec<Block> {
        let block = |number, transactions| Block {
            header: Header {
                number,
                ..Default::default()
            },
            transactions,
            uncles: Vec::new(),
        };
        vec![
            block(0, Vec::new()),
            block(1, vec![Transaction::system(0)]),
            block(2, (0..100).map(Transaction::system).collect()),
        ]
    }

    fn bytes() -> Vec<u8> {
        blocks().iter().flat_map(Block::encode).collect()
    }

    fn read(bytes: &[u8]) -> (Vec<RawBlock>, Option<BlockStreamError>) {
        let mut stream = BlockStream::new(bytes);
        let mut all = Vec::new();
        loop {
            match stream.read_block() {
                Ok(Some(block)) => all.push(block),
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    #[test]
    fn encoded_blocks_are_read_again() {
        let (raw, error) = read(&bytes());
        assert!(error.is_none(), "{error:?}");
        let decoded: Vec<_> = raw.iter().map(|raw| raw.decode(TxRules::Moac).unwrap()).collect();
        assert_eq!(decoded, blocks());
        for (raw, block) in raw.iter().zip(blocks()) {
            assert_eq!((raw.hash, &raw.header), (block.hash(), &block.header));
        }
        let sizes: Vec<_> = blocks().iter().map(|block| block.size() as u64).collect();
        let offsets: Vec<_> = raw.iter().map(|raw| raw.offset).collect();
        assert_eq!(offsets, [0, sizes[0], sizes[0] + sizes[1]]);
        assert!(matches!(read(&[]), (all, None) if all.is_empty()));
    }

    #[test]
    fn a_truncated_stream_gives_its_complete_blocks_and_the_place_of_the_error() {
        let bytes = bytes();
        let mut ends = vec![0];
        ends.extend(blocks().iter().scan(0, |end, block| {
            *end += block.size();
            Some(*end)
        }));
        for cut in 0..bytes.len() {
            let (whole, error) = read(&bytes[..cut]);
            let expected = ends.iter().filter(|end| **end <= cut).count() - 1;
            assert_eq!(whole.len(), expected, "cut at {cut}");
            match error {
                None => assert!(ends.contains(&cut), "cut at {cut}"),
                Some(BlockStreamError::Truncated { offset, got, .. }) => {
                    assert_eq!(offset as usize, ends[expected]);
                    assert_eq!(got as usize, cut - ends[expected]);
                }
                Some(other) => panic!("cut at {cut}: {other}"),
            }
        }
    }

    #[test]
    fn claimed_lengths_are_checked_before_memory_is_taken() {
        let check = |bytes: &[u8], fits: fn(&BlockStreamError) -> bool| {
            let (blocks, error) = read(bytes);
            let error = error.expect("an error");
            assert!(blocks.is_empty() && fits(&error), "{error}");
        };
        check(&[0xff; 9], |e| {
            matches!(e, BlockStreamError::TooLong { got: u64::MAX, .. })
        });
        check(&[0xfb, 0xff, 0xff, 0xff, 0xff], |e| {
            matches!(e, BlockStreamError::TooLong { .. })
        });
        // The largest allowed length, without any bytes after it, takes hardly any memory.
        check(&[0xfb, 0x03, 0, 0, 0], |e| {
            matches!(e, BlockStreamError::Truncated { got: 5, .. })
        });
        check(&[0xf9, 0, 0xff], |e| {
            matches!(e, BlockStreamError::Length { offset: 0 })
        });
        check(&[0xf8, 55], |e| matches!(e, BlockStreamError::Length { .. }));
        check(&[0x80], |e| {
            matches!(e, BlockStreamError::NoList { got: 0x80, .. })
        });
        check(b"no", |e| matches!(e, BlockStreamError::NoList { .. }));
        check(&[0xc0], |e| matches!(e, BlockStreamError::NoBlock { .. }));
        check(&[0xc1, 0xc0], |e| matches!(e, BlockStreamError::NoBlock { .. }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_blocks_or_errors(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
