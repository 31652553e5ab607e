//! Networks of application chains: how their nodes meet, and what they carry.

use std::net::SocketAddr;

use e2e::process::EndSignal;
use e2e::vnode::{Launch, Vnode};
use e2e::wait::wait_for;
use network::ApplicationChainMessage;
use network::testing::{HeadersRequest, HeadersStart, PeerMessage};
use primitives::{Address, SecretKey, TxForm, U256, UnsignedTransaction};
use serde_json::{Value, json};
use store::Store;

use crate::peers::in_process::InProcess;
use crate::peers::support::{PlayedPeer, peer_count, plain_enode, runtime};

/// An application chain. Nobody needs its contract here.
const CHAIN: &str = "0x00000000000000000000000000000000000000cc";
/// Another one, which nobody else joins.
const LONELY: &str = "0x00000000000000000000000000000000000000dd";
/// A boot node where nobody listens: it switches discovery on.
const NO_BOOT_NODE: &str = "enode://6f8a80d14311c39f35f516fa664deaaaa13e85b2f7493f37f6144d86991ec012\
    937307647bd3b9a82abe2974e1407241d54947bbb39763a4cac9f77166ad92a0@127.0.0.1:9";

fn launch(boot: &str, more: &[&str]) -> Launch {
    let options = [
        "--rpcapi",
        "mc,net,admin,miner",
        "--port",
        "0",
        "--netrestrict",
        "127.0.0.0/8",
        "--bootnodes",
        boot,
    ];
    Launch::dev(options.into_iter().chain(more.iter().copied()))
}

fn subnets(node: &Vnode) -> Value {
    node.rpc("admin_getSubnetP2PList", json!([]))
}

fn peers_of(node: &Vnode, chain: &str) -> Option<String> {
    let list = subnets(node);
    let entry = list
        .as_array()?
        .iter()
        .find(|entry| entry["subnet"] == chain)?
        .clone();
    entry["peers"].as_str().map(str::to_owned)
}

/// The address at which a node listens for a subnet, as its log says.
fn subnet_address(node: &Vnode) -> SocketAddr {
    wait_for("the address of the subnet in the log", || {
        let log = node.log();
        let line = log
            .lines()
            .find(|line| line.contains("joined the network of an application chain"))?;
        let listen = line.split("listen=").nth(1)?.split_whitespace().next()?;
        let port = listen.rsplit_once(':')?.1.parse().ok()?;
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    })
}

fn message(mark: u8) -> ApplicationChainMessage {
    let address = [vec![0x94], vec![0; 19], vec![0xcc]].concat();
    ApplicationChainMessage {
        request_id: vec![mark; 20].into(),
        is_request: true,
        scs_id: b"scs-1".to_vec().into(),
        subchain_id: address.into(),
        content: vec![mark; 50].into(),
        ..ApplicationChainMessage::default()
    }
}

#[test]
fn nodes_of_a_subnet_meet_and_carry_what_is_for_it() {
    let home = tempfile::tempdir().expect("a folder");
    let config = home.path().join("forced.json");
    std::fs::write(&config, json!({ "ForceSubnetP2P": [CHAIN] }).to_string()).expect("a write");
    let config = config.to_str().expect("text");

    let data = home.path().join("one");
    let start_one = || launch(NO_BOOT_NODE, &[]).data(&data).start();
    let one = start_one();
    // The start is below block 100.
    for chain in [CHAIN, LONELY] {
        assert_eq!(one.rpc("admin_addSubnetP2P", json!([chain, 11])), Value::Null);
    }
    let two = launch(&plain_enode(&one), &["--vnodeconfig", config]).start();
    let forced = subnets(&two);
    assert_eq!(
        (&forced[0]["blockStart"], &forced[0]["subnet"]),
        (&json!("0x0"), &json!(CHAIN))
    );
    for node in [&one, &two] {
        wait_for("a peer in the subnet", || {
            (peers_of(node, CHAIN)? == "1").then_some(())
        });
    }
    assert_eq!(peers_of(&one, LONELY).as_deref(), Some("0"));
    let addresses = (subnet_address(&one), subnet_address(&two));
    assert_ne!(addresses.0.port(), addresses.1.port());

    runtime().block_on(async {
        let mut sender = PlayedPeer::dial_at(&one, addresses.0, 1)
            .await
            .expect("a handshake");
        assert_eq!(
            sender.connection.peer().hello.client,
            "",
            "subnets have no client name"
        );
        // A node waits a short time for a Status, so each is sent before the next node is dialled.
        sender.greet(|_| {}).await;
        sender.flush().await;
        let mut hearer = PlayedPeer::dial_at(&two, addresses.1, 2)
            .await
            .expect("a handshake");
        hearer.greet(|_| {}).await;
        hearer.flush().await;
        let mut outsider = PlayedPeer::join(&two, 3).await;
        outsider.flush().await;
        wait_for("the played peers", || {
            (peers_of(&two, CHAIN)? == "2" && peer_count(&two) == 2).then_some(())
        });
        // A peer that asks for something else on the subnet gets no answer.
        let request = HeadersRequest {
            start: HeadersStart::Number(0),
            amount: 1,
            skip: 0,
            reverse: false,
        };
        sender.send(&PeerMessage::GetBlockHeaders(1, request));
        for mark in [1, 1, 2] {
            sender.send(&PeerMessage::ApplicationChain(Box::new(message(mark))));
        }
        sender.flush().await;
        for mark in [1, 2] {
            let heard = hearer
                .wait_for(|message| match message {
                    PeerMessage::ApplicationChain(message) => Some(message.clone()),
                    _ => None,
                })
                .await;
            assert_eq!(*heard, message(mark), "each message comes once, in order");
        }
        // The chain's network did not carry it.
        outsider.send(&PeerMessage::GetBlockHeaders(2, request));
        loop {
            match outsider.next().await.expect("the connection goes on") {
                PeerMessage::BlockHeaders(..) => break,
                other => assert!(!matches!(other, PeerMessage::ApplicationChain(_)), "{other:?}"),
            }
        }
        assert!(!sender.has_answer().await, "a subnet answers no requests");
    });

    // The subnet is joined again after a restart.
    assert!(one.end(EndSignal::Interrupt).status.success());
    wait_for("no peer in the subnet", || {
        (peers_of(&two, CHAIN)? == "0").then_some(())
    });
    let one = start_one();
    let boot = plain_enode(&two);
    assert_eq!(one.rpc("admin_addPeer", json!([boot])), true);
    wait_for("a peer in the subnet", || {
        (peers_of(&one, CHAIN)? == "1").then_some(())
    });

    // The subnet ends with its end block, and only the forced one stays.
    assert_eq!(one.rpc("admin_removeSubnetP2P", json!([CHAIN, 11])), true);
    wait_for("no peer in the subnet", || {
        (peers_of(&two, CHAIN)? == "0").then_some(())
    });
    let refused = two.refused("admin_removeSubnetP2P", json!([CHAIN, 11]), -32000);
    assert!(refused.contains("ForceSubnetP2P"), "{refused}");
}

/// The discovery of neither node has heard of the other one, as after a start at another address.
#[test]
fn nodes_that_are_only_connected_meet_in_their_subnet() {
    let [one, two] = [(); 2].map(|()| launch(NO_BOOT_NODE, &[]).start());
    for node in [&one, &two] {
        assert_eq!(node.rpc("admin_addSubnetP2P", json!([CHAIN, 11])), Value::Null);
    }
    assert_eq!(one.rpc("admin_addPeer", json!([plain_enode(&two)])), true);
    for node in [&one, &two] {
        wait_for("a peer in the subnet", || {
            (peers_of(node, CHAIN)? == "1").then_some(())
        });
    }
}

#[test]
fn a_subnet_far_ahead_waits() {
    let node = launch(NO_BOOT_NODE, &["--minerthreads", "1"]).start();
    assert_eq!(node.rpc("admin_addSubnetP2P", json!([LONELY, 103])), Value::Null);
    assert_eq!(node.rpc("admin_addSubnetP2P", json!([CHAIN, 100])), Value::Null);
    wait_for("the subnet that is due", || {
        node.log().contains("cc").then_some(())
    });
    subnet_address(&node);
    let joined = |node: &Vnode| {
        node.log()
            .matches("joined the network of an application chain")
            .count()
    };
    assert_eq!(joined(&node), 1, "the other is due at block 3");
    node.rpc("miner_start", json!([1]));
    node.wait_for_head(3);
    node.rpc("miner_stop", json!([]));
    wait_for("the other subnet", || (joined(&node) == 2).then_some(()));
}

/// Creates a contract that answers every call with this byte. Returns its address.
fn answering_contract(node: &InProcess, tx_nonce: u64, answer: u8) -> Address {
    // PUSH answer, PUSH 0, MSTORE, PUSH 32, PUSH 0, RETURN
    let runtime = [0x60, answer, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3];
    // PUSH length, DUP1, PUSH start, PUSH 0, CODECOPY, PUSH 0, RETURN
    let creation = [
        0x60,
        runtime.len() as u8,
        0x80,
        0x60,
        0x0b,
        0x60,
        0,
        0x39,
        0x60,
        0,
        0xf3,
    ];
    let (creator, secret) = chain::spec::DEV_ACCOUNTS[3];
    let unsigned = UnsignedTransaction {
        tx_nonce,
        gas_price: U256::from(20_000_000_000u64),
        gas: 200_000,
        input: [&creation[..], &runtime].concat().into(),
        ..UnsignedTransaction::default()
    };
    let secret = SecretKey::from_hex(secret).expect("a key");
    let transaction = unsigned.sign(&secret, 100, TxForm::Native);
    node.chain
        .submit_transaction(transaction)
        .expect("a good transaction");
    node.mine();
    creator.create(tx_nonce)
}

/// Servers speak for two chains. The contract of one of them asks for a subnet.
#[test]
fn the_contract_of_a_chain_asks_for_its_subnet() {
    let runtime = runtime();
    let store = Store::in_memory().expect("a store in memory");
    let node = InProcess::start(&runtime, 0xc3, store);
    let contracts = [1, 0].map(|answer| {
        let tx_nonce = u64::from(1 - answer);
        answering_contract(&node, tx_nonce, answer)
    });
    let joined = || -> Vec<Address> {
        let subnets = node.network().subnets();
        subnets.into_iter().map(|subnet| subnet.address).collect()
    };
    let speak = |contract: &Address, mark: u8| {
        let subchain_id = [&[0x94], contract.as_slice()].concat().into();
        node.network().relay_message(&ApplicationChainMessage {
            subchain_id,
            ..message(mark)
        });
    };
    assert!(joined().is_empty(), "nobody has spoken");
    // The one that does not ask is the first, so it was asked when the other one's subnet runs.
    speak(&contracts[1], 1);
    speak(&contracts[0], 2);
    wait_for("the subnet", || (!joined().is_empty()).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(joined(), [contracts[0]]);
    node.stop(&runtime);
}
