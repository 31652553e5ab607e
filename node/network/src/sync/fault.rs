//! The faults of headers that a peer has sent, as far as they show without the chain's rules.

use primitives::B256;

use super::segments::EXTRA_DATA_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadersFault {
    /// Too many headers came, or none.
    #[error("headers: got {got}, expected 1 to {most}")]
    Count { got: usize, most: u64 },
    /// A header has another number.
    #[error("number of a header: got {got}, expected {expected}")]
    Number { got: u64, expected: u64 },
    /// A header is not the one that the header above names.
    #[error("hash of a header: got {got}, expected {expected}")]
    Hash { got: B256, expected: B256 },
    /// A header is longer than any valid one.
    #[error("extra data of a header: got {got} bytes, expected at most {EXTRA_DATA_MAX}")]
    ExtraData { got: usize },
    /// A segment does not build on the one below.
    #[error("parent of header {number}: got {got}, expected {expected}")]
    Parent { number: u64, got: B256, expected: B256 },
    /// The chain of the peer has another block 0.
    #[error("block 0 of the peer is another one")]
    Genesis,
}
