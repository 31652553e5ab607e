//! The messages that every connection has: Hello, Disconnect, Ping and Pong.
//!
//! Source: docs/p2p.md, 1; ethereum/devp2p, `rlpx.md`; EIP-8.

use std::fmt;

use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{B512, DecodeError, Encodable};

/// The most bytes of a Hello.
pub(crate) const HELLO_BYTES_MAX: usize = 2048;
/// The version of a Hello from which on messages are compressed.
pub(crate) const SNAPPY_VERSION: u64 = 5;
/// The first code of the capabilities. The codes below are those of every connection.
pub(crate) const CAPABILITY_CODE_BASE: u64 = 16;
/// The most capabilities that are read from a Hello.
pub(crate) const CAPABILITIES_MAX: usize = 128;

pub(super) const HELLO_CODE: u64 = 0;
pub(super) const DISCONNECT_CODE: u64 = 1;
pub(super) const PING_CODE: u64 = 2;
pub(super) const PONG_CODE: u64 = 3;

/// A capability that a Hello offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// The name, such as `eth`. Bytes that are no UTF-8 are replaced.
    pub name: String,
    /// The version.
    pub version: u64,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the base protocol.
    pub version: u64,
    /// The name of the client. Bytes that are no UTF-8 are replaced.
    pub client: String,
    /// The offer of the sender.
    pub capabilities: Vec<Capability>,
    /// The port on which the sender listens; 0 if it does not say.
    pub port: u64,
    /// The public key of the sender.
    pub id: B512,
}

impl Hello {
    /// The RLP of the message.
    pub fn encode(&self) -> Vec<u8> {
        let capabilities: Vec<_> = self.capabilities.iter().map(CapabilityItem).collect();
        encode_fields_to_vec(&[
            &self.version,
            &self.client.as_str(),
            &capabilities,
            &self.port,
            &self.id,
        ])
    }

    /// Decodes a Hello. More fields may follow the five (EIP-8).
    ///
    /// # Errors
    /// [`DecodeError`] if a field is missing or has another form.
    pub fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = RlpReader::open(rlp, "hello")?;
        let version = fields.u64("hello.version")?;
        let client = text(fields.slice("hello.client")?);
        let mut offers = fields.list("hello.capabilities")?;
        let mut capabilities = Vec::new();
        while !offers.is_empty() && capabilities.len() < CAPABILITIES_MAX {
            let mut offer = offers.list("hello.capabilities")?;
            capabilities.push(Capability {
                name: text(offer.slice("hello.capability.name")?),
                version: offer.u64("hello.capability.version")?,
            });
        }
        Ok(Self {
            version,
            client,
            capabilities,
            port: fields.u64("hello.port")?,
            id: fields.fixed("hello.id")?,
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct CapabilityItem<'a>(&'a Capability);

impl Encodable for CapabilityItem<'_> {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        let Self(Capability { name, version }) = self;
        primitives::rlp::encode_fields(&[&name.as_str(), version], out);
    }

    fn length(&self) -> usize {
        let Self(Capability { name, version }) = self;
        primitives::rlp::fields_length(&[&name.as_str(), version])
    }
}

/// The reason why a connection ends, as the other side is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RlpxDisconnect {
    /// Requested.
    Requested,
    /// The network failed.
    NetworkError,
    /// The protocol was broken.
    ProtocolBreach,
    /// No capability is shared.
    Useless,
    /// There are enough peers.
    TooManyPeers,
    /// There is already a connection between these two.
    AlreadyConnected,
    /// The version of the base protocol does not fit.
    IncompatibleVersion,
    /// The node id is invalid.
    InvalidIdentity,
    /// The node stops.
    Quitting,
    /// Another node answered than the one that was dialled.
    UnexpectedIdentity,
    /// The node dialled itself.
    SelfConnection,
    /// Nothing came for too long.
    Timeout,
    /// A capability's protocol was broken, such as by a wrong genesis.
    Subprotocol,
    /// A reason that this program does not know.
    Other(u8),
}

impl RlpxDisconnect {
    /// The number on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Requested => 0,
            Self::NetworkError => 1,
            Self::ProtocolBreach => 2,
            Self::Useless => 3,
            Self::TooManyPeers => 4,
            Self::AlreadyConnected => 5,
            Self::IncompatibleVersion => 6,
            Self::InvalidIdentity => 7,
            Self::Quitting => 8,
            Self::UnexpectedIdentity => 9,
            Self::SelfConnection => 10,
            Self::Timeout => 11,
            Self::Subprotocol => 16,
            Self::Other(code) => code,
        }
    }

    /// The reason with this number.
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Requested,
            1 => Self::NetworkError,
            2 => Self::ProtocolBreach,
            3 => Self::Useless,
            4 => Self::TooManyPeers,
            5 => Self::AlreadyConnected,
            6 => Self::IncompatibleVersion,
            7 => Self::InvalidIdentity,
            8 => Self::Quitting,
            9 => Self::UnexpectedIdentity,
            10 => Self::SelfConnection,
            11 => Self::Timeout,
            16 => Self::Subprotocol,
            other => Self::Other(other),
        }
    }

    pub(super) fn encode(self) -> Vec<u8> {
        encode_fields_to_vec(&[&self.code()])
    }

    /// Reads `[reason]`, or the number alone, as some clients send it. `None` if it is neither.
    pub(super) fn decode(rlp: &[u8]) -> Option<Self> {
        let alone = || RlpReader::over(rlp).u64("reason");
        let code = RlpReader::over(rlp)
            .list("disconnect")
            .and_then(|mut fields| fields.u64("reason"))
            .or_else(|_| alone())
            .ok()?;
        u8::try_from(code).ok().map(Self::from_code)
    }
}

impl fmt::Display for RlpxDisconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Requested => "requested",
            Self::NetworkError => "network error",
            Self::ProtocolBreach => "breach of protocol",
            Self::Useless => "no shared capability",
            Self::TooManyPeers => "too many peers",
            Self::AlreadyConnected => "already connected",
            Self::IncompatibleVersion => "incompatible version",
            Self::InvalidIdentity => "invalid node id",
            Self::Quitting => "client quitting",
            Self::UnexpectedIdentity => "unexpected node id",
            Self::SelfConnection => "connected to self",
            Self::Timeout => "timeout",
            Self::Subprotocol => "subprotocol error",
            Self::Other(code) => return write!(f, "reason {code}"),
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vectors;

    #[test]
    fn the_published_hello_is_read() {
        let hello = Hello::decode(&vectors::eip8("/hello")).expect("a Hello with more fields");
        // EIP-8 says "version 22" of these bytes.
        assert_eq!(hello.version, 55);
        assert_eq!(hello.client, "kneth/v0.91/plan9");
        let names: Vec<_> = hello.capabilities.iter().map(Capability::to_string).collect();
        assert_eq!(names, ["eth/61", "mork/22"]);
        assert_eq!(hello.port, 9999);
        assert_eq!(hello.id[..2], [0xfd, 0xa1]);
    }

    #[test]
    fn reasons_have_numbers() {
        for code in 0..=u8::MAX {
            let reason = RlpxDisconnect::from_code(code);
            assert_eq!(reason.code(), code);
            assert_eq!(RlpxDisconnect::decode(&reason.encode()), Some(reason));
        }
        assert_eq!(RlpxDisconnect::decode(&[4]), Some(RlpxDisconnect::TooManyPeers));
        assert_eq!(RlpxDisconnect::decode(&[0x80]), Some(RlpxDisconnect::Requested));
        for junk in [&[][..], &[0xc0], &[0x82, 1, 1], &[0xf9]] {
            assert_eq!(RlpxDisconnect::decode(junk), None, "{junk:02x?}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            version in any::<u64>(),
            client in "[ -~]{0,40}",
            offers in proptest::collection::vec(("[a-z]{1,8}", any::<u64>()), 0..6),
            port in any::<u64>(),
            id in any::<[u8; 64]>(),
        ) {
            let capabilities = offers.into_iter().map(|(name, version)| Capability { name, version });
            let hello = Hello { version, client, capabilities: capabilities.collect(), port, id: B512::from(id) };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }
}
