//! Packets are read as they were written; published ones are read; changed ones are dropped.

use proptest::prelude::*;

use super::*;
use crate::vectors;

const DIALECTS: [DiscoveryDialect; 2] = [
    DiscoveryDialect::Ethereum,
    DiscoveryDialect::Public { network_id: 99 },
];

fn key() -> SecretKey {
    SecretKey::from_bytes(&[7; 32]).expect("in range")
}

/// One packet of each type of the dialect.
fn packets(dialect: DiscoveryDialect, ip: IpAddr, port: u16, hash: B256) -> Vec<DiscoveryPacket> {
    let endpoint = PacketEndpoint::new(ip, port, 30303);
    let target = B512::repeat_byte(5);
    let contact = NodeContact {
        id: target,
        ip,
        udp: port,
        tcp: 30303,
    };
    let tail = match dialect {
        DiscoveryDialect::Ethereum => PacketTail {
            record_sequence: Some(3),
            network_id: None,
        },
        DiscoveryDialect::Public { network_id } => PacketTail {
            record_sequence: None,
            network_id: Some(network_id),
        },
    };
    let mut all = vec![
        DiscoveryPacket::Ping {
            from: endpoint,
            to: endpoint,
            tail,
        },
        DiscoveryPacket::Pong {
            to: endpoint,
            ping_hash: hash,
            tail,
        },
        DiscoveryPacket::FindNode {
            target,
            brothers_only: dialect != DiscoveryDialect::Ethereum,
        },
        DiscoveryPacket::Neighbors {
            nodes: vec![contact; 3],
        },
    ];
    match dialect {
        DiscoveryDialect::Ethereum => all.extend([
            DiscoveryPacket::EnrRequest,
            DiscoveryPacket::EnrResponse {
                request_hash: hash,
                record: Bytes::from_static(&[0xc1, 0x05]),
            },
        ]),
        DiscoveryDialect::Public { .. } => all.extend([
            DiscoveryPacket::Store {
                key: target,
                from: endpoint,
            },
            DiscoveryPacket::StoreReply,
            DiscoveryPacket::FindValue { key: target },
            DiscoveryPacket::FindValueReply {
                key: target,
                value: Bytes::from_static(b"enode://1,"),
            },
        ]),
    }
    all
}

proptest! {
    #[test]
    fn packets_are_read_as_written(v6: bool, bytes: [u8; 16], port: u16, hash: [u8; 32], expiry: u64) {
        let v4 = IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let ip = address::canonical(if v6 { IpAddr::from(bytes) } else { v4 });
        for dialect in DIALECTS {
            for packet in packets(dialect, ip, port, B256::from(hash)) {
                let (bytes, hash) = packet.seal(&key(), dialect, expiry);
                let read = DiscoveryPacket::open(&bytes, dialect).expect("our own packet");
                let has_expiry = !matches!(packet, DiscoveryPacket::EnrResponse { .. });
                let expected = ReadPacket {
                    id: key().public_key(),
                    hash,
                    packet,
                    expiry: has_expiry.then_some(expiry),
                };
                prop_assert_eq!(read, expected);
            }
        }
    }

    #[test]
    fn a_changed_packet_is_dropped(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let ip = IpAddr::from([1, 2, 3, 4]);
        for dialect in DIALECTS {
            for packet in packets(dialect, ip, 30303, B256::ZERO) {
                let mut bytes = packet.seal(&key(), dialect, 7).0;
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                prop_assert_eq!(DiscoveryPacket::open(&bytes, dialect), Err(PacketError::Hash));
            }
        }
    }
}

#[test]
fn published_packets_are_read() {
    let key = "b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291";
    let id = SecretKey::from_hex(key).expect("a key").public_key();
    for (name, kind) in [
        ("ping", 1),
        ("ping555", 1),
        ("pong", 2),
        ("findnode", 3),
        ("neighbors", 4),
    ] {
        let bytes = vectors::eip8(&format!("/discovery/{name}"));
        let read = DiscoveryPacket::open(&bytes, DiscoveryDialect::Ethereum).expect(name);
        assert_eq!(read.id, id, "{name}");
        assert_eq!(read.packet.kind(), kind, "{name}");
        assert_eq!(read.expiry, Some(1_136_239_445), "{name}");
        if let DiscoveryPacket::Neighbors { nodes } = read.packet {
            let addresses: Vec<_> = nodes.iter().map(|node| node.udp_address().to_string()).collect();
            assert_eq!(addresses[..2], ["99.33.22.55:4444", "1.2.3.4:1"]);
            assert_eq!(nodes.len(), 4);
        }
    }
}

#[test]
fn the_public_networks_strings() {
    let public = DIALECTS[1];
    let ip = IpAddr::from([0; 16]);
    let all = packets(public, ip, 30333, B256::ZERO);
    let bytes = |index: usize| all[index].seal(&key(), public, 7).0;
    assert!(bytes(0).ends_with(&[0x83, b'9', b'9', b'\t']));
    assert!(bytes(1).ends_with(&[0x83, b'9', b'9', b'\t']));
    assert!(bytes(2).ends_with(b"\x071"), "the expiry and the flag");
    assert_eq!(network_id(b"101\t"), Some(101));
    assert_eq!(network_id(b"101\tmore"), Some(101));
    assert_eq!(network_id(b"\t"), None);
    assert_eq!(network_id(b"1x\t"), None);
}

#[test]
fn types_belong_to_dialects() {
    let (ethereum, public) = (DIALECTS[0], DIALECTS[1]);
    let find = DiscoveryPacket::FindValue {
        key: B512::repeat_byte(5),
    };
    let bytes = find.seal(&key(), public, 7).0;
    let error = DiscoveryPacket::open(&bytes, ethereum).expect_err("another dialect");
    assert_eq!(error, PacketError::Type { got: 7 });
    let store = &packets(public, IpAddr::from([1, 2, 3, 4]), 1, B256::ZERO)[4];
    let bytes = store.seal(&key(), public, 7).0;
    assert!(
        DiscoveryPacket::open(&bytes, ethereum).is_err(),
        "5 is ENRREQUEST there"
    );
}

#[test]
fn full_packets_fit() {
    let contact = NodeContact {
        id: B512::repeat_byte(0xff),
        ip: IpAddr::from([0xff; 16]),
        udp: u16::MAX,
        tcp: u16::MAX,
    };
    let nodes = vec![contact; NEIGHBORS_IN_PACKET];
    let (bytes, _) = DiscoveryPacket::Neighbors { nodes }.seal(&key(), DIALECTS[0], u64::MAX);
    assert!(bytes.len() <= PACKET_BYTES_MAX, "{}", bytes.len());
    assert_eq!(
        DiscoveryPacket::open(&[0; PACKET_BYTES_MAX + 1], DIALECTS[0]),
        Err(PacketError::Size { got: 1281 })
    );
    assert_eq!(
        DiscoveryPacket::open(&[], DIALECTS[0]),
        Err(PacketError::Size { got: 0 })
    );
}
