//! The handshake: two encrypted messages (auth and ack) that prove who both sides are and agree on
//! the secrets of a connection.
//!
//! Both forms are read: that of EIP-8, with a size in front, and the older plain one of fixed
//! length. An ack has the form of its auth. Knows no sockets: it takes bytes and returns bytes.
//! Source: docs/p2p.md, 1; EIP-8; ethereum/devp2p, `rlpx.md`.

use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{B256, B512, DecodeError, EcdsaSignature, SecretKey, U256, keccak256, recover_public_key};
use tiny_keccak::{Hasher, Keccak};
use zeroize::Zeroizing;

use super::ecies::{self, EciesError, OVERHEAD, POINT_PREFIX};
use crate::entropy::Entropy;

/// The most bytes of an auth or an ack.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 2048;
/// Length of an auth in the plain form.
const PLAIN_AUTH_BYTES: usize = 65 + 32 + 64 + 32 + 1 + OVERHEAD;
/// Length of an ack in the plain form.
const PLAIN_ACK_BYTES: usize = 64 + 32 + 1 + OVERHEAD;
/// The version in handshakes of EIP-8.
const HANDSHAKE_VERSION: u8 = 4;
/// Fewest random bytes after the body of a handshake of EIP-8, and how many more there may be.
const TAIL_BYTES_MIN: usize = 100;
const TAIL_BYTES_RANGE: usize = 200;

/// The form of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeForm {
    /// The form of EIP-8, which every client accepts.
    Eip8,
    /// The older form of fixed length. geth refuses it from version 1.10 on.
    Plain,
}

/// The reason why a handshake fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first bytes are those of no handshake.
    #[error("{message}: got first bytes {got:02x?}, expected a handshake")]
    NoHandshake {
        /// `auth` or `ack`.
        message: &'static str,
        /// The first three bytes.
        got: [u8; 3],
    },
    /// The size in front is out of range.
    #[error("{message}: got {got} bytes, expected at most {HANDSHAKE_BYTES_MAX}")]
    Size {
        /// `auth` or `ack`.
        message: &'static str,
        /// The size, prefix included.
        got: usize,
    },
    /// The message cannot be decrypted.
    #[error("{message}: {cause}")]
    Cipher {
        /// `auth` or `ack`.
        message: &'static str,
        /// The cause.
        cause: EciesError,
    },
    /// The decrypted message has another form.
    #[error("{message}: {cause}")]
    Form {
        /// `auth` or `ack`.
        message: &'static str,
        /// The cause.
        cause: DecodeError,
    },
    /// The signature in an auth gives no key.
    #[error("auth.signature: got one that no key can have made")]
    Signature,
    /// The hash in a plain auth is not that of the signer's key.
    #[error("auth: got the hash of another ephemeral key than the signer's")]
    EphemeralHash,
    /// A public key is not on the curve.
    #[error("{field}: got other bytes, expected a point of secp256k1")]
    PublicKey {
        /// The name of the key.
        field: &'static str,
    },
}

/// The secrets of both sides after the handshake, seen from one side.
pub(crate) struct SessionSecrets {
    /// Key of the cipher of frames.
    pub(super) cipher: Zeroizing<[u8; 32]>,
    /// Key of the MACs of frames.
    pub(super) mac: Zeroizing<[u8; 32]>,
    /// State of the MAC of what is sent.
    pub(super) egress: Keccak,
    /// State of the MAC of what is received.
    pub(super) ingress: Keccak,
}

/// The side that dialled. It has sent an auth and waits for the ack.
pub(super) struct Initiator {
    ephemeral: SecretKey,
    nonce: B256,
    auth: Vec<u8>,
    reader: PacketReader,
}

/// The side that was dialled. It waits for the auth.
pub(super) struct Recipient {
    ephemeral: SecretKey,
    nonce: B256,
    reader: PacketReader,
}

/// The facts that the recipient knows once it has read an auth.
pub(super) struct Answered {
    pub(super) remote: B512,
    /// The bytes to send.
    pub(super) ack: Vec<u8>,
    /// The secrets of the connection.
    pub(super) secrets: SessionSecrets,
    /// The number of bytes of the input that were the auth.
    pub(super) used: usize,
}

impl Initiator {
    /// Makes the auth for the owner of `remote`.
    pub(super) fn new(
        key: &SecretKey,
        remote: &B512,
        form: HandshakeForm,
        entropy: &mut Entropy,
    ) -> Result<Self, HandshakeError> {
        let (ephemeral, nonce) = (entropy.secret_key(), B256::from(entropy.bytes()));
        let shared = shared(key, remote, "remote id")?;
        let signature = ephemeral.sign(&xor(&B256::from(*shared), &nonce));
        let mut signed = signature.to_rsv();
        signed[64] = signature.recovery_id;
        let body = match form {
            HandshakeForm::Plain => {
                let hash = keccak256(ephemeral.public_key());
                [
                    &signed[..],
                    hash.as_slice(),
                    key.public_key().as_slice(),
                    nonce.as_slice(),
                    &[0],
                ]
                .concat()
            }
            HandshakeForm::Eip8 => {
                encode_fields_to_vec(&[&signed, &key.public_key(), &nonce, &HANDSHAKE_VERSION])
            }
        };
        let auth = seal("auth", remote, body, form, entropy)?;
        let reader = PacketReader::new("ack", PLAIN_ACK_BYTES);
        Ok(Self {
            ephemeral,
            nonce,
            auth,
            reader,
        })
    }

    /// The bytes to send.
    pub(super) fn auth(&self) -> &[u8] {
        &self.auth
    }

    /// Reads the ack at the front of `input`. `None` as long as it is not complete. Otherwise the
    /// secrets, and how many bytes of `input` were the ack.
    pub(super) fn read_ack(
        &mut self,
        key: &SecretKey,
        input: &[u8],
    ) -> Result<Option<(SessionSecrets, usize)>, HandshakeError> {
        let Some(packet) = self.reader.read(key, input)? else {
            return Ok(None);
        };
        let fields = read_ack_fields(&packet)?;
        let shared = shared(&self.ephemeral, &fields.ephemeral, "ack.ephemeralKey")?;
        let keys = derive_keys(&shared, &fields.nonce, &self.nonce);
        let ack = &input[..packet.used];
        let secrets = SessionSecrets {
            egress: mac_state(&keys.mac, &fields.nonce, &self.auth),
            ingress: mac_state(&keys.mac, &self.nonce, ack),
            cipher: keys.cipher,
            mac: keys.mac,
        };
        Ok(Some((secrets, packet.used)))
    }
}

impl Recipient {
    pub(super) fn new(entropy: &mut Entropy) -> Self {
        Self {
            ephemeral: entropy.secret_key(),
            nonce: B256::from(entropy.bytes()),
            reader: PacketReader::new("auth", PLAIN_AUTH_BYTES),
        }
    }

    /// Reads the auth at the front of `input` and makes the ack. `None` as long as the auth is not
    /// complete.
    pub(super) fn read_auth(
        &mut self,
        key: &SecretKey,
        input: &[u8],
        entropy: &mut Entropy,
    ) -> Result<Option<Answered>, HandshakeError> {
        let Some(packet) = self.reader.read(key, input)? else {
            return Ok(None);
        };
        let auth = read_auth_fields(&packet)?;
        let own = self.ephemeral.public_key();
        let body = match packet.form {
            HandshakeForm::Plain => [own.as_slice(), self.nonce.as_slice(), &[0]].concat(),
            HandshakeForm::Eip8 => encode_fields_to_vec(&[&own, &self.nonce, &HANDSHAKE_VERSION]),
        };
        let ack = seal("ack", &auth.id, body, packet.form, entropy)?;
        let secrets = self.secrets(key, &auth, &input[..packet.used], &ack)?;
        Ok(Some(Answered {
            remote: auth.id,
            ack,
            secrets,
            used: packet.used,
        }))
    }

    fn secrets(
        &self,
        key: &SecretKey,
        auth: &AuthFields,
        auth_bytes: &[u8],
        ack_bytes: &[u8],
    ) -> Result<SessionSecrets, HandshakeError> {
        let static_shared = shared(key, &auth.id, "auth.id")?;
        let digest = xor(&B256::from(*static_shared), &auth.nonce);
        let ephemeral =
            recover_public_key(&digest, &auth.signature).map_err(|_| HandshakeError::Signature)?;
        if auth
            .ephemeral_hash
            .is_some_and(|hash| hash != keccak256(ephemeral))
        {
            return Err(HandshakeError::EphemeralHash);
        }
        let shared = shared(&self.ephemeral, &ephemeral, "auth.ephemeralKey")?;
        let keys = derive_keys(&shared, &self.nonce, &auth.nonce);
        Ok(SessionSecrets {
            egress: mac_state(&keys.mac, &auth.nonce, ack_bytes),
            ingress: mac_state(&keys.mac, &self.nonce, auth_bytes),
            cipher: keys.cipher,
            mac: keys.mac,
        })
    }
}

fn shared(
    key: &SecretKey,
    remote: &B512,
    field: &'static str,
) -> Result<Zeroizing<[u8; 32]>, HandshakeError> {
    key.shared_secret(remote)
        .map_err(|_| HandshakeError::PublicKey { field })
}

fn xor(one: &B256, two: &B256) -> B256 {
    *one ^ *two
}

/// Encrypts the body of a handshake. In the form of EIP-8 a random tail follows the body, and the
/// size of the rest is in front.
fn seal(
    message: &'static str,
    remote: &B512,
    mut body: Vec<u8>,
    form: HandshakeForm,
    entropy: &mut Entropy,
) -> Result<Vec<u8>, HandshakeError> {
    let cipher = |cause| HandshakeError::Cipher { message, cause };
    if form == HandshakeForm::Plain {
        return ecies::encrypt(remote, &body, &[], entropy).map_err(cipher);
    }
    let start = body.len();
    let tail = TAIL_BYTES_MIN + entropy.below(TAIL_BYTES_RANGE);
    body.resize(start + tail, 0);
    entropy.fill(&mut body[start..]);
    let size = u16::try_from(body.len() + OVERHEAD).expect("a body and its tail have some hundred bytes");
    let prefix = size.to_be_bytes();
    let encrypted = ecies::encrypt(remote, &body, &prefix, entropy).map_err(cipher)?;
    Ok([&prefix[..], &encrypted].concat())
}

struct DerivedKeys {
    cipher: Zeroizing<[u8; 32]>,
    mac: Zeroizing<[u8; 32]>,
}

fn derive_keys(shared: &[u8; 32], recipient_nonce: &B256, initiator_nonce: &B256) -> DerivedKeys {
    let nonces = keccak256([recipient_nonce.as_slice(), initiator_nonce.as_slice()].concat());
    let hash = |last: &[u8]| {
        let input = Zeroizing::new([shared, last].concat());
        Zeroizing::new(keccak256(&input).0)
    };
    let secret = hash(nonces.as_slice());
    let cipher = hash(secret.as_slice());
    let mac = hash(cipher.as_slice());
    DerivedKeys { cipher, mac }
}

fn mac_state(key: &[u8; 32], nonce: &B256, message: &[u8]) -> Keccak {
    let mut state = Keccak::v256();
    state.update(xor(&B256::from(*key), nonce).as_slice());
    state.update(message);
    state
}

/// A decrypted packet.
struct Packet {
    form: HandshakeForm,
    text: Vec<u8>,
    /// The number of its bytes in the input.
    used: usize,
}

/// Finds the end of a packet and decrypts it.
struct PacketReader {
    message: &'static str,
    plain_bytes: usize,
    /// The input was tried as the plain form, in vain. It is not tried again with each new byte.
    is_not_plain: bool,
}

impl PacketReader {
    const fn new(message: &'static str, plain_bytes: usize) -> Self {
        Self {
            message,
            plain_bytes,
            is_not_plain: false,
        }
    }

    fn read(&mut self, key: &SecretKey, input: &[u8]) -> Result<Option<Packet>, HandshakeError> {
        let message = self.message;
        let &[high, low, third, ..] = input else {
            return Ok(None);
        };
        if high == POINT_PREFIX && !self.is_not_plain {
            let Some(plain) = input.get(..self.plain_bytes) else {
                return Ok(None);
            };
            if let Ok(text) = ecies::decrypt(key, plain, &[]) {
                return Ok(Some(Packet {
                    form: HandshakeForm::Plain,
                    text,
                    used: self.plain_bytes,
                }));
            }
            self.is_not_plain = true;
        }
        if third != POINT_PREFIX {
            let got = [high, low, third];
            return Err(HandshakeError::NoHandshake { message, got });
        }
        let end = 2 + usize::from(u16::from_be_bytes([high, low]));
        if end > HANDSHAKE_BYTES_MAX {
            return Err(HandshakeError::Size { message, got: end });
        }
        let Some(packet) = input.get(..end) else {
            return Ok(None);
        };
        let text = ecies::decrypt(key, &packet[2..], &packet[..2])
            .map_err(|cause| HandshakeError::Cipher { message, cause })?;
        Ok(Some(Packet {
            form: HandshakeForm::Eip8,
            text,
            used: end,
        }))
    }
}

struct AuthFields {
    signature: EcdsaSignature,
    ephemeral_hash: Option<B256>,
    id: B512,
    nonce: B256,
}

struct AckFields {
    ephemeral: B512,
    nonce: B256,
}

fn signature(rsv: &[u8; 65]) -> EcdsaSignature {
    EcdsaSignature {
        r: U256::from_be_slice(&rsv[..32]),
        s: U256::from_be_slice(&rsv[32..64]),
        recovery_id: rsv[64],
    }
}

fn read_auth_fields(packet: &Packet) -> Result<AuthFields, HandshakeError> {
    if packet.form == HandshakeForm::Plain {
        // The length of a plain packet is fixed, so these slices are within it.
        let text = &packet.text;
        let mut rsv = [0; 65];
        rsv.copy_from_slice(&text[..65]);
        return Ok(AuthFields {
            signature: signature(&rsv),
            ephemeral_hash: Some(B256::from_slice(&text[65..97])),
            id: B512::from_slice(&text[97..161]),
            nonce: B256::from_slice(&text[161..193]),
        });
    }
    // More fields and bytes after the list may follow (EIP-8).
    let read = || {
        let mut fields = RlpReader::over(&packet.text).list("auth")?;
        Ok(AuthFields {
            signature: signature(&fields.fixed::<65>("auth.signature")?.0),
            ephemeral_hash: None,
            id: fields.fixed("auth.id")?,
            nonce: fields.fixed("auth.nonce")?,
        })
    };
    read().map_err(|cause| HandshakeError::Form {
        message: "auth",
        cause,
    })
}

fn read_ack_fields(packet: &Packet) -> Result<AckFields, HandshakeError> {
    if packet.form == HandshakeForm::Plain {
        return Ok(AckFields {
            ephemeral: B512::from_slice(&packet.text[..64]),
            nonce: B256::from_slice(&packet.text[64..96]),
        });
    }
    let read = || {
        let mut fields = RlpReader::over(&packet.text).list("ack")?;
        Ok(AckFields {
            ephemeral: fields.fixed("ack.ephemeralKey")?,
            nonce: fields.fixed("ack.nonce")?,
        })
    };
    read().map_err(|cause| HandshakeError::Form {
        message: "ack",
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    fn vector(name: &str) -> Vec<u8> {
        vectors::eip8(&format!("/handshake/{name}"))
    }

    fn key(name: &str) -> SecretKey {
        SecretKey::from_bytes(&vector(name)).expect("a key")
    }

    fn recipient() -> Recipient {
        Recipient {
            ephemeral: key("ephemeral_b"),
            nonce: B256::from_slice(&vector("nonce_b")),
            reader: PacketReader::new("auth", PLAIN_AUTH_BYTES),
        }
    }

    fn initiator(auth: &str) -> Initiator {
        Initiator {
            ephemeral: key("ephemeral_a"),
            nonce: B256::from_slice(&vector("nonce_a")),
            auth: vector(auth),
            reader: PacketReader::new("ack", PLAIN_ACK_BYTES),
        }
    }

    #[test]
    fn published_packets_are_read() {
        let mut entropy = Entropy::from_seed([1; 32]);
        for (auth, form) in [
            ("auth1", HandshakeForm::Plain),
            ("auth2", HandshakeForm::Eip8),
            ("auth3", HandshakeForm::Eip8),
        ] {
            let bytes = vector(auth);
            let answered = recipient()
                .read_auth(&key("static_b"), &bytes, &mut entropy)
                .expect("good")
                .expect("complete");
            assert_eq!(answered.remote, key("static_a").public_key(), "{auth}");
            assert_eq!(answered.used, bytes.len());
            let is_plain = answered.ack.len() == PLAIN_ACK_BYTES && answered.ack[0] == POINT_PREFIX;
            assert_eq!(is_plain, form == HandshakeForm::Plain);
        }
        for ack in ["ack1", "ack2", "ack3"] {
            let bytes = vector(ack);
            let read = initiator("auth2")
                .read_ack(&key("static_a"), &bytes)
                .expect("good");
            assert_eq!(read.expect("complete").1, bytes.len(), "{ack}");
        }
    }

    #[test]
    fn published_secrets_are_derived() {
        let (auth, ack) = (vector("auth2"), vector("ack2"));
        let (mut one, _) = initiator("auth2")
            .read_ack(&key("static_a"), &ack)
            .expect("good")
            .expect("complete");
        let packet = PacketReader::new("auth", PLAIN_AUTH_BYTES)
            .read(&key("static_b"), &auth)
            .expect("good")
            .expect("complete");
        let fields = read_auth_fields(&packet).expect("fields");
        let mut two = recipient()
            .secrets(&key("static_b"), &fields, &auth, &ack)
            .expect("good");
        for secrets in [&one, &two] {
            assert_eq!(secrets.cipher.as_slice(), vector("aes_secret"));
            assert_eq!(secrets.mac.as_slice(), vector("mac_secret"));
        }
        let hash = |state: &mut Keccak| {
            let mut state = state.clone();
            let mut out = [0; 32];
            state.update(b"foo");
            state.finalize(&mut out);
            out
        };
        assert_eq!(hash(&mut two.ingress).as_slice(), vector("ingress_mac_of_foo"));
        assert_eq!(hash(&mut one.egress), hash(&mut two.ingress));
        assert_eq!(hash(&mut one.ingress), hash(&mut two.egress));
    }

    #[test]
    fn incomplete_packets_wait_and_junk_is_refused() {
        let mut entropy = Entropy::from_seed([1; 32]);
        for auth in ["auth1", "auth2"] {
            let bytes = vector(auth);
            let mut recipient = recipient();
            for end in 0..bytes.len() {
                let read = recipient.read_auth(&key("static_b"), &bytes[..end], &mut entropy);
                assert!(matches!(read, Ok(None)), "{auth} {end}");
            }
        }
        let mut refuse = |input: &[u8]| {
            recipient()
                .read_auth(&key("static_b"), input, &mut entropy)
                .map(|answered| answered.is_some())
        };
        assert_eq!(
            refuse(b"GET / HTTP/1.1\r\n"),
            Err(HandshakeError::NoHandshake {
                message: "auth",
                got: *b"GET"
            })
        );
        let large = [0xff, 0xff, 4];
        assert_eq!(
            refuse(&large),
            Err(HandshakeError::Size {
                message: "auth",
                got: 0x10001
            })
        );
        let mut wrong = vector("auth2");
        wrong[200] ^= 1;
        let cause = EciesError::Tag;
        assert_eq!(
            refuse(&wrong),
            Err(HandshakeError::Cipher {
                message: "auth",
                cause
            })
        );
        assert!(
            refuse(&[4; 307]).is_ok_and(|complete| !complete),
            "0x0404 may be a size"
        );
    }
}
