//! The packets of discovery v4, in the two dialects.
//!
//! A packet is `hash (32) ‖ signature (65) ‖ type ‖ RLP`. Fields and bytes after the known ones are
//! left out (EIP-8). Source: docs/p2p.md, 4; ethereum/devp2p, `discv4.md`; EIP-868.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use primitives::rlp::{RlpReader, encode_fields, encode_fields_to_vec, fields_length};
use primitives::{
    B256, B512, Bytes, DecodeError, EcdsaSignature, Encodable, SecretKey, U256, keccak256, recover_public_key,
};

use crate::address;
use crate::contact::NodeContact;
use crate::raw_rlp::RawRlp;

/// The most bytes of a packet.
pub const PACKET_BYTES_MAX: usize = 1280;
/// A packet is valid for this long.
pub(crate) const PACKET_LIFETIME: Duration = Duration::from_secs(20);
/// The most nodes of a NEIGHBORS packet, so that it is not too long.
pub(crate) const NEIGHBORS_IN_PACKET: usize = 12;
const HASH_END: usize = 32;
const SIGNATURE_END: usize = HASH_END + 65;
const DISCOVERY_VERSION: u64 = 4;

/// The networks whose discovery is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryDialect {
    /// Ethereum's, with node records.
    Ethereum,
    /// The public network's, with the id of the network and with values.
    Public {
        /// The id of the network.
        network_id: u64,
    },
}

/// Address and ports, as a packet has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEndpoint {
    /// The address. Unspecified if the sender does not know it.
    pub ip: IpAddr,
    /// Port of discovery.
    pub udp: u16,
    /// Port for connections.
    pub tcp: u16,
}

/// The values after the usual fields of PING and PONG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTail {
    /// The number of the sender's node record. In Ethereum's dialect.
    pub record_sequence: Option<u64>,
    /// The id of the sender's network. In the public network's dialect.
    pub network_id: Option<u64>,
}

/// A packet without its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryPacket {
    /// Asks for a PONG.
    Ping {
        /// The address that the sender names as its own.
        from: PacketEndpoint,
        /// The address that the packet is sent to.
        to: PacketEndpoint,
        /// The values after these.
        tail: PacketTail,
    },
    /// Answers a PING.
    Pong {
        /// The address that the PING came from.
        to: PacketEndpoint,
        /// The hash of the PING.
        ping_hash: B256,
        /// The values after these.
        tail: PacketTail,
    },
    /// Asks for nodes close to a target.
    FindNode {
        /// The target.
        target: B512,
        /// Only nodes of kind brother count. In the public network's dialect.
        brothers_only: bool,
    },
    /// Answers with nodes.
    Neighbors {
        /// The nodes. Those whose address has a wrong length are left out.
        nodes: Vec<NodeContact>,
    },
    /// Asks for the node record. In Ethereum's dialect.
    EnrRequest,
    /// Answers with the node record. In Ethereum's dialect.
    EnrResponse {
        /// The hash of the request.
        request_hash: B256,
        /// The RLP of the record.
        record: Bytes,
    },
    /// Asks to keep the sender's enode under a key. In the public network's dialect.
    Store {
        /// The key.
        key: B512,
        /// The address that the sender names as its own.
        from: PacketEndpoint,
    },
    /// Says that a value was stored. In the public network's dialect.
    StoreReply,
    /// Asks for what is kept under a key. In the public network's dialect.
    FindValue {
        /// The key.
        key: B512,
    },
    /// Answers with what is kept. In the public network's dialect.
    FindValueReply {
        /// The key.
        key: B512,
        /// Enode URLs, each followed by a comma.
        value: Bytes,
    },
}

/// A packet that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPacket {
    /// The id of the node that signed it.
    pub id: B512,
    /// The hash of the packet.
    pub hash: B256,
    /// The content.
    pub packet: DiscoveryPacket,
    /// The end of the packet's validity, in seconds since 1970. `None` for packets without one.
    pub expiry: Option<u64>,
}

/// The reason why a packet is dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is too long or too short.
    #[error("packet: got {got} bytes, expected {SIGNATURE_END} to {PACKET_BYTES_MAX}")]
    Size {
        /// The length of the packet.
        got: usize,
    },
    /// The hash in front is wrong.
    #[error("packet: got another hash than the computed one")]
    Hash,
    /// The signature gives no key.
    #[error("packet: got a signature that no key can have made")]
    Signature,
    /// The dialect has no such packet.
    #[error("packet: got type {got}, which this dialect does not have")]
    Type {
        /// The type.
        got: u8,
    },
    /// A field has another form.
    #[error("packet: {0}")]
    Field(#[from] DecodeError),
    /// An address has another length than 0, 4 or 16 bytes.
    #[error("packet: {field}: got an address of {got} bytes, expected 4 or 16")]
    Address {
        /// The name of the field.
        field: &'static str,
        /// The length of the field.
        got: usize,
    },
}

impl Encodable for PacketEndpoint {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        let ip = address::to_bytes(self.ip);
        encode_fields(&[&&ip[..], &self.udp, &self.tcp], out);
    }

    fn length(&self) -> usize {
        let ip = address::to_bytes(self.ip);
        fields_length(&[&&ip[..], &self.udp, &self.tcp])
    }
}

struct NeighborItem<'a>(&'a NodeContact);

impl Encodable for NeighborItem<'_> {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        let ip = address::to_bytes(self.0.ip);
        encode_fields(&[&&ip[..], &self.0.udp, &self.0.tcp, &self.0.id], out);
    }

    fn length(&self) -> usize {
        let ip = address::to_bytes(self.0.ip);
        fields_length(&[&&ip[..], &self.0.udp, &self.0.tcp, &self.0.id])
    }
}

impl PacketEndpoint {
    /// The endpoint of a node at `ip`.
    pub const fn new(ip: IpAddr, udp: u16, tcp: u16) -> Self {
        Self { ip, udp, tcp }
    }

    fn read(reader: &mut RlpReader<'_>, field: &'static str) -> Result<Self, PacketError> {
        let mut fields = reader.list(field)?;
        let bytes = fields.slice(field)?;
        let wrong = PacketError::Address {
            field,
            got: bytes.len(),
        };
        Ok(Self {
            ip: address::from_bytes(bytes).ok_or(wrong)?,
            udp: port(fields.u64(field)?),
            tcp: port(fields.u64(field)?),
        })
    }
}

/// A port. A number that is no port becomes 0, which nobody uses.
fn port(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

impl PacketTail {
    /// The RLP of what follows.
    fn encode(self, dialect: DiscoveryDialect) -> Option<Vec<u8>> {
        match dialect {
            DiscoveryDialect::Ethereum => self.record_sequence.map(alloy_rlp::encode),
            DiscoveryDialect::Public { .. } => self
                .network_id
                .map(|network_id| alloy_rlp::encode(format!("{network_id}\t"))),
        }
    }

    /// Reads what follows. Other forms count as missing.
    fn read(mut reader: RlpReader<'_>, dialect: DiscoveryDialect) -> Self {
        match dialect {
            DiscoveryDialect::Ethereum => Self {
                record_sequence: reader.u64("enr-seq").ok(),
                network_id: None,
            },
            DiscoveryDialect::Public { .. } => Self {
                record_sequence: None,
                network_id: reader.slice("network").ok().and_then(network_id),
            },
        }
    }
}

/// The number before the tab.
fn network_id(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.split('\t').next()?.parse().ok()
}

impl DiscoveryPacket {
    const fn kind(&self) -> u8 {
        match self {
            Self::Ping { .. } => 1,
            Self::Pong { .. } => 2,
            Self::FindNode { .. } => 3,
            Self::Neighbors { .. } => 4,
            Self::EnrRequest | Self::Store { .. } => 5,
            Self::EnrResponse { .. } | Self::StoreReply => 6,
            Self::FindValue { .. } => 7,
            Self::FindValueReply { .. } => 8,
        }
    }

    fn body(&self, dialect: DiscoveryDialect, expiry: u64) -> Vec<u8> {
        match self {
            Self::Ping { from, to, tail } => {
                let tail = tail.encode(dialect);
                with_tail(&[&DISCOVERY_VERSION, from, to, &expiry], tail)
            }
            Self::Pong { to, ping_hash, tail } => {
                let tail = tail.encode(dialect);
                with_tail(&[to, ping_hash, &expiry], tail)
            }
            Self::FindNode {
                target,
                brothers_only,
            } => {
                let flag = if *brothers_only { "1" } else { "0" };
                let is_public = matches!(dialect, DiscoveryDialect::Public { .. });
                with_tail(&[target, &expiry], is_public.then(|| alloy_rlp::encode(flag)))
            }
            Self::Neighbors { nodes } => {
                let nodes: Vec<_> = nodes.iter().map(NeighborItem).collect();
                encode_fields_to_vec(&[&nodes, &expiry])
            }
            Self::EnrRequest | Self::StoreReply => encode_fields_to_vec(&[&expiry]),
            Self::EnrResponse { request_hash, record } => {
                encode_fields_to_vec(&[request_hash, &RawRlp(record)])
            }
            // The value is not read by anyone.
            Self::Store { key, from } => encode_fields_to_vec(&[key, from, &expiry, &""]),
            Self::FindValue { key } => encode_fields_to_vec(&[key, &expiry]),
            Self::FindValueReply { key, value } => encode_fields_to_vec(&[key, value, &expiry]),
        }
    }

    /// Signs the packet. Returns its bytes and its hash.
    pub fn seal(&self, key: &SecretKey, dialect: DiscoveryDialect, expiry: u64) -> (Vec<u8>, B256) {
        let signed = [&[self.kind()][..], &self.body(dialect, expiry)].concat();
        let signature = key.sign(&keccak256(&signed));
        let mut rsv = signature.to_rsv();
        rsv[64] = signature.recovery_id;
        let rest = [&rsv[..], &signed].concat();
        let hash = keccak256(&rest);
        ([hash.as_slice(), &rest].concat(), hash)
    }

    /// Reads a packet and checks hash and signature.
    ///
    /// # Errors
    /// [`PacketError`] if it has another form.
    pub fn open(bytes: &[u8], dialect: DiscoveryDialect) -> Result<ReadPacket, PacketError> {
        if bytes.len() <= SIGNATURE_END + 1 || bytes.len() > PACKET_BYTES_MAX {
            return Err(PacketError::Size { got: bytes.len() });
        }
        let hash = keccak256(&bytes[HASH_END..]);
        if hash != bytes[..HASH_END] {
            return Err(PacketError::Hash);
        }
        let (rsv, signed) = bytes[HASH_END..].split_at(65);
        let signature = EcdsaSignature {
            r: U256::from_be_slice(&rsv[..32]),
            s: U256::from_be_slice(&rsv[32..64]),
            recovery_id: rsv[64],
        };
        let id = recover_public_key(&keccak256(signed), &signature).map_err(|_| PacketError::Signature)?;
        let body = RlpReader::over(&signed[1..]).list("body")?;
        let (packet, expiry) = read_body(signed[0], body, dialect)?;
        Ok(ReadPacket {
            id,
            hash,
            packet,
            expiry,
        })
    }
}

fn with_tail(fields: &[&dyn Encodable], tail: Option<Vec<u8>>) -> Vec<u8> {
    let tail = tail.as_deref().map(RawRlp);
    let mut all = fields.to_vec();
    all.extend(tail.iter().map(|tail| tail as &dyn Encodable));
    encode_fields_to_vec(&all)
}

fn read_body(
    kind: u8,
    mut body: RlpReader<'_>,
    dialect: DiscoveryDialect,
) -> Result<(DiscoveryPacket, Option<u64>), PacketError> {
    let is_public = matches!(dialect, DiscoveryDialect::Public { .. });
    let (packet, expiry) = match (kind, is_public) {
        (1, _) => {
            body.raw("version")?;
            let from = PacketEndpoint::read(&mut body, "from")?;
            let to = PacketEndpoint::read(&mut body, "to")?;
            let expiry = body.u64("expiry")?;
            let tail = PacketTail::read(body, dialect);
            (DiscoveryPacket::Ping { from, to, tail }, expiry)
        }
        (2, _) => {
            let to = PacketEndpoint::read(&mut body, "to")?;
            let ping_hash = body.fixed("ping-hash")?;
            let expiry = body.u64("expiry")?;
            let tail = PacketTail::read(body, dialect);
            (DiscoveryPacket::Pong { to, ping_hash, tail }, expiry)
        }
        (3, _) => {
            let target = body.fixed("target")?;
            let expiry = body.u64("expiry")?;
            let brothers_only = is_public && body.slice("flag").is_ok_and(|flag| flag == b"1");
            let packet = DiscoveryPacket::FindNode {
                target,
                brothers_only,
            };
            (packet, expiry)
        }
        (4, _) => {
            let nodes = read_nodes(body.list("nodes")?)?;
            (DiscoveryPacket::Neighbors { nodes }, body.u64("expiry")?)
        }
        (5, false) => (DiscoveryPacket::EnrRequest, body.u64("expiry")?),
        (6, false) => {
            let packet = DiscoveryPacket::EnrResponse {
                request_hash: body.fixed("request-hash")?,
                record: Bytes::copy_from_slice(body.raw("record")?),
            };
            return Ok((packet, None));
        }
        (5, true) => {
            let key = body.fixed("key")?;
            let from = PacketEndpoint::read(&mut body, "from")?;
            (DiscoveryPacket::Store { key, from }, body.u64("expiry")?)
        }
        (6, true) => (DiscoveryPacket::StoreReply, body.u64("expiry")?),
        (7, true) => {
            let key = body.fixed("key")?;
            (DiscoveryPacket::FindValue { key }, body.u64("expiry")?)
        }
        (8, true) => {
            let key = body.fixed("key")?;
            let value = body.bytes("value")?;
            (
                DiscoveryPacket::FindValueReply { key, value },
                body.u64("expiry")?,
            )
        }
        (got, _) => return Err(PacketError::Type { got }),
    };
    Ok((packet, Some(expiry)))
}

fn read_nodes(mut list: RlpReader<'_>) -> Result<Vec<NodeContact>, PacketError> {
    let mut nodes = Vec::new();
    while !list.is_empty() {
        let mut fields = list.list("node")?;
        let ip = address::from_bytes(fields.slice("node.ip")?);
        let udp = port(fields.u64("node.udp")?);
        let tcp = port(fields.u64("node.tcp")?);
        let id = fields.fixed("node.id")?;
        nodes.extend(ip.map(|ip| NodeContact { id, ip, udp, tcp }));
    }
    Ok(nodes)
}
