//! npm `chain3`, the network's own library, over HTTP and over the local socket.
//!
//! The script reads the members of the library from its object, and fails if it did not call one
//! that the node serves. These tests compare the called methods with the interface, and the results
//! with what the node returns to our own calls.

use std::path::Path;

use e2e::clients::javascript;
use e2e::contract::{FIRST_VALUE, counter, runtime_code};
use e2e::ledger::{BalanceLedger, FUNDED, MINER, STRANGER};
use e2e::{Caller, Vnode, assert_same_members, data, ipc, quantity, to_quantity};
use primitives::{EcdsaSignature, hex, recover, signed_message_digest};
use serde_json::{Value, json};

use super::{account, check_chain, text};

/// The methods of the interface, one at the start of each line.
const INTERFACE: &str = include_str!("../../../../../rpc/tests/mc/interface.txt");
const APIS: &str = "mc,net,chain3,admin,txpool,personal,vnode";
/// A key that the node does not have: the key of the example in EIP-155.
const KEY: &str = "0x4646464646464646464646464646464646464646464646464646464646464646";
/// The account of [`KEY`].
const SIGNER: &str = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f";
/// A key that the script imports into the node.
const RAW_KEY: &str = "0x4747474747474747474747474747474747474747474747474747474747474747";
/// Value of each transfer that the script sends from the node's account to [`STRANGER`].
const VALUE: u128 = 123_456_789;
/// Enode URL of a node that does not run.
const PEER: &str = "enode://1dd9d65c4552b5eb43d5ad55a2ee3f56c6cbc1c64a5c8d659f51fcd51bace24351232b8d7821617d2b29b54b81cdefb9b3e9c37d7fd5f63270bcc9e1a6f6a439@10.1.2.3:30333";

/// The names of the methods of the interface.
fn interface() -> Vec<&'static str> {
    let lines = INTERFACE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn chain3_works_over_http() {
    check("http");
}

#[test]
fn chain3_works_over_the_local_socket() {
    check("ipc");
}

#[track_caller]
fn check(over: &str) {
    let Some(clients) = javascript() else { return };
    let node = Vnode::dev(["--mine", "--moacbase", MINER, "--lightkdf", "--rpcapi", APIS]);
    node.wait_for_head(1);
    let (sender, _) = account(&node, 1);
    let address = node.addresses()[0];
    let result = clients.run(
        "chain3.mjs",
        &json!({
            "over": over, "url": node.url(), "socket": node.socket(), "interface": interface(),
            "host": address.ip(), "port": address.port(), "apis": APIS, "peer": PEER,
            "account": sender, "to": STRANGER, "value": to_quantity(VALUE), "counter": counter(),
            "key": KEY, "signer": SIGNER, "rawKey": RAW_KEY,
        }),
    );
    if over == "http" {
        // The script has closed the HTTP listener.
        let parameters = json!([address.ip(), address.port(), "", APIS]);
        assert_eq!(ipc::rpc(&node.socket(), "admin_startRPC", parameters), true);
    }
    // The connections ended with the listener, so this needs a new caller.
    let caller = Caller::new(address);
    check_coverage(&result);
    check_properties(&caller, &result["found"]);
    check_state(&caller, &result, &sender);
    check_blocks(&caller, &result["found"]);
    check_signing(&caller, &result["signing"], &sender);
    check_pool(&caller, &result["found"]);
    let mut ledger = BalanceLedger::genesis(&caller.accounts()[..10]);
    ledger.check(&caller, caller.head());
    // Two transfers from the node's account, one signed with KEY, and those of the created account.
    assert_eq!(ledger.balance(STRANGER), 2 * VALUE + 5 + 2);
}

/// The library got an answer for every method of the interface.
fn check_coverage(result: &Value) {
    let answered: Vec<_> = result["answered"]
        .as_array()
        .expect("a list")
        .iter()
        .map(text)
        .collect();
    for method in interface() {
        assert!(
            answered.contains(&method),
            "{method} was not answered: {answered:?}"
        );
    }
    assert_eq!(result["missing"], json!([]));
}

fn check_properties(node: &Caller, found: &Value) {
    let same = [
        ("mc.getMining", "mc_mining"),
        ("mc.getCoinbase", "mc_coinbase"),
        ("mc.getSyncing", "mc_syncing"),
        ("mc.getProtocolVersion", "mc_protocolVersion"),
        ("net.getListening", "net_listening"),
        ("version.getNode", "chain3_clientVersion"),
        ("version.getNetwork", "net_version"),
        ("version.getMoac", "mc_protocolVersion"),
        ("admin.getDatadir", "admin_datadir"),
        ("admin.getPeers", "admin_peers"),
        ("personal.getListAccounts", "personal_listAccounts"),
        ("vnode.getShowToPublic", "vnode_showToPublic"),
        ("vnode.getIp", "vnode_vnodeIP"),
        ("vnode.getServiceCfg", "vnode_serviceCfg"),
        ("vnode.getAddress", "vnode_address"),
        ("vnode.getScsService", "vnode_scsService"),
        ("txpool.getStatus", "txpool_status"),
    ];
    for (member, method) in same {
        assert_eq!(found[member], node.rpc(method, json!([])), "{member}");
    }
    assert_eq!(
        (&found["mc.getCoinbase"], &found["mc.getMining"]),
        (&json!(MINER), &json!(true))
    );
    assert_eq!(found["net.getPeerCount"], 0);
    // The suggested price without transactions; the system transactions of blocks count, too.
    let price = quantity(&found["mc.getGasPrice"]);
    assert!((18_000_000_000..=20_000_000_000).contains(&price), "{price}");
    let hashrate = found["mc.getHashrate"].as_f64();
    assert!(hashrate.is_some_and(|rate| rate >= 0.0), "{hashrate:?}");
    let info = node.rpc("admin_nodeInfo", json!([]));
    assert_same_members(
        &found["admin.getNodeInfo"],
        &info,
        "id name enode ip ports listenAddr",
    );
    let datadir = Path::new(text(&found["admin.getDatadir"]));
    assert!(datadir.join("nodekey").is_file(), "{}", datadir.display());
    // A synchronous getter returns the same value, if the transport supports it.
    for member in ["mc.coinbase", "vnode.address", "version.node", "admin.datadir"] {
        let (module, name) = member.split_once('.').expect("a member");
        let getter = format!("{module}.get{}{}", name[..1].to_uppercase(), &name[1..]);
        let read = &found[member];
        assert!(read.is_null() || *read == found[&getter], "{member} {read}");
    }
}

fn check_state(node: &Caller, result: &Value, sender: &str) {
    let found = &result["found"];
    assert_eq!(quantity(&found["funded"]), FUNDED);
    let contracts = &result["contracts"];
    let contract = text(&contracts["address"]);
    check_chain(node, contract, sender);
    assert_eq!(
        node.receipt(text(&contracts["creation"]))["contractAddress"],
        json!(contract)
    );
    assert_eq!(contracts["first"].as_u64().map(u128::from), Some(FIRST_VALUE));
    assert_eq!(contracts["second"], 7);
    let event = json!([{
        "name": "Changed", "by": sender.to_lowercase(), "value": 7, "transactionHash": contracts["hash"],
    }]);
    for list in ["events", "every", "watched"] {
        assert_eq!(contracts[list], event, "{list}");
    }
    assert_eq!(found["mc.getCode"], runtime_code());
    let at = json!([contract, "0x0", "latest"]);
    assert_eq!(found["mc.getStorageAt"], node.rpc("mc_getStorageAt", at));
    assert_eq!(found["mc.call"], found["mc.getStorageAt"]);
    let logs = node.rpc("mc_getLogs", json!([{"fromBlock": "0x0", "address": contract}]));
    assert_eq!(found["logs"], logs);
}

/// Compares a block and a transaction of the library with those of the node.
fn check_blocks(node: &Caller, found: &Value) {
    let block = &found["mc.getBlock"];
    let expected = node.rpc("mc_getBlockByHash", json!([block["hash"], true]));
    let members = "parentHash nonce mixHash stateRoot receiptsRoot miner difficulty totalDifficulty";
    assert_same_members(block, &expected, members);
    for field in ["number", "size", "gasLimit", "gasUsed", "timestamp"] {
        assert_eq!(
            block[field].as_u64().map(u128::from),
            Some(quantity(&expected[field])),
            "{field}"
        );
    }
    let transaction = &found["mc.getTransactionFromBlock"];
    let expected = node.rpc("mc_getTransactionByHash", json!([transaction["hash"]]));
    let members = "from to value gasPrice input blockHash v r s shardingFlag";
    assert_same_members(transaction, &expected, members);
    assert_eq!(quantity(&transaction["value"]), VALUE);
}

fn check_signing(node: &Caller, signing: &Value, sender: &str) {
    for name in ["transfer", "creation"] {
        let hash = text(&signing[name]);
        assert_eq!(node.receipt(hash)["status"], "0x1", "{name}");
        let transaction = node.rpc("mc_getTransactionByHash", json!([hash]));
        assert_eq!(transaction["from"], SIGNER, "{name}");
    }
    let code = node.rpc("mc_getCode", json!([signing["contractAddress"], "latest"]));
    assert_eq!(code, runtime_code());
    let message = [0xde, 0xad, 0xbe, 0xef];
    for (signature, signer) in [("byNode", sender), ("byLibrary", SIGNER)] {
        data(&signing[signature], 65);
        let bytes = hex::decode(text(&signing[signature])).expect("hex");
        let parts = EcdsaSignature::from_rsv(&bytes).expect("65 bytes");
        let recovered = recover(&signed_message_digest(&message), &parts).expect("a signer");
        assert_eq!(format!("{recovered:#x}"), signer.to_lowercase(), "{signature}");
    }
}

/// The queued transactions that the library saw are still in the pool.
fn check_pool(node: &Caller, found: &Value) {
    for (member, method) in [
        ("txpool.getContent", "txpool_content"),
        ("txpool.getInspect", "txpool_inspect"),
    ] {
        let expected = node.rpc(method, json!([]));
        assert_eq!(found[member]["queued"], expected["queued"], "{member}");
        let queued = expected["queued"].as_object().expect("accounts");
        let names: Vec<_> = queued.keys().map(|name| name.to_lowercase()).collect();
        assert_eq!(names, [SIGNER]);
    }
}
