//! The transaction pool of a node: transactions of local accounts after a kill, options, prices.

use std::path::Path;

use e2e::ledger::STRANGER;
use e2e::process::EndSignal;
use e2e::{Launch, Vnode, quantity, to_quantity};
use primitives::UnsignedTransaction;
use serde_json::{Value, json};

/// A node that does not mine, so that transactions stay in the pool.
fn start(data: &Path, more: &[&str]) -> Vnode {
    Launch::dev(more.iter().copied()).data(data).start()
}

fn transfer(from: &str, nonce: u128, price: u128) -> Value {
    json!({
        "from": from, "to": STRANGER, "value": "0x1",
        "nonce": to_quantity(nonce), "gasPrice": to_quantity(price),
    })
}

fn send(node: &Vnode, from: &str, nonce: u128, price: u128) -> String {
    node.send(transfer(from, nonce, price))
}

fn by_hash(node: &Vnode, hash: &str) -> Value {
    node.rpc("mc_getTransactionByHash", json!([hash]))
}

fn pending_count(node: &Vnode, account: &str) -> u128 {
    quantity(&node.rpc("mc_getTransactionCount", json!([account, "pending"])))
}

#[test]
fn local_transactions_survive_a_kill_and_are_mined() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let node = start(home.path(), &[]);
    let accounts = node.accounts();
    let free = send(&node, &accounts[0], 0, 0);
    let next = send(&node, &accounts[0], 1, 7);
    let gapped = send(&node, &accounts[1], 2, 7);
    let before: Vec<_> = [&free, &next, &gapped].map(|hash| by_hash(&node, hash)).into();
    assert!(
        before
            .iter()
            .all(|transaction| transaction["blockNumber"].is_null())
    );
    node.end(EndSignal::Kill);

    let node = start(home.path(), &[]);
    let after: Vec<_> = [&free, &next, &gapped].map(|hash| by_hash(&node, hash)).into();
    assert_eq!(after, before);
    assert_eq!(pending_count(&node, &accounts[0]), 2);
    assert_eq!(
        pending_count(&node, &accounts[1]),
        0,
        "the nonces 0 and 1 are missing"
    );
    // One byte of the last record is removed, as if the node was killed while it wrote the record.
    node.end(EndSignal::Kill);
    let journal = home.path().join("transactions.rlp");
    let mut bytes = std::fs::read(&journal).expect("the journal is in the data directory");
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&journal, &bytes).expect("written");

    let node = start(home.path(), &["--mine"]);
    assert!(node.log().contains("damaged"), "{}", node.log());
    let kept = [&free, &next, &gapped]
        .into_iter()
        .filter(|hash| !by_hash(&node, hash).is_null());
    assert_eq!(kept.count(), 2, "only the damaged record is lost");
    // The lost transaction is sent again, and so are the others, which are known or mined already.
    for (account, nonce, price) in [(0, 0, 0), (0, 1, 7), (1, 2, 7), (1, 0, 7), (1, 1, 7)] {
        let _ = node.try_rpc(
            "mc_sendTransaction",
            json!([transfer(&accounts[account], nonce, price)]),
        );
    }
    for hash in [&free, &next, &gapped] {
        assert_eq!(node.receipt(hash)["status"], "0x1");
    }
}

#[test]
fn without_locals_there_is_no_journal_and_limits_apply() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = [
        "--txpool.nolocals",
        "--txpool.pricelimit",
        "5",
        "--txpool.accountqueue",
        "2",
    ];
    let node = start(home.path(), &options);
    let from = node.accounts()[0].clone();
    let cheap = json!([{"from": from, "to": STRANGER, "gasPrice": "0x4"}]);
    let refused = node.refused("mc_sendTransaction", cheap, -32000);
    assert!(refused.starts_with("transaction underpriced"), "{refused}");
    send(&node, &from, 5, 5);
    send(&node, &from, 6, 5);
    let third = json!([{"from": from, "to": STRANGER, "gasPrice": "0x5", "nonce": "0x7"}]);
    let refused = node.refused("mc_sendTransaction", third, -32000);
    assert!(refused.contains("at most 2 are allowed"), "{refused}");
    node.end(EndSignal::Kill);
    assert!(!home.path().join("transactions.rlp").exists());
}

#[test]
fn named_accounts_are_local_and_others_are_not() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let key = |byte| primitives::SecretKey::from_bytes(&[byte; 32]).expect("a key");
    let free = |byte, tx_nonce| {
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas: 21_000,
            to: Some(primitives::Address::repeat_byte(1)),
            ..Default::default()
        };
        let signed = unsigned.sign(&key(byte), 100, primitives::TxForm::Native);
        json!([format!("0x{}", primitives::hex::encode(signed.encode()))])
    };
    let named = format!("{:#x},{:#x}", key(1).address(), key(2).address());
    let options = ["--txpool.pricelimit", "5", "--txpool.locals", &named];
    let node = start(home.path(), &options);
    let refused = node.refused("mc_sendRawTransaction", free(3, 0), -32000);
    assert!(refused.starts_with("transaction underpriced"), "{refused}");
    let hashes = [(1, 0), (2, 0), (2, 1)].map(|(byte, tx_nonce)| {
        let hash = node.rpc("mc_sendRawTransaction", free(byte, tx_nonce));
        hash.as_str().expect("a hash").to_owned()
    });
    node.end(EndSignal::Kill);
    let node = start(home.path(), &options);
    assert!(hashes.iter().all(|hash| by_hash(&node, hash).is_object()));
    node.end(EndSignal::Kill);
    // The journal still has them, but these accounts are strangers to this node.
    let node = start(home.path(), &options[..2]);
    assert!(hashes.iter().all(|hash| by_hash(&node, hash).is_null()));
}

#[test]
fn the_suggested_price_is_at_least_the_price_floor() {
    let floor: u128 = 600_000_000_000;
    let limit = floor.to_string();
    let node = Vnode::dev(["--txpool.pricelimit", &limit]);
    assert_eq!(quantity(&node.rpc("mc_gasPrice", json!([]))), floor);
    let node = Vnode::dev(["--txpool.pricelimit", &limit, "--gasprice", "0"]);
    assert!(quantity(&node.rpc("mc_gasPrice", json!([]))) < floor);
}
