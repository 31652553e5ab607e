//! Transactions of the node's own accounts, contracts, and the balances that result.

use e2e::contract::{CHANGED, FIRST_VALUE, creation_code, get, runtime_code, set, word};
use e2e::ledger::{BalanceLedger, COIN, FUNDED, MINER, REWARD, STRANGER};
use e2e::{Vnode, data, quantity, to_quantity};
use serde_json::{Value, json};

const GWEI: u128 = 1_000_000_000;

/// A node that makes blocks, and its accounts.
fn mining() -> (Vnode, Vec<String>) {
    let node = Vnode::with_blocks(["--moacbase", MINER]);
    let accounts = node.accounts();
    (node, accounts)
}

#[test]
fn a_transfer_moves_exactly_its_value_and_fee() {
    let (node, accounts) = mining();
    let hash = node.send(json!({
        "from": accounts[1], "to": STRANGER, "value": to_quantity(3 * COIN), "gasPrice": to_quantity(5 * GWEI),
    }));
    let receipt = node.receipt(&hash);
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(
        (&receipt["contractAddress"], &receipt["logs"]),
        (&Value::Null, &json!([]))
    );
    let fee = quantity(&receipt["gasUsed"]) * 5 * GWEI;
    let number = quantity(&receipt["blockNumber"]);
    let balance =
        |address: &str, at: u128| quantity(&node.rpc("mc_getBalance", json!([address, to_quantity(at)])));
    assert_eq!(balance(STRANGER, number), 3 * COIN);
    assert_eq!(balance(STRANGER, number - 1), 0);
    assert_eq!(balance(&accounts[1], number), FUNDED - 3 * COIN - fee);
    // A block with uncles has other rewards; the ledger below counts them.
    if node.block(number)["uncles"] == json!([]) {
        assert_eq!(balance(MINER, number) - balance(MINER, number - 1), REWARD + fee);
    }
    BalanceLedger::genesis(&accounts).check(&node, number);

    let transaction = node.rpc("mc_getTransactionByHash", json!([hash]));
    assert_eq!(transaction["blockHash"], receipt["blockHash"]);
    assert_eq!(transaction["from"], json!(accounts[1]));
    let block = node.rpc("mc_getBlockByHash", json!([receipt["blockHash"], false]));
    assert!(
        block["transactions"]
            .as_array()
            .is_some_and(|all| all.contains(&json!(hash))),
        "{block}"
    );
}

#[test]
fn a_contract_is_deployed_called_and_logs() {
    let (node, accounts) = mining();
    let creation = node.send(json!({"from": accounts[2], "data": creation_code(), "gas": "0x7a120"}));
    let receipt = node.receipt(&creation);
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    let contract = data(&receipt["contractAddress"], 20).to_owned();
    assert_eq!(
        node.rpc("mc_getCode", json!([contract, "latest"])),
        runtime_code()
    );
    let call = |at: &Value| node.rpc("mc_call", json!([{"to": contract, "data": get()}, at]));
    assert_eq!(call(&json!("latest")), word(FIRST_VALUE));

    let hash = node.send(json!({"from": accounts[2], "to": contract, "data": set(1234), "value": "0x5"}));
    let receipt = node.receipt(&hash);
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    let [log] = &receipt["logs"].as_array().expect("a list")[..] else {
        panic!("{receipt}")
    };
    let sender = format!("0x{:0>64}", &accounts[2][2..]);
    assert_eq!(log["topics"], json!([CHANGED, sender]));
    assert_eq!(
        (&log["data"], &log["address"]),
        (&json!(word(1234)), &json!(contract))
    );
    assert_eq!(log["transactionHash"], json!(hash));
    assert_eq!(call(&json!("latest")), word(1234));
    assert_eq!(
        node.rpc("mc_getStorageAt", json!([contract, "0x0", "latest"])),
        word(1234)
    );
    let before = to_quantity(quantity(&receipt["blockNumber"]) - 1);
    assert_eq!(call(&before), word(FIRST_VALUE), "the state of the block before");
    assert_eq!(node.balance(&contract), 5);

    // `set(0)` reverts: the sender pays for the gas, and nothing else changes.
    let hash = node
        .send(json!({"from": accounts[3], "to": contract, "data": set(0), "value": "0x7", "gas": "0x186a0"}));
    let receipt = node.receipt(&hash);
    assert_eq!(
        (&receipt["status"], &receipt["logs"]),
        (&json!("0x0"), &json!([])),
        "{receipt}"
    );
    assert_eq!(call(&json!("latest")), word(1234));
    assert_eq!(node.balance(&contract), 5);
    BalanceLedger::genesis(&accounts).check(&node, node.head());
}

#[test]
fn many_accounts_at_once_add_up() {
    const EACH: usize = 20;
    let (node, accounts) = mining();
    let hashes: Vec<String> = std::thread::scope(|scope| {
        let senders: Vec<_> = accounts
            .iter()
            .enumerate()
            .map(|(index, from)| {
                let (node, accounts) = (&node, &accounts);
                scope.spawn(move || {
                    let caller = e2e::Caller::new(node.addresses()[0]);
                    let mut send = |round: usize| {
                        let to = &accounts[(index + round + 1) % accounts.len()];
                        let value = to_quantity((round as u128 + 1) * COIN / 7);
                        let price = to_quantity((1 + (index + round) as u128 % 5) * GWEI);
                        caller.send(json!({"from": from, "to": to, "value": value, "gasPrice": price}))
                    };
                    (0..EACH).map(&mut send).collect::<Vec<_>>()
                })
            })
            .collect();
        senders
            .into_iter()
            .flat_map(|sender| sender.join().expect("no sender panics"))
            .collect()
    });
    let mut distinct = hashes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), accounts.len() * EACH);
    for hash in &hashes {
        assert_eq!(node.receipt(hash)["status"], "0x1");
    }
    for account in &accounts {
        let count = quantity(&node.rpc("mc_getTransactionCount", json!([account, "latest"])));
        assert_eq!(count, EACH as u128, "{account}");
    }
    let mut ledger = BalanceLedger::genesis(&accounts);
    for number in 1..=node.head() {
        ledger.check(&node, number);
    }
}

#[test]
fn invalid_transactions_are_refused_with_a_reason() {
    let (node, accounts) = mining();
    let send = |transaction: Value| node.refused("mc_sendTransaction", json!([transaction]), -32000);
    let stranger = send(json!({"from": STRANGER, "to": MINER, "value": "0x1"}));
    assert!(stranger.contains("unknown account"), "{stranger}");
    let poor = send(json!({"from": accounts[4], "to": MINER, "value": to_quantity(FUNDED + 1)}));
    assert!(poor.contains("insufficient funds"), "{poor}");
    let little = send(json!({"from": accounts[4], "to": MINER, "gas": "0x10"}));
    assert!(little.contains("intrinsic gas"), "{little}");
    let hash = node.send(json!({"from": accounts[4], "to": MINER, "nonce": "0x0"}));
    node.receipt(&hash);
    let again = send(json!({"from": accounts[4], "to": MINER, "nonce": "0x0"}));
    assert!(again.contains("nonce too low"), "{again}");
    let raw = node.refused("mc_sendRawTransaction", json!(["0xc0"]), -32000);
    assert!(!raw.is_empty());
    assert_eq!(
        node.rpc("mc_getTransactionReceipt", json!([word(1)])),
        Value::Null
    );
}
