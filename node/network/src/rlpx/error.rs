//! The reasons why a connection ends, and why a message is not sent.

use primitives::{B512, DecodeError};

use super::frame::FrameError;
use super::handshake::HandshakeError;
use super::hello::RlpxDisconnect;
use super::session::OUTPUT_BYTES_MAX;

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RlpxError {
    /// The handshake failed.
    #[error("handshake: {0}")]
    Handshake(#[from] HandshakeError),
    /// A frame is wrong.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The message code is not an integer.
    #[error("message code: {0}")]
    Code(DecodeError),
    /// The first message is neither a Hello nor a Disconnect.
    #[error("first message: got code {got}, expected Hello (0) or Disconnect (1)")]
    NoHello {
        /// The code.
        got: u64,
    },
    /// The Hello has another form.
    #[error("{0}")]
    Hello(DecodeError),
    /// The Hello has another id than the one that the handshake proved.
    #[error("node id in Hello: got {got}, expected {expected}")]
    UnexpectedIdentity {
        /// The id in the Hello.
        got: Box<B512>,
        /// The proven id.
        expected: Box<B512>,
    },
    /// The other side is this node.
    #[error("the other side has this node's own key")]
    SelfConnection,
    /// No capability is shared.
    #[error("no shared capability: got {got}, expected {expected}")]
    NoSharedCapability {
        /// The offer of the other side.
        got: String,
        /// The offer of this node.
        expected: String,
    },
    /// A code beyond all capabilities.
    #[error("message code: got {got}, expected one below {bound}")]
    UnknownCode {
        /// The code.
        got: u64,
        /// The first code that has no meaning.
        bound: u64,
    },
    /// A message is too long.
    #[error("message with code {code}: got {got} bytes, expected at most {bound}")]
    MessageSize {
        /// The code.
        code: u64,
        /// The length after decompression.
        got: usize,
        /// The largest allowed length.
        bound: usize,
    },
    /// A message cannot be decompressed.
    #[error("message with code {code}: got other bytes, expected Snappy: {cause}")]
    Compression {
        /// The code.
        code: u64,
        /// The cause.
        cause: String,
    },
    /// Nothing came in time.
    #[error("timeout: {0}")]
    Timeout(&'static str),
    /// The other side ended the connection.
    #[error("the peer disconnects: {0}")]
    Disconnected(RlpxDisconnect),
    /// The connection was ended by this side.
    #[error("the connection is closed: {0}")]
    Closed(RlpxDisconnect),
}

/// The reason why a message is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too many bytes wait already.
    #[error("got {got} bytes that wait to be sent, expected at most {OUTPUT_BYTES_MAX}")]
    Backlog {
        /// The bytes that would wait.
        got: usize,
    },
    /// The message is too long.
    #[error("message: got {got} bytes, expected at most {bound}")]
    Size {
        /// The length of the message.
        got: usize,
        /// The largest allowed length.
        bound: usize,
    },
    /// The connection is not ready, or is closed.
    #[error("the connection is not open")]
    NotOpen,
    /// The connection has no such capability or code.
    #[error("got code {code} of capability {capability}, expected a shared one")]
    UnknownCode {
        /// The index of the capability.
        capability: usize,
        /// The code.
        code: u64,
    },
}

impl RlpxError {
    /// The reason that the other side is told.
    pub const fn reason(&self) -> RlpxDisconnect {
        match self {
            Self::Handshake(_)
            | Self::Frame(_)
            | Self::Code(_)
            | Self::NoHello { .. }
            | Self::Hello(_)
            | Self::UnknownCode { .. }
            | Self::MessageSize { .. }
            | Self::Compression { .. } => RlpxDisconnect::ProtocolBreach,
            Self::UnexpectedIdentity { .. } => RlpxDisconnect::UnexpectedIdentity,
            Self::SelfConnection => RlpxDisconnect::SelfConnection,
            Self::NoSharedCapability { .. } => RlpxDisconnect::Useless,
            Self::Timeout(_) => RlpxDisconnect::Timeout,
            Self::Disconnected(reason) | Self::Closed(reason) => *reason,
        }
    }
}
