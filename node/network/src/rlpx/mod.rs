//! `RLPx`: the encrypted connection between two nodes.
//!
//! [`RlpxSession`] is the protocol without a socket. [`PeerConnection`] runs it over a stream.
//! Knows neither blocks nor what the capabilities mean. Source: docs/p2p.md, 1.

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

pub use capability::{OfferedCapability, SharedCapability, shared_capabilities};
pub use connection::{ConnectionError, InboundMessage, PeerConnection};
pub use ecies::EciesError;
pub use error::{RlpxError, SendError};
pub use frame::FrameError;
pub use handshake::{HANDSHAKE_BYTES_MAX, HandshakeError, HandshakeForm};
pub use hello::{
    CAPABILITIES_MAX, CAPABILITY_CODE_BASE, Capability, HELLO_BYTES_MAX, Hello, RlpxDisconnect,
    SNAPPY_VERSION,
};
pub use session::{
    ETH_MESSAGE_BYTES_MAX, HANDSHAKE_TIMEOUT, MC_MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX, PING_INTERVAL,
    READ_TIMEOUT, RlpxEvent, RlpxPeer, RlpxSession, RlpxSettings, UNANSWERED_PINGS_FROM, WRITE_TIMEOUT,
};
