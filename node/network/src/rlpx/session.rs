//! One connection between two nodes, without its socket: bytes come in, events come out, and the
//! bytes to send are collected.
//!
//! The caller hands over the time with each call and asks for [`RlpxSession::deadline`]. It reads
//! more bytes only when [`RlpxSession::next_event`] has nothing left. So the input never has more
//! than one frame and one read. Source: docs/p2p.md, 1.

use std::mem;
use std::time::Duration;

use primitives::rlp::RlpReader;
use primitives::{B512, SecretKey};

use super::capability::{OfferedCapability, SharedCapability, shared_capabilities};
use super::error::{RlpxError, SendError};
use super::frame::{FRAME_BYTES_LIMIT, FrameCodec, HEADER_BYTES, body_bytes};
use super::handshake::{HandshakeForm, Initiator, Recipient, SessionSecrets};
use super::hello::{
    CAPABILITY_CODE_BASE, Capability, DISCONNECT_CODE, HELLO_BYTES_MAX, HELLO_CODE, Hello, PING_CODE,
    PONG_CODE, RlpxDisconnect, SNAPPY_VERSION,
};
use crate::entropy::Entropy;

/// Longest time for auth and ack, and again for the two Hellos.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time without a complete frame.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time in which none of the bytes to send can be written.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two Pings.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(15);
/// The most bytes that wait to be sent. A message that would exceed them is not taken.
pub(crate) const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// While more bytes than this wait to be sent, Pings are not answered. Reading goes on: if both
/// sides stopped reading until they had sent, neither would ever go on.
pub(crate) const UNANSWERED_PINGS_FROM: usize = 1 << 20;
/// Largest message on Ethereum's networks.
pub(crate) const ETH_MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Largest message on the public network.
pub(crate) const MC_MESSAGE_BYTES_MAX: usize = 10 << 20;

/// Memory for bytes to send that is kept between messages.
const KEPT_BYTES: usize = 1 << 20;

/// The Hello of this node, and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RlpxSettings {
    /// The version of the base protocol, 5 or 4. Below 5 nothing is compressed.
    pub version: u64,
    /// The name of the client.
    pub client: String,
    /// The capabilities that are offered.
    pub capabilities: Vec<OfferedCapability>,
    /// The port in the Hello. All clients send 0.
    pub port: u64,
    /// The largest message, in bytes after decompression, code not included.
    pub message_bytes_max: usize,
}

/// The facts about the other side once both Hellos were exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RlpxPeer {
    /// The proven public key.
    pub id: B512,
    /// The Hello of the other side.
    pub hello: Hello,
    /// The capabilities of the connection, at least one.
    pub shared: Vec<SharedCapability>,
    /// Messages are compressed.
    pub is_compressed: bool,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RlpxEvent {
    /// Both Hellos were exchanged. Always the first event.
    Ready,
    /// A message of a capability.
    Message {
        /// Index in `RlpxPeer::shared`.
        capability: usize,
        /// The code, counted from the capability's first one.
        code: u64,
        /// The RLP after the code.
        payload: Vec<u8>,
    },
}

enum Phase {
    Dialling(Box<Initiator>, B512),
    Answering(Box<Recipient>),
    /// The handshake is done, the Hello is sent.
    Greeting(Box<FrameCodec>, B512),
    Open(Box<FrameCodec>),
    Closed(RlpxDisconnect),
}

/// A connection without its socket.
pub struct RlpxSession {
    key: SecretKey,
    settings: RlpxSettings,
    phase: Phase,
    peer: Option<RlpxPeer>,
    input: Vec<u8>,
    /// Bytes at the front of `input` that are used up.
    used: usize,
    /// Size of the body whose header was read.
    body: Option<usize>,
    output: Vec<u8>,
    /// Bytes at the front of `output` that were sent.
    sent: usize,
    /// The time at which the phase or the last frame began to count.
    since: Duration,
    next_ping: Duration,
}

impl RlpxSession {
    /// A connection that this node has dialled. `now` is the time since any start.
    ///
    /// # Errors
    /// [`RlpxError`] if `remote` is not a key, or this node's own.
    pub fn dial(
        key: SecretKey,
        remote: B512,
        form: HandshakeForm,
        settings: RlpxSettings,
        now: Duration,
        entropy: &mut Entropy,
    ) -> Result<Self, RlpxError> {
        if key.public_key() == remote {
            return Err(RlpxError::SelfConnection);
        }
        let initiator = Initiator::new(&key, &remote, form, entropy)?;
        let output = initiator.auth().to_vec();
        let phase = Phase::Dialling(Box::new(initiator), remote);
        Ok(Self {
            output,
            ..Self::new(key, settings, phase, now)
        })
    }

    /// A connection that another node has dialled.
    pub fn accept(key: SecretKey, settings: RlpxSettings, now: Duration, entropy: &mut Entropy) -> Self {
        let phase = Phase::Answering(Box::new(Recipient::new(entropy)));
        Self::new(key, settings, phase, now)
    }

    const fn new(key: SecretKey, settings: RlpxSettings, phase: Phase, now: Duration) -> Self {
        Self {
            key,
            settings,
            phase,
            peer: None,
            input: Vec::new(),
            used: 0,
            body: None,
            output: Vec::new(),
            sent: 0,
            since: now,
            next_ping: now,
        }
    }

    /// The other side. `None` before [`RlpxEvent::Ready`].
    pub const fn peer(&self) -> Option<&RlpxPeer> {
        self.peer.as_ref()
    }

    /// Takes bytes from the other side.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// The bytes to send, in order.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Removes the first `count` bytes of [`Self::output`], which were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.output.len());
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
            // The memory of a large message is not kept.
            self.output.shrink_to(KEPT_BYTES);
        } else if self.sent * 2 > self.output.len() && self.sent > KEPT_BYTES {
            // Moving the rest costs less than what was sent.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Says that nothing of the other side is read at this moment, so its silence does not count.
    pub const fn not_reading(&mut self, now: Duration) {
        if matches!(self.phase, Phase::Open(_)) {
            self.since = now;
        }
    }

    /// The time at which [`Self::on_time`] must be called.
    pub fn deadline(&self) -> Duration {
        match self.phase {
            Phase::Open(_) => (self.since + READ_TIMEOUT).min(self.next_ping),
            Phase::Closed(_) => Duration::MAX,
            _ => self.since + HANDSHAKE_TIMEOUT,
        }
    }

    /// Sends a Ping if it is time for one.
    ///
    /// # Errors
    /// [`RlpxError::Timeout`] if nothing came for too long. The session is then closed.
    pub fn on_time(&mut self, now: Duration) -> Result<(), RlpxError> {
        match self.phase {
            Phase::Closed(_) => Ok(()),
            Phase::Open(_) => {
                if now >= self.since + READ_TIMEOUT {
                    return self.fail(RlpxError::Timeout("no message in 30 s"));
                }
                if now >= self.next_ping {
                    self.next_ping = now + PING_INTERVAL;
                    self.write(PING_CODE, &[0xc0])?;
                }
                Ok(())
            }
            _ if now >= self.since + HANDSHAKE_TIMEOUT => {
                self.fail(RlpxError::Timeout("no handshake in 5 s"))
            }
            _ => Ok(()),
        }
    }

    /// The next thing that happened. `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`RlpxError`] if the connection must end. A Disconnect with the reason is then in
    /// [`Self::output`], where the other side can read it.
    pub fn next_event(
        &mut self,
        now: Duration,
        entropy: &mut Entropy,
    ) -> Result<Option<RlpxEvent>, RlpxError> {
        match self.step(now, entropy) {
            Err(error) => self.fail(error),
            event => event,
        }
    }

    /// Sends a message of a capability.
    ///
    /// # Errors
    /// [`SendError`] if it is not taken. The connection goes on.
    pub fn send(&mut self, capability: usize, code: u64, payload: &[u8]) -> Result<(), SendError> {
        let (Phase::Open(_), Some(peer)) = (&self.phase, &self.peer) else {
            return Err(SendError::NotOpen);
        };
        let shared = peer.shared.get(capability);
        let Some(shared) = shared.filter(|shared| code < shared.offered.length) else {
            return Err(SendError::UnknownCode { capability, code });
        };
        let offset = shared.offset;
        let bound = self.settings.message_bytes_max.min(MESSAGE_BYTES_LIMIT);
        let got = payload.len();
        if got > bound {
            return Err(SendError::Size { got, bound });
        }
        let got = self.output().len() + payload.len();
        if got > OUTPUT_BYTES_MAX {
            return Err(SendError::Backlog { got });
        }
        self.write(offset + code, payload).map_err(|_| SendError::Size {
            got: payload.len(),
            bound,
        })
    }

    /// Ends the connection. A Disconnect is sent if the handshake is done.
    pub fn disconnect(&mut self, reason: RlpxDisconnect) {
        if matches!(self.phase, Phase::Greeting(..) | Phase::Open(_)) {
            // A Disconnect has a few bytes, so it can be written.
            let _ = self.write(DISCONNECT_CODE, &reason.encode());
        }
        if !matches!(self.phase, Phase::Closed(_)) {
            self.phase = Phase::Closed(reason);
        }
    }

    fn fail<T>(&mut self, error: RlpxError) -> Result<T, RlpxError> {
        match &error {
            RlpxError::Disconnected(reason) | RlpxError::Closed(reason) => {
                self.phase = Phase::Closed(*reason)
            }
            other => self.disconnect(other.reason()),
        }
        Err(error)
    }

    fn step(&mut self, now: Duration, entropy: &mut Entropy) -> Result<Option<RlpxEvent>, RlpxError> {
        loop {
            let input = &self.input[self.used..];
            match &mut self.phase {
                Phase::Dialling(initiator, remote) => {
                    let remote = *remote;
                    let Some((secrets, used)) = initiator.read_ack(&self.key, input)? else {
                        return Ok(None);
                    };
                    self.used += used;
                    self.greet(secrets, remote, now)?;
                }
                Phase::Answering(recipient) => {
                    let Some(answered) = recipient.read_auth(&self.key, input, entropy)? else {
                        return Ok(None);
                    };
                    self.used += answered.used;
                    self.output.extend_from_slice(&answered.ack);
                    if answered.remote == self.key.public_key() {
                        return Err(RlpxError::SelfConnection);
                    }
                    self.greet(answered.secrets, answered.remote, now)?;
                }
                Phase::Greeting(..) => {
                    let Some((code, payload)) = self.read_frame(HELLO_BYTES_MAX)? else {
                        return Ok(None);
                    };
                    self.open(code, &payload, now)?;
                    return Ok(Some(RlpxEvent::Ready));
                }
                Phase::Open(_) => {
                    let Some((code, payload)) = self.read_frame(self.frame_bytes_max())? else {
                        return Ok(None);
                    };
                    self.since = now;
                    if let Some(event) = self.take(code, payload)? {
                        return Ok(Some(event));
                    }
                }
                Phase::Closed(reason) => return Err(RlpxError::Closed(*reason)),
            }
        }
    }

    /// Ends the handshake and sends the Hello.
    fn greet(&mut self, secrets: SessionSecrets, remote: B512, now: Duration) -> Result<(), RlpxError> {
        self.phase = Phase::Greeting(Box::new(FrameCodec::new(secrets)), remote);
        self.since = now;
        let capability = |offer: &OfferedCapability| Capability {
            name: offer.name.to_owned(),
            version: offer.version,
        };
        let hello = Hello {
            version: self.settings.version,
            client: self.settings.client.clone(),
            capabilities: self.settings.capabilities.iter().map(capability).collect(),
            port: self.settings.port,
            id: self.key.public_key(),
        };
        self.write(HELLO_CODE, &hello.encode())
    }

    /// Reads the first message of the other side.
    fn open(&mut self, code: u64, payload: &[u8], now: Duration) -> Result<(), RlpxError> {
        match code {
            HELLO_CODE => {}
            DISCONNECT_CODE => return Err(disconnected(payload)),
            got => return Err(RlpxError::NoHello { got }),
        }
        let Phase::Greeting(_, expected) = self.phase else {
            return Ok(());
        };
        let hello = Hello::decode(payload).map_err(RlpxError::Hello)?;
        if hello.id != expected {
            let (got, expected) = (Box::new(hello.id), Box::new(expected));
            return Err(RlpxError::UnexpectedIdentity { got, expected });
        }
        let shared = shared_capabilities(&self.settings.capabilities, &hello.capabilities);
        if shared.is_empty() {
            let names = |names: Vec<String>| names.join(" ");
            let own = self.settings.capabilities.iter();
            return Err(RlpxError::NoSharedCapability {
                got: names(hello.capabilities.iter().map(Capability::to_string).collect()),
                expected: names(
                    own.map(|offer| format!("{}/{}", offer.name, offer.version))
                        .collect(),
                ),
            });
        }
        self.peer = Some(RlpxPeer {
            id: expected,
            is_compressed: hello.version.min(self.settings.version) >= SNAPPY_VERSION,
            hello,
            shared,
        });
        let closed = Phase::Closed(RlpxDisconnect::Requested);
        if let Phase::Greeting(codec, _) = mem::replace(&mut self.phase, closed) {
            self.phase = Phase::Open(codec);
        }
        self.since = now;
        self.next_ping = now + PING_INTERVAL;
        Ok(())
    }

    /// Reads a message after the Hellos.
    fn take(&mut self, code: u64, payload: Vec<u8>) -> Result<Option<RlpxEvent>, RlpxError> {
        let Some(peer) = &self.peer else {
            return Err(RlpxError::NoHello { got: code });
        };
        let bound = self.settings.message_bytes_max;
        let is_compressed = peer.is_compressed;
        if code < CAPABILITY_CODE_BASE {
            match code {
                DISCONNECT_CODE => {
                    // Some clients compress this message, and some do not.
                    let plain = decompress(code, &payload, HELLO_BYTES_MAX);
                    let read = plain.ok().filter(|_| is_compressed);
                    return Err(disconnected(read.as_ref().unwrap_or(&payload)));
                }
                PING_CODE if self.output().len() <= UNANSWERED_PINGS_FROM => {
                    self.write(PONG_CODE, &[0xc0])?
                }
                _ => {}
            }
            return Ok(None);
        }
        let is_of = |shared: &SharedCapability| {
            (shared.offset..shared.offset + shared.offered.length).contains(&code)
        };
        let Some(index) = peer.shared.iter().position(is_of) else {
            let end = |shared: &SharedCapability| shared.offset + shared.offered.length;
            let bound = peer.shared.last().map_or(CAPABILITY_CODE_BASE, end);
            return Err(RlpxError::UnknownCode { got: code, bound });
        };
        let own_code = code - peer.shared[index].offset;
        let payload = if is_compressed {
            decompress(code, &payload, bound)?
        } else if payload.len() > bound {
            let got = payload.len();
            return Err(RlpxError::MessageSize { code, got, bound });
        } else {
            payload
        };
        Ok(Some(RlpxEvent::Message {
            capability: index,
            code: own_code,
            payload,
        }))
    }

    /// The largest body of a frame. Compression can make a message longer.
    fn frame_bytes_max(&self) -> usize {
        let code_bytes = 9;
        (snap::raw::max_compress_len(self.settings.message_bytes_max) + code_bytes).min(FRAME_BYTES_LIMIT)
    }

    /// Reads a frame: the code and what follows it.
    fn read_frame(&mut self, bound: usize) -> Result<Option<(u64, Vec<u8>)>, RlpxError> {
        let (Phase::Greeting(codec, _) | Phase::Open(codec)) = &mut self.phase else {
            return Ok(None);
        };
        let size = match self.body {
            Some(size) => size,
            None => {
                let Some(header) = self.input[self.used..].first_chunk::<HEADER_BYTES>() else {
                    return Ok(None);
                };
                let size = codec.read_header(header, bound)?;
                self.used += HEADER_BYTES;
                *self.body.insert(size)
            }
        };
        let start = self.used;
        let Some(bytes) = self.input.get_mut(start..start + body_bytes(size)) else {
            return Ok(None);
        };
        let body = codec.read_body(bytes, size)?;
        let mut reader = RlpReader::over(body);
        let code = reader.u64("code").map_err(RlpxError::Code)?;
        let payload = reader.rest().to_vec();
        self.used += body_bytes(size);
        self.body = None;
        if self.used == self.input.len() {
            // The memory of a large frame is not kept.
            self.input = Vec::new();
            self.used = 0;
        }
        Ok(Some((code, payload)))
    }

    fn write(&mut self, code: u64, payload: &[u8]) -> Result<(), RlpxError> {
        let is_compressed = self.peer.as_ref().is_some_and(|peer| peer.is_compressed);
        let (Phase::Greeting(codec, _) | Phase::Open(codec)) = &mut self.phase else {
            return Ok(());
        };
        let code_rlp = alloy_rlp::encode(code);
        if !is_compressed {
            return Ok(codec.write([&code_rlp, payload], &mut self.output)?);
        }
        let compressed =
            snap::raw::Encoder::new()
                .compress_vec(payload)
                .map_err(|error| RlpxError::Compression {
                    code,
                    cause: error.to_string(),
                })?;
        Ok(codec.write([&code_rlp, &compressed], &mut self.output)?)
    }
}

/// The most bytes that one compressed byte stands for: three bytes can repeat 64 earlier ones.
const SNAPPY_RATIO_MAX: usize = 22;
/// The largest message that fits into a frame, even if compression makes it longer.
const MESSAGE_BYTES_LIMIT: usize = FRAME_BYTES_LIMIT / 7 * 6 - 64;

fn disconnected(payload: &[u8]) -> RlpxError {
    let reason = RlpxDisconnect::decode(payload).unwrap_or(RlpxDisconnect::Requested);
    RlpxError::Disconnected(reason)
}

/// Decompresses a message. Its length is compared with `bound`, and with what so many bytes can
/// hold, before memory is taken for it.
pub(super) fn decompress(code: u64, payload: &[u8], bound: usize) -> Result<Vec<u8>, RlpxError> {
    let wrong = |error: snap::Error| RlpxError::Compression {
        code,
        cause: error.to_string(),
    };
    let got = snap::raw::decompress_len(payload).map_err(wrong)?;
    let possible = payload.len().saturating_mul(SNAPPY_RATIO_MAX);
    if got > bound || got > possible {
        let bound = bound.min(possible);
        return Err(RlpxError::MessageSize { code, got, bound });
    }
    snap::raw::Decoder::new().decompress_vec(payload).map_err(wrong)
}
