//! Attacks on handshakes that stopped other nodes, or read their key, by name.

use primitives::{B256, B512, KeyError, SecretKey, U256, expand_public_key};

use super::ecies::{EciesError, decrypt, encrypt};

use super::handshake::{HandshakeError, HandshakeForm, Initiator, Recipient};
use crate::entropy::Entropy;

/// Coordinates of points that are not on the curve: zero, numbers above the field, and points of
/// curves with the same first coefficient, whose groups are small.
fn off_the_curve(entropy: &mut Entropy) -> Vec<B512> {
    let mut points = vec![B512::ZERO, B512::repeat_byte(0xff), B512::with_last_byte(1)];
    let own = entropy.secret_key().public_key();
    for bit in [0, 7, 255, 256, 504, 511] {
        let mut changed = own;
        changed[bit / 8] ^= 1 << (bit % 8);
        points.push(changed);
    }
    points.extend((0..64).map(|_| B512::from(entropy.bytes::<64>())));
    points
}

/// No secret is computed with `point`, as a key of its own and in front of the message `good`.
#[track_caller]
fn assert_no_secret(key: &SecretKey, good: &[u8], point: &B512) {
    assert!(
        matches!(key.shared_secret(point), Err(KeyError::NotAPoint { .. })),
        "{point}"
    );
    let mut message = good.to_vec();
    message[1..65].copy_from_slice(point.as_slice());
    assert_eq!(decrypt(key, &message, b""), Err(EciesError::PublicKey), "{point}");
}

/// CVE-2026-26315: geth multiplied its node key with any two numbers, so answers to points of small
/// groups told the key bit by bit.
#[test]
fn cve_2026_26315_a_point_off_the_curve_gets_no_shared_secret() {
    let mut entropy = Entropy::from_seed([5; 32]);
    let key = entropy.secret_key();
    let good = encrypt(&key.public_key(), b"text", b"", &mut entropy).expect("a point");
    for point in off_the_curve(&mut entropy) {
        assert_no_secret(&key, &good, &point);
    }
}

/// CVE-2025-24883: an auth with a public key that is no point stopped geth.
#[test]
fn cve_2025_24883_an_auth_with_a_bad_id_is_an_error() {
    let mut entropy = Entropy::from_seed([6; 32]);
    let key = entropy.secret_key();
    for point in off_the_curve(&mut entropy) {
        // Signature, hash of the ephemeral key, id, nonce, a zero.
        let body = [&[1; 65][..], &[2; 32], point.as_slice(), &[3; 32], &[0]].concat();
        let auth = encrypt(&key.public_key(), &body, b"", &mut entropy).expect("a point");
        let mut recipient = Recipient::new(&mut entropy);
        let answer = recipient.read_auth(&key, &auth, &mut entropy);
        let error = answer.err().expect("no point");
        assert!(is_no_point(&error), "{point}: {error}");
    }
}

/// A key was refused because it is no point, by itself or before an answer was encrypted for it.
fn is_no_point(error: &HandshakeError) -> bool {
    matches!(
        error,
        HandshakeError::PublicKey { .. }
            | HandshakeError::Cipher {
                cause: EciesError::PublicKey,
                ..
            }
    )
}

/// CVE-2026-22862: messages of handshakes that were too short, or whose lengths
/// lied, stopped geth.
#[test]
fn cve_2026_22862_a_message_of_any_length_is_an_error() {
    let mut entropy = Entropy::from_seed([7; 32]);
    let key: SecretKey = entropy.secret_key();
    let good = encrypt(&key.public_key(), &[0; 40], b"", &mut entropy).expect("a point");
    for length in 0..good.len() {
        assert!(decrypt(&key, &good[..length], b"").is_err(), "{length} bytes");
        let nonce = B256::from(entropy.bytes::<32>());
        for size in [0u16, 1, 112, 113, 300, u16::MAX] {
            let packet = [&size.to_be_bytes()[..], &good[..length], nonce.as_slice()].concat();
            let mut recipient = Recipient::new(&mut entropy);
            let answer = recipient.read_auth(&key, &packet, &mut entropy);
            assert!(!matches!(answer, Ok(Some(_))), "{length} bytes, size {size}");
        }
    }
}

/// Points of the curve whose x is written as x plus the size of the field. Each holds the equation
/// of the curve, but no key is written like this.
fn above_the_field() -> Vec<B512> {
    let size = U256::MAX - U256::from((1_u64 << 32) + 976);
    let point = |x: u8| {
        let mut compressed = [0; 33];
        (compressed[0], compressed[32]) = (2, x);
        let mut point = expand_public_key(&compressed).ok()?;
        point[..32].copy_from_slice(&(size + U256::from(x)).to_be_bytes::<32>());
        Some(point)
    };
    (1..=40).filter_map(point).collect()
}

/// CVE-2026-26314: geth took coordinates that are no numbers of the field, and stopped later.
#[test]
fn cve_2026_26314_coordinates_above_the_field_are_no_key() {
    let mut entropy = Entropy::from_seed([8; 32]);
    let key = entropy.secret_key();
    let good = encrypt(&key.public_key(), b"text", b"", &mut entropy).expect("a point");
    let points = above_the_field();
    assert!(points.len() > 10, "{}", points.len());
    for point in points {
        // As a key of its own, in front of a message, in an auth, in an ack, and of a node to dial.
        assert_no_secret(&key, &good, &point);
        let body = [&[1; 65][..], &[2; 32], point.as_slice(), &[3; 32], &[0]].concat();
        let auth = encrypt(&key.public_key(), &body, b"", &mut entropy).expect("a point");
        let answer = Recipient::new(&mut entropy).read_auth(&key, &auth, &mut entropy);
        let error = answer.err().expect("no point");
        assert!(is_no_point(&error), "{point}: {error}");
        let form = HandshakeForm::Plain;
        let remote = entropy.secret_key().public_key();
        let mut initiator = Initiator::new(&key, &remote, form, &mut entropy).expect("a point");
        let body = [point.as_slice(), &[3; 32], &[0]].concat();
        let ack = encrypt(&key.public_key(), &body, b"", &mut entropy).expect("a point");
        let error = initiator.read_ack(&key, &ack).err().expect("no point");
        assert!(is_no_point(&error), "{point}: {error}");
        let dialled = Initiator::new(&key, &point, form, &mut entropy);
        let error = dialled.err().expect("no point");
        assert!(is_no_point(&error), "{point}: {error}");
    }
}
