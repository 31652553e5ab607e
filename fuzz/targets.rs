//! The fuzz targets: each function checks a property that must hold for any bytes, and panics if it
//! does not.
//!
//! There are two callers: libFuzzer, by `fuzz_targets/`, and the test `fuzz` of the package `e2e`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chain::ChainSpec;
use network::WireFamily;
use network::testing::{
    Discovery, DiscoveryAction, DiscoveryDialect, DiscoveryPacket, DiscoverySettings, ETH_VERSIONS, Entropy,
    HandshakeForm, Hello, MC_VERSIONS, Moment, NodeRecord, PACKET_BYTES_MAX, PackedBlock, PacketEndpoint,
    PeerMessage, RlpxEvent, RlpxSession, RlpxSettings, SNAP, WireProtocol,
};
use primitives::rlp::RlpItem;
use primitives::{Block, Header, Log, Receipt, ReceiptForm, SecretKey, Transaction, TxRules, keccak256};
use rpc::access::Credentials;
use rpc::logs_filter::LogFilter;
use rpc::server::stream::ValueStream;
use rpc::{BlockRef, Data, Limits, Method, Modules, Quantity, Rpc};
use scs_service::message::message_hash;
use scs_service::message::payload::encode_text;
use scs_service::proto::ScsPushMsg;
use scs_service::{ScsId, ScsMessage};
use serde_json::Value;

/// Every answer to a request is a JSON-RPC response or an array of them.
pub(crate) fn request(bytes: &[u8]) {
    let rows = vec![
        Method::inline("net_version", [], |(): &()| Ok(())),
        Method::inline(
            "mc_getBalance",
            ["data", "block"],
            |(): &(), (data, _): (Data, BlockRef)| Ok(data),
        ),
        Method::inline(
            "mc_getBlockByNumber",
            ["number", "full"],
            |(): &(), (number, _): (Quantity, Option<bool>)| Ok(number),
        ),
        Method::inline("mc_getLogs", ["filter"], |(): &(), (filter,): (LogFilter,)| {
            Ok(Quantity(filter.query.values()))
        }),
    ];
    let limits = Limits {
        batch_len_max: 16,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(()), rows, limits).expect("a valid table of methods");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let dispatcher = rpc.dispatcher(&Modules::all());
    let Some(answer) = runtime.block_on(dispatcher.handle(Bytes::copy_from_slice(bytes))) else {
        return;
    };
    match serde_json::from_slice(&answer).expect("an answer is JSON") {
        Value::Array(answers) => {
            assert!((1..=16).contains(&answers.len()), "{} answers", answers.len());
            answers.iter().for_each(check_answer);
        }
        answer => check_answer(&answer),
    }
}

fn check_answer(answer: &Value) {
    let has = |name: &str| answer.get(name).is_some();
    assert!(
        answer["jsonrpc"] == "2.0" && has("id") && has("result") != has("error"),
        "{answer}"
    );
}

/// Credentials that are understood are written and understood again.
pub(crate) fn authorization(bytes: &[u8]) {
    let Ok(credentials) = Credentials::parse(bytes) else {
        return;
    };
    match &credentials {
        Credentials::Bearer(token) => {
            assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
            let again = format!("Bearer {token}");
            assert_eq!(Credentials::parse(again.as_bytes()), Ok(credentials));
        }
        Credentials::Basic { name, .. } => assert!(!name.contains(':')),
    }
}

/// A stream is split into the same values for any sizes of its pieces, and no value is too long.
pub(crate) fn ipc_stream(bytes: &[u8]) {
    const LEN_MAX: usize = 256;
    let split = |piece_len: usize| {
        let mut stream = ValueStream::new(LEN_MAX, 8);
        let mut values = Vec::new();
        for piece in bytes.chunks(piece_len) {
            stream.push(piece);
            loop {
                match stream.next() {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => break,
                    Err(error) => return (values, Some(error)),
                }
            }
        }
        values.extend(stream.finish());
        (values, None)
    };
    let whole = split(bytes.len().max(1));
    assert_eq!(split(1), whole);
    assert_eq!(split(7), whole);
    assert!(
        whole
            .0
            .iter()
            .all(|value| !value.is_empty() && value.len() <= LEN_MAX)
    );
}

/// A value that decodes is encoded to the same bytes.
pub(crate) fn rlp(bytes: &[u8]) {
    if let Ok(item) = RlpItem::decode_exact(bytes) {
        assert_eq!(item.encode(), bytes);
    }
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode(), bytes);
    }
    if let Ok(log) = Log::decode(bytes) {
        let mut out = Vec::new();
        primitives::Encodable::encode(&log, &mut out);
        assert_eq!(out, bytes);
    }
    for form in [ReceiptForm::Five, ReceiptForm::Four] {
        // The bloom is kept even if it does not fit the logs.
        if let Ok(receipt) = Receipt::decode(bytes, form) {
            assert_eq!(receipt.encode(form), bytes);
        }
        if let Ok(receipt) = Receipt::decode_item(bytes, form) {
            assert_eq!(receipt.encode_item(form), bytes);
        }
    }
    for rules in [TxRules::Moac, TxRules::Ethereum] {
        if let Ok(block) = Block::decode(bytes, rules) {
            assert_eq!(block.encode(), bytes);
        }
    }
}

/// A transaction that decodes has a stored form, and decoding that form gives the same transaction.
pub(crate) fn transaction(bytes: &[u8]) {
    for rules in [TxRules::Moac, TxRules::Ethereum] {
        if let Ok(transaction) = Transaction::decode_raw(bytes, rules) {
            let stored = transaction.encode();
            assert_eq!(
                Transaction::decode_stored(&stored, rules).as_ref(),
                Ok(&transaction)
            );
            let _ = (
                transaction.hash(),
                transaction.ethereum_hash(),
                transaction.recover_sender(true),
            );
        }
        if let Ok(transaction) = Transaction::decode_stored(bytes, rules) {
            assert_eq!(transaction.encode(), bytes);
        }
    }
}

/// Typed data are refused, or have the same digest as an object and as the text of it.
pub(crate) fn typed_data(bytes: &[u8]) {
    use rpc::methods::mc::typed_data_digest;
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let text = text.trim_ascii();
    if text.starts_with('{')
        && let Ok(digest) = typed_data_digest(text)
    {
        assert_eq!(typed_data_digest(&Value::from(text).to_string()), Ok(digest));
    }
}

/// A result of a contract is read or refused, whatever is expected in it, and nothing that is read
/// is longer than the result. The first bytes say what is expected.
pub(crate) fn abi(bytes: &[u8]) {
    use microchain::abi::{CallData, ResultReader};
    let Some((kinds, result)) = bytes.split_at_checked(8) else {
        return;
    };
    let mut reader = ResultReader::new(result);
    for kind in kinds {
        let len = match kind % 8 {
            0 => reader.words().map(|words| 32 * words.len()),
            1 => reader.numbers().map(|numbers| 32 * numbers.len()),
            2 => reader.smalls().map(|numbers| 32 * numbers.len()),
            3 => reader.addresses().map(|addresses| 32 * addresses.len()),
            4 => reader.bytes().map(|text| {
                let again = CallData::default().bytes(&text).encode();
                assert_eq!(ResultReader::new(&again).bytes(), Ok(text.clone()));
                text.len()
            }),
            5 => reader.tail().map(|tail| {
                reader = tail;
                0
            }),
            6 => reader.address().map(|_| 20),
            _ => reader.small().map(|_| 8),
        };
        let Ok(len) = len else { return };
        assert!(len <= result.len(), "{len}");
    }
}

/// A file of old blocks is read up to its first fault. Each block has a hash and a form.
pub(crate) fn era1(bytes: &[u8]) {
    let mut reader = chain::era1::Era1Reader::new(bytes, "fuzz".into());
    while let Ok(Some(block)) = reader.read_block() {
        assert_eq!(block.header.hash(), block.hash);
        assert!(block.offset < bytes.len() as u64);
        let _ = block.decode(TxRules::Ethereum);
        if let Some((receipts, _)) = &block.published {
            let _ = chain::era1::check_receipts(receipts, &block.header);
        }
    }
}

/// A message about parts of states that decodes says the same after it was encoded. The first byte
/// is its code.
pub(crate) fn snap(bytes: &[u8]) {
    let Some((code, payload)) = bytes.split_first() else {
        return;
    };
    let protocol = WireFamily::Eth.protocol(68).expect("known");
    if let Ok(message) = PeerMessage::decode(protocol, SNAP + u64::from(*code), payload) {
        let (code, payload) = message.encode(protocol);
        assert_eq!(PeerMessage::decode(protocol, code, &payload), Ok(message));
    }
}

/// A token that a client signs is refused, or its signature is that of one key.
pub(crate) fn token(bytes: &[u8]) {
    const NOW: f64 = 1.8e9;
    if let Ok(text) = std::str::from_utf8(bytes)
        && rpc::access::verify_jwt(text, &[7; 32], NOW).is_ok()
    {
        assert_eq!(
            rpc::access::verify_jwt(text, &[8; 32], NOW),
            Err(rpc::access::JwtError::Signature)
        );
    }
}

/// A file of tokens or of options is refused, or what it says is an option or a rule.
pub(crate) fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = node::testing::token_rules(text);
    if let Ok(arguments) = node::testing::option_arguments(text) {
        for (key, argument) in arguments {
            assert_ne!(key, "config");
            let argument = argument.to_string_lossy();
            assert!(argument.starts_with(&format!("--{key}")), "{argument}");
        }
    }
}

/// A pushed message is refused, or its meaning is encoded to a message with the same meaning.
pub(crate) fn push_message(bytes: &[u8]) {
    use scs_service::message::payload::{Handshake, decode_head, decode_text};
    let Ok(wire) = <ScsPushMsg as prost::Message>::decode(bytes) else {
        return;
    };
    assert_eq!(wire.compact(), wire);
    let _ = (
        decode_head(&wire.msghash),
        message_hash(&wire),
        ScsId::from_wire(&wire.scsid),
    );
    if let Ok(text) = decode_text(&wire.msghash) {
        assert_eq!(decode_text(&encode_text(&text)), Ok(text));
    }
    if let Ok(handshake) = Handshake::decode(&wire.msghash) {
        assert_eq!(handshake.encode(), wire.msghash);
    }
    if let Ok(message) = ScsMessage::decode(&wire) {
        let _ = message.route();
        assert_eq!(ScsMessage::decode(&message.encode()), Ok(message));
    }
}

/// A genesis file is refused, or it has a block 0.
pub(crate) fn genesis(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(read) = ChainSpec::from_genesis_file("fuzz", text) {
        let _ = chain::genesis::genesis_header(&read.spec);
    }
}

fn node_key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

fn rlpx_settings(version: u64) -> RlpxSettings {
    RlpxSettings {
        version,
        client: "fuzz".to_owned(),
        capabilities: WireFamily::Eth.offers(),
        port: 0,
        message_bytes_max: 1 << 16,
    }
}

/// All events of a session until it needs more bytes. A session that has failed stays closed.
fn events(session: &mut RlpxSession, entropy: &mut Entropy) -> Vec<RlpxEvent> {
    let mut all = Vec::new();
    loop {
        match session.next_event(Duration::ZERO, entropy) {
            Ok(Some(event)) => all.push(event),
            Ok(None) => return all,
            Err(_) => {
                assert!(session.next_event(Duration::ZERO, entropy).is_err());
                return all;
            }
        }
    }
}

/// Random bytes never make a session ready, and never a message. What one side sends, the other
/// gets, in whatever pieces it comes.
pub(crate) fn connection(bytes: &[u8]) {
    let mut entropy = Entropy::from_seed([3; 32]);
    let mut listener = RlpxSession::accept(node_key(2), rlpx_settings(5), Duration::ZERO, &mut entropy);
    listener.receive(bytes);
    assert!(events(&mut listener, &mut entropy).is_empty());
    assert!(listener.output().len() <= 4096);
    let version = 4 + u64::from(bytes.len().is_multiple_of(2));
    let (mut one, mut two) = open_pair(version, &mut entropy);
    let mut sent = Vec::new();
    for (index, part) in bytes.chunks(97).enumerate() {
        one.send(0, index as u64 % 17, part).expect("there is room");
        sent.push(RlpxEvent::Message {
            capability: 0,
            code: index as u64 % 17,
            payload: part.to_vec(),
        });
    }
    let stream = one.output().to_vec();
    let piece = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    let mut got = Vec::new();
    for part in stream.chunks(piece) {
        two.receive(part);
        got.extend(events(&mut two, &mut entropy));
    }
    assert_eq!(got, sent);
    // Nobody can put bytes between two frames.
    if !bytes.is_empty() {
        two.receive(bytes);
        two.receive(&[0; 64]);
        assert!(events(&mut two, &mut entropy).is_empty());
    }
}

fn open_pair(version: u64, entropy: &mut Entropy) -> (RlpxSession, RlpxSession) {
    let settings = || rlpx_settings(version);
    let remote = node_key(2).public_key();
    let mut one = RlpxSession::dial(
        node_key(1),
        remote,
        HandshakeForm::Eip8,
        settings(),
        Duration::ZERO,
        entropy,
    )
    .expect("a key");
    let mut two = RlpxSession::accept(node_key(2), settings(), Duration::ZERO, entropy);
    for _ in 0..2 {
        two.receive(one.output());
        one.sent(one.output().len());
        events(&mut two, entropy);
        one.receive(two.output());
        two.sent(two.output().len());
        events(&mut one, entropy);
    }
    assert!(one.peer().is_some() && two.peer().is_some());
    (one, two)
}

/// A Hello that decodes says the same after it was encoded.
pub(crate) fn hello(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
}

/// A message that decodes is encoded to the same bytes. The first byte chooses the version, the
/// second one the code.
pub(crate) fn peer_message(bytes: &[u8]) {
    let [version, code, payload @ ..] = bytes else {
        return;
    };
    let eth = ETH_VERSIONS
        .into_iter()
        .filter_map(|version| WireFamily::Eth.protocol(version));
    let mc = MC_VERSIONS
        .into_iter()
        .filter_map(|version| WireFamily::Mc.protocol(version));
    let protocols: Vec<WireProtocol> = eth.chain(mc).collect();
    let protocol = protocols[usize::from(*version) % protocols.len()];
    let code = u64::from(*code);
    if let Ok(message) = PeerMessage::decode(protocol, code, payload) {
        assert_eq!(message.encode(protocol), (code, payload.to_vec()));
        // The body of a new block is decoded later.
        if let PeerMessage::NewBlock(block, _) = &message {
            let _ = (block.uncles_hash(), block.encoded_transactions());
            if let Ok(whole) = block.unpack(protocol.family().tx_rules()) {
                assert_eq!(PackedBlock::pack(&whole), **block);
            }
        }
    }
}

/// A packet with a good signature and any content: a stranger gets at most a PONG and a PING.
pub(crate) fn discovery(bytes: &[u8]) {
    let _ = DiscoveryPacket::open(bytes, DiscoveryDialect::Ethereum);
    let signature = node_key(1).sign(&keccak256(bytes));
    let mut rsv = signature.to_rsv();
    rsv[64] = signature.recovery_id;
    let signed = [&rsv[..], bytes].concat();
    let packet = [keccak256(&signed).as_slice(), &signed].concat();
    for dialect in [
        DiscoveryDialect::Ethereum,
        DiscoveryDialect::Public { network_id: 99 },
    ] {
        let from = SocketAddr::from(([52, 1, 2, 3], 30303));
        let settings = DiscoverySettings {
            dialect,
            endpoint: PacketEndpoint::new(from.ip(), 30303, 30303),
            seeds: Vec::new(),
            ranges: None,
            is_strict: false,
            fork_id: None,
            has_snap: false,
            record_sequence: 1,
            learns_address: false,
        };
        let now = Moment::default();
        let mut node = Discovery::new(node_key(2), settings, now, Entropy::from_seed([3; 32]));
        let actions = node.handle(now, from, &packet).unwrap_or_default();
        assert!(actions.len() <= 2, "{actions:?}");
        for action in actions {
            let DiscoveryAction::Send { to, packet } = action else {
                panic!("a stranger changed something")
            };
            assert_eq!(to, from);
            assert!(packet.len() <= PACKET_BYTES_MAX);
            DiscoveryPacket::open(&packet, dialect).expect("our own packet");
        }
    }
}

/// A record that decodes is encoded to the same bytes and the same text.
pub(crate) fn node_record(bytes: &[u8]) {
    if let Ok(record) = NodeRecord::decode(bytes) {
        assert_eq!(record.encode(), bytes);
        assert_eq!(record.to_string().parse(), Ok(record.clone()));
        let _ = record.contact();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<NodeRecord>();
    }
}
