use proptest::collection::vec;
use proptest::prelude::*;

use super::payload::{Handshake, decode_head, decode_text, encode_head, encode_text};
use super::*;

fn address(mark: u8) -> Address {
    Address::repeat_byte(mark)
}

fn any_address() -> impl Strategy<Value = Option<WireAddress>> {
    let form = prop_oneof![Just(AddressForm::Raw), Just(AddressForm::Rlp)];
    let some = (any::<[u8; 20]>(), form).prop_map(|(bytes, form)| {
        Some(WireAddress {
            address: Address::from(bytes),
            form,
        })
    });
    prop_oneof![1 => Just(None), 3 => some]
}

fn any_bytes(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=max).prop_map(Bytes::from)
}

prop_compose! {
    fn any_message()(
        request_id in any_bytes(200),
        timestamp in any::<Option<u64>>(),
        is_request in any::<bool>(),
        (kind, status) in (0..8_i32, prop_oneof![0..20_i32, 0..=i32::MAX]),
        scs_id in any_bytes(60),
        (chain, sender, receiver) in (any_address(), any_address(), any_address()),
        payload in any_bytes(300),
    ) -> ScsMessage {
        let kind = MessageKind::new(kind, status);
        ScsMessage { request_id, timestamp, is_request, kind, scs_id, chain, sender, receiver, payload }
    }
}

proptest! {
    #[test]
    fn messages_round_trip(message in any_message()) {
        use prost::Message;
        let wire = message.encode();
        prop_assert_eq!(ScsMessage::decode(&wire), Ok(message));
        let bytes = wire.encode_to_vec();
        let again = ScsPushMsg::decode(&bytes[..]).expect("what was encoded");
        prop_assert_eq!(&again, &wire);
        prop_assert_eq!(again.compact(), wire);
    }

    #[test]
    fn any_fields_are_read_or_refused(
        fields in vec(any_bytes(40), 9),
        requestflag in any::<bool>(),
    ) {
        let [requestid, timestamp, r#type, status, scsid, subchainid, sender, receiver, msghash] =
            <[Bytes; 9]>::try_from(fields).expect("nine");
        let wire = ScsPushMsg {
            requestid, timestamp, requestflag, r#type, status, scsid, subchainid, sender, receiver, msghash,
        };
        if let Ok(message) = ScsMessage::decode(&wire) {
            prop_assert_eq!(ScsMessage::decode(&message.encode()), Ok(message));
        }
        let _ = (Handshake::decode(&wire.msghash), decode_text(&wire.msghash), decode_head(&wire.msghash));
        let _ = message_hash(&wire);
    }

    #[test]
    fn handshakes_round_trip(
        operation in ".{0,20}",
        public_key in ".{0,80}",
        capability in any::<u64>(),
        chain_id in any::<u64>(),
    ) {
        let handshake = Handshake { operation, public_key, capability, chain_id };
        prop_assert_eq!(Handshake::decode(&handshake.encode()), Ok(handshake));
    }

    #[test]
    fn texts_and_heads_round_trip(text in ".{0,100}", head in any::<u64>()) {
        prop_assert_eq!(decode_text(&encode_text(&text)), Ok(text));
        prop_assert_eq!(decode_head(&encode_head(head)), Ok(head));
    }
}

#[track_caller]
fn check_error(change: impl FnOnce(&mut ScsPushMsg), expected: &str) {
    let mut wire = ScsPushMsg::default();
    change(&mut wire);
    let error = ScsMessage::decode(&wire).expect_err(expected);
    assert_eq!(error.to_string(), expected);
}

fn zeros(len: usize) -> Bytes {
    vec![0; len].into()
}

#[test]
fn an_error_names_the_field() {
    check_error(
        |wire| wire.requestid = zeros(1025),
        "requestid: got 1025 bytes, expected at most 1024",
    );
    check_error(
        |wire| wire.timestamp = zeros(7),
        "timestamp: got 7 bytes, expected 0 or 8",
    );
    check_error(
        |wire| wire.r#type = zeros(5),
        "type: got 5 bytes, expected at most 4",
    );
    check_error(
        |wire| wire.status = Bytes::from_static(&[0xff; 4]),
        "status: got -1, expected at least 0",
    );
    check_error(
        |wire| wire.scsid = zeros(129),
        "scsid: got 129 bytes, expected at most 128",
    );
    check_error(
        |wire| wire.subchainid = zeros(19),
        "subchainid: got 19 bytes, expected 0, 20 or 21",
    );
    check_error(
        |wire| wire.sender = zeros(21),
        "sender: got a first byte of 0x00 before 20 bytes, expected 0x94",
    );
    check_error(
        |wire| wire.receiver = zeros(32),
        "receiver: got 32 bytes, expected 0, 20 or 21",
    );
}

#[test]
fn a_message_that_is_passed_on_names_its_chain() {
    let wire = ScsPushMsg::default();
    let route = |wire: &ScsPushMsg| {
        let message = ScsMessage::decode(wire).expect("a message");
        message.route().map_err(|error| error.to_string())
    };
    let short = ScsPushMsg {
        requestid: zeros(15),
        subchainid: zeros(20),
        ..wire.clone()
    };
    assert_eq!(
        route(&short),
        Err("requestid: got 15 bytes, expected 16 to 1024".to_owned())
    );
    let homeless = ScsPushMsg {
        requestid: zeros(16),
        ..wire
    };
    assert_eq!(
        route(&homeless),
        Err("subchainid: got 0 bytes, expected 20 or 21".to_owned())
    );
    let good = ScsPushMsg {
        subchainid: [&[0x94][..], &[7; 20]].concat().into(),
        ..homeless
    };
    assert_eq!(route(&good), Ok(address(7)));
}

#[test]
fn short_numbers_are_zero() {
    let wire = ScsPushMsg {
        r#type: zeros(3),
        status: Bytes::from_static(b"\x07"),
        ..ScsPushMsg::default()
    };
    let message = ScsMessage::decode(&wire).expect("a message");
    assert_eq!(message.kind, MessageKind::Unknown { kind: 0, status: 0 });
}

#[test]
fn payloads_are_those_of_the_published_programs() {
    assert_eq!(encode_text("shakereply")[..], b"\x8ashakereply"[..]);
    assert_eq!(encode_head(0x1234)[..], [0xc3, 0x82, 0x12, 0x34]);
    assert_eq!(encode_head(0)[..], [0xc1, 0x80]);
    let handshake = Handshake {
        operation: "op".to_owned(),
        public_key: String::new(),
        capability: 10,
        chain_id: 101,
    };
    assert_eq!(handshake.encode()[..], [0xc6, 0x82, b'o', b'p', 0x80, 10, 101]);
    // The published VNODE ends if the chain id is missing.
    let error = Handshake::decode(&[0xc5, 0x82, b'o', b'p', 0x80, 10]).unwrap_err();
    assert_eq!(error.to_string(), "msghash: handshake: got 3 fields, expected 4");
    let error = Handshake::decode(&[0xc4, 0x81, 0xff, 0x80, 10]).unwrap_err();
    assert_eq!(error.to_string(), "msghash: handshake: got 3 fields, expected 4");
    let error = Handshake::decode(&[0xc5, 0x81, 0xff, 0x80, 10, 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "msghash: operation: got bytes that are no text, expected UTF-8"
    );
    assert!(Handshake::decode(b"").is_err());
}

#[test]
fn ids_are_texts() {
    let id = ScsId(address(0xab));
    assert_eq!(ScsId::from_wire(&id.to_wire()), Ok(id));
    assert_eq!(
        "0xABABABABABABABABABABABABABABABABABABABAB".parse::<ScsId>(),
        Ok(id)
    );
    // The last two have as many characters as an id, and 19 bytes after two prefixes.
    for bad in [
        "",
        "0x12",
        "abc",
        "0x0000000000000000000000000000000000000000",
        "0x0x11111111111111111111111111111111111111",
        "0x0X11111111111111111111111111111111111111",
    ] {
        assert!(bad.parse::<ScsId>().is_err(), "{bad}");
        assert!(ScsId::from_wire(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(ScsId::from_wire(&[0xff; 42]).is_err());
}

#[test]
fn the_status_of_a_notice_is_its_last_word() {
    let mut input = vec![0xff; 36];
    input.extend([0; 31]);
    input.push(9);
    assert_eq!(ControlStatus::from_notice(&input), ControlStatus::Distribute);
    assert_eq!(ControlStatus::from_notice(&[]), ControlStatus::RegisterOpen);
    assert_eq!(ControlStatus::from_notice(&[6]), ControlStatus::RegisterAsMonitor);
    assert_eq!(
        ControlStatus::from_notice(&[0xff; 32]),
        ControlStatus::Other(i32::MAX)
    );
}

#[test]
fn the_hash_of_a_message_leaves_out_who_gets_it() {
    let wire = ScsPushMsg {
        requestid: Bytes::from_static(b"id"),
        msghash: Bytes::from_static(b"content"),
        ..ScsPushMsg::default()
    };
    let flagged = ScsPushMsg {
        requestflag: true,
        ..wire.clone()
    };
    let routed = ScsPushMsg {
        subchainid: zeros(20),
        receiver: zeros(20),
        ..wire.clone()
    };
    assert_eq!(message_hash(&wire), message_hash(&routed));
    assert_ne!(message_hash(&wire), message_hash(&flagged));
    let rlp = [&[0xcd, 0x82][..], b"id", &[0x80, 0x80, 0x87], b"content"].concat();
    assert_eq!(message_hash(&wire), keccak256(rlp));
}
