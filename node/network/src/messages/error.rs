//! The reasons why a message of a peer is refused.

use primitives::DecodeError;

use super::protocol::WireProtocol;

/// The reason why a message of a peer is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerMessageError {
    /// The capability has no message with this code.
    #[error("code {got:#04x}: {protocol} has no such message")]
    UnknownCode {
        /// The code.
        got: u64,
        /// The capability.
        protocol: WireProtocol,
    },
    /// A field has another form.
    #[error("{message}: {cause}")]
    Field {
        /// The message.
        message: &'static str,
        /// The field and what is wrong.
        cause: DecodeError,
    },
    /// The message is too long.
    #[error("{message}: got {got} bytes, expected at most {bound}")]
    Size {
        /// The message.
        message: &'static str,
        /// The length of the message.
        got: usize,
        /// The largest allowed length.
        bound: usize,
    },
    /// A list has too many entries.
    #[error("{message}.{list}: got {got} entries, expected at most {bound}")]
    TooMany {
        /// The message.
        message: &'static str,
        /// The list.
        list: &'static str,
        /// The length of the list.
        got: usize,
        /// The largest allowed length.
        bound: usize,
    },
    /// A field has a value that it cannot have.
    #[error("{message}.{field}: got {got}, expected {expected}")]
    Value {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The value that came.
        got: u64,
        /// The values that are allowed.
        expected: &'static str,
    },
    /// The lists of an announcement have different lengths.
    #[error("{message}: got {got:?} types, sizes and hashes, expected the same number of each")]
    UnequalLists {
        /// The message.
        message: &'static str,
        /// The three lengths.
        got: [usize; 3],
    },
}
