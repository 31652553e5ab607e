//! The contents of handshakes and pings (docs/scs-wire.md, 3; docs/scs-wire.md, 4).

use bytes::Bytes;
use primitives::rlp::{RlpItem, RlpReader};
use primitives::{B256, DecodeError, EcdsaSignature, Encodable, SecretKey, hex, keccak256, recover};

use super::{ScsId, ScsMessageError};

/// The answer to a good handshake.
pub(crate) const SHAKE_REPLY: &str = "shakereply";
/// The answer to a handshake for another chain.
pub(crate) const CHAIN_ID_ERROR: &str = "chainiderror";
/// The answer of a node that cannot serve yet.
pub(crate) const NOT_INITIALIZED: &str = "Not initialize";
/// The beginning of the answer to a handshake with a bad id. The id follows.
pub(crate) const INVALID_ID: &str = "shakereply: error: invalid scsId ";
/// The answer to the ping of an SCS.
pub(crate) const PING_REPLY: &str = "pingreply";

/// The operation of a handshake that proves its id. Its publickey is the signature.
pub const PROOF_OPERATION: &str = "proof";
/// The label of what is signed. It does not begin as the RLP of a transaction or of a block does.
const PROOF_LABEL: &[u8] = b"MicroChain SCS handshake";

/// The announcement of an SCS about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// [`PROOF_OPERATION`] if the id is proven; anything else is of no meaning.
    pub operation: String,
    /// The signature of a proof; otherwise of no meaning.
    pub public_key: String,
    /// The most MicroChains that the SCS can serve.
    pub capability: u64,
    /// The chain id of the base chain.
    pub chain_id: u64,
}

impl Handshake {
    /// Reads the payload of a handshake.
    ///
    /// # Errors
    /// [`ScsMessageError`] if it is not a list of these four fields.
    pub fn decode(payload: &[u8]) -> Result<Self, ScsMessageError> {
        let mut fields = RlpReader::open(payload, "handshake")?;
        fields.expect_count("handshake", 4, "4")?;
        Ok(Self {
            operation: text("operation", fields.slice("operation")?)?,
            public_key: text("publickey", fields.slice("publickey")?)?,
            capability: fields.u64("capability")?,
            chain_id: fields.u64("chainId")?,
        })
    }

    /// The payload of a handshake.
    pub fn encode(&self) -> Bytes {
        let fields: [&dyn Encodable; 4] = [
            &self.operation,
            &self.public_key,
            &self.capability,
            &self.chain_id,
        ];
        let mut out = Vec::new();
        alloy_rlp::encode_list::<_, dyn Encodable>(&fields, &mut out);
        out.into()
    }

    /// The same announcement with the proof that the owner of `key` makes it on the stream of
    /// `challenge`.
    pub fn with_proof(&self, key: &SecretKey, challenge: &B256) -> Self {
        let digest = proof_digest(self.chain_id, &ScsId(key.address()), challenge);
        Self {
            operation: PROOF_OPERATION.to_owned(),
            public_key: hex::encode(key.sign(&digest).to_rsv()),
            ..self.clone()
        }
    }

    /// Whether the handshake claims to prove its id.
    pub(crate) fn has_proof(&self) -> bool {
        self.operation == PROOF_OPERATION
    }

    /// Whether the handshake proves `id` on the stream of `challenge`.
    pub(crate) fn proves(&self, id: &ScsId, challenge: &B256) -> bool {
        let digest = proof_digest(self.chain_id, id, challenge);
        let mut rsv = [0; 65];
        self.has_proof()
            && hex::decode_to_slice(&self.public_key, &mut rsv).is_ok()
            && EcdsaSignature::from_rsv(&rsv)
                .and_then(|signature| recover(&digest, &signature))
                .is_ok_and(|signer| signer == id.0)
    }
}

/// The digest that a proof signs: the base chain, the id and the challenge of the VNODE.
fn proof_digest(chain_id: u64, id: &ScsId, challenge: &B256) -> B256 {
    keccak256(
        [
            PROOF_LABEL,
            &chain_id.to_be_bytes(),
            id.0.as_slice(),
            challenge.as_slice(),
        ]
        .concat(),
    )
}

/// A text as a payload: its RLP.
pub fn encode_text(text: &str) -> Bytes {
    alloy_rlp::encode(text).into()
}

/// Reads a text.
///
/// # Errors
/// [`ScsMessageError`] if the payload is not the RLP of a text.
pub fn decode_text(payload: &[u8]) -> Result<String, ScsMessageError> {
    text("text", &bytes("text", payload)?)
}

/// A number as the payload of a ping: the list with the RLP of it.
pub fn encode_head(number: u64) -> Bytes {
    let fields: [&dyn Encodable; 1] = [&number];
    let mut out = Vec::new();
    alloy_rlp::encode_list::<_, dyn Encodable>(&fields, &mut out);
    out.into()
}

/// Reads the number of the head in a ping.
///
/// # Errors
/// [`ScsMessageError`] if the payload is not the list of a number.
pub fn decode_head(payload: &[u8]) -> Result<u64, ScsMessageError> {
    let mut fields = RlpReader::open(payload, "ping")?;
    fields.expect_count("ping", 1, "1")?;
    Ok(fields.u64("head number")?)
}

fn bytes(field: &'static str, payload: &[u8]) -> Result<Vec<u8>, ScsMessageError> {
    let field_error = |cause| DecodeError::Field { field, cause };
    match RlpItem::decode_exact(payload).map_err(field_error)? {
        RlpItem::Bytes(bytes) => Ok(bytes),
        RlpItem::List(_) => Err(field_error(primitives::rlp::RlpError::UnexpectedList).into()),
    }
}

fn text(field: &'static str, bytes: &[u8]) -> Result<String, ScsMessageError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ScsMessageError::Text { field })?;
    Ok(text.to_owned())
}
