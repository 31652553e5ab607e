//! Attacks by messages that took the memory of other nodes, by name.

use std::time::{Duration, Instant};

use network::WireFamily;
use network::testing::{ETH_VERSIONS, MC_VERSIONS, PeerMessage, WireProtocol};

/// The most bytes that the largest message of these has.
const PAYLOAD_BYTES: usize = 4 << 20;
/// The longest time for one message, in a build without optimization on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(5);

/// A list in RLP with this content.
fn list(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = match content.len() {
        0..=55 => vec![0xc0 + content.len() as u8],
        _ => [&[0xf7 + length.len() as u8], length].concat(),
    };
    out.extend_from_slice(content);
    out
}

/// CVE-2026-26313: millions of tiny items in one message took many times its size in memory.
#[test]
fn cve_2026_26313_millions_of_tiny_items_are_refused_at_once() {
    let newest = |family: WireFamily, versions: &[u64]| {
        let newest = versions
            .iter()
            .max()
            .and_then(|version| family.protocol(*version));
        newest.expect("a version")
    };
    let protocols: [WireProtocol; 2] = [
        newest(WireFamily::Eth, &ETH_VERSIONS),
        newest(WireFamily::Mc, &MC_VERSIONS),
    ];
    let mut refused = 0;
    for item in [0xc0, 0x80] {
        let items = vec![item; PAYLOAD_BYTES - 64];
        let whole = list(&items);
        let with_id = list(&[&[7][..], &whole].concat());
        for protocol in &protocols {
            for code in 0..=0x11 {
                for payload in [&whole, &with_id] {
                    let started = Instant::now();
                    let decoded = PeerMessage::decode(*protocol, code, payload);
                    assert!(started.elapsed() < TIME_MAX, "{protocol:?}, {code:#x}");
                    // Some messages have no effect, so that nobody reads what is in them.
                    if decoded.is_err() {
                        refused += 1;
                    } else {
                        assert!(
                            matches!(decoded, Ok(PeerMessage::WithoutEffect(..))),
                            "{protocol:?}, {code:#x}: {item:#x}"
                        );
                    }
                }
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

/// A string in RLP with these bytes, more than 55 of them.
fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = list(bytes);
    out[0] -= 0x40;
    out
}

/// CVE-2026-22868: each transaction with wrong proofs of blobs took geth much time, again and
/// again from the same peer. No network here has blobs, so nothing of them is verified: the type
/// alone makes the message an error, for which the peer is disconnected.
#[test]
fn cve_2026_22868_transactions_with_blobs_are_refused_by_their_type() {
    let blobs = list(&string(&vec![7; PAYLOAD_BYTES / 2]));
    let transactions = list(&string(&[&[3][..], &blobs].concat()));
    let with_id = list(&[&[7][..], &transactions].concat());
    let mut refused = 0;
    for version in ETH_VERSIONS {
        let protocol = WireFamily::Eth.protocol(version).expect("known");
        let pooled = if version < 66 { &transactions } else { &with_id };
        for (code, payload) in [(0x02, &transactions), (0x0a, pooled)] {
            // Pooled transactions came with version 65.
            if code == 0x02 || version >= 65 {
                let error = PeerMessage::decode(protocol, code, payload).expect_err("blobs");
                assert!(error.to_string().contains("type"), "eth/{version}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 10, "{refused}");
}
