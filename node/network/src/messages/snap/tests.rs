//! Bytes of the messages, and bounds.

use primitives::hex;
use primitives::rlp::encode_fields_to_vec;
use proptest::prelude::*;

use super::codec::{ANSWERED_ITEMS_MAX, PROOF_NODES_MAX, RANGE_ENTRIES_MAX};
use super::*;
use crate::messages::codec::REQUESTED_HASHES_MAX;
use crate::messages::{PeerMessage, PeerMessageError, WireFamily, WireProtocol, codes};

fn protocol() -> WireProtocol {
    WireFamily::Eth.protocol(68).expect("known")
}

fn decode(code: u64, rlp: &[u8]) -> Result<PeerMessage, PeerMessageError> {
    PeerMessage::decode(protocol(), codes::SNAP + code, rlp)
}

#[track_caller]
fn check(message: SnapMessage) -> Vec<u8> {
    let message = PeerMessage::Snap(message);
    let (code, rlp) = message.encode(protocol());
    assert_eq!(PeerMessage::decode(protocol(), code, &rlp), Ok(message));
    rlp
}

fn contract() -> AccountRecord {
    AccountRecord {
        tx_nonce: 1,
        balance: U256::from(1000),
        storage_root: B256::repeat_byte(1),
        code_hash: B256::repeat_byte(2),
    }
}

#[test]
fn each_message_round_trips() {
    let hash = B256::repeat_byte;
    let bytes = |text: &'static [u8]| Bytes::from_static(text);
    let rlp = check(SnapMessage::GetAccountRange(
        7,
        AccountRangeRequest {
            root: hash(1),
            origin: hash(0),
            limit: hash(0xff),
            bytes: 4000,
        },
    ));
    let expected = [
        &[0xf8, 0x67, 7, 0xa0][..],
        &[1; 32],
        &[0xa0],
        &[0; 32],
        &[0xa0],
        &[0xff; 32],
        &[0x82, 0x0f, 0xa0],
    ];
    assert_eq!(rlp, expected.concat());
    // No root and no code are no bytes: the slim form.
    let account = AccountRecord {
        balance: U256::from(5),
        ..AccountRecord::default()
    };
    let rlp = check(SnapMessage::AccountRange(
        1,
        AccountRange {
            accounts: vec![(hash(3), account)],
            proof: vec![bytes(&[9; 40])],
        },
    ));
    let slim = hex!("c480058080");
    assert!(
        rlp.windows(5).any(|window| window == slim),
        "{}",
        hex::encode(&rlp)
    );
    assert_eq!(codec::account_bytes(&account), 32 + 5);
    assert_eq!(codec::account_bytes(&contract()), 32 + 2 + 1 + 3 + 33 + 33);
    check(SnapMessage::AccountRange(
        1,
        AccountRange {
            accounts: vec![(hash(3), account), (hash(4), contract())],
            proof: Vec::new(),
        },
    ));
    check(SnapMessage::GetStorageRanges(
        u64::MAX,
        StorageRangesRequest {
            root: hash(1),
            accounts: vec![hash(2), hash(3)],
            origin: hash(0),
            limit: hash(9),
            bytes: 0,
        },
    ));
    // A value is RLP in a string: 2 is one byte, and 0x80 is two, in a string of two.
    let rlp = check(SnapMessage::StorageRanges(
        0,
        StorageRanges {
            slots: vec![
                vec![(hash(1), U256::from(2)), (hash(2), U256::from(0x80))],
                Vec::new(),
            ],
            proof: vec![bytes(&[1])],
        },
    ));
    assert!(
        rlp.windows(4).any(|window| window == hex!("02828180"))
            || rlp.windows(3).any(|window| window == hex!("828180"))
    );
    assert_eq!(codec::slot_bytes(&U256::from(2)), 33);
    check(SnapMessage::GetByteCodes(
        1,
        ByteCodesRequest {
            hashes: vec![hash(1)],
            bytes: 1 << 20,
        },
    ));
    check(SnapMessage::ByteCodes(1, vec![bytes(&[]), bytes(&[0x60, 0])]));
    check(SnapMessage::GetTrieNodes(
        1,
        TrieNodesRequest {
            root: hash(1),
            paths: vec![vec![bytes(&[0])], vec![bytes(&[7; 32]), bytes(&[0x1b])]],
            bytes: 500,
        },
    ));
    check(SnapMessage::TrieNodes(1, vec![bytes(&[]), bytes(&[7; 100])]));
}

#[test]
fn ends_may_be_left_out() {
    let request = |origin: &[u8], limit: &[u8]| {
        let rlp = encode_fields_to_vec(&[&1_u64, &B256::ZERO, &vec![B256::ZERO], &origin, &limit, &1_u64]);
        decode(2, &rlp)
    };
    let Ok(PeerMessage::Snap(SnapMessage::GetStorageRanges(_, read))) = request(&[], &[]) else {
        panic!("a request")
    };
    assert_eq!((read.origin, read.limit), (B256::ZERO, B256::repeat_byte(0xff)));
    let Ok(PeerMessage::Snap(SnapMessage::GetStorageRanges(_, read))) = request(&[7], &[8; 32]) else {
        panic!("a request")
    };
    assert_eq!(
        (read.origin, read.limit),
        (B256::with_last_byte(7), B256::repeat_byte(8))
    );
    assert!(request(&[0; 33], &[]).is_err());
}

/// The lists of one byte an entry that once made nodes take gigabytes: they are counted first.
#[test]
fn entries_are_counted_before_they_are_decoded() {
    #[track_caller]
    fn check(code: u64, rlp: &[u8], name: &'static str, entries: usize, most: usize) {
        match decode(code, rlp) {
            Err(PeerMessageError::TooMany { list, got, bound, .. }) => {
                assert_eq!((list, got, bound), (name, entries, most));
            }
            other => panic!("{other:?}"),
        }
    }
    let many = |count: usize| crate::messages::codec::raw_list(&vec![vec![0x80]; count]);
    let count = 900_000;
    let items = many(count);
    let answer = |list: &[u8]| {
        encode_fields_to_vec(&[
            &1_u64,
            &crate::raw_rlp::RawRlp(list),
            &crate::raw_rlp::RawRlp(&[0xc0]),
        ])
    };
    check(1, &answer(&items), "accounts", count, RANGE_ENTRIES_MAX);
    check(3, &answer(&items), "slots", count, REQUESTED_HASHES_MAX);
    let proof = encode_fields_to_vec(&[
        &1_u64,
        &crate::raw_rlp::RawRlp(&[0xc0]),
        &crate::raw_rlp::RawRlp(&items),
    ]);
    check(1, &proof, "proof", count, PROOF_NODES_MAX);
    check(3, &proof, "proof", count, PROOF_NODES_MAX);
    let two = encode_fields_to_vec(&[&1_u64, &crate::raw_rlp::RawRlp(&items)]);
    check(5, &two, "codes", count, ANSWERED_ITEMS_MAX);
    check(7, &two, "nodes", count, ANSWERED_ITEMS_MAX);
    let paths = encode_fields_to_vec(&[&1_u64, &B256::ZERO, &crate::raw_rlp::RawRlp(&items), &1_u64]);
    check(6, &paths, "paths", count, REQUESTED_HASHES_MAX);
    let hashes = encode_fields_to_vec(&[&1_u64, &crate::raw_rlp::RawRlp(&items), &1_u64]);
    check(4, &hashes, "hashes", count, REQUESTED_HASHES_MAX);
    // All storages together have one bound.
    let slots = many(40_000);
    let storages = crate::messages::codec::raw_list(&[slots.clone(), slots]);
    assert!(decode(3, &answer(&storages)).is_err());
}

#[test]
fn what_is_wrong_is_said() {
    let empty_set = encode_fields_to_vec(&[
        &1_u64,
        &B256::ZERO,
        &crate::raw_rlp::RawRlp(&[0xc1, 0xc0]),
        &1_u64,
    ]);
    let error = decode(6, &empty_set).expect_err("an empty set").to_string();
    assert!(
        error.contains("GetTrieNodes.set: got 0, expected one path"),
        "{error}"
    );
    assert!(decode(8, &[0xc0]).is_err(), "there are eight codes");
    assert!(decode(0, &[0xc0]).is_err());
    let long = vec![0; SNAP_MESSAGE_BYTES_MAX + 1];
    let error = decode(1, &long).expect_err("too long");
    assert!(matches!(
        error,
        PeerMessageError::Size {
            bound: SNAP_MESSAGE_BYTES_MAX,
            ..
        }
    ));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(code in 0_u64..9, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(code, &bytes);
    }
}
