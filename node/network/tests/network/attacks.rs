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
