//! Block streams: RLP blocks one after the other, as files and pipes carry them.
//!
//! Reads a block at a time and never holds more than one; what a length claims is taken only
//! as far as bytes come. Knows where a block begins and its header; whether the block is
//! good is decided in [`crate::import`].

use std::io::Read;

use primitives::rlp::{INPUT_BYTES_MAX, RlpReader};
use primitives::{B256, Block, DecodeError, Header, TxRules, keccak256};

/// The largest block that is read, in bytes.
pub const BLOCK_BYTES_MAX: usize = INPUT_BYTES_MAX;

/// Why a stream cannot be read on. `offset` is where the block at fault begins.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the place, the value got and the value expected, as the texts say"
)]
pub enum StreamError {
    /// The system refuses.
    #[error("cannot read at byte {offset}: {source}")]
    Read { offset: u64, source: std::io::Error },
    /// Something that is no list.
    #[error("byte {offset}: got {got:#04x}, want the beginning of a block (an RLP list)")]
    NoList { offset: u64, got: u8 },
    /// A length that is not in its shortest form.
    #[error("byte {offset}: the length of the block is not in its shortest form")]
    Length { offset: u64 },
    /// A block larger than any that is read.
    #[error("byte {offset}: the block claims {got} bytes, at most {max} are taken")]
    TooLong { offset: u64, got: u64, max: usize },
    /// The end comes within a block.
    #[error("byte {offset}: the stream ends within a block, after {got} of {expected} bytes")]
    Truncated { offset: u64, got: u64, expected: u64 },
    /// The list is no block.
    #[error("byte {offset}: {error}")]
    NoBlock { offset: u64, error: DecodeError },
}

/// A block as it lies in the stream, its header read.
#[derive(Clone, Debug)]
pub struct RawBlock {
    /// Where it begins.
    pub offset: u64,
    /// The block's hash.
    pub hash: B256,
    /// Its header.
    pub header: Header,
    /// Its RLP, whole.
    pub rlp: Vec<u8>,
}

impl RawBlock {
    /// The block; its transactions by `rules`.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is none.
    pub fn decode(&self, rules: TxRules) -> Result<Block, DecodeError> {
        Block::decode(&self.rlp, rules)
    }
}

/// Reads the blocks of a stream.
#[derive(Debug)]
pub struct BlockStream<R> {
    lists: ListStream<R>,
}

impl<R: Read> BlockStream<R> {
    /// The stream that `input` is. It is read in small pieces: give a buffered one.
    pub fn new(input: R) -> Self {
        Self {
            lists: ListStream::new(input),
        }
    }

    /// Where the blocks are read from.
    pub fn input(&self) -> &R {
        &self.lists.input
    }

    /// How many bytes were read.
    pub fn offset(&self) -> u64 {
        self.lists.offset
    }

    /// The next block; `None` at the end. After an error there is nothing to go on with.
    ///
    /// # Errors
    /// [`StreamError`] when there is something that is no block.
    pub fn next_block(&mut self) -> Result<Option<RawBlock>, StreamError> {
        let offset = self.lists.offset;
        let Some(rlp) = self.lists.next_list(BLOCK_BYTES_MAX)? else {
            return Ok(None);
        };
        let header = RlpReader::open(&rlp, "block").and_then(|mut parts| {
            let rlp = parts.raw("block.header")?;
            Ok((keccak256(rlp), Header::decode(rlp)?))
        });
        let (hash, header) = header.map_err(|error| StreamError::NoBlock { offset, error })?;
        Ok(Some(RawBlock {
            offset,
            hash,
            header,
            rlp,
        }))
    }
}

/// Reads RLP lists one after the other, whatever is in them.
#[derive(Debug)]
pub(crate) struct ListStream<R> {
    input: R,
    offset: u64,
}

impl<R: Read> ListStream<R> {
    /// The stream that `input` is. It is read in small pieces: give a buffered one.
    pub(crate) fn new(input: R) -> Self {
        Self { input, offset: 0 }
    }

    /// The next list with its prefix, of at most `max` bytes; `None` at the end. After an error
    /// there is nothing to go on with.
    pub(crate) fn next_list(&mut self, max: usize) -> Result<Option<Vec<u8>>, StreamError> {
        let offset = self.offset;
        let mut rlp = Vec::new();
        self.take(&mut rlp, 1)?;
        let Some(&prefix) = rlp.first() else {
            return Ok(None);
        };
        let payload = match prefix {
            0xc0..=0xf7 => u64::from(prefix - 0xc0),
            0xf8.. => self.long_length(&mut rlp, usize::from(prefix - 0xf7), offset)?,
            got => return Err(StreamError::NoList { offset, got }),
        };
        let expected = (rlp.len() as u64).saturating_add(payload);
        if expected > max as u64 {
            return Err(StreamError::TooLong {
                offset,
                got: expected,
                max,
            });
        }
        self.take(&mut rlp, payload)?;
        ends_at(&rlp, offset, expected)?;
        Ok(Some(rlp))
    }

    /// The length that follows the prefix in `bytes` bytes.
    fn long_length(&mut self, rlp: &mut Vec<u8>, bytes: usize, offset: u64) -> Result<u64, StreamError> {
        /// Lengths up to this one have a form of one byte.
        const SHORT_MAX: u64 = 55;
        self.take(rlp, bytes as u64)?;
        ends_at(rlp, offset, 1 + bytes as u64)?;
        let digits = &rlp[1..];
        let length = digits
            .iter()
            .fold(0u64, |length, byte| length << 8 | u64::from(*byte));
        if digits[0] == 0 || length <= SHORT_MAX {
            return Err(StreamError::Length { offset });
        }
        Ok(length)
    }

    /// Appends the next `count` bytes, or as many as there are.
    fn take(&mut self, rlp: &mut Vec<u8>, count: u64) -> Result<(), StreamError> {
        let before = rlp.len();
        let read = self.input.by_ref().take(count).read_to_end(rlp);
        self.offset += (rlp.len() - before) as u64;
        read.map_err(|source| StreamError::Read {
            offset: self.offset,
            source,
        })?;
        Ok(())
    }
}

fn ends_at(rlp: &[u8], offset: u64, expected: u64) -> Result<(), StreamError> {
    let got = rlp.len() as u64;
    if got == expected {
        return Ok(());
    }
    Err(StreamError::Truncated {
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

    fn read(bytes: &[u8]) -> (Vec<RawBlock>, Option<StreamError>) {
        let mut stream = BlockStream::new(bytes);
        let mut all = Vec::new();
        loop {
            match stream.next_block() {
                Ok(Some(block)) => all.push(block),
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    #[test]
    fn what_was_written_is_read() {
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
    fn every_cut_keeps_what_is_whole_and_says_where_it_ends() {
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
                Some(StreamError::Truncated { offset, got, .. }) => {
                    assert_eq!(offset as usize, ends[expected]);
                    assert_eq!(got as usize, cut - ends[expected]);
                }
                Some(other) => panic!("cut at {cut}: {other}"),
            }
        }
    }

    #[test]
    fn claims_are_bounded_before_they_are_believed() {
        let check = |bytes: &[u8], fits: fn(&StreamError) -> bool| {
            let (blocks, error) = read(bytes);
            let error = error.expect("an error");
            assert!(blocks.is_empty() && fits(&error), "{error}");
        };
        check(&[0xff; 9], |e| {
            matches!(e, StreamError::TooLong { got: u64::MAX, .. })
        });
        check(&[0xfb, 0xff, 0xff, 0xff, 0xff], |e| {
            matches!(e, StreamError::TooLong { .. })
        });
        // The largest length taken, with nothing behind it, costs no memory to speak of.
        check(&[0xfb, 0x03, 0, 0, 0], |e| {
            matches!(e, StreamError::Truncated { got: 5, .. })
        });
        check(&[0xf9, 0, 0xff], |e| {
            matches!(e, StreamError::Length { offset: 0 })
        });
        check(&[0xf8, 55], |e| matches!(e, StreamError::Length { .. }));
        check(&[0x80], |e| matches!(e, StreamError::NoList { got: 0x80, .. }));
        check(b"no", |e| matches!(e, StreamError::NoList { .. }));
        check(&[0xc0], |e| matches!(e, StreamError::NoBlock { .. }));
        check(&[0xc1, 0xc0], |e| matches!(e, StreamError::NoBlock { .. }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_blocks_or_errors(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
