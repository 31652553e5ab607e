//! Node records (ENR): what a node says of itself, signed by its key.
//!
//! Only the identity scheme "v4" is known. Source: EIP-778, EIP-2124 (key "eth").

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use alloy_eip2124::ForkId;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{
    B256, B512, Bytes, DecodeError, EcdsaSignature, Encodable, SecretKey, U256, compress_public_key,
    expand_public_key, keccak256, recover_public_key,
};

use crate::contact::NodeContact;
use crate::messages::read_fork_id;
use crate::raw_rlp::RawRlp;

pub(crate) const RECORD_BYTES_MAX: usize = 300;
/// The begin of the text of a record.
pub(crate) const RECORD_PREFIX: &str = "enr:";
const SCHEME: &[u8] = b"v4";

/// A fault of bytes or of a text that are no node record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRecordError {
    /// The text has another form.
    #[error("node record: got {0:?}, expected enr: and base64")]
    Text(String),
    /// The record is too long.
    #[error("node record: got {got} bytes, expected at most {RECORD_BYTES_MAX}")]
    Size {
        /// The length of the record.
        got: usize,
    },
    /// A field has another form.
    #[error("node record: {0}")]
    Field(#[from] DecodeError),
    /// The keys are not in order, or one is there twice.
    #[error("node record: got key {got:?} after {before:?}, expected ascending keys")]
    Order {
        /// The key.
        got: Bytes,
        /// The key before it.
        before: Bytes,
    },
    /// The identity scheme is not known.
    #[error("node record: got identity scheme {0:?}, expected v4")]
    Scheme(String),
    /// The public key is missing or not on the curve.
    #[error("node record: got no public key in secp256k1")]
    PublicKey,
    /// The signature is not that of the public key.
    #[error("node record: the signature is not that of the record's key")]
    Signature,
}

/// A node record with a good signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    signature: [u8; 64],
    sequence: u64,
    /// Keys and the RLP of their values.
    pairs: BTreeMap<Bytes, Bytes>,
    id: B512,
}

/// The claims of a node about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeClaims {
    /// The address; `None` if the node does not know it.
    pub ip: Option<IpAddr>,
    /// Port for connections.
    pub tcp: u16,
    /// Port of discovery.
    pub udp: u16,
    /// The fork id of its chain.
    pub fork_id: Option<ForkId>,
    /// Whether it gives parts of states (`snap`).
    pub has_snap: bool,
}

fn content(sequence: u64, pairs: &BTreeMap<Bytes, Bytes>, signature: Option<&[u8; 64]>) -> Vec<u8> {
    let values: Vec<_> = pairs.iter().map(|(key, value)| (key, RawRlp(value))).collect();
    let mut fields: Vec<&dyn Encodable> = Vec::new();
    if let Some(signature) = signature {
        fields.push(signature);
    }
    fields.push(&sequence);
    for (key, value) in &values {
        fields.push(*key);
        fields.push(value);
    }
    encode_fields_to_vec(&fields)
}

/// Whether `signature` (r and s, big-endian) of `digest` is that of `id`. Both recovery ids are
/// tried.
pub(crate) fn is_signed_by(digest: &B256, signature: &[u8; 64], id: &B512) -> bool {
    let (r, s) = signature.split_at(32);
    [0, 1].into_iter().any(|recovery_id| {
        let signature = EcdsaSignature {
            r: U256::from_be_slice(r),
            s: U256::from_be_slice(s),
            recovery_id,
        };
        recover_public_key(digest, &signature) == Ok(*id)
    })
}

impl NodeRecord {
    /// Makes and signs a record.
    pub fn sign(key: &SecretKey, sequence: u64, claims: &NodeClaims) -> Self {
        let id = key.public_key();
        let compressed = compress_public_key(&id).expect("the public key of a secret key is on the curve");
        let mut pairs = BTreeMap::new();
        let mut put = |key: &'static str, value: Vec<u8>| {
            pairs.insert(Bytes::from_static(key.as_bytes()), Bytes::from(value));
        };
        put("id", alloy_rlp::encode(SCHEME));
        put("secp256k1", alloy_rlp::encode(&compressed[..]));
        match claims.ip {
            Some(IpAddr::V4(ip)) => put("ip", alloy_rlp::encode(&ip.octets()[..])),
            Some(IpAddr::V6(ip)) => put("ip6", alloy_rlp::encode(&ip.octets()[..])),
            None => {}
        }
        // The first two keys hold for both kinds of addresses. Some programs read only them, and
        // others only the last two.
        let is_v6 = matches!(claims.ip, Some(IpAddr::V6(_)));
        let ports = [("tcp", "tcp6", claims.tcp), ("udp", "udp6", claims.udp)];
        for (both, v6, port) in ports.into_iter().filter(|(_, _, port)| *port != 0) {
            put(both, alloy_rlp::encode(port));
            if is_v6 {
                put(v6, alloy_rlp::encode(port));
            }
        }
        if let Some(fork_id) = claims.fork_id {
            let fork_id = encode_fields_to_vec(&[&fork_id.hash.0, &fork_id.next]);
            put("eth", encode_fields_to_vec(&[&RawRlp(&fork_id)]));
        }
        if claims.has_snap {
            put("snap", vec![alloy_rlp::EMPTY_LIST_CODE]);
        }
        let signed = key.sign(&keccak256(content(sequence, &pairs, None))).to_rsv();
        let mut signature = [0; 64];
        signature.copy_from_slice(&signed[..64]);
        Self {
            signature,
            sequence,
            pairs,
            id,
        }
    }

    /// Decodes a record and checks its signature.
    ///
    /// # Errors
    /// [`NodeRecordError`] if it has another form, is too long, or was not signed by its key.
    pub fn decode(rlp: &[u8]) -> Result<Self, NodeRecordError> {
        if rlp.len() > RECORD_BYTES_MAX {
            return Err(NodeRecordError::Size { got: rlp.len() });
        }
        let mut fields = RlpReader::open(rlp, "record")?;
        let signature = fields.fixed::<64>("signature")?.0;
        let sequence = fields.u64("seq")?;
        let mut pairs = BTreeMap::<Bytes, Bytes>::new();
        while !fields.is_empty() {
            let got = fields.bytes("key")?;
            if let Some((before, _)) = pairs.last_key_value()
                && *before >= got
            {
                let before = before.clone();
                return Err(NodeRecordError::Order { got, before });
            }
            let value = Bytes::copy_from_slice(fields.raw("value")?);
            pairs.insert(got, value);
        }
        let mut record = Self {
            signature,
            sequence,
            pairs,
            id: B512::ZERO,
        };
        let scheme = record.value("id").and_then(|mut value| value.slice("id").ok());
        if scheme != Some(SCHEME) {
            let text = String::from_utf8_lossy(scheme.unwrap_or_default()).into_owned();
            return Err(NodeRecordError::Scheme(text));
        }
        record.id = record
            .value("secp256k1")
            .and_then(|mut value| value.fixed::<33>("secp256k1").ok())
            .and_then(|key| expand_public_key(&key.0).ok())
            .ok_or(NodeRecordError::PublicKey)?;
        record.check_signature()?;
        Ok(record)
    }

    fn check_signature(&self) -> Result<(), NodeRecordError> {
        let digest = keccak256(content(self.sequence, &self.pairs, None));
        if is_signed_by(&digest, &self.signature, &self.id) {
            Ok(())
        } else {
            Err(NodeRecordError::Signature)
        }
    }

    /// The RLP of the record.
    pub fn encode(&self) -> Vec<u8> {
        content(self.sequence, &self.pairs, Some(&self.signature))
    }

    /// The node's public key.
    pub const fn id(&self) -> B512 {
        self.id
    }

    /// The hash of the id: the node's address in discovery.
    pub fn address(&self) -> B256 {
        keccak256(self.id)
    }

    /// The number of the record. It rises with each change.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The claims of the node about itself. Values of another form count as missing.
    pub fn claims(&self) -> NodeClaims {
        let v4 = self
            .value("ip")
            .and_then(|mut value| value.fixed::<4>("ip").ok())
            .map(|ip| IpAddr::from(Ipv4Addr::from(ip.0)));
        let v6 = self
            .value("ip6")
            .and_then(|mut value| value.fixed::<16>("ip6").ok())
            .map(|ip| IpAddr::from(Ipv6Addr::from(ip.0)));
        let port = |name: &'static str| {
            let number = self.value(name).and_then(|mut value| value.u64(name).ok())?;
            u16::try_from(number).ok()
        };
        let either = |v4_name, v6_name| {
            let special = if v4.is_none() { port(v6_name) } else { None };
            special.or_else(|| port(v4_name)).unwrap_or_default()
        };
        let fork_id = self.value("eth").and_then(|mut value| {
            // More entries may follow the fork id.
            let mut entries = value.list("eth").ok()?;
            read_fork_id(&mut entries).ok()
        });
        NodeClaims {
            ip: v4.or(v6),
            tcp: either("tcp", "tcp6"),
            udp: either("udp", "udp6"),
            fork_id,
            has_snap: self.pairs.contains_key(&b"snap"[..]),
        }
    }

    /// The contact of the node. `None` if the record does not say it.
    pub fn contact(&self) -> Option<NodeContact> {
        let NodeClaims { ip, tcp, udp, .. } = self.claims();
        Some(NodeContact {
            id: self.id,
            ip: ip?,
            udp,
            tcp,
        })
    }

    fn value(&self, key: &str) -> Option<RlpReader<'_>> {
        self.pairs.get(key.as_bytes()).map(|value| RlpReader::over(value))
    }
}

impl fmt::Display for NodeRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RECORD_PREFIX}{}", URL_SAFE_NO_PAD.encode(self.encode()))
    }
}

impl FromStr for NodeRecord {
    type Err = NodeRecordError;

    fn from_str(text: &str) -> Result<Self, NodeRecordError> {
        let form = || NodeRecordError::Text(text.chars().take(RECORD_BYTES_MAX).collect());
        let digits = text.strip_prefix(RECORD_PREFIX).ok_or_else(form)?;
        if digits.len() > RECORD_BYTES_MAX * 4 / 3 + 2 {
            return Err(form());
        }
        let rlp = URL_SAFE_NO_PAD
            .decode(digits.trim_end_matches('='))
            .map_err(|_| form())?;
        Self::decode(&rlp)
    }
}

#[cfg(test)]
mod tests {
    use alloy_eip2124::ForkHash;
    use primitives::{b256, hex};
    use proptest::prelude::*;

    use super::*;

    /// The example in EIP-778.
    const EXAMPLE: &str = "enr:-IS4QHCYrYZbAKWCBRlAy5zzaDZXJBGkcnh4MHcBFZntXNFrdvJjX04jRzjzCBOonrkTfj499SZuOh8R33Ls8RRcy5wBgmlkgnY0gmlwhH8AAAGJc2VjcDI1NmsxoQPKY0yuDUmstAHYpMa2_oxVtw0RW_QAdpzBQA8yWM0xOIN1ZHCCdl8";

    fn example_key() -> SecretKey {
        let key = "b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291";
        SecretKey::from_hex(key).expect("a key")
    }

    fn loopback() -> NodeClaims {
        NodeClaims {
            ip: Some(IpAddr::from([127, 0, 0, 1])),
            udp: 30303,
            ..NodeClaims::default()
        }
    }

    #[test]
    fn the_published_record() {
        let record: NodeRecord = EXAMPLE.parse().expect("the example");
        assert_eq!(record.to_string(), EXAMPLE);
        assert_eq!(record.sequence(), 1);
        assert_eq!(record.claims(), loopback());
        assert_eq!(record.id(), example_key().public_key());
        let address = b256!("a448f24c6d18e575453db13171562b71999873db5b286df957af199ec94617f7");
        assert_eq!(record.address(), address);
        let contact = record.contact().expect("it has an address");
        assert_eq!(contact.udp_address().to_string(), "127.0.0.1:30303");
        // Signatures are deterministic, so ours is the published one.
        assert_eq!(NodeRecord::sign(&example_key(), 1, &loopback()), record);
    }

    #[test]
    fn ports_stand_where_readers_look_for_them() {
        let keys = |ip: &str| -> Vec<String> {
            let claims = NodeClaims {
                ip: Some(ip.parse().expect("an address")),
                tcp: 30303,
                ..loopback()
            };
            let record = NodeRecord::sign(&example_key(), 1, &claims);
            assert!(record.encode().len() <= RECORD_BYTES_MAX);
            let keys = record.pairs.keys();
            keys.map(|key| String::from_utf8_lossy(key).into_owned())
                .collect()
        };
        assert_eq!(keys("127.0.0.1"), ["id", "ip", "secp256k1", "tcp", "udp"]);
        assert_eq!(
            keys("::1"),
            ["id", "ip6", "secp256k1", "tcp", "tcp6", "udp", "udp6"]
        );
    }

    proptest! {
        #[test]
        fn round_trip(v6 in any::<bool>(), bytes in any::<[u8; 16]>(), tcp: u16, udp: u16, has_snap: bool, sequence: u64, fork: Option<([u8; 4], u64)>) {
            let ip = if v6 { IpAddr::from(bytes) } else { IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]) };
            let claims = NodeClaims {
                ip: Some(ip),
                tcp,
                udp,
                fork_id: fork.map(|(hash, next)| ForkId { hash: ForkHash(hash), next }),
                has_snap,
            };
            let record = NodeRecord::sign(&example_key(), sequence, &claims);
            let read = NodeRecord::decode(&record.encode());
            prop_assert_eq!(read.as_ref(), Ok(&record));
            prop_assert_eq!(record.claims(), claims);
            prop_assert_eq!(record.to_string().parse(), Ok(record));
        }

        #[test]
        fn changed_records_are_refused(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let mut rlp = NodeRecord::sign(&example_key(), 1, &loopback()).encode();
            let at = at.index(rlp.len());
            rlp[at] ^= 1 << bit;
            prop_assert!(NodeRecord::decode(&rlp).is_err());
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |rlp: &[u8], expected: &str| {
            let error = NodeRecord::decode(rlp).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[0; 301], "got 301 bytes");
        check(&[0xc0], "signature: no bytes left");
        let with = |pairs: &[(&'static str, &[u8])]| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| (key.as_bytes(), *value))
                .collect();
            let mut fields: Vec<&dyn Encodable> = vec![&[7_u8; 64], &1_u8];
            for (key, value) in &pairs {
                fields.push(key);
                fields.push(value);
            }
            encode_fields_to_vec(&fields)
        };
        check(&with(&[]), "got identity scheme \"\"");
        check(&with(&[("id", b"v5")]), "got identity scheme \"v5\"");
        check(&with(&[("id", b"v4")]), "no public key");
        check(&with(&[("id", b"v4"), ("id", b"v4")]), "expected ascending keys");
        check(&with(&[("ip", b""), ("id", b"v4")]), "expected ascending keys");
        let key = hex!("03ca634cae0d49acb401d8a4c6b6fe8c55b70d115bf400769cc1400f3258cd3138");
        check(&with(&[("id", b"v4"), ("secp256k1", &key)]), "signature is not");
        assert!("enr:-IS".parse::<NodeRecord>().is_err());
        assert!("enode://".parse::<NodeRecord>().is_err());
    }
}
