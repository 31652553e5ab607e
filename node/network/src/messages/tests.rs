//! Every message of every version: it is read as it was written, and bad ones are refused.

use std::sync::Arc;

use alloy_eip2124::{ForkHash, ForkId};
use primitives::rlp::{RlpItem, RlpReader, encode_fields_to_vec};
use primitives::{
    B256, Block, Bytes, Header, Log, Receipt, ReceiptOutcome, SecretKey, Transaction, TxForm, U256,
    UnsignedTransaction, b256, hex,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::messages::codec::GOSSIPED_TRANSACTIONS_MAX;
use crate::messages::codec::REQUESTED_HASHES_MAX;
use crate::messages::codes::{
    HASHES_BYTES_MAX, HEADERS_BYTES_MAX, SHORT_MESSAGE_BYTES_MAX, TRANSACTIONS_BYTES_MAX,
};
use crate::messages::error::PeerMessageError;

fn protocols() -> Vec<WireProtocol> {
    let eth = ETH_VERSIONS
        .into_iter()
        .filter_map(|version| WireFamily::Eth.protocol(version));
    let mc = MC_VERSIONS
        .into_iter()
        .filter_map(|version| WireFamily::Mc.protocol(version));
    eth.chain(mc).collect()
}

fn eth(version: u64) -> WireProtocol {
    WireFamily::Eth.protocol(version).expect("known")
}

fn mc63() -> WireProtocol {
    WireFamily::Mc.protocol(63).expect("known")
}

/// A transaction of the family's form; of Ethereum's the even ones are typed.
fn transaction(family: WireFamily, tx_nonce: u64) -> Transaction {
    let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
    let form = match family {
        WireFamily::Eth if tx_nonce.is_multiple_of(2) => TxForm::AccessList,
        WireFamily::Eth => TxForm::Ethereum,
        WireFamily::Mc => TxForm::Native,
    };
    let unsigned = UnsignedTransaction {
        tx_nonce,
        gas: 90_000,
        input: Bytes::from_static(&[7; 60]),
        ..UnsignedTransaction::default()
    };
    unsigned.sign(&key, 100, form)
}

/// One of each message, with `seed` in its values. Messages that the version lacks are left out.
fn messages(protocol: WireProtocol, seed: u64) -> Vec<PeerMessage> {
    let family = protocol.family();
    let hash = |number: u64| B256::from(U256::from(seed ^ number));
    let hashes = vec![hash(1), hash(2)];
    let id = if protocol.has_request_ids() { seed } else { 0 };
    let header = Header {
        number: seed,
        ..Header::default()
    };
    let transactions = vec![
        transaction(family, seed),
        transaction(family, 1),
        transaction(family, 2),
    ];
    let request = |start| HeadersRequest {
        start,
        amount: seed,
        skip: 191,
        reverse: seed % 2 == 1,
    };
    let plain = Receipt::new(ReceiptOutcome::Status(true), seed, vec![Log::default()]);
    let receipt = match family {
        WireFamily::Eth => plain.with_type((seed % 2) as u8),
        WireFamily::Mc => plain,
    };
    let mut all = vec![
        PeerMessage::Status(PeerStatus {
            version: protocol.version(),
            network_id: seed,
            total_difficulty: U256::from(seed) << 100,
            head: hash(3),
            genesis: hash(4),
            fork_id: protocol.has_fork_id().then_some(ForkId {
                hash: ForkHash([1, 2, 3, 4]),
                next: seed,
            }),
        }),
        PeerMessage::NewBlockHashes(vec![AnnouncedBlock {
            hash: hash(5),
            number: seed,
        }]),
        PeerMessage::Transactions(transactions.clone()),
        PeerMessage::GetBlockHeaders(id, request(HeadersStart::Hash(hash(6)))),
        PeerMessage::GetBlockHeaders(id, request(HeadersStart::Number(seed))),
        PeerMessage::BlockHeaders(id, vec![header.clone(), Header::default()]),
        PeerMessage::BlockHeaders(id, Vec::new()),
        PeerMessage::GetBlockBodies(id, hashes.clone()),
        PeerMessage::BlockBodies(
            id,
            vec![
                PeerBody::default(),
                PeerBody {
                    transactions: transactions.clone(),
                    uncles: vec![header.clone()],
                },
            ],
        ),
        PeerMessage::NewBlock(
            Arc::new(PackedBlock::pack(&Block {
                header: header.clone(),
                transactions: transactions.clone(),
                uncles: vec![header],
            })),
            U256::from(seed),
        ),
    ];
    if protocol.has_pooled_transactions() {
        let announced = |hash| AnnouncedTransaction {
            hash,
            kind_and_size: protocol.has_typed_announcements().then_some((0, seed)),
        };
        all.extend([
            PeerMessage::NewPooledTransactionHashes(hashes.iter().copied().map(announced).collect()),
            PeerMessage::GetPooledTransactions(id, hashes.clone()),
            PeerMessage::PooledTransactions(id, transactions),
        ]);
    }
    if protocol.has_node_data() {
        all.extend([
            PeerMessage::GetNodeData(id, hashes.clone()),
            PeerMessage::NodeData(id, vec![Bytes::from_static(b"node"), Bytes::new()]),
        ]);
    }
    if protocol.has_receipts() {
        all.extend([
            PeerMessage::GetReceipts(id, hashes),
            PeerMessage::Receipts(id, vec![vec![receipt.clone(), receipt], Vec::new()]),
        ]);
    }
    if protocol.has_application_chains() {
        let message = ApplicationChainMessage {
            request_id: Bytes::from_static(b"id-1"),
            is_request: seed.is_multiple_of(2),
            content: Bytes::from_static(b"block"),
            ..ApplicationChainMessage::default()
        };
        all.extend([
            PeerMessage::ApplicationChain(Box::new(message)),
            PeerMessage::WithoutEffect(0x21, Bytes::from_static(&[0xc1, 0x05])),
            PeerMessage::WithoutEffect(0x33, Bytes::new()),
        ]);
    }
    all
}

#[test]
fn the_status_sample_of_the_public_network() {
    let sample = hex!(
        "f84a3f82053983020000a0b188d41214801da7a81cf93e7114ba7d7eaf4ce0fe6f118934f4e99a78cbdd82"
        "a0b188d41214801da7a81cf93e7114ba7d7eaf4ce0fe6f118934f4e99a78cbdd82"
    );
    let hash = b256!("b188d41214801da7a81cf93e7114ba7d7eaf4ce0fe6f118934f4e99a78cbdd82");
    let status = PeerMessage::Status(PeerStatus {
        version: 63,
        network_id: 1337,
        total_difficulty: U256::from(131_072),
        head: hash,
        genesis: hash,
        fork_id: None,
    });
    assert_eq!(PeerMessage::decode(mc63(), 0, &sample), Ok(status.clone()));
    assert_eq!(status.encode(mc63()), (0, sample.to_vec()));
    let error = PeerMessage::decode(eth(64), 0, &sample).expect_err("no fork id");
    assert_eq!(error.to_string(), "Status: Status: got 5 fields, expected 6");
}

/// All messages of EIP-2481, "Test Cases", are read and written to the same bytes.
#[test]
fn published_messages_with_request_ids() {
    let mut read = Vec::new();
    for (name, code, payload) in crate::vectors::eip2481() {
        let message =
            PeerMessage::decode(eth(66), code, &payload).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.request_id(), Some(1111), "{name}");
        assert_eq!(message.encode(eth(66)), (code, payload), "{name}");
        read.push(message);
    }
    assert_eq!(read.len(), 11);
    let request = |start| HeadersRequest {
        start,
        amount: 5,
        skip: 5,
        reverse: false,
    };
    let hash = b256!("00000000000000000000000000000000000000000000000000000000deadc0de");
    for start in [HeadersStart::Hash(hash), HeadersStart::Number(9999)] {
        assert!(read.contains(&PeerMessage::GetBlockHeaders(1111, request(start))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn each_message_is_read_as_written(seed in any::<u64>()) {
        for protocol in protocols() {
            for message in messages(protocol, seed) {
                let (code, payload) = message.encode(protocol);
                prop_assert_eq!(PeerMessage::decode(protocol, code, &payload), Ok(message), "{}", protocol);
            }
        }
    }

    /// Damaged bytes that can be read are written to the same bytes.
    #[test]
    fn damaged_messages_are_refused_or_mean_something(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        for protocol in protocols() {
            let all = messages(protocol, 77);
            let (code, mut payload) = all[which.index(all.len())].encode(protocol);
            if payload.is_empty() {
                continue;
            }
            let at = at.index(payload.len());
            payload[at] = byte;
            if let Ok(read) = PeerMessage::decode(protocol, code, &payload) {
                prop_assert_eq!(read.encode(protocol), (code, payload));
            }
        }
    }

    #[test]
    fn junk_is_refused(code in 0..60_u64, payload in vec(any::<u8>(), 0..200)) {
        for protocol in protocols() {
            if let Ok(read) = PeerMessage::decode(protocol, code, &payload) {
                prop_assert_eq!(read.encode(protocol), (code, payload.clone()));
            }
        }
    }
}

#[test]
fn codes_belong_to_versions() {
    let codes = |protocol: WireProtocol| -> Vec<u64> {
        let is_known = |code: &u64| {
            !matches!(
                PeerMessage::decode(protocol, *code, &[0xc0]),
                Err(PeerMessageError::UnknownCode { .. })
            )
        };
        (0..64).filter(is_known).collect()
    };
    let base: Vec<u64> = (0..8).collect();
    let and = |more: &[u64]| [&base[..], more].concat();
    assert_eq!(codes(eth(62)), base);
    assert_eq!(codes(eth(63)), and(&[0xd, 0xe, 0xf, 0x10]));
    assert_eq!(codes(eth(66)), and(&[8, 9, 0xa, 0xd, 0xe, 0xf, 0x10]));
    assert_eq!(codes(eth(68)), and(&[8, 9, 0xa, 0xf, 0x10]));
    let mc = and(&[0xd, 0xe, 0xf, 0x10, 0x21, 0x22, 0x31, 0x32, 0x33]);
    assert_eq!(codes(mc63()), mc);
    for protocol in protocols() {
        assert!(
            codes(protocol).iter().all(|code| *code < protocol.length()),
            "{protocol}"
        );
    }
}

#[track_caller]
fn check_error(protocol: WireProtocol, code: u64, payload: &[u8], expected: &str) {
    let error = PeerMessage::decode(protocol, code, payload).expect_err(expected);
    assert_eq!(error.to_string(), expected);
}

#[test]
fn lists_are_bounded() {
    let hashes = |count| RlpItem::List(vec![RlpItem::Bytes(vec![7; 32]); count]).encode();
    assert!(PeerMessage::decode(eth(63), 5, &hashes(REQUESTED_HASHES_MAX)).is_ok());
    check_error(
        eth(63),
        5,
        &hashes(REQUESTED_HASHES_MAX + 1),
        "GetBlockBodies.hashes: got 16385 entries, expected at most 16384",
    );
    let empty_lists = |count| RlpItem::List(vec![RlpItem::List(Vec::new()); count]).encode();
    check_error(
        eth(63),
        4,
        &empty_lists(1025),
        "BlockHeaders.headers: got 1025 entries, expected at most 1024",
    );
    check_error(
        eth(63),
        6,
        &empty_lists(1025),
        "BlockBodies.bodies: got 1025 entries, expected at most 1024",
    );
    check_error(
        mc63(),
        1,
        &empty_lists(1025),
        "NewBlockHashes.blocks: got 1025 entries, expected at most 1024",
    );
    // The transactions of all bodies count together.
    let item = RlpItem::decode_exact(&Transaction::system(1).encode()).expect("RLP");
    let body = |count| {
        RlpItem::List(vec![
            RlpItem::List(vec![item.clone(); count]),
            RlpItem::List(Vec::new()),
        ])
    };
    let half = MESSAGE_TRANSACTIONS_MAX / 2;
    let two = |second| RlpItem::List(vec![body(half), body(second)]).encode();
    assert!(PeerMessage::decode(mc63(), 6, &two(half)).is_ok());
    check_error(
        mc63(),
        6,
        &two(half + 1),
        "BlockBodies.transactions: got 32769 entries, expected at most 32768",
    );
}

#[test]
fn messages_are_bounded_in_bytes_before_they_are_decoded() {
    // The bytes are no RLP, which nobody looks at.
    for (code, bound) in [
        (0, SHORT_MESSAGE_BYTES_MAX),
        (1, HASHES_BYTES_MAX),
        (2, TRANSACTIONS_BYTES_MAX),
        (3, SHORT_MESSAGE_BYTES_MAX),
        (4, HEADERS_BYTES_MAX),
        (5, HASHES_BYTES_MAX),
        (6, WireFamily::Eth.message_bytes_max()),
        (7, WireFamily::Eth.message_bytes_max()),
        (8, HASHES_BYTES_MAX),
        (9, HASHES_BYTES_MAX),
        (10, TRANSACTIONS_BYTES_MAX),
        (13, HASHES_BYTES_MAX),
        (15, HASHES_BYTES_MAX),
    ] {
        let error =
            |bytes: usize| PeerMessage::decode(eth(66), code, &vec![0xff; bytes]).expect_err("no RLP");
        assert!(
            matches!(error(bound), PeerMessageError::Field { .. }),
            "code {code}"
        );
        let got = bound + 1;
        assert!(
            matches!(error(got), PeerMessageError::Size { got: is, bound: most, .. } if (is, most) == (got, bound)),
            "code {code}"
        );
    }
}

#[test]
fn lists_of_tiny_entries_take_little_memory() {
    let count = GOSSIPED_TRANSACTIONS_MAX + 1;
    let tiny = RlpItem::List(vec![RlpItem::List(Vec::new()); count]).encode();
    let text = "Transactions.transactions: got 16385 entries, expected at most 16384";
    check_error(mc63(), 2, &tiny, text);
    let text = "PooledTransactions.transactions: got 16385 entries, expected at most 16384";
    check_error(eth(65), 10, &tiny, text);
    // Memory is taken for as many entries as the bytes can hold, and not for one from each byte.
    let reader = RlpReader::open(&tiny, "list").expect("a list");
    let room = codec::MessageDecoder::room::<Transaction>(&reader, count, 10);
    assert!(room.capacity() <= count / 10, "{}", room.capacity());
    let smallest = RlpItem::List(vec![RlpItem::Bytes(Vec::new()); 12]);
    let full = RlpItem::List(vec![smallest; GOSSIPED_TRANSACTIONS_MAX]).encode();
    let message = PeerMessage::decode(mc63(), 2, &full).expect("a good message");
    let PeerMessage::Transactions(transactions) = message else {
        panic!("transactions")
    };
    let memory = transactions.capacity() * size_of::<Transaction>();
    assert!(memory < 8 << 20, "{memory}");
}

#[test]
fn errors_name_message_and_field() {
    check_error(
        eth(65),
        9,
        &[0xc1, 0x05],
        "GetPooledTransactions: hashes[0]: hash: got 1 bytes, expected 32",
    );
    check_error(
        eth(66),
        3,
        &[0xc0],
        "GetBlockHeaders: GetBlockHeaders: got 0 fields, expected 2",
    );
    check_error(
        eth(63),
        3,
        &[0xc4, 1, 1, 1, 2],
        "GetBlockHeaders.reverse: got 2, expected 0 or 1",
    );
    check_error(eth(63), 0x11, &[0xc0], "code 0x11: eth/63 has no such message");
    check_error(
        eth(63),
        2,
        &[0x80],
        "Transactions: body: got bytes, expected a list",
    );
    let announced = encode_fields_to_vec(&[&Bytes::from_static(&[0, 0]), &vec![1_u64], &vec![B256::ZERO]]);
    check_error(
        eth(68),
        8,
        &announced,
        "NewPooledTransactionHashes: got [2, 1, 1] types, sizes and hashes, expected the same number of each",
    );
    let system = RlpItem::decode_exact(&Transaction::system(1).encode()).expect("RLP");
    check_error(
        mc63(),
        2,
        &RlpItem::List(vec![system]).encode(),
        "Transactions: transactions[0]: got a system transaction (syscnt 101), expected a signed one",
    );
    let nine = RlpItem::decode_exact(&transaction(WireFamily::Eth, 1).encode()).expect("RLP");
    check_error(
        mc63(),
        2,
        &RlpItem::List(vec![nine]).encode(),
        "Transactions: transactions[0]: transaction: got 9 fields, expected 12",
    );
}

#[test]
fn copies_of_an_application_chain_message_have_one_key() {
    let message = ApplicationChainMessage {
        request_id: Bytes::from_static(b"id"),
        content: Bytes::from_static(b"block"),
        ..ApplicationChainMessage::default()
    };
    let later = ApplicationChainMessage {
        timestamp: Bytes::from_static(b"later"),
        ..message.clone()
    };
    assert_eq!(message.key(), later.key());
    let other = ApplicationChainMessage {
        content: Bytes::from_static(b"other"),
        ..message.clone()
    };
    assert_ne!(message.key(), other.key());
}
