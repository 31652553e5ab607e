//! The errors of the SCS's side.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::InvalidUri;
use primitives::{DecodeError, U256, hex};
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, pem};
use tonic::{Code, Status};

use super::calls::SUCCESS;
use crate::message::ScsMessageError;
use crate::message::payload::SHAKE_REPLY;

/// The reason why a call or a broadcast fails.
#[derive(Debug, thiserror::Error)]
pub enum ScsClientError {
    /// The client is not connected now.
    #[error("not connected to the VNODE")]
    NotConnected,
    /// The connection for this call cannot be made.
    #[error(transparent)]
    Link(#[from] ScsLinkError),
    /// The message is malformed.
    #[error(transparent)]
    Message(#[from] ScsMessageError),
    /// The VNODE refuses, or the connection broke.
    #[error("{}: {}", .0.code(), .0.message())]
    Status(Box<Status>),
    /// The VNODE has not answered in time.
    #[error("no answer after {0:?}")]
    Timeout(Duration),
    /// The answer is not what the call returns.
    #[error("answer: {0}")]
    Answer(#[from] AnswerError),
}

impl ScsClientError {
    /// Whether the VNODE may have done what it was asked for: the message was sent, and no answer
    /// came.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Answer(_) => true,
            // A status of the VNODE has no source. Its refusal of a transaction is `Unknown`.
            Self::Status(status) => {
                status.source().is_some()
                    || matches!(
                        status.code(),
                        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable
                    )
            }
            Self::NotConnected | Self::Link(_) | Self::Message(_) => false,
        }
    }
}

impl From<Status> for ScsClientError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// The reason why the file of certificates for a VNODE cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct AuthorityError {
    /// The file.
    pub path: PathBuf,
    /// The fault in it.
    pub cause: AuthorityFault,
}

/// A fault in a file of certificates.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFault {
    /// The file cannot be read.
    #[error(transparent)]
    Pem(#[from] pem::Error),
    /// A certificate in it cannot be used.
    #[error(transparent)]
    Certificate(#[from] rustls::Error),
    /// The file has no certificate.
    #[error("got no certificate, expected one")]
    Empty,
}

/// The reason why there is no connection to a VNODE, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ScsLinkError {
    /// The address is not one.
    #[error("address: got {address:?}, expected host:port: {error}")]
    Address {
        /// The address in the settings.
        address: String,
        /// The fault in it.
        error: InvalidUri,
    },
    /// The machine cannot be reached.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// The address.
        address: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// Connecting takes too long.
    #[error("no connection to {address} after {limit:?}")]
    ConnectTimeout {
        /// The address.
        address: String,
        /// The longest time for it.
        limit: Duration,
    },
    /// No certificate can have the name of the host.
    #[error("host {name:?} is not a name for a certificate: {error}")]
    HostName {
        /// The name.
        name: String,
        /// The fault in it.
        error: InvalidDnsNameError,
    },
    /// The certificates for the VNODE cannot be used.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The VNODE has no TLS, or another certificate.
    #[error(
        "TLS with {address}: got {error}, expected one for {name} that {} vouches for",
        authority.display()
    )]
    Tls {
        /// The address.
        address: String,
        /// The name that its certificate should have.
        name: String,
        /// The file of certificates.
        authority: PathBuf,
        /// The answer.
        error: std::io::Error,
    },
    /// The VNODE does not speak HTTP/2.
    #[error("HTTP/2 with {address}: {error}")]
    Http {
        /// The address.
        address: String,
        /// The fault.
        error: hyper::Error,
    },
    /// The connection broke before a stream was opened.
    #[error(transparent)]
    Closed(#[from] hyper::Error),
    /// The handshake is not answered in time.
    #[error("no answer to the handshake after {0:?}")]
    HandshakeTimeout(Duration),
    /// The handshake is refused, or the connection broke.
    #[error("handshake: {}", shown(.0))]
    Handshake(Box<Status>),
    /// The answer to the handshake is not HTTP/2.
    #[error("handshake: {}; over plain text, which a VNODE with TLS does not take", shown(.0))]
    PlainText(Box<Status>),
    /// The VNODE has closed the stream of the handshake without an answer.
    #[error("handshake: the VNODE has ended the stream")]
    NoReply,
    /// The answer to the handshake is malformed.
    #[error("handshake: {0}")]
    BadReply(#[from] ScsMessageError),
    /// The VNODE answers the handshake with another text.
    #[error("handshake: got {got:?}, expected {SHAKE_REPLY:?}")]
    Reply {
        /// The text.
        got: String,
    },
    /// The VNODE sends no pings any more.
    #[error("no ping of the VNODE for {0:?}: another connection may have the place of this SCS")]
    NoPing(Duration),
    /// The VNODE has closed a stream.
    #[error("the VNODE has ended the stream")]
    Ended,
    /// A stream broke.
    #[error("{}", shown(.0))]
    Broken(Box<Status>),
    /// The stream of broadcasts broke.
    #[error("stream of broadcasts: {0}")]
    Broadcasts(Box<Self>),
}

fn shown(status: &Status) -> String {
    format!("{}: {}", status.code(), status.message())
}

/// The fault in the answer of a VNODE.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The RLP is wrong.
    #[error(transparent)]
    Rlp(#[from] DecodeError),
    /// The text is wrong.
    #[error(transparent)]
    Text(#[from] ScsMessageError),
    /// The call has failed.
    #[error("got {got:?}, expected {SUCCESS:?}")]
    NoSuccess {
        /// The text.
        got: String,
    },
    /// The JSON is wrong.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The balance is not a number.
    #[error("Balance: {0}")]
    Balance(<U256 as std::str::FromStr>::Err),
    /// Bytes that are not in base64.
    #[error("{field}: {error}")]
    Base64 {
        /// The field.
        field: &'static str,
        /// The fault.
        error: base64::DecodeError,
    },
    /// Digits that are not hex.
    #[error("{field}: got {got:?}: {error}")]
    Hex {
        /// The field.
        field: &'static str,
        /// The digits.
        got: String,
        /// The fault.
        error: hex::FromHexError,
    },
    /// A word of the wrong length.
    #[error("{field}: got {got} bytes, expected 32")]
    Length {
        /// The field.
        field: &'static str,
        /// The length.
        got: usize,
    },
    /// A value of the storage that is not the RLP of a number.
    #[error("Storage: value {got:?}: {error}")]
    Value {
        /// The hex digits of the value.
        got: String,
        /// The fault.
        error: alloy_rlp::Error,
    },
}
