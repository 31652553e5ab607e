//! `RLPx`: the encrypted connection between two nodes.
//!
//! [`RlpxSession`] is the protocol without a socket. [`PeerConnection`] runs it over a stream.
//! Knows neither blocks nor what the capabilities mean. Source: docs/p2p.md, 1.

#[cfg(test)]
mod attacks;
mod capability;
mod connection;
mod ecies;
mod error;
mod frame;
mod handshake;
mod hello;
mod session;
#[cfg(test)]
mod tests;

pub use capability::OfferedCapability;
pub use connection::{ConnectionError, InboundMessage, PeerConnection};
pub use error::{RlpxError, SendError};
pub use handshake::HandshakeForm;
pub use hello::{Capability, Hello, RlpxDisconnect};
pub(crate) use session::{ETH_MESSAGE_BYTES_MAX, MC_MESSAGE_BYTES_MAX};
pub use session::{RlpxEvent, RlpxSession, RlpxSettings};
