//! `cast`, the command-line client, which uses the `eth_` aliases.

use e2e::clients::{Cast, cast};
use e2e::contract::{CHANGED, FIRST_VALUE, creation_code, set as set_input};
use e2e::ledger::{BalanceLedger, COIN, STRANGER};
use e2e::{Vnode, assert_same_members, note, quantity};
use serde_json::{Value, json};

use super::{account, check_chain, mining, text};

/// `cast` with the URL of a node.
struct Session {
    cast: &'static Cast,
    url: String,
}

impl Session {
    /// Runs `cast`. Returns its output as text.
    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let answer = self.cast.run(&self.url, arguments);
        note(&format!("cast {}: {answer}", shown(arguments)));
        answer
    }

    /// Runs `cast` with `--json`. Returns its output as JSON.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let with_json = [&arguments[..1], &["--json"], &arguments[1..]].concat();
        let answer = self.cast.run(&self.url, &with_json);
        let value = serde_json::from_str(&answer)
            .unwrap_or_else(|error| panic!("cast {arguments:?} wrote {answer}: {error}"));
        note(&format!(
            "cast {}: {} bytes of JSON",
            shown(arguments),
            answer.len()
        ));
        value
    }
}

/// The command line without code and keys.
fn shown(arguments: &[&str]) -> String {
    let short = |word: &&str| match word.len() {
        0..=66 => (*word).to_owned(),
        _ => format!("{}…", &word[..10]),
    };
    let mut words: Vec<_> = arguments.iter().map(short).collect();
    if let Some(at) = words.iter().position(|word| word == "--private-key") {
        words[at + 1] = "…".to_owned();
    }
    words.join(" ")
}

#[test]
fn cast_reads_sends_deploys_and_finds_logs() {
    let Some(cast) = cast() else { return };
    let node = mining();
    let (from, key) = account(&node, 6);
    let session = Session {
        cast,
        url: node.url(),
    };
    let before = node.head();
    let number: u128 = session.text(&["block-number"]).parse().expect("a number");
    assert!((before..=node.head()).contains(&number), "{number}");
    assert_eq!(session.text(&["chain-id"]), "100");
    assert_eq!(session.text(&["balance", STRANGER]), "0");
    assert_eq!(session.text(&["nonce", &from]), "0");
    let block = session.json(&["block", "1"]);
    assert_eq!(block["hash"], node.block(1)["hash"]);

    check_transfer(&node, &session, &from, &key);
    check_contract(&node, &session, &from, &key);
    let mut ledger = BalanceLedger::genesis(&node.accounts());
    ledger.check(&node, node.head());
    assert_eq!(ledger.balance(STRANGER), COIN);
    assert_eq!(
        session.text(&["balance", &from]),
        ledger.balance(&from).to_string()
    );
}

fn check_transfer(node: &Vnode, session: &Session, from: &str, key: &str) {
    let value = COIN.to_string();
    let sent = session.json(&[
        "send",
        STRANGER,
        "--value",
        &value,
        "--legacy",
        "--private-key",
        key,
    ]);
    let hash = text(&sent["transactionHash"]);
    assert_eq!(sent["status"], "0x1");
    assert_eq!(session.text(&["balance", STRANGER]), value);
    let receipt = session.json(&["receipt", hash]);
    let members = "blockHash blockNumber from to gasUsed status transactionIndex";
    assert_same_members(&receipt, &node.receipt(hash), members);
    let transaction = session.json(&["tx", hash]);
    let expected = node.rpc("eth_getTransactionByHash", json!([hash]));
    let members = "hash from to value nonce gasPrice input blockHash v r s";
    assert_same_members(&transaction, &expected, members);
    assert_eq!(transaction["from"], json!(from.to_lowercase()));
    // `cast` encodes the transaction again, with nine fields and the signature that the node
    // returns.
    let raw = session.text(&["tx", hash, "--raw"]);
    assert_eq!(node.rpc("chain3_sha3", json!([raw])), json!(hash));
}

fn check_contract(node: &Vnode, session: &Session, from: &str, key: &str) {
    let code = creation_code();
    let created = session.json(&["send", "--legacy", "--private-key", key, "--create", code]);
    let contract = text(&created["contractAddress"]);
    let get = |block: &str| session.text(&["call", contract, "get()(uint256)", "--block", block]);
    assert_eq!(get("latest"), FIRST_VALUE.to_string());
    let set = [
        "send",
        contract,
        "set(uint256)",
        "7",
        "--legacy",
        "--private-key",
        key,
    ];
    let changed = session.json(&set);
    assert_eq!(get("latest"), "7");
    let before = quantity(&changed["blockNumber"]) - 1;
    assert_eq!(get(&before.to_string()), FIRST_VALUE.to_string());
    let gas: u128 = session
        .text(&["estimate", contract, "set(uint256)", "8", "--from", from])
        .parse()
        .expect("gas");
    let call = json!([{"from": from, "to": contract, "data": set_input(8)}]);
    assert_eq!(gas, quantity(&node.rpc("mc_estimateGas", call)));
    let refused = session
        .cast
        .refused(&session.url, &["call", contract, "set(uint256)", "0"]);
    assert!(refused.contains("revert"), "{refused}");

    let event = "Changed(address indexed, uint256)";
    let logs = |topic: &str| session.json(&["logs", topic, from, "--from-block", "0", "--address", contract]);
    let found = logs(event);
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found[0]["topics"][0], CHANGED);
    assert_eq!(found[0]["transactionHash"], changed["transactionHash"]);
    let none = session.json(&[
        "logs",
        event,
        STRANGER,
        "--from-block",
        "0",
        "--address",
        contract,
    ]);
    assert_eq!(none, json!([]));
    check_chain(node, contract, from);
}
