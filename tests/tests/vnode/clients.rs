//! Other people's libraries against a real node: chain3, ethers, web3 and an Ethash of theirs.

use e2e::clients::{javascript, python};
use e2e::contract::{CHANGED, FIRST_VALUE, counter};
use e2e::ledger::{COIN, Ledger};
use e2e::{Vnode, data, quantity, to_quantity};
use serde_json::{Value, json};

/// Nobody's account but the miner's.
const MINER: &str = "0x00000000000000000000000000000000000000aa";
/// A receiver with nothing.
const STRANGER: &str = "0x00000000000000000000000000000000000000bb";
const PRICE: u128 = 2_000_000_000;

fn mining() -> Vnode {
    let node = Vnode::dev(["--mine", "--moacbase", MINER]);
    node.wait_for_head(1);
    node
}

/// Address and key of account `index`, as the banner tells them.
fn account(node: &Vnode, index: usize) -> (String, String) {
    let banner = node.banner();
    let mark = format!("({index}) ");
    let line = banner
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(&mark))
        .expect("ten accounts");
    let (address, rest) = line.split_once(' ').expect("an address");
    (
        address.to_owned(),
        rest.rsplit_once("key ").expect("a key").1.to_owned(),
    )
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("got {value}, expected a string"))
}

#[test]
fn chain3_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let ((from, key), (creator, _)) = (account(&node, 1), account(&node, 2));
    let value = 5 * COIN + 1;
    let result = clients.run(
        "chain3.mjs",
        &json!({
            "url": node.url(), "key": key, "from": from, "to": STRANGER, "creator": creator,
            "value": to_quantity(value), "gasPrice": to_quantity(PRICE), "counter": counter(),
        }),
    );
    let receipt = node.receipt(text(&result["hash"]));
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(result["receipt"]["status"], "0x1");
    let transaction = node.rpc("mc_getTransactionByHash", json!([result["hash"]]));
    assert_eq!(transaction["from"], json!(from.to_lowercase()));
    assert_eq!(quantity(&transaction["value"]), value);
    assert_eq!(node.balance(STRANGER), value);
    assert_eq!(result["balance"], json!(value.to_string()));
    assert_eq!(
        (&result["first"], &result["second"]),
        (&json!(FIRST_VALUE.to_string()), &json!("7"))
    );
    assert_eq!(result["changed"]["logs"][0]["topics"][0], json!(CHANGED));
    let mut ledger = Ledger::genesis(&node.accounts());
    ledger.check(&node, node.head());
    assert_eq!(ledger.balance(STRANGER), value);
}

/// What the library has for each module, over either way in; every name was answered.
#[test]
fn chain3_has_an_answer_for_all_that_it_asks() {
    let Some(clients) = javascript() else { return };
    let apis = "mc,net,chain3,admin,txpool,personal,vnode";
    let node = Vnode::dev(["--mine", "--moacbase", MINER, "--lightkdf", "--rpcapi", apis]);
    node.wait_for_head(1);
    let ((sender, _), (_, other_key)) = (account(&node, 1), account(&node, 9));
    let peer = format!(
        "enode://{}@10.1.2.3:30333",
        "1dd9d65c4552b5eb43d5ad55a2ee3f56c6cbc1c64a5c8d659f51fcd51bace24351232b8d7821617d2b29b54b81cdefb9b3e9c37d7fd5f63270bcc9e1a6f6a439"
    );
    let result = clients.run(
        "modules.mjs",
        &json!({
            "url": node.url(), "socket": node.socket(), "account": sender, "peer": peer,
            "key": other_key.trim_start_matches("0x"),
        }),
    );
    for over in ["http", "ipc"] {
        let found = &result[over];
        assert_eq!(found["recovered"], true, "{over}");
        assert_eq!(found["mc.getMining"], true);
        assert_eq!(found["mc.getCoinbase"], MINER);
        assert_eq!(found["mc.getSyncing"], false);
        assert_eq!(found["mc.getProtocolVersion"], "0x3f");
        assert_eq!(
            found["mc.getAccounts"].as_array().map(Vec::len),
            Some(if over == "http" { 10 } else { 11 })
        );
        assert_eq!(found["net.getListening"], false);
        assert_eq!(found["net.getPeerCount"], 0);
        assert_eq!(found["version.getNetwork"], "100");
        assert_eq!(found["admin.getPeers"], json!([]));
        assert_eq!(found["admin.addPeer"], true);
        assert_eq!(found["admin.getNodeInfo"]["protocols"]["mc"]["network"], 100);
        let datadir = text(&found["admin.getDatadir"]);
        assert!(
            std::path::Path::new(datadir).join("nodekey").is_file(),
            "{datadir}"
        );
        assert_eq!(found["vnode.getScsService"], false);
        assert_eq!(found["vnode.getServiceCfg"], ":50062");
        data(&found["vnode.getAddress"], 20);
        for part in ["pending", "queued"] {
            assert!(found["txpool.getContent"][part].is_object(), "{over}");
            assert!(found["txpool.getInspect"][part].is_object(), "{over}");
        }
        assert_eq!(found["mc.getTransactionReceipt"]["status"], "0x1");
        assert_eq!(
            found["mc.getTransactionFromBlock"]["hash"],
            found["mc.sendTransaction"]
        );
        assert_eq!(found["mc.getWork"].as_array().map(Vec::len), Some(3));
        assert_eq!(found["mc.submitWork"], false);
        assert_eq!(found["personal.lockAccount"], true);
        data(&found["mc.sign"], 65);
        let raw = text(&found["mc.signTransaction"]["raw"]);
        assert!(raw.starts_with("0xf8"), "{raw}");
    }
    assert_eq!(result["ipc"]["admin.startRPC"], true);
    assert_eq!(result["ipc"]["admin.stopRPC"], true);
    data(&result["ipc"]["personal.importRawKey"], 20);
}

#[test]
fn ethers_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let (from, key) = account(&node, 3);
    let result = clients.run(
        "ethers.mjs",
        &json!({"url": node.url(), "key": key, "to": STRANGER, "value": to_quantity(COIN), "counter": counter()}),
    );
    assert_eq!(result["status"], json!(1));
    check_contract(&node, &result, &from);
    assert!(
        result["whole"]["hash"].is_string(),
        "wallet.sendTransaction: {}",
        result["whole"]["error"]
    );
}

#[test]
fn web3_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let (from, key) = account(&node, 4);
    let result = clients.run(
        "web3.mjs",
        &json!({"url": node.url(), "key": key, "to": STRANGER, "value": to_quantity(COIN), "counter": counter()}),
    );
    assert_eq!(result["status"], json!("0x1"));
    check_contract(&node, &result, &from);
}

/// What both libraries saw must be what the chain has.
#[track_caller]
fn check_contract(node: &Vnode, result: &Value, from: &str) {
    assert_eq!(node.receipt(text(&result["hash"]))["status"], "0x1");
    assert_eq!(quantity(&result["balance"]), COIN);
    assert_eq!(
        (quantity(&result["first"]), quantity(&result["second"])),
        (FIRST_VALUE, 7)
    );
    assert_eq!(quantity(&result["event"]["value"]), 7);
    assert_eq!(text(&result["event"]["by"]).to_lowercase(), from.to_lowercase());
    data(&json!(text(&result["contract"])), 20);
    let mut ledger = Ledger::genesis(&node.accounts());
    ledger.check(node, node.head());
    assert!(ledger.balance(STRANGER) >= COIN);
}

#[test]
fn an_outside_miner_with_its_own_ethash_seals_blocks() {
    let Some(clients) = python() else { return };
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let sealed = clients.run("outside_miner.py", &json!({"url": node.url(), "blocks": 3}));
    let sealed = sealed.as_array().expect("a list");
    assert_eq!((sealed.len(), node.head()), (3, 3));
    for (one, number) in sealed.iter().zip(1..) {
        let block = node.block(number);
        assert_eq!(
            (&block["nonce"], &block["mixHash"]),
            (&one["nonce"], &one["mixHash"])
        );
        assert_eq!(one["block"], block);
    }
}
