//! Frames: the encrypted and authenticated pieces of a connection after the handshake.
//!
//! A frame is a header of 16 bytes, its MAC, the body, filled up to a multiple of 16 bytes, and
//! the MAC of the body. The header has the size of the body. It is authenticated and bounded
//! before any memory is used for the body. Source: docs/p2p.md, 1; ethereum/devp2p, `rlpx.md`.

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use tiny_keccak::{Hasher, Keccak};

use super::handshake::SessionSecrets;

/// Bytes of a header with its MAC.
pub(super) const HEADER_BYTES: usize = 32;
const BLOCK_BYTES: usize = 16;
/// The largest size that a header can hold.
pub(super) const FRAME_BYTES_LIMIT: usize = (1 << 24) - 1;
/// The bytes after the size in a header: the RLP list of two zeros. No client uses these numbers.
const HEADER_DATA: [u8; 3] = [0xc2, 0x80, 0x80];

/// The reason why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The MAC of the header is wrong.
    #[error("frame header: got another MAC than the computed one")]
    HeaderMac,
    /// The MAC of the body is wrong.
    #[error("frame body: got another MAC than the computed one")]
    BodyMac,
    /// The body is larger than the connection allows.
    #[error("frame body: got {got} bytes, expected at most {bound}")]
    Size {
        /// The size of the frame.
        got: usize,
        /// The largest allowed size.
        bound: usize,
    },
    /// The body has no bytes, so there is no message code.
    #[error("frame body: got no bytes, expected a message")]
    Empty,
}

struct FrameMac {
    key: Aes256,
    state: Keccak,
}

impl FrameMac {
    /// The first 16 bytes of the hash of everything until now.
    fn digest(&self) -> [u8; BLOCK_BYTES] {
        let mut hash = [0; 32];
        self.state.clone().finalize(&mut hash);
        let mut first = [0; BLOCK_BYTES];
        first.copy_from_slice(&hash[..BLOCK_BYTES]);
        first
    }

    /// Takes `seed`, encrypted with the state, into the state. Returns the MAC.
    fn mix(&mut self, seed: &[u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
        let mut block = self.digest().into();
        self.key.encrypt_block(&mut block);
        for (byte, seed) in block.iter_mut().zip(seed) {
            *byte ^= seed;
        }
        self.state.update(&block);
        self.digest()
    }

    fn of_body(&mut self, body: &[u8]) -> [u8; BLOCK_BYTES] {
        self.state.update(body);
        let seed = self.digest();
        self.mix(&seed)
    }
}

struct FrameDirection {
    cipher: Ctr128BE<Aes256>,
    mac: FrameMac,
}

impl FrameDirection {
    fn new(cipher: &[u8; 32], mac: &[u8; 32], state: Keccak) -> Self {
        Self {
            cipher: Ctr128BE::new(&(*cipher).into(), &[0; 16].into()),
            mac: FrameMac {
                key: Aes256::new(&(*mac).into()),
                state,
            },
        }
    }
}

/// Writes and reads the frames of one connection.
pub(super) struct FrameCodec {
    out: FrameDirection,
    inward: FrameDirection,
}

/// Compares without telling by its time where the difference is.
fn is_same(one: &[u8], two: &[u8]) -> bool {
    one.len() == two.len() && one.iter().zip(two).fold(0, |sum, (one, two)| sum | (one ^ two)) == 0
}

/// Length of a body with its filling and its MAC.
pub(super) const fn body_bytes(size: usize) -> usize {
    size.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES
}

impl FrameCodec {
    pub(super) fn new(secrets: SessionSecrets) -> Self {
        Self {
            out: FrameDirection::new(&secrets.cipher, &secrets.mac, secrets.egress),
            inward: FrameDirection::new(&secrets.cipher, &secrets.mac, secrets.ingress),
        }
    }

    /// Appends the frame with the body `parts` to `out`.
    ///
    /// # Errors
    /// [`FrameError::Size`] if the body is larger than a header can say.
    pub(super) fn write(&mut self, parts: [&[u8]; 2], out: &mut Vec<u8>) -> Result<(), FrameError> {
        let size = parts[0].len() + parts[1].len();
        if size > FRAME_BYTES_LIMIT {
            return Err(FrameError::Size {
                got: size,
                bound: FRAME_BYTES_LIMIT,
            });
        }
        let mut header = [0; BLOCK_BYTES];
        header[..3].copy_from_slice(&(size as u32).to_be_bytes()[1..]);
        header[3..6].copy_from_slice(&HEADER_DATA);
        self.out.cipher.apply_keystream(&mut header);
        out.reserve(HEADER_BYTES + body_bytes(size));
        out.extend_from_slice(&header);
        out.extend_from_slice(&self.out.mac.mix(&header));
        let start = out.len();
        out.extend_from_slice(parts[0]);
        out.extend_from_slice(parts[1]);
        out.resize(start + size.next_multiple_of(BLOCK_BYTES), 0);
        self.out.cipher.apply_keystream(&mut out[start..]);
        let mac = self.out.mac.of_body(&out[start..]);
        out.extend_from_slice(&mac);
        Ok(())
    }

    /// Reads a header with its MAC. Returns the size of the body, at most `bound`.
    pub(super) fn read_header(
        &mut self,
        bytes: &[u8; HEADER_BYTES],
        bound: usize,
    ) -> Result<usize, FrameError> {
        let mut header = [0; BLOCK_BYTES];
        header.copy_from_slice(&bytes[..BLOCK_BYTES]);
        if !is_same(&self.inward.mac.mix(&header), &bytes[BLOCK_BYTES..]) {
            return Err(FrameError::HeaderMac);
        }
        self.inward.cipher.apply_keystream(&mut header);
        let got = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        match got {
            0 => Err(FrameError::Empty),
            got if got > bound => Err(FrameError::Size { got, bound }),
            size => Ok(size),
        }
    }

    /// Reads a body of `size` bytes with its filling and its MAC, in place. Returns the body.
    pub(super) fn read_body<'a>(&mut self, bytes: &'a mut [u8], size: usize) -> Result<&'a [u8], FrameError> {
        let end = bytes.len().saturating_sub(BLOCK_BYTES);
        let (body, mac) = bytes.split_at_mut(end);
        if !is_same(&self.inward.mac.of_body(body), mac) {
            return Err(FrameError::BodyMac);
        }
        self.inward.cipher.apply_keystream(body);
        Ok(&body[..size.min(end)])
    }
}

#[cfg(test)]
mod tests {
    use primitives::{hex, keccak256};
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;

    fn secrets(cipher: [u8; 32], mac: [u8; 32], marks: [&[u8]; 2]) -> SessionSecrets {
        let state = |mark: &[u8]| {
            let mut state = Keccak::v256();
            state.update(mark);
            state
        };
        SessionSecrets {
            cipher: Zeroizing::new(cipher),
            mac: Zeroizing::new(mac),
            egress: state(marks[0]),
            ingress: state(marks[1]),
        }
    }

    pub(super) fn pair() -> (FrameCodec, FrameCodec) {
        let side = |marks| FrameCodec::new(secrets([1; 32], [2; 32], marks));
        (side([b"one", b"two"]), side([b"two", b"one"]))
    }

    fn read(codec: &mut FrameCodec, frame: &mut [u8], bound: usize) -> Result<Vec<u8>, FrameError> {
        let (header, body) = frame.split_at_mut(HEADER_BYTES);
        let header: &[u8; HEADER_BYTES] = (&*header).try_into().expect("32 bytes");
        let size = codec.read_header(header, bound)?;
        assert_eq!(body.len(), body_bytes(size));
        codec.read_body(body, size).map(<[u8]>::to_vec)
    }

    /// The ciphertext of the frame in the test `TestRLPXFrameFake` of go-ethereum: code 8, body
    /// [1, 2, 3, 4]. That test replaces the MACs.
    #[test]
    fn the_published_frame_is_written() {
        let key = keccak256([]).0;
        let mut codec = FrameCodec::new(secrets(key, key, [b"", b""]));
        let mut out = Vec::new();
        codec.write([&[8], &hex!("c401020304")], &mut out).expect("small");
        assert_eq!(out[..16], hex!("00828ddae471818bb0bfa6b551d1cb42"));
        assert_eq!(out[32..48], hex!("ba628a4ba590cb43f7848f41c4382885"));
        assert_eq!(out.len(), 64);
    }

    proptest! {
        #[test]
        fn frames_are_read_as_written(bodies in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..100), 1..5)) {
            let (mut one, mut two) = pair();
            for body in bodies {
                let mut out = Vec::new();
                one.write([&body[..1], &body[1..]], &mut out).expect("small");
                prop_assert_eq!(read(&mut two, &mut out, 100), Ok(body));
            }
        }

        #[test]
        fn each_changed_bit_is_noticed(at in 0_usize..112, bit in 0..8_u8) {
            let (mut one, mut two) = pair();
            let mut out = Vec::new();
            one.write([&[8], &[7; 50]], &mut out).expect("small");
            prop_assert_eq!(out.len(), 112);
            out[at] ^= 1_u8 << bit;
            let expected = if at < HEADER_BYTES { FrameError::HeaderMac } else { FrameError::BodyMac };
            prop_assert_eq!(read(&mut two, &mut out, 100), Err(expected));
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let (mut one, mut two) = pair();
        let mut out = Vec::new();
        one.write([&[8], &[7; 100]], &mut out).expect("small");
        let error = FrameError::Size { got: 101, bound: 100 };
        assert_eq!(read(&mut two, &mut out, 100), Err(error));
        let large = vec![0; FRAME_BYTES_LIMIT];
        let before = out.len();
        assert!(one.write([&[8], &large], &mut out).is_err());
        assert_eq!(out.len(), before);
        let (mut one, mut two) = pair();
        let mut empty = Vec::new();
        one.write([&[], &[]], &mut empty).expect("small");
        assert_eq!(read(&mut two, &mut empty, 100), Err(FrameError::Empty));
    }
}
