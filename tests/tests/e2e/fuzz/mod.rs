//! Runs the fuzz targets on random bytes: valid samples with a few changes, and plain noise.
//!
//! Each test run runs the targets for a short time, and on the inputs that `fuzz/run` has kept.
//! `fuzz/run` runs the same targets for longer, by libFuzzer.

#[path = "../../../../fuzz/targets.rs"]
mod targets;

mod nested;

use std::sync::Arc;

use e2e::binary::workspace;
use network::WireFamily;
use network::testing::{
    AnnouncedBlock, Capability, DiscoveryDialect, DiscoveryPacket, HeadersRequest, HeadersStart, Hello,
    NodeClaims, NodeRecord, PacketEndpoint, PacketTail, PeerMessage,
};
use primitives::rlp::RlpItem;
use primitives::{
    Block, Bytes, Header, Receipt, ReceiptForm, ReceiptOutcome, SecretKey, TxForm, UnsignedTransaction,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use scs_service::proto::ScsPushMsg;

/// One of `samples` with a few bytes changed, inserted or removed; sometimes random bytes.
fn damaged(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = vec((any::<Index>(), any::<u8>(), 0..4_u8), 0..6);
    let changed = (select(samples), damage).prop_map(|(mut bytes, damage)| {
        for (at, byte, kind) in damage {
            let at = at.index(bytes.len() + 1);
            match (kind, bytes.get_mut(at)) {
                (0, Some(old)) => *old = byte,
                (1, Some(old)) => *old ^= 1 << (byte % 8),
                (2, Some(_)) => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    });
    prop_oneof![4 => changed, 1 => vec(any::<u8>(), 0..300)]
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn requests() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"net_version","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":"x\u00e4","method":"eth_getBalance","params":["0x12","latest"]}"#,
        r#"[{"jsonrpc":"2.0","method":"net_version"},{"jsonrpc":"2.0","id":1e9,"method":"mc_getBlockByNumber","params":["0x1",true]},7]"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"mc_getLogs","params":[{"fromBlock":"0x1","address":["0x70997970c51812dc3a010c7d01b50e0d17dc79c8"],"topics":[null,["0xb52dda022b6c1a1f40905a85f257f689aa5d69d850e49cf939d688fbe5af5946"]]}]}"#,
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    ])
}

fn authorizations() -> Vec<Vec<u8>> {
    texts(&[
        "Bearer a-token.of_some+characters/",
        "bearer   x ",
        "Basic b25lOnRoZS10b2tlbi1vZi1vbmU=",
    ])
}

fn transactions() -> Vec<Vec<u8>> {
    let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
    let unsigned = UnsignedTransaction {
        tx_nonce: 300,
        gas: 90_000,
        input: Bytes::from_static(&[7; 60]),
        ..UnsignedTransaction::default()
    };
    [TxForm::Native, TxForm::Classic, TxForm::Ethereum]
        .into_iter()
        .flat_map(|form| {
            let signed = unsigned.clone().sign(&key, 100, form);
            [signed.encode_raw(), signed.encode()]
        })
        .collect()
}

fn rlp() -> Vec<Vec<u8>> {
    let receipt = Receipt::new(ReceiptOutcome::Status(true), 21_000, vec![Default::default()]);
    let block = Block {
        uncles: vec![Header::default()],
        ..Block::default()
    };
    let mut all = vec![
        Header::default().encode(),
        block.encode(),
        receipt.encode(ReceiptForm::Five),
        receipt.encode(ReceiptForm::Four),
        RlpItem::List(vec![RlpItem::Bytes(vec![1; 60]), RlpItem::List(Vec::new())]).encode(),
    ];
    all.extend(transactions());
    all
}

fn genesis_files() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"config":{"chainId":7,"homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,"byzantiumBlock":0,"ethash":{}},
            "difficulty":"0x20000","gasLimit":"0x2fefd8","nonce":"0x42","timestamp":"0x0","extraData":"0x",
            "alloc":{"70997970c51812dc3a010c7d01b50e0d17dc79c8":{"balance":"1000","code":"0x60","storage":{"0x1":"0x2"}}}}"#,
        r#"{"config":{"chainId":100,"panguBlock":0,"nuwaBlock":0,"fuxiBlock":5,"diffBombDefuseBlock":1,"enableClassicTx":0,"enableFuxiPrecompiled":0,"removeEmptyAccount":true},
            "difficulty":"512","gasLimit":"9000000","alloc":{}}"#,
    ])
}

fn hellos() -> Vec<Vec<u8>> {
    let capability = |name: &str, version| Capability {
        name: name.to_owned(),
        version,
    };
    let hello = Hello {
        version: 5,
        client: "Geth/v1.10.26".to_owned(),
        capabilities: vec![capability("eth", 66), capability("snap", 1)],
        port: 0,
        id: node_key().public_key(),
    };
    vec![hello.encode()]
}

fn node_key() -> SecretKey {
    SecretKey::from_bytes(&[0x46; 32]).expect("in range")
}

/// Version, code and body of some messages.
fn peer_messages() -> Vec<Vec<u8>> {
    let request = HeadersRequest {
        start: HeadersStart::Number(7),
        amount: 192,
        skip: 3,
        reverse: false,
    };
    let hash = primitives::B256::repeat_byte(7);
    let all = [
        PeerMessage::GetBlockHeaders(9, request),
        PeerMessage::BlockHeaders(9, vec![Header::default()]),
        PeerMessage::GetBlockBodies(9, vec![hash; 3]),
        PeerMessage::NewBlockHashes(vec![AnnouncedBlock { hash, number: 7 }]),
        PeerMessage::NewBlock(Arc::default(), primitives::U256::from(7)),
        PeerMessage::NodeData(9, vec![Bytes::from_static(b"node")]),
        PeerMessage::Receipts(
            9,
            vec![vec![Receipt::new(ReceiptOutcome::Status(true), 1, Vec::new())]],
        ),
    ];
    let versions = [62, 63, 64, 65, 66, 67, 68].map(|version| WireFamily::Eth.protocol(version));
    let versions = versions
        .into_iter()
        .chain([62, 63].map(|version| WireFamily::Mc.protocol(version)));
    let sample = |(index, protocol): (usize, Option<network::testing::WireProtocol>)| {
        let protocol = protocol.expect("known");
        all.clone().map(|message| {
            let (code, payload) = message.encode(protocol);
            [&[index as u8, code as u8][..], &payload].concat()
        })
    };
    versions.enumerate().flat_map(sample).collect()
}

/// Type and body of some packets.
fn discovery_packets() -> Vec<Vec<u8>> {
    let endpoint = PacketEndpoint::new([52, 1, 2, 3].into(), 30303, 30303);
    let key = primitives::B512::repeat_byte(7);
    let packets = [
        DiscoveryPacket::Ping {
            from: endpoint,
            to: endpoint,
            tail: PacketTail {
                record_sequence: Some(1),
                network_id: Some(99),
            },
        },
        DiscoveryPacket::FindNode {
            target: key,
            brothers_only: true,
        },
        DiscoveryPacket::Store { key, from: endpoint },
        DiscoveryPacket::FindValue { key },
    ];
    let dialects = [
        DiscoveryDialect::Ethereum,
        DiscoveryDialect::Public { network_id: 99 },
    ];
    let sample = |packet: &DiscoveryPacket| {
        dialects.map(|dialect| packet.seal(&node_key(), dialect, u64::MAX).0[97..].to_vec())
    };
    packets.iter().flat_map(sample).collect()
}

fn node_records() -> Vec<Vec<u8>> {
    let claims = NodeClaims {
        ip: Some([52, 1, 2, 3].into()),
        tcp: 30303,
        udp: 30303,
        fork_id: None,
        has_snap: false,
    };
    let record = NodeRecord::sign(&node_key(), 7, &claims);
    vec![record.encode(), record.to_string().into_bytes()]
}

/// Messages between VNODE and SCS: a handshake, a broadcast, a ping.
fn push_messages() -> Vec<Vec<u8>> {
    use prost::Message;
    use scs_service::message::payload::{Handshake, encode_head};
    let field = |hex: &str| bytes::Bytes::from(primitives::hex::decode(hex).expect("hex"));
    let handshake = ScsPushMsg {
        requestid: bytes::Bytes::from_static(b"hello"),
        timestamp: field("0000000000000001"),
        requestflag: true,
        r#type: field("00000004"),
        status: field("00000000"),
        scsid: bytes::Bytes::from_static(b"0x1111111111111111111111111111111111111111"),
        msghash: Handshake::default().encode(),
        ..ScsPushMsg::default()
    };
    let broadcast = ScsPushMsg {
        r#type: field("00000002"),
        status: field("00000040"),
        subchainid: field(&format!("94{}", "22".repeat(20))),
        sender: field(&"33".repeat(20)),
        receiver: field(&"44".repeat(20)),
        ..handshake.clone()
    };
    let ping = ScsPushMsg {
        r#type: field("00000005"),
        msghash: encode_head(300),
        ..ScsPushMsg::default()
    };
    let messages = [handshake, broadcast, ping];
    messages.iter().map(Message::encode_to_vec).collect()
}

fn typed_data() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"types":{"EIP712Domain":[{"name":"name","type":"string"},{"name":"chainId","type":"uint256"}],
            "Person":[{"name":"name","type":"string"},{"name":"wallets","type":"address[]"}],
            "Mail":[{"name":"from","type":"Person"},{"name":"contents","type":"bytes32[2]"}]},
            "primaryType":"Mail","domain":{"name":"Ether Mail","chainId":1},
            "message":{"from":{"name":"Cow","wallets":["0x70997970c51812dc3a010c7d01b50e0d17dc79c8"]},
            "contents":["0xb52dda022b6c1a1f40905a85f257f689aa5d69d850e49cf939d688fbe5af5946",
            "0xb52dda022b6c1a1f40905a85f257f689aa5d69d850e49cf939d688fbe5af5946"]}}"#,
        r#"{"types":{"A":[{"name":"i","type":"int8"},{"name":"b","type":"bool"}]},"primaryType":"A","domain":{},"message":{"i":-1,"b":true}}"#,
    ])
}

/// Results of calls, each after what is expected in it.
fn results() -> Vec<Vec<u8>> {
    use microchain::abi::CallData;
    let words = [primitives::B256::repeat_byte(7); 3];
    let address = primitives::Address::repeat_byte(9);
    let call = CallData::default()
        .words(words)
        .addresses([address, address])
        .bytes(b"text of more than thirty-two bytes")
        .small(7)
        .address(address)
        .encode();
    vec![
        [&[0, 3, 4, 7, 6, 5, 0, 1][..], &call].concat(),
        [
            &[2; 8][..],
            &CallData::default().numbers([primitives::U256::from(5)]).encode(),
        ]
        .concat(),
    ]
}

/// A file with two blocks, and one that is not finished.
fn era1_files() -> Vec<Vec<u8>> {
    let empty = Block {
        header: Header {
            transactions_root: primitives::EMPTY_ROOT,
            receipts_root: primitives::EMPTY_ROOT,
            uncles_hash: primitives::EMPTY_UNCLES_HASH,
            difficulty: primitives::U256::from(7),
            ..Header::default()
        },
        ..Block::default()
    };
    let mut child = empty.clone();
    (child.header.number, child.header.parent_hash) = (1, empty.hash());
    let mut file = Vec::new();
    let mut writer = chain::era1::Era1Writer::new(&mut file, ReceiptForm::Four).expect("memory");
    for (block, total) in [(&empty, 7), (&child, 14)] {
        writer
            .add(block, &[], primitives::U256::from(total))
            .expect("room");
    }
    writer.finish().expect("memory");
    let half = file[..file.len() / 2].to_vec();
    vec![file, half]
}

/// Codes and bodies of messages about parts of states.
fn snap_messages() -> Vec<Vec<u8>> {
    let hash = |byte: u8| RlpItem::Bytes(vec![byte; 32]);
    let number = |byte: u8| RlpItem::Bytes(vec![byte]);
    let list = RlpItem::List;
    let message = |code: u8, fields: Vec<RlpItem>| [vec![code], list(fields).encode()].concat();
    vec![
        message(0, vec![number(9), hash(1), hash(0), hash(0xff), number(100)]),
        message(
            2,
            vec![
                number(9),
                hash(1),
                list(vec![hash(2); 3]),
                hash(0),
                hash(0xff),
                number(100),
            ],
        ),
        message(4, vec![number(9), list(vec![hash(2); 3]), number(100)]),
        message(5, vec![number(9), list(vec![RlpItem::Bytes(b"code".to_vec())])]),
        message(
            6,
            vec![number(9), hash(1), list(vec![list(vec![number(3)])]), number(100)],
        ),
        message(7, vec![number(9), list(vec![RlpItem::Bytes(b"node".to_vec())])]),
    ]
}

/// A token with the claims `{"iat":1800000000}`, signed with the key of [`targets::token`].
fn tokens() -> Vec<Vec<u8>> {
    texts(&[concat!(
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpYXQiOjE4MDAwMDAwMDB9.",
        "ltU5EQNjJMO2A2cJ1c1ajqNIP6x2jphyq2iK93kNAwE"
    )])
}

fn settings_files() -> Vec<Vec<u8>> {
    texts(&[
        "[[token]]\nname = \"explorer\"\nsecret = \"a-long-text-that-nobody-guesses\"\nmodules = [\"mc\", \"net\"]\n\
         methods = [\"debug_traceTransaction\"]\nrate = 50\n\n[anonymous]\nmodules = [\"net\"]\n",
        "rpc = true\nrpcport = 8546\nrpcapi = [\"mc\", \"net\"]\n\"dev.period\" = 1\n[dev]\nseal = \"instant\"\n",
    ])
}

proptest! {
    #[test]
    fn typed_data_of_strangers(bytes in damaged(typed_data())) {
        targets::typed_data(&bytes);
    }

    #[test]
    fn results_of_contracts(bytes in damaged(results())) {
        targets::abi(&bytes);
    }

    #[test]
    fn files_of_old_blocks(bytes in damaged(era1_files())) {
        targets::era1(&bytes);
    }

    #[test]
    fn messages_about_states(bytes in damaged(snap_messages())) {
        targets::snap(&bytes);
    }

    #[test]
    fn signed_tokens(bytes in damaged(tokens())) {
        targets::token(&bytes);
    }

    #[test]
    fn files_of_settings(bytes in damaged(settings_files())) {
        targets::settings(&bytes);
    }

    #[test]
    fn connections(bytes in damaged(hellos())) {
        targets::connection(&bytes);
    }

    #[test]
    fn hello(bytes in damaged(hellos())) {
        targets::hello(&bytes);
    }

    #[test]
    fn messages_of_peers(bytes in damaged(peer_messages())) {
        targets::peer_message(&bytes);
    }

    #[test]
    fn packets_of_discovery(bytes in damaged(discovery_packets())) {
        targets::discovery(&bytes);
    }

    #[test]
    fn node_records_of_others(bytes in damaged(node_records())) {
        targets::node_record(&bytes);
    }

    #[test]
    fn push_message(bytes in damaged(push_messages())) {
        targets::push_message(&bytes);
    }

    #[test]
    fn request(bytes in damaged(requests())) {
        targets::request(&bytes);
    }

    #[test]
    fn authorization(bytes in damaged(authorizations())) {
        targets::authorization(&bytes);
    }

    #[test]
    fn ipc_stream(bytes in damaged(requests())) {
        targets::ipc_stream(&bytes);
    }

    #[test]
    fn rlp_items(bytes in damaged(rlp())) {
        targets::rlp(&bytes);
    }

    #[test]
    fn raw_transactions(bytes in damaged(transactions())) {
        targets::transaction(&bytes);
    }

    #[test]
    fn genesis(bytes in damaged(genesis_files())) {
        targets::genesis(&bytes);
    }
}

/// Target, its function, and its samples.
type Samples = (&'static str, fn(&[u8]), Vec<Vec<u8>>);

/// The inputs of a target that `fuzz/run` has kept, a line of hex each.
fn kept(name: &str) -> Vec<Vec<u8>> {
    let path = workspace().join(format!("fuzz/kept/{name}.hex"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line| hex::decode(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(line).collect()
}

/// Each target has samples that it takes, and holds for all kept inputs. `FUZZ_SEEDS=fuzz/corpus`
/// writes both as the first inputs of `fuzz/run`.
#[test]
fn each_target_has_samples() {
    let all: [Samples; 18] = [
        ("abi", targets::abi, results()),
        ("authorization", targets::authorization, authorizations()),
        ("connection", targets::connection, hellos()),
        ("discovery", targets::discovery, discovery_packets()),
        ("era1", targets::era1, era1_files()),
        ("genesis", targets::genesis, genesis_files()),
        ("hello", targets::hello, hellos()),
        ("ipc_stream", targets::ipc_stream, requests()),
        ("node_record", targets::node_record, node_records()),
        ("peer_message", targets::peer_message, peer_messages()),
        ("push_message", targets::push_message, push_messages()),
        ("request", targets::request, requests()),
        ("rlp", targets::rlp, rlp()),
        ("settings", targets::settings, settings_files()),
        ("snap", targets::snap, snap_messages()),
        ("token", targets::token, tokens()),
        ("transaction", targets::transaction, transactions()),
        ("typed_data", targets::typed_data, typed_data()),
    ];
    let corpus = std::env::var_os("FUZZ_SEEDS").map(|folder| workspace().join(folder));
    for (name, run, samples) in &all {
        for (number, bytes) in samples.iter().chain(&kept(name)).enumerate() {
            run(bytes);
            if let Some(corpus) = &corpus {
                let folder = corpus.join(name);
                std::fs::create_dir_all(&folder).expect("a folder");
                std::fs::write(folder.join(format!("sample-{number}")), bytes).expect("a file");
            }
        }
    }
    let files = std::fs::read_dir(workspace().join("fuzz/fuzz_targets")).expect("the targets");
    let stem =
        |file: std::io::Result<std::fs::DirEntry>| file.ok()?.path().file_stem()?.to_str().map(str::to_owned);
    let mut targets: Vec<_> = files.filter_map(stem).collect();
    targets.sort_unstable();
    assert_eq!(all.map(|(name, ..)| name), targets[..]);
}

/// The samples must be valid; otherwise changed samples would test little.
#[test]
fn samples_are_valid() {
    use primitives::{Transaction, TxRules};
    for file in genesis_files() {
        let text = String::from_utf8(file).expect("text");
        chain::ChainSpec::from_genesis_file("sample", &text).expect("a genesis file");
    }
    let read = |bytes: &Vec<u8>, rules| Transaction::decode_raw(bytes, rules).is_ok();
    let decoded = transactions()
        .iter()
        .filter(|bytes| read(bytes, TxRules::Moac))
        .count();
    assert!(decoded >= 2, "{decoded}");
    assert!(hellos().iter().all(|bytes| Hello::decode(bytes).is_ok()));
    assert!(NodeRecord::decode(&node_records()[0]).is_ok());
    // Some messages do not exist in every version.
    let eth66 = WireFamily::Eth.protocol(66).expect("known");
    let messages = peer_messages();
    let read = |bytes: &&Vec<u8>| PeerMessage::decode(eth66, bytes[1].into(), &bytes[2..]).is_ok();
    assert!(messages.iter().filter(|bytes| bytes[0] == 4).filter(read).count() == 7);
    for text in typed_data().into_iter().map(String::from_utf8) {
        rpc::methods::mc::typed_data_digest(&text.expect("text")).expect("typed data");
    }
    let files = settings_files();
    let read = |at: usize| std::str::from_utf8(&files[at]).expect("text");
    assert_eq!(node::testing::token_rules(read(0)).expect("tokens").len(), 2);
    assert_eq!(
        node::testing::option_arguments(read(1)).expect("options").len(),
        5
    );
    let file = era1_files().remove(0);
    let mut blocks = chain::era1::Era1Reader::new(&file[..], "sample".into());
    while blocks.read_block().expect("a whole file").is_some() {}
    for message in snap_messages() {
        let code = network::testing::SNAP + u64::from(message[0]);
        PeerMessage::decode(eth66, code, &message[1..]).expect("a message");
    }
    for token in tokens() {
        let token = std::str::from_utf8(&token).expect("text");
        rpc::access::verify_jwt(token, &[7; 32], 1.8e9).expect("a token");
    }
    for bytes in authorizations() {
        rpc::access::Credentials::parse(&bytes).expect("credentials");
    }
    for bytes in push_messages() {
        let message = <ScsPushMsg as prost::Message>::decode(&bytes[..]).expect("a message");
        scs_service::ScsMessage::decode(&message).expect("its meaning");
    }
}
