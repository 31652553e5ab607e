//! Two sessions that exchange bytes without sockets: what they agree on, and what they refuse.

use std::time::Duration;

use primitives::{B512, SecretKey};

use super::*;
use crate::entropy::Entropy;
use crate::rlpx::error::SendError;
use crate::rlpx::frame::FrameError;
use crate::rlpx::session::{HANDSHAKE_TIMEOUT, OUTPUT_BYTES_MAX, PING_INTERVAL, READ_TIMEOUT};

fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

fn settings(version: u64) -> RlpxSettings {
    let offer = |name, version, length| OfferedCapability {
        name,
        version,
        length,
    };
    RlpxSettings {
        version,
        client: "test/1".to_owned(),
        capabilities: vec![offer("eth", 63, 17), offer("abc", 1, 3)],
        port: 0,
        message_bytes_max: 100_000,
    }
}

/// Two sessions and what they need.
struct Pair {
    dialler: RlpxSession,
    listener: RlpxSession,
    entropy: Entropy,
    now: Duration,
}

/// Moves all bytes of one session to the other.
fn carry(from: &mut RlpxSession, to: &mut RlpxSession) {
    let bytes = from.output().to_vec();
    from.sent(bytes.len());
    to.receive(&bytes);
}

impl Pair {
    fn new(form: HandshakeForm, dialler: RlpxSettings, listener: RlpxSettings) -> Self {
        let mut entropy = Entropy::from_seed([5; 32]);
        let now = Duration::ZERO;
        let remote = key(2).public_key();
        Self {
            dialler: RlpxSession::dial(key(1), remote, form, dialler, now, &mut entropy).expect("a key"),
            listener: RlpxSession::accept(key(2), listener, now, &mut entropy),
            entropy,
            now,
        }
    }

    fn listen(&mut self) -> Result<Option<RlpxEvent>, RlpxError> {
        self.listener.next_event(self.now, &mut self.entropy)
    }

    fn dial(&mut self) -> Result<Option<RlpxEvent>, RlpxError> {
        self.dialler.next_event(self.now, &mut self.entropy)
    }

    /// Both sides are ready afterwards.
    fn open(mut self) -> Self {
        carry(&mut self.dialler, &mut self.listener);
        assert_eq!(self.listen(), Ok(None));
        carry(&mut self.listener, &mut self.dialler);
        assert_eq!(self.dial(), Ok(Some(RlpxEvent::Ready)));
        carry(&mut self.dialler, &mut self.listener);
        assert_eq!(self.listen(), Ok(Some(RlpxEvent::Ready)));
        self
    }
}

fn message(capability: usize, code: u64, payload: &[u8]) -> RlpxEvent {
    RlpxEvent::Message {
        capability,
        code,
        payload: payload.to_vec(),
    }
}

#[test]
fn both_forms_and_both_versions() {
    for form in [HandshakeForm::Eip8, HandshakeForm::Plain] {
        for (one, two) in [(5, 5), (4, 5), (5, 4), (4, 4)] {
            let mut pair = Pair::new(form, settings(one), settings(two)).open();
            let peer = pair.listener.peer().expect("ready").clone();
            assert_eq!(peer.id, key(1).public_key());
            assert_eq!(peer.hello.client, "test/1");
            assert_eq!(peer.is_compressed, one.min(two) == 5);
            assert_eq!(peer.shared.len(), 2);
            let payload = [0xc0; 500];
            pair.dialler.send(1, 16, &payload).expect("sent");
            pair.dialler.send(0, 2, &[]).expect("sent");
            if peer.is_compressed {
                assert!(pair.dialler.output().len() < 250);
            }
            carry(&mut pair.dialler, &mut pair.listener);
            assert_eq!(pair.listen(), Ok(Some(message(1, 16, &payload))));
            assert_eq!(pair.listen(), Ok(Some(message(0, 2, &[]))));
            assert_eq!(pair.listen(), Ok(None));
        }
    }
}

#[test]
fn single_bytes_make_the_same_messages() {
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(5), settings(5)).open();
    pair.dialler.send(1, 3, &[7; 1000]).expect("sent");
    pair.dialler.send(1, 4, &[8; 10]).expect("sent");
    let bytes = pair.dialler.output().to_vec();
    let mut events = Vec::new();
    for byte in bytes {
        pair.listener.receive(&[byte]);
        events.extend(pair.listen().expect("good"));
    }
    assert_eq!(events, [message(1, 3, &[7; 1000]), message(1, 4, &[8; 10])]);
}

#[test]
fn silence_does_not_count_while_nothing_is_read() {
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(5), settings(5)).open();
    for second in 1..=2 * READ_TIMEOUT.as_secs() {
        let now = Duration::from_secs(second);
        pair.listener.not_reading(now);
        pair.listener
            .on_time(now)
            .expect("it is this side that does not read");
    }
    assert!(!pair.listener.output().is_empty(), "it sends Pings all the same");
    let later = READ_TIMEOUT * 3;
    assert_eq!(
        pair.listener.on_time(later),
        Err(RlpxError::Timeout("no message in 30 s")),
        "when it reads again, silence counts"
    );
}

#[test]
fn another_node_cannot_answer() {
    let mut entropy = Entropy::from_seed([5; 32]);
    let mut dial = |remote: B512| {
        RlpxSession::dial(
            key(1),
            remote,
            HandshakeForm::Eip8,
            settings(5),
            Duration::ZERO,
            &mut entropy,
        )
    };
    assert!(matches!(
        dial(key(1).public_key()),
        Err(RlpxError::SelfConnection)
    ));
    assert!(matches!(dial(B512::repeat_byte(7)), Err(RlpxError::Handshake(_))));
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(5), settings(5));
    pair.listener = RlpxSession::accept(key(3), settings(5), pair.now, &mut pair.entropy);
    carry(&mut pair.dialler, &mut pair.listener);
    let error = pair.listen().expect_err("not for this key");
    assert!(matches!(error, RlpxError::Handshake(_)), "{error}");
    assert!(pair.listener.output().is_empty(), "nothing can be said yet");
}

#[test]
fn without_a_shared_capability_both_end() {
    let other = RlpxSettings {
        capabilities: vec![OfferedCapability {
            name: "mc",
            version: 63,
            length: 52,
        }],
        ..settings(5)
    };
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(5), other);
    carry(&mut pair.dialler, &mut pair.listener);
    assert_eq!(pair.listen(), Ok(None));
    carry(&mut pair.listener, &mut pair.dialler);
    let error = pair.dial().expect_err("nothing is shared");
    let text = error.to_string();
    assert_eq!(text, "no shared capability: got mc/63, expected eth/63 abc/1");
    carry(&mut pair.dialler, &mut pair.listener);
    let error = pair.listen().expect_err("nothing is shared");
    assert_eq!(error.reason(), RlpxDisconnect::Useless);
    let mut told = Pair::new(HandshakeForm::Eip8, settings(5), settings(5)).open();
    told.dialler.disconnect(RlpxDisconnect::TooManyPeers);
    carry(&mut told.dialler, &mut told.listener);
    let reason = RlpxDisconnect::TooManyPeers;
    assert_eq!(told.listen(), Err(RlpxError::Disconnected(reason)));
    assert_eq!(told.listen(), Err(RlpxError::Closed(reason)));
    assert_eq!(told.dial(), Err(RlpxError::Closed(reason)));
}

#[test]
fn pings_are_answered_and_silence_ends() {
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(5), settings(5)).open();
    assert_eq!(pair.dialler.deadline(), PING_INTERVAL);
    pair.now = PING_INTERVAL;
    pair.dialler.on_time(pair.now).expect("in time");
    carry(&mut pair.dialler, &mut pair.listener);
    assert_eq!(pair.listen(), Ok(None));
    assert!(!pair.listener.output().is_empty(), "the Pong");
    carry(&mut pair.listener, &mut pair.dialler);
    assert_eq!(pair.dial(), Ok(None));
    pair.now = PING_INTERVAL + READ_TIMEOUT;
    let error = pair.dialler.on_time(pair.now).expect_err("silence");
    assert!(matches!(error, RlpxError::Timeout(_)), "{error}");
    let mut slow = Pair::new(HandshakeForm::Eip8, settings(5), settings(5));
    assert_eq!(slow.listener.deadline(), HANDSHAKE_TIMEOUT);
    assert!(slow.listener.on_time(HANDSHAKE_TIMEOUT).is_err());
}

#[test]
fn what_is_sent_is_bounded() {
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(4), settings(4));
    assert_eq!(pair.dialler.send(0, 0, &[]), Err(SendError::NotOpen));
    pair = pair.open();
    let size = SendError::Size {
        got: 100_001,
        bound: 100_000,
    };
    assert_eq!(pair.dialler.send(0, 0, &[0; 100_001]), Err(size));
    let unknown = |capability, code| Err(SendError::UnknownCode { capability, code });
    assert_eq!(pair.dialler.send(0, 3, &[]), unknown(0, 3));
    assert_eq!(pair.dialler.send(2, 0, &[]), unknown(2, 0));
    let full = (0..1000).find_map(|_| pair.dialler.send(0, 0, &[1; 100_000]).err());
    assert!(matches!(full, Some(SendError::Backlog { .. })), "{full:?}");
    assert!(pair.dialler.output().len() <= OUTPUT_BYTES_MAX + 100_000);
    // A peer that pings and does not read makes nothing grow.
    let before = pair.dialler.output().len();
    pair.listener.on_time(PING_INTERVAL).expect("in time");
    assert!(!pair.listener.output().is_empty(), "a Ping");
    carry(&mut pair.listener, &mut pair.dialler);
    assert_eq!(pair.dial(), Ok(None));
    assert_eq!(pair.dialler.output().len(), before);
}

#[test]
fn large_and_wrong_messages_end_the_connection() {
    // The listener allows less than the dialler sends.
    for version in [4, 5] {
        let small = RlpxSettings {
            message_bytes_max: 1000,
            ..settings(version)
        };
        let mut pair = Pair::new(HandshakeForm::Eip8, settings(version), small).open();
        pair.dialler.send(1, 3, &[7; 1001]).expect("small enough here");
        carry(&mut pair.dialler, &mut pair.listener);
        let error = pair.listen().expect_err("too large");
        assert_eq!(
            error,
            RlpxError::MessageSize {
                code: 22,
                got: 1001,
                bound: 1000
            }
        );
        let mut pair = Pair::new(HandshakeForm::Eip8, settings(version), settings(version)).open();
        pair.dialler.send(0, 2, &[1; 2]).expect("sent");
        let mut bytes = pair.dialler.output().to_vec();
        *bytes.last_mut().expect("bytes") ^= 1;
        pair.listener.receive(&bytes);
        let error = pair.listen().expect_err("a wrong MAC");
        assert_eq!(error, RlpxError::Frame(FrameError::BodyMac));
        assert_eq!(error.reason(), RlpxDisconnect::ProtocolBreach);
    }
    // The header already says that the body is too large, so no byte of the body is awaited.
    let small = RlpxSettings {
        message_bytes_max: 1000,
        ..settings(4)
    };
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(4), small).open();
    pair.dialler.send(1, 3, &[7; 90_000]).expect("small enough here");
    let header = pair.dialler.output()[..32].to_vec();
    pair.listener.receive(&header);
    let error = pair.listen().expect_err("too large");
    assert!(
        matches!(error, RlpxError::Frame(FrameError::Size { .. })),
        "{error}"
    );
}

#[test]
fn codes_beyond_the_capabilities_are_a_breach() {
    let more = RlpxSettings {
        capabilities: vec![OfferedCapability {
            name: "eth",
            version: 63,
            length: 100,
        }],
        ..settings(5)
    };
    let mut pair = Pair::new(HandshakeForm::Eip8, more, settings(5)).open();
    pair.dialler.send(0, 40, &[0xc0]).expect("known here");
    carry(&mut pair.dialler, &mut pair.listener);
    let error = pair.listen().expect_err("unknown there");
    assert_eq!(error, RlpxError::UnknownCode { got: 56, bound: 33 });
}

#[test]
fn a_compressed_bomb_is_refused() {
    // The sender does not compress, so it can send any bytes as if they were compressed.
    let mut pair = Pair::new(HandshakeForm::Eip8, settings(5), settings(5)).open();
    // Snappy's length prefix: 90,000 bytes in 3 bytes of input.
    for bomb in [
        &[0x90, 0xbf, 0x05, 0x00][..],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[],
    ] {
        let compressed = decompress_probe(bomb);
        assert!(compressed.is_err(), "{bomb:02x?}");
    }
    pair.dialler.send(1, 3, &[0; 90_000]).expect("sent");
    carry(&mut pair.dialler, &mut pair.listener);
    assert_eq!(
        pair.listen(),
        Ok(Some(message(1, 3, &[0; 90_000]))),
        "real ones pass"
    );
}

fn decompress_probe(bytes: &[u8]) -> Result<Vec<u8>, RlpxError> {
    super::session::decompress(20, bytes, 100_000)
}
